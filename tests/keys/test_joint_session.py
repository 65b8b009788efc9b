"""Joint sessions as documents: who takes part is settled by signatures that every party verifies itself."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import KIND, _Body, announce
from fhe_auc_keys.errors import ExpiredError, KeysError, RevokedError, TamperedError, UnfitCertificateError
from fhe_auc_keys.site.session_files import announced_to_party, keep_for_party, kept_for_party, open_for_aggregator
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.signed_documents import sign
from fhe_auc_protocols.exact_auc.planner import plan_exact
from tests.support.blinded_auc import encoded
from tests.support.certified import NOW, STUDY, Consortium

WEEK = timedelta(days=7)
PARTIES = ("north", "south", "east")
ADDER = "coordinator"


class Preparing(Consortium):
    def __init__(self) -> None:
        super().__init__(*PARTIES, "stranger", ADDER)

    def prepared(self, session: bytes = bytes(16), by: str = "north", of: tuple[str, ...] = PARTIES) -> bytes:
        return self.announced(manifest(session), by, of)

    def announced(self, manifest: Manifest, by: str = "north", of: tuple[str, ...] = PARTIES) -> bytes:
        shown, (adder,) = self.shown(*of), self.shown(ADDER)
        return announce(
            self.identities[by], manifest, shown, self.trust(), aggregator=adder, study=STUDY, lifetime=WEEK, at=NOW
        )


def manifest(session: bytes = bytes(16), *, joint: bool = True) -> Manifest:
    planned = plan_exact(thresholds=16, parties=len(PARTIES), backend="tenseal", max_rows=1000, joint_keys=joint)
    return Manifest(
        protocol="verified",
        session=session,
        parties=PARTIES,
        grid=np.linspace(0, 1, 16).tobytes(),
        min_parties=len(PARTIES),
        keys="joint" if joint else "sealed",
        context=b"" if joint else bytes(32),
        plan=encoded(planned),
    )


@pytest.fixture(scope="module")
def consortium() -> Preparing:
    return Preparing()


@pytest.fixture(scope="module")
def document(consortium: Preparing) -> bytes:
    return consortium.prepared()


def opened(consortium: Preparing, document: bytes, **changes):
    usual = {"trust": consortium.trust(), "holder": "north", "at": NOW}
    return announced_to_party(document, **{**usual, **changes})


def test_everybody_gets_manifest_and_verified_keys_of_all(consortium: Preparing, document: bytes) -> None:
    announcement = opened(consortium, document)
    *parties, adder = (peer.fingerprint for peer in consortium.peers(*PARTIES, ADDER))
    assert announcement.manifest == msgspec.structs.replace(
        manifest(), certificates=tuple(parties), aggregator=adder, study=STUDY
    )
    roster = announcement.roster
    assert roster.names == set(PARTIES)
    for name in PARTIES:
        identity = consortium.identities[name]
        assert (roster.signing_keys[name], roster.encryption_keys[name]) == (
            identity.signing_key,
            identity.encryption_key,
        )


def test_another_convener_an_end_or_another_session(consortium: Preparing, document: bytes) -> None:
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
        consortium = Preparing()
        document = consortium.prepared()
        consortium.revoke(who)
        with pytest.raises(RevokedError):
            opened(consortium, document)


def test_a_session_of_other_parties_than_the_manifest_s_is_not_signed(consortium: Preparing) -> None:
    for of in (PARTIES[:2], (*PARTIES, "stranger"), ("north", "south", "stranger")):
        with pytest.raises(UnfitCertificateError, match="certificates and the manifest's parties differ"):
            consortium.prepared(of=of)


def test_a_session_with_a_key_holder_is_not_opened_as_joint(consortium: Preparing) -> None:
    sealed = consortium.announced(manifest(joint=False))
    with pytest.raises(KeysError, match="the session's keys are made by a key holder"):
        opened(consortium, sealed)


def test_a_convener_cannot_slip_in_other_credentials_than_it_announces(consortium: Preparing, document: bytes) -> None:
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
        body = _Body(announced.to_bytes(), credentials, 0, 2**33, b"")
        with pytest.raises(TamperedError, match=r"not those of the parties|not announced one certificate"):
            opened(consortium, sign(KIND, identities["north"], body))
    for changed in (
        msgspec.structs.replace(announced, certificates=(), aggregator=b"", study=None),
        msgspec.structs.replace(announced, aggregator=bytes(32)),
    ):
        body = _Body(changed.to_bytes(), tuple(genuine), 0, 2**33, b"")
        with pytest.raises(TamperedError, match=r"not those of the parties|not announced one certificate"):
            opened(consortium, sign(KIND, identities["north"], body))


def test_a_tampered_byte_anywhere(consortium: Preparing, document: bytes) -> None:
    chance = random.Random(7)
    for position in chance.sample(range(len(document)), 150):
        changed = bytearray(document)
        changed[position] ^= 1 << chance.randrange(8)
        with pytest.raises(KeysError):
            opened(consortium, bytes(changed))
    for length in chance.sample(range(len(document)), 20):
        with pytest.raises(TamperedError):
            opened(consortium, document[:length])


def test_a_session_is_joined_once_and_only_by_its_parties(
    consortium: Preparing, document: bytes, tmp_path: Path
) -> None:
    trust, north = consortium.trust(), consortium.identities["south"]
    with KeyStore.create(tmp_path / "store", "a passphrase", log2_cost=10) as store:
        usual = {"trust": trust, "store": store, "holder": "north", "session": None, "study": STUDY, "at": NOW}
        with pytest.raises(KeysError, match="is not, with this certificate, a party of the"):
            keep_for_party(document, consortium.identities["stranger"], **usual)
        joined = keep_for_party(document, north, **usual)
        with pytest.raises(KeysError, match="has been opened before"):
            keep_for_party(document, north, **usual)
        assert kept_for_party(store, bytes(16), north, trust, holder="north", at=NOW)[0] == joined
        late = NOW + 2 * WEEK
        with pytest.raises(ExpiredError):
            kept_for_party(store, bytes(16), north, consortium.trust(late), holder="north", at=late)
