"""Scores that medicine uses have the interval of DeLong over rows (pROC's definition, in numpy), by default everywhere.

Points and their frequencies are made up by the published scales: how far values reach, and how rare the outcome is.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fhe_auc.results.intervals import Interval, quantile
from fhe_auc.rows import datasets
from tests.support import delong
from tests.support.chosen import federated_auc, federated_report

RANDOM = np.random.default_rng(30)

Rows = tuple[NDArray[np.int64], NDArray[np.float64]]


def points(rows: int, events: float, low: float, high: float, mean: float, shift: float, spread: float) -> Rows:
    labels = (RANDOM.random(rows) < events).astype(np.int64)
    return labels, np.clip(np.round(RANDOM.normal(mean + shift * labels, spread)), low, high)


def counted(*pairs: tuple[float, int, int]) -> Rows:
    """Rows of a table: score, negatives, positives."""
    scores, labels = (
        [np.repeat([each[0]] * 2, each[1:]) for each in pairs],
        [np.repeat([0, 1], each[1:]) for each in pairs],
    )
    return np.concatenate(labels), np.concatenate(scores)


def tree(rows: int) -> Rows:
    leaves = RANDOM.choice(RANDOM.random(8).astype(np.float32), rows)
    return (RANDOM.random(rows) < leaves).astype(np.int64), leaves.astype(np.float64)


SCORES = {
    "points 0 to 9": points(6000, 0.2, 0, 9, 4, 1.2, 2),
    "two values": counted((0.0030, 56_500, 170), (0.0032, 56_900, 216)),
    "four values": counted((0.001, 200_000, 30), (0.002, 50_000, 60), (0.01, 15_000, 180), (0.05, 2_200, 460)),
    "tree": tree(4000),
    "CHA2DS2-VASc": points(3000, 0.06, 0, 9, 3, 1, 1.7),
    "NEWS2": points(5000, 0.05, 0, 20, 2, 3, 2.5),
    "Apgar": points(4000, 0.02, 0, 10, 9, -2.5, 1),
    "qSOFA": points(2000, 0.1, 0, 3, 0.7, 0.8, 0.7),
    "CURB-65": points(1500, 0.1, 0, 5, 1.5, 1, 1),
    "Wells": (points(1000, 0.25, 0, 25, 6, 5, 5)[0], RANDOM.integers(0, 26, 1000) / 2),
    "-3 to 3": points(2000, 0.3, -3, 3, 0, 0.7, 1.5),
}
SCORES |= {
    f"{name}, as shares": (SCORES[name][0], SCORES[name][1] / of) for name, of in (("points 0 to 9", 10), ("NEWS2", 20))
}


def width_over_rows(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> float:
    """How wide DeLong's interval is on the logit scale."""
    auc, error = delong.of_rows(scores[labels == 1], scores[labels == 0])
    reach = quantile(0.95) * error / (auc * (1 - auc))
    low, high = (1 / (1 + np.exp(-(np.log(auc / (1 - auc)) + end))) for end in (-reach, reach))
    return float(high - low)


def _sites(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> dict[str, NDArray[np.generic]]:
    site = np.array(["north", "south", "west"])[RANDOM.integers(0, 3, len(labels))]
    return {
        "y": labels,
        "score": scores,
        "other": np.roll(scores, 1),
        "site": site,
        "sex": np.where(site < "o", "f", "m"),
    }


WAYS: dict[str, Callable[..., Interval | None]] = {
    "evaluate": lambda rows, asked: federated_auc(rows, **asked).interval,
    "groups": lambda rows, asked: federated_auc(rows, by="sex", **asked).interval,
    "two models": lambda rows, asked: federated_auc(rows, **asked | {"score": ["score", "other"]}).interval,
    "report": lambda rows, asked: federated_report(rows, **asked).card.interval,
    "helper": lambda rows, asked: federated_auc(rows, keys="helper", row_caps=len(rows["y"]), **asked).interval,
}


FAST = {("evaluate", "tree"), ("evaluate", "NEWS2"), ("helper", "points 0 to 9, as shares")}


@pytest.mark.parametrize(
    ("way", "name"),
    [
        pytest.param(way, name, marks=() if (way, name) in FAST else pytest.mark.slow)
        for way, name in itertools.product(WAYS, SCORES)
    ],
)
def test_true_ties_widen_no_interval(way: str, name: str) -> None:
    """One site of three writes its scores in single precision."""
    rows = _sites(*SCORES[name])
    rows["score"] = np.where(rows["site"] == "west", rows["score"].astype(np.float32), rows["score"])
    if way == "helper" and len(rows["y"]) > 10_000:
        pytest.skip("more rows than one prime can prove")
    width = width_over_rows(*SCORES[name])
    interval = WAYS[way](rows, {"label": "y", "score": "score", "site": "site"})
    assert interval is not None
    assert interval.high - interval.low == pytest.approx(width, rel=0.02)


@pytest.mark.parametrize("name", datasets.NAMES)
def test_bundled_scores_are_widened_by_nothing_by_default(name: str) -> None:
    parties = datasets.load(name)
    rows = tuple(np.concatenate([getattr(each, column) for each in parties]) for column in ("y_true", "y_score"))
    width = width_over_rows(*rows)
    interval = federated_auc(parties).interval
    assert interval is not None
    assert interval.high - interval.low == pytest.approx(width, rel=0.02)
