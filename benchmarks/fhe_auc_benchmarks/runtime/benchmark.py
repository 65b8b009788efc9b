"""The measurements of ``fhe-auc benchmark``: all contenders of one problem in turn, so that noise hits them alike."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from statistics import median
from typing import NamedTuple

import msgspec

from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError
from fhe_auc_benchmarks.runtime.contender import ROLES, BenchmarkProblem, Contender, OurProtocol, Plaintext, Played

PARTIES = (3, 10, 30, 100, 1000, 10_000)
DEFAULT_THRESHOLDS = 4000
THRESHOLDS = (100, 1000, 10_000)
THRESHOLD_PARTIES = 30
PEERS = (BenchmarkProblem(100, 100), BenchmarkProblem(100, 1000))

KEYS = ("sealed", "helper")
PROTOCOL, LEVEL = "verified", 0.95  # what is measured against parties and thresholds: the default, with its interval
_MOST = {"sealed": 1000}
"""Beyond: bundles for sealed keys hold the announcement each."""

_OURS = ("verified", "exact", "histogram-federated")
_ON_CKKS = ("semi-honest", "malicious")  # on each library
_RUNS = 3
_ONCE = 100  # parties from which one run takes seconds; with so many, chance evens out

Report = Callable[[str, int, int], None]
Maker = Callable[[BenchmarkProblem], Contender]


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One contender on one problem: medians of some runs, as `fhe_auc_benchmarks.runtime.contender.Played` has them."""

    contender: str
    parties: int
    thresholds: int
    runs: int
    cpu: dict[str, float]
    before_bytes: int = 0
    upload_bytes: int
    download_bytes: int
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
    """All measurements; `quick` ones stop at 100 parties."""

    quick: bool = False
    measurements: list[Measurement] = field(default_factory=list)

    def run(self, report: Report, keep: Callable[[], None]) -> None:
        """Do all steps; `report` is called with what, and how many percent are done; `keep` after each."""
        steps = self.steps()
        total, done = sum(step.seconds for step in steps), 0.0
        for step in steps:
            what = f"{step.problem.parties:,} parties, {step.problem.thresholds:,} thresholds"
            report(what, round(100 * done / total), 100)
            self.measurements += measure(step.problem, step.makers, step.runs)
            keep()
            done += step.seconds
        report("done", 100, 100)

    def steps(self) -> list[BenchmarkStep]:
        """Return what there is to do, in order."""
        problems = [BenchmarkProblem(size, DEFAULT_THRESHOLDS) for size in PARTIES if size <= 100 or not self.quick]
        problems += [BenchmarkProblem(THRESHOLD_PARTIES, size) for size in THRESHOLDS]
        found = []
        for problem in problems:
            runs = 1 if problem.parties >= _ONCE else _RUNS
            kinds = (keys for keys in KEYS if problem.parties <= _MOST.get(keys, problem.parties))
            ours = (partial(OurProtocol, protocol=PROTOCOL, keys=keys, interval=LEVEL) for keys in kinds)
            found.append(BenchmarkStep(problem, tuple(ours), runs, (runs + 1) * (3 + 0.03 * problem.parties)))
        return [*found, *(BenchmarkStep(problem, tuple(_peers()), _RUNS, 60) for problem in PEERS)]


def _peers() -> Iterator[Maker]:
    for protocol in _OURS:
        yield partial(OurProtocol, protocol=protocol)
    for protocol, backend in product(_ON_CKKS, ckks.available_backends()):
        yield partial(OurProtocol, protocol=protocol, backend=backend)
    yield Plaintext


def measure(problem: BenchmarkProblem, makers: Iterable[Maker], runs: int) -> list[Measurement]:
    """Measure all contenders; several runs have a warm-up before. `EvaluationError`: an AUC is not the exact one."""
    _ = problem.auc  # so that all rows are made up before a clock runs
    contenders = [make(problem) for make in makers]
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
    return [_medians(problem, name, each[-runs:]) for name, each in played.items()]


def _medians(problem: BenchmarkProblem, name: str, played: list[Played]) -> Measurement:
    return Measurement(
        contender=name,
        parties=problem.parties,
        thresholds=problem.thresholds,
        runs=len(played),
        cpu={role: median(each.cpu[role] for each in played) for role in ROLES},
        before_bytes=max(each.before_bytes for each in played),
        upload_bytes=max(each.upload_bytes for each in played),
        download_bytes=max(each.download_bytes for each in played),
        auc=played[-1].auc,
        exact_auc=problem.auc,
    )
