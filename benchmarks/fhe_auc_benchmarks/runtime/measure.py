"""Measure contenders side by side: all of one problem in turn, run after run, so that noise hits them alike."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable
from statistics import median

import msgspec

from fhe_auc.base.errors import EvaluationError
from fhe_auc_benchmarks.runtime.contender import ROLES, Contender, Played
from fhe_auc_benchmarks.runtime.problem import BenchmarkProblem

PUBLISHED = "published design"
TUNED = "published design, tuned"  # the same with a setting of OpenFHE that spares most of its parsing


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One contender on one problem: medians of some runs, as `fhe_auc_benchmarks.runtime.contender.Played` has them."""

    contender: str
    parties: int
    thresholds: int
    runs: int
    cpu: dict[str, float]
    wall: dict[str, float]
    before_bytes: int = 0
    upload_bytes: int
    download_bytes: int
    auc: float
    exact_auc: float


Maker = Callable[[BenchmarkProblem], Contender]


def measure(problem: BenchmarkProblem, makers: Iterable[Maker], runs: int) -> list[Measurement]:
    """Measure all contenders; several runs have a warm-up before. `EvaluationError`: an AUC is not the exact one."""
    with contextlib.ExitStack() as stack:
        stack.callback(gc.collect)
        _ = problem.auc  # so that all rows are made up before a clock runs
        contenders = []
        for make in makers:
            contenders.append(make(problem))
            stack.callback(contenders[-1].close)
        played: dict[str, list[Played]] = {each.name: [] for each in contenders}
        for _ in range(runs + 1 if runs > 1 else 1):
            for contender in contenders:
                gc.collect()
                found = checked(contender.name, contender.play(), contender.right, contender.tolerance)
                played[contender.name].append(found)
        return [summary(problem, name, each[-runs:]) for name, each in played.items()]


def checked(name: str, played: Played, right: float, tolerance: float) -> Played:
    """Return what was played; raise `EvaluationError` where the AUC is not the right one."""
    if not abs(played.auc - right) <= tolerance:
        raise EvaluationError(f"{name}: AUC {played.auc}, but {right} is right; nothing is reported")
    return played


def summary(problem: BenchmarkProblem, name: str, played: list[Played]) -> Measurement:
    """Return what several runs come to."""
    return Measurement(
        contender=name,
        parties=problem.parties,
        thresholds=problem.thresholds,
        runs=len(played),
        cpu={role: median(each.cpu[role] for each in played) for role in ROLES},
        wall={role: median(each.wall[role] for each in played) for role in ROLES},
        before_bytes=max(each.before_bytes for each in played),
        upload_bytes=max(each.upload_bytes for each in played),
        download_bytes=max(each.download_bytes for each in played),
        auc=played[-1].auc,
        exact_auc=problem.auc,
    )
