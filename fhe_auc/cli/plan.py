"""``fhe-auc plan``: the parameters that the planner picks, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from fhe_auc.cli import inputs, output
from fhe_auc.errors import BackendUnavailableError, CapacityError

if TYPE_CHECKING:
    from fhe_auc.ckks import BackendName
    from fhe_auc.planner import Plan, Workload
    from fhe_auc.sums import SumPlan


@click.command(
    epilog=output.examples(
        "fhe-auc plan",
        "fhe-auc plan --parties 1000 --max-rows 100000000 --min-rows 100000",
        "fhe-auc plan --parties 10 --keys joint",
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
@inputs.key_options
@output.json_option
def plan(
    parties: int,
    thresholds: str,
    max_rows: int,
    min_rows: int,
    release_digits: int | None,
    backend: str | None,
    keys: str,
    smudging_bits: int | None,
    as_json: bool,
) -> None:
    """Show the encryption parameters that fit, and why.

    Nothing is encrypted. Without --backend, the parameters of all backends available here stand side by side. The
    workload is that of the protocol semi-honest, with two classes of totals; for quantile:SIZE, with so many thresholds
    as are asked for, and a session before that finds them.
    """
    from fhe_auc import ckks, planner
    from fhe_auc import thresholds as grids

    bins = grids.quantiles_wanted(thresholds)
    workload = planner.Workload(
        thresholds=bins or len(grids.resolve(thresholds)),
        parties=parties,
        max_rows=max_rows,
        min_rows=min_rows,
        release_digits=release_digits,
        joint_keys=keys == "joint",
    )
    if smudging_bits is not None and not workload.joint_keys:
        raise click.UsageError("--smudging-bits is for --keys joint only")
    names: tuple[ckks.BackendName, ...]
    names = ckks.available_backends() if backend is None else (ckks.choose_backend(backend),)
    if workload.joint_keys and backend is None:
        names = (ckks.choose_backend(planner.JOINT_KEYS_BACKEND),)
    if not names:
        raise BackendUnavailableError(f"none of {', '.join(ckks.BACKENDS)} can be imported here; install one of them")
    plans: dict[ckks.BackendName, Plan] = {}
    unfit: dict[ckks.BackendName, str] = {}
    for name in names:
        try:
            plans[name] = planner.plan(workload, name, smudging_bits=smudging_bits or planner.DEFAULT_SMUDGING_BITS)
        except CapacityError as error:
            unfit[name] = str(error)
    if not plans:
        raise CapacityError("; ".join(dict.fromkeys(unfit.values())))
    for name, reason in unfit.items():
        output.print_warning(f"{name}: {reason}")
    before = {name: _first_session(name, workload, smudging_bits) for name in plans} if bins is not None else {}
    if as_json:
        described = {name: _as_dict(found) for name, found in plans.items()}
        for name, first in before.items():
            described[name]["boundaries"] = _sum_as_dict(first)
        output.print_json({**_workload_as_dict(workload), "plans": described, "unfit": unfit})
        return
    rows = f"{min_rows:,} to {max_rows:,} rows of all parties together"
    output.print_text(f"For {workload.thresholds:,} thresholds, {parties:,} parties and {rows}:")
    _print_table(plans, workload)
    for name, first in before.items():
        output.print_text(
            f"{name}: before it, a session that finds the thresholds: {first.integers:,} exact sums, N = "
            f"{first.parameters.ring_dimension:,}, upload of a party {output.bytes_text(first.submission_bytes)}"
        )


def _first_session(name: BackendName, workload: Workload, smudging_bits: int | None) -> SumPlan:
    """Return the parameters of the session that finds quantile thresholds from exact counts."""
    from fhe_auc.boundaries import EXACT_HEIGHT
    from fhe_auc.planner import DEFAULT_SMUDGING_BITS
    from fhe_auc.sums import plan_sum

    return plan_sum(
        thresholds=2**EXACT_HEIGHT,
        vectors=1,
        parties=workload.parties,
        backend=name,
        max_total=workload.max_rows,
        joint_keys=workload.joint_keys,
        smudging_bits=smudging_bits or DEFAULT_SMUDGING_BITS,
    )


def _sum_as_dict(found: SumPlan) -> dict[str, Any]:
    parameters = found.parameters
    return {
        "sums": found.integers,
        "ring_dimension": parameters.ring_dimension,
        "modulus_bits": list(parameters.modulus_bits),
        "special_bits": parameters.special_bits,
        "smudging_bits": found.smudging_bits,
        "upload_bytes": found.submission_bytes,
    }


def _workload_as_dict(workload: Workload) -> dict[str, Any]:
    names = ("thresholds", "parties", "max_rows", "min_rows", "release_digits", "joint_keys")
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
        "smudging_bits": found.smudging_bits,
        "capacity_bits_left": found.capacity_bits,
        "precision": found.precision,
        "upload_bytes": found.submission_bytes,
        "key_bytes": found.key_bytes,
    }


def _total_bits(found: Plan) -> int:
    return found.parameters.log2_modulus + found.parameters.special_bits


def _most_bits(found: Plan) -> int:
    from fhe_auc.rlwe.parameters import MAX_MODULUS_BITS

    return MAX_MODULUS_BITS[found.parameters.ring_dimension]


_EXPLAINED: tuple[tuple[str, Callable[[Plan], str], str], ...] = (
    (
        "ring dimension N",
        lambda found: f"{found.parameters.ring_dimension:,}",
        "smallest upload that is precise and secure enough; N/2 slots a ciphertext",
    ),
    (
        "modulus Q, bits",
        lambda found: "+".join(map(str, found.parameters.modulus_bits)),
        "the room that results must fit into",
    ),
    (
        "key-switching P, bits",
        lambda found: str(found.parameters.special_bits),
        "larger than each prime of Q: keeps the noise of rotations small",
    ),
    (
        "Q·P and limit, bits",
        lambda found: f"{_total_bits(found)} of {_most_bits(found)}",
        "beyond it, 128-bit security needs a larger N (HomomorphicEncryption.org standard)",
    ),
    (
        "scale",
        lambda found: f"2^{found.parameters.log2_scale:g}",
        "what one count is multiplied by: as large as Q leaves room for; precision comes from here",
    ),
    (
        "classes × bins",
        lambda found: f"{found.packing.classes} × {found.packing.bins:,}",
        "the AUC's two halves side by side; a power of two for {thresholds:,} thresholds",
    ),
    (
        "copies",
        lambda found: str(found.packing.copies),
        "the pattern is repeated until all slots are full, so that no slot shows a partial sum",
    ),
    ("blocks", lambda found: str(found.packing.blocks), "ciphertexts a party sends: as many as the bins need"),
    (
        "rotation keys",
        lambda found: str(len(found.parameters.rotations)),
        "those of the sum over all slots (and of the blur of limited digits), and no others",
    ),
    (
        "blinding",
        lambda found: f"2^{math.log2(found.least_multiplier):g} … 2^{found.blinding_bits}",
        "range of the aggregator's secret multiplier: as large as capacity and precision leave room for",
    ),
    (
        "flooding λ, bits",
        lambda found: str(found.flooding_bits),
        "the aggregator adds noise 2^λ times as large as what it hides",
    ),
    (
        "capacity left, bits",
        lambda found: f"{found.capacity_bits:.2f}",
        "the largest result, at {max_rows:,} rows (--max-rows), stays below Q by this much",
    ),
    (
        "precision",
        lambda found: output.bound_text(found.precision),
        "bound on the AUC's numerical error, from {min_rows:,} rows (--min-rows) on",
    ),
    ("upload of a party", lambda found: output.bytes_text(found.submission_bytes), "what the planner makes smallest"),
)
"""What is shown of a plan: name, value, reason (with fields of the workload)."""

_EXPLAINED_JOINT: tuple[tuple[str, Callable[[Plan], str], str], ...] = (
    (
        "smudging, bits",
        lambda found: str(found.smudging_bits),
        "each party adds so much to its partial decryption, in case that the aggregator has not flooded",
    ),
    (
        "joint keys, a party",
        lambda found: output.bytes_text(found.key_bytes),
        "sent once a session: its parts of the public, relinearisation and rotation keys",
    ),
)
"""The same for joint keys alone."""


def _print_table(plans: Mapping[BackendName, Plan], workload: Workload) -> None:
    bounds = {"thresholds": workload.thresholds, "max_rows": workload.max_rows, "min_rows": workload.min_rows}
    explained = _EXPLAINED + (_EXPLAINED_JOINT if workload.joint_keys else ())
    output.print_table(
        [(name, *map(value, plans.values()), why.format(**bounds)) for name, value, why in explained],
        header=("", *plans, "why"),
        numbers=len(plans),
    )
