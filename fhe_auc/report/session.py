"""A report from the rows: a session that gives the pooled score histogram, one for groups and sites, and the facts."""

from __future__ import annotations

import datetime
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc import __version__
from fhe_auc.api import evaluated, named, with_parts
from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.base.options import Options
from fhe_auc.base.quantities import chance_text
from fhe_auc.base.terminal import Progress, shown
from fhe_auc.metrics import Histogram
from fhe_auc.metrics.recalibration import NEAREST_END
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import MOST_MIN_CELL, PLAIN, Analysis, Questions
from fhe_auc.report.page import render, save
from fhe_auc.results.evaluation import NOT_TOLD_APART, Evaluation, QuantileThresholds, verified_as_dict
from fhe_auc.results.intervals import BELOW_HALF, DEFAULT_LEVEL, REVERSED, Interval, few_rows
from fhe_auc.results.report_card import Facts, ReportCard, as_dict, report_card
from fhe_auc.results.result_tables import TextTable, ends, notebook_html, of_estimates, of_sites
from fhe_auc.rows.frames import Breakdown, Columns, Rows, parties_of
from fhe_auc.rows.own_rows import warnings_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import DEFAULT_PROTOCOL, Setup

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
    """The report card of a classifier, and what is said beside it.

    Attributes
    ----------
    card : ReportCard
        Every number and curve; the plotting functions draw it, and take the report itself too.
    facts : Facts
        Title, date, what was revealed to whom, costs, warnings, groups and sites.
    own_warnings : tuple of str
        What parties are told of their own rows: it names them, and small numbers, and is not for readers.
    """

    card: ReportCard
    facts: Facts
    own_warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line: title, AUC, interval, rows and share of positive ones."""
        card, interval = self.card, self.card.interval
        within = "" if interval is None else f" ({_level(interval)} {ends(interval)}, {interval.method})"
        total = (
            f"{'about ' * card.noisy}{card.histogram.counts.sum():,.0f} rows, {100 * card.prevalence:.3g} % positive"
        )
        return f"{self.facts.title}: AUC {card.auc.value:.4f}{within}; {total}"

    def __repr__(self) -> str:
        return f"<Report: {self}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the line, tables of metrics and groups, sites, warnings; not `own_warnings`."""
        measures = [*self.card.measures, *self.card.calibration_measures]
        level = next((_level(each.interval) for each in measures if each.interval is not None), "interval")
        rows = (
            (
                each.title,
                "undefined" if each.estimate is None else f"{each.estimate.value:.4f}",
                "" if each.interval is None else ends(each.interval),
                each.meaning,
            )
            for each in measures
        )
        tables = [TextTable(("metric", "value", level, ""), tuple(rows), 1)]
        if self.facts.groups:
            tables.append(of_estimates(self.facts.groups))
        sites = () if self.facts.sites is None else of_sites([self.facts.sites])
        lines = [
            *(f"{label} {value}: {note}" for label, value, note in sites),
            *(f"warning: {warning}" for warning in self.facts.warnings),
            "save(folder) writes the page with its figures",
        ]
        return notebook_html(str(self), tables, lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the whole content as plain types, ready for ``json.dumps``."""
        return as_dict(self.card, self.facts)

    def html(self) -> str:
        """Return the page, which needs no network."""
        return render(self.card, self.facts)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the page, its JSON and its figures into a folder; return their paths; errors as `report.save`."""
        return save(self.card, self.facts, folder)


@with_parts
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
    """Return the report card of a classifier on all parties' rows: curves, calibration, decisions, with intervals.

    Unlike `fhe_auc.federated_auc`, it gives the parties the pooled rows of each label in each bin of scores.

    Parameters
    ----------
    rows, thresholds, setup, progress
        As of `fhe_auc.federated_auc`.
    columns : Columns
        As there; scores are of one model, and probabilities.
    breakdown : Breakdown
        As there, without `classes` and `cross_groups`. Bins are merged until no count that is shown is from 1 to
        ``min_cell - 1``, and groups with fewer rows of a label are left out; 1 shows all.
    threshold : float
        Decision threshold, 0 to 1, to report beside the one with the best F1.
    title : str
        Heading of the page; empty: the number of parties.
    protocol : str or Options
        One that gives the parties a score histogram: histogram-federated, or one that adds noise.
    interval : float or None
        Level of all confidence intervals; None: none.

    Raises
    ------
    InputError
        As of `fhe_auc.federated_auc`; groups are asked for with a protocol that adds noise, or what a report has not.
    EvaluationError
        As there; a label has fewer than ``min_cell`` rows, or the protocol gives no histogram.
    """
    columns.require_one_score("a report")
    if breakdown.classes or breakdown.cross_groups:
        raise InputError("a report has no classes and no AUCs across groups: federated_auc has both")
    questions = replace(breakdown, min_cell=min(breakdown.min_cell, MOST_MIN_CELL)).questions(columns)
    parties, analysis = parties_of(rows, columns, questions)
    name, options = named(protocol)
    refuse_noisy_panels(questions, options)
    wanted = registry.evaluating(name).options.thresholds_for(several=False) if thresholds is None else thresholds
    started = time.perf_counter()
    with shown(progress) as report:
        evaluation = evaluated(
            parties,
            PLAIN,
            protocol=name,
            thresholds=wanted,
            interval=interval,
            setup=setup,
            progress=report,
            options=options,
        )
        return reported(
            evaluation,
            parties,
            analysis,
            thresholds=_described(wanted),
            seconds=time.perf_counter() - started,
            threshold=threshold,
            title=title,
            interval=interval,
            min_cell=breakdown.min_cell,
            progress=report,
            setup=setup,
        )


def _described(thresholds: str | ArrayLike | QuantileThresholds) -> str:
    if isinstance(thresholds, QuantileThresholds):
        return f"quantile:{len(thresholds.grid)}"
    return thresholds if isinstance(thresholds, str) else "of one's own"


def _level(interval: Interval) -> str:
    return f"{100 * interval.level:.6g} % interval"


def refuse_noisy_panels(questions: Questions, options: Mapping[str, object]) -> None:
    """Raise `InputError` where groups or sites are asked for with noise: before a session spends the budget."""
    if (questions.by or questions.heterogeneity) and "epsilon" in options:
        raise InputError("AUCs of groups and sites are exact numbers: they do not go with a model that adds noise")


def reported(
    evaluation: Evaluation,
    parties: Sequence[PartyData],
    analysis: Analysis,
    *,
    thresholds: str,
    seconds: float,
    threshold: float,
    title: str,
    interval: float | None,
    min_cell: int,
    progress: Progress,
    setup: Setup,
) -> Report:
    """Return the report of an evaluation that gave a histogram; groups and sites take one more session.

    `thresholds` is how they were given, `seconds` how long the session took, `setup` that of both
    sessions. Raises as `federated_report`.
    """
    histogram = evaluation.histogram
    if histogram is None:
        raise EvaluationError(f"protocol {evaluation.protocol!r} gives the parties no score histogram")
    exact = not math.isnan(evaluation.binning_error)
    card = report_card(histogram, threshold=threshold, level=interval, min_cell=min_cell, noisy=not exact)
    own = warnings_of(parties, histogram.edges)
    facts = Facts(
        title=title.strip() or _title(evaluation),
        date=datetime.date.today(),
        privacy=_privacy(evaluation, histogram, card, thresholds),
        session=_session(evaluation, thresholds, seconds),
        warnings=(
            *(warning for warning in evaluation.warnings if warning not in own),
            *_of_small_cells(card, histogram.edges[:-1], threshold),
            *_of_interval(card, interval),
            *_of_ends(histogram),
        ),
    )
    if analysis.by or analysis.heterogeneity:
        facts = _with_panels(facts, parties, analysis, histogram, interval, progress, setup, own)
    return Report(card, facts, tuple(own))


def _with_panels(
    facts: Facts,
    parties: Sequence[PartyData],
    analysis: Analysis,
    histogram: Histogram,
    interval: float | None,
    progress: Progress,
    setup: Setup,
    own: tuple[str, ...],
) -> Facts:
    """Return the facts with AUCs of groups and what sites have in common, from one more session.

    `own` are warnings that do not go onto the page.
    """
    found = evaluated(
        parties,
        analysis,
        protocol=DEFAULT_PROTOCOL,
        thresholds=histogram.edges[:-1],
        interval=interval,
        progress=progress,
        setup=setup,
        options={},
    )
    groups = tuple(each for each in found.estimates if each.group)
    learnt = ["the AUC of all rows and the sums behind it, in the bins before merging"]
    if groups:
        learnt.append("the same for each group, also for those not shown")
    if analysis.heterogeneity:
        learnt.append("sums over sites, from which who knows all sites but two can work out these two's AUCs")
    privacy = (
        f"{facts.privacy}\n\nGroups and sites come from a second session, of protocol {found.protocol}, and from the "
        f"bins before merging. It told each party {'; '.join(learnt)}."
    )
    # The binning error is that of the session before, which has warned of it.
    more = [each for each in found.warnings if not each.startswith(NOT_TOLD_APART)]
    warnings = (*facts.warnings, *(each for each in more if each not in own + facts.warnings))
    return replace(facts, groups=groups, sites=next(iter(found.sites), None), privacy=privacy, warnings=warnings)


def _of_interval(card: ReportCard, wanted: float | None) -> tuple[str, ...]:
    """Say why the AUC has no interval, or of how few rows it is."""
    if card.noisy or wanted is None:
        return ()
    rows = int(min(card.histogram.positives.sum(), card.histogram.negatives.sum()))
    rarer = few_rows(rows, card.auc.value)
    if card.interval is None:
        return (
            "the AUC has no confidence interval: a label has fewer than two rows, or all pairs of rows come out alike",
        )
    below = f"the AUC: {BELOW_HALF}, so {REVERSED}" if card.interval.high < 0.5 else ""
    return tuple(filter(None, (rarer, below)))


def _of_ends(histogram: Histogram) -> tuple[str, ...]:
    usable = histogram.cleaned()
    if not usable.counts[np.minimum(usable.centres, 1 - usable.centres) < NEAREST_END].any():
        return ()
    return (
        f"scores nearer than {NEAREST_END:.0e} to 0 or 1 count as {NEAREST_END:.0e} away from it in slope, intercept "
        "and calibration in the large, which depend on that",
    )


def _title(evaluation: Evaluation) -> str:
    return f"Classifier on the rows of {evaluation.parties:,} {'party' if evaluation.parties == 1 else 'parties'}"


def _session(evaluation: Evaluation, thresholds: str, seconds: float) -> dict[str, object]:
    return {
        "protocol": evaluation.protocol,
        "parties": evaluation.parties,
        "thresholds": thresholds,
        "keys": evaluation.keys,
        "encryption library": evaluation.backend,
        "security, bits": evaluation.security_bits,
        "verified": verified_as_dict(aggregation=evaluation.verified),
        **({"settings": dict(evaluation.settings)} if evaluation.settings else {}),
        "rounds": evaluation.rounds,
        "bytes a party sent": evaluation.upload_bytes_per_party,
        "bytes a party received": evaluation.download_bytes_per_party,
        "seconds by phase": {phase: float(f"{each:.3g}") for phase, each in evaluation.seconds.items()},
        "seconds in all": round(seconds, 3),
        "fhe-auc": __version__,
    }


def _of_small_cells(card: ReportCard, edges: NDArray[np.float64], threshold: float) -> tuple[str, ...]:
    if np.abs(edges - threshold).min() < abs(card.chosen.threshold - threshold):
        return (
            f"threshold {threshold:.6g} parts too few rows from the others: {card.chosen.threshold:.6g}, the nearest "
            "edge of the merged bins, stands for it",
        )
    if card.min_cell == 1 and not card.noisy:
        return (
            "small counts are shown (--min-cell 1, in Python min_cell=1): a count from 1 to 9 may tell who is meant",
        )
    return ()


def _privacy(evaluation: Evaluation, histogram: Histogram, card: ReportCard, thresholds: str) -> str:
    """Say what this session reveals, and to whom, from what it really was."""
    bins = f"{histogram.bins:,} bins of scores"
    protocol = registry.load(evaluation.protocol)
    if evaluation.security_bits:
        aggregator = (
            "Parties sent counts under one-time pads; the aggregator saw numbers that say nothing, and added them up. "
            f"The sums are verified: an aggregator that changes them is noticed, but for a chance of "
            f"{chance_text(evaluation.soundness or 1.0)}. What each party has counted nobody can check."
        )
    else:
        aggregator = "Nothing was encrypted: the aggregator saw what each party sent."
    if not math.isnan(evaluation.binning_error):
        learnt = (
            f"Each party learns the exact number of positive and of negative rows of all parties together in each of "
            f"{bins}. {_on_the_page(card)} No noise is added. A bin in which one party alone has rows shows that "
            "party's rows; whoever knows all rows but one party's learns that party's counts. Fewer thresholds reveal "
            "less."
        )
    else:
        learnt = (
            f"Counts in {bins} carry random noise ({_settings(evaluation)}). This page and report.json hold nothing "
            "else about rows. What the noise protects, and from whom, is what the protocol states below."
        )
    if grids.quantiles_wanted(thresholds):
        learnt += " Thresholds come from the scores themselves, by a session before; the warnings say what it revealed."
    return "\n\n".join(
        (
            f"Model “{evaluation.protocol.removeprefix('histogram-')}”. {aggregator} {learnt}",
            f"{_KEYS.get(evaluation.keys, 'There are no keys.')} To be trusted: {protocol.trust}.",
            "For this page one process has read the rows of all parties and has played every role in turn. The above "
            "describes what the roles exchange, and holds between sites where each runs its own role.",
        )
    )


def _on_the_page(card: ReportCard) -> str:
    if card.histogram.bins == card.fine_bins:
        return "report.json holds these numbers, and the curves on this page nearly do: readers learn them too."
    return (
        f"Here and in report.json there are {card.histogram.bins:,} bins, merged from these: no count is from 1 to "
        f"{card.min_cell - 1}, and curves and counts are of them. Measures of all rows, such as the AUC, are of the "
        "bins before, with four digits."
    )


def _settings(evaluation: Evaluation) -> str:
    of_noise = {name: value for name, value in evaluation.settings.items() if name != "signed"}
    return ", ".join(f"{name} {_number(value)}" for name, value in of_noise.items()) or "no settings stated"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
