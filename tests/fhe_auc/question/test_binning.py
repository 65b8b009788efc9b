"""The bin of a score by a table is the one that a binary search finds, on any grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.question import thresholds
from fhe_auc.question.binning import bins_of
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.row_store import BATCH, IN_MEMORY, Column, release

finite = st.floats(allow_nan=False, allow_infinity=False)
ENOUGH = 2**14  # rows for which there is a table
EDGES = [0.0, -0.0, 5e-324, -5e-324, 1.0, np.nextafter(1, 0), np.nextafter(1, 2), 1e308, -1e308, 2.0**-1022, 0.5]


def searched(scores: np.ndarray, grid: np.ndarray) -> np.ndarray:
    return np.maximum(np.searchsorted(grid, scores, side="right") - 1, 0)


def near(grid: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Thresholds, their neighbours, numbers between and beyond them, and the edges of floating point."""
    with np.errstate(over="ignore", invalid="ignore"):
        chosen = random.choice(grid, ENOUGH)
        spread = random.uniform(-0.5, 1.5, ENOUGH) * np.minimum(grid[-1] - grid[0], 1e300) + grid[0]
        beside = [np.nextafter(chosen, np.inf), np.nextafter(chosen, -np.inf)]
    found = np.concatenate([chosen, *beside, spread, EDGES])
    return found[np.isfinite(found)]


@settings(max_examples=40)
@given(st.lists(finite, min_size=1, max_size=60, unique_by=lambda x: x + 0.0), st.integers(0, 2**32))
def test_on_any_grid_the_table_finds_what_a_search_finds(points: list[float], seed: int) -> None:
    grid = np.unique(np.array(points, np.float64))
    scores = near(grid, np.random.default_rng(seed))
    assert np.array_equal(bins_of(scores, grid), searched(scores, grid))


@pytest.mark.parametrize("name", ["hybrid:4000", "hybrid:1000", "uniform:1000", "dpauc:100"])
def test_on_named_grids_too_with_scores_that_crowd_at_the_ends(name: str) -> None:
    grid, random = thresholds.parse(name), np.random.default_rng(1)
    for scores in (near(grid, random), random.beta(0.05, 0.5, 50_000), 1 - random.beta(0.05, 0.5, 50_000)):
        assert np.array_equal(bins_of(scores, grid), searched(scores, grid))


def test_rows_beyond_memory_are_counted_in_batches_like_any_others() -> None:
    random, grid = np.random.default_rng(2), thresholds.parse("hybrid:100")
    labels, scores = Column(np.uint8), Column(np.float64)
    while scores.rows <= IN_MEMORY + BATCH:
        labels.append(random.integers(0, 2, BATCH // 2))
        scores.append(random.random(BATCH // 2))
    y_true, y_score = labels.finished(), scores.finished()
    assert isinstance(y_score, np.memmap)
    data = PartyData("many", y_true, (y_score,))
    sizes = [batch.rows for batch in data.batches()]
    assert (max(sizes), sum(sizes)) == (BATCH, data.rows)
    whole = PartyData.from_arrays("many", np.array(y_true), np.array(y_score))
    found, expected = count(data, grid), count(whole, grid)
    assert found.equals(expected)
    assert found.tp[0] == int(y_true.sum())
    halved = data.with_scores(lambda each: each / 2)
    assert np.array_equal(halved.y_score, y_score / 2)


def test_what_is_let_go_of_is_read_again() -> None:
    column = Column(np.float64)
    column.append(np.arange(IN_MEMORY + 1.0))
    array = column.finished()
    part = array[10:20]
    release(part)
    assert part.tolist() == list(np.arange(10.0, 20.0))
    release(np.arange(3.0))  # of memory: nothing to let go of
