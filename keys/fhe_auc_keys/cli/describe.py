"""A fleet's session as its convener announced it, in words."""

from typing import Any

from fhe_auc.base import quantities
from fhe_auc.base.names import HELPER
from fhe_auc.ckks import SECURITY_BITS
from fhe_auc.session import registry
from fhe_auc.session.plan import backend_of
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.cli import common

_AGREED = ("max_rows", "min_rows", "sums", "analysis", "sites", "row_caps_proved")
"""Terms of the plan that programs are told."""


def announced_fleet(announced: Announcement) -> tuple[dict[str, Any], common.Rows]:
    """Say what a fleet's verified announcement holds: for JSON, and for people."""
    manifest, fleet, helper = announced.manifest, announced.manifest.fleet, announced.helper
    protocol = registry.load(manifest.protocol)
    plan, grid, soundness = protocol.plan_of(manifest), manifest.thresholds, protocol.soundness(manifest)
    assert plan is not None and fleet is not None and helper is not None  # noqa: S101, PT018 - it is a fleet's
    terms = plan.terms()
    facts = {
        "session": manifest.session,
        "holder": announced.holder.name,
        "not_after": announced.not_after,
        "study": announced.study.as_dict(),
        "protocol": manifest.protocol,
        "thresholds": len(grid),
        "options": dict(manifest.options),
        "min_parties": manifest.min_parties,
        "soundness": soundness,
        **{name: terms.data.get(name) for name in _AGREED},
        "backend": backend_of(plan),
        "aggregator": {announced.aggregator.name: announced.aggregator.fingerprint},
        "helpers": {helper.name: helper.fingerprint},
        "parties": {},
        "fleet": {"members": fleet.members, "root": fleet.root, "row_cap": fleet.row_cap},
    }
    rows: common.Rows = [
        ("session", manifest.session, "compare: everybody in it must see the same"),
        ("convened by", announced.holder.name, "signed it"),
        ("can be opened", f"until {common.moment(announced.not_after)}", ""),
        *announced.study.lines(),
        ("protocol", manifest.protocol, f"trust: {protocol.trust}"),
        ("thresholds", f"{len(grid):,}", f"from {grid[0]:g} to {grid[-1]:g}"),
        *(("option", name, str(value)) for name, value in manifest.options.items()),
        *terms.rows,
    ]
    if terms.data.get("row_caps_proved") is False:
        rows.append(("row caps", "not proved", "a party that lies can decide the AUC, and nobody would notice"))
    if soundness is not None:
        rows.append(("a lie passes", f"< {quantities.chance_text(soundness)}", "chance for the aggregator, proved"))
    root = f"at most {fleet.row_cap:,} rows each; Merkle root, which the members' file names"
    rows += [
        ("encryption", f"{SECURITY_BITS}-bit security", backend_of(plan)),
        ("fleet", f"{fleet.members:,} members", f"{root}\n{common.spelled(fleet.root)}"),
        ("keys", "helper", "has them, reads the result, and must not work with the aggregator"),
        (HELPER, helper.name, ""),
        ("aggregator", announced.aggregator.name, ""),
    ]
    return facts, rows
