"""Tables on a terminal of any width, and in a file: no number and no fingerprint is cut or parted, nor any word."""

import re

import pytest

from fhe_auc.cli import output
from fhe_auc_keys.cli.common import spelled

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
