"""Parameters of an exact session (stub)."""

from __future__ import annotations

import msgspec

from fhe_auc.bfv.parameters import CHAINS, BfvParameters, primes_above
from fhe_auc.exact_packing import ExactPacking


class ExactPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="exact"):
    parameters: BfvParameters
    packing: ExactPacking
    parties: int
    max_rows: int
    joint_keys: bool = False

    @property
    def thresholds(self) -> int:
        return self.packing.bins

    @property
    def ciphertexts(self) -> int:
        return 2 * self.packing.pairs * len(self.parameters.plain_moduli)

    @property
    def submission_bytes(self) -> int:
        return self.ciphertexts * self.parameters.submission_bytes

    @property
    def result_bytes(self) -> int:
        return 2 * len(self.parameters.plain_moduli) * self.parameters.submission_bytes


def plan(*, bins: int, parties: int, max_rows: int, ties: bool, authenticated: bool, backend: str) -> ExactPlan:
    (chain,) = CHAINS[backend]
    moduli = primes_above(2**41, 3, chain.ring_dimension)
    parameters = BfvParameters(
        backend=backend,
        ring_dimension=chain.ring_dimension,
        modulus_bits=chain.modulus_bits,
        special_bits=chain.special_bits,
        plain_moduli=moduli,
    )
    packing = ExactPacking.fitting(chain.ring_dimension, bins, ties=ties, authenticated=authenticated)
    return ExactPlan(parameters=parameters, packing=packing, parties=parties, max_rows=max_rows)
