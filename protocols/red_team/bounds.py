"""What luck may reach: computed bounds on the probability that a party accepts a wrong AUC.

Each family of attacks shifts the AUC of execution e by s_e = θ·q_e, where θ is the attacker's choice, and q_e depends
on secrets drawn anew and independently in each execution, so that it has a density f. E executions pass with harm h if
all s_e lie within w of one another and at least h away from zero. One of them is the least; by Hölder's inequality

    P ≤ E ∫ f_s(x) (∫_x^{x+w} f_s)^{E-1} dx ≤ E·w^{E-1} ∫_{|x| ≥ h-w} f_s^E dx = E·(w/(h-w))^{E-1} · C_E

    C_E = max over t of t^{E-1} ∫_{|q| ≥ t} f^E dq           t = (h-w)/θ

`coefficient` computes C_E by numerical integration of f, and takes the maximum over t, and with it over θ. w is √2·τ,
the largest difference that parties accept, though most multipliers allow less: from that the bounds are loose by a
factor of about 2 at E = 2, and more at E = 4. Numerical error smears f and is neglected: it is below τ, and f varies
over distances of order θ, 10^3 times as long.

f is that of products of multipliers, uniform in [1/4, 1] with random signs, given that `protocols.disguise` does not
reject them: with a = |R0R1|, b = |R2R3|, c = |R4R5|, where (1 + (a + b)/c)/a ≤ 10. A product of two has density

    g(t) = 16/9 · ln(min(1, 4t)/max(1/4, t))        1/16 ≤ t ≤ 1

The integrals run over a grid of midpoints, and f is a histogram; a test holds the two against simulated rates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from fhe_auc.planner import MAX_AMPLIFICATION
from protocols.red_team.strategies import HARM

Floats = NDArray[np.float64]

_LEAST = 0.25
_CELLS = 400
_BINS = 400
_ALL_BINS, _SOME_BINS = 128, 40
_AUCS = (0.0, 0.25, 0.5, 0.75, 1.0)


def clopper_pearson(passes: int, trials: int, confidence: float = 0.95) -> float:
    """Return the one-sided Clopper-Pearson upper bound on a probability, from so many passes in so many trials."""
    if passes >= trials:
        return 1.0
    return float(stats.beta.ppf(confidence, passes + 1, trials - passes))


def product_density(t: Floats) -> Floats:
    """Return g, the density of the product of two numbers uniform in [1/4, 1]."""
    inside = (t > _LEAST**2) & (t < 1)
    t = np.where(inside, t, 0.5)
    return np.where(inside, np.log(np.minimum(1, t / _LEAST) / np.maximum(_LEAST, t)) / (1 - _LEAST) ** 2, 0.0)


def coefficient(values: Floats, weights: Floats, executions: int) -> float:
    """Return C_E of a distribution given by weighted points: max over t of t^{E-1} ∫_{|q| ≥ t} f^E.

    f is a histogram of bins equally wide, and so taken as constant over one; the bin that t falls into counts in full.
    """
    low, high = float(values.min()), float(values.max())
    mass, edges = np.histogram(values, bins=_BINS, range=(low, high), weights=weights)
    width = (high - low) / _BINS
    density = mass / (mass.sum() * width)
    farthest = np.maximum(np.abs(edges[:-1]), np.abs(edges[1:]))
    order = np.argsort(-farthest)
    tail = np.cumsum(density[order] ** executions) * width
    return float((farthest[order] ** (executions - 1) * tail).max())


def bound(coefficient: float, executions: int, tolerance: float) -> float:
    """Return E·(w/(h-w))^{E-1}·C_E, at most 1."""
    window = math.sqrt(2) * tolerance
    if window >= HARM:
        return 1.0
    return min(1.0, executions * (window / (HARM - window)) ** (executions - 1) * coefficient)


def _midpoints(low: float, high: float, cells: int) -> Floats:
    return low + (high - low) * (np.arange(cells) + 0.5) / cells


@lru_cache(maxsize=1)
def _survival() -> tuple[Floats, Floats]:
    points = np.linspace(_LEAST**2, 1, 4001)
    middle = (points[1:] + points[:-1]) / 2
    cumulative = np.concatenate([[0], np.cumsum(product_density(middle) * np.diff(points))])
    return np.asarray(points, np.float64), np.asarray(1 - cumulative / cumulative[-1], np.float64)


def _accepted(a: Floats, b: Floats) -> Floats:
    """Return the probability that c is large enough: (a + b)/(10a - 1) or more."""
    points, survival = _survival()
    room = MAX_AMPLIFICATION * a - 1
    least = np.where(room > 0, (a + b) / np.where(room > 0, room, 1), 2.0)
    return np.asarray(np.interp(least, points, survival, left=1.0, right=0.0), np.float64)


@lru_cache(maxsize=1)
def _pairs() -> tuple[Floats, Floats, Floats]:
    """Return a, b and weights of a grid."""
    points = _midpoints(_LEAST**2, 1, _CELLS * 2)
    a, b = (each.ravel() for each in np.meshgrid(points, points, indexing="ij"))
    return a, b, product_density(a) * product_density(b) * _accepted(a, b)


def scaling(executions: int, tolerance: float) -> float:
    """Bound scaling num' (or den') of every execution by 1 + θ.

    num'/den' = (r0·AUC + r1)/r2, times 1 + θ, shifts the AUC found by θ·(AUC + r1/r0): q = AUC ± b/a. The AUC is taken
    for what favours the attacker most. Scaling den' by 1/(1 + θ) is the same thing.
    """
    a, b, weights = _pairs()
    ratio, both = np.concatenate([b / a, -b / a]), np.tile(weights, 2)
    return bound(max(coefficient(auc + ratio, both, executions) for auc in _AUCS), executions, tolerance)


def constant(executions: int, tolerance: float) -> float:
    """Bound adding a constant to num' of every execution: q = ±1/a, in units of 1/(r·den).

    Its sign is that of R0R1; one more scaled part of num' is `polynomial`'s case.
    """
    a, _, weights = _pairs()
    both = np.tile(weights, 2)
    return bound(coefficient(np.concatenate([1 / a, -1 / a]), both, executions), executions, tolerance)


def constant_den(executions: int, tolerance: float) -> float:
    """Bound adding a small constant to den' of every execution: q = (AUC ± b/a)/c, up to a sign that c has.

    A constant θ in den' divides num'/den' by 1 + θ/(r·den·r2), so that to first order the AUC shifts by -θ·q. A
    shift of order `HARM` needs no larger one.
    """
    points = _midpoints(_LEAST**2, 1, 120)
    a, b, c = (each.ravel() for each in np.meshgrid(points, points, points, indexing="ij"))
    weights = product_density(a) * product_density(b) * product_density(c)
    weights = weights * ((1 + (a + b) / c) / a <= MAX_AMPLIFICATION)
    kept = weights > 0
    a, b, c, weights = a[kept], b[kept], c[kept], weights[kept]
    worst = 0.0
    for auc in _AUCS:
        q = np.concatenate([sign * (auc + other * b / a) / c for sign in (1, -1) for other in (1, -1)])
        worst = max(worst, coefficient(q, np.tile(weights, 4), executions))
    return bound(worst, executions, tolerance)


def polynomial(executions: int, tolerance: float) -> float:
    """Bound adding θ·(ΣY² + λ·ΣX² + κ·ΣXY + μ) to num' of every execution.

    ΣY²/N² = u·R1² + v·R3², where u depends on counts, weights and roles and v on the extra element; ΣX² likewise with
    R0 and R2. In units in which v is 1 for both,

        q = (u·R1² + R3² + λ·(u·R0² + R2²) + μ)/(R0R1) + κ·(AUC + R2R3/(R0R1))

    u and v are random, and f a mixture of the f of fixed u and v; by Minkowski's inequality its E-norm is at most the
    largest of these, and so is C_E. The maximum over λ, κ, μ and u is looked for on a grid (-1 … 1, and 0, 0.3 for u):
    a bound for the polynomials on the grid alone. Where the data make u large, and different for X and Y, there are
    others for which q is flat at a minimum, and which pass more often (docs/security.md). Integration is over Sobol
    points.
    """
    return bound(_polynomial_coefficient(executions), executions, tolerance)


@lru_cache(maxsize=4)
def _polynomial_coefficient(executions: int) -> float:
    mixes = itertools.product(
        (-0.5, 0.0, 0.5, 1.0), (-1.0, -0.3, 0.0, 0.3, 1.0), (-1.0, 0.0, 1.0), (0.0, 0.3), (0.0, 1.0)
    )
    few = _sobol(14)
    ranked = sorted(mixes, key=lambda mix: -_mixed(few, executions, *mix))
    many = _sobol(18)
    return max(_mixed(many, executions, *mix) for mix in ranked[:3])


def _sobol(log2_points: int) -> tuple[Floats, Floats]:
    """Return points of R0…R3 in [1/4, 1], shape (4, points), and their weights."""
    unit = stats.qmc.Sobol(4, rng=1).random_base2(log2_points)
    r = _LEAST + (1 - _LEAST) * unit.T
    weights = _accepted(r[0] * r[1], r[2] * r[3])
    return r[:, weights > 0], weights[weights > 0]


def _mixed(
    points: tuple[Floats, Floats], executions: int, squares: float, kappa: float, mu: float, spread: float, auc: float
) -> float:
    (r0, r1, r2, r3), weights = points
    main = r0 * r1
    whole = (spread * r1 * r1 + r3 * r3 + squares * (spread * r0 * r0 + r2 * r2) + mu) / main
    # The sign of R0R1 is on all but κ·AUC, and R2R3 has one of its own: four cases, equally likely.
    cases = [sign * whole + kappa * (auc + other * r2 * r3 / main) for sign in (1, -1) for other in (1, -1)]
    return coefficient(np.concatenate(cases), np.tile(weights, 4), executions)


def guessing(executions: int, *, positions: int, thresholds: int, splits: int) -> float:
    """Bound scaling X at guessed positions where no number has to fit, at the data that favour it most.

    Scaling by κ at a set H of positions shifts the AUC by (κ-1)·Σ_H X·Y/(r0·den). No secret number is left in that if
    H holds whole bins only, all S positions of each, and no position of the extra element: the weights add up to 1, and
    r0 cancels. Such shifts agree always if the bins add up to the same T_k·F_k in every execution; positions of bins
    that are empty do not matter. For H of size h with q equally full bins, m - q empty ones, the order being uniform
    and new in every execution, j of the full bins are hit with probability

        p_j = C(q, j)·C(S(m-q), h - S·j)/C(L, h)        all E of them: Σ_{j≥1} p_j^E

    which is maximised over q and h (with more than 128 bins, over some q). h = S·m is guessing the extra element
    altogether: 1/C(L, S·m)^E. Other H pass by the luck of the weights, and are for simulation.

    Where the extra element has few positions, or L is small, this is by far the best attack: see docs/security.md.
    """
    worst = -math.inf
    sizes = np.arange(splits, splits * thresholds + 1)[:, None]
    fulls: Sequence[int] = range(1, thresholds + 1)
    if thresholds > _ALL_BINS:
        fulls = sorted({round(each) for each in np.geomspace(1, thresholds, _SOME_BINS)})
    for full in fulls:
        hits = np.arange(1, full + 1)
        logs = _log_choose(full, hits) + _log_choose(splits * (thresholds - full), sizes - splits * hits)
        logs = executions * (logs - _log_choose(positions, sizes))
        worst = max(worst, float(special.logsumexp(logs, axis=1).max()))
    return min(1.0, math.exp(worst))


def _log_choose(total: int, some: NDArray[np.int64]) -> Floats:
    """Return log C(total, some), -∞ where there are none."""
    possible = (some >= 0) & (some <= total)
    part = np.where(possible, some, 0)
    logs = special.gammaln(total + 1) - special.gammaln(part + 1) - special.gammaln(total - part + 1)
    return np.where(possible, logs, -math.inf)


def of_strategy(
    name: str, executions: int, tolerance: float, *, positions: int, thresholds: int, splits: int
) -> float | None:
    """Return the bound for a strategy of `protocols.red_team.strategies`, or None where there is none."""
    if name in ("scale-num", "scale-den"):
        return scaling(executions, tolerance)
    if name == "add-constant":
        return max(constant(executions, tolerance), constant_den(executions, tolerance))
    if name == "add-polynomial":
        return polynomial(executions, tolerance)
    if name == "scale-but-guessed":
        # A set that holds some of the extra element's positions must be as lucky as scaling: given which positions it
        # holds, it shifts the AUC by θ·(part of the AUC + part of r1/r0).
        right = guessing(executions, positions=positions, thresholds=thresholds, splits=splits)
        return min(1.0, right + scaling(executions, tolerance))
    return None
