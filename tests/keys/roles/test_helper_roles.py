"""Sessions with a helper: the right sums for those who count, whoever vanishes; and nobody sees more than is theirs."""

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fhe_auc.base.errors import EvaluationError, InputError, MessageError, TooFewPartiesError
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.session import registry
from fhe_auc.session.computation import Result
from fhe_auc.session.messages import Message
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.session_keys import GENERATE
from fhe_auc_keys.roles.helped import HelpedSecrets, HelpedSubmission, Told
from fhe_auc_keys.roles.helper import Blobs, HelperMaterial, PadKeyOf, Response, SignedBlob, Word, response_of
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import PrivateKeys, seal_under, unseal_under
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from tests.support.exact_sessions import GRID, PLUGINS, found_in, pairs_of
from tests.support.helped_sessions import SITES, Play, payload_of
from tests.support.wire import LIMIT, changed, flipped, told, with_fields, with_told

both_protocols = pytest.mark.parametrize("protocol", [pytest.param("exact", marks=pytest.mark.slow), "verified"])


def spoilt(name: str, **fields: Any) -> Callable[[int, str, bytes], bytes]:
    """What a party submits, with other fields."""
    return lambda number, sender, data: (
        with_fields(data, HelpedSubmission, **fields) if (number, sender) == (1, name) else data
    )


@both_protocols
def test_a_party_whose_blob_does_not_open_is_left_out_and_named(protocol: str) -> None:
    blob = payload_of(Play(protocol).until(2), Blobs).signed[2].blob  # of another session
    for fields in ({"blob": bytes(len(blob))}, {"signature": bytes(64)}, {"blob": blob}):
        play = Play(protocol)
        play.play(spoil=spoilt("site 2", **fields))
        record = play.aggregator.result()
        assert record.missing == ("site 2",)
        assert "not signed by it, or not sealed to the helper" in dict(record.refused)["site 2"]
        for number in (0, 1, 3):
            assert found_in(play.parties[number].result()) == pairs_of(play.counted(2))


def test_where_too_few_blobs_open_there_is_no_result() -> None:
    with pytest.raises(TooFewPartiesError, match="the blobs of 3 parties open, at least 4 are needed"):
        Play(least=4).play(spoil=spoilt("site 2", signature=bytes(64)))
    for length in (0, 111, 113):  # refused at once
        with pytest.raises(MessageError, match=r"'site 0' refused: .*of another length"):
            Play().play(spoil=spoilt("site 0", blob=bytes(length)))


def test_a_wrong_answer_of_the_helper_is_refused_and_named_and_the_right_one_still_counts() -> None:
    play = Play()
    right = opened_by(play)
    found = payload_of(right, PadKeyOf)
    for change, why in (
        ({"pad_key": b"nothing"}, "pad key"),
        ({"pad_key": found.pad_key[:-1]}, "pad key"),
        ({"pad_key": payload_of(opened_by(Play()), PadKeyOf).pad_key}, "under another key"),
        ({"context": of_other_parameters()}, "other parameters"),
        *(
            ({"word": msgspec.structs.replace(found.word, **lie)}, why)
            for lie, why in (
                ({"unfit": ("site 1", "site 1")}, "somebody twice"),
                ({"unproved": ("site 1", "site 0")}, "leaves out"),
                ({"unfit": ("site 1",), "unproved": ("site 1",)}, "somebody twice"),
                ({"unfit": ("site 1",)}, "counts others"),
                ({"counted": found.word.counted[1:]}, "counts others"),
                ({"apart": ("site 1",)}, "counts others"),
                ({"apart": ("stranger",), "counted": ()}, "counts others"),
            )
        ),
    ):
        with pytest.raises(MessageError, match=rf"'helper-1' refused: .*{why}"):
            play.aggregator.receive(HELPER, with_fields(right, PadKeyOf, **change))
        assert why in play.aggregator.refusals[HELPER]
    # Nor can it make the aggregator or parties take in much more than is right.
    assert len(right) < play.aggregator.submission_limit < 10 * len(right)
    play.aggregator.receive(HELPER, right)
    last = play.helper.respond(play.aggregator.finish_round())
    assert len(last) < play.aggregator.submission_limit + 1024 < play.parties[0].download_limit + 2048


def opened_by(play: Play) -> bytes:
    """The helper's answer in round 2."""
    answer: bytes = play.helper.respond(play.until(2))
    return answer


def of_other_parameters() -> bytes:
    """A public context of a session of other parameters."""
    parameters = Play("exact", max_rows=20_000).session.manifest.decoded_plan(ExactPlan).parameters
    other = msgspec.structs.replace(parameters, plain_moduli=primes_above(2**40, 1, parameters.ring_dimension))
    return GENERATE[other.scheme](other)[0].to_bytes()


@pytest.mark.parametrize("caps", [None, 60], ids=["plain", "proved"])
def test_the_helper_sees_no_submission_and_no_digest_of_one(caps: int | None) -> None:
    """It knows the pads: with a digest it could try counts, as with the blind of what binds a proof to them."""
    play = Play(row_caps=caps)
    play.play()
    told = b"".join(play.sent[1:3])
    assert len(play.submissions) == SITES
    for data in play.submissions.values():
        found = payload_of(data, HelpedSubmission)
        assert found.blob in told
        hidden = [data, *found.parts, encode(found.parts), Message.from_bytes(data, limit=LIMIT).payload]
        if caps is not None:
            assert found.proof.parts[0] in told
            hidden += [found.proof.blind, found.proof.share]
        for secret in hidden:
            assert secret[:32] not in told
            assert hashlib.sha256(secret).digest() not in told


def test_parties_that_the_aggregator_makes_up_and_blobs_of_another_session_do_not_count_for_the_helper() -> None:
    """Else it could have one party's counts opened, among some of its own."""
    play = Play(least=2)
    question = play.until(2)
    blobs = payload_of(question, Blobs).signed
    replace = msgspec.structs.replace

    def respond(*listed: SignedBlob) -> Any:
        return payload_of(play.another_helper().respond(changed(question, payload=encode(Blobs(listed)))), PadKeyOf)

    signature = Identity.create("site 1").sign(b"helper's blob 1", b"anything")
    alone = respond(blobs[0], *(replace(each, blob=blobs[0].blob, signature=signature) for each in blobs[1:]))
    assert alone.word == Word((), ("site 1", "site 2", "site 3"), signature=alone.word.signature)
    assert alone == PadKeyOf(alone.word, b"", b"")  # nothing is opened
    for foreign in (payload_of(Play().until(2), Blobs).signed[0], replace(blobs[1], party="site 0")):
        assert [*respond(foreign, *blobs[1:]).word.left_out] == ["site 0"]
    for listed in ((blobs[0], *blobs[:2]), blobs[1::-1], (replace(blobs[0], party="stranger"), blobs[0])):
        with pytest.raises(MessageError, match="not of parties of the session, each once and in its order"):
            respond(*listed)


def test_the_helper_opens_once_and_decrypts_once_for_the_parties_whose_pads_it_opened() -> None:
    play = Play()
    question = play.until(2)
    answer = play.helper.respond(question)
    fewer = with_fields(question, Blobs, signed=payload_of(question, Blobs).signed[1:])
    for again in (question, fewer):
        with pytest.raises(MessageError, match="round 2, expected 3"):
            play.helper.respond(again)
    play.aggregator.receive(HELPER, answer)
    result = play.aggregator.finish_round()
    deceived = play.another_helper()
    deceived.restore(play.helper.saved())
    with pytest.raises(EvaluationError, match="not of the parties whose pads were taken off"):
        deceived.respond(with_fields(result, Result, counted=play.manifest.parties[1:]))
    play.helper.respond(result)
    with pytest.raises(MessageError):
        play.helper.respond(result)
    assert play.helper.ended


@both_protocols
def test_a_response_that_was_changed_is_refused(protocol: str) -> None:
    play = Play(protocol)
    message = play.until(4)
    response = told(message, Response)
    another_partys = (response.parts[1], *response.parts[1:])
    for lie in ({"parts": another_partys}, {"parts": ()}, {"sealed": flipped(response.sealed, -1)}):
        forged = with_told(message, Response, **lie)
        with pytest.raises(MessageError):
            play.parties[0].respond(forged)
        assert not play.parties[0].ended
    play.parties[0].respond(message)
    assert found_in(play.parties[0].result()) == pairs_of(play.sites)


def forging(play: Play, change: Callable[[bytes], tuple[bytes, ...]]) -> bytes:
    """The last message as it is where the helper has sent what `change` makes of the sums."""
    message = play.until(4)
    key = play.parties[0]._side._response_key
    associated = response_of(play.aggregator.digest, payload_of(message, Told).word.counted, ())
    response = told(message, Response)
    text = unseal_under(key, response.parts[0], response.sealed, associated=associated)
    (sums,) = decode(text, tuple[bytes, ...], "sums")
    sealed, parts = seal_under([key] * SITES, encode(change(sums)), associated=associated, content_key=bytes(32))
    return with_told(message, Response, sealed=sealed, parts=tuple(parts))


@both_protocols
def test_too_many_sums_and_too_few_give_no_number(protocol: str) -> None:
    changes: tuple[Callable[[bytes], tuple[bytes, ...]], ...] = (
        lambda sums: (),
        lambda sums: (b"",),
        lambda sums: (sums[8:],),
        lambda sums: (2 * sums,),
        lambda sums: (sums,) * 2,
    )
    for change in changes:
        play = Play(protocol)
        play.parties[0].respond(forging(play, change))
        with pytest.raises(EvaluationError, match="too many sums, or too few"):
            play.parties[0].result()
    play = Play(protocol)
    with pytest.raises(MessageError, match="have not 8 bytes each"):
        play.parties[0].respond(forging(play, lambda sums: (sums[1:],)))


def test_nobody_else_is_taken_for_the_helper_and_some_protocols_have_none() -> None:
    play, plugin = Play(), PLUGINS["verified"]
    own = decode(play.material["site 0"], HelpedSecrets, "material")
    with pytest.raises(InputError, match="length 4"):
        plugin.party(play.manifest, encode((*msgspec.structs.astuple(own), own.common_secret)), play.sites[0])
    helper = decode(play.delivery.helper, HelperMaterial, "material")
    stranger = msgspec.structs.replace(helper, keys=PrivateKeys.generate().components)
    with pytest.raises(InputError, match="not those of the session's helper"):
        plugin.helper(play.manifest, encode(stranger))
    request = Request(parties=("a", "b"), thresholds=GRID, keys="helper")
    with pytest.raises(InputError, match="has no helpers; exact, verified and the histograms have"):
        registry.load("semi-honest").prepare(request)
