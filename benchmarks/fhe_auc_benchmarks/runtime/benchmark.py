"""The measurements of ``fhe-auc benchmark``: which contenders, how many parties and thresholds, how often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

from fhe_auc import ckks
from fhe_auc_benchmarks.runtime.contender import Contender, OurProtocol
from fhe_auc_benchmarks.runtime.measure import (
    FLOOR,
    OURS,
    PADDED,
    Accuracy,
    Maker,
    Measurement,
    accuracies,
    measure,
)
from fhe_auc_benchmarks.runtime.peers.plaintext import PlaintextCounts, PooledRows
from fhe_auc_benchmarks.runtime.problem import Problem

HEADLINE = (100, 100)
"""Parties and thresholds of the table of ratios."""

PARTIES = (5, 15, 50, 100, 1000)
MANY_THRESHOLDS = 1000
THRESHOLDS = (25, 50, 100, 200, 500, 1000, 4000)
PAPER_PARTIES = 15
"""Parties of [FHE]'s figure over thresholds."""

ACCURACY_DATA = "credit-default"
_ACCURACY_GRIDS = ("uniform", "hybrid")
_MOST_UNPACKED = 100  # parties of the peers that take seconds there: the quick benchmark stops here
_MALICIOUS_THRESHOLDS = 100  # up to which one ciphertext of the smaller ring holds the split shares
_MOST_MALICIOUS_THRESHOLDS = 1000  # beyond that no parameters do

Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Step:
    """One group of measurements, about how many seconds it takes, and what is measured unless it is something else."""

    what: str
    seconds: float
    run: Callable[[], None]
    problem: Problem | None = None


@dataclass
class Benchmark:
    """All measurements; `quick` ones, with fewer runs and parties for the slowest peers, take four minutes of CPU."""

    quick: bool = False
    measurements: list[Measurement] = field(default_factory=list)
    accuracies: list[Accuracy] = field(default_factory=list)

    @property
    def runs(self) -> int:
        """Runs of each measurement, after one that warms up."""
        return 3 if self.quick else 9

    @property
    def headline(self) -> list[Measurement]:
        """Measurements with as many parties and thresholds as `HEADLINE` has."""
        return [each for each in self.measurements if (each.parties, each.thresholds) == HEADLINE]

    def run(self, report: Report, steps: Sequence[Step] | None = None) -> None:
        """Do all steps, or those given; `report` is called with what, and how many percent are done."""
        steps = steps or self.steps()
        total, done = sum(step.seconds for step in steps), 0.0
        for step in steps:
            report(step.what, round(100 * done / total), 100)
            step.run()
            done += step.seconds
        report("done", 100, 100)

    def steps(self) -> list[Step]:
        """Return what there is to do, in order."""
        parties, thresholds = HEADLINE
        found = [self._step(Problem(parties, thresholds), _everybody(), 62 + 6 * self.runs)]
        for count in PARTIES:
            if count not in (parties, PAPER_PARTIES):
                slow = count <= (_MOST_UNPACKED if self.quick else max(PARTIES))
                makers = [*_ours(OURS, FLOOR), *_padded(signed=slow and count == max(PARTIES))]
                makers += _published() if slow else []
                seconds = 5 + 0.03 * count + count * (0.002 + 0.002 * self.runs + (0.02 * self.runs if slow else 0))
                found.append(self._step(Problem(count, thresholds), makers, seconds))
        for size in THRESHOLDS:
            makers = [*_ours(OURS, FLOOR), *_padded(), *_published()]
            if size <= (_MALICIOUS_THRESHOLDS if self.quick else _MOST_MALICIOUS_THRESHOLDS):
                makers += _on_backends(OurProtocol, protocol="malicious")
            found.append(self._step(Problem(PAPER_PARTIES, size), makers, 6 + self.runs))
        makers = [*_ours(OURS), *_padded(signed=True), *_published()]
        found.append(self._step(Problem(parties, MANY_THRESHOLDS), makers, 12 + 3 * self.runs))
        found.append(Step("thresholds on real rows", 1, self._measure_accuracy))
        return found

    def _step(self, problem: Problem, makers: Iterable[Maker], seconds: float) -> Step:
        def run() -> None:
            self.measurements += measure(problem, makers, self.runs)

        return Step(f"{problem.parties:,} parties, {problem.thresholds:,} thresholds", seconds, run, problem)

    def _measure_accuracy(self) -> None:
        self.accuracies += accuracies(_ACCURACY_GRIDS, THRESHOLDS, ACCURACY_DATA)


def _on_backends(kind: Callable[..., Contender], **options: Any) -> list[Maker]:
    return [partial(kind, backend=backend, **options) for backend in ckks.available_backends()]


def _ours(*protocols: str) -> list[Maker]:
    """Return protocols whose submissions have no masks, so that those of a few parties can be sent again."""
    each = (_on_backends(OurProtocol, protocol=name, resend=True, min_parties=2) for name in protocols)
    return [maker for makers in each for maker in makers]


def _padded(*, signed: bool = False) -> list[Maker]:
    """Return the protocols with padded sketches; on request with signatures as well."""
    ways = (False, True) if signed else (False,)
    each = (_on_backends(OurProtocol, protocol=name, signed=way) for name in PADDED for way in ways)
    return [maker for makers in each for maker in makers]


def _everybody() -> list[Maker]:
    makers = [
        *_ours(OURS, FLOOR),
        *_on_backends(OurProtocol, protocol="malicious"),
        *_padded(signed=True),
        *_published(tuned=True),
        PlaintextCounts,
        PooledRows,
    ]
    if find_spec("phe"):
        from fhe_auc_benchmarks.runtime.peers.paillier import Paillier

        makers.append(Paillier)
    return makers


def _published(*, tuned: bool = False) -> list[Maker]:
    """Return the published design, where OpenFHE can be imported; on request tuned as well."""
    if "openfhe" not in ckks.available_backends():
        return []
    from fhe_auc_benchmarks.runtime.peers.published import Published, PublishedTuned

    return [Published, PublishedTuned] if tuned else [Published]
