"""The announcement of a session: manifest and validity, signed.

Its holder signs: the key holder, or in a session without one whoever convenes it; then the manifest names no context,
because keys are made afterwards, or never. The manifest names every role's line in the members' file, so that its
digest, which each message carries, hangs on their keys. Everybody looks them up in its own newest members' file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.question.study import MOST_DAYS, Study
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.errors import ExpiredError, KeysError, RevokedError, TamperedError, UnfitError
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members
from fhe_auc_keys.trust.message_signatures import SessionProtection
from fhe_auc_keys.trust.public_keys import SKEW, check_time, counts
from fhe_auc_keys.trust.signed_documents import Kind, claimed_body, claimed_signer, open_signed, sign_document

MAX_LIFETIME = timedelta(days=MOST_DAYS)  # longest validity of an announcement, and of what is sealed with it
KIND = Kind(b"fheanno", "session announcement")


@dataclass(frozen=True)
class Announcement:
    """A session as its holder signed it, verified."""

    manifest: Manifest
    digest: bytes  # SHA-256 of the file, to which bundles are bound
    study: Study  # the manifest's
    parties: Mapping[str, Member]
    aggregator: Member
    holder: Member  # who signed
    not_before: datetime  # UTC, as the next; a little before it was made
    not_after: datetime
    helper: Member | None = None

    def require_party(self, me: Member) -> None:
        """Raise `KeysError` where that is neither a party of the session nor its helper, with these keys."""
        if me not in (*self.parties.values(), self.helper):
            raise KeysError(f"{me.name!r} is not, with the keys that it has now, a party of the announced session")

    def require_aggregator(self, me: Member) -> None:
        """Raise `KeysError` where that is not the session's aggregator, with these keys."""
        if self.aggregator != me:
            raise KeysError(f"{me.name!r} is not, with the keys that it has now, the aggregator of the session")

    def is_helper(self, name: str) -> bool:
        """Whether the session's helper has that name."""
        return self.helper is not None and self.helper.name == name

    def deals_to(self, name: str) -> bool:
        """Whether a role of this name, which is no aggregator, has a bundle."""
        return self.manifest.keys != "none" and not self.is_helper(name)

    def protection(self, identity: Identity, clock: Clock = SYSTEM) -> SessionProtection:
        """Return what a role with this identity seals and signs its messages with, and checks others' by."""
        alone = {AGGREGATOR: self.aggregator, **({} if self.helper is None else {HELPER: self.helper})}
        signing = {name: member.signing_key for name, member in {**self.parties, **alone}.items()}
        encryption = {name: member.encryption_key for name, member in alone.items()}
        return SessionProtection(self.manifest.digest, signing, encryption, identity, clock)


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    manifest: bytes
    aggregator: str  # names; the manifest has the keys
    helper: str  # empty where there is none
    not_before: int  # Unix seconds
    not_after: int


def announce(holder: Identity, manifest: Manifest, members: Members, study: Study, *, at: datetime) -> bytes:
    """Return a session's announcement, signed by its `holder`, a member, for `open_announcement`.

    `study` names the aggregator and, for a session with a helper, that; it says for how many days from `at`, the
    present, with a time zone, the session can be opened. The manifest announced names it, and everybody's keys.

    Raises `KeysError` as `Members.named` and for a fleet that the members' file does not name; `InputError` where
    `study` caps the rows of who is no party; `UnfitError` where somebody has two parts in the session, or the holder,
    who draws a helper's parties' secret, is no party.
    """
    at, helper = check_time(at), study.helper if manifest.keys == "helper" else ""
    me, adder = holder.member(members, at=at), members.named(study.aggregator, at)
    parties = [members.named(name, at) for name in manifest.parties]
    assistant = members.named(helper, at) if helper else None
    _check_parts(manifest, members, parties, me, adder, assistant)
    if manifest.keys == "sealed" and adder == me:
        raise UnfitError(f"{me.name!r} makes the keys, so it cannot be the aggregator: it could decrypt")
    announced = msgspec.structs.replace(
        manifest,
        fingerprints=tuple(member.fingerprint for member in parties),
        aggregator=adder.fingerprint,
        context=manifest.context if assistant is None else assistant.fingerprint,
        study=study,
    )
    times = int((at - SKEW).timestamp()), int((at + timedelta(days=study.days)).timestamp())
    return sign_document(KIND, holder, _Body(announced.to_bytes(), study.aggregator, helper, *times))


def open_announcement(data: bytes, members: Members, *, holder: str = "", at: datetime) -> Announcement:
    """Return a session that its holder announces, from `announce`, with the keys of everybody in it.

    `holder` names the one agreed on; without, it may be any member, and is for the caller to judge. Errors as
    `open_signed` and `Members.named`; `ExpiredError`; `RevokedError` for keys that are no member's; `UnfitError` as
    `announce`.
    """
    return _verified(data, members, holder or claimed_signer(KIND, data), at)


@lru_cache(maxsize=4)  # where all sites are played in one process, each opens the same
def _verified(data: bytes, members: Members, holder: str, at: datetime) -> Announcement:
    signer, body = open_signed(KIND, data, _Body, members, signer=holder, at=at)
    if not body.not_before <= at.timestamp() <= body.not_after:
        raise ExpiredError(
            f"the session announced by {holder!r} is outdated, or has not begun: it counts from "
            f"{counts(body.not_before, body.not_after, at)}, or ask {holder!r} for a new session"
        )
    manifest, ends = _manifest_and_end(body, f"that {holder!r} announces")
    if not manifest.aggregator or manifest.study is None:
        raise TamperedError(f"{holder!r} has not announced who takes part, or what is evaluated")
    keys = {**dict(zip(manifest.parties, manifest.fingerprints, strict=True)), body.aggregator: manifest.aggregator}
    if body.helper:
        keys[body.helper] = manifest.context
    found = {name: members.named(name, at) for name in keys}
    for name, fingerprint in keys.items():
        if found[name].fingerprint != fingerprint:
            raise RevokedError(
                f"{name!r} has other keys in version {members.version} of the members' file than in the session "
                f"announced by {holder!r}: ask {holder!r} for a new session"
            )
    parties = [found[name] for name in manifest.parties]
    adder, helper = found[body.aggregator], found.get(body.helper)
    _check_parts(manifest, members, parties, signer, adder, helper)
    begins = datetime.fromtimestamp(body.not_before, timezone.utc)
    by_name = MappingProxyType({member.name: member for member in parties})
    digest = hashlib.sha256(data).digest()
    return Announcement(manifest, digest, manifest.study, by_name, adder, signer, begins, ends, helper)


class Claimed(NamedTuple):
    """What an announcement says, unverified."""

    manifest: Manifest
    aggregator: str  # names
    helper: str  # empty where there is none
    not_before: int  # Unix seconds
    not_after: datetime  # UTC
    maker: str  # who says to have signed it


def claimed(data: bytes) -> Claimed:
    """Return what an announcement says that this site has made, or verified and kept; `TamperedError` for no such."""
    body = claimed_body(KIND, data, _Body)
    manifest, ends = _manifest_and_end(body, "in a session announcement")
    return Claimed(manifest, body.aggregator, body.helper, body.not_before, ends, claimed_signer(KIND, data))


def _manifest_and_end(body: _Body, whose: str) -> tuple[Manifest, datetime]:
    try:
        return Manifest.from_bytes(body.manifest), datetime.fromtimestamp(body.not_after, timezone.utc)
    except (DeserialisationError, OverflowError, OSError, ValueError):
        raise TamperedError(f"the manifest {whose} is malformed") from None


def _check_parts(
    manifest: Manifest,
    members: Members,
    parties: Sequence[Member],
    holder: Member,
    aggregator: Member,
    helper: Member | None,
) -> None:
    """Raise `UnfitError` for who has two parts in the session, or none.

    With a helper a party convenes the session; for a fleet, which the members' file names, neither the helper nor the
    aggregator does.
    """
    taken = set(parties)
    for what, member in (("aggregator", aggregator), *([] if helper is None else [("helper", helper)])):
        if member in taken:
            raise UnfitError(f"the {what} {member.name!r} has another part in the session already")
        taken.add(member)
    if (helper is not None) != (manifest.keys == "helper"):
        raise UnfitError(f"a session with {manifest.keys} keys has a helper too many, or none")
    fleet = manifest.fleet
    if fleet is not None and fleet.found_in(members.fleets) is None:
        raise KeysError(
            f"version {members.version} of the members' file does not name the fleet's {fleet.members:,} members: the "
            "coordinator names them (fhe-auc members renew --fleet)"
        )
    if helper is None:
        return
    if fleet is not None:
        if holder in (aggregator, helper):
            raise UnfitError(f"{holder.name!r} convenes a fleet, so it is neither its aggregator nor helper")
    elif holder not in parties:
        raise UnfitError(
            f"{holder.name!r} convenes a session with a helper and is no party of it: it would know the parties' secret"
        )
