"""The file of a calibration map, which is made in one place and applied in another: JSON, versioned, checked.

    {"format": "fhe-auc calibration map", "version": 1, "method": "bbq", "edges": [...], "probabilities": [...]}

Whoever applies it trusts its numbers: nothing in it says who made it. Every field is checked and none may be added.
"""

from __future__ import annotations

import json
import os
import reprlib
from itertools import pairwise
from pathlib import Path
from typing import Any

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import write_atomically
from fhe_auc.metrics import CalibrationMap

FORMAT = "fhe-auc calibration map"
VERSION = 1
METHODS = ("bbq",)
"""How a map can have been made: by `fhe_auc.metrics.bayesian_binning`."""

_FIELDS = ("format", "version", "method", "edges", "probabilities")
_MAX_BYTES = 2**26  # 2^20 thresholds, the most there can be, take about 45 MB


def save(path: str | os.PathLike[str], calibration: CalibrationMap, *, method: str) -> None:
    """Write a map that was made by one of `METHODS`; raise `OSError` where that fails."""
    content = {"format": FORMAT, "version": VERSION, "method": method, **calibration.as_dict()}
    write_atomically(path, (json.dumps(content, allow_nan=False) + "\n").encode())


def load(path: str | os.PathLike[str]) -> CalibrationMap:
    """Read a map that `save` has written.

    Raises `InputError` for anything else: the message names the file, the field and the value.
    """
    file = Path(path)
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise InputError(f"has more than {_MAX_BYTES:,} bytes")
        return _checked(_json(file.read_text(encoding="utf-8")))
    except InputError as error:
        raise error.within(f"calibration map {str(file)!r}", file=str(file)) from None
    except FileNotFoundError:
        raise InputError(f"calibration map {str(file)!r} does not exist", file=str(file)) from None
    except OSError as error:
        raise InputError(f"calibration map {str(file)!r} cannot be read: {error.strerror}", file=str(file)) from None
    except (ValueError, RecursionError):
        raise InputError(f"calibration map {str(file)!r}: it is no JSON", file=str(file)) from None


def _json(text: str) -> object:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise InputError("a field is there twice")
        return found

    return json.loads(text, object_pairs_hook=once)


def _checked(content: object) -> CalibrationMap:
    if not isinstance(content, dict):
        raise InputError("it must hold one JSON object")
    for field in _FIELDS:
        if field not in content:
            raise InputError(f"field {field!r} is missing")
    if unknown := sorted(set(content) - set(_FIELDS)):
        raise InputError(f"field {reprlib.repr(unknown[0])} is unknown")
    _require("format", content["format"], FORMAT)
    _require("version", content["version"], VERSION)
    if content["method"] not in METHODS:
        raise InputError(f"method is {reprlib.repr(content['method'])}; known are {', '.join(METHODS)}")
    edges, probabilities = (_shares(content[field], field) for field in ("edges", "probabilities"))
    if len(edges) != len(probabilities) + 1 or not probabilities:
        raise InputError(f"{len(probabilities)} probabilities need one edge more, not {len(edges)}")
    for position, (lower, upper) in enumerate(pairwise(edges), start=1):
        if lower > upper or (lower == upper and position < len(probabilities)):
            raise InputError(f"edges[{position}] is {upper} after {lower}; edges must ascend")
    return CalibrationMap.from_dict({"edges": edges, "probabilities": probabilities})


def _require(field: str, value: object, wanted: object) -> None:
    if type(value) is not type(wanted) or value != wanted:
        raise InputError(f"{field} is {reprlib.repr(value)}; this release reads {wanted!r}")


def _shares(values: object, field: str) -> list[float]:
    if not isinstance(values, list):
        raise InputError(f"{field} is {reprlib.repr(values)}; it must be a list of numbers")
    for position, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise InputError(f"{field}[{position}] is {reprlib.repr(value)}; it must be a number in [0, 1]")
    return [float(value) for value in values]
