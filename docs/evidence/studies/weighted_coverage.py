"""How often intervals of 95 % hold the AUC of weighted rows, and AUC(t), as `evaluate` makes them.

    OMP_NUM_THREADS=1 python docs/evidence/studies/weighted_coverage.py        # an hour; --studies 200: 6 minutes

Counts are in the clear. Weighted rows are sampled from more, with 1 over the chance as their weight: all positive rows
and some others, by score ("case-cohort"), or regardless of label and score, 2 to 100 % ("survey"); "by score" takes
high scores, and few low ones. Followed up: times have a hazard of e^score, "crossing" ones such that high scores are
early, and low ones late events; censoring is at random. Studies of fewer than 50 events are drawn anew. What is true is
what 4·10⁶ rows have, all of them and none censored.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fhe_auc.metrics.censoring import Ended, at_horizon
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.follow_up import FollowUp
from fhe_auc.question.weights import Weights
from fhe_auc.results.intervals import Interval
from fhe_auc.rlwe import modular
from fhe_auc.rows import at_horizon as rows_at
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from fhe_auc_protocols.exact_auc.release_part import Reading
from interval_coverage import Rows, show

Numbers: TypeAlias = NDArray[np.float64]
LEAST, MOST, TRUE = 50, 10**5, 4 * 10**6
PRIMES = 2**50 - 27, 2**50 - 35  # no sum of these rows is as large as their product
SAMPLED = {"case-cohort": (0.05, 6), "survey": (0.2, 7), "by score": (0.08, 8)}  # share positive; drawn for each kept
HORIZONS = {"": (120.0, 800.0), "crossing": (300.0, 900.0)}
EDGES = thresholds.resolve("hybrid:5000")


class Found(NamedTuple):
    """Of one study: an AUC, its interval, and how many rows had the event."""

    auc: float
    interval: Interval | None
    events: int


def population(rng: np.random.Generator, rows: int, share: float) -> Rows:
    labels = rng.random(rows) < share
    return labels, norm.cdf((rng.normal(size=rows) + 1.2 * labels) / 2)


def chances(design: str, labels: NDArray[np.bool_], scores: Numbers, rng: np.random.Generator) -> Numbers:
    """Return how likely each row is to be sampled."""
    if design == "survey":
        return np.clip(np.exp(-1.2 - 0.9 * rng.normal(size=len(labels))), 0.02, 1)
    if design == "case-cohort":
        return np.where(labels, 1.0, np.where(scores > 0.6, 0.3, 0.08))
    return np.where(scores > norm.cdf(0.6), 1.0, np.where(scores > 0.5, 0.25, 0.08))


def followed(rng: np.random.Generator, rows: int, shape: str) -> tuple[Numbers, Numbers]:
    """Return days until the event, none censored, and scores."""
    marker = rng.normal(size=rows)
    if shape == "crossing":
        early, late = rng.random(rows) < 0.3, rng.uniform(400, 2500, rows)
        event = np.where(early, rng.uniform(0, 300, rows), late)
        marker += np.where(early, 2.0, np.where(late <= HORIZONS[shape][1], -2.0, 0.0))
    else:
        event = 1000 * rng.exponential(size=rows) * np.exp(-marker)
    return np.ceil(event), norm.cdf(marker / 2)


def plain_auc(labels: NDArray[np.bool_], scores: Numbers) -> float:
    ranks, ones = np.flatnonzero(labels[np.argsort(scores)]) + 1, int(labels.sum())
    return float((ranks.sum() - ones * (ones + 1) / 2) / ones / (len(labels) - ones))


def evaluated(data: PartyData, analysis: Analysis) -> Found:
    """Return what a session says, by its sums."""
    sums = AnalysisSums(analysis, len(EDGES), True)
    sketch = sums.sketch(data, EDGES, MOST, PRIMES[0])
    totals = [sums.release.totals(modular.residues(sketch, prime), prime) for prime in PRIMES]
    reading = Reading(analysis=analysis, max_rows=MOST, modulus=PRIMES[0] * PRIMES[1], level=0.95)
    sums.read_sums(modular.centred(totals, PRIMES), reading)
    headline = reading.sayings[0](reading).headline
    assert headline is not None
    return Found(headline.auc, headline.interval, int(data.labels.sum()))


def weighted(rng: np.random.Generator, rows: int, design: str) -> Found | None:
    share, drawn = SAMPLED[design]
    labels, scores = population(rng, drawn * rows, share)
    chance = chances(design, labels, scores, rng)
    kept = np.flatnonzero(rng.random(len(labels)) < chance)[:rows]
    if labels[kept].sum() < LEAST:
        return None
    analysis = Analysis(weights=Weights("weight", 50_000))
    data = PartyData.from_columns(
        "all", labels[kept], {"model": scores[kept]}, {}, analysis, weights=np.round(1 / chance[kept], 3)
    )
    return evaluated(data, analysis)


def at_horizons(rng: np.random.Generator, rows: int, shape: str, rate: float) -> list[Found] | None:
    event, scores = followed(rng, rows, shape)
    lost = np.ceil(rng.exponential(size=rows) / rate)
    times, codes = np.minimum(event, lost), (event <= lost).astype(int)
    if np.sum((times <= HORIZONS[shape][0]) & (codes == 1)) < LEAST:
        return None
    follow_up = FollowUp(time="days", event="status", horizons=HORIZONS[shape])
    data = PartyData.from_columns("all", codes, {"model": scores}, {}, Analysis(follow_up=follow_up), times=times)
    cells, width = follow_up.cells(times), len(follow_up.edges)
    counts = np.bincount((1 - codes) * (width + 1) + cells, minlength=2 * (width + 1)).reshape(2, width + 1)
    ended = Ended(counts[:, :width], int(counts[:, width].sum()))
    found = []
    for horizon in follow_up.horizons:
        analysis = Analysis(follow_up=follow_up, at=at_horizon(ended, follow_up, horizon))
        found.append(evaluated(rows_at.at_horizon(data, analysis), analysis))
    return found


def censoring_rate(shape: str, share: float) -> float:
    """Return the rate a day at which so many rows are censored before the last horizon."""
    rng, last, low, high = np.random.default_rng(5), HORIZONS[shape][-1], 1e-6, 0.1
    event, _ = followed(rng, 200_000, shape)
    draws = rng.exponential(size=len(event))
    for _ in range(40):
        rate = (low * high) ** 0.5
        many = np.mean((draws / rate < event) & (draws / rate <= last)) > share
        low, high = (low, rate) if many else (rate, high)
    return rate


def said(found: list[Found], true: float) -> str:
    """Return the share that holds what is true, in %, and the mean width over 3.92 standard deviations; and events."""
    held = [each.interval is not None and each.interval.low <= true <= each.interval.high for each in found]
    widths = [each.interval.high - each.interval.low for each in found if each.interval]
    spread = float(np.std([each.auc for each in found]))
    events = np.mean([each.events for each in found])
    return f"{100 * np.mean(held):.1f} ({np.mean(widths) / 3.92 / spread:.2f}; {events:.0f})"


def lines(studies: int) -> Iterator[list[object]]:
    for design, (share, _) in SAMPLED.items():
        true = plain_auc(*population(np.random.default_rng(1), TRUE, share))
        for rows in (500, 2000):
            rng, found = np.random.default_rng(rows), list[Found]()
            while len(found) < studies:
                found += filter(None, [weighted(rng, rows, design)])
            yield [design, rows, said(found, true), ""]
    for shape, horizons in HORIZONS.items():
        event, scores = followed(np.random.default_rng(1), TRUE, shape)
        true_at = [plain_auc(event <= horizon, scores) for horizon in horizons]
        for share in (0.2, 0.4, 0.6):
            for rows in (500, 2000):
                rng, both, rate = np.random.default_rng(rows), list[list[Found]](), censoring_rate(shape, share)
                while len(both) < studies:
                    both += filter(None, [at_horizons(rng, rows, shape, rate)])
                told = [said([each[at] for each in both], true) for at, true in enumerate(true_at)]
                yield [f"{100 * share:.0f} % censored {shape}".rstrip(), rows, *told]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, default=2000)
    show(["rows are", "rows", "AUC; first horizon", "last horizon"], lines(parser.parse_args().studies))
