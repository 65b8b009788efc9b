"""A report from the rows: a session that gives the pooled score histogram, one for groups and sites, and the facts."""

import datetime
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc import __version__
from fhe_auc.api import accept_parts, evaluate, name_and_options
from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.base.options import Options
from fhe_auc.base.quantities import chance_text
from fhe_auc.base.terminal import Progress, shown
from fhe_auc.metrics import Histogram
from fhe_auc.metrics.recalibration import NEAREST_END
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import MOST_MIN_CELL, PLAIN, Analysis
from fhe_auc.report.page import render, save
from fhe_auc.results.estimates import NESTED
from fhe_auc.results.evaluation import NOT_TOLD_APART, Evaluation, QuantileThresholds, verified_as_dict
from fhe_auc.results.group_decisions import of_cells
from fhe_auc.results.intervals import BELOW_HALF, DEFAULT_LEVEL, REVERSED
from fhe_auc.results.report_card import Facts, ReportCard, TwoModels, report_card
from fhe_auc.results.report_json import as_dict
from fhe_auc.results.report_measures import net_benefits
from fhe_auc.results.result_tables import TextTable, ends, notebook_html, of_estimates, of_group_decisions, of_sites
from fhe_auc.rows.frames import Breakdown, Columns, Rows, parties_of
from fhe_auc.rows.own_rows import warnings_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import DEFAULT_PROTOCOL, Setup

if TYPE_CHECKING:
    from pandas import DataFrame

_Again: TypeAlias = Callable[..., Evaluation]  # one more session, of the same setup

_OTHER_INTERVALS = (
    "of this page's intervals, those of AUCs alone take patients as independent; the others take rows so, and are too "
    "narrow where patients have several"
)

_TWO_REPORTS = (
    "\n\nThe second model's counts are of a second session like the first, in the same bins. A third one "
    "told each party how many rows of each label are at or above the threshold by both models, by either alone, and by "
    "neither. Two models on a page are two reports on the same rows: where one model's scores are the other's, "
    "recalibrated, differences of their counts can be small ones."
)

_NO_DIFFERENCE = (
    "the difference of net benefit has no interval: counts by both models at the threshold are too small to show, or "
    "leave the models different thresholds; or the models decide alike"
)

_KEYS = {
    "sealed": "A key holder has drawn each party's pad, and the parties' common secret: it and the aggregator must not "
    "collude, as together they read every party's counts. No party can read another's.",
    "joint": "Each two parties share a mask; nobody has the pads of all. Whoever keeps what the aggregator was sent "
    "reads every party's counts once X25519 is broken.",
    "helper": "A helper takes the pads off the sum, and sees neither counts nor their sum. It and the aggregator must "
    "not collude with a party.",
}


@dataclass(frozen=True)
class Report:
    """The report card of a classifier, with what the page says of the session.

    Attributes
    ----------
    card : ReportCard
        All numbers and curves; the plotting functions take the card or the report.
    facts : Facts
        Title, date, warnings, groups, sites, what the session has cost, and what it has revealed to whom.
    own_warnings : tuple of str
        Warnings about single parties. They name the parties and small numbers, and are not for readers of the page.
    """

    card: ReportCard
    facts: Facts
    own_warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line: title, AUC, interval, number of rows, and share of positive rows."""
        card, interval = self.card, self.card.interval
        within = "" if interval is None else f" ({interval.heading} {ends(interval)}, {interval.method})"
        about = "about " if card.noisy else ""
        total = f"{about}{card.histogram.counts.sum():,.0f} rows, {100 * card.prevalence:.3g} % positive"
        return f"{self.facts.title}: AUC {card.auc.value:.4f}{within}; {total}"

    def __repr__(self) -> str:
        return f"<Report: {self}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the line, tables of metrics and groups, sites, warnings; not `own_warnings`."""
        measures = [*self.card.measures, *self.card.calibration_measures]
        level = next((measure.interval.heading for measure in measures if measure.interval is not None), "interval")
        values = ("undefined" if each.estimate is None else f"{each.estimate.value:.4f}" for each in measures)
        within = ("" if each.interval is None else ends(each.interval) for each in measures)
        rows = ((each.title, *cells, each.meaning) for each, *cells in zip(measures, values, within, strict=True))
        tables = [TextTable(("metric", "value", level, ""), tuple(rows), 1)]
        if self.facts.groups:
            decisions = of_group_decisions(self.facts.group_decisions, self.card.level)
            tables += [of_estimates(self.facts.groups), decisions]
        lines = [
            *(f"{label} {value}: {note}" for label, value, note in of_sites(self.facts.site_summaries)),
            *(f"warning: {warning}" for warning in self.facts.warnings),
            "save(folder) writes the page with its figures",
        ]
        return notebook_html(str(self), tables, lines)

    def by_group(self, column: str) -> "DataFrame":
        """Return a pandas data frame of a column's groups at the threshold, as Fairlearn's ``MetricFrame.by_group``.

        Columns: count and rates, by Fairlearn's names; NaN where a group is not shown. `InputError`: no such groups.
        """
        import pandas

        own = [each for each in self.facts.group_decisions if each.variable == column]
        if not own:
            raise InputError(f"the report has no groups by {column!r} at its threshold")
        return pandas.DataFrame([each.rates() for each in own], pandas.Index([each.level for each in own], name=column))

    def as_dict(self) -> dict[str, Any]:
        """Return the whole content as plain types, ready for ``json.dumps``."""
        return as_dict(self.card, self.facts)

    def html(self) -> str:
        """Return the page as HTML; it needs no network."""
        return render(self.card, self.facts)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the page, its JSON and its figures into a folder, and return their paths.

        Makes the folder if it does not exist, and overwrites files of the same names. Raises `OSError` where a file
        cannot be written, and `InputError` without matplotlib.
        """
        return save(self.card, self.facts, folder)


@accept_parts
def federated_report(
    rows: Rows,
    *,
    columns: Columns = Columns(),
    breakdown: Breakdown = Breakdown(),
    threshold: float = 0.5,
    title: str = "",
    protocol: str | Options = "histogram-federated",
    thresholds: str | ArrayLike | QuantileThresholds | None = None,
    interval: float | None = DEFAULT_LEVEL,
    setup: Setup = Setup(),
    progress: bool | Progress = False,
) -> Report:
    """Make the report card of a classifier on the rows of all parties: curves, calibration, decisions, intervals.

    Unlike `fhe_auc.federated_auc`, it tells the parties the pooled number of rows of each label in each bin of scores.

    Parameters
    ----------
    rows, thresholds, setup, progress
        As for `fhe_auc.federated_auc`.
    columns : Columns
        As there, with the scores of one model, or of two, which are probabilities. Of a second one the page has curves
        and metrics too, and the difference of net benefit; it then has no groups, sites or patients.
    breakdown : Breakdown
        As there, without `classes` and `cross_groups`. Bins are merged until no count on the page is from 1 to
        ``min_cell - 1``, and groups with fewer rows of a label are left out; 1 shows all.
    threshold : float
        A decision threshold from 0 to 1, reported beside the one with the best F1; of groups too (`Report.by_group`).
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
    if breakdown.classes or breakdown.cross_groups:
        raise InputError("a report has no classes and no AUCs across groups: federated_auc has both")
    questions = replace(breakdown, min_cell=min(breakdown.min_cell, MOST_MIN_CELL)).questions(columns)
    name, options = name_and_options(protocol)
    parties, analysis = parties_of(rows, columns, questions)
    if thresholds is None:
        thresholds = registry.evaluating(name).options.thresholds_for(several=False)
    found = f"quantile:{len(thresholds.grid)}" if isinstance(thresholds, QuantileThresholds) else "of one's own"
    specification = thresholds if isinstance(thresholds, str) else found
    with shown(progress) as report:
        return report_of(
            parties,
            analysis,
            protocol=name,
            options=options,
            thresholds=thresholds,
            specification=specification,
            threshold=threshold,
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
    thresholds: str | ArrayLike | QuantileThresholds,
    specification: str,
    threshold: float,
    title: str,
    interval: float | None,
    min_cell: int,
    setup: Setup,
    progress: Progress,
) -> Report:
    """Make the report of rows that have been read for an analysis; arguments and errors as of `federated_report`.

    `specification` is what the page says of the thresholds. Groups and sites take one more session, a second model two.
    """
    _refuse_panels(analysis, options, threshold)
    again = partial(evaluate, setup=setup, progress=progress)
    started = time.perf_counter()
    evaluation = again(parties, PLAIN, protocol=protocol, thresholds=thresholds, interval=interval, options=options)
    seconds = time.perf_counter() - started
    if (histogram := evaluation.histogram) is None:
        raise EvaluationError(f"protocol {evaluation.protocol!r} gives the parties no score histogram")
    noisy = math.isnan(evaluation.binning_error)
    card = report_card(histogram, threshold=threshold, level=interval, min_cell=min_cell, noisy=noisy)
    own_warnings = warnings_of(parties, histogram.edges)
    warnings = [
        *(warning for warning in evaluation.warnings if warning not in own_warnings),
        *_cell_warnings(card, histogram.edges[:-1], threshold),
        *_interval_warnings(card, interval),
    ]
    own_warnings += tuple(_end_warnings(histogram, 1, card.min_cell))
    warnings += _end_warnings(histogram, card.min_cell)
    privacy, panels = _privacy(evaluation, histogram, card, specification), dict[str, Any]()
    again = partial(again, options={}, thresholds=histogram.edges[:-1])
    if len(analysis.models) > 1:
        panels["models"] = two = _two_models(card, parties, analysis, again)
        privacy += _TWO_REPORTS
        warnings += [f"{analysis.models[1]}: {text}" for text in _interval_warnings(two.card, interval)]
        if not two.net_benefits or (interval and two.net_benefits[-1].interval is None):
            warnings.append(_NO_DIFFERENCE)
    if analysis.by or analysis.heterogeneity or analysis.cluster:
        # From one more session. Its binning error is that of the session before, which has warned.
        second = again(parties, analysis, protocol=DEFAULT_PROTOCOL, interval=interval)
        old = {*own_warnings, *warnings}
        new = [text for text in second.warnings if text not in old and not text.startswith(NOT_TOLD_APART)]
        panels["groups"] = groups = tuple(estimate for estimate in second.estimates if estimate.group)
        panels["sites"] = next(iter(second.sites), None)
        privacy += _second_privacy(second.protocol, analysis)
        if analysis.cluster:
            warnings.append(_OTHER_INTERVALS)
            first, *others = card.measures
            card = replace(card, measures=(replace(first, interval=second.interval), *others))
        if analysis.by:
            hidden = [each.group for each in groups if each.auc is None and analysis.min_cell > 1]
            cells = _cells(parties, analysis, card.chosen.threshold, again, setup)
            panels["group_decisions"] = decisions = tuple(of_cells(cells, analysis, card.min_cell, hidden))
            if len(analysis.by) > 1 and any(each.counts is None for each in decisions):
                new.append(NESTED)
        warnings += dict.fromkeys(new)
    number = f"{evaluation.parties:,} {'party' if evaluation.parties == 1 else 'parties'}"
    models = " and ".join(analysis.models) if len(analysis.models) > 1 else "Classifier"
    facts = Facts(
        title=title.strip() or f"{models} on the rows of {number}",
        date=datetime.date.today(),
        privacy=privacy,
        session=_session(evaluation, specification, seconds),
        warnings=tuple(warnings),
        **panels,
    )
    return Report(card, facts, tuple(own_warnings))


def _refuse_panels(analysis: Analysis, options: Mapping[str, object], threshold: float) -> None:
    """Raise `InputError` for what a report cannot have together, before a session spends the budget of noise."""
    panels, models = analysis.by or analysis.heterogeneity or analysis.cluster, len(analysis.models)
    if (panels or models > 1) and "epsilon" in options:
        what = "AUCs of groups, sites and patients, and differences of models, are exact"
        raise InputError(f"{what}: they do not go with a model that adds noise")
    if models > 2 or (models == 2 and (panels or threshold == 1)):
        without = "at a threshold below 1, without groups, sites and patients"
        raise InputError(f"a report is of one model, or of two {without}; got {models} columns of scores")


def _cells(
    parties: Sequence[PartyData], analysis: Analysis, threshold: float, again: _Again, setup: Setup
) -> Histogram:
    """Return, for each level of each variable, the rows of each label below the threshold, and those at or above it."""
    levels, times = [len(variable.levels) for variable in analysis.by], len(analysis.by)
    firsts = np.cumsum([0, *levels[:-1]])

    def cells(data: PartyData) -> NDArray[np.int64]:
        above = data.y_score >= threshold
        own = [2 * (first + codes.astype(np.int64)) + above for first, codes in zip(firsts, data.groups, strict=True)]
        return np.concatenate(own)

    of_several = partial(again, setup=replace(setup, max_rows=setup.max_rows * times))
    return _counted(parties, cells, 2 * sum(levels), of_several)


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
    return _pooled(recoded, partial(again, thresholds=np.arange(bins) / bins))


def _pooled(parties: Sequence[PartyData], again: _Again) -> Histogram:
    """Return the pooled histogram of the parties' scores, from one more session."""
    evaluation = again(parties, PLAIN, protocol="histogram-federated", interval=None)
    assert evaluation.histogram is not None  # noqa: S101 - that protocol has one
    return evaluation.histogram


def _two_models(card: ReportCard, parties: Sequence[PartyData], analysis: Analysis, again: _Again) -> TwoModels:
    """Return the second model's card, and net benefits from counts of rows by label and by both models' decisions."""
    second = [replace(data, scores=data.scores[1:], score_columns=data.score_columns[1:]) for data in parties]
    at = card.chosen.threshold
    other = report_card(_pooled(second, again), threshold=at, level=card.level, min_cell=card.min_cell)
    if other.chosen.threshold != at:  # counts at a third one would tell small counts beside those of the cards
        return TwoModels(analysis.models, other, ())
    cells = _counted(parties, lambda data: 2 * (data.scores[0] >= at) + (data.scores[1] >= at), 4, again)
    return TwoModels(analysis.models, other, net_benefits(analysis.models, cells, at, card.level, card.min_cell))


def _second_privacy(protocol: str, analysis: Analysis) -> str:
    """Say what the second session has told each party."""
    learnt = ["the AUC of all rows and the sums behind it, in the bins before merging"]
    if analysis.by:
        learnt.append("the same for each group, also for those not shown")
        learnt.append("in a third session, each group's rows of each label at or above the threshold, and below")
    if analysis.cluster:
        learnt.append("how many patients there are, and sums over all of them")
    if analysis.heterogeneity:
        learnt.append("sums over sites, from which who knows all sites but two can work out these two's AUCs")
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
    if least <= usable.counts[np.minimum(usable.centres, 1 - usable.centres) < NEAREST_END].sum() < below:
        yield (
            f"scores nearer than {NEAREST_END:.0e} to 0 or 1 count as {NEAREST_END:.0e} away from it in slope, "
            "intercept and calibration in the large, which depend on that"
        )


def _cell_warnings(card: ReportCard, edges: NDArray[np.float64], threshold: float) -> Iterator[str]:
    if np.abs(edges - threshold).min() < abs(card.chosen.threshold - threshold):
        yield (
            f"threshold {threshold:.6g} parts too few rows from the others: {card.chosen.threshold:.6g}, the nearest "
            "edge of the merged bins, stands for it"
        )
    elif card.min_cell == 1 and not card.noisy:
        yield "small counts are shown (--min-cell 1, in Python min_cell=1): a count from 1 to 9 may tell who is meant"


def _session(evaluation: Evaluation, thresholds: str, seconds: float) -> dict[str, object]:
    return {
        "protocol": evaluation.protocol,
        "parties": evaluation.parties,
        "thresholds": thresholds,
        "keys": evaluation.keys,
        "encryption library": evaluation.backend,
        "security, bits": evaluation.security_bits,
        "verified": verified_as_dict(evaluation.verified),
        **({"settings": dict(evaluation.settings)} if evaluation.settings else {}),
        "rounds": evaluation.rounds,
        "bytes a party sent": evaluation.upload_bytes_per_party,
        "bytes a party received": evaluation.download_bytes_per_party,
        "seconds by phase": {phase: float(f"{taken:.3g}") for phase, taken in evaluation.seconds.items()},
        "seconds in all": round(seconds, 3),
        "fhe-auc": __version__,
    }


def _privacy(evaluation: Evaluation, histogram: Histogram, card: ReportCard, thresholds: str) -> str:
    """Say what this session reveals, and to whom, from what it really was."""
    bins = f"{histogram.bins:,} bins of scores"
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
            found = grids.quantiles_wanted(thresholds)  # then edges are at places that rows choose
            placed = "" if found else f", no row is placed among fewer than {card.min_cell}"
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
    keys, trust = _KEYS.get(evaluation.keys, "There are no keys."), registry.load(evaluation.protocol).trust
    return (
        f"Model “{evaluation.protocol.removeprefix('histogram-')}”. {aggregator} {learnt}\n\n"
        f"{keys} To be trusted: {trust}.\n\n"
        "For this page one process has read the rows of all parties and has played every role in turn. The above "
        "describes what the roles exchange, and holds between sites where each runs its own role."
    )
