"""Sessions with a helper: the right sums for those who count, whoever vanishes; and nobody sees more than is theirs."""

import hashlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.api import federated_auc
from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, MessageError, TooFewPartiesError
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode, encode
from fhe_auc.exchange.exchange import Folder
from fhe_auc.input_proofs.sessions import BLIND_BYTES, RANDOMNESS_BYTES
from fhe_auc.machines import site_role
from fhe_auc.machines.answers import _FORMAT
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.session import registry
from fhe_auc.session.computation import Result
from fhe_auc.session.journal import Journal
from fhe_auc.session.messages import Message
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.session_keys import GENERATE
from fhe_auc_keys.cli.common import now
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.roles.helped import HelpedSecrets, HelpedSubmission, Told
from fhe_auc_keys.roles.helper import Blobs, HelperMaterial, PadKeyOf, Response, SignedBlob, Word, response_of
from fhe_auc_keys.site import key_erasure
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import PrivateKeys, seal_under, unseal_under
from fhe_auc_protocols.exact_auc.computations import ExactTask
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from fhe_auc_protocols.exact_auc.proved_counts import ProvedCounts
from tests.support.certified import DAY
from tests.support.exact_sessions import GRID, PLUGINS, found_in, pairs_of, rows
from tests.support.helped_sessions import SITES, Play, payload_of
from tests.support.machines import GRID as GRID_OF_MACHINES
from tests.support.machines import Attendant, MachineSession, played_over_files
from tests.support.stores import trail_of
from tests.support.wire import LIMIT, changed, flipped, told, with_fields, with_told

both_protocols = pytest.mark.parametrize("protocol", [pytest.param("exact", marks=pytest.mark.slow), "verified"])


@both_protocols
def test_a_party_whose_blob_does_not_open_is_left_out_and_named(protocol: str) -> None:
    blob = payload_of(Play(protocol).until(2), Blobs).signed[2].blob  # of another session
    for fields in ({"blob": bytes(len(blob))}, {"signature": bytes(64)}, {"blob": blob}):
        play = Play(protocol)
        play.play(spoilt={"site 2": fields})
        record = play.aggregator.result()
        assert record.missing == ("site 2",)
        assert "not signed by it, or not sealed to the helper" in dict(record.refused)["site 2"]
        for number in (0, 1, 3):
            assert found_in(play.parties[number].result()) == pairs_of(play.counted(2))


def test_a_wrong_answer_of_the_helper_is_refused_and_named_and_the_right_one_still_counts() -> None:
    play, other = Play(), Play()
    right: bytes = play.helper.respond(play.until(2))
    found, another = (payload_of(each, PadKeyOf) for each in (right, other.helper.respond(other.until(2))))
    for change, why in (
        ({"pad_key": b"nothing"}, "pad key"),
        ({"pad_key": found.pad_key[:-1]}, "pad key"),
        ({"pad_key": another.pad_key}, "under another key"),
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
            assert found.proof[:RANDOMNESS_BYTES] in told
            hidden += [found.proof[RANDOMNESS_BYTES:], found.proof[RANDOMNESS_BYTES + BLIND_BYTES :]]
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


@both_protocols
def test_too_many_sums_and_too_few_give_no_number(protocol: str) -> None:
    def told_by_the_helper(change: Callable[[bytes], tuple[bytes, ...]]) -> Any:
        """A party that has read what `change` makes of the sums, sealed as the helper does."""
        play = Play(protocol)
        message = play.until(4)
        party, response = play.parties[0], told(message, Response)
        associated = response_of(play.aggregator.digest, payload_of(message, Told).word.counted, ())
        text = unseal_under(party._side._response_key, response.parts[0], response.sealed, associated=associated)
        (sums,) = decode(text, tuple[bytes, ...], "sums")
        keys = [party._side._response_key] * SITES
        sealed, parts = seal_under(keys, encode(change(sums)), associated=associated, content_key=bytes(32))
        party.respond(with_told(message, Response, sealed=sealed, parts=tuple(parts)))
        return party

    few: list[Any] = [lambda sums: (), lambda sums: (b"",), lambda sums: (sums[8:],)]
    for change in (*few, lambda sums: (2 * sums,), lambda sums: (sums,) * 2):
        with pytest.raises(EvaluationError, match="too many sums, or too few"):
            told_by_the_helper(change).result()
    with pytest.raises(MessageError, match="have not 8 bytes each"):
        told_by_the_helper(lambda sums: (sums[1:],))


def test_nobody_else_is_taken_for_the_helper_and_some_protocols_have_none() -> None:
    play, plugin = Play(), PLUGINS["verified"]
    own = decode(play.material["site 0"], HelpedSecrets, "material")
    with pytest.raises(DeserialisationError, match="length 4"):
        plugin.party(play.manifest, encode((*msgspec.structs.astuple(own), own.common_secret)), play.sites[0])
    helper = decode(play.delivery.helper, HelperMaterial, "material")
    stranger = msgspec.structs.replace(helper, keys=PrivateKeys.generate().components)
    with pytest.raises(InputError, match="not those of the session's helper"):
        plugin.helper(play.manifest, encode(stranger))
    request = Request(parties=("a", "b"), thresholds=GRID, keys="helper")
    with pytest.raises(InputError, match="has no helpers; exact, verified and the histograms have"):
        registry.load("semi-honest").prepare(request)


# --- Proved -----------------------------------------------------------------------------------------------------------


CAP = 60

NAMES = tuple(f"site {number}" for number in range(SITES))


@pytest.fixture
def liars(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of those who submit a digit that is none: one lie that stands for all."""
    liars, this = set[str](), threading.local()  # parties may be threads
    encode_honestly, submit_honestly = ExactTask.encode, ProvedCounts.submitted

    def noted(task: ExactTask, common_secret: bytes) -> Any:
        this.party = task.party
        return encode_honestly(task, common_secret)

    def submitted(counts: ProvedCounts, sketch: Any, cap: int) -> Any:
        found = submit_honestly(counts, sketch, cap)
        if this.party in liars:
            found[0] = (found[0] + np.uint64(counts.statement.base)) % np.uint64(counts.prime)
        return found

    monkeypatch.setattr(ExactTask, "encode", noted)
    monkeypatch.setattr(ProvedCounts, "submitted", submitted)
    return liars


def proving(protocol: str = "verified", **asked: Any) -> Play:
    return Play(protocol, row_caps=CAP, **asked)


@both_protocols
def test_a_party_whose_proof_does_not_hold_is_left_out_and_named_to_all_and_never_called_a_liar(
    protocol: str, liars: set[str]
) -> None:
    play = proving(protocol)
    liars.add(NAMES[1])
    play.play()
    assert play.helper.who.unproved == (NAMES[1],)
    assert play.aggregator.counted == play.helper.who.unpadded == (NAMES[0], *NAMES[2:])
    record = play.aggregator.result()
    assert record.missing == (NAMES[1],)
    said = dict(record.refused)[NAMES[1]]
    assert "its proof did not hold" in said
    assert "a server made the proof fail" in said
    for number in (0, 2, 3):
        found = play.parties[number].result()
        assert found_in(found) == pairs_of(play.counted(1))
        assert found.unproved_parties == (NAMES[1],)
        assert any(f"{NAMES[1]} not counted: its proof did not hold" in each for each in found.warnings)


def test_a_party_that_is_left_out_is_told_why_on_the_helper_s_word_and_believes_nobody_else(liars: set[str]) -> None:
    play = proving()
    last = play.until(play.aggregator.rounds)
    word = payload_of(last, Told).word
    liars.add(NAMES[0])
    elsewhere = proving()
    foreign = payload_of(elsewhere.until(elsewhere.aggregator.rounds), Told).word
    for left_out in ({"unproved": NAMES[:1]}, {"unfit": NAMES[:1]}):
        lie = msgspec.structs.replace(word, counted=NAMES[1:], **left_out)
        for said in (lie, foreign):
            for party in play.parties:
                with pytest.raises(MessageError, match="not signed by the session's helper"):
                    party.respond(with_fields(last, Told, word=said))
                assert not party.ended
    for party in play.parties:
        party.respond(last)
        assert found_in(party.result()) == pairs_of(play.sites)


def test_one_that_lies_beside_one_that_is_away_leaves_the_others_the_exact_fraction_down_to_min_parties(
    liars: set[str],
) -> None:
    liars.add(NAMES[2])
    play = proving()
    play.play(away=NAMES[:1])
    assert found_in(play.parties[1].result()) == pairs_of(play.counted(0, 2))
    with pytest.raises(TooFewPartiesError, match=r"2 parties open and their proofs hold, at least 3 .* 'site 2'"):
        proving(least=3).play(away=NAMES[:1])


def test_a_submission_without_a_proof_with_another_s_or_for_other_numbers_is_refused_by_name() -> None:
    play, other = proving(), proving()
    sent = play.answers(play.aggregator.start())
    elsewhere = other.answers(other.aggregator.start())
    own, of_another, replayed = (
        payload_of(each, HelpedSubmission) for each in (sent[NAMES[0]], sent[NAMES[1]], elsewhere[NAMES[0]])
    )
    others = b"", of_another.proof, replayed.proof, flipped(own.proof, RANDOMNESS_BYTES + 3)
    for fields, why in (
        *(({"proof": proof}, r"'site 0' refused: .*proof") for proof in others),
        ({"proof": own.proof[:-1]}, "'site 0' refused: expected"),
        ({"parts": (flipped(own.parts[0], 5),)}, "its proof is none, or not about the numbers that it has submitted"),
    ):
        with pytest.raises(MessageError, match=why):
            play.aggregator.receive(NAMES[0], with_fields(sent[NAMES[0]], HelpedSubmission, **fields))
    assert play.deliver(sent) is not None
    plain = Play()
    message = plain.answers(plain.aggregator.start())[NAMES[0]]
    with pytest.raises(MessageError, match="or with one where the session has none"):
        plain.aggregator.receive(NAMES[0], with_fields(message, HelpedSubmission, proof=own.proof))


def test_who_changes_what_the_helper_is_told_of_a_proof_makes_it_fail_and_passes_nothing() -> None:
    play = proving()
    question = play.until(2)
    asked = payload_of(question, Blobs)

    def left_out(**changes: Any) -> Any:
        first = msgspec.structs.replace(asked.signed[0], **changes)
        answer = play.another_helper().respond(with_fields(question, Blobs, signed=(first, *asked.signed[1:])))
        word = payload_of(answer, PadKeyOf).word
        return word.unfit, word.unproved

    first, second = asked.signed[:2]
    assert left_out() == ((), ())
    for answers in (flipped(first.answers, 2), second.answers):
        assert left_out(answers=answers) == ((), NAMES[:1])
    for parts in (second.randomness, flipped(first.randomness, 5)):  # which the party has not signed
        assert left_out(randomness=parts) == (NAMES[:1], ())
    with pytest.raises(MessageError, match=r"expected .* bytes"):
        left_out(answers=first.answers[:-1])
    for key in (b"", bytes(31)):
        with pytest.raises(MessageError, match="key of the query"):
            play.another_helper().respond(with_fields(question, Blobs, key=key))


def test_the_query_is_told_to_the_helper_alone_and_is_the_same_without_the_journal_and_of_no_other_list(
    tmp_path: Path,
) -> None:
    """From answers about one submission under two keys the helper could work out counts."""
    session, submissions = between_machines(tmp_path / "session", min_parties=SITES - 1), dict[str, bytes]()

    def asked(*names: str, journal: Journal | None = None) -> bytes:
        """What a new process of the aggregator asks the helper, once these sites have submitted."""
        made = site_storage().aggregator(session.aggregator, session.files).aggregator()
        made.journal = journal
        message = made.start()
        for name in names:
            if name not in submissions:
                submissions[name] = site_role.answer(session.roles[name], message).submission
            made.receive(name, submissions[name])
        question = made.finish_round()
        assert question is not None
        return question

    def read_by(name: str, question: bytes) -> Blobs:
        with site_storage().site(session.roles[name]) as kept:
            protection = kept.session(session.id).protection
        return decode(Message.from_bytes(question, limit=len(question)).unseal(protection, HELPER), Blobs, "blobs")

    with Journal(tmp_path / "journal") as journal:
        question = asked(*NAMES, journal=journal)
    read = read_by(HELPER, question)
    assert (len(read.key), read_by(HELPER, asked(*NAMES))) == (32, read)  # as sites answer once
    with pytest.raises(KeysError, match="one list of submissions, and this is another one"):
        asked(*NAMES[1:])
    with pytest.raises(MessageError, match="not sealed"):
        read_by(NAMES[0], question)
    everything = question + b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (read.key, *(each.answers[-32:] for each in read.signed)):
        assert secret not in everything


def test_there_is_no_query_before_the_last_submission() -> None:
    play = proving()
    answers = play.answers(play.aggregator.start())
    for name in NAMES[:-1]:
        play.aggregator.receive(name, answers[name])
    early = {name: play.aggregator._side.submissions[name] for name in NAMES[:-1]}
    with pytest.raises(EvaluationError, match="1 submissions are not fixed: nothing can be asked before all are"):
        play.aggregator._side._blobs(early, play.aggregator.fix)
    play.aggregator.receive(NAMES[-1], answers[NAMES[-1]])
    asked, other = (payload_of(each, Blobs) for each in (play.aggregator.finish_round(), proving().until(2)))
    assert (len(asked.key), len(other.key)) == (32, 32)
    assert asked.key != other.key  # it is fresh
    assert repr(asked.key)[2:-1] not in repr(asked)


def test_caps_that_cannot_be_proved_are_refused_with_what_to_give() -> None:
    sites = [([0, 1, 1], [0.1, 0.8, 0.4]), ([0, 0, 1], [0.5, 0.2, 0.9])]
    for asked, why in (
        ({"keys": "sealed"}, 'with a helper only: give keys="helper"'),
        ({"protocol": "histogram-federated"}, "with exact and verified, not with protocol 'histogram-federated'"),
        ({"row_caps": {"party 1": 5}}, "'party 2' has none, and each party is to prove its own"),
        ({"row_caps": {"party 1": 5, "party 2": 5, "west": 5}}, "'west' is not a party"),
        ({"row_caps": {"Party 1": 5, "party 2": 5}}, "'Party 1' is not a party of the session, and party 'party 1'"),
        ({"row_caps": {1: 5, "party 2": 5}}, "1 is not a party of the session, and party 'party 1' has none"),
        ({"row_caps": 0}, "between 1 and .* got 0$"),
        ({"row_caps": {"party 1": 5, "party 2": 2.5}}, r"a cap for 'party 2' must be a whole number, got 2\.5$"),
        ({"row_caps": [5, 5]}, "or a mapping of each party's name to one, must be a whole number, got list$"),
        ({"row_caps": 2}, "has 3 rows, more than its row cap, 2"),
        ({"row_caps": 10**6}, r"\(196,607 would do\): lower the row caps or --max-rows, leave the interval out"),
        ({"row_caps": 10**8, "max_rows": 10**8, "interval": None}, r"\(33,554,431 would do\): .*-max-rows, or"),
    ):
        with pytest.raises(InputError, match=why):
            federated_auc(sites, **{"keys": "helper", "row_caps": 5, "protocol": "verified", **asked})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "not_proved"),
    [
        pytest.param({"score": ["a", "b"], "heterogeneity": True}, ["comparisons", "sites"], marks=pytest.mark.slow),
        ({"cluster": "patient", "by": ["sex"]}, ["intervals by patients"]),
    ],
)
def test_estimates_are_the_same_with_proofs_and_say_what_is_not_proved(
    asked: dict[str, Any], not_proved: list[str]
) -> None:
    """Groups, models and intervals; the same of whole sessions claims any session."""
    random, size = np.random.default_rng(7), 300
    table: dict[str, Any] = {"y": random.random(size) < 0.4, "site": random.integers(0, 6, size)}
    table |= {model: np.clip(0.3 * table["y"] + 0.7 * random.random(size), 0, 1).round(2) for model in "ab"}
    table |= {"patient": 10 * table["site"] + random.integers(0, 10, size), "sex": random.choice(["F", "M"], size)}
    options: dict[str, Any] = {"label": "y", "score": "a", "site": "site", "keys": "helper", "thresholds": "uniform:20"}
    plain, proved = (federated_auc(table, **{**options, **asked}, max_rows=600, row_caps=caps) for caps in (None, 100))
    assert proved.as_dict()["verified"].get("inputs not proved", []) == not_proved
    shown = "".join(f"; {each}: not proved" for each in not_proved)
    assert f"<li>proved of what parties put in: row caps{shown}</li>" in proved._repr_html_()
    assert (plain.estimates, plain.comparisons) == (proved.estimates, proved.comparisons)


def between_machines(folder: Path, **asked: Any) -> MachineSession:
    return MachineSession(rows(SITES, 7), folder, "verified", keys="helper", row_caps=CAP, max_rows=2000, **asked)


def test_between_machines_record_logs_trail_and_every_site_name_who_is_left_out(
    tmp_path: Path, liars: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    liars.add(NAMES[1])
    session = between_machines(tmp_path / "session", min_parties=2)
    with caplog.at_level(logging.INFO):
        record = played_over_files(session.aggregator, session.files, session.roles, session.folder / "exchange")
    assert (record.counted, record.missing) == ((NAMES[0], *NAMES[2:]), (NAMES[1],))
    why = "its proof did not hold that its rows are counts within its cap"
    assert session.told()["refused"][NAMES[1]].startswith(why)
    lines = [each.getMessage() for each in caplog.records if why in each.getMessage()]
    assert any(line.startswith("left out: ") for line in lines)  # at the aggregator
    assert any(line.startswith(f"{NAMES[1]}: ") for line in lines)  # at the helper
    found = session.outcome(NAMES[0])
    expected, *_ = pairs_of([data for data in session.sites.values() if data.name != NAMES[1]], GRID_OF_MACHINES)
    assert (found.fraction, found.unproved_parties, found.inputs_proved) == (expected, (NAMES[1],), "row caps")
    trail = trail_of(Path(session.roles[HELPER]["store"]))
    assert any(f'"not_proved": ["{NAMES[1]}"]' in line or f'"not_proved":["{NAMES[1]}"]' in line for line in trail)
    caplog.clear()
    Attendant(session.roles[NAMES[1]], Folder(session.folder / "exchange"), session.id).look()
    assert "the session has ended here without a result" in caplog.text
    with pytest.raises(EvaluationError, match="'site 1' is left out: its proof did not hold"):
        session.outcome(NAMES[1])


def test_what_a_session_that_never_ended_has_left_at_the_helper_is_erased_once_it_is_over(tmp_path: Path) -> None:
    session = between_machines(tmp_path / "session")
    helper, exchange = session.roles[HELPER], session.folder / "exchange"
    with pytest.raises(KeyboardInterrupt):  # once the helper has opened the sum of the pads
        played_over_files(session.aggregator, session.files, session.roles, exchange, killed_in=2)
    for days, stays in ((0, True), (8, True), (16, False)):
        with Vault(Path(helper["store"]), Path(helper["passphrase-file"])).open() as store:
            key_erasure.close_ended(store, at=now() + days * DAY)
            kept = _FORMAT.unframe(store.get("state", session.id.hex()))
            assert problems(store, at=now()) == []
        # What it would go on from, the question that it has answered last, and its answer.
        assert [bool(each) for each in (kept.party, kept.message, kept.submission)] == [stays] * 3
