"""A differentially private AUC: noise that parties draw in shares, and nobody knows as a whole.

Released are, of each model, D' = D + η and once P' = P + ζ, and nothing else; D and P are those of `auc_sums`. M, how
many rows each party has, is public. AUC' = ½ + D'/(2P'(M − P')).

**Privacy unit.** "label": one row's label flips. "row": one row, label and score, is replaced by another.

**What that changes.** Let a row have s more of the other rows in lower bins than in higher ones, so that |s| ≤ M − 1.

    its label flips        D by s or −s: M − 1 at most; P by 1
    replaced, same label   D by 2N at most (a positive row) or 2P (a negative one), so by 2(M − 1); P stays
    replaced, other label  its pairs before and after are with every other row once: D by M − 1 at most; P by 1

**Noise on D.** η = g·Z + Σ U_i, with Z discrete Laplace of scale q/ε₁, and U_i each counted party's own, uniform on
0 … g − 1. One U alone makes (D + U) modulo g uniform, whatever D is. Given that remainder, D + U and D* + U* for D* at
most j·g away differ by less than (j + 1)·g and by a multiple of g: by j·g at most. So g·Z hides the step with
j·ε₁/q, exactly; the other U_i are added afterwards. Their mean, (g − 1)/2 each, is taken off when AUC' is read. q is
small, so that Z is drawn at a small scale. It is even, and q·g is at least what D can change by.

**Noise on P.** ζ discrete Laplace of scale 1/ε₂.

**Budget** of the m models together.

    label   every D and P change:               m·ε₁ + ε₂ = ε, with ε₂ = ε/4
    row     label stays: every D, by 2(M − 1):  m·ε₁ = ε
            label changes: every D, by M − 1 ≤ (q/2)·g, and P: m·ε₁/2 + ε₂ = ε, with ε₂ = ε/2

So for rows P's noise costs D nothing: what changes P changes D half as much.

**Shares.** A discrete Laplace variable is the sum of n Pólya shares (`fhe_auc_protocols.polya`). n is one fewer than
must take part, as a party knows its own share, and fewer by the `colluders` that pool theirs. More shares add
independent noise.

**What it rests on.** At least n of the parties counted draw their shares and tell nobody. Whoever leaves its share out
is one more colluder; whoever makes it huge spoils the result; nobody can check either. A party and the aggregator
together, or the key holder or a helper and the aggregator, see the exact pool, without noise. The authenticators of
`verified` have the aggregator compute these two numbers and no others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.errors import InputError
from fhe_auc.estimates import Estimate
from fhe_auc.intervals import Interval, hanley_mcneil, quantile
from fhe_auc.manifest import Manifest
from fhe_auc.plan import Parameter
from fhe_auc_protocols.exact_sampling import Source, integers, secure
from fhe_auc_protocols.option_values import checked_epsilon, is_whole
from fhe_auc_protocols.polya import polya

Unit = Literal["row", "label"]

METHOD = "Hanley and McNeil, with noise"

_OVERFLOW_BITS = 42
"""A released number wraps with a probability below 2^-41: its noise leaves the room for it."""

_FEWEST_STEPS = 16
_LOUD = 0.02  # a standard error by noise alone that is worth a warning
_MOST_COLLUDERS = 2**20
_NAMES = ("epsilon", "epsilon_unit", "colluders")


class Privacy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A session's budget, and what follows from it.

    Attributes
    ----------
    epsilon : float
        Budget of all that is released, from 0.000001 to 32.
    unit : "row" or "label"
        What it protects.
    rows : tuple of int
        How many rows each party has and submits, in the order of the manifest's parties; at least 1 each, 2 together.
    models : int
        Columns of scores that share the budget.
    shares : int
        n: so many shares make up the noise that is promised; from 1 to the number of parties.

    Raises `InputError` where they cannot be that.
    """

    epsilon: float
    unit: Unit
    rows: tuple[int, ...]
    models: int
    shares: int

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        if self.unit not in get_args(Unit):
            raise InputError(f"epsilon_unit must be row or label, got {self.unit!a}")
        if min(self.rows, default=0) < 1 or self.total < 2:
            raise InputError("a private AUC takes the number of rows of each party, 1 at least, and 2 of all")
        if not 1 <= self.shares <= len(self.rows) or self.models < 1:
            raise InputError(f"noise of {self.shares} shares for {self.models} models, by {len(self.rows)} parties")

    @classmethod
    def of(cls, options: Mapping[str, Any], rows: Sequence[int] | None, least: int, models: int) -> Privacy | None:
        """Return what a request's options ask for, if anything; `least` parties must take part at least.

        Raises `InputError`: an option is of a wrong value, or nobody has said how many rows each party has.
        """
        asked = agreed(options)
        if not asked:
            return None
        if rows is None:
            raise InputError("epsilon takes the number of rows of every party: give the study a row cap for each")
        shares = max(1, least - 1) - int(asked["colluders"])
        if shares < 1:
            raise InputError(f"of {least} parties that must take part, {asked['colluders']} cannot collude")
        unit: Any = asked["epsilon_unit"]
        return cls(epsilon=float(asked["epsilon"]), unit=unit, rows=tuple(rows), models=models, shares=shares)

    def options(self, manifest: Manifest) -> dict[str, bool | int | float | str]:
        """Return what `agreed` finds in a manifest that fits."""
        colluders = max(1, manifest.min_parties - 1) - self.shares
        return {"epsilon": self.epsilon, "epsilon_unit": self.unit, "colluders": colluders}

    @property
    def total(self) -> int:
        """M of all parties; their noise is for so many rows, also where some are missing."""
        return sum(self.rows)

    @property
    def sensitivity(self) -> int:
        """By how much D can change."""
        return (self.total - 1) * (2 if self.unit == "row" else 1)

    @cached_property
    def epsilons(self) -> tuple[Fraction, Fraction]:
        """ε₁ of each model's D, and ε₂ of P."""
        epsilon = Fraction(self.epsilon)
        if self.unit == "row":
            return epsilon / self.models, epsilon / 2
        return 3 * epsilon / (4 * self.models), epsilon / 4

    @cached_property
    def grain(self) -> int:
        """g: the noise on D is a multiple of it, and as many numbers below it as parties.

        As large as leaves these at most about 1 % of the noise's variance: K·g²/12 of 2·(q·g/ε₁)².
        """
        steps = max(_FEWEST_STEPS, 1 + math.isqrt(math.ceil(4 * self.epsilons[0] ** 2 * len(self.rows))))
        return -(-self.sensitivity // (steps + steps % 2))

    @cached_property
    def steps(self) -> int:
        """q, even: so many times g is at least what D can change by."""
        return 2 * -(-self.sensitivity // (2 * self.grain))

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """Of the discrete Laplace variables, before D's is multiplied by g."""
        first, second = self.epsilons
        return self.steps / first, 1 / second

    def noise(self, parties: int = 1, source: Source | None = None) -> NDArray[np.int64]:
        """Draw the shares of so many parties, shape (parties, models + 1): of each model's D, then of P.

        Without a source, words come from a secure one.
        """
        words = secure() if source is None else source
        of_difference, of_positives = self.scales
        size = parties * self.models
        of_models = self.grain * polya(size, of_difference, self.shares, words) + integers(words, self.grain, size)
        return np.column_stack(
            [of_models.reshape(parties, self.models), polya(parties, of_positives, self.shares, words)]
        )

    def variances(self, parties: int) -> tuple[float, float]:
        """Return the variances of the noise on a D and on P, of so many counted parties."""
        of_difference, of_positives = (
            2 * parties / self.shares * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2 for scale in self.scales
        )
        return self.grain**2 * of_difference + parties * (self.grain**2 - 1) / 12, of_positives

    def describe(self) -> list[Parameter]:
        """Return what parties agree to."""
        told = {"row": "label and score of a row, whatever they are", "label": "the label of a row"}[self.unit]
        return [
            Parameter(
                "epsilon", f"{self.epsilon:g} a {self.unit}", f"bounds what all that is released tells of {told}"
            ),
            Parameter("rows, in public", f"{self.total:,}", "each party has as many as its row cap, no fewer"),
            Parameter("noise", f"{self.shares} shares", "of so many parties, who keep theirs secret, make all of it"),
        ]

    @property
    def least_modulus(self) -> int:
        """How many values a released number can take, but for a chance of 2^-41 of any of them.

        The sum of r·n Pólya shares is a difference of two variables NB(r, p). By Markov's inequality for p^(−K/2),
        P[K ≥ k] ≤ (1 + √p)^r·p^(k/2) ≤ 2^r·p^(k/2), and p = e^(−1/scale).
        """
        whole = -(-len(self.rows) // self.shares)
        bits = whole + _OVERFLOW_BITS + (2 * self.models + 2).bit_length()
        of_difference, of_positives = (math.ceil(2 * bits * scale * 7 / 10) for scale in self.scales)
        largest = self.total**2 // 4 + self.grain * (of_difference + len(self.rows))
        return 2 * max(largest, self.total + of_positives) + 1


def agreed(options: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Return the options of a private AUC, with their defaults; none where there is no epsilon.

    Raises `InputError` for a wrong value, and for other options of these without epsilon.
    """
    given = {name: options[name] for name in _NAMES if options.get(name) is not None}
    if not given:
        return {}
    if "epsilon" not in given:
        raise InputError(f"{next(iter(given))} goes with epsilon alone")
    unit, colluders = given.get("epsilon_unit", "row"), given.get("colluders", 0)
    if unit not in get_args(Unit):
        raise InputError(f"epsilon_unit must be row or label, got {unit!r}")
    if not is_whole(colluders, range(_MOST_COLLUDERS)):
        raise InputError(f"colluders must be a whole number from 0, got {colluders!r}")
    return {"epsilon": checked_epsilon(given["epsilon"]), "epsilon_unit": unit, "colluders": colluders}


@dataclass(frozen=True)
class PrivateReading:
    """What released numbers say: `differences` of each model, and `positives`, of parties with so many rows each."""

    privacy: Privacy
    models: Sequence[str]
    differences: Sequence[int]
    positives: int
    rows: Sequence[int]
    level: float | None

    def headline(self) -> dict[str, Any]:
        """Return the fields of `Evaluation` for the first model."""
        first = self.estimates()[0]
        return {
            "auc": first.auc,
            "binning_error": math.nan,
            "standard_error": first.standard_error,
            "interval": first.interval,
        }

    def estimates(self) -> tuple[Estimate, ...]:
        """Return one for each model; `PrivateReading` never fails, as an error would tell something too."""
        several = len(self.models) > 1
        return tuple(
            Estimate(model=model if several else "", group="", binning_error=math.nan, **self._estimated(difference))
            for model, difference in zip(self.models, self.differences, strict=True)
        )

    def settings(self) -> dict[str, int | float | str]:
        """Return the budget, the number of positive rows that is released with noise, and the noise of the AUC."""
        privacy = self.privacy
        return {
            "epsilon": privacy.epsilon,
            "epsilon_unit": privacy.unit,
            "noise_shares": privacy.shares,
            "noisy_positives": self.positives,
            "noise_standard_error": max(self._noise(each) for each in self.differences),
        }

    def warnings(self) -> tuple[str, ...]:
        """Return what the reader ought to know; all of it follows from what is released."""
        found = ["epsilon is spent by every session: budgets on the same rows add up"]
        loudest = max(self._noise(each) for each in self.differences)
        if loudest > _LOUD:
            found.append(
                f"the noise alone makes a standard error of {loudest:.2g}: take a larger epsilon, or more rows"
            )
        return tuple(found)

    @property
    def _labels(self) -> tuple[int, int]:
        """P' and M − P', with P' moved into 1 … M − 1."""
        total = sum(self.rows)
        positives = min(max(self.positives, 1), total - 1)
        return positives, total - positives

    def _clamped(self, difference: int) -> Fraction:
        """Return AUC', moved into [0, 1]."""
        positives, negatives = self._labels
        centred = difference - Fraction(len(self.rows) * (self.privacy.grain - 1), 2)
        return min(max(Fraction(1, 2) + centred / (2 * positives * negatives), Fraction(0)), Fraction(1))

    def _noise(self, difference: int) -> float:
        """Return the standard error of AUC' that the noise alone makes (delta method)."""
        positives, negatives = self._labels
        pairs = positives * negatives
        of_difference, of_positives = self.privacy.variances(len(self.rows))
        auc = float(self._clamped(difference))
        slope = (auc - 0.5) * (negatives - positives) / pairs
        return math.sqrt(of_difference / (2 * pairs) ** 2 + slope**2 * of_positives)

    def _estimated(self, difference: int) -> dict[str, Any]:
        auc = self._clamped(difference)
        if self.level is None:
            return {"auc": float(auc)}
        standard_error = math.hypot(hanley_mcneil(auc, *self._labels), self._noise(difference))
        reach = quantile(self.level) * standard_error
        interval = Interval(self.level, max(0.0, float(auc) - reach), min(1.0, float(auc) + reach), METHOD)
        return {"auc": float(auc), "standard_error": standard_error, "interval": interval}
