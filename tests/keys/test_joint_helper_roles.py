"""Sessions with several helpers: the right sums; whoever deviates is named; all helpers but one get nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.counts import PartyData
from fhe_auc.errors import EvaluationError, InputError, MessageError, TooFewPartiesError
from fhe_auc.journal import Journal
from fhe_auc.messages import Message
from fhe_auc.party_names import problem_with
from fhe_auc.protocol import Request
from fhe_auc.rlwe import modular
from fhe_auc.serialise import encode
from fhe_auc.sums import residues
from fhe_auc_keys.helper_roles import Response, _Blobs, _Given, _Submission
from fhe_auc_keys.joint_helper_roles import _commitment, _Summed
from fhe_auc_keys.roster import Contribution
from tests.support.exact_sessions import GRID, PLUGINS, both_protocols, found_in, pairs_of
from tests.support.helped_sessions import SITES, Play, changed, payload_of
from tests.support.pooled import exact_auc
from tests.support.stored_sites import GRID as STORED_GRID
from tests.support.stored_sites import Consortium
from tests.support.wire import LIMIT

COMMIT, REVEAL, PARTIAL, RETURN, LAST = 2, 3, 4, 5, 6


@both_protocols
@pytest.mark.parametrize("helpers", [2, 3])
def test_every_party_has_the_exact_fraction_of_all_rows(protocol: str, helpers: int) -> None:
    play = Play(protocol, helpers=helpers)
    play.play()
    for party in play.parties:
        result = party.result()
        assert found_in(result) == pairs_of(play.sites)
        assert (result.keys, result.rounds, result.verified) == ("helper", 2, protocol == "verified")
    record = play.aggregator.result()
    assert record.counted == record.delivered == tuple(data.name for data in play.sites)


@pytest.mark.parametrize("gone", [1, LAST])
def test_a_party_that_vanishes_costs_the_others_nothing(gone: int) -> None:
    """Before it has submitted, it does not count; afterwards it counts, and lacks its own result only."""
    play = Play("exact", helpers=2)
    play.play(absent=lambda number, name: name == "site 1" and number >= gone)
    expected = pairs_of(play.counted(1) if gone == 1 else play.sites)
    for number in (0, 2, 3):
        assert found_in(play.parties[number].result()) == expected
    assert play.aggregator.result().missing == (("site 1",) if gone == 1 else ())


def test_a_helper_that_vanishes_is_named_and_the_session_waits_for_it() -> None:
    play = Play("exact", helpers=3)
    message = play.up_to(REVEAL)
    for helper in (play.helpers[0], play.helpers[2]):
        play.aggregator.receive(helper.name, helper.respond(message))
    with pytest.raises(TooFewPartiesError, match=r"missing: 'helper-2'$"):
        play.aggregator.finish_round()
    play.aggregator.receive("helper-2", play.helpers[1].respond(message))
    assert play.aggregator.finish_round()


def with_blobs(change: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]) -> Callable[[int, str, bytes], bytes]:
    def spoil(number: int, sender: str, data: bytes) -> bytes:
        if (number, sender) != (1, "site 2"):
            return data
        found = payload_of(data, _Submission)
        return changed(data, payload=encode(msgspec.structs.replace(found, blobs=change(found.blobs))))

    return spoil


def test_blobs_that_open_at_one_helper_only_are_left_out_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a party that seals one of its blobs to another key, and signs all of them."""
    play = Play("exact", helpers=2)
    monkeypatch.setattr(play.parties[2], "_helpers", (play.parties[2]._helpers[0],) * 2)
    play.play()
    record = play.aggregator.result()
    assert record.missing == ("site 2",)
    assert "not signed by it, or not sealed to the helpers" in dict(record.refused)["site 2"]
    for number in (0, 1, 3):
        assert found_in(play.parties[number].result()) == pairs_of(play.counted(2))


def test_blobs_that_the_aggregator_mixes_are_left_out() -> None:
    play = Play("exact", helpers=2)
    play.play(spoil=with_blobs(lambda blobs: blobs[::-1]))
    assert play.aggregator.result().missing == ("site 2",)


def test_where_too_few_blobs_open_there_is_no_result() -> None:
    play = Play("exact", least=4, helpers=2)
    with pytest.raises(TooFewPartiesError, match="the blobs of 3 parties open, at least 4 are needed"):
        play.play(spoil=with_blobs(lambda blobs: blobs[::-1]))


# --- What helpers see, and when they refuse ---------------------------------------------------------------------------


def test_helpers_see_no_submission_and_no_digest_of_one() -> None:
    play, submissions = Play("exact", helpers=2), dict[str, bytes]()

    def note(number: int, name: str, data: bytes) -> bytes:
        if number == 1:
            submissions[name] = data
        return data

    play.play(spoil=note)
    told = b"".join(play.sent[1:5])
    assert len(submissions) == SITES
    for data in submissions.values():
        found = payload_of(data, _Submission)
        assert all(blob in told for blob in found.blobs)
        for secret in (data, *found.parts, encode(found.parts), Message.from_bytes(data, limit=LIMIT).payload):
            assert secret[:64] not in told
            assert hashlib.sha256(secret).digest() not in told


def answers(play: Play, messages: list[bytes]) -> None:
    """Give each helper a message of its own, and the aggregator all answers, without its own checks."""
    for helper, message in zip(play.helpers, messages, strict=True):
        answer = helper.respond(message)
        play.aggregator._contributions[helper.name] = payload_of(answer, Contribution)
        play.aggregator._answered[helper.name] = b""


def test_a_helper_that_is_given_another_list_of_blobs_is_not_followed() -> None:
    """Nor is one that is made to count others: what it signs hangs on what it was given."""
    play = Play("exact", helpers=2)
    question = play.up_to(COMMIT)
    fewer = changed(question, payload=encode(payload_of(question, tuple[_Blobs, ...])[1:]))
    answers(play, [question, fewer])
    passed_on = play.aggregator.finish_round()
    with pytest.raises(MessageError, match=r"'helper 2'.*was given something else by the aggregator"):
        play.helpers[0].respond(passed_on)


def test_who_counts_is_what_all_helpers_have_signed() -> None:
    """The aggregator cannot make a helper leave somebody out, or take somebody in, that the others do not."""
    play = Play("exact", helpers=2)
    message = play.up_to(REVEAL)
    first, second = payload_of(message, tuple[Contribution, ...])
    lie = msgspec.structs.replace(second, parts=(second.parts[0], encode(("site 1",))))
    for contributions, name in (((first, lie), "helper 2"), ((second, first), "helper"), ((first, first), "helper 2")):
        with pytest.raises(MessageError, match=f"contribution of party '{name}': .*no genuine signature"):
            play.helpers[0].respond(changed(message, payload=encode(contributions)))
    play.helpers[0].respond(message)


def summed(message: bytes) -> Any:
    return payload_of(message, _Summed)


def test_a_sum_of_sketches_that_differs_between_helpers_is_not_decrypted() -> None:
    play = Play("exact", helpers=2)
    message = play.up_to(PARTIAL)
    found = summed(message)
    other = bytes([found.padded[0][0] ^ 1]) + found.padded[0][1:]
    lie = changed(message, payload=encode(msgspec.structs.replace(found, padded=(other,))))
    answers(play, [message, lie])
    passed_on = play.aggregator.finish_round()
    for helper, name in zip(play.helpers, ("helper 2", "helper"), strict=True):
        with pytest.raises(MessageError, match=f"'{name}'.*was given something else"):
            helper.respond(passed_on)


def test_ciphertexts_that_the_aggregator_swaps_or_makes_are_refused() -> None:
    play = Play("exact", helpers=2)
    message = play.up_to(PARTIAL)
    found = summed(message)
    first, second = found.contributions
    swapped = msgspec.structs.replace(second, parts=(*second.parts[:1], *second.parts[:0:-1]))
    taken = msgspec.structs.replace(second, parts=first.parts)
    for lie in (swapped, taken, first):
        payload = encode(msgspec.structs.replace(found, contributions=(first, lie)))
        with pytest.raises(MessageError, match="contribution of party 'helper 2'"):
            play.helpers[0].respond(changed(message, payload=payload))
    assert not play.helpers[0]._state.partial


def test_a_helper_that_sends_other_parts_than_it_has_committed_to_is_named() -> None:
    """Else, as the last to send, it could have another's share decrypt to what it likes."""
    play = Play("exact", helpers=2)
    message = play.up_to(REVEAL)
    liar, state = play.helpers[1], play.helpers[1]._state
    liar._state = msgspec.structs.replace(state, parts=(state.parts[0], state.parts[2], state.parts[1]))
    answers(play, [message, message])
    with pytest.raises(MessageError, match="'helper 2': it is not what the helper has committed to"):
        play.helpers[0].respond(play.aggregator.finish_round())


def test_a_helper_cannot_commit_to_what_another_has() -> None:
    parts = (b"key", b"ciphertext")
    assert _commitment("helper", parts) != _commitment("helper 2", parts)
    assert _commitment("helper", parts) != _commitment("helper", parts[::-1])


def test_the_aggregator_refuses_what_helpers_would_and_names_whose_it_is() -> None:
    play = Play("exact", helpers=2)
    message = play.up_to(REVEAL)
    answer = play.helpers[1].respond(message)
    found = payload_of(answer, Contribution)
    lies = (
        (msgspec.structs.replace(found, signature=bytes(64)), "no genuine signature of 'helper 2'"),
        (Contribution.sign(play.helpers[1]._identity, play.aggregator._given, REVEAL, found.parts[1:]), "bytes of"),
    )
    for lie, why in lies:
        with pytest.raises(MessageError, match=f"'helper-2' refused: .*{why}"):
            play.aggregator.receive("helper-2", changed(answer, payload=encode(lie)))
    play.aggregator.receive("helper-2", answer)


@pytest.mark.parametrize("number", [COMMIT, REVEAL, PARTIAL, RETURN])
def test_a_helper_answers_a_round_once(number: int) -> None:
    play = Play("exact", helpers=2)
    message = play.up_to(number)
    play.helpers[0].respond(message)
    with pytest.raises(MessageError):
        play.helpers[0].respond(message)


def test_a_helper_goes_on_in_another_process_and_keeps_nothing_secret_when_it_has_ended() -> None:
    play = Play("exact", helpers=2)
    plugin, manifest = PLUGINS["exact"], play.session.manifest
    message = play.aggregator.start()
    while message is not None:
        for role in play.asked():
            play.aggregator.receive(role.name, role.respond(message))
        message = play.aggregator.finish_round()
        for number, helper in enumerate(play.helpers):
            play.helpers[number] = plugin.helper(manifest, play.delivery.helpers[number])
            play.helpers[number].restore(helper.saved())
    assert found_in(play.parties[0].result()) == pairs_of(play.sites)
    assert all(helper.ended and len(helper.saved()) < 500 for helper in play.helpers)


def test_the_share_of_the_key_and_the_seeds_are_gone_as_soon_as_they_have_been_used() -> None:
    play, states, kept = Play("exact", helpers=2), dict[int, Any](), dict[int, bytes]()

    def look(number: int, name: str, data: bytes) -> bytes:
        if name == "helper-1":
            states[number], kept[number] = play.helpers[0]._state, play.helpers[0].saved()
        return data

    play.play(spoil=look)
    seeds = [secret[:32] for _, secret in states[COMMIT].secrets]
    assert len(seeds) == SITES
    for secret in (*seeds, states[COMMIT].blind):
        assert secret in kept[COMMIT]
        assert secret not in kept[REVEAL]
    share, partial = states[COMMIT].share, states[PARTIAL].partial
    for secret, last in ((share, REVEAL), (partial, PARTIAL)):
        assert secret in kept[last]
        assert secret not in kept[last + 1]
    for secret in (*seeds, states[COMMIT].blind, share, partial):
        assert repr(secret)[2:20] not in repr(states[COMMIT]) + repr(states[PARTIAL])


# --- All helpers but one, with the aggregator -------------------------------------------------------------------------


@pytest.mark.parametrize("helpers", [2, 3])
def test_with_a_helper_missing_the_others_and_the_aggregator_have_neither_the_sums_nor_the_sketches(
    helpers: int,
) -> None:
    """All of them together have both, which is the measure here."""
    play = Play("exact", helpers=helpers)
    question, (prime, *_) = play.up_to(COMMIT), play.parties[0]._computation.plan.parameters.plain_moduli
    for helper in play.helpers:
        play.aggregator.receive(helper.name, helper.respond(question))
    seeds = [{party: secret[:32] for party, secret in helper._state.secrets} for helper in play.helpers]
    message = play.aggregator.finish_round()
    for helper in play.helpers:
        play.aggregator.receive(helper.name, helper.respond(message))
    found = summed(play.aggregator.finish_round())
    padded, plan = play.parties[0]._computation, play.parties[0]._computation.plan
    sketches = np.sum([party._task.encode(b"")[0] for party in play.parties], axis=0) % np.uint64(prime)

    def unpadded(known: list[dict[str, bytes]]) -> Any:
        total = residues.unpack(found.padded[0], plan.computed.sketch.size, prime)
        for each in known:
            total = modular.subtract(total, padded.pads_of(each)[0], prime)
        return total

    assert np.array_equal(unpadded(seeds), sketches)
    for missing in range(helpers):
        assert not np.any(unpadded(seeds[:missing] + seeds[missing + 1 :]) == sketches)

    together = play.helpers[0]._together
    result, keys = together.result(found.padded, [each.parts for each in found.contributions])
    shares = [together.share_type.restored(together.setup, helper._state.share) for helper in play.helpers]
    partials = [together.partial_shape.unpack(together.partial(share, result, keys)) for share in shares]
    expected = plan.computed.totals(sketches, prime)
    assert np.array_equal(together.combine(result, partials)[0], expected)
    for missing in range(helpers):
        assert not np.any(together.combine(result, partials[:missing] + partials[missing + 1 :])[0] == expected)


# --- What parties accept ----------------------------------------------------------------------------------------------


@both_protocols
def test_where_helpers_return_other_sums_there_is_no_result(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the party answers does not tell."""
    play = Play(protocol, helpers=2)
    message = play.up_to(RETURN)
    for helper in play.helpers:
        honest = helper._together.combine
        off = int(helper is play.helpers[1])
        monkeypatch.setattr(
            helper._together, "combine", lambda *given, honest=honest, off=off: [each + off for each in honest(*given)]
        )
        play.aggregator.receive(helper.name, helper.respond(message))
    last = play.aggregator.finish_round()
    sizes = {len(party.respond(last)) - len(party.name) for party in play.parties}
    assert len(sizes) == 1
    for party in play.parties:
        with pytest.raises(EvaluationError, match="have not returned the same sums"):
            party.result()


def test_a_party_takes_the_sums_of_all_helpers_in_their_order_or_none() -> None:
    play = Play("exact", helpers=2)
    message = play.up_to(LAST)
    given = payload_of(message, _Given)
    first, second = given.responses
    spoilt = Response(second.sealed[:-1] + bytes([second.sealed[-1] ^ 1]), second.parts)
    for responses in ((first,), (first, first), (second, first), (first, spoilt), (first, second, second)):
        lie = changed(message, payload=encode(msgspec.structs.replace(given, responses=responses)))
        with pytest.raises(MessageError, match=r"helper-[12] are not sealed|sums of [13] helpers"):
            play.parties[0].respond(lie)
    play.parties[0].respond(message)
    assert found_in(play.parties[0].result()) == pairs_of(play.sites)


def test_an_interval_with_several_helpers_is_hanley_and_mcneils() -> None:
    play = Play("verified", helpers=2, interval=0.95)
    play.play()
    interval = play.parties[0].result().interval
    assert interval.method == "Hanley and McNeil"


def test_a_session_has_three_helpers_at_most_and_each_role_knows_how_many() -> None:
    for number in (0, 4):
        with pytest.raises(InputError, match="1 to 3 helpers"):
            PLUGINS["exact"].prepare(Request(parties=("a", "b"), thresholds=GRID, keys="helper", helpers=number))
    two, three = (Play("exact", helpers=number) for number in (2, 3))
    plugin, manifest = PLUGINS["exact"], two.session.manifest
    with pytest.raises(InputError, match="3 helpers, the session has 2"):
        plugin.party(manifest, three.delivery.parties["site 0"], three.sites[0])
    with pytest.raises(InputError, match="'helper' is none of the session's 2 helpers"):
        plugin.helper(manifest, three.delivery.helpers[0])
    with pytest.raises(InputError, match="names 3 helpers, the session has 2"):
        plugin.aggregator(manifest, three.delivery.aggregator)


@pytest.mark.parametrize("name", ["helper-1", "Helper-2", "helper-3"])
def test_no_party_has_a_helpers_name(name: str) -> None:
    assert problem_with(name) == f"must not be {name.lower()!r}"


# --- Between machines -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("helpers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_session_with_several_helpers_is_played_out_of_key_stores(
    helpers: int, site_rows: list[PartyData], tmp_path: Path
) -> None:
    """Each role is a process of its own in every round, the aggregator too; and asked twice says the same."""
    consortium = Consortium(site_rows, tmp_path / "c", "exact", keys="helper", helpers=helpers, min_parties=2)
    message: bytes | None = b""
    with Journal(tmp_path / "journal") as journal:
        while message is not None:
            aggregator = consortium.aggregator()
            aggregator.journal = journal
            message = aggregator.start()
            for name in aggregator.asked:
                answer = consortium.answer(name, message)
                assert consortium.answer(name, message) == answer
                aggregator.receive(name, answer)
            message = aggregator.finish_round()
    assert aggregator.result().delivered == tuple(consortium.sites)
    exact = exact_auc(site_rows, STORED_GRID)
    assert [found.auc for found in consortium.results.values()] == pytest.approx([exact] * 3, abs=1e-12)
