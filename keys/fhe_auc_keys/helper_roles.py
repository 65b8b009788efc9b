"""Roles of a session with helpers: parties speak once and hold no key. Here parties, whatever helpers, and one helper.

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

Of several helpers (`fhe_auc_keys.joint_helper_roles`) each gets a blob, with a seed of its own: the pad is the sum of
what comes from all seeds. Each returns the sums, and parties compare.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import msgspec
import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhe_auc import contexts
from fhe_auc.computation import PartyTask, Result, SealedComputation
from fhe_auc.errors import DeserialisationError, EvaluationError, InputError, TooFewPartiesError
from fhe_auc.manifest import Manifest
from fhe_auc.party_names import HELPERS, MAX_CHARACTERS
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rounds import Aggregator, Party, R
from fhe_auc.serialise import decode, encode
from fhe_auc.submissions import RunningSum
from fhe_auc_keys import sealing
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.group_sealing import seal_under, unseal_under
from fhe_auc_keys.identity import Identity, signed_bytes
from fhe_auc_keys.roster import Roster
from fhe_auc_keys.session_keys import SEED_BYTES

OPEN = 2
"""Round in which helpers say whose blobs open."""

_BLOB, _RESPONSE = b"helper's blob 1", b"helper's response 1"
_KEY_BYTES = 32
_BLOB_BYTES = 32 + SEED_BYTES + _KEY_BYTES + 16  # HPKE's key, the two secrets, the tag
_SIGNATURE_BYTES = 64
_WRAPPED_BYTES = 48
_NAME_BYTES = 4 * MAX_CHARACTERS + 8
_UNFIT = "its blobs are not signed by it, or not sealed to the helpers for this session"


class HelpedParty(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party starts from, as bytes: for `fhe_auc.protocol.Protocol.party`."""

    identity: bytes  # private keys, `Identity.to_bytes`
    helpers: tuple[bytes, ...]  # the X25519 key of each, 32 bytes
    common_secret: bytes  # 32 bytes that the parties have in common

    def __repr__(self) -> str:
        return "HelpedParty(...)"


class HelperMaterial(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a helper starts from, as bytes: for `fhe_auc.protocol.Protocol.helper`."""

    identity: bytes
    roster: Roster  # of the parties
    helpers: Roster  # in the order of `fhe_auc.party_names.HELPERS`

    def __repr__(self) -> str:
        return "HelperMaterial(...)"


class _Submission(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    parts: tuple[bytes, ...]
    blobs: tuple[bytes, ...]  # one for each helper
    signature: bytes  # of all blobs


class _Blobs(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    party: str
    blobs: tuple[bytes, ...]
    signature: bytes


class _Opened(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    left_out: tuple[str, ...]
    context: bytes  # public
    opening: bytes


class Response(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The sums as one helper returns them."""

    sealed: bytes
    parts: tuple[bytes, ...]  # for each party that counts, in the manifest's order


class _Given(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    counted: tuple[str, ...]
    responses: tuple[Response, ...]  # of each helper


class BaseHelpedAggregator(Aggregator):
    """Keeps submissions until the helpers have said whose blobs open, then adds these up.

    All rounds but the first and the last are the helpers'; in the one before the last, each answers a `Response`.
    """

    def __init__(self, manifest: Manifest, computation: SealedComputation[Any, Any, Any, Any]) -> None:
        super().__init__(manifest)
        self.rounds = rounds_with(computation.helpers)
        self._computation = computation
        self._helpers = HELPERS[: computation.helpers]
        self._submissions: dict[str, _Submission] = {}
        self._digests: dict[str, bytes] = {}
        self._left_out: set[str] = set()
        self._responses: dict[str, Response] = {}

    @property
    def submission_limit(self) -> int:  # type: ignore[override] # it depends on who answers
        """Largest payload of an answer in this round, in bytes."""
        if not self._helping:
            return self._computation.payload_limit
        if self.round == self.rounds - 1:
            return response_limit(self._computation)
        return self._help_limit + _NAME_BYTES * len(self.manifest.parties)

    @property
    @abstractmethod
    def _help_limit(self) -> int:
        """More bytes than a helper answers before it returns the sums, without names of parties."""

    @property
    def asked(self) -> tuple[str, ...]:
        """The helpers in the rounds between, else the parties."""
        return self._helpers if self._helping else self._counted

    @property
    def _helping(self) -> bool:
        return 1 < self.round < self.rounds

    def _is_asked(self, name: str) -> bool:
        return name in self._helpers if self._helping else super()._is_asked(name)

    def _least(self) -> int:
        return len(self._helpers) if self._helping else self.manifest.min_parties

    def _listed(self, number: int) -> tuple[tuple[str, bytes], ...]:
        """Helpers see no digest of a submission; parties look for their own."""
        return tuple((party, self._digests[party]) for party in self._counted) if number == self.rounds else ()

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            found = decode(payload, _Submission, "submission")
            lengths = [len(blob) for blob in found.blobs]
            if (lengths, len(found.signature)) != ([_BLOB_BYTES] * len(self._helpers), _SIGNATURE_BYTES):
                raise DeserialisationError("a submission whose blobs, or their signature, are of another length")
            self._computation.running_sum(None).add(found.parts)  # whether it is one
            self._submissions[party] = found
        elif self.round == self.rounds - 1:
            response = decode(payload, Response, "response")
            if [len(part) for part in response.parts] != [_WRAPPED_BYTES] * len(self._counted):
                raise DeserialisationError("the helper's response is not one for all parties that count")
            self._responses[party] = response
        elif self._helping:
            self._left_out |= self._accept_help(party, payload)

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
        if self.round == self.rounds - 1:
            return encode(_Given(self._counted, tuple(self._responses[name] for name in self._helpers)))
        if len(self._counted) < self.manifest.min_parties:
            raise too_few(self._counted, self._left_out, self.manifest)
        return self._close_help()

    def _left_out_of(self, named: tuple[str, ...]) -> set[str]:
        """Return whose blobs a helper says do not open; raise `DeserialisationError` where it cannot say that."""
        found = set(named)
        if named != tuple(party for party in self._counted if party in found) or len(found) == len(self._counted):
            raise DeserialisationError("the helper leaves out strangers, somebody twice, or everybody")
        return found

    def _added(self, total: RunningSum) -> RunningSum:
        """Return the sum with all submissions that count."""
        for party in self._counted:
            total.add(self._submissions[party].parts)
        return total

    @abstractmethod
    def _accept_help(self, helper: str, payload: bytes) -> set[str]:
        """Take a helper's answer, and return what `_left_out_of` does of it; as of `Aggregator._accept`."""

    @abstractmethod
    def _close_help(self) -> bytes:
        """Return what the next round's message carries, after one of the helpers."""


class HelpedAggregator(BaseHelpedAggregator):
    """That of one helper: it computes under its key, with the opening."""

    def __init__(self, manifest: Manifest, computation: SealedComputation[Any, Any, Any, Any]) -> None:
        super().__init__(manifest, computation)
        self._keys: Any = None  # of the helper's making, with the opening

    @property
    def _help_limit(self) -> int:
        return self._computation.opening_limit

    def _accept_help(self, helper: str, payload: bytes) -> set[str]:
        opened = decode(payload, _Opened, "opening")
        left_out = self._left_out_of(opened.left_out)
        try:
            self._keys = self._computation.opened(self._computation.load_public(opened.context), opened.opening)
        except InputError as error:  # of another session
            raise DeserialisationError(str(error)) from None
        return left_out

    def _close_help(self) -> bytes:
        totals = self._added(self._computation.running_sum(self._keys)).totals
        return encode(Result(self._counted, self._computation.aggregate(self._keys, totals)))


class HelpedPartyRole(Party[R]):
    """Pads and submits once, and reads the sums once; it has no key of the session.

    Raises `InputError` where `own` is of another number of helpers.
    """

    def __init__(
        self,
        manifest: Manifest,
        computation: SealedComputation[Any, Any, Any, Any],
        own: HelpedParty,
        task: PartyTask[Any, Any, R],
    ) -> None:
        super().__init__(manifest, task.party)
        if len(own.helpers) != computation.helpers:
            raise InputError(f"the material is of {len(own.helpers)} helpers, the session has {computation.helpers}")
        self.rounds = rounds_with(computation.helpers)
        self.answers = 1, self.rounds
        sums = computation.helpers * response_limit(computation)
        self.download_limit = sums + (_NAME_BYTES + 64) * len(manifest.parties)
        self._computation = computation
        self._identity = Identity.from_bytes(own.identity)
        self._helpers = own.helpers
        self._common_secret = own.common_secret
        self._task = task
        self._response_keys: tuple[bytes, ...] = ()

    def _own_state(self) -> bytes:
        return encode(self._response_keys)

    def _restore_own(self, own: bytes) -> None:
        self._response_keys = decode(own, tuple[bytes, ...], "response keys")

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            seeds = [secrets.token_bytes(SEED_BYTES) for _ in self._helpers]
            self._response_keys = tuple(secrets.token_bytes(_KEY_BYTES) for _ in self._helpers)
            keys = self._computation.load_secret(b"", b"".join(seeds))
            parts = self._computation.encrypt(keys, self._task, self._common_secret)
            associated = _associated(self.digest, self.name)
            blobs = tuple(
                sealing.seal(helper, seed + key, info=_BLOB, associated=associated)
                for helper, seed, key in zip(self._helpers, seeds, self._response_keys, strict=True)
            )
            answer = encode(_Submission(parts, blobs, self._identity.sign(_BLOB, associated + _digests(blobs))))
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        given = decode(payload, _Given, "result")
        self._check_named(given.counted)
        if len(given.responses) != len(self._helpers):
            raise DeserialisationError(f"the sums of {len(given.responses)} helpers, of {len(self._helpers)}")
        texts = {
            self._text(*each, given.counted)
            for each in zip(HELPERS, self._response_keys, given.responses, strict=False)
        }
        if len(texts) > 1:
            raise EvaluationError("the helpers have not returned the same sums: one has failed, or lies; start anew")
        totals = totals_of(decode(texts.pop(), tuple[bytes, ...], "sums"))
        self._response_keys = ()
        outcome = self._task.read(totals, given.counted, self._common_secret)
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, keys="helper", seconds=self._seconds)
        return b""

    def _text(self, helper: str, key: bytes, response: Response, counted: tuple[str, ...]) -> bytes:
        """Return what a helper has sealed; raise `DeserialisationError` where it is not for this party."""
        part = dict(zip(counted, response.parts, strict=False)).get(self.name, b"")
        try:
            return unseal_under(key, part, response.sealed, associated=_response_of(self.digest, counted))
        except TamperedError as error:
            raise DeserialisationError(f"the sums of {helper} are not sealed to {self.name!r}: {error}") from None


class BaseHelper(Party[Any]):
    """Opens blobs; it takes part in all rounds but the first and the last, and has no rows and no result.

    Raises `InputError` where `own` is of another number of helpers, or its identity is none of theirs.
    """

    def __init__(
        self, manifest: Manifest, computation: SealedComputation[Any, Any, Any, Any], own: HelperMaterial
    ) -> None:
        self._identity = Identity.from_bytes(own.identity)
        keys = [member.signing_key for member in own.helpers.members]
        if len(keys) != computation.helpers or self._identity.signing_key not in keys:
            raise InputError(f"{self._identity.name!r} is none of the session's {computation.helpers} helpers")
        self._number = keys.index(self._identity.signing_key)
        super().__init__(manifest, HELPERS[self._number])
        self.rounds = rounds_with(computation.helpers)
        self.answers = tuple(range(OPEN, self.rounds))
        self.submission_round = self.rounds + 1
        most = len(manifest.parties)
        blobs = (_NAME_BYTES + (_BLOB_BYTES + 8) * len(keys) + _SIGNATURE_BYTES + 16) * most
        self.download_limit = max(blobs, computation.payload_limit + _NAME_BYTES * most)
        self._computation = computation
        self._keys = own.roster.signing_keys

    @staticmethod
    def _belongs(manifest: Manifest, name: str) -> bool:
        return name in HELPERS and manifest.keys == "helper"

    def _check_listed(self, message: Any) -> None:
        """Helpers are told no digests."""

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
            secret = self._identity.unseal(found.blobs[self._number], info=_BLOB, associated=associated)
        except (InvalidSignature, IndexError, KeyError, TamperedError):
            return None
        return secret if len(secret) == SEED_BYTES + _KEY_BYTES else None

    def _response(self, keys: Mapping[str, bytes], totals: Iterable[Residues]) -> bytes:
        """Return the sums for those who count, by their response keys."""
        text = encode(tuple(np.ascontiguousarray(each, "<u8").tobytes() for each in totals))
        about, content_key = _response_of(self.digest, tuple(keys)), secrets.token_bytes(_KEY_BYTES)
        sealed, parts = seal_under(keys.values(), text, associated=about, content_key=content_key)
        return encode(Response(sealed, tuple(parts)))


class Helper(BaseHelper):
    """The only one: makes the keys, opens the sum of the pads of those whose blobs open, and decrypts one result."""

    _kept: tuple[bytes, dict[str, bytes]] = b"", {}  # secret context; response keys of those that count

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


def rounds_with(helpers: int) -> int:
    """Return how many rounds a session with so many helpers has."""
    return 4 if helpers == 1 else 6


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
