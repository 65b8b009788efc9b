"""Logs of the roles of sessions between machines: lines with time, level, session, round and party.

Everything is said by the logger ``fhe_auc`` of Python's `logging`. A program of ours that plays a role writes its lines
to stderr, as text or JSON (`write_to_stderr`); who calls the roles from a program of their own sets that up as they
like. Nothing in a line is secret, and a site's result is in none.
"""

import logging
import os
import sys
from collections.abc import MutableMapping
from datetime import datetime, timezone
from typing import Any, Literal, TypeAlias, get_args

from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import json_text

Format: TypeAlias = Literal["text", "json"]
LOGGER = logging.getLogger("fhe_auc")
VARIABLE = "FHE_AUC_LOG_FORMAT"  # in the environment: the format, for this process and what it starts
_FACTS = ("session", "round", "party")


class RoleLog(logging.LoggerAdapter):  # type: ignore[type-arg] # Python 3.10 has no parameter for it
    """Logs what happens in one session: its id, hexadecimal; the round; and the party, which is the site that logs.

    The three are set as they become known. At the aggregator, where ``extra`` names a party the line is about that.
    """

    def __init__(self, session: str = "", round_number: int = 0, party: str = "") -> None:
        super().__init__(LOGGER, {})
        self.session, self.round, self.party = session, round_number, party

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Add session, round and party to a record."""
        own = {name: getattr(self, name) for name in _FACTS}
        return msg, {**kwargs, "extra": {**own, **(kwargs.get("extra") or {})}}


class RoleFormatter(logging.Formatter):
    """Makes one line of each record, without colours; `form` is "text" or "json"."""

    def __init__(self, form: Format) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        text = record.getMessage()
        if record.exc_info:
            text += " " + self.formatException(record.exc_info)
        text = one_line(text)
        facts = {name: value for name in _FACTS if (value := getattr(record, name, None))}
        if self._form == "json":
            told = {"time": time, "level": record.levelname, "logger": record.name, **facts, "message": text}
            return json_text(told)
        about = " ".join(f"{name}={one_line(str(value))}" for name, value in facts.items())
        return " ".join(filter(None, (time, record.levelname, about, text)))


def one_line(text: str) -> str:
    """Return text without anything that could steer a terminal, or begin a line."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def chosen_format() -> Format:
    """Return the format that the environment asks for, by default text; raise `InputError` for anything else."""
    form = os.environ.get(VARIABLE) or "text"
    if form not in get_args(Format):
        raise InputError(f"{VARIABLE} is text or json, not {form!r}")
    return form  # type: ignore[return-value] # one of them


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg] # likewise
    """Writes to what `sys.stderr` is when a line is written: Flower exchanges it."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def writes_json() -> bool:
    """Return whether this process writes its log to stderr, as JSON."""
    return any(isinstance(each, _Stderr) for each in LOGGER.handlers) and chosen_format() == "json"


def write_to_stderr() -> None:
    """Write what is logged from now on to stderr, from INFO on; done again, it changes the format only."""
    for handler in LOGGER.handlers:
        if isinstance(handler, _Stderr):
            break
    else:
        handler = _Stderr()
        LOGGER.addHandler(handler)
        LOGGER.setLevel(logging.INFO)
    handler.setFormatter(RoleFormatter(chosen_format()))
