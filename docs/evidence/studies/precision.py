"""How far the decrypted AUC lies from exact integers, flooding on; and the threshold grids from scikit-learn.

    python docs/evidence/studies/precision.py                one line per cell, as it is measured: the cell, worst
                                                                  errors of AUC and binning error, refused, bound
    python docs/evidence/studies/precision.py --markdown     the tables of docs/evidence/precision.md, at the end

What is run is the engine's own circuit (`fhe_auc_protocols.blinded_auc.encrypted_trapezoid.blinded_totals`), serialised
on both sides, and the party's own `recover`; what is left out is the envelopes. A cell is one workload (backend,
thresholds, parties), one number of pooled rows, one class balance and one kind of multiplier, and its figure the worst
error of `--trials` sessions:

- One context per workload, new data, new encryptions and new flooding in every session.
- One party holds all rows, which makes the counts that it encodes as large as they can be. All others submit
  encryptions of zero counts, as parties without rows would: what they add to the error is their encryption noise. Up
  to 100 parties every trial has zero submissions of its own. With 1,000 there are two thousand fresh ones in blocks of
  a hundred, of which each trial adds up ten blocks drawn at random. Cells of one trial that differ in rows, balance or
  multiplier share their zero submissions.
- Class balances "one positive" and "one negative" are the worst cases: an error in X is multiplied by Y, one in Y by
  X ≤ 2P, and both are divided by den = 2PN; with one row of the other class the many cancel.
- A session that ends in `ResultCheckError` or `UndefinedAucError` gives no number; cells say how many of their sessions
  did.
- "smallest": the multiplier is fixed at the least the plan allows, where flooding weighs most. "random": drawn as in
  a real session.
- Scores of positives are skewed to the upper thresholds, of negatives to the lower (beta distributions).
"""

from __future__ import annotations

import argparse
import math
import secrets
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.stats import beta
from sklearn.metrics import roc_auc_score

from fhe_auc import ckks, federated_auc
from fhe_auc.base.errors import ResultCheckError, UndefinedAucError
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.polynomials import Sum, Words
from fhe_auc.rows import datasets
from fhe_auc.rows.counts import Counts, PartyData, count
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS
from fhe_auc_benchmarks.tables import markdown as table
from fhe_auc_protocols.blinded_auc.blinding import Randomness
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_totals
from fhe_auc_protocols.blinded_auc.error_bound import error_bound
from fhe_auc_protocols.blinded_auc.plan import MULTIPLIER_RANGE_BITS, AucPlan
from fhe_auc_protocols.blinded_auc.planner import plan
from fhe_auc_protocols.blinded_auc.semi_honest import class_vectors, recover
from fhe_auc_protocols.blinded_auc.workload import Workload

THRESHOLDS = (100, 1000)
PARTIES = (2, 15, 100, 1000)
ROWS = (100, 1000, 10**4, 10**6)
BALANCES = {
    "50 %": lambda rows: rows // 2,
    "1 %": lambda rows: rows // 100,
    "one positive": lambda rows: 1,
    "one negative": lambda rows: rows - 1,
}
GRIDS = ("uniform:100", "hybrid:1000")
_BLOCK = 100
_BLOCKS = 20

Sums: TypeAlias = list[Words]
"""A sum of some submissions, for every block of the packing."""


class Cell(NamedTuple):
    backend: str
    thresholds: int
    parties: int
    rows: int
    balance: str
    multiplier: str


class Measured(NamedTuple):
    error: float  # worst |AUC - exact|
    resolution_error: float
    refused: int  # sessions that gave no number


class SmallestMultiplier:
    """Randomness from which the multiplier comes out as the least that the plan allows."""

    def randbits(self, k: int, /) -> int:
        return 2**k - 1


def random_counts(rng: np.random.Generator, size: int, positives: int, negatives: int) -> Counts:
    edges = np.linspace(0, 1, size + 1)
    return from_bins(
        *(
            rng.multinomial(rows, np.diff(beta.cdf(edges, *shape)))
            for rows, shape in ((positives, (4, 2)), (negatives, (2, 4)))
        )
    )


def from_bins(bin_positives: np.ndarray, bin_negatives: np.ndarray) -> Counts:
    return Counts(*(side[::-1].cumsum()[::-1].astype(np.int64) for side in (bin_positives, bin_negatives)))


MULTIPLIERS: dict[str, Randomness] = {"random": secrets, "smallest": SmallestMultiplier()}


class Engine:
    """One workload's context, and the zero submissions of parties without rows."""

    def __init__(self, backend: str, size: int, parties: int, max_rows: int, rng: np.random.Generator) -> None:
        workload = Workload(thresholds=size, parties=parties, max_rows=max_rows)
        self.plan: AucPlan = plan(workload, ckks.choose_backend(backend))
        self.public, self.secret = ckks.generate(self.plan.parameters)
        self._zero = np.zeros(self.plan.packing.slots, complex)
        self._rng = rng
        self._others = parties - 1
        self._blocks = [self._zeros(_BLOCK) for _ in range(_BLOCKS)] if parties > _BLOCK else []

    def submit(self, counts: Counts) -> list[bytes]:
        return [self.secret.encrypt(block) for block in self.plan.packing.pack(*class_vectors(counts))]

    def _zeros(self, number: int) -> Sums:
        total = running_sum(self.public, self.plan.blocks)
        for _ in range(number):
            total.add([self.secret.encrypt(self._zero) for _ in range(self.plan.blocks)])
        return total.totals

    def others(self) -> list[Sums]:
        """Return sums of every submission but the one that holds rows."""
        if not self._blocks:
            return [self._zeros(self._others)]
        drawn = self._rng.choice(_BLOCKS, math.ceil(self._others / _BLOCK), replace=False)
        return [self._blocks[number] for number in drawn]

    def session(self, others: list[Sums], submission: list[bytes], randomness: Randomness) -> tuple[float, float]:
        total = running_sum(self.public, self.plan.blocks)
        total.add(submission)
        whole = [Sum(self.public.ciphertext_shape) for _ in range(self.plan.blocks)]
        for part in (total.totals, *others):
            for block, words in zip(whole, part, strict=True):
                block.add(words)
        sums = [self.public.ciphertext(block.words) for block in whole]
        result = self.public.dump_result(blinded_totals(self.plan, self.public, sums, randomness=randomness))
        return recover(self.secret.decrypt(result), self.plan)


def measure(
    backend: str, size: int, parties: int, max_rows: int, rows: Sequence[int], trials: int, seed: int
) -> tuple[AucPlan, dict[Cell, Measured]]:
    """Run all cells of one workload."""
    rng = np.random.default_rng([seed, size, parties])
    engine = Engine(backend, size, parties, max_rows, rng)
    found: dict[Cell, Measured] = defaultdict(lambda: Measured(0.0, 0.0, 0))
    for _ in range(trials):
        others = engine.others()
        for pooled in rows:
            for balance, positives in BALANCES.items():
                counts = random_counts(rng, size, positives(pooled), pooled - positives(pooled))
                exact = trapezoid(counts)
                submission = engine.submit(counts)
                for multiplier, randomness in MULTIPLIERS.items():
                    cell = Cell(backend, size, parties, pooled, balance, multiplier)
                    worst = found[cell]
                    try:
                        auc, binning_error = engine.session(others, submission, randomness)
                    except (ResultCheckError, UndefinedAucError):
                        found[cell] = worst._replace(refused=worst.refused + 1)
                        continue
                    found[cell] = Measured(
                        max(worst.error, abs(auc - exact.auc)),
                        max(worst.resolution_error, abs(binning_error - exact.binning_error)),
                        worst.refused,
                    )
    return engine.plan, dict(found)


def pooled(parties: Sequence[PartyData]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([data.y_true for data in parties]), np.concatenate([data.y_score for data in parties])


def exact_auc(parties: Sequence[PartyData], grid: np.ndarray) -> float:
    return trapezoid(count(PartyData.from_arrays("all", *pooled(parties)), grid)).auc


class GridRow(NamedTuple):
    data: str
    grid: str
    sklearn: float
    exact: float  # the trapezoid of integers
    found: dict[str, Evaluation]  # by backend

    def cells(self) -> list[str]:
        first, *_ = self.found.values()
        inside = all(abs(each.auc - self.sklearn) <= each.binning_error + 1e-6 for each in self.found.values())
        return [
            *(self.data, self.grid, f"{first.auc:.9f}", f"{self.sklearn:.9f}", f"{first.auc - self.sklearn:+.1e}"),
            *(f"{first.binning_error:.1e}", "yes" if inside else "NO"),
            *(f"{abs(each.auc - self.exact):.1e}" for each in self.found.values()),
        ]


def measure_grids() -> Iterator[GridRow]:
    """Run a real session on each bundled set, site by site as bundled."""
    for name in datasets.NAMES:
        parties = datasets.load(name)
        truth = float(roc_auc_score(*pooled(parties)))
        for spec in GRIDS:
            found = {
                backend: federated_auc(parties, protocol="semi-honest", thresholds=spec, backend=backend)
                for backend in ckks.available_backends()
            }
            yield GridRow(name, spec, truth, exact_auc(parties, thresholds.parse(spec)), found)


SPLITS = ("IID", "sorted by score", "one-row parties")


def split(y_true: np.ndarray, y_score: np.ndarray, number: int, way: str) -> list[PartyData]:
    """Deal rows out to `number` parties: at random, in order of scores, or one row to each and the rest to the last."""
    rng = np.random.default_rng(number)
    order = np.argsort(y_score, kind="stable") if way == "sorted by score" else rng.permutation(len(y_true))
    pieces = np.split(order, np.arange(1, number)) if way == "one-row parties" else np.array_split(order, number)
    return [PartyData.from_arrays(f"site {i}", y_true[rows], y_score[rows]) for i, rows in enumerate(pieces)]


def measure_splits() -> Iterator[list[object]]:
    """Yield a row for each bundled set and number of parties: by split, errors at uniform:100, one-class parties."""
    grid = thresholds.uniform(100)
    for name in datasets.NAMES:
        rows = pooled(datasets.load(name))
        for number in (2, 15, 100):
            cells = []
            for way in SPLITS:
                parties = split(*rows, number, way)
                exact = exact_auc(parties, grid)
                errors = (
                    abs(federated_auc(parties, protocol="semi-honest", thresholds=grid, backend=backend).auc - exact)
                    for backend in ckks.available_backends()
                )
                one_class = sum(data.y_true.all() or not data.y_true.any() for data in parties)
                cells.append(f"{' / '.join(f'{error:.1e}' for error in errors)} ({one_class})")
            yield [name, number, *cells]


def matching(found: dict[Cell, Measured], **fixed: object) -> list[Measured]:
    """Return the cells whose fields are, or are among, the values given."""

    def fits(cell: Cell) -> bool:
        wanted = ((getattr(cell, name), value) for name, value in fixed.items())
        return all(has in value if isinstance(value, tuple) else has == value for has, value in wanted)

    return [measured for cell, measured in found.items() if fits(cell)]


def show(cells: Sequence[Measured], trials: int) -> str:
    """Write the worst error of some cells, and how many of their sessions gave no number."""
    refused = sum(cell.refused for cell in cells)
    if refused == trials * len(cells):
        return "all refused"
    error = f"{max(cell.error for cell in cells):.1e}"
    return f"{error} ({refused} of {trials * len(cells)} refused)" if refused else error


def print_tables(
    plans: dict[tuple[str, int, int], AucPlan], found: dict[Cell, Measured], rows: Sequence[int], trials: int
) -> None:
    print("Worst |AUC error| by workload, over all numbers of rows and class balances:\n")
    body: list[list[object]] = []
    for workload, chosen in plans.items():
        of = dict(zip(Cell._fields, workload, strict=False))
        cells = [show(matching(found, **of, multiplier=multiplier), trials) for multiplier in MULTIPLIERS]
        bound, measured = error_bound(chosen), max(cell.error for cell in matching(found, **of))
        body.append([*workload, *cells, f"{bound:.1e}", f"{measured / bound:.2f}"])
    multipliers = (f"{multiplier} multiplier" for multiplier in MULTIPLIERS)
    print(table(["backend", "thresholds", "parties", *multipliers, "bound", "worst / bound"], body))
    print("Worst |AUC error| by rows and class balance, over all workloads and both multipliers:\n")
    body = [
        [backend, f"{n:,}", *(show(matching(found, backend=backend, rows=n, balance=b), trials) for b in BALANCES)]
        for backend in dict.fromkeys(cell.backend for cell in found)
        for n in rows
    ]
    print(table(["backend", "pooled rows", *BALANCES], body))
    print("What the planner chose, once where it is the same for all numbers of parties:\n")
    parameters = (
        (
            *workload[:2],
            chosen.parameters.log2_scale,
            chosen.blinding_bits,
            f"2^{chosen.blinding_bits - MULTIPLIER_RANGE_BITS}",
            f"2^{np.log2(chosen.flooding_deviation):.0f}",
        )
        for workload, chosen in plans.items()
    )
    print(table(["backend", "thresholds", "log2 Δ'", "ρ", "smallest r", "flooding σ"], list(dict.fromkeys(parameters))))
    binning_error = {b: max(m.resolution_error for m in matching(found, balance=b)) for b in BALANCES}
    errors = ", ".join(f"{balance}: {error:.1e}" for balance, error in binning_error.items())
    print(f"Worst error of the binning error: {errors}.\n")


def print_grid_tables() -> None:
    backends = ckks.available_backends()
    print("Bundled sets, real sessions with the sites as parties; the error against exact integers by backend:\n")
    columns = ["data", "grid", "AUC", "scikit-learn", "difference", "binning_error", "inside", *backends]
    print(table(columns, [row.cells() for row in measure_grids()]))
    print("Bundled sets at uniform:100, |AUC error| against exact integers however the rows are dealt out:")
    print(f"{' / '.join(backends)} (one-class parties)\n")
    print(table(["data", "parties", *SPLITS], list(measure_splits())))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure the numerical error of the encrypted AUC.")
    parser.add_argument("--trials", type=int, default=20, help="sessions per cell (default 20)")
    parser.add_argument("--markdown", action="store_true", help="print tables, and a line per cell to stderr")
    parser.add_argument("--seed", type=int, default=0, help="of the data; keys and noise are always fresh")
    parser.add_argument("--thresholds", type=int, nargs="+", default=THRESHOLDS)
    parser.add_argument("--parties", type=int, nargs="+", default=PARTIES)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--max-rows", type=int, default=DEFAULT_MAX_ROWS, help="bound that the plan is made for")
    parser.add_argument("--no-grids", action="store_true", help="leave out the bundled data sets")
    arguments = parser.parse_args(argv)

    started = time.perf_counter()
    plans: dict[tuple[str, int, int], AucPlan] = {}
    found: dict[Cell, Measured] = {}
    for backend in ckks.available_backends():
        for size in arguments.thresholds:
            for parties in arguments.parties:
                chosen, cells = measure(
                    backend,
                    size,
                    parties,
                    arguments.max_rows,
                    arguments.rows,
                    arguments.trials,
                    arguments.seed,
                )
                plans[backend, size, parties] = chosen
                found |= cells
                for cell, measured in cells.items():
                    errors = (f"{error:.2e}" for error in measured[:2])
                    line = (*cell, *errors, measured.refused, f"{error_bound(chosen):.1e}")
                    print(*line, sep="\t", file=sys.stderr if arguments.markdown else sys.stdout, flush=True)
    if arguments.markdown:
        print_tables(plans, found, arguments.rows, arguments.trials)
    if not arguments.no_grids:
        print_grid_tables()
    sessions = arguments.trials * len(found)
    print(f"{sessions:,} sessions in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
