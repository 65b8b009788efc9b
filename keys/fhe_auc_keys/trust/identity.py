"""A role's own identity: its name and its private keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import KeptFormat, SecretStruct
from fhe_auc_keys.errors import UnfitError, unreadable
from fhe_auc_keys.trust.members import Member, Members
from fhe_auc_keys.trust.public_keys import check_name
from fhe_auc_keys.trust.sealing import PrivateKeys


class _StoredIdentity(SecretStruct, frozen=True):
    name: str
    signing: bytes
    encryption: tuple[bytes, bytes]  # these two: `PrivateKeys.components`


_FORMAT = KeptFormat(b"fheiden", _StoredIdentity, "identity", version=4)


@dataclass(slots=True, eq=False, repr=False)
class Identity:
    """A role's private keys, with its name; its repr has none. `UnfitError` where no member may have the name.

    `version` is that of the members' file under which it signs, which documents name.
    """

    name: str
    keys: PrivateKeys
    version: int = 0

    def __post_init__(self) -> None:
        check_name(self.name)

    @classmethod
    def create(cls, name: str) -> Identity:
        """Return a fresh identity; `UnfitError` where no member may have that name."""
        return cls(name, PrivateKeys.generate())

    @property
    def signing_key(self) -> bytes:
        """Ed25519 public key, 32 bytes."""
        return self.keys.signing_key

    @property
    def encryption_key(self) -> bytes:
        """Public encryption key, 1,216 bytes."""
        return self.keys.encryption_key

    @property
    def line(self) -> Member:
        """What it hands in to become a member; the same each time."""
        return Member.of(self.name, self.keys)

    def member(self, members: Members, *, at: datetime) -> Member:
        """Return it as a member, at present; `UnfitError` where its name has other keys, else as `Members.named`."""
        found = members.named(self.name, at)
        if (found.signing_key, found.encryption_key) != (self.signing_key, self.encryption_key):
            raise UnfitError(
                f"{self.name!r} has other keys in version {members.version} of the members' file than here: ask the "
                "coordinator which are right"
            )
        return found

    def sign(self, purpose: bytes, data: bytes) -> bytes:
        """Return the Ed25519 signature, 64 bytes, of `data` for one purpose (which holds no zero byte)."""
        return self.keys.sign(purpose, data)

    def unseal(self, sealed: bytes, *, info: bytes) -> bytes:
        """Return what `fhe_auc_keys.trust.sealing.seal` sealed to this identity; `TamperedError` otherwise."""
        return self.keys.unseal(sealed, info=info)

    def to_bytes(self) -> bytes:
        """Serialise, private keys in the clear: for `fhe_auc_keys.store.key_store` only."""
        return _FORMAT.frame(_StoredIdentity(self.name, *self.keys.components))

    @classmethod
    def from_bytes(cls, data: bytes) -> Identity:
        """Read what `to_bytes` wrote; `DamagedFileError` for anything else, `StoreError` for another version."""
        try:
            stored = _FORMAT.unframe(data)
            return cls(stored.name, PrivateKeys.from_components(stored.signing, stored.encryption))
        except (DeserialisationError, UnfitError, ValueError) as error:
            raise unreadable(error, "not a stored identity, or damaged") from None
