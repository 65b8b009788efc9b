"""The parameters of an encrypted AUC: what fits a modulus, how often it is computed, and what hides.

Capacity, in bits: no class total may wrap around the modulus Q,

    2·log2 Δ + (2·log2 n - 1) + ρ + 1 - log2 B + s ≤ log2 Q - 1

with n the bound on pooled rows, n²/2 the largest den = 2PN, ρ the blinding bits, B the slots that the sum is divided
by, and s what redundancy or masks add to den.

By how much noise and rounding may put the AUC off follows from the plan alone. Bounds on errors are relative to den =
2PN, and hold for every balance of the classes, down to one row of either, at the least number of rows and the smallest
multiplier. The scale takes all the room that capacity leaves (`smallest_plan`).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec

from fhe_auc.base import quantities
from fhe_auc.base.errors import CapacityError
from fhe_auc.ckks import BackendName, CkksParameters
from fhe_auc.ckks.parameters import CHAINS, PRODUCTS
from fhe_auc.question.thresholds import MAX_SIZE
from fhe_auc.rlwe.ciphertexts import VARIANCE
from fhe_auc.rlwe.ring_parameters import DEFAULT_FLOODING_BITS, Chain
from fhe_auc.session import plan as plans
from fhe_auc.session.plan import Keys, Parameter, Terms
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS, DEFAULT_MIN_ROWS
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS, FLOODED_BITS, LEAST_MULTIPLIER

PRECISION = 1e-8  # largest error of the AUC, absolute
MAX_TOLERANCE = 1e-3  # by how much the AUC of runs may ever be allowed to differ
RUNS, CLASSES = 2, 2  # of masked shares: four executions in all
EXTRA = CLASSES + 1  # positions of a run that are no bins: a correction a class, and the last
MASK_RADIUS = 1 / 8  # of Y's masks, in N; X's have 1, in 2P
CONFIDENCE = 7.0  # standard deviations: a bound broken once in 10^11 sessions
MAX_AMPLIFICATION = 10.0  # secrets of masked shares are drawn so that they amplify errors at most so often
WEIGHT = 4.0  # w of `encrypted_trapezoid`
CHECK_WEIGHT = 2.0 ** (-5 / 3)  # κ of `semi_honest`
_ENCODING = 2.0**-44  # of the double-precision transforms and of reading the result (measured: below 2^-47)
_ERROR_VARIANCE = VARIANCE + 1 / 12  # of a coefficient of an encryption: its error, and rounding

_LEAST = {"thresholds": 1, "parties": 1, "max_rows": 2, "min_rows": 2}


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the parameters must carry: capacity holds up to max_rows pooled rows, precision from min_rows on.

    Raises `CapacityError`: a number is out of its range.
    """

    thresholds: int  # decision points m, 1 to 2^20
    parties: int  # most that submit, at least 1
    max_rows: int = DEFAULT_MAX_ROWS  # public bound on the pooled rows, at least `min_rows`
    min_rows: int = DEFAULT_MIN_ROWS  # public bound from below, at least 2
    split: bool = False  # whether parties split their counts into masked shares, against an aggregator that may lie

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise CapacityError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.thresholds > MAX_SIZE:
            raise CapacityError(f"thresholds must be at most {MAX_SIZE}, got more")
        if self.max_rows < self.min_rows:
            raise CapacityError(f"max_rows must be at least min_rows = {self.min_rows}, got {self.max_rows}")


class AucPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything public that parties and aggregator must agree on for an encrypted AUC.

    It comes from whoever wrote the manifest: `CapacityError` where parts do not fit, or would not hide what they must.
    """

    kind: ClassVar[str] = "blinded AUC"

    workload: Workload  # what the session is to carry; everything below is checked against it
    parameters: CkksParameters  # ring, modulus and scale Δ
    tolerance: float = 0.0
    """By how much runs of masked shares may differ (`result_check.accept`): above 0 and at most 1e-3; 0 for whole
    counts."""

    def __post_init__(self) -> None:
        check_tolerance(self.workload, self.tolerance)
        if self.parameters.components != components(self.workload, self.parameters.ring_dimension):
            raise CapacityError("the plan's workload does not fill the components of its plaintexts")
        if self.capacity_bits < 0:
            raise CapacityError("the plan's workload does not fit its modulus")
        if not error_bound(self) <= PRECISION:
            raise CapacityError(f"the plan's parameters do not keep the AUC's error below {PRECISION:g}")

    @property
    def split(self) -> bool:
        """Whether counts are split into masked shares."""
        return self.workload.split

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
    def runs(self) -> int:
        """How often the AUC is computed: twice with masked shares, in two classes each, else once."""
        return RUNS if self.split else 1

    @property
    def runs_together(self) -> int:
        """Runs in one ciphertext."""
        return len(PRODUCTS[self.parameters.components])

    @property
    def squares(self) -> int:
        """Sums of squares in a result, each of as many runs as are in one ciphertext."""
        return self.runs // self.runs_together

    @property
    def blocks_of_a_square(self) -> int:
        """Ciphertexts that hold the bins of such runs, and their extra positions."""
        return blocks_of_a_square(self.workload, self.parameters.slots)

    @property
    def positions(self) -> int:
        """Slots of a component in all these ciphertexts: of a run."""
        return self.blocks_of_a_square * self.parameters.slots

    @property
    def blocks(self) -> int:
        """Ciphertexts of a submission."""
        return self.squares * self.blocks_of_a_square

    @property
    def capacity_bits(self) -> float:
        """Bits of the modulus that the largest honest result leaves unused."""
        return self.parameters.log2_modulus - needed_bits(self.workload, self.parameters)

    @property
    def submission_bytes(self) -> int:
        """Bytes of one party's ciphertexts, without envelopes."""
        return self.blocks * self.parameters.submission_bytes

    @property
    def download_bytes(self) -> int:
        """Bytes that a party receives, without envelopes: of each square two polynomials, of each run four numbers."""
        parameters = self.parameters
        bits = parameters.modulus_bits[: parameters.kept]
        coefficients = self.squares * 2 * parameters.ring_dimension + 4 * self.runs
        return coefficients * sum(bits) // 8

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons."""
        parameters = self.parameters
        return [
            *plans.describe_ring(
                parameters,
                f"smallest upload that is precise and secure enough; {parameters.components} components",
                "the room that results must fit into; there are no evaluation keys",
            ),
            Parameter(
                "scale",
                f"2^{parameters.log2_scale:g}",
                "what one count is multiplied by: as large as Q leaves room for; precision comes from here",
            ),
            Parameter("runs", str(self.runs), "each with secrets of its own; of malicious two executions each"),
            Parameter(
                "ciphertexts",
                str(self.blocks),
                f"a party; {parameters.slots:,} positions each of every run in it, for {{thresholds:,}} thresholds",
            ),
            Parameter(
                "blinding",
                f"2^{math.log2(LEAST_MULTIPLIER):g} … 2^{BLINDING_BITS}",
                "range of the aggregator's secret multiplier, which has no prime factor above 23",
            ),
            plans.describe_flooding(DEFAULT_FLOODING_BITS, -DEFAULT_FLOODING_BITS),
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
            plans.describe_upload(self, "what the planner makes smallest"),
            plans.describe_download(self),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters as plain data."""
        return {
            **plans.ring_as_dict(self, self.parameters, self.blocks),
            "log2_scale": self.parameters.log2_scale,
            "runs": self.runs,
            "log2_multiplier_range": [math.log2(LEAST_MULTIPLIER), BLINDING_BITS],
            "flooding_bits": DEFAULT_FLOODING_BITS,
            "flooding_distance": 2.0**-DEFAULT_FLOODING_BITS,
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
                Parameter("AUC released", "all digits" if workload.split else "rounded", "to parties, nobody else"),
            ],
            {"max_rows": workload.max_rows, "min_rows": workload.min_rows},
        )


def smallest_plan(workload: Workload, backend: BackendName, *, tolerance: float | None = None) -> AucPlan:
    """Return the plan with the smallest upload.

    The bound on the AUC's error is below 1e-8 from ``workload.min_rows`` rows on. `tolerance` None: ten times what
    honest runs may differ by.

    Raises `CapacityError`: an argument is out of range, or no parameters with 128-bit security do.
    """
    if tolerance is not None:
        check_tolerance(workload, tolerance)
    tried = (_filled(workload, backend, chain, tolerance) for chain in CHAINS[backend])
    fitting = [found for found in tried if found is not None]
    if not fitting:
        asked, larger = ("", "") if tolerance is None else (f" and a tolerance of {tolerance:g}", ", or more tolerance")
        raise CapacityError(
            f"no parameters with 128-bit security hold {workload.max_rows:,} pooled rows, {workload.thresholds:,} "
            f"thresholds and {workload.parties:,} parties with an AUC error below {PRECISION:g} from "
            f"{workload.min_rows:,} rows on{asked}; lower max_rows, raise min_rows, or take fewer thresholds{larger}"
        )
    return min(fitting, key=lambda found: (found.submission_bytes, found.parameters.ring_dimension))


def _filled(workload: Workload, backend: BackendName, chain: Chain, tolerance: float | None) -> AucPlan | None:
    """Return the plan on this chain, or None where it has not the room, or is not precise enough."""
    ring = chain.ring_dimension
    chained = CkksParameters(backend, ring, chain.modulus_bits, chain.special_bits, 1.0, components(workload, ring))
    # Quarter bits; the tenth of a bit is for primes a little below powers of two.
    room = math.floor(2 * (chained.log2_modulus - needed_bits(workload, chained) - 0.1)) / 4
    try:
        parameters = msgspec.structs.replace(chained, log2_scale=1 + room)
        found = AucPlan(workload=workload, parameters=parameters, tolerance=MAX_TOLERANCE if workload.split else 0.0)
    except CapacityError:
        return None
    if not workload.split:
        return found
    least = least_tolerance(found)
    accepted = least if tolerance is None else tolerance
    # Where a tolerance is asked for that honest results might exceed, there is another chain, or none.
    return msgspec.structs.replace(found, tolerance=accepted) if least <= accepted <= MAX_TOLERANCE else None


def check_tolerance(workload: Workload, tolerance: float) -> None:
    """Raise `CapacityError` unless the tolerance is in (0, 1e-3] where counts are split, and 0 where they are whole."""
    if not (0 < tolerance <= MAX_TOLERANCE if workload.split else tolerance == 0):
        raise CapacityError(
            f"tolerance must lie above 0 and at most at {MAX_TOLERANCE:g} with malicious, and be 0 with semi-honest, "
            f"got {tolerance:g}"
        )


def least_tolerance(plan: AucPlan) -> float:
    """Return the tolerance that is planned: ten times what honest runs may differ by."""
    return 10 * disagreement(plan)


def components(workload: Workload, ring_dimension: int) -> int:
    """Return how many components plaintexts have: 16 where both runs of masked shares fit one ciphertext, else 4."""
    few, many = PRODUCTS
    return many if workload.split and workload.thresholds + EXTRA <= ring_dimension // (2 * many) else few


def blocks_of_a_square(workload: Workload, slots: int) -> int:
    """Return how many ciphertexts of so many slots hold the runs that are squared together."""
    return -(-(workload.thresholds + (EXTRA if workload.split else 0)) // slots)


def largest_den_factor(positions: int) -> float:
    """Return the largest |c| of a class of masked shares: twice its deviation over the secrets (`masked_shares`)."""
    return 2 * math.sqrt(positions * MASK_RADIUS**2 / 4 + 1 / 2)


def needed_bits(workload: Workload, parameters: CkksParameters) -> float:
    """Return the left-hand side of the capacity inequality, in bits, and the bit for signs."""
    slots = parameters.slots
    added = largest_den_factor(blocks_of_a_square(workload, slots) * slots) + 1.5 if workload.split else 1.25
    largest_den = 2 * math.log2(workload.max_rows) - 1
    return 2 * parameters.log2_scale + largest_den + BLINDING_BITS + 2 - math.log2(slots) + math.log2(added)


def norms(plan: AucPlan) -> tuple[float, float]:
    """Return bounds on the norms over all positions of Y, in N, and of both X together, in 2P.

    Whole counts: Σ F² ≤ N²; |T + i·p|² ≤ (5/4)·(2P)² in every bin, and the class of den in every position. Masked
    shares: twice what is expected of Σ|F + N·y|² and Σ|T + i·p + 2P·x|², of which random phases leave little to chance.
    """
    bins, positions = 1.25 * plan.thresholds, plan.positions
    if not plan.split:
        return 1.0, math.sqrt(bins + (1 + CHECK_WEIGHT**2) * positions)
    return math.sqrt(2 * (4 + positions / 128)), math.sqrt(2 * (2 * bins + positions))


def total_error(plan: AucPlan) -> float:
    """Return a bound on the error of a class total, of its real and its imaginary part.

    An error e on each coefficient moves Σ over the slots of Y·X by √B·e/Δ times the norm of w·Y and of both X/w, of all
    runs in the ciphertext. Flooding counts at the smallest multiplier and the fewest rows.
    """
    parameters, (y_norm, x_norm) = plan.parameters, norms(plan)
    errors = plan.parties * plan.runs_together
    one = math.sqrt(errors * _ERROR_VARIANCE * parameters.slots) / parameters.scale
    # The worst balances: P = 1 for errors on X, which meet Y ≤ N·(its norm); N = 1 for those on Y.
    deviation = one * math.hypot(WEIGHT * y_norm / 2, x_norm / WEIGHT)
    flood = 2.0 ** (FLOODED_BITS + 1) * parameters.slots / parameters.scale**2  # and rounding, which is smaller
    flooding_error = flood / (2 * LEAST_MULTIPLIER * 2 * (plan.workload.min_rows - 1))
    return CONFIDENCE * deviation + flooding_error + _ENCODING


def error_bound(plan: AucPlan) -> float:
    """Return a bound on |AUC error|, absolute, from min_rows rows on."""
    # num and den err independently; or eight numbers do, which the equations amplify.
    return total_error(plan) * (MAX_AMPLIFICATION if plan.split else math.sqrt(2))


def disagreement(plan: AucPlan) -> float:
    """Return a bound on what is left of honest equations, and on the difference of the AUCs of two honest runs."""
    return math.sqrt(2) * MAX_AMPLIFICATION * total_error(plan)
