"""The helper of a fleet: it opens the sum of the pads of those that count, once, and decrypts one result.

What it needs for that is in its key store before any answer leaves it. So the same question has the same answer,
whatever dies in between, and another question has none: two openings, or two results, would tell what lies between.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.base.serialise import KeptFormat, SecretStruct
from fhe_auc.input_proofs.sessions import KEY_BYTES
from fhe_auc.question.fleet import Range
from fhe_auc.rlwe.packing import byte_rows, octet_rows
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.fleet import session as sessions
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.aggregator import LIST_FILE, OPENING_FILE, Task, sum_in
from fhe_auc_keys.fleet.session import COUNTS, VERDICTS, FleetSession, TableFile, sealed, unsealed
from fhe_auc_keys.fleet.tables import Columns, within
from fhe_auc_keys.fleet.workers import OwnKeys, Workers
from fhe_auc_keys.roles.blobs import RESPONSE_KEY_BYTES, is_signed, secret_in
from fhe_auc_keys.roles.helper import new_pad_key
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.sealing import WRAPPED_BYTES
from fhe_auc_keys.trust.signed_documents import sign_document

SUMS_FILE = "sums"
_SECRETS = "keys of query and content"  # of tasks, sealed
_NO_KEY = b"none"  # where the sum of the pads alone hides a result


class _HelperState(SecretStruct, frozen=True):
    """Of a session, in the key store. Once the sums are written, nothing secret is left in it."""

    blobs: bytes  # digest of the one list, and query, that it takes, from the first look on; empty where it took none
    content_key: bytes = b""  # under which the sums will be sealed: a member that counts is given it with its verdict
    answer: bytes = b""  # the opening; or the word that nothing was opened, for `ended`
    ended: bool = False
    material: bytes = b""  # secret key, or `_NO_KEY`
    result: bytes = b""  # SHA-256 of the one that is decrypted


_FORMAT = KeptFormat(b"fhefhlp", _HelperState, "fleet's session", version=5)


class HelperAnswer(NamedTuple):
    """What a helper says of a list of blobs."""

    document: bytes  # the opening, for the aggregator; or the word that nothing was opened, for devices, too
    verdicts: dict[str, int]  # how many blobs there are of each; none where it is asked again about a word
    opened: bool


def open_pads(
    session: FleetSession, vault: Vault, keys: str, blobs: str, answers: str, workers: Workers, *, at: datetime
) -> HelperAnswer:
    """Return the answer for the aggregator, the same one each time, and write it into the folder `answers`, for all.

    The first list that the helper is given is the session's, from before it looks at an answer about a proof: asked
    about one in two lists it could be made to tell counts. Where fewer count than the session takes, the session ends
    unopened. `keys` is the folder of the fleet's files, `blobs` the aggregator's. Of a member's records the first
    counts that opens, and whose proof, if any, holds. The store, of `vault`, is closed while workers work.

    Raises `KeysError` where this is not the helper, the list not the aggregator's or of another session, or another
    list than the session's; `InputError` where keys do not ascend, a file cannot be read, or two folders are the same;
    `DeserialisationError` where a file of keys or blobs is not the one listed; `TamperedError` where the query is not
    sealed to this helper.
    """
    session.require(session.helper, at=at)
    tables.require_apart(keys, blobs, answers)
    me, manifest, adder = session.identity, session.manifest, session.announced.aggregator
    computation = session.loaded.computation
    listed = session.read(sessions.LIST, tables.read_file(within(blobs, LIST_FILE)), adder, at=at)
    names = [each.name for each in listed.files]
    mine = [each for each in session.ranges if each.name in names]
    if names != [each.name for each in mine]:
        raise DeserialisationError("the list of blobs is not about files of the fleet's, each once and in order")
    if len(query := unsealed(me, listed.sealed, manifest.digest, sessions.QUERY)) != KEY_BYTES:
        raise DeserialisationError("the key of the query has another length")
    asked = hashlib.sha256(listed.known_by + query).digest()
    with vault.open() as store:
        kept = _kept(store, session)
        if not kept.blobs and not kept.ended:
            kept = _keep(store, session, _HelperState(asked, secrets.token_bytes(RESPONSE_KEY_BYTES)))
    if kept.blobs not in (b"", asked):
        raise KeysError("the helper has been given another list: a session has one; make a new session")
    if not kept.content_key:  # it has ended, by a word or by sums: what makes the answers is erased
        return _written(session, answers, kept, at)
    secret = sealed(me.encryption_key, query + kept.content_key, manifest.digest, _SECRETS)
    files, numbers, total, ends = list[TableFile](), np.zeros(len(VERDICTS), int), computation.added([]), [b""]
    parts = ((within(blobs, file.name), file, own, keys, answers) for file, own in zip(listed.files, mine, strict=True))
    shared = manifest.to_bytes(), secret, workers.keys(vault)
    for file, verdicts, summed, of_range in workers.map(_opened, parts, *shared):
        files.append(file)
        numbers += verdicts
        ends += of_range
        total = computation.added([total, sum_in(session, summed, file.name)])
    if any(last >= first for last, first in zip(ends[::2], ends[1::2], strict=False)):
        raise InputError(tables.NOT_ASCENDING.format(keys))
    with vault.open() as store:
        now = _kept(store, session)  # another process may have answered meanwhile
        if not now.answer and numbers[COUNTS] < manifest.min_parties:
            end(session, store, at=at)
        elif not now.answer:
            made = new_pad_key(computation, total)
            opening = sealed(adder.encryption_key, made.pad_key, manifest.digest, sessions.PADS)
            told = tuple(numbers.tolist())
            body = sessions.Document(manifest.digest, listed.known_by, opening, tuple(files), told, made.public)
            answer = sign_document(sessions.OPENING, me, body)
            _keep(store, session, msgspec.structs.replace(kept, answer=answer, material=made.context or _NO_KEY))
        elif not now.ended and _opening(session, now, at).files != tuple(files):
            raise EvaluationError("the answers are not as they were: put back the files that they were made of")
        kept = _kept(store, session)
    return _written(session, answers, kept, at, numbers.tolist())


def end(session: FleetSession, store: KeyStore, *, at: datetime) -> bytes:
    """Return the signed word that nothing was opened in this session, and never will be; the same one each time.

    Raises `KeysError` where this is not the helper, or pads of the session have been opened.
    """
    session.require(session.helper, at=at)
    kept = _kept(store, session)
    if kept.answer and not kept.ended:
        raise KeysError("pads of this session have been opened: that cannot be taken back")
    word = session.identity.sign(sessions.UNOPENED, session.manifest.digest)
    return _keep(store, session, _HelperState(kept.blobs, answer=word, ended=True)).answer


def decrypt(session: FleetSession, vault: Vault, result: bytes, answers: str, *, at: datetime) -> int:
    """Decrypt the aggregator's result, and write the sums into the folder `answers`; return over how many they are.

    They are sealed under the key that each member that counts has been given, and signed. Then the key store has no
    secret of the session any more.

    Raises `KeysError` where this is not the helper, the result not the aggregator's or of another opening, another one
    has been decrypted, or the sums are written; `EvaluationError` where nothing has been opened;
    `DeserialisationError` where the result is malformed; no other one is decrypted after it.
    """
    session.require(session.helper, at=at)
    me, manifest, computation = session.identity, session.manifest, session.loaded.computation
    with vault.open() as store:
        kept = _kept(store, session)
        if not kept.answer or kept.ended:
            raise EvaluationError("no pads of this session have been opened, so no result can be decrypted")
        body = session.read(sessions.RESULT, result, session.announced.aggregator, at=at)
        if body.about != hashlib.sha256(kept.answer).digest():
            raise KeysError("the result is of another opening than this helper gave")
        digest = hashlib.sha256(body.sealed).digest()
        if kept.result not in (b"", digest):
            raise KeysError("another result has been decrypted: a session has one")
        if not kept.material:
            raise KeysError("the sums of this result have been written, and what made them is erased")
        kept = _keep(store, session, msgspec.structs.replace(kept, result=digest))
        number = _opening(session, kept, at).numbers[COUNTS]
        ciphertext = unsealed(me, body.sealed, manifest.digest, sessions.SUMS)
        totals = computation.decrypt(computation.secret(kept.material), ciphertext)
        sums = sessions.sealed_sums(me, kept.content_key, number, totals, manifest.digest)
        tables.write_file(within(answers, SUMS_FILE), sums)
        _keep(store, session, _HelperState(kept.blobs, answer=kept.answer, result=digest))
    return number


def _kept(store: KeyStore, session: FleetSession) -> _HelperState:
    name = session.manifest.session.hex()
    return store.load("fleet", name, _FORMAT) if store.has("fleet", name) else _HelperState(b"")


def _keep(store: KeyStore, session: FleetSession, state: _HelperState) -> _HelperState:
    store.put("fleet", session.manifest.session.hex(), _FORMAT.frame(state), replace=True)
    return state


def _opening(session: FleetSession, kept: _HelperState, at: datetime) -> sessions.Document:
    return session.read(sessions.OPENING, kept.answer, session.helper, at=at)


def _written(
    session: FleetSession, answers: str, kept: _HelperState, at: datetime, numbers: Sequence[int] = ()
) -> HelperAnswer:
    """Write an answer into the folder for all, and return it."""
    tables.write_file(within(answers, OPENING_FILE), kept.answer)
    if not kept.ended:
        numbers = _opening(session, kept, at).numbers
    return HelperAnswer(kept.answer, sessions.told(numbers), opened=not kept.ended)


def _opened(
    place: str, file: TableFile, own: Range, keys: str, answers: str, manifest: bytes, secret: bytes, role: OwnKeys
) -> tuple[TableFile, NDArray[np.int64], bytes, tuple[bytes, bytes]]:
    """Open the blobs of a range, and write down what is answered to each member.

    Returns the file of answers, how many blobs there are of each verdict, the sum, sealed, of the pads of those that
    count, and the range's first and last keys. Nothing is written where a file of keys or blobs is not the one listed.
    """
    task = Task(manifest, role, own.name)
    computation, digest, both = task.computation, task.digest, unsealed(task.me, secret, task.digest, _SECRETS)
    key, content_key = both[:KEY_BYTES], both[KEY_BYTES:]
    known = tables.read_keys(within(keys, own.name), digest=own.digest)
    cipher = sessions.answers_cipher(key, digest, own.name)
    taken, numbers = np.zeros(own.number, bool), np.zeros(len(VERDICTS), int)
    with tables.writing(within(answers, own.name), tables.ANSWERS) as written:
        for columns in tables.listed_batches(place, tables.blobs(task.session), file.digest):
            verdicts, found = _looked_at(task, own, known, columns)
            members, seeds = columns["member"].tolist(), [each[:SEED_BYTES] for each in found]
            pads = computation.pads(members, seeds)
            if (proofs := computation.proofs) is not None:
                said = sessions.next_answers(cipher, columns["answers"])
                held = proofs.held(key, members, seeds, pads[0], columns["randomness"], said)
                verdicts[(verdicts == COUNTS) & ~held] = sessions.UNPROVED
            rows = np.flatnonzero(verdicts == COUNTS)  # of each member the first counts
            places, firsts = np.unique(columns["member"][rows].astype(np.int64) - own.first, return_index=True)
            verdicts[rows] = sessions.AGAIN
            verdicts[rows[firsts[~taken[places]]]] = COUNTS
            taken[places] = True
            counts = verdicts == COUNTS
            task.add(pads, counts)
            parts = [bytes(WRAPPED_BYTES)] * len(members)
            for row in np.flatnonzero(counts).tolist():
                parts[row] = sessions.part_for(found[row][SEED_BYTES:], content_key, digest, members[row])
            written.add({**columns, "verdict": verdicts, "part": octet_rows(parts, WRAPPED_BYTES)})
            numbers += np.bincount(verdicts, minlength=len(VERDICTS))
    made, ends = TableFile(own.name, int(numbers[COUNTS]), written.digest.value), byte_rows(known[[0, -1]])
    return made, numbers, task.summed(), (ends[0], ends[1])


def _looked_at(
    task: Task, own: Range, known: NDArray[np.uint8], columns: Columns
) -> tuple[NDArray[np.uint8], list[bytes]]:
    """Return whether each blob of a batch counts, as far as signature and seal say, and what is in it; or zeros."""
    verdicts = np.full(len(columns["member"]), sessions.UNSIGNED, np.uint8)
    found = [bytes(SEED_BYTES + RESPONSE_KEY_BYTES)] * len(verdicts)
    shown = byte_rows(columns["randomness"]) if "randomness" in columns else [b""] * len(verdicts)
    signed = (byte_rows(columns[name]) for name in ("sketch_digest", "blob", "signature"))
    rows = zip(columns["member"].tolist(), shown, *signed, strict=True)
    for row, (member, randomness, digest, blob, signature) in enumerate(rows):
        about = sessions.blob_about(task.digest, member, digest)
        key = known[member - own.first].tobytes() if own.first <= member < own.first + own.number else b""
        if is_signed(key, blob, signature, about=about, randomness=randomness):
            secret = secret_in(blob, task.me, about=about)
            verdicts[row] = sessions.UNOPENABLE if secret is None else COUNTS
            found[row] = secret or found[row]
    return verdicts, found
