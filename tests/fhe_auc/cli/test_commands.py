"""The command line as users and scripts meet it: results on stdout, one line per error on stderr, the right status."""

import json
import os
import pty
import re
import signal
import subprocess
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base import quantities
from fhe_auc.cli import output
from fhe_auc.cli.evaluation_table import binning_error_rows
from fhe_auc.cli.session_options import SessionOptions
from fhe_auc.figures import plot
from fhe_auc.metrics.trapezoid import Trapezoid, trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from tests.support.command_line import PROGRAM, assert_fails, call, told, write_csv
from tests.support.lazy import Lazy
from tests.support.pooled import exact_auc, pooled_counts, sklearns_auc

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

SMALL = ("--thresholds", "uniform:25", "--backend", "tenseal")
KEYS = {
    *("auc", "estimates", "comparisons", "sites", "fraction", "standard_error", "interval"),
    *("decimals", "binning_error", "binning_error_fraction", "numerical_error", "positives", "negatives", "histogram"),
    *("protocol", "backend", "parties", "thresholds", "keys", "rounds", "settings", "study"),
    *("warnings", "own_warnings"),
    *("verified", "unproved_parties", "soundness", "security_bits", "seconds"),
    *("upload_bytes_per_party", "download_bytes_per_party"),
}
ESCAPE = "\x1b"


def rows(seed: int, size: int = 60) -> tuple[list[int], list[float]]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, size)
    return labels.tolist(), np.clip(random.normal(0.4 + 0.2 * labels, 0.2), 0, 1).round(6).tolist()


HOSPITALS = {name: rows(seed) for seed, name in enumerate(("north", "south", "west"))}


@pytest.fixture
def hospitals(folder: Path) -> list[str]:
    """One CSV file a hospital."""
    return [write_csv(f"{name}.csv", y_true=labels, y_score=scores) for name, (labels, scores) in HOSPITALS.items()]


@pytest.fixture(scope="module")
def exact() -> Trapezoid:
    """The hospitals' AUC in exact integers, at the thresholds of `SMALL`."""
    parties = [PartyData.from_arrays(name, *data) for name, data in HOSPITALS.items()]
    return trapezoid(pooled_counts(parties, thresholds.uniform(25)))


def test_json_has_the_promised_keys(hospitals: list[str], exact: Trapezoid) -> None:
    result = call("evaluate", *hospitals, *SMALL, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    evaluation = json.loads(result.stdout)
    assert (set(evaluation), evaluation["auc"]) == (KEYS, pytest.approx(exact.auc, abs=1e-7))
    assert evaluation["binning_error"] == pytest.approx(exact.binning_error, abs=1e-6)
    assert (evaluation["parties"], evaluation["thresholds"], evaluation["backend"]) == (3, 25, "tenseal")
    assert evaluation["verified"] == {"aggregation": True, "parties": False}
    assert all(seconds >= 0 for seconds in evaluation["seconds"].values())


def test_what_is_not_given_is_verified_at_5000_thresholds_and_1000_for_the_published_designs() -> None:
    found, published = told("plan"), told("plan", "--protocol", "semi-honest")
    assert (found["protocol"], found["thresholds"], found["keys"]) == ("verified", 5000, "sealed")
    assert published["thresholds"] == 1000
    assert "semi-honest, for 1,000 bin edges" in call("plan", "--protocol", "semi-honest").stdout


def test_rounded_scores_give_scikit_learns_auc_as_a_fraction(hospitals: list[str]) -> None:
    rounded = ("--protocol", "verified", "--round-scores", "1", "--max-rows", "1000")
    found = told("evaluate", *hospitals, *rounded)
    labels, scores = map(np.concatenate, zip(*HOSPITALS.values(), strict=True))
    assert found["auc"] == float(Fraction(found["fraction"]))
    assert found["auc"] == pytest.approx(roc_auc_score(labels, scores.round(1)), abs=1e-15)
    assert found["binning_error"] == 0  # of the rounded scores
    assert (found["thresholds"], found["settings"]["round_scores"]) == (11, 1)
    assert found["verified"] == {"aggregation": True, "parties": False}
    shown = " ".join(call("evaluate", *hospitals, *rounded, "--costs").stdout.split())
    exact = f"as a fraction {found['fraction']} the AUC of scores rounded to multiples of 0.1, not rounded"
    assert all(text in shown for text in (exact, "every multiple of 0.1", "if a party lies unnoticed"))


def test_people_get_a_table_or_one_line_without_colour_codes_that_fits_on_a_small_terminal(
    hospitals: list[str], exact: Trapezoid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = call("evaluate", *hospitals, *SMALL)
    shown = result.stdout
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.search(rf"^AUC +{exact.auc:.6f} ", shown)
    for line in (r"^95 % interval +0\.\d{4} to [01]\.\d{4} +DeLong", r"^binning error +≤ 0\.\d{6} ", "warning: "):
        assert re.search(line, shown, re.MULTILINE)
    assert not [text for text in ("±", "a party sent", ESCAPE) if text in shown]
    assert all(line == line.rstrip() for line in shown.splitlines())
    costs = call("evaluate", *hospitals, *SMALL, "--costs").stdout
    assert all(text in costs for text in ("a party sent", "128-bit security"))
    found = told("evaluate", *hospitals, *SMALL)
    result = call("evaluate", *hospitals, *SMALL, "--brief")
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"AUC {found['auc']:.4f} (95 % interval {found['interval']['low']:.4f} to ")
    assert f"; n {found['positives'] + found['negatives']:,}, events {found['positives']:,}; protocol verified" in line
    assert [f"warning: {text}" for text in found["warnings"]] == result.stderr.splitlines()
    assert_fails(call("evaluate", *hospitals, "--brief", "--costs"), 2, "give one of them")
    assert len(shown.splitlines()) <= 20
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    rows, events = found["positives"] + found["negatives"], found["positives"]
    assert events == sum(sum(labels) for labels, _ in HOSPITALS.values())
    assert f"rows {rows} {events} events (label 1), {rows - events} others" in words
    assert f"as a fraction {found['fraction']} the AUC of binned scores" in words


@pytest.mark.parametrize("demo", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_figure_is_saved_before_json_is_shown(
    hospitals: list[str], monkeypatch: pytest.MonkeyPatch, demo: bool
) -> None:
    """Else a full disk would leave two objects on stdout."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plot, "save_figure", full)
    command = ["demo", "--dataset", "credit-default"] if demo else ["evaluate", *hospitals]
    result = call(*command, *SMALL, "--plot", "figure.png", "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]) == (1, "[Errno 28] No space left on device")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evaluate", r"argument 'FILE\.\.\.'; see fhe-auc evaluate --help"),
        ("evaluate -- --debug", "file '--debug'"),
        (f"evaluate two\nlines{ESCAPE}[31m.csv", "does not exist"),
        ("evaluate north.csv --site-column site", "no column 'site'"),
        ("evaluate north.csv --protocol magic", r"unknown protocol 'magic' \(there are: .*semi-honest"),
        ("evaluate north.csv --backend magic", "'--backend': 'magic' is not one of 'openfhe', 'tenseal'"),
        ("evaluate north.csv --thresholds magic", "thresholds 'magic' are unknown; known are uniform:SIZE"),
        ("evaluate north.csv --max-rows ten", "'--max-rows': 'ten' is not a valid integer"),
        ("evaluate north.csv --max-rows 10 --min-rows 20", "--min-rows is 20, but --max-rows 10"),
        ("evaluate north.csv --round-scores 7", "'--round-scores': 7 is not in the range"),
        ("evaluate north.csv --round-scores 3 -o round_scores=4", "given twice, as --round-scores and with -o"),
        ("evaluate north.csv -o release_digits=4", "protocol 'verified' has no option 'release_digits'"),
        ("evaluate north.csv --protocol semi-honest --round-scores 3", "'semi-honest' has no option 'round_scores'"),
        ("evaluate north.csv --protocol exact -o plain_interval=yes", "must be True or False, got 'yes'"),
        ("evaluate north.csv --round-scores 3 --thresholds hybrid:1000", "every rounded score is a"),
        ("evaluate north.csv --protocol exact -o round_scores=3 --thresholds quantile:9", "every rounded score is a"),
        ("evaluate north.csv --keys helper --protocol semi-honest", "'semi-honest' has no helpers; exact"),
        ("evaluate north.csv --keys split", "'split' is not one of 'sealed', 'helper'"),
        ("plan --protocol verified --min-rows 1000 --max-rows 10", "--min-rows is 1,000, but --max-rows 10"),
        ("evaluate north.csv --level 0.9", "no such option --level: use --interval LEVEL"),
        ("report north.csv --classes a,b,c", "--classes: fhe-auc evaluate has it"),
        ("evaluate north.csv --score-columns y_score b", "'b' does not exist; names of columns are joined by commas"),
        ("evaluate north.csv --score-column y_score,b", "no column 'y_score,b'.*; --score-columns takes several"),
        ("evaluate north.csv --magic", r"option.*--magic.*; see fhe-auc evaluate --help"),
        ("demo --dataset magic", "'--dataset': 'magic' is not one of 'covid-clinics', 'credit-default'"),
        ("plan --parties 0", "'--parties': 0 is not in the range"),
        ("plan --protocol semi-honest --max-rows 1000000000000000000", "no parameters with 128-bit security"),
        ("magic", "no such command 'magic'; see fhe-auc --help"),
        ("--magic", "no such option.*--magic"),
    ],
)
def test_bad_input_is_one_line_and_status_2(hospitals: list[str], arguments: str, message: str) -> None:
    result = call(*arguments.split(" "))
    assert_fails(result, 2, message)
    assert ESCAPE not in result.stderr


def test_the_value_of_an_option_may_begin_with_a_dash(tmp_path: Path) -> None:
    labels, scores = np.repeat([-1, 1], 20), np.arange(40) / 40
    file = write_csv(tmp_path / "north.csv", y_true=labels, y_score=scores)
    assert told("evaluate", file, "--positive-label", "-1")["auc"] == 0


def test_the_figure_is_refused_before_anything_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionOptions, "run", lambda *_: pytest.fail("computed first"))
    Path("taken.png").mkdir()
    for command in (("demo",), ("evaluate", "none.csv")):
        assert_fails(call(*command, "--plot", "taken.png"), 2, "is a folder")
        assert_fails(call(*command, "--plot", "figure.gif"), 2, r"must end in \.png, \.pdf or \.svg")


@pytest.mark.parametrize("arguments", [["--debug", "evaluate", "none.csv"], ["evaluate", "none.csv", "--debug"]])
def test_debug_adds_the_traceback_wherever_it_stands(folder: Path, arguments: list[str]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert result.stderr.splitlines()[-1] == "error: file 'none.csv' does not exist"


def test_the_demo_says_for_people_whether_the_pooled_rows_auc_lies_inside() -> None:
    """A sign that the encoding of a pipe lacks is written in others, as on Windows."""
    variables = {**os.environ, "TERM": "xterm-256color", "FORCE_COLOR": "1", "PYTHONIOENCODING": "cp1252"}
    demo = [*PROGRAM, "demo", "--dataset", "credit-default", *SMALL]
    result = subprocess.run(demo, capture_output=True, text=True, env=variables, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    for text in ("^AUC in the clear +0.634744", "within the binning error", r"^binning error +<= 0\.\d{6} "):
        assert re.search(text, result.stdout, re.MULTILINE)
    assert not {ESCAPE, "?"} & set(result.stdout)


def test_the_demo_compares_three_protocols_at_the_same_thresholds_unless_told_how_to_evaluate() -> None:
    parties, grid = datasets.load("credit-default"), thresholds.hybrid(1000)
    found = told("demo", "--dataset", "credit-default", "--backend", "tenseal")
    assert set(found) == KEYS | {"pooled_auc", "protocols"}
    assert (found["protocol"], found["thresholds"]) == ("verified", 5000)
    assert [each["protocol"] for each in found["protocols"]] == ["semi-honest", "malicious", "verified"]
    for each in found["protocols"]:
        found_auc = exact_auc(parties, grid)
        assert each["auc"] == pytest.approx(round(found_auc, each["decimals"] or 9), abs=1e-7)
        assert each["difference"] == pytest.approx(abs(each["auc"] - sklearns_auc(parties)), abs=1e-9)
        assert each["upload_bytes_per_party"] > 0 < each["server_cpu_seconds"]
    published, checked, verified = (each["lying_server"] for each in found["protocols"])
    assert (published, checked[:9], verified[:9]) == ("report any number, unnoticed", "be caught", "be caught")
    assert found["protocols"][2]["soundness"] <= 2**-40
    assert "2^-40" in verified


def on_terminal(*arguments: str, interrupt_at: str | None = None, **environment: str) -> tuple[int, str, str]:
    """Run with a terminal on stderr alone; return status, stdout, and what the terminal got."""
    leader, follower = pty.openpty()
    variables = {**os.environ, "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=follower,
        env=variables,
        # A suite that a script runs in the background has inherited that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(follower)
    seen = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            piece = os.read(leader, 4096)
        except OSError:  # the last process with this terminal has gone
            break
        if not piece:  # the same on macOS
            break
        seen += piece
        if interrupt_at is not None and interrupt_at.encode() in seen:
            process.send_signal(signal.SIGINT)
            interrupt_at = None
    os.close(leader)
    assert process.stdout is not None
    return process.wait(60), process.stdout.read().decode(), seen.decode()


@pytest.mark.parametrize("coloured", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_demo_agrees_with_scikit_learn_and_its_progress_and_figure_keep_stdout_clean(
    folder: Path, coloured: bool
) -> None:
    asked = ("--dataset", "credit-default", "--plot", "figure.png", *SMALL)
    status, stdout, terminal = on_terminal("demo", "--json", *asked, NO_COLOR="" if coloured else "1")
    evaluation = json.loads(stdout)
    assert (status, set(evaluation), evaluation["parties"]) == (0, KEYS | {"pooled_auc"}, 6)
    assert evaluation["pooled_auc"] == pytest.approx(sklearns_auc(datasets.load("credit-default")), abs=1e-9)
    assert abs(evaluation["auc"] - evaluation["pooled_auc"]) <= evaluation["binning_error"] + 1e-6
    assert "forest plot saved as figure.png" in terminal
    assert Path("figure.png").read_bytes().startswith(b"\x89PNG")
    assert "Keys and parties" in terminal  # drawn at once; a round may be over before anything is drawn again
    assert "of 6 parties" in terminal
    assert bool(re.search(r"\x1b\[[0-9;]*m", terminal)) is coloured


def test_ctrl_c_ends_with_one_line_and_status_130() -> None:
    status, stdout, terminal = on_terminal("demo", *SMALL, interrupt_at="Keys and parties", NO_COLOR="1")
    assert (status, stdout) == (130, "")
    assert terminal.splitlines()[-1].endswith("interrupted")
    assert "Traceback" not in terminal


def test_binning_errors_are_rounded_outwards_and_nan_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": None}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": {"d": None}}
    # Of the first, 0.787412 is 4e-7 too much.
    for binning_error, text in ((0.0015758368, "≤ 0.001577"), (0.0015751, "≤ 0.001576"), (0.0, "≤ 0.000001")):
        ((label, shown, _),) = binning_error_rows(0.7874116, binning_error, 1e-7)
        assert (label, shown) == ("binning error", text)


@pytest.mark.parametrize(
    ("text_of", "numbers", "texts"),
    [
        (quantities.bytes_text, (0, 999, 344_448, 6.81e6), "0 B, 999 B, 344 kB, 6.81 MB"),
        (quantities.seconds_text, (2e-5, 0.00456, 0.0709, 2.154, 75.0), "20 µs, 4.56 ms, 70.9 ms, 2.15 s, 75.0 s"),
        (quantities.bound_text, (7.11e-8, 7.1e-8, 9.99e-8, 0.0), "7.2e-08, 7.1e-08, 1.0e-07, 0"),  # upwards
    ],
)
def test_numbers_as_text(text_of: Any, numbers: tuple[float, ...], texts: str) -> None:
    assert ", ".join(map(text_of, numbers)) == texts
