"""``fhe-auc ustat`` and the runs behind it: every statistic by every method, files, errors, speed."""

import json
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from fhe_auc.base.errors import InputError
from fhe_auc.cli import main
from fhe_auc.rows.party_files import read_columns
from fhe_auc_protocols.u_statistics import kernels
from fhe_auc_protocols.u_statistics.kernels import Kernel
from fhe_auc_protocols.u_statistics.statistics import RandomSources, Setting, UStatisticResult, run, without_noise
from tests.support.u_statistics import of_rows

RATINGS = "ratings.csv --column room --column clean"
KENDALL = f"{RATINGS} --statistic kendall"
GINI = "--statistic gini --range 0 1 --column"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ustat")
    generator = np.random.default_rng(0)
    room = generator.integers(0, 6, 3000)
    clean = np.clip(room + generator.integers(-1, 2, 3000), 0, 5)
    euro = generator.gamma(2, 1000, 3000).round(2)
    rows = "\n".join(f"{a},{b},{c}" for a, b, c in zip(room, clean, euro, strict=True))
    (path / "ratings.csv").write_text("room,clean,euro\n" + rows)
    pq.write_table(pa.table({"room": room, "clean": clean, "euro": euro}), path / "ratings.parquet")
    np.savez(path / "ratings.npz", room=room, clean=clean, euro=euro)
    labels = generator.random(3000) < 0.3
    write(path / "north.csv", labels, np.clip(0.4 + 0.2 * labels + 0.2 * generator.standard_normal(3000), 0, 1))
    (path / "bad.csv").write_text("room,clean\n1,2\n3,4\n4,high\n")
    (path / "nan.csv").write_text("room,clean\n1,2\n3,nan\n")
    (path / "flags.csv").write_text("room,flag\n1,True\n0,False\n")
    (path / "empty.csv").write_text("room,clean\n")
    (path / "small.csv").write_text("room\n" + "\n".join("0123" * 3) + "\n")
    return path


def write(file: Path, labels: Any, scores: Any) -> None:
    rows = (f"{int(y)},{s}" for y, s in zip(labels, scores, strict=True))
    file.write_text("\n".join(["y_true,y_score", *rows]))


def call(folder: Path, arguments: str) -> Any:
    given = [str(folder / a) if a.endswith((".csv", ".parquet", ".npz")) else a for a in arguments.split()]
    return CliRunner().invoke(main, ["ustat", *given])


def found_by(folder: Path, arguments: str) -> Any:
    done = call(folder, f"{arguments} --json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def seeded(setting: Setting, rows: np.ndarray, seed: int = 0) -> UStatisticResult:
    return run(setting, rows, RandomSources.seeded_experiment(seed))


ALL = {
    "kendall krr": f"{KENDALL} --values 0,1,2,3,4,5",
    "kendall pairs": f"{KENDALL} --method pairs",
    "gini krr": "ratings.parquet --column euro --statistic gini --range 0 10000",
    "gini pairs": "ratings.npz --column euro --statistic gini --range 0 10000 --method pairs",
    "renyi2 krr": "ratings.csv --column room --statistic renyi2 --values 0,1,2,3,4,5",
    "renyi2 pairs": "ratings.csv --column room --statistic renyi2 --method pairs --pairings 2",
    "auc krr": "north.csv --statistic auc --bins 12",
    "auc hierarchy": "north.csv --statistic auc --method hierarchy --alpha 5",
    "auc pairs": "north.csv --statistic auc --method pairs",
}


@pytest.mark.parametrize("name", ALL)
def test_every_statistic_by_every_method_comes_near_the_exact_value(name: str, folder: Path) -> None:
    done = call(folder, f"{ALL[name]} --epsilon 8 --seed 1 --exact --json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    statistic, method = name.split()
    assert (found["statistic"], found["method"], found["users"]) == (statistic, method, 3000)
    exact = found["exact"][statistic]
    rounding = 0.02 * exact if "krr" in name and statistic == "gini" else 0
    assert abs(found["estimate"] - exact) < 5 * found["standard_error"] + rounding
    assert 0 < found["standard_error"] < 1.2 * found["error_bound"]
    assert "not private" in done.stderr
    assert "randomness was seeded: nothing is private" in found["notes"]
    domain = "krr" in name or "hierarchy" in name or name == "gini pairs"
    assert any("values outside were moved to the nearest end" in note for note in found["notes"]) == domain
    if statistic == "renyi2":
        assert found["derived"]["entropy"] == pytest.approx(-math.log(found["estimate"]))
    if name == "kendall krr":
        assert abs(found["derived"]["tau_b"] - found["exact"]["tau_b"]) < 0.1
    if statistic == "auc":
        public = "class sizes are public" if method == "pairs" else "labels are public"
        assert any(public in note for note in found["notes"])
        assert method != "pairs" or not any("labels are public" in note for note in found["notes"])
    if method == "pairs":
        assert any("ideal functionality" in note for note in found["notes"])


@pytest.mark.parametrize("options", ["--bins 10", "--method hierarchy --alpha 3"])
def test_an_error_of_the_auc_covers_what_bins_leave_undecided(options: str, folder: Path) -> None:
    """Scores of a rare outcome, which nearly all lie in the first of a few bins."""
    from sklearn.metrics import roc_auc_score

    generator = np.random.default_rng(9)
    labels = generator.random(20_000) < 0.1
    scores = 0.08 * generator.random(20_000) ** 2 + 0.06 * labels
    write(folder / "squeezed.csv", labels, scores)
    truth, arguments = roc_auc_score(labels, scores), f"squeezed.csv --statistic auc --epsilon 8 --seed 2 {options}"
    found = found_by(folder, arguments)
    off = abs(found["estimate"] - truth)
    assert 0.05 < off < min(1.5 * found["standard_error"], found["error_bound"])
    assert found["settings"]["undecided by bins"] == pytest.approx(found["standard_error"], rel=0.05)
    assert any("take more of them, or a range that fits" in note for note in found["notes"])
    assert "with what bins leave undecided" in " ".join(call(folder, arguments).stdout.split())
    fitting = found_by(folder, f"{arguments} --range 0 0.14")
    assert abs(fitting["estimate"] - truth) < min(off, 4 * fitting["standard_error"])


def test_values_that_a_row_may_have_leave_nothing_undecided(folder: Path) -> None:
    """Equal scores are ties of the rows themselves, which count half in their own AUC too."""
    write(folder / "stars.csv", np.arange(3000) % 2, np.arange(3000) % 3)
    found = found_by(folder, "stars.csv --statistic auc --values 0,1,2 --epsilon 8")
    assert "undecided by bins" not in found["settings"]
    assert found["standard_error"] < 0.02


@pytest.mark.parametrize("name", ALL)
def test_without_a_seed_runs_differ_and_print_a_table_and_one_repeats_a_run_and_warns(name: str, folder: Path) -> None:
    first = call(folder, f"{ALL[name]} --epsilon 1")
    numbers = [found_by(folder, f"{ALL[name]} --epsilon 1") for _ in range(2)]
    # All digits of both numbers are equal only if all counts of reports are, which has a probability below 1e-6.
    assert len({(of["estimate"], of["standard_error"]) for of in numbers}) == 2
    assert not any("seeded" in note for note in numbers[0]["notes"])
    assert "privacy budget of one row" in first.stdout
    assert "exact" not in first.stdout
    runs = [call(folder, f"{ALL[name]} --epsilon 1 --seed 7 --json") for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout
    assert "nothing is private" in runs[0].stderr


def test_the_two_party_step_runs_on_ciphertexts(folder: Path) -> None:
    arguments = "small.csv --column room --statistic renyi2 --method pairs --step bfv --epsilon 1"
    done = call(folder, f"{arguments} --values 0,1,2,3")
    assert done.exit_code == 0, done.output
    assert "BFV ciphertexts" in done.stdout
    assert "leave out --seed" in call(folder, f"{arguments} --values 0,1,2,3 --seed 1").stderr
    assert "give the values" in call(folder, arguments).stderr


NO_NUMBER = "flags.csv, line 2: 'flag' value is 'True', which is not a number"
HIERARCHY = "north.csv --statistic auc --method hierarchy"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ("ratings.csv --statistic kendall --column room", "kendall takes 2 of --column, got 1"),
        (f"{RATINGS} --statistic gini", "gini takes 1 of --column, got 2"),
        (KENDALL, "krr needs a public domain for kendall"),
        ("ratings.csv --column euro --statistic gini --method pairs", "needs a public range"),
        (f"{KENDALL} --method hierarchy", "hierarchy is for the AUC only"),
        (f"{KENDALL} --values 5,4", "ascending"),
        (f"{KENDALL} --values 1,x", "expected numbers with commas"),
        (f"{KENDALL} --values 1,2 --bins 3", "either values, or a range and bins"),
        (f"{KENDALL} --range 1 0", "lower one first, got 1 and 0"),
        (f"{KENDALL} --range 0 5 --alpha 3", "alpha is for method hierarchy"),
        (f"{KENDALL} {'--values 0,1 ' * 3}", "2 columns but 3"),
        (f"{KENDALL} --method pairs --values 0,1", "needs no domain for kendall"),
        (f"{KENDALL} --values 0,1 --step bfv", "step 'bfv' does not exist"),
        (f"{KENDALL} --method pairs --pairings 3000", "1 to 2,999 pairings of 3,000"),
        ("flags.csv --statistic kendall --column room --column flag --values 0,1", NO_NUMBER),
        ("flags.csv --statistic kendall --column flag --column room --values 0,1", NO_NUMBER),
        ("north.csv --statistic auc --column y_score", "--column is not for auc"),
        (f"{KENDALL} --values 0,1 --drop-missing", "--drop-missing is for auc"),
        (f"{HIERARCHY} --alpha 21", "alpha"),
        (f"{HIERARCHY} --alpha 100000000000000", "alpha, the depth of the tree, must lie between 1 and 20"),
        (f"{HIERARCHY} --values 0,1", "a range, not values"),
        (f"bad.csv {GINI} clean", "bad.csv, line 4: 'clean' value is 'high', which is not a number"),
        (f"nan.csv {GINI} clean", "nan.csv, line 3: 'clean' value is missing"),
        (f"bad.csv {GINI} age", "no column 'age'"),
        (f"empty.csv {GINI} room", "there are 0 users"),
        (f"none.csv {GINI} room", "does not exist"),
        ("ratings.csv ratings.csv --statistic gini --column room", "given twice"),
        ("north.csv --statistic auc --bins 12 --epsilon nan", "epsilon must lie between 0.000001 and 32"),
    ],
)
def test_bad_usage_is_one_line_that_names_the_culprit(arguments: str, what: str, folder: Path) -> None:
    done = call(folder, arguments if "--epsilon" in arguments else f"{arguments} --epsilon 1")
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert re.search(what, " ".join(done.stderr.split())), done.stderr


def test_files_are_read_as_evaluate_reads_them(folder: Path, tmp_path: Path) -> None:
    rows = [line.split(",") for line in (folder / "north.csv").read_text().split("\n")[1:]]
    text = "y_true;y_score\n" + "".join(f"{'ja' if y == '1' else 'nein'};{s.replace('.', ',')}\n" for y, s in rows)
    (tmp_path / "north.csv").write_text(text + "ja;\n", "utf-16")
    options = "north.csv --statistic auc --epsilon 4 --seed 1 --json"
    found = call(tmp_path, f"{options} --decimal , --encoding utf-16 --positive-label ja --drop-missing")
    assert found.exit_code == 0, found.stderr
    assert "1 rows with a missing entry were left out" in found.stderr
    assert found.stdout == call(folder, options).stdout


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_columns_read_alike_from_every_kind_of_file(suffix: str, folder: Path) -> None:
    expected = read_columns([folder / "ratings.csv"], ["room", "euro"])
    file = [folder / f"ratings.{suffix}"]
    assert np.array_equal(read_columns(file, ["room", "euro"]), expected)
    assert np.array_equal(read_columns(file, ["euro"]), expected[:, 1:])
    for columns in ([], ["room", "room"], ["room", "clean", "euro"]):
        with pytest.raises(InputError, match="one column is needed, or two"):
            read_columns(file, columns)


def test_any_kernel_of_the_callers_own_runs_by_krr_and_pairs() -> None:
    rows = np.random.default_rng(1).integers(0, 5, (4000, 1)).astype(float)
    close = Kernel("close", lambda x, y: (np.abs(x - y)[..., 0] <= 1).astype(float), 0.0, 1.0)
    truth = of_rows(rows, close)
    for method, values in (("krr", ((0.0, 1.0, 2.0, 3.0, 4.0),)), ("pairs", ())):
        found = seeded(Setting(statistic=close, method=method, epsilon=4.0, values=values), rows, 2)
        assert found.statistic == "close"
        assert abs(found.estimate - truth) < 5 * found.standard_error


@pytest.mark.parametrize(
    ("chosen", "rows", "what"),
    [
        ({"statistic": "kendall", "method": "pairs"}, np.zeros((5, 1)), "kendall is of records of 2 columns"),
        ({"statistic": "auc", "method": "krr"}, np.full((5, 2), 0.5), "labels must be 0 or 1"),
        ({"statistic": "tau", "method": "krr"}, None, "unknown statistic 'tau'"),
        ({"statistic": "gini", "method": "rr"}, None, "unknown method 'rr'"),
        *(
            ({"statistic": own, "method": "krr", "ranges": ((0.0, 1.0),)}, np.zeros(shape), r"shape \(users, columns\)")
            for shape in ((5,), (5, 1, 1), (5, 0), ())
            for own in (kernels.gini(1.0), "gini")
        ),
        *(
            ({"statistic": "renyi2", "method": "pairs", "pairings": number}, np.zeros((10, 1)), what)
            for number, what in (
                *((0, "1 to 9 pairings of 10 users"), (-1, "1 to 9 pairings"), (10, "1 to 9 pairings")),
                *((1.5, "1 to 9 pairings|whole number"), (True, "1 to 9 pairings|whole number")),
            )
        ),
    ],
)
def test_records_of_a_wrong_shape_unknown_names_and_numbers_out_of_range_are_refused(
    chosen: dict[str, Any], rows: np.ndarray, what: str
) -> None:
    with pytest.raises(InputError, match=what):
        seeded(Setting(epsilon=1.0, **chosen), rows)
    most = Setting(statistic="renyi2", method="pairs", epsilon=1.0, pairings=9)
    assert seeded(most, np.zeros((10, 1))).settings["pairs"] == 45


def test_an_entropy_of_a_collision_estimate_that_is_not_positive_is_undefined() -> None:
    rows = np.arange(20.0)[:, None] % 10
    setting = Setting(statistic="renyi2", method="pairs", epsilon=0.1)
    found = [seeded(setting, rows, seed) for seed in range(10)]
    assert any(math.isnan(of.derived["entropy"]) for of in found if of.estimate <= 0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["krr", "hierarchy", "pairs"])
def test_a_million_users_take_less_than_a_minute_with_secure_randomness(method: str) -> None:
    generator = np.random.default_rng(5)
    labels = generator.random(10**6) < 0.3
    scores = np.clip(0.4 + 0.2 * labels + 0.2 * generator.standard_normal(10**6), 0, 1)
    rows = np.stack([scores, labels], axis=1)
    started = time.process_time()  # of this process alone: other work on the machine does not count
    found = run(Setting(statistic="auc", method=method, epsilon=1.0), rows, RandomSources.secure())
    assert time.process_time() - started < 60
    assert abs(found.estimate - without_noise("auc", rows)["auc"]) < 5 * found.standard_error + 0.01


@pytest.mark.parametrize("slope", [0.05, 0.01])
def test_rounding_is_bounded_by_the_ranges_length_and_not_by_the_kernels_width(slope: float) -> None:
    total = Kernel("sum", lambda x, y: slope * (x[..., 0] + y[..., 0]), 0.0, 1.0, lipschitz=slope)
    setting = Setting(statistic=total, method="krr", epsilon=32.0, ranges=((0.0, 10.0),), bins=2)
    found = seeded(setting, np.zeros((1000, 1)))
    # All users are at 0, and move to 2.5.
    assert found.settings["rounding inside the range"] == pytest.approx(5 * slope)
    assert found.estimate == pytest.approx(5 * slope)


@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["krr gini", "pairs gini", "pairs renyi2", "krr auc", "hierarchy auc", "pairs auc"])
def test_a_row_that_is_not_finite_is_refused_by_its_number(name: str, entry: float) -> None:
    method, statistic = name.split()
    ranges = ((0.0, 1.0),) if statistic == "gini" else ()
    rows = np.array([[0.1, 0.0], [0.2, 1.0], [entry, 1.0], [0.4, 0.0]])[:, : 2 if statistic == "auc" else 1]
    with pytest.raises(InputError, match=f"row 2: all entries must be finite, got {entry}"):
        seeded(Setting(statistic=statistic, method=method, epsilon=1.0, ranges=ranges), rows)


def test_the_hierarchys_bound_is_theorem_3s_formula_and_left_out_where_its_condition_fails(folder: Path) -> None:
    small = (folder / "north.csv").read_text().splitlines()[:50]
    (folder / "small_auc.csv").write_text("\n".join(small))
    arguments = "--statistic auc --method hierarchy --alpha 8 --epsilon 8"
    printed = " ".join(call(folder, f"north.csv {arguments}").stdout.split())
    assert "theorem 3's formula; levels are nearly independent" in printed
    done = call(folder, f"small_auc.csv {arguments}")
    assert "theorem 3's formula" not in done.stdout
    assert "there is no error bound" in done.stdout
    found = found_by(folder, f"small_auc.csv {arguments}")
    assert found["error_bound"] is None
    assert any("theorem 3 asks for alpha" in note for note in found["notes"])


@pytest.mark.parametrize("wrong", [1e6, -1e6, math.nan])
def test_a_users_kernel_value_outside_the_range_is_clipped_and_not_printed(wrong: float) -> None:
    rows = np.arange(20.0)[:, None]
    odd = Kernel("odd", lambda x, y: np.where(x[..., 0] + y[..., 0] > 30, wrong, 0.5), 0.0, 1.0)
    seen = []

    def no_noise(values: np.ndarray, scale: float) -> np.ndarray:
        seen.extend(values)
        return values

    using = RandomSources(RandomSources.seeded_experiment(0).source, no_noise, np.random.default_rng(0))
    run(Setting(statistic=odd, method="pairs", epsilon=1.0), rows, using)
    assert set(seen) == {0.5, 0.0 if wrong == -1e6 else 1.0}
    with pytest.raises(InputError, match="has the value"):
        odd.matrix(rows)  # of public points


def test_pairs_refuse_a_kernel_that_is_not_symmetric_or_loses_the_shape_and_print_no_value() -> None:
    rows = np.random.default_rng(0).random((50, 1))
    less = Kernel("less", lambda x, y: (x[..., 0] < y[..., 0]) * 0.123, 0.0, 1.0)
    wide = Kernel("wide", lambda x, y: np.abs(x - y), 0.0, 1.0)
    for kernel, what in ((less, "'less' is not symmetric$"), (wide, "'wide' turns records of shape")):
        with pytest.raises(InputError, match=what):
            seeded(Setting(statistic=kernel, method="pairs", epsilon=1.0), rows)


def test_bins_follow_the_steepness_of_a_kernel_on_its_range_and_two_columns_share_them() -> None:
    two, range_ = np.random.default_rng(3).random((10_000, 2)), ((0.0, 1.0),)
    assert seeded(Setting(statistic="kendall", method="krr", epsilon=1.0, ranges=range_), two).settings["k"] == 9
    near = Kernel("near", lambda x, y: np.abs(x - y).mean(axis=-1), 0.0, 1.0, lipschitz=1.0)
    found = seeded(Setting(statistic=near, method="krr", epsilon=1.0, ranges=range_, bins=3), two)
    assert not any("rounding" in name for name in found.settings)  # of two columns it has no bound
    rows = np.random.default_rng(1).random((10_000, 1))
    for slope, k in ((1.0, 10), (4.0, 20), (0.25, 5)):
        capped = Kernel(
            "capped", lambda x, y, slope=slope: np.minimum(slope * np.abs(x - y)[..., 0], 1), 0.0, 1.0, lipschitz=slope
        )
        for length in (1.0, 2.0):
            setting = Setting(statistic=capped, method="krr", epsilon=1.0 / length, ranges=((0.0, length),))
            assert seeded(setting, rows).settings["k"] == k


def test_tau_b_of_a_nearly_constant_column_is_undefined() -> None:
    generator = np.random.default_rng(2)
    setting = Setting(statistic="kendall", method="krr", epsilon=3.0, values=(tuple(map(float, range(6))),))
    varied = generator.integers(0, 6, (3000, 2)).astype(float)
    constant = varied * [1, 0]
    nearly = np.where(np.arange(3000)[:, None] < 5, varied, constant)
    for rows, defined in ((varied, True), (constant, False), (nearly, False)):
        found = [seeded(setting, rows, seed).derived["tau_b"] for seed in range(20)]
        assert sum(map(math.isfinite, found)) == (20 if defined else 0), found
