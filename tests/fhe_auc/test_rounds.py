"""Both roles refuse what they should, survive it, and then still finish with the right AUC (protocol: semi-honest)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import (
    DeserialisationError,
    EvaluationError,
    FheAucError,
    InputError,
    MessageError,
    ResultCheckError,
    TooFewPartiesError,
    UndefinedAucError,
)
from fhe_auc.base.party_names import AGGREGATOR
from fhe_auc.base.serialise import decode, encode
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe import container
from fhe_auc.rlwe.seeded import SEED_BYTES, Seeded
from fhe_auc.rows.counts import PartyData
from fhe_auc.session.ckks_computation import Circuit, SealedCkks
from fhe_auc.session.messages import Message
from fhe_auc.session.protocol import Session
from fhe_auc.session.rounds import Aggregator, Party, SessionRecord
from fhe_auc_keys.bundles.session_keys import PartySecrets
from fhe_auc_keys.roles.sealed_roles import SealedAggregator, SealedParty
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_totals
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest, SemiHonestTask
from tests.support.pooled import exact_auc
from tests.support.wire import LIMIT, changed, flipped, payload_of, reframed

pytestmark = pytest.mark.backends("one")  # messages, rounds and refusals are the same on each


def auc_of(sites: list[PartyData]) -> Any:
    """Their pooled AUC in the clear, as near as a session gives it."""
    return pytest.approx(exact_auc(sites, np.linspace(0, 1, 16)), abs=1e-7)


@lru_cache(maxsize=16)
def contexts(aggregator_material: bytes, party_material: bytes) -> ckks.KeyPair:
    """Contexts have no state, so that roles may share them; loading one takes longer than most tests."""
    secrets = decode(party_material, PartySecrets, "material")
    return ckks.KeyPair(ckks.load_public(aggregator_material), ckks.load_secret(secrets.context))


@dataclass
class Roles:
    """All roles of a prepared session."""

    session: Session
    sites: list[PartyData]
    aggregator: Aggregator
    parties: list[Party]

    @classmethod
    def of(cls, session: Session, sites: list[PartyData], circuit: Circuit | None = None) -> Roles:
        manifest = session.manifest
        keys = contexts(session.aggregator_material, session.party_material)
        plan = manifest.decoded_plan(AucPlan)
        computation = SealedCkks(manifest, plan, circuit or partial(blinded_totals, plan))
        tasks = [SemiHonestTask(manifest, data) for data in sites]
        return cls(
            session,
            sites,
            SealedAggregator(manifest, computation, keys.public),
            [SealedParty(manifest, computation, keys.secret, task, common_secret=bytes(32)) for task in tasks],
        )

    def submit(self) -> list[bytes]:
        """Open the session, and return everybody's submission of round 1, not yet delivered."""
        opening = self.aggregator.start()
        return [party.respond(opening) for party in self.parties]

    def deliver(self, submissions: list[bytes]) -> bytes:
        """Submit what has not been submitted yet, and return the result."""
        for party, submission in zip(self.parties, submissions, strict=True):
            if party.name not in self.aggregator._answered:
                self.aggregator.receive(party.name, submission)
        result = self.aggregator.finish_round()
        assert result is not None
        return result

    def finish(self, submissions: list[bytes]) -> None:
        """Deliver the submissions and end the session, and check every party's AUC."""
        result = self.deliver(submissions)
        for party in self.parties:
            self.aggregator.receive(party.name, party.respond(result))
        assert self.aggregator.finish_round() is None
        for party in self.parties:
            assert party.result().auc == auc_of(self.sites)


@pytest.fixture
def roles(prepared: Session, site_rows: list[PartyData]) -> Roles:
    return Roles.of(prepared, site_rows)


@pytest.fixture
def submissions(roles: Roles) -> list[bytes]:
    return roles.submit()


def with_surplus_field(data: bytes) -> bytes:
    return reframed(data, encode([*msgspec.structs.astuple(Message.from_bytes(data, limit=LIMIT)), b"extra"]))


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "format"),
    "truncated": (lambda data: data[:-1], "checksum"),
    "cut to its head": (lambda data: data[:40], "checksum"),
    "a flipped bit in the payload": (lambda data: flipped(data, len(data) - 100), "checksum"),
    "a flipped bit in the checksum": (lambda data: flipped(data, 10), "checksum"),
    "a byte more": (lambda data: data + b"\0", "checksum"),
    "too long": (lambda data: data + bytes(LIMIT), "length"),
    "another magic": (lambda data: b"fherlwe" + data[7:], "format"),
    "another format version": (lambda data: data[:7] + b"\1" + data[8:], "version"),
    "an extra field": (with_surplus_field, "body"),
    "another session": (lambda data: changed(data, session=b"x" * 16), "session"),
    "another protocol": (lambda data: changed(data, protocol="malicious"), "protocol"),
    "a later round": (lambda data: changed(data, round=2), "round"),
    "round 0": (lambda data: changed(data, round=0), "round"),
    "another manifest": (lambda data: changed(data, manifest=b"x" * 32), "manifest"),
    "an unknown sender": (lambda data: changed(data, sender="mallory"), "sender"),
}


# --- The aggregator refuses, and the session is as it was -------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_aggregator_refuses_and_finishes_right(roles: Roles, submissions: list[bytes], damage: str) -> None:
    spoil, field = DAMAGES[damage]
    roles.aggregator.receive("north", submissions[0])
    with pytest.raises(MessageError) as caught:
        roles.aggregator.receive("south", spoil(submissions[1]))
    assert caught.value.field == field
    assert str(caught.value).startswith("submission of party 'south' refused: ")
    roles.finish(submissions)
    record = roles.aggregator.result()
    assert record.counted == ("north", "south", "east")
    ((party, reason),) = record.refused
    assert (party, reason in str(caught.value)) == ("south", True)


PAYLOADS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda payload: b"",
    "not msgpack": lambda payload: b"\xc1" * 100,
    "no ciphertext": lambda payload: encode(()),
    "two ciphertexts for one": lambda payload: encode(decode(payload, tuple[bytes, ...], "") * 2),
    "text": lambda payload: encode(("text",)),
    "a ciphertext truncated": lambda payload: encode((decode(payload, tuple[bytes, ...], "")[0][:-1],)),
    "a ciphertext damaged": lambda payload: encode((flipped(decode(payload, tuple[bytes, ...], "")[0], 5000),)),
    "nested": lambda payload: b"\x91" * 50_000,
}


@pytest.mark.backends("all")
@pytest.mark.parametrize("case", PAYLOADS)
def test_a_good_envelope_with_a_bad_payload_is_refused_and_forgotten(
    roles: Roles, submissions: list[bytes], case: str
) -> None:
    payload = payload_of(submissions[1])
    with pytest.raises(MessageError, match="submission of party 'south' refused: "):
        roles.aggregator.receive("south", changed(submissions[1], payload=PAYLOADS[case](payload)))
    roles.finish(submissions)


def test_a_submission_encrypted_under_another_session_key_is_refused(
    roles: Roles, submissions: list[bytes], other_prepared: Session
) -> None:
    foreign = Roles.of(other_prepared, roles.sites)
    payload = payload_of(foreign.parties[1].respond(foreign.aggregator.start()))
    with pytest.raises(MessageError, match="under another key") as caught:
        roles.aggregator.receive("south", changed(submissions[1], payload=payload))
    assert caught.value.field == "fingerprint"
    roles.finish(submissions)


def test_of_several_ciphertexts_a_bad_one_leaves_no_trace_of_the_good_ones(
    prepare: Any, backend: str, site_rows: list[PartyData]
) -> None:
    more = {"openfhe": 3000, "tenseal": 1500}[backend]  # thresholds: OpenFHE's ring is the larger one
    grid = np.unique(np.concatenate([np.linspace(0, 1, 16), np.linspace(2, 3, more)]))
    roles = Roles.of(prepare(backend, thresholds=grid), site_rows)
    assert roles.session.manifest.decoded_plan(AucPlan).blocks == 2
    submissions = roles.submit()
    roles.aggregator.receive("north", submissions[0])
    first, second = decode(payload_of(submissions[1]), tuple[bytes, ...], "")
    for blocks in ((first, second[:-1]), (first,), (first, second, second)):
        with pytest.raises(MessageError):
            roles.aggregator.receive("south", changed(submissions[1], payload=encode(blocks)))
    roles.finish(submissions)


def test_a_duplicate_is_refused_and_counts_once(roles: Roles, submissions: list[bytes]) -> None:
    roles.aggregator.receive("north", submissions[0])
    with pytest.raises(MessageError, match="already submitted in this round") as caught:
        roles.aggregator.receive("north", submissions[0])
    assert caught.value.field == "sender"
    roles.finish(submissions)


def test_a_second_different_submission_of_a_party_is_refused(roles: Roles, submissions: list[bytes]) -> None:
    again = Roles.of(roles.session, roles.sites).parties[0]
    second = again.respond(changed(submissions[0], sender=AGGREGATOR, payload=b""))
    assert second != submissions[0]
    roles.aggregator.receive("north", submissions[0])
    with pytest.raises(MessageError, match="already submitted"):
        roles.aggregator.receive("north", second)
    roles.finish(submissions)


def test_a_party_cannot_submit_for_another(roles: Roles, submissions: list[bytes]) -> None:
    # The transport says south, the message says north.
    with pytest.raises(MessageError) as caught:
        roles.aggregator.receive("south", submissions[0])
    assert caught.value.field == "sender"
    assert "sender 'north', expected 'south'" in str(caught.value)
    roles.finish(submissions)


@pytest.mark.parametrize("name", ["mallory", "", AGGREGATOR, "North", "north\n"])
def test_who_is_not_of_the_session_cannot_submit(roles: Roles, submissions: list[bytes], name: str) -> None:
    with pytest.raises(MessageError, match="not a party of this session") as caught:
        roles.aggregator.receive(name, changed(submissions[0], sender=name))
    assert caught.value.field == "sender"
    assert "\n" not in str(caught.value)
    roles.finish(submissions)


def test_a_replay_from_another_session_is_refused(
    roles: Roles, submissions: list[bytes], other_prepared: Session
) -> None:
    foreign = Roles.of(other_prepared, roles.sites)
    replay = foreign.parties[0].respond(foreign.aggregator.start())
    with pytest.raises(MessageError) as caught:
        roles.aggregator.receive("north", replay)
    assert caught.value.field == "session"
    roles.finish(submissions)


def test_a_replay_of_an_earlier_round_is_refused(roles: Roles, submissions: list[bytes]) -> None:
    result = roles.deliver(submissions)
    with pytest.raises(MessageError) as caught:
        roles.aggregator.receive("north", submissions[0])
    assert caught.value.field == "round"
    assert "round 1, expected 2" in str(caught.value)
    for party in roles.parties:
        roles.aggregator.receive(party.name, party.respond(result))
    assert roles.aggregator.finish_round() is None
    assert roles.parties[0].result().auc == auc_of(roles.sites)


def test_nothing_is_accepted_before_the_start_or_after_the_end(
    prepared: Session, roles: Roles, submissions: list[bytes]
) -> None:
    early = Roles.of(prepared, roles.sites).aggregator
    roles.finish(submissions)
    for aggregator in (early, roles.aggregator):
        with pytest.raises(MessageError, match="the session is not open") as caught:
            aggregator.receive("north", submissions[0])
        assert caught.value.field == "round"
        with pytest.raises(EvaluationError, match="the session is not open"):
            aggregator.finish_round()


def test_a_session_runs_once(roles: Roles, submissions: list[bytes]) -> None:
    with pytest.raises(EvaluationError, match="already been started; every session runs once"):
        roles.aggregator.start()
    roles.finish(submissions)
    with pytest.raises(EvaluationError, match="already been started"):
        roles.aggregator.start()


def test_all_refusals_together_do_not_spoil_a_session(roles: Roles, submissions: list[bytes]) -> None:
    for position, party in enumerate(roles.parties):
        for spoil, _ in DAMAGES.values():
            with pytest.raises(MessageError):
                roles.aggregator.receive(party.name, spoil(submissions[position]))
    roles.finish(submissions)
    assert [party for party, _ in roles.aggregator.result().refused] == [party.name for party in roles.parties]


def test_a_flood_of_refused_submissions_is_not_kept_for_ever(roles: Roles, submissions: list[bytes]) -> None:
    # Anyone can send rubbish under any name: what is remembered of it must be bounded.
    for number in range(20_000):
        with pytest.raises(MessageError):
            roles.aggregator.receive(f"mallory {number}", b"")
    assert len(roles.aggregator._refused) <= len(roles.parties)
    assert len(submissions) == 3


def test_errors_of_the_aggregator_carry_no_secret_and_one_line(roles: Roles, submissions: list[bytes]) -> None:
    for spoil, _ in DAMAGES.values():
        with pytest.raises(MessageError) as caught:
            roles.aggregator.receive("south", spoil(submissions[1]))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 300


# --- Parties refuse, and survive as well ------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_party_refuses_a_bad_opening_and_finishes_right(roles: Roles, damage: str) -> None:
    spoil, field = DAMAGES[damage]
    opening = roles.aggregator.start()
    with pytest.raises(MessageError) as caught:
        roles.parties[1].respond(spoil(opening) if damage != "a flipped bit in the payload" else flipped(opening, 50))
    assert caught.value.field == field
    assert roles.parties[1].bytes_sent == roles.parties[1].bytes_received == 0
    roles.finish([party.respond(opening) for party in roles.parties])


@pytest.mark.parametrize("damage", [*DAMAGES, "the opening once more"])
def test_a_party_refuses_a_bad_result_and_finishes_right(roles: Roles, submissions: list[bytes], damage: str) -> None:
    result = roles.deliver(submissions)
    if damage == "the opening once more":
        bad, field = changed(result, round=1, payload=b""), "round"
    else:
        spoil, field = DAMAGES[damage]
        bad = spoil(result)
        field = "round" if damage == "a later round" else field
        bad = changed(result, round=3) if damage == "a later round" else bad
    victim = roles.parties[2]
    sent, received = victim.bytes_sent, victim.bytes_received
    with pytest.raises(MessageError) as caught:
        victim.respond(bad)
    assert caught.value.field == field
    with pytest.raises(EvaluationError, match="has no result"):
        victim.result()
    assert (victim.bytes_sent, victim.bytes_received) == (sent, received)
    for party in roles.parties:
        party.respond(result)
        assert party.result().auc == auc_of(roles.sites)


BAD_RESULTS: dict[str, Callable[[tuple[str, ...], bytes], object]] = {
    "nothing": lambda counted, ciphertext: (),
    "nobody counted": lambda counted, ciphertext: ((), ciphertext),
    "too few parties": lambda counted, ciphertext: (counted[:1], ciphertext),
    "a stranger": lambda counted, ciphertext: ((*counted, "west"), ciphertext),
    "a party twice": lambda counted, ciphertext: ((*counted, counted[-1]), ciphertext),
    "another order": lambda counted, ciphertext: (counted[::-1], ciphertext),
    "without the reader": lambda counted, ciphertext: (counted[1:], ciphertext),
    "a number of parties": lambda counted, ciphertext: (3, ciphertext),
    "an extra field": lambda counted, ciphertext: (counted, ciphertext, 0.99),
    "a ciphertext truncated": lambda counted, ciphertext: (counted, ciphertext[:-1]),
    "a ciphertext damaged": lambda counted, ciphertext: (counted, flipped(ciphertext, 5000)),
    "no ciphertext": lambda counted, ciphertext: (counted, b""),
}


@pytest.mark.parametrize("case", BAD_RESULTS)
def test_a_party_refuses_a_result_that_is_not_one(roles: Roles, submissions: list[bytes], case: str) -> None:
    result = roles.deliver(submissions)
    counted, ciphertext = decode(payload_of(result), tuple[tuple[str, ...], bytes], "")
    bad = changed(result, payload=encode(BAD_RESULTS[case](counted, ciphertext)))
    with pytest.raises(MessageError, match="message of the aggregator refused"):
        roles.parties[0].respond(bad)
    roles.parties[0].respond(result)
    assert roles.parties[0].result().auc == auc_of(roles.sites)


def test_a_result_that_is_someones_submission_is_refused(roles: Roles, submissions: list[bytes]) -> None:
    result = roles.deliver(submissions)
    (raw,) = decode(payload_of(submissions[1]), tuple[bytes, ...], "")
    with pytest.raises(MessageError, match="expected a result, got a 'submission'"):
        roles.parties[0].respond(changed(result, payload=encode((roles.aggregator.counted, raw))))


def well_formed_result(session: Session, draw: Callable[[Any], Any]) -> bytes:
    """A result of which `draw` chooses each polynomial's coefficients."""
    public: Any = ckks.load_public(session.aggregator_material)
    polynomials = public._scheme.submission.polynomials
    words = np.array([draw(run) for run in public._scheme.submission._runs], np.uint64)
    return container.seal("result", public.fingerprint, polynomials.pack(words))


def test_well_formed_garbage_gives_an_error_and_never_a_number(roles: Roles, submissions: list[bytes]) -> None:
    generator = np.random.default_rng(3)
    result = roles.deliver(submissions)
    bad = well_formed_result(roles.session, lambda run: generator.integers(0, run.modulus, run.count, dtype=np.uint64))
    victim = roles.parties[0]
    assert payload_of(victim.respond(changed(result, payload=encode((roles.aggregator.counted, bad))))) == b""
    for _ in range(2):
        with pytest.raises((ResultCheckError, UndefinedAucError)):
            victim.result()


def test_a_party_that_submits_garbage_spoils_the_result_but_no_number_comes_out(
    roles: Roles, submissions: list[bytes]
) -> None:
    # The aggregator cannot see it: under encryption garbage looks like everything else.
    generator = np.random.default_rng(4)
    public: Any = contexts(roles.session.aggregator_material, roles.session.party_material).public
    half = Seeded(public.ciphertext_shape).half
    packed = half.pack(half.uniform(generator.bytes(32))) + generator.bytes(SEED_BYTES)
    garbage = encode((container.seal("submission", public.fingerprint, packed),))
    result = roles.deliver([submissions[0], changed(submissions[1], payload=garbage), submissions[2]])
    for party in roles.parties:
        party.respond(result)
        with pytest.raises((ResultCheckError, UndefinedAucError)):
            party.result()


@pytest.mark.backends("all")
@pytest.mark.parametrize("value", ["zero", "largest", "half"])
def test_a_result_of_constants_hides_nothing_and_is_refused(roles: Roles, submissions: list[bytes], value: str) -> None:
    result, victim = roles.deliver(submissions), roles.parties[0]
    values = {"zero": lambda q: 0, "largest": lambda q: q - 1, "half": lambda q: q // 2}
    bad = well_formed_result(roles.session, lambda run: np.full(run.count, values[value](run.modulus), np.uint64))
    with pytest.raises(MessageError, match="not a ciphertext: its second polynomial is"):
        victim.respond(changed(result, payload=encode((roles.aggregator.counted, bad))))
    with pytest.raises(EvaluationError, match="has no result"):
        victim.result()
    victim.respond(result)
    assert victim.result().auc == auc_of(roles.sites)


def test_the_aggregator_cannot_tell_from_the_answer_whether_a_check_failed(
    roles: Roles, submissions: list[bytes]
) -> None:
    """It could choose what the check depends on, and so read one bit of its choice from each party."""
    result = roles.deliver(submissions)
    generator = np.random.default_rng(5)
    random = well_formed_result(roles.session, lambda run: generator.integers(0, run.modulus, run.count, np.uint64))
    bad = changed(result, payload=encode((roles.aggregator.counted, random)))
    good_answer, bad_answer = roles.parties[0].respond(result), roles.parties[1].respond(bad)
    assert changed(good_answer, sender="anybody") == changed(bad_answer, sender="anybody")
    roles.aggregator.receive(roles.parties[1].name, bad_answer)


def test_a_party_answers_each_round_once(roles: Roles, submissions: list[bytes]) -> None:
    # Two encryptions of the same rows, or two results, are what a curious aggregator would like to have.
    opening = changed(submissions[0], sender=AGGREGATOR, payload=b"")
    for party in roles.parties:
        with pytest.raises(MessageError) as caught:
            party.respond(opening)
        assert caught.value.field == "round"
    result = roles.deliver(submissions)
    for party in roles.parties:
        party.respond(result)
        for message in (opening, result):
            with pytest.raises(MessageError) as caught:
                party.respond(message)
            assert caught.value.field == "round"


def test_a_party_answers_no_round_after_the_last(roles: Roles, submissions: list[bytes]) -> None:
    # A "round 3" must not make it decrypt once more and replace the evaluation it has reported.
    result = roles.deliver(submissions)
    counted, ciphertext = decode(payload_of(result), tuple[tuple[str, ...], bytes], "")
    party = roles.parties[0]
    party.respond(result)
    before = party.result()
    with pytest.raises(FheAucError):
        party.respond(changed(result, round=3, payload=encode((counted[:2], ciphertext))))
    assert party.result() == before


def test_a_party_whose_check_failed_answers_no_second_result(roles: Roles, submissions: list[bytes]) -> None:
    # Otherwise the aggregator can ask again and again, and learns one bit about the key each time: refused or not.
    result = roles.deliver(submissions)
    bad = well_formed_result(roles.session, lambda run: np.arange(run.count, dtype=np.uint64))
    roles.parties[0].respond(changed(result, payload=encode((roles.aggregator.counted, bad))))
    with pytest.raises(MessageError):
        roles.parties[0].respond(result)
    with pytest.raises((ResultCheckError, UndefinedAucError)):
        roles.parties[0].result()


def test_a_message_of_a_party_does_not_pass_for_the_aggregators(roles: Roles, submissions: list[bytes]) -> None:
    other = Roles.of(roles.session, []).session
    assert other is roles.session
    with pytest.raises(MessageError) as caught:
        roles.parties[0].respond(changed(submissions[1], round=2))
    assert caught.value.field == "sender"


def test_no_result_before_the_end(roles: Roles, submissions: list[bytes]) -> None:
    for role in (roles.parties[0], roles.aggregator):
        with pytest.raises(EvaluationError, match="has not ended"):
            role.result()
    roles.deliver(submissions)
    for role in (roles.parties[0], roles.aggregator):
        with pytest.raises(EvaluationError, match="has not ended"):
            role.result()


# --- Roles with the wrong material ------------------------------------------------------------------------------------


def test_a_name_that_is_not_of_the_session_makes_no_party(prepared: Session) -> None:
    stranger = PartyData.from_arrays("mallory", [0, 1], [0.1, 0.9])
    with pytest.raises(EvaluationError, match="'mallory' is not a party of this session"):
        SemiHonest().party(prepared.manifest, prepared.party_material, stranger)


def test_keys_of_another_session_are_refused(
    prepared: Session, other_prepared: Session, site_rows: list[PartyData]
) -> None:
    with pytest.raises(InputError, match="not those of this session"):
        SemiHonest().aggregator(prepared.manifest, other_prepared.aggregator_material)
    with pytest.raises(InputError, match="not those of the manifest"):
        SemiHonest().party(prepared.manifest, other_prepared.party_material, site_rows[0])


def test_the_aggregators_and_the_parties_material_are_not_interchangeable(
    prepared: Session, site_rows: list[PartyData]
) -> None:
    with pytest.raises(InputError, match="not those of the manifest"):
        SemiHonest().party(prepared.manifest, prepared.aggregator_material, site_rows[0])
    with pytest.raises(DeserialisationError, match="public context"):
        SemiHonest().aggregator(prepared.manifest, prepared.party_material)


def test_a_party_with_more_rows_than_agreed_does_not_take_part(prepare: Any, backend: str) -> None:
    session = prepare(backend, parties=("north", "south"), max_rows=100)
    big = PartyData.from_arrays("north", np.arange(101) % 2, np.linspace(0, 1, 101))
    with pytest.raises(InputError, match="more than max_rows = 100;"):
        SemiHonest().party(session.manifest, session.party_material, big)


# --- The policy on missing parties ------------------------------------------------------------------------------------


def test_below_min_parties_the_round_stays_open_and_the_missing_are_named(
    roles: Roles, submissions: list[bytes]
) -> None:
    with pytest.raises(TooFewPartiesError, match="0 of 3 parties submitted, at least 2 are needed"):
        roles.aggregator.finish_round()
    roles.aggregator.receive("south", submissions[1])
    with pytest.raises(TooFewPartiesError) as caught:
        roles.aggregator.finish_round()
    assert str(caught.value) == "1 of 3 parties submitted, at least 2 are needed; missing: 'north', 'east'"
    with pytest.raises(EvaluationError, match="has not ended"):
        roles.aggregator.result()
    roles.finish(submissions)  # those who come late are still welcome


def test_of_many_missing_parties_ten_are_named(prepare: Any, backend: str) -> None:
    names = tuple(f"site {number}" for number in range(30))
    session = prepare(backend, parties=names, min_parties=None)
    aggregator = SemiHonest().aggregator(session.manifest, session.aggregator_material)
    aggregator.start()
    with pytest.raises(TooFewPartiesError) as caught:
        aggregator.finish_round()
    text = str(caught.value)
    assert text.endswith("'site 9', …")
    assert text.count("site ") == 10
    assert "at least 30" in text


def test_the_session_goes_on_without_a_party_and_says_so(roles: Roles, submissions: list[bytes]) -> None:
    roles.aggregator.receive("north", submissions[0])
    with pytest.raises(MessageError):
        roles.aggregator.receive("south", submissions[1][:-1])
    roles.aggregator.receive("east", submissions[2])
    result = roles.aggregator.finish_round()
    assert result is not None

    # Too late now, in either round's name.
    for late in (submissions[1], changed(submissions[1], round=2)):
        with pytest.raises(MessageError, match="left out in an earlier round"):
            roles.aggregator.receive("south", late)

    present = [roles.sites[0], roles.sites[2]]
    north, south, east = roles.parties
    with pytest.raises(MessageError, match="what party 'south' submitted does not count"):
        south.respond(result)  # it hears the result as well
    for party in (north, east):
        party.respond(result)
        evaluation = party.result()
        assert evaluation.auc == auc_of(present)
        assert evaluation.auc != pytest.approx(exact_auc(roles.sites, np.linspace(0, 1, 16)), abs=1e-4)
        assert evaluation.parties == 2
        assert "1 of 3 parties are not in the result" in evaluation.warnings
    assert roles.aggregator.finish_round() is None
    record = roles.aggregator.result()
    assert (record.counted, record.missing) == (("north", "east"), ("south",))
    assert [name for name, _ in record.refused] == ["south"]


def test_the_last_round_needs_no_acknowledgement(roles: Roles, submissions: list[bytes]) -> None:
    result = roles.deliver(submissions)
    assert roles.aggregator.finish_round() is None
    assert roles.aggregator.result().counted == ("north", "south", "east")
    roles.parties[0].respond(result)
    assert roles.parties[0].result().auc == auc_of(roles.sites)


def test_the_order_of_arrival_changes_nothing(roles: Roles, submissions: list[bytes]) -> None:
    for position in (2, 0, 1):
        roles.aggregator.receive(roles.parties[position].name, submissions[position])
    roles.finish(submissions)


def test_a_failure_of_the_circuit_can_be_tried_again(prepared: Session, site_rows: list[PartyData]) -> None:
    honest = partial(blinded_totals, prepared.manifest.decoded_plan(AucPlan))
    failures = iter([ZeroDivisionError])

    def failing_once(context: ckks.PublicContext, sums: Sequence[ckks.Ciphertext]) -> ckks.Ciphertext:
        for failure in failures:
            raise failure
        return honest(context, sums)

    roles = Roles.of(prepared, site_rows, failing_once)
    submissions = roles.submit()
    for party, submission in zip(roles.parties, submissions, strict=True):
        roles.aggregator.receive(party.name, submission)
    with pytest.raises(ZeroDivisionError):
        roles.aggregator.finish_round()
    roles.finish(submissions)


# --- What the roles tell ----------------------------------------------------------------------------------------------


def test_the_aggregators_record_holds_no_auc(roles: Roles, submissions: list[bytes]) -> None:
    roles.finish(submissions)
    record = roles.aggregator.result()
    assert isinstance(record, SessionRecord)
    assert {field.name for field in fields(record)} == {"session", "counted", "missing", "delivered", "refused"}
    assert record.session == roles.session.manifest.session
    assert not isinstance(record, Evaluation)
    assert not any(isinstance(value, float) for field in fields(record) for value in [getattr(record, field.name)])
    with pytest.raises(AttributeError):
        record.counted = ()  # type: ignore[misc]


def test_the_evaluation_counts_every_byte_of_both_directions(roles: Roles, submissions: list[bytes]) -> None:
    opening = changed(submissions[0], sender=AGGREGATOR, payload=b"")
    result = roles.deliver(submissions)
    answers = [party.respond(result) for party in roles.parties]
    for party, submission, answer in zip(roles.parties, submissions, answers, strict=True):
        evaluation = party.result()
        assert evaluation.upload_bytes_per_party == len(submission) + len(answer)
        assert evaluation.download_bytes_per_party == len(opening) + len(result)


def test_the_session_hides_material_from_text(prepared: Session) -> None:
    assert "material" not in repr(prepared)
    assert len(repr(prepared)) < 3000


def test_no_message_of_a_session_contains_the_secret_key(roles: Roles, submissions: list[bytes]) -> None:
    result = roles.deliver(submissions)
    key = ckks.load_secret(decode(roles.session.party_material, PartySecrets, "").context)._stored.secret_key
    needles = [key[start : start + 7] for start in range(0, 7 * 2000, 7 * 100)]
    wire = [roles.session.aggregator_material, roles.session.manifest.to_bytes(), result, *submissions]
    assert not any(needle in message for needle in needles for message in wire)


def test_two_sessions_of_the_same_rows_share_no_ciphertext_and_agree(
    roles: Roles, submissions: list[bytes], other_prepared: Session
) -> None:
    other = Roles.of(other_prepared, roles.sites)
    others = other.submit()
    assert not set(submissions) & set(others)
    roles.finish(submissions)
    other.finish(others)
    assert roles.parties[0].result().auc == pytest.approx(other.parties[0].result().auc, abs=1e-7)
