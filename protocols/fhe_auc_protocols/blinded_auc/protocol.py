"""Base of the two protocols that compute the blinded totals of an AUC."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

from fhe_auc import ckks
from fhe_auc.ckks.computation import Circuit
from fhe_auc.errors import InputError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request
from fhe_auc.rlwe.parameters import BackendName
from fhe_auc.rounds import Aggregator
from fhe_auc_benchmarks.attacks.strategies import STRATEGIES
from fhe_auc_protocols.blinded_auc import planner
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_totals
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.workload import Workload
from fhe_auc_protocols.ckks_protocol import CkksProtocol


class BlindedAuc(CkksProtocol[Evaluation, AucPlan]):
    """Base of the protocols that compute the blinded totals of an AUC, with which a liar has something to try."""

    plan_type = AucPlan
    multiplies = True
    boundaries = "boundaries-federated"

    @abstractmethod
    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; raise `InputError` for an option of a wrong value."""

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> AucPlan:
        """Return the parameters for the workload."""
        return planner.plan(self.workload(request), backend, smudging_bits=smudging_bits, **self._plan_options(request))

    def circuit(self, plan: AucPlan) -> Circuit:
        """Return the circuit of the trapezoid."""
        return partial(blinded_totals, plan)

    def attacks(self) -> Mapping[str, str]:
        """Return the red team's strategies."""
        return {strategy.name: strategy.description for strategy in STRATEGIES}

    def cheating_aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that plays a strategy of the red team; sealed keys only."""
        if manifest.joint_keys:
            raise InputError("attacks are played with sealed keys only")
        from fhe_auc_benchmarks.attacks.blinded_auc.ciphertexts import (
            lying_aggregator,  # which attacks the protocols built on this module
        )

        return lying_aggregator(attack, manifest, ckks.load_public(material), rows=rows)

    def _plan_options(self, request: Request) -> dict[str, Any]:
        """Return what the planner is told besides the workload."""
        return {}
