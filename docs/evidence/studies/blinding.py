"""What a party that decrypts the blinded totals of `semi-honest` can tell about den = 2PN.

    OMP_NUM_THREADS=1 python docs/evidence/studies/blinding.py                             # ten seconds
    OMP_NUM_THREADS=1 python docs/evidence/studies/blinding.py --rows 10000 --sessions 21  # four minutes, 0.8 GB

SIMULATED: P positive and N negative rows, pooled, scores normal around 0.6 and 0.4 (deviation 0.15), `uniform:100`. How
many parties hold the rows matters for noise alone, and that is a parameter.

The attacker, one honest but curious party, sees r·num, r·tie and r·den. It knows the plan, so which r there can be;
that num, tie, P and N are integers, and num - tie even (a sum of 2·TP_{k+1}·F_k); and that P + N is at most four times
what it is. It uses nothing that it knows of its own rows. A den remains if some r, num and tie fit it: exactly; or,
with noise, each product within five deviations, which it knows. Cells: the median of how many remain (the share of
sessions in which the true one remains alone; in which the smallest that remains is the true one).

- `--noise A B`: each product has Gaussian noise of deviation 2^A·r·den, as encryption leaves it, and of 2^B, flooding.
- "noise's size": of these, P and N whose smaller one is within a factor of two of the true smaller one. So much the
  size of the noise of encryption tells; this factor is assumed here, not measured.
- "integer r" is log-uniform, as it once was; "smooth r" is what `blinding.multiplier` draws.
"""

import argparse
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics.trapezoid import Trapezoid, trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.blinded_auc import blinding
from fhe_auc_protocols.blinded_auc.blinding import MULTIPLIER_RANGE_BITS

GRID = thresholds.uniform(100)
ROWS = (30, 100, 1000)
SHARES = (0.5, 0.1, 0.02)  # of positive rows
PRIOR = 4  # the attacker knows the pooled rows to this factor
NOISE_FACTOR = 2  # to which the noise's size tells min(P, N)
SIGMAS = 5.0
CHUNK = 1 << 17

Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]


class Multipliers(NamedTuple):
    """The multipliers of [2^(bits-16), 2^bits]: the 23-smooth ones, ascending, or where there is no list all."""

    bits: int
    smooth: Integers | None

    def draw(self, rng: np.random.Generator) -> int:
        if self.smooth is not None:
            return blinding.multiplier(self.bits, lambda bits: int(rng.integers(2**bits, dtype=np.uint64)))
        return round(2 ** (self.bits - MULTIPLIER_RANGE_BITS * rng.random()))

    def include(self, r: Integers) -> Bools:
        if self.smooth is not None:
            return np.asarray(self.smooth[np.searchsorted(self.smooth, r) % len(self.smooth)] == r)
        return np.asarray((r >= 1 << (self.bits - MULTIPLIER_RANGE_BITS)) & (r <= 1 << self.bits))


def multipliers(bits: int) -> tuple[Multipliers, Multipliers]:
    smooth = blinding.smooth_integers(blinding.PRIMES, 1 << bits)
    return Multipliers(bits, None), Multipliers(bits, smooth[smooth >= 1 << (bits - MULTIPLIER_RANGE_BITS)])


def products(rows: int, least: int = 1, most: int | None = None) -> Bools:
    """Return, by h, whether h = P·N for some P and N with P + N ≤ rows and least ≤ min(P, N) ≤ most."""
    found = np.zeros((rows // 2) * (rows - rows // 2) + 1, np.bool_)
    for p in range(max(least, 1), min(most or rows, rows // 2) + 1):
        found[p * p : p * (rows - p) + 1 : p] = True
    return found


def session(rng: np.random.Generator, positives: int, negatives: int) -> Trapezoid:
    y_true = np.repeat([True, False], [positives, negatives])
    y_score = np.clip(rng.normal(0.4 + 0.2 * y_true, 0.15), 0, 1)
    return trapezoid(count(PartyData.from_arrays("all", y_true, y_score), GRID))


def left_by_ratios(truth: Trapezoid, possible: Bools) -> Integers:
    """Return the h = den/2 that num : tie : den leave: all multiples of one for which the others are integers too."""
    step = truth.den // 2 // int(np.gcd.reduce([truth.den // 2, truth.tie, (truth.num - truth.tie) // 2]))
    return step * np.flatnonzero(possible[::step])


def left_by_products(truth: Trapezoid, r: int, kind: Multipliers, possible: Bools) -> Integers:
    """Return the h that exact products leave."""
    h, product = left_by_ratios(truth, possible), r * truth.den // 2  # below 2^63
    h = h[product % h == 0]
    return h[kind.include(product // h)]


def left_by_noisy_products(seen: NDArray[np.float64], sd: float, kind: Multipliers, possible: Bools) -> Integers:
    """Return the h that r·(num, tie, den) with noise leave; `seen` has them, shape (3,). sd ≪ h: one r each."""
    left, first = [], max(1, int(seen[2] / 2 ** (kind.bits + 1)))
    for start in range(first, min((first + 1 << MULTIPLIER_RANGE_BITS) + 1, len(possible)), CHUNK):
        h = np.arange(start, min(start + CHUNK, len(possible)))
        r = np.rint(seen[2] / (2 * h)).astype(np.int64)
        kept = np.flatnonzero(np.abs(2 * r * h - seen[2]) <= SIGMAS * sd)
        h, r = h[kept], r[kept]
        tie = np.rint(seen[1] / r)
        num = tie + 2 * np.rint((seen[0] / r - tie) / 2)
        fits = (np.abs(seen[:2, None] - r * np.stack([num, tie])) <= SIGMAS * sd).all(axis=0)
        left.append(h[fits & possible[h] & kind.include(r)])
    return np.concatenate(left)


def cell(sessions: list[tuple[int, bool]]) -> str:
    left, smallest_is_true = np.array(sessions).T
    return f"{np.median(left):,.0f} ({np.mean(left == 1):.0%}; {np.mean(smallest_is_true):.0%})"


def row(rows: int, share: float, bits: int, sessions: int, noise: tuple[float, float]) -> list[str]:
    rng = np.random.default_rng([rows, round(1000 * share)])
    positives = max(1, round(share * rows))
    rarer = min(positives, rows - positives)
    possible = products(PRIOR * rows)
    of_size = products(PRIOR * rows, -(-rarer // NOISE_FACTOR), rarer * NOISE_FACTOR)
    kinds = multipliers(bits)
    cells: list[list[tuple[int, bool]]] = [[] for _ in range(7)]
    for _ in range(sessions):
        truth = session(rng, positives, rows - positives)
        left = [left_by_ratios(truth, possible)]
        for kind in kinds:
            r = kind.draw(rng)
            sd = float(np.hypot(2.0 ** noise[0] * r * truth.den, 2.0 ** noise[1]))
            seen = float(r) * np.array([truth.num, truth.tie, truth.den]) + rng.normal(0, sd, 3)
            noisy = left_by_noisy_products(seen, sd, kind, possible)
            left += [left_by_products(truth, r, kind, possible), noisy, noisy[of_size[noisy]]]
        for found, h in zip(cells, left, strict=True):
            found.append((len(h), len(h) > 0 and h.min() == truth.den // 2))
    before = f"{possible.sum():,}", f"{of_size.sum() / possible.sum():.0%}"
    return [f"{rows:,}", f"{positives:,}", *before, *map(cell, cells)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the values of den that a decrypted result leaves.")
    parser.add_argument("--sessions", type=int, default=101, help="sessions a row (default 101)")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--bits", type=int, default=34, help="of the largest r (default 34)")
    parser.add_argument("--noise", type=float, nargs=2, default=(-46, -20), metavar=("A", "B"))
    of = parser.parse_args()
    kinds = [f"{r} r, {what}" for r in ("integer", "smooth") for what in ("exact", "noise", "noise's size")]
    head = ["rows", "P", "den before", "of the noise's size", "ratios alone", *kinds]
    show(head, (row(n, share, of.bits, of.sessions, of.noise) for n in of.rows for share in SHARES))


if __name__ == "__main__":
    main()
