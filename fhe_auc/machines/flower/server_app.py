"""The ServerApp: it plays the aggregator, and learns who took part."""

import re
from collections.abc import Mapping
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fhe_auc.base.errors import InputError
from fhe_auc.base.logs import write_to_stderr
from fhe_auc.machines import aggregator_role
from fhe_auc.machines.flower.mail import Mail
from fhe_auc.session.aggregator import Aggregator, SessionRecord
from fhe_auc.session.journal import Journal
from fhe_auc.session.manifest import Manifest

DEFAULTS: Mapping[str, str | int | float] = {**aggregator_role.DEFAULTS, "nodes": "", "ask-again": True}
"""The entries of the run configuration that `evaluate` reads, with their defaults."""

_ENTRY = r"\s*(\S.*?):([0-9]+)\s*(?:,|$)"  # of `nodes`; a party's name may hold a comma, or a colon

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one session."""
    write_to_stderr()
    evaluate(grid, context.run_config)


def evaluate(grid: Grid, config: Mapping[str, Any]) -> SessionRecord:
    """Play the aggregator of one session over a Flower grid; return who took part. The result is the sites' own.

    Configuration and errors: as of `fhe_auc.machines.aggregator_role.run`, with ``nodes``: which node is which party,
    as in "north:123, south:456"; empty asks all that are connected, and a node is a party once it has signed as that
    party. Where ``ask-again`` is false, a site that fails to answer is not asked again in that round.
    """

    def connect(aggregator: Aggregator, journal: Journal, timeout: float) -> Mail:
        nodes = _nodes(str(config.get("nodes") or ""), aggregator.manifest)
        again = bool(config.get("ask-again", DEFAULTS["ask-again"]))
        mail = Mail(grid, aggregator, journal, timeout, nodes=nodes, again=again)
        named = ", ".join(f"{party!r} is node {node}" for node, party in nodes.items())
        mail.log.info(named or "all connected nodes are asked")
        return mail

    aggregator_role.require_absolute_paths(config)
    return aggregator_role.run(config, connect)


def _nodes(text: str, manifest: Manifest) -> dict[int, str]:
    """Return party by node id from "north:123, south:456"."""
    roles = manifest.answering
    found: dict[int, str] = {}
    if text.strip() and not re.fullmatch(f"({_ENTRY})+", text):
        raise InputError(f"nodes: {text[:80]!r} are not parties with their node ids, as in 'north:123, south:456'")
    for party, node in re.findall(_ENTRY, text):
        if party not in roles:
            raise InputError(f"nodes: {party!r} is not a party of the session")
        if int(node) in found or party in found.values():
            raise InputError(f"nodes: '{party}:{node}' is there twice")
        found[int(node)] = party
    if found and len(found) != len(roles):
        raise InputError(f"nodes: {min(set(roles) - set(found.values()))!r} has no node")
    return found
