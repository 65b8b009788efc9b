"""From a workload to CKKS parameters, packing, blinding and flooding: the smallest upload that is precise and safe.

Two inequalities decide. Capacity: nothing may wrap around the modulus (`fhe_auc_protocols.blinded_auc.plan`).
Precision: the error of the AUC at the *least* number of rows, worst class balance and smallest multiplier stays below a
target (`fhe_auc_protocols.blinded_auc.error_bound`). Scale Δ' buys precision, ρ buys finer-grained blinding, and both
come out of the same modulus: the planner takes the largest ρ that leaves the precision asked for.
"""

import math

import msgspec

from fhe_auc.base.errors import CapacityError
from fhe_auc.ckks import BackendName, CkksParameters
from fhe_auc.ckks.parameters import CHAINS
from fhe_auc.rlwe.parameters import Chain
from fhe_auc.rlwe.statistical_security import DEFAULT_FLOODING_BITS
from fhe_auc_protocols.blinded_auc.error_bound import disagreement, error_bound
from fhe_auc_protocols.blinded_auc.plan import (
    MAX_BLINDING_BITS,
    MAX_TOLERANCE,
    AucPlan,
    check_blinding,
    check_tolerance,
    fitting_packing,
    needed_bits,
)
from fhe_auc_protocols.blinded_auc.workload import Workload

DEFAULT_BLINDING_BITS = 26  # least ρ
DEFAULT_PRECISION = 1e-7  # largest error of the AUC, absolute
DEFAULT_LOOSE_PRECISION = 5e-7  # split shares amplify errors: 1e-7 would take a larger ring


def plan(
    workload: Workload,
    backend: BackendName,
    *,
    blinding_bits: int = DEFAULT_BLINDING_BITS,
    flooding_bits: int = DEFAULT_FLOODING_BITS,
    precision: float | None = None,
    tolerance: float | None = None,
) -> AucPlan:
    """Return the plan with the smallest upload; ranges as of `AucPlan`.

    `blinding_bits` is the least ρ: more is used where capacity and precision allow. `precision` is the largest error of
    the AUC allowed from ``workload.min_rows`` rows on; None: 1e-7, with split shares 5e-7. Where
    `tolerance` is None, it is the plan's `disagreement`, below which honest results would be refused.

    Raises `CapacityError`: an argument is out of range, or no parameters with 128-bit security do.
    """
    if precision is None:
        precision = DEFAULT_LOOSE_PRECISION if workload.is_split else DEFAULT_PRECISION
    check_blinding(blinding_bits)
    if tolerance is not None:
        check_tolerance(workload, tolerance)
        precision = min(precision, tolerance)  # else honest results would be refused
    noise_bits = blinding_bits, flooding_bits
    plans = [_filled(workload, backend, chain, noise_bits, (precision, tolerance)) for chain in CHAINS[backend]]
    fitting = [found for found in plans if found is not None]
    if not fitting:
        raise CapacityError(
            f"no parameters with 128-bit security hold {workload.max_rows:,} pooled rows, {workload.thresholds:,} "
            f"thresholds and {workload.parties:,} parties with an AUC error below {precision:g} from "
            f"{workload.min_rows:,} rows on; lower max_rows, raise min_rows, or take fewer thresholds or splits"
        )
    return min(fitting, key=lambda found: (found.submission_bytes, found.parameters.ring_dimension))


def _filled(
    workload: Workload,
    backend: BackendName,
    chain: Chain,
    noise_bits: tuple[int, int],
    accuracy: tuple[float, float | None],
) -> AucPlan | None:
    """Return the plan on this chain with the finest-grained blinding, or None where bins or precision do not fit."""
    least_blinding_bits, flooding_bits = noise_bits
    precision, tolerance = accuracy
    packing = fitting_packing(workload, chain.ring_dimension // 2)
    if packing is None:
        return None
    for blinding_bits in range(MAX_BLINDING_BITS, least_blinding_bits - 1, -1):
        spare = sum(chain.modulus_bits) - needed_bits(workload, packing, 0.0, blinding_bits)
        log2_scale = math.floor(2 * spare) / 4  # quarter bits
        if log2_scale < 1:
            continue
        parameters = CkksParameters(
            backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, log2_scale, packing.trace_steps
        )
        candidate = AucPlan(
            workload=workload,
            parameters=parameters,
            packing=packing,
            blinding_bits=blinding_bits,
            flooding_bits=flooding_bits,
            tolerance=MAX_TOLERANCE if workload.is_split else 0.0,
        )
        least = disagreement(candidate) if workload.is_split else 0.0
        accepted = least if tolerance is None else tolerance
        if error_bound(candidate) <= precision and least <= accepted:
            return msgspec.structs.replace(candidate, tolerance=accepted)
    return None
