"""Numbers: what is one score, which bin it falls into, and which bins hold one number."""

import numpy as np
import pytest

from fhe_auc.question import thresholds
from fhe_auc.question.binning import bins_of, next_number, numbers, of_one_number


def test_numbers_and_their_successors_are_those_of_single_precision() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=50_000) * 10 ** rng.uniform(-30, 30, 50_000), [1, -1, 0.1, 0.3, 0.7]])
    single = values.astype(np.float32)
    assert np.array_equal(numbers(values), single.astype(np.float64))
    assert np.array_equal(next_number(values), np.nextafter(single, np.float32(np.inf)).astype(np.float64))


def test_numbers_are_relative_where_single_precision_ends() -> None:
    tiny = np.array([1e-300, 1e-301, 2e-315])
    assert (np.diff(numbers(tiny)) != 0).all()
    assert (numbers(tiny) > 0).all()
    assert not np.signbit(numbers(np.array([-0.0])))[0]
    assert numbers(np.array([1e-300]))[0] == pytest.approx(1e-300, rel=2**-24)


@pytest.mark.parametrize("score", [0.1, 0.3, 0.7, 0.001, 0.999])
def test_a_score_of_a_text_file_and_of_a_float32_column_share_a_bin(score: float) -> None:
    grid = thresholds.parse("hybrid:5000")  # every multiple of 0.001 is a threshold
    both = np.array([score, np.float64(np.float32(score))])
    assert len(set(bins_of(both, grid))) == 1


def test_bins_of_one_number_end_at_the_next() -> None:
    grid = np.array([-1.0, 2.0, next_number(np.array([2.0]))[0], 3.0, 3.5])
    assert of_one_number(grid).tolist() == [False, True, False, False, False]


def test_ends_hold_one_number_at_thresholds_for_probabilities_alone() -> None:
    above_zero = next_number(np.array([0.0]))[0]
    assert of_one_number(np.array([0.0, above_zero, 0.5, 1.0])).tolist() == [True, False, False, True]
    assert of_one_number(np.array([-1.0, next_number(np.array([-1.0]))[0], 1.0])).tolist() == [False, False, False]
