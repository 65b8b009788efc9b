"""A session that this installation cannot play is refused before anything is kept, so that its file opens later."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.question.study import Study
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request, Session
from fhe_auc_keys.bundles.announcement import announce
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site.session_files import keep_for_party, open_for_aggregator
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.certified import NOW, STUDY
from tests.support.sealed_sessions import ADDER, HOLDER, WEEK, Sealing

pytestmark = pytest.mark.backends("one")  # what is sealed and signed are bytes

PARTIES = "north", "south", "east"


@pytest.fixture(scope="module")
def consortium() -> Sealing:
    return Sealing(*PARTIES)


def of_a_newer_version(manifest: Manifest) -> Manifest:
    """A manifest whose plan has a field that the protocol here does not know."""
    assert manifest.plan is not None
    fields = msgspec.msgpack.decode(manifest.plan.content)
    newer = EncodedPlan(manifest.plan.kind, msgspec.msgpack.encode({**fields, "new": 1}))
    return msgspec.structs.replace(manifest, plan=newer)


def joint_manifest() -> Manifest:
    request = Request(parties=PARTIES, thresholds=np.linspace(0, 1, 4), keys="joint")
    return registry.load("exact").prepare(request).manifest


def open_as_aggregator(consortium: Sealing, data: bytes) -> None:
    adder, trust = consortium.identities[ADDER], consortium.trust()
    open_for_aggregator(data, adder, trust, holder=HOLDER, session=None, at=NOW)


def keep(consortium: Sealing, data: bytes, store: KeyStore, *, agreed: Study = STUDY) -> None:
    identity = consortium.identities["north"]
    keep_for_party(data, identity, consortium.trust(), store, holder=HOLDER, session=None, at=NOW, study=agreed)


def test_a_bundle_with_a_plan_that_cannot_be_read_is_not_used_up(
    consortium: Sealing, prepared: Session, store: KeyStore
) -> None:
    newer = consortium.seal(replace(prepared, manifest=of_a_newer_version(prepared.manifest)))
    for _ in range(2):  # the second time would say "opened before"
        with pytest.raises(InputError, match="no valid plan"):
            keep(consortium, newer.parties["north"], store)
    assert store.names("bundle") == ()
    with pytest.raises(InputError, match="no valid plan"):
        open_as_aggregator(consortium, newer.aggregator)
    keep(consortium, consortium.seal(prepared).parties["north"], store)


def test_a_joint_session_with_a_plan_that_cannot_be_read_is_not_used_up(consortium: Sealing, store: KeyStore) -> None:
    manifest = joint_manifest()
    newer = consortium.announce(of_a_newer_version(manifest))
    for _ in range(2):
        with pytest.raises(InputError, match="no valid plan"):
            keep(consortium, newer, store)
    assert store.names("bundle") == ()
    with pytest.raises(InputError, match="no valid plan"):
        open_as_aggregator(consortium, newer)
    keep(consortium, consortium.announce(manifest), store)


def test_a_bundle_for_another_study_than_agreed_to_is_refused_and_not_used_up(
    consortium: Sealing, prepared: Session, store: KeyStore
) -> None:
    bundle = consortium.seal(prepared).parties["north"]
    for field in ("model", "outcome", "cohort", "period", "row_caps"):
        other = msgspec.structs.replace(STUDY, **{field: {"north": 9} if field == "row_caps" else "another"})
        with pytest.raises(KeysError, match=f"differs in {field.replace('_', '-')}$"):
            keep(consortium, bundle, store, agreed=other)
    assert store.names("bundle") == ()
    keep(consortium, bundle, store)


@pytest.mark.parametrize("keys", ["joint", "none"])
def test_a_session_without_a_key_holder_for_another_study_is_refused_and_not_used_up(
    consortium: Sealing, store: KeyStore, keys: str
) -> None:
    if keys == "joint":
        manifest = joint_manifest()
    else:
        request = Request(parties=PARTIES, thresholds=np.linspace(0, 1, 4), options={"epsilon": 1.0})
        manifest = registry.load("dpauc-laplace").prepare(request).manifest
    document = consortium.announce(manifest)
    other = msgspec.structs.replace(STUDY, outcome="death in hospital", period="2028")
    with pytest.raises(KeysError, match=r"differs in outcome, period$"):
        keep(consortium, document, store, agreed=other)
    assert store.names("bundle") == ()
    keep(consortium, document, store)


def test_a_session_between_machines_is_announced_with_a_study_of_its_own_parties_only(
    consortium: Sealing, prepared: Session
) -> None:
    manifest = prepared.manifest
    shown, (adder,) = consortium.shown(*manifest.parties), consortium.shown(ADDER)
    who = consortium.identities[HOLDER], manifest, shown, consortium.trust()
    with pytest.raises(TypeError, match="study"):
        announce(*who, aggregator=adder, lifetime=WEEK, at=NOW)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="says what is evaluated"):
        consortium.announce(manifest, study=None)
    with pytest.raises(InputError, match="row-caps: 'west' is not a party"):
        consortium.announce(manifest, study=msgspec.structs.replace(STUDY, row_caps={"north": 5, "west": 5}))


def test_a_session_of_a_protocol_that_is_not_installed_here_is_kept(
    consortium: Sealing, prepared: Session, store: KeyStore
) -> None:
    elsewhere = msgspec.structs.replace(of_a_newer_version(prepared.manifest), protocol="elsewhere")
    keep(consortium, consortium.seal(replace(prepared, manifest=elsewhere)).parties["north"], store)
    assert store.names("bundle") == (elsewhere.session.hex(),)
