"""Thresholds from rows: frequent values get bins of their own, any numbers are spanned, and few rows decide nothing."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis, Variable
from fhe_auc.question.binning import bins_of, listed, numbers, of_one_number
from fhe_auc.rows.own_rows import Thresholds, default_thresholds, of_scores
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry

RANDOM = np.random.default_rng(61)
LOGITS = RANDOM.normal(-2, 1.5, 3000)
SHAPES = {
    "points": RANDOM.binomial(9, 0.4, 3000).astype(float),
    "logits": LOGITS,
    "-3 to 3": RANDOM.integers(-3, 4, 3000).astype(float),
    "lab values": RANDOM.lognormal(3, 2, 3000),
    "percent": np.round(100 / (1 + np.exp(-LOGITS))),
    "all one": np.full(50, 5.0),
    "three rows": np.array([97.2, 98.0, 99.1]),
    "far apart": np.array([-1.7e308, 0.0, 1e-300, 1.7e308]),
}


def chosen(scores: NDArray[np.float64], protocol: str = "exact", **about: Any) -> Thresholds:
    data = PartyData.from_arrays("north", np.arange(len(scores)) % 2, scores)
    return default_thresholds([data], about.pop("analysis", PLAIN), registry.load(protocol).options, about)


@pytest.mark.parametrize("name", SHAPES)
def test_any_numbers_are_spanned_and_values_that_ten_rows_have_stand_alone(name: str) -> None:
    scores = SHAPES[name]
    grid, told = of_scores([scores], "hybrid:5000")
    assert 2 <= len(grid) <= 5000
    values, rows = np.unique(numbers(scores), return_counts=True)
    own = values[rows >= 10]
    assert of_one_number(grid)[bins_of(own, grid)].all()
    count = f" with {len(own)} own value{'s' * (len(own) > 1)}" if len(own) else ""
    assert told == f"{len(grid):,} points of these rows{count}"
    assert name == "all one" or len(set(bins_of(values, grid).tolist())) > 0.5 * len(values)


@pytest.mark.parametrize("name", ["logits", "lab values"])
def test_the_nine_rows_at_either_end_may_have_any_scores(name: str) -> None:
    scores = np.sort(SHAPES[name])
    others = scores.copy()
    others[:9], others[-9:] = scores[0] - np.arange(9.0, 0, -1), scores[-1] * np.arange(2.0, 11)
    assert np.array_equal(*(of_scores([each], "hybrid:5000").grid for each in (scores, others)))


def test_probabilities_keep_the_named_grid_but_for_as_many_points_as_their_values_take() -> None:
    few = RANDOM.random(2000)
    assert chosen(few)[1] == "hybrid:5000"
    grid, told = chosen(np.concatenate([few, np.repeat([0.0, 0.1, np.float32(0.3), 1.0], 10), np.repeat(0.7, 9)]))
    assert told == "hybrid:5000 with 4 own values"
    assert 4900 <= len(grid) <= 5000  # points closer to 1 than numbers are go with the value 1
    assert of_one_number(grid)[bins_of(np.array([0, 0.1, 0.3, 1]), grid)].all()
    assert not of_one_number(grid)[bins_of(np.array([0.7]), grid)].any()
    assert np.isin(thresholds.hybrid(4992), grid).mean() > 0.98
    many = np.repeat(np.arange(1, 901) / 1000, 10)
    assert chosen(many)[1] == "hybrid:5000 with 500 own values"


@pytest.mark.parametrize(
    ("protocol", "about", "told"),
    [
        ("exact", {}, "hybrid:5000 with 10 own values"),
        ("semi-honest", {}, "hybrid:1000 with 10 own values"),
        ("histogram-federated", {}, "hybrid:5000 with 10 own values"),
        ("exact", {"round_scores": 2}, "hybrid:5000"),
        ("verified", {"epsilon": 1.0}, "hybrid:5000"),
        ("dpauc-laplace", {"epsilon": 1.0}, "hybrid:1000"),
        ("histogram-local-dp", {"epsilon": 1.0}, "hybrid:1000"),
        ("exact", {"analysis": Analysis(by=(Variable("sex", ("f", "m")),))}, "hybrid:5000 with 10 own values"),
        ("exact", {"analysis": Analysis(models=("a", "b"))}, "hybrid:1500 with 10 own values"),
        (
            "exact",
            {"analysis": Analysis(by=(Variable("ward", tuple(map(str, range(26)))),))},
            "hybrid:1000 with 10 own values",
        ),
    ],
)
def test_rows_choose_unless_privacy_noise_or_rounding_forbids_it(
    protocol: str, about: dict[str, Any], told: str
) -> None:
    assert chosen(np.repeat(np.arange(10) / 10, 20), protocol, **about)[1] == told


def test_one_site_with_fractions_among_percentages_is_refused() -> None:
    percent = PartyData.from_arrays("north", np.arange(50) % 2, np.linspace(1, 99, 50))
    for rows, refused in (
        (np.linspace(0.01, 0.99, 10), True),
        (np.linspace(0.01, 0.99, 9), False),
        (np.arange(50) % 2, False),
    ):
        south = PartyData.from_arrays("south", np.arange(len(rows)) % 2, rows)
        if refused:
            with pytest.raises(
                InputError, match=r"party 'south': its scores run to 0\.99, as fractions do, .* 'north' to 99"
            ):
                default_thresholds([percent, south], PLAIN, registry.load("exact").options, {})
        else:
            assert default_thresholds([percent, south], PLAIN, registry.load("exact").options, {}).grid[-1] > 1


def test_thresholds_of_rows_that_lie_number_by_number_list_no_scores() -> None:
    """Far from 0, as 5 + 0.0001 z, all points follow one another in single precision; other scores are not refused."""
    scores = 5 + 1e-4 * np.random.default_rng(3).normal(size=3000)
    grid, _ = chosen(scores, "exact")
    assert listed(grid) is None
    assert len(np.unique(bins_of(scores, grid))) > 300
