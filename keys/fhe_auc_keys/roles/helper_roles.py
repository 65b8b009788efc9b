"""A helper has the key of a session: parties speak once and hold none.

    1  "begin"                ->  party: a padded sketch; and a blob for the helper, the pad's seed and a response key
    2  all blobs              ->  helper: makes the keys; who counts, signed, and the opening of the sum of their pads
    3  the encrypted result   ->  helper: decrypts it; the sums, sealed under the response keys
    4  that word, sealed sums ->  (nothing: each party that counts unseals, checks and reads them)

A helper is trusted not to collude with the aggregator: together they read every submission.
It learns the sums that parties learn. It never sees a submission, nor a digest of one that says anything: as it knows
the pads, it could try counts against it. Rounds 1 and 2, and who may be left out: `fhe_auc_keys.roles.helper_opening`.

Each answer of the helper is for one question in a session (`fhe_auc.machines.site_state.answer`): two openings, or two
results decrypted, would tell what lies between.

Where vectors are added up the helper has no key, takes off the pads, and sees neither a submission nor the sum:

    1  "begin"                    ->  party: vector and tags, padded; and a blob for the helper, the pad's seed
    2  all blobs                  ->  helper: who counts, signed, and the sum of their pads
    3  that word, the bare sum    ->  (nothing: each party that counts takes the common pads off, checks and reads)

The common pads, which the helper does not know, hide the sum from the aggregator and the helper together: they need a
party besides.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import msgspec
import numpy as np

from fhe_auc.base.errors import DeserialisationError, EvaluationError
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode, encode
from fhe_auc.input_proofs.sessions import NOT_PROVED
from fhe_auc.rlwe.modular import Residues
from fhe_auc.session.computation import PaddedComputation, PartyTask, Result
from fhe_auc.session.party import R
from fhe_auc.session.vector_computation import VectorComputation
from fhe_auc_keys.bundles.session_keys import SEED_BYTES, generate_context
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.roles.helper_opening import OPEN, HelperMode, OpeningAggregator, OpeningHelper, PaddingParty
from fhe_auc_keys.roles.helper_word import Word
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.group_sealing import seal_under, unseal_under

DECRYPT = OPEN + 1  # the round in which the helper decrypts the result
_VECTOR_ROUNDS = OPEN + 1
_RESPONSE = b"helper's response 1"
_KEY_BYTES = 32
_WRAPPED_BYTES = 48


class _OpeningUnderKey(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    word: Word
    context: bytes  # public
    opening: bytes


class Response(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The sums as the helper returns them."""

    sealed: bytes
    parts: tuple[bytes, ...]  # for each party that counts, in the manifest's order


class HelpedAggregator(OpeningAggregator):
    """Computes under the helper's key, and passes on what that has decrypted."""

    rounds = DECRYPT + 1
    blob_bytes = sealing.OVERHEAD + SEED_BYTES + _KEY_BYTES
    opening_type = _OpeningUnderKey
    _response: Response  # the helper's

    @property
    def submission_limit(self) -> int:  # type: ignore[override]
        """Largest payload of an answer in this round, in bytes."""
        return _response_limit(self._computation) if self.round == DECRYPT else super().submission_limit

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round != DECRYPT:
            super()._accept(party, payload)
            return
        response = decode(payload, Response, "response")
        if [len(part) for part in response.parts] != [_WRAPPED_BYTES] * len(self.counted):
            raise DeserialisationError("the helper's response is not one for all parties that count")
        self._response = response

    def _content(self) -> bytes:
        return encode(self._response) if self.round == DECRYPT else super()._content()


class HelpedParty(PaddingParty[R]):
    """Reads the sums that the helper seals under the party's response key."""

    rounds = DECRYPT + 1
    _task: PartyTask[Any, Any, R]
    _response_key = b""

    def _result_limit(self) -> int:
        return _response_limit(self._computation)

    def _own_state(self) -> bytes:
        return encode((self._response_key,))

    def _restore_own(self, own: bytes) -> None:
        (self._response_key,) = decode(own, tuple[bytes], "response key")

    def _for_helper(self) -> bytes:
        self._response_key = secrets.token_bytes(_KEY_BYTES)
        return self._response_key

    def _read(self, word: Word, content: bytes) -> R:
        response, unproved = decode(content, Response, "response"), word.unproved
        associated = _response_of(self.digest, word.counted, unproved)
        part = dict(zip(word.counted, response.parts, strict=False)).get(self.name, b"")
        try:
            sums = unseal_under(self._response_key, part, response.sealed, associated=associated)
        except TamperedError as error:
            raise DeserialisationError(f"the sums of {HELPER} are not sealed to {self.name!r}: {error}") from None
        totals = totals_of(decode(sums, tuple[bytes, ...], "sums"))
        self._response_key = b""
        found = self._task.read(totals, word.counted, self._common_secret)
        named = (f"{', '.join(unproved)} not counted: {NOT_PROVED}",) if unproved else ()
        return replace(found, unproved_parties=unproved, warnings=(*found.warnings, *named))


class Helper(OpeningHelper):
    """Makes the keys, opens the sum of the pads, and decrypts one result."""

    rounds = DECRYPT + 1
    answers = OPEN, DECRYPT
    submission_round = DECRYPT + 2
    secret_bytes = SEED_BYTES + _KEY_BYTES
    _kept: tuple[bytes, dict[str, bytes]] = b"", {}  # secret context; response keys of those that count

    def _own_state(self) -> bytes:
        material, keys = self._kept
        return encode((material, tuple(keys.items()), self.unproved))  # as a map it would lose its order

    def _restore_own(self, own: bytes) -> None:
        found = decode(own, tuple[bytes, tuple[tuple[str, bytes], ...], tuple[str, ...]], "helper's state")
        material, keys, self.unproved = found
        self._kept = material, dict(keys)

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        return self._open(payload) if round_number == OPEN else self._decrypt(payload)

    def _open(self, payload: bytes) -> bytes:
        sealed, word = self._secrets_in(payload)
        if not sealed:
            return encode(_OpeningUnderKey(word, b"", b""))
        public, secret = generate_context(self._computation.plan.parameters)
        material = secret.to_bytes()
        opening = self._computation.opening(material, {party: text[:SEED_BYTES] for party, text in sealed.items()})
        self._kept = material, {party: text[SEED_BYTES:] for party, text in sealed.items()}
        return encode(_OpeningUnderKey(word, public.to_bytes(), opening))

    def _decrypt(self, payload: bytes) -> bytes:
        result = decode(payload, Result, "result")
        material, keys = self._kept
        if result.counted != tuple(keys):
            raise EvaluationError("the result is not of the parties whose pads were opened")
        totals = self._computation.decrypt(self._computation.load_secret(material), result.content)
        self._kept = b"", {}
        text = encode(tuple(np.ascontiguousarray(total, "<u8").tobytes() for total in totals))
        about, content_key = _response_of(self.digest, tuple(keys), self.unproved), secrets.token_bytes(_KEY_BYTES)
        sealed, parts = seal_under(keys.values(), text, associated=about, content_key=content_key)
        return encode(Response(sealed, tuple(parts)))


class HelperKeys(HelperMode):
    """A helper has the key in place of the parties, which pad; `computation` makes a `PaddedComputation`."""

    aggregator_type, party_type, helper_type = HelpedAggregator, HelpedParty, Helper


class _PadsOpened(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    context: ClassVar[bytes] = b""

    word: Word
    opening: bytes


class VectorAggregator(OpeningAggregator):
    """Takes the pads off the sum, by the helper's opening."""

    rounds = _VECTOR_ROUNDS
    blob_bytes = sealing.OVERHEAD + SEED_BYTES
    opening_type = _PadsOpened


class VectorParty(PaddingParty[R]):
    """Takes the common pads off the sum, and checks the tags, by the common secret."""

    rounds = _VECTOR_ROUNDS

    def _read(self, word: Word, content: bytes) -> R:
        result = decode(content, Result, "result")
        if result.counted != word.counted:
            raise DeserialisationError("the sum is of other parties than those that the helper counts")
        return cast("R", self._computation.outcome(None, self._task, result, self._common_secret))


class VectorHelper(OpeningHelper):
    """Adds up the pads: once, as a party answers each round once."""

    rounds = _VECTOR_ROUNDS
    answers = (OPEN,)
    submission_round = _VECTOR_ROUNDS + 1
    secret_bytes = SEED_BYTES

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        seeds, word = self._secrets_in(payload)
        return encode(_PadsOpened(word, self._computation.opening(b"", seeds) if seeds else b""))


class HelperVectors(HelperMode):
    """A helper opens the sum of the pads of vectors."""

    aggregator_type, party_type, helper_type = VectorAggregator, VectorParty, VectorHelper

    def __init__(self) -> None:
        super().__init__(VectorComputation)


def totals_of(parts: Sequence[bytes]) -> list[Residues]:
    """Return the sums that a helper has sealed, for each prime; raise `DeserialisationError` where they are none."""
    if any(len(part) % 8 for part in parts):
        raise DeserialisationError("the helper's sums have not 8 bytes each")
    return [np.frombuffer(part, "<u8") for part in parts]


def _response_limit(computation: PaddedComputation[Any, Any, Any]) -> int:
    """Return more bytes than a `Response` has."""
    return computation.plan.download_bytes + 1024


def _response_of(session: bytes, counted: tuple[str, ...], unproved: tuple[str, ...]) -> bytes:
    return encode((_RESPONSE, session, counted, unproved))
