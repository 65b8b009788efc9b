"""Roles of a session with a helper: parties speak once and hold no key.

    1  "begin"                ->  party: a padded sketch; and a blob for the helper, the pad's seed and a response key
    2  all blobs              ->  helper: makes the keys; the opening of the sum of the pads of those whose blobs open
    3  the encrypted result   ->  helper: decrypts it; the sums, sealed under the response keys
    4  the sealed sums        ->  (nothing: each party that counts unseals, checks and reads them)

A helper is one of whom it is trusted that it does not collude with the aggregator: together they read every submission.
It learns the sums that parties learn. It never sees a submission, nor a digest of one that says anything: as it knows
the pads, it could try counts against it. HPKE says not who has sealed a blob, so parties sign theirs: or else an
aggregator could put one party among many that it has made up.

Each answer of the helper is for one question in a session (`fhe_auc.machines.site_state.answer`): two openings, or two
results decrypted, would tell what lies between.

Formats have a list where there was once room for several helpers; it has one entry.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import msgspec
import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, TooFewPartiesError
from fhe_auc.base.party_names import HELPER, MAX_CHARACTERS
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.modular import Residues
from fhe_auc.session.computation import PartyTask, Result, SealedComputation
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.rounds import Aggregator, Party, R
from fhe_auc_keys.bundles import contexts
from fhe_auc_keys.bundles.roster import Roster
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.group_sealing import seal_under, unseal_under
from fhe_auc_keys.trust.identity import Identity, signed_bytes

OPEN, DECRYPT = 2, 3
"""Rounds in which the helper opens the sum of the pads, and decrypts the result."""

_ROUNDS = 4
_BLOB, _RESPONSE = b"helper's blob 1", b"helper's response 1"
_KEY_BYTES = 32
_BLOB_BYTES = 32 + SEED_BYTES + _KEY_BYTES + 16  # HPKE's key, the two secrets, the tag
_SIGNATURE_BYTES = 64
_WRAPPED_BYTES = 48
_NAME_BYTES = 4 * MAX_CHARACTERS + 8
_UNFIT = "its blob is not signed by it, or not sealed to the helper for this session"


class HelpedParty(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party starts from, as bytes: for `fhe_auc.session.protocol.Protocol.party`."""

    identity: bytes  # private keys, `Identity.to_bytes`
    helpers: tuple[bytes, ...]  # its X25519 key, 32 bytes
    common_secret: bytes  # 32 bytes that the parties have in common

    def __repr__(self) -> str:
        return "HelpedParty(...)"


class HelperMaterial(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a helper starts from, as bytes: for `fhe_auc.session.protocol.Protocol.helper`."""

    identity: bytes
    roster: Roster  # of the parties
    helpers: Roster

    def __repr__(self) -> str:
        return "HelperMaterial(...)"


class _Submission(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    parts: tuple[bytes, ...]
    blobs: tuple[bytes, ...]
    signature: bytes  # of the blobs


class _Blobs(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    party: str
    blobs: tuple[bytes, ...]
    signature: bytes


class _Opened(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    left_out: tuple[str, ...]
    context: bytes  # public
    opening: bytes


class Response(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The sums as the helper returns them."""

    sealed: bytes
    parts: tuple[bytes, ...]  # for each party that counts, in the manifest's order


class _Given(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    counted: tuple[str, ...]
    responses: tuple[Response, ...]


class HelpedAggregator(Aggregator):
    """Keeps submissions until the helper has said whose blobs open; adds these up, and computes under its key."""

    rounds = _ROUNDS

    def __init__(self, manifest: Manifest, computation: SealedComputation[Any, Any, Any, Any]) -> None:
        super().__init__(manifest)
        self._computation = computation
        self._submissions: dict[str, _Submission] = {}
        self._digests: dict[str, bytes] = {}
        self._left_out: set[str] = set()
        self._response: Response | None = None
        self._keys: Any = None  # of the helper's making, with the opening

    @property
    def submission_limit(self) -> int:  # type: ignore[override] # it depends on who answers
        """Largest payload of an answer in this round, in bytes."""
        if not self._helping:
            return self._computation.payload_limit
        if self.round == DECRYPT:
            return response_limit(self._computation)
        return self._computation.opening_limit + _NAME_BYTES * len(self.manifest.parties)

    @property
    def asked(self) -> tuple[str, ...]:
        """The helper in the rounds between, else the parties."""
        return (HELPER,) if self._helping else self._counted

    @property
    def _helping(self) -> bool:
        return 1 < self.round < self.rounds

    def _is_asked(self, name: str) -> bool:
        return name == HELPER if self._helping else super()._is_asked(name)

    def _least(self) -> int:
        return 1 if self._helping else self.manifest.min_parties

    def _listed(self, number: int) -> tuple[tuple[str, bytes], ...]:
        """A helper sees no digest of a submission; parties look for their own."""
        return tuple((party, self._digests[party]) for party in self._counted) if number == self.rounds else ()

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            found = decode(payload, _Submission, "submission")
            if ([len(blob) for blob in found.blobs], len(found.signature)) != ([_BLOB_BYTES], _SIGNATURE_BYTES):
                raise DeserialisationError("a submission whose blob, or its signature, is of another length")
            self._computation.running_sum(None).add(found.parts)  # whether it is one
            self._submissions[party] = found
        elif self.round == DECRYPT:
            response = decode(payload, Response, "response")
            if [len(part) for part in response.parts] != [_WRAPPED_BYTES] * len(self._counted):
                raise DeserialisationError("the helper's response is not one for all parties that count")
            self._response = response
        elif self.round == OPEN:
            self._accept_opening(decode(payload, _Opened, "opening"))

    def _count(self, answered: tuple[str, ...]) -> None:
        if self.round == 1:
            self._digests = {party: self._answered[party] for party in answered}
            super()._count(answered)
        elif self.round == OPEN:
            self._refused.update(dict.fromkeys(self._left_out, _UNFIT))
            super()._count(tuple(party for party in self._counted if party not in self._left_out))

    def _close(self) -> bytes:
        if self.round == 1:
            submissions = [(party, self._submissions[party]) for party in self._counted]
            return encode(tuple(_Blobs(party, found.blobs, found.signature) for party, found in submissions))
        if self._response is not None:
            return encode(_Given(self._counted, (self._response,)))
        if len(self._counted) < self.manifest.min_parties:
            raise too_few(self._counted, self._left_out, self.manifest)
        total = self._computation.running_sum(self._keys)
        for party in self._counted:
            total.add(self._submissions[party].parts)
        return encode(Result(self._counted, self._computation.aggregate(self._keys, total.totals)))

    def _accept_opening(self, opened: _Opened) -> None:
        named, left_out = opened.left_out, set(opened.left_out)
        if named != tuple(party for party in self._counted if party in left_out) or len(left_out) == len(self._counted):
            raise DeserialisationError("the helper leaves out strangers, somebody twice, or everybody")
        try:
            self._keys = self._computation.opened(self._computation.load_public(opened.context), opened.opening)
        except InputError as error:  # of another session
            raise DeserialisationError(str(error)) from None
        self._left_out = left_out


class HelpedPartyRole(Party[R]):
    """Pads and submits once, and reads the sums once; it has no key of the session.

    Raises `InputError` where `own` is not of one helper.
    """

    rounds = _ROUNDS
    answers = 1, _ROUNDS

    def __init__(
        self,
        manifest: Manifest,
        computation: SealedComputation[Any, Any, Any, Any],
        own: HelpedParty,
        task: PartyTask[Any, Any, R],
    ) -> None:
        super().__init__(manifest, task.party)
        if len(own.helpers) != 1:
            raise InputError(f"the material is of {len(own.helpers)} helpers; a session has one")
        self.download_limit = response_limit(computation) + (_NAME_BYTES + 64) * len(manifest.parties)
        self._computation = computation
        self._identity = Identity.from_bytes(own.identity)
        (self._helper,) = own.helpers
        self._common_secret = own.common_secret
        self._task = task
        self._response_keys: tuple[bytes, ...] = ()  # one, until it has been used

    def _own_state(self) -> bytes:
        return encode(self._response_keys)

    def _restore_own(self, own: bytes) -> None:
        self._response_keys = decode(own, tuple[bytes, ...], "response keys")

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            seed, key = secrets.token_bytes(SEED_BYTES), secrets.token_bytes(_KEY_BYTES)
            self._response_keys = (key,)
            keys = self._computation.load_secret(b"", seed)
            parts = self._computation.encrypt(keys, self._task, self._common_secret)
            associated = _associated(self.digest, self.name)
            blobs = (sealing.seal(self._helper, seed + key, info=_BLOB, associated=associated),)
            answer = encode(_Submission(parts, blobs, self._identity.sign(_BLOB, associated + _digests(blobs))))
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        given = decode(payload, _Given, "result")
        self._check_named(given.counted)
        if len(given.responses) != 1:
            raise DeserialisationError(f"the sums of {len(given.responses)} helpers, of 1")
        totals = totals_of(decode(self._text(given), tuple[bytes, ...], "sums"))
        self._response_keys = ()
        outcome = self._task.read(totals, given.counted, self._common_secret)
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, keys="helper", seconds=self._seconds)
        return b""

    def _text(self, given: _Given) -> bytes:
        """Return what the helper has sealed; raise `DeserialisationError` where it is not for this party."""
        (key,), (response,) = self._response_keys, given.responses
        part = dict(zip(given.counted, response.parts, strict=False)).get(self.name, b"")
        try:
            return unseal_under(key, part, response.sealed, associated=_response_of(self.digest, given.counted))
        except TamperedError as error:
            raise DeserialisationError(f"the sums of {HELPER} are not sealed to {self.name!r}: {error}") from None


class Helper(Party[Any]):
    """Makes the keys, opens the sum of the pads of those whose blobs open, and decrypts one result.

    It answers rounds 2 and 3, and has no rows and no result. Raises `InputError` where `own` is of another helper.
    """

    rounds = _ROUNDS
    answers = OPEN, DECRYPT
    submission_round = _ROUNDS + 1
    _kept: tuple[bytes, dict[str, bytes]] = b"", {}  # secret context; response keys of those that count

    def __init__(
        self, manifest: Manifest, computation: SealedComputation[Any, Any, Any, Any], own: HelperMaterial
    ) -> None:
        self._identity = Identity.from_bytes(own.identity)
        keys = [member.signing_key for member in own.helpers.members]
        if keys != [self._identity.signing_key]:
            raise InputError(f"{self._identity.name!r} is not the session's helper")
        super().__init__(manifest, HELPER)
        most = len(manifest.parties)
        blobs = (_NAME_BYTES + _BLOB_BYTES + _SIGNATURE_BYTES + 24) * most
        self.download_limit = max(blobs, computation.payload_limit + _NAME_BYTES * most)
        self._computation = computation
        self._keys = own.roster.signing_keys

    @staticmethod
    def _belongs(manifest: Manifest, name: str) -> bool:
        return name == HELPER and manifest.keys == "helper"

    def _check_listed(self, message: Any) -> None:
        """A helper is told no digests."""

    def result(self) -> NoReturn:
        """Raise `EvaluationError`: a helper knows the sums, but is given no result."""
        raise EvaluationError("a helper has no result")

    def _opened(self, payload: bytes) -> dict[str, bytes | None]:
        """Return every party's seed and response key; None where it has not signed its blobs, or this one's fails.

        Raises `DeserialisationError` where these are not blobs of parties, each once and in order.
        """
        blobs = decode(payload, tuple[_Blobs, ...], "list of blobs")
        named = [each.party for each in blobs]
        if named != [party for party in self.manifest.parties if party in set(named)]:
            raise DeserialisationError("the blobs are not of parties of the session, each once and in its order")
        return {each.party: self._secrets(each) for each in blobs}

    def _secrets(self, found: _Blobs) -> bytes | None:
        associated = _associated(self.digest, found.party)
        try:
            key = Ed25519PublicKey.from_public_bytes(self._keys[found.party])
            key.verify(found.signature, signed_bytes(_BLOB, associated + _digests(found.blobs)))
            (blob,) = found.blobs
            secret = self._identity.unseal(blob, info=_BLOB, associated=associated)
        except (InvalidSignature, ValueError, KeyError, TamperedError):
            return None
        return secret if len(secret) == SEED_BYTES + _KEY_BYTES else None

    def _response(self, keys: Mapping[str, bytes], totals: Iterable[Residues]) -> bytes:
        """Return the sums for those who count, by their response keys."""
        text = encode(tuple(np.ascontiguousarray(each, "<u8").tobytes() for each in totals))
        about, content_key = _response_of(self.digest, tuple(keys)), secrets.token_bytes(_KEY_BYTES)
        sealed, parts = seal_under(keys.values(), text, associated=about, content_key=content_key)
        return encode(Response(sealed, tuple(parts)))

    def _own_state(self) -> bytes:
        material, keys = self._kept
        return encode((material, tuple(keys.items())))  # as a map it would lose its order

    def _restore_own(self, own: bytes) -> None:
        material, keys = decode(own, tuple[bytes, tuple[tuple[str, bytes], ...]], "helper's state")
        self._kept = material, dict(keys)

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        return self._open(payload) if round_number == OPEN else self._decrypt(payload)

    def _open(self, payload: bytes) -> bytes:
        opened = self._opened(payload)
        found = {party: mine for party, mine in opened.items() if mine is not None}
        left_out = tuple(party for party in opened if party not in found)
        if len(found) < self.manifest.min_parties:
            raise too_few(found, left_out, self.manifest)
        public, secret = contexts.generate(self._computation.plan.parameters)
        material = secret.to_bytes()
        opening = self._computation.opening(material, {party: each[:SEED_BYTES] for party, each in found.items()})
        self._kept = material, {party: each[SEED_BYTES:] for party, each in found.items()}
        self.opened = tuple(found)
        return encode(_Opened(left_out, public.to_bytes(), opening))

    def _decrypt(self, payload: bytes) -> bytes:
        result = decode(payload, Result, "result")
        material, keys = self._kept
        if result.counted != tuple(keys):
            raise EvaluationError("the result is not of the parties whose pads were opened")
        totals = self._computation.decrypt(self._computation.load_secret(material), result.ciphertext)
        self._kept = b"", {}
        return self._response(keys, totals)


def totals_of(parts: Sequence[bytes]) -> list[Residues]:
    """Return the sums that a helper has sealed, for each prime; raise `DeserialisationError` where they are none."""
    if any(len(each) % 8 for each in parts):
        raise DeserialisationError("the helper's sums have not 8 bytes each")
    return [np.frombuffer(each, "<u8") for each in parts]


def response_limit(computation: SealedComputation[Any, Any, Any, Any]) -> int:
    """Return more bytes than a `Response` has."""
    return computation.plan.download_bytes + 1024


def too_few(opened: Collection[str], unfit: Iterable[str], manifest: Manifest) -> TooFewPartiesError:
    """Return the error where the blobs of these parties open, and those of others do not."""
    named = ", ".join(map(repr, sorted(unfit)[:10])) or "nobody else's"
    return TooFewPartiesError(
        f"the blobs of {len(opened)} parties open, at least {manifest.min_parties} are needed; unfit: {named}"
    )


def _associated(session: bytes, party: str) -> bytes:
    return encode((session, party))


def _response_of(session: bytes, counted: tuple[str, ...]) -> bytes:
    return encode((_RESPONSE, session, counted))


def _digests(blobs: tuple[bytes, ...]) -> bytes:
    return b"".join(hashlib.sha256(blob).digest() for blob in blobs)
