"""The notebook in examples: its cells run in order, show what it says, and it is committed without outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "three_hospitals.ipynb"


def code_cells() -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_it_holds_no_outputs() -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code_cells())


def test_its_cells_run_in_order_and_agree_with_one_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    shown, names = {}, dict[str, Any]()
    try:
        for cell in code_cells():
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, cell["id"], "exec"), names)  # noqa: S102 - our own file
            if last is not None:
                shown[cell["id"]] = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)  # noqa: S307
    finally:
        pyplot.close("all")
    printed = capsys.readouterr().out.splitlines()
    patients, evaluation, both = names["patients"], names["evaluation"], names["both"]
    assert printed == [str(evaluation), str(names["noisy"])]
    assert evaluation.parties == 3
    assert evaluation.positives == patients["died"].sum()
    pooled, difference, bound = shown["check"]
    assert difference == abs(evaluation.auc - pooled) <= bound + evaluation.numerical_error
    assert shown["models"] is both
    assert [each.group for each in both.estimates if each.model == "risk"] == ["", "sex: F", "sex: M"]
    assert "<table>" in both._repr_html_()
    assert all(axes.has_data() for axes in names["axes"])
