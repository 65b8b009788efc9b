"""Grids have exactly the points they say, and whatever is no grid is refused with its position and value."""

import hashlib
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError
from fhe_auc.question import score_bins, thresholds
from fhe_auc.question.score_bins import bins_of, next_number, numbers, of_one_number
from fhe_auc.question.study import Study
from fhe_auc.rows.own_checks import check_scores
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request, new_manifest


def test_what_is_no_grid_is_refused() -> None:
    for points, shown in [
        ([0.1, 0.3, 0.2], r"threshold 2 is 0\.2 after 0\.3; they must be strictly ascending"),
        ([0.1, 0.1], r"threshold 1 is 0\.1 after 0\.1; they must be strictly ascending"),
        ([-0.0, 0.0], "strictly ascending"),
        ([2**53, 2**53 + 1], "strictly ascending"),
        (np.array([0.1, np.nan, 0.2]), "threshold 1 is nan; thresholds must be finite"),
        ([0.1, np.nan, 0.2], "threshold 1 must be a number, got nan"),
        ([0.1, 0.2, np.inf], "threshold 2 is inf; thresholds must be finite"),
        (np.array([0, np.longdouble("1e400")]), "threshold 1 is inf; thresholds must be finite"),
        ([], "from 2 to 1,048,576, not 0"),
        ([0.5], "from 2 to 1,048,576, not 1"),
        (np.arange(2**20 + 1), "from 2 to 1,048,576, not 1,048,577"),
        ([[0.1, 0.2]], r"one-dimensional array of numbers, not of type object and shape \(1, 2\)"),
        (0.5, "'hybrid:1000' or the like, or a one-dimensional array of numbers, not float$"),
        ({0.1: 0.2}, "array of numbers, not dict$"),
        (["0.1", "0.2"], "threshold 0 must be a number, got '0.1'"),
        ([0.1, None], "threshold 1 must be a number, got None"),
        ([False, True], "threshold 0 must be a number, got False"),
        ([[0.1], [0.2, 0.3]], "threshold 0 must be a number, got list"),
        (np.ma.masked_array([0.1, 0.2], mask=[0, 1]), "threshold 1 must be a number, got Masked"),
    ]:
        with pytest.raises(InputError, match=shown):
            thresholds.explicit(points)
    for grid in [thresholds.uniform, thresholds.hybrid]:
        for size in [-1, 0, 1, 2**20 + 1, 10**30, 100.0, "100", None, [100]]:
            told = f"from 2 to 1,048,576, not {size:,}|below 2" if isinstance(size, int) else "must be a whole number"
            with pytest.raises(InputError, match=told):
                grid(size)


KNOWN = r"are unknown; known are uniform:SIZE, hybrid:SIZE, dpauc:SIZE, quantile:SIZE, values:FIRST:LAST, or a \.npy/"


def test_specifications_and_files_that_are_no_grids_are_refused_with_the_remedy(tmp_path: Path) -> None:
    for specs, shown in [
        (["", "Quantile:100", "Uniform:100", "grid.json", "uniform 100"], KNOWN),
        (["uniform", "uniform:", "uniform:ten", "uniform:-5"], "say how many, 2 to 1,048,576, as in 'uniform:100'"),
        (["hybrid:1e3", "hybrid:", "hybrid:1_000"], "say how many, 2 to 1,048,576, as in 'hybrid:100'"),
        (["quantile:", "quantile:1", "quantile:-5", "quantile:9999999"], "2 to 1,048,576"),
        (["quantile:100", "quantile"], "have to be found first, by a session of all parties"),
        (["none.npy"], "'none.npy' does not exist"),
        (["dpauc:2", "dpauc:3"], "from 4, not [23]"),  # without a point in each share
        (["100", " 100 "], "^thresholds 100 are no grid yet: say uniform:100 or hybrid:100$"),
    ]:
        for spec in specs:
            with pytest.raises(InputError, match=shown):
                thresholds.parse(spec)
    for name, content, shown in [
        ("words.txt", b"0.1\nhalf\n", r"words.txt': line 2 is 'half', which is not a number"),
        ("header.csv", b"theta\n0.1\n0.2\n", r"header.csv': line 1 is 'theta', which is not a number"),
        ("commas.txt", b"0,2\n0,4\n", r"line 1 is '0,2', which is not a number: a line has one, with a decimal point"),
        ("both.txt", b"0.2\n0.4;0.6\n", r"line 2 is '0.4;0.6', which is not a number: a line has one, with a decimal"),
        ("falling.txt", b"0.2\n0.1\n", r"falling.txt': threshold 1 is 0\.1 after 0\.2"),
        ("empty.txt", b"", r"empty.txt': the number of thresholds must be from 2"),
        ("bytes.txt", b"\xff\xfe\x00", r"bytes.txt' cannot be read"),
        ("empty.npy", b"", r"empty.npy' cannot be read"),
        ("text.npy", b"0.1\n0.2\n", r"text.npy' cannot be read"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=shown):
            thresholds.parse(str(tmp_path / name))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_file_of_thresholds_is_read_as_editors_and_spreadsheets_save_it(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.txt"
    for text in ("-0.5\n0.25\n", "\N{MINUS SIGN}0.5\r\n\r\n 0.25 \r\n", "-5e-1\r0.25"):
        path.write_bytes(text.encode(encoding))
        assert thresholds.parse(str(path)).tolist() == [-0.5, 0.25]


def test_quantiles_are_a_wish_that_no_grid_is_made_of() -> None:
    assert [thresholds.quantiles_wanted(each) for each in (" quantile:200 ", "quantile")] == [200, 0]
    assert [thresholds.quantiles_wanted(other) for other in ("uniform:5", None, [0.1, 0.5], "q.txt")] == [None] * 4


def test_saved_thresholds_are_read_back_to_the_last_bit_and_no_pickle_or_archive_is_loaded(tmp_path: Path) -> None:
    grid = np.sort(np.random.default_rng(0).random(50))
    thresholds.save(tmp_path / "grid.txt", grid)
    assert thresholds.parse(str(tmp_path / "grid.txt")).tobytes() == grid.tobytes()
    with pytest.raises(InputError, match=r"must end in \.txt or \.csv"):
        thresholds.save(tmp_path / "grid.npy", grid)
    np.save(tmp_path / "pickle.npy", np.array([0.1, None]), allow_pickle=True)
    with (tmp_path / "archive.npy").open("wb") as file:
        np.savez(file, np.array([0.1, 0.2]))
    with pytest.raises(InputError, match=r"pickle\.npy' cannot be read"):
        thresholds.resolve(tmp_path / "pickle.npy")
    with pytest.raises(InputError, match=r"archive\.npy': holds an archive"):
        thresholds.resolve(tmp_path / "archive.npy")


def digest(grid: np.ndarray) -> str:
    """SHA-256 of the bytes that stand in a manifest."""
    return hashlib.sha256(grid.astype("<f8").tobytes()).hexdigest()


def test_grids_have_exactly_the_size_ends_and_bytes_that_are_asked_for() -> None:
    assert np.array_equal(thresholds.uniform(100), np.linspace(0, 1, 100))
    for size in [*range(2, 300), 1000, 1001, 4096, 20_001]:
        assert len(thresholds.hybrid(size)) == size
    assert np.isin([float(f"{number / 1000:.3f}") for number in range(1001)], thresholds.hybrid(5000)).all()
    grid = thresholds.hybrid()
    assert (grid[:2].tolist(), grid[-1]) == ([0.0, 5e-324], 1.0)
    assert grid[-2] > 1 - 1e-14
    assert digest(thresholds.hybrid()) == "4b54c1ba3e7665a030456bc41340e09953ee9f65c78f51a47c60d06e2d84e338"


def test_grids_are_read_only_copies_and_their_bytes_depend_on_the_values_only() -> None:
    for grid in thresholds.uniform(5), thresholds.hybrid(5), thresholds.explicit([1, 2]):
        assert grid.dtype == np.float64
        assert not grid.flags.writeable
    given = np.array([-7.5, 0.0, 12.0])
    grid = thresholds.explicit(given)
    given[0] = 5.0
    assert grid.tolist() == [-7.5, 0.0, 12.0]
    known = "fc62429c3e69001d65972cdeb94fb9aa18a7d9c16bc449e1e474e7e41bb95a7d"
    assert digest(thresholds.explicit(np.array([0.0, 1.0]))) == known
    assert digest(thresholds.explicit([-0.0, 1])) == known
    assert digest(thresholds.explicit(np.array([0, 1], dtype=">f4"))) == known
    assert digest(thresholds.explicit([0.0, np.nextafter(1.0, 2.0)])) != known


def test_specifications_files_paths_and_arrays_name_grids(tmp_path: Path) -> None:
    assert np.array_equal(thresholds.parse("uniform:100"), thresholds.uniform(100))
    assert np.array_equal(thresholds.parse("hybrid:64"), thresholds.hybrid(64))
    assert np.array_equal(thresholds.parse(" hybrid "), thresholds.hybrid(1000))
    grid = thresholds.hybrid(50)
    np.save(tmp_path / "grid.npy", grid)
    np.savetxt(tmp_path / "grid.txt", grid, fmt="%.17g")
    (tmp_path / "grid.CSV").write_text("\ufeff" + "\r\n".join(map(repr, grid.tolist())) + "\r\n\r\n", encoding="utf-8")
    for name in "grid.npy", "grid.txt", "grid.CSV":
        assert np.array_equal(thresholds.parse(str(tmp_path / name)), grid)
    np.save(tmp_path / "grid.npy", [0.25, 0.5])
    assert np.array_equal(thresholds.resolve("uniform:7"), thresholds.uniform(7))
    assert thresholds.resolve(tmp_path / "grid.npy").tolist() == [0.25, 0.5]
    assert thresholds.resolve([0.25, 0.5]).tolist() == [0.25, 0.5]
    for number in (100, np.int64(100)):
        with pytest.raises(InputError, match="say uniform:100 or hybrid:100"):
            thresholds.resolve(number)


def test_the_dpauc_grid_has_half_its_points_below_a_fifth_and_repeated_ones_are_neighbouring_numbers() -> None:
    for size, points in [(4, 4), (10, 9), (25, 24), (100, 100), (200, 200)]:
        grid = thresholds.dpauc(size)
        assert len(grid) == points
        shares = ((0, 0.2, size // 2), (0.2, 0.5, size // 4), (0.5, 1, size // 4))
        np.testing.assert_allclose(grid, np.concatenate([np.linspace(*share) for share in shares]), rtol=3e-16, atol=0)
        np.testing.assert_array_equal(thresholds.parse(f"dpauc:{size}"), grid)
    grid = thresholds.dpauc(100)
    assert (grid[49], grid[50]) == (0.2, np.nextafter(0.2, 1))
    assert (grid[74], grid[75]) == (0.5, np.nextafter(0.5, 1))


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


def test_numbers_are_rounded_exactly_from_the_least_normal_float_to_beyond_single_precision() -> None:
    powers = 2.0 ** np.array([-1021, -200, -149, -127, -126, -125, -1, 0, 20, 127, 128, 1022])
    steps = np.arange(-6, 7) * 2.0**-25  # halves of the last bit, which go to the even number
    near = np.multiply.outer(powers, 1 + steps).ravel()
    values = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, 0)])
    for own in (values, -values):
        parts = [math.frexp(each) for each in own.tolist()]
        assert numbers(own).tolist() == [math.ldexp(round(part * 2**24), power - 24) for part, power in parts]


@pytest.mark.parametrize(
    "grid",
    [
        *map(thresholds.parse, ("hybrid:5000", "uniform:1000", "dpauc:100", "values:0:9", "values:-3:3:0.5")),
        np.sort(np.random.default_rng(1).normal(size=3000) * 10 ** np.random.default_rng(2).uniform(-9, 9, 3000)),
        np.array([-2.0, 1.0]),
        np.array([1.0, np.nextafter(1.0, 2)]),
        np.array([-1e308, 0.0, 5e-324, 1e308]),
        np.array([-3.0, -2.0, -1.0]),
        np.array([-1.0, 0.0, 1e-310]),
    ],
    ids=lambda grid: f"{len(grid)} from {grid[0]:g}",
)
def test_many_scores_are_looked_up_in_the_bins_that_comparisons_with_each_threshold_give(grid: Any) -> None:
    random = np.random.default_rng(0)
    step = 1 << 40
    starts = score_bins.starts_of(grid)
    edges = (np.concatenate([grid, starts]).view(np.int64) // step * step).view(np.float64)
    near = np.concatenate([grid, starts, edges, -edges, np.abs(edges) + grid[1], [0.0, -0.0, np.inf, -np.inf]])
    some = [np.nextafter(near, way) for way in (np.inf, -np.inf)]
    patterns = random.integers(-(2**63), 2**63, 40_000).view(np.float64)
    scores = np.concatenate([near, *some, patterns[np.isfinite(patterns)], random.random(20_000)])
    for ends in (grid, starts):
        expected = np.clip(np.searchsorted(ends, scores, side="right") - 1, 0, None)
        assert np.array_equal(score_bins.in_bins(scores, ends), expected)
        assert np.array_equal(score_bins.in_bins(scores[:100], ends), expected[:100])


@pytest.mark.parametrize("asked", ["hybrid:5000", "uniform:11", "uniform:1001"])  # multiples of 0.001 or 0.1
def test_scores_of_a_text_file_and_of_a_float32_column_share_bins(asked: str) -> None:
    grid, scores = thresholds.parse(asked), np.arange(1001) / 1000
    assert np.array_equal(bins_of(scores, grid), bins_of(scores.astype(np.float32).astype(np.float64), grid))


def test_bins_of_one_number_end_at_the_next() -> None:
    grid = np.array([-1.0, 2.0, next_number(np.array([2.0]))[0], 3.0, 3.5])
    assert of_one_number(grid).tolist() == [False, True, False, False, False]


def test_ends_hold_one_number_at_thresholds_for_probabilities_alone() -> None:
    above_zero = next_number(np.array([0.0]))[0]
    assert of_one_number(np.array([0.0, above_zero, 0.5, 1.0])).tolist() == [True, False, False, True]
    assert of_one_number(np.array([-1.0, next_number(np.array([-1.0]))[0], 1.0])).tolist() == [False, False, False]


WIDE = st.floats(-1e300, 1e300, allow_subnormal=False)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0:9", range(10)),
        ("-3:3:0.5", np.arange(-3, 3.5, 0.5)),
        ("0:1:0.05", np.arange(21) / 20),
        ("0, 1.5,3", (0, 1.5, 3)),
        ("3,-1", (3, -1)),
    ],
)
def test_texts_name_values_exactly(text: str, values: list[float]) -> None:
    assert score_bins.parse_listed(text) == list(values)
    assert (score_bins.listed(thresholds.parse(f"values:{text}")) == np.sort(numbers(np.array(values, float)))).all()


@pytest.mark.parametrize(
    "text", ["", "9", "0:9:2", "3:1", "0:9:0", "0:x", "1,nan", "1,inf", "1,1", "1,1.00000001", "0:2500"]
)
def test_what_lists_no_values_is_refused_in_studies_too(text: str) -> None:
    with pytest.raises(InputError, match="score values"):
        thresholds.parse(f"values:{text}")
    if text:
        with pytest.raises(InputError, match="score values"):
            Study(model="m", outcome="o", cohort="c", period="p", score_values=text)


@given(st.lists(st.one_of(WIDE, st.floats(0, 1)), min_size=2, max_size=20))
def test_every_value_has_a_bin_of_its_own_and_nothing_else_is_taken(values: list[float]) -> None:
    own = np.unique(numbers(np.array(values)))
    assume(len(own) > 1)
    grid = score_bins.thresholds_of(own)
    bins = bins_of(own, grid)
    assert len(set(bins.tolist())) == len(own)
    assert of_one_number(grid)[bins].all()
    assert (score_bins.listed(grid) == own).all()
    check_scores(PartyData.from_arrays("north", np.arange(len(own)) % 2, own), grid)
    between = float(own[0] / 2 + own[1] / 2)
    assume(numbers(np.array([between]))[0] not in own)
    with pytest.raises(InputError, match=re.escape(f"row 1: score is {between!r}, but these thresholds are of listed")):
        check_scores(PartyData.from_arrays("south", [0, 1], [own[0], between]), grid)


@pytest.mark.parametrize("grid", ["uniform:2", "uniform:11", "hybrid:1000", "dpauc:20"])
def test_no_other_grid_is_taken_for_listed_values(grid: str) -> None:
    assert score_bins.listed(thresholds.parse(grid)) is None
    assert score_bins.listed(thresholds.decimals(2)) is None


def test_a_session_refuses_a_score_that_is_not_listed_with_party_row_value_and_the_nearest() -> None:
    sites = {"north": ([0, 1, 1], [3, 7, 9]), "south": ([0, 1, 0], [0, 5, 4.5])}
    with pytest.raises(InputError, match=r"party 'south', row 2: score is 4\.5, .* of which 4 is the nearest"):
        federated_auc(sites, thresholds="values:0:9")
    sites["south"] = ([0, 1, 0], [0, 5, np.float32(4)])
    assert federated_auc(sites, thresholds="values:0:9").fraction == 1


def test_a_manifest_has_the_thresholds_of_the_values_that_its_study_lists() -> None:
    study = Study(model="m", outcome="o", cohort="c", period="p", score_values="0:9")
    assert study.listed is not None
    assert ("score values", "", "0:9; others are refused") in study.lines()
    for values in ("0:9", "0:8"):
        request = Request(parties=("north", "south"), thresholds=thresholds.parse(f"values:{values}"))
        made = new_manifest(registry.load("dpauc-laplace"), request, options={"epsilon": 1.0})
        named = {"fingerprints": (b"a" * 32, b"b" * 32), "aggregator": b"c" * 32, "study": study}
        if values == study.score_values:
            assert structs.replace(made, **named).study == study
        else:
            with pytest.raises(InputError, match="not those of the score values that its study lists"):
                structs.replace(made, **named)
