"""From a workload to CKKS parameters: the smallest upload that is precise and safe.

Two inequalities decide. Capacity: nothing may wrap around the modulus (`fhe_auc_protocols.blinded_auc.blinded_plan`).
Precision: the error of the AUC at the *least* number of rows, worst class balance and smallest multiplier stays below a
target (`fhe_auc_protocols.blinded_auc.blinded_plan`). The scale takes all the room that capacity leaves.
"""

import math

import msgspec

from fhe_auc.base.errors import CapacityError
from fhe_auc.ckks import BackendName, CkksParameters
from fhe_auc.ckks.parameters import CHAINS
from fhe_auc.rlwe.ring_parameters import Chain
from fhe_auc_protocols.blinded_auc.blinded_plan import (
    MAX_TOLERANCE,
    PRECISION,
    AucPlan,
    Workload,
    check_tolerance,
    components,
    least_tolerance,
    needed_bits,
)


def plan(workload: Workload, backend: BackendName, *, tolerance: float | None = None) -> AucPlan:
    """Return the plan with the smallest upload.

    The bound on the AUC's error is below 1e-8 from ``workload.min_rows`` rows on. `tolerance` None: ten times what
    honest runs may differ by.

    Raises `CapacityError`: an argument is out of range, or no parameters with 128-bit security do.
    """
    if tolerance is not None:
        check_tolerance(workload, tolerance)
    plans = [_filled(workload, backend, chain, tolerance) for chain in CHAINS[backend]]
    fitting = [found for found in plans if found is not None]
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
