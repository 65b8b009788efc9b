"""Privacy parameters of a [DPAUC] session, and how much noise they buy.

docs/evidence/noise.md says what they promise, and by how much the paper's noise, which is kept here, is more than its ε
needs. A party sends TP, FP, FN and TN at m thresholds. The paper counts 4|Θ| numbers of sensitivity 1: Laplace noise of
scale 4|Θ|/ε on each; Gaussian noise for one vector of L2 sensitivity √(4|Θ|), with the σ of `sigma_for`. In randomised
response a label is flipped with probability 1/(1 + e^ε). With `score_epsilon` each score, in [0, 1], gets Laplace noise
of scale 1/score_epsilon before. A party that is started again within a session and answers twice spends its ε twice.
Where the pooled numbers of labels are known, so that neighbours differ in two labels swapped, all four counts change at
thresholds between the two scores: then the paper's accounting is exact.

**How much Gaussian noise gives (ε, δ)-differential privacy, exactly.** [BW] Balle and Wang, "Improving the Gaussian
mechanism for differential privacy: analytical calibration and optimal denoising", ICML 2018, arXiv 1805.06530.
Of neighbours' vectors at distance Δ only the direction from one to the other matters: compare N(0, σ²) with N(Δ, σ²):

    δ(σ) = Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ)                                                    [BW, Theorem 8]

Where Δ/σ is small the two terms are nearly equal. With φ the density, M = (1 − Φ)/φ the Mills ratio, h = Δ/2σ and
s = εσ/Δ (so that e^ε φ(s + h) = φ(s − h)), the difference is an integral of something positive, without cancellation:

    δ(σ) = φ(s − h) (M(s − h) − M(s + h)) = φ(s − h) ∫ 1 − x M(x) dx    from s − h to s + h, as M′ = x M − 1

δ falls strictly as σ grows, so that the least σ for a given δ is the root of δ(σ) = δ.

[DPAUC] is cited in `fhe_auc_protocols.dpauc`.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.base.python_options import flag
from fhe_auc.question.thresholds import MAX_SIZE
from fhe_auc.results.intervals import expit
from fhe_auc_protocols.dpauc.roc import STATISTICS, Curve
from fhe_auc_protocols.options import EPSILON_ADVICE, is_whole, positive_number

_COIN = 0.5 - 1e-9  # debiasing divides by 1 - 2ρ
_MAX_EPSILON = 100.0  # e^100: no label is protected in any sense, so that it must be a mistake, or a trick
_WEAK_EPSILON = 10.0  # e^10 is over 22,000
_MAX_NOISE = 2.0**60  # counts are int64
_RELATIVE = 1e-12  # to which the root is found; it is then moved to the private side by as much
_SHORT = 0.1  # up to which h the integral is taken, for Gauss and Legendre's 20 points exact to double precision
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_MAX_LOG_SIGMA = 700.0  # e^709 is the last double
LAPLACE, GAUSSIAN, RANDOMIZED_RESPONSE = "laplace", "gaussian", "rr"

_DELTA_ADVICE = "; give it, well below 1 over the number of rows: … -o delta=1e-6"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The checked parameters of a session. Make it with `Budget.checked`, which has the errors."""

    mechanism: str  # "laplace", "gaussian" or "rr"

    epsilon: float  # of a label, above 0 and at most 100
    delta: float | None = None  # in (0, 1); Gaussian only
    budget_thresholds: int | None = None  # |Θ|, from the number of thresholds to 2^20; Laplace and Gaussian only
    score_epsilon: float | None = None
    """Of a score, as `epsilon`; randomised response only. None leaves scores as they are."""
    curve: Curve = field(default_factory=Curve)

    @classmethod
    def checked(cls, mechanism: str, options: Mapping[str, Any], thresholds: int) -> "Budget":
        """Check the options of a session with so many thresholds; unknown names must have been refused.

        Raises `InputError`: a budget is missing or out of range, its noise would not fit the counts, or another option
        has no sense.
        """
        epsilon = _epsilon(options, "epsilon", EPSILON_ADVICE)
        delta = score_epsilon = budget_thresholds = None
        if mechanism == GAUSSIAN:
            delta = positive_number(options, "delta", _DELTA_ADVICE)
            if delta >= 1:
                raise InputError(f"delta must lie between 0 and 1, got {delta:g}")
        if mechanism == RANDOMIZED_RESPONSE:
            if options.get("score_epsilon") is not None:
                score_epsilon = _epsilon(options, "score_epsilon")
        else:
            budget_thresholds = _size(options.get("budget_thresholds", thresholds), thresholds)
        budget = cls(
            mechanism=mechanism,
            epsilon=epsilon,
            delta=delta,
            budget_thresholds=budget_thresholds,
            score_epsilon=score_epsilon,
            curve=Curve(*(flag(options.get(name, default), name) for name, default in asdict(Curve()).items())),
        )
        if mechanism == RANDOMIZED_RESPONSE and budget.flip_probability >= _COIN:
            raise InputError(f"epsilon {epsilon:g} is too small: labels would be coins")
        for name, scale in (("epsilon", budget.noise_scale), ("score_epsilon", budget.score_scale)):
            if scale is not None and not scale <= _MAX_NOISE:
                raise InputError(f"{name} {options[name]:g} is too small: noise of scale {scale:.3g} fits no count")
        return budget

    def as_options(self) -> dict[str, bool | int | float | str]:
        """Return what a manifest carries: `checked` makes an equal budget of it."""
        found = {**asdict(self), **asdict(self.curve)}
        del found["mechanism"], found["curve"]
        return {name: value for name, value in found.items() if value is not None}

    @property
    def flips(self) -> bool:
        """Whether labels are flipped; otherwise noise is added to counts."""
        return self.mechanism == RANDOMIZED_RESPONSE

    @cached_property
    def noise_scale(self) -> float:
        """Scale of the Laplace, or σ of the Gaussian noise that each party adds to each count; 0 for flips."""
        if self.budget_thresholds is None:
            return 0.0
        counts = len(STATISTICS) * self.budget_thresholds
        if self.delta is None:
            return counts / self.epsilon  # infinite where epsilon is subnormal: `checked` refuses it
        return sigma_for(self.epsilon, self.delta, math.sqrt(counts))

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise that each party adds to each count; 0 for flips."""
        return self.noise_scale * (math.sqrt(2) if self.mechanism == LAPLACE else 1.0)

    @property
    def score_scale(self) -> float | None:
        """Scale of the Laplace noise on each score; None without `score_epsilon`."""
        return None if self.score_epsilon is None else 1 / self.score_epsilon

    @property
    def weak(self) -> str:
        """What there is to say of budgets that protect little; empty where they do protect."""
        named = {"epsilon": self.epsilon, "score_epsilon": self.score_epsilon}
        weak = [f"{name} = {value:g}" for name, value in named.items() if value is not None and value > _WEAK_EPSILON]
        return f"{' and '.join(weak)}: a bound of e^epsilon on odds, over 22,000 here, protects little" if weak else ""

    @property
    def flip_probability(self) -> float:
        """Chance ρ = 1 / (1 + e^ε) of a label to be flipped, below 1/2."""
        return expit(-self.epsilon)


def _epsilon(options: Mapping[str, Any], name: str, advice: str = "") -> float:
    epsilon = positive_number(options, name, advice)
    if epsilon > _MAX_EPSILON:
        raise InputError(f"{name} {epsilon:g} promises nothing: take at most {_MAX_EPSILON:g}")
    return epsilon


def _size(value: Any, thresholds: int) -> int:
    if is_whole(value, range(thresholds, MAX_SIZE + 1)):
        return value
    if isinstance(value, int) and value > MAX_SIZE:
        raise InputError(f"budget_thresholds must be at most {MAX_SIZE:,}")
    raise InputError(
        f"budget_thresholds must be an integer and at least the number of thresholds, {thresholds}, got {value!r}: "
        "with less, the session would spend more than epsilon"
    )


def delta_of(sigma: float, epsilon: float, sensitivity: float) -> float:
    """Return the least δ in [0, 1] of Gaussian noise; the sensitivity is neighbours' largest Euclidean distance."""
    from scipy.special import erfcx, log_ndtr

    half, shift = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    if half <= _SHORT:
        x = shift + half * _NODES
        integrand = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
        return math.exp(-((half - shift) ** 2) / 2) / math.sqrt(2 * math.pi) * half * float(_WEIGHTS @ integrand)
    first = float(log_ndtr(half - shift))
    second = epsilon + float(log_ndtr(-half - shift))
    return math.exp(first) * -math.expm1(min(second - first, 0.0))  # in logarithms: e^ε alone may overflow


def sigma_for(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least σ for which Gaussian noise is (ε, δ)-differentially private, ε in (0, 1e6] and δ in (0, 1).

    Correct to 1e-11, and never too small: `delta_of` of it is at most `delta`. The sensitivity is as of `delta_of`.
    sigma_for(1.0, 1e-5, 1.0) is about 3.7306.

    Raises `InputError`: δ is too small for double precision.
    """
    from scipy.optimize import brentq

    def excess(log_sigma: float) -> float:
        return delta_of(math.exp(log_sigma), epsilon, 1.0) - delta

    low = high = 0.0
    while excess(low) <= 0:
        low -= 1.0
    while excess(high) > 0:
        high += 1.0
        if high > _MAX_LOG_SIGMA:
            raise InputError(f"delta {delta:g} is too small: so much noise cannot be told in double precision")
    root = math.exp(brentq(excess, low, high, xtol=_RELATIVE, rtol=_RELATIVE))
    while delta_of(root, epsilon, 1.0) > delta:
        root *= 1 + _RELATIVE
    return root * sensitivity
