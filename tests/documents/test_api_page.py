"""docs/reference/api.md: every public name and keyword stands there, and its example prints what its comment says."""

import inspect
import re
from pathlib import Path

import pytest

import fhe_auc

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
WRITTEN = PAGE.split("## From the docstrings")[0]


def test_every_public_name_and_every_keyword_stands_there_and_no_keyword_that_there_is_not() -> None:
    words = {word for code in re.findall(r"`([^`\n]+)`", WRITTEN) for word in re.findall(r"\w+", code)}
    assert sorted({*fhe_auc.__all__} - words) == []
    functions = (fhe_auc.federated_auc, fhe_auc.federated_report, fhe_auc.federated_thresholds)
    signatures = [inspect.signature(function).parameters for function in functions]
    keywords = {name for each in signatures for name in each} - {"options"}
    assert sorted(keywords - words) == []
    listed = WRITTEN.split("Keywords of the first two:")[1].split("\n\n")[1]
    shared = {
        name for start in re.findall(r"^- ([^:]+):", listed, re.MULTILINE) for name in re.findall(r"`(\w+)`", start)
    }
    assert len(shared) > 10
    assert sorted(shared - ({*signatures[0]} & {*signatures[1]})) == []


@pytest.mark.parametrize("result", [fhe_auc.Evaluation, fhe_auc.Report])
def test_what_it_says_of_results_they_have(result: type) -> None:
    (line,) = re.findall(rf"^- `{result.__name__}`: (.*?)(?=^- |\Z)", WRITTEN, re.MULTILINE | re.DOTALL)
    named = {name.removeprefix(f"{result.__name__}.") for name in re.findall(r"`([\w.]+)(?:\([^`]*\))?`", line)}
    assert len(named) > 5
    assert [name for name in named if not hasattr(result, name) and name not in result.__annotations__] == []


def test_the_example_prints_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", WRITTEN, re.DOTALL)
    exec(compile(example, "api.md", "exec"), {})  # noqa: S102 - our own text
    assert capsys.readouterr().out.strip() == re.findall(r"print\(.*\)  # (.*)", example)[0]
