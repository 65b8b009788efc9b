"""A helper where vectors are added up: it takes off the pads, and sees neither a submission nor the sum.

    1  "begin"                          ->  party: vector and tags, padded; and a blob for the helper, the pad's seed
    2  all blobs                        ->  helper: the sum of the pads of those whose blobs open
    3  the sum, of which the pads       ->  (nothing: each party that counts takes the common pads off, checks the tags,
       have been taken off                   and reads)

Blobs, and who may be left out: `fhe_auc_keys.roles.helper_opening`. The common pads, which the helper
does not know, hide the sum from the aggregator and the helper together: they need a party besides.
"""

from __future__ import annotations

import msgspec

from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.session.computation import Result
from fhe_auc.session.party import R
from fhe_auc.session.vector_computation import VectorComputation, VectorTask
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.roles.helper_opening import OPEN, HelperMode, OpeningAggregator, OpeningHelper, PaddingParty
from fhe_auc_keys.trust import sealing

_ROUNDS = OPEN + 1


class _PadsOpened(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    left_out: tuple[str, ...]
    opening: bytes


class VectorAggregator(OpeningAggregator):
    """Takes the pads off the sum, by the helper's opening."""

    rounds = _ROUNDS
    blob_bytes = sealing.OVERHEAD + SEED_BYTES
    _pads: bytes

    def _opened(self, payload: bytes) -> tuple[str, ...]:
        opened = decode(payload, _PadsOpened, "opening")
        self._computation.check_opening(opened.opening)
        self._pads = opened.opening
        return opened.left_out

    def _result(self, totals: list[Words]) -> bytes:
        result: bytes = self._computation.aggregate(self._pads, totals)
        return result


class VectorParty(PaddingParty[R]):
    """Takes the common pads off the sum, and checks the tags, by the common secret."""

    rounds = _ROUNDS
    _computation: VectorComputation
    _task: VectorTask[R]

    @property
    def _result_limit(self) -> int:
        return self._computation.payload_limit

    def _padded(self, seed: bytes) -> tuple[bytes, ...]:
        pad = self._computation.pad(self.name, seed)
        return self._computation.submission(self._task, pad, self._common_secret)

    def _read(self, payload: bytes) -> R:
        result = decode(payload, Result, "result")
        self._check_named(result.counted)
        return self._computation.outcome(self._task, result.content, result.counted, self._common_secret)


class VectorHelper(OpeningHelper):
    """Adds up the pads: once, as a party answers each round once."""

    rounds = _ROUNDS
    answers = (OPEN,)
    submission_round = _ROUNDS + 1
    secret_bytes = SEED_BYTES

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        seeds, left_out = self._secrets_in(payload)
        return encode(_PadsOpened(left_out, self._computation.opening(seeds)))


class HelperVectors(HelperMode):
    """A helper opens the sum of the pads of vectors."""

    aggregator_type, party_type, helper_type = VectorAggregator, VectorParty, VectorHelper

    def __init__(self) -> None:
        super().__init__(VectorComputation)
