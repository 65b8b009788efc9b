"""The notebooks in examples: cells run in order, show what they say, and are committed without outputs."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
OF_TWO_MODELS = ("models", "forest")  # cells of three_hospitals.ipynb that no other rests on, and most of its time

pytestmark = pytest.mark.usefixtures("drawn_nowhere")


@pytest.fixture
def drawn_nowhere() -> Iterator[None]:
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def run(notebook: str, *, without: tuple[str, ...] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the cells; return what they show, by id, and all names."""
    from matplotlib import pyplot

    shown, names = {}, dict[str, Any](plt=pyplot)  # which a cell that is left out imports
    for cell in json.loads((EXAMPLES / notebook).read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code" and cell["id"] not in without:
            assert (cell["outputs"], cell["execution_count"]) == ([], None)  # it is committed without
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, cell["id"], "exec"), names)  # noqa: S102 - our own file
            if last is not None:
                shown[cell["id"]] = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)  # noqa: S307
    return shown, names


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_three_hospitals_runs_and_its_cells_agree_with_one_another(
    every: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, names = run("three_hospitals.ipynb", without=() if every else OF_TWO_MODELS)
    patients, evaluation = names["patients"], names["evaluation"]
    assert capsys.readouterr().out.splitlines() == [str(evaluation), str(names["noisy"])]
    assert evaluation.parties == 3
    assert evaluation.positives == patients["died"].sum()
    pooled, difference, bound = shown["check"]
    assert difference == abs(evaluation.auc - pooled) <= bound + evaluation.numerical_error
    assert all(axes.has_data() for axes in names["axes"])
    if every:
        both = shown["models"]
        assert [each.group for each in both.estimates if each.model == "risk"] == ["", "sex: F", "sex: M"]
        assert "<table>" in both._repr_html_()


def test_table_2_of_a_paper_has_a_row_for_each_group_both_models_and_their_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown, names = run("table_2.ipynb")
    visits, table = names["visits"], shown["table"]
    levels = [("all", ""), ("sex", "F"), ("sex", "M"), *(("age_band", band) for band in names["bands"])]
    assert [each[:2] for each in table.index] == levels
    assert next(each[2:] for each in table.index) == (len(visits), visits["died"].sum())
    assert list(table.columns) == ["risk_a", "risk_b"]
    written = pd.read_csv("table2.csv", keep_default_na=False)
    assert written["risk_b"].tolist() == table["risk_b"].tolist()
    (difference,) = shown["difference"].to_dict("records")
    printed = capsys.readouterr().out
    assert all(text in printed for text in (r"\toprule", table.iloc[0]["risk_a"], f"p = {difference['p_value']:.2g}"))
