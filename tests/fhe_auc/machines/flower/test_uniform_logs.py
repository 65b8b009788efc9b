"""What Flower's processes write arrives in the form of our logs: with times, without colours, as JSON."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from fhe_auc.base.logs import VARIABLE, Format, RoleFormatter
from fhe_auc.machines.flower.uniform_logs import uniform

PROGRAM = """
import os, subprocess, sys
from logging import INFO, WARNING
from fhe_auc.base import logs
from fhe_auc.machines.flower.uniform_logs import uniform_output
from flwr.common.logger import log

with uniform_output():
    log(INFO, "Flower's own")
    logs.write_to_stderr()
    logs.RoleLog("5e5e", 1, "north").info("ours")
    subprocess.run([sys.executable, "-c", "from flwr.common.logger import log; log(30, 'a child, in colour')"])
    print("print")
    sys.stdout.flush()
    os.write(2, b"no line feed at its end, and no text: \\xff")
print("on stdout")
print("after", file=sys.stderr)
"""


@pytest.mark.parametrize("form", ["json", pytest.param("text", marks=pytest.mark.slow)])
def test_every_line_has_a_time_and_none_a_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv(VARIABLE, form)
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=log, check=True)
    assert done.stdout == b"on stdout\n"
    *lines, last = (tmp_path / "log").read_text().splitlines()
    assert last == "after"  # all others were written before
    assert "\x1b" not in "".join(lines)
    assert len(lines) == 5
    if form == "json":
        told = [json.loads(line) for line in lines]
        assert [(each["level"], each["logger"], each["message"]) for each in told] == [
            ("INFO", "flower", "Flower's own"),
            ("INFO", "fhe_auc", "ours"),
            ("WARNING", "flower", "a child, in colour"),
            ("INFO", "flower", "print"),
            ("INFO", "flower", "no line feed at its end, and no text: \ufffd"),
        ]
        assert (told[1]["session"], told[1]["round"], told[1]["party"]) == ("5e5e", 1, "north")
    else:
        assert all(re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+\+00:00 (INFO|WARNING) ", line) for line in lines)


LEVELS = (
    ("\x1b[92mINFO \x1b[0m:      Start `flwr-clientapp` process\n", "INFO", "Start `flwr-clientapp` process"),
    ("2026-11-23T20:13:52.833Z ERROR [uvicorn.error] Exiting.\n", "ERROR", "[uvicorn.error] Exiting."),
    ("ERROR:    Exception in ASGI application\n", "ERROR", "Exception in ASGI application"),
    ("Traceback (most recent call last):\n", "INFO", "Traceback (most recent call last):"),
)
OURS = {
    "json": '{"time": "2030-05-01T12:00:00.000+00:00", "level": "INFO", "message": "two  blanks"}',
    "text": "2030-05-01T12:00:00.000+00:00 INFO party=north two  blanks",
}
FOREIGN = (
    *("2030-05-01T x", "2030-05-01T12:00:00 INFO x", '{"time": "2030', "[" * 10**5),
    '{"time": "2030-05-01T12:00:00.000+00:00"}',
)


@pytest.mark.parametrize("form", ["json", "text"])
def test_lines_of_ours_pass_as_they_are_others_are_made_such_and_none_steers_a_terminal(form: Format) -> None:
    made = RoleFormatter(form)
    for line, level, text in LEVELS:
        told = json.loads(uniform(line, RoleFormatter("json")))
        assert (told["level"], told["message"]) == (level, text)
    assert uniform(f"{OURS[form]}\n", made) == OURS[form]
    assert uniform("\x1b[0m \n", made) == ""
    for foreign in FOREIGN:
        assert made.has_made(told := uniform(foreign, made))
        assert told != foreign
    for line in ("\x1b]0;title\x07 \x9b31m", "2030-05-01T12:00:00.000+00:00 INFO \x1b[2J\x1b]0;title\x07 \u202e"):
        assert uniform(line, made).isprintable()


def test_a_log_on_a_full_disk_or_in_an_old_encoding_ends_no_process(tmp_path: Path) -> None:
    program = """
import os
from fhe_auc.machines.flower.uniform_logs import uniform_output
with uniform_output():
    for _ in range(100):
        os.write(2, b"Z\\xc3\\xbcrich" * 200 + b"\\n")  # more than a pipe holds: it fails where nobody reads any more
"""
    for place in ("/dev/full", str(tmp_path / "log")):
        with open(place, "wb") as log:
            given = {**os.environ, "PYTHONIOENCODING": "ascii"}
            subprocess.run([sys.executable, "-c", program], stderr=log, env=given, check=True)
    assert len((tmp_path / "log").read_text(encoding="utf-8").splitlines()) == 100
