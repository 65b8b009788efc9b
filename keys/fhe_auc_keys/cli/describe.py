"""A session as its holder announced it, in words."""

from typing import Any

from fhe_auc.base import quantities
from fhe_auc.base.errors import UnknownProtocolError
from fhe_auc.base.names import HELPER
from fhe_auc.ckks import SECURITY_BITS
from fhe_auc.results.evaluation import QuantileThresholds
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import Plan, backend_of
from fhe_auc.session.protocol import Protocol
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.cli import common

_AGREED = ("max_rows", "min_rows", "sums", "analysis", "sites", "row_caps_proved")
"""Terms of the plan that programs are told."""


def announcement_rows(announced: Announcement) -> common.Rows:
    """Say what a fleet's verified announcement holds."""
    manifest = announced.manifest
    protocol, plan = _protocol_and_plan(manifest)
    trust = "unknown: this protocol is not installed here" if protocol is None else protocol.trust
    grid = manifest.thresholds
    # The session may be one to find thresholds: then its own are the cells in which rows are counted.
    finds_thresholds = protocol is not None and protocol.yields is QuantileThresholds and "bins" in manifest.options
    rows: common.Rows = [
        ("session", manifest.session, "compare: everybody in it must see the same"),
        ("convened by", announced.holder.name, "signed it"),
        ("can be opened", f"until {common.moment(announced.not_after)}", ""),
        *announced.study.lines(),
        ("protocol", manifest.protocol, f"trust: {trust}"),
        ("thresholds", f"{manifest.options['bins']:,}", f"to be found, from counts in {len(grid):,} cells of scores")
        if finds_thresholds
        else ("thresholds", f"{len(grid):,}", f"from {grid[0]:g} to {grid[-1]:g}"),
        *(("option", name, str(value)) for name, value in manifest.options.items() if name != "bins"),
    ]
    if plan is not None:
        rows += plan.terms().rows
        if _goes_without_proofs(announced, plan):
            rows.append(("row caps", "not proved", "a party that lies can decide the AUC, and nobody would notice"))
        if protocol is not None and (soundness := protocol.soundness(manifest)) is not None:
            rows.append(("a lie passes", f"< {quantities.chance_text(soundness)}", "chance for the aggregator, proved"))
        rows.append(("encryption", f"{SECURITY_BITS}-bit security", backend_of(plan)))
    elif manifest.plan is not None:
        rows.append(("encryption", "yes", "its parameters: unknown, this protocol is not installed here"))
    if manifest.fleet is not None:
        root = f"at most {manifest.fleet.row_cap:,} rows each; Merkle root, which the members' file names"
        root = f"{root}\n{common.spelled(manifest.fleet.root)}"
        rows.append(("fleet", f"{manifest.fleet.members:,} members", root))
    roles = [("party", name) for name in announced.parties]
    if announced.helper is not None:
        rows.append(("keys", "helper", "has them, reads the result, and must not work with the aggregator"))
        roles.append((HELPER, announced.helper.name))
    roles.append(("aggregator", announced.aggregator.name))
    return [*rows, *((role, name, "") for role, name in roles)]


def announcement_as_dict(announced: Announcement) -> dict[str, Any]:
    """Say the same for JSON."""
    manifest = announced.manifest
    protocol, plan = _protocol_and_plan(manifest)
    agreed, fleet, helper = {} if plan is None else plan.terms().data, manifest.fleet, announced.helper
    return {
        "session": manifest.session,
        "holder": announced.holder.name,
        "not_after": announced.not_after,
        "study": announced.study.as_dict(),
        "protocol": manifest.protocol,
        "thresholds": len(manifest.thresholds),
        "options": dict(manifest.options),
        "min_parties": manifest.min_parties,
        "soundness": protocol and protocol.soundness(manifest),
        **{name: agreed.get(name) for name in _AGREED},
        "backend": plan and backend_of(plan),
        "aggregator": {announced.aggregator.name: announced.aggregator.fingerprint},
        "helpers": {} if helper is None else {helper.name: helper.fingerprint},
        "parties": {name: member.fingerprint for name, member in announced.parties.items()},
        "fleet": fleet and {"members": fleet.members, "root": fleet.root, "row_cap": fleet.row_cap},
    }


def _goes_without_proofs(announced: Announcement, plan: Plan) -> bool:
    """Whether parties, or a fleet's devices, have row caps that they could prove in such a session, and do not."""
    if announced.helper is None or not (announced.study.caps or announced.manifest.fleet is not None):
        return False
    return plan.terms().data.get("row_caps_proved") is False


def _protocol_and_plan(manifest: Manifest) -> tuple[Protocol[Any] | None, Plan | None]:
    """Return the session's protocol and plan; None where it is not installed here, or has no plan."""
    try:
        protocol = registry.load(manifest.protocol)
    except UnknownProtocolError:
        return None, None
    return protocol, protocol.plan_of(manifest)
