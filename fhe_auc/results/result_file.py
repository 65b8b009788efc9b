"""The file in which a site writes what a session has yielded, read: JSON, of this release.

    {"party": "north", "session": …, "manifest": …, "time": …, "version": …, "signature": {…},
     "evaluation": {…},            or "boundaries", "counts", or "error"
     "asked": {…}, "before": [{"boundaries": {…}}, …]}

Where one question takes several sessions, `asked` is that question, and `before` has what those before this one have
yielded here: so the last file has all that a report is made of. Whoever reads a file trusts it: who has signed it shows
`fhe-auc check` alone.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fhe_auc.base import errors
from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, ResultCheckError
from fhe_auc.base.files import read_text
from fhe_auc.base.names import all_printable
from fhe_auc.question.analysis import PLAIN
from fhe_auc.question.study import Study
from fhe_auc.results.asked import Asked
from fhe_auc.results.estimates import Comparison, GroupEstimate
from fhe_auc.results.evaluation import (
    FRACTIONS,
    CellCounts,
    CensoringCurve,
    Evaluation,
    Outcome,
    QuantileThresholds,
    Replicates,
    preceded,
    verified_as_dict,
)
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.horizons import at_horizons
from fhe_auc.results.intervals import Interval

KINDS: Mapping[str, type[Outcome]] = {
    "evaluation": Evaluation,
    "boundaries": QuantileThresholds,
    "counts": CellCounts,
    "censoring": CensoringCurve,
    "replicates": Replicates,
}
"""Names, in a file, of what sessions yield."""

ERROR = "error"
_ARRAYS: Mapping[type[Outcome], Mapping[str, type[np.generic] | None]] = {
    QuantileThresholds: {"grid": np.float64},
    CellCounts: {"positives": None, "negatives": None, "squares": None, "rows": np.int64, "unknown": np.int64},
    CensoringCurve: {"counts": np.int64},
    Replicates: {"grid": np.float64, "counts": np.float64},
}


@dataclass(frozen=True)
class Result:
    """What a site says of a session.

    `outcomes` are those of the sessions before that the same question took, in their order, then that of this session;
    without it where there is an `error`.
    """

    party: str
    session: str
    time: datetime
    version: str
    outcomes: tuple[Outcome, ...]
    asked: Asked | None = None
    error: FheAucError | None = None

    @property
    def outcome(self) -> Outcome:
        """What the session itself has yielded; raise the error in its place."""
        if self.error is not None:
            raise self.error
        return self.outcomes[-1]

    def evaluation(self) -> Evaluation:
        """Return the evaluation, with the costs of the sessions before it, of as many horizons as there are yet.

        Raises the error where there is none, and `InputError` where that session yields something else.
        """
        outcomes = (*self.outcomes[:-1], self.outcome)
        evaluations = [each for each in outcomes if isinstance(each, Evaluation)]
        if not evaluations:
            raise InputError(f"the result of session {self.session} is no evaluation: {_IN_WORDS[type(self.outcome)]}")
        curve = next((each for each in outcomes if isinstance(each, CensoringCurve)), None)
        firsts = {each.horizon: each for each in evaluations[::-1] if each.horizon is not None}  # a report has several
        of_horizons = [firsts[horizon] for horizon in sorted(firsts)]
        analysis = PLAIN if self.asked is None else self.asked.analysis
        made = at_horizons(of_horizons, curve, analysis) if curve and of_horizons else evaluations[0]
        found = next((each for each in outcomes if isinstance(each, QuantileThresholds)), None)
        return made if found is None else preceded(made, found)


_IN_WORDS = {
    QuantileThresholds: "it has thresholds for one",
    CellCounts: "it has counts for a report",
    CensoringCurve: "it has the censoring curve for one",
    Replicates: "it has replicates of counts for a report",
}


def read_result(path: str | os.PathLike[str]) -> Result:
    """Read the file of a result, whoever has signed it.

    Raises `InputError` where it cannot be read, or is no result of this release.
    """
    name = os.fspath(path)
    try:
        return parsed(json.loads(read_text(path)))
    except FileNotFoundError:
        raise InputError(f"result {name!r} does not exist", file=name) from None
    except OSError as error:
        raise InputError(f"result {name!r} cannot be read: {error.strerror}", file=name) from None
    except RecursionError:
        raise InputError(f"result {name!r}: it is no JSON", file=name) from None
    except (InputError, ValueError) as error:
        raise InputError(f"result {name!r}: {error}", file=name) from None


def parsed(told: Any) -> Result:
    """Return a result from plain JSON, as `write` has made it; raise `InputError` for anything else."""
    try:
        names = [name for name in (*KINDS, ERROR) if name in told]
        if not names and "metrics" in told:
            raise InputError("it has a report's numbers, and is no site's result; its page lies beside it")
        if not all_printable([value for name, value in told.items() if name != ERROR]):
            raise InputError("it holds characters that no text of a result has")
        before = [_of_plain(each) for each in told.get("before", ())]
        error = told_error(told[ERROR]) if names == [ERROR] else None
        own = () if error else (_of_plain({name: told[name] for name in names}),)
        asked = msgspec.convert(told["asked"], Asked) if "asked" in told else None
        time = datetime.fromisoformat(told["time"])
        said = {name: str(told[name]) for name in ("party", "session", "version")}
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, msgspec.ValidationError) as wrong:
        why = str(wrong)[:200] if isinstance(wrong, (InputError, msgspec.ValidationError)) else type(wrong).__name__
        raise InputError(f"it is no result of a session, or one of another version of fhe-auc ({why})") from None
    return Result(time=time, outcomes=(*before, *own), asked=asked, error=error, **said)


def as_plain(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Return what a session has yielded as plain types, under the name of its kind."""
    (name,) = (name for name, kind in KINDS.items() if type(outcome) is kind)
    if isinstance(outcome, Evaluation):
        return {name: outcome.as_dict()}
    told = {each.name: getattr(outcome, each.name) for each in fields(outcome)}
    told["verified"] = verified_as_dict(told["verified"])
    told["study"] = None if outcome.study is None else outcome.study.as_dict()
    return {name: {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in told.items()}}


def as_error(error: EvaluationError) -> dict[str, dict[str, Any]]:
    """Return why a session has yielded nothing, likewise."""
    told = {"type": type(error).__name__, "message": str(error)}
    check = getattr(error, "check", None)
    return {ERROR: {**told, "check": check} if check else told}


def told_error(told: Mapping[str, str]) -> FheAucError:
    """Return the error of which type and message were written down; an `EvaluationError` for one that is not ours."""
    kind = getattr(errors, told["type"], None)
    if not (isinstance(kind, type) and issubclass(kind, FheAucError)):
        kind = EvaluationError
    if "check" in told and issubclass(kind, ResultCheckError):
        return kind(told["message"], check=told["check"])  # type: ignore[arg-type] # as it was written
    return kind(told["message"])


def earlier(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return what files of this site say for `before`, in their order; errors as `read`."""
    return [as_plain(read_result(path).outcome) for path in paths]


def _of_plain(told: Mapping[str, Any]) -> Outcome:
    ((name, content),) = told.items()
    kind, found = KINDS[name], dict(content)
    for tuples in ("warnings", "own_warnings", "unproved_parties"):
        found[tuples] = tuple(map(str, found[tuples]))
    said = found["verified"]
    found["verified"] = said["aggregation"]
    found["study"] = None if found["study"] is None else Study.from_dict(found["study"])
    weighted = np.float64 if found.get("squares") else None  # sums that another tool has written as integers, too
    for array, dtype in _ARRAYS.get(kind, {}).items():
        dtype = dtype or weighted
        found[array] = None if found[array] is None else np.array(found[array], dtype)
    if kind is not Evaluation:
        return kind(**found)
    for number in ("auc", "binning_error", "numerical_error"):
        found[number] = math.nan if found[number] is None else float(found[number])
    found.pop("horizon", None)  # that of the first estimate
    for fraction in FRACTIONS:
        found[fraction] = None if found[fraction] is None else Fraction(found[fraction])
    found |= {"inputs_proved": said["parties"] or "", "inputs_not_proved": tuple(said.get("inputs not proved", ()))}
    found["interval"] = None if found["interval"] is None else Interval(**found["interval"])
    found["estimates"] = tuple(GroupEstimate.from_dict(each) for each in found["estimates"])
    found["comparisons"] = msgspec.convert(found["comparisons"], tuple[Comparison, ...])
    found["sites"] = msgspec.convert(found["sites"], tuple[SiteSummary, ...])
    if found["histogram"] is not None:
        from fhe_auc.metrics.histogram import Histogram

        found["histogram"] = Histogram(**{side: np.array(values) for side, values in found["histogram"].items()})
    return Evaluation(**found)
