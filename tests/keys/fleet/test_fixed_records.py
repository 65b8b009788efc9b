"""All records are fixed before there is a query, a session has one list, and one word frees what devices answered for.

A device sees everything in the folder of blobs as soon as it is there. What it sees must be too late for it.
"""

from __future__ import annotations

import itertools
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, InputError, TooFewPartiesError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs import sessions as proof_sessions
from fhe_auc.input_proofs.proofs import Query, gadget, lagrange, prove
from fhe_auc.input_proofs.sessions import NOT_PROVED, RANDOMNESS_BYTES, SEED_BYTES
from fhe_auc.input_proofs.statement import PROOFS
from fhe_auc.rlwe.modular import Residues, add, multiply, subtract, total, uniform
from fhe_auc.rlwe.packing import octet_rows, pack, unpack, unpack_rows
from fhe_auc.session.computation import Submission
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie, Making, View
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.fleet import aggregator, helper, session, tables
from fhe_auc_keys.fleet.device import Record, released
from fhe_auc_keys.fleet.session import FleetSession, answers_cipher
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.fleet_sessions import GRID, SEED, Play, convened, lying, padded, query_listed, sending
from tests.support.wire import flipped

FLEET = {"number": 8, "least": 6, "per_file": 3}
PROBE, EVIL = 2, 7  # devices of one person, in different ranges


def probe(play: Play) -> Record:
    """A whole record in which the aggregator's share of a polynomial is y: its answers about it are the points."""
    honest, statement = padded(play, PROBE), play.computation.plan.proved.statement
    t, digest = statement.prime, play.announced.manifest.digest
    digits, known = unpack(honest.parts[0], play.computation.sizes[0], t), statement.shape.known
    digits[: statement.shape.calls] = range(1, statement.shape.calls + 1)
    part, blind = pack(digits, t), bytes(proof_sessions.BLIND_BYTES)
    proof = unpack(honest.proof[RANDOMNESS_BYTES + proof_sessions.BLIND_BYTES :], statement.shape.size, t)
    proof[:PROOFS] = range(known - PROOFS + 1, known + 1)
    parts = (
        proof_sessions.aggregators_part(blind, digest, PROBE, part),
        proof_sessions.helpers_part(SEED, digest, PROBE),
    )
    return sending(play, PROBE, Submission((part, *honest.parts[1:]), b"".join((*parts, blind, pack(proof, t)))))


def points_in(play: Play, key: bytes = b"") -> list[int]:
    """What stands in the answers about the probe where the points of the query would be; read by the query's key."""
    statement, table = play.computation.plan.proved.statement, play.table("blobs")
    answers, (row,) = table["answers"], np.flatnonzero(table["member"] == PROBE)
    if key:
        cipher = answers_cipher(key, play.announced.manifest.digest, play.file("").name)
        answers = np.frombuffer(cipher.update(answers.tobytes()), np.uint8).reshape(answers.shape)
    found, _ = unpack_rows(answers[row : row + 1, SEED_BYTES:], statement.shape.verifier_size, statement.prime)
    return [int(each) for each in found[0, :PROOFS]]


class Forging(Making):
    """Its proofs fit at the query's points, though what they are of is no digits."""

    key: bytes
    points: list[int]

    def proof(self) -> bytes:
        statement, t, shape = self.statement, self.statement.prime, self.statement.shape
        made = prove(statement, self.digits, self.weights, uniform(KeyStream(bytes(32)), t, *self.weights.shape))
        (seen,) = Query.drawn(statement, self.key, self.session).answers(self.digits[None], made[None])
        wires, quotients = seen[: shape.seeds].reshape(self.weights.shape), seen[shape.seeds :]
        sums = total(multiply(gadget(wires, shape.base, t), self.weights, t), t, axis=0)
        for number, point in enumerate(self.points):
            vanishing, first = 1, lagrange(shape.calls + 1, shape.quotient, point, t)[0]
            for call in range(1, shape.calls + 1):
                vanishing = vanishing * (point - call) % t
            off = (int(sums[number]) * pow(vanishing, -1, t) - int(quotients[number])) * pow(first, -1, t)
            place = shape.seeds + number * shape.quotient
            made[place] = (int(made[place]) + off) % t
        return b"".join((*self._parts, self.blind, pack(add(made, self.pad, t), t)))


def forged(play: Play, key: bytes, points: list[int]) -> Submission:
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
        made = Forging(**vars(making))
        vars(made).update(key=key, points=points)
        return made

    return padded(play, EVIL, Lie("", best, making=forging))


def test_who_reads_every_file_of_the_blobs_reads_no_point_of_the_query_nor_an_answer(play: Play) -> None:
    play.write([*play.records[:PROBE], probe(play), *play.records[PROBE + 1 :]])
    play.collect()
    points = points_in(play, query_listed(play))
    assert points == sorted(set(points), key=points.index)
    assert not set(points_in(play)) & set(points)
    prime = play.computation.plan.proved.statement.prime
    everything = b"".join(path.read_bytes() for path in play.folder.rglob("*") if path.is_file())
    for secret in (query_listed(play), *(pack(np.array([each], np.uint64), prime) for each in points)):
        assert secret not in everything


def test_a_second_collection_is_refused_after_which_a_device_would_know_the_query(play: Play) -> None:
    """It sent a probe in the first one; too few count; then the records of the others come, and its false one."""
    play.write([play.records[0], play.records[1], probe(play), play.records[3]])
    play.collect()
    known, proofs, computation = proof_sessions.QueryKey(query_listed(play)), play.computation.proofs, play.computation
    points = points_in(play, known)  # more than it can see
    false = forged(play, known, points)
    assert proofs is not None
    part, proof = (octet_rows([each], len(each)) for each in (false.parts[0], false.proof))
    digits = computation.unpacked_rows(0, part)[0][:, : proofs.digits]
    answers = proofs.answers(known, [EVIL], digits, proofs.received([EVIL], part, proof))
    pad, shown = computation.pads([EVIL], [SEED])[0], proof[:, :RANDOMNESS_BYTES]
    assert proofs.held(known, [EVIL], [SEED], pad, shown, answers).all()  # under that query it passes
    assert not play.asked().opened
    shutil.rmtree(play.place("blobs"))
    play.write([*play.records[:EVIL], sending(play, EVIL, false)])
    with pytest.raises(KeysError, match="one list of submissions, and this is another one"):
        play.collect()
    play.lose("adder", "list")
    play.collect()  # the query is another one, whose points the device does not know
    assert query_listed(play) != known
    with pytest.raises(KeysError, match="another list"):
        play.asked()


def test_a_device_that_changes_its_file_while_others_are_asked_about_is_told_apart(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has seen all that is there, and even the keys; the file is named, and once it is put back all goes on."""
    sent = [*play.records[:PROBE], probe(play), *play.records[PROBE + 1 :]]
    play.write(sent)
    real = aggregator._collected

    def while_the_aggregator_goes_on(*given: Any) -> Any:
        found = real(*given)
        if given[0].endswith(play.file("").name):
            identity, digest = play.aggregator.identity, play.announced.manifest.digest
            key = session.unsealed(identity, given[-2], digest, session.QUERY)
            false = sending(play, EVIL, forged(play, key, points_in(play, key)))
            tables.write_records(str(play.file("records", 2)), [play.records[6], false])
        return found

    with monkeypatch.context() as patch:
        patch.setattr(aggregator, "_collected", while_the_aggregator_goes_on)
        with pytest.raises(EvaluationError, match=r"000002\.parquet' has other records than were collected: put back"):
            play.collect()
    assert not play.file("blobs", 2).exists()
    play.write(sent)
    _, verdicts = play.to_the_end()
    assert verdicts == {"counts": 7, NOT_PROVED: 1}
    assert play.reads(0, [*play.rows[:PROBE], *play.rows[PROBE + 1 :]])


class PowerCutError(Exception):
    """The process dies at a write."""


@pytest.mark.parametrize("error", [PowerCutError, InputError])
def test_there_is_no_query_before_the_last_file_is_read(
    play: Play, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Nor a list, where a worker does not reach it."""
    play.write()
    real = aggregator._digest_of

    def interrupted(place: str, manifest: bytes) -> tuple[bytes, str]:
        last = place.endswith(play.file("", 2).name)
        if last and error is PowerCutError:
            raise PowerCutError
        return real(f"/nowhere{place}" if last else place, manifest)

    with monkeypatch.context() as patch:
        patch.setattr(aggregator, "_digest_of", interrupted)
        with pytest.raises(error):
            play.collect()
    with play.vault("adder").open() as store:
        assert store.names("list") == ()
    assert not Path(play.place("blobs")).exists()
    assert play.to_the_end()[0].records == len(play.rows)


def dying(patch: pytest.MonkeyPatch, at: int) -> None:
    """Let the write with this number, to a key store or a folder, be the last thing that is done; or not even that."""
    times = itertools.count()

    @contextmanager
    def cut() -> Iterator[None]:
        number = next(times)
        if number == at:
            raise PowerCutError
        yield
        if number == at - 1:
            raise PowerCutError

    @contextmanager
    def new(place: str, real: Callable[[str], Any] = tables._new) -> Iterator[Any]:
        with cut(), real(place) as file:
            yield file

    def put(*given: Any, real: Callable[..., None] = KeyStore.put, **named: Any) -> None:
        with cut():
            real(*given, **named)

    patch.setattr(KeyStore, "put", put)
    patch.setattr(tables, "_new", new)


def test_between_any_two_writes_a_crash_costs_nothing_and_changes_nothing(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    play.write([*play.records[:4], lying(play, 4, LIES["party-negative"]), *play.records[5:]])

    def until_done(step: Callable[[], Any], files: str, *again: str) -> Any:
        seen = list[set[bytes]]()
        for at in itertools.count(1):
            with monkeypatch.context() as patch, suppress(PowerCutError):
                dying(patch, at)
                done = step()
                break
            seen.append({path.read_bytes() for path in play.folder.glob(files)})
            for name in again:
                Path(play.place(name)).unlink(missing_ok=True)
        found = {path.read_bytes() for path in play.folder.glob(files)}
        assert len(seen) >= 3
        assert all(each <= found for each in seen)  # no answer was ever another one
        assert seen[-1]
        return done

    until_done(play.collect, "blobs/*.parquet", "blobs/list")
    assert until_done(play.asked, "answers/*").verdicts == {"counts": 7, NOT_PROVED: 1}
    result = play.add()

    def decrypted() -> None:
        with suppress(KeysError):  # where it is done, and was cut afterwards
            play.decrypt(result)

    until_done(decrypted, "answers/*")
    assert play.reads(0, [*play.rows[:4], *play.rows[5:]])


def unopened(play: Play) -> bytes:
    """The helper's word about the session, of which five records are too few, and one more is a lie."""
    play.write([*play.records[:5], lying(play, 5, LIES["party-negative"])])
    play.collect()
    word, verdicts, opened = play.asked()
    assert (verdicts, opened) == ({"counts": 5, NOT_PROVED: 1}, False)
    return word


def test_where_too_few_count_the_session_ends_and_the_helper_says_so_again_and_opens_nothing(play: Play) -> None:
    Path(play.place("records")).mkdir()
    with pytest.raises(InputError, match="holds no records, in files named as"):
        play.collect()  # none is not the session's one list
    word = unopened(play)
    assert play.asked()[::2] == (word, False)
    with pytest.raises(TooFewPartiesError, match="opened nothing"):
        play.add()
    with pytest.raises(EvaluationError, match="no pads of this session have been opened"):
        play.decrypt(b"")
    assert helper._FORMAT.unframe(play.kept()).content_key == b""


def test_a_helper_ends_a_session_that_it_has_not_opened_and_never_says_so_of_another(play: Play) -> None:
    """Of one whose list is lost no device would be free otherwise."""

    def ended(role: FleetSession) -> bytes:
        with play.vault("trustee").open() as store:
            return helper.end(role, store, at=play.consortium.at)

    with pytest.raises(KeysError, match="is not, with the keys that it has now"):
        ended(play.aggregator)
    play.write()
    play.collect()
    word = ended(play.helper)
    assert released(play.submitted[0].memory, word)
    assert ended(play.helper) == play.asked().document == word
    play.lose("trustee", "fleet")  # as if it were another session
    play.open()
    with pytest.raises(KeysError, match="have been opened"):
        ended(play.helper)


def test_the_helper_s_word_frees_the_rows_of_its_session_for_another_one_and_of_no_other(play: Play) -> None:
    word, rows, memory = unopened(play), play.rows[0], play.submitted[0].memory
    again, third = (play.device(0, announced=play.opened(convened(play, play.known))) for _ in range(2))
    free = released(memory, word)
    sent = again.submit(rows, free)
    for device, known, why in (
        (again, memory, "helper's word that nothing was opened"),
        (play.device(0), free, "has answered this session"),
        (third, released(sent.memory, word), "answered for the same rows"),
    ):
        with pytest.raises(EvaluationError, match=why):
            device.submit(rows, known)
    assert sent.record.sketch != play.submitted[0].record.sketch


def test_a_word_that_is_not_the_helper_s_about_that_session_frees_nothing(play: Play) -> None:
    word, memory, digest = unopened(play), play.submitted[0].memory, play.announced.manifest.digest
    other = play.opened(convened(play, play.known)).manifest.digest
    for bad in (
        b"",
        *(flipped(word, at) for at in (0, 5, -1)),
        play.aggregator.identity.sign(session.UNOPENED, digest),  # the server's word is nothing
        play.helper.identity.sign(session.UNOPENED, other),
        play.helper.identity.sign(session.LIST.purpose, digest),
        secrets.token_bytes(64),
    ):
        with pytest.raises(KeysError, match="of no session that the device has answered, or not by"):
            released(memory, bad)
    assert encode(released(memory, word)) != encode(memory)
