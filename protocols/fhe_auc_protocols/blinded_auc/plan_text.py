"""What people and programs are told of a plan for a blinded AUC."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fhe_auc import quantities
from fhe_auc.plan import (
    Parameter,
    Terms,
    describe_flooding,
    describe_key_parts,
    describe_ring,
    describe_smudging,
    ring_as_dict,
)
from fhe_auc_protocols.blinded_auc.error_bound import error_bound

if TYPE_CHECKING:
    from fhe_auc_protocols.blinded_auc.plan import AucPlan


def describe(plan: AucPlan) -> list[Parameter]:
    """Return the parameters with their reasons."""
    parameters, packing = plan.parameters, plan.packing
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
            "rotation keys",
            str(len(parameters.rotations)),
            "those of the sum over all slots (and of the blur of limited digits), and no others",
        ),
        Parameter(
            "blinding",
            f"2^{math.log2(plan.least_multiplier):g} … 2^{plan.blinding_bits}",
            "range of the aggregator's secret multiplier: as large as capacity and precision leave room for",
        ),
        describe_flooding(plan.flooding_bits),
        Parameter(
            "capacity left, bits",
            f"{plan.capacity_bits:.2f}",
            "the largest result, at {max_rows:,} rows (--max-rows), stays below Q by this much",
        ),
        Parameter(
            "precision",
            quantities.bound_text(error_bound(plan)),
            "bound on the AUC's numerical error, from {min_rows:,} rows (--min-rows) on",
        ),
        Parameter("upload of a party", quantities.bytes_text(plan.submission_bytes), "what the planner makes smallest"),
        *(
            [describe_smudging(plan.smudging_bits), describe_key_parts(quantities.bytes_text(plan.key_bytes))]
            if plan.keys == "joint"
            else []
        ),
    ]


def as_dict(plan: AucPlan) -> dict[str, Any]:
    """Return the parameters as plain data."""
    packing = plan.packing
    return {
        **ring_as_dict(plan, smudging_bits=plan.smudging_bits),
        "key_bytes": plan.key_bytes,
        "log2_scale": plan.parameters.log2_scale,
        "classes": packing.classes,
        "bins": packing.bins,
        "copies": packing.copies,
        "rotations": len(plan.parameters.rotations),
        "log2_multiplier_range": [math.log2(plan.least_multiplier), plan.blinding_bits],
        "flooding_bits": plan.flooding_bits,
        "capacity_bits_left": plan.capacity_bits,
        "precision": error_bound(plan),
    }


def terms(plan: AucPlan) -> Terms:
    """Return what the session's parties agree to."""
    workload = plan.workload
    digits = "all digits" if workload.release_digits is None else f"{workload.release_digits} decimals"
    return Terms(
        [
            Parameter(
                "rows", f"{workload.min_rows:,} to {workload.max_rows:,}", "of all parties together, a public bound"
            ),
            Parameter("AUC released", digits, "to the parties, and to nobody else"),
        ],
        {
            "max_rows": workload.max_rows,
            "min_rows": workload.min_rows,
            "release_digits": workload.release_digits,
        },
    )
