"""Who is in a consortium: one signed file of names and public keys, and the files before it.

    member's line    name | Ed25519 key | encryption key | its own signature over these: it has these keys
    members' file    version | begin | end | lines | who may sign the next version, and how many of them | signatures

A file is root metadata of The Update Framework (its specification, version 1.0, sections 4.3 and 5.3), in which `lines`
is a signed field of ours. The *coordinators*, some of the members, sign it with their own keys. Version N + 1 counts
where enough of the coordinators of version N have signed it, and enough of its own; none is left out. So who is left
out is out, nobody puts back an older file, and coordinators can change. All hangs on the first file, which a site knows
by a fingerprint: it stands in the *link* by which sites join (`join_request`).

`tuf` verifies signatures and succession. It takes 0.2 seconds and 18 MB to import, so it is imported for files from
elsewhere only; what a key store has kept is read without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.names import first_alike, known_names
from fhe_auc.base.serialise import encode
from fhe_auc.question.fleet import FleetList
from fhe_auc_keys.errors import ExpiredError, KeysError, RevokedError, TamperedError, UnfitError, UnsignedError
from fhe_auc_keys.trust.public_keys import SKEW, check_name, check_signing_key, check_time, counts
from fhe_auc_keys.trust.sealing import PrivateKeys, encryption_key
from fhe_auc_keys.trust.signatures import has_signed

if TYPE_CHECKING:
    from securesystemslib.signer import SSlibKey
    from tuf.api.metadata import Metadata, Root

MAX_BYTES = 2**25
"""Of a members' file; more is not parsed. A member takes 1,800."""

MAX_MEMBERS = 10_100
MAX_DAYS = 398  # of a file; so long can who withholds the next one hide from a site that somebody was left out
FINGERPRINT = 20
"""Bytes of a file's fingerprint: who wants a first file of his own with the same tries 2^160."""

_MORE = 2**16  # bytes that a file may have for signatures, and what later versions say, beside as many as it needs
_LINE = b"member 1"
_WARNING = timedelta(days=30)  # before a file's end somebody has to renew it; of short ones a quarter of their life
_SHA256 = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]


class Member(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A member's line: its name and public keys, which it has signed; `check` says whether it is genuine."""

    name: str
    signing_key: bytes  # Ed25519, 32 bytes
    encryption_key: bytes  # 1,216 bytes
    signature: bytes

    @classmethod
    def of(cls, name: str, keys: PrivateKeys) -> Member:
        """Return the line of these keys; `UnfitError` where nobody may have that name."""
        stated = check_name(name), keys.signing_key, keys.encryption_key
        return cls(*stated, keys.sign(_LINE, encode(stated)))

    def check(self) -> None:
        """Raise `TamperedError` where it is not signed with its own key, `UnfitError` for an unfit part."""
        check_name(self.name)
        check_signing_key(self.signing_key)
        encryption_key(self.encryption_key)
        stated = encode((self.name, self.signing_key, self.encryption_key))
        if not has_signed(self.signing_key, _LINE, stated, self.signature):
            raise TamperedError(f"the line of {self.name!r} is not signed with its own key")

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the line, 32 bytes."""
        return hashlib.sha256(encode(self)).digest()


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The signed field of ours, "members"."""

    begins: int  # Unix seconds
    lines: tuple[Member, ...]
    stolen: tuple[_SHA256, ...] = ()  # fingerprints of lines whose keys count for nothing, not even in the past
    fleets: tuple[FleetList, ...] = ()


class _Value(msgspec.Struct, frozen=True):
    public: str  # hexadecimal


class _Key(msgspec.Struct, frozen=True):
    keyval: _Value


class _Role(msgspec.Struct, frozen=True):
    keyids: tuple[str, ...]
    threshold: int


class _Signed(msgspec.Struct, frozen=True):
    version: int
    expires: datetime
    keys: dict[str, _Key]
    roles: dict[str, _Role]
    members: _Fields


class _File(msgspec.Struct, frozen=True):
    signed: _Signed


_NOBODY = _Signed(0, datetime.min.replace(tzinfo=timezone.utc), {}, {"root": _Role((), 1)}, _Fields(0, ()))
"""Before the first file."""


class Change(NamedTuple):
    """What a next version changes, for `Members.next_version`; `coordinators` and `threshold` None stay as they are."""

    admit: Sequence[Member] = ()  # in place of the line of the same name, if there is one
    remove: Sequence[str] = ()
    stolen: bool = False  # whether the keys of who is removed, or left before, count for nothing, not even in the past
    coordinators: Sequence[str] | None = None
    threshold: int | None = None
    fleets: Sequence[FleetList] | None = None


@dataclass(frozen=True)
class Members:
    """A consortium as a site knows it: the newest members' file that it has seen, and all before.

    `files` are verified, version 1 first: `newer` does that. A key store keeps them as they are. Without any it is a
    consortium before its first file, which may be anybody's: its `root` says whose it is.
    """

    files: tuple[bytes, ...] = field(repr=False)

    def newer(self, data: bytes, *, signed: bool = True) -> Members:
        """Return the consortium with the next version, from elsewhere.

        Raises `UnsignedError` where too few coordinators of this version, or of its own, have signed it (one that need
        not be `signed` is for a coordinator to look at); `TamperedError` where it is damaged, or a member's line is not
        its own; `KeysError` where it is not the very next version; `UnfitError` where names look alike, two members
        share a key, or a key cannot be used.
        """
        metadata, version = _parsed(data), self.version
        if metadata.signed.version != version + 1:
            why = "an older one counts no more" if metadata.signed.version <= version else "none is left out"
            raise KeysError(
                f"version {metadata.signed.version} of the members' file is not the next one after {version}, which "
                f"is here: {why}"
            )
        if signed:
            _check_signatures(metadata, _parsed(self.files[-1]) if self.files else None)
        return Members((*self.files, _read(metadata)))

    @cached_property
    def digest(self) -> bytes:
        """Fingerprint of the newest file, 20 bytes: whoever has signed it, it stays the same."""
        return hashlib.sha256(_parsed(self.files[-1]).signed_bytes).digest()[:FINGERPRINT]

    @cached_property
    def root(self) -> bytes:
        """Fingerprint of the first file, by which a site knows the consortium."""
        return self.as_of(1).digest

    @property
    def version(self) -> int:
        """Number of the newest file; the first is 1."""
        return len(self.files)

    @cached_property
    def _signed(self) -> _Signed:
        return msgspec.json.decode(self.files[-1], type=_File).signed if self.files else _NOBODY

    @property
    def ends(self) -> datetime:
        """When the newest file ends, UTC."""
        return self._signed.expires

    def ends_soon(self, at: datetime) -> bool:
        """Whether a coordinator has to renew the newest file now."""
        life = self.ends - datetime.fromtimestamp(self._signed.members.begins, timezone.utc)
        return self.ends - at < min(_WARNING, life / 4)

    @cached_property
    def by_name(self) -> Mapping[str, Member]:
        """All members of the newest file, by name."""
        return {member.name: member for member in self._signed.members.lines}

    @property
    def coordinators(self) -> tuple[str, ...]:
        """Names of the members who may sign the next version."""
        keys = {self._signed.keys[each].keyval.public for each in self._signed.roles["root"].keyids}
        return tuple(member.name for member in self.by_name.values() if member.signing_key.hex() in keys)

    @property
    def threshold(self) -> int:
        """How many of the coordinators must sign."""
        return self._signed.roles["root"].threshold

    @property
    def fleets(self) -> tuple[FleetList, ...]:
        """Files of fleets' keys, a list for each fleet."""
        return self._signed.members.fleets

    @property
    def stolen(self) -> tuple[bytes, ...]:
        """Fingerprints of lines whose keys count for nothing."""
        return self._signed.members.stolen

    def as_of(self, version: int) -> Members:
        """Return the consortium as it was in that version; `KeysError` where it is not here."""
        if not 1 <= version <= self.version:
            raise KeysError(
                f"it names version {version} of the members' file, and {self.version} is the newest here: get the "
                "consortium's newer files"
            )
        return self if version == self.version else Members(self.files[:version])

    def check_time(self, at: datetime) -> None:
        """Raise `ExpiredError` where the newest file is not for the time `at`, which has a time zone."""
        begins, ends = self._signed.members.begins, self.ends
        if not begins <= check_time(at).timestamp() < ends.timestamp():
            raise ExpiredError(
                f"version {self.version} of the members' file is for {counts(begins, ends, at)}, or ask a coordinator "
                f"({', '.join(self.coordinators)}) to renew it"
            )

    def named(self, name: str, at: datetime) -> Member:
        """Return a member at the present, `at`; `ExpiredError` where the file has ended, `RevokedError` for others."""
        self.check_time(at)
        member = self.by_name.get(name)
        if member is None:
            raise RevokedError(
                f"{name[:64]!r} is no member in version {self.version} of the members' file"
                f"{known_names(name[:64], self.by_name)}"
            )
        return member

    def signer(self, name: str, version: int, at: datetime) -> Member:
        """Return who had that name in a version, at a time of then, for what is read years later.

        Who was left out since is still returned. Raises `KeysError` where the version is not here; `ExpiredError`
        where it was not for that time; `RevokedError` for no member of then, or keys that were stolen since.
        """
        member = self.as_of(version).named(name, at)
        if member.fingerprint in self.stolen:
            raise RevokedError(f"the keys that {name!r} had were stolen: who has them may sign anything as of then")
        return member

    def next_version(self, change: Change, *, days: int, at: datetime) -> bytes:
        """Return the next members' file, for `days` from `at`, not signed: `countersign` signs it.

        Raises `UnfitError` for unfit or too few coordinators, `RevokedError` for a name to remove that is none, and
        `ExpiredError` where `days` are out of range; what else is unfit `newer` refuses.
        """
        from tuf.api.metadata import Metadata, Root

        if not 1 <= days <= MAX_DAYS:
            raise ExpiredError(f"a members' file is for 1 to {MAX_DAYS} days, got {days}")
        begins, ends = check_time(at) - SKEW, (check_time(at) + timedelta(days=days)).replace(microsecond=0)
        gone = {*change.remove, *(line.name for line in change.admit)}
        lines = {name: line for name, line in self.by_name.items() if name not in gone}
        lines |= {line.name: line for line in change.admit}
        fleets = self.fleets if change.fleets is None else tuple(change.fleets)
        fields = _Fields(int(begins.timestamp()), tuple(lines.values()), self._stolen_after(change), fleets)
        root = Root(self.version + 1, expires=ends, unrecognized_fields={"members": msgspec.to_builtins(fields)})
        coordinators = change.coordinators
        if coordinators is None:
            coordinators = [name for name in self.coordinators if name not in change.remove]
        for name in dict.fromkeys(coordinators):
            if name not in lines:
                raise UnfitError(f"{name!r} is to be a coordinator and is no member{known_names(name, lines)}")
            root.add_key(_coordinator_key(lines[name]), Root.type)
        role, threshold = root.roles[Root.type], change.threshold or self.threshold
        if not 1 <= threshold <= len(role.keyids):
            raise UnfitError(
                f"{threshold} of {len(role.keyids)} coordinators cannot sign: name more coordinators, or ask for fewer "
                "signatures"
            )
        role.threshold = threshold
        return Metadata(root).to_bytes()

    def _stolen_after(self, change: Change) -> tuple[bytes, ...]:
        """Return the fingerprints of lines that count for nothing after a change; errors as `next_version`."""
        stolen = list(self.stolen)
        for name in change.remove:
            versions = range(self.version, 0, -1) if change.stolen else (self.version,)
            last = next((line for each in versions if (line := self.as_of(each).by_name.get(name))), None)
            if last is None:
                raise RevokedError(f"{name!r} is no member{known_names(name, self.by_name)}")
            stolen += [last.fingerprint] if change.stolen else []
        return tuple(stolen)


def found_consortium(name: str, keys: PrivateKeys, *, days: int, at: datetime) -> Members:
    """Return a new consortium, whose one member and coordinator has that name; errors as `Members.next_version`."""
    change = Change([Member.of(name, keys)], coordinators=[name], threshold=1)
    nobody = Members(())
    return nobody.newer(countersign(nobody.next_version(change, days=days, at=at), keys))


def countersign(data: bytes, keys: PrivateKeys) -> bytes:
    """Return a members' file with one more signature: of its coordinator who has these keys."""
    from securesystemslib.signer import CryptoSigner

    metadata = _parsed(data)
    metadata.sign(CryptoSigner(keys.signing), append=True)
    return metadata.to_bytes()


def _parsed(data: bytes) -> Metadata[Root]:
    """Return a members' file, unverified."""
    from tuf.api.exceptions import RepositoryError
    from tuf.api.metadata import Metadata, Root

    if len(data) > MAX_BYTES:
        raise TamperedError(f"a members' file has at most {MAX_BYTES:,} bytes")
    try:  # tuf takes 50 times a file's length of memory, and seconds: first whether that is for what a file says
        file = msgspec.json.decode(data, type=_File)
    except (ValueError, DeserialisationError, RecursionError):  # msgspec 0.22 has Python's own for what is no UTF-8
        raise TamperedError("this is no members' file, or a damaged one") from None
    if (most := max(len(file.signed.members.lines), len(file.signed.keys))) > MAX_MEMBERS:
        raise UnfitError(f"a members' file has at most {MAX_MEMBERS:,} members, got {most:,}")
    if len(data) > 2 * (length := len(msgspec.json.encode(file))) + _MORE:
        raise TamperedError(f"this is no members' file: of {len(data):,} bytes {length:,} say something")
    try:
        metadata: Metadata[Root] = Metadata.from_bytes(data)
        metadata.signed_bytes  # noqa: B018 - which cannot be of all JSON, such as fractions
    except RepositoryError:  # whatever is wrong in it
        raise TamperedError("this is no members' file, or a damaged one") from None
    signed: object = metadata.signed  # of any type that `tuf` knows
    if not isinstance(signed, Root) or metadata.unrecognized_fields:
        raise TamperedError("this is no members' file")
    return metadata


def _check_signatures(metadata: Metadata[Root], before: Metadata[Root] | None) -> None:
    """Raise `UnsignedError` unless enough coordinators have signed; `before` is the version before, verified."""
    signed, old = metadata.signed, None if before is None else before.signed
    result = signed.get_root_verification_result(old, metadata.signed_bytes, metadata.signatures)
    if not result.verified:
        whose = "its own coordinators" if result.first.verified else "the coordinators of the version before"
        part = result.second if result.first.verified else result.first
        raise UnsignedError(
            f"version {signed.version} of the members' file bears {len(part.signed)} genuine signatures of {whose}, of "
            f"{part.threshold} that it needs"
        )


def _read(metadata: Metadata[Root]) -> bytes:
    """Return a members' file as `tuf` writes it; raise as `Members.newer` for contents that cannot be."""
    data = metadata.to_bytes()  # no name is in it twice, of which readers could take another than the one verified
    try:
        file = msgspec.json.decode(data, type=_File).signed
    except (msgspec.DecodeError, DeserialisationError) as error:
        raise TamperedError(f"the members' file is malformed: {error}") from None
    _check_members(file.members)
    # tuf counts one key under two identifiers as two signers (findings/tuf-one-key-under-two-names-is-two-signers.sh).
    own = {key.keyid: key for key in (_coordinator_key(line) for line in file.members.lines)}
    keys, named = metadata.signed.keys, metadata.signed.roles["root"].keyids
    if any(own.get(each) != key for each, key in keys.items()) or any(each not in keys for each in named):
        raise UnfitError("a coordinator in the members' file is no member, or has another identifier")
    return data


def _check_members(fields: _Fields) -> None:
    lines = fields.lines
    for line in lines:
        line.check()
    if (twice := first_alike([line.name for line in lines])) is not None:
        raise UnfitError(f"two members have names that look alike: {twice[0]!r} and {twice[1]!r}")
    if odd := next((line for line in lines if line.fingerprint in fields.stolen), None):
        raise UnfitError(f"the keys of {odd.name!r} were stolen once: new keys are needed")
    for keys in ([line.signing_key for line in lines], [line.encryption_key for line in lines]):
        if len(set(keys)) != len(keys):
            raise UnfitError("two members in the members' file have the same key")


def _coordinator_key(line: Member) -> SSlibKey:
    from securesystemslib.signer import SSlibKey

    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(line.signing_key))
