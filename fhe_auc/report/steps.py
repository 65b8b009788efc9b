"""Which sessions a report takes, one after the other (`fhe_auc.session.steps`), and what they tell together.

report_steps        (thresholds,) (censoring curve,) (evaluation,) and for each model its histogram (, counts of
groups); of two models counts of both at the first threshold; at last (replicates)
"""

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from msgspec import UNSET, structs
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.metrics.censoring import at_horizon
from fhe_auc.metrics.histogram import Histogram
from fhe_auc.metrics.private_curves import CountNoise
from fhe_auc.metrics.probabilities import of_probabilities
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.follow_up import EVENT
from fhe_auc.report import words
from fhe_auc.results.asked import Asked, ReportAsked
from fhe_auc.results.bootstrap import bins_of_replicates, with_bootstrap
from fhe_auc.results.decisions import net_benefits
from fhe_auc.results.estimates import NESTED, Comparison
from fhe_auc.results.evaluation import (
    NOT_TOLD_APART,
    CellCounts,
    CensoringCurve,
    Evaluation,
    Outcome,
    QuantileThresholds,
    Replicates,
    preceded,
)
from fhe_auc.results.group_decisions import calibrations, of_cells
from fhe_auc.results.intervals import of_difference
from fhe_auc.results.report_card import Bootstrap, Facts, ReportCard, report_card
from fhe_auc.results.report_measures import Measure
from fhe_auc.session.protocol import Request
from fhe_auc.session.steps import (
    ANY,
    Step,
    Steps,
    asking,
    censoring_curve,
    evaluated,
    evaluation_steps,
    expected,
    requested,
    step_after,
    with_thresholds,
)

Before: TypeAlias = tuple[QuantileThresholds | None, CensoringCurve | None]  # of sessions before all others

COUNTS, REPLICATES = "counts-federated", "replicates-federated"
_BINS_OF_GROUPS = 40  # in which a group's scores are taken to be spread as all rows' are


class Parts(NamedTuple):
    """What a `Report` is made of, in its order."""

    cards: Mapping[str, ReportCard]
    facts: Facts
    own_warnings: tuple[str, ...]


class Grids(NamedTuple):
    """Thresholds of one process, which has chosen them by the rows: of each model, and of all together."""

    of_models: tuple[NDArray[np.float64], ...]
    together: NDArray[np.float64]


def steps_of(asked: Asked, base: Request = ANY) -> Steps[object]:
    """Return the steps of a question; parties, keys and bounds on rows are those of `base`."""
    return evaluation_steps(asked, base) if asked.report is None else report_steps(asked, base)


def next_step(asked: Asked, base: Request, outcomes: Iterable[Outcome]) -> Step | None:
    """Return the session that comes after those with these outcomes, in their order; None: they are all.

    Raises `InputError` where they are not those of the question, and `EvaluationError` where it has no answer.
    """
    return step_after(steps_of(asked, base), outcomes)


def report_steps(asked: Asked, base: Request = ANY, own: Grids | None = None, said: str = "") -> Steps[Parts]:
    """Return the steps of a report.

    One process may have chosen thresholds, its `own`; `said` is then what the page says of them.
    """
    if (report := asked.report) is None:
        raise InputError("no report is asked for")
    counting = requested(base, report.protocol, options=report.options, interval=asked.interval)
    found, curve = None, None
    if own is None:
        found, counting = yield from with_thresholds(asked, report.protocol, counting)
        own = Grids((counting.thresholds,) * len(asked.analysis.models), counting.thresholds)
    if follow_up := asked.analysis.follow_up:
        curve = yield from censoring_curve(asked, replace(counting, thresholds=own.together))
        horizon, least = follow_up.horizons[0], asked.analysis.min_cell
        at = at_horizon(curve, follow_up, horizon)
        if curve.until(follow_up.until(horizon)).counts[EVENT].sum() < least != 1:
            raise EvaluationError(
                f"fewer than {least} rows have the event by the horizon {horizon:g}, which is too few to show: take a "
                "later horizon; or, if you may show small counts, a smaller minimum (--min-cell, in Python min_cell=)"
            )
        asked = structs.replace(asked, analysis=structs.replace(asked.analysis, at=at))
    names, whole = asked.analysis.models, None
    if asked.evaluates and all(np.array_equal(grid, own.together) for grid in own.of_models):
        whole = yield from evaluated(asked.protocol, replace(asking(asked, base), thresholds=own.together), curve)
    parts = list[_OfModel]()
    for name, grid in zip(names, own.of_models, strict=True):
        at_grid = replace(counting, thresholds=grid)
        parts.append((yield from _of_model(asked, report, name, base, at_grid, (found, curve), whole, said)))
    first = parts[0]
    cards, about, privacy = tuple(each.card for each in parts), first.evaluation, first.privacy
    warnings, own_warnings = (_told(cards, texts) for texts in zip(*((p.warnings, p.own) for p in parts), strict=True))
    comparison, benefits, title = None, tuple[Measure, ...](), "Classifier"
    if len(names) > 1:
        about, comparison, benefits = yield from _between(asked, base, own, whole, curve, cards)
        warnings += _new(whole, (*warnings, *own_warnings)) if whole is not None else []
        if benefits and cards[0].level and benefits[-1].interval is None:
            warnings.append(words.NO_DIFFERENCE)
        privacy, title = privacy + words.TWO_MODELS, " and ".join(names)
    bootstrap = None
    if report.bootstrap:
        cards, bootstrap, told = yield from _replicated(asked, report, base, parts)
        warnings += [text for text in told if text not in warnings]
        privacy += words.replicates_privacy(bootstrap, asked.analysis)
    facts = Facts(
        title=report.title.strip() or f"{title} on the rows of {about.parties_text}",
        date=datetime.date.today(),
        privacy=privacy,
        session=words.session(first.evaluation, first.thresholds),
        weighting=words.weighting(asked.analysis, cards[0]),
        warnings=tuple(warnings),
        comparison=comparison,
        net_benefits=benefits,
        bootstrap=bootstrap,
    )
    return Parts({card.model: card for card in cards}, facts, tuple(own_warnings))


class _OfModel(NamedTuple):
    """What is said of one model, by the session of its histogram and those of its groups; `own` are own warnings."""

    card: ReportCard
    evaluation: Evaluation
    thresholds: str
    privacy: str
    warnings: list[str]
    own: list[str]


def _of_model(
    asked: Asked,
    report: ReportAsked,
    name: str,
    base: Request,
    counting: Request,
    before: Before,
    whole: Evaluation | None,
    said: str,
) -> Steps[_OfModel]:
    """Return what is said of one model, of which rows are counted at the thresholds of `counting`.

    Sessions `before` have found these, and the censoring curve, where there were such. An evaluation is `whole` if all
    models have the same thresholds.
    """
    analysis, grid, several = asked.analysis, counting.thresholds, len(asked.analysis.models) > 1
    alone = _counted(analysis, (name,))
    edges = grids.with_asked(grid, report.threshold) if report.threshold else grid
    request = replace(counting, analysis=alone, thresholds=edges)
    found, curve = before
    evaluation = yield from evaluated(report.protocol, request, curve)
    if (histogram := evaluation.histogram) is None:
        raise EvaluationError(f"protocol {evaluation.protocol!r} gives the parties no score histogram")
    if found is not None:
        evaluation = preceded(evaluation, found)
    noise = CountNoise.of(evaluation.settings, evaluation.parties) if math.isnan(evaluation.binning_error) else None
    added = np.setdiff1d(histogram.edges[:-1], grid).tolist() if report.threshold else ()
    level, least = asked.interval, report.min_cell
    card = report_card(histogram, wanted=report, added=added, level=level, min_cell=least, noise=noise)
    own = [*evaluation.own_warnings, *words.end_warnings(card, histogram, 1, card.min_cell)]
    warnings = [
        *(warning for warning in evaluation.warnings if warning not in evaluation.own_warnings),
        *words.cell_warnings(card, histogram),
        *words.interval_warnings(card, level),
        *words.end_warnings(card, histogram, card.min_cell),
    ]
    named = asked.thresholds if isinstance(asked.thresholds, str) else "of one's own"
    said = str(evaluation.settings.get("grid", said or named))
    privacy, model, panels = words.privacy(evaluation, card, said), name if several else "", dict[str, Any]()
    if asked.panels:
        second, new = whole, list[str]()
        if second is None:
            own_groups = structs.replace(analysis, models=(name,), each_pair=UNSET)
            request = replace(asking(asked, base), analysis=own_groups, thresholds=grid)
            second = yield from evaluated(asked.protocol, request, curve)
        if whole is None or not several:
            # Its binning error is that of the session before, which has warned.
            new = _new(second, (*own, *warnings))
        estimates = [replace(each, model=model) for each in second.estimates if each.model in ("", name)]
        sites = (replace(each, model=model) for each in second.sites if each.model in ("", name))
        panels |= {"groups": tuple(each for each in estimates if each.group), "sites": next(sites, None)}
        counted = bool(analysis.by) and (bool(report.threshold) or card.calibration is not None)
        privacy += words.evaluation_privacy(second.protocol, analysis, (_BINS_OF_GROUPS + 2) * counted)
        if analysis.cluster:
            warnings.append(words.other_intervals(report.bootstrap))
            first, *others = card.measures
            panels["measures"] = (replace(first, interval=estimates[0].interval), *others)
        if counted:
            hidden = [each.group for each in panels["groups"] if each.auc is None and analysis.min_cell > 1]
            asked_for = [float(histogram.edges[histogram.bin_of(each)]) for each in report.threshold[:1]]
            wider = _wider(histogram, asked_for)
            request = requested(base, COUNTS, analysis=structs.replace(alone, by=analysis.by), thresholds=wider)
            cells = expected(CellCounts, (yield Step(COUNTS, request)))
            if asked_for:
                above = int(np.searchsorted(wider, asked_for[0]))
                panels["group_decisions"] = tuple(of_cells(cells, analysis, card.min_cell, hidden, above))
            if card.calibration is not None:
                of_groups = calibrations(cells, analysis, histogram, wider, level)
                known = (each for each in of_groups if f"{each.variable}: {each.level}" not in hidden)
                panels["group_calibrations"] = tuple(known)
            if len(analysis.by) > 1 and any(each.counts is None for each in panels.get("group_decisions", ())):
                new.append(NESTED)
        warnings += dict.fromkeys(new)
    return _OfModel(replace(card, model=model, **panels), evaluation, said, privacy, warnings, own)


def _replicated(
    asked: Asked, report: ReportAsked, base: Request, parts: Sequence[_OfModel]
) -> Steps[tuple[tuple[ReportCard, ...], Bootstrap, tuple[str, ...]]]:
    """Return the cards with intervals of thresholds that rows choose, what else replicates tell, and warnings."""
    analysis = structs.replace(asked.analysis, by=(), each_pair=UNSET, heterogeneity=False)
    fine = [each.evaluation.histogram for each in parts if each.evaluation.histogram is not None]
    grid = bins_of_replicates(fine)
    request = requested(base, REPLICATES, analysis=analysis, thresholds=grid, options={"replicates": report.bootstrap})
    found = expected(Replicates, (yield Step(REPLICATES, request)))
    by = ("patients" if analysis.cluster else "rows") + " of fixed weights" * bool(analysis.units)
    return *with_bootstrap([each.card for each in parts], fine, found, report, by), found.warnings


def _between(
    asked: Asked,
    base: Request,
    own: Grids,
    whole: Evaluation | None,
    curve: CensoringCurve | None,
    cards: tuple[ReportCard, ...],
) -> Steps[tuple[Evaluation, Comparison | None, tuple[Measure, ...]]]:
    """Return the evaluation that compares two models, the difference of the AUCs, and the net benefits."""
    names, (first, second), benefits = asked.analysis.models, cards, tuple[Measure, ...]()
    if whole is None:
        both = structs.replace(asked.analysis, by=(), heterogeneity=False)
        request = replace(asking(asked, base), analysis=both, thresholds=own.together)
        whole = yield from evaluated(asked.protocol, request, curve)
    comparison = next((_of_cards(each, first, second) for each in whole.comparisons), None)
    decided = [card.chosen[0] for card in cards if card.chosen]
    probable = all(card.decision_curve is not None for card in cards)
    # A threshold at which small counts are hidden has no net benefit, which would tell them.
    if decided and probable and 0 < (at := decided[0].threshold) < 1 and not any(each.hidden for each in decided):
        request = requested(base, COUNTS, analysis=_counted(asked.analysis, names), thresholds=np.array([0.0, at]))
        cells = expected(CellCounts, (yield Step(COUNTS, request)))
        benefits = net_benefits(names, cells, at, first.level, first.min_cell)
    return whole, comparison, benefits


def _counted(analysis: Analysis, models: tuple[str, ...]) -> Analysis:
    """Return what counts of some models look at, over all rows."""
    return structs.replace(analysis, models=models, by=(), heterogeneity=False, cluster=UNSET, each_pair=UNSET)


def _new(evaluation: Evaluation, old: Iterable[str]) -> list[str]:
    """Return the warnings of an evaluation that are new, and not of single parties."""
    known = {*old, *evaluation.own_warnings}
    return [text for text in evaluation.warnings if text not in known and not text.startswith(NOT_TOLD_APART)]


def _wider(histogram: Histogram, asked: Sequence[float]) -> NDArray[np.float64]:
    """Return where a few bins with about equally many rows begin, and the threshold, if one is asked for.

    Where scores are no probabilities, the last threshold is among them: a party's rows may all lie in the last few.
    """
    rows = np.cumsum(histogram.counts)
    starts = np.searchsorted(rows, np.arange(_BINS_OF_GROUPS) / _BINS_OF_GROUPS * rows[-1], side="right")
    last = histogram.edges[:0] if of_probabilities(histogram) else histogram.edges[-2:-1]
    return np.union1d(histogram.edges[:1], [*histogram.edges[starts], *asked, *last])


def _told(cards: Sequence[ReportCard], told: Sequence[Sequence[str]]) -> list[str]:
    """Return each text once: with its model's name, unless it is told of all."""
    of_all = set(told[0]).intersection(*told[1:])
    named = (
        text if text in of_all else f"{card.model}: {text}"
        for card, texts in zip(cards, told, strict=True)
        for text in texts
    )
    return list(dict.fromkeys(named))


def _of_cards(comparison: Comparison, first: ReportCard, second: ReportCard) -> Comparison:
    """Return the comparison with the difference of the page's AUCs, which are of finer bins than its session has."""
    difference = second.auc.value - first.auc.value
    off = first.auc.half_width + second.auc.half_width
    comparison, found = replace(comparison, difference=difference, binning_error=off), comparison.interval
    if found is None or comparison.standard_error is None:
        return comparison
    interval, p_value = of_difference(Fraction(difference), comparison.standard_error, found.level, found.method)
    return replace(comparison, interval=interval, p_value=p_value)
