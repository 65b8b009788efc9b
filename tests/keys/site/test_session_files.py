"""Sessions as documents: whom they name is verified by all, and what cannot be played is refused and opens later."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request, Session
from fhe_auc_keys.bundles.announcement import KIND, _Body, open_announcement
from fhe_auc_keys.errors import ExpiredError, KeysError, RevokedError, TamperedError
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.signed_documents import sign_document
from tests.support.certified import NOW
from tests.support.sealed_sessions import ADDER, HOLDER, WEEK, Sealing

pytestmark = pytest.mark.backends("one")  # what is sealed and signed are bytes

PARTIES = "north", "south", "east"


class Sites(Sealing):
    """A consortium, and how its parties and its aggregator open documents."""

    def opened(self, document: bytes, *, holder: str = HOLDER, at: Any = NOW) -> Any:
        return open_announcement(document, self.members, holder=holder, at=at)


@pytest.fixture(scope="module")
def consortium() -> Sites:
    return Sites(*PARTIES, "stranger")


def manifest_of(protocol: str, **asked: Any) -> Manifest:
    return registry.load(protocol).prepare(Request(parties=PARTIES, thresholds=np.linspace(0, 1, 4), **asked)).manifest


@pytest.fixture(scope="module")
def convened() -> Manifest:
    """A session without a key holder."""
    return manifest_of("dpauc-laplace", options={"epsilon": 1.0})


@pytest.fixture(scope="module")
def document(consortium: Sites, convened: Manifest) -> bytes:
    return consortium.announce(convened)


def test_another_convener_an_end_or_a_revoked_one(consortium: Sites, convened: Manifest, document: bytes) -> None:
    with pytest.raises(KeysError, match=f"signed by '{HOLDER}', not by 'south'"):
        consortium.opened(document, holder="south")
    with pytest.raises(ExpiredError):
        consortium.opened(document, at=NOW + 2 * WEEK)
    for who in (HOLDER, ADDER, "south"):
        others = Sites(*PARTIES)
        document = others.announce(convened)
        others.change(remove=[who])
        with pytest.raises(RevokedError, match=f"'{who}' is no member"):
            others.opened(document)
        with pytest.raises(RevokedError):
            others.announce(convened)


def slip_in(consortium: Sites, manifest: Manifest, **changes: Any) -> None:
    names = changes.pop("names", (ADDER, ""))
    body = _Body(msgspec.structs.replace(manifest, **changes).to_bytes(), *names, 0, 2**33)
    consortium.opened(sign_document(KIND, consortium.identities[HOLDER], body))


def test_a_convener_cannot_slip_in_other_keys_than_the_members_file_has(consortium: Sites, document: bytes) -> None:
    announced = consortium.opened(document).manifest
    (stranger,), (adder,) = consortium.named("stranger"), consortium.named(ADDER)
    north, south, east = announced.fingerprints
    for changes, error in (
        ({"fingerprints": (north, bytes(32), east)}, RevokedError),
        ({"fingerprints": (north, stranger.fingerprint, east)}, RevokedError),
        ({"fingerprints": (south, north, east)}, RevokedError),
        ({"parties": ("north", "stranger", "east")}, RevokedError),
        ({"aggregator": bytes(32)}, RevokedError),
        ({"names": ("stranger", "")}, RevokedError),
        ({"names": ("south", "")}, RevokedError),
        ({"names": ("nobody", "")}, RevokedError),
        ({"names": (ADDER, "stranger")}, RevokedError),
        ({"parties": ("north", "south", ADDER), "fingerprints": (north, south, adder.fingerprint)}, InputError),
        ({"fingerprints": (), "aggregator": b"", "study": None}, TamperedError),
    ):
        with pytest.raises(error):
            slip_in(consortium, announced, **changes)


def of_a_newer_version(manifest: Manifest) -> Manifest:
    """A manifest whose plan has a field that the protocol here does not know."""
    assert manifest.plan is not None
    fields = msgspec.msgpack.decode(manifest.plan.content)
    newer = EncodedPlan(manifest.plan.kind, msgspec.msgpack.encode({**fields, "new": 1}))
    return msgspec.structs.replace(manifest, plan=newer)


def test_a_session_with_a_plan_that_cannot_be_read_is_not_used_up(
    consortium: Sites, prepared: Session, store: KeyStore
) -> None:
    newer = consortium.seal(replace(prepared, manifest=of_a_newer_version(prepared.manifest)))
    for _ in range(2):  # the second time would say "opened before"
        with pytest.raises(InputError, match="no valid plan"):
            consortium.keep(newer.announcement, newer.parties["north"], store)
    assert store.names("bundle") == ()
    sealed = consortium.seal(prepared)
    consortium.keep(sealed.announcement, sealed.parties["north"], store)


def test_a_session_between_machines_is_announced_with_a_study_of_its_own_parties_only(
    consortium: Sites, convened: Manifest
) -> None:
    with pytest.raises(InputError, match="row-caps: 'west' is not a party"):
        consortium.announce(convened, row_caps={"north": 5, "west": 5})


def test_a_session_of_a_protocol_that_is_not_installed_here_is_kept(
    consortium: Sites, prepared: Session, store: KeyStore
) -> None:
    elsewhere = msgspec.structs.replace(of_a_newer_version(prepared.manifest), protocol="elsewhere")
    sealed = consortium.seal(replace(prepared, manifest=elsewhere))
    consortium.keep(sealed.announcement, sealed.parties["north"], store)
    assert store.names("bundle") == (elsewhere.session.hex(),)
