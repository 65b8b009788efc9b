"""How many values of den = 2PN remain possible for a party that decrypts the result of a semi-honest session.

    OMP_NUM_THREADS=1 python docs/evidence/studies/blinding.py [--sessions 11] [--rows 30 1000]

The attacker is one party, honest but curious. Every session is a real one: submissions encrypted, summed, blinded,
flooded and decrypted by the engine's own code on both backends, plan as the planner makes it, P and N fixed and scores
drawn afresh. Class means of the slots give the attacker

    Z0 ≈ r·(num + i·tie)        Z1 ≈ r·den·(1 + iκ)        (per copy)

and it knows the plan (public): the range of r, that r, num, tie and den/2 are integers, that num - tie is even (every
term T_k F_k - p_k F_k is 2·TP_{k+1}·F_k), and how large noise can be.

Assumptions:

- It knows the pooled rows to a factor of four: candidates are the distinct den of pairs P, N ≥ 1 with
  P + N ≤ 4·(true rows).
- It is handed the exact standard deviations of the noise in num, tie and den (flooding as the slots' spread shows it,
  encryption and rotation noise from the true counts), and its tests allow five of them.
- It sees no other session on the same rows, and uses nothing that it knows of its own rows.

A candidate d survives when there are an integer r = Z1/d in the public range and integers num, tie of equal parity
near Z0/Z1·d, each within its tolerance. That the tests are not too strict shows in how often the true den passes them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.metrics.trapezoid import Trapezoid, trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_totals
from fhe_auc_protocols.blinded_auc.error_bound import ERROR_DEVIATION
from fhe_auc_protocols.blinded_auc.plan import CHECK_WEIGHT, MULTIPLIER_RANGE_BITS, AucPlan, switching_noise_bits
from fhe_auc_protocols.blinded_auc.planner import plan
from fhe_auc_protocols.blinded_auc.semi_honest import class_vectors
from fhe_auc_protocols.blinded_auc.workload import Workload

GRID = thresholds.uniform(100)
PARTIES = 10
ROWS = (30, 100, 300, 1000, 10_000)
POSITIVES = (0.5, 0.1)
MAX_ROWS = (10**6, 10**4)
PRIOR = 4  # the attacker knows the pooled rows to this factor
SIGMAS = 5.0


class Observation(NamedTuple):
    """What one party reads off a session, per copy, and the standard deviations it is given."""

    plan: AucPlan
    z0: complex  # r·(num + i·tie)
    z1: float  # r·den
    sd0: float  # of the real, and of the imaginary part of z0
    sd1: float


CHUNK = 1 << 20


@lru_cache(maxsize=2)
def possible_products(most_rows: int) -> NDArray[np.uint32]:
    """Return the distinct P·N with P, N ≥ 1 and P + N ≤ most_rows, ascending."""
    largest = (most_rows // 2) * (most_rows - most_rows // 2)
    found = np.zeros(largest + 1, np.bool_)
    for p in range(1, most_rows // 2 + 1):
        found[p * p : p * (most_rows - p) + 1 : p] = True
    return np.flatnonzero(found).astype(np.uint32)


def all_dens(seen: Observation, rows: int) -> Iterator[NDArray[np.int64]]:
    """Yield every candidate den for which the multiplier is in its range, a chunk at a time."""
    products = possible_products(PRIOR * rows)
    least = 0.5 * seen.z1 * 2.0**-seen.plan.blinding_bits
    ends = np.array([0.99 * least, 1.01 * least * 2.0**MULTIPLIER_RANGE_BITS]).clip(0, float(products[-1]) + 1)
    first, last = np.searchsorted(products, ends.astype(np.uint32))
    for start in range(int(first), int(last), CHUNK):
        yield 2 * products[start : min(start + CHUNK, int(last))].astype(np.int64)


class BlindingSessions:
    """One plan and its keys; sessions differ in rows, encryptions, multiplier and flooding."""

    def __init__(self, backend: str, max_rows: int) -> None:
        workload = Workload(thresholds=len(GRID), parties=PARTIES, max_rows=max_rows, min_rows=min(100, max_rows))
        self.plan = plan(workload, ckks.choose_backend(backend))
        self.public, self.secret = ckks.generate(self.plan.parameters)

    def session(self, rng: np.random.Generator, positives: int, negatives: int) -> tuple[Observation, Trapezoid]:
        y_true = rng.permutation(np.repeat([True, False], [positives, negatives]))
        y_score = np.clip(rng.normal(0.4 + 0.2 * y_true, 0.15), 0, 1)
        packing, slots = self.plan.packing, self.plan.packing.slots
        submitted = running_sum(self.public, self.plan.blocks)
        total = None
        for rows in np.array_split(np.arange(len(y_true)), PARTIES):
            counts = count(PartyData.from_arrays("a party", y_true[rows], y_score[rows]), GRID)
            submitted.add([self.secret.encrypt(v) for v in packing.pack(*class_vectors(counts))])
            total = counts if total is None else total + counts
        sums = [self.public.ciphertext(words) for words in submitted.totals]
        result = self.public.dump_result(blinded_totals(self.plan, self.public, sums))
        by_class = packing.by_class(self.secret.decrypt(result)) / packing.gain
        means = by_class.mean(axis=1)
        # den comes twice, as Re and as Im/κ: weighted by their precision.
        z1 = (means[1].real + CHECK_WEIGHT * means[1].imag) / (1 + CHECK_WEIGHT**2)
        flooding = float(np.sqrt(np.mean(np.abs(by_class - means[:, None]) ** 2) / 2 / (slots / packing.classes)))
        fresh = self._fresh_deviations(total) * z1 / trapezoid(total).den
        sd = np.hypot(flooding, fresh)
        return Observation(self.plan, complex(means[0]), float(z1), float(sd[0]), float(sd[1])), trapezoid(total)

    def _fresh_deviations(self, counts: Counts) -> NDArray[np.float64]:
        """Return how much encryption and rotation noise spread num (or tie) and den, by the planner's formula.

        The planner puts X ≤ 2P in every bin; here are the true X and Y.
        """
        x, y = class_vectors(counts)
        parameters, packing = self.plan.parameters, self.plan.packing
        switching = 2.0 ** switching_noise_bits(parameters.ring_dimension) / math.sqrt(packing.slots)
        encrypting = ERROR_DEVIATION * math.sqrt(PARTIES * parameters.ring_dimension)
        slot_noise = math.hypot(switching, encrypting) / parameters.scale
        # Noise on Y meets X, noise on u·X meets Y/u.
        x_unit = packing.x_unit
        noise = slot_noise * np.sqrt((np.abs(x) ** 2 + np.abs(y / x_unit) ** 2).sum(axis=1) / packing.copies)
        # Encoding in double precision errs by about the largest slot's last bit, in all copies and bins alike.
        largest = max(np.abs(x).max() * x_unit, np.abs(y).max())
        encoding = 2.0**-52 * largest * (np.abs(x) + np.abs(y) / x_unit).sum(axis=1)
        return np.asarray(np.hypot(noise, encoding))


def near_integer(values: NDArray[np.float64], tolerance: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(np.abs(values - np.rint(values)) <= tolerance)


def multiplier_fits(seen: Observation, dens: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell for which dens z1/den is an integer in the public range, within the error."""
    r = seen.z1 / dens
    slack = SIGMAS * seen.sd1 / dens + 2.0**-48 * r
    highest = 2.0**seen.plan.blinding_bits
    return (r >= highest * 2.0**-MULTIPLIER_RANGE_BITS - slack) & (r <= highest + slack) & near_integer(r, slack)


def numerators_fit(seen: Observation, dens: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell for which dens num and tie are integers of equal parity."""
    ratio = seen.z0 / seen.z1
    numerator = SIGMAS * math.hypot(seen.sd0, abs(ratio.real) * seen.sd1) / seen.z1 * dens
    tie = SIGMAS * math.hypot(seen.sd0, abs(ratio.imag) * seen.sd1) / seen.z1 * dens
    # The even number num - tie: half of it is an integer.
    half = (ratio.real - ratio.imag) / 2 * dens
    return near_integer(ratio.imag * dens, tie) & near_integer(half, (numerator + tie) / 2)


def remaining(seen: Observation, dens: NDArray[np.int64]) -> int:
    """Count the dens that pass both tests."""
    possible = dens[multiplier_fits(seen, dens)].astype(float)
    return int(numerators_fit(seen, possible).sum())


def measure(rows: int, max_rows: int, backend: str, sessions: int) -> Iterator[tuple[int, NDArray[np.int64], float]]:
    """Yield for each share of positives: these, how many dens remain in each session, how often the true one does."""
    engine = BlindingSessions(backend, max_rows)
    rng = np.random.default_rng([0, max_rows])
    for share in POSITIVES:
        positives, left, kept = round(share * rows), [], 0
        for _ in range(sessions):
            seen, truth = engine.session(rng, positives, rows - positives)
            left.append(sum(remaining(seen, dens) for dens in all_dens(seen, rows)))
            kept += remaining(seen, np.array([truth.den]))
        yield positives, np.array(left), kept / sessions


def number(value: float) -> str:
    """Write a count with three digits."""
    return f"{value:.0f}" if value < 1000 else f"{float(f'{value:.3g}'):,.0f}"


def main() -> None:
    """Print a table; cells are median (smallest to largest) of the sessions."""
    parser = argparse.ArgumentParser(
        description="Count the values of den = 2PN that a decrypted result leaves possible."
    )
    parser.add_argument("--sessions", type=int, default=20, help="sessions per line (default 20)")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    arguments = parser.parse_args()
    columns, kept_least = list(product(MAX_ROWS, ckks.available_backends())), 1.0
    body = []
    for rows in arguments.rows:  # the list of products is made once for each
        possible = number(len(possible_products(PRIOR * rows)))
        for found in zip(*(measure(rows, *column, arguments.sessions) for column in columns), strict=True):
            cells = (
                f"{number(np.median(left))} ({number(left.min())} to {number(left.max())})" for _, left, _ in found
            )
            one = np.mean([left == 1 for _, left, _ in found])
            body.append([f"{rows:,}", f"{found[0][0]:,}", possible, *cells, f"{one:.0%}"])
            kept_least = min(kept_least, *(kept for *_, kept in found))
    show(["rows", "P", "dens before", *(f"{backend}, {n:,}" for n, backend in columns), "one left"], body)
    print(f"The true den passed the tests in at least {kept_least:.0%} of the sessions behind every cell.")


if __name__ == "__main__":
    main()
