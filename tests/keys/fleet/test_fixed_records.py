"""All records are fixed before there is a query, a session has one list, and one word frees what devices answered for.

A device sees everything in the folder of blobs as soon as it is there. What it sees must be too late for it.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, InputError, TooFewPartiesError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.proofs import prove
from fhe_auc.input_proofs.sessions import NOT_PROVED, RANDOMNESS_BYTES, SEED_BYTES, QueryKey
from fhe_auc.input_proofs.statement import PROOFS
from fhe_auc.rlwe.modular import Residues, add, subtract, uniform
from fhe_auc.rlwe.packing import octet_rows, pack
from fhe_auc.session.computation import Submission
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie, Making, View
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.fleet import aggregator, fleet_session, helper, tables
from fhe_auc_keys.fleet.device import Record, released, write_records
from fhe_auc_keys.fleet.fleet_session import AnswersSeal
from fhe_auc_keys.store.key_store import KeyStore
from tests.keys.fleet.test_lying_devices import lying, query_listed
from tests.support.fleet_sessions import GRID, SEED, Play, convened, padded, sending
from tests.support.quotients import Oracle
from tests.support.wire import flipped

EVIL = 2
_HEAD = 96  # bytes of a proof that are not padded


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Play:
    made = Play(tmp_path_factory.mktemp("fleet") / "f", 8, least=6)
    assert made.submitted
    return made


@pytest.fixture
def play(made: Play, tmp_path: Path) -> Iterator[Play]:
    with made.copied(tmp_path) as copied:
        yield copied


def probe(play: Play) -> Record:
    """A whole record whose padded proof says that each quotient is y: the answer about it is the point."""
    honest, statement = padded(play, EVIL), play.computation.plan.proved.statement
    shape, share = statement.shape, np.zeros(statement.shape.size, np.uint64)
    share[shape.seeds :] = np.tile(np.arange(shape.quotient) + shape.calls + 1, PROOFS)
    proof = honest.proof[:_HEAD] + pack(share, statement.prime)
    return sending(play, EVIL, Submission(honest.parts, proof))


def points_in(
    play: Play, unsealed: Callable[[int, int, bytes], bytes] = lambda row, member, sealed: sealed
) -> list[int]:
    """What stands in the answers about the probe where the points of the query would be."""
    statement, found = play.computation.plan.proved.statement, []
    shape, width = statement.shape, (statement.prime - 1).bit_length()
    parts, _ = tables.parts_of(play.place("blobs"), tables.BLOBS)
    for part in parts:
        for row, (member, *_, answers) in enumerate(tables.rows_of(part, tables.BLOBS)):
            if member == EVIL:
                bits = int.from_bytes(unsealed(row, member, answers)[SEED_BYTES:], "little")
                found += [bits >> width * (shape.seeds + number) & (1 << width) - 1 for number in range(PROOFS)]
    return found


class Forging(Making):
    """Its quotients fit at the points, whatever its digits are."""

    points: list[int]

    def proof(self) -> bytes:
        statement, t, shape = self.statement, self.statement.prime, self.statement.shape
        seeds = uniform(KeyStream(bytes(32)), t, shape.chunk, PROOFS)
        made = prove(statement, self.digits, self.weights, seeds)
        oracle, weights = Oracle(statement), self.weights.tolist()
        for i, point in enumerate(self.points):
            own = made[shape.seeds + i * shape.quotient :][: shape.quotient]
            there = oracle.sums(oracle.wires(self.digits.tolist(), seeds.tolist(), point), weights)[i]
            wanted = there * pow(oracle.vanishing(point), -1, t)
            told = dict(zip(oracle.nodes, own.tolist(), strict=True))
            first = {node: int(node == oracle.nodes[0]) for node in oracle.nodes}
            more = (wanted - oracle.at(point, told)) * pow(oracle.at(point, first), -1, t)
            own[0] = (int(own[0]) + more) % t
        return b"".join((*self._parts, self.blind, pack(add(made, self.pad, t), t)))


def forged(play: Play, points: list[int]) -> Submission:
    """All positives of the others are in the highest bin, and the proof fits at these points."""
    edges = [-1, *GRID[1:], 2]
    others = [data for index, data in enumerate(play.rows) if index != EVIL]
    taken = sum(np.histogram(data.y_score[data.y_true], edges)[0] for data in others).astype(np.uint64)

    def best(counts: Residues, view: View) -> Residues:
        found = counts.copy()
        found[:, 0, 1] = subtract(found[:, 0, 1], taken, view.prime)
        found[:, 0, 1, -1] = add(found[:, 0, 1, -1], taken.sum(), view.prime)
        return found

    def forging(making: Making, view: View) -> Making:
        names = "statement", "session", "party", "digits", "padded", "seed", "pad", "blind"
        made = Forging(**{name: getattr(making, name) for name in names})
        object.__setattr__(made, "points", points)
        return made

    return padded(play, EVIL, Lie("", best, making=forging))


def true_points(play: Play) -> list[int]:
    """Those that the helper looks at, which it alone can unseal."""
    seal = AnswersSeal(query_listed(play), play.announced.manifest.digest, "blobs-000000.parquet")
    return points_in(play, seal.unseal)


def test_who_reads_every_file_of_the_blobs_reads_no_point_of_the_query_nor_an_answer(play: Play) -> None:
    play.write([*play.records[:EVIL], probe(play), *play.records[EVIL + 1 :]])
    play.collect()
    points = true_points(play)
    assert len(points) == PROOFS
    assert not set(points_in(play)) & set(points)
    prime = play.computation.plan.proved.statement.prime
    everything = b"".join(path.read_bytes() for path in play.folder.rglob("*") if path.is_file())
    for secret in (query_listed(play), *(pack(np.array([each], np.uint64), prime) for each in points)):
        assert secret not in everything


def test_a_second_collection_is_refused_after_which_a_device_would_know_the_query(play: Play) -> None:
    """It sent a probe in the first one; too few count; then the records of the others come, and its false one."""
    play.write([play.records[0], play.records[1], probe(play), play.records[3]])
    play.collect()
    points, proofs = true_points(play), play.computation.proofs  # more than it can see
    known, false = QueryKey(query_listed(play)), forged(play, points)
    assert proofs is not None
    rows = octet_rows([false.parts[0]], len(false.parts[0])), octet_rows([false.proof], len(false.proof))
    digits = play.computation.unpacked(0, false.parts[0])[:, : proofs.digits]
    answers = proofs.answers(known, [EVIL], digits, proofs.received([EVIL], *rows))
    (pad,), randomness = play.computation.pads([EVIL], [SEED]), rows[1][:, :RANDOMNESS_BYTES]
    assert proofs.held(known, [EVIL], [SEED], pad, randomness, answers).all()  # under that query it passes
    assert not play.asked().opened
    shutil.rmtree(play.place("blobs"))
    others = [record for index, record in enumerate(play.records) if index != EVIL]
    play.write([*others, sending(play, EVIL, false)])
    with pytest.raises(KeysError, match="one list of submissions, and this is another one"):
        play.collect()
    play.adders.remove("list", play.announced.manifest.session.hex())
    play.collect()  # the query is another one, whose points the device does not know
    assert not set(points) & set(true_points(play))
    with pytest.raises(KeysError, match="another list"):
        play.asked()


def test_a_device_that_changes_its_file_while_others_are_asked_about_is_told_apart(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has seen all that is there, and even the keys; the file is named, and once it is put back all goes on."""
    others = [record for index, record in enumerate(play.records) if index != EVIL]
    files = [*others[:2], probe(play)], others[2:], [play.records[EVIL]]
    play.write(*files)
    real = aggregator._collected

    def while_the_aggregator_goes_on(*given: Any) -> Any:
        found = real(*given)
        if given[0].file.endswith("0.parquet"):
            seal = AnswersSeal(given[-1], play.announced.manifest.digest, given[3])
            points = points_in(play, seal.unseal)
            write_records(play.place("records/2.parquet"), [sending(play, EVIL, forged(play, points))])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(aggregator, "_collected", while_the_aggregator_goes_on)
        with pytest.raises(
            EvaluationError, match=r"2\.parquet' does not hold the records that were collected: put back"
        ):
            play.collect()
    assert not Path(play.place("blobs/blobs-000002.parquet")).exists()
    play.write(*files)
    _, verdicts = play.to_the_end()
    assert verdicts == {"counts": 8, NOT_PROVED: 1}
    assert play.reads(0, play.rows)


def test_there_is_no_query_before_the_last_file_is_read(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    play.write(play.records[:4], play.records[4:])
    real = aggregator._digest_of

    def interrupted(part: tables.RowGroup) -> tuple[bytes, str]:
        if part.file.endswith("1.parquet"):
            raise PowerCutError
        return real(part)

    with monkeypatch.context() as patch:
        patch.setattr(aggregator, "_digest_of", interrupted)
        with pytest.raises(PowerCutError):
            play.collect()
    assert play.adders.names("list") == ()
    assert not Path(play.place("blobs")).exists()
    play.to_the_end()


class PowerCutError(Exception):
    """The process dies at a write."""


def dying(patch: pytest.MonkeyPatch, at: int) -> None:
    """Let the write with this number, to a key store or a folder, be the last thing that is done; or not even that."""
    times = itertools.count()

    def cut(write: Callable[..., None]) -> Callable[..., None]:
        def once(*given: Any, **named: Any) -> None:
            number = next(times)
            if number == at:
                raise PowerCutError
            write(*given, **named)
            if number == at - 1:
                raise PowerCutError

        return once

    patch.setattr(KeyStore, "put", cut(KeyStore.put))
    patch.setattr(tables, "write_file", cut(tables.write_file))


def test_between_any_two_writes_a_crash_costs_nothing_and_changes_nothing(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.write(play.records[:4], play.records[4:])
    seen: list[set[bytes]] = []
    for at in itertools.count(1):
        with monkeypatch.context() as patch:
            dying(patch, at)
            try:
                play.collect()
                break
            except PowerCutError:
                seen.append({path.read_bytes() for path in play.folder.glob("blobs/*.parquet")})
                Path(play.place("blobs/list")).unlink(missing_ok=True)
    found = {path.read_bytes() for path in play.folder.glob("blobs/*.parquet")}
    assert len(seen) >= 3
    assert all(each <= found for each in seen)  # no answer was ever another one
    for at in (0, 1, 0, 1):  # before the list is in the helper's store, after it; before the answer is, after it
        with monkeypatch.context() as patch:
            dying(patch, at)
            with pytest.raises(PowerCutError):
                play.asked()
    play.decrypt(play.add(play.asked().document)[0])
    assert play.reads(0, play.rows)


def unopened(play: Play) -> bytes:
    """The helper's word about the session, of which five records are too few, and one more is a lie."""
    play.write([*play.records[:5], lying(play, 5, LIES["party-negative"])])
    play.collect()
    word, verdicts, opened = play.asked()
    assert (verdicts, opened) == ({"counts": 5, NOT_PROVED: 1}, False)
    return word


def test_a_folder_without_records_is_not_the_session_s_one_list(play: Play) -> None:
    Path(play.place("records")).mkdir()
    with pytest.raises(InputError, match="holds no records"):
        play.collect()
    play.write()
    assert play.collect().records == len(play.records)


def test_where_too_few_count_the_session_ends_and_the_helper_says_so_again_and_opens_nothing(play: Play) -> None:
    word = unopened(play)
    assert play.asked()[::2] == (word, False)
    with pytest.raises(TooFewPartiesError, match="opened nothing"):
        play.add(word)
    with pytest.raises(EvaluationError, match="no pads of this session have been opened"):
        play.decrypt(b"")
    kept = play.store.get("fleet", play.announced.manifest.session.hex())
    assert not any(each.response_key in kept for each in play.submitted)


def test_a_helper_ends_a_session_that_it_has_not_opened_and_never_says_so_of_another(play: Play) -> None:
    """Of one whose list is lost no device would be free otherwise."""
    at, name = play.consortium.at, play.announced.manifest.session.hex()
    with pytest.raises(KeysError, match="is not, with the keys that it has now"):
        helper.end(play.aggregator, play.adders, at=at)
    play.write()
    play.collect()
    word = helper.end(play.helper, play.store, at=at)
    assert released(play.submitted[0].memory, word)
    assert helper.end(play.helper, play.store, at=at) == play.asked().document == word
    play.store.remove("fleet", name)  # as if it were another session
    play.open()
    with pytest.raises(KeysError, match="have been opened"):
        helper.end(play.helper, play.store, at=at)


def test_the_helper_s_word_frees_the_rows_of_its_session_for_another_one_and_of_no_other(play: Play) -> None:
    word, rows, memory = unopened(play), play.rows[0], play.submitted[0].memory
    announced = play.opened(convened(play, play.known))
    again = play.device(0, announced=announced)
    with pytest.raises(EvaluationError, match="helper's word that nothing was opened"):
        again.submit(rows, memory)
    free = released(memory, word)
    with pytest.raises(EvaluationError, match="has answered this session"):
        play.device(0).submit(rows, free)
    sent = again.submit(rows, free)
    assert sent.record.sketch != play.submitted[0].record.sketch
    third = play.device(0, announced=play.opened(convened(play, play.known)))
    with pytest.raises(EvaluationError, match="answered for the same rows"):
        third.submit(rows, released(sent.memory, word))


def test_a_word_that_is_not_the_helper_s_about_that_session_frees_nothing(play: Play) -> None:
    word, memory = unopened(play), play.submitted[0].memory
    digest = play.announced.manifest.digest
    other = play.opened(convened(play, play.known)).manifest.digest
    for bad in (
        b"",
        *(flipped(word, at) for at in (0, 5, -1)),
        play.aggregator.identity.sign(fleet_session.UNOPENED, digest),  # the server's word is nothing
        play.helper.identity.sign(fleet_session.UNOPENED, other),
        play.helper.identity.sign(fleet_session.BLOB, digest),
        secrets.token_bytes(64),
    ):
        with pytest.raises(KeysError, match="of no session that the device has answered, or not by"):
            released(memory, bad)
    assert encode(released(memory, word)) != encode(memory)
