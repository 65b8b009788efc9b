"""``fhe-auc plan``: the parameters that the planner picks, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fhe_auc.cli import inputs, output
from fhe_auc.errors import BackendUnavailableError, CapacityError

if TYPE_CHECKING:
    from fhe_auc.ckks import BackendName
    from fhe_auc.planner import Plan, Workload


@click.command(
    epilog=output.examples(
        "fhe-auc plan",
        "fhe-auc plan --parties 1000 --max-rows 100000000 --min-rows 100000",
        "fhe-auc plan --thresholds uniform:100 --backend tenseal --json",
    )
)
@click.option(
    "--parties", metavar="N", type=click.IntRange(min=1), default=100, show_default=True, help="Most that take part."
)
@inputs.thresholds_option
@inputs.row_bounds
@inputs.release_digits_option
@inputs.backend_option
@output.json_option
def plan(
    parties: int,
    thresholds: str,
    max_rows: int,
    min_rows: int,
    release_digits: int | None,
    backend: str | None,
    as_json: bool,
) -> None:
    """Show the encryption parameters that fit, and why.

    Nothing is encrypted. Without --backend, the parameters of all backends available here stand side by side. The
    workload is that of the protocol semi-honest, with two classes of totals.
    """
    from fhe_auc import ckks, planner
    from fhe_auc import thresholds as grids

    workload = planner.Workload(
        thresholds=len(grids.resolve(thresholds)),
        parties=parties,
        max_rows=max_rows,
        min_rows=min_rows,
        release_digits=release_digits,
    )
    names: tuple[ckks.BackendName, ...]
    names = ckks.available_backends() if backend is None else (ckks.choose_backend(backend),)
    if not names:
        raise BackendUnavailableError(f"none of {', '.join(ckks.BACKENDS)} can be imported here; install one of them")
    plans: dict[ckks.BackendName, Plan] = {}
    unfit: dict[ckks.BackendName, str] = {}
    for name in names:
        try:
            plans[name] = planner.plan(workload, name)
        except CapacityError as error:
            unfit[name] = str(error)
    if not plans:
        raise CapacityError("; ".join(dict.fromkeys(unfit.values())))
    for name, reason in unfit.items():
        output.print_warning(f"{name}: {reason}")
    if as_json:
        described = {name: _as_dict(found) for name, found in plans.items()}
        output.print_json({**_workload_as_dict(workload), "plans": described, "unfit": unfit})
        return
    rows = f"{min_rows:,} to {max_rows:,} rows of all parties together"
    output.print_text(f"For {workload.thresholds:,} thresholds, {parties:,} parties and {rows}:")
    _print_table(plans, workload)


def _workload_as_dict(workload: Workload) -> dict[str, Any]:
    names = ("thresholds", "parties", "max_rows", "min_rows", "release_digits")
    return {name: getattr(workload, name) for name in names}


def _as_dict(found: Plan) -> dict[str, Any]:
    from fhe_auc.ckks import SECURITY_BITS

    parameters, packing = found.parameters, found.packing
    return {
        "security_bits": SECURITY_BITS,
        "ring_dimension": parameters.ring_dimension,
        "modulus_bits": list(parameters.modulus_bits),
        "special_bits": parameters.special_bits,
        "total_modulus_bits": _total_bits(found),
        "max_modulus_bits": _most_bits(found),
        "log2_scale": parameters.log2_scale,
        "classes": packing.classes,
        "bins": packing.bins,
        "copies": packing.copies,
        "blocks": packing.blocks,
        "rotations": len(parameters.rotations),
        "log2_multiplier_range": [math.log2(found.least_multiplier), found.blinding_bits],
        "flooding_bits": found.flooding_bits,
        "capacity_bits_left": found.capacity_bits,
        "precision": found.precision,
        "upload_bytes": found.submission_bytes,
    }


def _total_bits(found: Plan) -> int:
    return found.parameters.log2_modulus + found.parameters.special_bits


def _most_bits(found: Plan) -> int:
    from fhe_auc.ckks.parameters import MAX_MODULUS_BITS

    return MAX_MODULUS_BITS[found.parameters.ring_dimension]


def _print_table(plans: Mapping[BackendName, Plan], workload: Workload) -> None:
    from fhe_auc.ckks import SECURITY_BITS

    lines: list[tuple[str, list[str], str]] = []

    def add(what: str, values: list[str], why: str) -> None:
        lines.append((what, values, why))

    all_plans = list(plans.values())
    add(
        "ring dimension N",
        [f"{found.parameters.ring_dimension:,}" for found in all_plans],
        "smallest upload that is precise and secure enough; N/2 slots a ciphertext",
    )
    add(
        "modulus Q, bits",
        ["+".join(map(str, found.parameters.modulus_bits)) for found in all_plans],
        "the room that results must fit into",
    )
    add(
        "key-switching P, bits",
        [str(found.parameters.special_bits) for found in all_plans],
        "larger than each prime of Q: keeps the noise of rotations small",
    )
    add(
        "Q·P and limit, bits",
        [f"{_total_bits(found)} of {_most_bits(found)}" for found in all_plans],
        f"beyond it, {SECURITY_BITS}-bit security needs a larger N (HomomorphicEncryption.org standard)",
    )
    add(
        "scale",
        [f"2^{found.parameters.log2_scale:g}" for found in all_plans],
        "what one count is multiplied by: as large as Q leaves room for; precision comes from here",
    )
    add(
        "classes × bins",
        [f"{found.packing.classes} × {found.packing.bins:,}" for found in all_plans],
        f"the AUC's two halves side by side; a power of two for {workload.thresholds:,} thresholds",
    )
    add(
        "copies",
        [str(found.packing.copies) for found in all_plans],
        "the pattern is repeated until all slots are full, so that no slot shows a partial sum",
    )
    add(
        "blocks",
        [str(found.packing.blocks) for found in all_plans],
        "ciphertexts a party sends: as many as the bins need",
    )
    add(
        "rotation keys",
        [str(len(found.parameters.rotations)) for found in all_plans],
        "those of the sum over all slots, and no others: the aggregator can do no more with them",
    )
    add(
        "blinding",
        [f"2^{math.log2(found.least_multiplier):g} … 2^{found.blinding_bits}" for found in all_plans],
        "range of the aggregator's secret multiplier: as large as capacity and precision leave room for",
    )
    add(
        "flooding λ, bits",
        [str(found.flooding_bits) for found in all_plans],
        "the aggregator adds noise 2^λ times as large as what it hides",
    )
    add(
        "capacity left, bits",
        [f"{found.capacity_bits:.2f}" for found in all_plans],
        f"the largest result, at {workload.max_rows:,} rows (--max-rows), stays below Q by this much",
    )
    add(
        "precision",
        [output.bound_text(found.precision) for found in all_plans],
        f"bound on the AUC's numerical error, from {workload.min_rows:,} rows (--min-rows) on",
    )
    add(
        "upload of a party",
        [output.bytes_text(found.submission_bytes) for found in all_plans],
        "what the planner makes smallest",
    )
    output.print_table(
        [(what, *values, why) for what, values, why in lines],
        header=("", *plans, "why"),
        numbers=len(plans),
    )
