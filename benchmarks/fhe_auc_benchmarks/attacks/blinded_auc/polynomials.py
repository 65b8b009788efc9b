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
search (`search`) has looked for the c at which it is largest. That finds good attacks, and
proves nothing about better ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
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

_WIDTHS = 0.3, 0.1, 0.03, 0.01  # of the kernel, ever closer to the window that counts
_NEIGHBOURHOOD = 3.0  # widths
_EXECUTIONS_TIMES_WIDTH = 300


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


def search(
    *, starts: int, seed: int, degree: int = 4, draws: int = 20_000, window: float = 1e-3
) -> tuple[float, Complex]:
    """Return the largest pair rate found by gradients from so many random starts, and its coefficients."""
    rng = np.random.default_rng([seed, degree])
    used = np.arange(TERMS if degree == 4 else 6)
    basis = terms(draw_multipliers(rng, draws))[:, used]
    best = 0.0, np.zeros(TERMS, complex)
    for _ in range(starts):
        kept = rng.random(len(used)) < rng.choice([0.3, 0.6, 1.0])
        kept[rng.integers(len(used))] = True
        point = np.where(kept, rng.standard_normal((2, len(used))), 0.0).ravel()
        for width in _WIDTHS:
            result = minimize(_loss, point, (basis, width), "L-BFGS-B", jac=True, options={"maxiter": 60})
            point = result.x / np.linalg.norm(result.x)
        found = np.zeros(TERMS, complex)
        found[used] = point[: len(used)] + 1j * point[len(used) :]
        rate = pair_rate(found, window, draws=10 * draws, seed=seed)
        best = max(best, (rate, found), key=lambda pair: pair[0])
    return best


def _loss(point: NDArray[np.float64], basis: Complex, width: float) -> tuple[float, NDArray[np.float64]]:
    """Return -log of a smoothed pair rate, and its gradient: a Gaussian of differences of log q, cut off far out."""
    basis = basis[: int(_EXECUTIONS_TIMES_WIDTH / width)]
    size = basis.shape[1]
    q = basis @ (point[:size] + 1j * point[size:])
    logs = np.log(q)
    radius = _NEIGHBOURHOOD * width
    near = tree_of(logs).sparse_distance_matrix(tree_of(logs, around=True), radius, output_type="ndarray")
    first, second = near["i"], near["j"] % len(q)
    first, second, distances = (each[first != second] for each in (first, second, near["v"]))
    difference = logs[first] - logs[second]
    difference.imag -= 2 * np.pi * np.round(difference.imag / (2 * np.pi))
    kernel = np.exp(-0.5 * (distances / width) ** 2)
    total = kernel.sum() + 1e-300
    pull = np.bincount(first, kernel * difference.real, len(q)) + 1j * np.bincount(
        first, kernel * difference.imag, len(q)
    )
    gradient = 2 * basis.conj().T @ (pull / q.conj()) / (width**2 * total)
    return -math.log(total), np.concatenate([gradient.real, gradient.imag])
