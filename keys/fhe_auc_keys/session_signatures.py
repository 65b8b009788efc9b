"""Signatures on a session's messages, by certified Ed25519 keys: what `fhe_auc.rounds` asks its roles for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhe_auc.errors import EvaluationError, MessageError
from fhe_auc.signatures import Signatures
from fhe_auc_keys.identity import Identity, signed_bytes

_PURPOSE = b"message 1"


@dataclass(frozen=True)
class SessionSignatures(Signatures):
    """A role's signatures: its own by `identity`, which None leaves out, the others' by `keys`.

    `binding` is the manifest's digest, 32 bytes, and the manifest names every certificate; `keys` are Ed25519 public
    keys of the parties and of `fhe_auc.party_names.AGGREGATOR`.
    """

    binding: bytes
    keys: Mapping[str, bytes]
    identity: Identity | None = field(repr=False)

    def sign(self, statement: bytes) -> bytes:
        """Return this role's signature, 64 bytes."""
        if self.identity is None:
            raise EvaluationError("whoever only checks signatures has no key to sign with")
        return self.identity.sign(_PURPOSE, self.binding + statement)

    def check(self, author: str, statement: bytes, signature: bytes) -> None:
        """Raise `MessageError` unless `author` has signed just that for this session."""
        try:
            key = Ed25519PublicKey.from_public_bytes(self.keys[author])
            key.verify(signature, signed_bytes(_PURPOSE, self.binding + statement))
        except (InvalidSignature, KeyError):
            raise MessageError(f"it bears no genuine signature of {author!r}", field="signature") from None

    def public(self) -> SessionSignatures:
        """Return what checks the same signatures and makes none, for another process."""
        return replace(self, keys=dict(self.keys), identity=None)
