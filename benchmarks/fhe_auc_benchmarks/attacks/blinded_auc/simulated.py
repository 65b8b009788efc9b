"""The strategies on the numbers that ciphertexts hold, in millions of trials.

What an attack leaves goes through `checked`: `fhe_auc_protocols.blinded_auc.result_check.accept`, vectorised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Trials, TrialSetting, generator
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import STRATEGIES, Parameter
from fhe_auc_benchmarks.attacks.laboratory import HARM, HARMLESS, PASSED, AttackOutcome, strategy_of
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS
from fhe_auc_protocols.blinded_auc.masked_shares import Complex, Floats, dot
from fhe_auc_protocols.blinded_auc.plan import error_bound
from fhe_auc_protocols.blinded_auc.result_check import SLACK, largest_zero

ACCEPTED = ""
REFUSALS = ("finite", "denominator", "executions", "equations", "range")
"""Checks that refuse in turn."""

_CHUNK, _POSITION_CHUNK = 5_000, 100_000  # what caches hold
_PILOT, _PILOT_TOLERANCE = 20_000, 5e-4  # so loose that lies pass, and the best parameter shows


class Verdicts(NamedTuple):
    """The check that refuses each trial, or `ACCEPTED`, and AUC + i·binning error as the party reads it.

    `left` is what is left of the equations, relative to den.
    """

    refused_by: NDArray[np.str_]
    values: Complex
    left: Floats


def checked(trials: Trials, totals: Complex, tolerance: float | None = None) -> Verdicts:
    """Return what `result_check.accept` says to every trial with these totals, (trials, runs, classes), plain units."""
    plan = trials.setting.plan
    tolerance = plan.tolerance if tolerance is None else tolerance
    with np.errstate(all="ignore"):
        values = totals / (2 * trials.products)
        weights = np.abs(trials.products) ** 2
        of_runs, dens, _ = solved(values, weights, trials.den_factors)
        aucs = of_runs.real / dens
        every = len(totals), -1
        num, den, left = solved(values.reshape(every), weights.reshape(every), trials.den_factors.reshape(every))
        found = num / den
        inside = (np.abs(found.real - 0.5) <= 0.5 + tolerance) & (np.abs(found.imag - 0.25) <= 0.25 + tolerance)
        inside &= den <= (1 + SLACK) * 2.0**BLINDING_BITS * plan.workload.max_rows**2 / 2
        agree, fits = np.abs(aucs[:, 0] - aucs[:, 1]) <= tolerance, left <= tolerance * den
        zero, noisy = (largest_zero(plan, noise_shows=shows) for shows in (False, True))
        above = 2 * den > np.where(agree & fits, zero, noisy)
        good = np.isfinite(totals).all(axis=(1, 2)), above, agree, fits, inside
        read = np.clip(found.real, 0, 1) + 1j * np.maximum(found.imag, 0)
        return Verdicts(np.select([~each for each in good], REFUSALS, ACCEPTED), read, left / den)


def solved(values: Complex, weights: Floats, den_factors: Complex) -> tuple[Complex, Floats, Floats]:
    """Return num + i·tie, den, and the norm of what is left, of value = num + i·tie + c·den by least squares."""
    total = dot(weights, 1.0)
    mean, mean_share = (dot(weights, each) / total for each in (values, den_factors))
    apart, apart_share = values - mean[..., None], den_factors - mean_share[..., None]
    den = dot(weights, (apart_share.conj() * apart).real) / dot(weights, np.abs(apart_share) ** 2)
    left = np.sqrt(dot(weights, np.abs(apart - apart_share * den[..., None]) ** 2))
    return mean - mean_share * den, den, left


def _trials(name: str, of: TrialSetting, trials: int, seed: int) -> Iterator[Trials]:
    rng = generator(seed, *name.encode())
    everywhere = STRATEGIES[name].everywhere
    chunk = max(1, _POSITION_CHUNK // of.plan.positions) if everywhere else _CHUNK
    for start in range(0, trials, chunk):
        yield Trials(of, min(chunk, trials - start), rng, everywhere=everywhere)


def best(name: str, of: TrialSetting, seed: int = 0) -> Parameter:
    """Return the parameter with which the strategy passes most often at a loose tolerance; empty where it has none."""
    strategy = STRATEGIES[name]
    if strategy.simulated_lie is None or len(strategy.parameters) == 1:
        return strategy.parameters[0]
    passed: Counter[Parameter] = Counter()
    for each in _trials(name, of, _PILOT // (10 if strategy.everywhere else 1), seed):
        for parameter in strategy.parameters:
            verdicts = checked(each, each.totals(strategy.simulated_lie(each, parameter)), _PILOT_TOLERANCE)
            wrong = np.abs(verdicts.values.real - of.honest.real) >= HARM
            passed[parameter] += int((wrong & (verdicts.refused_by == ACCEPTED)).sum())
    return max(strategy.parameters, key=passed.__getitem__)


def run(
    name: str, of: TrialSetting, trials: int, seed: int = 0, parameter: Parameter | None = None
) -> AttackOutcome | None:
    """Play one of `STRATEGIES`, with its `best` parameter where none is given; None where it cannot be simulated.

    Raises `InputError` for another name.
    """
    lie = strategy_of(name, STRATEGIES).simulated_lie
    if lie is None:
        return None
    value = best(name, of, seed) if parameter is None else parameter
    return _tallied((each, lie(each, value)) for each in _trials(name, of, trials, seed + 1))


def _tallied(played: Iterable[tuple[Trials, Complex]]) -> AttackOutcome:
    verdicts: Counter[str] = Counter()
    changed = 0
    for trials, numbers in played:
        of = trials.setting
        with np.errstate(invalid="ignore"):  # numbers that are none
            refused_by, values, _ = checked(trials, trials.totals(numbers))
        accepted, wrong = refused_by == ACCEPTED, np.abs(values.real - of.honest.real)
        verdicts[PASSED] += int((accepted & (wrong >= HARM)).sum())
        verdicts[HARMLESS] += int((accepted & (wrong < HARM)).sum())
        verdicts.update(refused_by[~accepted].tolist())
        changed += int((~accepted | (wrong > max(of.plan.tolerance, error_bound(of.plan)))).sum())
    return AttackOutcome.counted(+verdicts, changed=changed)  # without zeros
