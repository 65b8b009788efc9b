"""Base of the protocols that decrypt a sum of counts."""

from __future__ import annotations

from fhe_auc.ckks.computation import Circuit
from fhe_auc.rounds import R
from fhe_auc_protocols.ckks_protocol import CkksProtocol
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan, encrypted_sum


class SumProtocol(CkksProtocol[R, SumPlan]):
    """Base of the protocols that decrypt a sum of counts: the circuit only adds up."""

    plan_type = SumPlan
    multiplies = False

    def circuit(self, plan: SumPlan) -> Circuit:
        """Return the circuit: the sum of all submissions, as it is."""
        return encrypted_sum
