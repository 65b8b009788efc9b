"""Intervals and bands of noisy counts: against formulas where there is no noise, else against the truth."""

from __future__ import annotations

import numpy as np
import pytest

from fhe_auc.base.errors import InputError, UndefinedAucError
from fhe_auc.metrics import ranking
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.private_curves import CountNoise
from fhe_auc.question.thresholds import parse
from fhe_auc.results.noise_intervals import auc_interval, bands, curve_intervals, measure_intervals, resampled
from tests.support.band_coverage import FPR, NAMES, coverage
from tests.support.private_sets import populations, released

QUIET = CountNoise(0.0)


def histogram(name: str = "30,000", seed: int = 1) -> tuple[Histogram, CountNoise]:
    """Return a private histogram and its noise."""
    population, random = populations()[name], np.random.default_rng(seed)
    rows = random.multinomial(population.rows, population.cells.ravel() / population.cells.sum()).reshape(2, -1)
    result = released(rows.astype(np.float64), 2.0, random)
    assert result is not None
    return result


def test_without_noise_errors_and_intervals_are_those_of_the_formulas() -> None:
    counts, _ = histogram()
    exact = Histogram(counts.edges, *np.rint(counts.cleaned().sides))
    error, interval = auc_interval(exact, QUIET, 0.95)
    assert error is not None
    known = ranking.roc_auc_error(exact)
    assert error == pytest.approx(known, rel=0.1)
    assert interval is not None
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * known, rel=0.12)
    found = curve_intervals(exact, QUIET, 0.95, lambda fit: {"ap": fit.average_precision})["ap"]
    reach = 2 * 1.96 * ranking.average_precision_error(exact)
    assert found.high - found.low == pytest.approx(reach, rel=0.15)


def test_more_noise_makes_wider_intervals_and_all_of_them_hold_the_value() -> None:
    counts, noise = histogram("2,000")
    widths = []
    for each in (QUIET, noise, CountNoise(5 * noise.deviation)):
        shown, (_, interval) = bands(counts, each, 0.95), auc_interval(counts, each, 0.95)
        assert interval is not None
        widths.append([interval.high - interval.low, (shown["roc"].high - shown["roc"].low).mean()])
        for at, value, low, high, lowest, highest in shown.values():
            ordered = [np.zeros_like(at), lowest, low, value, high, highest, np.ones_like(at)]
            assert (np.diff(ordered, axis=0) >= -1e-6).all()  # rates and deviates are rounded to that
    assert (np.diff(widths, axis=0) > 0).all()


def test_equal_counts_have_the_same_intervals_each_time() -> None:
    counts, noise = histogram("2,000")
    again = Histogram(counts.edges.copy(), counts.positives.copy(), counts.negatives.copy())
    assert auc_interval(counts, noise, 0.9) == auc_interval(again, noise, 0.9)
    assert all(
        (a.sides == b.sides).all() for a, b in zip(resampled(counts, noise), resampled(again, noise), strict=True)
    )
    assert auc_interval(*histogram("2,000", 2), 0.9) != auc_interval(counts, noise, 0.9)


def test_a_lower_level_has_narrower_bands() -> None:
    counts, noise = histogram("2,000")
    wide, narrow = bands(counts, noise, 0.95)["roc"], bands(counts, noise, 0.8)["roc"]
    assert (narrow.high - narrow.low <= wide.high - wide.low).all()
    assert (narrow.highest - narrow.lowest < wide.highest - wide.lowest).mean() > 0.99


def test_beyond_the_outermost_edges_a_bent_curve_has_wider_bands() -> None:
    counts, noise = histogram("heavy tails")
    first = counts.cleaned().negatives[-1] / counts.negatives.sum()
    wide = bands(counts, noise, 0.95)["roc"]
    narrow = bands(*histogram("2,000"), 0.95)["roc"]
    by_rows = np.sqrt(np.array([500, 105]))  # positives
    at = [np.argmin(np.abs(wide.at - each)) for each in (0.005, first)]
    beyond, inside = ([(each.high - each.low)[k] for each in (wide, narrow)] * by_rows for k in at)
    assert beyond[0] / inside[0] > beyond[1] / inside[1]


def test_a_measure_that_noise_moves_or_that_a_replicate_lacks_has_no_interval() -> None:
    counts, noise = histogram("2,000")

    def measure(each: Histogram) -> dict[str, float]:
        sure = {
            "prevalence": float(each.positives.sum() / each.counts.sum()),
            "off": float(np.abs(each.positives - counts.positives).max()),
        }
        return sure if each is not counts and each.positives[0] > counts.positives[0] else {**sure, "rare": 1.0}

    found = measure_intervals(counts, noise, 0.95, measure)
    assert set(found) == {"prevalence"}
    assert found["prevalence"].low < measure(counts)["prevalence"] < found["prevalence"].high


def test_counts_without_a_positive_row_have_no_interval() -> None:
    counts = Histogram(np.linspace(0, 1, 4), np.array([-1.0, 0.0, 0.5]), np.full(3, 100.0))
    with pytest.raises(UndefinedAucError):
        bands(counts, CountNoise(2.0), 0.95)
    with pytest.raises(UndefinedAucError):
        auc_interval(counts, CountNoise(2.0), 0.95)


def test_where_noise_leaves_few_replicates_a_curve_there_are_no_intervals() -> None:
    counts = Histogram(np.linspace(0, 1, 4), np.array([1.0, 2.0, 4.0]), np.full(3, 100.0))
    noise = CountNoise(20.0)
    assert auc_interval(counts, noise, 0.95) == (None, None)
    with pytest.raises(UndefinedAucError, match="too large"):
        bands(counts, noise, 0.95)


def test_of_very_many_bins_there_are_no_intervals() -> None:
    counts = Histogram(np.linspace(0, 1, 6001), np.ones(6000), np.ones(6000))
    assert auc_interval(counts, CountNoise(1.0), 0.95) == (None, None)
    assert not measure_intervals(counts, CountNoise(1.0), 0.95, lambda each: {"rows": float(each.counts.sum())})


def test_no_row_of_a_replicate_lies_between_listed_scores() -> None:
    grid = parse("values:0:9")
    counts = Histogram(np.append(grid, grid[-1]), np.full(len(grid), 5.0), np.full(len(grid), 50.0))
    gaps = ~np.isin(grid, np.arange(10))
    assert not any(each.sides[:, gaps].any() for each in resampled(counts, QUIET))


def test_a_level_is_checked() -> None:
    with pytest.raises(InputError, match="level of an interval"):
        bands(*histogram("2,000"), 2.0)


@pytest.mark.slow
@pytest.mark.timeout(3600)  # four minutes on a quiet machine
@pytest.mark.parametrize("name", ["2,000", "30,000"])
def test_bands_of_95_percent_hold_the_true_rates_in_93_to_97_percent_of_runs(name: str) -> None:
    """Of 600 runs a share of 95 % is off by 0.89 % for chance, 2.2 times within the limits; the seed is fixed."""
    shares, none = coverage(populations()[name], 2.0, 600, 38)
    found = dict(zip(NAMES, shares, strict=True))
    assert none == 0
    assert all(0.93 <= found[f"FPR {each:g}"] <= 0.97 for each in FPR[1:])
    assert 0.93 <= found["AUC"] <= 0.97
    assert 0.93 <= found["AP"] <= 0.975
    assert found["ROC"] >= 0.93


def test_bands_of_the_whole_curve_rise_as_true_curves_do() -> None:
    """Of points, whose noise is large beside some values, the factor of the pointwise band would let them fall."""
    edges, points = np.append(parse("values:0:9"), 10.0), np.arange(1.0, 11.0)
    random, noise = np.random.default_rng(3), CountNoise(2.8, 2.0)
    for _ in range(6):
        counts = noise.drawn(random, 2, len(edges) - 1)
        counts[:, 1::2][:, :10] += random.multinomial([60, 900], np.stack([points, points[::-1]]) / points.sum())
        curve = bands(Histogram(edges, *counts), noise, 0.95)["roc"]
        assert (np.diff(curve.lowest) >= 0).all()
        assert (np.diff(curve.highest) >= 0).all()
