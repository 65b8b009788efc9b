"""A session as its holder announced it, in words."""

from __future__ import annotations

from typing import Any

from fhe_auc import registry
from fhe_auc.ckks import SECURITY_BITS
from fhe_auc.cli import output
from fhe_auc.errors import FheAucError
from fhe_auc.evaluation import QuantileThresholds
from fhe_auc.manifest import Manifest
from fhe_auc_keys.announcement import Announcement
from fhe_auc_keys.cli import common
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.exact_auc.planner import ExactPlan
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan


def announcement_rows(announced: Announcement, *, reader: str = "") -> list[tuple[output.Cell, ...]]:
    """Say what a verified announcement holds; `reader` is the party that reads it."""
    manifest, plan = announced.manifest, announced.manifest.plan
    grid = manifest.thresholds
    rows: list[tuple[output.Cell, ...]] = [
        ("session", common.spelled(manifest.session), "compare: everybody in it must see the same"),
        (
            "key holder" if announced.manifest.context else "convened by",
            announced.holder.name,
            f"signed it; certificate {announced.holder.fingerprint.hex()[:16]}…",
        ),
        ("can be opened", f"until {common.moment(announced.not_after)}", ""),
        ("protocol", manifest.protocol, f"trust: {_trust(manifest.protocol)}"),
        ("thresholds", f"{manifest.options['bins']:,}", f"to be found, from counts in {len(grid):,} cells of scores")
        if _finds_thresholds(manifest)
        else ("thresholds", f"{len(grid):,}", f"from {grid[0]:g} to {grid[-1]:g}"),
        *(("option", name, str(value)) for name, value in manifest.options.items() if name != "bins"),
    ]
    if isinstance(plan, SumPlan):
        rows.append(("decrypted", f"{plan.integers:,} sums", f"over all parties, each {plan.max_total:,} at most"))
    if isinstance(plan, AucPlan):
        workload = plan.workload
        digits = "all digits" if workload.release_digits is None else f"{workload.release_digits} decimals"
        rows += [
            ("rows", f"{workload.min_rows:,} to {workload.max_rows:,}", "of all parties together, a public bound"),
            ("AUC released", digits, "to the parties, and to nobody else"),
        ]
    if isinstance(plan, ExactPlan):
        rows += [
            ("rows", f"at most {plan.max_rows:,}", "of all parties together, a public bound"),
            ("AUC released", "as a fraction", "to the parties, and to nobody else"),
        ]
    if plan is not None:
        rows.append(("encryption", f"{SECURITY_BITS}-bit security", plan.parameters.backend))
    if joint(announced):
        rows.append(("keys", "joint", "made by the parties together: only all of them can decrypt"))
    if manifest.context:
        rows.append(("context", common.spelled(manifest.context), "names parameters and public key"))
    for name, fingerprint in announced.fingerprints.items():
        you = " (this is you)" if name == reader else ""
        rows.append(("party", name, f"certificate {fingerprint.hex()[:16]}…{you}"))
    return rows


def _finds_thresholds(manifest: Manifest) -> bool:
    """Return whether the session is to find thresholds, its own being the cells in which rows are counted."""
    try:
        return registry.load(manifest.protocol).yields is QuantileThresholds and "bins" in manifest.options
    except FheAucError:  # not installed here
        return False


def joint(announced: Announcement) -> bool:
    """Return whether the parties make the keys together."""
    return announced.manifest.joint_keys


def announcement_as_dict(announced: Announcement) -> dict[str, Any]:
    """Say the same for JSON."""
    manifest, plan = announced.manifest, announced.manifest.plan
    workload = plan.workload if isinstance(plan, AucPlan) else None
    bounded = plan if isinstance(plan, ExactPlan) else workload
    return {
        "session": manifest.session.hex(),
        "context": manifest.context.hex(),
        "holder": announced.holder.name,
        "joint_keys": joint(announced),
        "not_after": common.moment(announced.not_after),
        "protocol": manifest.protocol,
        "thresholds": len(manifest.thresholds),
        "options": dict(manifest.options),
        "min_parties": manifest.min_parties,
        "max_rows": bounded and bounded.max_rows,
        "min_rows": workload and workload.min_rows,
        "release_digits": workload and workload.release_digits,
        "sums": plan.integers if isinstance(plan, SumPlan) else None,
        "backend": plan and plan.parameters.backend,
        "parties": {name: fingerprint.hex() for name, fingerprint in announced.fingerprints.items()},
    }


def _trust(protocol: str) -> str:
    try:
        return registry.load(protocol).trust
    except FheAucError:
        return "unknown: this protocol is not installed here"
