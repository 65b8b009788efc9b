"""What all attacks have in common: sites with made-up rows, what comes of a trial, and the tally of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.rows.party_data import PartyData

Strategy = TypeVar("Strategy")
HARM = 0.001  # an accepted AUC this far from the honest one counts as an attack that passed, where AUCs are approximate
CONFIDENCE = 0.95  # of the upper bounds on pass rates
PASSED, HARMLESS = "passed", "harmless"  # verdicts of trials that no check refuses
SITES = ("north", "south", "east")
_SITE_ROWS = (40, 81)
_POSITIVES = 0.4


def strategy_of(name: str, strategies: Mapping[str, Strategy]) -> Strategy:
    """Return the strategy of that name; raise `InputError`, which names those that there are, where there is none."""
    if name not in strategies:
        raise InputError(f"there is no attack {name!r} on this protocol; known are {', '.join(strategies)}")
    return strategies[name]


def made_up_sites(
    generator: np.random.Generator, names: Sequence[str] = SITES, analysis: Analysis = PLAIN
) -> list[PartyData]:
    """Return sites with 40 to 80 rows each, of both labels, for an analysis without classes."""
    found = []
    for name in names:
        labels = generator.random(int(generator.integers(*_SITE_ROWS))) < _POSITIVES
        labels[:2] = True, False
        scores = {}
        for model in analysis.models:
            shift = generator.uniform(0.05, 0.3)
            scores[model] = np.clip(generator.normal(0.4 + shift * labels, 0.2), 0, 1)
        groups = {each.name: generator.choice(each.levels, len(labels)) for each in analysis.by}
        found.append(PartyData.from_columns(name, labels, scores, groups, analysis))
    return found


def verdict(is_right: Callable[[], bool], refused_by: Callable[[FheAucError], str]) -> str:
    """Return `PASSED`, `HARMLESS`, or what `refused_by` makes of the error with which a party refuses its result.

    `is_right` has the party read the result, and tells whether what it accepts is right.
    """
    try:
        return HARMLESS if is_right() else PASSED
    except FheAucError as error:
        return refused_by(error)


@dataclass(frozen=True)
class AttackOutcome:
    """What came of an attack: trials = passed + harmless + all that were refused."""

    trials: int
    passed: int
    """A party accepted a wrong result."""
    changed: int
    """The result was not an honest one, whether it was refused or not."""
    harmless: int
    """A party accepted, and what it accepted was right, or as good as right."""
    refused: dict[str, int]
    """How many trials each check refused, by the check's name."""

    @classmethod
    def counted(cls, verdicts: Mapping[str, int], *, changed: int) -> AttackOutcome:
        """Return the outcome of trials by verdict: `PASSED`, `HARMLESS`, or the name of the check that refused."""
        refused = {check: number for check, number in verdicts.items() if check not in (PASSED, HARMLESS)}
        return cls(sum(verdicts.values()), verdicts.get(PASSED, 0), changed, verdicts.get(HARMLESS, 0), refused)

    def summary(self) -> dict[str, Any]:
        """Return all numbers for JSON, the pass rate, and what it lies below with `CONFIDENCE`."""
        below = clopper_pearson(self.passed, self.trials)
        return {**asdict(self), "pass_rate": self.passed / self.trials, "pass_rate_below": below}


def clopper_pearson(passes: int, trials: int) -> float:
    """Return the one-sided Clopper-Pearson upper bound on a probability, with `CONFIDENCE`, from passes in trials."""
    if passes >= trials:
        return 1.0
    from scipy import stats  # `demo --cheat` does without

    return float(stats.beta.ppf(CONFIDENCE, passes + 1, trials - passes))
