"""Sums over sites: what each party says of itself as a site, for each model, of its rows of labels 0 and 1.

The vector "sites m0" of a party's sketch has eleven entries, and each one's sum is released: D; P·N; 1 if there are
both labels; if the site's AUC has a standard error, 1, w, wθ, wθ², w², θ and θ² (`fhe_auc.results.heterogeneity`); and
(PN)²v/max_rows, with its AUC's variance v: at most max_rows². All but the first four are times 2^fraction_bits, the
last one is rounded up. w is at most the number of rows, |θ| at most 16: more would be an accident of few rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from fhe_auc.base.errors import CapacityError
from fhe_auc.results.delong import hanley_mcneil, of_bins
from fhe_auc.results.heterogeneity import LEAST_SITES, WITHIN, SiteSummary, UsableSites, random_effects
from fhe_auc.results.intervals import on_logit_scale
from fhe_auc.session.plan import Parameter
from fhe_auc.sums.terms import Factor, Sum
from fhe_auc_protocols.exact_auc.release_part import Agreed, Counts, Reading, ReleasePart, Rows, Said, Vectors

_ENTRIES = ("D", "PN", "both", "usable", "w", "wt", "wtt", "ww", "t", "tt", "PNPNv")
_LARGEST_LOGIT = 16
_MOST_FRACTION_BITS = 20
_IMPOSSIBLE = "the sums over sites cannot be those of sites: a party has made some up, so they are not shown"


@dataclass(frozen=True)
class PooledSites:
    """D, PN and (PN)²v of all sites' own pairs; how many sites have both classes; and the sums of the usable ones."""

    difference: int
    pairs: int
    both_classes: int
    usable: UsableSites
    variance: Fraction

    def possible(self, parties: int) -> bool:
        """Tell whether so many parties' entries can add up to this; a party can enter anything."""
        among = 0 <= self.usable.usable <= self.both_classes <= parties
        pairs = max(abs(self.difference), self.both_classes) <= self.pairs  # a site with both classes has one at least
        return among and pairs and self.usable.weight_square >= 0 and self.variance >= 0

    def summary(self, model: str, parties: int, level: float | None) -> SiteSummary:
        """Return what so many sites have in common."""
        enough = self.both_classes >= LEAST_SITES
        summary = SiteSummary(
            model=model,
            within=0.5 + self.difference / (2 * self.pairs) if enough else None,
            both_classes=self.both_classes,
            one_class=parties - self.both_classes,
            usable=self.usable.usable,
        )
        if not enough or level is None:
            return summary
        within, error = Fraction(self.difference, 2 * self.pairs), math.sqrt(self.variance) / self.pairs
        interval = on_logit_scale(within + Fraction(1, 2), error, level, WITHIN)
        return replace(random_effects(summary, self.usable, level), within_interval=interval)


@dataclass(frozen=True)
class SiteSums(ReleasePart):
    """Those of so many models."""

    models: int
    unproved = "sites"

    @property
    def vectors(self) -> Vectors:
        """Each model's vector, with its length."""
        return [(f"sites m{model}", len(_ENTRIES)) for model in range(self.models)]

    @property
    def sums(self) -> Sequence[Sum]:
        """What is released."""
        picks = [Factor(constants=tuple(int(at == own) for at in _ENTRIES)) for own in _ENTRIES]
        return [
            Sum.product(f"{name} m{model}", Factor.each([f"sites m{model}"]), pick)
            for model in range(self.models)
            for name, pick in zip(_ENTRIES, picks, strict=True)
        ]

    def check_plan(self, plan: Agreed) -> None:
        """Raise `CapacityError` where parties are too few."""
        if not (plan.interval and plan.parties >= LEAST_SITES):
            raise CapacityError(
                f"heterogeneity takes {LEAST_SITES} parties or more (here {plan.parties}), an interval and sealed keys"
            )

    def terms(self) -> Sequence[Parameter]:
        """Return what parties agree to."""
        why = "who knows all sites with rows of both labels but three can work out these three's AUCs"
        return [Parameter("sums over sites", "yes", why)]

    def of_party(self, rows: Rows, counts: Counts, max_rows: int, modulus: int) -> Sequence[Counts]:
        """Return a party's vectors; sums round to what there is room for."""
        return [_site(own, max_rows, fraction_bits(max_rows, modulus)) for own in counts]

    def read_sums(self, sums: Sequence[int], reading: Reading) -> None:
        """Read the sums of each model."""
        scale, given = 1 << fraction_bits(reading.max_rows, reading.modulus), iter(sums)
        by_model = []
        for _ in range(self.models):
            difference, pairs, both, usable, *scaled = (next(given) for _ in _ENTRIES)
            *weights, variance = (Fraction(number, scale) for number in scaled)
            of_usable = UsableSites(usable, *weights)
            by_model.append(PooledSites(difference, pairs, both, of_usable, variance * reading.max_rows))
        reading.sayings.append(partial(_said, by_model))


def _said(by_model: Sequence[PooledSites], reading: Reading) -> Said:
    """Return what sites have in common, model by model; nothing, and why, where sums cannot be those of sites."""
    parties, models = len(reading.counted), reading.analysis.models
    if not all(own.possible(parties) for own in by_model):
        return Said(warnings=(_IMPOSSIBLE,))
    named = zip(models if len(models) > 1 else ("",), by_model, strict=True)
    return Said(sites=tuple(own.summary(model, parties, reading.level) for model, own in named))


def fraction_bits(max_rows: int, modulus: int) -> int:
    """Return after how many binary places weights are rounded: sums need room, and entries stay below 2^62."""
    largest = max(max_rows**2, _LARGEST_LOGIT**2 * max_rows)
    room = min(modulus // (2 * largest), 2**62 // largest)
    return max(0, min(_MOST_FRACTION_BITS, room.bit_length() - 1))


def _site(rows: Counts, max_rows: int, bits: int) -> Counts:
    entries = np.zeros(len(_ENTRIES), np.int64)
    negatives, positives = rows
    ones, zeros = int(positives.sum()), int(negatives.sum())
    pairs = ones * zeros
    if not pairs:
        return entries
    auc, standard_error = of_bins(positives, negatives)
    entries[:3] = int((auc - Fraction(1, 2)) * 2 * pairs), pairs, 1
    own = hanley_mcneil(auc, ones, zeros) if standard_error is None else standard_error
    entries[-1] = math.ceil((pairs * own) ** 2 / max_rows * 2**bits)
    if standard_error and 0 < auc < 1:
        weight = min((float(auc * (1 - auc)) / standard_error) ** 2, float(ones + zeros))
        theta = max(-_LARGEST_LOGIT, min(_LARGEST_LOGIT, math.log(auc / (1 - auc))))
        scaled = (weight, weight * theta, weight * theta**2, weight**2, theta, theta**2)
        entries[3:-1] = 1, *(round(number * 2**bits) for number in scaled)
    return entries
