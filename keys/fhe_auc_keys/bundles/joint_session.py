"""Sessions without a key holder: everybody gets the same announcement, since there is nothing to be sealed.

The parties make the keys together (joint keys), or nothing is encrypted and there are none. Each party seals its
partial decryption to the keys in the announcement, and accepts contributions signed with them.
"""

from __future__ import annotations

from datetime import datetime

from fhe_auc.question.study import Study
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement, require_grid, require_study
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.certificates import Trust, verify
from fhe_auc_keys.trust.identity import Identity


def open_joint_session(data: bytes, trust: Trust, *, signer: str, session: bytes | None, at: datetime) -> Announcement:
    """Return a session without a key holder, from `fhe_auc_keys.bundles.announcement.announce`.

    `signer` names whom the parties have agreed on to convene it; `session` is the id expected, None takes any.

    Raises
    ------
    KeysError
        As `fhe_auc_keys.bundles.announcement.open_announcement`; another session; a session for keys of a key holder.
    """
    announcement = open_announcement(data, trust, holder=signer, at=at)
    manifest = announcement.manifest
    if session is not None and manifest.session != session:
        raise KeysError(f"the document is for session {manifest.session.hex()}, not {session.hex()}")
    check_no_holder(manifest)
    return announcement


def keep_joint_session(
    data: bytes,
    identity: Identity,
    trust: Trust,
    store: KeyStore,
    *,
    signer: str,
    session: bytes | None,
    at: datetime,
    study: Study,
    grid: bytes | None = None,
) -> Announcement:
    """As `open_joint_session` by one of the parties, and put the document into `store`; it can be joined once.

    Errors as there; besides `KeysError` for another study than the one that the party has agreed to, or other
    thresholds than `grid`, the manifest's that is expected (None takes any), `KeysError` where the identity,
    with its present certificate, is neither a party of the session nor a helper, and `KeysError` where it has
    joined before. `TamperedError` where a party of a session with helpers cannot open the parties' common secret.
    """
    announcement = open_joint_session(data, trust, signer=signer, session=session, at=at)
    me = verify(identity.credential, trust, at=at)
    announcement.require_party_or_helper(me)
    require_study(announcement.study, study)
    require_grid(announcement.manifest, grid)
    if announcement.helpers and not announcement.is_helper(me.name):
        announcement.common_secret(identity)
    name = announcement.manifest.session
    store.keep("bundle", name.hex(), data, bundle_id=name)
    return announcement


def kept_joint_session(store: KeyStore, session: bytes, trust: Trust, *, signer: str, at: datetime) -> Announcement:
    """Return what `keep_joint_session` put into `store`, verified again; errors as there and `StoreError`."""
    return open_joint_session(store.get("bundle", session.hex()), trust, signer=signer, session=session, at=at)


def check_no_holder(manifest: Manifest) -> None:
    """Raise `KeysError` where the manifest is one for keys of a key holder."""
    if manifest.keys == "sealed":
        raise KeysError("the session's keys are made by a key holder: open its bundle instead")
