"""What luck may reach: the probability, C·t⁵, that a party accepts an AUC that is wrong by h; t = τ/h, τ the tolerance.

A lie adds w to a session's four complex numbers, relative to r·den: eight real ones. A party looks for what explains
them, M·u with u = (num, tie, den) (`fhe_auc_protocols.blinded_auc.masked_shares`). Let u be the best explanation of w,
ε = |w - M·u| and s = num - AUC·den of that u. Then the AUC shifts by s/(1 + den), while `result_check.accept` allows
ε to be τ·(1 + den). So for lies of any size, h or more is accepted only if

    |s| ≥ h·(1 + den)  and  ε ≤ τ·(1 + den)          hence          ε/|s| ≤ t

Proved: a lie that leaves a run as it is, or scales it, is never accepted at t < 1/10. In that run M·u is at most ε, up
to what shifts nothing, and runs amplify by at most ten: |s| ≤ 10·ε.

Proved: if w - M·u has a continuous density f_u at 0, weighted by √det MᵀM, whose I = ∫ |s|⁵·f_u(0) du is finite, then
p is at most 193·I·t⁵ for small t. For each u that explains w there are others, |M·(u' - u)| ≤ 0.6·t·|s|, of volume
4π/3·(0.6·t·|s|)³/√det MᵀM, and all leave at most 1.6·t·|s|, in eight dimensions: the expected volume bounds p. And
p/t⁵ tends to V₅·I = 5.3·I or less. So C is measured at t of 0.03 to 0.01; below that the estimate extrapolates.

Runs are independent, so a lie that treats each by itself passes in the S·(S-1)/2 pairs of S runs as often as in so many
sessions. Most runs leave too much on their own; the others need a partner whose shift is close to theirs.

Without a mask on X at the corrections there would be no such density: four random phases alone would protect against a
lie that adds to Y at both, with t³.
"""

from itertools import count

import numpy as np

from fhe_auc_benchmarks.attacks.blinded_auc.simulated import solved
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Trials, TrialSetting
from fhe_auc_benchmarks.attacks.laboratory import HARM
from fhe_auc_protocols.blinded_auc.masked_shares import Complex, Floats

GUESSED, BLIND = 20.0, 2.0
"""C of the worst lies known: given that a bin or the last position is hit in both runs, with 1/L² for L positions; and
of those that guess nothing. Measured at the data that favour them most, for L of 256 and 1024 (12 and 1.6); the first
grows with the number of thresholds (70 at L = 4096)."""

LARGEST = 0.03

MOST = 0.05
"""Largest t for which `ratios` finds every pair that passes: runs amplify errors at most tenfold."""

_GUESSING = (*("scale-last", "scale-bin", "scale-corrections", "copy-position", "add-at-position", "mix-at-position"),)
_BLIND = (
    *("scale-class", "mix-classes", "swap-classes", "zero-class", "conjugate", "add-constant", "square-terms"),
    *("swap-runs", "multiply-runs", "zero-slots", "scale-slots", "turn-slots", "chosen-values", "earlier-result"),
)


def of_strategy(name: str, of: TrialSetting) -> float | None:
    """Return C·t⁵ for a strategy, by its name; guesses are taken to be right.

    None for other strategies, and where t is above 0.03, larger than C was measured at.
    """
    if name not in _GUESSING + _BLIND or of.plan.tolerance > LARGEST * HARM:
        return None
    worst = GUESSED * max(1.0, of.plan.positions / 1024) ** 1.5 if name in _GUESSING else BLIND
    return float(worst * (of.plan.tolerance / HARM) ** 5)


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


def coefficient(found: Floats, runs: int, t: float) -> float:
    """Return C at this t, from the `ratios` that so many runs gave."""
    return float(2 * np.searchsorted(found, t, side="right") / (runs * (runs - 1) * t**5))
