"""The measurements of ``fhe-auc benchmark``: which contenders, how many parties and thresholds, how often."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import product

from fhe_auc import ckks
from fhe_auc_benchmarks.runtime.contender import OurProtocol
from fhe_auc_benchmarks.runtime.measure import Maker, Measurement, measure
from fhe_auc_benchmarks.runtime.peers.plaintext import Plaintext
from fhe_auc_benchmarks.runtime.problem import BenchmarkProblem

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


@dataclass(frozen=True)
class BenchmarkStep:
    """Contenders on one problem, and about how many seconds they take."""

    problem: BenchmarkProblem
    makers: Sequence[Maker]
    runs: int
    seconds: float


@dataclass
class Benchmark:
    """All measurements; `quick` ones stop at 100 parties, and leave out what takes seconds for one submission."""

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
        sizes = [size for size in PARTIES if size <= 100 or not self.quick]
        problems = [BenchmarkProblem(size, DEFAULT_THRESHOLDS) for size in sizes]
        problems += [BenchmarkProblem(THRESHOLD_PARTIES, size) for size in THRESHOLDS]
        found = []
        for problem in problems:
            runs = 1 if problem.parties >= _ONCE else _RUNS
            seconds = (runs + 1) * (3 + 0.03 * problem.parties)
            kinds = (keys for keys in KEYS if problem.parties <= _MOST.get(keys, problem.parties))
            ours = [partial(OurProtocol, protocol=PROTOCOL, keys=keys, interval=LEVEL) for keys in kinds]
            found.append(BenchmarkStep(problem, ours, runs, seconds))
        for problem in PEERS:
            slow = not self.quick and problem is PEERS[0]
            found.append(BenchmarkStep(problem, tuple(_peers(slow=slow)), _RUNS, 60 + 90 * slow))
        return found


def _peers(*, slow: bool) -> Iterable[Maker]:
    for protocol in _OURS:
        yield partial(OurProtocol, protocol=protocol)
    for protocol, backend in product(_ON_CKKS, ckks.available_backends()):
        yield partial(OurProtocol, protocol=protocol, backend=backend)
    yield Plaintext
    if find_spec("mpyc"):
        from fhe_auc_benchmarks.runtime.peers.secret_shares import SecretShares

        yield SecretShares
    if slow and find_spec("phe"):
        from fhe_auc_benchmarks.runtime.peers.paillier import Paillier

        yield Paillier
    if "openfhe" in ckks.available_backends():
        from fhe_auc_benchmarks.runtime.peers.published import Published, PublishedTuned

        yield from (Published, PublishedTuned)
