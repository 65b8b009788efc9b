"""From the sums of a result to estimates with intervals, comparisons of models, and what sites have in common."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from fhe_auc.base.errors import UndefinedAucError
from fhe_auc.metrics.small_cells import hidden_rows
from fhe_auc.question.analysis import Analysis, Contrast
from fhe_auc.results import intervals
from fhe_auc.results.estimates import NESTED, ONE_CLASS, Comparison, GroupEstimate, Headline, too_few
from fhe_auc.results.heterogeneity import LEAST_SITES, WITHIN, SiteSummary, random_effects
from fhe_auc.results.intervals import Components, Interval, OneModel, PairedError
from fhe_auc.results.result_tables import p_text
from fhe_auc_protocols.exact_auc.analysis_sums import PooledSums
from fhe_auc_protocols.exact_auc.auc_sums import AucOfSums
from fhe_auc_protocols.result_warnings import FEW_VALUES

_NO_INTERVAL = "there is no confidence interval: each label needs two rows; give the numbers of rows instead"
_NO_SPREAD = (
    "there is no confidence interval: over these thresholds all pairs of rows come out alike; give the numbers of rows "
    "instead"
)

_ALIKE_IDS = 0.95  # a share of different ids among rows that is no patients'
_IDS_OF_ROWS = "nearly every row has an id of its own in column {column!r}: it may be one of rows, not of patients"
_BOTH_LABELS = (
    "some patients have rows of both labels (by {column!r}): right if visits have outcomes of their own, only"
)

_IMPOSSIBLE_SITES = "the sums over sites cannot be those of sites: a party has made some up, so they are not shown"

_SMALL_GROUPS = "small groups are shown (min_cell 1): a count from 1 to 9 may tell who is meant"

_TWO_DECIMALS = "of scores rounded to two decimals it is exact (--round-scores 2)"
_ALIKE = 0.05  # a difference with a standard error below this share of a model's own is that of about the same ranking

MEAN_OF_CLASSES = "each from others, mean"

_AVERAGE = (
    "the AUC is the average over all pairs of classes (Hand and Till); its interval, and that of the mean of classes, "
    "are as if classes erred together, and up to a half too wide; those of single classes are not"
)


@dataclass(frozen=True)
class Reading:
    """What sums say, for an analysis; `level` is that of intervals, None where none are wanted.

    `plain` intervals are not made on the logit scale. `quantiles` tells that a session before has found the thresholds:
    that is not advised again.
    """

    analysis: Analysis
    sums: PooledSums
    parties: int
    level: float | None
    plain: bool = False
    quantiles: bool = False

    @property
    def _contrasts(self) -> list[tuple[Contrast, AucOfSums]]:
        return list(zip(self.analysis.contrasts, self.sums.estimates, strict=True))

    def headline(self) -> Headline:
        """Return what there is to say of the first model or all classes; raise `UndefinedAucError` without an AUC."""
        if self.analysis.classes:
            return self._of_classes()
        first = self.sums.estimates[0]
        if first.auc is None:
            missing = "negative" if first.positives else "positive"
            raise UndefinedAucError(
                f"the pooled rows hold no {missing} row, so the AUC is undefined; no number is given"
            )
        standard_error, interval = self._interval(self.analysis.contrasts[0], first)
        return Headline(
            auc=float(first.auc),
            binning_error=float(first.binning_error),
            fraction=first.auc,
            binning_error_fraction=first.binning_error,
            positives=first.positives,
            negatives=first.negatives,
            standard_error=standard_error,
            interval=interval,
        )

    def estimates(self) -> tuple[GroupEstimate, ...]:
        """Return one for each contrast, and the mean of classes; of groups that are too small only that they are."""
        found = tuple(self._estimate(contrast, found) for contrast, found in self._contrasts)
        if not self.analysis.classes or any(
            not of.positives for _, of in self._contrasts[: len(self.analysis.classes)]
        ):
            return found
        mean, given = self._of_classes(macro=True), ("auc", "standard_error", "interval", "binning_error", "fraction")
        own = {name: getattr(mean, name) for name in given}
        return (*found, GroupEstimate(model="", group="", contrast=MEAN_OF_CLASSES, **own))

    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the difference of each pair of models that is compared."""
        found = []
        of_model = {each.model: found for each, found in self._contrasts if each.positives.group == 0}
        for a, b in self.analysis.comparisons:
            first, second = of_model[a], of_model[b]
            if first.auc is None or second.auc is None:
                continue
            difference = second.auc - first.auc
            models = self.analysis.models
            comparison = Comparison(
                first=models[a],
                second=models[b],
                difference=float(difference),
                binning_error=float(first.binning_error + second.binning_error),
            )
            error = self._paired((a, b), first, second)
            if error is not None and self.sums.clusters is not None:
                own, rows = {a: _components(first), b: _components(second)}, (first.positives, first.negatives)
                error = error.clustered(self.sums.clusters.error(error.components, own, 0, rows))
            if error and error.standard_error and self.level is not None:
                comparison = replace(
                    comparison, standard_error=error.standard_error, standard_error_off=error.off,
                    missing=self._missing(comparison.binning_error, error),
                )  # fmt: skip
                if comparison.missing:
                    comparison = replace(comparison, p_at_most=error.p_at_most(comparison.difference))
                else:
                    interval, p_value = intervals.of_difference(
                        difference, error.standard_error, self.level, self._method(intervals.PAIRED_DELONG)
                    )
                    comparison = replace(comparison, interval=interval, p_value=p_value)
            found.append(comparison)
        if len(found) > 1:  # one that has no p is a test all the same
            bounds = ((each.p_value, each.p_at_most, 1.0) for each in found)
            adjusted = intervals.holm([next(p for p in each if p is not None) for each in bounds])
            pairs = zip(found, adjusted, strict=True)
            found = [each if each.p_value is None else replace(each, p_holm=p) for each, p in pairs]
        return tuple(found)

    def _missing(self, binning_error: float, error: PairedError) -> str:
        """Say why a difference with this binning error gets no interval and no p-value; empty where it does."""
        if binning_error > max(error.standard_error, intervals.LEAST_TOLD):
            return f"the binning error, {binning_error:.2g}, exceeds the standard error, {error.standard_error:.2g}"
        if error.off > intervals.MOST_OFF:
            return f"the standard error, {error.standard_error:.2g}, may be off by {100 * error.off:.0f} %"
        return ""

    def _paired(self, pair: tuple[int, int], *estimates: AucOfSums) -> PairedError | None:
        """Return the standard error of the difference of two models' AUCs, over all rows, where that is released."""
        if (sums := self.sums.paired.get(pair)) is None:
            return None
        first, second = (
            OneModel(each.auc, each.q10, each.q01)
            for each in estimates
            if each.auc is not None and each.q10 is not None and each.q01 is not None
        )
        rows = estimates[0].positives, estimates[0].negatives
        (a, alike_a), (b, alike_b) = ((float(each.binning_error), float(each.alike)) for each in estimates)
        return intervals.paired_delong(first, second, sums, *rows, (a, b), (alike_a, alike_b))

    def sites(self) -> tuple[SiteSummary, ...]:
        """Return what sites have in common, for each model; nothing where sums over sites are not released."""
        found = []
        for model, sums in zip(self.analysis.models, self.sums.sites, strict=False):
            if not sums.possible(self.parties):
                return ()
            enough = sums.both_classes >= LEAST_SITES
            summary = SiteSummary(
                model=model if len(self.analysis.models) > 1 else "",
                within=0.5 + sums.difference / (2 * sums.pairs) if enough else None,
                both_classes=sums.both_classes,
                one_class=self.parties - sums.both_classes,
                usable=sums.usable.usable,
            )
            if enough and self.level is not None:
                summary = random_effects(summary, sums.usable, self.level)
                within, error = Fraction(sums.difference, 2 * sums.pairs), math.sqrt(sums.variance) / sums.pairs
                interval = intervals.on_logit_scale(within + Fraction(1, 2), error, self.level, WITHIN)
                summary = replace(summary, within_interval=interval)
            found.append(summary)
        return tuple(found)

    def warnings(self) -> tuple[str, ...]:
        """Return what the reader ought to know of intervals, groups and sites."""
        of_sites = (_IMPOSSIBLE_SITES,) if self.sums.sites and not self.sites() else ()
        nested = (NESTED,) if self._hidden and len(self.analysis.by) > 1 else ()
        first, estimates = self.sums.estimates[0], self.estimates()
        if self.analysis.classes:
            of_intervals = (_AVERAGE, *self._few_rows(estimates))
        elif self.level is not None and estimates[0].interval is None:
            of_intervals = (_NO_INTERVAL if min(first.positives, first.negatives) < 2 else _NO_SPREAD,)
        else:
            of_intervals = self._few_rows(estimates)
        remedy = "the column of its scores may be another class's" if self.analysis.classes else intervals.REVERSED
        reversed_ = tuple(  # rows of one group against another's may well be below 1/2
            f"{_named(each) or 'the AUC'}: {intervals.BELOW_HALF}, so {remedy}"
            for contrast, each in zip(self.analysis.contrasts, estimates, strict=False)
            if each.interval is not None
            and each.interval.high < 0.5
            and contrast.positives.group == contrast.negatives.group
        )
        small = (_SMALL_GROUPS,) if self.analysis.by and self.analysis.min_cell == 1 else ()
        of_comparisons = self._of_comparisons(estimates)
        return (
            *of_intervals,
            *self._of_ids(),
            *_binned(estimates),
            *reversed_,
            *of_comparisons,
            *of_sites,
            *nested,
            *small,
        )

    def _of_ids(self) -> tuple[str, ...]:
        """Warn where the column of patients may be another, or their labels are not what they seem."""
        if (clusters := self.sums.clusters) is None:
            return ()
        with_positives, with_negatives, everybody = clusters.patients[0]
        first = self.sums.estimates[0]
        alike = everybody >= _ALIKE_IDS * (first.positives + first.negatives)
        told = [*([_IDS_OF_ROWS] * alike), *([_BOTH_LABELS] * (with_positives + with_negatives > everybody))]
        return tuple(text.format(column=self.analysis.cluster) for text in told)

    def _few_rows(self, estimates: Sequence[GroupEstimate]) -> tuple[str, ...]:
        """Warn where an interval by errors alone is of few rows, or patients; groups are named, all rows are not."""
        groups: dict[str, dict[str, None]] = defaultdict(dict)
        for contrast, each in zip(self.analysis.contrasts, estimates, strict=False):
            if each.interval is None or each.auc is None:
                continue
            rows, clusters = (each.positives or 0, each.negatives or 0), self.sums.clusters
            if clusters is not None and clusters.worth(contrast.model, contrast.positives.group, rows) < intervals.FEW:
                groups[intervals.FEW_PATIENTS][each.group] = None
            elif clusters is None and self.plain and min(rows) < intervals.FEW:
                groups[intervals.FEW_PLAIN][each.group] = None
        told = groups.items()
        return tuple(text if "" in names else f"{', '.join(map(repr, names))}: {text}" for text, names in told)

    def _of_comparisons(self, estimates: Sequence[GroupEstimate]) -> tuple[str, ...]:
        """Warn where a difference gets no interval and no p-value."""
        errors = {each.model: each.standard_error for each in estimates if not each.group}
        found = []
        for each in self.comparisons():
            if not each.missing:
                continue
            if (each.standard_error or 0) < _ALIKE * (errors.get(each.first) or 0):
                advice = ["both models rank the rows nearly alike"]
            else:
                binned = each.binning_error > (each.standard_error or 0)
                advice = [FEW_VALUES if binned else _TWO_DECIMALS]
                if not self.quantiles:
                    advice.append("take quantile:1000, which a session before finds")
            if each.p_at_most is not None and each.p_at_most < 1:
                advice.insert(0, f"p is {p_text(each.p_at_most, '≤')}")
            told = "; ".join([each.missing, *advice])
            found.append(f"{each.second} minus {each.first} has no interval and no p-value: {told}")
        return tuple(found)

    def _of_classes(self, *, macro: bool = False) -> Headline:
        """Return Hand and Till's M: the mean, over pairs of classes, of how well either's score tells the two apart.

        With `macro` the mean of how well each class is told from all others: pairs then count by the other's rows. What
        a row of class c is worth for the mean is the mean of what it is for each pair. So its deviation is at most that
        mean of theirs, σ_c (Minkowski), by Hanley and McNeil; rows are independent: the variance is Σ σ_c²/n_c at most.
        """
        pairs = [each for each in self._contrasts if each[0].positives.group == 0 and not each[0].interval]
        rows = {contrast.positives.classes[0]: found.positives for contrast, found in pairs}
        if (empty := next((at for at, number in rows.items() if not number), None)) is not None:
            name = self.analysis.classes[empty]
            raise UndefinedAucError(
                f"class {name!r} has no rows in the pool, so the AUC is undefined; no number is given"
            )
        auc = binning_error = Fraction(0)
        deviations = dict.fromkeys(rows, 0.0)
        for contrast, found in pairs:
            (own,), (other,), of_pair = contrast.positives.classes, contrast.negatives.classes, found.auc or Fraction(0)
            others = sum(rows.values()) - rows[own]
            share = Fraction(rows[other], others * len(rows)) if macro else Fraction(1, len(pairs))
            auc, binning_error = auc + share * of_pair, binning_error + share * found.binning_error
            for of_class, variance in zip((own, other), intervals.hanley_mcneil_components(of_pair), strict=True):
                deviations[of_class] += float(share) * math.sqrt(variance)
        error, interval = math.sqrt(sum(deviations[each] ** 2 / number for each, number in rows.items())), None
        if self.level is not None:
            method = intervals.HANLEY_MCNEIL + intervals.AT_MOST
            interval = intervals.on_logit_scale(auc, error, self.level, method)
            interval = intervals.widened(interval, error, float(binning_error))
        return Headline(
            auc=float(auc),
            binning_error=float(binning_error),
            fraction=auc,
            binning_error_fraction=binning_error,
            standard_error=None if self.level is None else error,
            interval=interval,
        )

    def _method(self, name: str) -> str:
        """Return the name of a method, DeLong's as it is computed here."""
        return name if self.sums.clusters is None else name.replace("DeLong", intervals.CLUSTERED)

    def _interval(self, contrast: Contrast, found: AucOfSums) -> tuple[float | None, Interval | None]:
        """Return standard error and interval: of the cubic sums, or, without these, of the AUC alone."""
        if self.level is None or found.auc is None:
            return None, None
        rows = found.positives, found.negatives
        if found.q10 is None or found.q01 is None:
            method = intervals.HANLEY_MCNEIL
            standard_error = intervals.hanley_mcneil(found.auc, *rows)
        else:
            method = intervals.DELONG
            of_sums = intervals.delong(found.auc, *rows, found.q10, found.q01)
            if of_sums is not None and self.sums.clusters is not None:
                own = _components(found)
                of_sums = self.sums.clusters.error(own, {contrast.model: own}, contrast.positives.group, rows)
            if of_sums is None:
                return None, None
            standard_error = of_sums
        if self.plain and method == intervals.DELONG:
            interval = intervals.plain(found.auc, standard_error, self.level, self._method(intervals.PLAIN_DELONG))
        elif self.sums.clusters is not None:
            reach = standard_error * self.sums.clusters.stretch(
                contrast.model, contrast.positives.group, rows, self.level
            )
            interval = intervals.on_logit_scale(found.auc, reach, self.level, self._method(method))
        else:
            interval = intervals.of_auc(found.auc, rows, standard_error, self.level, method)
        return standard_error, intervals.widened(interval, standard_error, float(found.binning_error))

    def _estimate(self, contrast: Contrast, found: AucOfSums) -> GroupEstimate:
        analysis = self.analysis
        several = len(analysis.models) > 1
        hidden = {contrast.positives.group, contrast.negatives.group} & self._hidden
        named = GroupEstimate(
            model=analysis.models[contrast.model] if several else "",
            group=analysis.group_name(contrast),
            contrast=contrast.label,
            auc=None,
        )
        if hidden:
            return replace(named, missing=too_few(analysis.min_cell))
        counted = replace(named, positives=found.positives, negatives=found.negatives)
        if found.auc is None:
            return replace(counted, missing=ONE_CLASS)
        standard_error, interval = self._interval(contrast, found) if contrast.interval else (None, None)
        return replace(
            counted,
            auc=float(found.auc),
            standard_error=standard_error,
            interval=interval,
            binning_error=float(found.binning_error),
            fraction=found.auc,
        )

    @cached_property
    def _hidden(self) -> frozenset[int]:
        """Groups that are not shown: too few rows of a label; and the next smallest ones of the same variable."""
        least = self.analysis.min_cell
        if least == 1:
            return frozenset()
        rows: dict[int, list[int]] = defaultdict(list)  # of each label; repeatedly, but in one order for all groups
        for contrast, found in self._contrasts:
            if contrast.positives.group == contrast.negatives.group:
                rows[contrast.positives.group] += [found.positives, found.negatives]
        by_variable: dict[int, list[int]] = defaultdict(list)
        for at, group in enumerate(self.analysis.groups):
            if group.variable is not None:
                by_variable[group.variable].append(at)
        hidden: set[int] = set()
        for groups in by_variable.values():
            own = hidden_rows(np.array([rows[at] for at in groups]), least, zeros=True)
            hidden.update(groups[at] for at in own)
        return frozenset(hidden)


def _components(found: AucOfSums) -> Components:
    """Return DeLong's S10 and S01 of an AUC that has them."""
    assert found.auc is not None and found.q10 is not None and found.q01 is not None  # noqa: S101, PT018
    s10, s01 = intervals.components(found.auc, found.positives, found.negatives, found.q10, found.q01)
    return float(s10), float(s01)


def _binned(estimates: Sequence[GroupEstimate]) -> tuple[str, ...]:
    """Warn of binning errors of estimates but the first, of which `result_warnings.of_auc` does."""
    told = [
        _named(each)
        for each in estimates[1:]
        if each.standard_error and (each.binning_error or 0) > intervals.TELLING * each.standard_error
    ]
    if not told:
        return ()
    return (f"the binning error (bins in the table) exceeds a quarter of the standard error of {', '.join(told)}",)


def _named(estimate: GroupEstimate) -> str:
    """Return what an estimate is of; empty where that is all rows, of the only model."""
    return " ".join(filter(None, (estimate.model, estimate.group, estimate.contrast)))
