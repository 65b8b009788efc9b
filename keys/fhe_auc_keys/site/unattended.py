"""Opens sessions without a person: of many files, what is for this party and within its policy."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

from fhe_auc.base.errors import FheAucError
from fhe_auc.base.files import read_from_others
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.bundles.sealed_bundles import PARTY_KIND, claimed_in_bundle
from fhe_auc_keys.site.policy import Policy
from fhe_auc_keys.site.session_files import announced_to_party, beside, claimed_id, is_for, keep_for_party
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import certified_identity
from fhe_auc_keys.trust.certificates import Peer, Trust, verify
from fhe_auc_keys.trust.identity import Identity


class Looked(NamedTuple):
    """What was done with a file, and why; of one that was opened: which session it is."""

    file: Path
    outcome: Literal["opened", "passed over", "REFUSED"]
    why: str
    session: bytes = b""  # id


class _Candidate(NamedTuple):
    file: Path
    data: bytes
    announced: Announcement


def open_by_policy(files: Iterable[Path], store: KeyStore, trust: Trust, *, at: datetime) -> list[Looked]:
    """Open what the store's policy allows, of sessions that wait the newest first; return what was done with each file.

    What is another party's, or was opened before, is passed over; what is forged, or outside the policy, is refused and
    not used up. Errors as `Policy.stored` and `certified_identity`, and as `verify` of the store's own certificate.
    """
    policy, identity = Policy.stored(store), certified_identity(store)
    me = verify(identity.credential, trust, at=at)
    found = [_look(file, policy, store, trust, me, at) for file in files]
    waiting = [each for each in found if isinstance(each, _Candidate)]
    waiting.sort(key=lambda each: each.announced.not_before, reverse=True)
    opened = {each.file: _open(each, policy, store, trust, identity, at) for each in waiting}
    return [opened[each.file] if isinstance(each, _Candidate) else each for each in found]


def _look(file: Path, policy: Policy, store: KeyStore, trust: Trust, me: Peer, at: datetime) -> Looked | _Candidate:
    """Return a file that is for this party and new, its session verified; else what it is."""
    try:
        data = read_from_others(file)
        known_by, others = claimed_id(data), Looked(file, "passed over", "for another party, or another certificate")
        if not known_by:
            return Looked(file, "passed over", "not for a party")
        if known_by in store.opened_bundles():
            return Looked(file, "passed over", "opened before")
        if data.startswith(PARTY_KIND.magic) and claimed_in_bundle(data).recipient != me.fingerprint:
            return others
        announced = announced_to_party(data, trust, holder=policy.holder, at=at, beside=beside(file, data))
        return _Candidate(file, data, announced) if is_for(data, announced, me) else others
    except (FheAucError, OSError) as error:
        return Looked(file, "REFUSED", str(error))


def _open(
    candidate: _Candidate, policy: Policy, store: KeyStore, trust: Trust, identity: Identity, at: datetime
) -> Looked:
    file, data, announced = candidate
    session = announced.manifest.session
    try:
        if claimed_id(data) in store.opened_bundles():
            return Looked(file, "passed over", "opened before")  # a copy of it, just now
        policy.admit(announced, store, at=at)
        keep_for_party(
            data,
            identity,
            trust,
            store,
            holder=policy.holder,
            session=session,
            at=at,
            study=announced.study,
            beside=beside(file, data),
        )
        return Looked(file, "opened", f"session {session.hex()}", session)
    except (FheAucError, OSError) as error:
        return Looked(file, "REFUSED", str(error))
