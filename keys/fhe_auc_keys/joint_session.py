"""Sessions without a key holder: one signed document for everybody, since there is nothing to be sealed.

The parties make the keys together (joint keys), or nothing is encrypted and there are none.

    joint session = announcement, credentials of all parties

Each party verifies every other's credential itself, under its own trust: it seals its partial decryption to these keys,
and accepts contributions signed with them. The aggregator does the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from fhe_auc.manifest import Manifest
from fhe_auc_keys.announcement import Announcement, announce, open_announcement, require_grid
from fhe_auc_keys.certificates import Peer, Trust, verify
from fhe_auc_keys.errors import TamperedError, WrongContextError, WrongRecipientError, WrongSessionError
from fhe_auc_keys.identity import Identity
from fhe_auc_keys.roster import Roster
from fhe_auc_keys.signed_documents import Kind, open_signed, sign
from fhe_auc_keys.store import KeyStore

KIND = Kind(b"fhejoin", "joint session")


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    announcement: bytes
    credentials: tuple[bytes, ...]  # in the manifest's order of parties


def prepare_joint_session(
    signer: Identity,
    manifest: Manifest,
    credentials: Iterable[bytes],
    trust: Trust,
    *,
    lifetime: timedelta,
    at: datetime,
) -> bytes:
    """Return a session with joint keys, or without any, as a document for all parties and the aggregator.

    `signer` convenes it, certified; any party, or somebody else. It gets no key by it. `credentials` are exactly those
    of the manifest's parties. The session can be opened for `lifetime`, as `fhe_auc_keys.announcement.announce` says.

    Raises
    ------
    KeysError
        A credential that is not valid; see `fhe_auc_keys.certificates.verify` and `announce`.
    WrongContextError
        The manifest is one for keys of a key holder.
    """
    _check_no_holder(manifest)
    shown = {verify(each, trust, at=at): each for each in credentials}
    announcement = announce(signer, manifest, shown, trust, lifetime=lifetime, at=at)
    by_name = {peer.name: credential for peer, credential in shown.items()}
    return sign(KIND, signer, _Body(announcement, tuple(by_name[name] for name in manifest.parties)))


def open_joint_session(
    data: bytes, trust: Trust, *, signer: str, session: bytes | None, at: datetime
) -> tuple[Announcement, Roster]:
    """Return a session, from `prepare_joint_session`, and its parties' public keys, each verified under `trust`.

    `signer` names whom the parties have agreed on to convene it; `session` is the id expected, None takes any.

    Raises
    ------
    TamperedError
        Damaged or forged, or credentials other than those announced.
    UnknownIssuerError, RevokedError, ExpiredError, UnfitCertificateError, UnfitNameError
        The convener's certificate, or a party's; see `fhe_auc_keys.certificates.verify`.
    WrongSessionError, WrongContextError
        Another session; a session for keys of a key holder.
    """
    _, body = open_signed(KIND, data, _Body, trust, signer=signer, at=at)
    announcement = open_announcement(body.announcement, trust, holder=signer, at=at)
    manifest = announcement.manifest
    if session is not None and manifest.session != session:
        raise WrongSessionError(f"the document is for session {manifest.session.hex()}, not {session.hex()}")
    _check_no_holder(manifest)
    peers: list[Peer] = [verify(each, trust, at=at) for each in body.credentials]
    if [(peer.name, peer.fingerprint) for peer in peers] != list(announcement.fingerprints.items()):
        raise TamperedError(f"the credentials are not those of the parties that {signer!r} announces")
    return announcement, Roster.of(peers)


def keep_joint_session(
    data: bytes,
    identity: Identity,
    trust: Trust,
    store: KeyStore,
    *,
    signer: str,
    session: bytes | None,
    at: datetime,
    grid: bytes | None = None,
) -> tuple[Announcement, Roster]:
    """As `open_joint_session` by one of the parties, and put the document into `store`; it can be joined once.

    Errors as there; besides `WrongSessionError` for other thresholds than `grid`, the manifest's that is expected (None
    takes any), `WrongRecipientError` where the identity, with its present certificate, is not a party of the session,
    and `ReplayedError` where it has joined before.
    """
    announcement, roster = open_joint_session(data, trust, signer=signer, session=session, at=at)
    me = verify(identity.credential, trust, at=at)
    if announcement.fingerprints.get(me.name) != me.fingerprint:
        raise WrongRecipientError(f"{me.name!r} is not, with this certificate, a party of the announced session")
    require_grid(announcement.manifest, grid)
    name = announcement.manifest.session
    store.keep("bundle", name.hex(), data, bundle_id=name)
    return announcement, roster


def kept_joint_session(
    store: KeyStore, session: bytes, trust: Trust, *, signer: str, at: datetime
) -> tuple[Announcement, Roster]:
    """Return what `keep_joint_session` put into `store`, verified again; errors as there and `MissingError`."""
    return open_joint_session(store.get("bundle", session.hex()), trust, signer=signer, session=session, at=at)


def _check_no_holder(manifest: Manifest) -> None:
    if manifest.keys == "sealed":
        raise WrongContextError("the session's keys are made by a key holder, not by the parties together")
