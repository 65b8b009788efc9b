"""Names of columns with commas and equals signs on the command line: within quotes."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import call, write_csv


@pytest.fixture(autouse=True)
def table(folder: Path) -> None:
    random = np.random.default_rng(5)
    number = np.arange(120)
    columns = {
        "y_true": number % 2,
        "Risk, 30 days": random.random(120).round(3),
        "Risk, 1 year": random.random(120).round(3),
        "Ward, first": np.array(["a", "b"])[number // 2 % 2],
        "age>=65": number // 2 % 2,
        "sex": np.array(["F", "M"])[number // 2 % 2],
        "sex=male": number // 2 % 2,
        "band": np.array(["<5, small", "=5"])[number // 2 % 2],
    }
    write_csv("x.csv", **columns)


SMALL = ("--thresholds", "uniform:25", "--backend", "tenseal")
ONE = ("--score-column", "Risk, 1 year")


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ((*ONE, "--by", '"Ward, first"'), ["Ward, first: a", "Ward, first: b"]),
        ((*ONE, "--by", '"Ward, first"=b,a'), ["Ward, first: b", "Ward, first: a"]),
        ((*ONE, "--by", '"age>=65"=1,0'), ["age>=65: 1", "age>=65: 0"]),
        ((*ONE, "--by", '"sex=male"'), ["sex=male: 0", "sex=male: 1"]),
        ((*ONE, "--by", "sex=M,F"), ["sex: M", "sex: F"]),
        ((*ONE, "--by", 'band==5,"<5, small"'), ["band: =5", "band: <5, small"]),
        (
            (*ONE, "--by", 'sex,"Ward, first"', "--by", '"age>=65"'),
            ["sex: F", "sex: M", "Ward, first: a", "Ward, first: b", "age>=65: 0", "age>=65: 1"],
        ),
        (("--score-columns", '"Risk, 30 days","Risk, 1 year"', "--by", "sex"), ["sex: F", "sex: M"] * 2),
    ],
)
@pytest.mark.parametrize("source", ["x.csv", pytest.param("-", marks=pytest.mark.slow)])
def test_a_column_is_named_within_quotes(options: tuple[str, ...], groups: list[str], source: str) -> None:
    result = call("evaluate", source, *SMALL, *options, "--json", input=Path("x.csv").read_text(encoding="utf-8"))
    assert result.exit_code == 0, result.stderr
    found = [each["group"] for each in json.loads(result.stdout)["estimates"]]
    assert [group for group in found if group not in ("", "all")] == groups


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((*ONE, "--by", "Ward, second"), "there is no column 'Ward'"),
        ((*ONE, "--by", "sex,agee"), "there is no column 'agee'"),
        (("--score-columns", "Risk, 30 days,Ward, first"), "there is no column 'Risk'"),
        (("--score-columns", "Risk, 3 days"), "there is no column 'Risk'"),
    ],
)
def test_what_is_no_column_is_told_with_names_as_they_are_to_be_written(options: tuple[str, ...], told: str) -> None:
    result = call("evaluate", "x.csv", *SMALL, *options)
    assert result.exit_code == 2
    assert told in result.stderr
    assert '"Risk, 30 days", "Risk, 1 year", "Ward, first", "age>=65", sex' in result.stderr
    assert "within quotes: --by '\"a, b\"'" in result.stderr


def test_a_name_of_one_part_needs_no_advice_on_quotes() -> None:
    write_csv("y.csv", y_true=[0, 1], y_score=[0.1, 0.2], sex=["F", "M"])
    assert "quotes" not in call("evaluate", "y.csv", "--by", "sexe").stderr
    assert "quotes" not in call("evaluate", "y.csv", "--score-columns", "a,b").stderr


def test_a_bad_row_of_a_column_with_a_comma_is_told_as_such() -> None:
    write_csv("z.csv", **{"y_true": [0, 1], "y_score": [0.1, "x"], "Ward, first": ["a", "b"]})
    assert "line 3, column 'y_score'" in call("evaluate", "z.csv", "--by", '"Ward, first"').stderr


@pytest.mark.parametrize("options", [("--by", "sex=M,F"), ("--score-columns", "y_score,sex")])
def test_a_bad_row_of_columns_that_are_there_is_told_as_such(options: tuple[str, ...]) -> None:
    write_csv("z.csv", y_true=[0, 1], y_score=[0.1, 0.2], sex=["M", "W"])
    assert ", column 'sex': " in call("evaluate", "z.csv", *options).stderr
