"""How far the decrypted AUC lies from exact integers, flooding on: the tables of docs/evidence/precision.md.

    OMP_NUM_THREADS=1 python docs/evidence/studies/precision.py [--trials 6]

What is run is the engine's own circuit (`fhe_auc_protocols.blinded_auc.encrypted_trapezoid.blinded_sums`), serialised
on both sides, and the party's own `recover` or `accept`, without envelopes and masks. A cell is one workload (protocol,
backend, thresholds, parties), one number of pooled rows, one class balance and one kind of multiplier; its figure the
worst error of `--trials` runs, each with new data, secrets, encryptions and flooding under the workload's one context.
Cells say how many gave no number. Of `malicious`, the last table has by how much its equations disagree.

- One party holds all rows, which makes the counts that it encodes as large as they can be. All others submit
  encryptions of zero counts: what they add to the error is their encryption noise. Up to 100 parties every trial has
  zero submissions of its own. With 1,000 there are two thousand fresh ones in blocks of a hundred, of which each trial
  adds up ten blocks drawn at random. Cells of one trial share their zero submissions.
- Class balances "one positive" and "one negative" are the worst cases: an error in X is multiplied by Y, one in Y by
  X ≤ 2P, and both are divided by den = 2PN; with one row of the other class the many cancel.
- The "smallest" multiplier is the least the plan allows, where flooding weighs most; "random" as in a real session.
- Scores of positives are skewed to the upper thresholds, of negatives to the lower (beta distributions).
"""

from __future__ import annotations

import argparse
import math
import secrets
import time
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.stats import beta

from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.rlwe.polynomials import PolynomialSum, Words
from fhe_auc.rows.counts import Counts
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.blinded_auc.blinding import RandomBits
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_sums, packed
from fhe_auc_protocols.blinded_auc.masked_shares import Run, runs
from fhe_auc_protocols.blinded_auc.plan import AucPlan, Workload, error_bound
from fhe_auc_protocols.blinded_auc.result_check import accept, recover, solve
from fhe_auc_protocols.blinded_auc.semi_honest import vectors

BALANCES = {
    "50 %": lambda rows: rows // 2,
    "1 %": lambda rows: rows // 100,
    "one positive": lambda rows: 1,
    "one negative": lambda rows: rows - 1,
}
_BLOCK = 100
_BLOCKS = 20
PROTOCOLS = "semi-honest", "malicious"
Sums: TypeAlias = list[Words]  # a sum of some submissions, ciphertext by ciphertext


class PrecisionSession(NamedTuple):
    """One session; errors are NaN where it gave no number."""

    protocol: str
    backend: str
    thresholds: int
    parties: int
    rows: int
    balance: str
    multiplier: str
    error: float  # |AUC - exact|
    binning_error: float  # how far off that is
    disagreement: float  # of `malicious`: the larger of what both checks see, over the tolerance


def random_counts(rng: np.random.Generator, size: int, positives: int, negatives: int) -> Counts:
    edges, drawn = np.linspace(0, 1, size + 1), ((positives, (4, 2)), (negatives, (2, 4)))
    bins = (rng.multinomial(rows, np.diff(beta.cdf(edges, *shape))) for rows, shape in drawn)
    return Counts(*(side[::-1].cumsum()[::-1].astype(np.int64) for side in bins))


# All ones make the multiplier the least that the plan allows.
MULTIPLIERS: dict[str, RandomBits] = {"random": secrets.randbits, "smallest": lambda bits: 2**bits - 1}


class PrecisionSessions:
    """One workload's context, and the zero submissions of parties without rows."""

    def __init__(
        self, protocol: str, backend: str, size: int, parties: int, max_rows: int, rng: np.random.Generator
    ) -> None:
        workload = Workload(thresholds=size, parties=parties, max_rows=max_rows, split=protocol == "malicious")
        self.plan: AucPlan = plan(workload, ckks.choose_backend(backend))
        self.public, self.secret = ckks.generate(self.plan.parameters)
        self._zero = np.zeros((self.plan.parameters.components, self.plan.parameters.slots), complex)
        self._rng = rng
        self._others = parties - 1
        self._blocks = [self._zeros(_BLOCK) for _ in range(_BLOCKS)] if parties > _BLOCK else []

    def secrets(self) -> list[Run]:
        """Return fresh secrets of both runs, or none for whole counts."""
        return runs(secrets.token_bytes(32), b"", self.plan) if self.plan.split else []

    def submit(self, counts: Counts, drawn: list[Run]) -> list[bytes]:
        values = [run.vectors(counts) for run in drawn] or [vectors(counts, self.plan.positions)]
        return [self.secret.encrypt(block) for block in packed(self.plan, values)]

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

    def session(
        self, others: list[Sums], submission: list[bytes], draw: RandomBits, drawn: list[Run]
    ) -> tuple[float, float, float]:
        total = running_sum(self.public, self.plan.blocks)
        total.add(submission)
        whole = [PolynomialSum(self.public.ciphertext_shape) for _ in range(self.plan.blocks)]
        for part in (total.totals, *others):
            for block, words in zip(whole, part, strict=True):
                block.add(words)
        result = blinded_sums(self.plan, self.public, [block.words for block in whole], draw=draw)
        totals = self.secret.decrypt_sums(result, self.plan.squares)
        if not drawn:
            return *recover(totals, self.plan), 0.0
        solution = solve(totals, drawn)
        return *accept(totals, self.plan, drawn), max(solution.disagreement, solution.left) / self.plan.tolerance


def measure(
    protocol: str, backend: str, size: int, parties: int, max_rows: int, rows: Sequence[int], trials: int
) -> tuple[AucPlan, list[PrecisionSession]]:
    rng, found = np.random.default_rng([0, size, parties]), []
    engine = PrecisionSessions(protocol, backend, size, parties, max_rows, rng)
    for _ in range(trials):
        others = engine.others()
        for pooled, (balance, positives) in product(rows, BALANCES.items()):
            counts = random_counts(rng, size, positives(pooled), pooled - positives(pooled))
            drawn = engine.secrets()
            exact, submission = trapezoid(counts), engine.submit(counts, drawn)
            for multiplier, randomness in MULTIPLIERS.items():
                try:
                    auc, binning_error, apart = engine.session(others, submission, randomness, drawn)
                except EvaluationError:
                    auc = binning_error = apart = math.nan
                errors = abs(auc - exact.auc), abs(binning_error - exact.binning_error), apart
                workload = protocol, backend, size, parties
                found.append(PrecisionSession(*workload, pooled, balance, multiplier, *errors))
    return engine.plan, found


def worst(found: Sequence[PrecisionSession], **fixed: object) -> str:
    """Write the worst error of sessions with these fields, and how many of them gave no number."""
    errors = np.array([each.error for each in found if fixed.items() <= each._asdict().items()])
    refused = int(np.isnan(errors).sum())
    if refused == len(errors):
        return "all refused"
    return f"{np.nanmax(errors):.1e}" + (f" ({refused} of {len(errors)} refused)" if refused else "")


def print_tables(
    plans: dict[tuple[str, str, int, int], AucPlan], found: list[PrecisionSession], rows: Sequence[int]
) -> None:
    print("Worst |AUC error| by workload, over all numbers of rows and class balances:\n")
    body: list[list[object]] = []
    for workload, chosen in plans.items():
        of, bound = [each for each in found if each[:4] == workload], error_bound(chosen)
        cells = [worst(of, multiplier=multiplier) for multiplier in MULTIPLIERS]
        body.append([*workload, *cells, f"{bound:.1e}", f"{np.nanmax([each.error for each in of]) / bound:.2f}"])
    multipliers = (f"{multiplier} multiplier" for multiplier in MULTIPLIERS)
    show(["protocol", "backend", "thresholds", "parties", *multipliers, "bound", "worst / bound"], body)
    print("Worst |AUC error| by rows and class balance, over all workloads and both multipliers:\n")
    body = []
    for protocol, of, n in product(PROTOCOLS, dict.fromkeys(each.backend for each in found), rows):
        cells = (worst(found, protocol=protocol, backend=of, rows=n, balance=each) for each in BALANCES)
        body.append([protocol, of, f"{n:,}", *cells])
    show(["protocol", "backend", "pooled rows", *BALANCES], body)
    print(f"Worst error of the binning error: {np.nanmax([each.binning_error for each in found]):.1e}.")
    apart = np.nanmax([each.disagreement for each in found])
    print(f"Largest disagreement of honest equations, over the tolerance: {apart:.1e}.\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the numerical error of the encrypted AUC.")
    parser.add_argument("--trials", type=int, default=6, help="sessions per cell (default 6)")
    parser.add_argument("--thresholds", type=int, nargs="+", default=(100, 1000))
    parser.add_argument("--parties", type=int, nargs="+", default=(2, 15, 100, 1000))
    parser.add_argument("--rows", type=int, nargs="+", default=(100, 1000, 10**4, 10**6))
    parser.add_argument("--max-rows", type=int, default=DEFAULT_MAX_ROWS, help="bound that the plan is made for")
    arguments = parser.parse_args()

    started = time.perf_counter()
    plans: dict[tuple[str, str, int, int], AucPlan] = {}
    found: list[PrecisionSession] = []
    for workload in product(PROTOCOLS, ckks.available_backends(), arguments.thresholds, arguments.parties):
        plans[workload], cells = measure(*workload, arguments.max_rows, arguments.rows, arguments.trials)
        found += cells
    print_tables(plans, found, arguments.rows)
    print(f"{len(found):,} sessions in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
