"""The strategies on the numbers that ciphertexts hold, in millions of trials.

What an attack leaves goes through `checked`: `fhe_auc_protocols.blinded_auc.result_check.accept`, vectorised.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from fhe_auc_protocols.blinded_auc.split_shares import Complex
from numpy.typing import NDArray
from scipy.special import comb

from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Floats, Totals, Trials, TrialSetting, generator
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import STRATEGIES, Parameter
from fhe_auc_benchmarks.attacks.laboratory import HARM, HARMLESS, PASSED, AttackOutcome, strategy_of
from fhe_auc_protocols.blinded_auc.error_bound import error_bound

ACCEPTED = ""
REFUSALS = ("slots", "denominator", "executions", "range")
"""Checks that refuse in turn: slots of a class differ, den' near zero, executions disagree, AUC not between 0 and 1."""

_CLASS_CHUNK, _POSITION_CHUNK = 50_000, 2_000_000
_PILOT_DRAWS = 40_000
_MOST_NEIGHBOURS = 2_000


class Verdicts(NamedTuple):
    """The check that refuses, or `ACCEPTED`, and AUC + i·binning error as the party reads it; shape (trials,) both."""

    refused_by: NDArray[np.str_]
    values: Complex


def checked(trials: Trials, totals: Totals) -> Verdicts:
    """Return what `result_check.accept` says to every trial with these totals, of shape (trials, E)."""
    chosen, allowed = trials.setting.plan, trials.windows
    zero = chosen.least_multiplier * chosen.packing.gain * np.abs(trials.products[..., 2])
    with np.errstate(all="ignore"):
        found = trials.recovered(totals)
        agree = np.ones(len(found), bool)
        for one in range(found.shape[1]):
            for other in range(one):
                difference = found[:, one] - found[:, other]
                apart = np.maximum(np.abs(difference.real), np.abs(difference.imag))
                agree &= apart <= np.hypot(allowed[:, one], allowed[:, other])
        weights = allowed**-2.0
        values = (weights * found).sum(axis=1) / weights.sum(axis=1)
        inside = (values.real >= -chosen.tolerance) & (values.real <= 1 + chosen.tolerance)
        slots_differ = np.zeros(len(found), bool) if totals.slots_differ is None else totals.slots_differ
        refused = slots_differ, (np.abs(totals.dens) < zero).any(axis=1), ~agree, ~inside
        read = np.clip(values.real, 0, 1) + 1j * np.maximum(values.imag, 0)
    return Verdicts(np.select(refused, REFUSALS, ACCEPTED), read)


def _trials(name: str, of: TrialSetting, trials: int, seed: int) -> Iterator[Trials]:
    rng = generator(seed, *name.encode())
    chunk = _CLASS_CHUNK
    if name in STRATEGIES and STRATEGIES[name].by_position:
        chunk = max(1, min(chunk, _POSITION_CHUNK // (of.positions * of.executions)))
    for start in range(0, trials, chunk):
        yield Trials(of, min(chunk, trials - start), rng)


def honest(of: TrialSetting, trials: int, seed: int) -> AttackOutcome:
    """Return what comes of an aggregator that does what it should."""
    return _tallied((each, each.totals(each.nums, each.dens)) for each in _trials("", of, trials, seed))


def best(name: str, of: TrialSetting, seed: int = 0) -> Parameter:
    """Return the strategy's best parameter: that with the largest `estimate`; empty where it has none."""
    candidates = STRATEGIES[name].parameters
    parameters = candidates(of) if candidates else ((),)
    if len(parameters) == 1:
        return parameters[0]
    found = _shifted(name, of, parameters, _PILOT_DRAWS, seed)
    # Where no E-tuple agrees, pairs still tell which parameter is the best.
    return max(parameters, key=lambda each: [found.agreeing(each, size) for size in (of.executions, 2)])


def estimate(name: str, of: TrialSetting, parameter: Parameter, draws: int = 200_000, seed: int = 0) -> float:
    """Return how likely the strategy passes with a wrong AUC, estimated from all E-tuples of independent executions.

    Which E of many independent executions form a session does not matter. So of M draws all M!/(E!·(M-E)!) tuples
    count, and probabilities far below 1/M show. Sorted by the AUC found, each is the least of a tuple with those that
    follow it and agree with it: true of all tuples that pass, and, where E > 2, of some that do not.
    """
    return _shifted(name, of, (parameter,), draws, seed).agreeing(parameter, of.executions)


class _Shifted(NamedTuple):
    """What many independent executions come out as under an attack, by parameter, and each one's window."""

    setting: TrialSetting
    values: dict[Parameter, Complex]
    windows: Floats

    def agreeing(self, parameter: Parameter, executions: int) -> float:
        """Return the share of tuples of so many executions that agree on a wrong AUC between 0 and 1."""
        found, tolerance = self.values[parameter], self.setting.plan.tolerance
        wrong = np.abs(found.real - self.setting.honest.real) >= HARM
        wrong &= np.abs(found.real - 0.5) <= 0.5 + tolerance
        order = np.flatnonzero(wrong)[np.argsort(found.real[wrong])]
        values, allowed = found[order], self.windows[order]
        following = np.zeros(len(order), np.int64)
        for step in range(1, min(_MOST_NEIGHBOURS, len(order))):
            difference = values[step:] - values[:-step]
            if difference.real.min() > math.sqrt(2) * tolerance:
                break
            apart = np.maximum(difference.real, np.abs(difference.imag))
            following[:-step] += apart <= np.hypot(allowed[step:], allowed[:-step])
        return float(math.fsum(comb(following, executions - 1)) / comb(len(found), executions))


def _shifted(name: str, of: TrialSetting, parameters: tuple[Parameter, ...], draws: int, seed: int) -> _Shifted:
    lie = STRATEGIES[name].simulated_lie
    found: dict[Parameter, list[Complex]] = {parameter: [] for parameter in parameters}
    allowed = []
    draws = min(draws, int(1 / of.plan.tolerance))  # or there are more neighbours than are looked at
    for each in _trials(name, of, draws // of.executions, seed):
        allowed.append(each.windows.ravel())
        for parameter in parameters:
            found[parameter].append(each.recovered(lie(each, parameter)).ravel())
    return _Shifted(of, {each: np.concatenate(parts) for each, parts in found.items()}, np.concatenate(allowed))


def run(name: str, of: TrialSetting, trials: int, seed: int = 0, parameter: Parameter | None = None) -> AttackOutcome:
    """Play one of `STRATEGIES`, with its `best` parameter where none is given; raise `InputError` for another name."""
    lie = strategy_of(name, STRATEGIES).simulated_lie
    value = best(name, of, seed) if parameter is None else parameter
    return _tallied((each, lie(each, value)) for each in _trials(name, of, trials, seed + 1))


def _tallied(played: Iterable[tuple[Trials, Totals]]) -> AttackOutcome:
    verdicts: Counter[str] = Counter()
    changed = 0
    for trials, totals in played:
        of = trials.setting
        refused_by, values = checked(trials, totals)
        accepted, wrong = refused_by == ACCEPTED, np.abs(values.real - of.honest.real)
        verdicts[PASSED] += int((accepted & (wrong >= HARM)).sum())
        verdicts[HARMLESS] += int((accepted & (wrong < HARM)).sum())
        verdicts.update(refused_by[~accepted].tolist())
        changed += int((~accepted | (wrong > max(of.plan.tolerance, error_bound(of.plan)))).sum())
    return AttackOutcome.counted(+verdicts, changed=changed)  # without zeros
