"""How flat a polynomial of per-class sums may come out that an aggregator adds.

It may add to num' any polynomial in sums over a class: ΣX·Y, ΣX², ΣY², Σ(X·Y)², products of these, constants. With X
and Y as in `fhe_auc_protocols.blinded_auc.split_shares` these are polynomials in R0…R3, and AUC + i·binning error
shifts by θ times

    q = (c_1 + c_2·(r0·A + r1) + c_3·R0² + c_4·R1² + c_5·R2² + c_6·R3²                        degree 2
         + c_7·r0² + c_8·r0·r1 + c_9·r1² + c_10·R0²·R3² + c_11·R1²·R2²) / r0                  degree 4

where r0 = R0·R1, r1 = R2·R3, and A is the honest AUC + i·binning error, taken to be 1. Which c go together depends on
the data and on what else is secret: weights, roles, the extra element, phases of positions. Here the attacker chooses
every c, which is more than it can; only A, without which there is no ΣX·Y, stays. Of degree 4 these are the terms in
which X and Y come equally often; the others, of which phases of positions leave nothing, were no help to it when tried.

How flat q is decides: `pair_rate` bounds the probability that two executions agree on a shift of θ·q, for any θ. A
search (`tests/support/polynomial_search.py`) has looked for the c at which it is largest. That finds good attacks, and
proves nothing about better ones.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.spatial import cKDTree

from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import draw_multipliers
from fhe_auc_protocols.blinded_auc.split_shares import Complex

TERMS = 11
"""How many c there are; six of them up to degree 2."""

WORST = tuple(
    np.array(coefficients, complex)
    for coefficients in (
        (0, 0, 0.173 - 0.697j, 0.518 + 0.465j, 0, 0, 0, 0, 0, 0, 0),
        (0.064, -0.376 + 0.271j, 0, 0, 0, 0, -0.006 - 0.025j, -0.02 + 0.295j, 0.309 - 0.773j, 0, 0),
    )
)
"""What the search has found of degree 2 and 4; a slow test searches again."""


def terms(multipliers: Complex) -> Complex:
    """Return what each c multiplies in q: shape (…, 11) for multipliers of shape (…, 6)."""
    r0, r1, r2, r3 = (multipliers[..., index] for index in range(4))
    main, extra = r0 * r1, r2 * r3
    numerators = (
        *(np.ones_like(main), main + extra, r0**2, r1**2, r2**2, r3**2),
        *(main**2, main * extra, extra**2, (r0 * r3) ** 2, (r1 * r2) ** 2),
    )
    return np.stack([each / main for each in numerators], axis=-1)


def pair_rate(coefficients: Complex, window: float, *, draws: int = 200_000, seed: int = 0) -> float:
    """Return the share of pairs, among so many executions drawn, for which |q - q'| ≤ √2·window·|q|.

    Coefficients have the shape (11,); the window is above 0 and below 1/√2.

    Two executions agree if real and imaginary part of their shifts differ by at most w, and do harm only if these are
    larger than h - w; with window = w/(h - w) that is no more pairs than these, whatever θ.
    """
    multipliers = draw_multipliers(np.random.default_rng(seed), draws)
    logs = np.log(terms(multipliers) @ coefficients)
    radius = -math.log1p(-math.sqrt(2) * window)  # differences of logarithms are relative differences
    return float((tree_of(logs).count_neighbors(tree_of(logs, around=True), radius) - draws) / (draws * (draws - 1)))


def tree_of(logs: Complex, *, around: bool = False) -> cKDTree:
    """Return points of the plane; with `around` also once more for a turn by 2π either way."""
    points = np.stack([logs.real, logs.imag], axis=1)
    turns = (0, -1, 1) if around else (0,)
    return cKDTree(np.concatenate([points + np.array([0, 2 * np.pi * turn]) for turn in turns]))
