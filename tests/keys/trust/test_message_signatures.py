"""Sessions between machines: who is not certified for a session cannot add to it, and nobody can make up its result."""

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError, MessageError
from fhe_auc.base.party_names import AGGREGATOR
from fhe_auc.base.serialise import decode, encode
from fhe_auc.ckks.encoding import sum_positions
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rlwe import transparent_ciphertexts, wire_format
from fhe_auc.rlwe.modulus_switching import kept_shape
from fhe_auc.rlwe.number_theoretic_transform import coefficients_of, values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.computation import Result
from fhe_auc.session.messages import Message
from fhe_auc_keys.bundles.session_keys import party_secrets
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from tests.support.stored_sites import Consortium
from tests.support.wire import LIMIT, changed, flipped, payload_of

PROTOCOL = "histogram-federated"  # what is signed and sealed are bytes, whatever they say


@pytest.fixture
def consortium(site_rows: list[PartyData], tmp_path: Path) -> Consortium:
    return Consortium(site_rows, tmp_path / "consortium", PROTOCOL)


@pytest.fixture
def encrypting(site_rows: list[PartyData], tmp_path: Path) -> Consortium:
    return Consortium(site_rows, tmp_path / "consortium")


@pytest.fixture(scope="module")
def computed(site_rows: list[PartyData], tmp_path_factory: pytest.TempPathFactory) -> tuple[Consortium, bytes]:
    """A session whose parties are about to get the result; in it nobody but south answers."""
    consortium = Consortium(site_rows, tmp_path_factory.mktemp("computed") / "c", PROTOCOL)
    return consortium, resulting(consortium)


def submitted(consortium: Consortium) -> tuple[Aggregator, dict[str, bytes]]:
    """An aggregator in its first round, and what every party submits."""
    aggregator = consortium.aggregator()
    return aggregator, dict(consortium.exchange(aggregator.start()))


def resulting(consortium: Consortium) -> bytes:
    """The message with the result, of an honest session."""
    aggregator = consortium.aggregator()
    return consortium.deliver(aggregator, aggregator.start())


def refused_by_aggregator(aggregator: Aggregator, party: str, submission: bytes) -> MessageError:
    with pytest.raises(MessageError) as caught:
        aggregator.receive(party, submission)
    assert not aggregator.has_accepted(party)
    return caught.value


def refused_by_party(consortium: Consortium, message: bytes) -> MessageError:
    with pytest.raises(MessageError) as caught:
        consortium.answer("north", message)
    assert "north" not in consortium.results
    return caught.value


class Stranger:
    """Somebody with the announcement of a consortium, rows that look perfect, and a session and keys of its own."""

    def __init__(self, consortium: Consortium) -> None:
        names, labels = list(consortium.sites), [0] * 40 + [1] * 40
        self.rows = [PartyData.from_arrays(name, labels, [0.1] * 39 + [0.9] * 41) for name in names]
        own = Consortium(self.rows, Path(consortium.made.sites["north"]["store"]).parent / "own").session
        self.aggregator = SemiHonest().aggregator(own.manifest, own.aggregator_material)
        opening = self.aggregator.start()
        self.submissions = {
            data.name: SemiHonest().party(own.manifest, own.party_material, data).respond(opening) for data in self.rows
        }
        self.context = ckks.load_secret(party_secrets(own.party_material, own.manifest).context)

    def in_the_clear(self, submission: bytes) -> Words:
        """The polynomial that a submission under its key holds, with the noise."""
        seeded, half = self.context._seeded, self.context.mask_shape
        packed = wire_format.open_for("submission", self.context.fingerprint, submission)
        first, second = np.split(seeded.expand(packed), 2)
        half.add_in_place(first, half.multiply(second, self.context.secret_words))
        return first

    def result_in_the_clear(self, result: bytes) -> bytes:
        """A result that holds the same under every key: its sums, and zeros for what multiplies the key."""
        half = kept_shape(self.context.mask_shape, self.context.parameters.kept)
        positions, secret = sum_positions(half.ring_dimension, 4), self.context.secret_words[: len(half.moduli)]
        few = Polynomials(len(positions), half.moduli)
        packed = wire_format.open_for("result", self.context.fingerprint, result)
        ((sums, *others),) = transparent_ciphertexts.unpack_results(few, half, packed, 1)
        first, second = (values_of(half, each) for each in others)
        half.add_in_place(first, half.multiply(second, secret))
        few.add_in_place(sums, coefficients_of(half, half.multiply(first, secret))[:, positions])
        return few.pack(sums) + bytes(2 * half.packed_size)


def test_a_result_made_up_from_the_announcement_is_refused(encrypting: Consortium) -> None:
    """One with c₁ = c₂ = 0 decrypts under any key: a whole session is played under another, and opened."""
    stranger = Stranger(encrypting)
    for name, submission in stranger.submissions.items():
        stranger.aggregator.receive(name, submission)
    last = stranger.aggregator.finish_round()
    assert last is not None
    plain = stranger.result_in_the_clear(decode(payload_of(last), Result, "").content)
    manifest = encrypting.session.manifest
    forged = wire_format.seal("result", manifest.context, plain)
    genuine = encrypting.aggregator().start()
    encrypting.answer("north", genuine)
    message = changed(genuine, round=2, payload=encode(Result(manifest.parties, forged)))
    assert refused_by_party(encrypting, message).field == "signature"


def test_a_plaintext_added_to_a_submission_in_transit_is_refused(encrypting: Consortium) -> None:
    """Even by somebody who could read it, and has sealed it again. Unsigned, the AUC would move by what is added."""
    stranger = Stranger(encrypting)
    own = decode(payload_of(stranger.submissions["north"]), tuple[bytes, ...], "")
    added = [stranger.in_the_clear(block) for block in own]
    aggregator, submissions = submitted(encrypting)
    fingerprint, seeded = encrypting.session.manifest.context, stranger.context._seeded
    genuine = Message.from_bytes(submissions["north"], limit=LIMIT)
    blocks = decode(genuine.opened(aggregator.protection, AGGREGATOR), tuple[bytes, ...], "")
    moved = []
    for block, more in zip(blocks, added, strict=True):
        packed = wire_format.open_for("submission", fingerprint, block)
        b = seeded.half.unpack(packed[: seeded.half.packed_size])
        seeded.half.add_in_place(b, more)
        masked = seeded.half.pack(b) + packed[seeded.half.packed_size :]
        moved.append(wire_format.seal("submission", fingerprint, masked))
    forged = msgspec.structs.replace(genuine, payload=encode(moved)).protected(aggregator.protection, AGGREGATOR)
    forged = msgspec.structs.replace(forged, signature=genuine.signature).to_bytes()
    assert refused_by_aggregator(aggregator, "north", forged).field == "signature"
    aggregator.receive("north", submissions["north"])  # the refusal has changed nothing


def resigned(consortium: Consortium, message: bytes, by: Identity | str = "", session: bytes | None = None) -> bytes:
    """The message signed by somebody, or a site; else by the aggregator, who may say anything."""
    protection: Any = consortium.aggregator().protection
    if isinstance(by, str) and by:
        with site_storage().site(consortium.made.sites[by]) as site:
            by = site._identity  # type: ignore[attr-defined]
    if by:
        protection = dataclasses.replace(protection, binding=session or protection.binding, identity=by)
    return Message.from_bytes(message, limit=LIMIT).protected(protection).to_bytes()


def test_what_a_party_has_not_signed_is_not_even_parsed(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    aggregator, submissions = submitted(consortium)
    monkeypatch.setattr(type(aggregator), "_accept", lambda *_: pytest.fail("parsed"))
    genuine = submissions["north"]
    forgeries = {
        "no signature": changed(genuine, signature=b""),
        "changed payload": changed(genuine, payload=b"x"),
        "a list": changed(genuine, submissions=(("north", bytes(32)),)),
        "another party's": resigned(consortium, genuine, "south"),
        "a stranger's": resigned(consortium, genuine, Identity.create("north")),
        "the aggregator's": resigned(consortium, genuine),
        "of another session": resigned(consortium, genuine, "north", bytes(32)),
    }
    for how, forged in forgeries.items():
        assert refused_by_aggregator(aggregator, "north", forged).field == "signature", how
    for forged in (b"", changed(genuine, session=bytes(16)), changed(genuine, sender="south")):
        refused_by_aggregator(aggregator, "north", forged)
    assert not aggregator.refusals  # of which north has sent nothing


def test_a_signature_holds_for_its_round_only_and_takes_at_most_200_bytes_and_a_seal_1136(
    consortium: Consortium,
) -> None:
    aggregator, submissions = submitted(consortium)
    for name, genuine in submissions.items():
        message = Message.from_bytes(genuine, limit=LIMIT)
        assert len(genuine) - len(msgspec.structs.replace(message, signature=b"").to_bytes()) <= 200
        assert len(message.payload) - len(message.opened(aggregator.protection, AGGREGATOR)) == 1136
        aggregator.receive(name, genuine)
    aggregator.finish_round()
    assert refused_by_aggregator(aggregator, "north", changed(submissions["north"], round=2)).field == "signature"


def test_only_what_was_accepted_is_said_to_be_whatever_digest_a_message_claims(consortium: Consortium) -> None:
    aggregator, submissions = submitted(consortium)
    genuine = submissions["north"]
    aggregator.receive("north", genuine)
    assert aggregator.has_accepted("north", genuine)
    altered = (flipped(genuine, len(genuine) - 5), genuine[:-1], genuine[:40], b"", submissions["south"])
    for other in (*altered, changed(genuine, payload=b"x")):
        assert not aggregator.has_accepted("north", other)


def test_nobody_but_a_party_confirms_that_it_has_the_result(consortium: Consortium) -> None:
    aggregator = consortium.aggregator()
    result = consortium.deliver(aggregator, aggregator.start())
    answers = dict(consortium.exchange(result))
    for forged in (
        changed(answers["north"], signature=b""),
        changed(answers["south"], sender="north"),
        resigned(consortium, answers["north"], "south"),
        resigned(consortium, answers["north"]),
    ):
        assert refused_by_aggregator(aggregator, "north", forged).field == "signature"
    for name in ("south", "east"):
        aggregator.receive(name, answers[name])
    assert aggregator.finish_round() is None
    record = aggregator.result()
    assert (record.delivered, record.refused) == (("south", "east"), ())


def test_what_the_aggregator_has_not_signed_is_not_even_parsed(
    computed: tuple[Consortium, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium, genuine = computed
    with monkeypatch.context() as patch:
        patch.setattr("fhe_auc_keys.roles.sealed_roles.SealedParty._answer", lambda *_: pytest.fail("parsed"))
        for forged in (
            changed(genuine, signature=b""),
            changed(genuine, payload=b"x"),
            changed(genuine, submissions=Message.from_bytes(genuine, limit=LIMIT).submissions[:2]),
            resigned(consortium, genuine, "south"),
            resigned(consortium, genuine, Identity.create("aggregator of its own")),
        ):
            assert refused_by_party(consortium, forged).field == "signature"
    consortium.answer("south", genuine)
    assert consortium.results["south"].settings["signed"] is True


def test_a_list_of_submissions_that_cannot_be_is_refused(computed: tuple[Consortium, bytes]) -> None:
    consortium, genuine = computed
    listed = Message.from_bytes(genuine, limit=LIMIT).submissions
    assert [name for name, _ in listed] == list(consortium.sites)
    for claimed, why in (
        ((("north", bytes(32)), *listed[1:]), "does not count"),
        (listed[:1], "1 submissions count, at least 3"),
        ((), "0 submissions count"),
        ((*listed, listed[0]), "a party twice"),
        ((*listed, ("mallory", bytes(32))), "a stranger"),
    ):
        error = refused_by_party(consortium, resigned(consortium, changed(genuine, submissions=claimed)))
        assert (error.field, why in str(error)) == ("submissions", True)


def test_a_result_without_ones_own_rows_or_with_others_than_the_list_is_refused(
    site_rows: list[PartyData], tmp_path: Path
) -> None:
    consortium = Consortium(site_rows, tmp_path / "c", PROTOCOL, min_parties=2)
    with consortium.made.meanwhile:
        genuine = resulting(consortium)
    result = decode(payload_of(genuine), Result, "")
    for forged, why in (
        (
            {"submissions": Message.from_bytes(genuine, limit=LIMIT).submissions[1:]},
            "what party 'north' submitted does not count",
        ),
        (
            {"payload": encode(msgspec.structs.replace(result, counted=result.counted[:2]))},
            "not those whose submissions the aggregator has listed",
        ),
    ):
        error = refused_by_party(consortium, resigned(consortium, changed(genuine, **forged)))
        assert why in str(error)


def test_roles_of_a_session_between_machines_do_nothing_without_a_key_to_sign_with(consortium: Consortium) -> None:
    aggregator, own = consortium.aggregator(), consortium.session.party_material
    opening, protection = aggregator.start(), aggregator.protection
    party = registry.load(PROTOCOL).party(aggregator.manifest, own, consortium.sites["north"])
    aggregator = consortium.aggregator()
    aggregator.protection = None
    for attempt in (aggregator.start, lambda: party.respond(opening)):
        with pytest.raises(EvaluationError, match="no keys to do so"):
            attempt()
    assert "identity" not in repr(protection)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(protection)


def test_a_session_in_one_process_says_that_it_is_not_signed(site_rows: list[PartyData]) -> None:
    from fhe_auc import federated_auc
    from fhe_auc_protocols.options import DpaucLaplace

    found = federated_auc(site_rows, thresholds="uniform:16", protocol=DpaucLaplace(epsilon=4.0))
    assert found.settings["signed"] is False
