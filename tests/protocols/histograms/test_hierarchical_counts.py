"""Hierarchical counts: every prefix adds up, and quantiles are where numpy finds them, to a cell of the grid."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.histograms import hierarchical_counts as hierarchy
from fhe_auc_protocols.histograms.hierarchical_counts import HierarchicalCounts


def pool(scores: object) -> PartyData:
    return PartyData.from_arrays("pool", np.zeros(len(scores), dtype=bool), scores)  # type: ignore[arg-type]


@settings(max_examples=30)
@given(scores=st.lists(st.floats(0, 1), min_size=1, max_size=60), fraction=st.floats(0, 1))
def test_no_prefix_is_closer_to_the_fraction_than_the_one_found(scores: list[float], fraction: float) -> None:
    counts = hierarchy.count(pool(scores), 6)
    below = [sum(score < r / 64 for score in scores) for r in range(64)] + [len(scores)]
    errors = [abs(rows - fraction * len(scores)) for rows in below]
    assert errors[int(hierarchy.quantile_cells(counts, fraction)[0])] == pytest.approx(min(errors), abs=1e-9)


@pytest.mark.parametrize(("height", "bins"), [(8, 10), (10, 50), (14, 200)])
@pytest.mark.parametrize("shape", [(1, 1), (2, 5)])
def test_boundaries_are_numpys_quantiles_within_a_cell(height: int, bins: int, shape: tuple[float, float]) -> None:
    scores = np.random.default_rng(1).beta(*shape, 200_000)
    edges = hierarchy.equi_depth_edges(hierarchy.count(pool(scores), height), bins)
    expected = np.quantile(scores, np.arange(bins + 1) / bins)
    expected[[0, -1]] = 0, 1
    assert len(edges) == bins + 1
    assert np.abs(edges - expected).max() <= 2.0**-height
    assert (edges * 2**height == np.round(edges * 2**height)).all()


def test_a_spike_gets_a_bin_of_its_own_and_leaves_fewer_bins() -> None:
    scores = np.append(np.full(600, 0.3), np.random.default_rng(2).random(400))
    edges = hierarchy.equi_depth_edges(hierarchy.count(pool(scores), 8), 10)
    cell = int(0.3 * 256)
    assert {cell / 256, (cell + 1) / 256} <= set(edges)
    assert 3 <= len(edges) < 11
    assert (np.diff(edges) > 0).all()


def test_equal_scores_leave_their_cell_and_what_is_beside_it() -> None:
    for score, edges in ((0.5, [0, 0.5, 0.5625, 1]), (1.0, [0, 0.9375, 1]), (0.0, [0, 0.0625, 1])):
        assert hierarchy.equi_depth_edges(hierarchy.count(pool([score] * 9), 4), 4).tolist() == edges


def test_noise_moves_boundaries_little_and_never_breaks_their_order() -> None:
    # Gaussian noise of standard deviation 14 on every count (h/eps = 10, as distributed DP adds at eps = 1). Seeded: an
    # experiment. A prefix sums at most 10 counts: its error is 45 rows; boundaries stay within 6 of these, and a cell.
    generator = np.random.default_rng(4)
    scores = generator.beta(2, 5, 100_000)
    counts = hierarchy.count(pool(scores), 10)
    noisy = HierarchicalCounts(tuple(level + generator.normal(0, 14, level.shape) for level in counts.levels))
    edges = hierarchy.equi_depth_edges(noisy, 20)
    assert (np.diff(edges) > 0).all()
    ranks = np.searchsorted(np.sort(scores), edges) / len(scores)
    cell = np.histogram(scores, 1024, (0, 1))[0].max() / len(scores)
    assert np.abs(ranks - np.arange(21) / 20).max() < 6 * 45 / len(scores) + cell


@settings(max_examples=30)
@given(st.lists(st.floats(-5, 9), min_size=14, max_size=14), st.integers(1, 8))
def test_any_noise_leaves_ascending_boundaries_on_the_grid_or_a_clear_error(noise: list[float], bins: int) -> None:
    counts = HierarchicalCounts((np.array(noise[:2]), np.array(noise[2:6]), np.array(noise[6:])))
    if counts.total > 0:
        edges = hierarchy.equi_depth_edges(counts, bins)
        assert (edges[0], edges[-1]) == (0, 1)
        assert (np.diff(edges) > 0).all()
        assert set(edges * 8) <= set(range(9))
    else:
        with pytest.raises(EvaluationError, match="hold no row"):
            hierarchy.equi_depth_edges(counts, bins)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            (lambda score=score: hierarchy.count(pool([0.1, 0.2, score]), 5), f"'pool', row 2: score is {score!r}, .*")
            for score in (-1e-9, 1.0000001)
        ),
        *(
            (lambda height=height: hierarchy.count(pool([0.1]), height), "height of a hierarchy must be")
            for height in (0, 21, 2.5)
        ),
        *(
            (lambda bins=bins: hierarchy.equi_depth_edges(hierarchy.count(pool([0.1]), 4), bins), "number of bins must")
            for bins in (0, 17, 2.5)
        ),
        (lambda: HierarchicalCounts((np.zeros(2), np.zeros(3))), "level 2 must hold 4 finite counts"),
        (lambda: HierarchicalCounts((np.array([0, np.nan]),)), "level 1 must hold 2 finite counts"),
        (lambda: hierarchy.quantile_cells(hierarchy.count(pool([0.1]), 3), [0.5, 1.5]), r"fraction 1 is 1\.5"),
    ],
)
def test_what_is_out_of_range_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_hierarchical_counts_are_frozen_and_silent() -> None:
    counts = hierarchy.count(pool([0.1, 0.9]), 3)
    assert repr(counts) == "HierarchicalCounts(height=3)"
    with pytest.raises(ValueError, match="read-only"):
        counts.levels[0][0] = 5
