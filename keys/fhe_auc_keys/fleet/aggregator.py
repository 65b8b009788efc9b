"""The aggregator of a fleet: it collects records and adds them up, and takes off those that do not count.

Every record is unsealed once. What they all sum to is in the aggregator's key store until the helper has said who
counts, and nowhere else: what it differs by from the sum of those that count is, where one does not, that device's.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

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

Refused: TypeAlias = dict[str, tuple[int, list[str]]]
"""Why records do not count: how many, and a few of them, by reason."""


class _Added(SecretStruct, frozen=True):
    """Of a session, in the key store."""

    blobs: bytes  # the list, `known_by`
    total: bytes  # of all sketches that it lists, padded
    records: dict[str, bytes]  # by name the digest of each file that was collected


_FORMAT = KeptFormat(b"fhefadd", _Added, "sum of a fleet's sketches")


class Collected(NamedTuple):
    """What collecting has found: how many records the helper is to open, and which it need not."""

    records: int
    refused: Refused


def collect(
    session: FleetSession, vault: Vault, records: str, blobs: str, workers: Workers, *, at: datetime
) -> Collected:
    """Fix all records in a folder, check them, and write the blobs of those that are whole into the folder `blobs`.

    They are read twice: there is no query, by which proofs are asked, before the digest of all of them is in the key
    store. So they must stay as they are until `add`; the same ones, collected again, make the same list. The store, of
    `vault`, is closed while workers work.

    Raises `KeysError` where this is not the aggregator, or other records were fixed; `EvaluationError` where a file has
    changed in between; `InputError` where there are no records, or a folder cannot be read or written.
    """
    session.require(session.announced.aggregator, at=at)
    me, manifest, computation = session.identity, session.manifest, session.loaded.computation
    there, refused, digests = {*tables.names_in(records)}, Refused(), dict[str, bytes]()
    if not (mine := [each for each in session.ranges if each.name in there]):  # it would be the session's one list
        raise InputError(f"{records!r} holds no records, in files named as those of the fleet's keys are")
    for name in sorted(there.difference(each.name for each in mine)):
        _refuse(refused, UNREADABLE, 1, [within(records, name)])
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
        total = computation.added([total, sum_in(me, summed, manifest.digest, file.name)])
        for why, (number, named) in others.items():
            _refuse(refused, why, number, named)
    listed = Document(manifest.digest, b"", told_key, tuple(files))
    with vault.open() as store:
        kept = _FORMAT.frame(_Added(listed.known_by, encode(bytes_of(total)), digests))
        store.put("fleet", manifest.session.hex(), kept, replace=True)
    tables.write_file(within(blobs, LIST_FILE), sign_document(sessions.LIST, me, listed))
    return Collected(sum(each.rows for each in files), refused)


def add(
    session: FleetSession, vault: Vault, records: str, blobs: str, answers: str, workers: Workers, *, at: datetime
) -> tuple[bytes, dict[str, int]]:
    """Return the encrypted result, for the helper, and how many records do not count, by reason.

    `records` and `blobs` are as of `collect`, and `answers` is the helper's folder. Raises `KeysError` where this is no
    aggregator, or the answer not the helper's or for other blobs; `EvaluationError` where a file has changed of which
    records are to be taken off; `DeserialisationError` where a file of answers is another than is listed;
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
    pairs = [*zip(listed.files, answer.files, strict=False)]
    same = [each.name for each in listed.files] == [each.name for each in answer.files]
    if {answer.about, kept.blobs} != {listed.known_by} or not same:
        raise KeysError("the helper's answer is for other blobs than are listed here, or than this key store has added")
    if (counted := sum(each.rows for each in answer.files)) < manifest.min_parties:
        raise TooFewPartiesError(f"{counted} members count, at least {manifest.min_parties} are needed")
    keys = computation.keys(answer.context, unsealed(me, answer.sealed, manifest.digest, sessions.PADS))
    some = [(said, own.rows - said.rows) for own, said in pairs if own.rows != said.rows]
    tasks = ((within(records, said.name), said, left, kept.records[said.name], answers) for said, left in some)
    found, total = workers.map(_left_out, tasks, manifest.to_bytes(), workers.keys(vault)), _words(kept.total)
    for (said, _), summed in zip(some, found, strict=True):
        off = sum_in(me, summed, manifest.digest, said.name)
        total = [modular.subtract(*each) for each in zip(total, off, computation.primes, strict=True)]
    result = sealed(helper.encryption_key, computation.aggregate(keys, total), manifest.digest, sessions.SUMS)
    body = Document(manifest.digest, hashlib.sha256(opening).digest(), result)
    return sign_document(sessions.RESULT, me, body), sessions.told((0, *answer.numbers[COUNTS + 1 :]))


def sum_in(me: Identity, summed: bytes, digest: bytes, file: str) -> list[Words]:
    """Return the sum that a role's task has sealed for a file; errors as `unsealed`."""
    return _words(unsealed(me, summed, digest, file))


def sealed_sum(me: Identity, total: Sequence[Words], session: Loaded, file: str) -> bytes:
    """Return a sum as a task returns it, for `sum_in`: engines log results."""
    return sealed(me.encryption_key, encode(bytes_of(total)), session.digest, file)


def plus(session: Loaded, total: Sequence[Words], rows: Iterable[Residues], which: NDArray[np.bool_]) -> list[Words]:
    """Return a sum and these sketches or pads, each part of the shape (rows, size) or longer."""
    parts = zip(rows, session.computation.sizes, session.computation.primes, strict=True)
    more = [modular.total(chosen(each, which)[:, :size], prime, axis=0)[None] for each, size, prime in parts]
    return session.computation.added([total, more])


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
    """Return the digest of a file's records; or none, and why, where it cannot be read to its end."""
    digest = tables.Digest()
    try:
        deque(_records(place, loaded(manifest), digest), 0)
    except DeserialisationError as error:
        return b"", str(error)
    return digest.value, ""


def _collected(
    place: str, own: Range, fixed: bytes, blobs: str, manifest: bytes, query: bytes, keys: OwnKeys
) -> tuple[TableFile, bytes, Refused]:
    """Write the blobs of a range's records that are whole; return the file, the sum of their sketches, and the others.

    Nothing is written where the records are not those `fixed`.
    """
    session, me, refused = loaded(manifest), keys.identity(), Refused()
    key, total = QueryKey(unsealed(me, query, session.digest, sessions.QUERY)), session.computation.added([])
    cipher = sessions.answers_cipher(key, session.digest, own.name)
    with tables.writing(within(blobs, own.name), tables.blobs(session)) as file:
        for columns in _fixed_records(place, session, fixed):
            why, sketches = _looked_at(session, me, own, columns, key)
            for row in np.flatnonzero(why != _WHOLE):
                named = f"{place}, row {columns['row'][row]}: member {columns['member'][row]}"
                _refuse(refused, REASONS[why[row]], 1, [named])
            whole = why == _WHOLE
            total = plus(session, total, sketches, whole)
            listed = {name: chosen(columns[name], whole) for name in file.schema.names}
            if "answers" in listed:
                listed["answers"] = sessions.next_answers(cipher, listed["answers"])
            file.add(listed)
    return TableFile(own.name, file.digest.rows, file.digest.value), sealed_sum(me, total, session, own.name), refused


def _looked_at(
    session: Loaded, me: Identity, own: Range, columns: Columns, key: QueryKey
) -> tuple[NDArray[np.int64], list[Residues]]:
    """Return which of the `REASONS` speaks against each record, or `_WHOLE`; and all padded sketches, part by part.

    What the helper is shown of their proofs goes into the columns. Of records that are not whole, all is nonsense.
    """
    computation, members = session.computation, columns["member"].astype(np.int64)
    mine = (members >= own.first) & (members < own.first + own.number)
    inside, opened, sketches, fit = _unsealed(session, me, columns, mine)
    proved = fit
    if (proofs := computation.proofs) is not None:
        parties, proof = members.tolist(), inside[:, sum(computation.part_bytes) :]
        received = proofs.received(parties, inside[:, : computation.part_bytes[0]], proof)
        proved, columns["randomness"] = received.whole, proof[:, :RANDOMNESS_BYTES]
        columns["answers"] = proofs.answers(key, parties, sketches[0][:, : proofs.digits], received)
    return np.select([~mine, ~opened, ~fit, ~proved], range(_WHOLE), _WHOLE), sketches


def _unsealed(
    session: Loaded, me: Identity, columns: Columns, rows: NDArray[np.bool_]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], list[Residues], NDArray[np.bool_]]:
    """Return what is in the sketches of these rows, zeros where they do not open, and which do; and the same unpacked.

    That is: padded sketches, part by part, and which of them are some.
    """
    found, opened = [bytes(session.inside)] * len(rows), np.zeros(len(rows), bool)
    for row in np.flatnonzero(rows).tolist():
        info = sessions.sketch_info(session.digest, int(columns["member"][row]))
        with suppress(TamperedError):
            found[row], opened[row] = me.unseal(columns["sketch"][row].tobytes(), info=info), True
    inside = octet_rows(found, session.inside)
    ends = pairwise(accumulate(session.computation.part_bytes, initial=0))
    parts = [session.computation.unpacked_rows(number, inside[:, slice(*each)]) for number, each in enumerate(ends)]
    return inside, opened, [residues for residues, _ in parts], np.all([fit for _, fit in parts], axis=0)


def _left_out(
    place: str, said: TableFile, left: int, fixed: bytes, answers: str, manifest: bytes, keys: OwnKeys
) -> bytes:
    """Return the sum, sealed, of the sketches of a range's records that do not count, so many as the helper has said.

    Else it could have said that enough count, and read the sum of one.
    """
    session, me = loaded(manifest), keys.identity()
    found = tables.listed_batches(file := within(answers, said.name), tables.ANSWERS, said.digest)
    off = np.unique(np.concatenate([np.zeros(0, "<u4"), *(each["row"][each["verdict"] != COUNTS] for each in found)]))
    if len(off) != left:
        raise DeserialisationError(f"{file!r} leaves out other records than the opening says")
    total = session.computation.added([])
    for columns in _fixed_records(place, session, fixed):
        rows = np.isin(columns["row"], off)
        total = plus(session, total, _unsealed(session, me, columns, rows)[2], rows)
    return sealed_sum(me, total, session, said.name)
