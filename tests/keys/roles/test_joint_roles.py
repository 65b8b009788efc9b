"""Joint keys in rounds: the right AUC at the stated cost, and no mistake of a party or a stranger spoils a session."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, MessageError, TooFewPartiesError, UndefinedAucError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import JOINT_KEYS_LEAVE, JOINT_PADS_LEAVE
from fhe_auc_keys.roles.contributions import Contribution, digests
from fhe_auc_keys.roles.joint_roles import _commitment
from fhe_auc_keys.trust.identity import Identity
from tests.support.joint_sessions import GRID, PRECISION, JointPlay
from tests.support.pooled import exact_auc
from tests.support.wire import changed, payload_of

# --- The right AUC, and what it costs ---------------------------------------------------------------------------------


def test_a_pool_of_one_class_has_no_auc_under_joint_keys_either(site_rows: list[PartyData]) -> None:
    sites = [PartyData.from_arrays(data.name, np.zeros_like(data.y_true), data.y_score) for data in site_rows]
    play = JointPlay(sites)
    message = play.until(5)
    for party in play.parties.values():
        party.respond(message)
        for _ in range(2):
            with pytest.raises(UndefinedAucError, match="no positive row, so the AUC is undefined"):
                party.result()
        with pytest.raises(MessageError, match="round"):
            party.respond(message)


@pytest.mark.parametrize("protocol", ["exact", pytest.param("verified", marks=pytest.mark.slow), "histogram-federated"])
def test_every_result_says_what_an_aggregator_and_one_party_can_read(site_rows: list[PartyData], protocol: str) -> None:
    play = JointPlay(site_rows, protocol=protocol)
    for found in play.finish(play.until(1)):
        assert (JOINT_PADS_LEAVE if protocol == "histogram-federated" else JOINT_KEYS_LEAVE) in found.warnings


# --- Parties' mistakes, and strangers ---------------------------------------------------------------------------------


def contribution(data: bytes) -> Contribution:
    return decode(payload_of(data), Contribution, "")


def with_contribution(data: bytes, **fields: Any) -> bytes:
    return changed(data, payload=encode(msgspec.structs.replace(contribution(data), **fields)))


def signed_anew(play: JointPlay, name: str, data: bytes, **other: Any) -> bytes:
    """The message with something changed and signed for it, by the party's own key if not told otherwise.

    In round 2 the party has committed to what is changed, until `committed_as_before`.
    """
    parts = other.get("parts", contribution(data).parts)
    if play.aggregator.round == 2:
        play.aggregator._commitments[name] = _commitment(play.binding, name, digests(parts))
    honest = {
        "identity": play.identity(name),
        "session": play.aggregator._signed_binding(),
        "round_number": play.aggregator.round,
        "parts": parts,
    }
    return changed(data, payload=encode(Contribution.sign(**{**honest, **other})))


def committed_as_before(play: JointPlay) -> None:
    if play.aggregator.round == 2:
        play.aggregator._commitments = dict(zip(play.manifest.parties, play.committed, strict=True))


def with_part(play: JointPlay, name: str, data: bytes, index: int, change: Callable[[bytes], bytes]) -> bytes:
    """The message with one of the parts that the aggregator can read changed, and signed for it."""
    parts = list(contribution(data).parts)
    # Of the key parts those of public and relinearisation key; the rotation keys' is empty, and one is sealed.
    readable = slice(2) if play.aggregator.round == 2 else slice(None)
    changed_parts = parts[readable]
    changed_parts[index] = change(changed_parts[index])
    parts[readable] = changed_parts
    return signed_anew(play, name, data, parts=tuple(parts))


def in_another_order(play: JointPlay, name: str, data: bytes) -> bytes:
    parts = contribution(data).parts
    if play.aggregator.round == 2:
        return signed_anew(play, name, data, parts=(*parts[2::-1], *parts[3:]))
    return signed_anew(play, name, data, parts=parts[::-1])


def largest(part: bytes) -> bytes:
    """A coefficient that is not below its modulus."""
    return b"\xff" * 7 + part[7:]


MISTAKES: dict[str, Callable[[JointPlay, str, bytes], bytes]] = {
    "unsigned": lambda play, name, data: with_contribution(data, signature=b""),
    "signed with zeros": lambda play, name, data: with_contribution(data, signature=bytes(64)),
    "another text under the signature": lambda play, name, data: with_contribution(
        data, parts=tuple(part[:-1] + bytes([each ^ 1 for each in part[-1:]]) for part in contribution(data).parts)
    ),
    "signed by another party": lambda play, name, data: signed_anew(play, name, data, identity=play.identity("north")),
    "signed by a stranger of that name": lambda play, name, data: signed_anew(
        play, name, data, identity=Identity.create(name)
    ),
    "signed for the manifest alone": lambda play, name, data: signed_anew(
        play, name, data, session=play.manifest.digest
    ),
    "signed for another session": lambda play, name, data: signed_anew(play, name, data, session=bytes(32)),
    "signed for another round": lambda play, name, data: signed_anew(
        play, name, data, round_number=play.aggregator.round % 3 + 1
    ),
    "another party's": lambda play, name, data: changed(
        play.submission("north", play.aggregator.round), sender=name, session=play.manifest.session
    ),
    "payload cut off": lambda play, name, data: changed(data, payload=payload_of(data)[:-1]),
    "message cut off": lambda play, name, data: data[:-1],
    "message too long": lambda play, name, data: data + bytes(play.aggregator.submission_limit),
    "no parts": lambda play, name, data: signed_anew(play, name, data, parts=()),
    "a part too many": lambda play, name, data: signed_anew(play, name, data, parts=(*contribution(data).parts, b"")),
    "an empty part too many, before the others": lambda play, name, data: signed_anew(
        play, name, data, parts=(b"", *contribution(data).parts)
    ),
    "a part less": lambda play, name, data: signed_anew(play, name, data, parts=contribution(data).parts[:-1]),
    "the first part left out": lambda play, name, data: signed_anew(
        play, name, data, parts=contribution(data).parts[1:]
    ),
    "a part cut off": lambda play, name, data: with_part(play, name, data, -1, lambda part: part[:-1]),
    "a coefficient out of range, in the first part": lambda play, name, data: with_part(play, name, data, 0, largest),
    "a coefficient out of range, in the last part": lambda play, name, data: with_part(play, name, data, -1, largest),
    "parts in another order": in_another_order,
    "not a contribution": lambda play, name, data: changed(data, payload=encode([1, 2, 3])),
    "a later round": lambda play, name, data: changed(data, round=play.aggregator.round + 1),
    "another session": lambda play, name, data: changed(data, session=bytes(16)),
    "another manifest": lambda play, name, data: changed(data, manifest=bytes(32)),
}
COEFFICIENTS = (
    "a coefficient out of range, in the first part",
    "a coefficient out of range, in the last part",
    "parts in another order",
)
UNSEEN: dict[int, tuple[str, ...]] = {
    1: COEFFICIENTS,  # a commitment is one part, and any 32 bytes
    4: ("a part cut off", *COEFFICIENTS),  # a partial decryption is sealed to the parties
}
"""What the aggregator cannot tell, in which round."""


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


def test_every_mistake_in_every_round_is_refused_by_name_and_the_session_still_ends_right(
    site_rows: list[PartyData],
) -> None:
    play = JointPlay(site_rows)
    message = play.until(1)
    for round_number in (1, 2, 3, 4):
        submissions = play.answers(message)
        play.aggregator.receive("north", submissions["north"])
        before = sums(play)
        for name, mistake in MISTAKES.items():
            if name in UNSEEN.get(round_number, ()):
                continue
            with pytest.raises(MessageError, match=r"'south' refused: (?!the key parts)"):
                play.aggregator.receive("south", mistake(play, "south", submissions["south"]))
            committed_as_before(play)
            assert sums(play) == before, name
        for sender in ("mallory", "aggregator", "South", ""):
            with pytest.raises(MessageError, match="not a party"):
                play.aggregator.receive(sender, changed(submissions["south"], sender=sender))
        with pytest.raises(MessageError, match=r"'north' refused: already submitted"):
            play.aggregator.receive("north", submissions["north"])
        assert sums(play) == before
        message = play.deliver(submissions)
    play.finish(message)
    assert [party for party, _ in play.aggregator.result().refused] == ["south", "north"]


def test_a_part_of_the_common_secret_that_is_too_long_is_refused_by_name_and_the_session_still_ends_right(
    site_rows: list[PartyData],
) -> None:
    play = JointPlay(site_rows)
    submissions = play.answers(play.until(2))
    play.aggregator.receive("north", submissions["north"])
    before = sums(play)
    *key_parts, honest = contribution(submissions["south"]).parts
    assert len(honest) < 400
    for sealed in (
        bytes(LONGEST_SECRET_PART + 1),
        honest + bytes(LONGEST_SECRET_PART + 1 - len(honest)),
        bytes(LONGEST_SECRET_PART + 4000),  # as long as the message may be
    ):
        long = signed_anew(play, "south", submissions["south"], parts=(*key_parts, sealed))
        with pytest.raises(MessageError, match=r"'south' refused: the part of the common secret is too long"):
            play.aggregator.receive("south", long)
        committed_as_before(play)
        assert sums(play) == before
    longer = signed_anew(play, "south", submissions["south"], parts=(*key_parts, bytes(10 * LONGEST_SECRET_PART)))
    with pytest.raises(MessageError, match=r"'south' refused: .*bytes, at most"):
        play.aggregator.receive("south", longer)
    committed_as_before(play)
    assert sums(play) == before
    play.finish(None, submissions)
    assert [party for party, _ in play.aggregator.result().refused] == ["south"]


def test_the_longest_part_of_the_common_secret_that_passes_still_reaches_the_parties_who_refuse_it_by_name(
    site_rows: list[PartyData],
) -> None:
    play = JointPlay(site_rows)
    commitments = {}
    for name, data in play.answers(play.until(1)).items():
        party = play.parties[name]
        parts = (*party._state.key_parts[:-1], bytes([0xC1]) * LONGEST_SECRET_PART)
        party._state = msgspec.structs.replace(party._state, key_parts=parts)
        commitments[name] = signed_anew(play, name, data, parts=(_commitment(play.binding, name, digests(parts)),))
    message = play.deliver(commitments)
    assert message is not None
    message = play.play_round(message)
    assert message is not None
    for name, accused in (("north", "south"), ("south", "north"), ("east", "north")):
        with pytest.raises(MessageError, match=f"contribution of party '{accused}': (?!the key parts)"):
            play.parties[name].respond(message)


def test_a_party_that_vanishes_is_named_and_the_session_goes_on_when_it_returns(site_rows: list[PartyData]) -> None:
    play = JointPlay(site_rows)
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
        assert party.result().auc == pytest.approx(exact_auc(site_rows, GRID), abs=PRECISION)
