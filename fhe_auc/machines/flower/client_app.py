"""The ClientApp: one site. It answers what the aggregator asks, and writes the result down at the site.

A message of a session is one array of bytes in Flower's records, which Flower sends once to all who get the same.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Array, ArrayRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from fhe_auc.base.errors import MessageError
from fhe_auc.base.logs import write_to_stderr
from fhe_auc.machines import site_role
from fhe_auc.question.analysis import Analysis
from fhe_auc.rows.party_data import PartyData

VIRTUAL_SITES = "FHE_AUC_VIRTUAL_SITES"
"""Variable that a simulation sets: the folder with each virtual site's configuration. No server can set it."""

MESSAGE_TYPE = "query.fhe_auc"
"""Flower's type of all messages of a session; a ClientApp answers it in ``@app.query("fhe_auc")``."""

REFUSED = 101
"""Flower error code of a site that could not answer; the reason is the error's type, never its text."""

_RECORD, _ARRAY = "fhe-auc", "message"

app = ClientApp()


@app.query("fhe_auc")
def query(message: Message, context: Context) -> Message:
    """Answer a message of a session."""
    write_to_stderr()
    return answer(message, context)


def answer(message: Message, context: Context, rows: Callable[[str, Analysis], PartyData] | None = None) -> Message:
    """Return a site's reply to a message of a session (`MESSAGE_TYPE`), for the ClientApp of one's own too.

    The context's node configuration and `rows` are as `fhe_auc.machines.site_role.answer` takes them. An error in reply
    tells the kind of what went wrong, with the rest in the site's log.
    """
    submission, kind = site_role.attempt(
        lambda log: site_role.answer(site_config(context), unpacked(message), rows, log=log)
    )
    content = Error(REFUSED, kind) if submission is None else packed(submission)
    return Message(content, reply_to=message)


def site_config(context: Context) -> Mapping[str, Any]:
    """Return the site's configuration: the node's, or in a simulation that of the virtual site."""
    folder = os.environ.get(VIRTUAL_SITES)
    if folder is None:
        return context.node_config
    file = Path(folder) / f"{int(str(context.node_config['partition-id']))}.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def packed(message: bytes) -> RecordDict:
    """Return a session's message as a record."""
    return RecordDict({_RECORD: ArrayRecord({_ARRAY: Array("uint8", (len(message),), "fhe-auc", message)})})


def unpacked(message: Message) -> bytes:
    """Return the session's message that Flower has carried; raise `MessageError` where it is something else."""
    try:
        return bytes(message.content.array_records[_RECORD][_ARRAY].data)
    except (KeyError, ValueError):
        raise MessageError("not a message of a session", field="format") from None
