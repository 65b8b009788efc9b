"""The part of a release with a budget: the numbers of its channels in the place of all others, and what they say.

AUC' and what bins leave open are as `epsilon_noise` says, which has the channels and their noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.results.delong import hanley_mcneil
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.evaluation import NOT_TOLD_APART
from fhe_auc.results.intervals import DEFAULT_LEVEL, Interval, quantile, widened
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.plan import Parameter
from fhe_auc.sums.terms import Factor, Part, Sum, Term
from fhe_auc_protocols.exact_auc.auc_sums import below_less_above, counts_name
from fhe_auc_protocols.exact_auc.epsilon_noise import VERDICT, Channel, Privacy
from fhe_auc_protocols.exact_auc.release_part import Agreed, Counts, Range, Reading, ReleasePart, Rows, Said, Vectors
from fhe_auc_protocols.result_warnings import BUDGETS_ADD_UP, UNPROVED

METHOD = "Hanley and McNeil, with noise"
_LOUD = 0.02  # a standard error by noise alone that is worth a warning


@dataclass(frozen=True)
class NoisySums(ReleasePart):
    """The numbers of a budget's channels, with noise; `tying` picks the bins whose ties count, if not all do."""

    privacy: Privacy
    tying: tuple[Factor, ...]
    ties_meant: bool  # bins hold one number only, each

    @property
    def vectors(self) -> Vectors:
        """A party's shares of the noise on each channel, beside the vectors of its rows."""
        return [(f"noise {index}", 1) for index, _ in enumerate(self.privacy.channels)]

    @property
    def sums(self) -> Sequence[Sum]:
        """What is released."""
        sums = []
        for index, (model, weight, _, _, ties, label) in enumerate(self.privacy.channels):
            of_label = [Part(counts_name(0, 0, label), "total", weight)] if weight else []
            terms = [Term((Factor((*of_label, Part(f"noise {index}", "total"))),))]
            if model is not None:
                p, n = [counts_name(model, 0, 1)], [counts_name(model, 0, 0)]
                others = (Factor.each(n), *self.tying) if ties else (below_less_above(n),)
                terms.append(Term((Factor.each(p), *others)))
            of_model = ("T" if ties else "D") + (f"{model}" if self.privacy.models > 1 else "")
            name = "NP"[label] if model is None else f"{of_model} {'-' if weight < 0 else '+'} {abs(weight)} P"
            sums.append(Sum(name if weight else of_model, tuple(terms)))
        return sums

    def ranges(self, max_rows: int, parties: int) -> Sequence[Range]:
        """Return the range of each number, of either sign, with its noise."""
        most = self.privacy.least_modulus // 2
        return [(-most, most - 1) for _ in self.sums]

    def check_plan(self, plan: Agreed) -> None:
        """Raise `CapacityError` where the budget does not hold."""
        proved = plan.authenticated or self.privacy.members  # of a fleet nothing is, which its devices agree to
        if not proved or plan.caps != self.privacy.rows:  # else one lying party reads exact counts
            raise CapacityError(
                "a private AUC takes verified, and a helper, to whom all prove the rows that they state"
            )
        analysis = plan.analysis
        if plan.interval or analysis.by or analysis.classes or analysis.heterogeneity:
            raise CapacityError("a private AUC is of models over all rows, without other sums")
        if (self.privacy.models, self.privacy.parties) != (len(analysis.models), plan.parties):
            raise CapacityError("the budget is that of another session")

    def terms(self) -> Sequence[Parameter]:
        """Return what parties agree to."""
        return self.privacy.describe()

    def check_rows(self, data: PartyData, index: int | None) -> None:
        """Raise `InputError` unless a party has as many rows as the session says."""
        stated = data.rows if index is None or self.privacy.members else self.privacy.rows[index]
        if data.rows not in (0, stated):  # none are there once they are in, and gone
            raise InputError(
                f"party {data.name!r} has {data.rows:,} rows, and the session says {stated:,}, in public: with "
                "epsilon a party takes part with all of them; have the session made for the rows that there are",
                party=data.name,
            )

    def of_party(self, rows: Rows, counts: Counts, max_rows: int, modulus: int) -> Sequence[Counts]:
        """Return a party's shares of the noise."""
        return [self.privacy.noise()[0]]

    def read_sums(self, sums: Sequence[int], reading: Reading) -> None:
        """Read the numbers; errors as `Privacy.check_released`."""
        parties, (cap, *_) = len(reading.counted), self.privacy.rows
        counted = parties, parties * cap if self.privacy.members else sum(reading.rows)
        self.privacy.check_released(sums, *counted)
        found = PrivateReading(self.privacy, reading.analysis.models, sums, *counted, reading.level, self.ties_meant)
        reading.sayings.append(lambda _: found.said())


@dataclass(frozen=True)
class PrivateReading:
    """What released numbers say, those of the budget's channels in order, of so many parties and rows, or fewer."""

    privacy: Privacy
    models: Sequence[str]
    released: Sequence[int]
    parties: int
    rows: int
    level: float | None
    ties_meant: bool = False  # whether bins hold one number only, each: T then leaves nothing open

    def said(self) -> Said:
        """Return all of it."""
        found = self.estimates()
        return Said(headline=found[0], estimates=found, settings=self.settings(), warnings=self.warnings())

    def estimates(self) -> tuple[GroupEstimate, ...]:
        """Return one for each model, whatever is released: an error would tell something too."""
        return tuple(self._estimate(model) for model in range(len(self.models)))

    def settings(self) -> dict[str, int | float | str]:
        """Return the budget, the number of positive rows that is released with noise, and the noise of the AUC."""
        privacy, open_ = self.privacy, {}
        if not self.ties_meant:
            open_ = {"noisy_binning_error": max(map(self._left_open, range(len(self.models))))[0]}
        asked = {"epsilon": privacy.epsilon, "epsilon_unit": privacy.unit, "noise_shares": privacy.shares}
        noisy = {"noisy_positives": round(float(self._of_label(1)), 1), "noise_standard_error": self._loudest}
        if privacy.members:
            noisy |= {"noisy_negatives": round(float(self._of_label(0)), 1)}
        return {**asked, **noisy, **open_}

    def warnings(self) -> tuple[str, ...]:
        """Return what the reader ought to know; all of it follows from what is released."""
        warnings = []
        for model, estimate in enumerate(self.estimates()):
            (left, below), error = self._left_open(model), estimate.standard_error or _LOUD
            if left > max(error, below - left):
                advice = "intervals are wider by that; take finer thresholds, such as hybrid:5000"
                warnings.append(f"{NOT_TOLD_APART}: about {left:.2g} of the AUC is open, and {advice}")
            elif below > quantile(self.level or DEFAULT_LEVEL) * error:
                warnings.append(
                    f"{NOT_TOLD_APART}, but the noise hides how many: up to {below:.2g} of the AUC may be open"
                )
        warnings += [BUDGETS_ADD_UP, UNPROVED if self.privacy.members else VERDICT]
        if self._loudest > _LOUD:
            warnings.append(
                f"the noise alone makes a standard error of {self._loudest:.2g}: take a larger epsilon, or more rows"
            )
        return tuple(warnings)

    @cached_property
    def _sums(self) -> list[tuple[Channel, Fraction]]:
        """What is released of each channel, less the mean of its noise."""
        return [
            (channel, number - Fraction(self.parties * (channel.grain - 1), 2))
            for channel, number in zip(self.privacy.channels, self.released, strict=True)
        ]

    def _of_label(self, label: int) -> Fraction:
        """P' or N': each channel with a weight says it, but for D, which weights of either sign take out."""
        weighted = [(own.weight, number) for own, number in self._sums if own.weight and own.label == label]
        return sum((number / weight for weight, number in weighted), Fraction(0)) / len(weighted)

    @cached_property
    def _labels(self) -> tuple[Fraction, Fraction]:
        """P' and M − P', in a fleet N', moved into 1 … M − 1."""

        def moved(number: Fraction) -> Fraction:
            return min(max(number, Fraction(1)), Fraction(self.rows - 1))

        positives = moved(self._of_label(1))
        return positives, moved(self._of_label(0)) if self.privacy.members else self.rows - positives

    def _auc(self, model: int) -> Fraction:
        """Return AUC', moved into [0, 1]."""
        positives, negatives = self._labels
        of_model = [number for channel, number in self._sums if channel.model == model and not channel.ties]
        difference = sum(of_model, Fraction(0)) / len(of_model)
        return min(max(Fraction(1, 2) + difference / (2 * positives * negatives), Fraction(0)), Fraction(1))

    def _left_open(self, model: int) -> tuple[float, float]:
        """Return the binning error by T', and what it is below but in one session of twenty; D leaves no more of it."""
        if self.ties_meant:
            return 0.0, 0.0
        ((channel, ties),) = (own for own in self._sums if own[0].model == model and own[0].ties)
        positives, negatives = map(float, self._labels)
        noise = quantile(0.9) * math.sqrt(self.privacy.variance(channel, self.parties))
        left, below = ((max(float(ties), 0.0) + off) / (2 * positives * negatives) for off in (0.0, noise))
        most = 0.5 - abs(float(self._auc(model)) - 0.5)
        return min(left, most), min(below, most)

    def _noise(self, model: int) -> float:
        """Return the standard error of AUC' that the noise alone makes (delta method)."""
        positives, negatives = map(float, self._labels)
        privacy, pairs, slope = self.privacy, positives * negatives, float(self._auc(model) - Fraction(1, 2))
        own = (channel for channel in privacy.channels if channel.model == model and not channel.ties)
        of_model = [privacy.variance(channel, self.parties) for channel in own]
        variance = sum(of_model) / len(of_model) ** 2 / (2 * pairs) ** 2
        slopes = 1 / negatives, 1 / positives - (0 if privacy.members else 1 / negatives)
        for label, steepness in enumerate(slopes):
            weighted = [own for own in privacy.channels if own.weight and own.label == label]
            of_label = [privacy.variance(own, self.parties) / own.weight**2 for own in weighted]
            variance += (slope * steepness) ** 2 * sum(of_label) / max(1, len(of_label)) ** 2
        return math.sqrt(variance)

    @property
    def _loudest(self) -> float:
        return max(self._noise(model) for model in range(len(self.models)))

    def _estimate(self, model: int) -> GroupEstimate:
        name, auc = self.models[model] if len(self.models) > 1 else "", self._auc(model)
        estimate = GroupEstimate(model=name, group="", auc=float(auc), binning_error=math.nan)
        if self.level is None:
            return estimate
        positives, negatives = (max(1, round(rows)) for rows in self._labels)
        standard_error = math.hypot(hanley_mcneil(auc, positives, negatives), self._noise(model))
        reach = quantile(self.level) * standard_error
        interval = Interval(self.level, max(0.0, float(auc) - reach), min(1.0, float(auc) + reach), METHOD)
        left, below = self._left_open(model)
        wider = widened(interval, standard_error, left if left > below - left else 0.0)  # not by noise on T alone
        return replace(estimate, standard_error=standard_error, interval=wider)
