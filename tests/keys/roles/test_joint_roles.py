"""Joint keys in rounds: the right AUC at the stated cost, and no mistake of a party or a stranger spoils a session."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import pytest
from fhe_auc_keys.roles.contributions import Contribution, digests
from fhe_auc_keys.roles.joint_roles import _commitment

from fhe_auc.base.errors import DeserialisationError, EvaluationError, MessageError, TooFewPartiesError
from fhe_auc.base.serialise import encode
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import JOINT_KEYS_LEAVE
from fhe_auc_keys.trust.identity import Identity
from tests.support.joint_sessions import GRID, PRECISION, JointPlay, contribution
from tests.support.pooled import exact_auc
from tests.support.wire import changed, payload_of


@pytest.fixture
def play(site_rows: list[PartyData]) -> JointPlay:
    return JointPlay(site_rows)


@contextmanager
def committed_to(play: JointPlay, name: str, parts: tuple[bytes, ...]) -> Iterator[None]:
    """As if a party had committed to these key parts; contributions are signed for all commitments."""
    honest = play.aggregator._commitments
    if play.aggregator.round == 2:
        play.aggregator._commitments = {**honest, name: _commitment(play.binding, name, digests(parts))}
    yield
    play.aggregator._commitments = honest


def signed(play: JointPlay, data: bytes, *parts: bytes, name: str = "south", **other: Any) -> bytes:
    """The message with these parts, signed by the party's own key for the session and round if not told otherwise."""
    with committed_to(play, name, parts):
        session, number = play.aggregator._signed_binding(), play.aggregator.round
    honest = {"identity": play.identity(name), "session": session, "round_number": number}
    return changed(data, payload=encode(Contribution.sign(parts=parts, **{**honest, **other})))


def mistakes(play: JointPlay, data: bytes) -> dict[str, bytes]:
    """What may come in place of the honest submission `data` of south."""
    number, own = play.aggregator.round, contribution(data)
    parts = own.parts
    altered = tuple(part[:-1] + bytes([byte ^ 1 for byte in part[-1:]]) for part in parts)
    found = {
        "unsigned": changed(data, payload=encode(Contribution(parts, b""))),
        "signed with zeros": changed(data, payload=encode(Contribution(parts, bytes(64)))),
        "a byte of the signature missing": changed(data, payload=encode(Contribution(parts, own.signature[:-1]))),
        "a byte more than the signature": changed(data, payload=encode(Contribution(parts, own.signature + b"\0"))),
        "another text under the signature": changed(data, payload=encode(Contribution(altered, own.signature))),
        "signed by another party": signed(play, data, *parts, identity=play.identity("north")),
        "signed by a stranger of that name": signed(play, data, *parts, identity=Identity.create("south")),
        "signed for the manifest alone": signed(play, data, *parts, session=play.manifest.digest),
        "signed for another session": signed(play, data, *parts, session=bytes(32)),
        "signed for another round": signed(play, data, *parts, round_number=number % 3 + 1),
        "another party's": changed(play.submission("north", number), sender="south", session=play.manifest.session),
        "payload cut off": changed(data, payload=payload_of(data)[:-1]),
        "message cut off": data[:-1],
        "message too long": data + bytes(play.aggregator.submission_limit),
        "no parts": signed(play, data),
        "a part too many": signed(play, data, *parts, b""),
        "an empty part too many, before the others": signed(play, data, b"", *parts),
        "a part less": signed(play, data, *parts[:-1]),
        "the first part left out": signed(play, data, *parts[1:]),
        "not a contribution": changed(data, payload=encode([1, 2, 3])),
        "a later round": changed(data, round=number + 1),
        "another session": changed(data, session=bytes(16)),
        "another manifest": changed(data, manifest=bytes(32)),
    }
    # Of the key parts the aggregator can read those of public and relinearisation key; one is sealed. A commitment is
    # any 32 bytes, and a partial decryption is sealed to the parties.
    *before, last = parts[:2] if number == 2 else parts
    rest = parts[2:] if number == 2 else ()
    if number < 4:
        found["a part cut off"] = signed(play, data, *before, last[:-1], *rest)
    if number in (2, 3):
        largest = b"\xff" * 7  # a coefficient that is not below its modulus
        found["the first part out of range"] = signed(play, data, largest + parts[0][7:], *parts[1:])
        found["the last part out of range"] = signed(play, data, *before, largest + last[7:], *rest)
        found["another order"] = signed(play, data, *(*parts[1::-1], *rest) if number == 2 else parts[::-1])
    return found


LONGEST_SECRET_PART = 3 * 4096  # of three parties; an honest one has some 250 bytes


def sums(play: JointPlay) -> bytes:
    """A digest of everything that the aggregator has added up or keeps."""
    state: Any = play.aggregator
    digest = hashlib.sha256()
    for total in (*state._keys.totals, *state._submissions.totals):
        digest.update(total.tobytes())
    digest.update(encode(tuple(state._passed_on.items())))
    digest.update(encode((tuple(state._parties.digests), tuple(state._commitments.items()))))
    return digest.digest()


def assert_refused(play: JointPlay, forged: bytes, why: str = "(?!the key parts)", mistake: str = "") -> None:
    """South's message is refused, had it even committed to what is in it, and the aggregator is as it was."""
    before, parts = sums(play), ()
    with suppress(DeserialisationError):
        parts = contribution(forged).parts
    with committed_to(play, "south", parts), pytest.raises(MessageError, match=f"'south' refused: {why}"):
        play.aggregator.receive("south", forged)
    assert sums(play) == before, mistake


@pytest.mark.parametrize("protocol", ["exact", pytest.param("verified", marks=pytest.mark.slow)])
def test_every_mistake_in_every_round_is_refused_by_name_and_the_session_still_ends_right(
    site_rows: list[PartyData], protocol: str
) -> None:
    play = JointPlay(site_rows, protocol=protocol)
    message = play.until(1)
    for round_number in (1, 2, 3, 4):
        submissions = play.answers(message)
        assert play.aggregator.round == round_number
        play.aggregator.receive("north", submissions["north"])
        for mistake, forged in mistakes(play, submissions["south"]).items():
            assert_refused(play, forged, mistake=mistake)
        before = sums(play)
        for sender in ("mallory", "aggregator", "South", ""):
            with pytest.raises(MessageError, match="not a party"):
                play.aggregator.receive(sender, changed(submissions["south"], sender=sender))
        with pytest.raises(MessageError, match=r"'north' refused: already submitted"):
            play.aggregator.receive("north", submissions["north"])
        assert sums(play) == before
        message = play.deliver(submissions)
    for found in play.finish(message):  # the result says what an aggregator and one party can read
        assert JOINT_KEYS_LEAVE in found.warnings
    assert [party for party, _ in play.aggregator.result().refused] == ["south", "north"]


def test_a_part_of_the_common_secret_that_is_too_long_is_refused_and_the_session_ends_right(play: JointPlay) -> None:
    submissions = play.answers(play.until(2))
    play.aggregator.receive("north", submissions["north"])
    *key_parts, honest = contribution(submissions["south"]).parts
    assert len(honest) < 400
    for sealed, why in (
        (bytes(LONGEST_SECRET_PART + 1), "the part of the common secret is too long"),
        (honest + bytes(LONGEST_SECRET_PART + 1 - len(honest)), "the part of the common secret is too long"),
        (bytes(LONGEST_SECRET_PART + 4000), "the part of the common secret is too long"),  # as a message may be
        (bytes(10 * LONGEST_SECRET_PART), ".*bytes, at most"),
    ):
        assert_refused(play, signed(play, submissions["south"], *key_parts, sealed), why)
    play.finish(None, submissions)
    assert [party for party, _ in play.aggregator.result().refused] == ["south"]


def test_the_longest_part_of_the_common_secret_that_passes_is_refused_by_parties_by_name(play: JointPlay) -> None:
    commitments = {}
    for name, data in play.answers(play.until(1)).items():
        party = play.parties[name]
        parts = (*party._state.key_parts[:-1], bytes([0xC1]) * LONGEST_SECRET_PART)
        party._state = msgspec.structs.replace(party._state, key_parts=parts)
        commitments[name] = signed(play, data, _commitment(play.binding, name, digests(parts)), name=name)
    message = play.deliver(commitments)
    assert message is not None
    message = play.play_round(message)
    assert message is not None
    for name, accused in (("north", "south"), ("south", "north"), ("east", "north")):
        with pytest.raises(MessageError, match=f"contribution of party '{accused}': (?!the key parts)"):
            play.parties[name].respond(message)


def test_a_party_that_vanishes_is_named_and_the_session_goes_on_when_it_returns(play: JointPlay) -> None:
    message = play.until(1)
    with pytest.raises(TooFewPartiesError, match=r"0 of 3 .*missing: 'north', 'south', 'east'"):
        play.aggregator.finish_round()
    for round_number in (1, 2, 3, 4):
        submissions = play.answers(message)
        for name in ("north", "east"):
            play.aggregator.receive(name, submissions[name])
        before = sums(play)
        for _ in range(2):
            with pytest.raises(TooFewPartiesError, match=r"2 of 3 parties submitted, at least 3 are needed.*'south'"):
                play.aggregator.finish_round()
            assert sums(play) == before
            assert play.aggregator.round == round_number
        with pytest.raises(EvaluationError):
            play.aggregator.result()
        message = play.deliver(submissions)
    # In the last round nobody is missed: parties have what they need, and only acknowledge.
    play.answers(message)
    assert play.aggregator.finish_round() is None
    for party in play.parties.values():
        assert party.result().auc == pytest.approx(exact_auc(play.sites, GRID), abs=PRECISION)
