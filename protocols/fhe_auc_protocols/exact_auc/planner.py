"""From a request to the parameters of an exact AUC: the fewest plaintext moduli that do."""

from __future__ import annotations

import math

from fhe_auc.bfv.parameters import CHAINS, MAX_PLAIN_MODULI, BfvParameters, primes_above
from fhe_auc.errors import CapacityError
from fhe_auc.protocol import DEFAULT_MAX_ROWS
from fhe_auc.rlwe.parameters import BackendName
from fhe_auc.rlwe.statistical_security import DEFAULT_FLOODING_BITS, DEFAULT_SMUDGING_BITS
from fhe_auc_protocols.exact_auc.packing import ExactPacking
from fhe_auc_protocols.exact_auc.plan import PRIME_BITS, ExactPlan, least_modulus


def plan_exact(
    *,
    thresholds: int,
    parties: int,
    backend: BackendName,
    max_rows: int = DEFAULT_MAX_ROWS,
    authenticated: bool = True,
    joint_keys: bool = False,
    flooding_bits: int = DEFAULT_FLOODING_BITS,
    smudging_bits: int = DEFAULT_SMUDGING_BITS,
) -> ExactPlan:
    """Return the plan with the fewest primes; parameters as of `ExactPlan` and `ExactPacking`.

    Raises `CapacityError`: an argument is out of range, or no parameters with 128-bit security do.
    """
    (chain,) = CHAINS[backend]
    if max_rows < 2:
        raise CapacityError(f"max_rows must be at least 2, got {max_rows}")
    for count in range(1, MAX_PLAIN_MODULI + 1):
        moduli = primes_above(2**PRIME_BITS, count, chain.ring_dimension)
        if math.prod(moduli) >= least_modulus(max_rows, verified=authenticated):
            break
    else:
        raise CapacityError(f"{max_rows:,} pooled rows take more than {MAX_PLAIN_MODULI} primes; lower max_rows")
    return ExactPlan(
        packing=ExactPacking.fitting(chain.ring_dimension, thresholds, ties=True, authenticated=authenticated),
        parties=parties,
        max_rows=max_rows,
        joint_keys=joint_keys,
        parameters=BfvParameters(backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, moduli),
        flooding_bits=flooding_bits,
        smudging_bits=smudging_bits if joint_keys else 0,
    )
