"""Signatures and seals on the messages of a session, made and checked with members' keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import MessageError
from fhe_auc.session.messages import Protection
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.signatures import has_signed, signed_bytes


@dataclass(frozen=True)
class SessionProtection(Protection):
    """A role's signatures and seals: its own by `identity`, the others' by their public keys.

    `binding` is the manifest's digest, 32 bytes, and the manifest names every member's keys; `signing_keys` are Ed25519
    keys of the parties, of `fhe_auc.base.names.AGGREGATOR` and, where there is one, of `HELPER`;
    `encryption_keys` are of the latter two.
    """

    binding: bytes
    signing_keys: Mapping[str, bytes]
    encryption_keys: Mapping[str, bytes]
    identity: Identity = field(repr=False)
    clock: Clock = SYSTEM

    def sign(self, purpose: bytes, statement: bytes) -> bytes:
        """Return this role's signature, 64 bytes."""
        return self.identity.sign(purpose, self.binding + statement)

    def check(self, author: str, purpose: bytes, statement: bytes, signature: bytes) -> None:
        """Raise `MessageError` unless `author` has signed just that for this session."""
        key = self.signing_keys.get(author, b"")
        if not has_signed(key, purpose, self.binding + statement, signature):
            raise MessageError(f"it bears no genuine signature of {author!r}", field="signature")

    def seal(self, recipient: str, purpose: bytes, about: bytes, payload: bytes) -> bytes:
        """Return `payload` sealed to the aggregator or the helper; 1,136 bytes longer."""
        info = signed_bytes(purpose, self.binding + about)
        return sealing.seal(self.encryption_keys[recipient], payload, info=info)

    def unseal(self, purpose: bytes, about: bytes, sealed: bytes) -> bytes:
        """Return what is sealed to this role; raise `MessageError` where it is not, or for another purpose."""
        try:
            return self.identity.unseal(sealed, info=signed_bytes(purpose, self.binding + about))
        except TamperedError:
            who = self.identity.name
            raise MessageError(f"it is not sealed to {who!r} for this session and round", field="seal") from None
