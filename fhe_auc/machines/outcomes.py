"""What sessions have yielded, in a file each at the site: JSON, readable to the site's user only."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fhe_auc.base import errors
from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import EvaluationError, FheAucError, ResultCheckError
from fhe_auc.base.files import write_atomically
from fhe_auc.base.serialise import json_text
from fhe_auc.question.study import Study
from fhe_auc.results.estimates import Comparison, GroupEstimate
from fhe_auc.results.evaluation import FRACTIONS, Evaluation, Outcome, QuantileThresholds, verified_as_dict
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import Interval
from fhe_auc.session.party import Party


def write(
    folder: Path, party: Party[Any], sign: Callable[[Mapping[str, Any]], Mapping[str, Any]], clock: Clock = SYSTEM
) -> Path:
    """Write a party's result, or why there is none, to ``TIME-SESSION.json`` in a folder, signed; return the file.

    A file of that session, from before a crash, is written anew.
    """
    session = party.manifest.session.hex()
    now = clock.now()
    path = file_of(folder, session) or folder / f"{now:%Y%m%dT%H%M%SZ}-{session}.json"
    try:
        outcome = plain(party.result())
    except EvaluationError as error:
        outcome = {"error": {"type": type(error).__name__, "message": str(error)}}
        if check := getattr(error, "check", None):
            outcome["error"]["check"] = check
    told = {
        "party": party.name,
        "session": session,
        "manifest": party.manifest.digest.hex(),
        "time": now.isoformat(timespec="seconds"),
        "version": version("fhe-auc"),
        **({"step": party.manifest.step, "turn": party.manifest.turn} if party.manifest.step else {}),
        **outcome,
    }
    write_json(path, sign(told))
    return path


def file_of(folder: Path, session: str) -> Path | None:
    """Return the file in a folder with what a session (its id, hexadecimal) has yielded; None: there is none."""
    return next(iter(sorted(folder.glob(f"*-{session}.json"))), None)


def plain(found: Evaluation | QuantileThresholds) -> dict[str, dict[str, Any]]:
    """Return what a session has yielded as plain types, under its kind: "evaluation" or "boundaries"."""
    if isinstance(found, Evaluation):
        return {"evaluation": found.as_dict()}
    told = {each.name: getattr(found, each.name) for each in fields(found)}
    told["verified"] = verified_as_dict(told["verified"])
    told["study"] = None if found.study is None else found.study.as_dict()
    plain_values = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in told.items()}
    return {"boundaries": plain_values}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON, as a whole, in a file of mode 600; what is not finite becomes null."""
    write_atomically(path, json_text(value).encode(), mode=0o600, durable=True)


def read(path: Path) -> Outcome:
    """Return what `write` has written; raise the `EvaluationError` that is there where the party has no result."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if "error" in content:
        raise told_error(content["error"])
    if "boundaries" in content:
        before = content["boundaries"]
        return QuantileThresholds(**{**_restored(before), "grid": np.array(before["grid"])})
    found = _restored(content["evaluation"])
    said = content["evaluation"]["verified"]
    found |= {"inputs_proved": said["parties"] or "", "inputs_not_proved": tuple(said.get("inputs not proved", ()))}
    found["interval"] = None if found["interval"] is None else Interval(**found["interval"])
    found["estimates"] = tuple(GroupEstimate.from_dict(each) for each in found["estimates"])
    found["comparisons"] = msgspec.convert(found["comparisons"], tuple[Comparison, ...])
    found["sites"] = msgspec.convert(found["sites"], tuple[SiteSummary, ...])
    if found["histogram"] is not None:
        from fhe_auc.metrics import Histogram

        found["histogram"] = Histogram(**{name: np.array(values) for name, values in found["histogram"].items()})
    return Evaluation(**found)


def _restored(told: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(told)
    found["warnings"] = tuple(found["warnings"])
    found["unproved_parties"] = tuple(found.get("unproved_parties", ()))
    found["verified"] = found["verified"]["aggregation"]
    found["study"] = None if found["study"] is None else Study.from_dict(found["study"])
    for name in ("auc", "binning_error", "numerical_error"):
        if name in found and found[name] is None:
            found[name] = math.nan
    for name in FRACTIONS:
        if found.get(name) is not None:
            found[name] = Fraction(found[name])
    return found


def told_error(told: Mapping[str, str]) -> FheAucError:
    """Return the error of which type and message were written down; an `EvaluationError` for one that is not ours."""
    kind = getattr(errors, told["type"], None)
    if not (isinstance(kind, type) and issubclass(kind, FheAucError)):
        kind = EvaluationError
    if "check" in told and issubclass(kind, ResultCheckError):
        return kind(told["message"], check=told["check"])  # type: ignore[arg-type] # as it was written
    return kind(told["message"])
