"""What the README shows is what happens."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_python_example_prints_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[1]
    promised = re.search(r"print\(.*\)  # (.*)", example)[1]
    exec(compile(example, str(README), "exec"), {})  # noqa: S102 - our own text
    assert capsys.readouterr().out.strip() == promised
