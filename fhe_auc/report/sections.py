"""Sections of the page: tables of numbers, in HTML, every text escaped."""

import math
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from html import escape

from fhe_auc.figures.report_card import level_text, model_text
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.group_decisions import CELLS, SHOWN_RATES
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import WIDENED, Interval
from fhe_auc.results.report_card import Facts, ReportCard, TwoModels
from fhe_auc.results.report_measures import NOT_SHOWN, Decision, Measure, OperatingPoint
from fhe_auc.results.result_tables import (
    TextTable,
    ends,
    of_fairness,
    of_group_calibrations,
    of_group_decisions,
    of_group_differences,
    p_of,
)

_ABREAST = 4  # decisions in one table
_NEGLIGIBLE = 5e-5  # what four decimals do not show
_NO_PROBABILITIES = (
    "These scores are not probabilities: calibration, Brier score and log loss, net benefit and the decision curve are "
    "missing; all else is as for any scores."
)
_HEADS = ("Metric", "Value", "Range")
_CELLS = {"True positives": (1, 1), "False positives": (0, 1), "False negatives": (1, 0), "True negatives": (0, 0)}
_RANGE_HOLDS = {
    False: "the metric of the counted rows lies inside it.",
    True: "it leaves out the noise that the counts carry for privacy, so the metric of the rows may lie outside.",
}


def shown(text: str) -> str:
    """Escape a text; what a page cannot hold, half a surrogate pair and control characters, becomes U+FFFD."""
    unfit = ("Cs", "Cc")
    return escape("".join("�" if unicodedata.category(c) in unfit and c not in "\t\n" else c for c in text))


def section(
    anchor: str, title: str, caption: str, heads: Iterable[str], rows: Iterable[Sequence[str]], *, kind: str = "values"
) -> str:
    """Return one section; `heads` and `rows` are HTML, `kind` is "values", which are numbers, or "facts"."""
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    body = "\n".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'
        for first, *others in rows
    )
    return (
        f'<section aria-labelledby="{anchor}">\n<h2 id="{anchor}">{escape(title)}</h2>\n<table class="{kind}">\n'
        f"<caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
        "</section>"
    )


def _of(card: ReportCard) -> str:
    return f" of {model_text(card)}" if card.model else ""


def _anchor(card: ReportCard, name: str) -> str:
    """Return an id for a section of one model: names may be anything, so that it has a number."""
    return f"{name}-{zlib.crc32(card.model.encode())}" if card.model else name


def _side_by_side(
    cards: Sequence[ReportCard], measures: Sequence[Sequence[Measure]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]], str]:
    """Return heads, rows and kind of a table of measures: of one model with a column of ranges, or a column a model."""
    if len(cards) == 1:
        return _HEADS, list(map(_measure_row, measures[0])), "values"
    rows = [
        (f"{escape(same[0].title)}<small>{escape(same[0].meaning)}</small>", *map(_decision_cell, same))
        for same in zip(*measures, strict=True)
    ]
    return ("Metric", *(shown(card.model) for card in cards)), rows, "values names"


def scores(cards: Sequence[ReportCard], measures: Sequence[Sequence[Measure]]) -> str:
    """Return the measures that need no threshold."""
    heads, rows, kind = _side_by_side(cards, measures)
    about = f"Metrics that need no threshold. {_below_a_value(cards[0])} {_range(cards)}"
    return section("overall", "How good the scores are", about, heads, rows, kind=kind)


def _range(cards: Sequence[ReportCard]) -> str:
    where = "The range" if len(cards) == 1 else "The last range"
    return f"{where} is what the bins leave open: {_RANGE_HOLDS[cards[0].noisy]}"


def calibration(cards: Sequence[ReportCard]) -> str:
    """Return how well scores are calibrated, or that they are no probabilities."""
    if all(card.brier is None for card in cards):
        title = '<h2 id="calibration">How well scores are calibrated</h2>'
        return f'<section aria-labelledby="calibration">{title}<p>{_NO_PROBABILITIES}</p></section>'
    heads, rows, kind = _side_by_side(cards, [card.calibration_measures for card in cards])
    brier = " ".join(_brier_in_words(card) for card in cards if card.brier is not None)
    about = f"Whether scores can be read as probabilities. {_below_a_value(cards[0])} {brier}"
    return section("calibration", "How well scores are calibrated", about, heads, rows, kind=kind)


def decisions(card: ReportCard) -> str:
    """Return a model's decisions at the thresholds that are asked for, and at the best F1."""
    title = f"How good decisions{_of(card)} are" if card.model else "How good its decisions are"
    about = f"A row is predicted positive when its score is at or above the threshold. {_below_a_value(card)}"
    if not card.chosen:
        about += " No threshold was asked for (--threshold)."
    shown, tables = (*card.chosen, card.best), list[str]()
    for at in range(0, len(shown), _ABREAST):
        few = shown[at : at + _ABREAST]
        anchor = _anchor(card, "decisions" + (f"-{at}" if at else ""))
        tables.append(section(anchor, title, about, ("Metric", *map(_decision_head, few)), _decision_rows(*few)))
        title, about = f"Further thresholds{_of(card)}", "As above."
    return "\n".join(tables)


def operating_points(card: ReportCard) -> str:
    """Return the thresholds that the rows choose."""
    return section(
        _anchor(card, "points"),
        f"Thresholds that the rows choose{_of(card)}",
        "The threshold is the edge of a bin: the lowest with at least that specificity, the highest with at least that "
        "sensitivity; Youden's has the largest sum of both, the least cost counts a false negative as so many false "
        "positives, for which theory has a threshold where scores are true probabilities. Intervals take it as given. "
        "Where it falls on the curve exactly, and is estimated, is above: How "
        "good the scores are.",
        ("Choice", "Spec.", "Sens.", "PPV", "NPV"),
        map(_point_row, card.operating_points),
    )


def two_models(models: TwoModels) -> str:
    """Return the differences between two models."""
    rows, comparison = [], models.comparison
    if comparison is not None:
        within = "" if comparison.interval is None else f"<small>CI {ends(comparison.interval, '+.4f')}</small>"
        p = p_of(comparison) or "none"
        name = f"AUC, {shown(comparison.second)} minus {shown(comparison.first)}"
        why = f"<small>{shown(comparison.missing)}</small>"
        rows.append((name + why * bool(comparison.missing), f"{comparison.difference:+.4f}{within}", p))
    rows += [(escape(each.title), _decision_cell(each), "") for each in models.net_benefits]
    about = "Both models on the same rows."
    if comparison is not None and comparison.interval is not None:
        about += f" Interval and p of the AUCs: {comparison.interval.method}."
    if models.net_benefits:
        about += f" Net benefit: {models.net_benefits[0].meaning[0].lower()}{models.net_benefits[0].meaning[1:]}"
    heads = ("Measure", "Value", "p")
    return section("models", "Difference between the models", about, heads, rows, kind="values names")


def groups(estimates: Sequence[GroupEstimate]) -> str:
    """Return groups' AUCs, if there are groups."""
    if not estimates:
        return ""
    models = tuple(dict.fromkeys(each.model for each in estimates))
    by_group: dict[str, list[GroupEstimate]] = {}
    for each in estimates:
        by_group.setdefault(each.group, []).append(each)
    heads = ("Group", "Rows", "Positive", *(f"AUC<small>{shown(name)}</small>" if name else "AUC" for name in models))
    rows = ((*_group_row(first), *map(_group_auc, others)) for first, *others in by_group.values())
    caption = "The AUC within each group, over all parties, from a session of its own."
    return section("groups", "Groups of rows", caption, heads, rows)


def _group_row(estimate: GroupEstimate) -> tuple[str, ...]:
    rows, positives = ("–" if each is None else f"{each:,}" for each in (estimate.rows, estimate.positives))
    return shown(estimate.group), rows, positives, _group_auc(estimate)


def _group_auc(estimate: GroupEstimate) -> str:
    if estimate.auc is None:
        return f"<small>{escape(estimate.missing)}</small>"
    within = "" if estimate.interval is None else f"<small>CI {ends(estimate.interval, '.3f')}</small>"
    return f"{estimate.auc:.3f}{within}"


def group_decisions(card: ReportCard, facts: Facts) -> str:
    """Return what there is of a model's groups besides their AUCs."""
    decisions, calibrations = facts.group_decisions, of_group_calibrations(facts.group_calibrations)
    calibrated = f"Over all parties, from the counts of groups in a few bins. {_below_a_value(card)}"
    tables = _text_table(card, "group-calibration", "Calibration of groups", calibrated, calibrations)
    about = (
        "Rates less those of the largest group (Newcombe), and p that all groups are alike (χ²; of AUCs Cochran's Q), "
        "not corrected for how many there are."
    )
    compared = of_group_differences(decisions, facts.groups, card.level)
    tables += _text_table(card, "group-differences", "Differences between groups", about, compared)
    if not decisions:
        return tables
    at = f"At the threshold {_number(card.chosen[0].threshold)}, over all parties, from a session of its own."
    rows = []
    for each, (name, *cells, note) in zip(decisions, of_group_decisions(decisions, card.level).rows, strict=True):
        counts = note if each.counts is None else ", ".join(map("{} {:,}".format, CELLS, each.counts))
        rows.append((f"{shown(name)}<small>{counts}</small>", *map(_with_interval, cells[len(CELLS) :])))
    anchor, title = _anchor(card, "group-decisions"), f"Groups at the threshold{_of(card)}"
    table = section(anchor, title, at, ("Group", *SHOWN_RATES.values()), rows)
    between = (
        "Largest difference and smallest ratio of all groups, as Fairlearn's functions of these names; bounds where "
        "groups are not shown. The largest difference of groups that are alike is not 0 either: by chance alone, with "
        "these sizes, it is on average what stands beside it."
    )
    return table + tables + _text_table(card, "fairness", "Between groups", between, of_fairness(decisions))


def _text_table(card: ReportCard, anchor: str, title: str, caption: str, table: TextTable) -> str:
    """Return a table of text, if it has rows, with its notes below names and intervals below values."""
    if not table.rows:
        return ""
    rows = [
        (f"{shown(name)}<small>{shown(note)}</small>", *map(_with_interval, cells)) for name, *cells, note in table.rows
    ]
    return section(_anchor(card, anchor), f"{title}{_of(card)}", caption, map(escape, table.header[:-1]), rows)


def _with_interval(text: str) -> str:
    """Return HTML of "0.9 (0.8 to 1)"."""
    return text.replace(" (", "<small>CI ").replace(")", "</small>")


def sites(card: ReportCard, summaries: Sequence[SiteSummary]) -> str:
    """Return what sites have in common, if that is known; no number is of one site."""
    sites = next(iter(summaries), None)
    if sites is None or sites.within is None:
        return ""
    rows = [
        (
            "AUC within sites<small>Pairs of rows of the same site only. Far from the AUC of all rows, "
            f"{card.auc.value:.3f}: the model tells sites apart, or is held back by their differences.</small>",
            f"{sites.within:.3f}{_interval(sites.within_interval, '.3f')}",
        ),
        ("Sites with rows of both labels", f"{sites.both_classes:,}"),
        ("Sites with rows of one label, which have no AUC", f"{sites.one_class:,}"),
    ]
    if sites.i2 is not None and sites.tau2 is not None and sites.prediction is not None:
        rows += [
            (f"Fixed-effect mean AUC of {sites.usable:,} sites<small>By precision.</small>", f"{sites.mean:.3f}"),
            ("I²<small>Share of the variation between sites that is not chance.</small>", _percent(sites.i2)),
            ("τ<small>Standard deviation between sites, of the logit of the AUC.</small>", f"{sites.tau2**0.5:.3f}"),
            (
                "Random-effects mean AUC<small>Of all such sites (Hartung and Knapp's interval).</small>",
                f"{sites.random_mean:.3f}{_interval(sites.random_interval, '.3f')}",
            ),
            (
                "AUC to expect at a new site<small>Prediction interval around the fixed-effect mean (IVhet).</small>",
                ends(sites.prediction, ".3f"),
            ),
        ]
    caption = "How far sites differ (DerSimonian and Laird), from sums over all sites; no site's own AUC is shown."
    return section(_anchor(card, "sites"), f"Sites{_of(card)}", caption, ("Measure", "Value"), rows)


def headline(card: ReportCard) -> str:
    """Return a model's AUC, and what it means in words."""
    of = f"AUC{', ' + shown(card.model) if card.model else ''}"
    return (
        f'<p class="auc"><span>{of}</span><b>{card.auc.value:.3f}</b>'
        f"<small>{_headline_interval(card)}</small>{_headline_range(card)}</p>\n"
        f'<div class="words"><p>{shown(_in_words(card))}</p></div>'
    )


def _headline_interval(card: ReportCard) -> str:
    interval = card.interval
    if interval is None:
        return "no confidence interval"
    level = f"{100 * interval.level:.6g} % confidence interval"
    return f"{level} {ends(interval, '.3f')} ({interval.method}), if {interval.independent} are independent"


def _headline_range(card: ReportCard) -> str:
    """Say what noise or bins leave open; where an interval is not widened by it, tables alone have it."""
    if card.noisy:
        return "<small>computed from counts with random noise, which no range on this page covers</small>"
    if card.interval is not None and not card.interval.method.endswith(WIDENED):
        return ""
    low, high = f"{card.auc.low:.3f}", f"{card.auc.high:.3f}"
    return f"<small>binning: the AUC of these rows lies between {low} and {high}</small>" if low != high else ""


def _in_words(card: ReportCard) -> str:
    best = {measure.name: measure.estimate for measure in card.best.measures}
    found, right = best["recall"], best["precision"]
    assert found is not None and right is not None  # noqa: S101, PT018 - the best F1 predicts a row positive
    return (
        f"Of 100 pairs of a positive and a negative row, {_the(card)} gives the positive one the higher score in "
        f"{100 * card.auc.value:.0f}. At its best F1, with a threshold of {_number(card.best.threshold)}, it finds "
        f"{_percent(found.value)} of the positive rows, and {_percent(right.value)} of the rows that it predicts "
        "positive are truly positive."
    )


def _the(card: ReportCard) -> str:
    return model_text(card) if card.model else "the classifier"


def computed_from(card: ReportCard) -> str:
    """Say of how many rows all numbers are."""
    about, between, merged = "about " if card.noisy else "", "", ""
    if interval := card.prevalence_interval:
        between = f", {level_text(card)} interval {_percent(interval.low)} to {_percent(interval.high)}"
    if card.histogram.bins < card.fine_bins:
        merged = f", merged from {card.fine_bins:,} so that no count shown is from 1 to {card.min_cell - 1}"
    return (
        f"Computed from {about}{card.histogram.counts.sum():,.0f} rows, {card.histogram.positives.sum():,.0f} of them "
        f"positive ({_percent(card.prevalence)}{between}), counted in {card.histogram.bins:,} bins of scores{merged}."
    )


def _below_a_value(card: ReportCard) -> str:
    if card.level is None:
        return "There are no confidence intervals."
    level, clustered = level_text(card), ""
    if card.interval is not None and card.interval.independent != "rows":
        clustered = f", but for the AUC, which takes {card.interval.independent} so"
    return (
        f"Below a value: its {level} confidence interval (CI), where there is one, if rows are independent{clustered}."
    )


def _brier_in_words(card: ReportCard) -> str:
    assert card.brier is not None  # noqa: S101 - else there is no such section
    reliability, resolution, uncertainty = card.brier
    merged = card.histogram.bins < card.fine_bins
    return (
        f"The Brier score{_of(card)} is {'about ' * merged}"
        f"reliability {reliability:.4f} − resolution {resolution:.4f} + "
        f"uncertainty {uncertainty:.4f} (Murphy, 1973; by bins{', which leave out how scores differ inside' * merged})."
    )


def _measure_row(measure: Measure) -> tuple[str, str, str]:
    value, span = _cells(measure)
    head = f"{escape(measure.title)}<small>{escape(measure.meaning)}</small>"
    return (
        head,
        value + _interval(measure.interval) + _why_none(measure),
        f"<small{' class=why' * (measure.estimate is None)}>{span or 'nothing'}</small>",
    )


def _decision_head(decision: Decision) -> str:
    return f"{escape(decision.title)}<small>threshold {decision.threshold:.6g}</small>"


def _decision_rows(*decisions: Decision) -> Iterable[tuple[str, ...]]:
    for measures in zip(*(decision.measures for decision in decisions), strict=True):
        head = f"{escape(measures[0].title)}<small>{escape(measures[0].meaning)}</small>"
        yield head, *map(_decision_cell, measures)
    for title, (row, column) in _CELLS.items():
        counts = (decision.confusion[row][column] for decision in decisions)
        yield title, *(NOT_SHOWN if count is None else f"{count:,}" for count in counts)


def _decision_cell(measure: Measure) -> str:
    value, span = _cells(measure)
    why = ' class="why"' if measure.estimate is None else ""
    return value + _interval(measure.interval) + _why_none(measure) + (span and f"<small{why}>{span}</small>")


def _why_none(measure: Measure) -> str:
    return f"<small class=why>{measure.no_interval}</small>" if measure.estimate and measure.no_interval else ""


def _point_row(point: OperatingPoint) -> tuple[str, ...]:
    held, decision = escape(point.title), point.decision
    if decision is None:
        return held, "no bin begins there", "–", "–", "–"
    measures = {measure.name: _decision_cell(measure) for measure in decision.measures}
    return f"{held}<small>threshold {_number(decision.threshold)}</small>", *(
        measures[name] for name in ("specificity", "recall", "precision", "npv")
    )


def _interval(interval: Interval | None, form: str = ".4f") -> str:
    if interval is None:
        return ""
    return f"<small>CI <span>{interval.low:{form}} to</span> <span>{interval.high:{form}}</span></small>"


def _cells(measure: Measure) -> tuple[str, str]:
    estimate = measure.estimate
    if estimate is None:  # why one is not shown is said once, in the warnings
        return (NOT_SHOWN, "") if measure.missing.startswith(NOT_SHOWN) else ("undefined", measure.missing)
    value = f"{estimate.value:.4f}"
    if not math.isfinite(estimate.half_width):
        return value, "not known"
    if estimate.half_width < _NEGLIGIBLE:
        return value, ""
    return value, f"<span>{estimate.low:.4f} to</span> <span>{estimate.high:.4f}</span>"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
