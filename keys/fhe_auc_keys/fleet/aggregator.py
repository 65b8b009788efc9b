"""The aggregator of a fleet: it collects records and adds them up, and takes off those that do not count.

Every record is unsealed once. What they all sum to is in the aggregator's key store until the helper has said who
counts, and nowhere else: what it differs by from the sum of those that count is, where one does not, that device's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
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
from fhe_auc.session.computation import PaddedComputation
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.fleet import session as sessions
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.session import VERDICTS, Document, FleetSession, Loaded, TableFile, loaded, sealed, unsealed
from fhe_auc_keys.fleet.tables import Columns, within
from fhe_auc_keys.fleet.workers import OwnKeys, Workers
from fhe_auc_keys.roles.blobs import bytes_of, totals_of
from fhe_auc_keys.store import fixed_lists
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.identity import Identity
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
_CHANGED = "{!r} has other records than were collected: put back what has gone, and take out what has come since"

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
    """What collecting has found: how many records the helper is to open, and which it need not."""

    records: int
    refused: Refused


def collect(
    session: FleetSession, vault: Vault, records: str, blobs: str, workers: Workers, *, at: datetime
) -> Collected:
    """Fix all records in a folder, check them, and write the blobs of those that are whole into the folder `blobs`.

    They are read twice. At first every byte goes into the digest that the aggregator's key store keeps; only then is
    there a key of a query, by which proofs are asked. So the records must stay as they are until `add`: done again, the
    same ones make the same list. The store, of `vault`, is closed while workers work.

    Raises `KeysError` where this is not the aggregator, or other records were fixed; `EvaluationError` where a file has
    changed in between: put it back, and collect again; `InputError` where there are no records, a folder or file
    cannot be read or written, or both folders are the same.
    """
    session.require(session.announced.aggregator, at=at)
    tables.require_apart(records, blobs)
    me, manifest, computation = session.identity, session.manifest, session.loaded.computation
    there, refused, digests = set(tables.names_in(records)), Refused(), dict[Range, bytes]()
    if not (mine := [each for each in session.ranges if each.name in there]):  # it would be the session's one list
        raise InputError(f"{records!r} holds no records, in files named as those of the fleet's keys are")
    strange = sorted(there.difference(each.name for each in mine))
    _refuse(refused, UNREADABLE, [repr(within(records, name)) for name in strange])  # which may hold anything
    fixed, shared, places = (
        Submissions(len(mine)),
        manifest.to_bytes(),
        ((within(records, each.name),) for each in mine),
    )
    for own, (digest, problem) in zip(mine, workers.map(_digest_of, places, shared), strict=True):
        fixed.add(encode((own.name, digest)))
        if digest:
            digests[own] = digest
        else:  # none of a file counts that cannot be read to its end
            _refuse(refused, UNREADABLE, [problem])
    with vault.open() as store:
        secret = fixed_lists.fix(store, me, manifest, fixed.digest)
    query = fixed.query_key(secret, manifest.digest)
    tasks = [(within(records, own.name), own, digest, blobs) for own, digest in digests.items()]
    to_own = sealed(me.encryption_key, query, manifest.digest, sessions.QUERY)
    files, total = list[TableFile](), computation.added([])
    for file, summed, others in workers.map(_collected, tasks, shared, to_own, workers.keys(vault)):
        files.append(file)
        total = computation.added([total, sum_in(me, summed, manifest.digest, file.name)])
        for why, (number, named) in others.items():
            _refuse(refused, why, named, number)
    for_helper = sealed(session.helper.encryption_key, query, manifest.digest, sessions.QUERY)
    listed = Document(manifest.digest, b"", for_helper, tuple(files))
    with vault.open() as store:
        name, of_files = manifest.session.hex(), {own.name: each for own, each in digests.items()}
        opening = store.load("fleet", name, _FORMAT).opening if store.has("fleet", name) else b""
        kept = _Added(listed.known_by, encode(bytes_of(total)), of_files, opening)
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
    answer = session.read(sessions.OPENING, opening, helper, at=at)
    with vault.open() as store:
        kept = store.load("fleet", manifest.session.hex(), _FORMAT)
    names, said = ([each.name for each in document.files] for document in (listed, answer))
    if {answer.about, kept.blobs} != {listed.known_by} or names != said or len(answer.numbers) != len(VERDICTS):
        raise KeysError("the helper's answer is for other blobs than are listed here, or than this key store has added")
    if (counted := sum(each.rows for each in answer.files)) < manifest.min_parties:
        raise TooFewPartiesError(f"{counted} members count, at least {manifest.min_parties} are needed")
    about, total = hashlib.sha256(opening).digest(), _words(kept.total)
    if kept.opening not in (b"", about):
        raise KeysError("the helper has given another answer, which was added up: a session has one")
    keys = computation.keys(answer.context, unsealed(me, answer.sealed, manifest.digest, sessions.PADS))
    with vault.open() as store:  # before anything is made of it
        kept = msgspec.structs.replace(kept, opening=about)
        store.put("fleet", manifest.session.hex(), _FORMAT.frame(kept), replace=True)
    files = zip(listed.files, answer.files, strict=True)
    tasks = ((within(records, own.name), own, said, kept.records[own.name]) for own, said in files)
    found = workers.map(_left_out, tasks, blobs, answers, manifest.to_bytes(), workers.keys(vault))
    for own, summed in zip(listed.files, found, strict=True):
        off = sum_in(me, summed, manifest.digest, own.name)
        total = [modular.subtract(*each) for each in zip(total, off, computation.primes, strict=True)]
    result = sealed(helper.encryption_key, computation.aggregate(keys, total), manifest.digest, sessions.SUMS)
    left_out = zip(VERDICTS[1:], answer.numbers[1:], strict=True)
    body = Document(manifest.digest, about, result)
    return sign_document(sessions.RESULT, me, body), {why: number for why, number in left_out if number}


def sum_in(me: Identity, summed: bytes, digest: bytes, file: str) -> list[Words]:
    """Return the sum that a role's task has sealed for a file; errors as `unsealed`."""
    return _words(unsealed(me, summed, digest, file))


def sum_of(computation: PaddedComputation[Any, Any], rows: Iterable[Residues], which: NDArray[np.bool_]) -> list[Words]:
    """Return the sum of these sketches or pads, each part of the shape (rows, size) or longer."""
    parts = zip(rows, computation.sizes, computation.primes, strict=True)
    return [modular.total(chosen(each, which)[:, :size], prime, axis=0)[None] for each, size, prime in parts]


def chosen(rows: NDArray[Any], which: NDArray[np.bool_]) -> NDArray[Any]:
    """Return these of some rows; where that is all, no copy is made."""
    return rows if which.all() else rows[which]


def _words(total: bytes) -> list[Words]:
    return [each[None] for each in totals_of(decode(total, tuple[bytes, ...], "sum"))]


def _refuse(refused: Refused, why: str, which: Sequence[str], number: int | None = None) -> None:
    """Note so many, of which these are some, or all."""
    if number := len(which) if number is None else number:
        before, named = refused.get(why, (0, []))
        refused[why] = before + number, [*named, *which][:_EXAMPLES]


def _records(place: str, session: Loaded, digest: tables.Digest) -> Iterator[Columns]:
    """Yield a file's records, each with its row and its sketch's SHA-256; all that is in them goes into the digest."""
    for columns in tables.batches(place, tables.records(session)):
        columns["row"] = np.arange(digest.rows, digest.rows + len(columns["member"]), dtype="<u4")
        columns["sketch_digest"] = octet_rows([hashlib.sha256(row).digest() for row in columns["sketch"]], 32)
        digest.add({name: column for name, column in columns.items() if name not in ("row", "sketch")})
        yield columns


def _digest_of(place: str, manifest: bytes) -> tuple[bytes, str]:
    """Return the digest of a file's records; or none, and why, where it is no such table to its end.

    Raises `InputError` where disk or network fail: a range must not be left out for good for that.
    """
    digest = tables.Digest()
    try:
        for _ in _records(place, loaded(manifest), digest):
            pass
    except DeserialisationError as error:
        tables.require_readable(place)
        return b"", str(error)
    return digest.value, ""


def _collected(
    place: str, own: Range, fixed: bytes, blobs: str, manifest: bytes, query: bytes, keys: OwnKeys
) -> tuple[TableFile, bytes, Refused]:
    """Write the blobs of a range's records that are whole; return the file, the sum of their sketches, and the others.

    Nothing is written where the records' digest is not the one `fixed`: `EvaluationError`.
    """
    session, me, refused, digest = loaded(manifest), keys.identity(), Refused(), tables.Digest()
    key = QueryKey(unsealed(me, query, session.digest, sessions.QUERY))
    cipher, total = sessions.answers_cipher(key, session.digest, own.name), session.computation.added([])
    with tables.writing(within(blobs, own.name), tables.blobs(session)) as file:
        try:
            for columns in _records(place, session, digest):
                why, sketches = _looked_at(session, me, own, columns, key)
                for number in {*why.tolist()} - {_WHOLE}:
                    rows, members = (columns[name][why == number].tolist() for name in ("row", "member"))
                    named = [f"{place}, row {row}: member {each}" for row, each in zip(rows, members, strict=True)]
                    _refuse(refused, REASONS[number], named)
                del columns["sketch"]
                listed = {name: chosen(column, why == _WHOLE) for name, column in columns.items()}
                if "answers" in listed:
                    listed["answers"] = sessions.next_answers(cipher, listed["answers"])
                file.add(listed)
                total = session.computation.added([total, sum_of(session.computation, sketches, why == _WHOLE)])
        except DeserialisationError:
            raise EvaluationError(_CHANGED.format(place)) from None
        if digest.value != fixed:
            raise EvaluationError(_CHANGED.format(place))
    summed = sealed(me.encryption_key, encode(bytes_of(total)), session.digest, own.name)
    return TableFile(own.name, file.digest.rows, file.digest.value), summed, refused


def _looked_at(
    session: Loaded, me: Identity, own: Range, columns: Columns, key: QueryKey
) -> tuple[NDArray[np.uint8], list[Residues]]:
    """Return which of the `REASONS` speaks against each record, or `_WHOLE`; and all padded sketches, part by part.

    What the helper is shown of their proofs goes into the columns. Of records that are not whole, all is nonsense.
    """
    why, members = np.full(len(columns["member"]), _WHOLE, np.uint8), columns["member"].astype(np.int64)

    def keep(fit: NDArray[np.bool_], reason: str) -> None:
        why[(why == _WHOLE) & ~fit] = REASONS.index(reason)

    keep((members >= own.first) & (members < own.first + own.number), OTHER_FILE)
    inside, opened = _unsealed(session, me, columns, why == _WHOLE)
    keep(opened, NOT_SEALED)
    sketches, fit = _unpacked(session, inside)
    keep(fit, NO_SKETCH)
    if (proofs := session.computation.proofs) is not None:
        parties, proof = members.tolist(), inside[:, sum(session.computation.part_bytes) :]
        received = proofs.received(parties, inside[:, : session.computation.part_bytes[0]], proof)
        keep(received.whole, NO_PROOF)
        columns["randomness"] = proof[:, :RANDOMNESS_BYTES]
        columns["answers"] = proofs.answers(key, parties, sketches[0][:, : proofs.digits], received)
    return why, sketches


def _unsealed(
    session: Loaded, me: Identity, columns: Columns, rows: NDArray[np.bool_]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return what is in the sketches of these rows that open, zeros for the others, and which they are."""
    found, opened = [bytes(session.inside)] * len(rows), np.zeros(len(rows), bool)
    for row in np.flatnonzero(rows).tolist():
        info = sessions.sketch_info(session.digest, int(columns["member"][row]))
        with suppress(TamperedError):
            found[row], opened[row] = me.unseal(columns["sketch"][row].tobytes(), info=info), True
    return octet_rows(found, session.inside), opened


def _unpacked(session: Loaded, inside: NDArray[np.uint8]) -> tuple[list[Residues], NDArray[np.bool_]]:
    """Return padded sketches that stand at the beginning of rows, part by part, and which of them are some."""
    ends = pairwise(accumulate(session.computation.part_bytes, initial=0))
    parts = [session.computation.unpacked_rows(number, inside[:, slice(*each)]) for number, each in enumerate(ends)]
    return [residues for residues, _ in parts], np.all([fit for _, fit in parts], axis=0)


def _left_out(
    place: str, own: TableFile, said: TableFile, fixed: bytes, blobs: str, answers: str, manifest: bytes, keys: OwnKeys
) -> bytes:
    """Return the sum, sealed, of the sketches of a range's records that the helper was given and that do not count.

    Raises `EvaluationError` where the records' digest is not the one `fixed`; `DeserialisationError` where the answers
    are not about the range's blobs, or not so many members count, each once: a helper would be alone with one else.
    """
    session, me, digest = loaded(manifest), keys.identity(), tables.Digest()
    total, name = session.computation.added([]), own.name
    mine = tables.listed_batches(within(blobs, name), tables.blobs(session), own.rows, own.digest)
    members, rows = _columns(mine, "member", "row")
    found = tables.listed_batches(within(answers, name), tables.ANSWERS, own.rows, said.digest)
    *about, verdicts = _columns(found, "member", "row", "verdict")
    counting = members[verdicts == sessions.COUNTS]
    if not np.array_equal(about, (members, rows)) or not said.rows == len(counting) == len(np.unique(counting)):
        raise DeserialisationError(f"{within(answers, name)!r} is not about all blobs, or counts others than it says")
    if len(off := rows[verdicts != sessions.COUNTS]):
        with suppress(DeserialisationError):
            for columns in _records(place, session, digest):
                which = np.isin(columns["row"], off)
                sketches, _ = _unpacked(session, _unsealed(session, me, columns, which)[0])
                total = session.computation.added([total, sum_of(session.computation, sketches, which)])
        if digest.value != fixed:
            raise EvaluationError(_CHANGED.format(place))
    return sealed(me.encryption_key, encode(bytes_of(total)), session.digest, name)


def _columns(found: Iterator[Columns], *names: str) -> list[NDArray[np.uint32]]:
    """Return numbers of all rows, column by column."""
    numbers = [np.array([each[name] for name in names], np.uint32) for each in found]
    return [*np.concatenate([np.empty((len(names), 0), np.uint32), *numbers], axis=1)]
