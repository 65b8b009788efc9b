"""The aggregator of a fleet: it collects records and adds them up, and takes off those that do not count.

Every record is unsealed once. What they all sum to is in the aggregator's key store until the helper has said who
counts, and nowhere else: what it differs by from the sum of those that count is, where one does not, that device's.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

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
from fhe_auc_keys.fleet.session import (
    COUNTS,
    LIST,
    OPENING,
    RESULT,
    VERDICTS,
    FleetSession,
    Loaded,
    loaded,
    sealed,
    unsealed,
)
from fhe_auc_keys.fleet.tables import Columns, Digest, within
from fhe_auc_keys.fleet.workers import OwnKeys, Workers
from fhe_auc_keys.roles.blobs import bytes_of, totals_of
from fhe_auc_keys.store import fixed_lists
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.signatures import has_signed
from fhe_auc_keys.trust.signed_documents import sign_document

LIST_FILE, OPENING_FILE = "list", "opening"
UNREADABLE = "the file cannot be read to its end, or is of no range"
OTHER_FILE, NOT_SEALED, NO_SKETCH, NO_PROOF = REASONS = (
    "it is of no member in the file of keys of that name",
    "its sketch is not sealed to the aggregator for this session and member",
    "its sketch is none: a number in it is too large",
    "its proof is none, or about other numbers than it has submitted",
)
_WHOLE = len(REASONS)
_EXAMPLES = 5
QUERY, PADS, RESULTS = "query", "pad key", "result"  # what is sealed from role to role
_CHANGED = (
    "{!r} does not hold the records that were collected: put back what has gone, and take out what has come since"
)


class TableFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A range's file of blobs, of so many rows; or one of answers, and how many of them count."""

    name: str
    rows: int
    digest: bytes  # `tables.Digest`


class BlobList(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the helper is asked to open, signed by the aggregator."""

    session: bytes  # the manifest's digest
    files: tuple[TableFile, ...]  # in the ranges' order
    key: bytes = b""  # of the query, sealed to the helper

    @property
    def digest(self) -> bytes:
        """What the list is known by: equal ones have it in common, though what is sealed never is."""
        return hashlib.sha256(encode((self.session, self.files))).digest()


class Opened(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The helper's answer, signed by it."""

    session: bytes
    blobs: bytes  # `BlobList.digest`
    verdicts: tuple[int, ...]  # how many blobs there are of each of `session.VERDICTS`
    files: tuple[TableFile, ...]  # of answers, as the list has those of blobs
    context: bytes  # public
    opening: bytes  # the pad key, sealed to the aggregator


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


@dataclass
class RefusedRecords:
    """Why records do not count: how many, and a few of them, by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, why: str, number: int, which: Sequence[str]) -> None:
        """Note so many, of which these are some."""
        self.counts[why] += number
        self.examples[why] += which[: _EXAMPLES - len(self.examples[why])]

    def merge(self, other: RefusedRecords) -> None:
        """Note all that another has."""
        for why, number in other.counts.items():
            self.add(why, number, other.examples[why])

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return {why: {"records": count, "among them": self.examples[why]} for why, count in self.counts.items()}


class Collected(NamedTuple):
    """What collecting has found: how many records the helper is to open, and which it need not."""

    records: int
    refusals: RefusedRecords


def collect(
    session: FleetSession, vault: Vault, records: str, blobs: str, workers: Workers, *, at: datetime
) -> Collected:
    """Fix all records in a folder, check them, and write the blobs of those that are whole into the folder `blobs`.

    They are read twice. At first every byte goes into the digest that the aggregator's key store keeps; only then is
    there a key of a query, by which proofs are asked. So the records must stay as they are until `add`: done again, the
    same ones make the same list. The store, of `vault`, is closed while workers work.

    Raises `KeysError` where this is not the aggregator, or other records were fixed; `EvaluationError` where a file has
    changed in between: put it back, and collect again; `InputError` where there are no records, or a folder cannot be
    read or written.
    """
    session.require(session.announced.aggregator, at=at)
    me, manifest, computation = session.identity, session.manifest, session.loaded.computation
    shared, there, refusals = manifest.to_bytes(), set(tables.names_in(records)), RefusedRecords()
    if not (mine := [each for each in session.ranges if each.name in there]):  # it would be the session's one list
        raise InputError(f"{records!r} holds no records, in files named as those of the fleet's keys are")
    if strangers := sorted(there.difference(each.name for each in mine)):
        refusals.add(UNREADABLE, len(strangers), [within(records, name) for name in strangers])
    fixed, digests = Submissions(len(mine)), list[bytes]()
    places = ((within(records, each.name),) for each in mine)
    for each, (digest, problem) in zip(mine, workers.map(_digest_of, places, shared), strict=True):
        fixed.add(encode((each.name, digest)))
        digests.append(digest)
        if not digest:  # none of a file counts that cannot be read to its end
            refusals.add(UNREADABLE, 1, [problem])
    with vault.open() as store:
        secret = fixed_lists.fix(store, me, manifest, fixed.digest)
    query = fixed.query_key(secret, manifest.digest)
    parts = [
        (within(records, each.name), each, digest, blobs) for each, digest in zip(mine, digests, strict=True) if digest
    ]
    own = sealed(me.encryption_key, query, manifest.digest, QUERY), workers.keys(vault)
    files, total = list[TableFile](), computation.added([])
    for file, summed, refused in workers.map(_collected, parts, shared, *own):
        files.append(file)
        refusals.merge(refused)
        total = computation.added([total, sum_in(me, summed, manifest.digest, file.name)])
    for_helper = sealed(session.helper.encryption_key, query, manifest.digest, QUERY)
    listed = BlobList(manifest.digest, tuple(files), for_helper)
    with vault.open() as store:
        kept = _FORMAT.frame(_Added(listed.digest, encode(bytes_of(total))))
        store.put("fleet", manifest.session.hex(), kept, replace=True)
    tables.write_file(within(blobs, LIST_FILE), sign_document(LIST, me, listed))
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
    me, manifest, computation = session.identity, session.manifest, session.loaded.computation
    listed = session.read(
        LIST, tables.read_file(within(blobs, LIST_FILE)), BlobList, session.announced.aggregator, at=at
    )
    opening = tables.read_file(within(answers, OPENING_FILE))
    if has_signed(session.helper.signing_key, sessions.UNOPENED, manifest.digest, opening):
        raise TooFewPartiesError("the helper has opened nothing, as too few count: the session has ended")
    answer = session.read(OPENING, opening, Opened, session.helper, at=at)
    with vault.open() as store:
        kept = store.load("fleet", manifest.session.hex(), _FORMAT)
    if {answer.blobs, kept.blobs} != {listed.digest}:
        raise KeysError("the helper's answer is for other blobs than are listed here, or than this key store has added")
    if [each.name for each in answer.files] != [each.name for each in listed.files] or len(answer.verdicts) != len(
        VERDICTS
    ):
        raise DeserialisationError("the helper has not said of each file of blobs how many count")
    if (counted := sum(each.rows for each in answer.files)) < manifest.min_parties:
        raise TooFewPartiesError(f"{counted} members count, at least {manifest.min_parties} are needed")
    keys = computation.keys(answer.context, unsealed(me, answer.opening, manifest.digest, PADS))
    files = zip(listed.files, answer.files, strict=True)
    parts = [(within(records, own.name), own, said, blobs, answers) for own, said in files if said.rows < own.rows]
    total = [each[None] for each in totals_of(decode(kept.total, tuple[bytes, ...], "sum"))]
    shared = manifest.to_bytes(), workers.keys(vault)
    for part, summed in zip(parts, workers.map(_left_out, parts, *shared), strict=True):
        off = sum_in(me, summed, manifest.digest, part[1].name)
        total = [modular.subtract(*each) for each in zip(total, off, computation.primes, strict=True)]
    result = sealed(session.helper.encryption_key, computation.aggregate(keys, total), manifest.digest, RESULTS)
    body = FleetResult(manifest.digest, hashlib.sha256(opening).digest(), result)
    left_out = zip(VERDICTS[1:], answer.verdicts[1:], strict=True)
    return sign_document(RESULT, me, body), {why: number for why, number in left_out if number}


def sum_in(me: Identity, summed: bytes, digest: bytes, file: str) -> list[Words]:
    """Return the sum that a role's task has sealed for a file; errors as `unsealed`."""
    parts = decode(unsealed(me, summed, digest, file), tuple[bytes, ...], "sum")
    return [each[None] for each in totals_of(parts)]


def sum_of(computation: PaddedComputation[Any, Any], rows: Iterable[Residues]) -> list[Words]:
    """Return the sum of sketches or pads, each part of the shape (rows, size) or longer."""
    parts = zip(rows, computation.sizes, computation.primes, strict=True)
    return [modular.total(each[:, :size], prime, axis=0)[None] for each, size, prime in parts]


def _digest_of(place: str, manifest: bytes) -> tuple[bytes, str]:
    """Return the digest of a file's records; or none, and why, where it cannot be read to its end."""
    digest = Digest()
    try:
        for columns in tables.batches(place, tables.records(loaded(manifest))):
            digest.add({**columns, "sketch": _digests(columns["sketch"])})
    except DeserialisationError as error:
        return b"", str(error)
    return digest.value, ""


def _digests(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return octet_rows([hashlib.sha256(row).digest() for row in rows], 32)


def _collected(
    place: str, own: Range, fixed: bytes, blobs: str, manifest: bytes, query: bytes, keys: OwnKeys
) -> tuple[TableFile, bytes, RefusedRecords]:
    """Write the blobs of a range's records that are whole; return the file, the sum of their sketches, and the others.

    Nothing is written where the records' digest is not the one `fixed`: `EvaluationError`.
    """
    session, me = loaded(manifest), keys.identity()
    key, computation = QueryKey(unsealed(me, query, session.digest, QUERY)), session.computation
    total, refusals, digest = computation.added([]), RefusedRecords(), Digest()
    cipher = sessions.answers_cipher(key, session.digest, own.name)
    with tables.writing(within(blobs, own.name), tables.blobs(session)) as file:
        try:
            for columns in tables.batches(place, tables.records(session)):
                columns["row"] = np.arange(digest.rows, digest.rows + len(columns["member"]), dtype="<u4")
                columns["sketch_digest"] = _digests(columns["sketch"])
                fixed_columns = "member", "sketch_digest", "blob", "signature"
                digest.add({name: columns[name] for name in fixed_columns})
                why, sketches = _looked_at(session, me, own, columns, key)
                for number in sorted({*why.tolist()} - {_WHOLE}):
                    rows = zip(
                        columns["row"][why == number].tolist(), columns["member"][why == number].tolist(), strict=True
                    )
                    named = [f"{place}, row {row}: member {member}" for row, member in rows]
                    refusals.add(REASONS[number], len(named), named)
                whole = why == _WHOLE
                listed = {name: chosen(column, whole) for name, column in columns.items() if name != "sketch"}
                if "answers" in listed:
                    answers = cipher.update(listed["answers"].tobytes())
                    listed["answers"] = np.frombuffer(answers, np.uint8).reshape(listed["answers"].shape)
                file.add(listed)
                total = computation.added([total, sum_of(computation, (chosen(each, whole) for each in sketches))])
        except DeserialisationError:
            raise EvaluationError(_CHANGED.format(place)) from None
        if digest.value != fixed:
            raise EvaluationError(_CHANGED.format(place))
    summed = sealed(me.encryption_key, encode(bytes_of(total)), session.digest, own.name)
    return TableFile(own.name, file.digest.rows, file.digest.value), summed, refusals


def chosen(rows: NDArray[Any], which: NDArray[np.bool_]) -> NDArray[Any]:
    """Return these of some rows; where that is all, no copy is made."""
    return rows if which.all() else rows[which]


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
            found[row] = me.unseal(columns["sketch"][row].tobytes(), info=info)
            opened[row] = True
    return octet_rows(found, session.inside), opened


def _unpacked(session: Loaded, inside: NDArray[np.uint8]) -> tuple[list[Residues], NDArray[np.bool_]]:
    """Return padded sketches that stand at the beginning of rows, part by part, and which of them are some."""
    ends = pairwise(accumulate(session.computation.part_bytes, initial=0))
    parts = [session.computation.unpacked_rows(number, inside[:, slice(*each)]) for number, each in enumerate(ends)]
    return [residues for residues, _ in parts], np.all([fit for _, fit in parts], axis=0)


def _left_out(
    place: str, file: TableFile, said: TableFile, blobs: str, answers: str, manifest: bytes, keys: OwnKeys
) -> bytes:
    """Return the sum, sealed, of the sketches of a range's records that are listed and do not count."""
    session, me, computation = loaded(manifest), keys.identity(), loaded(manifest).computation
    verdicts = tables.listed_batches(within(answers, file.name), tables.ANSWERS, file.rows, said.digest)
    off = np.concatenate([each["verdict"] for each in verdicts]) != COUNTS
    found = tables.listed_batches(within(blobs, file.name), tables.blobs(session), file.rows, file.digest)
    listed = [(each["row"], each["member"], each["sketch_digest"]) for each in found]
    row, member, digest = (np.concatenate(each)[off] for each in zip(*listed, strict=True))
    total, start, taken = computation.added([]), 0, 0
    try:
        for columns in tables.batches(place, tables.records(session)):
            rows = np.zeros(len(columns["member"]), bool)
            mine = (row >= start) & (row < start + len(rows))
            rows[row[mine] - start] = True
            same = (_digests(columns["sketch"][rows]) == digest[mine]).all()
            if not same or (columns["member"][rows] != member[mine]).any():
                break
            sketches, _ = _unpacked(session, _unsealed(session, me, columns, rows)[0][rows])
            total = computation.added([total, sum_of(computation, sketches)])
            start, taken = start + len(rows), taken + int(rows.sum())
    except DeserialisationError:
        taken = -1
    if taken != len(row):
        raise EvaluationError(_CHANGED.format(place))
    return sealed(me.encryption_key, encode(bytes_of(total)), session.digest, file.name)
