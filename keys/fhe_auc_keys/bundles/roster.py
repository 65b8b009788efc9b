"""A session's parties with their verified public keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhe_auc_keys.errors import UnfitCertificateError
from fhe_auc_keys.trust.certificates import Peer
from fhe_auc_keys.trust.sealing import encryption_key


class Member(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A party's verified public keys; raises ValueError where one is not fit to be used."""

    name: str
    signing_key: bytes  # Ed25519, 32 bytes
    encryption_key: bytes  # 1,216 bytes, as of `fhe_auc_keys.trust.sealing.encryption_key`

    def __post_init__(self) -> None:
        Ed25519PublicKey.from_public_bytes(self.signing_key)
        try:
            encryption_key(self.encryption_key)
        except UnfitCertificateError as error:
            raise ValueError(str(error)) from None


class Roster(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, dict=True):
    """Public keys of a session's parties, ordered by name, no name or key twice: all hangs on their being right."""

    members: tuple[Member, ...]

    @classmethod
    def of(cls, peers: Iterable[Peer]) -> Roster:
        """Return the roster of verified peers; `UnfitCertificateError` where two have the same name or share a key."""
        members = (Member(peer.name, peer.signing_key, peer.encryption_key) for peer in peers)
        try:
            return cls(tuple(sorted(members, key=lambda member: member.name)))
        except ValueError as error:
            raise UnfitCertificateError(str(error)) from None

    def __post_init__(self) -> None:
        names = [member.name for member in self.members]
        if names != sorted(names):
            raise ValueError("a roster is ordered by name")
        for what in ("name", "signing_key", "encryption_key"):
            if len({getattr(member, what) for member in self.members}) != len(self.members):
                raise ValueError(f"two parties of the session have the same {what.replace('_', ' ')}")

    @cached_property
    def signing_keys(self) -> Mapping[str, bytes]:
        """Ed25519 keys by name."""
        return MappingProxyType({member.name: member.signing_key for member in self.members})

    @cached_property
    def encryption_keys(self) -> Mapping[str, bytes]:
        """Encryption keys by name."""
        return MappingProxyType({member.name: member.encryption_key for member in self.members})

    @property
    def names(self) -> frozenset[str]:
        """All parties."""
        return frozenset(self.signing_keys)
