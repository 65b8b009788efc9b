"""The aggregator of a fleet: it collects records and adds them up, and takes off those that do not count.

Every record is unsealed once. What they all sum to is in the aggregator's key store until the helper has said who
counts, and nowhere else: what it differs by from the sum of those that count is, where one does not, that device's.
"""

from __future__ import annotations

import hashlib
import itertools
from datetime import datetime
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, TooFewPartiesError
from fhe_auc.base.serialise import KeptFormat, SecretStruct, encode
from fhe_auc.input_proofs.sessions import RANDOMNESS_BYTES, QueryKey, Submissions
from fhe_auc.question.fleet import Range
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.packing import octet_rows
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.fleet import records as why
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.records import ANSWERS, RefusedRecords, blobs_table, chosen, digests_of, records_table
from fhe_auc_keys.fleet.session import (
    LIST,
    OPENING,
    RESULT,
    UNOPENED,
    AnswersCipher,
    FleetSession,
    Loaded,
    Verdict,
    bytes_of_sum,
    loaded,
    of_own,
    sketch_info,
    sum_of_bytes,
    sum_of_rows,
    to_own,
)
from fhe_auc_keys.fleet.tables import Columns, Digest, within
from fhe_auc_keys.fleet.workers import OwnKeys, Workers
from fhe_auc_keys.store import fixed_lists
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import OVERHEAD
from fhe_auc_keys.trust.signatures import has_signed

LIST_FILE, OPENING_FILE = "list", "opening"

_CHANGED = (
    "{file!r} does not hold the records that were collected: put back what has gone, and take out what has come since"
)


class BlobFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file of blobs in the folder for the helper, of so many rows."""

    name: str  # the range's
    rows: int
    digest: bytes  # `tables.Digest`


class BlobList(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the helper is asked to open, signed by the aggregator."""

    session: bytes  # the manifest's digest
    files: tuple[BlobFile, ...]  # in the ranges' order
    key: bytes = b""  # of the query, sealed to the helper, where devices prove their counts

    @property
    def digest(self) -> bytes:
        """What the list is known by: equal ones have it in common, though what is sealed never is."""
        return hashlib.sha256(encode((self.session, self.files))).digest()


class AnswerFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The helper's answers about a file of blobs: how many count, and the digest."""

    counted: int
    digest: bytes


class Opened(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The helper's answer, signed by it."""

    session: bytes
    blobs: bytes  # `BlobList.digest`
    verdicts: tuple[int, ...]  # how many blobs there are of each `Verdict`
    files: tuple[AnswerFile, ...]  # in the list's order
    context: bytes  # public
    opening: bytes  # sealed to the aggregator


class FleetResult(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The encrypted sums, signed by the aggregator."""

    session: bytes
    opening: bytes  # SHA-256 of the helper's answer
    ciphertext: bytes  # sealed to the helper


class _Added(SecretStruct, frozen=True):
    """Of a session, in the key store."""

    blobs: bytes  # digest of the list
    total: bytes  # of all sketches that it lists, padded


_FORMAT = KeptFormat(b"fhefadd", _Added, "sum of a fleet's sketches")


class Collected(NamedTuple):
    """What collecting has found: how many records the helper is to open, and which it need not."""

    records: int
    refusals: RefusedRecords


class _Whole(NamedTuple):
    """What a task has found in a range's records: how many are whole, and their sum, sealed."""

    rows: int
    digest: bytes
    total: bytes
    refusals: RefusedRecords


def collect(
    session: FleetSession, vault: Vault, records: str, blobs: str, workers: Workers, *, at: datetime
) -> Collected:
    """Fix all records in a folder, check them, and write the blobs of those that are whole into the folder `blobs`.

    They are read twice. At first every byte goes into the digest that the aggregator's key store keeps; only then is
    there a key of a query, by which proofs are asked. So the records must stay as they are until `add`: done again, the
    same ones make the same list. The store, of `vault`, is closed while workers work.

    Raises `KeysError` where this is not the aggregator, or other records were fixed; `EvaluationError` where a file has
    changed in between: put it back, and collect again; `InputError` where `blobs` holds a list already, `records` no
    records, or a folder cannot be read or written.
    """
    session.require(session.announced.aggregator, at=at)
    if tables.is_there(within(blobs, LIST_FILE)):
        raise InputError(f"{blobs!r} holds a list of blobs already: a session has one; give a new folder")
    manifest, ranges, there = session.manifest, session.ranges, set(tables.names_in(records))
    if not (mine := [each for each in ranges if each.name in there]):  # before it would be the session's one list
        raise InputError(f"{records!r} holds no records of the fleet's, in files named as those of its keys are")
    refusals, digests = RefusedRecords(), dict[str, bytes]()
    for name in sorted(there - {each.name for each in mine}):
        refusals.add(why.UNREADABLE, f"{within(records, name)}: no file of keys has its name")
    parts = ((within(records, each.name),) for each in mine)
    for each, (digest, problem) in zip(mine, workers.map(_digest_of, parts, manifest.to_bytes()), strict=True):
        digests[each.name] = digest
        if not digest:  # none of a file counts that cannot be read to its end
            refusals.add(why.UNREADABLE, problem)
    fixed = Submissions(len(ranges))
    for each in ranges:
        fixed.add(digests.get(each.name, b""))
    with vault.open() as store:
        secret = fixed_lists.fix(store, session.identity, manifest, fixed.digest)
    query, own = fixed.query_key(secret, manifest.digest), workers.keys(vault)
    readable = [each for each in mine if digests[each.name]]
    tasks = ((within(records, each.name), each, digests[each.name], blobs) for each in readable)
    sealed = to_own(session.identity, query, manifest.digest, LIST_FILE)
    files, total = list[BlobFile](), session.loaded.computation.added([])
    for each, found in zip(readable, workers.map(_collected, tasks, manifest.to_bytes(), sealed, own), strict=True):
        refusals.merge(found.refusals)
        files.append(BlobFile(each.name, found.rows, found.digest))
        part = of_own(session.identity, found.total, manifest.digest, each.name)
        total = session.loaded.computation.added([total, sum_of_bytes(part)])
    for_helper = b"" if session.loaded.computation.proofs is None else session.seal(LIST, session.helper, query)
    listed = BlobList(manifest.digest, tuple(files), for_helper)
    with vault.open() as store:
        kept = _FORMAT.frame(_Added(listed.digest, bytes_of_sum(total)))
        store.put("fleet", manifest.session.hex(), kept, replace=True)
    tables.write_file(within(blobs, LIST_FILE), session.sign(LIST, listed))
    return Collected(sum(each.rows for each in files), refusals)


def add(
    session: FleetSession, vault: Vault, records: str, blobs: str, answers: str, workers: Workers, *, at: datetime
) -> tuple[bytes, dict[str, int]]:
    """Return the encrypted result, for the helper, and how many records do not count, by reason.

    `records` and `blobs` are as of `collect`, and `answers` is the helper's folder. Raises `KeysError` where this is no
    aggregator, or the answer not the helper's or for other blobs; `EvaluationError` where a record has changed that is
    to be taken off; `DeserialisationError` where a file of answers or blobs is another than is listed;
    `TooFewPartiesError` where fewer count than the session takes, or the helper says that it opened nothing.
    """
    session.require(session.announced.aggregator, at=at)
    manifest, computation = session.manifest, session.loaded.computation
    signed, opening = (tables.read_file(within(*each)) for each in ((blobs, LIST_FILE), (answers, OPENING_FILE)))
    listed = session.read(LIST, signed, BlobList, session.announced.aggregator, at=at)
    if has_signed(session.helper.signing_key, UNOPENED, manifest.digest, opening):
        raise TooFewPartiesError("the helper has opened nothing, as too few count: the session has ended")
    answer = session.read(OPENING, opening, Opened, session.helper, at=at)
    with vault.open() as store:
        kept = store.load("fleet", manifest.session.hex(), _FORMAT)
    if {listed.session, answer.session} != {manifest.digest} or {answer.blobs, kept.blobs} != {listed.digest}:
        raise KeysError("the helper's answer is for another session, or for other blobs than are listed here")
    if len(answer.files) != len(listed.files) or len(answer.verdicts) != len(Verdict):
        raise DeserialisationError("the helper has not said of each file of blobs how many count")
    counted = sum(each.counted for each in answer.files)
    if counted < manifest.min_parties:
        raise TooFewPartiesError(f"{counted} members count, at least {manifest.min_parties} are needed")
    keys, first = computation.keys(answer.context, session.unseal(OPENING, answer.opening)), _firsts(session)
    total, own = sum_of_bytes(kept.total), workers.keys(vault)
    tasks = [
        (within(records, file.name), file, first[file.name], said, blobs, answers)
        for file, said in zip(listed.files, answer.files, strict=True)
        if said.counted < file.rows
    ]
    for (_, file, *_), found in zip(tasks, workers.map(_left_out, tasks, manifest.to_bytes(), own), strict=True):
        off = sum_of_bytes(of_own(session.identity, found, manifest.digest, file.name))
        total = [modular.subtract(*each) for each in zip(total, off, computation.primes, strict=True)]
    sealed = session.seal(RESULT, session.helper, computation.aggregate(keys, total))
    body = FleetResult(manifest.digest, hashlib.sha256(opening).digest(), sealed)
    return session.sign(RESULT, body), {
        each.sentence: number
        for each, number in zip(Verdict, answer.verdicts, strict=True)
        if number and each != Verdict.COUNTS
    }


def _firsts(session: FleetSession) -> dict[str, Range]:
    return {each.name: each for each in session.ranges}


def _digest_of(place: str, manifest: bytes) -> tuple[bytes, str]:
    """Return the digest of a file's records; or none, and why, where it cannot be read to its end."""
    digest = Digest()
    try:
        for _, columns in tables.batches(place, records_table(loaded(manifest))):
            digest.add({**columns, "sketch": digests_of(columns["sketch"])})
    except DeserialisationError as error:
        return b"", str(error)
    return digest.value, ""


def _collected(
    place: str, own: Range, fixed: bytes, blobs: str, manifest: bytes, query: bytes, keys: OwnKeys
) -> _Whole:
    """Write the blobs of a range's records that are whole; return how many, the file's digest, and their sum.

    Nothing is written where the records' digest is not the one `fixed`: `EvaluationError`.
    """
    session, me = loaded(manifest), keys.identity()
    key = QueryKey(of_own(me, query, session.digest, LIST_FILE))
    computation, refusals, digest = session.computation, RefusedRecords(), Digest()
    cipher, total = AnswersCipher(key, session.digest, own.name), computation.added([])
    with tables.writing(within(blobs, own.name), blobs_table(session)) as file:
        try:
            for first, columns in tables.batches(place, records_table(session)):
                sketch_digests = digests_of(columns["sketch"])
                digest.add({**columns, "sketch": sketch_digests})
                rows, sketches, shown = _whole(session, me, own, columns, place, first, refusals, key)
                total = computation.added([total, sum_of_rows(sketches, computation.primes)])
                columns |= {"row": np.arange(first, first + len(sketch_digests), dtype=np.uint32)}
                whole = np.zeros(len(sketch_digests), bool)
                whole[rows] = True
                names = "member", "row", "blob", "signature"
                listed = {name: chosen(columns[name], whole) for name in names}
                if "answers" in shown:
                    shown["answers"] = cipher.next(shown["answers"])
                file.add({**listed, "sketch_digest": chosen(sketch_digests, whole), **shown})
        except DeserialisationError:
            raise EvaluationError(_CHANGED.format(file=place)) from None
        if digest.value != fixed:
            raise EvaluationError(_CHANGED.format(file=place))
    sealed = to_own(me, bytes_of_sum(total), session.digest, own.name)
    return _Whole(file.digest.rows, file.digest.value, sealed, refusals)


def _whole(
    session: Loaded,
    me: Identity,
    own: Range,
    columns: Columns,
    place: str,
    start: int,
    refusals: RefusedRecords,
    key: QueryKey,
) -> tuple[NDArray[np.intp], list[Residues], Columns]:
    """Return the rows of a batch that are whole, their padded sketches, and what the helper is shown of their proofs.

    `place` and `start`, the batch's first row, are for those that are not.
    """
    computation, members = session.computation, columns["member"]

    def kept(rows: NDArray[np.intp], fit: NDArray[np.bool_], reason: str) -> NDArray[np.intp]:
        off = rows[~fit]
        refusals.add_rows(reason, place, start + off, members[off])
        return rows[fit]

    rows = kept(np.arange(len(members)), members < session.fleet.members, why.NO_MEMBER)
    rows = kept(rows, _of_range(own, members[rows]), why.OTHER_FILE)
    inside, opened = _unsealed(session, me, members, columns["sketch"], rows)
    rows = kept(rows, opened, why.NOT_SEALED)
    sketches, fit = _unpacked(session, inside)
    rows = kept(rows, fit, why.NO_SKETCH)
    inside, *sketches = (chosen(each, fit) for each in (inside, *sketches))
    if (proofs := computation.proofs) is None:
        return rows, sketches, {}
    parties = members[rows].tolist()
    padded, proof = inside[:, : computation.part_bytes[0]], inside[:, sum(computation.part_bytes) :]
    received = proofs.received(parties, padded, proof)
    answers = proofs.answers(key, parties, sketches[0][:, : proofs.digits], received)
    rows, whole = kept(rows, received.whole, why.NO_PROOF), received.whole
    shown = {"randomness": proof[whole, :RANDOMNESS_BYTES], "answers": chosen(answers, whole)}
    return rows, [chosen(each, whole) for each in sketches], shown


def _of_range(own: Range, members: NDArray[np.uint32]) -> NDArray[np.bool_]:
    return (members >= own.first) & (members.astype(np.int64) < own.first + own.number)


def _unsealed(
    session: Loaded, me: Identity, members: NDArray[np.uint32], sketches: NDArray[np.uint8], rows: NDArray[np.intp]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return what is in those of these rows that open, and which they are."""
    found, opened = list[bytes](), np.ones(len(rows), bool)
    for number, (row, member) in enumerate(zip(rows.tolist(), members[rows].tolist(), strict=True)):
        try:
            found.append(me.unseal(sketches[row].tobytes(), info=sketch_info(session.digest, member)))
        except TamperedError:
            opened[number] = False
    return octet_rows(found, session.sketch_bytes - OVERHEAD), opened


def _unpacked(session: Loaded, inside: NDArray[np.uint8]) -> tuple[list[Residues], NDArray[np.bool_]]:
    """Return padded sketches that stand at the beginning of rows, part by part, and which of them are some."""
    computation, found, fit = session.computation, list[Residues](), np.ones(len(inside), bool)
    ends = [0, *itertools.accumulate(computation.part_bytes)]
    for number, (start, end) in enumerate(itertools.pairwise(ends)):
        residues, own = computation.unpacked_rows(number, inside[:, start:end])
        found.append(residues)
        fit &= own
    return found, fit


def _left_out(
    place: str, file: BlobFile, own: Range, said: AnswerFile, blobs: str, answers: str, manifest: bytes, keys: OwnKeys
) -> bytes:
    """Return the sum, sealed, of the sketches of a range's records that are listed and do not count."""
    session, me = loaded(manifest), keys.identity()
    found = tables.listed_batches(within(answers, file.name), ANSWERS, file.rows, said.digest)
    off = np.concatenate([each["verdict"] for each in found]) != Verdict.COUNTS
    listed, at = list[Columns](), 0
    for columns in tables.listed_batches(within(blobs, file.name), blobs_table(session), file.rows, file.digest):
        own_rows = off[at : (at := at + len(columns["row"]))]
        listed.append({name: columns[name][own_rows] for name in ("member", "row", "sketch_digest")})
    member, row, digest = (np.concatenate([each[name] for each in listed]) for name in listed[0])
    computation, left = session.computation, len(row)
    total = computation.added([])
    changed = EvaluationError(_CHANGED.format(file=place))
    try:
        for first, columns in tables.batches(place, records_table(session), row):
            here = slice(*np.searchsorted(row, [first, first + len(columns["member"])]))
            rows = row[here].astype(np.intp) - first
            same = digests_of(columns["sketch"][rows]) == digest[here]
            if not same.all() or (columns["member"][rows] != member[here]).any():
                raise changed
            inside, _ = _unsealed(session, me, columns["member"], columns["sketch"], rows)
            total = session.computation.added(
                [total, sum_of_rows(_unpacked(session, inside)[0], session.computation.primes)]
            )
            left -= len(rows)
    except DeserialisationError:
        raise changed from None
    if left:
        raise changed
    return to_own(me, bytes_of_sum(total), session.digest, file.name)
