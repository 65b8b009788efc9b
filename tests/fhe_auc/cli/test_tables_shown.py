"""Tables on a terminal of any width, and in a file: no number and no fingerprint is cut or parted, nor any word."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from fhe_auc.cli import output
from fhe_auc_keys.cli.common import spelled
from tests.support.command_line import printed, write_csv

FINGERPRINT = spelled(bytes(range(200, 232)))
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of three sites and a consortium."""
    place = tmp_path_factory.mktemp("sites")
    random = np.random.default_rng(3)
    for site in ("north", "south", "west"):
        died = np.arange(80) % 2
        risk = np.clip(random.normal(0.4 + 0.2 * died, 0.2), 0, 1).round(2)
        sex = random.choice(["F", "M"], 80)
        write_csv(place / f"{site}.csv", died=died, risk_a=risk, risk_b=risk.round(1), sex=sex)
    role = ("--folder", str(place / "role"), "--no-start")
    made = printed("members", "new", str(place / "exchange"), "north", *role, COLUMNS="40")
    assert link_of(place) in made  # whole, to be copied
    return place


def link_of(folder: Path) -> str:
    return str(json.loads(printed("members", "show", str(folder / "role" / "config.toml"), "--json"))["link"])


@pytest.mark.parametrize("widths", [("40", None), pytest.param(("40", "80", "100"), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "command",
    [
        "evaluate north.csv south.csv west.csv --label-column died --score-columns risk_a,risk_b --by sex "
        "--round-scores 1 --protocol exact --backend tenseal",
        "plan --backend tenseal",
        "plan --protocol malicious --backend tenseal",
        "protocols",
        "protocols malicious",
        "members show role/config.toml",
    ],
)
def test_every_command_shows_the_same_words_at_every_width(
    folder: Path, command: str, widths: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    def shown(width: str | None) -> set[str]:
        text = printed(*command.split(), COLUMNS=width)
        if command.startswith("members"):
            assert link_of(folder) in text
        return {word for word in words(text) if not re.match(r"─|\([a-k]\)", word)}

    narrow, *others = map(shown, widths)
    assert len(narrow) > 12
    for other in others:
        assert narrow <= other
        # Above words that lead paragraphs, or above nothing.
        assert other - narrow <= {"model", "group", "comparison", "p"}


def test_a_long_path_stays_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = "a-folder-with-a-name/another-one/and-a-file-with-a-long-name.json"
    output.print_text(f"page saved as {path}; beside it others")
    assert f"{path};" in capsys.readouterr().out
