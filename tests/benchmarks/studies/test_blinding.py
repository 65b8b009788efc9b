"""The study of blinding counts what trying every r, P and N counts."""

from collections.abc import Callable

import numpy as np
import pytest

import blinding as study
from fhe_auc.metrics.trapezoid import Trapezoid
from tests.protocols.blinded_auc.test_blinding import is_smooth

ROWS, BITS = 12, 17


def tried(truth: Trapezoid, r: int, may_be: Callable[[int], bool]) -> list[int]:
    """Return the P·N with P + N ≤ 4·ROWS for which r·(num, tie, den) are another r times integers that can be."""
    left = set()
    for p in range(1, 4 * ROWS):
        for n in range(1, 4 * ROWS - p + 1):
            other, rest = divmod(r * truth.den, 2 * p * n)
            if not rest and 2 <= other <= 2**BITS and may_be(other):
                num, tie = divmod(r * truth.num, other), divmod(r * truth.tie, other)
                if num[1] == tie[1] == 0 and (num[0] - tie[0]) % 2 == 0:
                    left.add(p * n)
    return sorted(left)


@pytest.mark.parametrize(("kind", "may_be"), [(0, lambda r: True), (1, is_smooth)], ids=["integer", "smooth"])
def test_as_many_remain_as_trying_everything_leaves(kind: int, may_be: Callable[[int], bool]) -> None:
    rng = np.random.default_rng(4)
    kinds, possible = study.multipliers(BITS), study.products(4 * ROWS)
    for positives in (1, 3, 6) * 4:
        truth = study.session(rng, positives, ROWS - positives)
        r = kinds[kind].draw(rng)
        left = tried(truth, r, may_be)
        assert truth.den // 2 in left
        assert study.left_by_products(truth, r, kinds[kind], possible).tolist() == left
        sd = 2.0**-40 * r * truth.den
        seen = r * np.array([truth.num, truth.tie, truth.den]) + rng.normal(0, sd, 3)
        assert study.left_by_noisy_products(seen, sd, kinds[kind], possible).tolist() == left


def test_products_are_those_of_all_pairs_with_a_smaller_one_in_bounds() -> None:
    pairs = [(p, n) for p in range(1, 20) for n in range(1, 21 - p)]
    assert np.flatnonzero(study.products(20)).tolist() == sorted({p * n for p, n in pairs})
    bounded = sorted({p * n for p, n in pairs if 3 <= min(p, n) <= 6})
    assert np.flatnonzero(study.products(20, 3, 6)).tolist() == bounded


def test_more_remain_with_smooth_multipliers_and_the_smallest_is_mostly_the_true_one_either_way() -> None:
    cells = study.row(30, 0.5, 34, 20, (-46, -20))
    integer, smooth = (int(cells[column].split()[0]) for column in (5, 8))
    assert smooth > 2 * integer
    assert all(int(cells[column].split("; ")[1].rstrip("%)")) > 60 for column in (4, 5, 8))
