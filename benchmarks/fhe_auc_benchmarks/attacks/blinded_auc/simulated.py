"""The strategies on the numbers that ciphertexts hold (`simulated_lies`), in millions of trials.

What an attack leaves goes through the checks of `fhe_auc_protocols.blinded_auc.result_check.accept`, vectorised
(`checked`; a test compares the two).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from fhe_auc.errors import InputError
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_lies import Parameter
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Floats, Setting, Totals, Trials, generator
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import STRATEGIES
from fhe_auc_benchmarks.attacks.outcome import HARM, HARMLESS, PASSED, Outcome
from fhe_auc_protocols.blinded_auc.error_bound import MAX_AMPLIFICATION, error_bound
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.split_shares import Complex, amplification

REFUSALS = ("denominator", "executions", "range", "slots")
"""Checks that refuse: den' near zero, executions disagree, AUC not between 0 and 1, slots of a class differ."""

_ACCEPTED, _DENOMINATOR, _EXECUTIONS, _RANGE, _SLOTS = range(5)
_CLASS_CHUNK, _POSITION_CHUNK = 50_000, 2_000_000
_PILOT_DRAWS = 40_000
_MOST_NEIGHBOURS = 2_000


class Verdicts(NamedTuple):
    """Of every trial: 0 for accepted or 1 + the index into `REFUSALS`; and AUC + i·resolution as the party reads it."""

    codes: NDArray[np.int64]
    values: Complex


def checked(totals: Totals, multipliers: Complex, chosen: AucPlan) -> Verdicts:
    """Return what `result_check.accept` says to every trial; `multipliers` has shape (trials, E, 6)."""
    products = multipliers[..., 0::2] * multipliers[..., 1::2]
    main, extra, whole = (products[..., index] for index in range(3))
    zero = chosen.least_multiplier * chosen.packing.gain * np.abs(whole)
    with np.errstate(all="ignore"):
        found = (totals.nums / totals.dens - extra / whole) * whole / main
        allowed = chosen.tolerance * amplification(multipliers) / MAX_AMPLIFICATION
        agree = np.ones(len(found), bool)
        for one in range(found.shape[1]):
            for other in range(one):
                difference = found[:, one] - found[:, other]
                apart = np.maximum(np.abs(difference.real), np.abs(difference.imag))
                agree &= apart <= np.hypot(allowed[:, one], allowed[:, other])
        weights = allowed**-2.0
        values = (weights * found).sum(axis=1) / weights.sum(axis=1)
        inside = (values.real >= -chosen.tolerance) & (values.real <= 1 + chosen.tolerance)
        codes = np.where(inside, _ACCEPTED, _RANGE)
        codes[~agree] = _EXECUTIONS
        codes[(np.abs(totals.dens) < zero).any(axis=1)] = _DENOMINATOR
        if totals.slots_differ is not None:
            codes[totals.slots_differ] = _SLOTS
        read = np.clip(values.real, 0, 1) + 1j * np.maximum(values.imag, 0)
    return Verdicts(codes, read)


def _trials(name: str, of: Setting, trials: int, seed: int) -> Iterator[Trials]:
    rng = generator(seed, *name.encode())
    chunk = _CLASS_CHUNK
    if name in STRATEGIES and STRATEGIES[name].by_position:
        chunk = max(1, min(chunk, _POSITION_CHUNK // (of.positions * of.executions)))
    for start in range(0, trials, chunk):
        yield Trials(of, min(chunk, trials - start), rng)


def honest(of: Setting, trials: int, seed: int) -> Outcome:
    """Return what comes of an aggregator that does what it should."""
    return _tallied(of, (_judged(each, each.totals(each.nums, each.dens)) for each in _trials("", of, trials, seed)))


def best(name: str, of: Setting, seed: int = 0) -> Parameter:
    """Return the strategy's best parameter: that with the largest `estimate`; empty where it has none."""
    candidates = STRATEGIES[name].parameters
    if candidates is None:
        return ()
    parameters = candidates(of)
    if len(parameters) == 1:
        return parameters[0]
    draws = min(_PILOT_DRAWS, _most_draws(of))
    found = _shifted(name, of, parameters, draws, seed)
    # Where no E-tuple agrees, pairs still tell which parameter is the best.
    return max(parameters, key=lambda each: [found.agreeing(each, size) for size in (of.executions, 2)])


def estimate(name: str, of: Setting, parameter: Parameter, draws: int = 200_000, seed: int = 0) -> float:
    """Return how likely the strategy passes with a wrong AUC, estimated from all E-tuples of independent executions.

    E executions that an attack has shifted pass if they agree; which E of many independent ones these are does not
    matter. So of M draws all M!/(E!·(M-E)!) tuples count, and probabilities far below 1/M show. Sorted by the AUC
    found, each is the least of a tuple with those that follow it and agree with it, which holds for all tuples
    that pass, and for some that do not: the estimate is a little too high where E > 2.
    """
    return _shifted(name, of, (parameter,), min(draws, _most_draws(of)), seed).agreeing(parameter, of.executions)


def _most_draws(of: Setting) -> int:
    """Return how many executions are counted right: of more neighbours than `_MOST_NEIGHBOURS` some would be missed."""
    return int(1 / of.plan.tolerance)


class _Shifted(NamedTuple):
    """What many independent executions come out as under an attack, by parameter, and each one's window."""

    setting: Setting
    values: dict[Parameter, Complex]
    windows: Floats

    def agreeing(self, parameter: Parameter, executions: int) -> float:
        """Return the share of tuples of so many executions that agree on a wrong AUC between 0 and 1."""
        of = self.setting
        return _agreeing(self.values[parameter], self.windows, executions, of.honest.real, of.plan.tolerance)


def _shifted(name: str, of: Setting, parameters: tuple[Parameter, ...], draws: int, seed: int) -> _Shifted:
    lie = STRATEGIES[name].simulated_lie
    chosen = of.plan
    found: dict[Parameter, list[Complex]] = {parameter: [] for parameter in parameters}
    allowed = []
    for each in _trials(name, of, draws // of.executions, seed):
        whole, main = each.products[..., 2], each.products[..., 0]
        allowed.append((chosen.tolerance * amplification(each.multipliers) / MAX_AMPLIFICATION).ravel())
        for parameter in parameters:
            totals = lie(each, parameter)
            values = (totals.nums / totals.dens - each.products[..., 1] / whole) * whole / main
            found[parameter].append(values.ravel())
    return _Shifted(of, {each: np.concatenate(parts) for each, parts in found.items()}, np.concatenate(allowed))


def _agreeing(found: Complex, windows: Floats, executions: int, honest: float, tolerance: float) -> float:
    """Return the share of E-tuples that agree on a wrong AUC between 0 and 1."""
    wrong = (np.abs(found.real - honest) >= HARM) & (np.abs(found.real - 0.5) <= 0.5 + tolerance)
    order = np.flatnonzero(wrong)[np.argsort(found.real[wrong])]
    values, allowed = found[order], windows[order]
    following = np.zeros(len(order), np.int64)
    for step in range(1, min(_MOST_NEIGHBOURS, len(order))):
        difference = values[step:] - values[:-step]
        if difference.real.min() > math.sqrt(2) * tolerance:
            break
        apart = np.maximum(difference.real, np.abs(difference.imag))
        following[:-step] += apart <= np.hypot(allowed[step:], allowed[:-step])
    return float(math.fsum(comb(following, executions - 1)) / comb(len(found), executions))


def run(name: str, of: Setting, trials: int, seed: int = 0, parameter: Parameter | None = None) -> Outcome:
    """Play a strategy.

    Parameters
    ----------
    name : str
        One of `STRATEGIES`.
    of : Setting
    trials : int
    seed : int
    parameter : tuple of float, optional
        The strategy's free parameter; default: the `best`.
    """
    if name not in STRATEGIES:
        raise InputError(f"there is no attack {name!r}; there are {', '.join(STRATEGIES)}")
    lie, value = STRATEGIES[name].simulated_lie, best(name, of, seed) if parameter is None else parameter
    return _tallied(of, (_judged(each, lie(each, value)) for each in _trials(name, of, trials, seed + 1)))


def _judged(trials: Trials, totals: Totals) -> tuple[NDArray[np.int64], Floats]:
    """Return the verdicts, and by how much the AUC read is wrong."""
    verdicts = checked(totals, trials.multipliers, trials.setting.plan)
    return verdicts.codes, np.abs(verdicts.values.real - trials.setting.honest.real)


def _tallied(of: Setting, judged: Iterator[tuple[NDArray[np.int64], Floats]]) -> Outcome:
    verdicts: Counter[str] = Counter()
    changed = 0
    right = max(of.plan.tolerance, error_bound(of.plan))
    for codes, wrong in judged:
        accepted = codes == _ACCEPTED
        verdicts[PASSED] += int((accepted & (wrong >= HARM)).sum())
        verdicts[HARMLESS] += int((accepted & (wrong < HARM)).sum())
        changed += int((~accepted | (wrong > right)).sum())
        for code, check in enumerate(REFUSALS, start=1):
            verdicts[check] += int((codes == code).sum())
    return Outcome.counted(+verdicts, changed=changed)  # without zeros
