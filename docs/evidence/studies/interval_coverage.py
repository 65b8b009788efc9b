"""How often intervals of 95 % hold what is true, and how wide they are, as `evaluate` and the report make them.

    OMP_NUM_THREADS=1 python docs/evidence/studies/interval_coverage.py        # 20 minutes; --studies 200: 2
    OMP_NUM_THREADS=1 python docs/evidence/studies/interval_coverage.py --encrypted 20

Counts are in the clear, and small ones hidden; `--encrypted` compares so many studies a cell with `federated_auc` and
`federated_report`. Scores are binormal; points are such scores in ten steps. What is true is what 4·10⁶ rows have.
Cells are of 20 rows of the rarer label or more, or of 2 to 19. In them: studies whose interval holds what is true, in
%, and the mean width over 3.92 standard deviations. (Of patients: this file in commit 87aa8b88.)
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fhe_auc import federated_auc, federated_report
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN
from fhe_auc.question.score_bins import next_number, of_one_number
from fhe_auc.results.decisions import decision
from fhe_auc.results.intervals import FEWEST, Interval
from fhe_auc.results.report_measures import score_measures
from fhe_auc.rlwe import modular
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from fhe_auc_protocols.exact_auc.release_part import Reading
from fhe_auc_protocols.exact_auc.tie_sums import runs_of

PRIME, MOST = 2**50 - 27, 10**4  # no sum of so many rows is as large
Rows: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.float64]]


class Cell(NamedTuple):
    """Rows, of which this share is positive, with scores of that AUC (before they become points)."""

    rows: int
    share: float
    auc: float
    points: bool = False

    @property
    def few(self) -> bool:
        """Whether it is of 2 to 19 rows of the rarer label, not of more."""
        return self.rows * self.share < FEWEST


_CELLS = """
    100 .3 .75     100 .3 .9      300 .1 .8      300 .12 .95    300 .3 .7 points    500 .1 .75 points
    1000 .03 .75   1000 .03 .9    1000 .05 .85   5000 .02 .75   5000 .2 .8          1000 .3 .8 points
    100 .05 .8     100 .1 .75     300 .03 .9     1000 .01 .8    300 .04 .75 points
"""
CELLS = [
    Cell(int(rows), float(share), float(auc), bool(points))
    for rows, share, auc, points in re.findall(r"(\d+) (\S+) (\S+)( points)?", _CELLS)
]
NAMES = ("roc_auc", "partial_auc", "average_precision")
BOTH = ("sensitivity", "specificity")
HELD = [f"{found}_at_{held}_{at}" for found, held in (BOTH, BOTH[::-1]) for at in ("0.90", "0.95")]
CUTS = (0.4, 0.5, 0.6, 0.7)
STEPS = np.arange(10) / 10


def drawn(rng: np.random.Generator, cell: Cell) -> Rows:
    labels = rng.random(cell.rows) < cell.share
    scores = norm.cdf((rng.normal(size=cell.rows) + labels * np.sqrt(2) * norm.ppf(cell.auc)) / 2)
    return labels, np.floor(10 * scores) / 10 if cell.points else scores


def edges_of(cell: Cell) -> NDArray[np.float64]:
    own = [STEPS, next_number(STEPS)] if cell.points else []  # values of one's own rows have bins of their own
    return np.append(np.unique(np.concatenate([thresholds.resolve("hybrid:5000"), CUTS, *own])), 1.0)


def evaluated(data: PartyData, sums: AnalysisSums, grid: NDArray[np.float64]) -> tuple[float, Interval | None]:
    """Return AUC and interval as a session's sums have them: its standard error is of merged bins."""
    sketch = sums.sketch(data, grid, MOST, PRIME)
    totals = sums.release.totals(modular.residues(sketch, PRIME), PRIME)
    reading = Reading(analysis=PLAIN, max_rows=MOST, modulus=PRIME, level=0.95)
    sums.read_sums(modular.centred([totals], [PRIME]), reading)
    headline = reading.sayings[0](reading).headline
    assert headline is not None
    return headline.auc, headline.interval


def told(rows: Rows, edges: NDArray[np.float64]) -> dict[str, tuple[float, Interval | None]]:
    """Return value and interval of what needs no threshold, and of the rates at `CUTS`."""
    counted = Histogram.from_rows(PartyData.from_arrays("all", *rows), edges)
    found = {each.name: each for each in score_measures(counted, counted, 0.95, 10)}
    for cut in CUTS:
        found |= {f"{each.name} {cut}": each for each in decision(counted, "", cut, 0.95).measures}
    return {name: (each.estimate.value, each.interval) for name, each in found.items() if each.estimate is not None}


def of_cell(cell: Cell, studies: int) -> Iterator[str]:
    """Yield coverage and width of `NAMES`; the least, mean and highest coverage of rates, held and at `CUTS`."""
    rng, edges, found = np.random.default_rng(cell.rows), edges_of(cell), defaultdict(list)
    true = {name: value for name, (value, _) in told(drawn(rng, cell._replace(rows=4 * 10**6)), edges).items()}
    sums = AnalysisSums(PLAIN, len(edges) - 1, True, runs=runs_of(of_one_number(edges[:-1])))
    while len(found["roc_auc"]) < studies:
        rows = drawn(rng, cell)
        rarer = int(np.bincount(rows[0], minlength=2).min())
        if rarer < 2 or (rarer < FEWEST) != cell.few:
            continue
        auc = {"roc_auc": evaluated(PartyData.from_arrays("all", *rows), sums, edges[:-1])}
        for name, (value, interval) in (told(rows, edges) | auc).items():
            found[name].append((value, *((interval.low, interval.high) if interval else (np.nan, np.nan))))
    of = {name: np.transpose(each) for name, each in found.items()}
    for name in NAMES:  # no interval holds nothing
        value, low, high = of[name]
        width = np.nanmean(high - low) / 3.92 / value.std()
        yield f"{100 * np.mean((low <= true[name]) & (true[name] <= high)):.1f} ({width:.2f})"
    for names in (HELD, [f"{rate} {cut}" for rate in ("recall", "specificity") for cut in CUTS]):
        shown = {name: of[name][:, np.isfinite(of[name][1])] for name in names}
        held = [
            100 * np.mean((low <= true[name]) & (true[name] <= high))
            for name, (_, low, high) in shown.items()
            if len(low) > studies / 2 and 0.01 < true[name] < 0.99
        ]
        yield " / ".join(f"{each(held):.1f}" for each in (min, np.mean, max)) if held else "–"


def show(head: list[str], body: Iterable[list[object]]) -> None:
    """Print a Markdown table, each line as soon as it is known."""
    for line in itertools.chain([head, ["---"] * len(head)], body):
        print(f"| {' | '.join(map(str, line))} |", flush=True)


def compared(cell: Cell, studies: int) -> list[object]:
    """Return how many studies have the same interval, and the same values in the report, with encryption."""
    rng, edges, same = np.random.default_rng(1), edges_of(cell), np.zeros(2, np.int64)
    for _ in range(studies):
        labels, scores = drawn(rng, cell)
        sites, found = [(labels[at::3], scores[at::3]) for at in range(3)], told((labels, scores), edges)
        evaluated = federated_auc(sites, protocol="exact", thresholds=edges[:-1])
        shown = federated_report(sites, thresholds=edges[:-1]).as_dict()["metrics"]
        alike = [round(found[name][0], 4) == round(shown[name]["value"], 4) for name in (*NAMES, *HELD)]
        same += [evaluated.interval == found["roc_auc"][1], all(alike)]
    return [*cell, studies, *same]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--encrypted", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.encrypted:
        head = ["rows", "positive", "AUC", "points", "studies", "same interval", "same report"]
        show(head, (compared(each, arguments.encrypted) for each in CELLS if not each.few))
    else:
        head = ["rows", "positive", "AUC", "points", *NAMES, "rates held", "rates at thresholds"]
        show(head, ([*each, *of_cell(each, arguments.studies)] for each in CELLS))
