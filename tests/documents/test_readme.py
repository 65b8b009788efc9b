"""What the README shows is what happens."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.support.command_line import call, printed

README = Path(__file__).parents[2] / "README.md"


def section(title: str) -> str:
    return README.read_text("utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_it_is_short_and_begins_with_two_commands_that_need_no_others_before_them() -> None:
    assert len(README.read_text("utf-8").split()) <= 900
    first = next(block for block in README.read_text("utf-8").split("\n\n") if block.startswith("    "))
    assert re.findall(r"^    (.*?) +#", first, re.MULTILINE) == ["make demo", "make test"]
    targets = (README.parent / "Makefile").read_text("utf-8")
    for target, made in (("demo", "run-venv"), ("test", "dev-venv")):
        assert f"\n{target}: {made} ##" in targets
        assert f"\n{made}:\n\t@scripts/make_venv.sh {made.removesuffix('-venv')}\n" in targets


@pytest.mark.slow  # .ci/run checks its AUC
def test_the_demo_prints_what_is_shown() -> None:
    (shown,) = re.findall(r"```\n(.*?)```", section("One command"), re.DOTALL)
    result = call("demo", COLUMNS="80")
    first, compared = result.stdout.split("\n\nThe same clinics by three protocols, at 1,000 bin edges.")
    assert len(first.splitlines()) <= 20 + 2  # what it is of, and a blank line
    assert max(map(len, result.stdout.splitlines())) <= 80
    table, warning = first.split("\n\n")[1:]
    assert table.splitlines() == shown.splitlines()
    assert warning.startswith("warning: 36 of 78 parties")
    rows = compared.split("\n\n")[1].splitlines()
    assert len(rows) <= 2 + 9  # what a lying server would do takes several lines
    for name, would in (("semi-honest", "report any number"), ("malicious", "be caught"), ("verified", "be caught")):
        # All AUCs are those of all rows counted at these thresholds.
        found = r"0\.79 +0\.002719" if name == "semi-honest" else r"0\.787315 +0\.000034"
        assert any(re.match(rf"{name} +{found} .* [kM]B +\S+ m?s +{would}", row) for row in rows)
    assert "2^-40" in compared


@pytest.mark.slow
def test_the_commands_for_own_files_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd
    from sklearn.metrics import roc_auc_score

    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    pooled = []
    for site, rows in (("north", 300), ("south", 200), ("west", 100)):
        label = random.random(rows) < 0.4
        risks = {name: (label + random.random(rows)) / 2 for name in ("y_score", "risk", "risk_a", "risk_b")}
        groups = {name: random.choice(["a", "b"], rows) for name in ("sex", "age_band")}
        table = pd.DataFrame({"y_true": label.astype(int), "died": label.astype(int), **risks, **groups})
        table.to_csv(f"{site}.csv", index=False)
        pooled.append(table.assign(hospital=site))
    everyone = pd.concat(pooled)
    everyone.to_parquet("everyone.parquet")
    shutil.copytree(README.parent / "examples" / "three_sites", "examples/three_sites")
    commands = [line.split("#")[0] for line in section("Your own files").splitlines() if line.startswith("    fhe-auc")]
    assert len(commands) == 5
    shown = []
    for command in commands:
        words = [each for word in shlex.split(command)[1:] for each in (sorted(Path().glob(word)) or [word])]
        shown.append(printed(*map(str, words)))
    assert "83/108" in shown[0]
    found = float(re.match(r"AUC +(\S+)", shown[1])[1])
    assert found == pytest.approx(roc_auc_score(everyone["died"], everyone["risk"]), abs=1e-3)
    assert Path("forest.png").read_bytes().startswith(b"\x89PNG")
    assert Path("report", "report.html").exists()


def test_the_python_example_prints_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)[1]
    promised = re.search(r"print\(.*\)  # (.*)", example)[1]
    exec(compile(example, str(README), "exec"), {})  # noqa: S102 - our own text
    assert capsys.readouterr().out.strip() == promised
