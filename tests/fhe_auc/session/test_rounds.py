"""Both roles refuse what they should, survive it and steps that fail, and still finish right (protocol: nothing)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, MessageError, TooFewPartiesError
from fhe_auc.base.names import AGGREGATOR
from fhe_auc.base.serialise import encode
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import SessionRecord, conduct
from fhe_auc.session.messages import Message
from fhe_auc.session.nothing import STEPS, Nothing
from fhe_auc.session.protocol import Request, Session
from tests.support.roles import SessionRoles
from tests.support.wire import LIMIT, changed, flipped, reframed


def said(sites: list[PartyData]) -> str:
    """What a result tells of these sites' rows."""
    return f"nothing was computed of {sum(data.rows for data in sites)} rows"


def prepare(**changes: Any) -> Session:
    request = {"parties": ("north", "south", "east"), "thresholds": np.linspace(0, 1, 16), "min_parties": 2}
    return Nothing().prepare(Request(**{**request, **changes}))


class Roles(SessionRoles):
    """All roles of a prepared session."""

    @classmethod
    def of(cls, session: Session, sites: list[PartyData]) -> Roles:
        given = session.delivery()
        parties = [Nothing().party(session.manifest, given.parties[data.name], data) for data in sites]
        return cls(session, sites, Nothing().aggregator(session.manifest, given.aggregator), parties)

    @classmethod
    def failing(cls, step: str, sites: list[PartyData]) -> Roles:
        """Those of a session that needs all three, in which a step fails."""
        return cls.of(prepare(options={"fails": step}, min_parties=3), sites)

    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        for party in self.parties:
            yield party.name, party.respond(message)

    def check(self, outcome: Any) -> None:
        assert said(self.sites) in outcome.warnings


@pytest.fixture
def roles(site_rows: list[PartyData]) -> Roles:
    return Roles.of(prepare(), site_rows)


@pytest.fixture
def submissions(roles: Roles) -> list[bytes]:
    return roles.submit()


def refused(field: str, call: Callable[..., object], *arguments: Any) -> str:
    """Why a call is refused, for this field."""
    with pytest.raises(MessageError) as caught:
        call(*arguments)
    assert caught.value.field == field
    return str(caught.value)


def with_surplus_field(data: bytes) -> bytes:
    return reframed(data, encode([*msgspec.structs.astuple(Message.from_bytes(data, limit=LIMIT))[:-1], b"extra"]))


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "format"),
    "truncated": (lambda data: data[:-1], "checksum"),
    "cut to its head": (lambda data: data[:40], "checksum"),
    "a flipped bit in the payload": (lambda data: flipped(data, len(data) - 3), "checksum"),
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


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_aggregator_refuses_and_finishes_right(roles: Roles, submissions: list[bytes], damage: str) -> None:
    spoil, field = DAMAGES[damage]
    roles.aggregator.receive("north", submissions[0])
    text = refused(field, roles.aggregator.receive, "south", spoil(submissions[1]))
    assert text.startswith("submission of party 'south' refused: ")
    roles.finish(submissions)
    record = roles.aggregator.result()
    assert record.counted == ("north", "south", "east")
    ((party, reason),) = record.refused
    assert (party, reason in text) == ("south", True)


def test_a_party_submits_once_for_nobody_else_and_strangers_do_not_submit(
    roles: Roles, submissions: list[bytes]
) -> None:
    # The transport says south, the message says north.
    text = refused("sender", roles.aggregator.receive, "south", submissions[0])
    assert "sender 'north', expected 'south'" in text
    roles.aggregator.receive("north", submissions[0])
    assert "already submitted in this round" in refused("sender", roles.aggregator.receive, "north", submissions[0])
    for name in ("mallory", "", AGGREGATOR, "North", "north\n"):
        text = refused("sender", roles.aggregator.receive, name, changed(submissions[0], sender=name))
        assert ("not a party of this session" in text, "\n" in text) == (True, False)
    roles.finish(submissions)


def test_replays_from_another_session_or_an_earlier_round_are_refused(roles: Roles, submissions: list[bytes]) -> None:
    foreign = Roles.of(prepare(), roles.sites)
    replay = foreign.parties[0].respond(foreign.aggregator.start())
    refused("session", roles.aggregator.receive, "north", replay)
    result = roles.deliver(submissions)
    text = refused("round", roles.aggregator.receive, "north", submissions[0])
    assert "round 1, expected 2" in text
    for party in roles.parties:
        roles.aggregator.receive(party.name, party.respond(result))
    assert roles.aggregator.finish_round() is None
    assert said(roles.sites) in roles.parties[0].result().warnings


def test_nothing_is_accepted_before_or_after_the_only_run(roles: Roles, submissions: list[bytes]) -> None:
    early = Roles.of(roles.session, roles.sites).aggregator
    for go_on in (lambda: None, lambda: roles.finish(submissions)):
        go_on()
        with pytest.raises(EvaluationError, match="already been started; every session runs once"):
            roles.aggregator.start()
    for aggregator in (early, roles.aggregator):
        assert "the session is not open" in refused("round", aggregator.receive, "north", submissions[0])
        with pytest.raises(EvaluationError, match="the session is not open"):
            aggregator.finish_round()


def test_all_refusals_together_do_not_spoil_a_session(roles: Roles, submissions: list[bytes]) -> None:
    """And their errors are short, and one line each. Anyone can send rubbish: what is remembered of it is bounded."""
    for number in range(1_000):
        with pytest.raises(MessageError):
            roles.aggregator.receive(f"mallory {number}", b"")
    assert len(roles.aggregator.refusals) <= len(roles.parties)
    for position, party in enumerate(roles.parties):
        for spoil, _ in DAMAGES.values():
            with pytest.raises(MessageError) as caught:
                roles.aggregator.receive(party.name, spoil(submissions[position]))
            assert str(caught.value).isprintable()
            assert len(str(caught.value)) < 300
    roles.finish(submissions)
    refusals = [party for party, _ in roles.aggregator.result().refused]
    assert [each for each in refusals if "mallory" not in each] == [party.name for party in roles.parties]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_party_refuses_a_bad_opening_and_finishes_right(roles: Roles, damage: str) -> None:
    spoil, field = DAMAGES[damage]
    opening = roles.aggregator.start()
    refused(
        field,
        roles.parties[1].respond,
        spoil(opening) if damage != "a flipped bit in the payload" else flipped(opening, 50),
    )
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
    refused(field, victim.respond, bad)
    with pytest.raises(EvaluationError, match="has no result"):
        victim.result()
    assert (victim.bytes_sent, victim.bytes_received) == (sent, received)
    for party in roles.parties:
        party.respond(result)
        assert said(roles.sites) in party.result().warnings


def test_a_party_answers_each_round_once(roles: Roles, submissions: list[bytes]) -> None:
    # Two encryptions of the same rows, or two results, are what a curious aggregator would like to have.
    opening = changed(submissions[0], sender=AGGREGATOR, payload=b"")
    for party in roles.parties:
        refused("round", party.respond, opening)
    # Nor does a party's message pass for the aggregator's.
    refused("sender", roles.parties[0].respond, changed(submissions[1], round=2))
    result = roles.deliver(submissions)
    for party in roles.parties:
        party.respond(result)
        for message in (opening, result):
            refused("round", party.respond, message)
    # A "round 3" must not make it decrypt once more and replace the evaluation it has reported.
    before = roles.parties[0].result()
    with pytest.raises(FheAucError):
        roles.parties[0].respond(changed(result, round=3, payload=encode((2, 8))))
    assert roles.parties[0].result() == before


def test_there_is_no_result_before_the_end_and_no_party_of_another_name(roles: Roles, submissions: list[bytes]) -> None:
    for go_on in (lambda: None, lambda: roles.deliver(submissions)):
        go_on()
        for role in (roles.parties[0], roles.aggregator):
            with pytest.raises(EvaluationError, match="has not ended"):
                role.result()
    stranger = PartyData.from_arrays("mallory", [0, 1], [0.1, 0.9])
    with pytest.raises(EvaluationError, match="'mallory' is not a party of this session"):
        Nothing().party(roles.session.manifest, b"", stranger)


def test_below_min_parties_a_round_stays_open_and_the_missing_are_named_ten_at_most(
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
    names = tuple(f"site {number}" for number in range(30))
    aggregator = Nothing().aggregator(prepare(parties=names, min_parties=None).manifest, b"")
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
    north, _, east = roles.parties
    for party in (north, east):
        party.respond(result)
        evaluation = party.result()
        assert said(present) in evaluation.warnings
        assert evaluation.parties == 2
    assert roles.aggregator.finish_round() is None
    record = roles.aggregator.result()
    assert (record.counted, record.missing) == (("north", "east"), ("south",))
    assert [name for name, _ in record.refused] == ["south"]


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
        assert (evaluation.auc, evaluation.binning_error, evaluation.parties, evaluation.rounds) == (0.5, 0.5, 3, 2)
        assert evaluation.upload_bytes_per_party == len(submission) + len(answer)
        assert evaluation.download_bytes_per_party == len(opening) + len(result)


# --- Steps that fail on purpose ---------------------------------------------------------------------------------------


def test_every_step_is_tried_and_a_role_that_cannot_be_made_says_so(site_rows: list[PartyData]) -> None:
    assert set(STEPS) == {"prepare", "aggregator", "party", "submit", "accept", "close", "receive", "read"}
    for step in ("prepare", "aggregator", "party"):
        with pytest.raises(InputError, match=f"^{step} fails on purpose$"):
            Roles.failing(step, site_rows)
    with pytest.raises(InputError, match=r"fails must be one of prepare, aggregator, .*, got 'never'"):
        Roles.failing("never", site_rows)


def test_a_party_that_cannot_submit_ends_for_good_and_one_that_refuses_a_message_stays_as_it_was(
    site_rows: list[PartyData],
) -> None:
    roles = Roles.failing("submit", site_rows)
    opening, north = roles.aggregator.start(), roles.parties[0]
    for error, why in ((EvaluationError, "submit fails on purpose"), (MessageError, "has ended for party 'north'")):
        with pytest.raises(error, match=why):
            north.respond(opening)
        assert (north.ended, north.submitted, north.bytes_sent) == (True, False, 0)
    roles = Roles.failing("receive", site_rows)
    result, north = roles.deliver(roles.submit()), roles.parties[0]
    before = north.saved()
    with pytest.raises(MessageError, match="message of the aggregator refused: receive fails on purpose"):
        north.respond(result)
    assert (north.saved(), north.ended, north.failure) == (before, False, None)


def test_a_submission_that_is_refused_leaves_the_session_open_as_does_a_round_that_cannot_be_closed(
    site_rows: list[PartyData],
) -> None:
    roles = Roles.failing("accept", site_rows)
    with pytest.raises(MessageError, match="submission of party 'south' refused: accept fails on purpose"):
        roles.aggregator.receive("south", roles.submit()[1])
    assert roles.aggregator.refusals == {"south": "accept fails on purpose"}
    with pytest.raises(TooFewPartiesError, match="0 of 3 parties submitted"):
        roles.aggregator.finish_round()
    roles = Roles.failing("close", site_rows)
    submissions = roles.submit()
    with pytest.raises(EvaluationError, match="close fails on purpose"):
        roles.deliver(submissions)
    with pytest.raises(EvaluationError, match="close fails on purpose"):
        roles.aggregator.finish_round()
    assert roles.aggregator.round == 1


def test_an_aggregator_is_not_told_that_a_result_failed_its_check(site_rows: list[PartyData]) -> None:
    good, bad = Roles.of(prepare(), site_rows), Roles.failing("read", site_rows)
    names = tuple(data.name for data in site_rows)
    for roles in (good, bad):
        record = conduct(roles.aggregator, roles.exchange)
        assert (record.counted, record.missing, record.delivered, record.refused) == (names, (), names, ())
    for well, party in zip(good.parties, bad.parties, strict=True):
        assert party.bytes_sent == well.bytes_sent
        with pytest.raises(EvaluationError, match="read fails on purpose"):
            party.result()
