"""The aggregator of a fleet: it collects records, and adds the sketches of those that count."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, TooFewPartiesError
from fhe_auc.rlwe.polynomials import Words
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.device import Record
from fhe_auc_keys.fleet.session import (
    BLOB_BYTES,
    LIST,
    OPENING,
    RESULT,
    SIGNATURE_BYTES,
    FleetSession,
    RefusedRecords,
    Verdict,
    loaded,
    sketch_info,
)
from fhe_auc_keys.fleet.tables import BLOBS, RECORDS, RowGroup
from fhe_auc_keys.fleet.tasks import Workers
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import OVERHEAD

LIST_FILE = "list"

NO_MEMBER = "it is of no member of the fleet"
OTHER_SESSION = "it is of another session"
OTHER_LENGTH = "a field is empty or has another length"
NOT_SEALED = "its sketch is not sealed to the aggregator for this session and member"
NO_SKETCH = "its sketch is none: a number in it is too large"
UNREADABLE = "the file cannot be read, or not to its end"


class BlobFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file of blobs in the folder for the helper, of so many rows."""

    name: str
    rows: int
    digest: bytes  # SHA-256


class BlobList(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the helper is asked to open, signed by the aggregator."""

    session: bytes  # the manifest's digest
    files: tuple[BlobFile, ...]


class Opened(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The helper's answer, signed by it."""

    session: bytes
    blobs: bytes  # SHA-256 of the list
    verdicts: bytes  # one a blob, in the list's order
    context: bytes  # public
    opening: bytes  # sealed to the aggregator


class FleetResult(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The encrypted sums, signed by the aggregator."""

    session: bytes
    opening: bytes  # SHA-256 of the helper's answer
    ciphertext: bytes  # sealed to the helper


class Collected(NamedTuple):
    """What collecting has found: how many records the helper is to open, and which it need not."""

    records: int
    refusals: RefusedRecords


def collect(session: FleetSession, records: str, blobs: str, workers: Workers, *, at: datetime) -> Collected:
    """Check all records in a folder, and write the blobs of those that are whole into the folder `blobs`.

    The records must stay as they are until `add`. Raises `KeysError` where this is not the aggregator; `InputError`
    where `blobs` holds a list already, or a folder cannot be read or written.
    """
    session.require(session.announced.aggregator, at=at)
    if tables.is_there(tables.within(blobs, LIST_FILE)):
        raise InputError(f"{blobs!r} holds a list of blobs already: a session has one; give a new folder")
    parts, unreadable = tables.parts_of(records, RECORDS)
    refusals = RefusedRecords()
    for file, why in unreadable.items():
        refusals.add(UNREADABLE, f"{file}: {why}")
    files = []
    names = [f"blobs-{number:06}.parquet" for number in range(len(parts))]
    tasks = ((part, tables.within(blobs, name)) for part, name in zip(parts, names, strict=True))
    found = workers.map(_collected, tasks, session.manifest.to_bytes(), session.identity.to_bytes())
    for name, (rows, digest, refused) in zip(names, found, strict=True):
        refusals.merge(refused)
        files.append(BlobFile(name, rows, digest))
    signed = session.sign(LIST, BlobList(session.manifest.digest, tuple(files)))
    tables.write(tables.within(blobs, LIST_FILE), signed)
    return Collected(sum(each.rows for each in files), refusals)


def add(
    session: FleetSession, records: str, blobs: str, opening: bytes, workers: Workers, *, at: datetime
) -> tuple[bytes, dict[str, int]]:
    """Return the encrypted result, for the helper, and how many records do not count, by reason.

    `records` and `blobs` are as of `collect`, and `opening` is the helper's answer. Raises `KeysError` where this is no
    aggregator, or the answer not the helper's or for other blobs; `EvaluationError` where the records have changed
    since; `TooFewPartiesError` where fewer count than the session takes.
    """
    session.require(session.announced.aggregator, at=at)
    manifest, computation = session.manifest, session.loaded.computation
    signed = tables.read(tables.within(blobs, LIST_FILE))
    listed = session.read(LIST, signed, BlobList, session.announced.aggregator, at=at)
    answer = session.read(OPENING, opening, Opened, session.helper, at=at)
    if {listed.session, answer.session} != {manifest.digest} or answer.blobs != hashlib.sha256(signed).digest():
        raise KeysError("the helper's answer is for another session, or for other blobs than are listed here")
    verdicts = np.frombuffer(answer.verdicts, np.uint8)
    if len(verdicts) != sum(each.rows for each in listed.files):
        raise DeserialisationError("the helper has not said of each blob whether it counts")
    counted = int((verdicts == Verdict.COUNTS).sum())
    if counted < manifest.min_parties:
        raise TooFewPartiesError(f"{counted} members count, at least {manifest.min_parties} are needed")
    keys = computation.opened(computation.load_public(answer.context), session.unseal(OPENING, answer.opening))
    parts, _ = tables.parts_of(records, RECORDS)
    if len(parts) != len(listed.files):
        raise EvaluationError(_CHANGED.format(folder=records))
    ends = np.cumsum([each.rows for each in listed.files])[:-1]
    tasks = (
        (part, tables.within(blobs, file.name), file.digest, mine.tobytes())
        for part, file, mine in zip(parts, listed.files, np.split(verdicts, ends), strict=True)
    )
    totals = computation.added(workers.map(_added, tasks, manifest.to_bytes(), session.identity.to_bytes()))
    sealed = session.seal(RESULT, session.helper, computation.aggregate(keys, totals))
    body = FleetResult(manifest.digest, hashlib.sha256(opening).digest(), sealed)
    left_out = {each.sentence: int((verdicts == each).sum()) for each in Verdict if each != Verdict.COUNTS}
    return session.sign(RESULT, body), {why: count for why, count in left_out.items() if count}


_CHANGED = (
    "{folder!r} does not hold the records that were collected: put back what has gone, and take out what has come since"
)


def _collected(part: RowGroup, target: str, manifest: bytes, identity: bytes) -> tuple[int, bytes, RefusedRecords]:
    """Write the blobs of a part's records that are whole; return how many, the file's SHA-256, and the others."""
    refusals = RefusedRecords()
    rows: list[tuple[Any, ...]] = []
    try:
        for number, record, _, why in _checked(part, manifest, identity):
            if why:
                refusals.add(why, f"{part.file}, row group {part.group}, row {number}: member {record.member}")
            else:
                digest = hashlib.sha256(record.sketch).digest()
                rows.append((record.member, digest, record.blob, record.signature))
    except DeserialisationError as error:
        rows, refusals = [], RefusedRecords()  # none of a file counts that cannot be read to its end
        refusals.add(UNREADABLE, str(error))
    data = tables.as_file(list(zip(*rows, strict=True)) or [[]] * len(BLOBS), BLOBS)
    tables.write(target, data)
    return len(rows), hashlib.sha256(data).digest(), refusals


def _added(part: RowGroup, blobs: str, digest: bytes, verdicts: bytes, manifest: bytes, identity: bytes) -> list[Words]:
    """Return the sum of the sketches of a part's records that count."""
    computation = loaded(manifest).computation
    total = computation.running_sum()
    if not verdicts:
        return total.totals
    data = tables.read(blobs)
    changed = EvaluationError(_CHANGED.format(folder=part.file))
    if hashlib.sha256(data).digest() != digest:
        raise EvaluationError(f"{blobs!r} has changed since it was written: put it back")
    listed = iter(zip(tables.rows_in(data, BLOBS, ["sketch_digest"]).column(0).to_pylist(), verdicts, strict=True))
    try:
        for _, record, padded, why in _checked(part, manifest, identity):
            if why:
                continue
            collected, verdict = next(listed, (b"", -1))
            if collected != hashlib.sha256(record.sketch).digest():
                raise changed
            if verdict == Verdict.COUNTS:
                total.add(padded)
    except DeserialisationError:
        raise changed from None
    if next(listed, None) is not None:
        raise changed
    return total.totals


def _checked(part: RowGroup, manifest: bytes, identity: bytes) -> Iterator[tuple[int, Record, list[bytes], str]]:
    """Yield a part's records with number, padded sketch, and why one is not whole: an empty text for those that are."""
    session, me = loaded(manifest), Identity.from_bytes(identity)
    computation = session.computation
    ends = [0, *itertools.accumulate(computation.part_bytes)]
    lengths = OVERHEAD + ends[-1], BLOB_BYTES, SIGNATURE_BYTES
    probe = computation.running_sum()
    for number, row in enumerate(tables.rows_of(part, RECORDS)):
        record, padded, why = Record(*row), list[bytes](), ""
        if None in record or tuple(map(len, record[2:])) != lengths:
            why = OTHER_LENGTH
        elif record.session != session.digest:
            why = OTHER_SESSION
        elif record.member >= session.fleet.members:
            why = NO_MEMBER
        else:
            try:
                info = sketch_info(session.digest, record.member)
                sketch = me.unseal(record.sketch, info=info)
                padded = [sketch[start:end] for start, end in itertools.pairwise(ends)]
                probe.add(padded)
            except TamperedError:
                why = NOT_SEALED
            except DeserialisationError:
                why = NO_SKETCH
        yield number, record, padded, why
