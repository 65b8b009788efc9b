"""The integers that an exact AUC is made of: numbers of pairs of rows, and what is read off them."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import ResultCheckError
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question.analysis import PLAIN
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.auc_sums import auc_of_sums
from tests.support import plain_sums
from tests.support.blinded_auc import counts_of

bins = st.integers(1, 6).flatmap(lambda k: st.tuples(*[st.lists(st.integers(0, 4), min_size=k, max_size=k)] * 2))


def sums_of(positives: list[int], negatives: list[int], *, interval: bool = False) -> list[int]:
    """What is released of rows per bin, from the definition of the release: N and P come last."""
    release = AnalysisSums(PLAIN, len(positives), interval).release
    vectors = plain_sums.vectors_of(release.sketch, [*negatives, *positives])
    return [plain_sums.value(each, vectors) for each in release.sums]


@settings(max_examples=40)
@given(bins.filter(lambda rows: sum(rows[0]) * sum(rows[1]) > 0))
def test_the_auc_of_the_integers_is_that_of_the_trapezoid_and_of_scikit_learn(
    rows: tuple[list[int], list[int]],
) -> None:
    from sklearn.metrics import roc_auc_score

    ones, zeros = sum(rows[0]), sum(rows[1])
    found = auc_of_sums(sums_of(*rows)[:2], ones, zeros, 10**6)
    expected = trapezoid(counts_of(*rows))
    four = (expected.fraction, Fraction(expected.tie, expected.den), ones, zeros)
    assert found == (*four, None, None)
    with_interval = sums_of(*rows, interval=True)[:4]
    assert auc_of_sums(with_interval, ones, zeros, 10**6) == (*four, *with_interval[2:])
    labels = np.repeat([1, 0], [sum(rows[0]), sum(rows[1])])
    scores = np.concatenate([np.repeat(np.arange(len(side)), side) for side in rows])
    assert float(found.auc) == pytest.approx(roc_auc_score(labels, scores), abs=1e-14)


@pytest.mark.parametrize("interval", [False, True])
def test_sums_of_so_many_rows_take_as_many_values_as_the_modulus_must_tell_apart_and_no_more(interval: bool) -> None:
    for rows in range(2, 8):
        found = [
            sums_of(list(dealt[:2]), list(dealt[2:]), interval=interval)
            for dealt in itertools.product(range(rows + 1), repeat=4)
            if sum(dealt) <= rows
        ]
        differences, *others = zip(*found, strict=True)
        values = max(max(differences) - min(differences), *(max(each) for each in others))
        assert min(min(each) for each in others) == 0
        least = AnalysisSums(PLAIN, 2, interval).least_modulus(rows)
        # Where a third of the rows is no integer, no split of them reaches the bound.
        assert values + 1 == least or (interval and rows % 3)
        assert values < least


@pytest.mark.parametrize("ones", [0, 5])
def test_rows_of_one_class_have_no_auc(ones: int) -> None:
    assert auc_of_sums([0, 0], ones, 5 - ones, 101) == (None, 0, ones, 5 - ones, None, None)


@pytest.mark.parametrize(
    "sums",
    [
        *((26, 0, 5, 5), (-26, 0, 5, 5), (25, 1, 5, 5), (-25, 1, 5, 5), (0, 26, 5, 5), (0, -1, 5, 5), (1, 0, 0, 5)),
        *((5, 0, 5, 5, 4, 100), (5, 0, 5, 5, 100, 4)),  # Q10·P, or Q01·N, below the difference's square
        *((5, 0, 5, 5, 126, 100), (5, 0, 5, 5, 100, 126)),  # Q10 above P·N², or Q01 above N·P²
        (5, 0, 5, 5, -1, 100),
    ],
)
def test_integers_of_no_rows_give_no_number_and_are_not_told(sums: tuple[int, ...]) -> None:
    difference, ties, positives, negatives, *squares = sums
    with pytest.raises(ResultCheckError, match="not an AUC") as caught:
        auc_of_sums([difference, ties, *squares], positives, negatives, 10**15)
    assert caught.value.check == "range"
