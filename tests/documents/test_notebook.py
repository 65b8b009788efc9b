"""The notebook in examples: its cells run in order, show what it says, and it is committed without outputs."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "three_hospitals.ipynb"


# Runs the cells where nothing can be imported but what is to be installed, and what that needs.
def cells(kind: str) -> list[dict[str, Any]]:
    every: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in every if cell["cell_type"] == kind]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_its_cells_run_in_order_and_agree_with_one_another(every: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of two models, which no other rests on, take most of the time."""
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    shown, names = {}, dict[str, Any](plt=pyplot)  # which a cell that is left out imports
    try:
        for cell in cells("code"):
            assert (cell["outputs"], cell["execution_count"]) == ([], None)  # it is committed without
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            if every or cell["id"] not in ("models", "forest"):
                exec(compile(tree, cell["id"], "exec"), names)  # noqa: S102 - our own file
                if last is not None:
                    found = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)  # noqa: S307
                    shown[cell["id"]] = found
    finally:
        pyplot.close("all")
    printed = capsys.readouterr().out.splitlines()
    patients, evaluation = names["patients"], names["evaluation"]
    assert printed == [*str(evaluation).splitlines(), *str(names["noisy"]).splitlines()]
    assert evaluation.parties == 3
    assert evaluation.positives == patients["died"].sum()
    pooled, difference, bound = shown["check"]
    assert difference == abs(evaluation.auc - pooled) <= bound + evaluation.numerical_error
    assert all(axes.has_data() for axes in names["axes"])
    if every:
        both = shown["models"]
        assert [each.group for each in both.estimates if each.model == "risk"] == ["", "sex: F", "sex: M"]
        assert "<table>" in both._repr_html_()
