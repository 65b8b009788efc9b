"""Guides, executed: blocks of commands run as they stand there, each in the terminal that its fence names."""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import kill, marked
from tests.support.programs import run

GUIDES = Path(__file__).parents[2] / "docs" / "guide"
SITES = ("north", "south", "west")
TERMINALS = {"all": (*SITES, "server"), "sites": SITES, "others": SITES[1:], "agreeing": SITES[1:]}
"""Fences that name several terminals."""

_ANSWERING = """fhe-auc() { command fhe-auc "$@" <<< $'y\\ny\\ny\\ny\\ny'; }"""
"""Says yes where a command asks: are the characters the same?"""
_PATIENCE = 600.0  # seconds; only a broken guide waits for them
_FENCE = re.compile(r"^```(\w+) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Step:
    """A block of commands for one terminal or several, what the first one must print, and how each must end.

    One with `until` is run again until every terminal has printed that, a regular expression.
    """

    terminals: tuple[str, ...]
    commands: str
    status: int = 0
    until: str = ""
    output: str = ""


def blocks(page: str, until: str = "") -> list[tuple[str, str, str]]:
    """Language, the rest of the opening line and the text of each block of a page, or of what stands before `until`."""
    text = (GUIDES / page).read_text(encoding="utf-8")
    assert until in text
    return _FENCE.findall(text.split(until)[0] if until else text)


def steps(page: str, until: str = "") -> list[Step]:
    """The blocks that name a terminal, each with the output that the page shows below."""
    found: list[Step] = []
    for language, info, text in blocks(page, until):
        if language == "sh" and info:
            # As MkDocs takes it, else the page shows no block there.
            terminal, how, value = re.fullmatch(r'title="(\w+)(?:, (exit|until) (\w+))?"', info).groups()
            status, until = int(value) if how == "exit" else 0, value if how == "until" else ""
            found.append(Step(TERMINALS.get(terminal, (terminal,)), text, status, until))
        elif language == "text":
            found[-1].output = text
    return found


class Walk:
    """Runs steps in `folder`, and keeps what each terminal, called `ME`, has exported from one step to the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed = ""
        self._mark = str(uuid.uuid4())

    def take(self, step: Step) -> dict[str, str]:
        """Run a step in its terminals at the same time; return by terminal what was printed, which is as promised."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            with ThreadPoolExecutor(len(step.terminals)) as pool:
                results = pool.map(lambda name: self._run(name, step.commands), step.terminals)
                done = dict(zip(step.terminals, results, strict=True))
            if all(re.search(step.until, result.stdout) for result in done.values()):
                break
            assert time.monotonic() < deadline, f"{step.commands}\n{done}{self._logs()}"
            time.sleep(1)
        self.printed += "".join(result.stdout for result in done.values())
        for name, result in done.items():
            assert result.returncode == step.status, f"{name}: {step.commands}\n{result.stdout}{self._logs()}"
        promised = words(re.sub(r"^…\n", "", step.output, flags=re.MULTILINE))
        printed = done[step.terminals[0]].stdout
        missing = promised - words(printed)
        assert not missing, f"{step.commands}\n{printed}"
        return {name: result.stdout for name, result in done.items()}

    def _run(self, terminal: str, commands: str) -> subprocess.CompletedProcess[str]:
        state = self.folder / f".{terminal}"
        state.touch()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("FHE_AUC", "COLUMNS"))}
        environment |= {
            "FHE_AUC_TEST": self._mark,
            "ME": terminal,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }
        script = f"{_ANSWERING}\n. {state}\n{commands}\nexport -p > {state}"
        return run(["/bin/bash", "-euc", script], cwd=self.folder, env=environment, stderr=subprocess.STDOUT)

    def _logs(self) -> str:
        return "".join(f"{path}: {path.read_text()[-2000:]}" for path in self.folder.glob("*/*.log"))

    def stop(self) -> None:
        """End what the steps have left running."""
        deadline = time.monotonic() + 10
        while left := marked(f"FHE_AUC_TEST={self._mark}"):
            kill(left, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
            time.sleep(0.2)


def words(text: str) -> Counter[str]:
    """The words of an output, without what is another at each run; where lines break does not count."""
    text = re.sub(r"\d{4}-\d\d-\d\d|\d\d:\d\d", "TIME", text.replace("[y/N]: y\n", "[y/N] ").replace("[y/N]:", "[y/N]"))
    text = re.sub(r"\b(?=[0-9a-f]*\d|[a-f]{4}\b)([0-9a-f]{4}|[0-9a-f]{16}|[0-9a-f]{32,40})\b", "HEX", text)
    return Counter(text.split())


def printed_by(page: str, place: Path) -> str:
    """What a page's blocks of Python and shell print, one after the other, in a folder with the project's examples."""
    command = f'#!/bin/sh\nexec {sys.executable} -c "from fhe_auc.cli import main; main()" "$@"\n'
    for name, text in (("fhe-auc", command), ("python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    (place / "examples").symlink_to(Path(__file__).parents[2] / "examples")
    environment = {**os.environ, "COLUMNS": "100", "PATH": f"{place}:{os.environ['PATH']}"}
    printed = list[str]()
    for language, _, text in blocks(page):
        program = {"python": [sys.executable, "-c"], "sh": ["/bin/bash", "-euc"]}.get(language)
        if program is not None:
            done = run([*program, text], cwd=place, env=environment, stderr=subprocess.STDOUT, timeout=120)
            assert done.returncode == 0, f"{text}\n{done.stdout}"
            printed.append(done.stdout)
    return "\n".join(printed)


def not_printed(page: str, printed: str) -> list[str]:
    """Lines of a page's blocks of text that none of its blocks has printed."""
    lines = [line.split() for line in printed.splitlines()]
    shown = [text for language, _, text in blocks(page) if language == "text"]
    assert shown
    return [line for line in "".join(shown).splitlines() if line != "…" and line.split() not in lines]
