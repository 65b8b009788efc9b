"""The announcement of a session: manifest, certificate fingerprints of all parties and validity, signed by its holder.

The holder is the key holder, or in a session with joint keys the party that convenes it; then the manifest names no
context, because the keys are made afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import msgspec

from fhe_auc.errors import DeserialisationError
from fhe_auc.manifest import Manifest
from fhe_auc_keys.certificates import Peer, Trust, verify
from fhe_auc_keys.errors import ExpiredError, TamperedError, UnfitCertificateError, UnfitNameError, WrongSessionError
from fhe_auc_keys.identity import Identity
from fhe_auc_keys.public_keys import SKEW, check_time
from fhe_auc_keys.signed_documents import Kind, open_signed, sign

MAX_LIFETIME = timedelta(days=31)
"""Longest validity of an announcement, and of what is sealed with it."""

KIND = Kind(b"fheanno", "session announcement")


@dataclass(frozen=True)
class Announcement:
    """A session as its holder signed it, verified."""

    manifest: Manifest
    fingerprints: Mapping[str, bytes]  # party to that of the certificate that it takes part with
    holder: Peer  # who signed
    not_after: datetime  # UTC


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    manifest: bytes
    fingerprints: tuple[bytes, ...]  # in the manifest's order of parties
    not_before: int  # Unix seconds
    not_after: int


def announce(
    holder: Identity, manifest: Manifest, peers: Iterable[Peer], trust: Trust, *, lifetime: timedelta, at: datetime
) -> bytes:
    """Return a session's announcement, signed by its certified `holder`, for `open_announcement`.

    `peers` are exactly the manifest's parties, from `fhe_auc_keys.certificates.verify`; the holder's own certificate is
    checked before anything is signed. The session can be opened for `lifetime`, at most `MAX_LIFETIME`, from `at`, the
    present, with a time zone.

    Raises
    ------
    UnfitNameError
        `peers` are not the manifest's parties, each once.
    UnfitCertificateError
        Two parties share a certificate or a key.
    ExpiredError
        A certificate ends before the announcement does, or `lifetime` is out of range.
    """
    at = check_time(at)
    if not timedelta(0) < lifetime <= MAX_LIFETIME:
        raise ExpiredError(f"a session's lifetime is at most {MAX_LIFETIME.days} days and not zero, got {lifetime}")
    ends = at + lifetime
    by_name = _exactly(manifest.parties, list(peers))
    for peer in (verify(holder.credential, trust, at=at), *by_name.values()):
        if not peer.not_before <= at <= ends <= peer.not_after:
            raise ExpiredError(
                f"the certificate of {peer.name!r} is not valid until the session's end, {ends:%Y-%m-%d}"
            )
    fingerprints = tuple(by_name[name].fingerprint for name in manifest.parties)
    not_before, not_after = int((at - SKEW).timestamp()), int(ends.timestamp())
    return sign(KIND, holder, _Body(manifest.to_bytes(), fingerprints, not_before, not_after))


def open_announcement(data: bytes, trust: Trust, *, holder: str, at: datetime) -> Announcement:
    """Return a session that its holder announces, from `announce`.

    `holder` names the one agreed on: a certificate alone does not make anyone holder. `at` is the present.

    Raises
    ------
    TamperedError
        Not an announcement, damaged or forged.
    UnknownIssuerError, RevokedError, ExpiredError, UnfitCertificateError, UnfitNameError
        The holder's certificate, or another holder: as `fhe_auc_keys.signed_documents.open_signed`. `ExpiredError` also
        for the announcement itself.
    """
    signer, body = open_signed(KIND, data, _Body, trust, signer=holder, at=at)
    if not body.not_before <= at.timestamp() <= body.not_after:
        raise ExpiredError(f"the session announced by {holder!r} is outdated, or has not begun")
    try:
        manifest = Manifest.from_bytes(body.manifest)
        ends = datetime.fromtimestamp(body.not_after, timezone.utc)
    except (DeserialisationError, OverflowError, OSError, ValueError):
        raise TamperedError(f"the manifest that {holder!r} announces is malformed") from None
    if len(body.fingerprints) != len(manifest.parties):
        raise TamperedError(f"the manifest that {holder!r} announces has not one certificate for each party")
    return Announcement(manifest, dict(zip(manifest.parties, body.fingerprints, strict=True)), signer, ends)


def require_grid(manifest: Manifest, expected: bytes | None) -> None:
    """Raise `WrongSessionError` where a manifest's thresholds are not those expected; None takes any."""
    if expected is not None and manifest.grid != expected:
        raise WrongSessionError(
            "the session is for other thresholds than those agreed on: the manifest is for other ones, or the session "
            "that found them has not told all parties the same"
        )


def _exactly(names: tuple[str, ...], peers: list[Peer]) -> dict[str, Peer]:
    by_name = {peer.name: peer for peer in peers}
    odd = set(names) ^ set(by_name)
    if odd or len(peers) != len(by_name):
        who = ascii(min(odd)) if odd else "a name"
        raise UnfitNameError(f"certificates and the manifest's parties differ: {who} is missing, too many or double")
    for what in ("fingerprint", "encryption_key", "signing_key"):
        if len({getattr(peer, what) for peer in peers}) != len(peers):
            raise UnfitCertificateError(f"two parties have the same {what.replace('_', ' ')}")
    return by_name
