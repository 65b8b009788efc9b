"""The ServerApp: it plays the aggregator, and learns who took part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

from fhe_auc import thresholds as grids
from fhe_auc.errors import EvaluationError, InputError
from fhe_auc.flower import outcomes
from fhe_auc.flower.mail import Mail
from fhe_auc.manifest import Manifest
from fhe_auc.rounds import Aggregator, SessionRecord, conduct
from fhe_auc.site_state import site_storage

DEFAULTS: Mapping[str, str | int | float] = {
    "session": "",
    "holder": "",
    "store": "",
    "passphrase-file": "",
    "late-opening": "",
    "protocol": "",
    "thresholds": "",
    "min-parties": 0,
    "round-timeout": 300.0,
    "nodes": "",
    "record": "",
}
"""Run configuration: what `evaluate` reads, with what is meant where nothing is said."""

_ENTRY = r"\s*(\S.*?):([0-9]+)\s*(?:,|$)"  # of `nodes`; a party's name may hold a comma, or a colon

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run one session."""
    evaluate(grid, context.run_config)


def evaluate(grid: Grid, config: Mapping[str, Any]) -> SessionRecord:
    """Play the aggregator of one session over a Flower grid; return who took part. The result is the sites' own.

    Of the configuration, ``session`` (a file from the key holder), ``holder``, ``store`` and ``passphrase-file`` are as
    the plug-in of `fhe_auc.site_state` takes them. ``round-timeout``: seconds that a round may take. ``nodes``: which
    node is which party, as in "north:123, south:456"; empty asks all that are connected, and a node is a party once it
    has signed as that party.
    ``protocol``, ``thresholds``, ``min-parties``: what the session must be for; empty takes any. ``record``: file for
    who took part, or what went wrong.

    Raises
    ------
    InputError
        The configuration is not right, or the session is not for what it says.
    EvaluationError
        The session could not be finished; the text names the sites that are to blame.
    """
    record = Path(str(config["record"])) if config.get("record") else None
    if record:
        record.unlink(missing_ok=True)  # of a session before
    try:
        found = _evaluated(grid, config)
    except Exception as error:  # whoever waits for the record is to hear of it
        if record:
            outcomes.write_json(record, {"error": {"type": type(error).__name__, "message": str(error)}})
        raise
    if record:
        told = {"counted": found.counted, "missing": found.missing, "refused": dict(found.refused)}
        outcomes.write_json(record, {"session": found.session.hex(), **told})
    return found


def _evaluated(grid: Grid, config: Mapping[str, Any]) -> SessionRecord:
    timeout = float(config.get("round-timeout") or DEFAULTS["round-timeout"])
    if not 0 < timeout < float("inf"):
        raise InputError(f"round-timeout must be a number of seconds above 0, got {timeout}")
    joined = site_storage().aggregator(config)
    manifest = joined.manifest
    _require(manifest, config)
    nodes = _nodes(str(config.get("nodes") or ""), manifest)
    aggregator = joined.aggregator()
    named = ", ".join(f"{party!r} is node {node}" for node, party in nodes.items()) or "all connected nodes are asked"
    log(INFO, "session %s, %s, %d parties: %s", manifest.session.hex(), manifest.protocol, len(manifest.parties), named)
    mail = Mail(grid, aggregator, nodes=nodes, timeout=timeout, report=lambda text: log(WARNING, text))
    try:
        found = conduct(aggregator, mail.exchange, refused=lambda error: log(WARNING, str(error)))
    except EvaluationError as error:
        raise _blaming(error, mail, aggregator) from None
    log(INFO, "session %s ended; counted: %d of %d", found.session.hex(), len(found.counted), len(manifest.parties))
    return found


def _blaming(error: EvaluationError, mail: Mail, aggregator: Aggregator) -> EvaluationError:
    """Return the error with what is known of the sites that did not answer."""
    reasons = {**mail.failures, **aggregator.refusals}
    told = "; ".join(f"{who}: {why}" for who, why in list(reasons.items())[:10])
    return type(error)(f"{error} [{told}]") if told else error


def _require(manifest: Manifest, config: Mapping[str, Any]) -> None:
    """Raise `InputError` where the session is not what the run configuration says."""
    protocol, thresholds, least = (config.get(name) for name in ("protocol", "thresholds", "min-parties"))
    if protocol and protocol != manifest.protocol:
        raise InputError(f"the session is for protocol {manifest.protocol!r}, not {protocol!r}")
    if thresholds and not np.array_equal(grids.resolve(str(thresholds)), manifest.thresholds):
        raise InputError(f"the session is not for the thresholds {thresholds!r}")
    if least and int(least) != manifest.min_parties:
        raise InputError(f"the session goes on from {manifest.min_parties} parties on, not from {least}")


def _nodes(text: str, manifest: Manifest) -> dict[int, str]:
    """Return party by node id from "north:123, south:456"."""
    found: dict[int, str] = {}
    if text.strip() and not re.fullmatch(f"({_ENTRY})+", text):
        raise InputError(f"nodes: {text[:80]!r} are not parties with their node ids, as in 'north:123, south:456'")
    for party, node in re.findall(_ENTRY, text):
        if party not in manifest.parties:
            raise InputError(f"nodes: {party!r} is not a party of the session")
        if int(node) in found or party in found.values():
            raise InputError(f"nodes: '{party}:{node}' is there twice")
        found[int(node)] = party
    if found and len(found) != len(manifest.parties):
        raise InputError(f"nodes: {min(set(manifest.parties) - set(found.values()))!r} has no node")
    return found
