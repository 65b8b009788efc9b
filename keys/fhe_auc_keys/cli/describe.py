"""A session as its holder announced it, in words."""

from __future__ import annotations

from typing import Any

from fhe_auc import registry
from fhe_auc.ckks import SECURITY_BITS
from fhe_auc.cli import output
from fhe_auc.errors import FheAucError, UnknownProtocolError
from fhe_auc.evaluation import QuantileThresholds
from fhe_auc.manifest import Manifest
from fhe_auc.plan import Plan
from fhe_auc_keys.announcement import Announcement
from fhe_auc_keys.cli import common


def announcement_rows(announced: Announcement, *, reader: str = "") -> list[tuple[output.Cell, ...]]:
    """Say what a verified announcement holds; `reader` is the party that reads it."""
    manifest, plan = announced.manifest, _plan_of(announced.manifest)
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
    if plan is not None:
        rows += plan.terms().rows
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
    manifest, plan = announced.manifest, _plan_of(announced.manifest)
    agreed = {} if plan is None else plan.terms().data
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
        **{name: agreed.get(name) for name in ("max_rows", "min_rows", "release_digits", "sums")},
        "backend": plan and plan.parameters.backend,
        "parties": {name: fingerprint.hex() for name, fingerprint in announced.fingerprints.items()},
    }


def _plan_of(manifest: Manifest) -> Plan | None:
    """Return the session's plan, None where there is none or its protocol is not installed here."""
    try:
        return registry.load(manifest.protocol).plan_of(manifest)
    except UnknownProtocolError:
        return None


def _trust(protocol: str) -> str:
    try:
        return registry.load(protocol).trust
    except FheAucError:
        return "unknown: this protocol is not installed here"
