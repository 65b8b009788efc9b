"""The helper of a fleet: it opens the sum of the pads of those that count, once, and decrypts one result.

What it needs for that is in its key store before any answer leaves it. So the same question has the same answer,
whatever dies in between, and another question has none: two openings, or two results, would tell what lies between.
"""

from __future__ import annotations

import hashlib
import itertools
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
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.aggregator import (
    LIST_FILE,
    OPENING_FILE,
    AnswerFile,
    BlobFile,
    BlobList,
    FleetResult,
    Opened,
)
from fhe_auc_keys.fleet.records import ANSWERS, PART_BYTES, blobs_table, chosen
from fhe_auc_keys.fleet.session import (
    LIST,
    OPENING,
    RESULT,
    UNOPENED,
    AnswersCipher,
    FleetSession,
    Loaded,
    Verdict,
    blob_about,
    bytes_of_sum,
    loaded,
    of_own,
    part_for,
    sealed_sums,
    sum_of_bytes,
    sum_of_rows,
    to_own,
)
from fhe_auc_keys.fleet.tables import Columns, within
from fhe_auc_keys.fleet.workers import OwnKeys, Workers
from fhe_auc_keys.roles.blobs import RESPONSE_KEY_BYTES, is_signed, secret_in
from fhe_auc_keys.roles.helper import new_pad_key
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.identity import Identity

SUMS_FILE = "sums"


class _HelperState(SecretStruct, frozen=True):
    """Of a session, in the key store. Once the sums are written, nothing secret is left in it."""

    blobs: bytes  # digest of the one list that it takes, from the first look at it on; empty where it took none
    content_key: bytes = b""  # under which the sums will be sealed: a member that counts is given it with its verdict
    answer: bytes = b""  # the opening; or the word that nothing was opened, for `ended`
    ended: bool = False
    material: bytes = b""  # secret key
    result: bytes = b""  # SHA-256 of the one that is decrypted


_FORMAT = KeptFormat(b"fhefhlp", _HelperState, "fleet's session", version=5)


class _Found(NamedTuple):
    """What a task has found in a file of blobs."""

    verdicts: tuple[int, ...]  # how many of each
    answers: bytes  # digest of the file of answers
    pads: bytes  # the sum of those that count, sealed
    keys: tuple[bytes, bytes]  # the range's first and last


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
    about a proof in two lists it could be made to tell counts. Where fewer count than the session takes, the session
    ends unopened. `keys` is the folder of the fleet's files, `blobs` the aggregator's. Of a member's records the first
    counts that opens, and whose proof holds where devices prove their counts. The store, of `vault`, is closed while
    workers work.

    Raises `KeysError` where this is not the helper, the list not the aggregator's or of another session, or another
    list than the session's; `InputError` where keys do not ascend, or a file cannot be read; `DeserialisationError`
    where a file of keys or blobs is not the one listed; `TamperedError` where the query is not sealed to this helper.
    """
    session.require(session.helper, at=at)
    manifest, computation = session.manifest, session.loaded.computation
    signed = tables.read_file(within(blobs, LIST_FILE))
    listed = session.read(LIST, signed, BlobList, session.announced.aggregator, at=at)
    if listed.session != manifest.digest:
        raise KeysError("the list of blobs is of another session")
    ranges = _ranges_of(session, listed)
    if computation.proofs is not None and len(session.unseal(LIST, listed.key)) != KEY_BYTES:
        raise DeserialisationError("the key of the query has another length")
    with vault.open() as store:
        kept = _kept(store, manifest.session)
        if kept is None:
            kept = _HelperState(listed.digest, secrets.token_bytes(RESPONSE_KEY_BYTES))
            store.put("fleet", manifest.session.hex(), _FORMAT.frame(kept))
    if kept.blobs not in (b"", listed.digest):
        raise KeysError("the helper has been given another list: a session has one; make a new session")
    if kept.ended:
        return _written(answers, HelperAnswer(kept.answer, {}, opened=False))
    then = session.read(OPENING, kept.answer, Opened, session.helper, at=at) if kept.answer else None
    if then is not None and not kept.content_key:  # what made the answers is erased
        return _written(answers, HelperAnswer(kept.answer, _told(then.verdicts), opened=True))
    parts = [
        (within(blobs, file.name), file, own, keys, answers) for file, own in zip(listed.files, ranges, strict=True)
    ]
    shared = to_own(session.identity, kept.content_key, manifest.digest, SUMS_FILE), workers.keys(vault)
    verdicts, files, total = np.zeros(len(Verdict), np.int64), list[AnswerFile](), computation.added([])
    ends = list[tuple[bytes, bytes]]()
    found = workers.map(_opened, parts, manifest.to_bytes(), listed.key, *shared)
    for (_, file, *_), each in zip(parts, found, strict=True):
        ends.append(each.keys)
        verdicts += each.verdicts
        files.append(AnswerFile(each.verdicts[Verdict.COUNTS], each.answers))
        pads = of_own(session.identity, each.pads, manifest.digest, file.name)
        total = computation.added([total, sum_of_bytes(pads)])
    _require_ascending(listed.files, ends)
    if then is not None:
        if tuple(files) != then.files:
            raise EvaluationError("the answers are not as they were: put back the files that they were made of")
        return _written(answers, HelperAnswer(kept.answer, _told(then.verdicts), opened=True))
    if verdicts[Verdict.COUNTS] < manifest.min_parties:
        with vault.open() as store:
            word = end(session, store, at=at)
        return _written(answers, HelperAnswer(word, _told(verdicts), opened=False))
    made = new_pad_key(computation, total)
    sealed = session.seal(OPENING, session.announced.aggregator, made.pad_key)
    body = Opened(manifest.digest, listed.digest, tuple(verdicts.tolist()), tuple(files), made.public, sealed)
    opened = msgspec.structs.replace(kept, answer=session.sign(OPENING, body), material=made.context)
    with vault.open() as store:
        store.put("fleet", manifest.session.hex(), _FORMAT.frame(opened), replace=True)
    return _written(answers, HelperAnswer(opened.answer, _told(verdicts), opened=True))


def end(session: FleetSession, store: KeyStore, *, at: datetime) -> bytes:
    """Return the signed word that nothing was opened in this session, and never will be; the same one each time.

    Raises `KeysError` where this is not the helper, or pads of the session have been opened.
    """
    session.require(session.helper, at=at)
    kept = _kept(store, session.manifest.session) or _HelperState(b"")
    if kept.answer and not kept.ended:
        raise KeysError("pads of this session have been opened: that cannot be taken back")
    if not kept.ended:
        word = session.identity.sign(UNOPENED, session.manifest.digest)
        kept = _HelperState(kept.blobs, answer=word, ended=True)
        store.put("fleet", session.manifest.session.hex(), _FORMAT.frame(kept), replace=True)
    return kept.answer


def decrypt(session: FleetSession, vault: Vault, result: bytes, answers: str, *, at: datetime) -> int:
    """Decrypt the aggregator's result, and write the sums into the folder `answers`; return over how many they are.

    They are sealed under the key that each member that counts has been given, and signed. Once they are written, the
    key store has no secret of the session any more.

    Raises `KeysError` where this is not the helper, the result not the aggregator's or of another opening, another one
    has been decrypted, or the sums are written; `EvaluationError` where nothing has been opened;
    `DeserialisationError` where the result is malformed; no other one is decrypted after it.
    """
    session.require(session.helper, at=at)
    manifest, computation = session.manifest, session.loaded.computation
    with vault.open() as store:
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
            raise KeysError("the sums of this result have been written, and what made them is erased")
        if not kept.result:
            kept = msgspec.structs.replace(kept, result=digest)
            store.put("fleet", manifest.session.hex(), _FORMAT.frame(kept), replace=True)
        number = session.read(OPENING, kept.answer, Opened, session.helper, at=at).verdicts[Verdict.COUNTS]
        totals = computation.decrypt(computation.secret(kept.material), session.unseal(RESULT, body.ciphertext))
        sums = sealed_sums(session.identity, kept.content_key, number, totals, manifest.digest)
        tables.write_file(within(answers, SUMS_FILE), sums)
        ended = _HelperState(kept.blobs, answer=kept.answer, result=digest)
        store.put("fleet", manifest.session.hex(), _FORMAT.frame(ended), replace=True)
    return number


def _kept(store: KeyStore, session: bytes) -> _HelperState | None:
    if not store.has("fleet", session.hex()):
        return None
    return store.load("fleet", session.hex(), _FORMAT)


def _written(answers: str, answer: HelperAnswer) -> HelperAnswer:
    tables.write_file(within(answers, OPENING_FILE), answer.document)
    return answer


def _told(verdicts: Sequence[int]) -> dict[str, int]:
    return {each.sentence: int(number) for each, number in zip(Verdict, verdicts, strict=True) if number}


def _ranges_of(session: FleetSession, listed: BlobList) -> list[Range]:
    """Return the ranges that a list is about; raise `DeserialisationError` unless it has each once, and in order."""
    known = {each.name: each for each in session.ranges}
    names = [each.name for each in listed.files]
    if not set(names) <= set(known) or any(name >= after for name, after in itertools.pairwise(names)):
        raise DeserialisationError("the list of blobs is not about files of the fleet's, each once and in order")
    return [known[name] for name in names]


def _require_ascending(files: Sequence[BlobFile], ends: Sequence[tuple[bytes, bytes]]) -> None:
    """Raise `InputError` unless keys ascend from file to file, by the first and the last one of each."""
    for file, (_, last), (first, _) in zip(files[1:], ends, ends[1:], strict=False):
        if last >= first:
            raise InputError(f"keys of '{file.name}' are not above those of the file before: one may be there twice")


def _opened(
    place: str,
    file: BlobFile,
    own: Range,
    keys: str,
    answers: str,
    manifest: bytes,
    query: bytes,
    content: bytes,
    of_role: OwnKeys,
) -> _Found:
    """Open the blobs of a range, add up the pads of those that count, and write down what is answered to each member.

    Nothing is written where a file of keys or blobs is not the one listed: `DeserialisationError`.
    """
    session, me = loaded(manifest), of_role.identity()
    computation, content_key = session.computation, of_own(me, content, session.digest, SUMS_FILE)
    key = bytes(KEY_BYTES) if computation.proofs is None else me.unseal(query, info=session.info_of(LIST))
    known, taken = tables.read_keys(within(keys, own.name), own), np.zeros(own.number, bool)
    cipher, total, numbers = AnswersCipher(key, session.digest, own.name), computation.added([]), np.zeros(5, np.int64)
    with tables.writing(within(answers, own.name), ANSWERS) as written:
        for columns in tables.listed_batches(place, blobs_table(session), file.rows, file.digest):
            if "answers" in columns:
                columns["answers"] = cipher.next(columns["answers"])
            verdicts, secrets_in = _unsealed(session, me, own, known, columns)
            rows = np.flatnonzero(verdicts == Verdict.COUNTS)
            members, seeds = columns["member"][rows].tolist(), [each[:SEED_BYTES] for each in secrets_in]
            pads = computation.pads(members, seeds)
            counts = np.ones(len(rows), bool)
            if (proofs := computation.proofs) is not None:
                shown = (chosen(columns[name], verdicts == Verdict.COUNTS) for name in ("randomness", "answers"))
                counts = proofs.held(key, members, seeds, pads[0], *shown)
                verdicts[rows[~counts]] = Verdict.UNPROVED
            again = counts & ~_first(columns["member"][rows] - np.uint32(own.first), counts, taken)
            verdicts[rows[again]] = Verdict.AGAIN
            counts &= ~again
            own_pads = [chosen(pad, counts)[:, :size] for pad, size in zip(pads, computation.sizes, strict=True)]
            total = computation.added([total, sum_of_rows(own_pads, computation.primes)])
            parts = np.zeros((len(verdicts), PART_BYTES), np.uint8)
            made = [
                part_for(secret[SEED_BYTES:], content_key, session.digest, member)
                for member, secret, mine in zip(members, secrets_in, counts.tolist(), strict=True)
                if mine
            ]
            parts[rows[counts]] = octet_rows(made, PART_BYTES)
            written.add({"member": columns["member"], "verdict": verdicts, "part": parts})
            numbers += np.bincount(verdicts, minlength=len(Verdict))
    sealed = to_own(me, bytes_of_sum(total), session.digest, own.name)
    return _Found(tuple(numbers.tolist()), written.digest.value, sealed, (known[0].tobytes(), known[-1].tobytes()))


def _unsealed(
    session: Loaded, me: Identity, own: Range, known: NDArray[np.uint8], columns: Columns
) -> tuple[NDArray[np.uint8], list[bytes]]:
    """Return whether each blob of a batch counts, as far as its signature and its seal say, and what is in those."""
    verdicts, found = np.full(len(columns["member"]), Verdict.COUNTS, np.uint8), list[bytes]()
    randomness = byte_rows(columns["randomness"]) if "randomness" in columns else [b""] * len(verdicts)
    signed = (byte_rows(columns[name]) for name in ("sketch_digest", "blob", "signature"))
    for row, (member, shown, digest, blob, signature) in enumerate(
        zip(columns["member"].tolist(), randomness, *signed, strict=True)
    ):
        about, place = blob_about(session.digest, member, digest), member - own.first
        key = known[place].tobytes() if 0 <= place < len(known) else b""
        if not is_signed(key, blob, signature, about=about, randomness=shown):
            verdicts[row] = Verdict.UNSIGNED
            continue
        if (secret := secret_in(blob, me, about=about)) is None:
            verdicts[row] = Verdict.UNOPENED
        else:
            found.append(secret)
    return verdicts, found


def _first(places: NDArray[np.uint32], counts: NDArray[np.bool_], taken: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which of those that count are the first ones of their members, by place in the range, and take these."""
    found = np.zeros(len(places), bool)
    rows = np.flatnonzero(counts)
    members, firsts = np.unique(places[rows], return_index=True)
    found[rows[firsts[~taken[members]]]] = True
    taken[members] = True
    return found
