"""The measurements of ``fhe-auc benchmark``: whole commands, then sessions role by role.

All contenders of one problem are measured in turn, so that noise hits them alike.
"""

from __future__ import annotations

import gc
import platform
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError
from fhe_auc.machines.processes import usable_cores
from fhe_auc_benchmarks.runtime.contender import BenchmarkProblem, Contender, OurProtocol, Played
from fhe_auc_benchmarks.runtime.whole_commands import PROGRAMS, FileProblem, WholeCommand

THRESHOLDS = 5000  # the default's number
FILES = tuple(FileProblem(3, THRESHOLDS, *files) for files in ((15_000, "csv"), (10**6, "csv"), (10**7, "parquet")))
PARTIES = (3, 10, 100, 1000, 10_000)
PEERS = BenchmarkProblem(100, 1000, 10_000)
_QUICK_ROWS, _QUICK_PARTIES = 10**6, 100

KEYS = ("sealed", "helper")
PROTOCOL, LEVEL = "verified", 0.95  # what is measured against parties: the default, with its interval
_MOST = {"sealed": 1000}
"""Beyond: bundles for sealed keys hold the announcement each."""

_OURS = ("verified", "exact")
_ON_CKKS = ("semi-honest", "malicious")  # on each library
_RUNS = 3
_ONCE = 100  # parties from which one run takes seconds; with so many, chance evens out
_LIBRARIES = ("fhe-auc", "openfhe", "tenseal", "numpy", "pyarrow", "scikit-learn", "duckdb", "cryptography")

Report = Callable[[str, int, int], None]
Maker = Callable[[], Contender]


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One contender on one problem: the least of some runs, to which others on the machine can only add.

    `costs` are as `fhe_auc_benchmarks.runtime.contender.Played` has them.
    """

    contender: str
    parties: int
    thresholds: int
    rows: int
    kind: str  # of files; none where a session was measured role by role
    runs: int
    costs: dict[str, float]
    auc: float
    exact_auc: float


class BenchmarkStep(NamedTuple):
    """Contenders on one problem, and about how many seconds they take."""

    problem: BenchmarkProblem
    makers: tuple[Maker, ...]
    runs: int
    seconds: float


@dataclass
class Benchmark:
    """All measurements; `quick` ones stop at a million rows and 100 parties."""

    quick: bool = False
    measurements: list[Measurement] = field(default_factory=list)

    def run(self, report: Report, keep: Callable[[], None]) -> None:
        """Do all steps; `report` is called with what, and how many percent are done; `keep` after each."""
        steps = self.steps()
        total, done = sum(step.seconds for step in steps), 0.0
        for step in steps:
            report(str(step.problem), round(100 * done / total), 100)
            self.measurements += measure(step.problem, step.makers, step.runs)
            keep()
            done += step.seconds
        report("done", 100, 100)

    def steps(self) -> list[BenchmarkStep]:
        """Return what there is to do, in order; on Windows, which does not tell what a process took, no commands."""
        found = []
        for files in FILES if sys.platform != "win32" else ():
            if files.rows <= _QUICK_ROWS or not self.quick:
                programs = tuple(partial(WholeCommand, files, program) for program in PROGRAMS)
                found.append(BenchmarkStep(files, programs, _RUNS, (_RUNS + 1) * (5 + 2e-6 * files.rows)))
        for size in PARTIES:
            if size <= _QUICK_PARTIES or not self.quick:
                runs = 1 if size >= _ONCE else _RUNS
                kinds = (keys for keys in KEYS if size <= _MOST.get(keys, size))
                problem = BenchmarkProblem(size, THRESHOLDS, 100 * size)
                ours = tuple(partial(OurProtocol, problem, PROTOCOL, keys=keys, interval=LEVEL) for keys in kinds)
                found.append(BenchmarkStep(problem, ours, runs, (runs + 1) * (3 + 0.03 * size)))
        peers = [*product(_OURS, (None,)), *product(_ON_CKKS, ckks.available_backends())]
        makers = tuple(partial(OurProtocol, PEERS, protocol, backend=backend) for protocol, backend in peers)
        return [*found, BenchmarkStep(PEERS, makers, _RUNS, 60)]


def measure(problem: BenchmarkProblem, makers: Iterable[Maker], runs: int) -> list[Measurement]:
    """Measure all contenders; several runs have a warm-up before. `EvaluationError`: an AUC is not the exact one."""
    _ = problem.auc  # so that all rows are made up before a clock runs
    contenders = [make() for make in makers]
    played: dict[str, list[Played]] = {each.name: [] for each in contenders}
    for _ in range(runs + 1 if runs > 1 else 1):
        for contender in contenders:
            gc.collect()
            found = contender.play()
            if not abs(found.auc - problem.auc) <= contender.tolerance:
                raise EvaluationError(
                    f"{contender.name}: AUC {found.auc}, but {problem.auc} is right; nothing is reported"
                )
            played[contender.name].append(found)
    return [
        Measurement(
            contender=name,
            parties=problem.parties,
            thresholds=problem.thresholds,
            rows=problem.rows,
            kind=problem.kind if isinstance(problem, FileProblem) else "",
            runs=runs,
            costs={what: min(each.costs[what] for each in several[-runs:]) for what in several[0].costs},
            auc=several[-1].auc,
            exact_auc=problem.auc,
        )
        for name, several in played.items()
    ]


def machine_facts() -> dict[str, Any]:
    """Return machine, system and versions: nothing that names the machine or its user."""
    processor, versions = platform.processor() or "unknown", dict[str, str]()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": processor,
        "cores": usable_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "load_average": round(psutil.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
    }
