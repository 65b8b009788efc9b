"""``fhe-auc report``: the whole report card of a classifier, from the pooled score histogram."""

from __future__ import annotations

import datetime
import math
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
from numpy.typing import NDArray

from fhe_auc import __version__, registry, result_tables
from fhe_auc.analysis import MOST_MIN_CELL, Analysis, Questions
from fhe_auc.api import evaluated
from fhe_auc.cli import inputs, output
from fhe_auc.cli.evaluation_table import binning_error_rows, interval_rows, print_tables
from fhe_auc.cli.histogram_session import PREFIX, Pooled, histogram_options, pool
from fhe_auc.cli.session import SessionOptions
from fhe_auc.counts import PartyData
from fhe_auc.errors import InputError
from fhe_auc.evaluation import Evaluation, verified_as_dict
from fhe_auc.intervals import few_rows
from fhe_auc.own_rows import warnings_of
from fhe_auc.protocol import DEFAULT_PROTOCOL

if TYPE_CHECKING:
    from fhe_auc.intervals import Interval
    from fhe_auc.metrics import Estimate
    from fhe_auc.report import Decision, Facts, ReportCard

_KEYS = {
    "sealed": "A key holder has made the secret key and sealed it to each party; it must not collude with the "
    "aggregator. Each party can decrypt any ciphertext that it gets hold of, a single party's too.",
    "joint": "The parties have made the secret key together and nobody has it as a whole: only all of them together "
    "can decrypt.",
}

_ABOUT_AUC = {
    True: "of all parties' rows together",
    False: "the noise is random and has no bound; the ranges below leave it out",
}


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
@inputs.by_option
@inputs.heterogeneity_option
@inputs.whole_number(
    "--min-cell",
    1,
    default=10,
    about="Merge bins until no count that is shown is from 1 to N - 1, and leave out groups with fewer rows of a "
    "label. 1: show small counts too.",
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
    by: dict[str, tuple[str, ...]],
    heterogeneity: bool,
    min_cell: int,
    as_json: bool,
) -> None:
    """Write the report card of a classifier, from encrypted counts of its scores (or noisy ones, by --model).

    One HTML page that needs no network, its figures as PNG and its numbers as JSON: ROC, precision and recall,
    calibration, decision curve, confidence intervals, and what was revealed to whom. Scores must lie in [0, 1]. Unlike
    `evaluate`, which gives an AUC, it gives the parties the pooled rows of each label in each bin. Page and files show
    them in bins that are merged until no count is small.

    AUCs of groups (--by), and how far sites differ (--heterogeneity), come from one more session, of `verified`.
    """
    from fhe_auc import report as cards

    _check_folder(out, cards.FILES, force=force)
    questions = Questions(score_columns=(), by=by, heterogeneity=heterogeneity, min_cell=min(min_cell, MOST_MIN_CELL))
    parties, analysis = files.read_for(questions)
    if (by or heterogeneity) and "epsilon" in session.options:  # before the session, which spends the budget
        raise InputError("AUCs of groups and sites are exact numbers: they do not go with a model that adds noise")
    pooled = pool(session, parties)
    card = cards.report_card(
        pooled.histogram, threshold=threshold, level=interval, min_cell=min_cell, noisy=not pooled.exact
    )
    # What parties are told of their own rows names parties and small numbers: it is for this terminal, not for readers.
    own = warnings_of(parties, pooled.histogram.edges)
    warnings = (
        *(warning for warning in pooled.evaluation.warnings if warning not in own),
        *_of_small_cells(card, pooled.histogram.edges[:-1], threshold),
        *_of_interval(card, interval),
    )
    facts = _facts(session, pooled, card, (title or "").strip() or _title(pooled.evaluation), warnings)
    if by or heterogeneity:
        facts = _with_panels(facts, session, parties, analysis, pooled, interval, own)
    with output.progress("Drawing"):
        saved = cards.save(card, facts, out)
    if as_json:
        output.print_json(cards.as_dict(card, facts))
        for path in saved:
            output.print_line(f"saved {path}")
        for warning in own:
            output.print_warning(warning)
    else:
        _print(card, facts, saved)
        output.print_warnings(own)


def _with_panels(
    facts: Facts,
    session: SessionOptions,
    parties: list[PartyData],
    analysis: Analysis,
    pooled: Pooled,
    interval: float | None,
    own: tuple[str, ...],
) -> Facts:
    """Return the facts with AUCs of groups and what sites have in common, from one more session.

    `own` are warnings that do not go onto the page.
    """
    with output.progress("Groups and sites") as report:
        found = evaluated(
            parties,
            analysis,
            protocol=DEFAULT_PROTOCOL,
            thresholds=pooled.histogram.edges[:-1],
            interval=interval,
            progress=report,
            options={},
            **{name: session.common[name] for name in ("backend", "keys", "smudging_bits", "max_rows", "min_rows")},
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
    warnings = (*facts.warnings, *(each for each in found.warnings if each not in own + facts.warnings))
    return replace(facts, groups=groups, sites=next(iter(found.sites), None), privacy=privacy, warnings=warnings)


def _of_interval(card: ReportCard, wanted: float | None) -> tuple[str, ...]:
    """Say why the AUC has no interval, or of how few rows it is."""
    if card.noisy or wanted is None:
        return ()
    rarer = few_rows(int(min(card.histogram.positives.sum(), card.histogram.negatives.sum())))
    if card.interval is None:
        return (
            "the AUC has no confidence interval: merging small counts has moved it too far, or pairs of rows do not "
            "differ enough. `fhe-auc evaluate` gives AUC and interval without merging",
        )
    return (rarer,) if rarer else ()


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


def _title(evaluation: Evaluation) -> str:
    return f"Classifier on the rows of {evaluation.parties:,} {'party' if evaluation.parties == 1 else 'parties'}"


def _facts(session: SessionOptions, pooled: Pooled, card: ReportCard, title: str, warnings: tuple[str, ...]) -> Facts:
    from fhe_auc.report import Facts

    evaluation = pooled.evaluation
    facts: dict[str, object] = {
        "protocol": evaluation.protocol,
        "parties": evaluation.parties,
        "thresholds": session.specification,
        "keys": evaluation.keys,
        "encryption library": evaluation.backend,
        "security, bits": evaluation.security_bits,
        "verified": verified_as_dict(aggregation=evaluation.verified),
        **({"settings": dict(evaluation.settings)} if evaluation.settings else {}),
        "rounds": evaluation.rounds,
        "bytes a party sent": evaluation.upload_bytes_per_party,
        "bytes a party received": evaluation.download_bytes_per_party,
        "seconds by phase": {phase: float(f"{seconds:.3g}") for phase, seconds in evaluation.seconds.items()},
        "seconds in all": round(pooled.wall_seconds, 3),
        "fhe-auc": __version__,
    }
    return Facts(
        title=title,
        date=datetime.date.today(),
        privacy=_privacy(session, pooled, card),
        session=facts,
        warnings=warnings,
    )


def _of_small_cells(card: ReportCard, edges: NDArray[np.float64], threshold: float) -> tuple[str, ...]:
    if np.abs(edges - threshold).min() < abs(card.chosen.threshold - threshold):
        return (
            f"threshold {threshold:.6g} parts too few rows from the others: {card.chosen.threshold:.6g}, the nearest "
            "edge of the merged bins, stands for it",
        )
    if card.min_cell == 1 and not card.noisy:
        return ("small counts are shown (--min-cell 1): a count from 1 to 9 may tell who is meant",)
    return ()


def _privacy(session: SessionOptions, pooled: Pooled, card: ReportCard) -> str:
    """Say what this session reveals, and to whom, from what it really was."""
    evaluation, bins = pooled.evaluation, f"{pooled.histogram.bins:,} bins of scores"
    protocol = registry.load(evaluation.protocol)
    if evaluation.security_bits:
        aggregator = "Parties sent encrypted counts; the aggregator saw ciphertexts only, and added them up."
    else:
        aggregator = "Nothing was encrypted: the aggregator saw what each party sent."
    if pooled.exact:
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
    if session.quantiles:
        learnt += " Thresholds come from the scores themselves, by a session before; the warnings say what it revealed."
    return "\n\n".join(
        (
            f"Model “{session.plugin.name.removeprefix(PREFIX)}”. {aggregator} {learnt}",
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
        f"{card.min_cell - 1}, and curves and metrics are computed from them."
    )


def _settings(evaluation: Evaluation) -> str:
    of_noise = {name: value for name, value in evaluation.settings.items() if name != "signed"}
    return ", ".join(f"{name} {_number(value)}" for name, value in of_noise.items()) or "no settings stated"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print(card: ReportCard, facts: Facts, saved: list[Path]) -> None:
    """Print the metrics that people ask for first, and where the files are."""
    estimates = {measure.name: measure for measure in card.measures}
    rows: list[tuple[output.Cell, ...]] = [
        (output.styled("AUC", "bold"), output.styled(f"{card.auc.value:.6f}", "bold"), _ABOUT_AUC[not card.noisy]),
        *interval_rows(card.interval),
        *(() if card.noisy else binning_error_rows(card.auc.value, card.auc.half_width)),
        *_bins(card),
        *(
            (measure.title, _value(measure.estimate), f"{_span(measure.estimate)}{measure.meaning}")
            for measure in (estimates[name] for name in ("average_precision", "expected_calibration_error", "brier"))
        ),
        *(
            (measure.title, _value(measure.estimate), _within(measure.interval))
            for measure in card.calibration_measures
        ),
        *_decision(card.best),
        *_decision(card.chosen),
        *(() if facts.sites is None else result_tables.of_sites([facts.sites])),
    ]
    about = "about " if card.noisy else ""
    total = f"{about}{card.histogram.counts.sum():,.0f} rows, {100 * card.prevalence:.3g}% positive"
    output.print_text(f"{facts.title}: {total}.")
    output.print_text()
    output.print_table(rows)
    output.print_text()
    if facts.groups:
        print_tables([result_tables.of_estimates(facts.groups)])
        output.print_text()
    page, *others = saved
    output.print_text(f"page saved as {page}; beside it {', '.join(path.name for path in others)}")
    output.print_warnings(facts.warnings)


def _bins(card: ReportCard) -> list[tuple[output.Cell, ...]]:
    if card.histogram.bins == card.fine_bins:
        return []
    note = f"of {card.fine_bins:,}: the others are merged, so that no count shown is from 1 to {card.min_cell - 1}"
    return [("bins", f"{card.histogram.bins:,}", note)]


def _within(interval: Interval | None) -> str:
    return (
        "" if interval is None else f"{100 * interval.level:.6g} % interval {interval.low:.4f} to {interval.high:.4f}"
    )


def _decision(decision: Decision) -> list[tuple[output.Cell, ...]]:
    measures = {measure.name: _value(measure.estimate) for measure in decision.measures}
    at = f"precision {measures['precision']}, recall {measures['recall']}, F1 {measures['f1']}"
    return [(f"Threshold, {decision.title[0].lower()}{decision.title[1:]}", f"{decision.threshold:.4g}", at)]


def _value(estimate: Estimate | None) -> str:
    return "undefined" if estimate is None else f"{estimate.value:.4f}"


def _span(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"between {estimate.low:.4f} and {estimate.high:.4f}. "
