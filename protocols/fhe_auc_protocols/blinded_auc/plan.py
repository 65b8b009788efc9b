"""The parameters of an encrypted AUC: packing, blinding and flooding that fit a modulus.

Capacity, in bits: nothing may wrap around the modulus Q,

    2·log2 Δ' + (2·log2 n - 1) + ρ + log2(gain) + 1 + ε  ≤  log2 Q

with n the bound on pooled rows, n²/2 the largest den = 2PN, ρ the blinding bits, gain what packing multiplies totals
by, and ε for the redundancy in den's imaginary part.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec

from fhe_auc.base import quantities
from fhe_auc.base.errors import CapacityError
from fhe_auc.ckks import CkksParameters
from fhe_auc.rlwe.statistical_security import check_bits, gaussian_distance
from fhe_auc.session.plan import (
    Keys,
    Parameter,
    Terms,
    describe_download,
    describe_flooding,
    describe_ring,
    describe_upload,
    ring_as_dict,
)
from fhe_auc_protocols.blinded_auc.error_bound import error_bound
from fhe_auc_protocols.blinded_auc.packing import CHECK_WEIGHT, Packing, split_norms
from fhe_auc_protocols.blinded_auc.workload import Workload

MULTIPLIER_RANGE_BITS = 16  # multipliers are log-uniform in [2^(ρ-16), 2^ρ]
MAX_BLINDING_BITS = 50  # largest ρ of any plan
MAX_TOLERANCE = 1e-3  # by how much the AUC of executions may ever be allowed to differ
LEAST_POSITIONS = 256
"""How many positions split shares have at least, if one ciphertext holds them: fewer could be guessed."""

_CHECK_BITS = math.log2((1 + math.hypot(1, CHECK_WEIGHT)) / 2)
_SPLIT_BITS = math.log2(1 + math.hypot(1, 0.5))  # den once more, and tie, which is at most half of it


class AucPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything public that parties and aggregator must agree on for an encrypted AUC.

    It comes from whoever wrote the manifest: `CapacityError` where parts do not fit, or would not hide what they must.
    """

    kind: ClassVar[str] = "blinded AUC"

    workload: Workload
    """What the session is to carry; everything below follows from it, or is checked against it."""
    parameters: CkksParameters
    """Ring, modulus and scale Δ', with exactly the rotations of the circuit (`Packing.trace_steps`)."""
    packing: Packing
    """The one for this workload and these parameters (`fitting_packing`)."""
    blinding_bits: int
    """ρ, 17 to 50: multipliers lie in [2^(ρ-16), 2^ρ]."""
    flooding_bits: int
    """λ, 30 to 80: the aggregator's flooding exceeds the noise it hides by 2^λ in each slot; what that leaves over all
    slots is `flooding_distance`."""
    smudging_bits: int = 0
    """0: a place in the format of manifests; there are no partial decryptions."""
    tolerance: float = 0.0
    """By how much the AUC of executions with split shares may differ (`result_check.accept`): above 0 and at most 1e-3;
    0 for whole counts."""

    def __post_init__(self) -> None:
        packing, workload = self.packing, self.workload
        check_blinding(self.blinding_bits)
        check_bits("flooding_bits", self.flooding_bits)
        if workload.joint_keys or self.smudging_bits:
            raise CapacityError("a blinded AUC has no joint keys, and no smudging")
        if packing != fitting_packing(workload, self.parameters.slots):
            raise CapacityError("the plan's packing is not the one for its workload and parameters")
        if self.parameters.rotations != packing.trace_steps:
            raise CapacityError("the plan's rotations are not exactly those of the circuit")
        check_tolerance(workload, self.tolerance)
        if self.capacity_bits < 0:
            raise CapacityError("the plan's workload does not fit its modulus")

    @property
    def thresholds(self) -> int:
        """Points of the session's grid."""
        return self.workload.thresholds

    @property
    def parties(self) -> int:
        """Most parties that submit."""
        return self.workload.parties

    @property
    def keys(self) -> Keys:
        """Who makes the keys: a key holder."""
        return "sealed"

    @property
    def blocks(self) -> int:
        """Ciphertexts of a submission."""
        return self.packing.blocks

    @property
    def least_multiplier(self) -> float:
        """Smallest blinding multiplier: 2^(ρ-16)."""
        return float(2.0 ** (self.blinding_bits - MULTIPLIER_RANGE_BITS))

    @property
    def flooding_deviation(self) -> float:
        """Standard deviation of flooding in a slot, in plain units (squares of counts times multiplier and gain).

        Sized for the largest multiplier: noise that grew with the multiplier would tell it.
        """
        noise = self.switching_noise_bits + self.blinding_bits + self.flooding_bits
        return float(2.0 ** (noise - 2 * self.parameters.log2_scale))

    @property
    def flooding_distance(self) -> float:
        """Statistical distance, at most, of two results that differ in the noise beneath: `gaussian_distance`."""
        return gaussian_distance(self.parameters.ring_dimension, self.flooding_bits)

    @property
    def unit(self) -> float:
        """What one unit of a result's integer coefficients is worth, in the same units."""
        return float(2.0 ** (-2 * self.parameters.log2_scale))

    @property
    def switching_noise_bits(self) -> float:
        """Log2 of the key-switching noise in a slot (standard deviation, absolute) after a full trace."""
        return switching_noise_bits(self.parameters.ring_dimension)

    @property
    def capacity_bits(self) -> float:
        """Bits of the modulus that the largest honest result leaves unused."""
        return self.parameters.log2_modulus - needed_bits(
            self.workload, self.packing, self.parameters.log2_scale, self.blinding_bits
        )

    @property
    def submission_bytes(self) -> int:
        """Bytes of one party's ciphertexts, without envelopes."""
        return self.packing.blocks * self.parameters.submission_bytes

    @property
    def download_bytes(self) -> int:
        """Bytes that a party receives, without envelopes: the result, both polynomials."""
        return 2 * self.parameters.polynomial_bytes()

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons."""
        parameters, packing = self.parameters, self.packing
        return [
            *describe_ring(
                parameters,
                "smallest upload that is precise and secure enough; N/2 slots a ciphertext",
                "the room that results must fit into",
            ),
            Parameter(
                "scale",
                f"2^{parameters.log2_scale:g}",
                "what one count is multiplied by: as large as Q leaves room for; precision comes from here",
            ),
            Parameter(
                "classes × bins",
                f"{packing.classes} × {packing.bins:,}",
                "the AUC's two halves side by side, for each execution; a power of two for {thresholds:,} thresholds",
            ),
            Parameter(
                "copies",
                str(packing.copies),
                "the pattern is repeated until all slots are full, so that no slot shows a partial sum",
            ),
            Parameter("blocks", str(packing.blocks), "ciphertexts a party sends: as many as the bins need"),
            Parameter(
                "rotation keys", str(len(parameters.rotations)), "those of the sum over all slots, and no others"
            ),
            Parameter(
                "blinding",
                f"2^{math.log2(self.least_multiplier):g} … 2^{self.blinding_bits}",
                "range of the aggregator's secret multiplier: as large as capacity and precision leave room for",
            ),
            describe_flooding(self.flooding_bits, math.log2(self.flooding_distance)),
            Parameter(
                "capacity left, bits",
                f"{self.capacity_bits:.2f}",
                "the largest result, at {max_rows:,} rows (--max-rows), stays below Q by this much",
            ),
            Parameter(
                "precision",
                quantities.bound_text(error_bound(self)),
                "bound on the AUC's numerical error, from {min_rows:,} rows (--min-rows) on",
            ),
            describe_upload(self, "what the planner makes smallest"),
            describe_download(self),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters as plain data."""
        packing = self.packing
        return {
            **ring_as_dict(self, smudging_bits=0),
            "key_bytes": 0,
            "log2_scale": self.parameters.log2_scale,
            "classes": packing.classes,
            "bins": packing.bins,
            "copies": packing.copies,
            "rotations": len(self.parameters.rotations),
            "log2_multiplier_range": [math.log2(self.least_multiplier), self.blinding_bits],
            "flooding_bits": self.flooding_bits,
            "flooding_distance": self.flooding_distance,
            "capacity_bits_left": self.capacity_bits,
            "precision": error_bound(self),
        }

    def terms(self) -> Terms:
        """Return what the session's parties agree to."""
        workload = self.workload
        return Terms(
            [
                Parameter(
                    "rows", f"{workload.min_rows:,} to {workload.max_rows:,}", "of all parties together, a public bound"
                ),
                Parameter("AUC released", "with all digits", "to the parties, and to nobody else"),
            ],
            {"max_rows": workload.max_rows, "min_rows": workload.min_rows},
        )


def check_blinding(blinding_bits: int) -> None:
    """Raise `CapacityError` for multipliers that hide nothing (ρ < 17), or more than any plan has room for (ρ > 50)."""
    if not MULTIPLIER_RANGE_BITS < blinding_bits <= MAX_BLINDING_BITS:
        raise CapacityError(
            f"blinding_bits must lie above {MULTIPLIER_RANGE_BITS} and at most at {MAX_BLINDING_BITS}, "
            f"got {blinding_bits}"
        )


def check_tolerance(workload: Workload, tolerance: float) -> None:
    """Raise `CapacityError` unless the tolerance is in (0, 1e-3] where counts are split, and 0 where they are whole."""
    if not (0 < tolerance <= MAX_TOLERANCE if workload.is_split else tolerance == 0):
        raise CapacityError(
            f"tolerance must lie above 0 and at most at {MAX_TOLERANCE:g} where counts are split, and be 0 where "
            f"they are not, got {tolerance:g}"
        )


def fitting_packing(workload: Workload, slots: int) -> Packing | None:
    """Return the packing of the fewest blocks, and in them the fewest bins; None where not even one bin fits."""
    largest = slots // (2 * workload.classes)
    if not largest:
        return None
    wanted = max(workload.positions, LEAST_POSITIONS) if workload.is_split else workload.positions
    bins = min(1 << (wanted - 1).bit_length(), largest)
    blocks = -(-workload.positions // bins)
    return Packing(slots, workload.classes, bins, blocks, _x_bits(workload, blocks * bins))


def _x_bits(workload: Workload, bins: int) -> int:
    """Return the bits of `Packing.x_unit` with which errors on X and on Y weigh about alike."""
    if not workload.is_split:
        return (bins.bit_length() + 1) // 2
    x_norm, y_norm = split_norms(workload, bins)
    return round(math.log2(2 * math.sqrt(x_norm / y_norm)))


def needed_bits(workload: Workload, packing: Packing, log2_scale: float, blinding_bits: int) -> float:
    """Return the left-hand side of the capacity inequality, in bits."""
    largest_den = 2 * math.log2(workload.max_rows) - 1
    redundancy = _SPLIT_BITS if workload.is_split else _CHECK_BITS
    return 2 * log2_scale + largest_den + blinding_bits + math.log2(packing.gain) + 1 + redundancy


def switching_noise_bits(ring_dimension: int) -> float:
    """Return the log2 of the key-switching noise (standard deviation of a slot, absolute) after a full trace.

    It varies from key to key. Measured over many keys on both backends: up to 2^18.7 at N = 8192 and 2^19.7 at
    N = 16384; a test holds it below this bound. The noise of relinearisation is not in it: that comes before the trace,
    is the same in all slots of a class afterwards, and far below what is added.
    """
    return 19 + (ring_dimension // 8192 - 1)
