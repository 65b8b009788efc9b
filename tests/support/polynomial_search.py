"""A search for the polynomial of per-class sums that comes out flattest, by following a gradient from random points."""

import math

import numpy as np
from fhe_auc_protocols.blinded_auc.split_shares import Complex
from numpy.typing import NDArray
from scipy.optimize import minimize

from fhe_auc_benchmarks.attacks.blinded_auc.bounds import TERMS, pair_rate, terms, tree_of
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import draw_multipliers

_WIDTHS = 0.3, 0.1, 0.03, 0.01  # of the kernel, ever closer to the window that counts
_NEIGHBOURHOOD = 3.0  # widths
_EXECUTIONS_TIMES_WIDTH = 300


def search(
    *, starts: int, seed: int, degree: int = 4, draws: int = 20_000, window: float = 1e-3
) -> tuple[float, Complex]:
    """Return the largest pair rate found from so many random starts, and its coefficients."""
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
