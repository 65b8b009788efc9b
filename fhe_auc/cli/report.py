"""``fhe-auc report``: the whole report card of a classifier, from the pooled score histogram."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.cli import inputs, output
from fhe_auc.cli.evaluation_table import binning_error_rows, interval_rows, print_tables
from fhe_auc.cli.session_options import SessionOptions, histogram_options, naming_the_aggregator
from fhe_auc.question.analysis import MOST_MIN_CELL, Questions
from fhe_auc.results import result_tables

if TYPE_CHECKING:
    from fhe_auc.metrics import Estimate
    from fhe_auc.report import Decision, Facts, ReportCard

_SHOWN = ("average_precision", "expected_calibration_error", "brier", "scaled_brier")
"""Measures of scores that are printed; the page has all."""


def _finite(context: click.Context, parameter: click.Parameter, threshold: float) -> float:
    if math.isnan(threshold):
        raise click.BadParameter("nan is not a threshold")
    return threshold


def _printable(context: click.Context, parameter: click.Parameter, title: str | None) -> str | None:
    if title is not None and not title.isprintable():  # a byte that is not UTF-8, say
        raise click.BadParameter("a title must be printable text")
    return title


@click.command(
    epilog=output.examples(
        "fhe-auc report north.csv south.csv west.csv",
        "fhe-auc report *.csv --threshold 0.2 --title 'Sepsis alarm, 2026' --out sepsis",
        "fhe-auc report *.csv --thresholds quantile:200",
        "fhe-auc report *.csv --keys joint --thresholds uniform:100",
        "fhe-auc report all.parquet --site-column hospital --json | jq .metrics.roc_auc",
    )
)
@inputs.party_files
@histogram_options
@click.option(
    "--threshold",
    metavar="T",
    type=click.FloatRange(0, 1),
    default=0.5,
    callback=_finite,
    help="Decision threshold to report beside the one with the best F1.",
)
@click.option(
    "--title", metavar="TEXT", callback=_printable, help="Heading of the page. Default: the number of parties."
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default="report",
    help="Folder for the files; made if it is not there.",
)
@inputs.interval_options(
    "Level of all confidence intervals: DeLong's of the AUC, Wilson's of rates.", "Leave them out."
)
@inputs.gathered(
    "asked",
    Questions,
    inputs.score_columns_option(
        "Columns of two models' scores: curves and metrics of both, and the difference of net benefit at --threshold."
    ),
    inputs.by_option,
    inputs.heterogeneity_option,
    inputs.cluster_option,
    inputs.whole_number(
        "--min-cell",
        1,
        default=10,
        about="Merge bins until no count that is shown is from 1 to N - 1, and leave out groups with fewer rows of a "
        "label. 1: show small counts too.",
    ),
)
@click.option("--force", is_flag=True, help="Overwrite files of an earlier report.")
@output.json_option
def report(
    files: inputs.PartyFiles,
    session: SessionOptions,
    threshold: float,
    title: str | None,
    out: Path,
    force: bool,
    interval: float | None,
    asked: Questions,
    as_json: bool,
) -> None:
    """Write the report card of a classifier, from padded counts of its scores (or noisy ones, by --model).

    One HTML page that needs no network, its figures as PNG and its numbers as JSON: ROC, precision and recall,
    calibration, decision curve, confidence intervals, and what was revealed to whom. Scores must lie in [0, 1]. Unlike
    `evaluate`, which gives an AUC, it gives the parties the pooled rows of each label in each bin. Page and files show
    them in bins that are merged until no count is small.

    AUCs of groups (--by), how far sites differ (--heterogeneity), and the AUCs' intervals where patients have several
    rows (--cluster) come from one more session, of `verified`; counts of groups at the threshold from a third one. With
    --score-columns there are two more sessions, and none of these.
    """
    from fhe_auc import report as cards

    require("plots")
    _check_folder(out, cards.FILES, force=force)
    parties, analysis = files.read_for(replace(asked, min_cell=min(asked.min_cell, MOST_MIN_CELL)))
    with output.progress("Keys and parties") as progress:
        made = cards.report_of(
            parties,
            analysis,
            protocol=session.plugin.name,
            options=session.options,
            thresholds=session.thresholds,
            specification=session.specification,
            threshold=threshold,
            title=title or "",
            interval=interval,
            min_cell=asked.min_cell,
            setup=session.setup,
            progress=naming_the_aggregator(progress),
        )
    with output.progress("Drawing"):
        saved = made.save(out)
    # What parties are told of their own rows names parties and small numbers: it is for who runs this, not for readers
    # of the page and the files.
    if as_json:
        output.print_json({**made.as_dict(), "own_warnings": list(made.own_warnings)})
        for path in saved:
            output.print_line(f"saved {path}")
        for warning in made.own_warnings:
            output.print_warning(warning)
    else:
        _print(made.card, made.facts, saved)
        output.print_warnings(made.own_warnings)


def _check_folder(folder: Path, names: tuple[str, ...], *, force: bool) -> None:
    """Raise `InputError` where the files cannot be written, or are there already, before anything expensive starts."""
    there = [name for name in names if os.path.lexists(folder / name)]
    if there and not force:
        raise InputError(f"folder {str(folder)!r} already holds {there[0]}; take another with --out, or say --force")
    place = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise InputError(f"folder {str(folder)!r} cannot be written to: {error.strerror}") from None


def _print(card: ReportCard, facts: Facts, saved: list[Path]) -> None:
    note = "of all parties' rows together"
    if card.noisy:
        note = "the noise is random and has no bound; the ranges below leave it out"
    rows: list[tuple[output.Cell, ...]] = [
        (output.styled("AUC", "bold"), output.styled(f"{card.auc.value:.4f}", "bold"), note),
        *interval_rows(card.interval),
        *(() if card.noisy else binning_error_rows(card.auc.value, card.auc.half_width, digits=4)),
    ]
    if facts.models:
        of_second = (f"AUC, {facts.models.names[1]}", _value(facts.models.card.auc), "")
        rows += [of_second, *interval_rows(facts.models.card.interval)]
    if card.histogram.bins < card.fine_bins:
        note = f"of {card.fine_bins:,}: the others are merged, so that no count shown is from 1 to {card.min_cell - 1}"
        rows.append(("bins", f"{card.histogram.bins:,}", note))
    for measure in card.measures:
        if measure.name in _SHOWN:
            estimate = measure.estimate
            value = "left out" if estimate is None else f"{estimate.value:.4f}"
            between = estimate and f"between {estimate.low:.4f} and {estimate.high:.4f}. {measure.meaning}"
            rows.append((measure.title, value, between or measure.missing))
    for measure in (*card.calibration_measures, *(facts.models.net_benefits if facts.models else ())):
        interval = measure.interval
        within = "" if interval is None else f"{interval.heading} {result_tables.ends(interval)}"
        rows.append((measure.title, _value(measure.estimate), within))
    rows += [_decision(card.best), _decision(card.chosen), *result_tables.of_sites(facts.site_summaries)]
    about = "about " if card.noisy else ""
    total = f"{about}{card.histogram.counts.sum():,.0f} rows, {100 * card.prevalence:.3g}% positive"
    output.print_text(f"{facts.title}: {total}.\n")
    output.print_table(rows)
    output.print_text()
    if facts.groups:
        decisions = facts.group_decisions
        at_threshold = result_tables.of_group_decisions(decisions, card.level), result_tables.of_fairness(decisions)
        print_tables([result_tables.of_estimates(facts.groups), *at_threshold])
        output.print_text()
    page, *others = saved
    output.print_text(f"page saved as {page}; beside it {', '.join(path.name for path in others)}")
    output.print_warnings(facts.warnings)


def _decision(decision: Decision) -> tuple[str, str, str]:
    measures = {measure.name: _value(measure.estimate) for measure in decision.measures}
    at = f"precision {measures['precision']}, recall {measures['recall']}, F1 {measures['f1']}"
    return f"Threshold, {decision.title[0].lower()}{decision.title[1:]}", f"{decision.threshold:.4g}", at


def _value(estimate: Estimate | None) -> str:
    return "undefined" if estimate is None else f"{estimate.value:.4f}"
