"""``fhe-auc calibrate``: a map made on some rows mends the scores of others, and nothing that is off gets through."""

import csv
import json
import math
import re
import reprlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.cli.session_options import SessionOptions
from fhe_auc.metrics import calibration, small_cells, updating
from fhe_auc.metrics.calibration import CalibrationMap
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.private_curves import CountNoise
from fhe_auc.metrics.updating import LogisticMap
from fhe_auc.question import thresholds
from fhe_auc.results import calibration_file, result_file
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.results.report_card import report_card
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.table_writer import add_column
from tests.support import command_line, private_sets
from tests.support.command_line import assert_fails, assert_refused, write_csv
from tests.support.evaluations import made_evaluation
from tests.support.lazy import Lazy

expit = Lazy("scipy.special").expit
brier_score_loss, log_loss, roc_auc_score = (
    getattr(Lazy("sklearn.metrics"), name) for name in ("brier_score_loss", "log_loss", "roc_auc_score")
)

call, told, printed = (partial(getattr(command_line, name), "calibrate") for name in ("call", "told", "printed"))


@pytest.fixture(scope="module")
def rows() -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Real rows in random order, with scores that are off: square roots of the classifier's."""
    parties = datasets.load("credit-default")
    labels, scores = (np.concatenate([getattr(party, name) for party in parties]) for name in ("y_true", "y_score"))
    order = np.random.default_rng(5).permutation(len(labels))
    return labels[order], np.sqrt(scores[order])


def read_csv(name: str) -> list[dict[str, str]]:
    with Path(name).open(newline="") as file:
        return list(csv.DictReader(file))


def calibration_error(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Ten bins of equally many rows, by the definition."""
    groups = np.array_split(np.argsort(scores, kind="stable"), 10)
    return float(sum(abs(labels[g].mean() - scores[g].mean()) * len(g) for g in groups) / len(labels))


SCORES = [0.1, 0.25, 0.9]
MAP = CalibrationMap(np.array([0.0, 0.2, 0.5, 1.0]), np.array([0.05, 0.4, 0.3]))  # it falls at the end: maps may
CALIBRATED = [0.05, 0.4, 0.3]


@pytest.fixture
def map_json(folder: Path) -> str:
    calibration_file.save_map("map.json", MAP, "bbq")
    return "map.json"


@pytest.mark.parametrize(
    ("method", "most"), [("slope-intercept", 0.03), ("intercept", 0.04), ("isotonic", 0.03), ("bbq", 0.03)]
)
def test_a_map_fitted_on_some_rows_mends_the_scores_of_others(
    folder: Path, rows: Any, method: str, most: float
) -> None:
    """Held out: 5,000 rows. Their error was 0.242; by bbq 0.0296 after, over 20 other orders of rows at most 0.0294.

    Nobody who names no method gets another one than that which loses least on others' rows: both numbers.
    """
    labels, scores = rows
    sites = [write_csv(f"{name}.csv", y_true=labels[part], y_score=scores[part]) for name, part in SITES.items()]
    held_out = write_csv("new.csv", y_true=labels[10_000:], y_score=scores[10_000:])
    chosen = () if method == "slope-intercept" else ("--method", method)
    said = told("fit", *sites, *chosen, "--out", "map.json")
    assert (said["map"], said["method"], said["rows"], said["parties"]) == ("map.json", method, 10_000, 2)
    assert said["verified"] == {"aggregation": True, "parties": False}
    error = said["expected_calibration_error"]
    assert error["after"] < 0.02 < 0.2 < error["before"]
    assert error == {
        at: said["methods"][of]["expected_calibration_error"] for at, of in (("before", "none"), ("after", method))
    }
    # With all digits they would be more equations about where single rows lie, beside the map's bins.
    told_of = [number for each in said["methods"].values() for number in each.values() if isinstance(number, float)]
    assert len(told_of) == 5 * 6
    assert all(number == round(number, 4) for number in told_of)
    assert call("apply", "map.json", held_out, "--out", "calibrated.csv").exit_code == 0
    written = read_csv("calibrated.csv")
    calibrated = np.array([float(row["y_calibrated"]) for row in written])
    assert [row["y_score"] for row in written] == [str(score) for score in scores[10_000:]]
    before, after = calibration_error(labels[10_000:], scores[10_000:]), calibration_error(labels[10_000:], calibrated)
    assert before > 0.2
    assert after < most


SITES = {"north": slice(0, 3_000), "south": slice(3_000, 10_000)}


def test_the_map_is_that_of_the_pooled_rows_in_the_clear(folder: Path, rows: Any) -> None:
    labels, scores = (part[:1000] for part in rows)
    asked = (write_csv("all.csv", y_true=labels, y_score=scores), "--thresholds", "uniform:50", "--backend", "tenseal")
    shown = printed("fit", *asked, "--method", "bbq", "--out", "map.json")
    assert all(each in shown for each in ("calibration error", "warning: there is only one party"))
    edges = np.concatenate(([0.0], thresholds.uniform(50)[1:], [1.0]))
    fine = Histogram.from_rows(PartyData.from_arrays("all", labels, scores), edges)
    expected = calibration.bayesian_binning(small_cells.crowded(fine, 10))  # no edge tells where fewer rows lie
    assert calibration_file.load_map("map.json").as_dict() == expected.as_dict()


def fitted_and_applied(file: str, out: str = "out.csv") -> tuple[str, NDArray[np.float64]]:
    """Return what `fit` warns of, as one line, and the calibrated scores of the same rows."""
    warnings = told("fit", file, "--method", "bbq", "--out", "fitted.json", "--force")["warnings"]
    assert told("apply", "fitted.json", file, "--out", out, "--force")["file"] == out
    return " ".join(warnings), np.array([float(row["y_calibrated"]) for row in read_csv(out)])


def test_a_map_of_two_scores_keeps_their_auc_and_fit_says_by_how_much_others_lower_it(folder: Path) -> None:
    """700 and 300 rows: they were given one value, and an AUC of 0.5."""
    generator = np.random.default_rng(1)
    scores = np.where(np.arange(1000) < 300, 0.2, 0.8)
    labels = generator.random(1000) < np.where(scores < 0.5, 0.2, 0.7)
    warnings, calibrated = fitted_and_applied(write_csv("two.csv", y_true=labels, y_score=scores))
    assert roc_auc_score(labels, calibrated) == roc_auc_score(labels, scores) > 0.65
    assert "lowers the AUC" not in warnings
    # 29 events in 3,000 rows: too few for bins that keep the scores' order.
    generator = np.random.default_rng(1)
    labels = generator.random(3000) < 0.01
    scores = expit(generator.normal(0.6 * labels) + np.log(0.01 / 0.99))
    grid = thresholds.hybrid(1000)
    scores = grid[np.searchsorted(grid, scores, side="right") - 1]
    warnings, calibrated = fitted_and_applied(write_csv("rare.csv", y_true=labels, y_score=scores))
    before, after = roc_auc_score(labels, scores), roc_auc_score(labels, calibrated)
    said = re.findall(r"lowers the AUC of the pooled counts by (\S+), from (\S+) to (\S+): rank by the", warnings)
    assert np.array(said, float) == pytest.approx(np.array([[before - after, before, after]]), abs=1e-4)
    assert before - after > 0.005


def test_two_numbers_are_applied_exactly_and_scores_of_0_and_1_have_log_odds(folder: Path) -> None:
    calibration_file.save_map("map.json", LogisticMap(-0.5, 0.8), "slope-intercept")
    file = write_csv("in.csv", y_score=[0, 1e-9, 0.25, 0.9, 1])
    assert call("apply", "map.json", file, "--out", "out.csv").exit_code == 0
    found = [float(row["y_calibrated"]) for row in read_csv("out.csv")]
    odds = [1e-8, 1e-8, 1 / 3, 9, 1e8]
    assert found == pytest.approx([1 / (1 + math.exp(0.5) * each**-0.8) for each in odds], rel=1e-7)
    assert_refused(
        call("apply", "map.json", write_csv("in.csv", y_score=[0.5, 1.5]), "--out", "n.csv"), "row 1 of file"
    )


def test_fit_tells_what_each_method_mends_as_scikit_learn_has_it_of_the_scores_that_apply_gives(folder: Path) -> None:
    """Each score, 0.1 to 0.9, is the middle of a bin of its own."""
    generator = np.random.default_rng(6)
    scores = generator.integers(1, 10, 2000) / 10
    labels = generator.random(2000) < 0.3 + (scores - 0.3) ** 2  # it falls first
    Path("edges.txt").write_text("".join(f"{edge / 100}\n" for edge in (0, *range(5, 100, 10))))
    file = write_csv("in.csv", y_true=labels, y_score=scores)
    for method in updating.METHODS:
        asked = (file, "--thresholds", "edges.txt", "--method", method, "--out", "map.json", "--force")
        said = told("fit", *asked)
        assert call("apply", "map.json", file, "--out", "out.csv", "--force").exit_code == 0
        for name in ("none", method):
            column = "y_score" if name == "none" else "y_calibrated"
            given = np.array([float(row[column]) for row in read_csv("out.csv")])
            found = said["methods"][name]
            assert found["brier"] == pytest.approx(brier_score_loss(labels, given), abs=5.1e-5)
            assert found["log_loss"] == pytest.approx(log_loss(labels, given), abs=5.1e-5)
            assert found["roc_auc"] == pytest.approx(roc_auc_score(labels, given), abs=5.1e-5)
            assert found["observed_expected_ratio"] == pytest.approx(labels.sum() / given.sum(), abs=5.1e-5)
        shown = printed("fit", *asked)
        row = next(line for line in shown.splitlines() if line.startswith(method))
        assert row.split()[1:] == [*(f"{found[name]:.4f}" for name in list(found)[:-1]), *found["order"].split()]
        mended = {"slope-intercept": ("observed_expected_ratio", "calibration_slope"), "bbq": ()}
        for name in mended.get(method, ("observed_expected_ratio",)):
            assert found[name] == pytest.approx(1, abs=2e-4)
    assert "on others it mends less" in shown
    assert {name: each["order"] for name, each in said["methods"].items()} == {
        **dict.fromkeys(("none", "slope-intercept", "intercept"), "kept"),
        "isotonic": "kept, with ties",
        "bbq": "changed",
    }


def test_a_map_that_turns_the_scores_around_says_so_and_one_that_fits_none_names_why(folder: Path) -> None:
    generator = np.random.default_rng(7)
    scores = generator.random(500)
    file = write_csv("in.csv", y_true=generator.random(500) > scores, y_score=scores)
    said = told("fit", file, "--out", "map.json")
    assert said["methods"]["slope-intercept"]["order"] == "reversed"
    assert any("turns the order of scores around" in each for each in said["warnings"])
    assert any("does not lie above 0: these rows do not show" in each for each in said["warnings"])
    assert not any(
        "does not lie above" in each for each in told("fit", file, "--method", "bbq", "--out", "b.json")["warnings"]
    )
    right = write_csv("right.csv", y_true=generator.random(500) < scores, y_score=scores)
    assert not any("does not lie above" in each for each in told("fit", right, "--out", "right.json")["warnings"])
    aimless = write_csv("aimless.csv", y_true=np.arange(500) % 40 == 0, y_score=scores)  # 13 events
    (advice,) = [each for each in told("fit", aimless, "--out", "a.json")["warnings"] if "does not lie above" in each]
    assert "the slope's 95 % interval, -" in advice
    assert "take --method intercept" in advice
    parted = write_csv("parted.csv", y_true=scores > 0.5, y_score=scores)
    assert_fails(call("fit", parted, "--out", "no.json"), 1, "all scores are equal; take --method intercept")
    said = told("fit", parted, "--method", "intercept", "--out", "no.json")
    assert said["methods"]["slope-intercept"]["brier"] is None
    assert "no slope fits" in said["methods"]["slope-intercept"]["order"]


@pytest.fixture
def noisy(folder: Path) -> Evaluation:
    """A site's result, private.json, of 20,000 rows at ε = 4, with noise of a seed; in.csv has the rows."""
    random = np.random.default_rng(38)
    labels = random.random(20_000) < 0.1
    scores = expit(0.8 * (random.normal(size=20_000) + labels) - 2.9)
    write_csv("in.csv", y_true=labels, y_score=scores)
    found = private_sets.released(private_sets.counted(labels, scores), 4.0, random)
    assert found is not None
    histogram, noise = found
    settings = {"epsilon": 4.0, "noise_deviation": noise.deviation, "noise_scale": noise.scale, "noise_shares": 9}
    known = {"protocol": "histogram-distributed-dp", "parties": 10, "binning_error": math.nan, "settings": settings}
    evaluation = made_evaluation(histogram=histogram, **known)
    said = {"party": "north", "session": "s", "version": "1", "time": "2026-11-30T00:00:00+00:00"}
    Path("private.json").write_text(json.dumps({**said, **result_file.as_plain(evaluation)}))
    return evaluation


def test_a_map_of_counts_with_noise_is_near_that_of_the_rows_and_agrees_with_the_report(noisy: Evaluation) -> None:
    """At the middles of bins, of which the last is wide, rows would have another slope."""
    exact = told("fit", "in.csv", "--out", "exact.json")["methods"]["none"]
    said = told("fit", "private.json", "--out", "private-map.json")
    for name, most in (("slope", 0.05), ("intercept", 0.1)):
        found, of_rows = (json.loads(Path(f"{kind}.json").read_text())[name] for kind in ("private-map", "exact"))
        assert abs(found - of_rows) < most
        assert abs(updating.METHODS["slope-intercept"](noisy.histogram, 1).as_dict()[name] - of_rows) > 3 * most
    assert said["noise_deviation"] == noisy.settings["noise_deviation"]
    none = said["methods"]["none"]
    assert all(none[name] == pytest.approx(exact[name], rel=0.1) for name in ("brier", "log_loss", "roc_auc"))
    noise = CountNoise.of(noisy.settings, 10)
    card = report_card(noisy.histogram, noise=noise, level=None)
    in_report = {each.name: each.estimate for each in (*card.measures, *card.calibration_measures)}
    assert none == {"order": "kept"} | {name: round(in_report[name].value, 4) for name in none if name != "order"}
    shown = " ".join(printed("fit", "private.json", "--method", "isotonic", "--out", "steps.json").split())
    assert "rows about 19,999 of" in shown
    assert "counts with privacy noise" in shown
    steps = calibration_file.load_map("steps.json")
    line = calibration_file.load_map("exact.json")
    assert np.abs(np.subtract(*(each(np.linspace(0.02, 0.3, 50)) for each in (steps, line)))).mean() < 0.03


def test_of_files_with_epsilon_the_map_is_made_as_of_a_result(
    noisy: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionOptions, "run", lambda *_: (noisy, 0.0))
    of_files, of_result = (
        told("fit", *asked, "--method", "intercept", "--out", f"{asked[0]}-map.json")
        for asked in (("in.csv", "--epsilon", "4"), ("private.json",))
    )
    assert of_files | {"map": ""} == of_result | {"map": ""}


def test_bbq_is_refused_with_noise_before_epsilon_is_spent(noisy: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionOptions, "run", lambda *_: pytest.fail("a session was run"))
    for asked in (
        ("in.csv", "--epsilon", "4"),
        ("in.csv", "--model", "local-dp", "-o", "epsilon=4"),
        ("private.json",),
    ):
        assert_refused(call("fit", *asked, "--method", "bbq", "--out", "map.json"), "with noise take another method")
    assert not Path("map.json").exists()


def test_of_noise_as_large_as_the_rows_the_slope_is_doubted(noisy: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    few = Histogram([0, 0.05, 0.1, 0.2, 1], [9, 14, 2, 5], [60, 70, 12, 26])
    for settings, says in (
        ({"noise_deviation": 2.0}, "does not lie above 0"),
        ({}, "its protocol does not say how large the noise is; --method intercept leaves it"),
    ):
        evaluation = replace(noisy, histogram=few, settings=settings)
        monkeypatch.setattr(SessionOptions, "run", lambda *_, found=evaluation: (found, 0.0))
        warnings = told("fit", "in.csv", "--epsilon", "4", "--out", "map.json", "--force")["warnings"]
        assert any(says in each for each in warnings), warnings


@pytest.mark.parametrize("option", [("--weight-column", "w=5"), ("--horizon", "365")])
def test_weights_and_horizons_come_from_a_reports_result(folder: Path, option: tuple[str, str]) -> None:
    says = f"no such option {option[0]}: fhe-auc evaluate and report have it; a calibration map with weights, or at a"
    assert_fails(call("fit", "in.csv", "--out", "map.json", *option), 2, says)


def test_of_few_rows_of_a_label_there_is_no_map_of_any_method(folder: Path) -> None:
    for positives, says in ((9, "fewer than 10 rows of a label"), (10, "")):
        labels = np.arange(100) < positives
        file = write_csv("few.csv", y_true=labels, y_score=np.linspace(0.1, 0.9, 100))
        for method in updating.METHODS:
            found = call("fit", file, "--method", method, "--out", f"{method}{positives}.json")
            assert (found.exit_code, says in found.stderr) == (1 if says or method == "slope-intercept" else 0, True)


def test_fit_refuses_what_it_cannot_do_before_the_session(
    folder: Path, map_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv("good.csv", y_true=[0, 1], y_score=[0.2, 0.9])
    write_csv("bad.csv", y_true=[0, 1], y_score=[0.2, -0.5])
    for arguments, message in (
        ("good.csv --out map.json", "'map.json' is there already"),
        ("good.csv --out map.txt", "'map.txt': its name must end in .json"),
        ("good.csv --out no/map.json", "there is no folder"),
        ("good.csv --out /proc/map.json", "'/proc/map.json' cannot be written: "),
        ("good.csv --out new.json --model other", "'other' is not installed"),
        (
            "good.csv --out new.json --method platt",
            "'platt' is not one of 'slope-intercept', 'intercept', 'isotonic', 'bbq'",
        ),
        ("good.csv bad.csv --out new.json", "'bad', bad.csv, line 3, column 'y_score': score is -0.5"),
    ):
        with monkeypatch.context() as patched:
            if "bad.csv" not in arguments:  # what its rows hold, a party finds in the session
                patched.setattr(SessionOptions, "run", lambda *_: pytest.fail("a session was run"))
            assert_refused(call("fit", *arguments.split()), message)
    assert not Path("new.json").exists()


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_apply_copies_the_table_and_adds_the_scores(folder: Path, map_json: str, kind: str) -> None:
    source, target = Path(f"in.{kind}"), Path(f"out.{kind}")
    table = {"id": ["007", "008", None], "seen": pa.array([1, None, 3], pa.timestamp("s")), "risk": SCORES}
    {
        "csv": lambda: source.write_text('id,note,risk\n007,"a, ""b""\nc",0.1\n008,,0.25\n009,NA,0.9\n', newline=""),
        "parquet": lambda: pq.write_table(pa.table(table), source),
        "npz": lambda: np.savez(source, **{"risk": SCORES, "grid": np.eye(2), "name": ["x"]}),
    }[kind]()
    shown = printed("apply", map_json, str(source), "--score-column", "risk", "--column", "p", "--out", str(target))
    assert shown == f"3 rows, with the calibrated score in column 'p': {target}\n"
    if kind == "csv":
        assert target.read_text() == 'id,note,risk,p\n007,"a, ""b""\nc",0.1,0.05\n008,,0.25,0.4\n009,NA,0.9,0.3\n'
    elif kind == "parquet":
        assert pq.read_table(target).equals(pq.read_table(source).append_column("p", [CALIBRATED]))
    else:
        with np.load(target) as written:
            found = {name: written[name].tolist() for name in sorted(written.files)}
        assert found == {"grid": np.eye(2).tolist(), "name": ["x"], "p": CALIBRATED, "risk": SCORES}


def test_npz_arrays_of_any_name_and_maps_survive_their_files(folder: Path) -> None:
    """numpy.savez itself cannot write one called "file"."""
    np.savez("in.npz", risk=SCORES)
    add_column("in.npz", "named.npz", "file", np.array(CALIBRATED))
    add_column("named.npz", "again.npz", "p", np.array(CALIBRATED))
    with np.load("again.npz") as written:
        found = {name: written[name].tolist() for name in written.files}
    assert found == {"risk": SCORES, "file": CALIBRATED, "p": CALIBRATED}
    edges = np.concatenate(([0.0], np.sort(np.random.default_rng(1).random(99)), [1.0, 1.0]))
    found = CalibrationMap(edges, np.random.default_rng(2).random(101))
    calibration_file.save_map("map.json", found, "isotonic")
    assert calibration_file.load_map("map.json").as_dict() == found.as_dict()


def test_apply_reads_percentages_and_text_as_evaluate_does_and_copies_alike(folder: Path, map_json: str) -> None:
    file = write_csv("in.csv", y_true=[0, 1, 1], y_score=[100 * score for score in SCORES])
    found = told("apply", map_json, file, "--score-scale", "percent", "--out", "shares.csv")
    assert found == {"file": "shares.csv", "column": "y_calibrated", "rows": 3}
    assert [float(row["y_calibrated"]) for row in read_csv("shares.csv")] == CALIBRATED
    text = 'ort;y_score\nKöln;0,1\nBonn;0,25\n"A; B";0,9\n'
    Path("in.csv").write_text("sep=;\n" + text, "windows-1252")
    arguments = ["apply", map_json, "in.csv", "--out", "out.csv", "--decimal", ","]
    assert_refused(call(*arguments), "'in.csv': it is not UTF-8 text; say its encoding, as in --encoding windows-1252")
    assert not Path("out.csv").exists()
    assert call(*arguments, "--encoding", "windows-1252").exit_code == 0
    assert Path("out.csv").read_text("windows-1252") == (
        'sep=;\nort;y_score;y_calibrated\nKöln;0,1;0,05\nBonn;0,25;0,4\n"A; B";0,9;0,3\n'
    )
    Path("in.csv").write_text(text.replace(";", "~"))
    assert call(*arguments, "--delimiter", "~", "--force", "--column", "p~").exit_code == 0
    assert Path("out.csv").read_text() == ('ort~y_score~"p~"\nKöln~0,1~0,05\nBonn~0,25~0,4\n"A~ B"~0,9~0,3\n')


@pytest.mark.parametrize(("mark", "line"), [(b"", "\r"), (b"", "\n"), (b"\xef\xbb\xbf", "\r\n")])
def test_a_copy_keeps_byte_order_mark_and_ends_of_lines(folder: Path, map_json: str, mark: bytes, line: str) -> None:
    """Without its mark Excel takes a file for another encoding, and garbles every umlaut."""
    rows = ["id,y_score,Straße", '01,0.1,"Köln, Süd"', "02,0.25,"]
    Path("in.csv").write_bytes(mark + "".join(row + line for row in rows).encode())
    assert call("apply", map_json, "in.csv", "--out", "out.csv").exit_code == 0
    copy = "".join(f"{row},{more}{line}" for row, more in zip(rows, ["y_calibrated", 0.05, 0.4], strict=True))
    assert Path("out.csv").read_bytes() == mark + copy.encode()
    Path("in.csv").write_text("ort,y_score\nKöln,0.1\n", "utf-16")
    assert call("apply", map_json, "in.csv", "--out", "out.csv", "--encoding", "utf-16", "--force").exit_code == 0
    assert Path("out.csv").read_bytes() == "ort,y_score,y_calibrated\nKöln,0.1,0.05\n".encode("utf-16")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.2, 0.8, 0.85, 0.1], r"row 2 of file 'in.csv': score is 0.85, but the map covers 0.2 to 0.8"),
        ([-1e-9, 0.5], r"row 0 of file 'in.csv': score is -1e-09"),
        ([0.2, "x"], r"in.csv, line 3: 'y_score' value is 'x', which is not a number"),
        ([0.2, ""], r"in.csv, line 3: 'y_score' value is missing"),
    ],
)
def test_a_score_that_cannot_be_calibrated_names_its_row(folder: Path, scores: list[Any], message: str) -> None:
    steps = CalibrationMap(np.array([0.2, 0.5, 0.8]), np.array([0.1, 0.9]))
    calibration_file.save_map("part.json", steps, "bbq")
    file = write_csv("in.csv", y_true=np.arange(len(scores)) % 2, y_score=scores)
    assert_refused(call("apply", "part.json", file, "--out", "out.csv"), message)
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("in.csv", "--out", "out.parquet"), "'out.parquet': its name must end in .csv"),
        (("in.csv", "--out", "there.csv"), "'there.csv' is there already; .*--force"),
        (("in.csv", "--out", "in.csv", "--force"), "would be overwritten by its own copy"),
        (("in.csv", "--out", "linked.csv", "--force"), "would be overwritten by its own copy"),
        (("in.csv", "--out", "out.csv", "--column", "y_true"), "file 'in.csv': there is a column 'y_true' already"),
        (("in.csv", "--out", "out.csv", "--column", " "), "needs a name"),
        (("in.csv", "--out", "out.csv", "--score-column", "risk"), "there is no column 'risk'"),
        (("none.csv", "--out", "out.csv"), "file 'none.csv' does not exist"),
        (("in.txt", "--out", "out.txt"), "file 'in.txt': unknown suffix '.txt'"),
        (("in.jsonl", "--out", "out.csv"), "file 'in.jsonl': copies are made of .csv, .tsv, .parquet, .npz files"),
        (("objects.npz", "--out", "out.npz"), "file 'objects.npz': array 'who' cannot be read"),
    ],
)
def test_apply_refuses_what_it_cannot_do(folder: Path, map_json: str, arguments: tuple[str, ...], message: str) -> None:
    write_csv("in.csv", y_true=[0, 1, 1], y_score=SCORES)
    Path("there.csv").write_text("mine")
    Path("linked.csv").hardlink_to("in.csv")
    Path("in.txt").write_text("y_score\n0.5\n")
    Path("in.jsonl").write_text('{"y_score": 0.5}')
    np.savez("objects.npz", y_score=SCORES, who=np.array([None, 1, 2], dtype=object))
    assert_refused(call("apply", map_json, *arguments), message)
    assert Path("there.csv").read_text() == "mine"
    assert not list(folder.glob("out.*"))


LINE = {"format": "fhe-auc calibration map", "version": 2, "method": "intercept", "intercept": 0.5, "slope": 1.0}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 1),
        ("method", "bbq"),
        ("edges", [0, 1]),
        *((name, wrong) for name in ("intercept", "slope") for wrong in (math.nan, math.inf, 1e300, "1", True, None)),
    ],
)
def test_a_tampered_line_is_refused(folder: Path, field: str, value: Any) -> None:
    Path("map.json").write_text(json.dumps(LINE))
    assert calibration_file.load_map("map.json") == LogisticMap(0.5)
    Path("map.json").write_text(json.dumps({**LINE, field: value}))
    with pytest.raises(InputError, match="^calibration map 'map.json': .*(version|" + field + ")"):
        calibration_file.load_map("map.json")


TAMPERED = {  # field: values that it cannot have, or a change of one entry
    "format": ["a map"],
    "version": [2, True, 1.0],
    "method": ["magic", ["bbq"]],
    "signature": ["x"],
    "edges": ["0,1", None, [0.0], [0, 0.7, 0.5, 1], [0, 0.2, 0.2, 1], [0, 0.2, 0.5, float("inf")]],
    "probabilities": [[], *([0.05, wrong, 0.3] for wrong in (1.5, -0.1, float("nan"), True, None))],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in TAMPERED.items() for value in values])
def test_a_tampered_map_is_refused_by_its_field(folder: Path, map_json: str, field: str, value: Any) -> None:
    Path(map_json).write_text(json.dumps({**json.loads(Path(map_json).read_text()), field: value}))
    file = write_csv("in.csv", y_true=[0, 1, 1], y_score=SCORES)
    named = "edge more" if value in ([0.0], []) and field == "edges" else field
    if field in ("format", "version", "method"):
        named = f"{field} is {re.escape(reprlib.repr(value))}; this release reads"
    assert_refused(call("apply", map_json, file, "--out", "out.csv"), rf"calibration map 'map.json': .*{named}")
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b"[1, 2]", "it must hold one JSON object"),
        (b'{"version": 1, "version": 1}', "a field is there twice"),
        (b'{"format": "fhe-auc calibration map", "version": 1, "method": "bbq", "probabilities": [1]}', "`edges`"),
    ],
)
def test_what_is_no_map_is_refused(folder: Path, text: bytes, message: str) -> None:
    Path("map.json").write_bytes(text)
    with pytest.raises(InputError, match=f"^calibration map 'map.json': .*{message}"):
        calibration_file.load_map("map.json")
    sound = {"format": "fhe-auc calibration map", "version": 1, "method": "bbq"}
    for encoding in ("utf-8-sig", "utf-16"):  # as Notepad and PowerShell save it
        Path("map.json").write_text(json.dumps(dict(sound, edges=[0, 1], probabilities=[0.5])), encoding)
        assert calibration_file.load_map("map.json").probabilities.tolist() == [0.5]
    for name, unreadable in (("none.json", "does not exist"), (".", "cannot be read")):
        with pytest.raises(InputError, match=unreadable):
            calibration_file.load_map(name)
