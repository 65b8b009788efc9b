"""What ε buys at a size: the table of docs/evidence/noise.md, by ``python -m fhe_auc_benchmarks.comparison.curves``.

Made-up scores: logistic of intercept + 0.8x, with x normal of variance 1, raised in positives so that the AUC is as
given; rows are drawn ten times. Noise is drawn from its law, seeded. ε is of a row replaced.

Of fedcurve and DPAUC each number is the least that any number of points, or mechanism, gives: a choice that nobody can
make without the rows. "TPR ±" is half the width of the report's 95 % band at a false positive rate of 0.1.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from fhe_auc.question import thresholds
from fhe_auc.results.noise_intervals import bands
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.comparison import simulated
from fhe_auc_benchmarks.comparison.measure import ProtocolComparison, compare
from fhe_auc_benchmarks.comparison.simulated_curves import private_histogram

_PARTIES, _DRAWN, _BANDS, _RUNS = 10, 10, 3, 20  # runs for each time that rows are drawn; bands of one in three of them
_POINTS = tuple(2**k for k in range(4, 11))  # quantiles of fedcurve, thresholds of DPAUC
_COMPARED = "histogram-distributed-dp", "fedcurve", "dpauc-laplace", "dpauc-gaussian"
_HEAD = (
    "rows, positive, AUC | ε | AUC: `verified` | report | 1/(εP) | TPR ± | ROC: report | fedcurve | DPAUC | PR: report "
    "| fedcurve | DPAUC"
)


class MadeUp(NamedTuple):
    """A set of scores."""

    rows: int
    positives: int
    auc: float
    intercept: float

    def drawn(self, random: np.random.Generator) -> PartyData:
        """Return rows."""
        labels = np.arange(self.rows) < self.positives
        x = random.normal(size=self.rows) + math.sqrt(2) * NormalDist().inv_cdf(self.auc) * labels
        return PartyData.from_arrays("all", labels, 1 / (1 + np.exp(-(self.intercept + 0.8 * x))))


SETS = (
    MadeUp(2_000, 105, 0.723, -3.0),
    MadeUp(30_000, 4_053, 0.853, -2.0),
    MadeUp(163_673, 40_050, 0.768, -1.2),
    MadeUp(164_261, 588, 0.647, -5.8),
)


def lines(made_up: MadeUp, epsilons: tuple[float, ...], seed: int = 69) -> Iterator[str]:
    """Yield a line of the table for each ε."""
    found = defaultdict[tuple[str, float, int], list[tuple[float, ...]]](list)
    for draw in range(_DRAWN):
        random = np.random.default_rng([seed, made_up.rows, draw])
        rows = made_up.drawn(random)
        parts = [PartyData.from_arrays(str(k), rows.y_true[k::10], rows.y_score[k::10]) for k in range(_PARTIES)]
        asked = ProtocolComparison(
            protocols=_COMPARED, epsilons=epsilons, thresholds=_POINTS, runs=_RUNS, seed=draw, costs=False
        )
        truth, *measured = compare(parts, asked)
        for row in measured:
            found[row.method, row.epsilon or 0, row.thresholds or 0].append((row.error, row.roc_error, row.pr_error))
        pool = simulated.Pool.of(rows.y_true, rows.y_score, thresholds.hybrid(5000))
        for epsilon in epsilons:
            terms = simulated.private_budget(made_up.rows, _PARTIES, epsilon, "row")
            aucs = simulated.private_aucs(pool, terms, runs=_RUNS, random=random)
            found["verified", epsilon, 0].append((float(np.abs(aucs - truth.auc).mean()),))
            for run in islice(private_histogram(rows, _PARTIES, epsilon, random), draw < _BANDS):
                if run is not None:
                    band = bands(*run[:2], 0.95)["roc"]
                    found["band", epsilon, 0].append((float(np.interp(0.1, band.at, band.high - band.low)) / 2,))
    means = {key: np.mean(each, axis=0) for key, each in found.items()}
    name = f"{made_up.rows:,}, {made_up.positives:,}, {made_up.auc:g}"
    for epsilon in epsilons:
        (verified,), (band,), *curves = (
            np.nanmin([mean for (of, at, _), mean in means.items() if of.startswith(method) and at == epsilon], axis=0)
            for method in ("verified", "band", "histogram", "fedcurve", "dpauc")
        )
        least = 1 / (epsilon * min(made_up.positives, made_up.rows - made_up.positives))
        numbers = verified, curves[0][0], least, band, *(each[what] for what in (1, 2) for each in curves)
        yield f"| {name} | {epsilon:g} | {' | '.join(f'{each:.2g}' for each in numbers)} |"
        name = ""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m fhe_auc_benchmarks.comparison.curves")
    parser.add_argument("--rows", type=int, default=0, help="of one set of your own, instead of the four")
    parser.add_argument("--positives", type=int, default=0)
    parser.add_argument("--auc", type=float, default=0.75)
    parser.add_argument("--epsilon", default="0.6,2,6", help="budgets, separated by commas")
    asked = parser.parse_args()
    sets: tuple[MadeUp, ...] = SETS
    if asked.rows:
        if not 0 < asked.positives < asked.rows or not 0 < asked.auc < 1:
            parser.error("give --rows, fewer --positives, 1 at least, and an --auc between 0 and 1")
        odds = asked.positives / (asked.rows - asked.positives)
        sets = (MadeUp(asked.rows, asked.positives, asked.auc, math.log(odds)),)
    print(f"| {_HEAD} |\n|{'---|' * len(_HEAD.split(' | '))}")
    for made_up in sets:
        for line in lines(made_up, tuple(map(float, asked.epsilon.split(",")))):
            print(line, flush=True)


if __name__ == "__main__":
    main()
