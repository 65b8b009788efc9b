"""How the command line fails: for programs one JSON object, and no failure where only the reader has left."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from fhe_auc.session import registry
from tests.support.command_line import PROGRAM, call, commands


def failure(result: Result, status: int) -> dict[str, object]:
    """What one JSON object on stdout says of a failure; for people the same stands on stderr."""
    told = json.loads(result.stdout)
    assert list(told) == ["error", "kind", "party", "file", "line", "column"]
    assert (result.exit_code, result.stderr.removeprefix("error: ")) == (status, f"{told['error']}\n")
    return told


def test_bad_usage_of_every_command_is_one_object_but_a_file_may_be_called_json() -> None:
    for command in commands():
        words = command.command_path.split()[1:]
        told = failure(call(*words, "--json", "--no-such-option"), 2)
        assert told["kind"] == "NoSuchOption"
        assert str(told["error"]).endswith(f"see {command.command_path} --help")
    result = call("evaluate", "--", "--json")
    assert (result.exit_code, result.stdout) == (2, "")


def test_party_file_line_and_column_are_named(folder: Path) -> None:
    Path("grid.txt").write_text("0.1\n\n0.2\nhalf\n")
    Path("north.csv").write_text("died,risk\n0,12.5\n1,87\n")
    Path("alive.csv").write_text("died,risk\n1,0.5\n1,0.7\n")
    missing = {"error": "file 'none.csv' does not exist", "kind": "InputError", "file": "none.csv"}
    columns = "--label-column died --score-column risk --thresholds uniform:5"
    for arguments, status, expected in (
        ("none.csv", 2, {**missing, "party": None, "line": None, "column": None}),
        ("north.csv --label-column died --score-column rsk", 2, {"file": "north.csv", "column": "rsk"}),
        ("none.csv --thresholds grid.txt", 2, {"kind": "InputError", "file": "grid.txt", "line": 4}),
        (f"north.csv {columns}", 2, {"party": "north"}),
        (f"alive.csv {columns}", 1, {"kind": "UndefinedAucError"}),
    ):
        told = failure(call("evaluate", *arguments.split(), "--json"), status)
        assert {name: told[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device"), 1, "[Errno 28] No space left on device"),
        (MemoryError(), 1, "not enough memory; take fewer bin edges, or fewer rows at a time"),
    ],
)
def test_what_ends_a_command_is_not_called_a_bug(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, line: str
) -> None:
    monkeypatch.setattr(registry, "names", raising(error))
    told = failure(call("protocols", "--json"), status)
    assert (told["kind"], told["error"]) == (type(error).__name__.replace("KeyboardInterrupt", "Interrupted"), line)
    result = call("protocols")
    assert (result.exit_code, result.stdout) == (status, "")
    assert result.stderr == f"{'' if status == 130 else 'error: '}{line}\n"


def test_a_bug_tells_its_place_but_quotes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "names", raising(ZeroDivisionError("score 0.123")))
    result = call("protocols")
    assert (result.exit_code, result.stdout) == (1, "")
    where = r"test_failures.py, line \d+ \(run with --debug for the traceback\)\n"
    assert re.fullmatch(rf"internal error: ZeroDivisionError in .*{where}", result.stderr)
    told = failure(call("protocols", "--json"), 1)
    assert (told["kind"], "0.123" in str(told["error"])) == ("ZeroDivisionError", False)
    assert "0.123" in call("protocols", "--debug").stderr


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("protocols", 0),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("--help", 0), ("evaluate none.csv", 2))),
    ],
)
def test_a_reader_that_leaves_early_changes_nothing(arguments: str, status: int) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.run([*PROGRAM, *arguments.split()], stdout=write_end, stderr=subprocess.PIPE, timeout=60)
    os.close(write_end)
    assert process.returncode == status
    assert b"Broken" not in process.stderr
    assert (process.stderr == b"") == (status == 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is played by /dev/full")
@pytest.mark.parametrize("arguments", [["protocols"], pytest.param(["--help"], marks=pytest.mark.slow)])
def test_a_full_disk_is_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "error: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    "closed", ["012", *(pytest.param(each, marks=pytest.mark.slow) for each in ("0", "1", "2", "01", "02", "12"))]
)
@pytest.mark.skipif(os.name == "nt", reason="a shell closes the streams")
def test_closed_streams_change_no_status_and_no_file(tmp_path: Path, closed: str) -> None:
    """A file that is opened takes the lowest free number: what is meant for a stream would be written into it."""
    (tmp_path / "a.csv").write_text("y_true,y_score\n" + "1,0.9\n0,0.1\n1,0.3\n0,0.5\n" * 5)
    rows = (tmp_path / "a.csv").read_bytes()
    closing = " ".join(f"{number}>&-" if number != "0" else "<&-" for number in closed)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", "-c", f'exec "$@" {closing}', "sh", *PROGRAM, *arguments]
        return subprocess.run(command, stdout=-1, stderr=-1, text=True, cwd=tmp_path, timeout=60, check=False)

    done = run("evaluate", "a.csv", "--json", "--thresholds", "uniform:10")
    assert done.returncode == 0
    assert done.stdout == "" if "1" in closed else json.loads(done.stdout)["fraction"] == "3/4"
    missing = run("evaluate", "none.csv")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == ("" if "2" in closed else "error: file 'none.csv' does not exist\n")
    assert (tmp_path / "a.csv").read_bytes() == rows


@pytest.mark.skipif(os.name == "nt", reason="a shell closes the streams")
def test_closed_standard_input_is_empty_where_it_is_read() -> None:
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, "evaluate", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "error: file 'standard input': the file is empty\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is played by /dev/full")
def test_a_warning_that_cannot_be_written_loses_no_result(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("y_true,y_score\n1,0.9\n0,0.1\n1,0.3\n0,0.5\n")
    command = [*PROGRAM, "evaluate", "a.csv", "--brief", "--thresholds", "uniform:10"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0
    assert "0.75" in done.stdout
