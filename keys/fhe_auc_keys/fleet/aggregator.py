"""The aggregator of a fleet: it collects records, and adds the sketches of those that count."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, TooFewPartiesError
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.sessions import RANDOMNESS_BYTES, QueryKey, Submissions
from fhe_auc.rlwe.packing import octet_rows
from fhe_auc.rlwe.polynomials import Words
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.device import Record
from fhe_auc_keys.fleet.fleet_session import LIST, OPENING, RESULT, UNOPENED, AnswersSeal, FleetSession, Verdict, loaded
from fhe_auc_keys.fleet.record_checks import RefusedRecords, WholeRecord, check_record, strange, unsealed
from fhe_auc_keys.fleet.tables import BLOBS, RECORDS, RowGroup
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.store import fixed_lists
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.signatures import has_signed

LIST_FILE = "list"

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
    key: bytes = b""  # of the query, sealed to the helper, where devices prove their counts

    @property
    def digest(self) -> bytes:
        """What the list is known by: equal ones have it in common, though what is sealed never is."""
        return hashlib.sha256(encode((self.session, self.files))).digest()


class Opened(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The helper's answer, signed by it."""

    session: bytes
    blobs: bytes  # `BlobList.digest`
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


def collect(
    session: FleetSession, store: KeyStore, records: str, blobs: str, workers: Workers, *, at: datetime
) -> Collected:
    """Fix all records in a folder, check them, and write the blobs of those that are whole into the folder `blobs`.

    They are read twice. At first every byte goes into the digest that the aggregator's `store` keeps; only then is
    there a key of a query, by which proofs are asked. So the records must stay as they are until `add`: done again, the
    same ones make the same list. Raises `KeysError` where this is not the aggregator, or other records were fixed;
    `EvaluationError` where a file has changed in between: put it back, and collect again; `InputError` where `blobs`
    holds a list already, `records` no records, or a folder cannot be read or written.
    """
    session.require(session.announced.aggregator, at=at)
    if tables.is_there(tables.within(blobs, LIST_FILE)):
        raise InputError(f"{blobs!r} holds a list of blobs already: a session has one; give a new folder")
    parts, unreadable = tables.parts_of(records, RECORDS)
    if not parts:  # before it would be the session's one list
        raise InputError(f"{records!r} holds no records")
    refusals = RefusedRecords()
    for file, why in unreadable.items():
        refusals.add(UNREADABLE, f"{file}: {why}")
    files = []
    fixed, digests = Submissions(len(parts)), list[bytes]()
    for digest, why in workers.map(_digest_of, ((part,) for part in parts)):
        fixed.add(digest)
        digests.append(digest)
        if not digest:  # none of a part counts that cannot be read to its end
            refusals.add(UNREADABLE, why)
    secret = fixed_lists.fix(store, session.identity, session.manifest, fixed.digest)
    query = fixed.query_key(secret, session.manifest.digest)
    names = [f"blobs-{number:06}.parquet" for number in range(len(parts))]
    tasks = ((part, digest, blobs, name) for part, digest, name in zip(parts, digests, names, strict=True))
    found = workers.map(_collected, tasks, session.manifest.to_bytes(), session.identity.to_bytes(), query)
    for name, (rows, digest, refused) in zip(names, found, strict=True):
        refusals.merge(refused)
        files.append(BlobFile(name, rows, digest))
    sealed = b"" if session.loaded.computation.proofs is None else session.seal(LIST, session.helper, query)
    signed = session.sign(LIST, BlobList(session.manifest.digest, tuple(files), sealed))
    tables.write_file(tables.within(blobs, LIST_FILE), signed)
    return Collected(sum(each.rows for each in files), refusals)


def add(
    session: FleetSession, records: str, blobs: str, opening: bytes, workers: Workers, *, at: datetime
) -> tuple[bytes, dict[str, int]]:
    """Return the encrypted result, for the helper, and how many records do not count, by reason.

    `records` and `blobs` are as of `collect`, and `opening` is the helper's answer. Raises `KeysError` where this is no
    aggregator, or the answer not the helper's or for other blobs; `EvaluationError` where the records have changed
    since; `TooFewPartiesError` where fewer count than the session takes, or the helper says that it opened nothing.
    """
    session.require(session.announced.aggregator, at=at)
    manifest, computation = session.manifest, session.loaded.computation
    signed = tables.read_file(tables.within(blobs, LIST_FILE))
    listed = session.read(LIST, signed, BlobList, session.announced.aggregator, at=at)
    if has_signed(session.helper.signing_key, UNOPENED, manifest.digest, opening):
        raise TooFewPartiesError("the helper has opened nothing, as too few count: the session has ended")
    answer = session.read(OPENING, opening, Opened, session.helper, at=at)
    if {listed.session, answer.session} != {manifest.digest} or answer.blobs != listed.digest:
        raise KeysError("the helper's answer is for another session, or for other blobs than are listed here")
    verdicts = np.frombuffer(answer.verdicts, np.uint8)
    if len(verdicts) != sum(each.rows for each in listed.files):
        raise DeserialisationError("the helper has not said of each blob whether it counts")
    counted = int((verdicts == Verdict.COUNTS).sum())
    if counted < manifest.min_parties:
        raise TooFewPartiesError(f"{counted} members count, at least {manifest.min_parties} are needed")
    keys = computation.keys(answer.context, session.unseal(OPENING, answer.opening))
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


def _hashed(part: RowGroup, digest: hashlib._Hash) -> Iterator[Record]:
    """Yield a part's records, each with all its bytes in the digest; errors as `tables.rows_of`."""
    for row in tables.rows_of(part, RECORDS):
        digest.update(encode(row))
        yield Record(*row)


def _digest_of(part: RowGroup) -> tuple[bytes, str]:
    """Return the digest of a part's rows; or none, and why, where it cannot be read to its end."""
    digest = hashlib.sha256()
    try:
        for _ in _hashed(part, digest):
            pass
    except DeserialisationError as error:
        return b"", str(error)
    return digest.digest(), ""


def _collected(
    part: RowGroup, fixed: bytes, blobs: str, name: str, manifest: bytes, identity: bytes, query: QueryKey
) -> tuple[int, bytes, RefusedRecords]:
    """Write the blobs of a part's records that are whole; return how many, the file's SHA-256, and the others.

    Nothing is written of a part whose digest is not the one `fixed`: `EvaluationError`.
    """
    session, me = loaded(manifest), Identity.from_bytes(identity)
    proofs, refusals, rows = session.computation.proofs, RefusedRecords(), list[tuple[Any, ...]]()
    seal, digest_now = AnswersSeal(query, session.digest, name), hashlib.sha256()

    def whole() -> Iterator[WholeRecord]:
        for number, record in enumerate(_hashed(part, digest_now) if fixed else ()):
            found = check_record(record, session, me)
            if isinstance(found, str):
                refusals.add(found, f"{part.file}, row group {part.group}, row {number}: member {record.member}")
                continue
            randomness = found.proof[:RANDOMNESS_BYTES]
            digest = hashlib.sha256(record.sketch).digest()
            rows.append((record.member, digest, record.blob, record.signature, randomness))
            yield found

    try:
        if proofs is None:
            answers = [b"" for _ in whole()]
        else:
            own = [*whole()]
            members = [each.record.member for each in own]
            padded = octet_rows([each.parts[0] for each in own], session.computation.part_bytes[0])
            given = proofs.received(members, padded, octet_rows([each.proof for each in own], proofs.proof_bytes))
            digits = session.computation.unpacked_rows(0, padded)[0][:, : proofs.digits]
            found = proofs.answers(query, members, digits, given)
            answers = [seal.seal(row, rows[row][0], each.tobytes()) for row, each in enumerate(found)]
    except DeserialisationError:
        raise EvaluationError(_CHANGED.format(folder=part.file)) from None
    if fixed and digest_now.digest() != fixed:
        raise EvaluationError(_CHANGED.format(folder=part.file))
    listed = [(*row, answer) for row, answer in zip(rows, answers, strict=True)]
    data = tables.as_file(list(zip(*listed, strict=True)) or [()] * len(BLOBS), BLOBS)
    tables.write_file(tables.within(blobs, name), data)
    return len(rows), hashlib.sha256(data).digest(), refusals


def _added(part: RowGroup, blobs: str, digest: bytes, verdicts: bytes, manifest: bytes, identity: bytes) -> list[Words]:
    """Return the sum of the sketches of a part's records that count."""
    session, me = loaded(manifest), Identity.from_bytes(identity)
    total = session.computation.running_sum()
    if not verdicts:
        return total.totals
    data = tables.read_file(blobs)
    if hashlib.sha256(data).digest() != digest:
        raise EvaluationError(f"{blobs!r} has changed since it was written: put it back")
    changed = EvaluationError(_CHANGED.format(folder=part.file))
    listed = tables.rows_in(data, BLOBS, ["member", "sketch_digest"]).to_pydict()
    collected = iter(zip(listed["member"], listed["sketch_digest"], verdicts, strict=True))
    sought = next(collected, None)
    try:
        for record in map(Record._make, tables.rows_of(part, RECORDS)):
            if sought is None or strange(record, session):
                continue
            # Of what is not strange, member and sketch alone decide whether it was collected.
            if (record.member, hashlib.sha256(record.sketch).digest()) == sought[:2]:
                if sought[2] == Verdict.COUNTS:
                    total.add(unsealed(record, session, me)[0])
                sought = next(collected, None)
    except DeserialisationError:
        raise changed from None
    if sought is not None:
        raise changed
    return total.totals
