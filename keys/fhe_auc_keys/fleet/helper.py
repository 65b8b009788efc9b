"""The helper of a fleet: it opens the sum of the pads of those that count, once, and decrypts one result.

What it needs for that is in its key store before any answer leaves it. So the same question has the same answer,
whatever dies in between, and another question has none: two openings, or two results, would tell what lies between.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError, EvaluationError
from fhe_auc.base.serialise import KeptFormat, SecretStruct, encode
from fhe_auc.input_proofs.sessions import RANDOMNESS_BYTES
from fhe_auc.question.fleet import Members
from fhe_auc.rlwe.packing import octet_rows
from fhe_auc.rlwe.polynomials import Words
from fhe_auc_keys.bundles.session_keys import GENERATE, SEED_BYTES
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.aggregator import LIST_FILE, BlobFile, BlobList, FleetResult, Opened
from fhe_auc_keys.fleet.fleet_session import (
    BLOB,
    BLOB_BYTES,
    DIGEST_BYTES,
    KEY_BYTES,
    LIST,
    OPENING,
    RESPONSE,
    RESULT,
    SIGNATURE_BYTES,
    UNOPENED,
    AnswersSeal,
    FleetSession,
    Verdict,
    blob_info,
    loaded,
    signed_of,
)
from fhe_auc_keys.fleet.tables import BLOBS, RESPONSES
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import seal_under
from fhe_auc_keys.trust.signatures import has_signed

SUMS_FILE = "sums"
_RESPONSES_A_FILE = 100_000


class _HelperState(SecretStruct, frozen=True):
    """Of a session, in the key store. Once the responses are written, nothing secret is left in it."""

    blobs: bytes  # digest of the one list that it takes, from the first look at it on; empty where it took none
    answer: bytes = b""  # the opening; or the word that nothing was opened, for `ended`
    ended: bool = False
    material: bytes = b""  # secret key
    members: bytes = b""  # of those that count, 4 bytes each, the lowest first
    response_keys: bytes = b""  # theirs
    result: bytes = b""  # SHA-256 of the one that is decrypted
    content_key: bytes = b""  # under which its sums are sealed


_FORMAT = KeptFormat(b"fhefhlp", _HelperState, "fleet's session", version=4)


class _BlobRow(NamedTuple):
    """The columns of `tables.BLOBS`."""

    member: int
    sketch_digest: bytes
    blob: bytes
    signature: bytes
    randomness: bytes  # both parts of what its proof hangs on; empty without proofs
    answers: bytes  # the aggregator's, about its proof, sealed


class _Secrets(NamedTuple):
    """What a task has found in a file of blobs."""

    verdicts: NDArray[np.uint8]  # a blob
    response_keys: NDArray[np.uint8]  # shape (blobs, 32)
    pads: list[Words]  # the sum of those that count, but for contested members
    contested: list[tuple[int, bytes]]  # of those, the rows of blobs that open, and the pads' seeds

    def __repr__(self) -> str:
        return "_Secrets(...)"


class HelperAnswer(NamedTuple):
    """What a helper says of a list of blobs."""

    document: bytes  # the opening, for the aggregator; or the word that nothing was opened, for devices, too
    verdicts: dict[str, int]  # how many blobs there are of each; none where it is asked again about a word
    opened: bool


def open_pads(
    session: FleetSession, store: KeyStore, members: str, blobs: str, workers: Workers, *, at: datetime
) -> HelperAnswer:
    """Return the answer for the aggregator: the same one each time.

    The first list that the helper is given is the session's, from before it looks at an answer about a proof: asked
    about a proof in two lists it could be made to tell counts. Where fewer count than the session takes, the session
    ends unopened. `members` is the fleet's file, `blobs` the aggregator's folder. Of a member's records the first
    counts that opens, and whose proof holds where devices prove their counts.

    Raises `KeysError` where this is not the helper, the list not the aggregator's or of another session, or another
    list than the session's; `InputError` where the members are not the fleet's, or a file cannot be read;
    `DeserialisationError` where a file of blobs is not the one listed, or malformed; `TamperedError` where the keys are
    not sealed to this helper.
    """
    session.require(session.helper, at=at)
    manifest, computation = session.manifest, session.loaded.computation
    signed = tables.read_file(tables.within(blobs, LIST_FILE))
    listed = session.read(LIST, signed, BlobList, session.announced.aggregator, at=at)
    if listed.session != manifest.digest:
        raise KeysError("the list of blobs is of another session")
    fleet = tables.read_members(members)
    session.loaded.fleet.require(fleet)
    kept, name = _kept(store, manifest.session), manifest.session.hex()
    if kept is None:
        kept = _HelperState(listed.digest)
        store.put("fleet", name, _FORMAT.frame(kept))
    if kept.blobs not in (b"", listed.digest):
        raise KeysError("the helper has been given another list: a session has one; make a new session")
    if kept.ended:
        return HelperAnswer(kept.answer, {}, opened=False)
    if kept.answer:
        verdicts_then = session.read(OPENING, kept.answer, Opened, session.helper, at=at).verdicts
        return HelperAnswer(kept.answer, _tally(verdicts_then), opened=True)
    tasks = [(tables.within(blobs, each.name), each) for each in listed.files]
    members_in = (np.asarray(_read(*task, ["member"])["member"], np.uint32) for task in tasks)
    named = np.concatenate([np.empty(0, np.uint32), *members_in])
    found, times = np.unique(named, return_counts=True)
    query = b"" if computation.proofs is None else session.unseal(LIST, listed.key)
    shared = manifest.to_bytes(), session.identity.to_bytes(), query, fleet, found[times > 1]
    opened = workers.map(_opened, tasks, *shared)
    verdicts, keys, seeds = np.empty(len(named), np.uint8), np.empty((len(named), KEY_BYTES), np.uint8), []
    pads, taken, at_row = computation.added([]), set[int](), 0
    for each in opened:
        rows = slice(at_row, at_row + len(each.verdicts))
        verdicts[rows], keys[rows] = each.verdicts, each.response_keys
        pads = computation.added([pads, each.pads])
        for row, seed in each.contested:
            member = int(named[at_row + row])
            if member in taken:
                verdicts[at_row + row] = Verdict.AGAIN
            else:
                taken.add(member)
                seeds.append((member, seed))
        at_row = rows.stop
    counts = verdicts == Verdict.COUNTS
    if int(counts.sum()) < manifest.min_parties:
        return HelperAnswer(end(session, store, at=at), _tally(verdicts.tobytes()), opened=False)
    public, secret = GENERATE[session.loaded.parameters.scheme](session.loaded.parameters)
    material = secret.to_bytes()
    opening = computation.pad_key(
        computation.secret(material), computation.added([pads, computation.sum_of_pads(seeds)])
    )
    sealed = session.seal(OPENING, session.announced.aggregator, opening)
    body = Opened(manifest.digest, listed.digest, verdicts.tobytes(), public.to_bytes(), sealed)
    answer = session.sign(OPENING, body)
    mine = named[counts].astype("<u4").tobytes(), keys[counts].tobytes()
    opened_now = _HelperState(listed.digest, answer, False, material, *mine)
    store.put("fleet", name, _FORMAT.frame(opened_now), replace=True)
    return HelperAnswer(answer, _tally(verdicts.tobytes()), opened=True)


def end(session: FleetSession, store: KeyStore, *, at: datetime) -> bytes:
    """Return the signed word that nothing was opened in this session, and never will be; the same one each time.

    Raises `KeysError` where this is not the helper, or pads of the session have been opened.
    """
    session.require(session.helper, at=at)
    kept = _kept(store, session.manifest.session) or _HelperState(b"")
    if kept.answer and not kept.ended:
        raise KeysError("pads of this session have been opened: that cannot be taken back")
    if not kept.ended:
        kept = _HelperState(kept.blobs, session.identity.sign(UNOPENED, session.manifest.digest), ended=True)
        store.put("fleet", session.manifest.session.hex(), _FORMAT.frame(kept), replace=True)
    return kept.answer


def decrypt(session: FleetSession, store: KeyStore, result: bytes, out: str, *, at: datetime) -> int:
    """Decrypt the aggregator's result, and write the responses into a folder; return how many.

    A file holds the sums, sealed once, and others for each member that counts what it opens them with. Once they are
    written, the key store has no secret of the session any more.

    Raises `KeysError` where this is not the helper, the result not the aggregator's or of another opening, another one
    has been decrypted, or the responses are written; `EvaluationError` where nothing has been opened;
    `DeserialisationError` where the result is malformed; no other one is decrypted after it.
    """
    session.require(session.helper, at=at)
    manifest, computation = session.manifest, session.loaded.computation
    kept = _kept(store, manifest.session)
    if kept is None or not kept.answer or kept.ended:
        raise EvaluationError("no pads of this session have been opened, so no result can be decrypted")
    body = session.read(RESULT, result, FleetResult, session.announced.aggregator, at=at)
    if body.session != manifest.digest or body.opening != hashlib.sha256(kept.answer).digest():
        raise KeysError("the result is of another session, or of another opening than this helper gave")
    digest = hashlib.sha256(body.ciphertext).digest()
    if kept.result not in (b"", digest):
        raise KeysError("another result has been decrypted: a session has one")
    if not kept.material:
        raise KeysError("the responses to this result have been written, and what made them is erased")
    if not kept.result:
        kept = msgspec.structs.replace(kept, result=digest, content_key=secrets.token_bytes(KEY_BYTES))
        store.put("fleet", manifest.session.hex(), _FORMAT.frame(kept), replace=True)
    counted = np.frombuffer(kept.members, "<u4")
    totals = computation.decrypt(computation.secret(kept.material), session.unseal(RESULT, body.ciphertext))
    sums = tuple(np.ascontiguousarray(each, "<u8").tobytes() for each in totals)
    keys = (kept.response_keys[start : start + KEY_BYTES] for start in range(0, len(kept.response_keys), KEY_BYTES))
    text, about = encode((len(counted), sums)), encode((RESPONSE, manifest.digest))
    sealed, parts = seal_under(keys, text, associated=about, content_key=kept.content_key)
    tables.write_file(tables.within(out, SUMS_FILE), sealed)
    for number, start in enumerate(range(0, len(parts), _RESPONSES_A_FILE)):
        rows = slice(start, start + _RESPONSES_A_FILE)
        data = tables.as_file([counted[rows], parts[rows]], RESPONSES)
        tables.write_file(tables.within(out, f"responses-{number:06}.parquet"), data)
    ended = _HelperState(kept.blobs, kept.answer, result=digest)
    store.put("fleet", manifest.session.hex(), _FORMAT.frame(ended), replace=True)
    return len(parts)


def _kept(store: KeyStore, session: bytes) -> _HelperState | None:
    if not store.has("fleet", session.hex()):
        return None
    return store.load("fleet", session.hex(), _FORMAT)


def _tally(verdicts: bytes) -> dict[str, int]:
    found = np.frombuffer(verdicts, np.uint8)
    return {each.sentence: number for each in Verdict if (number := int((found == each).sum()))}


def _read(place: str, file: BlobFile, columns: list[str] | None = None) -> Mapping[str, list[Any]]:
    """Return the columns of a file of blobs; raise `DeserialisationError` where it is not the one that is listed."""
    data = tables.read_file(place)
    if hashlib.sha256(data).digest() != file.digest:
        raise DeserialisationError(f"{place!r} is not the file that the aggregator has listed; ask for it again")
    found = tables.rows_in(data, BLOBS, columns)
    if found.num_rows != file.rows or any(column.null_count for column in found.columns):
        raise DeserialisationError(f"{place!r} has other rows than the aggregator has listed")
    columns_found: dict[str, list[Any]] = found.to_pydict()
    return columns_found


def _opened(
    place: str,
    file: BlobFile,
    manifest: bytes,
    identity: bytes,
    query: bytes,
    fleet: Members,
    contested: NDArray[np.uint32],
) -> _Secrets:
    """Open the blobs of a file, and add up the pads of those that count."""
    session, me = loaded(manifest), Identity.from_bytes(identity)
    rows = [_BlobRow(*row) for row in zip(*_read(place, file).values(), strict=True)]
    verdicts, keys = np.empty(len(rows), np.uint8), np.zeros((len(rows), KEY_BYTES), np.uint8)
    secrets_in: dict[int, bytes] = {}
    for number, row in enumerate(rows):
        verdicts[number], secret = _verdict(row, fleet, me, session.digest)
        if verdicts[number] == Verdict.COUNTS:
            secrets_in[number] = secret

    if (proofs := session.computation.proofs) is not None and secrets_in:
        if len(query) != KEY_BYTES:
            raise DeserialisationError("the key of the query has another length")
        seal = AnswersSeal(query, session.digest, file.name)
        numbers, members_in = [*secrets_in], [rows[number].member for number in secrets_in]
        seeds = [secret[:SEED_BYTES] for secret in secrets_in.values()]
        randomness = octet_rows([rows[number].randomness for number in numbers], RANDOMNESS_BYTES)
        unsealed = [seal.unseal(number, rows[number].member, rows[number].answers) for number in numbers]
        pads = session.computation.pads(members_in, seeds)[0]
        held = proofs.held(query, members_in, seeds, pads, randomness, octet_rows(unsealed, proofs.answer_bytes))
        for number in np.array(numbers)[~held].tolist():
            verdicts[number] = Verdict.UNPROVED
            del secrets_in[number]
    unique: list[tuple[int, bytes]] = []
    several: list[tuple[int, bytes]] = []
    disputed = set(contested.tolist())
    for number, secret in secrets_in.items():
        keys[number] = np.frombuffer(secret[SEED_BYTES:], np.uint8)
        if (member := rows[number].member) in disputed:
            several.append((number, secret[:SEED_BYTES]))
        else:
            unique.append((member, secret[:SEED_BYTES]))
    return _Secrets(verdicts, keys, session.computation.sum_of_pads(unique), several)


def _verdict(row: _BlobRow, members: Members, me: Identity, digest: bytes) -> tuple[Verdict, bytes]:
    """Return whether a blob counts, and what is in it."""
    lengths = len(row.sketch_digest), len(row.blob), len(row.signature)
    if row.member >= len(members) or lengths != (DIGEST_BYTES, BLOB_BYTES, SIGNATURE_BYTES):
        return Verdict.UNOPENED, b""
    info = blob_info(digest, row.member, row.sketch_digest)
    about = signed_of(row.blob, info, row.randomness)
    if not has_signed(members[row.member].tobytes(), BLOB, about, row.signature):
        return Verdict.UNSIGNED, b""
    try:
        return Verdict.COUNTS, me.unseal(row.blob, info=info)
    except TamperedError:
        return Verdict.UNOPENED, b""
