"""The printed tables of DPAUC come out of the simulation, on scores shaped like the paper's.

What was asked for: means within 3e-4 of the paper's with 10 parties, 3e-3 with 1,000. That is tested of the mean of 100
runs, as many as the paper has, and of the limit that 5,000 runs come close to, where luck is the paper's alone. Cells
for which it does not hold are named here, and must be beyond it; docs/evidence/dpauc.md says why.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.support import dpauc_tables as tables
from tests.support import synthetic_scores as synthetic
from tests.support.synthetic_scores import criteo_like

EPSILONS = tables.EPSILONS
MEANS_OFF = {
    *((0, 200, 1), (1, 25, 1), (1, 100, 1), (1, 100, 2), (1, 200, 1), (1, 200, 2)),
    *((2, 50, 1), (2, 100, 2), (2, 200, 1)),
}
"""Cells of Table 5 (epoch, |Θ|, ε) where the mean of 100 runs is further off than 3e-4."""

LIMITS_OFF = {
    *((0, 50, 1), (0, 200, 1), (1, 25, 1), (1, 50, 1), (1, 100, 1), (1, 200, 1), (1, 200, 2)),
    *((2, 50, 1), (2, 100, 1), (2, 100, 2), (2, 200, 1)),
}
"""Cells of Table 5 where the limit is."""

MEANS_OFF_IN_TABLE_4 = {
    (0, "non-IID", 10, 1),  # 7.6e-4 from the paper's own IID mean, which it should equal
    *((1, "non-IID", 10, 1), (1, "non-IID", 1000, 1), (1, "non-IID", 1000, 2), (2, "IID", 1000, 1)),
}
LIMITS_OFF_IN_TABLE_4 = {
    (0, "non-IID", 10, 1),
    *((1, "non-IID", 10, 1), (1, "non-IID", 1000, 1), (2, "non-IID", 10, 1), (2, "non-IID", 1000, 1)),
}

FURTHEST = {10: 1.5e-3, 1000: 5.5e-3}
"""By parties: how far off any of them is at most."""

SPREAD_OFF = {(0, 25, 1), (2, 50, 1)}
"""Where our 100 runs were unlucky, and where the paper's standard deviation is smaller than at |Θ| = 25."""


def assert_within(off: float, parties: int, exception: bool) -> None:
    low, high = (tables.WITHIN[parties], FURTHEST[parties]) if exception else (0.0, tables.WITHIN[parties])
    assert low <= abs(off) <= high


def quick(cells: Iterable[Any], chosen: Callable[[Any], bool]) -> list[Any]:
    """All cells, of which those that are not chosen are slow."""
    return [pytest.param(cell, marks=[] if chosen(cell) else pytest.mark.slow, id=str(cell)) for cell in cells]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cell", quick(tables.TABLE_5, lambda cell: cell in {(0, 10), (0, 100)}))
def test_table_5(cell: tuple[int, int], epsilon: int) -> None:
    paper = tables.printed(tables.TABLE_5[cell], epsilon)
    found = tables.laplace(paper, *cell, 10, epsilon, runs=tables.PAPER_RUNS, seed=0)
    assert_within(found.difference, 10, (*cell, epsilon) in MEANS_OFF)
    assert_within(found.limit, 10, (*cell, epsilon) in LIMITS_OFF)
    assert abs(found.spread - 1) < (0.7 if (*cell, epsilon) in SPREAD_OFF else tables.SPREAD_WITHIN)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cell", quick(tables.TABLE_4, lambda cell: cell == (0, "IID", 1000)))
def test_table_4(cell: tuple[int, str, int], epsilon: int) -> None:
    epoch, way, parties = cell
    paper = tables.printed(tables.TABLE_4[cell], epsilon)
    found = tables.laplace(paper, epoch, 100, parties, epsilon, runs=100, seed=0, by_party=way != "IID")
    assert_within(found.difference, parties, (*cell, epsilon) in MEANS_OFF_IN_TABLE_4)
    assert_within(found.limit, parties, (*cell, epsilon) in LIMITS_OFF_IN_TABLE_4)
    assert abs(found.spread - 1) < tables.SPREAD_WITHIN


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("epoch", quick(range(3), lambda epoch: epoch == 0))
def test_table_1_within_three_standard_errors(epoch: int, epsilon: int) -> None:
    assert abs(tables.flips(epoch, epsilon, runs=tables.PAPER_RR_RUNS, seed=0).standard_errors) < 3


@pytest.mark.parametrize("epsilon", [1, 10])
def test_table_3_epoch_0(epsilon: int) -> None:
    assert abs(tables.noised_scores(0, epsilon, runs=1, seed=0) - tables.TABLE_3[epsilon][0]) < tables.SCORES_WITHIN


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", tables.TABLE_3)
def test_table_3(epsilon: int) -> None:
    for epoch in range(3):
        found = tables.noised_scores(epoch, epsilon, runs=3, seed=0)
        assert abs(found - tables.TABLE_3[epsilon][epoch]) < tables.SCORES_WITHIN


def test_other_thresholds_than_the_papers_would_miss_its_table() -> None:
    """The grid matters: with uniform points |Θ| = 10 is off by ten times what is allowed."""
    from fhe_auc.question import thresholds
    from fhe_auc_protocols.dpauc.roc import Curve, area, statistics

    uniform = area(statistics(*tables.rows(0), thresholds.uniform(10)).astype(np.float64), Curve())
    assert abs(float(uniform) - tables.TABLE_5[0, 10][0]) > 3e-3


def test_the_page_says_how_many_cells_of_tables_4_and_5_are_within() -> None:
    for epoch in [0, 1, 2]:
        means, limits = (20 - sum(cell[0] == epoch for cell in off) for off in (MEANS_OFF, LIMITS_OFF))
        assert re.search(rf"^\| Table 5, epoch {epoch} \| 20 \| {means} \| \S+ \| {limits} \|", said(), re.MULTILINE)
    for way, parties in [("non-IID", 10), ("IID", 1000), ("non-IID", 1000)]:
        means, limits = (
            12 - sum(cell[1:3] == (way, parties) for cell in off)
            for off in (MEANS_OFF_IN_TABLE_4, LIMITS_OFF_IN_TABLE_4)
        )
        row = rf"^\| Table 4, K = {parties:,}, {way} \| 12 \| {means} \| \S+ \| {limits} \|"
        assert re.search(row, said(), re.MULTILINE)


def said() -> str:
    return (Path(__file__).parents[3] / "docs" / "evidence" / "dpauc.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("epoch", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_rows_positives_and_auc_are_the_papers(epoch: int) -> None:
    y_true, y_score = criteo_like(epoch)
    assert (len(y_true), int(y_true.sum())) == (458_407, 117_317)
    assert roc_auc_score(y_true, y_score) == pytest.approx(synthetic.CRITEO_AUC[epoch], abs=1.5e-5)
    assert 0 < y_score.min() < y_score.max() < 1


def test_epoch_0_has_the_papers_positives_and_equal_seeds_give_equal_rows() -> None:
    y_true, y_score = criteo_like(0)
    ranked = y_true[np.argsort(-y_score, kind="stable")].cumsum()
    for top, positives in synthetic.CRITEO_TOP.items():
        assert abs(ranked[top - 1] - positives) <= 2, top  # float32 has ties
    y_true, y_score = criteo_like(1, seed=3)
    again = criteo_like(1, seed=3)
    np.testing.assert_array_equal([y_true, y_score], again)
    other = criteo_like(1, seed=4)
    assert (y_true != other[0]).any()
    assert roc_auc_score(*other) == pytest.approx(roc_auc_score(y_true, y_score), abs=2e-5)
