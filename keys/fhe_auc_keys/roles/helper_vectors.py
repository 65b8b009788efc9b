"""A helper where vectors are added up: it takes off the pads, and sees neither a submission nor the sum.

    1  "begin"                          ->  party: vector and tags, padded; and a blob for the helper, the pad's seed
    2  all blobs                        ->  helper: the sum of the pads of those whose blobs open
    3  the sum, of which the pads       ->  (nothing: each party that counts takes the common pads off, checks the tags,
       have been taken off                   and reads)

Rounds, blobs and who may be left out are those of `fhe_auc_keys.roles.helper_roles`. The common pads, which the helper
does not know, hide the sum from the aggregator and the helper together: they need a party besides.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import Any

import msgspec

from fhe_auc.base.party_names import NAME_BYTES
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party, R
from fhe_auc.session.vector_computation import VectorComputation, VectorTask
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.roles.helper_roles import (
    OPEN,
    HelpedSecrets,
    HelpedSubmission,
    HelperMaterial,
    HelperMode,
    OpeningAggregator,
    OpeningHelper,
    blob_of,
    helped_party,
    read_material,
)
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity

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
        made: bytes = self._computation.aggregate(self._pads, totals)
        return made


class VectorParty(Party[R]):
    """Pads and submits once, and reads the sums once; it has no key of the session but the common secret."""

    rounds = _ROUNDS
    answers = 1, _ROUNDS

    def __init__(
        self, manifest: Manifest, computation: VectorComputation, own: HelpedSecrets, task: VectorTask[R]
    ) -> None:
        super().__init__(manifest, task.party)
        self.download_limit = computation.payload_limit + (NAME_BYTES + 64) * len(manifest.parties)
        self._computation = computation
        self._identity = Identity.from_bytes(own.identity)
        (self._helper,) = own.helpers
        self._common_secret = own.common_secret
        self._task = task

    def __reduce__(self) -> str:
        raise TypeError("a party is not pickled or copied: a second one would submit for it, too")

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        started = time.perf_counter()
        if round_number == 1:
            seed = secrets.token_bytes(SEED_BYTES)
            pad = self._computation.pad(self.name, seed)
            parts = self._computation.submission(self._task, pad, self._common_secret)
            answer = encode(HelpedSubmission(parts, *blob_of(self._helper, seed, self._identity, self.digest)))
            self._seconds["submit"] = time.perf_counter() - started
            return answer
        result = decode(payload, Result, "result")
        self._check_named(result.counted)
        outcome = self._computation.outcome(self._task, result.content, result.counted, self._common_secret)
        self._seconds["recover"] = time.perf_counter() - started
        self._outcome = replace(outcome, keys="helper", seconds=self._seconds)
        return b""


class VectorHelper(OpeningHelper):
    """Adds up the pads: once, as a party answers each round once."""

    rounds = _ROUNDS
    answers = (OPEN,)
    submission_round = _ROUNDS + 1
    secret_bytes = SEED_BYTES

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        seeds, left_out = self._blobs(payload)
        return encode(_PadsOpened(left_out, self._computation.opening(seeds)))


class HelperVectors(HelperMode):
    """A helper opens the sum of the pads of vectors."""

    computation = VectorComputation

    def aggregator(self, manifest: Manifest, material: bytes) -> VectorAggregator:
        """Return the aggregator, who starts from nothing."""
        return VectorAggregator(manifest, VectorComputation(manifest))

    def party(self, manifest: Manifest, material: bytes, task: VectorTask[Any]) -> VectorParty[Any]:
        """Return the party; `material` is `HelpedSecrets`."""
        return VectorParty(manifest, VectorComputation(manifest), helped_party(material, manifest), task)

    def helper(self, manifest: Manifest, material: bytes) -> VectorHelper:
        """Return the helper; `material` is `HelperMaterial`."""
        return VectorHelper(manifest, VectorComputation(manifest), read_material(material, HelperMaterial))
