"""A report from the rows: a session that gives the pooled score histogram, one for groups and sites, and the facts."""

import datetime
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import UNSET, structs
from numpy.typing import ArrayLike, NDArray

from fhe_auc import __version__
from fhe_auc.api import evaluate, name_and_options, refuse, take, with_parts
from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.base.options import Options
from fhe_auc.base.quantities import chance_text
from fhe_auc.base.terminal import Progress, shown
from fhe_auc.metrics import Histogram, of_probabilities
from fhe_auc.metrics.recalibration import NEAREST_END
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import MOST_MIN_CELL, PLAIN, Analysis
from fhe_auc.question.binning import bins_of, numbers
from fhe_auc.report.page import render, save
from fhe_auc.results.estimates import NESTED, Comparison
from fhe_auc.results.evaluation import NOT_TOLD_APART, Evaluation, QuantileThresholds, framed, verified_as_dict
from fhe_auc.results.group_decisions import GroupDecision, calibrations, of_cells
from fhe_auc.results.intervals import BELOW_HALF, DEFAULT_LEVEL, REVERSED, of_difference
from fhe_auc.results.report_card import Decisions, Facts, ReportCard, TwoModels, report_card
from fhe_auc.results.report_json import as_dict
from fhe_auc.results.report_lines import COLUMNS, as_csv, report_lines
from fhe_auc.results.report_measures import Measure, net_benefits
from fhe_auc.results.result_tables import (
    ends,
    notebook_html,
    of_comparisons,
    of_estimates,
    of_groups,
    of_measures,
    of_net_benefits,
    of_sites,
)
from fhe_auc.rows.frames import Breakdown, Columns, Rows, parties_of
from fhe_auc.rows.own_rows import warnings_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import DEFAULT_PROTOCOL, Setup

if TYPE_CHECKING:
    from pandas import DataFrame

_Again: TypeAlias = Callable[..., Evaluation]  # one more session, of the same setup

_FEW_VALUES = 50  # of scores: measures, some 40 with four digits, tell how many rows have each
_BINS_OF_GROUPS = 40  # in which a group's scores are taken to be spread as all rows' are
_OTHER_INTERVALS = (
    "of this page's intervals, those of AUCs alone take patients as independent; the others take rows so, and are too "
    "narrow where patients have several"
)

_TWO_REPORTS = (
    "\n\nThe second model has the same sessions, of its own. One more told each party the sums behind the difference "
    "of AUCs, and, where a threshold is asked for, another how many rows of each label are at or above it by both "
    "models, by either alone, and by neither. Two models on a page are two reports on the same rows: where one model's "
    "scores are the other's, recalibrated, differences of their counts can be small ones."
)

_NO_DIFFERENCE = (
    "the difference of net benefit has no interval: counts by both models at the threshold are too small to show, or "
    "the models decide alike"
)

_KEYS = {
    "sealed": "A key holder has drawn each party's pad, and the parties' common secret: it and the aggregator must not "
    "collude, as together they read every party's counts. No party can read another's.",
    "helper": "A helper takes the pads off the sum, and sees neither counts nor their sum. It and the aggregator must "
    "not collude with a party.",
}


@dataclass(frozen=True)
class Report:
    """The report card of a classifier, or of two, with what the page says of the session.

    Attributes
    ----------
    card : ReportCard
        All numbers and curves of the first model, or the only one.
    facts : Facts
        Title, date, warnings, groups, sites, a second model, what the session has cost and revealed to whom.
    own_warnings : tuple of str
        Warnings about single parties. They name the parties and small numbers, and are not for readers of the page.
    """

    card: ReportCard
    facts: Facts
    own_warnings: tuple[str, ...] = ()

    @property
    def cards(self) -> dict[str, ReportCard]:
        """The card of each model by its name, which is empty where there is one model; figures show them all."""
        return {card.model: card for card in self.facts.cards(self.card)}

    @property
    def auc(self) -> float:
        """AUC of the first model, or the only one."""
        return self.card.auc.value

    def __str__(self) -> str:
        """Return one line: title, each model's AUC and interval, number of rows, and share of positive rows."""
        about = "about " if self.card.noisy else ""
        total = f"{about}{self.card.histogram.counts.sum():,.0f} rows, {100 * self.card.prevalence:.3g} % positive"
        aucs = []
        for name, card in self.cards.items():
            interval = card.interval
            within = f" (binning error {card.auc.half_width:.2g})" if card.auc.half_width and not card.noisy else ""
            if interval is not None:
                within = f" ({interval.heading} {ends(interval)}, {interval.method})"
            aucs.append(f"{name} AUC {card.auc.value:.4f}{within}".lstrip())
        return f"{self.facts.title}: {'; '.join(aucs)}; {total}"

    def __repr__(self) -> str:
        return f"<Report: {self}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the line, tables of metrics and groups, sites, warnings; not `own_warnings`."""
        tables = [of_measures(self.cards.values())]
        if models := self.facts.models:
            tables += [of_comparisons([models.comparison])] if models.comparison else []
            tables += [of_net_benefits(models.net_benefits)] if models.net_benefits else []
        if self.facts.groups:
            tables += [of_estimates(self.facts.groups)]
            each_model = ((self.facts.of_model(name), card.level) for name, card in self.cards.items())
            tables += [table for facts, level in each_model for table in of_groups(facts, level)]
        lines = [
            *(f"{label} {value}: {note}" for label, value, note in of_sites(self.facts.sites)),
            *(f"warning: {warning}" for warning in self.facts.warnings),
            "save(folder) writes the page with its figures",
        ]
        return notebook_html(str(self), tables, lines)

    def by_group(self, column: str, model: str | None = None) -> "DataFrame":
        """Return a pandas data frame of a column's groups at the threshold, as Fairlearn's ``MetricFrame.by_group``.

        Of the first model, unless one is named. Columns: count and rates, by Fairlearn's names; NaN where a group is
        not shown. `InputError`: no such groups.
        """
        import pandas

        of = self.facts.of_model(self.card.model if model is None else model)
        own = [each for each in of.group_decisions if each.variable == column]
        if not own:
            raise InputError(f"the report has no groups by {column!r} at its threshold")
        return pandas.DataFrame([each.rates() for each in own], pandas.Index([each.level for each in own], name=column))

    def as_dict(self) -> dict[str, Any]:
        """Return the whole content as plain types, ready for ``json.dumps``."""
        return as_dict(self.card, self.facts)

    def html(self) -> str:
        """Return the page as HTML; it needs no network."""
        return render(self.card, self.facts)

    def csv(self) -> str:
        """Return all values as CSV, a line each, with one column that is formatted for a paper."""
        return as_csv(report_lines(self.cards, self.facts))

    def to_frame(self) -> "DataFrame":
        """Return a pandas data frame of the same lines and columns (`fhe_auc.results.report_lines`)."""
        return framed(report_lines(self.cards, self.facts), COLUMNS)

    def save(self, folder: str | os.PathLike[str], *, pdf: bool = False) -> list[Path]:
        """Write the page, its JSON, its figures, and a PDF of the page if asked, and return their paths.

        Makes the folder if it does not exist, and overwrites files of the same names. Raises `OSError` where a file
        cannot be written, and `InputError` without matplotlib, or WeasyPrint for a PDF.
        """
        return save(self.card, self.facts, folder, pdf=pdf)


@with_parts
def federated_report(
    rows: Rows,
    *,
    columns: Columns = Columns(),
    breakdown: Breakdown = Breakdown(),
    decisions: Decisions = Decisions(),
    title: str = "",
    protocol: str | Options = "histogram-federated",
    thresholds: str | ArrayLike | QuantileThresholds | None = None,
    interval: float | None = DEFAULT_LEVEL,
    setup: Setup = Setup(),
    progress: bool | Progress = False,
    **parts: Any,
) -> Report:
    """Make the report card of a classifier on the rows of all parties: curves, calibration, decisions, intervals.

    Unlike `fhe_auc.federated_auc`, it tells the parties the pooled number of rows of each label in each bin of scores.

    Parameters
    ----------
    rows, thresholds, setup, progress
        As for `fhe_auc.federated_auc`.
    columns : Columns
        As there, with the scores of one model, or of two: the page then has all of both, and the differences of AUC
        and net benefit.
    breakdown : Breakdown
        As there, without `classes` and `cross_groups`. Bins are merged until no count on the page is from 1 to
        ``min_cell - 1``, and groups with fewer rows of a label are left out; 1 shows all.
    decisions : Decisions
        At which thresholds: ``threshold=[0.05, 0.1]`` may be passed directly, and so may `cost_ratio` and `alert_rate`.
    title : str
        Heading of the page; empty: the number of parties.
    protocol : str or Options
        A protocol that tells the parties a score histogram: histogram-federated, or one that adds noise.
    interval : float or None
        Level of all confidence intervals, from 0.5 to 0.9999; None: no intervals.

    Returns
    -------
    Report
        Numbers, curves and facts; `Report.save` writes the page.

    Raises
    ------
    InputError
        As for `fhe_auc.federated_auc`; or groups are asked for with noise, or the breakdown has what a report has not.
    EvaluationError
        As there; or a label has fewer than ``min_cell`` rows, or the protocol gives no histogram.
    """
    columns, breakdown, decisions = take(columns, parts), take(breakdown, parts), take(decisions, parts)
    setup = take(setup, parts)
    refuse(federated_report, parts, protocol)
    if breakdown.classes or breakdown.cross_groups:
        raise InputError("a report has no classes and no AUCs across groups: federated_auc has both")
    questions = replace(breakdown, min_cell=min(breakdown.min_cell, MOST_MIN_CELL)).questions(columns)
    name, options = name_and_options(protocol)
    parties, analysis = parties_of(rows, columns, questions)
    found = f"quantile:{len(thresholds.grid)}" if isinstance(thresholds, QuantileThresholds) else "of one's own"
    default = registry.evaluating(name).options.thresholds_for(several=False)
    specification = thresholds if isinstance(thresholds, str) else default if thresholds is None else found
    with shown(progress) if progress else nullcontext() as report:
        return report_of(
            parties,
            analysis,
            protocol=name,
            options=options,
            thresholds=thresholds,
            specification=specification,
            wanted=decisions,
            title=title,
            interval=interval,
            min_cell=breakdown.min_cell,
            setup=setup,
            progress=report,
        )


def report_of(
    parties: Sequence[PartyData],
    analysis: Analysis,
    *,
    protocol: str,
    options: Mapping[str, Any],
    thresholds: str | ArrayLike | QuantileThresholds | None,
    specification: str,
    wanted: Decisions,
    title: str,
    interval: float | None,
    min_cell: int,
    setup: Setup,
    progress: Progress | None,
) -> Report:
    """Make the report of rows that have been read for an analysis; arguments and errors as of `federated_report`.

    `specification` is what the page says of the thresholds. Groups and sites take one more session, a second model two.
    """
    _refuse_panels(analysis, options)
    again = partial(evaluate, setup=setup, progress=progress, interval=interval)
    if len(analysis.models) > 1:
        one = partial(
            report_of, protocol=protocol, options=options, thresholds=thresholds, specification=specification,
            wanted=wanted, interval=interval, min_cell=min_cell, setup=setup, progress=progress,
        )  # fmt: skip
        return _two_models(parties, analysis, title, one, partial(again, options={}, thresholds=thresholds))
    named = list[NDArray[np.float64]]()

    def with_asked(grid: NDArray[np.float64]) -> NDArray[np.float64]:
        named.append(grid)
        return grids.with_asked(grid, wanted.thresholds)

    started = time.perf_counter()
    edges = with_asked if wanted.thresholds else None
    evaluation = again(parties, PLAIN, protocol=protocol, thresholds=thresholds, options=options, edges=edges)
    seconds = time.perf_counter() - started
    if (histogram := evaluation.histogram) is None:
        raise EvaluationError(f"protocol {evaluation.protocol!r} gives the parties no score histogram")
    noisy = math.isnan(evaluation.binning_error)
    grid = named[0] if named else histogram.edges[:-1]
    added = np.setdiff1d(histogram.edges[:-1], grid).tolist()
    card = report_card(histogram, wanted=wanted, added=added, level=interval, min_cell=min_cell, noisy=noisy)
    own_warnings = warnings_of(parties, histogram.edges)
    warnings = [
        *(warning for warning in evaluation.warnings if warning not in own_warnings),
        *_cell_warnings(card, histogram),
        *_interval_warnings(card, interval),
    ]
    own_warnings += tuple(_end_warnings(histogram, 1, card.min_cell))
    warnings += _end_warnings(histogram, card.min_cell)
    specification = str(evaluation.settings.get("grid", specification))
    privacy, panels = _privacy(evaluation, card, specification), dict[str, Any]()
    again = partial(again, options={}, thresholds=grid)
    if analysis.by or analysis.heterogeneity or analysis.cluster:
        # From one more session. Its binning error is that of the session before, which has warned.
        second = again(parties, analysis, protocol=DEFAULT_PROTOCOL)
        old = {*own_warnings, *warnings}
        new = [text for text in second.warnings if text not in old and not text.startswith(NOT_TOLD_APART)]
        panels["groups"] = groups = tuple(estimate for estimate in second.estimates if estimate.group)
        panels["sites"] = tuple(replace(each, model="") for each in second.sites)
        counted = bool(analysis.by) and (bool(wanted.thresholds) or card.calibration is not None)
        privacy += _second_privacy(second.protocol, analysis, counted=counted)
        if analysis.cluster:
            warnings.append(_OTHER_INTERVALS)
            first, *others = card.measures
            card = replace(card, measures=(replace(first, interval=second.interval), *others))
        if counted:
            hidden = [each.group for each in groups if each.auc is None and analysis.min_cell > 1]
            asked = [float(histogram.edges[histogram.bin_of(each)]) for each in wanted.thresholds[:1]]
            wider = _wider(histogram, asked)
            cells = _cells(parties, analysis, wider, again, setup)
            decisions = tuple[GroupDecision, ...]()
            if asked:
                above = int(np.searchsorted(wider, asked[0]))
                decisions = tuple(of_cells(cells, analysis, card.min_cell, hidden, above))
            panels["group_decisions"] = decisions
            if card.calibration is not None:
                found = calibrations(cells, analysis, histogram, wider, interval)
                known = (each for each in found if f"{each.variable}: {each.level}" not in hidden)
                panels["group_calibrations"] = tuple(known)
            if len(analysis.by) > 1 and any(each.counts is None for each in decisions):
                new.append(NESTED)
        warnings += dict.fromkeys(new)
    facts = Facts(
        title=title.strip() or f"Classifier on the rows of {_number_of(evaluation)}",
        date=datetime.date.today(),
        privacy=privacy,
        session=_session(evaluation, specification, seconds),
        warnings=tuple(warnings),
        **panels,
    )
    return Report(card, facts, tuple(own_warnings))


def _number_of(evaluation: Evaluation) -> str:
    return f"{evaluation.parties:,} {'party' if evaluation.parties == 1 else 'parties'}"


def _refuse_panels(analysis: Analysis, options: Mapping[str, object]) -> None:
    """Raise `InputError` for what a report cannot have together, before a session spends the budget of noise."""
    panels, models = analysis.by or analysis.heterogeneity or analysis.cluster, len(analysis.models)
    if (panels or models > 1) and "epsilon" in options:
        what = "AUCs of groups, sites and patients, and differences of models, are exact"
        raise InputError(f"{what}: they do not go with a model that adds noise")
    if models > 2:
        raise InputError(f"a report is of one model, or of two; got {models} columns of scores")


def _wider(histogram: Histogram, asked: Sequence[float]) -> NDArray[np.float64]:
    """Return where a few bins with about equally many rows begin, and the threshold, if one is asked for."""
    rows = np.cumsum(histogram.counts)
    starts = np.searchsorted(rows, np.arange(_BINS_OF_GROUPS) / _BINS_OF_GROUPS * rows[-1], side="right")
    return np.union1d(histogram.edges[:1], [*histogram.edges[starts], *asked])


def _cells(
    parties: Sequence[PartyData], analysis: Analysis, edges: NDArray[np.float64], again: _Again, setup: Setup
) -> Histogram:
    """Return, for each level of each variable, the rows of each label in bins that begin at these edges."""
    levels, times = [len(variable.levels) for variable in analysis.by], len(analysis.by)
    firsts = np.cumsum([0, *levels[:-1]])

    def cells(data: PartyData) -> NDArray[np.int64]:
        bins = bins_of(data.y_score, edges)
        of = (first + codes.astype(np.int64) for first, codes in zip(firsts, data.groups, strict=True))
        return np.concatenate([len(edges) * each + bins for each in of])

    of_several = partial(again, setup=replace(setup, max_rows=setup.max_rows * times))
    return _counted(parties, cells, len(edges) * sum(levels), of_several)


def _counted(
    parties: Sequence[PartyData], cells_of: Callable[[PartyData], NDArray[np.int64]], bins: int, again: _Again
) -> Histogram:
    """Return how many rows of each label lie in each of so many cells, one for each row, or a multiple, of a party.

    They are bins of a histogram like that of scores, and added up and proved as such.
    """
    recoded = []
    for data in parties:
        cells = cells_of(data)
        recoded.append(PartyData.from_arrays(data.name, np.resize(data.y_true, len(cells)), (cells + 0.5) / bins))
    counted = again(recoded, PLAIN, protocol="histogram-federated", thresholds=np.arange(bins) / bins)
    assert counted.histogram is not None  # noqa: S101 - that protocol has one
    return counted.histogram


def _two_models(
    parties: Sequence[PartyData], analysis: Analysis, title: str, one: Callable[..., Report], again: _Again
) -> Report:
    """Return the reports of two models, each as it is alone, with the differences, from sessions of both."""
    alone = structs.replace(analysis, models=PLAIN.models, each_pair=UNSET)
    reports = []
    for number, model in enumerate(analysis.models):
        rows = [
            replace(data, scores=(data.scores[number],), score_columns=data.score_columns[number : number + 1])
            for data in parties
        ]
        reports.append(_named(one(rows, alone, title=title), model))
    first, second = reports
    ungrouped = [replace(data, groups=()) for data in parties]
    both = structs.replace(analysis, by=(), heterogeneity=False)
    compared = again(ungrouped, both, protocol=DEFAULT_PROTOCOL)
    comparison = next((_of_cards(each, first.card, second.card) for each in compared.comparisons), None)
    decided, benefits = [each.card.chosen[0] for each in reports if each.card.chosen], tuple[Measure, ...]()
    of_probabilities = all(each.card.decision_curve is not None for each in reports)
    # A threshold at which small counts are hidden has no net benefit, which would tell them.
    if decided and of_probabilities and 0 <= (at := decided[0].threshold) < 1 and not any(d.hidden for d in decided):
        threshold = numbers(np.array([at]))
        cells = _counted(parties, lambda data: [2, 1] @ (numbers(np.array(data.scores)) >= threshold), 4, again)
        benefits = net_benefits(analysis.models, cells, at, first.card.level, first.card.min_cell)
    warnings = _told(reports, [each.facts.warnings for each in reports])
    if benefits and first.card.level and benefits[-1].interval is None:
        warnings.append(_NO_DIFFERENCE)
    facts = replace(
        first.facts,
        title=title.strip() or f"{' and '.join(analysis.models)} on the rows of {_number_of(compared)}",
        privacy=first.facts.privacy + _TWO_REPORTS,
        warnings=tuple(warnings),
        groups=first.facts.groups + second.facts.groups,
        group_decisions=first.facts.group_decisions + second.facts.group_decisions,
        group_calibrations=first.facts.group_calibrations + second.facts.group_calibrations,
        sites=first.facts.sites + second.facts.sites,
        models=TwoModels(second.card, comparison, benefits),
    )
    return Report(first.card, facts, tuple(_told(reports, [each.own_warnings for each in reports])))


def _named(report: Report, model: str) -> Report:
    """Return the report of one model, where it and all its parts have the model's name."""
    facts = replace(
        report.facts,
        groups=tuple(replace(each, model=model) for each in report.facts.groups),
        group_decisions=tuple(replace(each, model=model) for each in report.facts.group_decisions),
        group_calibrations=tuple(each._replace(model=model) for each in report.facts.group_calibrations),
        sites=tuple(replace(each, model=model) for each in report.facts.sites),
    )
    return replace(report, card=replace(report.card, model=model), facts=facts)


def _told(reports: Sequence[Report], told: Sequence[Sequence[str]]) -> list[str]:
    """Return each text once: with its model's name, unless it is told of all."""
    of_all = set(told[0]).intersection(*told[1:])
    named = (
        text if text in of_all else f"{report.card.model}: {text}"
        for report, texts in zip(reports, told, strict=True)
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


def _second_privacy(protocol: str, analysis: Analysis, *, counted: bool) -> str:
    """Say what the second session has told each party."""
    learnt = ["the AUC of all rows and the sums behind it, in the bins before merging"]
    if analysis.by:
        learnt.append("the same for each group, also for those not shown")
    if counted:
        learnt.append(
            f"in a third session, each group's rows of each label in up to {_BINS_OF_GROUPS + 1} bins of scores, which "
            "end at the threshold, if there is one, or hold about equally many rows"
        )
    if analysis.cluster:
        learnt.append("how many patients there are, and sums over all of them")
    if analysis.heterogeneity:
        learnt.append("sums over sites, from which who knows all sites but three can work out these three's AUCs")
    return (
        f"\n\nGroups, sites and patients come from a second session, of protocol {protocol}, and from the bins before "
        f"merging. It told each party {'; '.join(learnt)}."
    )


def _interval_warnings(card: ReportCard, wanted: float | None) -> Iterator[str]:
    """Say why the AUC has no interval, or that labels may be reversed."""
    if card.noisy or wanted is None:
        return
    if card.interval is None:
        yield "the AUC has no confidence interval: a label has fewer than two rows, or all scores are tied"
        return
    if card.interval.high < 0.5:
        yield f"the AUC: {BELOW_HALF}, so {REVERSED}"


def _end_warnings(histogram: Histogram, least: float, below: float = math.inf) -> Iterator[str]:
    """Warn where so many rows lie at an end: of fewer than are shown, the page does not say so."""
    usable = histogram.cleaned()
    near = usable.counts[np.minimum(usable.centres, 1 - usable.centres) < NEAREST_END].sum()
    if of_probabilities(usable) and least <= near < below:
        yield (
            f"scores nearer than {NEAREST_END:.0e} to 0 or 1 count as {NEAREST_END:.0e} away from it in slope, "
            "intercept and calibration in the large, which depend on that"
        )


def _cell_warnings(card: ReportCard, counted: Histogram) -> Iterator[str]:
    for decision in card.chosen:
        if decision.hidden:
            yield f"threshold {decision.threshold:.6g}: {decision.hidden}"
    sides = np.array([counted.positives, counted.negatives])
    if np.count_nonzero(counted.counts) <= _FEW_VALUES and ((sides > 0) & (sides < card.min_cell)).any():
        yield "scores have few values: counts hidden here can be worked out from the measures of all rows"
    if card.min_cell == 1 and not card.noisy:
        yield "small counts are shown (--min-cell 1, in Python min_cell=1): a count from 1 to 9 may tell who is meant"


def _session(evaluation: Evaluation, thresholds: str, seconds: float) -> dict[str, object]:
    settings = {name: value for name, value in evaluation.settings.items() if name != "grid"}  # told as thresholds
    return {
        "protocol": evaluation.protocol,
        "parties": evaluation.parties,
        "thresholds": thresholds,
        "keys": evaluation.keys,
        "encryption library": evaluation.backend,
        "security, bits": evaluation.security_bits,
        "verified": verified_as_dict(evaluation.verified),
        **({"settings": settings} if settings else {}),
        "rounds": evaluation.rounds,
        "bytes a party sent": evaluation.upload_bytes_per_party,
        "bytes a party received": evaluation.download_bytes_per_party,
        "seconds by phase": {phase: float(f"{taken:.3g}") for phase, taken in evaluation.seconds.items()},
        "seconds in all": round(seconds, 3),
        "fhe-auc": __version__,
    }


def _privacy(evaluation: Evaluation, card: ReportCard, thresholds: str) -> str:
    """Say what this session reveals, and to whom, from what it really was."""
    bins, of_rows = f"{evaluation.thresholds:,} bins of scores", "grid" in evaluation.settings
    if evaluation.security_bits:
        aggregator = (
            "Parties sent counts under one-time pads; the aggregator saw numbers that say nothing, and added them up. "
            f"The sums are verified: an aggregator that changes them is noticed, but for a chance of "
            f"{chance_text(evaluation.soundness or 1.0)}. What each party has counted nobody can check."
        )
    else:
        aggregator = "Nothing was encrypted: the aggregator saw what each party sent."
    if card.noisy:
        settings = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in evaluation.settings.items()
            if name != "signed"
        )
        learnt = (
            f"Counts in {bins} carry random noise ({settings or 'no settings stated'}). This page and report.json hold "
            "nothing else about rows. What the noise protects, and from whom, is what the protocol states below."
        )
    else:
        page = "report.json holds these numbers, and the curves on this page nearly do: readers learn them too."
        if card.histogram.bins < card.fine_bins:
            found = grids.quantiles_wanted(thresholds) or of_rows  # edges are at places that rows choose
            told = found or any(each.hidden for each in card.chosen)  # that few rows lie beyond a threshold
            placed = "" if told else f", no row is placed among fewer than {card.min_cell}"
            page = (
                f"Here and in report.json there are {card.histogram.bins:,} bins, merged from these: no count is from "
                f"1 to {card.min_cell - 1}{placed}, and curves and counts are of them. Measures of all rows, such as "
                "the AUC, are of the bins before, with four digits."
            )
        learnt = (
            f"Each party learns the exact number of positive and of negative rows of all parties together in each of "
            f"{bins}. {page} No noise is added. A bin in which one party alone has rows shows that party's rows; "
            "whoever knows all rows but one party's learns that party's counts. Fewer thresholds reveal less."
        )
    if grids.quantiles_wanted(thresholds):
        learnt += " Thresholds come from the scores themselves, by a session before; the warnings say what it revealed."
    if of_rows:
        learnt += f" Thresholds are {thresholds}: this process has read the rows, and chosen them."
    keys, trust = _KEYS.get(evaluation.keys, "There are no keys."), registry.load(evaluation.protocol).trust
    return (
        f"Model “{evaluation.protocol.removeprefix('histogram-')}”. {aggregator} {learnt}\n\n"
        f"{keys} To be trusted: {trust}.\n\n"
        "For this page one process has read the rows of all parties and has played every role in turn. The above "
        "describes what the roles exchange, and holds between sites where each runs its own role."
    )
