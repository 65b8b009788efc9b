"""How often luck lets a lie pass, at tolerances so loose that it is seen; and a search for the worst lie.

A lie adds w to a session's four complex numbers, relative to r·den: eight real ones. A party looks for what explains
them, M·u with u = (num, tie, den) (`fhe_auc_protocols.blinded_auc.masked_shares`). Let u be the best explanation of w,
ε = |w - M·u| and s = num - AUC·den of that u. Then the AUC shifts by s/(1 + den), while `result_check.accept` allows
ε to be τ·(1 + den). So for lies of any size, one that shifts the AUC by h or more is accepted only if

    |s| ≥ h·(1 + den)  and  ε ≤ τ·(1 + den)          hence          ε/|s| ≤ t = τ/h

What passes at t passes at every larger one: a rate measured at t bounds those of all tighter tolerances. Nothing is
extrapolated. A lie that leaves a run as it is, or scales it, is never accepted at t < 1/10: in that run M·u is at most
ε, up to what shifts nothing, and runs amplify by at most ten, |s| ≤ 10·ε.

Runs are independent, so a lie that treats each by itself passes in the S·(S-1)/2 pairs of S runs as often as in so many
sessions. Most runs leave too much on their own; the others need a partner whose shift is close to theirs.
"""

from itertools import count

import numpy as np
from scipy.optimize import minimize

from fhe_auc_benchmarks.attacks.blinded_auc.simulated import solved
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Trials, TrialSetting, generator
from fhe_auc_protocols.blinded_auc.masked_shares import Complex, Floats, equations

MOST = 0.05
"""Largest t for which `ratios` finds every pair that passes: runs amplify errors at most tenfold."""

_WIDTHS = 0.3, 0.15, 0.1  # of the kernel, ever closer to ratios that are measured
_SESSIONS = 600  # twice as many runs, and every pair of them
_SCALED = 12, 15  # of `quadratics`: Y·X₀ to class 0 and Y·X₁ to class 1, where the first start is


def ratios(trials: Trials, numbers: Complex, most: float = MOST) -> Floats:
    """Return the t from which on pairs of runs pass, sorted, as far as they are at most `most`: up to `MOST`.

    The difference of the runs' AUCs is taken to first order. `numbers`, shape (trials, runs, classes), are what the lie
    makes of `Trials.honest`: each run's of its own secrets.
    """
    values = ((numbers - trials.honest) / trials.products).reshape(-1, numbers.shape[-1])
    weights = np.abs(trials.products.reshape(values.shape)) ** 2
    den_factors = trials.den_factors.reshape(values.shape)

    def shift(num: Complex, den: Floats) -> Floats:
        return np.asarray(num.real - trials.setting.honest.real * den)

    num, den, left = solved(values, weights, den_factors)
    alone = shift(num, den)
    order = np.argsort(alone)
    order = order[left[order] <= 2 * most * np.abs(alone[order])]
    alone, parts = alone[order], [each[order] for each in (values, weights, den_factors)]
    found: list[Floats] = []
    for step in count(1):
        apart = alone[step:] - alone[:-step]
        first = np.flatnonzero(apart <= 2 * most * np.abs(alone[step:]))
        if not first.size:
            break
        num, den, left = solved(*(np.concatenate([each[first], each[first + step]], axis=1) for each in parts))
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = np.maximum(left, apart[first]) / np.abs(shift(num, den))
        found.append(needed[needed <= most])
    return np.sort(np.concatenate([*found, np.zeros(0)]))


def passing(found: Floats, runs: int, t: float) -> float:
    """Return the share of all pairs that pass at this t, from the `ratios` that so many runs gave."""
    return float(2 * np.searchsorted(found, t, side="right") / (runs * (runs - 1)))


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
