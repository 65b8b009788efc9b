"""The ClientApp and the ServerApp: postmen between Flower's grid and a folder (`fhe_auc.machines.postman`).

A letter is one array of bytes in Flower's records. Replies are polled: `Grid.send_and_receive` loses those of its last
seconds, and has none where its timeout is up to 3 s.
"""

import json
import math
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fhe_auc.base.errors import InputError
from fhe_auc.base.logs import LOGGER, write_to_stderr
from fhe_auc.exchange.exchange import Folder
from fhe_auc.machines.postman import Hub, answer

VIRTUAL_SITES = "FHE_AUC_VIRTUAL_SITES"
"""Variable that a simulation sets: a file with each virtual site's configuration. No server can set it."""

TYPE = "query.fhe_auc"
"""Flower's type of all letters; a ClientApp answers it in ``@app.query("fhe_auc")``."""

REFUSED = 101
"""Flower error code of a site that could not answer: the reason is the kind of error, never its text."""

_IN_WORDS = {
    1: "it could not load the app: it needs this fhe-auc, with flwr",
    3: "a letter or its answer was lost, and goes again",
    5: "it is away",
    7: "it takes apps of its --trusted-entities alone",
    8: "its app ended before it answered, as where memory is short",
    REFUSED: "it could not answer: its log says why",
}  # what Flower's error codes (`flwr.common.constant.ErrorCode`) say of a node

_RECORD, _ARRAY = "fhe-auc", "letter"
_POLL, _RARE = 0.5, 5.0  # seconds between looks, while a letter is out and else
_EVERY = 300.0  # seconds between letters: each takes a process at the node
_WAIT = 15.0  # seconds for a role to answer
_PATIENCE = 600.0  # seconds for which a letter waits for a node that is away

client = ClientApp()
server = ServerApp()


@client.query("fhe_auc")
def query(message: Message, context: Context) -> Message:
    """Answer a letter, for a ClientApp of one's own, too.

    The node's configuration has ``exchange``, a folder, ``name``, the site's, and if need be ``wait``, the seconds for
    which a role may answer what has come.
    """
    write_to_stderr()
    try:
        config = _virtual(context) or context.node_config
        exchange, name = Folder(Path(str(config["exchange"]))), str(config["name"])
        content = packed(answer(exchange, name, unpacked(message), wait=float(config.get("wait", _WAIT))))
    except Exception as error:  # Flower would tell the server its text, which may hold what must stay here
        LOGGER.exception("not answered")
        return Message(Error(REFUSED, type(error).__name__), reply_to=message)
    return Message(content, reply_to=message)


def _virtual(context: Context) -> Mapping[str, Any] | None:
    """Return the configuration of a simulation's virtual site; None: this is none."""
    file = os.environ.get(VIRTUAL_SITES)
    if file is None:
        return None
    sites: list[dict[str, Any]] = json.loads(Path(file).read_text(encoding="utf-8"))
    return sites[int(str(context.node_config["partition-id"]))]


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Carry letters, as the run's configuration says."""
    write_to_stderr()
    carry(grid, context.run_config)


def carry(grid: Grid, config: Mapping[str, Any]) -> None:
    """Carry letters between the folder ``exchange`` and the nodes, for ``hours``, or for ever where that is 0.

    ``nodes`` says which site is which node, as in "north:123, south:456"; where it is empty, a node is who it first
    says. ``every``: seconds between letters where there is nothing to carry. Raises `InputError` for a configuration
    that cannot be; what a node answers ends nothing.
    """
    if not config.get("exchange"):
        raise InputError("exchange is not configured")
    exchange, names = Folder(Path(str(config["exchange"]))), _names(str(config.get("nodes") or ""))
    every = float(config.get("every") or _EVERY)
    hub = Hub(exchange, names, every)
    end = time.monotonic() + (3600 * float(config.get("hours") or 0) or math.inf)
    out: dict[str, tuple[str, float]] = {}  # by letter: to which node, and until when it waits
    while time.monotonic() < end:
        for node, letter in hub.letters(map(str, grid.get_node_ids())).items():
            message = Message(packed(letter), int(node), TYPE, ttl=_PATIENCE)
            if any(sent := list(grid.push_messages([message]))):
                out[sent[0]] = node, time.monotonic() + _PATIENCE
            else:
                hub.failed(node, "Flower takes no letter for it")
        replies = list(grid.pull_messages(list(out))) if out else []
        for reply in replies:
            node, _ = out.pop(reply.metadata.reply_to_message_id, ("", 0.0))
            if node and reply.has_error():
                code, reason = reply.error.code, str(reply.error.reason)[:80]
                hub.failed(node, f"{_IN_WORDS.get(code, 'it could not answer')} (Flower's error {code}: {reason})")
            elif node:
                hub.take(node, unpacked(reply))
        for sent_id, (node, until) in list(out.items()):
            if time.monotonic() > until:
                del out[sent_id]
                hub.failed(node, f"no answer within {_PATIENCE:g} s")
        time.sleep(min(_POLL if out or replies else _RARE, every))


def _names(nodes: str) -> dict[str, str]:
    """Return sites' names by node id from "north:123, south:456"."""
    entry = r"\s*(\S.*?):([0-9]+)\s*(?:,|$)"  # a site's name may hold a comma, or a colon
    found: list[tuple[str, str]] = re.findall(entry, nodes)
    names = {node: name for name, node in found}
    if not re.fullmatch(f"({entry})*", nodes) or not len(found) == len(names) == len(set(names.values())):
        raise InputError(f"nodes: {nodes[:80]!r} are not sites with their node ids, as in 'north:123, south:456'")
    return names


def packed(letter: bytes) -> RecordDict:
    """Return a letter as a record."""
    return RecordDict({_RECORD: ArrayRecord({_ARRAY: Array("uint8", (len(letter),), "fhe-auc", letter)})})


def unpacked(message: Message) -> bytes:
    """Return the letter that Flower has carried; where it is something else, what is no letter."""
    try:
        return bytes(message.content.array_records[_RECORD][_ARRAY].data)
    except (KeyError, ValueError):
        return b""
