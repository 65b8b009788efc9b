"""What a party or a helper opens a session with, and keeps: the announcement, and beside it its bundle, if it has any.

Where nothing is encrypted the announcement is all that there is, as for a helper. A party of a session with a helper
has a bundle with the common secret in it, one with sealed keys the secret key and a seed besides.
"""

from datetime import datetime

from fhe_auc.base.errors import MessageError, UnknownProtocolError
from fhe_auc.base.serialise import encode
from fhe_auc.rlwe.ring_parameters import choose_backend
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import Kept, open_for_party
from fhe_auc_keys.bundles.session_keys import party_secrets
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.roles.helped import HelpedSecrets
from fhe_auc_keys.roles.helper import HelperMaterial
from fhe_auc_keys.site.restored import made_before
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Members


def keep_for_party(
    document: bytes, bundle: bytes, identity: Identity, members: Members, store: KeyStore, *, at: datetime
) -> Announcement:
    """Open a session as the party or helper `identity`, once; put what the rounds need into `store`, for any crash.

    `bundle` lies beside the announcement `document`, and is empty for who has none. What is refused is not used up.
    Errors as `open_announcement` and `open_for_party`, and where the plan cannot be read here; besides `KeysError` for
    an identity that takes no part, or a session that was opened before.
    """
    announced = open_announcement(document, members, at=at)
    announced.require_party(identity.member(members, at=at))
    material = b""
    if announced.deals_to(identity.name):
        material = open_for_party(bundle, announced, identity, members, at=at)
    _check_plan(announced.manifest)
    if why := made_before(store, announced):
        raise KeysError(why)
    session = announced.manifest.session
    with store.together():
        store.register(session)
        Kept(document, int(announced.not_after.timestamp()), material).keep(store, session)
    return announced


def kept_for_party(
    store: KeyStore, session: bytes, identity: Identity, members: Members, *, at: datetime
) -> tuple[Announcement, bytes]:
    """Return what `keep_for_party` put into `store`, and the party's material; errors as `open_announcement`.

    It is verified again, so that nobody goes on with a session that has ended, or whose maker was revoked.
    """
    if not store.has("bundle", session.hex()):
        raise StoreError(
            f"session {session.hex()} has not been opened here: what its maker has sent has to lie beside its "
            "messages; where that is lost, its maker makes another session"
        )
    found = Kept.stored(store, session)
    if found.closed:
        raise MessageError(
            f"session {session.hex()} has been closed here: its keys are destroyed, and it answers nothing new",
            field="missed",
        )
    announced = open_announcement(found.announcement, members, at=at)
    if announced.manifest.session != session:
        raise KeysError(f"bundle/{session.hex()} is of session {announced.manifest.session.hex()}")
    helper = announced.helper
    if helper is None:
        return announced, found.material
    if announced.is_helper(identity.name):
        parties = {name: member.signing_key for name, member in announced.parties.items()}
        return announced, encode(HelperMaterial(identity.keys.components, helper.signing_key, parties))
    common_secret = party_secrets(found.material, announced.manifest).common_secret
    keys = identity.keys.components, helper.signing_key, helper.encryption_key
    return announced, encode(HelpedSecrets(*keys, common_secret))


def verify_kept(store: KeyStore, session: bytes, identity: Identity, members: Members, *, at: datetime) -> None:
    """Raise where `identity`, a party or helper, could not go on with a session that was opened."""
    announced, material = kept_for_party(store, session, identity, members, at=at)
    announced.require_party(identity.member(members, at=at))
    _check_plan(announced.manifest)
    if announced.manifest.keys == "sealed":
        party_secrets(material, announced.manifest)


def _check_plan(manifest: Manifest) -> None:
    """Raise where the session's protocol is installed and refuses its plan, or its library cannot be imported."""
    try:
        protocol = registry.load(manifest.protocol)
    except UnknownProtocolError:  # a site may take in what another of its machines evaluates
        return
    plan = protocol.plan_of(manifest)
    if plan is not None and plan.parameters is not None:
        choose_backend(plan.parameters.backend)
