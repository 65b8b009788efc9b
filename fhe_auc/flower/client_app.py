"""The ClientApp: one site. It answers what the aggregator asks, and writes the result down at the site."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from logging import ERROR
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.common.logger import log

from fhe_auc import site_state
from fhe_auc.analysis import Analysis, Questions
from fhe_auc.counts import PartyData
from fhe_auc.errors import FheAucError, InputError
from fhe_auc.evaluation import QuantileThresholds
from fhe_auc.flower import outcomes
from fhe_auc.flower.payload import REFUSED, packed, unpacked
from fhe_auc.rounds import Party

if TYPE_CHECKING:
    from fhe_auc.tables import Entries

VIRTUAL_SITES = "FHE_AUC_VIRTUAL_SITES"
"""Variable that a simulation sets: the folder with each virtual site's configuration. No server can set it."""

app = ClientApp()


@app.query("fhe_auc")
def query(message: Message, context: Context) -> Message:
    """Answer a message of a session."""
    return answer(message, context)


def answer(message: Message, context: Context, rows: Callable[[str, Analysis], PartyData] | None = None) -> Message:
    """Return a site's reply to a message of a session, for the ClientApp of one's own too.

    The message is of type `fhe_auc.flower.payload.MESSAGE_TYPE`. The context's node configuration names the site's key
    store (as `fhe_auc_keys.key_store_sites` takes it: ``store``, ``passphrase-file``, ``holder``), its rows (``data``,
    ``label-column``, ``score-column`` where the session does not name the models, and, as `fhe_auc.tables.Entries` and
    `fhe_auc.table_files.TextFormat` have them, ``positive-label``, ``drop-missing``, ``score-scale``, ``delimiter``,
    ``decimal``, ``encoding``), the file for its ``result``, and for average precision its result of the session before
    (``boundaries``). `rows`, if given, returns the rows for an analysis in place of ``data``; the same ones in all
    rounds of a session.

    The reply is a submission; or an error that tells the kind of what went wrong, with the rest in the site's log.
    """
    try:
        config = site_config(context)
        with site_state.site_storage().site(config) as kept:
            submission = site_state.answer(kept, unpacked(message), rows or _reader(config), _writer(config))
        return Message(packed(submission), reply_to=message)
    except Exception as error:  # whatever it is, its text may hold what must stay at the site
        text = str(error) if isinstance(error, FheAucError) else ""
        log(ERROR, "not answered: %s %s", type(error).__name__, text)
        return Message(Error(REFUSED, type(error).__name__), reply_to=message)


def site_config(context: Context) -> Mapping[str, Any]:
    """Return the site's configuration: the node's, or in a simulation that of the virtual site."""
    folder = os.environ.get(VIRTUAL_SITES)
    if folder is None:
        return context.node_config
    file = Path(folder) / f"{int(str(context.node_config['partition-id']))}.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _reader(config: Mapping[str, Any]) -> Callable[[str, Analysis], PartyData]:
    def read(name: str, analysis: Analysis) -> PartyData:
        from fhe_auc.tables import read_for

        if not config.get("data"):
            raise InputError("data is not configured")
        questions = Questions.of(analysis, str(config.get("score-column") or "y_score"))
        label = str(config.get("label-column") or "y_true")
        paths = [Path(str(config["data"]))]
        (data,), _ = read_for(questions, paths, label_column=label, entries=_entries(config))
        return replace(data, name=name, rows_above=_rows_above(config))

    return read


def _entries(config: Mapping[str, Any]) -> Entries:
    from fhe_auc.table_files import TextFormat
    from fhe_auc.tables import Entries

    def given(*names: str) -> dict[str, str]:
        return {name.replace("-", "_"): str(config[name]) for name in names if config.get(name) not in (None, "")}

    drop = config.get("drop-missing", False)
    if drop not in (True, False):
        raise InputError(f"drop-missing is true or false, not {drop!r}")
    form = TextFormat(**given("delimiter", "decimal", "encoding"))
    return Entries(form=form, drop_missing=bool(drop), **given("positive-label", "score-scale"))


def _rows_above(config: Mapping[str, Any]) -> tuple[int, ...]:
    """Return what this site's result of the session before says; nothing where there was none."""
    if not config.get("boundaries"):
        return ()
    before = outcomes.read(Path(str(config["boundaries"])))
    if not isinstance(before, QuantileThresholds):
        raise InputError("boundaries: the file is not the result of a session that finds thresholds")
    return before.rows_above


def _writer(config: Mapping[str, Any]) -> Callable[[Party[Any]], None]:
    if not config.get("result"):
        raise InputError("result is not configured: there is no file for what the session yields")
    path = Path(str(config["result"]))
    if not os.access(path.parent, os.W_OK | os.X_OK):  # before a round is answered that cannot be answered again
        raise InputError(f"result: no file can be written in {str(path.parent)!r}")
    return partial(outcomes.write, path)
