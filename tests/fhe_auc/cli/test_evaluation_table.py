"""`fhe-auc evaluate` of several models and groups: table, comparisons, sites and JSON say the same of the rows."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.cli import output
from fhe_auc.cli.evaluation_table import Form, print_evaluation
from fhe_auc.question.study import Study
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.result_tables import p_text
from tests.support.command_line import call, printed, told
from tests.support.evaluations import made_evaluation
from tests.support.lazy import Lazy

pd = Lazy("pandas")
roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

OPTIONS = (
    *("--label-column", "died", "--score-columns", "risk_a,risk_b", "--by", "sex,band", "--heterogeneity"),
    *("--round-scores", "2", "--protocol", "exact", "--backend", "tenseal"),
)


def site(seed: int, rows: int = 120) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    died = random.integers(0, 2, rows)
    risks = [np.clip(random.normal(0.4 + 0.2 * died, wide), 0, 1).round(2) for wide in (0.2, 0.3)]
    band = np.where(np.arange(rows) < 2, "80+", random.choice(["18-49", "50-64", "65-79"], rows))
    sex = random.choice(["F", "M"], rows)
    return pd.DataFrame({"died": died, "risk_a": risks[0], "risk_b": risks[1], "sex": sex, "band": band})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sites")
    for seed in range(5):
        site(seed).to_csv(place / f"site{seed}.csv", index=False)
    return place


@pytest.fixture(scope="module")
def pooled(folder: Path) -> pd.DataFrame:
    return pd.concat([pd.read_csv(file).assign(site=file.stem) for file in sorted(folder.glob("*.csv"))])


@pytest.fixture(scope="module")
def shown(folder: Path) -> str:
    """What a terminal of 100 columns shows that is to have no colours, with the figure."""
    plotted = ("evaluate", *files(folder), *OPTIONS, "--plot", str(folder / "forest.svg"))
    result = call(*plotted, NO_COLOR="1", COLUMNS="100", TERM="xterm-256color")
    assert result.exit_code == 0, result.output
    assert "forest plot saved as" in result.stderr
    assert (folder / "forest.svg").read_bytes().startswith(b"<?xml")
    return result.stdout


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    """The JSON of the same."""
    return told("evaluate", *files(folder), *OPTIONS)


def files(folder: Path) -> list[str]:
    return [str(file) for file in sorted(folder.glob("*.csv"))]


def in_group(pooled: pd.DataFrame, group: str) -> pd.DataFrame:
    name, _, level = group.partition(": ")
    return pooled[pooled[name] == level] if level else pooled


def lines(text: str) -> list[list[str]]:
    """Lines of tables as cells, which two blanks or more part."""
    return [re.split(r" {2,}", line) for line in text.splitlines()]


def test_json_has_scikit_learns_auc_of_groups_comparison_and_sites(found: dict[str, Any], pooled: pd.DataFrame) -> None:
    groups = ["all", "sex: F", "sex: M", "band: 18-49", "band: 50-64", "band: 65-79", "band: 80+"]
    assert [(each["model"], each["group"]) for each in found["estimates"]] == [
        (model, group) for model in ("risk_a", "risk_b") for group in groups
    ]
    bands = pooled.groupby("band")["died"].agg(lambda died: min(died.sum(), len(died) - died.sum())).sort_values()
    small = {f"band: {band}" for band in bands.index[:2]}  # the small one, and what hides it
    for each in found["estimates"]:
        rows = in_group(pooled, str(each["group"]))
        if each["group"] in small:
            assert (each["auc"], each["n"], each["events"], each["interval"]) == (None,) * 4
            assert str(each["missing"]).startswith("fewer than 10 events or others")
            continue
        assert each["auc"] == pytest.approx(roc_auc_score(rows["died"], rows[each["model"]]), abs=1e-12)
        assert (each["n"], each["events"], each["missing"]) == (len(rows), rows["died"].sum(), "")
    (comparison,) = found["comparisons"]
    aucs = {model: roc_auc_score(pooled["died"], pooled[model]) for model in ("risk_a", "risk_b")}
    assert (comparison["first"], comparison["second"]) == ("risk_a", "risk_b")
    assert comparison["difference"] == pytest.approx(aucs["risk_b"] - aucs["risk_a"], abs=1e-12)
    for each in found["sites"]:
        right = pairs = 0.0
        for _, rows in pooled.groupby("site"):
            own = int(rows["died"].sum() * (1 - rows["died"]).sum())
            right += own * roc_auc_score(rows["died"], rows[each["model"]])
            pairs += own
        assert each["within"] == pytest.approx(right / pairs, abs=1e-9)
        assert (each["both_classes"], each["one_class"]) == (5, 0)
    assert [each["model"] for each in found["sites"]] == ["risk_a", "risk_b"]


def test_the_table_shows_what_json_says_headline_first(shown: str, found: dict[str, Any], pooled: pd.DataFrame) -> None:
    cells = lines(shown)
    for each in found["estimates"]:
        name = "all rows" if each["group"] == "all" else str(each["group"])
        (row,) = (row for row in cells if row[:2] == [each["model"], name])
        if each["auc"] is None:
            assert row[2] == "(a)"  # a note below
            continue
        interval = each["interval"]
        assert row[2:] == [
            f"{each['n']:,}",
            f"{each['events']:,}",
            f"{each['auc']:.4f}",
            f"{interval['low']:.4f} to {interval['high']:.4f}",
            f"{math.ceil(round(1e4 * each['binning_error'], 6)) / 1e4:.4f}" if each["binning_error"] else "0",
        ]
    (comparison,) = found["comparisons"]
    (row,) = (row for row in cells if row[0] == "risk_b minus risk_a")
    assert row[1] == f"{comparison['difference']:+.4f}"
    assert row[3:] == [p_text(float(str(comparison["p_value"]))), "DeLong, paired, on binned scores"]
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 100
    rows = [line for line in shown.splitlines() if re.match(r"risk_[ab]  ", line) and " to " in line]
    assert len(rows) == 10
    assert len({line.index(" to ") for line in rows}) == 1
    assert len({len(re.search(r" \d[\d,]* +\d[\d,]* +0\.", line)[0]) for line in rows}) == 1
    auc = roc_auc_score(pooled["died"], pooled["risk_a"])
    assert shown.startswith(f"AUC            {auc:.6f}")
    order = ["95 % interval", "rows  ", "within sites", "model   ", "comparison", "Every party learnt", "protocol"]
    places = [shown.index(word) for word in order]
    assert places == sorted(places)
    learnt = "how many rows of each label each group has, also of groups that are not shown"
    assert learnt in (flat := " ".join(shown.split()))
    for each in found["sites"]:
        ends, mean = each["prediction"], f"fixed-effect mean {each['mean']:.4f} (IVhet); between: I² "
        assert f"a new site {ends['low']:.4f} to {ends['high']:.4f} " in flat
        assert f"{mean}{100 * each['i2']:.0f} %, " in flat


def test_plain_intervals_of_few_rows_are_warned_of_by_group_but_not_of_groups_that_are_not_shown(
    tmp_path: Path,
) -> None:
    small = {f"site{seed}": site(seed).assign(band=np.where(site(seed).index < 8, "80+", "18-79")) for seed in range(5)}
    pooled = pd.concat(small.values())
    died = pooled[pooled["band"] == "80+"]["died"]
    assert 10 <= min(died.sum(), len(died) - died.sum()) < 30
    for name, rows in small.items():
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    options = ("--label-column", "died", "--score-column", "risk_a", "--by", "band", "--backend", "tenseal")
    options += ("-o", "plain_interval=true")
    for min_cell, warned in (("10", True), ("30", False)):
        found = told("evaluate", *files(tmp_path), *options, "--thresholds", "uniform:20", "--min-cell", min_cell)
        few = [each for each in found["warnings"] if "fewer than 30 positive or negative" in each]
        assert [each.startswith("'band: 80+': ") for each in few] == [True] * warned


def test_the_average_over_classes_says_what_it_is(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    for name in ("north", "south"):
        labels = random.integers(0, 3, 90)
        risks = {f"risk{each}": np.clip(random.normal(0.3 + 0.3 * (labels == each), 0.2), 0, 1) for each in range(3)}
        pd.DataFrame({"kind": np.array(["a", "b", "c"])[labels], **risks}).to_csv(tmp_path / f"{name}.csv", index=False)
    shown = printed(
        *("evaluate", str(tmp_path / "north.csv"), str(tmp_path / "south.csv"), "--label-column", "kind"),
        *("--score-columns", "risk0,risk1,risk2", "--classes", "a,b,c", "--thresholds", "uniform:20"),
        *("--backend", "tenseal", "--protocol", "exact"),
    )
    assert "the average over all pairs of classes (Hand and Till)" in " ".join(shown.split())
    assert "releases too little" not in shown
    assert sum(row[:2] == ["risk0", "a from others"] for row in lines(shown)) == 1


def test_p_values_have_two_significant_digits() -> None:
    shown = [p_text(p) for p in (0.00034, 0.0499, 0.5, 1.0, 9e-5)]
    assert shown == ["0.00034", "0.050", "0.50", "1.0", "< 0.0001"]


# --- Tables of any width: no number and no fingerprint is cut or parted, nor any word ---------------------------------


FINGERPRINT = "c8c9 cacb cccd cecf d0d1 d2d3 d4d5 d6d7\nd8d9 dadb dcdd dedf e0e1 e2e3 e4e5 e6e7"
PLAIN = [
    ("AUC", "0.787305", "of all parties' rows together"),
    ("fraction", "exact", "4894687/6217014 over these thresholds, exactly as integers have it"),
    ("fingerprint", FINGERPRINT, "of the keys: names them in every session"),
    ("sha256", "d2" * 32, "sites pin it"),
    ("parties", "78", ""),
]
COLUMNS = [
    ("risk_a", "all rows", "1,234,567", "433", "0.7873", "0.7625 to 0.8102", ""),
    ("risk_b", "age band over 80", "12", "3", "", "", "not shown: fewer than 10 positive or negative rows"),
]
HEADER = ("model", "group", "n", "events", "AUC", "95 % interval", "")


def test_what_weights_tell_stands_beside_the_rows_and_at_a_horizon_who_was_censored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    settings = {"weights": "steps of 0.01", "effective_events": 580.1, "effective_others": 900.2}
    rows: dict[str, Any] = {"positives": 700, "negatives": 1000}

    def shown(**more: Any) -> str:
        print_evaluation(made_evaluation(**rows, **more), Form(costs=False, brief=False, as_json=False))
        return " ".join(capsys.readouterr().out.split())

    weighted = shown(settings=settings)
    assert "weights steps of 0.01 worth 580 events and 900 others that count once (effective rows)" in weighted
    assert "1,700 700 events (label 1), 1,000 others weights" in weighted
    assert "moved the AUC by this at most; that weights are rounded to steps of 0.01 is not in it" in weighted
    estimates = (GroupEstimate(model="", group="", auc=0.8, horizon=365.0, **rows),)
    at = shown(settings={**settings, "definition": "these from those", "censored": 1234}, estimates=estimates)
    assert "AUC at 365 0.800000 of all parties' rows together; these from those" in at
    assert "700 events (by 365), 1,000 others; 1,234 were censored before, and are not among them" in at
    assert "at 365 worth 580 events and 900 others that count once (effective rows); weights are taken as known" in at
    hidden = shown(settings={"definition": ""}, estimates=estimates)  # from 1 to 9, say
    assert "others; some were censored before" in hidden
    assert "weights" not in shown()
    two = {"weights": "steps of 0.01", **{f"{name}_at_365": 45.0 for name in ("effective_events", "effective_others")}}
    of_first = shown(settings={**two, "censored_at_365": 12, "censored_at_730": 99}, estimates=estimates)
    assert "at 365 worth 45 events and 45 others" in of_first
    assert "12 were censored before" in of_first


def test_a_private_auc_says_whose_budget_is_spent_and_where_curves_are_at_what_price(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    study = Study(model="net 2", outcome="sepsis", cohort="adults", period="2030")
    for unit, of, where in (("row", "row replaced", None), ("label", "label", study)):
        settings = {"epsilon": 2.0, "epsilon_unit": unit, "noise_standard_error": 0.01}
        found = made_evaluation(binning_error=math.nan, settings=settings, study=where)
        print_evaluation(found, Form(costs=False, brief=False, as_json=False))
        shown = " ".join(capsys.readouterr().out.split())
        assert f"epsilon 2 the privacy budget of a {of}, spent by this session" in shown
        how = "fhe-auc report --epsilon" if where is None else "a study with report = true"
        assert f"curves none {how} has them, with more noise, and spends its epsilon besides: both add up" in shown


def words(text: str) -> list[str]:
    return sorted(re.findall(r"[^\s:]+", text))


@pytest.mark.parametrize("width", [40, 60, 80, 100, None])
def test_every_word_of_every_cell_is_there_whole(
    width: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if width is None:  # a pipe
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(width))
    output.print_table(PLAIN)
    shown = capsys.readouterr().out
    assert words(shown) == words(" ".join(" ".join(row) for row in PLAIN))
    for line in FINGERPRINT.splitlines():
        assert len(re.findall(rf"^.*{line}", shown, re.MULTILINE)) == 1
    assert [line for line in shown.splitlines() if len(line) > (width or 100) and "d2d2" not in line] == []
    output.print_table(COLUMNS, header=HEADER, words=2, numbers=4)
    shown = capsys.readouterr().out
    cells = " ".join(" ".join(row) for row in COLUMNS)
    assert set(words(cells)) <= set(words(shown)) <= {*words(cells), *words(" ".join(HEADER)), *re.findall("─+", shown)}
    assert all(len(line) <= max(width or 100, 60) for line in shown.splitlines())  # so wide are its numbers alone
