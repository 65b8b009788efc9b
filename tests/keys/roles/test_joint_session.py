"""Joint sessions as documents: who takes part is settled by signatures that every party verifies itself."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import KIND, _Body
from fhe_auc_keys.errors import ExpiredError, KeysError, RevokedError, TamperedError, UnfitCertificateError
from fhe_auc_keys.site.session_files import announced_to_party, keep_for_party, kept_for_party, open_for_aggregator
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.signed_documents import sign
from fhe_auc_protocols.exact_auc.parameter_choice import plan_exact
from tests.support.blinded_auc import encoded
from tests.support.certified import NOW, STUDY
from tests.support.sealed_sessions import ADDER, WEEK, Sealing
from tests.support.wire import flipped

PARTIES = ("north", "south", "east")


def manifest(*, joint: bool = True) -> Manifest:
    planned = plan_exact(thresholds=16, parties=len(PARTIES), backend="tenseal", max_rows=1000, joint_keys=joint)
    return Manifest(
        protocol="verified",
        session=bytes(16),
        parties=PARTIES,
        grid=np.linspace(0, 1, 16).tobytes(),
        min_parties=len(PARTIES),
        keys="joint" if joint else "sealed",
        context=b"" if joint else bytes(32),
        plan=encoded(planned),
    )


@pytest.fixture(scope="module")
def consortium() -> Sealing:
    return Sealing(*PARTIES, "stranger")


@pytest.fixture(scope="module")
def document(consortium: Sealing) -> bytes:
    return consortium.announce(manifest(), by="north")


def opened(consortium: Sealing, document: bytes, **changes):
    usual = {"trust": consortium.trust(), "holder": "north", "at": NOW}
    return announced_to_party(document, **{**usual, **changes})


def test_everybody_gets_manifest_and_verified_keys_of_all(consortium: Sealing, document: bytes) -> None:
    announcement = opened(consortium, document)
    assert announcement.manifest == consortium.announced(manifest())
    roster = announcement.roster
    assert roster.names == set(PARTIES)
    for name in PARTIES:
        keys, identity = (roster.signing_keys[name], roster.encryption_keys[name]), consortium.identities[name]
        assert keys == (identity.signing_key, identity.encryption_key)


def test_another_convener_an_end_or_another_session(consortium: Sealing, document: bytes) -> None:
    with pytest.raises(KeysError, match="signed by 'north', not by 'south'"):
        opened(consortium, document, holder="south")
    with pytest.raises(ExpiredError):
        opened(consortium, document, at=NOW + 2 * WEEK, trust=consortium.trust(NOW + 2 * WEEK))
    with pytest.raises(KeysError, match="the document is for session"):
        open_for_aggregator(
            document, consortium.identities[ADDER], consortium.trust(), holder="north", session=bytes(15) + b"1", at=NOW
        )


def test_a_revoked_party_or_convener_stops_the_session() -> None:
    for who in ("north", "south"):
        consortium = Sealing(*PARTIES)
        document = consortium.announce(manifest(), by="north")
        consortium.revoke(who)
        with pytest.raises(RevokedError):
            opened(consortium, document)


def test_a_session_of_other_parties_than_the_manifest_s_is_not_signed(consortium: Sealing) -> None:
    for of in (PARTIES[:2], (*PARTIES, "stranger"), ("north", "south", "stranger")):
        with pytest.raises(UnfitCertificateError, match="certificates and the manifest's parties differ"):
            consortium.announce(manifest(), consortium.shown(*of), by="north")


def test_a_session_with_a_key_holder_is_not_opened_as_joint(consortium: Sealing) -> None:
    sealed = consortium.announce(manifest(joint=False), by="north")
    with pytest.raises(KeysError, match="the session's keys are made by a key holder"):
        opened(consortium, sealed)


def test_a_convener_cannot_slip_in_other_credentials_than_it_announces(consortium: Sealing, document: bytes) -> None:
    """South's place is taken by a second certificate in the name of south, or by nobody."""
    identities = consortium.identities
    announced = opened(consortium, document).manifest
    genuine = consortium.shown(*PARTIES, ADDER)
    other_south = consortium.certified(
        Identity("south", identities["south"]._signing, identities["south"]._encryption)
    ).credential
    for credentials in (
        (genuine[0], other_south, *genuine[2:]),
        (genuine[1], genuine[0], *genuine[2:]),
        (*genuine[:3], identities["stranger"].credential),
        tuple(genuine[:3]),
        (*genuine, identities["stranger"].credential),
        (),
    ):
        body = _Body(announced.to_bytes(), credentials, 0, 2**33)
        with pytest.raises(TamperedError, match=r"not those of the parties|not announced one certificate"):
            opened(consortium, sign(KIND, identities["north"], body))
    for changed in (
        msgspec.structs.replace(announced, certificates=(), aggregator=b"", study=None),
        msgspec.structs.replace(announced, aggregator=bytes(32)),
    ):
        body = _Body(changed.to_bytes(), tuple(genuine), 0, 2**33)
        with pytest.raises(TamperedError, match=r"not those of the parties|not announced one certificate"):
            opened(consortium, sign(KIND, identities["north"], body))


def test_a_tampered_byte_anywhere(consortium: Sealing, document: bytes) -> None:
    chance = random.Random(7)
    for position in chance.sample(range(len(document)), 150):
        with pytest.raises(KeysError):
            opened(consortium, flipped(document, position))
    for length in chance.sample(range(len(document)), 20):
        with pytest.raises(TamperedError):
            opened(consortium, document[:length])


def test_a_session_is_joined_once_and_only_by_its_parties(
    consortium: Sealing, document: bytes, store: KeyStore
) -> None:
    trust, south = consortium.trust(), consortium.identities["south"]
    usual = {"trust": trust, "store": store, "holder": "north", "session": None, "study": STUDY, "at": NOW}
    with pytest.raises(KeysError, match="is not, with this certificate, a party of the"):
        keep_for_party(document, consortium.identities["stranger"], **usual)
    joined = keep_for_party(document, south, **usual)
    with pytest.raises(KeysError, match="has been opened before"):
        keep_for_party(document, south, **usual)
    assert kept_for_party(store, bytes(16), south, trust, holder="north", at=NOW)[0] == joined
    late = NOW + 2 * WEEK
    with pytest.raises(ExpiredError):
        kept_for_party(store, bytes(16), south, consortium.trust(late), holder="north", at=late)
