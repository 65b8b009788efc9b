"""DeLong's standard error of merged bins against that of the rows: what merging hides, and when a result says so."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.results.delong import Merged, components, crowded, delong_error
from tests.support.delong import of_rows, once

Rows = NDArray[np.float64]


def merged_by(width: float, ones: Rows, zeros: Rows) -> Merged:
    """What is released of rows where bins of this width are merged ones, and each score has a fine bin."""
    coarse, fine = (
        np.sign(np.subtract.outer(*(each // by for each in (ones, zeros)))).astype(int) for by in (width, 1e-9)
    )
    bins = np.unique(np.concatenate([ones, zeros]) // width)
    counts = (((side // width)[:, None] == bins).sum(axis=0) for side in (ones, zeros))
    own, other = (Fraction(int((count**2).sum()), int(count.sum()) ** 2) for count in counts)
    return Merged(
        int(coarse.sum()),
        int((coarse.sum(axis=1) ** 2).sum()),
        int((coarse.sum(axis=0) ** 2).sum()),
        Fraction(int((coarse == 0).sum()), coarse.size),
        Fraction(int((coarse == 0).sum() - (fine == 0).sum()), coarse.size),
        Fraction(abs(int(coarse.sum() - fine.sum())), coarse.size),
        (own, other),
    )


def error_of(merged: Merged, ones: Rows, zeros: Rows) -> float:
    """The standard error over that of the rows, less 1."""
    found = delong_error(merged, once(len(ones)), once(len(zeros)))
    assert found is not None
    return found / of_rows(ones, zeros)[1] - 1


@given(st.tuples(*[st.integers(2, 10**9)] * 2), st.data())
def test_where_nothing_is_merged_s10_and_s01_are_those_of_the_sums(rows: tuple[int, int], data: st.DataObject) -> None:
    (p, n), pairs = rows, math.prod(rows)
    difference = data.draw(st.integers(-pairs, pairs))
    q10, q01 = (data.draw(st.integers(-(-(difference**2) // own), pairs**2 // own)) for own in rows)
    s10 = (Fraction(q10) - Fraction(difference**2, p)) / (4 * n**2 * (p - 1))
    s01 = (Fraction(q01) - Fraction(difference**2, n)) / (4 * p**2 * (n - 1))
    merged = Merged(difference, q10, q01)
    assert components(merged, once(p), once(n)) == (s10, s01)
    assert not crowded(merged, once(p), once(n))
    assert delong_error(merged, once(p), once(n)) == math.sqrt(s10 / p + s01 / n)


bins_of_rows = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 12), st.lists(st.integers(1, 5), min_size=1, max_size=6)),
    min_size=1,
    max_size=6,
)


@settings(deadline=None)
@given(bins_of_rows)
def test_where_labels_lie_alike_in_each_merged_bin_an_error_is_too_small_by_half_a_percent_at_most_or_too_large(
    bins: list[tuple[int, int, list[int]]],
) -> None:
    """Each merged bin has so many times rows of either label at scores with these shares: the assumption, exactly."""
    sides: list[list[float]] = [[], []]
    for at, (of_ones, of_zeros, shares) in enumerate(bins):
        scores = [10.0 * at + score for score, share in enumerate(shares) for _ in range(share)]
        sides[0] += of_ones * scores
        sides[1] += of_zeros * scores
    ones, zeros = map(np.array, sides)
    if min(len(ones), len(zeros)) < 2 or not of_rows(ones, zeros)[1]:
        return
    merged = merged_by(10, ones, zeros)
    assert merged.moved == 0
    wrong = min(len(ones), len(zeros)) * (1 - abs(merged.difference) / (len(ones) * len(zeros))) / 2
    at_most = (
        0.0 if crowded(merged, once(len(ones)), once(len(zeros))) else max(0.005, 0.05 / math.sqrt(max(wrong, 0.25)))
    )
    assert error_of(merged, ones, zeros) >= -at_most - 1e-12


def test_a_bin_with_most_negative_rows_and_few_positive_ones_is_enlarged_by_what_it_hides() -> None:
    """√τ, about the share of both labels where these crowd in the same bins, would leave it 9 % too small."""
    within = np.linspace(0, 9, 50)
    ones, zeros = np.concatenate([within, np.linspace(20, 9000, 4950)]), np.concatenate([np.tile(within, 40), [15.0]])
    merged = merged_by(10, ones, zeros)
    assert crowded(merged, once(len(ones)), once(len(zeros)))
    assert 0 <= error_of(merged, ones, zeros) < 0.05
    assert error_of(merged._replace(squares=(merged.ties,) * 2), ones, zeros) < -0.08


@pytest.mark.parametrize("half", ["ones", "zeros"])
def test_rows_of_one_label_on_either_side_of_the_other_break_the_assumption_and_are_told_of(half: str) -> None:
    """D sees nothing of it. What rows are worth varies three times as much as that of labels that lie alike."""
    split, middle = np.repeat([1.0, 9.0], 500), np.full(1000, 5.0)
    ones, zeros = (split, middle) if half == "ones" else (middle, split)
    merged = merged_by(10, ones, zeros)
    assert merged.moved == 0
    assert crowded(merged, once(1000), once(1000))
    assert error_of(merged, ones, zeros) == pytest.approx(math.sqrt(2 / 3) - 1, abs=1e-3)


def test_labels_that_lie_unlike_in_one_way_below_and_in_the_other_above_are_told_of_by_nothing() -> None:
    """The attack that is left: D is as it was, and what positives are worth is nearer to the mean than it should be."""
    lower, upper = 10.0 * np.arange(7), 10.0 * np.arange(7, 14)
    ones = np.repeat(np.concatenate([lower + 1, upper + 9]), 7)
    zeros = np.repeat(np.concatenate([lower + 9, upper + 1]), 350)
    merged = merged_by(10, ones, zeros)
    assert merged.moved == 0
    assert not crowded(merged, once(len(ones)), once(len(zeros)))
    assert error_of(merged, ones, zeros) == pytest.approx(-0.091, abs=0.001)


def test_scores_that_do_not_crowd_are_not_told_of_and_those_of_one_value_are_not_enlarged() -> None:
    generator = np.random.default_rng(5)
    ones, zeros = generator.normal(1, 1, 400), generator.normal(0, 1, 1600)
    merged = merged_by(0.02, ones, zeros)
    assert not crowded(merged, once(400), once(1600))
    assert abs(error_of(merged, ones, zeros)) < 0.005
    ones, zeros = ones.round(), zeros.round()
    of_values = merged_by(1, ones, zeros)
    assert of_values.ties > 0.1
    assert not crowded(of_values, once(400), once(1600))
    assert error_of(of_values, ones, zeros) == pytest.approx(0, abs=1e-12)
