"""How often intervals of 95 % hold the AUC of weighted rows, and AUC(t), as `evaluate` makes them.

    OMP_NUM_THREADS=1 python -m tests.support.weighted_coverage        # 20 minutes; --report: the report's measures

Counts are in the clear. Weighted rows are sampled from more, with 1 over the chance as their weight: all positive rows
and some others, by score ("case-cohort"), or regardless of label and score, 2 to 100 % ("survey"); "by score" takes
high scores, and few low ones. Followed up: times have a hazard of e^score, "crossing" ones such that high scores are
early, and low ones late events; censoring is at random. Studies of fewer than 50 events are drawn anew. What is true is
what 4·10⁶ rows have, all of them and none censored. The report's measures are of the true risk, by the last horizon.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fhe_auc.metrics.censoring import Ended, at_horizon
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.follow_up import FollowUp
from fhe_auc.question.weights import Weights
from fhe_auc.results.intervals import Interval
from fhe_auc.results.report_measures import calibration_measures, score_measures
from fhe_auc.rlwe import modular
from fhe_auc.rows import at_horizon as rows_at
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from fhe_auc_protocols.exact_auc.release_part import Reading
from tests.support import weighted_rows

Numbers: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = tuple[NDArray[np.bool_], Numbers]
LEAST, MOST, TRUE = 50, 10**5, 4 * 10**6
PRIMES = 2**50 - 27, 2**50 - 35  # no sum of these rows is as large as their product
SAMPLED = {"case-cohort": (0.05, 6), "survey": (0.2, 7), "by score": (0.08, 8)}  # share positive; drawn for each kept
HORIZONS = {"": (120.0, 800.0), "crossing": (300.0, 900.0)}
EDGES = thresholds.resolve("hybrid:5000")
REPORTED = ("average_precision", "partial_auc", "brier", "observed_expected_ratio", "calibration_slope")


class Found(NamedTuple):
    """Of one study: an AUC, or another measure, its interval, and how many rows had the event."""

    value: float
    interval: Interval | None
    events: int


Told: TypeAlias = dict[str, Found]
Risk: TypeAlias = Callable[[Numbers], Numbers]
How: TypeAlias = Callable[[PartyData, Analysis, Risk], Told]


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


def evaluated(data: PartyData, analysis: Analysis, risk: Risk) -> Told:
    """Return what a session says, by its sums."""
    sums = AnalysisSums(analysis, len(EDGES), True)
    sketch = sums.sketch(data, EDGES, MOST, PRIMES[0])
    totals = [sums.release.totals(modular.residues(sketch, prime), prime) for prime in PRIMES]
    reading = Reading(analysis=analysis, max_rows=MOST, modulus=PRIMES[0] * PRIMES[1], level=0.95)
    sums.read_sums(modular.centred(totals, PRIMES), reading)
    headline = reading.sayings[0](reading).headline
    assert headline is not None
    return {"roc_auc": Found(headline.auc, headline.interval, int(data.labels.sum()))}


def reported(data: PartyData, analysis: Analysis, risk: Risk) -> Told:
    """Return what the report says, where scores are risks."""
    weights = np.ones(data.rows) if data.weights is None else data.weights / 1000
    rows = weighted_rows.Rows(data.y_true.astype(int), risk(data.y_score), weights)
    counts = weighted_rows.histogram_of(rows, np.append(EDGES, 1.0))
    measures = (*score_measures(counts, counts, 0.95, 10), *calibration_measures(counts, 0.95, smooth=False))
    events = int(data.labels.sum())
    return {own.name: Found(own.estimate.value, own.interval, events) for own in measures if own.estimate}


def weighted(rng: np.random.Generator, rows: int, design: str, how: How = evaluated) -> Told | None:
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
    return how(data, analysis, risk_of(share))


def at_horizons(
    rng: np.random.Generator, rows: int, shape: str, rate: float, how: How = evaluated
) -> list[Told] | None:
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
        found.append(how(rows_at.at_horizon(data, analysis), analysis, risk_of()))
    return found


def risk_of(share: float | None = None) -> Risk:
    """Return the risk that a score means: in a population of that share, or by the last horizon of those followed up.

    Scores are Φ(x/2), of a normal x.
    """
    if share is None:
        return lambda scores: 1 - np.exp(-HORIZONS[""][-1] / 1000 * np.exp(2 * norm.ppf(scores)))
    return lambda scores: 1 / (1 + (1 - share) / share * np.exp(0.72 - 2.4 * norm.ppf(scores)))


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


def true_of(rows: Rows, risk: Risk) -> dict[str, float]:
    """Return what so many rows have that it is the truth."""
    told = reported(PartyData.from_arrays("all", *rows), PLAIN, risk)
    return {name: found.value for name, found in told.items()} | {"roc_auc": plain_auc(*rows)}


def said(studies: list[Told], name: str, true: dict[str, float]) -> str:
    """Return the share that holds what is true, in %, and the mean width over 3.92 standard deviations; and events."""
    found = [each[name] for each in studies if name in each]
    held = [each.interval is not None and each.interval.low <= true[name] <= each.interval.high for each in found]
    widths = [each.interval.high - each.interval.low for each in found if each.interval]
    spread = float(np.std([each.value for each in found]))
    events = np.mean([each.events for each in found])
    return f"{100 * np.mean(held):.1f} ({np.mean(widths) / 3.92 / spread:.2f}; {events:.0f})"


def lines(studies: int, how: How) -> Iterator[list[object]]:
    names = ("roc_auc",) if how is evaluated else REPORTED
    for design, (share, _) in SAMPLED.items():
        true = true_of(population(np.random.default_rng(1), TRUE, share), risk_of(share))
        for rows in (500, 2000):
            rng, found = np.random.default_rng(rows), list[Told]()
            while len(found) < studies:
                found += filter(None, [weighted(rng, rows, design, how)])
            yield [design, rows, *(said(found, name, true) for name in names)]
    for shape, horizons in HORIZONS.items():
        event, scores = followed(np.random.default_rng(1), TRUE, shape)
        true_at = [true_of((event <= horizon, scores), risk_of()) for horizon in horizons]
        for share, rows in itertools.product((0.2, 0.4, 0.6), (500, 2000)):
            rng, both, rate = np.random.default_rng(rows), list[list[Told]](), censoring_rate(shape, share)
            while len(both) < studies:
                both += filter(None, [at_horizons(rng, rows, shape, rate, how)])
            for at, (horizon, true) in enumerate(zip(horizons, true_at, strict=True)):
                told = [said([each[at] for each in both], name, true) for name in names]
                yield [f"{100 * share:.0f} % censored {shape}".rstrip(), rows, *told, f"{horizon:g} days"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    for line in lines(arguments.studies, reported if arguments.report else evaluated):
        print(f"| {' | '.join(map(str, line))} |", flush=True)
