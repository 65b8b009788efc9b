"""Signatures on a session's messages, by certified Ed25519 keys: what `fhe_auc.session.rounds` asks its roles for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhe_auc.base.errors import MessageError
from fhe_auc.session.messages import Signatures
from fhe_auc_keys.trust.identity import Identity, signed_bytes


@dataclass(frozen=True)
class SessionSignatures(Signatures):
    """A role's signatures: its own by `identity`, the others' by `keys`.

    `binding` is the manifest's digest, 32 bytes, and the manifest names every certificate; `keys` are Ed25519 public
    keys of the parties and of `fhe_auc.base.party_names.AGGREGATOR`.
    """

    binding: bytes
    keys: Mapping[str, bytes]
    identity: Identity = field(repr=False)

    def sign(self, purpose: bytes, statement: bytes) -> bytes:
        """Return this role's signature, 64 bytes."""
        return self.identity.sign(purpose, self.binding + statement)

    def check(self, author: str, purpose: bytes, statement: bytes, signature: bytes) -> None:
        """Raise `MessageError` unless `author` has signed just that for this session."""
        try:
            _key(self.keys[author]).verify(signature, signed_bytes(purpose, self.binding + statement))
        except (InvalidSignature, KeyError):
            raise MessageError(f"it bears no genuine signature of {author!r}", field="signature") from None


@lru_cache(maxsize=4096)
def _key(raw: bytes) -> Ed25519PublicKey:
    """Return a public key, parsed once for all rounds."""
    return Ed25519PublicKey.from_public_bytes(raw)
