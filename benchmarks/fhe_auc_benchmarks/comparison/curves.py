"""What ε buys at a size: the table of docs/evidence/noise.md, by ``python -m fhe_auc_benchmarks.comparison.curves``.

Made-up scores: logistic of intercept + 0.8x, with x normal of variance 1, raised in positives so that the AUC is as
given; rows are drawn several times. Noise is drawn from its law, seeded (`simulated`, `simulated_curves`).
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.question import thresholds
from fhe_auc.results.noise_intervals import bands
from fhe_auc_benchmarks.comparison import simulated
from fhe_auc_benchmarks.comparison.simulated_curves import Curves, dpauc, fedcurve, private_histogram
from fhe_auc_protocols.dpauc.budget import GAUSSIAN, LAPLACE, Budget
from fhe_auc_protocols.dpauc.roc import statistics

_PARTIES, _DELTA, _LEVEL, _FPR = 10, 1e-6, 0.95, 0.1
_DRAWN = 10  # times that rows are drawn
_BANDS = 3  # of so many of them a session's bands are computed
_QUANTILES = tuple(2**k for k in range(4, 11))  # of fedcurve
_POINTS = (25, 50, 100)  # of DPAUC
_METHODS = "report", "fedcurve", "DPAUC"
_HEAD = ["rows, positive, AUC", "ε", "AUC: `verified`", "report", "1/(εP)", "TPR ±"]
_HEAD += [f"{what}: {method}" for what in ("ROC", "PR") for method in _METHODS]


class MadeUp(NamedTuple):
    """A set of scores."""

    rows: int
    positives: int
    auc: float
    intercept: float

    def drawn(self, random: np.random.Generator) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return labels and scores."""
        labels = np.arange(self.rows) < self.positives
        x = random.normal(size=self.rows) + math.sqrt(2) * NormalDist().inv_cdf(self.auc) * labels
        return labels, 1 / (1 + np.exp(-(self.intercept + 0.8 * x)))


SETS = (
    MadeUp(2_000, 105, 0.723, -3.0),
    MadeUp(30_000, 4_053, 0.853, -2.0),
    MadeUp(163_673, 40_050, 0.768, -1.2),
    MadeUp(164_261, 588, 0.647, -5.8),
)


def measured(made_up: MadeUp, epsilon: float, *, runs: int, seed: int) -> Mapping[str, NDArray[np.float64]]:
    """Return mean errors of "verified", "report", "fedcurve" and "DPAUC": of AUC, ROC and PR, NaN for what is not.

    ε is of a row replaced. Of fedcurve and DPAUC they are each the least that some number of points, or mechanism,
    gives: a choice that nobody can make without the rows. "band" is half the width of the report's band at one FPR.
    """
    found = defaultdict[tuple[str, int, str], list[tuple[float, ...]]](list)
    random, some = np.random.default_rng([seed, made_up.rows]), math.ceil(runs / _DRAWN)
    for draw in range(_DRAWN):
        labels, scores = made_up.drawn(random)
        truth = Curves.of_rows(labels, scores)
        pool = simulated.Pool.of(labels, scores, thresholds.hybrid(5000))
        terms = simulated.private_budget(made_up.rows, _PARTIES, epsilon, "row")
        for auc in simulated.private_aucs(pool, terms, runs=some, random=random).tolist():
            found["verified", 0, ""].append((abs(auc - truth.auc), math.nan, math.nan))
        sessions = [run for run in islice(private_histogram(labels, scores, _PARTIES, epsilon, random), some) if run]
        found["report", 0, ""] += _errors((Curves.of_fit(each.fit) for each in sessions), truth)
        for histogram, noise, _ in sessions[: draw < _BANDS]:
            of_run = bands(histogram, noise, _LEVEL)
            found["band", 0, ""].append((float(np.interp(_FPR, of_run.fpr, of_run.high - of_run.low)) / 2,))
        for points in _QUANTILES:
            curves = islice(fedcurve(labels, scores, points, epsilon / 2, random), some)
            found["fedcurve", points, ""] += _errors(curves, truth)
        for points in _POINTS:
            grid = thresholds.dpauc(points)
            exact = statistics(labels, scores, grid)
            for mechanism, more in ((LAPLACE, {}), (GAUSSIAN, {"delta": _DELTA})):
                asked = {"epsilon": epsilon, "budget_thresholds": points, **more}
                budget = Budget.checked(mechanism, asked, len(grid))
                curves = islice(dpauc(exact, budget, _PARTIES, random), some)
                found["DPAUC", points, mechanism] += _errors(curves, truth)
    means = {key: np.mean(each, axis=0) for key, each in found.items() if each}
    return {
        name: np.min([mean for (of, *_), mean in means.items() if of == name], axis=0)
        for name in dict.fromkeys(name for name, *_ in means)
    }


def _errors(curves: Iterable[Curves | None], truth: Curves) -> list[tuple[float, float, float]]:
    return [(abs(each.auc - truth.auc), *each.area_errors(truth)) for each in curves if each]


def table(sets: Iterable[MadeUp], epsilons: Sequence[float], *, runs: int, seed: int) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield f"| {' | '.join(_HEAD)} |"
    yield f"|{'---|' * len(_HEAD)}"
    for made_up in sets:
        name = f"{made_up.rows:,}, {made_up.positives:,}, {made_up.auc:g}"
        for epsilon in epsilons:
            found = measured(made_up, epsilon, runs=runs, seed=seed)
            least = 1 / (epsilon * min(made_up.positives, made_up.rows - made_up.positives))
            numbers = [found["verified"][0], found["report"][0], least, found["band"][0]]
            numbers += [found[method][what] for what in (1, 2) for method in _METHODS]
            yield f"| {name} | {epsilon:g} | {' | '.join(f'{each:.2g}' for each in numbers)} |"
            name = ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m fhe_auc_benchmarks.comparison.curves", description=__doc__)
    parser.add_argument("--rows", type=int, help="of one set of your own, instead of the four")
    parser.add_argument("--positives", type=int, default=0)
    parser.add_argument("--auc", type=float, default=0.75)
    parser.add_argument("--epsilon", default="0.6,2,6", help="budgets of a row replaced, separated by commas")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=69)
    asked = parser.parse_args()
    sets: tuple[MadeUp, ...] = SETS
    if asked.rows is not None:
        if not 0 < asked.positives < asked.rows or not 0 < asked.auc < 1:
            parser.error("give --rows, fewer --positives, 1 at least, and an --auc between 0 and 1")
        odds = asked.positives / (asked.rows - asked.positives)
        sets = (MadeUp(asked.rows, asked.positives, asked.auc, math.log(odds)),)
    epsilons = [float(each) for each in asked.epsilon.split(",")]
    for line in table(sets, epsilons, runs=asked.runs, seed=asked.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
