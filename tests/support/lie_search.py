"""A search for the quadratic lie of each run by itself that passes most often, along a gradient from random points."""

import numpy as np
from scipy.optimize import minimize

from fhe_auc_benchmarks.attacks.blinded_auc.estimates import ratios
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Trials, TrialSetting, generator
from fhe_auc_protocols.blinded_auc.masked_shares import Complex, Floats, equations

_WIDTHS = 0.3, 0.15, 0.1  # of the kernel, ever closer to ratios that are measured
_SESSIONS = 600  # twice as many runs, and every pair of them
_SCALED = 12, 15  # of `quadratics`: Y·X₀ to class 0 and Y·X₁ to class 1, where the first start is


def quadratics(trials: Trials, where: int) -> Complex:
    """Return what a lie may add to both numbers of a run, shape (trials, runs, classes, 2·12), the position known.

    To either class: both honest numbers, 1, X₀, X₁, Y, Y·X₀, Y·X₁, Y², X₀², X₁², X₀·X₁. The phase is known too, but for
    that of B, which no lie can do without.
    """
    (x, y), common = trials.positions, trials.common
    turned = y[..., where] / np.abs(y[..., where]) / common[..., 0]
    first, second, y = x[..., 0, where] * turned, x[..., 1, where] * turned, np.abs(y[..., where]) * common[..., 0]
    one, (n, m) = np.ones_like(y), np.moveaxis(trials.honest, -1, 0)
    terms = n, m, one, first, second, y, y * first, y * second, y**2, first**2, second**2, first * second
    found = np.zeros((*y.shape, 2, 2 * len(terms)), complex)
    found[..., 0, ::2] = found[..., 1, 1::2] = np.stack(terms, axis=-1)
    return found


def search(of: TrialSetting, where: int, *, starts: int, seed: int) -> list[Complex]:
    """Return coefficients of `quadratics`, the best last, of so many starts: next to scaling, then random ones."""
    rng, trials = np.random.default_rng(seed), Trials(of, _SESSIONS, generator(seed))
    basis = quadratics(trials, where)
    size = basis.shape[-1]
    basis = np.concatenate([basis, 1j * basis], axis=-1).reshape(-1, 2, 2 * size)
    matrices = equations(trials.products, trials.den_factors).reshape(-1, 4, 3)
    numbers = np.stack([basis.real, basis.imag], axis=2).reshape(-1, 4, 2 * size)
    alone = np.linalg.svd(matrices)[0][..., 3]  # what no num, tie and den explain
    forms = np.concatenate([alone[:, None] @ numbers, np.linalg.pinv(matrices) @ numbers], axis=1)
    sizes = np.sqrt((forms**2).mean(axis=0).sum(axis=0))
    sizes = np.where(sizes > 0, sizes, np.inf)  # a correction has one class only
    pairs = _Pairs(forms / sizes, np.linalg.inv(matrices.swapaxes(1, 2) @ matrices), of.honest.real)
    found = []
    for start in range(starts):
        kept = rng.random(size) < rng.choice([0.1, 0.3, 0.6, 1.0])
        kept[rng.integers(size)] = True
        point = rng.standard_normal(2 * size) * np.tile(kept, 2)
        if not start and np.isfinite(sizes[list(_SCALED)]).all():
            point = 0.01 * point + sizes * np.isin(np.arange(2 * size), _SCALED)
        for width in _WIDTHS:
            result = minimize(pairs.loss, point, (width,), "L-BFGS-B", jac=True, options={"maxiter": 25})
            point = result.x / np.linalg.norm(result.x)
        found.append((result.fun, (point / sizes)[:size] + 1j * (point / sizes)[size:]))
    return [each for _, each in sorted(found, key=lambda pair: -pair[0])]


class _Pairs:
    """All pairs of runs, from what is left in a run and what explains the rest: forms of shape (runs, 4, 2·24)."""

    def __init__(self, forms: Floats, inverses: Floats, auc: float) -> None:
        self.forms, self.shift = forms, np.array([1, 0, -auc])
        self.first, self.second = np.triu_indices(len(forms), 1)
        between = np.linalg.inv(inverses[self.first] + inverses[self.second])
        self.pull = np.einsum("nij,njk,k->ni", between, inverses[self.first], self.shift)
        self.between = between + np.outer(self.shift, self.shift)

    def loss(self, point: Floats, width: float) -> tuple[float, Floats]:
        """Return -log of Σ (1 + (ratio/width)²)^-3 over all pairs, and its gradient."""
        values, size = self.forms @ point, len(self.forms)
        left, u, i, j = values[:, 0], values[:, 1:], self.first, self.second
        apart = u[i] - u[j]
        pulled = np.einsum("nij,nj->ni", self.between, apart)
        square = left[i] ** 2 + left[j] ** 2 + (apart * pulled).sum(axis=1)
        shift = (u @ self.shift)[i] - (self.pull * apart).sum(axis=1)
        below = shift**2 + 1e-12
        kernel = 1 + square / below / width**2
        by_square = -3 / kernel**4 / below / width**2
        by_shift = -2 * by_square * square * shift / below
        by_apart = 2 * by_square[:, None] * pulled - by_shift[:, None] * self.pull
        ends = (
            (np.c_[2 * by_square * left[i], by_shift[:, None] * self.shift + by_apart], i),
            (np.c_[2 * by_square * left[j], -by_apart], j),
        )
        slopes = sum(np.stack([np.bincount(at, part, size) for part in end.T], axis=1) for end, at in ends)
        total = (kernel**-3).sum()
        return -float(np.log(total)), -np.einsum("nm,nmd->d", slopes, self.forms) / total


def rate(of: TrialSetting, where: int, coefficients: Complex, *, sessions: int, seed: int) -> Floats:
    """Return the `ratios` of this lie, of fresh runs."""
    trials = Trials(of, sessions, generator(seed))
    return ratios(trials, trials.honest + quadratics(trials, where) @ coefficients)
