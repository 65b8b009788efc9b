"""What quantile thresholds from a session of their own reach and cost; the tables of docs/evidence/score-histograms.md.

    python docs/evidence/studies/quantile_thresholds.py

Real sessions: both bundled data sets, as they are and with all scores multiplied by 0.05, and 200 parties. How the
budget is best split is simulated, with seeded noise that protects nobody: 10^6 *bell* rows of
`score_histograms`, the mean of 20 runs.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.metrics import roc_auc_score as exact_auc

import fhe_auc
import score_histograms
import simulated_histograms as simulation
from fhe_auc.metrics import Histogram, roc_auc_score
from fhe_auc.rows import datasets
from fhe_auc.rows.counts import PartyData
from fhe_auc_protocols.histograms import hierarchical_counts as hierarchy
from fhe_auc_protocols.histograms.quantile_thresholds import equi_depth_grid
from fhe_auc_protocols.options import HistogramDistributedDp, HistogramFederated, Malicious, SemiHonest

RUNS = 20
SHARES = (0.1, 0.25, 0.5)
MODELS = (("distributed", 1.0, 60, (10, 12)), ("local", 5.0, 15, (6, 8, 10)))


def pooled(parties: list[PartyData]) -> PartyData:
    labels = np.concatenate([party.y_true for party in parties])
    return PartyData.from_arrays("all", labels, np.concatenate([party.y_score for party in parties]))


def on_real_data() -> None:
    print("| data | uniform:200 | hybrid:1000 | quantile:200 | thresholds found |\n|---|---|---|---|---|")
    for name in datasets.NAMES:
        for factor in (1.0, 0.05):
            parties = [
                PartyData.from_arrays(party.name, party.y_true, party.y_score * factor) for party in datasets.load(name)
            ]
            rows = pooled(parties)
            truth = exact_auc(rows.y_true, rows.y_score)
            found = [
                fhe_auc.federated_auc(parties, protocol="semi-honest", thresholds=grid)
                for grid in ("uniform:200", "hybrid:1000", "quantile:200")
            ]
            errors = " | ".join(f"{abs(each.auc - truth):.1e}" for each in found)
            print(f"| {name}{'' if factor == 1 else f' × {factor}'} | {errors} | {found[-1].thresholds} |")


def of_200_parties() -> None:
    random = np.random.default_rng(0)
    parties = []
    for number in range(200):
        labels = random.random(50) < 0.4
        parties.append(PartyData.from_arrays(f"site {number}", labels, random.beta(2 + labels, 3)))
    truth = exact_auc(pooled(parties).y_true, pooled(parties).y_score)
    for protocol in (SemiHonest(), Malicious(), HistogramFederated(), HistogramDistributedDp(epsilon=1.0)):
        started = time.process_time()
        found = fhe_auc.federated_auc(parties, protocol=protocol, thresholds="quantile:50")
        seconds = time.process_time() - started
        print(
            f"{protocol.protocol}: error {abs(found.auc - truth):.1e}, {found.rounds} rounds, {seconds:.0f} s of CPU, "
            f"{found.upload_bytes_per_party:,} bytes that a party sent"
        )


def of_budgets(*, size: int = score_histograms.ROWS, runs: int = RUNS) -> None:
    random = np.random.default_rng(0)
    data = score_histograms.bell(random, size)
    truth = exact_auc(data.y_true, data.y_score)
    print("| model, bins | h | " + " | ".join(f"{share:.0%} of ε" for share in SHARES) + " |\n|---|---|---|---|---|")
    for model, epsilon, bins, heights in MODELS:
        draw, draw_hierarchy = getattr(simulation, model), getattr(simulation, f"{model}_hierarchy")
        for height in heights:
            counts, cells = hierarchy.count(data, height), []
            for share in SHARES:
                errors = []
                for _ in range(runs):
                    grid = equi_depth_grid(draw_hierarchy(counts, epsilon * share, random), bins)
                    exact = Histogram.from_rows(data, np.append(grid, 1.0))
                    of_rows = np.stack([exact.positives, exact.negatives]).astype(np.int64)
                    (found,) = draw(of_rows, epsilon * (1 - share), runs=1, random=random)
                    errors.append(abs(roc_auc_score(Histogram(exact.edges, *found.astype(float))).value - truth))
                cells.append(f"{np.mean(errors):.1e} (≤ {np.max(errors):.1e})")
            print(f"| {model}, ε = {epsilon:g}, {bins} | {height} | {' | '.join(cells)} |")


def main() -> None:
    on_real_data()
    print()
    of_200_parties()
    print()
    of_budgets()


if __name__ == "__main__":
    main()
