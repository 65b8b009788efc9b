"""How often bands and intervals of private histograms hold what is true of the population, by simulation.

    python -m tests.support.band_coverage [--runs 400] [--epsilon 2] [--sets 2,000 30,000 …]

A run draws rows from a population, independently, and a whole private histogram of them (`private_sets.released`).
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from fhe_auc.base.errors import UndefinedAucError
from fhe_auc.results.noise_intervals import auc_interval, bands, curve_intervals
from tests.support.private_sets import DATA, RATES, Data, Population, of_name, of_population, populations, released

FPR, RECALL = (0.01, 0.05, 0.1, 0.2, 0.5), (0.1, 0.25, 0.5, 0.75)
NAMES = (
    *(f"FPR {each:g}" for each in FPR),
    *(f"recall {each:g}" for each in RECALL),
    *("ROC", "PR", "AUC", "AP"),
)
"""The curves at these places, both as a whole (by simultaneous bands), and both areas."""

LEVEL = 0.95


def coverage(population: Population | Data, epsilon: float, runs: int, seed: int) -> tuple[np.ndarray, int]:
    """Return the shares of runs in which intervals of 95 % hold the truth, as `NAMES`, and how many runs have none."""
    true, cells, random = of_population(population), population.cells, np.random.default_rng(seed)
    found = list[list[bool]]()
    for _ in range(runs):
        rows = random.multinomial(population.rows, cells.ravel() / cells.sum()).reshape(2, -1).astype(np.float64)
        if (result := released(rows, epsilon, random)) is None:
            continue
        try:
            roc, by_recall = bands(*result, LEVEL).values()
        except UndefinedAucError:
            continue
        tpr, precision = np.interp(roc.at, RATES, true.tpr), np.interp(by_recall.at, RATES[1:], true.precision)
        inside = (roc.low <= tpr) & (tpr <= roc.high)
        of_recall = (by_recall.low <= precision) & (precision <= by_recall.high)
        known = np.minimum(tpr, 1 - tpr) * population.positives > 0.25
        whole = (roc.lowest <= tpr) & (tpr <= roc.highest)
        whole_pr = (by_recall.lowest <= precision) & (precision <= by_recall.highest)
        _, auc = auc_interval(*result, LEVEL)
        area = curve_intervals(*result, LEVEL, lambda fit: {"": fit.average_precision}).get("")
        found.append(
            [
                *(bool(inside[np.isclose(roc.at, each)].all()) for each in FPR),
                *(bool(of_recall[np.isclose(by_recall.at, each)].all()) for each in RECALL),
                *(bool(whole[known].all()), bool(whole_pr.all())),
                auc is not None and auc.low <= true.auc <= auc.high,
                area is not None and area.low <= true.average_precision <= area.high,
            ]
        )
    return np.mean(found, axis=0) if found else np.full(len(NAMES), np.nan), runs - len(found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2.0])
    parser.add_argument("--sets", nargs="+", default=[*populations(), *DATA])
    parser.add_argument("--seed", type=int, default=38)
    asked = parser.parse_args()
    print("| set | ε | " + " | ".join(NAMES) + " | none of |")
    print("|---" * (len(NAMES) + 3) + "|")
    for name in asked.sets:
        for epsilon in asked.epsilon:
            began = time.process_time()
            shares, none = coverage(of_name(name), epsilon, asked.runs, asked.seed)
            cells = " | ".join(f"{100 * each:.1f}" for each in shares)
            print(f"| {name} | {epsilon:g} | {cells} | {none} |", flush=True)
            print(f"  {(time.process_time() - began) / asked.runs:.2f} CPU s a run", file=sys.stderr)


if __name__ == "__main__":
    main()
