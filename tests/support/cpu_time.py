"""Tells the CPU time of each test file, of the processes it started too: the ten slowest, and the total.

With `FHE_AUC_MOST_CPU=15` the run fails where a file takes more CPU seconds than that: its tests are cheaper, or slow.
The times are written to `build/test-cpu.json` for `scripts/budgets.py`, whichever tests ran.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

WRITTEN = Path(__file__).parents[2] / "build" / "test-cpu.json"
_SLOWEST = 10


def _so_far() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


class _Times:
    def __init__(self, config: pytest.Config) -> None:
        self.config, self.files, self.last = config, Counter[str](), _so_far()
        self.began = time.monotonic()

    def _since(self) -> float:
        before, self.last = self.last, _so_far()
        return self.last - before

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, Any, Any]:
        report = yield
        report.cpu_seconds = self._since()
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        report.cpu_seconds = self._since()
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.files[report.nodeid.partition("::")[0]] += report.cpu_seconds

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        total = _so_far()
        WRITTEN.parent.mkdir(exist_ok=True)
        WRITTEN.write_text(json.dumps({"total": total, "files": dict(self.files.most_common())}, indent=1))
        terminalreporter.section(f"CPU time: {total:.0f} s in all; the files that took most of it")
        for name, seconds in self.files.most_common(_SLOWEST):
            terminalreporter.line(f"{seconds:6.1f} s  {name}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Times(config))
