"""What is told of encryption parameters: each with its reason, or as plain data."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fhe_auc.cli import output
from fhe_auc.manifest import AnyPlan
from fhe_auc.rlwe.parameters import MAX_MODULUS_BITS, SECURITY_BITS, RingParameters
from fhe_auc_protocols.blinded_auc.error_bound import error_bound
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.exact_auc.planner import ExactPlan
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan


class Parameter(NamedTuple):
    """One row of the table; `why` has the fields thresholds, max_rows and min_rows, for `str.format`."""

    name: str
    value: str
    why: str


def explained(plan: AnyPlan) -> list[Parameter]:
    """Return what is shown of a plan; plans of one kind and the same keys have the same names and reasons."""
    if isinstance(plan, ExactPlan):
        return _of_exact(plan)
    return _of_sum(plan) if isinstance(plan, SumPlan) else _of_auc(plan)


def as_dict(plan: AnyPlan) -> dict[str, Any]:
    """Return a plan as plain data, for JSON."""
    parameters = plan.parameters
    common = {
        "security_bits": SECURITY_BITS,
        "ring_dimension": parameters.ring_dimension,
        "modulus_bits": list(parameters.modulus_bits),
        "special_bits": parameters.special_bits,
        "total_modulus_bits": _total_bits(parameters),
        "max_modulus_bits": _most_bits(parameters),
        "blocks": plan.blocks,
        "smudging_bits": _smudging_bits(plan),
        "upload_bytes": plan.submission_bytes,
    }
    if isinstance(plan, SumPlan):
        return {**common, "log2_scale": plan.parameters.log2_scale, "sums": plan.integers}
    common["key_bytes"] = plan.key_bytes
    if isinstance(plan, ExactPlan):
        return {
            **common,
            "plain_moduli": list(plan.parameters.plain_moduli),
            "slots_used": plan.packing.used,
            "flooding_bits": plan.flooding_margin,
            "decryption_margin_bits": plan.decryption_margin,
        }
    return {
        **common,
        "log2_scale": plan.parameters.log2_scale,
        "classes": plan.packing.classes,
        "bins": plan.packing.bins,
        "copies": plan.packing.copies,
        "rotations": len(plan.parameters.rotations),
        "log2_multiplier_range": [math.log2(plan.least_multiplier), plan.blinding_bits],
        "flooding_bits": plan.flooding_bits,
        "capacity_bits_left": plan.capacity_bits,
        "precision": error_bound(plan),
    }


def _total_bits(parameters: RingParameters) -> int:
    return parameters.log2_modulus + parameters.special_bits


def _most_bits(parameters: RingParameters) -> int:
    return MAX_MODULUS_BITS[parameters.ring_dimension]


def _of_ring(parameters: RingParameters, why: str, why_modulus: str) -> list[Parameter]:
    return [
        Parameter("ring dimension N", f"{parameters.ring_dimension:,}", why),
        Parameter("modulus Q, bits", "+".join(map(str, parameters.modulus_bits)), why_modulus),
        Parameter(
            "key-switching P, bits",
            str(parameters.special_bits) if parameters.special_bits else "none",
            "beside Q in the keys: keeps their noise small; without it, short digits do",
        ),
        Parameter(
            "Q·P and limit, bits",
            f"{_total_bits(parameters)} of {_most_bits(parameters)}",
            "beyond it, 128-bit security needs a larger N (HomomorphicEncryption.org standard)",
        ),
    ]


def _of_auc(plan: AucPlan) -> list[Parameter]:
    parameters, packing = plan.parameters, plan.packing
    return [
        *_of_ring(
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
        _flooding(plan.flooding_bits),
        Parameter(
            "capacity left, bits",
            f"{plan.capacity_bits:.2f}",
            "the largest result, at {max_rows:,} rows (--max-rows), stays below Q by this much",
        ),
        Parameter(
            "precision",
            output.bound_text(error_bound(plan)),
            "bound on the AUC's numerical error, from {min_rows:,} rows (--min-rows) on",
        ),
        Parameter("upload of a party", output.bytes_text(plan.submission_bytes), "what the planner makes smallest"),
        *_of_joint_keys(plan),
    ]


def _of_sum(plan: SumPlan) -> list[Parameter]:
    parameters = plan.parameters
    return [
        *_of_ring(
            parameters, "the smallest that holds the sums: N integers a ciphertext", "the room that sums must fit into"
        ),
        Parameter("scale", f"2^{parameters.log2_scale:g}", "what one row is multiplied by, for noise to stay below"),
        Parameter("sums", f"{plan.integers:,}", "integers that are added up, exactly: bins, for each label if need be"),
        Parameter(
            "noise of a sum",
            output.bound_text(plan.deviation),
            "standard deviation, in rows: sums are rounded to integers, and refused where they are none",
        ),
        Parameter("upload of a party", output.bytes_text(plan.submission_bytes), "one ciphertext"),
        *_of_smudging(plan),
    ]


def _of_exact(plan: ExactPlan) -> list[Parameter]:
    parameters, packing = plan.parameters, plan.packing
    tie = ", tie" if packing.ties else ""
    four_times = ", four times for the authenticators" if packing.authenticated else ""
    return [
        *_of_ring(
            parameters,
            "the smallest whose modulus takes a product and its flooding; N slots a ciphertext",
            "the room for noise, which is what hides",
        ),
        Parameter(
            "plaintext primes",
            f"{plan.primes} of {min(parameters.plain_moduli).bit_length()} bits",
            "as many as tell a fraction of {max_rows:,} rows (--max-rows) from every other number",
        ),
        Parameter(
            "slots used",
            f"{packing.used:,} of {packing.slots:,}",
            f"num{tie} and den of {{thresholds:,}} thresholds{four_times}",
        ),
        Parameter("ciphertexts", f"{plan.blocks}", "left and right factors, for each prime"),
        _flooding(math.floor(plan.flooding_margin)),
        Parameter(
            "decryption margin, bits",
            f"{plan.decryption_margin:.1f}",
            "the bound on noise stays so far below where decryption would fail",
        ),
        Parameter(
            "upload of a party",
            output.bytes_text(plan.submission_bytes),
            "all ciphertexts; their random halves do not travel",
        ),
        *_of_joint_keys(plan),
    ]


def _flooding(bits: int) -> Parameter:
    return Parameter("flooding λ, bits", str(bits), "the aggregator adds noise 2^λ times as large as what it hides")


def _smudging_bits(plan: AnyPlan) -> float:
    """Return what smudging reaches: in exact protocols as much as there is room for, else what is asked for."""
    return plan.smudging_margin if isinstance(plan, ExactPlan) and plan.joint_keys else plan.smudging_bits


def _of_smudging(plan: AnyPlan) -> list[Parameter]:
    if not plan.joint_keys:
        return []
    why = "each party adds so much to its partial decryption, in case that the aggregator has not flooded"
    return [Parameter("smudging, bits", str(math.floor(_smudging_bits(plan))), why)]


def _of_joint_keys(plan: AucPlan | ExactPlan) -> list[Parameter]:
    if not plan.joint_keys:
        return []
    why = "sent once a session: its parts of the public key and of those that the circuit takes"
    return [*_of_smudging(plan), Parameter("joint keys, a party", output.bytes_text(plan.key_bytes), why)]
