"""Public sets with follow-up times, scores of two small models for each, and what other programs say of these.

Scores are risks 1 − exp(−exp(linear predictor)) by coefficients of Cox models, rounded here. Rows of two sets stand in
tests/support/follow_up, whose README says whence; those of the others come from scikit-survival, where it is installed.

    python -m tests.support.follow_up_sets FOLDER       # writes all sets there (scikit-survival and lifelines are
    Rscript tests/support/follow_up/numbers.R FOLDER    # installed); then what R says of them, on standard output
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

FILES = Path(__file__).parent / "follow_up"
Numbers: TypeAlias = NDArray[np.float64]
Model: TypeAlias = tuple[float, Mapping[str, float]]  # intercept, and coefficients by column


class FollowUpSet(NamedTuple):
    """Rows of a set: events 0 (censored), 1 and 2 (competing), times in its unit, scores by both models."""

    times: Numbers
    events: NDArray[np.int64]
    scores: tuple[Numbers, Numbers]


class Said(NamedTuple):
    """What riskRegression says of a set at a horizon; `observed` is survival's, of risk; `lagging` scikit-survival's.

    Errors are those of `cens.model = "km"`, and with `conservative = TRUE`, which takes the weights as known. Of the
    difference of both models, second minus first, there is only the former.
    """

    aucs: tuple[float, float]
    errors: tuple[float, float]
    known: tuple[float, float]
    difference_error: float
    observed: float
    brier: tuple[float, float]  # score and standard error, of the first model
    lagging: tuple[float, float] | None  # by G(T) for G(T−); not with competing risks


MODELS: dict[str, tuple[Model, Model]] = {
    "veterans": ((1.65, {"Karnofsky_score": -0.0334}), (-0.9, {"Age_in_years": 0.0085})),
    "gbsg2": (
        (-1.374, {"age": -0.003, "pnodes": 0.0509, "progrec": -0.00264, "tsize": 0.00756}),
        (-1.754, {"pnodes": 0.0534, "tsize": 0.007}),
    ),
    "whas500": (
        (-4.4, {"age": 0.0525, "chf": 0.778, "hr": 0.0088, "sysbp": -0.00428, "bmi": -0.0439}),
        (-6.046, {"age": 0.0663}),
    ),
    "flchain": ((-9.788, {"age": 0.1042, "kappa": 0.0797, "lambda": 0.1807}), (-9.605, {"age": 0.1085})),
    "rossi": ((-0.606, {"fin": -0.347, "age": -0.0671, "prio": 0.0969}), (-0.44, {"age": -0.0642})),
}
HORIZONS: dict[str, tuple[float, float]] = {
    "veterans": (80, 180), "gbsg2": (730, 1460), "whas500": (365, 1095), "flchain": (1825, 3650), "rossi": (26, 45),
    "competing": (250, 500),
}  # fmt: skip


def load(name: str) -> FollowUpSet:
    """Return a set's rows; skips the test where these are scikit-survival's, and it is not installed."""
    if not (file := FILES / f"{name}.csv").exists():
        pytest.importorskip("sksurv")
        return _of_scikit_survival(name)
    with file.open(newline="") as lines:
        rows = np.array([[float(each) for each in row] for row in list(csv.reader(lines))[1:]])
    return FollowUpSet(rows[:, 0], rows[:, 1].astype(np.int64), (rows[:, 2], rows[:, 3]))


def said() -> dict[tuple[str, float], Said]:
    """Return what other programs say, by set and horizon."""
    with (FILES / "numbers.csv").open(newline="") as lines:
        found = {}
        for row in csv.DictReader(lines):
            n = {key: float(value) if value not in ("", "NA") else None for key, value in row.items() if key != "set"}
            pairs: Any = [(n[f"{key}1"], n[f"{key}2"]) for key in ("auc", "error", "known", "lagging")]
            lagging = None if pairs[3][0] is None else pairs[3]
            told: Any = (*pairs[:3], n["difference_error"], n["observed"], (n["brier"], n["brier_error"]), lagging)
            found[row["set"], float(row["horizon"])] = Said(*told)
        return found


def lagging(name: str, rows: FollowUpSet) -> list[tuple[float, float]]:
    """Return scikit-survival's AUC(t) of both models at each horizon.

    Follow-up ends soon after the horizon here: scikit-survival refuses rows among whose events G(T) is 0.
    """
    from sksurv.metrics import cumulative_dynamic_auc  # type: ignore[import-not-found]
    from sksurv.util import Surv  # type: ignore[import-not-found]

    found = []
    for horizon in HORIZONS[name]:
        ended = np.minimum(rows.times, horizon + 1)
        outcome = Surv.from_arrays((rows.events == 1) & (rows.times <= horizon), ended)
        aucs = [float(cumulative_dynamic_auc(outcome, outcome, by, [horizon])[1]) for by in rows.scores]
        found.append((aucs[0], aucs[1]))
    return found


def competing() -> FollowUpSet:
    """Draw rows with competing events, of which early ones are told apart better: the set of that name."""
    rng = np.random.default_rng(68)
    marker, other = rng.normal(size=(2, 400))
    early = rng.random(400) < 1 / (1 + np.exp(1.2 - 2 * marker))
    event = np.where(early, rng.exponential(120, 400), rng.exponential(1500, 400))
    competes, censored = rng.exponential(1400 * np.exp(-other / 2)), rng.exponential(700, 400)
    times = np.maximum(np.ceil(np.minimum(np.minimum(event, competes), censored)), 1.0)
    events = np.where(censored < np.minimum(event, competes), 0, np.where(event < competes, 1, 2))
    scores = [np.round(1 / (1 + np.exp(0.7 - by)), 5) for by in (1.2 * marker, marker + rng.normal(size=400))]
    return FollowUpSet(times, events, (scores[0], scores[1]))


def _of_scikit_survival(name: str) -> FollowUpSet:
    from sksurv import datasets  # type: ignore[import-not-found]

    loaders = {"veterans": "load_veterans_lung_cancer", "whas500": "load_whas500", "flchain": "load_flchain"}
    table, found = getattr(datasets, loaders[name])()
    event, time = found.dtype.names
    return _scored(name, found[time], found[event], table)


def _scored(name: str, times: Any, events: Any, table: Any) -> FollowUpSet:
    scores = []
    for intercept, coefficients in MODELS[name]:
        predictor = intercept + sum(by * np.asarray(table[key], float) for key, by in coefficients.items())
        scores.append(np.round(1 - np.exp(-np.exp(predictor)), 5))
    return FollowUpSet(np.asarray(times, float), np.asarray(events, np.int64), (scores[0], scores[1]))


def _of_lifelines(name: str) -> FollowUpSet:
    from lifelines import datasets  # type: ignore[import-not-found]

    table = getattr(datasets, f"load_{name}")()
    return _scored(
        name, *(table[each] for each in {"rossi": ("week", "arrest"), "gbsg2": ("time", "cens")}[name]), table
    )


def _write(folder: Path) -> None:
    """Write all sets, and what scikit-survival says of them."""
    own = {"competing": competing, "gbsg2": lambda: _of_lifelines("gbsg2"), "rossi": lambda: _of_lifelines("rossi")}
    for name in HORIZONS:
        found = own.get(name, lambda name=name: _of_scikit_survival(name))()
        with (folder / f"{name}.csv").open("w", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(["time", "event", "first", "second"])
            lines.writerows(
                [f"{time:g}", event, f"{a:.5f}", f"{b:.5f}"]
                for time, event, a, b in zip(found.times, found.events, *found.scores, strict=True)
            )
        if name != "competing":
            for horizon, (first, second) in zip(HORIZONS[name], lagging(name, found), strict=True):
                print(f"scikit-survival: {name},{horizon},{first:.12f},{second:.12f}")


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
