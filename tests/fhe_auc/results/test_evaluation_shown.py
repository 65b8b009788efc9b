"""An evaluation in a notebook: its data frame, and its HTML, in which no name is taken for HTML."""

import math
import re
import sys
from fractions import Fraction
from typing import Any

import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.results.estimates import Comparison, GroupEstimate, too_few
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import Interval, widened
from fhe_auc.results.result_tables import of_comparisons, of_estimates
from tests.support.evaluations import made_evaluation
from tests.support.html_page import Page
from tests.support.lazy import Lazy

pd = Lazy("pandas")

COLUMNS = [
    *("model", "variable", "level", "contrast", "n", "events", "auc", "low", "high", "confidence", "method"),
    *("standard_error", "binning_error", "missing"),
]
OF_DIFFERENCES = [
    *("model", "minus", "n", "events", "difference", "low", "high", "confidence", "method"),
    *("standard_error", "binning_error", "p_value", "p_at_most", "p_holm", "missing"),
]
HEADLINE = "AUC 0.8000 (90 % interval 0.7500 to 0.8500, DeLong); n 1,300, events 300; protocol verified, 7 parties"
ATTACK = "<script>alert(1)</script>\"'&"


def make_evaluation(name: str = "risk_b") -> Evaluation:
    interval = Interval(0.9, 0.75, 0.85, "DeLong")
    own = {"auc": 0.8, "binning_error": 0.002, "interval": interval, "positives": 300, "negatives": 1000}
    return made_evaluation(
        **own,
        estimates=(
            GroupEstimate(model="risk_a", group="", standard_error=0.03, **own),
            GroupEstimate(model=name, group=f"sex: {name}", contrast=name, auc=None, missing=too_few(10)),
        ),
        comparisons=(
            Comparison(
                **{"first": "risk_a", "second": name, "difference": -0.04, "binning_error": 0.003, "p_value": 2e-5},
                interval=Interval(0.9, -0.07, -0.01, name),
            ),
        ),
        sites=(SiteSummary(model=name, within=0.7726, both_classes=23, one_class=55, usable=14),),
        warnings=(name,),
    )


def test_a_frame_has_a_row_for_each_auc_and_another_one_for_each_difference() -> None:
    frame = make_evaluation().to_frame()
    assert list(frame.columns) == COLUMNS
    first, second = (row.to_dict() for _, row in frame.iterrows())
    assert first == {
        **{"model": "risk_a", "variable": "all", "level": "", "contrast": "", "n": 1300, "events": 300, "auc": 0.8},
        **{"low": 0.75, "high": 0.85, "confidence": 0.9, "method": "DeLong", "standard_error": 0.03},
        **{"binning_error": 0.002, "missing": ""},
    }
    assert (second["variable"], second["level"], second["missing"]) == ("sex", "risk_b", too_few(10))
    assert all(pd.isna(second[name]) for name in COLUMNS[4:13])
    assert frame["n"].dtype == "Int64"
    differences = make_evaluation().differences_to_frame()
    assert list(differences.columns) == OF_DIFFERENCES
    (only,) = (row.to_dict() for _, row in differences.iterrows())
    assert [only[name] for name in OF_DIFFERENCES[:8]] == ["risk_b", "risk_a", 1300, 300, -0.04, -0.07, -0.01, 0.9]
    assert only["p_value"] == 2e-5
    nothing = made_evaluation().differences_to_frame()
    assert (len(nothing), list(nothing.columns)) == (0, OF_DIFFERENCES)


def test_a_frame_needs_pandas_and_a_table_says_which_interval_is_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        make_evaluation().to_frame()
    own = {"group": "", "auc": 0.8, "standard_error": 0.03}
    narrow = Interval(0.95, 0.7, 0.85, "DeLong, logit scale")
    lines = [GroupEstimate(model=str(open_), interval=widened(narrow, 0.03, open_), **own) for open_ in (0.02, 0.04)]
    assert [row[-1] for row in of_estimates(lines).rows] == ["", "widened by the binning error"]


def test_the_html_shows_all_tables_without_colours_and_no_name_is_html() -> None:
    html = make_evaluation()._repr_html_()
    shown = Page(html)
    assert shown.texts[0] == HEADLINE
    texts = {"risk_a", "all rows", "1,300", "0.8000", "0.7500 to 0.8500", f"not shown: {too_few(10)}"}
    assert texts | {"risk_b minus risk_a", "-0.0400", "-0.0700 to -0.0100", "< 0.0001"} <= set(shown.texts)
    assert any(text.startswith("within sites 0.7726: risk_b: ") for text in shown.texts)
    assert [tag for tag, _ in shown.tags].count("table") == 2
    assert not re.search(r"color|background|#[0-9a-f]{3}|src=|href=|class=", html)  # so that dark notebooks can
    attacked, plain = (Page(make_evaluation(name)._repr_html_()) for name in (ATTACK, "risk_b"))
    assert attacked.tags == plain.tags
    assert "script" not in [tag for tag, _ in attacked.tags]
    assert attacked.words.count(ATTACK) == plain.words.count("risk_b")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"binning_error": 0.5}, " (no interval; binning error 0.5)"),
        ({"binning_error": 0.0}, ""),
        ({"binning_error": math.nan}, " (no interval; noise, which has no bound)"),
        (
            {"binning_error": math.nan, "settings": {"noise_standard_error": 0.01234}},
            " (no interval; standard error of the noise 0.012)",
        ),
    ],
)
def test_what_is_printed_counts_warnings_and_has_an_uncertainty_always(changes: dict[str, Any], said: str) -> None:
    found = made_evaluation(protocol="semi-honest", parties=3, warnings=("odd", "even"), **changes)
    assert str(found) == f"AUC 0.8000{said}; protocol semi-honest, 3 parties; 2 warnings, in .warnings"
    assert repr(found) == f"<Evaluation: {found}>"
    assert len(repr(found)) <= 3 * 80


def test_an_evaluation_is_a_line_and_a_number_and_rows_are_called_n_and_events() -> None:
    evaluation = make_evaluation()
    assert (str(evaluation), float(evaluation)) == (f"{HEADLINE}; 1 warning, in .warnings", 0.8)
    plain = made_evaluation(protocol="semi-honest", parties=3, verified=False, binning_error=0.0)
    assert Page(plain._repr_html_()).words == "AUC 0.8000; protocol semi-honest, 3 parties"
    plain = GroupEstimate(model="", group="", auc=0.75, positives=3, negatives=4, fraction=Fraction(3, 4)).as_dict()
    assert (plain["n"], plain["events"], plain["group"], plain["fraction"]) == (7, 3, "all", "3/4")


@pytest.mark.parametrize(
    ("at_most", "shown"), [(0.0301, "≤ 0.031"), (0.4, "≤ 0.40"), (1.0, "≤ 1.0"), (3e-5, "< 0.0001")]
)
def test_without_a_p_value_the_table_says_what_it_is_at_most(at_most: float, shown: str) -> None:
    own = {"first": "a", "second": "b", "difference": 0.1, "binning_error": 0.2, "missing": "off"}
    (row,) = of_comparisons([Comparison(**own, p_at_most=at_most)]).rows
    assert row == ("b minus a", "+0.1000", "none", shown, "off")
