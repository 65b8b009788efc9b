"""Exact sums of integers under encryption, with a key holder's keys: plan, packing, and what a party decrypts.

A polynomial of N coefficients holds N integers, times Δ: `slots` encodes them exactly (`fhe_auc.ckks.embedding`). So
the noise of the sum is the sum of the parties' encryption noise, independent of what they have encrypted: with keys
that all parties hold, nothing has to hide it. With joint keys: `joint_sums`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base import quantities
from fhe_auc.base.errors import CapacityError, EvaluationError
from fhe_auc.ckks import BackendName, Ciphertext, CkksParameters, PublicContext, Slots
from fhe_auc.ckks.embedding import EXACT_BITS, coefficients_of, slots_of
from fhe_auc.ckks.parameters import CHAINS
from fhe_auc.rlwe.second_error import FRESH_VARIANCE
from fhe_auc.session.plan import Keys, Parameter, Terms, describe_download, describe_ring, describe_upload, ring_as_dict
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS

_MOST_SCALE_BITS = 24
_ERROR_DEVIATION = math.sqrt(FRESH_VARIANCE)  # of a coefficient of a fresh encryption
_CONFIDENCE = 7.0  # of N values none is further off, once in 10^7 sessions
_MARGIN = 0.25  # by so much a sum may miss an integer; half of it is planned for
_SIGN_BITS = 2
NO_SUM = (
    "the result is not a sum of integers within bounds: pooled rows are more than max_rows (--max-rows), "
    "the aggregator has not computed what it should, a message is damaged or a key is wrong"
)


class Sums(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the plan of an encrypted sum says of the integers, whatever encrypts them.

    Raises `CapacityError` where a number is below 1.
    """

    thresholds: int
    """Points of the session's grid, at least 1."""

    vectors: int
    """Integers for each threshold, at least 1."""

    parties: int
    """Most that submit, at least 1."""

    max_total: int
    """Public bound on the absolute value of every sum, at least 1."""

    def __post_init__(self) -> None:
        for name in ("thresholds", "vectors", "parties", "max_total"):
            if getattr(self, name) < 1:
                raise CapacityError(f"{name} must be at least 1, got {getattr(self, name)}")

    @property
    def integers(self) -> int:
        """How many integers are added."""
        return self.thresholds * self.vectors

    def checked(self, integers: ArrayLike) -> NDArray[np.int64]:
        """Return integers of shape (vectors, thresholds), at most `max_total` in absolute value.

        Raises `ValueError`: another shape, a value that is not an integer, or one beyond the bound.
        """
        given = np.asarray(integers)
        if given.shape != (self.vectors, self.thresholds) or given.dtype.kind not in "iu":
            raise ValueError(f"expected integers of shape {(self.vectors, self.thresholds)}")
        if given.max() > self.max_total or given.min() < -self.max_total:
            raise ValueError(f"a value is beyond the bound of {self.max_total:,}")
        return given.astype(np.int64)

    def unpacked(self, found: NDArray[Any]) -> NDArray[np.int64]:
        """Return the sums, shape (vectors, thresholds), of all that a result holds; `EvaluationError` for more."""
        if found[self.integers :].any():
            raise EvaluationError("the result has numbers where there are none to be added")
        return np.asarray(found[: self.integers].reshape(self.vectors, self.thresholds), np.int64)

    def within_bounds(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return these sums; raise `EvaluationError` where one is beyond `max_total`."""
        if np.abs(sums).max() > self.max_total:
            raise EvaluationError(NO_SUM)
        return sums

    def describe_sums(self) -> Parameter:
        """Return the row on how many sums there are."""
        why = "integers that are added up, exactly: bins, for each label if need be"
        return Parameter("sums", f"{self.integers:,}", why)

    def terms(self) -> Terms:
        """Return what the session's parties agree to."""
        each = f"over all parties, each {self.max_total:,} at most"
        return Terms([Parameter("decrypted", f"{self.integers:,} sums", each)], {"sums": self.integers})


class SumPlan(Sums, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything public that parties and aggregator must agree on for an encrypted sum under a key holder's keys.

    Raises `CapacityError`: the parts do not fit together. A plan comes from whoever wrote the manifest.
    """

    kind: ClassVar[str] = "sums"
    keys: ClassVar[Keys] = "sealed"
    blocks: ClassVar[int] = 1

    parameters: CkksParameters
    """Without rotations; all integers fit one ciphertext."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.integers > self.parameters.ring_dimension:
            raise CapacityError(
                f"{self.integers:,} integers do not fit a ciphertext of {self.parameters.ring_dimension:,}"
            )
        if self.parameters.rotations:
            raise CapacityError("a sum takes no rotations")
        largest = math.log2(self.max_total) + self.parameters.log2_scale
        if largest > EXACT_BITS or self.parameters.log2_scale % 1:
            raise CapacityError("the plan's sums are too large to be encoded exactly")
        largest += math.log2(self.parties)  # no party has more: what is too large does not wrap, and shows
        if largest + self.parameters.log2_scale + _SIGN_BITS > self.parameters.log2_modulus:
            raise CapacityError("the plan's sums do not fit its modulus")
        if _CONFIDENCE * self.deviation > _MARGIN / 2:
            raise CapacityError("the plan's noise is too large for exact sums")

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a sum, in its own units."""
        return _ERROR_DEVIATION * math.sqrt(self.parties) / self.parameters.scale

    @property
    def submission_bytes(self) -> int:
        """Bytes of one party's ciphertext, without envelope."""
        return self.blocks * self.parameters.submission_bytes

    @property
    def download_bytes(self) -> int:
        """Bytes that a party receives, without envelopes: the result."""
        return 2 * self.parameters.polynomial_bytes()

    def pack(self, integers: ArrayLike) -> list[Slots]:
        """Return the slots of the one ciphertext, of integers as `checked` takes them; errors likewise."""
        coefficients = np.zeros(self.parameters.ring_dimension)
        coefficients[: self.integers] = self.checked(integers).ravel()
        return [slots_of(coefficients, self.parameters)]

    def sums(self, slots: Slots) -> NDArray[np.int64]:
        """Return the sums, shape (vectors, thresholds), from the decrypted slots of the result.

        Raises `EvaluationError`: the slots are not those of sums within the plan's bounds: the keys are wrong, or the
        result is damaged.
        """
        return self.within_bounds(self.sums_of_any_size(slots))

    def sums_of_any_size(self, slots: Slots) -> NDArray[np.int64]:
        """As `sums`, up to `max_total` of each party: so that one beyond `max_total` is told from every other."""
        if not np.isfinite(slots).all():
            raise EvaluationError(NO_SUM)
        found = coefficients_of(slots, self.parameters)
        nearest = np.rint(found)
        if not (np.abs(found - nearest) <= _MARGIN).all() or np.abs(nearest).max() > self.parties * self.max_total:
            raise EvaluationError(NO_SUM)
        return self.unpacked(nearest)

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons."""
        parameters = self.parameters
        return [
            *describe_ring(
                parameters,
                "the smallest that holds the sums: N integers a ciphertext",
                "the room that sums must fit into",
            ),
            Parameter(
                "scale", f"2^{parameters.log2_scale:g}", "what one row is multiplied by, for noise to stay below"
            ),
            self.describe_sums(),
            Parameter(
                "noise of a sum",
                quantities.bound_text(self.deviation),
                "standard deviation, in rows: sums are rounded to integers, and refused where they are none",
            ),
            describe_upload(self, "one ciphertext"),
            describe_download(self),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters as plain data."""
        return {
            **ring_as_dict(self, smudging_bits=0),
            "log2_scale": self.parameters.log2_scale,
            "sums": self.integers,
        }


def encrypted_sum(context: PublicContext, sums: Sequence[Ciphertext]) -> Ciphertext:
    """Return the sum of all submissions, as it is: the circuit of these sessions.

    Nothing hides its noise: integers are encoded exactly, so that noise is what encryption drew and tells of nothing
    else.
    """
    (total,) = sums
    return context.raised(total)


def plan_sum(
    *,
    thresholds: int,
    vectors: int,
    parties: int,
    backend: BackendName,
    max_total: int = DEFAULT_MAX_ROWS,
) -> SumPlan:
    """Return the plan with the smallest upload; parameters as of `SumPlan`.

    Raises `CapacityError`: an argument is out of range, or no parameters with 128-bit security do.
    """
    scale_bits = min(_MOST_SCALE_BITS, EXACT_BITS - math.ceil(math.log2(max(max_total, 1))))
    reason = ""
    for chain in CHAINS[backend]:
        try:
            parameters = CkksParameters(
                backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, float(max(scale_bits, 1)), ()
            )
            return SumPlan(
                thresholds=thresholds,
                vectors=vectors,
                parties=parties,
                max_total=max_total,
                parameters=parameters,
            )
        except CapacityError as error:
            reason = str(error)
    raise CapacityError(f"no parameters with 128-bit security do for these sums: {reason}")
