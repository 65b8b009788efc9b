"""What luck may reach: computed bounds on the probability that a party accepts a wrong AUC.

Each family of attacks shifts AUC + i·binning error of execution e by θ·q_e, where θ is the attacker's choice, and the
complex number q_e depends on secrets drawn anew and independently in each execution. A party accepts only if all
executions agree, so that E executions pass no more often than E/2 pairs do, each with secrets of its own:

    P_E ≤ P_2^{E/2}

Two agree, with harm h, if real and imaginary part of their shifts differ by at most w, and both are at least h - w away
from zero. If q has density f on the complex plane, then by Young's inequality, whatever θ,

    P_2 ≤ 4w² ∫ f_s² over |s| ≥ h - w   ≤   4 (w/(h-w))² · C        C = ∫ |q|² f(q)² d²q

w is √2·τ, the largest difference that parties accept, though most multipliers allow less: that alone makes the bounds
loose, and P_2^{E/2} is far above P_E for E > 2. Numerical error smears f and is neglected: it is below τ, and f varies
over distances of order θ, 10^3 times as long.

Multipliers have magnitudes uniform in [1/4, 1] and uniform phases, given that `split_shares.Execution` does not reject
them: with a = |R0R1|, b = |R2R3|, c = |R4R5|, where (1 + (a + b)/c)/a ≤ 10. A product of two magnitudes has density

    g(t) = 16/9 · ln(min(1, 4t)/max(1/4, t))        1/16 ≤ t ≤ 1

Where a phase turns q about a point A, only the distance s = |q - A| has to be integrated over: if it has density g_s,

    f = g_s/(2πs)        C ≤ 1/(2π) · ∫ (|A| + s)² g_s(s)²/s ds

The integrals run over a grid of midpoints, and g_s is a histogram; a test holds them against simulated rates.

Polynomials of per-class sums have no such bound. An aggregator may add to num' any polynomial in ΣX·Y, ΣX², ΣY²,
Σ(X·Y)², products of these, constants. With X and Y as in `fhe_auc_protocols.blinded_auc.split_shares` these are
polynomials in R0…R3, and AUC + i·binning error shifts by θ times

    q = (c_1 + c_2·(r0·A + r1) + c_3·R0² + c_4·R1² + c_5·R2² + c_6·R3²                        degree 2
         + c_7·r0² + c_8·r0·r1 + c_9·r1² + c_10·R0²·R3² + c_11·R1²·R2²) / r0                  degree 4

where r0 = R0·R1, r1 = R2·R3, and A is the honest AUC + i·binning error, taken to be 1. Which c go together depends on
the data and on what else is secret: weights, roles, the extra element, phases of positions. Here the attacker chooses
every c, which is more than it can; only A, without which there is no ΣX·Y, stays. Of degree 4 these are the terms in
which X and Y come equally often; the others, of which phases of positions leave nothing, were no help to it when tried.
How flat q is decides (`pair_rate`). A search (`tests/support/polynomial_search.py`) has looked for the c at which that
is largest. It finds good attacks, and proves nothing about better ones.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from fhe_auc_protocols.blinded_auc.split_shares import Complex
from numpy.typing import NDArray
from scipy import special, stats
from scipy.spatial import cKDTree

from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import TrialSetting, draw_multipliers
from fhe_auc_benchmarks.attacks.laboratory import HARM
from fhe_auc_protocols.blinded_auc.error_bound import MAX_AMPLIFICATION

Floats = NDArray[np.float64]

_LEAST = 0.25
_CELLS = 800
_BINS = 400
_ALL_BINS, _SOME_BINS = 128, 40
_AUCS = (0.0, 0.25, 0.5, 0.75, 1.0)
TERMS = 11  # how many c there are; six of them up to degree 2

WORST = tuple(
    np.array(coefficients, complex)
    for coefficients in (
        (0, 0, 0.173 - 0.697j, 0.518 + 0.465j, 0, 0, 0, 0, 0, 0, 0),
        (0.064, -0.376 + 0.271j, 0, 0, 0, 0, -0.006 - 0.025j, -0.02 + 0.295j, 0.309 - 0.773j, 0, 0),
    )
)
"""What the search has found of degree 2 and 4; a slow test searches again."""


def product_density(t: Floats) -> Floats:
    """Return g, the density of the product of two numbers uniform in [1/4, 1]."""
    inside = (t > _LEAST**2) & (t < 1)
    t = np.where(inside, t, 0.5)
    return np.where(inside, np.log(np.minimum(1, t / _LEAST) / np.maximum(_LEAST, t)) / (1 - _LEAST) ** 2, 0.0)


def coefficient(distances: Floats, weights: Floats, centre: float = 0.0) -> float:
    """Return the bound on C of a distribution whose distances from `centre`, weighted points, are put in equal bins."""
    mass, edges = np.histogram(distances, bins=_BINS, weights=weights)
    width = edges[1] - edges[0]
    density = mass / (mass.sum() * width)
    middle = (edges[1:] + edges[:-1]) / 2
    return float(((centre + middle) ** 2 * density**2 / middle).sum() * width / (2 * math.pi))


def bound(coefficient: float, executions: int, tolerance: float) -> float:
    """Return (4·(w/(h-w))²·C)^{E/2}, at most 1."""
    return float(min(1.0, 4 * _window(tolerance) ** 2 * coefficient) ** (executions / 2))


def _window(tolerance: float) -> float:
    """Return w/(h-w), infinite where any shift may differ from another by its own size."""
    window = math.sqrt(2) * tolerance
    return window / (HARM - window) if window < HARM else math.inf


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
    points = _LEAST**2 + (1 - _LEAST**2) * (np.arange(_CELLS) + 0.5) / _CELLS
    a, b = (each.ravel() for each in np.meshgrid(points, points, indexing="ij"))
    return a, b, product_density(a) * product_density(b) * _accepted(a, b)


def scaling(executions: int, tolerance: float) -> float:
    """Bound scaling num' (or den') of every execution by 1 + θ.

    num'/den' = (r0·A + r1)/r2, times 1 + θ, shifts A = AUC + i·binning error by θ·(A + r1/r0): q has distance b/a
    from A, and |A| is at most 1. Scaling den' by 1/(1 + θ) is the same thing.
    """
    a, b, weights = _pairs()
    return bound(coefficient(b / a, weights, centre=1.0), executions, tolerance)


def constant(executions: int, tolerance: float) -> float:
    """Bound adding a constant to num' of every execution, |q| = 1/a in units of 1/(r·den), or to den'."""
    a, _, weights = _pairs()
    return bound(max(coefficient(1 / a, weights), _constant_den()), executions, tolerance)


def _constant_den() -> float:
    """Return C of adding a small constant to den' of every execution: q = (A + r1/r0)/r2.

    A constant θ in den' divides num'/den' by 1 + θ/(r·den·r2), so that to first order the AUC shifts by -θ·q. A
    shift of order `HARM` needs no larger one. The integral runs over Sobol points.
    """
    unit = stats.qmc.Sobol(4, rng=1).random_base2(18).T
    a, b, c = _LEAST**2 + (1 - _LEAST**2) * unit[:3]
    weights = product_density(a) * product_density(b) * product_density(c)
    weights = weights * ((1 + (a + b) / c) / a <= MAX_AMPLIFICATION)
    turned = b / a * np.exp(2j * np.pi * unit[3])
    kept = weights > 0
    return max(coefficient(np.abs(auc + turned[kept]) / c[kept], weights[kept]) for auc in _AUCS)


def polynomial(executions: int, tolerance: float) -> float:
    """Bound adding a polynomial of per-class sums to num' by the pair rate of the worst ones found: no theorem."""
    window = _window(tolerance)
    if window >= math.sqrt(0.5):
        return 1.0
    worst = max(pair_rate(each, window) for each in WORST)
    return float(worst ** (executions / 2))


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

    Coefficients have the shape (11,); the window, w/(h - w), is above 0 and below 1/√2. Two executions that agree and
    do harm are such a pair, whatever θ.
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


def of_strategy(name: str, of: TrialSetting) -> float | None:
    """Return the bound for a strategy, by its name, or None where there is none."""
    executions, tolerance, workload = of.executions, of.plan.tolerance, of.plan.workload
    if name in ("scale-num", "scale-den"):
        return scaling(executions, tolerance)
    if name == "add-constant":
        return constant(executions, tolerance)
    if name == "add-polynomial":
        return polynomial(executions, tolerance)
    if name == "scale-but-guessed":
        # Sets that are right in part have to be lucky besides: with positions of the extra element they shift by
        # θ·(part of A + part of r1/r0), like scaling, and with parts of bins by sums of complex weights. No bound of
        # theirs is here; scaling's stands for their size, which right guesses exceed by far at four executions.
        right = guessing(executions, positions=of.positions, thresholds=workload.thresholds, splits=workload.splits)
        return min(1.0, right + scaling(executions, tolerance))
    return None
