"""``fhe-auc report``: the whole report card of a classifier, from the pooled score histogram."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.base.files import write_atomically
from fhe_auc.cli import inputs, output
from fhe_auc.cli.evaluation_table import binning_error_rows, interval_rows, print_tables
from fhe_auc.cli.session_options import SessionOptions, histogram_options
from fhe_auc.metrics.binning_error import WIDENED
from fhe_auc.question.analysis import MOST_MIN_CELL, Questions
from fhe_auc.results import report_tables, result_tables
from fhe_auc.results.asked import Asked, ReportAsked
from fhe_auc.results.evaluation import LEAST_REPLICATES, MOST_REPLICATES
from fhe_auc.results.report_measures import NOT_PROBABILITIES

if TYPE_CHECKING:
    from fhe_auc.report import Report, ReportCard
    from fhe_auc.results.report_measures import Measure

_SHOWN = ("average_precision", "expected_calibration_error", "brier", "scaled_brier")
"""Measures of scores that are printed; the page has all."""

REPLICATES = click.IntRange(LEAST_REPLICATES, MOST_REPLICATES)
_PRINTED = ("youden", "least_cost", "alert_rate")  # likewise, of thresholds that the rows choose


def _printable(context: click.Context, parameter: click.Parameter, title: str | None) -> str | None:
    if title is not None and not title.isprintable():  # a byte that is not UTF-8, say
        raise click.BadParameter("a title must be printable text")
    return title


@inputs.command(
    "fhe-auc report north.csv south.csv west.csv",
    "fhe-auc report *.csv --threshold 0.05,0.1 --cost-ratio 19 --out sepsis --pdf",
    "fhe-auc report *.csv --epsilon 1",
    "fhe-auc report all.parquet --site-column hospital --json | jq .metrics",
    "fhe-auc report results/20261123T185001Z-31c4….json",
)
@inputs.party_files
@histogram_options
@inputs.option(
    "--threshold T,T",
    "Cut-offs, counted exactly; groups are at the first one.",
    name="asked_thresholds",
    multiple=True,
    callback=inputs.numbers,
)
@inputs.option("--cost-ratio C", "Cut-off of least cost; a miss costs C false alarms.", type=float)
@inputs.option("--alert-rate R", "Lowest cut-off that flags at most this share of rows.", type=float)
@inputs.option("--bootstrap R", "Intervals of best cut-offs, of differences: R replicates.", type=REPLICATES)
@inputs.option("--title TEXT", "Heading of the page.", callback=_printable)
@inputs.option("--out DIR", "Folder for the files; is made.", type=inputs.PATH, default="report")
@inputs.option("--pdf", "Write the page as report.pdf too (the extra 'pdf').")
@inputs.option("--table FILE", "Write all values as CSV too, also formatted for a paper.", type=inputs.PATH)
@inputs.interval_option
@inputs.gathered(
    "asked",
    Questions,
    inputs.score_columns_option("Two models: all of both, and how they differ."),
    inputs.by_option,
    inputs.heterogeneity_option,
    inputs.cluster_option,
    *inputs.weight_options,
    inputs.whole_number(
        "--min-cell", 1, default=10, about="Merge bins, and hide groups, until no count is from 1 to N - 1."
    ),
)
@inputs.option("--force", "Overwrite files of an earlier report.")
@output.json_option
def report(
    files: inputs.PartyFiles,
    session: SessionOptions,
    asked_thresholds: tuple[float, ...],
    cost_ratio: float | None,
    alert_rate: float | None,
    bootstrap: int | None,
    title: str | None,
    out: Path,
    pdf: bool,
    table: Path | None,
    force: bool,
    asked: Questions,
    as_json: bool,
) -> None:
    """Write a classifier's report card, from padded or noisy counts of scores.

    An HTML page that needs no network, its figures (PNG, SVG) and numbers (JSON): ROC, precision and recall,
    calibration, decision curve, intervals, and what was revealed to whom. Unlike `evaluate` it gives the parties the
    pooled rows of each label in each bin: docs/guide/report-card.md.

    FILE is as of `fhe-auc evaluate`, or a site's result of a report between machines (.json), which says what was
    asked: then this writes its page. `fhe-auc check` says who has signed it.
    """
    from fhe_auc import report as cards

    require("plots")
    if pdf:
        require("pdf")
    wanted = ReportAsked(
        protocol=session.plugin.name,
        options=dict(session.options),
        threshold=asked_thresholds,
        cost_ratio=cost_ratio,
        alert_rate=alert_rate,
        min_cell=asked.min_cell,
        title=title or "",
        bootstrap=bootstrap or 0,
    )
    _check_folder(out, cards.FILES, force=force)
    if table is not None:
        _check_folder(table.parent, (table.name,), force=force)
    if (result := files.result) is not None:
        inputs.refuse_beside_a_result({"out", "pdf", "table", "force", "title", "as_json"})
        made = cards.Report.load(result)
        made = replace(made, facts=replace(made.facts, title=title or made.facts.title))
    else:
        parties, analysis = files.read_for(replace(asked, min_cell=min(asked.min_cell, MOST_MIN_CELL)))
        with output.progress("Keys and parties") as progress:
            made = cards.report_of(
                parties,
                Asked(analysis=analysis, interval=session.interval, report=wanted),
                thresholds=session.in_one_process,
                specification=session.specification,
                setup=session.setup,
                progress=progress,
            )
    with output.progress("Drawing"):
        saved = made.save(out, pdf=pdf)
        if table is not None:
            write_atomically(table, made.csv().encode())
            saved.append(table)
    # What parties are told of their own rows names parties and small numbers: it is for who runs this, not for readers
    # of the page and the files.
    if as_json:
        output.print_json({**made.as_dict(), "own_warnings": list(made.own_warnings)})
        for path in saved:
            output.print_line(f"saved {path}")
        for warning in made.own_warnings:
            output.print_warning(warning)
    else:
        _print(made, saved)
        output.print_warnings(made.own_warnings)


def _check_folder(folder: Path, names: tuple[str, ...], *, force: bool) -> None:
    """Raise `InputError` where the files cannot be written, or are there already, before anything expensive starts."""
    if folder.suffix.lower() in (".pdf", ".html", ".json"):
        raise InputError(f"--out names a folder, not a file such as {str(folder)!r}; --pdf adds report.pdf")
    there = [name for name in names if os.path.lexists(folder / name)]
    if there and not force:
        raise InputError(f"folder {str(folder)!r} already holds {there[0]}; take another with --out, or say --force")
    place = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise InputError(f"folder {str(folder)!r} cannot be written to: {error.strerror}") from None


def _print(report: Report, saved: list[Path]) -> None:
    rows: list[tuple[output.Cell, ...]] = []
    card, cards, facts = report.card, report.cards.values(), report.facts
    for each in cards:
        rows += _auc(each)
    if isinstance(settings := facts.session.get("settings"), Mapping) and "epsilon" in settings:
        how = "fhe-auc evaluate --epsilon has the AUC with less noise, and spends its epsilon besides: both add up"
        rows.append(("epsilon", f"{settings['epsilon']:g}", f"the privacy budget of a row replaced; {how}"))
    if pair := facts.comparison:
        within = "none" if pair.interval is None else result_tables.ends(pair.interval, "+.4f")
        note = pair.missing if pair.p_value is None else f"p {result_tables.p_text(pair.p_value)}"
        rows += [("difference of AUCs", f"{pair.difference:+.4f}", f"{pair.second} minus {pair.first}")]
        rows += [("its interval", within, note or "both models rank all rows alike")]
    if card.histogram.bins < card.fine_bins:
        note = f"of {card.fine_bins:,}: the others are merged, so that no count shown is from 1 to {card.min_cell - 1}"
        rows.append(("bins", f"{card.histogram.bins:,}", note))
    rows += result_tables.of_sites(each.sites for each in cards if each.sites)
    about = "about " if card.noisy else ""
    total = f"{about}{card.total:,.0f} rows, {100 * card.prevalence:.3g}% positive" + " by weight" * card.weighted
    if card.private is not None and card.level is not None and (share := card.prevalence_interval):
        within = result_tables.ends(card.private.intervals["rows"], ",.0f")
        total = f"about {card.total:,.0f} rows ({card.level_text} interval {within}), {100 * card.prevalence:.3g}% "
        total += f"positive ({100 * share.low:.3g} to {100 * share.high:.3g})"
    output.print_text(f"{facts.title}: {total}.\n")
    if facts.weighting:
        output.print_text(f"{facts.weighting['text']}\n")
    output.print_table(rows)
    output.print_text()
    heading = "interval" if card.level is None else f"{100 * card.level:.6g} % interval"
    measures = [(each.model, *line) for each in cards for line in _measures(each)]
    more = facts.bootstrap.differences if facts.bootstrap else ()
    differences = [("", *_measure(card, one)) for one in (*facts.net_benefits, *more)]
    chosen = [(each.model, *line) for each in cards for line in _decisions(each)]
    tables = [
        _table(("model", "metric", "value", heading, ""), [*measures, *differences], words=2),
        _table(("model", "cut-off", "at", "precision", "recall", "F1", ""), chosen, words=2),
    ]
    groups = [group for each in cards for group in each.groups]
    print_tables([*tables, *([result_tables.of_estimates(groups)] if groups else [])])
    for each in cards if groups else ():
        if own := [table for table in report_tables.of_groups(each) if table.rows]:
            output.print_text(output.styled(f"\n{each.model or 'Groups'}, at the first cut-off:\n", "bold"))
            print_tables(own)
    output.print_text()
    page, *others = saved
    output.print_text(f"page saved as {page}; beside it {', '.join(path.name for path in others)}")
    output.print_warnings(facts.warnings)


def _auc(card: ReportCard) -> list[tuple[output.Cell, ...]]:
    """Return AUC and interval; what the bins leave open only where no interval has it."""
    note = card.model or "of all parties' rows together"
    if card.noisy:
        note = f"of counts with noise, interpolated between {card.histogram.bins} bins"
    rows: list[tuple[output.Cell, ...]] = [
        (output.styled("AUC", "bold"), output.styled(f"{card.auc.value:.4f}", "bold"), note)
    ]
    rows += interval_rows(card.interval)
    if not card.noisy and (card.interval is None or card.interval.method.endswith(WIDENED)):
        rows += binning_error_rows(card.auc.value, card.auc.half_width, digits=4)
    return rows


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]], words: int) -> result_tables.TextTable:
    """Return a table whose first column is the model, left out where there is one model only."""
    named = any(model for model, *_ in rows)
    start = 0 if named else 1
    return result_tables.TextTable(header[start:], tuple(row[start:] for row in rows), words - start)


def _measures(card: ReportCard) -> Iterator[tuple[str, str, str, str]]:
    """Yield the lines of a model's measures; those that need probabilities are one where there are none."""
    for measure in (*(one for one in card.measures if one.name in _SHOWN), *card.calibration_measures):
        if measure.missing != NOT_PROBABILITIES:
            yield _measure(card, measure)
    if any(one.missing == NOT_PROBABILITIES for one in card.calibration_measures):
        yield "Calibration", "none", "", f"{NOT_PROBABILITIES} (--score-scale makes them of logits)"


def _measure(card: ReportCard, measure: Measure) -> tuple[str, str, str, str]:
    """Return name, value, interval and, where there is none, what bins leave open or why."""
    value, estimate = report_tables.value_text(measure), measure.estimate
    if measure.interval is not None:
        return measure.title, value, result_tables.ends(measure.interval), ""
    note = measure.no_interval or (measure.missing if estimate is None else "")
    if not note and estimate is not None and not card.noisy and 5e-5 <= estimate.half_width < math.inf:
        note = f"bins leave open {estimate.low:.4f} to {estimate.high:.4f}"
    return measure.title, value, "", note


def _decisions(card: ReportCard) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a model's cut-offs: those asked for, that of the best F1, and others that rows choose."""
    points = {point.decision: point.interval for point in card.operating_points if point.name in _PRINTED}
    for decision in (*card.chosen, card.best, *filter(None, points)):
        values = {measure.name: report_tables.value_text(measure) for measure in decision.measures}
        for each in decision.measures if card.noisy else ():  # rates of exact counts have theirs on the page
            if each.interval:
                values[each.name] = f"{values[each.name][:-1]} ({result_tables.ends(each.interval, '.2f')})"
        title, _, _ = decision.title.partition(" (")
        title = title if title.startswith("Youden") else title[0].lower() + title[1:]
        note = f"cut-off {result_tables.ends(found, '.4g')}" if (found := points.get(decision)) else ""
        yield title, f"{decision.threshold:.4g}", *(values[name] for name in ("precision", "recall", "f1")), note
    for point in card.operating_points:
        if point.name in _PRINTED and point.decision is None:
            yield point.title[0].lower() + point.title[1:], "none", "", "", "", "no bin begins there"
