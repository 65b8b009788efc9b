"""No sum of counts wraps round, whichever type rows come in, and however many they are: 2^40 is the most of a session.

Sums of numpy, pandas, polars, Arrow, Dask and Ray Data do, silently (`findings/polars-sum-of-int32-…`): what counts is
int64 or float64 from where rows are read, and what may exceed that is in Python's integers.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fhe_auc import federated_auc
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.small_cells import merge_small_cells
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question.analysis import Analysis, Questions, Variable
from fhe_auc.question.follow_up import EVENT, MOST_STANDS_FOR, UNITS_PER_WEIGHT, AtHorizon, FollowUp
from fhe_auc.question.weights import MOST_UNITS, Weights
from fhe_auc.report.report import Report
from fhe_auc.report.steps import report_steps
from fhe_auc.results.asked import Asked, ReportAsked
from fhe_auc.results.delong import of_bins
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.at_horizon import at_horizon
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.frames import parties_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.one_process import play
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.exact_auc.auc_sums import AucSums
from fhe_auc_protocols.exact_auc.release_part import Rows, table

SMALL = np.int8, np.uint8, np.int16, np.int32, np.float32
TABLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "numpy": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "Arrow": pa.table,
}
COUNTS = [(0, 700), (40, 300), (290, 280), (300, 20), (7, 0)]  # (positives, negatives) by score
SCORES = [0.1, 0.3, 0.5, 0.7, 0.9]


def auc_of(counts: list[tuple[int, int]]) -> Fraction:
    """Positives above negatives, ties half, in Python's integers."""
    won = sum(p * (2 * sum(n for _, n in counts[:at]) + n) for at, (p, n) in enumerate(counts))
    return Fraction(won, 2 * sum(p for p, _ in counts) * sum(n for _, n in counts))


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("library", TABLES)
def test_labels_and_weights_of_small_types_add_up_beyond_them(kind: Any, library: str) -> None:
    """A sum of int8 exceeds 127, one of int32 2^31, as units of weights of 16 million do."""
    weight = min(MOST_UNITS - 1, int(np.finfo(kind).max) if kind is np.float32 else np.iinfo(kind).max)
    rows = [(y, s) for s, (p, n) in zip(SCORES, COUNTS, strict=True) for y, n in ((1, p), (0, n)) for _ in range(n)]
    labels, scores = zip(*rows, strict=True)
    columns = {"died": np.array(labels, kind), "risk": np.array(scores), "w": np.full(len(rows), weight, kind)}
    asked = {"label": "died", "score": "risk", "weight": "w", "max_weight": weight, "weight_step": 1}
    apart = {"north": 0.0, "south": 1e-9}  # as a copy of rows is refused
    parties = {name: TABLES[library]({**columns, "risk": columns["risk"] + by}) for name, by in apart.items()}
    found = federated_auc(
        parties, protocol="histogram-federated", max_rows=10**11, thresholds=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0], **asked
    )
    assert found.auc == pytest.approx(float(auc_of(COUNTS)), abs=1e-12)
    assert found.histogram is not None
    expected = [[2 * weight * own for own in side] for side in zip(*COUNTS, strict=True)]
    assert found.histogram.sides[:, :5].tolist() == expected


@pytest.mark.parametrize("protocol", ["exact", "verified", "malicious"])
def test_a_party_with_more_rows_in_a_bin_than_16_bits_hold_counts_them_all(protocol: str) -> None:
    """Of what 32 bits hold nobody makes rows here: a sum of batches has the type of numpy's own counts, int64."""
    counts = [(70_001, 40_000), (9, 40_003)]
    labels = np.repeat([1, 0, 1, 0], [own for each in counts for own in each])
    scores = np.repeat([0.3, 0.7], [sum(each) for each in counts])
    parties = {name: {"y_true": labels, "y_score": scores + by} for name, by in {"a": 0.0, "b": 1e-3}.items()}
    found = federated_auc(parties, label="y_true", score="y_score", protocol=protocol, thresholds=[0, 0.5])
    assert found.auc == pytest.approx(float(auc_of(counts)), abs=1e-9)
    assert protocol == "malicious" or found.fraction == auc_of(counts)
    own = count(PartyData.from_arrays("a", labels, scores), [0, 0.5])
    assert (own.bin_positives.tolist(), own.bin_negatives.tolist()) == ([70_001, 9], [40_000, 40_003])


def many(number: int, **columns: Any) -> PartyData:
    """So many rows that are alike, of label 1."""
    label, score = np.broadcast_to(np.uint8(1), number), np.broadcast_to(0.5, number)
    return PartyData("a", label, (score,), **columns)


def test_more_rows_in_a_bin_than_single_precision_holds_are_all_in_the_histogram() -> None:
    number = 2**24 + 1
    assert Histogram.from_rows(many(number), [0, 1]).positives.tolist() == [number]


@pytest.mark.parametrize("weight", [2**15, MOST_STANDS_FOR * UNITS_PER_WEIGHT])
def test_the_largest_weights_of_a_horizon_and_their_squares_add_up(weight: int) -> None:
    number, follow_up = 50_000, FollowUp("days", "died", (1.0,))
    at = AtHorizon(horizon=1.0, weights=(UNITS_PER_WEIGHT, weight), beyond=weight)
    data = replace(many(number), labels=np.broadcast_to(np.uint8(EVENT), number), times=np.ones(number))
    analysis = Analysis(follow_up=follow_up, at=at)
    counted = at_horizon(data, analysis)
    assert counted.weights is not None
    assert counted.weights.dtype == np.int64
    rows = Rows(counted, np.zeros(1), np.zeros(1), b"")
    told = [own.tolist() for own in AucSums(analysis, 1, True).of_rows(rows)]
    assert told == [[0, number * weight], [0, number], [0, number * weight**2]]


def test_sums_of_weights_beyond_what_float64_holds_are_exact() -> None:
    number, most = 30_001, (MOST_UNITS - 1) ** 2  # a square
    assert 2**53 < number * most < 2**63
    assert table(np.zeros(number, np.int64), shape=(1,), weights=np.full(number, most)).tolist() == [number * most]


@pytest.mark.parametrize("times", [1, 2**30, 2**51])
def test_counts_up_to_2_to_the_62_give_the_fraction_and_delongs_error_of_pythons_integers(times: int) -> None:
    counts = [(p * times, n * times) for p, n in COUNTS]
    p, n = (np.array(side, np.int64) for side in zip(*counts, strict=True))
    pooled = Counts(p[::-1].cumsum()[::-1], n[::-1].cumsum()[::-1])
    assert trapezoid(pooled).fraction == auc_of(counts)
    assert trapezoid(pooled).tie == sum(ones * zeros for ones, zeros in counts)
    assert (pooled.trapezoid_heights >= 0).all()
    auc, error = of_bins(p, n)
    once, alone = of_bins(*np.array(COUNTS).T)
    assert auc == once == auc_of(COUNTS)
    assert error is not None
    assert alone is not None
    assert error == pytest.approx(alone / times**0.5, rel=0.01)


def merged(counts: int, least: int) -> list[float]:
    random = np.random.default_rng(5)
    edges, sides = np.linspace(0, 1, 41), random.poisson(4, (2, 40)) * float(counts)
    return merge_small_cells(Histogram(edges, *sides), least * counts).edges.tolist()


@pytest.mark.parametrize("times", [2**20, 2**27 + 1, 2**29, 2**32])
def test_small_cells_are_merged_alike_however_many_rows_there_are(times: int) -> None:
    """The merging is the one with the least sum of p·n, which exceeds 64 bits."""
    assert 2 < len(merged(1, 10)) < 40
    assert merged(times, 10) == merged(1, 10)


@pytest.mark.parametrize("rows", [(2**32, 2**31 - 1), (2**32, 2**31), (2**32, 2**32 - 1)])
def test_bins_that_rank_all_pairs_are_not_merged_where_their_pairs_exceed_63_bits(rows: tuple[int, int]) -> None:
    """As int64 the pairs of 2^32 and 2^31 rows were fewer than none, so that one bin would have been the best."""
    parted = Histogram([0, 0.5, 1], [rows[0], 0], [0, rows[1]])
    assert merge_small_cells(parted, 10).edges.tolist() == [0, 0.5, 1]


def flat(told: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Numbers of a report by their place."""
    if isinstance(told, dict | list | tuple):
        for name, each in told.items() if isinstance(told, dict) else enumerate(told):
            yield from flat(each, f"{path} {name}")
    elif isinstance(told, float | int):
        yield path, float(told)


COUNTED = "positives", "negatives", "squares", "rows", "unknown", "counts", "beyond"


def of_more_rows(outcome: Any, times: int) -> Any:
    """The same result, of so many times as many rows."""
    if isinstance(outcome, Evaluation):
        return replace(outcome, histogram=outcome.histogram and of_more_rows(outcome.histogram, times))
    counts = {each.name: getattr(outcome, each.name) for each in fields(outcome) if each.name in COUNTED}
    return replace(outcome, **{name: own * times for name, own in counts.items() if own is not None})


@pytest.mark.parametrize(
    "how", ["plain", *(pytest.param(each, marks=pytest.mark.slow) for each in ("weights", "time"))]
)
def test_a_report_of_half_a_billion_times_as_many_rows_says_the_same(how: str) -> None:
    random, number = np.random.default_rng(2), 800
    table = pd.DataFrame({"site": random.choice(["north", "south"], number), "sex": random.choice(["F", "M"], number)})
    table["died"] = random.random(number) < 0.3
    for model in ("risk", "other"):
        table[model] = (0.4 * random.random(number) + 0.3 * table.died).round(3)
    table["w"], table["days"] = random.integers(1, 4, number), random.integers(1, 40, number)
    of: dict[str, Any] = {
        "plain": {},
        "weights": {"weights": Weights("w", 4, 1)},
        "time": {"follow_up": FollowUp("days", "died", (20.0,))},
    }[how]
    by = {"sex": Variable("sex", ("F", "M")).levels}
    parties, analysis = parties_of(
        table, Questions(score_columns=("risk", "other"), by=by, **of), site="site", label="died"
    )
    wanted = ReportAsked(threshold=(0.3,), bootstrap=None if how == "time" else 100)
    asked, outcomes = Asked(analysis=analysis, thresholds="uniform:10", report=wanted), list[Any]()

    def kept(_: Any, outcome: Any) -> Any:
        outcomes.append(outcome)
        return outcome

    base = Request(parties=("north", "south"), thresholds=np.empty(0))
    play(report_steps(asked, base), parties, analysis, None, said=kept)
    once, often = (
        dict(flat(Report.of(asked, [of_more_rows(each, times) for each in outcomes]).as_dict()))
        for times in (2**10, 2**29)
    )
    said = [name for name in once if name.endswith((" value", " threshold", " fpr", " tpr")) and "chance" not in name]
    assert len(said) > 100
    assert {name: often.get(name) for name in said} == {name: pytest.approx(once[name], abs=2e-4) for name in said}
