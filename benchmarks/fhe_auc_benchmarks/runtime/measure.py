"""Measure contenders side by side: all of one problem in turn, run after run, so that noise hits them alike."""

from __future__ import annotations

import contextlib
import gc
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sklearn.metrics import roc_auc_score

from fhe_auc import datasets, thresholds
from fhe_auc.counts import PartyData, count
from fhe_auc.errors import EvaluationError
from fhe_auc.trapezoid import trapezoid
from fhe_auc_benchmarks.pooled_rows import pooled
from fhe_auc_benchmarks.runtime.contender import Contender
from fhe_auc_benchmarks.runtime.problem import Problem
from fhe_auc_benchmarks.stopwatch import Stopwatch

PHASES = ("submit", "ingest", "circuit", "echo", "relay", "recover")
"""What is timed of every contender; "keys" comes from making it."""

OURS = "semi-honest"
PADDED = ("verified", "exact")
"""Protocols whose parties send padded sketches."""

FLOOR = "histogram-federated"
"""Plain secure aggregation: the sum of the parties' ciphertexts, and nothing else."""

PUBLISHED = "published design"
TUNED = "published design, tuned"
"""The same with a setting of OpenFHE that spares most of its parsing."""


@dataclass(frozen=True)
class Seconds:
    """Least and median over runs, of CPU and of wall-clock time."""

    cpu: float
    cpu_median: float
    wall: float
    wall_median: float
    runs: int

    @classmethod
    def of(cls, watches: Sequence[Stopwatch]) -> Seconds:
        """Summarise some runs."""
        cpu, wall = [watch.cpu for watch in watches], [watch.wall for watch in watches]
        return cls(min(cpu), statistics.median(cpu), min(wall), statistics.median(wall), len(watches))


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One contender on one problem.

    The phases are "keys" and `PHASES`; submit, echo and recover are of one party, ingest and relay of all; the bytes
    are those of one party.
    Beside the AUC that came out stand that from exact integers at these thresholds, and scikit-learn's on the pooled
    rows.
    """

    contender: str
    parties: int
    thresholds: int
    grid: str = "uniform"
    phases: dict[str, Seconds] = field(default_factory=dict)
    upload_bytes: int
    download_bytes: int
    auc: float
    exact_auc: float
    sklearn_auc: float

    @property
    def aggregation(self) -> float:
        """CPU seconds of the aggregator, all parties: the median of each of its phases."""
        return self.spent("ingest", "circuit", "relay")

    def spent(self, *phases: str) -> float:
        """Return CPU seconds of these phases together, the median of each."""
        return sum(self.phases[phase].cpu_median for phase in phases)


Maker = Callable[[Problem], Contender]


def measure(problem: Problem, makers: Iterable[Maker], runs: int) -> list[Measurement]:
    """Measure all contenders on a problem; raise `EvaluationError` where the AUC of one is not the exact one."""
    with contextlib.ExitStack() as stack:
        stack.callback(gc.collect)
        contenders = []
        for make in makers:
            contenders.append(make(problem))
            stack.callback(contenders[-1].close)
        watches = {each.name: {"keys": [each.keys], **{phase: [] for phase in PHASES}} for each in contenders}
        aucs: dict[str, float] = {}
        for run in range(runs + 1):  # the first one warms up
            for contender in contenders:
                if contender.once and run < runs:
                    continue
                timed, aucs[contender.name] = _once(contender)
                for phase in PHASES if run else ():
                    watches[contender.name][phase].append(timed[phase])
        return [
            Measurement(
                contender=contender.name,
                parties=problem.parties,
                thresholds=problem.thresholds,
                phases={phase: Seconds.of(found) for phase, found in watches[contender.name].items()},
                upload_bytes=contender.upload_bytes,
                download_bytes=contender.download_bytes,
                auc=aucs[contender.name],
                exact_auc=problem.auc,
                sklearn_auc=problem.sklearn_auc,
            )
            for contender in contenders
        ]


def _once(contender: Contender) -> tuple[dict[str, Stopwatch], float]:
    """Run all phases once; return their times and the AUC, which must be right."""
    timed: dict[str, Stopwatch] = {}
    contender.begin()
    gc.disable()
    try:
        for phase in PHASES:
            if phase == "relay":
                contender.others()
            with Stopwatch() as timed[phase]:
                auc = getattr(contender, phase)()  # of the last one, which is "recover"
    finally:
        gc.enable()
    if not abs(auc - contender.expected) <= contender.tolerance:
        raise EvaluationError(f"{contender.name}: AUC {auc}, but {contender.expected} is right; nothing is reported")
    return timed, auc


class Accuracy(NamedTuple):
    """By how much thresholds alone miss scikit-learn's AUC, on real rows."""

    grid: str
    thresholds: int
    error: float
    binning_error: float


def accuracies(grids: Sequence[str], sizes: Sequence[int], dataset: str) -> list[Accuracy]:
    """Return the distance of the exact trapezoid from scikit-learn's AUC on a bundled data set."""
    y_true, y_score = pooled(datasets.load(dataset))
    truth, everybody = float(roc_auc_score(y_true, y_score)), PartyData.from_arrays("all", y_true, y_score)
    found = []
    for grid in grids:
        for size in sizes:
            exact = trapezoid(count(everybody, thresholds.GRIDS[grid](size)))
            found.append(Accuracy(grid, size, abs(exact.auc - truth), exact.binning_error))
    return found
