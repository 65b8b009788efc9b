"""What becomes of files that arrive while no person is there, by the studies that the site has agreed to."""

from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from fhe_auc.base.errors import FheAucError
from fhe_auc.base.exchange import Arrivals, Exchange, told
from fhe_auc.machines.file_transport import newest_round
from fhe_auc.machines.site_state import Arrived
from fhe_auc_keys.bundles.sealed_bundles import PARTY_KIND, claimed_in_bundle
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site.agreed_studies import Site, admit
from fhe_auc_keys.site.policy import Policy
from fhe_auc_keys.site.session_files import (
    ANNOUNCEMENT,
    announced_to_party,
    announcement_in,
    claimed_id,
    claimed_maker,
    is_for,
    keep_for_party,
    needs_announcement,
)
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members

_OTHERS = Arrived("passed over", "for another party, or for other keys")


class Role(NamedTuple):
    """Who takes files in, in its open store: by a policy, or nothing."""

    store: KeyStore
    identity: Identity
    members: Members
    me: Member
    policy: Policy | None
    site: Site


def take_in(exchange: Exchange, name: str, role: Role, *, at: datetime) -> Arrived:
    """Open a file that is for this party, new, and of a session that an agreed study makes.

    Say what was done, and which session it is. What is wrong with the file is told, not raised, and nothing of it is
    used up; `OSError` is of the store.
    """
    store, identity, members, me, policy, site = role
    place, genuine = name[: name.rfind("/") + 1], False
    own = name.removeprefix(place).rpartition(".")[0]
    try:
        data, beside = exchange.read(name), b""
    except (FheAucError, OSError) as error:
        return Arrived("REFUSED", str(error))
    try:
        known_by = claimed_id(data)
        if not known_by:
            return Arrived("passed over", "not for a party")
        if known_by in store.opened_bundles():
            return Arrived("passed over", "opened before", ours=True)
        if data.startswith(PARTY_KIND.magic) and claimed_in_bundle(data).recipient != me.fingerprint:
            if own == me.name:
                raise KeysError(f"it is not for the keys that {me.name!r} has now: ask for a new session")
            return _OTHERS
        if needs_announcement(data):
            with suppress(FileNotFoundError):
                beside = exchange.read(place + ANNOUNCEMENT)
        holder = policy.holder if policy is not None else claimed_maker(beside or data)
        given: dict[str, Any] = {"holder": holder, "at": at, "beside": beside}
        announced = announced_to_party(data, members, **given)
        if not is_for(data, announced, me):
            return _OTHERS
        session, protection = announced.manifest.session, announced.protection(identity)
        begun = newest_round(Arrivals(exchange), place, session, protection)
        if begun is not None and begun > 1 and not announced.is_helper(me.name):  # to open it would spend the policy
            raise KeysError(
                f"round {begun} has begun, and {me.name!r} was not there for the first: the session goes on without "
                f"it. There is nothing to do here; to count {me.name!r}, its key holder makes another session"
            )
        genuine = True
        if policy is not None:
            policy.admit(announced, store, at=at)
        else:
            admit(store, announced, site, announcement_in(data, beside), at=at)
        keep_for_party(data, identity, members, store, session=None, study=announced.study, **given)
        return Arrived("opened", f"session {announced.manifest.session.hex()}", ours=True)
    except FheAucError as error:
        return Arrived("REFUSED", told(error), genuine=genuine)
