"""Tells how much CPU time each test file takes, with the processes that it starts, and which ten take most.

A child counts once it has ended and been waited for. What a file imports first counts for it, at collection or later.
"""

import json
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_SLOWEST = 10
# Of the whole run's time a file may take one part in so many: that is what the limit is where a CPU is slow.
_SHARE = 30


def _cpu_seconds() -> float:
    """Return the CPU time of this process, and of its children that have ended."""
    return sum(os.times()[:4])


class CpuTime:
    """Adds up the CPU seconds of each file; in a worker of xdist, the reports carry them to the main process."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.files = Counter[str]()
        self._before = _cpu_seconds()

    def _timed(self, report: Any) -> Any:
        now = _cpu_seconds()
        report.cpu_seconds, self._before = now - self._before, now
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, Any, Any]:
        return self._timed((yield))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        return self._timed((yield))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.files[report.nodeid.partition("::")[0]] += report.cpu_seconds

    def _too_slow(self) -> list[str]:
        most = self.config.getoption("most_cpu")
        if most is None:
            return []
        allowed = max(most, self.files.total() / _SHARE)
        return [name for name, seconds in self.files.items() if seconds > allowed]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, None]:
        if self._too_slow() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        total = _cpu_seconds()
        terminalreporter.section(f"CPU time: {total:.0f} s; the files that take most of it")
        for name, seconds in self.files.most_common(_SLOWEST):
            terminalreporter.line(f"{seconds:6.1f} s  {name}")
        for name in self._too_slow():
            terminalreporter.line(
                f"{name} takes more than {self.config.getoption('most_cpu'):g} CPU seconds: make its tests cheaper, or "
                "mark variants `slow` (CONTRIBUTING.md)",
                red=True,
            )
        if written := self.config.getoption("cpu_report"):
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(json.dumps({"total": total, "files": dict(self.files.most_common())}, indent=1))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("CPU time of test files")
    group.addoption("--cpu-report", metavar="FILE", type=Path, help="Write the times into FILE, as JSON.")
    group.addoption("--most-cpu", metavar="SECONDS", type=float, help="Fail where a file takes more than this.")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuTime(config))
