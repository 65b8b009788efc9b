"""Roles of a session with a helper: parties speak once and hold no key.

    1  "begin"                ->  party: a padded sketch; and a blob for the helper, the pad's seed and a response key
    2  all blobs              ->  helper: makes the keys; the opening of the sum of the pads of those whose blobs open
    3  the encrypted result   ->  helper: decrypts it; the sums, sealed under the response keys
    4  the sealed sums        ->  (nothing: each party that counts unseals, checks and reads them)

A helper is one of whom it is trusted that it does not collude with the aggregator: together they read every submission.
It learns the sums that parties learn. It never sees a submission, nor a digest of one that says anything: as it knows
the pads, it could try counts against it. HPKE says not who has sealed a blob, so parties sign theirs: or else an
aggregator could put one party among many that it has made up.

Each answer of the helper is for one question in a session (`fhe_auc.site_state.answer`): two openings, or two results
decrypted, would tell what lies between.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import msgspec
import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhe_auc import contexts
from fhe_auc.computation import PartyTask, Result, SealedComputation
from fhe_auc.errors import DeserialisationError, EvaluationError, TooFewPartiesError
from fhe_auc.manifest import Manifest
from fhe_auc.party_names import HELPER, MAX_CHARACTERS
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rounds import Aggregator, Party, R
from fhe_auc.serialise import decode, encode
from fhe_auc_keys import sealing
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.group_sealing import seal_under, unseal_under
from fhe_auc_keys.identity import Identity, signed_bytes
from fhe_auc_keys.roster import Roster
from fhe_auc_keys.session_keys import SEED_BYTES

_BLOB, _RESPONSE = b"helper's blob 1", b"helper's response 1"
_KEY_BYTES = 32
_BLOB_BYTES = 32 + SEED_BYTES + _KEY_BYTES + 16  # HPKE's key, the two secrets, the tag
_SIGNATURE_BYTES = 64
_WRAPPED_BYTES = 48
_OPEN, _DECRYPT, _LAST = 2, 3, 4  # rounds
_NAME_BYTES = 4 * MAX_CHARACTERS + 8
_UNFIT = "its blob is not signed by it, or not sealed to the helper for this session"


class HelpedParty(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party starts from, as bytes: for `fhe_auc.protocol.Protocol.party`."""

    identity: bytes  # private keys, `Identity.to_bytes`
    helper: bytes  # its X25519 key, 32 bytes
    common_secret: bytes  # 32 bytes that the parties have in common

    def __repr__(self) -> str:
        return "HelpedParty(...)"


class HelperMaterial(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the helper starts from, as bytes: for `fhe_auc.protocol.Protocol.helper`."""

    identity: bytes
    roster: Roster  # of the parties

    def __repr__(self) -> str:
        return "HelperMaterial(...)"


class _Submission(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    parts: tuple[bytes, ...]
    blob: bytes
    signature: bytes


class _Blob(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    party: str
    blob: bytes
    signature: bytes


class _Opened(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    left_out: tuple[str, ...]
    context: bytes  # public
    opening: bytes


class _Response(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    sealed: bytes
    parts: tuple[bytes, ...]  # for each party that counts, in the manifest's order


class _Given(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    counted: tuple[str, ...]
    response: _Response


class HelpedAggregator(Aggregator):
    """Keeps submissions until the helper has said whose blobs open, then adds these up."""

    rounds = _LAST

    def __init__(self, manifest: Manifest, computation: SealedComputation[Any, Any, Any, Any]) -> None:
        super().__init__(manifest)
        self._computation = computation
        self._submissions: dict[str, _Submission] = {}
        self._digests: dict[str, bytes] = {}
        self._opened: _Opened | None = None
        self._response: _Response | None = None

    @property
    def submission_limit(self) -> int:  # type: ignore[override] # it depends on who answers
        """Largest payload of an answer in this round, in bytes."""
        if self.asked == (HELPER,):
            return 2**31
        return self._computation.payload_limit

    @property
    def asked(self) -> tuple[str, ...]:
        """The helper in the two rounds between, else the parties."""
        return (HELPER,) if self.round in (_OPEN, _DECRYPT) else self._counted

    def _is_asked(self, name: str) -> bool:
        return name == HELPER if self.round in (_OPEN, _DECRYPT) else super()._is_asked(name)

    def _least(self) -> int:
        return self.manifest.min_parties if self.round == 1 else 1

    def _listed(self, number: int) -> tuple[tuple[str, bytes], ...]:
        """The helper sees no digest of a submission; parties look for their own."""
        return tuple((party, self._digests[party]) for party in self._counted) if number == _LAST else ()

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            found = decode(payload, _Submission, "submission")
            if (len(found.blob), len(found.signature)) != (_BLOB_BYTES, _SIGNATURE_BYTES):
                raise DeserialisationError("a submission whose blob, or its signature, is of another length")
            self._computation.running_sum(None).add(found.parts)  # whether it is one
            self._submissions[party] = found
        elif self.round == _OPEN:
            opened = decode(payload, _Opened, "opening")
            if not set(opened.left_out) < set(self._counted):
                raise DeserialisationError("the helper leaves out strangers, or everybody")
            self._computation.load_public(opened.context)
            self._opened = opened
        elif self.round == _DECRYPT:
            response = decode(payload, _Response, "response")
            if [len(part) for part in response.parts] != [_WRAPPED_BYTES] * len(self._counted):
                raise DeserialisationError("the helper's response is not one for all parties that count")
            self._response = response

    def _count(self, answered: tuple[str, ...]) -> None:
        if self.round == 1:
            self._digests = {party: self._answered[party] for party in answered}
            super()._count(answered)
        elif self.round == _OPEN and self._opened is not None:
            left_out = set(self._opened.left_out)
            self._refused.update(dict.fromkeys(self._opened.left_out, _UNFIT))
            super()._count(tuple(party for party in self._counted if party not in left_out))

    def _close(self) -> bytes:
        if self.round == 1:
            return encode(tuple(_Blob(party, found.blob, found.signature) for party, found in self._in_order().items()))
        if self.round == _OPEN:
            if self._opened is None:
                raise EvaluationError("the helper has not answered")
            if len(self._counted) < self.manifest.min_parties:
                raise _too_few(len(self._counted), self.manifest)
            keys = self._computation.opened(self._computation.load_public(self._opened.context), self._opened.opening)
            total = self._computation.running_sum(keys)
            for found in self._in_order().values():
                total.add(found.parts)
            return encode(Result(self._counted, self._computation.aggregate(keys, total.totals)))
        if self._response is None:
            raise EvaluationError("the helper has not answered")
        return encode(_Given(self._counted, self._response))

    def _in_order(self) -> dict[str, _Submission]:
        return {party: self._submissions[party] for party in self._counted}


class HelpedPartyRole(Party[R]):
    """Pads and submits once, and reads the sums once; it has no key of the session."""

    rounds = _LAST
    answers = (1, _LAST)

    def __init__(
        self,
        manifest: Manifest,
        computation: SealedComputation[Any, Any, Any, Any],
        own: HelpedParty,
        task: PartyTask[Any, Any, R],
    ) -> None:
        super().__init__(manifest, task.party)
        self.download_limit = computation.plan.download_bytes + 1024 + (_NAME_BYTES + 64) * len(manifest.parties)
        self._computation = computation
        self._identity = Identity.from_bytes(own.identity)
        self._helper = own.helper
        self._common_secret = own.common_secret
        self._task = task
        self._response_key = b""

    def _own_state(self) -> bytes:
        return self._response_key

    def _restore_own(self, own: bytes) -> None:
        self._response_key = own

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            seed, self._response_key = secrets.token_bytes(SEED_BYTES), secrets.token_bytes(_KEY_BYTES)
            keys = self._computation.load_secret(b"", seed)
            parts = self._computation.encrypt(keys, self._task, self._common_secret)
            associated = _associated(self.digest, self.name)
            blob = sealing.seal(self._helper, seed + self._response_key, info=_BLOB, associated=associated)
            answer = encode(_Submission(parts, blob, self._identity.sign(_BLOB, associated + _digest(blob))))
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        given = decode(payload, _Given, "result")
        self._check_named(given.counted)
        part = dict(zip(given.counted, given.response.parts, strict=False)).get(self.name, b"")
        try:
            text = unseal_under(
                self._response_key, part, given.response.sealed, associated=_response_of(self.digest, given.counted)
            )
        except TamperedError as error:
            raise DeserialisationError(f"the sums are not sealed to party {self.name!r}: {error}") from None
        totals = totals_of(decode(text, tuple[bytes, ...], "sums"))
        self._response_key = b""
        outcome = self._task.read(totals, given.counted, self._common_secret)
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, keys="helper", seconds=self._seconds)
        return b""


class Helper(Party[Any]):
    """Opens the sum of the pads of those whose blobs open, and decrypts one result.

    It takes part in two rounds, and has no rows and no result.
    """

    rounds = _LAST
    answers = (_OPEN, _DECRYPT)
    submission_round = _LAST + 1

    def __init__(
        self, manifest: Manifest, computation: SealedComputation[Any, Any, Any, Any], own: HelperMaterial
    ) -> None:
        super().__init__(manifest, HELPER)
        most = len(manifest.parties)
        blobs = (_NAME_BYTES + _BLOB_BYTES + _SIGNATURE_BYTES + 16) * most
        self.download_limit = max(blobs, computation.payload_limit + _NAME_BYTES * most)
        self._computation = computation
        self._identity = Identity.from_bytes(own.identity)
        self._keys = own.roster.signing_keys
        self._kept: tuple[bytes, dict[str, bytes]] = b"", {}  # secret context; response keys of those that count

    @staticmethod
    def _belongs(manifest: Manifest, name: str) -> bool:
        return name == HELPER and manifest.keys == "helper"

    def _check_listed(self, message: Any) -> None:
        """The helper is told no digests."""

    def _own_state(self) -> bytes:
        material, keys = self._kept
        return encode((material, tuple(keys.items())))  # as a map it would lose its order

    def _restore_own(self, own: bytes) -> None:
        material, keys = decode(own, tuple[bytes, tuple[tuple[str, bytes], ...]], "helper's state")
        self._kept = material, dict(keys)

    def result(self) -> NoReturn:
        """Raise `EvaluationError`: the helper knows the sums, but is given no result."""
        raise EvaluationError("a helper has no result")

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        return self._open(payload) if round_number == _OPEN else self._decrypt(payload)

    def _open(self, payload: bytes) -> bytes:
        blobs = decode(payload, tuple[_Blob, ...], "list of blobs")
        named = [each.party for each in blobs]
        in_order = [party for party in self.manifest.parties if party in set(named)]
        if named != in_order:
            raise DeserialisationError("the blobs are not of parties of the session, each once and in its order")
        found = {each.party: mine for each in blobs if (mine := self._secrets(each)) is not None}
        if len(found) < self.manifest.min_parties:
            raise _too_few(len(found), self.manifest)
        public, secret = contexts.generate(self._computation.plan.parameters)
        material = secret.to_bytes()
        opening = self._computation.opening(material, {party: each[:SEED_BYTES] for party, each in found.items()})
        self._kept = material, {party: each[SEED_BYTES:] for party, each in found.items()}
        return encode(_Opened(tuple(party for party in named if party not in found), public.to_bytes(), opening))

    def _secrets(self, blob: _Blob) -> bytes | None:
        """Return a party's seed and response key; None where the party has not signed the blob, or it does not open."""
        associated = _associated(self.digest, blob.party)
        try:
            key = Ed25519PublicKey.from_public_bytes(self._keys[blob.party])
            key.verify(blob.signature, signed_bytes(_BLOB, associated + _digest(blob.blob)))
            secret = self._identity.unseal(blob.blob, info=_BLOB, associated=associated)
        except (InvalidSignature, KeyError, TamperedError):
            return None
        return secret if len(secret) == SEED_BYTES + _KEY_BYTES else None

    def _decrypt(self, payload: bytes) -> bytes:
        result = decode(payload, Result, "result")
        material, keys = self._kept
        if result.counted != tuple(keys):
            raise EvaluationError("the result is not of the parties whose pads were opened")
        totals = self._computation.decrypt(self._computation.load_secret(material), result.ciphertext)
        text = encode(tuple(np.ascontiguousarray(each, "<u8").tobytes() for each in totals))
        about, content_key = _response_of(self.digest, result.counted), secrets.token_bytes(_KEY_BYTES)
        sealed, parts = seal_under(keys.values(), text, associated=about, content_key=content_key)
        self._kept = b"", {}
        return encode(_Response(sealed, tuple(parts)))


def totals_of(parts: Sequence[bytes]) -> list[Residues]:
    """Return the sums that a helper has sealed, for each prime; raise `DeserialisationError` where they are none."""
    if any(len(each) % 8 for each in parts):
        raise DeserialisationError("the helper's sums have not 8 bytes each")
    return [np.frombuffer(each, "<u8") for each in parts]


def _too_few(parties: int, manifest: Manifest) -> TooFewPartiesError:
    return TooFewPartiesError(f"the blobs of {parties} parties open, at least {manifest.min_parties} are needed")


def _associated(session: bytes, party: str) -> bytes:
    return encode((session, party))


def _response_of(session: bytes, counted: tuple[str, ...]) -> bytes:
    return encode((_RESPONSE, session, counted))


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
