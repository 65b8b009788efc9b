"""The aggregator of a fleet: it collects records and adds them up, and takes off those that do not count.

Every record is unsealed once. What they all sum to is in the aggregator's key store alone until the helper has said who
counts: what it differs by from the sum of those that count is, where one does not, that device's.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, TooFewPartiesError
from fhe_auc.base.serialise import KeptFormat, SecretStruct, decode, encode
from fhe_auc.input_proofs.sessions import RANDOMNESS_BYTES, QueryKey, Submissions
from fhe_auc.question.fleet import Range
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.packing import octet_rows
from fhe_auc.rlwe.polynomials import Words
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.fleet import session as sessions
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.session import COUNTS, Document, FleetSession, Loaded, TableFile, loaded, sealed, unsealed
from fhe_auc_keys.fleet.tables import Columns, within
from fhe_auc_keys.fleet.workers import OwnKeys, Workers
from fhe_auc_keys.roles.blobs import bytes_of, totals_of
from fhe_auc_keys.store import fixed_lists
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.signatures import has_signed
from fhe_auc_keys.trust.signed_documents import sign_document

LIST_FILE, OPENING_FILE = "list", "opening"
UNREADABLE = "the file cannot be read to its end, or is of no range"
REASONS = OTHER_FILE, NOT_SEALED, NO_SKETCH, NO_PROOF = (
    "it is of no member in the file of keys of that name",
    "its sketch is not sealed to the aggregator for this session and member",
    "its sketch is none: a number in it is too large",
    "its proof is none, or about other numbers than it has submitted",
)
_WHOLE = len(REASONS)
_EXAMPLES = 5

Refused: TypeAlias = dict[str, tuple[int, list[str]]]
"""Why records do not count: how many, and a few of them, by reason."""


class _Added(SecretStruct, frozen=True):
    """Of a session, in the key store."""

    blobs: bytes  # the list, `known_by`
    total: bytes  # of all sketches that it lists, padded
    records: dict[str, bytes]  # by name the digest of each file that was collected
    opening: bytes = b""  # digest of the helper's one answer that is added up: two would tell what lies between


_FORMAT = KeptFormat(b"fhefadd", _Added, "sum of a fleet's sketches")


class Collected(NamedTuple):
    """What collecting has found."""

    records: int  # that the helper is to open
    refused: Refused


def collect(
    session: FleetSession, vault: Vault, records: str, blobs: str, workers: Workers, *, at: datetime
) -> Collected:
    """Fix all records in a folder, check them, and write the blobs of those that are whole into the folder `blobs`.

    They are read twice: there is no query, by which proofs are asked, before the digest of all of them is in the key
    store. So they must stay as they are until `add`; the same ones, collected again, make the same list. The store, of
    `vault`, is closed while workers work.

    Raises `KeysError` where this is not the aggregator, or other records were fixed; `EvaluationError` where a file has
    changed in between; `InputError` where there are no records, a folder or file cannot be read or written, or both
    folders are the same.
    """
    session.require(session.announced.aggregator, at=at)
    tables.require_apart(records, blobs)
    me, manifest, computation = session.identity, session.manifest, session.loaded.computation
    there, refused, digests = {*tables.names_in(records)}, Refused(), dict[str, bytes]()
    if not (mine := [each for each in session.ranges if each.name in there]):  # it would be the session's one list
        raise InputError(f"{records!r} holds no records, in files named as those of the fleet's keys are")
    for name in sorted(there.difference(each.name for each in mine)):
        _refuse(refused, UNREADABLE, 1, [repr(within(records, name))])  # which may hold anything
    fixed, shared = Submissions(len(mine)), manifest.to_bytes()
    found = workers.map(_digest_of, ((within(records, own.name),) for own in mine), shared)
    for own, (digest, problem) in zip(mine, found, strict=True):
        fixed.add(encode((own.name, digest)))
        if digest:
            digests[own.name] = digest
        else:  # none of a file counts that cannot be read to its end
            _refuse(refused, UNREADABLE, 1, [problem])
    with vault.open() as store:
        query = fixed.query_key(fixed_lists.fix(store, me, manifest, fixed.digest), manifest.digest)
    to_me, to_helper = me.encryption_key, session.helper.encryption_key
    own_key, told_key = (sealed(to, query, manifest.digest, sessions.QUERY) for to in (to_me, to_helper))
    whole = [own for own in mine if own.name in digests]
    tasks = ((within(records, own.name), own, digests[own.name], blobs) for own in whole)
    files, total = list[TableFile](), computation.added([])
    for file, summed, others in workers.map(_collected, tasks, shared, own_key, workers.keys(vault)):
        files.append(file)
        total = computation.added([total, sum_in(session, summed, file.name)])
        for why, (number, named) in others.items():
            _refuse(refused, why, number, named)
    listed = Document(manifest.digest, b"", told_key, tuple(files))
    with vault.open() as store:
        name = manifest.session.hex()
        opening = store.load("fleet", name, _FORMAT).opening if store.has("fleet", name) else b""
        kept = _Added(listed.known_by, encode(bytes_of(total)), digests, opening)
        store.put("fleet", name, _FORMAT.frame(kept), replace=True)
    tables.write_file(within(blobs, LIST_FILE), sign_document(sessions.LIST, me, listed))
    return Collected(sum(each.rows for each in files), refused)


def add(
    session: FleetSession, vault: Vault, records: str, blobs: str, answers: str, workers: Workers, *, at: datetime
) -> tuple[bytes, dict[str, int]]:
    """Return the encrypted result, for the helper, and how many records do not count, by reason.

    `records` and `blobs` are as of `collect`, and `answers` is the helper's folder. Raises `KeysError` where this is no
    aggregator, or the answer not the helper's, for other blobs, or another one than was added up before;
    `EvaluationError` where a file has changed of which records are to be taken off; `DeserialisationError` where a file
    of answers is another than is listed, or not about the blobs, of as many members, each once, as the helper says;
    `TooFewPartiesError` where fewer count than the session takes, or the helper says that it opened nothing.
    """
    adder, helper = session.announced.aggregator, session.helper
    session.require(adder, at=at)
    me, manifest, computation = session.identity, session.manifest, session.loaded.computation
    listed = session.read(sessions.LIST, tables.read_file(within(blobs, LIST_FILE)), adder, at=at)
    opening = tables.read_file(within(answers, OPENING_FILE))
    if has_signed(helper.signing_key, sessions.UNOPENED, manifest.digest, opening):
        raise TooFewPartiesError("the helper has opened nothing, as too few count: the session has ended")
    answer, about = session.read(sessions.OPENING, opening, helper, at=at), hashlib.sha256(opening).digest()
    if (counted := sum(each.rows for each in answer.files)) < manifest.min_parties:
        raise TooFewPartiesError(f"{counted} members count, at least {manifest.min_parties} are needed")
    keys = computation.keys(answer.context, unsealed(me, answer.sealed, manifest.digest, sessions.PADS))
    with vault.open() as store:  # before anything is made of the answer
        kept = store.load("fleet", manifest.session.hex(), _FORMAT)
        if {answer.about, kept.blobs} != {listed.known_by} or len(listed.files) != len(answer.files):
            raise KeysError("the helper's answer is for other blobs than are listed here, or this key store has added")
        if kept.opening not in (b"", about):
            raise KeysError("the helper has given another answer, which was added up: a session has one")
        kept = msgspec.structs.replace(kept, opening=about)
        store.put("fleet", manifest.session.hex(), _FORMAT.frame(kept), replace=True)
    files = zip(listed.files, answer.files, strict=True)
    tasks = ((within(records, own.name), own, said, kept.records[own.name]) for own, said in files)
    found = workers.map(_left_out, tasks, blobs, answers, manifest.to_bytes(), workers.keys(vault))
    total = _words(kept.total)
    for own, summed in zip(listed.files, found, strict=True):
        off = sum_in(session, summed, own.name)
        total = [modular.subtract(*each) for each in zip(total, off, computation.primes, strict=True)]
    result = sealed(helper.encryption_key, computation.aggregate(keys, total), manifest.digest, sessions.SUMS)
    body = Document(manifest.digest, about, result)
    return sign_document(sessions.RESULT, me, body), sessions.told((0, *answer.numbers[COUNTS + 1 :]))


def sum_in(session: FleetSession, summed: bytes, file: str) -> list[Words]:
    """Return what a task of this role has added up for a file (`Task.summed`); errors as `unsealed`."""
    return _words(unsealed(session.identity, summed, session.loaded.digest, file))


class Task:
    """A role's task over the records or blobs of one range, and the sum of those that it adds."""

    def __init__(self, manifest: bytes, keys: OwnKeys, file: str) -> None:
        self.session, self.me, self._file = loaded(manifest), keys.identity(), file
        self.digest, self.computation = self.session.digest, self.session.computation
        self._total = self.computation.added([])

    def add(self, rows: Iterable[Residues], which: NDArray[np.bool_]) -> None:
        """Add these sketches or pads, each part of the shape (rows, size) or longer."""
        parts = zip(rows, self.computation.sizes, self.computation.primes, strict=True)
        more = [modular.total(chosen(each, which)[:, :size], prime, axis=0)[None] for each, size, prime in parts]
        self._total = self.computation.added([self._total, more])

    def summed(self) -> bytes:
        """Return the sum, sealed to the role itself, for `sum_in`: engines log results."""
        return sealed(self.me.encryption_key, encode(bytes_of(self._total)), self.digest, self._file)


def chosen(rows: NDArray[Any], which: NDArray[np.bool_]) -> NDArray[Any]:
    """Return these of some rows; where that is all, no copy is made."""
    return rows if which.all() else rows[which]


def _words(total: bytes) -> list[Words]:
    return [each[None] for each in totals_of(decode(total, tuple[bytes, ...], "sum"))]


def _refuse(refused: Refused, why: str, number: int, named: list[str]) -> None:
    """Note so many, of which some, or all, are `named`."""
    before, known = refused.get(why, (0, []))
    refused[why] = before + number, [*known, *named][:_EXAMPLES]


def _records(place: str, session: Loaded, digest: tables.Digest) -> Iterator[Columns]:
    """Yield a file's records, each with its row and its sketch's SHA-256; all that is in them goes into the digest."""
    for columns in tables.batches(place, tables.records(session)):
        columns["row"] = np.arange(digest.rows, digest.rows + len(columns["member"]), dtype="<u4")
        columns["sketch_digest"] = octet_rows([hashlib.sha256(row).digest() for row in columns["sketch"]], 32)
        digest.add({name: column for name, column in columns.items() if name not in ("row", "sketch")})
        yield columns


def _fixed_records(place: str, session: Loaded, fixed: bytes) -> Iterator[Columns]:
    """Yield the same; raise `EvaluationError` at their end where their digest is not the one `fixed`."""
    digest = tables.Digest()
    with suppress(DeserialisationError):
        yield from _records(place, session, digest)
    if digest.value != fixed:
        raise EvaluationError(
            f"{place!r} has other records than were collected: put back what has gone, and take out what has come since"
        )


def _digest_of(place: str, manifest: bytes) -> tuple[bytes, str]:
    """Return the digest of a file's records; or none, and why, where it is no such table to its end.

    Raises `InputError` where disk or network fail: a range must not be left out for good for that.
    """
    digest = tables.Digest()
    try:
        deque(_records(place, loaded(manifest), digest), 0)
    except DeserialisationError as error:
        tables.require_readable(place)
        return b"", str(error)
    return digest.value, ""


def _collected(
    place: str, own: Range, fixed: bytes, blobs: str, manifest: bytes, query: bytes, keys: OwnKeys
) -> tuple[TableFile, bytes, Refused]:
    """Write the blobs of a range's records that are whole; return the file, the sum of their sketches, and the others.

    Nothing is written where the records are not those `fixed`.
    """
    task, refused = Task(manifest, keys, own.name), Refused()
    key = QueryKey(unsealed(task.me, query, task.digest, sessions.QUERY))
    cipher = sessions.answers_cipher(key, task.digest, own.name)
    with tables.writing(within(blobs, own.name), tables.blobs(task.session)) as file:
        for columns in _fixed_records(place, task.session, fixed):
            why, sketches = _looked_at(task, own, columns, key)
            for row in np.flatnonzero(why != _WHOLE):
                named = f"{place}, row {columns['row'][row]}: member {columns['member'][row]}"
                _refuse(refused, REASONS[why[row]], 1, [named])
            task.add(sketches, whole := why == _WHOLE)
            listed = {name: chosen(columns[name], whole) for name in file.schema.names}
            if "answers" in listed:
                listed["answers"] = sessions.next_answers(cipher, listed["answers"])
            file.add(listed)
    return TableFile(own.name, file.digest.rows, file.digest.value), task.summed(), refused


def _looked_at(task: Task, own: Range, columns: Columns, key: QueryKey) -> tuple[NDArray[np.int64], list[Residues]]:
    """Return which of the `REASONS` speaks against each record, or `_WHOLE`; and all padded sketches, part by part.

    What the helper is shown of their proofs goes into the columns. Of records that are not whole, all is nonsense.
    """
    computation, members = task.computation, columns["member"].astype(np.int64)
    mine = (members >= own.first) & (members < own.first + own.number)
    inside, opened, sketches, fit = _unsealed(task, columns, mine)
    proved = fit
    if (proofs := computation.proofs) is not None:
        parties, proof = members.tolist(), inside[:, sum(computation.part_bytes) :]
        received = proofs.received(parties, inside[:, : computation.part_bytes[0]], proof)
        proved, columns["randomness"] = received.whole, proof[:, :RANDOMNESS_BYTES]
        columns["answers"] = proofs.answers(key, parties, sketches[0][:, : proofs.digits], received)
    return np.select([~mine, ~opened, ~fit, ~proved], range(_WHOLE), _WHOLE), sketches


def _unsealed(
    task: Task, columns: Columns, rows: NDArray[np.bool_]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], list[Residues], NDArray[np.bool_]]:
    """Return what is in the sketches of these rows, zeros where they do not open, and which do; and the same unpacked.

    That is: padded sketches, part by part, and which of them are some.
    """
    length, opened = task.session.inside, np.zeros(len(rows), bool)
    found = [bytes(length)] * len(rows)
    for row in np.flatnonzero(rows).tolist():
        info = sessions.sketch_info(task.digest, int(columns["member"][row]))
        with suppress(TamperedError):
            found[row], opened[row] = task.me.unseal(columns["sketch"][row].tobytes(), info=info), True
    inside, ends = octet_rows(found, length), pairwise(accumulate(task.computation.part_bytes, initial=0))
    parts = [task.computation.unpacked_rows(number, inside[:, slice(*each)]) for number, each in enumerate(ends)]
    return inside, opened, [residues for residues, _ in parts], np.all([fit for _, fit in parts], axis=0)


def _left_out(
    place: str, own: TableFile, said: TableFile, fixed: bytes, blobs: str, answers: str, manifest: bytes, keys: OwnKeys
) -> bytes:
    """Return the sum, sealed, of the sketches of a range's records that the helper was given and that do not count.

    Raises `DeserialisationError` where the answers are not about the range's blobs, or not so many members count, each
    once: a helper would be alone with one else.
    """
    task, place_of_answers = Task(manifest, keys, own.name), within(answers, own.name)
    given = tables.listed_batches(within(blobs, own.name), tables.blobs(task.session), own.digest)
    found = tables.listed_batches(place_of_answers, tables.ANSWERS, said.digest)
    asked, (*about, verdicts) = _columns(given, "member", "row"), _columns(found, "member", "row", "verdict")
    counting = about[0][verdicts == COUNTS]
    if not np.array_equal(about, asked) or not said.rows == len(counting) == len(np.unique(counting)):
        raise DeserialisationError(f"{place_of_answers!r} is not about all blobs, or counts others than it says")
    if len(off := about[1][verdicts != COUNTS]):
        for columns in _fixed_records(place, task.session, fixed):
            rows = np.isin(columns["row"], off)
            task.add(_unsealed(task, columns, rows)[2], rows)
    return task.summed()


def _columns(found: Iterator[Columns], *names: str) -> list[NDArray[np.uint32]]:
    """Return numbers of all rows, column by column."""
    numbers = [np.array([each[name] for name in names], np.uint32) for each in found]
    return [*np.concatenate([np.empty((len(names), 0), np.uint32), *numbers], axis=1)]
