"""Logs: a time, a level, a session, a round and a party on each line, which is one line, without colours."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from fhe_auc.base import logs
from fhe_auc.base.errors import InputError

ESCAPE = "\x1b"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """What has gone to stderr since it was asked for last; how logs are written is put back afterwards."""
    monkeypatch.setattr(logs.LOGGER, "handlers", [])
    level = logs.LOGGER.level
    yield lambda: capsys.readouterr().err
    logs.LOGGER.setLevel(level)


def test_json_and_text_say_when_what_where_and_about_whom(
    written: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(logs.VARIABLE, "json")
    logs.write_to_stderr()
    log = logs.RoleLog("5e" * 16, 2)
    log.warning("no submission: %s", "it never connected", extra={"party": "north"})
    told = json.loads(written())
    assert datetime.fromisoformat(told.pop("time")).tzinfo is not None
    where = {"session": "5e" * 16, "round": 2, "party": "north"}
    assert told == {"level": "WARNING", "logger": "fhe_auc", **where, "message": "no submission: it never connected"}
    monkeypatch.delenv(logs.VARIABLE, raising=False)
    logs.write_to_stderr()
    logs.RoleLog("5e" * 16, 2, "north").info("answered")
    time = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+\+00:00"
    assert re.fullmatch(rf"{time} INFO session={'5e' * 16} round=2 party=north answered\n", written())


@pytest.mark.parametrize("form", ["text", "json"])
def test_whatever_is_logged_is_one_line_that_steers_no_terminal(
    written: Callable[[], str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv(logs.VARIABLE, form)
    logs.write_to_stderr()
    log = logs.RoleLog("5e" * 16, 1, f"no{ESCAPE}[31mrth\n")
    try:
        raise ValueError(f"two\nlines {ESCAPE}[0m")
    except ValueError:
        log.exception("failed\r\n2030-01-01T00:00:00+00:00 INFO forged")
    told = written()
    assert told.count("\n") == 1
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", told)
    assert "ValueError" in told


def test_writing_is_set_up_once_to_what_stderr_is_by_then_in_a_format_that_there_is(
    written: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(logs.VARIABLE, "json")
    for _ in range(3):
        logs.write_to_stderr()
    logs.LOGGER.info("once")
    assert len(written().splitlines()) == 1
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", later := io.StringIO())
        logs.LOGGER.info("later")
    assert (written(), later.getvalue().count("later")) == ("", 1)
    monkeypatch.setenv(logs.VARIABLE, "xml")
    with pytest.raises(InputError, match="FHE_AUC_LOG_FORMAT is text or json, not 'xml'"):
        logs.chosen_format()


def test_why_a_role_has_failed_is_json_too_where_its_log_is(tmp_path: Path) -> None:
    (config := tmp_path / "role.toml").write_text('role = "site"\nstore = "nowhere"\n')
    arguments = ["serve", str(config), "--log-format", "json"]
    program = [sys.executable, "-c", "from fhe_auc.cli import main; main()", *arguments]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, told[-1]["level"]) == (2, "ERROR")
    assert not told[-1]["message"].startswith("error")
