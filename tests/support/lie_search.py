"""How often luck lets a lie pass, at tolerances so loose that it is seen.

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

from fhe_auc_benchmarks.attacks.blinded_auc.simulated import solved
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Trials
from fhe_auc_protocols.blinded_auc.masked_shares import Complex, Floats

MOST = 0.05
"""Largest t for which `ratios` finds every pair that passes: runs amplify errors at most tenfold."""


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
