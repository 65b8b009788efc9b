"""What `semi_honest` and `malicious` have in common: one circuit, and how a party's result is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from fhe_auc.ckks import SECURITY_BITS, Slots
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.ring_parameters import choose_backend
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.ckks_computation import CkksComputation, Sums
from fhe_auc.session.computation import PartyTask, check_rows
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import KeyKind, Protocol, Request
from fhe_auc_keys.roles.sealed import SealedKeys
from fhe_auc_protocols.blinded_auc import blinded_plan
from fhe_auc_protocols.blinded_auc.blinded_plan import AucPlan, Workload, error_bound
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_sums
from fhe_auc_protocols.blinded_auc.result_check import Recovered
from fhe_auc_protocols.result_warnings import of_auc


def trapezoid_computation(manifest: Manifest) -> CkksComputation:
    """Return the trapezoid under CKKS, of masked ciphertexts where counts are split into shares.

    Raises `InputError` where the plan is another protocol's.
    """
    plan = manifest.decoded_plan(AucPlan)
    sizes = {"blocks": plan.blocks, "squares": plan.squares}
    return CkksComputation(manifest, plan, partial(blinded_sums, plan), **sizes, masked=plan.split)


class BlindedAuc(Protocol[Evaluation]):
    """Base of the protocols that compute the blinded totals of an AUC."""

    boundaries = "boundaries-federated"

    split: ClassVar[bool] = False
    """Whether counts are split into masked shares, and parties compare which result they were given."""
    task: ClassVar[type[BlindedTask]]  # a party's computation on its own rows

    def key_kinds(self) -> Mapping[str, Callable[[], KeyKind[Evaluation]]]:
        """Return sealed keys."""
        return {"sealed": partial(SealedKeys, trapezoid_computation, self.task, echo=self.split)}

    def plan_of(self, manifest: Manifest) -> AucPlan:
        """Return the plan in a manifest; raise `InputError` where it is not one of these protocols."""
        return manifest.decoded_plan(AucPlan)

    def tolerance(self, request: Request) -> float | None:
        """Return by how much runs may differ, None for what is planned; `InputError` for an option of a wrong value."""
        return None

    def planned(self, request: Request) -> AucPlan:
        """Return the parameters for workload and tolerance; raise `CapacityError` where there are none."""
        workload = Workload(
            thresholds=len(request.thresholds),
            parties=len(request.parties),
            max_rows=request.max_rows,
            min_rows=request.min_rows,
            split=self.split,
        )
        backend = choose_backend(request.backend)
        return blinded_plan.smallest_plan(workload, backend, tolerance=self.tolerance(request))


class BlindedTask(PartyTask[Slots, Sums, Evaluation]):
    """Base of what a party does; raises `InputError` for another kind of plan, or too many rows for the session."""

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        self.party = data.name
        self.plan = manifest.decoded_plan(AucPlan)
        self._manifest, self._data = manifest, data
        check_rows(data.rows, self.plan.workload.max_rows, party=data.name)

    def counts(self) -> Counts:
        """Return the counts of this party's rows at the session's thresholds."""
        return count(self._data, self._manifest.thresholds)

    def evaluation(
        self, told: Recovered, parties: int, *warnings: str, decimals: int | None = None, **own: Any
    ) -> Evaluation:
        """Return what a party tells of its result; `warnings` and other fields (`own`) are the protocol's own."""
        left_open = told.binning_error - (0.0 if decimals is None else 0.5 * 10**-decimals)  # by bins, not by rounding
        return Evaluation(
            auc=told.auc,
            binning_error=told.binning_error,
            numerical_error=error_bound(self.plan),
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=parties,
            thresholds=self.plan.thresholds,
            security_bits=SECURITY_BITS,
            warnings=of_auc(self._manifest, parties, left_open) + warnings,
            decimals=decimals,
            **own,
        )
