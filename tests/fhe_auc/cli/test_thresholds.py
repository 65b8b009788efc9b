"""Quantile thresholds on the command line: in every command, or a reason why not; and a file of them."""

import re
from pathlib import Path

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.question import thresholds
from tests.support.command_line import assert_refused, call, printed, told, write_csv
from tests.support.lazy import Lazy

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

FILES = ("north.csv", "south.csv", "west.csv")
SUMS = ("--protocol", "histogram-federated")
TENSEAL = ("--backend", "tenseal")


@pytest.fixture
def truth(folder: Path) -> float:
    """Three sites' files in the current folder; scikit-learn's AUC of all their rows."""
    random = np.random.default_rng(0)
    labels, scores = [], []
    for name in FILES:
        labels.append(random.random(400) < 0.4)
        scores.append(random.beta(2 + labels[-1], 3))
        write_csv(name, y_true=labels[-1], y_score=scores[-1])
    return float(roc_auc_score(np.concatenate(labels), np.concatenate(scores)))


def test_evaluate_takes_quantiles_and_shows_both_sessions(truth: float) -> None:
    found = told("evaluate", *FILES, "--thresholds", "quantile:100", *TENSEAL)
    assert abs(found["auc"] - truth) < 5e-4
    assert list(found)[:3] == ["auc", "binning_error", "numerical_error"]
    assert (found["thresholds"], found["rounds"]) == (100, 5)
    text = printed("evaluate", *FILES, "--thresholds", "quantile:100", *TENSEAL, *SUMS, "--costs")
    assert re.search(r"^bin edges +100 +quantile:100$", text, re.MULTILINE)
    phases = re.findall(r"^(boundaries: submit|boundaries: recover|submit|recover) +[0-9.]+ ", text, re.MULTILINE)
    assert phases == ["boundaries: submit", "boundaries: recover", "submit", "recover"]
    assert "every party learns how many pooled rows lie in each of 16,384 cells" in " ".join(text.split())


def test_a_file_of_thresholds_serves_several_evaluations(truth: float) -> None:
    said = printed("thresholds", *FILES, "--bins", "40", *TENSEAL, "--out", "found.txt")
    assert re.search(r"^bin edges +40 +from 0 to 0\.\d+, in found\.txt$", said, re.MULTILINE)
    grid = thresholds.parse("found.txt")
    again = told("thresholds", *FILES, "--bins", "40", *TENSEAL, "--out", "again.csv")
    assert again["thresholds"] == grid.tolist()
    assert (again["protocol"], again["rounds"], again["file"]) == ("boundaries-federated", 2, "again.csv")
    with_file, wished = (
        told("evaluate", *FILES, "--thresholds", spec, *TENSEAL, "--interval", "none")
        for spec in ("found.txt", "quantile:40")
    )
    assert (with_file["auc"], with_file["rounds"]) == (pytest.approx(wished["auc"], abs=1e-6), 3)


def test_own_rows_make_a_file_without_a_session_and_one_process_makes_the_same_thresholds(folder: Path) -> None:
    random = np.random.default_rng(1)
    labels, scores = random.integers(0, 2, 400), random.integers(0, 10, 400)
    write_csv("points.csv", y_true=labels, y_score=scores)
    write_csv("few.csv", y_true=labels[:99], y_score=scores[:99])
    assert_refused(call("thresholds", "few.csv", "--own-rows", "--out", "g.txt"), "takes 100 rows at least, got 99")
    made = told("thresholds", "points.csv", "--own-rows", "--out", "g.txt")
    with_file, by_rows, listed = (
        told("evaluate", "points.csv", "--interval", "none", *more)
        for more in (("--thresholds", "g.txt"), (), ("--thresholds", "values:0:9"))
    )
    assert (
        made["grid"]
        == by_rows["settings"]["grid"]
        == f"{by_rows['thresholds']:,} points of these rows with 10 own values"
    )
    assert with_file["fraction"] == by_rows["fraction"] == listed["fraction"]
    assert float(roc_auc_score(labels, scores)) == pytest.approx(by_rows["auc"], abs=1e-12)
    assert_refused(
        call("evaluate", "points.csv", "--thresholds", "hybrid:1000"), "these thresholds are for probabilities"
    )


def test_private_thresholds_take_their_options(truth: float) -> None:
    noisy = ("--protocol", "boundaries-local-dp", "-o", "epsilon=6", "-o", "height=3")
    found = told("thresholds", *FILES, "--bins", "4", *noisy, "--out", "found.txt")
    assert found["settings"] == {"epsilon": 6.0, "height": 3, "signed": False}
    assert_refused(call("thresholds", *FILES, "--out", "a.txt", *noisy[:2]), "epsilon has no default")
    assert_refused(call("thresholds", *FILES, "--out", "a.txt", "-o", "bins=5"), "with --bins, not with -o")
    for bins in "01":
        assert_refused(call("thresholds", "none.csv", "--out", "a.txt", "--bins", bins), "--bins")
    assert not Path("a.txt").exists()


def test_shares_of_noise_say_themselves_how_many_thresholds_are_best(truth: float) -> None:
    noisy = ("--protocol", "boundaries-distributed-dp", "-o", "epsilon=16")
    found = told("thresholds", *FILES, *noisy, "--out", "e.txt")
    assert 10 <= len(found["thresholds"]) <= 60  # about 31, by half a root of 8·480
    assert not any("instead of" in warning for warning in found["warnings"])
    said = " ".join(printed("thresholds", *FILES, *noisy, "--out", "e.txt", "--force").split())
    assert (
        "epsilon 16 the privacy budget of a row, spent by this session: those of sessions on the same rows add" in said
    )


def test_thresholds_are_not_written_where_they_should_not_be(truth: float) -> None:
    Path("there.txt").write_text("0\n1\n")
    for out, message in (
        ("there.txt", "is there already; choose another --out"),
        ("found.npy", r"must end in \.txt or \.csv"),
        ("absent/found.txt", "there is no folder"),
    ):
        assert_refused(call("thresholds", *FILES, "--out", out), message)
    assert Path("there.txt").read_text() == "0\n1\n"
    printed("thresholds", *FILES, *TENSEAL, "--bins", "3", "--out", "there.txt", "--force")
    assert len(thresholds.parse("there.txt")) == 3


WITHOUT_QUANTILES = "dpauc-laplace", "dpauc-gaussian -o delta=1e-6", "dpauc-rr", "ustat-krr", "ustat-hierarchy"
EXACT = ("evaluate absent.csv", "report absent.csv --out new", "calibrate fit absent.csv --out a.json", "plan")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            (
                f"evaluate absent.csv --thresholds quantile:20 -o epsilon=1 --protocol {name}",
                f"'{name.split()[0]}' has no private way to find quantile thresholds; give thresholds that no data",
            )
            for name in WITHOUT_QUANTILES
        ),
        (
            "evaluate absent.csv --protocol boundaries-federated",
            "gives no AUC; where it finds thresholds, fhe-auc thresholds and federated_thresholds run it",
        ),
        ("thresholds absent.csv --protocol semi-honest --out a.txt", "'semi-honest' finds no thresholds"),
        ("evaluate absent.csv --thresholds quantile:1", "from 2 to 1,048,576, not 1"),
        *((f"{command} --thresholds quantile", "adds no noise .*: say how many") for command in EXACT),
        ("evaluate absent.csv --epsilon 1 --thresholds quantile:8", "thresholds must not come from the rows"),
    ],
)
def test_what_cannot_find_quantiles_says_so_before_a_file_is_read(folder: Path, arguments: str, message: str) -> None:
    assert_refused(call(*arguments.split()), message)


@pytest.mark.usefixtures("without_figures")
def test_a_report_and_a_calibration_map_can_rest_on_quantiles(truth: float) -> None:
    asked = (*FILES, "--thresholds", "quantile:15")
    card = told("report", *asked, *TENSEAL, "--out", "card")
    assert card["session"]["thresholds"] == "quantile:15"
    assert "Thresholds come from the scores themselves, by a session before" in card["privacy"]
    assert any("bin edges from quantiles" in warning for warning in card["warnings"])
    local = ("--model", "local-dp", "--epsilon", "8")
    fitted = told("calibrate", "fit", *asked, *local, "--out", "map.json")
    assert any("bin edges from quantiles" in warning for warning in fitted["warnings"])
    assert any("epsilon = 8 is of two sessions" in warning for warning in fitted["warnings"])
    assert Path("map.json").exists()


def test_the_demo_takes_quantiles_and_plan_shows_both_sessions() -> None:
    found = told("demo", "--dataset", "credit-default", "--thresholds", "quantile:200", *SUMS)
    assert abs(found["auc"] - found["pooled_auc"]) < 5e-5
    name = ckks.available_backends()[0]
    found = told("plan", "--thresholds", "quantile:200", "--backend", name)
    first = found["plans"][name]["boundaries"]
    assert (found["thresholds"], first["sums"], first["upload_bytes"]) == (200, 2**14, 86_027)
    shown = printed("plan", "--thresholds", "quantile:200", "--backend", name)
    assert re.search(r"a session that finds the bin edges:(.|\n)*sums +16,384", shown)
    assert "boundaries" not in told("plan", "--backend", name)["plans"][name]
