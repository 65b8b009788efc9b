"""What comes of an attack that is played many times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

HARM = 0.001
"""An accepted AUC this far from the honest one counts as an attack that passed, where AUCs are approximate."""

CONFIDENCE = 0.95
"""Of the upper bounds on pass rates."""

PASSED, HARMLESS = "passed", "harmless"
"""Verdicts of trials that no check refuses."""


@dataclass(frozen=True)
class AttackOutcome:
    """What came of an attack: trials = passed + harmless + all that were refused.

    Attributes
    ----------
    trials : int
    passed : int
        A party accepted a wrong result.
    changed : int
        The result was not an honest one, whether it was refused or not.
    harmless : int
        A party accepted, and what it accepted was right, or as good as right.
    refused : dict of str to int
        How many trials each check refused, by the check's name.
    """

    trials: int
    passed: int
    changed: int
    harmless: int
    refused: dict[str, int]

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
