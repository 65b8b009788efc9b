"""Error of the AUC from private score histograms, on 10^6 made-up rows; the table of docs/score-histograms.md.

    python -m benchmarks.score_histograms

Rows: 30 % positive, scores from Beta(2, 5) and Beta(4, 3). Noise is simulated and seeded. Quantile bins come from a
hierarchy of height 10: exact (as where the boundaries are public), or with noise, for half of the budget. Errors are
against scikit-learn on the rows: mean and largest of 100 runs.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.metrics import roc_auc_score as exact_auc

from fhe_auc import hierarchy
from fhe_auc.counts import PartyData
from fhe_auc.metrics import Histogram, roc_auc_score
from protocols import score_histogram_simulation as simulation
from protocols.u_statistics.randomness import SeededExperiment
from protocols.unary_encoding import UnaryEncoding

ROWS, HEIGHT, RUNS, PARTIES = 10**6, 10, 100, 10**5
BINS = (10, 20, 60, 100)


def rows(random: np.random.Generator) -> PartyData:
    labels = random.random(ROWS) < 0.3
    scores = np.where(labels, random.beta(4, 3, ROWS), random.beta(2, 5, ROWS))
    return PartyData.from_arrays("all", labels, scores)


def counts(lowest: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the rows of each label between edges, from those in the lowest segments, of which edges are multiples."""
    return np.add.reduceat(lowest, (edges[:-1] * lowest.shape[1]).astype(int), axis=1)


def segments(data: PartyData) -> np.ndarray:
    exact = Histogram.from_rows(data, np.arange(2**HEIGHT + 1) / 2**HEIGHT)
    return np.stack([exact.positives, exact.negatives]).astype(np.int64)


def auc(edges: np.ndarray, bins: np.ndarray) -> float:
    return roc_auc_score(Histogram(edges, *bins.astype(float))).value


def main() -> None:
    random = np.random.default_rng(0)
    data = rows(random)
    truth = exact_auc(data.y_true, data.y_score)
    exact, lowest = hierarchy.count(data, HEIGHT), segments(data)

    def cell(found: list[float]) -> str:
        errors = np.abs(np.array(found) - truth)
        return f"{errors.mean():.1e} (≤ {errors.max():.1e})"

    print("| bins | federated | distributed, ε = 1 | the same, half of ε on the edges | local, ε = 5 |")
    print("|---|---|---|---|---|")
    for bins in BINS:
        edges = hierarchy.equi_depth_edges(exact, bins)
        true = counts(lowest, edges)
        noisy = [auc(edges, found) for found in simulation.distributed(true, 1.0, runs=RUNS, random=random)]
        both = []
        for _ in range(RUNS):
            own = hierarchy.equi_depth_edges(simulation.distributed_hierarchy(exact, 0.5, random), bins)
            both.append(auc(own, simulation.distributed(counts(lowest, own), 0.5, runs=1, random=random)[0]))
        local = [auc(edges, found) for found in simulation.local(true, 5.0, runs=RUNS, random=random)]
        print(f"| {bins} | {abs(auc(edges, true) - truth):.1e} | {cell(noisy)} | {cell(both)} | {cell(local)} |")

    few = PartyData.from_arrays("few", data.y_true[:PARTIES], data.y_score[:PARTIES])
    edges = hierarchy.equi_depth_edges(exact, 20)
    started = time.perf_counter()
    simulation.distributed_share_by_share(counts(segments(few), edges), 1.0, parties=PARTIES, random=random)
    print(f"\n{PARTIES:,} one-row parties, 20 bins: distributed, share by share {time.perf_counter() - started:.1f} s")
    cells = np.repeat(np.arange(40), counts(segments(few), edges).ravel())
    started = time.perf_counter()
    UnaryEncoding(40, 5.0).tally(cells, SeededExperiment(random))
    print(f"local, report by report {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
