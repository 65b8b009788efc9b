"""How far the standard error of merged bins is from DeLong's on the rows, and when a result says so.

    OMP_NUM_THREADS=1 python docs/evidence/studies/merged_bins.py [--sets 3000]

Sums are in the clear, at `hybrid:5000`; "a word" is a warning that scores crowd, or a binning error above a quarter of
the standard error. First the bundled sets and named crowds; then random ones, one to five of random place, width and
shares of either label, normal or uniform, some shifted by label, some rounded; then what classifiers say.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from fhe_auc.metrics.binning_error import TELLING
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN
from fhe_auc.question.score_bins import numbers, of_one_number
from fhe_auc.results.delong import delong_error
from fhe_auc.rlwe import modular
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from fhe_auc_protocols.exact_auc.release_part import Reading
from fhe_auc_protocols.exact_auc.tie_sums import runs_of

GRID = thresholds.hybrid(5000)
SUMS = AnalysisSums(PLAIN, len(GRID), True, runs=runs_of(of_one_number(GRID)))
PRIME, MOST = 2**50 - 27, 10**5  # no sum of so many rows is as large
Rows: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.float64]]


class Found(NamedTuple):
    off: float  # the standard error over that of the rows, less 1
    word: bool
    wrong: float  # rows of the rarer label on the wrong side


def of_rows(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    ones, zeros = scores[labels], scores[~labels]
    ranks = rankdata(np.concatenate([ones, zeros]))
    sides = (ranks[: len(ones)] - rankdata(ones)) / len(zeros), (ranks[len(ones) :] - rankdata(zeros)) / len(ones)
    return float(np.sqrt(sum(side.var(ddof=1) / len(side) for side in sides)))


def found(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> Found | None:
    """Return what a session says, None where the rows' standard error is 0 or one label has fewer than two rows."""
    ones, zeros = int(labels.sum()), int((~labels).sum())
    if min(ones, zeros) < 2 or not (truth := of_rows(labels, numbers(scores))):
        return None
    sketch = SUMS.sketch(PartyData.from_arrays("all", labels, scores), GRID, MOST, PRIME)
    reading = Reading(analysis=PLAIN, max_rows=MOST, modulus=PRIME, level=0.95)
    SUMS.read_sums(modular.centred([SUMS.release.totals(modular.residues(sketch, PRIME), PRIME)], [PRIME]), reading)
    (own,) = reading.aucs
    assert own.auc is not None
    assert own.merged is not None
    error = delong_error(own.merged, ones, zeros) or 0.0
    word = own.crowded or float(own.binning_error) > TELLING * error
    return Found(error / truth - 1, word, min(ones, zeros) * float(min(own.auc, 1 - own.auc)))


def classified() -> Iterator[Rows]:
    models = LogisticRegression(max_iter=500), RandomForestClassifier(100, random_state=0), GaussianNB()
    for share in (0.5, 0.1, 0.02, 0.004):
        for apart in (0.5, 1.0):
            rows, labels = make_classification(
                16_000, n_informative=6, weights=[1 - share], class_sep=apart, flip_y=0.005, random_state=2
            )
            for model in (*models, HistGradientBoostingClassifier(max_iter=60, random_state=0)):
                scores = model.fit(rows[:6000], labels[:6000]).predict_proba(rows[6000:])[:, 1]
                for most in (1000, 10_000):
                    yield labels[6000:][:most] == 1, scores[:most]


def named(rng: np.random.Generator) -> Iterator[tuple[str, Rows]]:
    x = rng.normal(size=20_000)
    labels = rng.random(len(x)) < 1 / (1 + np.exp(1 - x))
    of_x = {".5 + .0005x": 0.5 + 0.0005 * x, ".3 + .002x": 0.3 + 0.002 * x, ".002e^.1x": 0.002 * np.exp(0.1 * x)}
    for name, scores in (of_x | {".0005e^.3x": 0.0005 * np.exp(0.3 * x)}).items():
        yield name, (labels, scores)
    at = rng.choice(4, len(x))
    labels = rng.random(len(x)) < np.array([0.1, 0.15, 0.2, 0.3])[at]
    yield "four values .100 to .103", (labels, np.array([0.1, 0.101, 0.102, 0.103])[at])
    yield "four values .0020 to .0023", (labels, np.array([0.002, 0.0021, 0.0022, 0.0023])[at])
    labels = rng.random(len(x)) < 0.5
    low = rng.random(len(x)) < np.where(labels, 0.05, 0.95)
    yield "two crowds, 95 and 5 %", (labels, np.where(low, 0.2023, 0.7023) + 0.0002 * rng.random(len(x)))


def crowded(rng: np.random.Generator) -> Rows:
    rows, crowds = int(rng.choice([2000, 20_000, 20_000])), int(rng.integers(1, 6))
    labels = rng.random(rows) < rng.choice([0.5, 0.2, 0.05, 0.01])
    places = np.where(rng.random(crowds) < 0.5, rng.random(crowds), 10 ** rng.uniform(-6, -1, crowds))
    widths = places * 10 ** rng.uniform(-4, -0.5, crowds)
    ones, zeros = (rng.dirichlet(np.full(crowds, rng.choice([0.3, 1, 3]))) for _ in range(2))
    if rng.random() < 0.5:  # a good model
        order, ones, zeros = np.argsort(places), np.sort(ones), np.sort(zeros)[::-1]
        places, widths = places[order], widths[order]
    at = np.where(labels, rng.choice(crowds, rows, p=ones), rng.choice(crowds, rows, p=zeros))
    shift = rng.choice([0, 0, 0.3, 1, -0.3]) * labels
    within = rng.normal(size=rows) + shift if rng.random() < 0.5 else rng.random(rows) ** np.exp(-shift)
    if rng.random() < 0.2:
        within = np.round(within * rng.integers(1, 8)) / 5
    scores = np.clip(places[at] + widths[at] * within, 0, 1)
    return labels, np.round(scores, int(rng.integers(2, 5))) if rng.random() < 0.15 else scores


def show(name: str, every: list[Found]) -> None:
    silent, told = (np.array([each.off for each in every if each.word == word]) for word in (False, True))
    print(f"{name}: {len(every)} sets, {len(told)} with a word", end="")
    if len(silent):
        within = (abs(silent) <= 0.005).sum()
        print(
            f"; without one {within} of {len(silent)} within 0.5 %, {silent.min():+.2%} to {silent.max():+.2%}", end=""
        )
    if len(told):
        print(f"; with one {(told < -0.005).sum()} too small by more, median {np.median(told):+.1%}", end="")
    print(flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sets", type=int, default=3000)
    arguments, rng = parser.parse_args(), np.random.default_rng(11)
    print("merged bins:", len(SUMS.parts[0].merged[0].starts))
    for name in datasets.NAMES:
        rows = datasets.load(name)
        labels, scores = (np.concatenate([getattr(each, of) for each in rows]) for of in ("labels", "y_score"))
        print(name, found(labels == 1, scores))
    for name, rows in named(rng):
        print(name, found(*rows))
    for name, sets in (("random crowds", (crowded(rng) for _ in range(arguments.sets))), ("classifiers", classified())):
        every = [each for each in (found(*rows) for rows in sets) if each is not None]
        for few in (False, True):
            own = [each for each in every if (each.wrong < 25) == few]
            show(f"{name}, {'fewer than 25' if few else '25 or more'} wrong rows", own)
