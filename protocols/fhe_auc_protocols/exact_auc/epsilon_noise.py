"""A differentially private AUC: noise that parties draw in shares, and nobody knows as a whole.

D, P and the ties T, of wide bins, are those of `auc_sums`; M, the number of all rows, is public, as that of each site
is. Released are sums that these follow from, with noise, and nothing else. AUC' = ½ + D'/(2P'(M − P')), of which bins
leave T'/(2P'(M − P')) open. docs/security/verified.md has the noise on a sum X, g·Z + Σ U_i, the proof that it
suffices, and on whom the promise rests; here is what it refers to.

**Privacy unit.** "label": one row's label flips. "row": one row, label and score, is replaced by another.

**What that changes.** A pair of rows puts ±1 into D or 1 into T. So D and T together, |ΔD| + |ΔT|, change by 1 at most
where a pair comes or goes, and by 2 where a row of it has another score. The changed row's pairs are with different
rows, M − 1 at most, before and after together too where its label changes:

    its label flips, or it is replaced by one of the other label    D and T together by M − 1 at most; P by 1
    it is replaced by one of the same label                         D and T together by 2(M − 1); P stays

So T costs next to nothing beside a D: ⌈|ΔD|/g⌉ + ⌈|ΔT|/g⌉ is at most one more than ⌈(|ΔD| + |ΔT|)/g⌉.

**Labels.** D and P change together, so noise is on D + W·P and D − W·P of the first model. The variances of D' and P',
about 4(M − 1)²/ε² and 4/ε², are half of what they would be with ε split in halves. This leaves no room for T: it has an
eighth. Further models release D and T alone, at w + 1 steps together. Models share ε, 8 parts for the first and 5 for
each other one: so the variances of their D are nearly equal.

The mean of the U_i, (g − 1)/2 each, is taken off when AUC' is read. w = ⌈(M − 1)/g⌉ is small, so that Z is drawn at a
small scale.

**Fleets.** No device's number of rows is public, nor M: N is released as P is, and AUC' = ½ + D'/(2P'N'). R = cap·K
rows are the most that the K members can prove. The unit "device" is all that one puts in, c = cap rows, or fewer,
replaced by others; the unit "row" is the same for c = 1. With p0, n0 rows of each label before, p1, n1 after, p0 + n0
and p1 + n1 at most c, and P°, N° of all others, pairs with a row of it are before and after together

    (p0 + p1)·N° + (n0 + n1)·P° + p0·n0 + p1·n1 ≤ max(p0 + p1, n0 + n1)·(P° + N° + c) ≤ s·R,    s that maximum

and D and T together change by that at most; P and N together by |p1 − p0| + |n1 − n0| ≤ 2·min(c, 2c − s). So with
w = ⌈R/g⌉, D and T change by s·w + 1 steps, P and N by 2·min(c, 2c − s). Noise of scale b = 2(c·w + 1)/ε on D and T, and
4c/ε on P and N hides (s·w + 1)/b + 2·min(c, 2c − s)·ε/4c, which is largest at s = c or s = 2c, and ε at most at both.

**What honest noise does not pass.** Z of K parties is the difference of two variables A ~ NB(r, p), r = K/n, p =
e^(−1/scale), so P[|Z| ≥ k] ≤ 2·P[A ≥ k]. By Chernoff, with s = k/(p(k + r)) in the moment (1 − p)^r (1 − ps)^(−r):

    P[A ≥ k] ≤ E[s^A]/s^k = ((1 − p)(k + r)/r)^r · (p(k + r)/k)^k,    for k above the mean rp/(1 − p)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, ResultCheckError
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import Parameter
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.exact_sampling import Source, integers, secure
from fhe_auc_protocols.noise_shares import MOST_SCALE, polya, variance
from fhe_auc_protocols.options import checked_epsilon, is_whole
from fhe_auc_protocols.result_warnings import UNPROVED

Unit = Literal["row", "label", "device"]

VERDICT = (
    "epsilon does not cover whether a result is published: by that alone an aggregator that lies learns one exact bit "
    "of its choice, so treat a refused result as an incident"
)
"""The condition of the guarantee, for whoever reads a plan or a result."""

_OVERFLOW_BITS = 42  # a released number wraps with a probability below 2^-41: its noise leaves the room for it
_INCIDENT_BITS = 20  # honest noise passes what is possible in fewer than one session in 2^20, over all channels
_FEWEST_STEPS = 32
_MOST_COLLUDERS = 2**20
NAMES = ("epsilon", "epsilon_unit", "colluders")  # of options

NO_QUANTILES = (
    "with epsilon, thresholds must not come from the rows, as quantile thresholds do: give others, such as hybrid:5000"
)
_NOT_PROVED = (
    "epsilon holds against a party that lies only where all prove how many rows they have: take a helper (--keys "
    "helper; keys='helper') and a row cap of each site (the study's [row-caps]; row_caps), and no proofs = false"
)
_NO_GROUPS = (
    "epsilon covers models over all rows (--score-columns): how many rows a group or class has is not public, and sums "
    "over sites are of single sites; nor are there intervals by patients. Leave --by, --classes, --heterogeneity and "
    "--cluster out"
)


class Channel(NamedTuple):
    """A released number: D of a model (None: none), or T, plus weight·P, plus noise that is a multiple of `grain`.

    Of the other `label`, N is in the place of P.
    """

    model: int | None
    weight: int
    grain: int
    scale: Fraction
    ties: bool = False
    label: int = 1


class Privacy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A session's budget, and what follows from it; raises `InputError` where its fields cannot be one's."""

    epsilon: float  # budget of all that is released, from 0.000001 to 32
    unit: Unit
    """What it protects: "row" or "label"; in a fleet "device" or "row"."""
    rows: tuple[int, ...]
    """How many rows each party has and submits, in the order of the manifest's parties; 1 each at least, 2 together.
    In a fleet one number: the row cap of every device."""
    models: int  # columns of scores that share the budget
    shares: int  # n: so many shares make up the noise that is promised; from 1 to the number of parties
    members: int = 0  # most devices that submit, of a fleet; 0 where parties have names

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        _check_unit(self.unit, fleet=self.members != 0)
        if min(self.rows, default=0) < 1 or self.total < 2 or (self.members and len(self.rows) > 1):
            raise InputError("a private AUC takes the number of rows of each party, 1 at least, and 2 of all")
        if not 1 <= self.shares <= self.parties or self.models < 1:
            raise InputError(f"noise of {self.shares} shares for {self.models} models, by {self.parties} parties")
        if max(channel.scale for channel in self.channels) > MOST_SCALE:
            raise InputError(f"epsilon = {self.epsilon:g} is too small: the AUC would be noise alone")

    @classmethod
    def of(
        cls, options: Mapping[str, object], rows: Sequence[int], least: int, models: int, members: int = 0
    ) -> Privacy:
        """Return what a request with an epsilon asks for, of `least` parties; raise `InputError` for a wrong value."""
        asked = agreed(options, fleet=members > 0)
        shares = max(1, least - 1) - int(asked["colluders"])
        if shares < 1:
            raise InputError(f"of {least} parties that must take part, {asked['colluders']} cannot collude")
        epsilon, unit = float(asked["epsilon"]), cast("Unit", asked["epsilon_unit"])
        return cls(epsilon=epsilon, unit=unit, rows=tuple(rows), models=models, shares=shares, members=members)

    def for_rows(self, rows: int) -> Privacy:
        """Return the same for so many rows, whoever has them."""
        others = self.parties - 1
        own = (rows // self.members,) if self.members else (rows - others, *[1] * others)
        return msgspec.structs.replace(self, rows=own)

    def options(self, manifest: Manifest) -> dict[str, bool | int | float | str]:
        """Return what `agreed` finds in a manifest that fits."""
        colluders = max(1, manifest.min_parties - 1) - self.shares
        return {"epsilon": self.epsilon, "epsilon_unit": self.unit, "colluders": colluders}

    @property
    def parties(self) -> int:
        """K, most that submit."""
        return self.members or len(self.rows)

    @property
    def total(self) -> int:
        """M of all parties, of a fleet R; their noise is for so many rows, also where some are missing."""
        return sum(self.rows) * (self.members or 1)

    @property
    def _replaced(self) -> int:
        """How many rows are: c."""
        return self.rows[0] if self.unit == "device" else 1

    @property
    def _partners(self) -> int:
        """How many pairs a row is in: M − 1, and in a fleet R."""
        return self.total if self.members else self.total - 1

    @cached_property
    def grain(self) -> int:
        """g: the noise on a D is a multiple of it, and as many numbers below it as parties.

        As large as leaves these at most about 1 % of the noise's variance, or 4 % in a fleet, where devices draw at
        half the scale then: K·g²/12 of 2·(2·c·w·g/ε)².
        """
        share = Fraction(11, 40 if self.members else 10)
        steps = 1 + math.isqrt(math.ceil(Fraction(self.epsilon) ** 2 * self.parties * share))
        return -(-self._partners // -(-max(_FEWEST_STEPS, steps) // self._replaced))

    @property
    def steps(self) -> int:
        """w: so many times g is at least M − 1, in a fleet R."""
        return -(-self._partners // self.grain)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """What is released."""
        epsilon, w, g = Fraction(self.epsilon), self.steps, self.grain
        if self.unit != "label":
            own = 2 * (self._replaced * w + (g > 1)) * self.models / epsilon  # of D and T together
            of_models = (Channel(model, 0, g, own, ties) for model in range(self.models) for ties in (False, True))
            of_labels = [Channel(None, 1, 1, 2 / epsilon)]
            if self.members:
                of_labels = [Channel(None, 1, 1, 4 * self._replaced / epsilon, label=label) for label in (1, 0)]
            return (*of_models, *of_labels)
        steps, part = w + (g > 1), epsilon / (8 + 5 * (self.models - 1))
        both, own = (w + steps) / (7 * part), steps / (5 * part)
        others = (Channel(model, 0, g, own, ties) for model in range(1, self.models) for ties in (False, True))
        return Channel(0, w * g, g, both), Channel(0, -w * g, g, both), Channel(0, 0, g, w / part, True), *others

    def noise(self, parties: int = 1, source: Source | None = None) -> NDArray[np.int64]:
        """Draw so many parties' shares of each channel, (parties, channels); without a source, from a secure one."""
        words = secure() if source is None else source
        shares = []
        for _, _, grain, scale, *_ in self.channels:
            steps = polya(parties, scale, self.shares, words)
            shares.append(grain * steps + integers(words, grain, parties))
        return np.column_stack(shares)

    def check_released(self, released: Sequence[int], parties: int, rows: int) -> None:
        """Check what is released of so many parties and rows; it costs no budget, as it looks at nothing else.

        Raises `ResultCheckError` where a number is none that any such rows give, with noise as honest parties draw it.
        """
        for channel, number in zip(self.channels, released, strict=True):
            low, high = possible(channel, rows)
            reach, grain = self.reach(channel, parties), channel.grain
            if not low - reach * grain <= number <= high + (reach + parties) * grain:
                raise ResultCheckError("a released number is none that rows and noise can give", check="range")

    def reach(self, channel: Channel, parties: int) -> int:
        """Return a number of steps that |Z| of so many parties hardly ever passes: union bound over all channels."""
        r, rate = parties / self.shares, float(1 / channel.scale)
        none, bits = -math.expm1(-rate), _INCIDENT_BITS + 1 + math.log2(len(self.channels))

        def is_rare(k: int) -> bool:
            of_none, of_steps = r * math.log(none * (k + r) / r), k * (math.log1p(r / k) - rate)
            return k * none > r * (1 - none) and of_none + of_steps <= -bits * math.log(2)

        return 1 + bisect_left(range(1, 2**40), True, key=is_rare)

    def variance(self, channel: Channel, parties: int) -> float:
        """Return that of the noise of so many counted parties."""
        of_steps = variance(channel.scale, parties / self.shares)
        return channel.grain**2 * of_steps + parties * (channel.grain**2 - 1) / 12

    def describe(self) -> list[Parameter]:
        """Return what parties agree to."""
        told = {
            "row": "label and score of a row, whatever they are",
            "label": "the label of a row",
            "device": "all rows of a device, whatever they are, up to its row cap",
        }[self.unit]
        covered = Parameter("not covered", "the verdict", VERDICT)
        rows = Parameter("rows, in public", f"{self.total:,}", "each party has as many as its row cap, no fewer")
        if self.members:
            covered = Parameter("not covered", "who computes", UNPROVED)
            rows = Parameter("rows", f"at most {self.total:,}", "all members' row caps: the noise is for so many")
        return [
            Parameter(
                "epsilon", f"{self.epsilon:g} a {self.unit}", f"bounds what all that is released tells of {told}"
            ),
            covered,
            rows,
            Parameter("noise", f"{self.shares:,} shares", "of so many parties, who keep theirs secret, make all of it"),
        ]

    @property
    def least_modulus(self) -> int:
        """How many values a released number can take, but for a chance of 2^-41 of any of them.

        The sum of r·n Pólya shares is a difference of two variables NB(r, p). By Markov's inequality for p^(−K/2),
        P[K ≥ k] ≤ (1 + √p)^r·p^(k/2) ≤ 2^r·p^(k/2), and p = e^(−1/scale).
        """
        whole = -(-self.parties // self.shares)
        bits = whole + _OVERFLOW_BITS + (2 * len(self.channels)).bit_length()
        largest = 0
        for model, weight, grain, scale, *_ in self.channels:
            exact = (0 if model is None else self.total**2 // 4) + abs(weight) * self.total
            largest = max(largest, exact + grain * (math.ceil(2 * bits * scale * 7 / 10) + self.parties))
        return 2 * largest + 1


def budget(request: Request) -> Privacy | None:
    """Return the budget that a request asks for, None without epsilon; `InputError`: it cannot be kept."""
    fleet = request.fleet
    if not agreed(request.options, fleet=fleet is not None):
        return None
    given, analysis = request.row_caps, request.analysis
    proved = isinstance(given, int) or (fleet is None and set(request.parties) <= set(given or ()))
    if request.keys != "helper" or not proved:
        raise InputError(_NOT_PROVED)
    if analysis.by or analysis.classes or analysis.heterogeneity or analysis.cluster:
        raise InputError(_NO_GROUPS)
    least = request.size if request.min_parties is None else request.min_parties
    members = 0 if fleet is None else fleet.members
    return Privacy.of(request.options, request.caps, least, len(analysis.models), members)


def possible(channel: Channel, rows: int) -> tuple[int, int]:
    """Return the least and the largest that a channel's exact number can be: |D|, T ≤ P(M − P), and 0 ≤ P ≤ M."""
    if channel.model is None:
        return 0, channel.weight * rows

    def most(weight: int) -> int:
        positives = min(max((rows + weight) // 2, 0), rows)  # where P(M − P) + weight·P is largest
        return positives * (rows - positives + weight)

    return 0 if channel.ties else -most(-channel.weight), most(channel.weight)


def _check_unit(unit: object, *, fleet: bool) -> None:
    if unit not in (known := ("device", "row") if fleet else ("row", "label")):
        raise InputError(f"epsilon_unit must be {' or '.join(known)}{' in a fleet' * fleet}, got {unit!a}")


def agreed(options: Mapping[str, object], *, fleet: bool = False) -> dict[str, bool | int | float | str]:
    """Return the options of a private AUC with defaults, none without epsilon; raise `InputError` for wrong ones."""
    given = {name: options[name] for name in NAMES if options.get(name) is not None}
    if not given:
        return {}
    if "epsilon" not in given:
        raise InputError(f"{next(iter(given))} goes with epsilon alone")
    unit, colluders = given.get("epsilon_unit", "device" if fleet else "row"), given.get("colluders", 0)
    _check_unit(unit, fleet=fleet)
    if not is_whole(colluders, range(_MOST_COLLUDERS)):
        raise InputError(f"colluders must be a whole number from 0, got {colluders!r}")
    return {"epsilon": checked_epsilon(given["epsilon"]), "epsilon_unit": cast("str", unit), "colluders": colluders}
