"""``fhe-auc report``: its files say what the pooled rows say, its page needs nothing else, bad input is refused."""

import csv
import datetime
import json
import re
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.ranking import roc_auc_score as roc_auc_score_of
from fhe_auc.question import thresholds
from fhe_auc.report import FILES, Facts, ReportAsked, as_dict, report_card
from fhe_auc.rows import datasets
from fhe_auc.rows.default_thresholds import of_scores
from fhe_auc.rows.party_data import PartyData
from tests.support import command_line
from tests.support.command_line import assert_refused, write_csv
from tests.support.lazy import Lazy

pytestmark = pytest.mark.usefixtures("without_figures")  # but for the module's own

CREDIT = (str(resources.files("fhe_auc") / "data" / "credit_default.npz"), "--site-column", "site")
AT = ("--threshold", "0.3")
TWICE = ("--score-columns", "y_score,y_score", "--score-column", "y_score")
CURVES = ("roc_curve", "precision_recall_curve", "calibration_curve", "decision_curve")
NUMBERS = ("metrics", "calibration", "decisions", "prevalence", "small_cells", *CURVES, "histogram")


sklearn_metrics = Lazy("sklearn.metrics")

call, told, printed = (partial(getattr(command_line, name), "report") for name in ("call", "told", "printed"))


SAVED = [name for name in FILES if name != "report.pdf"]
Made = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def pool() -> PartyData:
    parties = datasets.load("credit-default")
    rows = (np.concatenate([getattr(party, name) for party in parties]) for name in ("y_true", "y_score"))
    return PartyData.from_arrays("pool", *rows)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One report on bundled data, as files and as what stdout says in JSON."""
    folder = tmp_path_factory.mktemp("reports") / "new" / "credit"
    result = call(*CREDIT, *AT, "--out", str(folder), "--title", "Credit <cards>", "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines() == [f"saved {folder / name}" for name in SAVED]
    return folder, json.loads(result.stdout)


def alternating(name: str, scores: list[float]) -> str:
    return write_csv(name, y_true=np.arange(len(scores)) % 2, y_score=scores)


def edges(data: PartyData) -> NDArray[np.float64]:
    return np.append(of_scores(data.scores, "hybrid:5000").grid, 1.0)


def test_files_hold_what_stdout_does_but_no_row_name_or_count_of_the_bins_before(made: Made, pool: PartyData) -> None:
    folder, said = made
    assert sorted(path.name for path in folder.iterdir()) == sorted(SAVED)
    for name, begins in (("roc.png", b"\x89PNG\r\n"), ("roc.svg", b"<?xml")):
        assert (folder / name).read_bytes().startswith(begins)
    assert "<h1>Credit &lt;cards&gt;</h1>" in (folder / "report.html").read_text()
    assert {**json.loads((folder / "report.json").read_text()), "own_warnings": []} == said
    values, rows = np.unique(pool.y_score, return_counts=True)
    scores = {repr(score) for score in values[rows < 10].tolist()}  # those of more may be edges
    assert len(scores) > 1000
    for name in ("report.html", "report.json"):
        text = (made[0] / name).read_text()
        assert not scores & set(re.findall(r"\d+\.\d+(?:e-\d+)?", text))
        assert not [party.name for party in datasets.load("credit-default") if party.name in text]
    folder, said = made
    counts = np.array([said["histogram"]["positives"], said["histogram"]["negatives"]])
    assert ((counts == 0) | (counts >= 10)).all()
    asked = 1  # threshold, between those of the grid
    assert said["small_cells"] == {"min_cell": 10, "bins": counts.shape[1], "bins_before": 5000 + asked}
    auc = roc_auc_score_of(Histogram.from_rows(pool, edges(pool))).value
    assert f"{auc:.6f}" not in (folder / "report.html").read_text() + json.dumps(said)
    assert f"there are {counts.shape[1]} bins, merged from these" in said["privacy"]


def test_every_number_is_that_of_the_pooled_rows_in_the_clear(made: Made, pool: PartyData) -> None:
    grid = edges(pool)
    with_asked = np.insert(grid, np.searchsorted(grid, 0.3), [0.3] * (0.3 not in grid))
    counted, added = Histogram.from_rows(pool, with_asked), [0.3] * (0.3 not in grid)
    card = report_card(counted, wanted=ReportAsked(threshold=(0.3,)), added=added, min_cell=10)
    facts = Facts(title="", date=datetime.date.today(), privacy="", session={})
    expected = json.loads(json.dumps(as_dict([card], facts)))
    assert {name: made[1][name] for name in NUMBERS} == {name: expected[name] for name in NUMBERS}


def test_the_session_and_what_it_reveals_are_stated(made: Made) -> None:
    session, privacy = made[1]["session"], made[1]["privacy"]
    stated = {
        **{"protocol": "histogram-federated", "parties": 6, "keys": "sealed", "rounds": 2},
        "thresholds": "hybrid:5000 with 35 own values",
        **{"security, bits": 128, "verified": {"aggregation": True, "parties": False}},
    }
    assert {name: session[name] for name in stated} == stated
    assert 48_000 < session["bytes a party sent"] < 54_000
    said = ("under one-time pads", "The sums are verified", "exact number of positive", "5,001 bins", "one process")
    assert all(words in privacy for words in (*said, "No noise is added"))


@pytest.mark.parametrize("json_too", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_what_a_small_party_is_told_of_its_own_rows_is_for_the_terminal_alone(folder: Path, json_too: bool) -> None:
    big, small = alternating("big.csv", [0.2, 0.7, 0.4] * 20), alternating("tiny_ward.csv", [0.3, 0.6])
    options = ("--backend", "tenseal", "--thresholds", "uniform:10", *(["--json"] if json_too else []))
    result = call(big, small, *options)
    assert "'tiny_ward' has fewer than 10 rows" in " ".join((result.stderr if json_too else result.stdout).split())
    for name in ("report.html", "report.json"):
        assert "tiny_ward" not in (folder / "report" / name).read_text()


def test_people_get_a_table_with_the_headlines_and_the_place(folder: Path) -> None:
    result = call(*CREDIT, "--thresholds", "uniform:100", "--backend", "tenseal", "--interval", "0.9")
    assert (result.exit_code, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    saved = (folder / "report" / "report.json").read_text()
    auc = json.loads(saved)["metrics"]["roc_auc"]
    assert re.search(rf"AUC {auc['value']:.4f} .*90 % interval 0\.\d+ to 0\.\d+ DeLong.* binning error ≤ 0\.\d+", text)
    for words in (
        "Classifier on the rows of 6 parties: 15,000 rows",
        *("Average precision 0.", "Brier score 0.", "Calibration error 0.", "Calibration slope 0.9"),
        "cut-off at precision recall F1",
        "of 100: the others are merged, so that no count shown is from 1 to 9",
        *("report/report.html", "warning: many"),
    ):
        assert words in text
    assert set(re.findall(r'"level": ([\d.]+)', saved)) == {"0.9"}
    assert "90 % confidence interval" in (folder / "report" / "report.html").read_text()


def test_small_counts_are_shown_where_that_is_asked_for_and_warned_of(folder: Path, pool: PartyData) -> None:
    options = ("--min-cell", "1", "--thresholds", "uniform:100", "--backend", "tenseal", "--interval", "none")
    result = call(*CREDIT, *options)
    assert "warning: small counts are shown (--min-cell 1, in Python min_cell=1)" in " ".join(result.stdout.split())
    assert "95 %" not in result.stdout
    said = json.loads((folder / "report" / "report.json").read_text())
    counted = Histogram.from_rows(pool, [*thresholds.parse("uniform:100"), 1.0])
    assert said["histogram"]["positives"] == counted.positives.tolist()
    assert said["metrics"]["roc_auc"]["interval"] is None


def test_the_report_says_that_scores_may_be_reversed_and_which_have_no_logit(folder: Path) -> None:
    scores = np.random.default_rng(3).random(400)
    labels = (scores < 0.3) ^ (np.arange(400) % 5 == 0)
    write_csv("all.csv", y_true=[*labels, False], y_score=[*scores.round(4), 1])
    said = " ".join(call("all.csv", "--backend", "tenseal").stdout.split())
    assert "the AUC: the whole interval lies below 1/2, so labels or scores may be reversed" in said
    assert "scores nearer than 1e-08 to 0 or 1 count as 1e-08 away from it" in said


def test_few_rows_beyond_a_threshold_are_warned_of_and_a_small_class_fails(folder: Path, pool: PartyData) -> None:
    file = alternating("north.csv", [0.2, 0.7] * 8)
    result = call(file, "--backend", "tenseal", "--thresholds", "uniform:10")
    assert result.exit_code == 1
    assert "fewer than 10 positives" in result.stderr
    assert not (folder / "report").exists()
    few = float(np.floor(np.sort(pool.y_score)[-5] * 1000) / 1000)
    assert 0 < (pool.y_score >= few).sum() < 10
    result = call(*CREDIT, "--threshold", str(few), "--thresholds", "uniform:1000", "--backend", "tenseal")
    said = " ".join(result.stdout.split())
    assert re.search(
        rf"warning: threshold {few}: not shown: from 1 to 9 (positive|negative|positive and negative)", said
    )


def test_a_noisy_model_is_reported_with_its_budget_and_intervals_that_contain_the_noise(folder: Path) -> None:
    text = " ".join(printed(*CREDIT, "--model", "local-dp", "--epsilon", "8", "--thresholds", "uniform:20").split())
    said = json.loads((folder / "report" / "report.json").read_text())
    assert f"AUC {said['metrics']['roc_auc']['value']:.4f} of counts with noise, interpolated" in text
    rows = said["rows_interval"]
    assert f"about {said['rows']:,.0f} rows (95 % interval {rows['low']:,.0f} to {rows['high']:,.0f})" in text
    assert rows["low"] < 15_000 < rows["high"]
    assert re.search(r"percentiles of replicates of rows and noise.*best F1 0\.\d+ 0\.\d+ \(0\.\d\d to 0\.\d\d\)", text)
    assert "binning error" not in text
    assert "can be worked out" not in text
    assert (said["session"]["settings"]["epsilon"], said["noisy"]) == (8, True)
    assert "random noise (epsilon 8" in said["privacy"]
    assert "No noise" not in said["privacy"]


@pytest.mark.parametrize("options", [("--epsilon", "8"), ("-o", "epsilon=8")])
def test_an_epsilon_alone_is_a_report_of_noisy_counts(folder: Path, options: tuple[str, ...]) -> None:
    said = told(*CREDIT, *options, "--thresholds", "uniform:20")
    assert (said["session"]["protocol"], said["session"]["settings"]["epsilon"]) == ("histogram-distributed-dp", 8)
    assert said["noisy"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "telepathic"), "'telepathic' is not installed: .*'histogram-telepathic'.*federated"),
        (("--model", "federated", "--epsilon", "1"), "federated adds no noise.* histogram-distributed-dp"),
        (("--model", "local-dp", "--epsilon", "1", "-o", "epsilon=2"), "epsilon is given twice"),
        (("--threshold", "0.5,x"), "could not convert .*; give numbers"),
        (("--threshold", "nan"), "threshold is nan; it must be a finite"),
        (TWICE, "--score-column and --score-columns contradict each other"),
        (("--table", "held/scores.png"), "already holds scores.png"),
        (("--interval", "1"), "1.0 is not in the range"),
        (("--min-cell", "0"), "0 is not in the range"),
        (("--title", "not UTF-8: \udcff"), "a title must be printable text"),
        (("--out", "held"), "folder 'held' already holds scores.png; .*--force"),
        (("--out", "card.pdf"), "--out names a folder, not a file such as 'card.pdf'; --pdf adds"),
        (("--out", "grid.txt"), "folder 'grid.txt' cannot be written to"),
        (("--out", "grid.txt/deeper"), "cannot be written to"),
    ],
)
def test_bad_options_are_refused_before_any_file_is_written(folder: Path, options: Any, message: str) -> None:
    (folder / "grid.txt").write_text("-3\n0\n2\n")
    (folder / "held").mkdir()
    (folder / "held" / "scores.png").write_text("mine")
    assert_refused(call(alternating("north.csv", [0.2, 0.7]), *options), message)
    assert not (folder / "report").exists()
    assert (folder / "held" / "scores.png").read_text() == "mine"


def test_choices_of_the_rows_are_printed_and_the_table_is_written_where_it_is_asked_for(folder: Path) -> None:
    options = ("--cost-ratio", "4", "--alert-rate", "0.05", "--table", "table2.csv", "--thresholds", "uniform:100")
    shown = " ".join(printed(*CREDIT, *AT, *options).split())
    for words in ("asked for 0.3 ", "Youden's index 0.", "least cost, ratio 4 0."):
        assert words in shown
    plain = json.loads((folder / "report" / "report.json").read_text())
    (tn, fp), (fn, tp) = plain["decisions"]["alert_rate"]["confusion_matrix"]
    assert 0.03 < (tp + fp) / (tn + fp + fn + tp) <= 0.05
    with (folder / "table2.csv").open(newline="", encoding="utf-8") as file:
        first, *others = csv.DictReader(file)
    assert (first["name"], float(first["estimate"])) == ("roc_auc", plain["metrics"]["roc_auc"]["value"])
    assert re.fullmatch(r"0\.\d{3} \(0\.\d{3} to 0\.\d{3}\)", first["formatted"])
    assert {"threshold 0.3", "Youden's index"} <= {each["section"] for each in others}


@pytest.mark.slow
def test_the_page_is_written_as_pdf_where_that_is_asked_for(folder: Path) -> None:
    printed(*CREDIT, "--thresholds", "uniform:100", "--pdf")
    assert (folder / "report" / "report.pdf").read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in (folder / "report").iterdir()) == sorted(FILES)


def test_force_overwrites_its_own_files(folder: Path) -> None:
    (folder / "report").mkdir()
    for name in ("report.html", "notes.txt"):
        (folder / "report" / name).write_text("mine")
    file = alternating("north.csv", [0.2, 0.7, 0.1, 0.9])
    printed(file, "--force", "--min-cell", "1", "--backend", "tenseal", "--thresholds", "uniform:10")
    assert (folder / "report" / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert (folder / "report" / "notes.txt").read_text() == "mine"


def grouped(folder: Path, sites: int) -> list[str]:
    """Files of so many sites, with a column of groups, of which "old" has one positive row in all."""
    random = np.random.default_rng(4)
    files = []
    for site in range(sites):
        labels, scores = random.random(120) < 0.4, random.random(120)
        age = np.where(random.random(120) < 0.5, "young", "middle")
        old = {"y_true": not site, "y_score": 0.2 if site else 0.9, "age": "old"}
        columns = {"y_true": labels, "y_score": (scores + labels) / 2, "age": age}
        rows = {name: [*column, old[name]] for name, column in columns.items()}
        files.append(write_csv(folder / f"site{site}.csv", **rows))
    return files


def test_groups_and_sites_come_from_a_session_of_their_own_and_small_groups_are_left_out(folder: Path) -> None:
    files = grouped(folder, 5)
    said = told(*files, "--by", "age", "--heterogeneity", "--thresholds", "uniform:50")
    assert [each["group"] for each in said["groups"]] == ["age: middle", "age: old", "age: young"]
    # "old" is too small to be shown, and so is one more: otherwise all rows less the others would give it away.
    assert said["groups"][1]["auc"] is None
    (shown,) = (each for each in said["groups"] if each["auc"] is not None)
    lines = [line.split(",") for file in files for line in Path(file).read_text().splitlines()]
    rows = [(int(y), int(float(s) * 49 + 1e-9)) for y, s, group in lines if f"age: {group}" == shown["group"]]
    labels, bins = zip(*rows, strict=True)
    assert shown["auc"] == pytest.approx(sklearn_metrics.roc_auc_score(labels, bins), abs=6e-5)
    assert ((shown["n"], shown["events"]), said["sites"]["both_classes"]) == ((len(labels), sum(labels)), 5)
    assert "a second session, of protocol verified" in said["privacy"]
    assert "who knows all sites but three can work out these three's AUCs" in said["privacy"]


@pytest.mark.parametrize("command", ["report --by sex", "calibrate fit --out map.json"])
def test_advice_is_of_options_that_a_command_has_and_is_not_given_again(folder: Path, command: str) -> None:
    """Few scores: pairs of rows are truly tied. In report, groups come from a session that could have an interval."""
    scores = [0.2, 0.8] if command.startswith("report") else [0.1, 0.3, 0.5, 0.7, 0.9]
    random = np.random.default_rng(2)
    for site in ("north", "south", "west"):
        chosen = random.integers(0, len(scores), 200)
        labels, sexes = random.random(200) < 0.2 + 0.6 * chosen / len(scores), random.choice(["f", "m"], 200)
        write_csv(f"{site}.csv", y_true=labels, y_score=np.take(scores, chosen), sex=sexes)

    def warning(*options: str) -> str:
        said = command_line.told(*command.split(), "north.csv", "south.csv", "west.csv", *options, "--force")
        (found,) = (each for each in said["warnings"] if "the binning error is" in each)
        return str(found)

    first, again = warning("--thresholds", "uniform:20"), warning("--thresholds", "quantile:1000")
    assert "more than the whole standard error" in first
    equal = "where their scores are equal, the AUC is right as it is"
    assert first.endswith(f"{equal}; where scores differ: take quantile:1000, which a session before finds")
    assert again.endswith(equal)
    assert not re.search("logit|round|widened", first + again)
