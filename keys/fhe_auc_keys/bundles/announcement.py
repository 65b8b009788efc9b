"""The announcement of a session: manifest, credentials of all parties and the aggregator, and validity, all signed.

Its holder signs: the key holder, or in a session without one whoever convenes it; then the manifest names no context,
because keys are made afterwards, or never. The manifest names every certificate, so that its digest, which each message
carries, hangs on them. Everybody verifies all credentials under its own trust.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property, lru_cache
from typing import NamedTuple

import msgspec

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.question.study import Study
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.roster import Roster
from fhe_auc_keys.errors import ExpiredError, KeysError, TamperedError, UnfitCertificateError
from fhe_auc_keys.trust.certificates import Peer, Trust, verify
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.member_lists import check_members
from fhe_auc_keys.trust.message_signatures import SessionProtection
from fhe_auc_keys.trust.public_keys import SKEW, check_time, counts
from fhe_auc_keys.trust.signed_documents import Kind, claimed_body, open_signed, sign

MAX_LIFETIME = timedelta(days=31)  # longest validity of an announcement, and of what is sealed with it
KIND = Kind(b"fheanno", "session announcement")


@dataclass(frozen=True)
class Announcement:
    """A session as its holder signed it, verified."""

    manifest: Manifest
    study: Study  # the manifest's
    roster: Roster  # of the parties
    aggregator: Peer
    holder: Peer  # who signed
    not_before: datetime  # UTC, as the next; a little before it was made
    not_after: datetime
    helper: Peer | None = None

    @cached_property
    def fingerprints(self) -> Mapping[str, bytes]:
        """Party to the fingerprint of the certificate that it takes part with."""
        return dict(zip(self.manifest.parties, self.manifest.certificates, strict=True))

    def require_party(self, me: Peer) -> None:
        """Raise `KeysError` where that is not a party of the session, with this certificate."""
        if self.fingerprints.get(me.name) != me.fingerprint:
            raise KeysError(f"{me.name!r} is not, with this certificate, a party of the announced session")

    def require_aggregator(self, me: Peer) -> None:
        """Raise `KeysError` where that is not the session's aggregator, with this certificate."""
        if self.aggregator.fingerprint != me.fingerprint:
            raise KeysError(f"{me.name!r} is not, with this certificate, the aggregator of the session")

    def is_helper(self, name: str) -> bool:
        """Whether the session's helper has that name in its certificate."""
        return self.helper is not None and self.helper.name == name

    def require_party_or_helper(self, me: Peer) -> None:
        """Raise `KeysError` where that is, with this certificate, neither a party nor the helper."""
        if self.helper is None or self.helper.name != me.name:
            self.require_party(me)
        elif self.helper.fingerprint != me.fingerprint:
            raise KeysError(f"{me.name!r} is not, with this certificate, a helper of the session")

    def require_session(self, session: bytes | None, what: str) -> None:
        """Raise `KeysError` where this is another session than the one expected, by its id; None expects any."""
        if session is not None and self.manifest.session != session:
            raise KeysError(f"the {what} is for session {self.manifest.session.hex()}, not {session.hex()}")

    def protection(self, identity: Identity) -> SessionProtection:
        """Return what a role with this identity seals and signs its messages with, and checks others' by."""
        alone = {AGGREGATOR: self.aggregator, **({} if self.helper is None else {HELPER: self.helper})}
        signing = {**self.roster.signing_keys, **{name: peer.signing_key for name, peer in alone.items()}}
        encryption = {name: peer.encryption_key for name, peer in alone.items()}
        return SessionProtection(self.manifest.digest, signing, encryption, identity)


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    manifest: bytes
    credentials: tuple[bytes, ...]  # in the manifest's order of parties, the helper's if any, the aggregator's
    not_before: int  # Unix seconds
    not_after: int


def announce(
    holder: Identity,
    manifest: Manifest,
    credentials: Iterable[bytes],
    trust: Trust,
    *,
    aggregator: bytes,
    helper: bytes = b"",
    study: Study,
    lifetime: timedelta,
    at: datetime,
) -> bytes:
    """Return a session's announcement, signed by its certified `holder`, for `open_announcement`.

    `credentials` are those of exactly the manifest's parties; `aggregator` and `helper`, if there is one, are theirs.
    The manifest announced names their certificates and `study`. The session can be opened for `lifetime`, at most
    `MAX_LIFETIME`, from `at`, the present, with a time zone.

    Raises `KeysError` as `verify` and `check_members`; `InputError` where `study` caps the rows of who is no party;
    `ExpiredError` where a certificate ends before the announcement does, or `lifetime` is out of range;
    `UnfitCertificateError` where `credentials` are not those of the manifest's parties, each once, somebody has two
    parts in the session, or a key of somebody else's, or the holder, who draws a helper's parties' secret, is no party.
    """
    at = check_time(at)
    if not timedelta(0) < lifetime <= MAX_LIFETIME:
        raise ExpiredError(f"a session's lifetime is at most {MAX_LIFETIME.days} days and not zero, got {lifetime}")
    ends = at + lifetime
    verified = [(verify(credential, trust, at=at), credential) for credential in credentials]
    by_name = {peer.name: (peer, credential) for peer, credential in verified}
    odd = set(manifest.parties) ^ set(by_name)
    if odd or len(verified) != len(by_name):
        who = ascii(min(odd)) if odd else "a name"
        raise UnfitCertificateError(
            f"certificates and the manifest's parties differ: {who} is missing, too many or double"
        )
    if manifest.fleet is not None:
        check_members(manifest.fleet, trust, at=ends)
    me, adder = verify(holder.credential, trust, at=at), verify(aggregator, trust, at=at)
    assistant = verify(helper, trust, at=at) if helper else None
    peers = [peer for peer, _ in verified]
    _checked_roster(manifest, peers, me, adder, assistant)
    if manifest.keys == "sealed" and adder.signing_key == me.signing_key:
        raise UnfitCertificateError(f"{me.name!r} makes the keys, so it cannot be the aggregator: it could decrypt")
    for peer in (me, adder, *([] if assistant is None else [assistant]), *peers):
        if not peer.not_before <= at <= ends <= peer.not_after:
            raise ExpiredError(
                f"the certificate of {peer.name!r} is not valid until the session's end, {ends:%Y-%m-%d}"
            )
    announced = msgspec.structs.replace(
        manifest,
        certificates=tuple(by_name[name][0].fingerprint for name in manifest.parties),
        aggregator=adder.fingerprint,
        context=manifest.context if assistant is None else assistant.fingerprint,
        study=study,
    )
    in_order = *(by_name[name][1] for name in manifest.parties), *([helper] if helper else []), aggregator
    not_before, not_after = int((at - SKEW).timestamp()), int(ends.timestamp())
    return sign(KIND, holder, _Body(announced.to_bytes(), in_order, not_before, not_after))


@lru_cache(maxsize=4)  # where all sites are played in one process, each opens the same
def open_announcement(data: bytes, trust: Trust, *, holder: str, at: datetime) -> Announcement:
    """Return a session that its holder announces, from `announce`, every credential in it verified under `trust`.

    `holder` names the one agreed on: a certificate alone does not make anyone holder. Errors as `open_signed`, `verify`
    and `check_members`; `ExpiredError`, and `TamperedError` for other credentials than the manifest names, of its own.
    """
    signer, body = open_signed(KIND, data, _Body, trust, signer=holder, at=at)
    if not body.not_before <= at.timestamp() <= body.not_after:
        raise ExpiredError(
            f"the session announced by {holder!r} is outdated, or has not begun: it counts from "
            f"{counts(body.not_before, body.not_after, at)}, or ask {holder!r} for a new session"
        )
    manifest, ends = _manifest_and_end(body, f"that {holder!r} announces")
    expected_number = len(manifest.answering) + 1
    if not manifest.aggregator or manifest.study is None or len(body.credentials) != expected_number:
        raise TamperedError(f"{holder!r} has not announced one certificate for each party and for the aggregator")
    *peers, adder = (verify(each, trust, at=at) for each in body.credentials)
    helper = peers.pop() if manifest.keys == "helper" else None
    found = [(peer.name, peer.fingerprint) for peer in peers], adder.fingerprint
    expected = list(zip(manifest.parties, manifest.certificates, strict=True)), manifest.aggregator
    if found != expected or (helper is not None and helper.fingerprint != manifest.context):
        raise TamperedError(
            f"the credentials are not those of the parties and the aggregator that {holder!r} announces"
        )
    roster = _checked_roster(manifest, peers, signer, adder, helper)
    if manifest.fleet is not None:
        check_members(manifest.fleet, trust, at=at)
    begins = datetime.fromtimestamp(body.not_before, timezone.utc)
    return Announcement(manifest, manifest.study, roster, adder, signer, begins, ends, helper)


class Claimed(NamedTuple):
    """What an announcement says, unverified."""

    manifest: Manifest
    credentials: Mapping[str, bytes]  # by party
    aggregator: bytes  # its credential
    helper: bytes  # its credential; empty where there is none
    not_before: int  # Unix seconds
    not_after: datetime  # UTC


def claimed(data: bytes) -> Claimed:
    """Return what an announcement says that this site has made, or verified and kept; `TamperedError` for no such."""
    body = claimed_body(KIND, data, _Body)
    manifest, ends = _manifest_and_end(body, "in a session announcement")
    try:
        *credentials, aggregator = body.credentials
        helper = credentials.pop() if manifest.keys == "helper" else b""
        by_party = dict(zip(manifest.parties, credentials, strict=True))
        return Claimed(manifest, by_party, aggregator, helper, body.not_before, ends)
    except (IndexError, ValueError):
        raise TamperedError("a session announcement is malformed") from None


def _manifest_and_end(body: _Body, whose: str) -> tuple[Manifest, datetime]:
    try:
        return Manifest.from_bytes(body.manifest), datetime.fromtimestamp(body.not_after, timezone.utc)
    except (DeserialisationError, OverflowError, OSError, ValueError):
        raise TamperedError(f"the manifest {whose} is malformed") from None


def _checked_roster(
    manifest: Manifest, peers: list[Peer], holder: Peer, aggregator: Peer, helper: Peer | None
) -> Roster:
    """Return the parties' roster; raise `UnfitCertificateError` for who has two parts in the session, or none.

    No two share a key. With a helper a party convenes the session; for a fleet, which says which list of members it is
    for, neither the helper nor the aggregator does.
    """
    roster = Roster.of(peers)
    taken = {*roster.names, *roster.signing_keys.values(), *roster.encryption_keys.values()}
    for what, peer in (("aggregator", aggregator), *([] if helper is None else [("helper", helper)])):
        own = {peer.name, peer.signing_key, peer.encryption_key}
        if own & taken:
            raise UnfitCertificateError(f"the {what} {peer.name!r} has another part in the session already")
        taken |= own
    if (helper is not None) != (manifest.keys == "helper"):
        raise UnfitCertificateError(f"a session with {manifest.keys} keys has a helper too many, or none")
    if helper is None:
        return roster
    if manifest.fleet is not None:
        if holder.signing_key in (aggregator.signing_key, helper.signing_key):
            raise UnfitCertificateError(f"{holder.name!r} convenes a fleet, so it is neither its aggregator nor helper")
    elif roster.signing_keys.get(holder.name) != holder.signing_key:
        raise UnfitCertificateError(
            f"{holder.name!r} convenes a session with a helper and is no party of it: it would know the parties' secret"
        )
    return roster
