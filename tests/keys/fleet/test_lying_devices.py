"""Devices that run other code: where counts are proved, each is left out and counted, and the others are exact."""

import hashlib
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError, TooFewPartiesError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.joint_randomness import helpers_share, joint_seed, weights
from fhe_auc.input_proofs.prove import prove, seeds_shape
from fhe_auc.input_proofs.sessions import NOT_PROVED, aggregators_share
from fhe_auc.input_proofs.verify import Query
from fhe_auc.rlwe.modular import Residues, uniform
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import Padded
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.fleet import aggregator, tables
from fhe_auc_keys.fleet.aggregator import NO_PROOF, NOT_SEALED, BlobList
from fhe_auc_keys.fleet.device import Record
from fhe_auc_keys.fleet.session import LIST, Verdict, sketch_info
from fhe_auc_keys.trust.signed_documents import claimed_body
from tests.support.fleet_sessions import CAP, GRID, Play, convened, fraction_of, sending, submitted_by, under_pad
from tests.support.wire import flipped

SEED = bytes(range(32))
HONEST = 6  # the first devices of a session
Lie = Callable[[Play, int], Record]
Change = Callable[[list[int], list[int], int], None]


def digits_of(play: Play, counts: list[int]) -> Residues:
    """Digits of counts; what is no count of so many digits stands as a whole in its lowest digit."""
    statement = play.computation.plan.proved.statement
    base, length, prime = statement.base, statement.length, statement.prime
    places = [
        [each // base**place % base for place in range(length)]
        if 0 <= each < base**length
        else [each % prime] + [0] * (length - 1)
        for each in counts
    ]
    return np.array(places, np.uint64).reshape(-1)


def claiming(change: Change) -> Lie:
    """A device with other counts; `change` is given all, the last is what is left, which are zero, and the prime."""

    def lie(play: Play, index: int) -> Record:
        counts = play.computation.plan.proved.statement.counts_of(submitted_by(play, index)).tolist()
        empty = [place for place, each in enumerate(counts[:-1]) if each == 0]
        change(counts, empty, play.computation.plan.proved.prime)
        return sending(play, index, under_pad(play, index, digits_of(play, counts), SEED), SEED)

    lie.__name__ = change.__name__
    return lie


def negative(counts: list[int], empty: list[int], prime: int) -> None:
    counts[empty[0]], counts[-1] = -1, counts[-1] + 1


def over_the_cap(counts: list[int], empty: list[int], prime: int) -> None:
    counts[empty[0]], counts[-1] = CAP, 0


def over_the_cap_with_less_than_nothing_left(counts: list[int], empty: list[int], prime: int) -> None:
    counts[empty[0]], counts[-1] = CAP, counts[-1] - CAP


def wrapping_around(counts: list[int], empty: list[int], prime: int) -> None:
    counts[empty[0]], counts[empty[1]] = 10**6, -(10**6)


def halves(counts: list[int], empty: list[int], prime: int) -> None:
    counts[empty[0]] = counts[empty[1]] = (prime + 1) // 2
    counts[-1] -= 1


def a_digit_beyond_the_base(play: Play, index: int) -> Record:
    """The same count, by a digit more than the base and one less in the place above."""
    submitted, statement = submitted_by(play, index), play.computation.plan.proved.statement
    submitted[:2] = statement.base + int(submitted[0]), (int(submitted[1]) - 1) % statement.prime
    return sending(play, index, under_pad(play, index, submitted, SEED), SEED)


def with_proof(padded: Padded, **changes: object) -> Padded:
    assert padded.proof is not None
    return padded._replace(proof=msgspec.structs.replace(padded.proof, **changes))


def honest(play: Play, index: int, seed: bytes = SEED) -> Padded:
    return under_pad(play, index, submitted_by(play, index), seed)


def a_proof_for_other_counts(play: Play, index: int) -> Record:
    """Counts that could be proved, and with them the proof of others; the parts are those of the counts."""
    others = digits_of(play, [CAP, *[0] * (2 * len(GRID))])
    return sending(
        play, index, with_proof(honest(play, index), share=under_pad(play, index, others, SEED).proof.share), SEED
    )


def anothers_sketch_and_proof(play: Play, index: int) -> Record:
    return sending(play, index, honest(play, 0), SEED)


def anothers_proof_under_parts_of_its_own(play: Play, index: int) -> Record:
    return sending(play, index, with_proof(honest(play, index), share=honest(play, 0).proof.share), SEED)


def of_another_session(play: Play, index: int) -> bytes:
    """What it has submitted to another session of the fleet, unsealed."""
    announced = play.opened(convened(play, play.known))
    record = play.device(index, announced=announced).submit(play.rows[index], b"").record
    return play.aggregator.identity.unseal(record.sketch, info=sketch_info(announced.manifest.digest, index))


def a_record_of_another_session(play: Play, index: int) -> Record:
    announced = play.opened(convened(play, play.known))
    record = play.device(index, announced=announced).submit(play.rows[index], b"").record
    return record._replace(session=play.announced.manifest.digest)


def an_earlier_proof_resealed(play: Play, index: int) -> Record:
    return sending(play, index, of_another_session(play, index), SEED, (bytes(32), bytes(32)))


def no_proof(play: Play, index: int) -> Record:
    inside = len(play.submitted[index].record.sketch) - aggregator.OVERHEAD
    return sending(play, index, honest(play, index).parts[0].ljust(inside, b"\0"), SEED)


def another_part_of_the_aggregator_s(play: Play, index: int) -> Record:
    padded = honest(play, index)
    return sending(play, index, with_proof(padded, parts=(bytes(32), padded.proof.parts[1])), SEED)


def randomness_of_its_own_choice(play: Play, index: int) -> Record:
    """A proof that would hold: it is made for another part of the helper's than the seed has."""
    padded, statement, digest = (
        honest(play, index),
        play.computation.plan.proved.statement,
        play.announced.manifest.digest,
    )
    parts = padded.proof.parts[0], bytes(32)
    own, helpers = weights(statement, joint_seed(digest, index, parts)), helpers_share(statement, SEED, digest, index)
    share = aggregators_share(statement, submitted_by(play, index), own, helpers)
    return sending(play, index, with_proof(padded, parts=parts, share=share), SEED)


def other_parts_signed_than_sent(play: Play, index: int) -> Record:
    padded = honest(play, index)
    return sending(play, index, padded, SEED, padded.proof.parts[::-1])


def another_seed(play: Play, index: int) -> Record:
    """The helper would subtract another pad than the device has added: any numbers at all."""
    return sending(play, index, honest(play, index), SEED[::-1])


def changed_on_its_way(play: Play, index: int) -> Record:
    """Its counts are wrong, and somebody exchanges its sketch for one that is right."""
    sketch = sending(play, index, honest(play, index), SEED).sketch
    return claiming(negative)(play, index)._replace(sketch=sketch)


LIES: dict[Lie, str] = {
    **{
        claiming(each): NOT_PROVED
        for each in (negative, over_the_cap, over_the_cap_with_less_than_nothing_left, wrapping_around, halves)
    },
    a_digit_beyond_the_base: NOT_PROVED,
    a_proof_for_other_counts: NOT_PROVED,
    anothers_sketch_and_proof: NO_PROOF,
    anothers_proof_under_parts_of_its_own: NOT_PROVED,
    a_record_of_another_session: NOT_SEALED,
    an_earlier_proof_resealed: NO_PROOF,
    no_proof: NO_PROOF,
    another_part_of_the_aggregator_s: NO_PROOF,
    randomness_of_its_own_choice: NOT_PROVED,
    other_parts_signed_than_sent: Verdict.UNSIGNED.sentence,
    another_seed: NOT_PROVED,
    changed_on_its_way: Verdict.UNSIGNED.sentence,
}


def refused(play: Play, *lies: Lie) -> dict[str, int]:
    """Play a session in which the devices after the honest ones tell these lies; how many are left out for what."""
    records = [play.submitted[index].record for index in range(HONEST)]
    play.write([*records, *(lie(play, index) for index, lie in enumerate(lies, HONEST))])
    collected, verdicts = play.to_the_end()
    assert verdicts.pop("counts") == HONEST
    assert play.reads(1, play.rows[:HONEST])
    return {**collected.refusals.counts, **verdicts}


def test_every_lie_is_left_out_under_its_reason_and_the_others_have_their_exact_fraction(tmp_path: Path) -> None:
    play = Play(tmp_path, HONEST + len(LIES), least=HONEST)
    assert refused(play, *LIES) == Counter(LIES.values())
    play.store.close()


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_so_is_each_alone(tmp_path: Path, lie: Lie) -> None:
    play = Play(tmp_path, HONEST + 1, least=HONEST)
    assert refused(play, lie) == {LIES[lie]: 1}
    play.store.close()


@pytest.mark.parametrize("proofs", [False, True], ids=["nothing is proved", "counts are proved"])
def test_one_device_that_runs_other_code_decides_the_auc_but_where_counts_are_proved(
    tmp_path: Path, proofs: bool
) -> None:
    """Its counts are below zero, and take away those of the others, as nobody sees what is under a pad."""
    play = Play(tmp_path, 8, proofs=proofs)
    bins, (prime,) = len(GRID), play.computation.plan.parameters.plain_moduli
    pooled = sum(np.histogram(data.y_score[data.y_true], [-1, *GRID[1:], 2])[0] for data in play.rows)
    lie = np.zeros(2 * bins, np.int64)
    lie[bins:] = -pooled
    lie[-1] += pooled.sum()  # all positives into the bin of the highest scores
    true = submitted_by(play, 2)
    if proofs:
        submitted = digits_of(
            play, [*(play.computation.plan.proved.statement.counts_of(true)[:-1].astype(int) + lie), 0]
        )
    else:
        submitted = true.copy()
        submitted[: 2 * bins] = (true[: 2 * bins].astype(np.int64) + lie) % prime
    play.write([*play.records[:2], sending(play, 2, under_pad(play, 2, submitted, SEED), SEED), *play.records[3:]])
    _, verdicts = play.to_the_end()
    found, others = play.read(0), play.rows[:2] + play.rows[3:]
    assert fraction_of(play.rows) < Fraction(9, 10)
    if proofs:
        assert verdicts == {"counts": 7, NOT_PROVED: 1}
        assert found.fraction == fraction_of(others)
    else:
        assert verdicts == {"counts": 8}
        assert found.auc > 0.95
    play.store.close()


@pytest.fixture
def play(tmp_path: Path) -> object:
    made = Play(tmp_path, 5, least=4)
    yield made
    made.store.close()


def test_of_a_member_s_records_the_first_counts_whose_proof_holds_in_whichever_file(play: Play) -> None:
    lying = claiming(negative)(play, 2)
    play.write([lying, *play.records], [lying])
    _, verdicts = play.to_the_end()
    assert verdicts == {"counts": 5, NOT_PROVED: 2}
    assert play.reads(2, play.rows)


def test_where_too_few_proofs_hold_nothing_is_opened(play: Play) -> None:
    play.write([*play.records[:3], *(claiming(negative)(play, index) for index in (3, 4))])
    play.collect()
    with pytest.raises(TooFewPartiesError, match=r"3 members count, at least 4 are needed \(2: its proof did not hold"):
        play.open()


def listed_anew(play: Play, *, key: bytes | None = None, **row: bytes) -> None:
    """Sign the list of blobs as an aggregator that has another key in it, or something else of member 3."""
    place, listed = play.place("blobs/blobs-000000.parquet"), play.place("blobs/list")
    table = tables.rows_in(tables.read(place), tables.BLOBS).to_pydict()
    for column, cell in row.items():
        table[column][3] = cell
    tables.write(place, data := tables.as_file(list(table.values()), tables.BLOBS))
    body = claimed_body(LIST, tables.read(listed), BlobList)
    files = (msgspec.structs.replace(body.files[0], digest=hashlib.sha256(data).digest()),)
    changed = msgspec.structs.replace(body, files=files, key=body.key if key is None else key)
    tables.write(listed, play.aggregator.sign(LIST, changed))


def answers_listed(play: Play) -> bytes:
    """The aggregator's, about member 3."""
    table = tables.rows_in(tables.read(play.place("blobs/blobs-000000.parquet")), tables.BLOBS)
    found: bytes = table.column("answers")[3].as_py()
    return found


def test_a_server_can_make_an_honest_proof_fail_and_the_sentence_says_so(play: Play) -> None:
    play.write()
    play.collect()
    listed_anew(play, answers=flipped(answers_listed(play), 0))
    _, verdicts = play.open()
    assert verdicts == {"counts": 4, NOT_PROVED: 1}
    assert "or a server made the proof fail" in NOT_PROVED


def test_a_list_without_a_key_or_with_answers_that_are_none_is_refused(play: Play) -> None:
    play.write()
    play.collect()
    listed = tables.read(play.place("blobs/list"))
    for key, error in (
        (b"", TamperedError),
        (play.aggregator.seal(LIST, play.helper.helper, bytes(31)), DeserialisationError),
    ):
        listed_anew(play, key=key)
        with pytest.raises(error):
            play.open()
    tables.write(play.place("blobs/list"), listed)
    listed_anew(play, answers=answers_listed(play)[1:])
    with pytest.raises(DeserialisationError, match="bytes of residues"):
        play.open()


def test_with_answers_under_two_keys_the_helper_would_read_counts_so_a_session_has_one(play: Play) -> None:
    """What masks a digit's wire is the same at both points; without it, what is left is the same for every mask."""
    statement, digest = play.computation.plan.proved.statement, play.announced.manifest.digest
    shape, t, digits = statement.shape, statement.prime, submitted_by(play, 0)
    queries = [Query(statement, bytes([number]) * 32, digest) for number in (1, 2)]
    weighing = uniform(KeyStream(bytes(32)), t, 4, statement.digits)
    found = set()
    for mask in (b"1", b"2"):
        seeds = uniform(KeyStream(mask * 32), t, *seeds_shape(shape))
        proofs = prove(statement, digits, weighing, seeds)[None]
        first, second = (query.answers(digits[None], proofs, weighing[None])[0, shape.chunk] for query in queries)
        of_mask = [query._lagrange[0, 0] for query in queries]
        found.add((int(first) * int(of_mask[1]) - int(second) * int(of_mask[0])) % t)
    assert len(found) == 1
    play.write(play.records[:3])
    play.collect()
    play.folder.joinpath("blobs").rename(play.folder / "first")
    play.write()
    play.collect()
    collected = [tables.read(play.place(f"{folder}/blobs-000000.parquet")) for folder in ("first", "blobs")]
    answers = [tables.rows_in(each, tables.BLOBS, ["answers"]).to_pydict()["answers"] for each in collected]
    assert answers[0] == answers[1][:3]


def test_a_device_and_the_server_together_pass_any_counts(play: Play) -> None:
    """As in Prio: the helper is given answers about other counts than the device has submitted, under the same pad."""
    shown, claimed = honest(play, 3), PartyData.from_arrays("made up", [1] * 30, [1.0] * 30)
    lie = under_pad(play, 3, digits_of(play, [*[0] * (2 * len(GRID) - 1), claimed.rows, 0]), SEED)
    sent = sending(play, 3, lie, SEED, shown.proof.parts)
    play.write([*play.records[:3], sending(play, 3, shown, SEED), play.records[4]])
    play.collect()
    digest = hashlib.sha256(sent.sketch).digest()
    listed_anew(play, sketch_digest=digest, blob=sent.blob, signature=sent.signature)
    opening, verdicts = play.open()
    assert verdicts == {"counts": 5}
    play.write([*play.records[:3], sent, play.records[4]])
    play.decrypt(play.add(opening)[0])
    assert claimed.rows > CAP
    assert play.reads(0, [*play.rows[:3], claimed, play.rows[4]])
