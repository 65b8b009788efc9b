"""The file of a calibration map, which is made in one place and applied in another: JSON, versioned, checked.

    {"format": "fhe-auc calibration map", "version": 1, "method": "bbq", "edges": [...], "probabilities": [...]}
    {"format": "fhe-auc calibration map", "version": 2, "method": "slope-intercept", "intercept": -0.1, "slope": 0.8}

Version 2 has these fields, and those of steps for "isotonic". Whoever applies a map trusts its numbers: nothing in it
says who made it. Every field is checked and none may be added.
"""

from __future__ import annotations

import json
import os
import reprlib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_text, write_atomically
from fhe_auc.metrics.calibration import CalibrationMap
from fhe_auc.metrics.updating import LogisticMap, ScoreMap

_FORMAT = "fhe-auc calibration map"
_LINES = ("slope-intercept", "intercept")
_VERSIONS = {"bbq": 1, "isotonic": 2, **dict.fromkeys(_LINES, 2)}
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Finite = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
_MAX_BYTES = 2**26  # 2^20 thresholds, the most there can be, take about 45 MB


class _Steps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["fhe-auc calibration map"]
    version: Literal[1, 2]
    method: Literal["bbq", "isotonic"]
    edges: list[_Share]
    probabilities: Annotated[list[_Share], msgspec.Meta(min_length=1)]


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal["fhe-auc calibration map"]
    version: Literal[2]
    method: Literal["slope-intercept", "intercept"]
    intercept: _Finite
    slope: _Finite


def save_map(path: str | os.PathLike[str], calibration: ScoreMap, method: str) -> None:
    """Write a map that `fhe_auc.metrics.updating` has made by a method; raise `OSError` where that fails."""
    content = {"format": _FORMAT, "version": _VERSIONS[method], "method": method, **calibration.as_dict()}
    write_atomically(path, (json.dumps(content, allow_nan=False) + "\n").encode())


def load_map(path: str | os.PathLike[str]) -> ScoreMap:
    """Read a map that `save_map` has written; `InputError` for anything else, which names the file and the field."""
    file = Path(path)
    try:
        plain = json.loads(read_text(file, _MAX_BYTES), object_pairs_hook=_without_duplicates)
        return _checked(plain)
    except (InputError, msgspec.ValidationError) as error:
        raise InputError(f"calibration map {str(file)!r}: {error}", file=str(file)) from None
    except FileNotFoundError:
        raise InputError(f"calibration map {str(file)!r} does not exist", file=str(file)) from None
    except OSError as error:
        raise InputError(f"calibration map {str(file)!r} cannot be read: {error.strerror}", file=str(file)) from None
    except (ValueError, RecursionError):
        raise InputError(f"calibration map {str(file)!r}: it is no JSON", file=str(file)) from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InputError("a field is there twice")
    return fields


def _checked(plain: Any) -> ScoreMap:
    if not isinstance(plain, dict):
        raise InputError("it must hold one JSON object")

    def require(name: str, *known: str | int) -> None:  # in a user's words; msgspec has its own
        if name in plain and not any(type(plain[name]) is type(each) and plain[name] == each for each in known):
            raise InputError(f"{name} is {reprlib.repr(plain[name])}; this release reads {', '.join(map(repr, known))}")

    require("format", _FORMAT)
    require("method", *_VERSIONS)
    require("version", _VERSIONS[plain.get("method", "bbq")])
    for name in ("edges", "probabilities"):
        for position, value in enumerate(plain[name] if isinstance(plain.get(name), list) else ()):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise InputError(f"{name}[{position}] is {reprlib.repr(value)}; it must be a number in [0, 1]")
    if plain.get("method") in _LINES:
        line = msgspec.convert(plain, type=_Line)
        return LogisticMap(line.intercept, line.slope)
    content = msgspec.convert(plain, type=_Steps)
    if len(content.edges) != len(content.probabilities) + 1:
        raise InputError(f"{len(content.probabilities)} probabilities need one edge more, not {len(content.edges)}")
    return CalibrationMap(np.array(content.edges), np.array(content.probabilities))
