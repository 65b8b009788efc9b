"""The report as one HTML page: nothing to fetch, nothing to run, every text passed in escaped."""

import base64
import json
import math
import os
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from fhe_auc.base.extras import require
from fhe_auc.base.files import write_atomically
from fhe_auc.figures.report_card import FIGURES, draw, level_text, model_text, png, shown_in, svg
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.group_decisions import CELLS, SHOWN_RATES
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import WIDENED, Interval
from fhe_auc.results.report_card import Facts, ReportCard, TwoModels
from fhe_auc.results.report_json import as_dict
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

FILES = (
    *("report.html", "report.json", "report.pdf"),
    *(f"{name}.{ending}" for ending in ("png", "svg") for name in FIGURES),
)
"""Names of all files that `save` may write."""

_ABREAST = 4  # decisions in one table
_NEGLIGIBLE = 5e-5  # what four decimals do not show

_NO_PROBABILITIES = (
    "These scores are not probabilities: calibration, Brier score and log loss, net benefit and the decision curve are "
    "missing; all else is as for any scores."
)
_HEADS = ("Metric", "Value", "Range")
_NOT_HERE = "not here"
_CELLS = {"True positives": (1, 1), "False positives": (0, 1), "False negatives": (1, 0), "True negatives": (0, 0)}
_RANGE_HOLDS = {
    False: "the metric of the counted rows lies inside it.",
    True: "it leaves out the noise that the counts carry for privacy, so the metric of the rows may lie outside.",
}


def render(metrics: ReportCard, facts: Facts) -> str:
    """Write the report as one self-contained page in HTML 5: no script, no request, all texts of `facts` escaped."""
    template = resources.files(__package__) / "page.html"
    cards = facts.cards(metrics)
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=_shown(facts.title),
        date=facts.date.isoformat(),
        warnings=_warnings(facts.warnings),
        headline="\n".join(map(_headline, cards)),
        computed_from=_computed_from(metrics),
        scores=_scores(cards, [each.measures for each in cards]),
        models=_two_models(facts.models) if facts.models else "",
        calibration=_calibration(cards),
        decisions="\n".join(map(_decisions, cards)),
        operating_points="\n".join(map(_operating_points, cards)),
        groups=_groups(facts.groups) + "\n".join(_group_decisions(each, facts.of_model(each.model)) for each in cards),
        sites="\n".join(_sites(each, facts.of_model(each.model).sites) for each in cards),
        figures="\n".join(_figure(cards, name) for name in FIGURES if shown_in(cards, name)),
        privacy="\n".join(f"<p>{_shown(part)}</p>" for part in facts.privacy.split("\n\n") if part.strip()),
        session=_section(
            "session",
            "Session",
            "How the counts came about.",
            ("Fact", "Value"),
            [(_shown(str(name)), _shown(_text(value))) for name, value in facts.session.items()],
            kind="facts",
        ),
        tripod=_section(
            "tripod",
            "TRIPOD+AI",
            "Items of the checklist for reporting prediction models (Collins et al., BMJ 2024) that this page serves, "
            "and some that it does not.",
            ("Item", "Where on this page"),
            [
                (f"{item} {escape(what)}", escape(where))
                for item, what, where in tripod_items(groups=bool(facts.groups), sites=bool(facts.sites))
            ],
            kind="facts",
        ),
    )


def save(metrics: ReportCard, facts: Facts, folder: str | os.PathLike[str], *, pdf: bool = False) -> list[Path]:
    """Write the page, its JSON, each figure as PNG and SVG, and the page as PDF if asked; return the paths.

    They are among `FILES`; those of an earlier report that are not written again go.
    """
    place, html, cards = Path(folder), render(metrics, facts), facts.cards(metrics)
    place.mkdir(parents=True, exist_ok=True)
    contents = {
        "report.html": html.encode(),
        "report.json": (json.dumps(as_dict(metrics, facts), allow_nan=False, indent=1) + "\n").encode(),
        **({"report.pdf": as_pdf(html)} if pdf else {}),
    }
    for ending, drawn in (("png", png), ("svg", svg)):
        contents |= {f"{name}.{ending}": drawn(draw(cards, name)) for name in FIGURES if shown_in(cards, name)}
    for name, content in contents.items():
        write_atomically(place / name, content)
    for stale in {*FILES} - contents.keys():
        (place / stale).unlink(missing_ok=True)
    return [place / name for name in contents]


def as_pdf(html: str) -> bytes:
    """Return a page as PDF; nothing but what is in it is read. Raises `InputError` without the extra "pdf"."""
    require("pdf")
    from weasyprint import HTML
    from weasyprint.urls import URLFetcher

    return bytes(HTML(string=html, url_fetcher=URLFetcher(allowed_protocols={"data"})).write_pdf())


def _shown(text: str) -> str:
    """Escape a text; what a page cannot hold, half a surrogate pair and control characters, becomes U+FFFD."""
    unfit = ("Cs", "Cc")
    return escape("".join("�" if unicodedata.category(c) in unfit and c not in "\t\n" else c for c in text))


def _warnings(warnings: Iterable[str]) -> str:
    items = "".join(f"<li>{_shown(warning)}</li>" for warning in warnings)
    if not items:
        return ""
    return (
        '<section class="warnings" aria-labelledby="warnings"><h2 id="warnings">Read this first</h2>'
        f"<ul>{items}</ul></section>"
    )


def _section(
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
    return ("Metric", *(_shown(card.model) for card in cards)), rows, "values names"


def _scores(cards: Sequence[ReportCard], measures: Sequence[Sequence[Measure]]) -> str:
    heads, rows, kind = _side_by_side(cards, measures)
    about = f"Metrics that need no threshold. {_below_a_value(cards[0])} {_range(cards)}"
    return _section("overall", "How good the scores are", about, heads, rows, kind=kind)


def _range(cards: Sequence[ReportCard]) -> str:
    where = "The range" if len(cards) == 1 else "The last range"
    return f"{where} is what the bins leave open: {_RANGE_HOLDS[cards[0].noisy]}"


def _calibration(cards: Sequence[ReportCard]) -> str:
    if all(card.brier is None for card in cards):
        title = '<h2 id="calibration">How well scores are calibrated</h2>'
        return f'<section aria-labelledby="calibration">{title}<p>{_NO_PROBABILITIES}</p></section>'
    heads, rows, kind = _side_by_side(cards, [card.calibration_measures for card in cards])
    brier = " ".join(_brier_in_words(card) for card in cards if card.brier is not None)
    about = f"Whether scores can be read as probabilities. {_below_a_value(cards[0])} {brier}"
    return _section("calibration", "How well scores are calibrated", about, heads, rows, kind=kind)


def _decisions(card: ReportCard) -> str:
    title = f"How good decisions{_of(card)} are" if card.model else "How good its decisions are"
    about = f"A row is predicted positive when its score is at or above the threshold. {_below_a_value(card)}"
    if not card.chosen:
        about += " No threshold was asked for (--threshold)."
    shown, tables = (*card.chosen, card.best), list[str]()
    for at in range(0, len(shown), _ABREAST):
        few = shown[at : at + _ABREAST]
        anchor = _anchor(card, "decisions" + (f"-{at}" if at else ""))
        tables.append(_section(anchor, title, about, ("Metric", *map(_decision_head, few)), _decision_rows(*few)))
        title, about = f"Further thresholds{_of(card)}", "As above."
    return "\n".join(tables)


def _operating_points(card: ReportCard) -> str:
    return _section(
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


def _two_models(models: TwoModels) -> str:
    rows, comparison = [], models.comparison
    if comparison is not None:
        within = "" if comparison.interval is None else f"<small>CI {ends(comparison.interval, '+.4f')}</small>"
        p = p_of(comparison) or "none"
        name = f"AUC, {_shown(comparison.second)} minus {_shown(comparison.first)}"
        why = f"<small>{_shown(comparison.missing)}</small>"
        rows.append((name + why * bool(comparison.missing), f"{comparison.difference:+.4f}{within}", p))
    rows += [(escape(each.title), _decision_cell(each), "") for each in models.net_benefits]
    about = "Both models on the same rows."
    if comparison is not None and comparison.interval is not None:
        about += f" Interval and p of the AUCs: {comparison.interval.method}."
    if models.net_benefits:
        about += f" Net benefit: {models.net_benefits[0].meaning[0].lower()}{models.net_benefits[0].meaning[1:]}"
    heads = ("Measure", "Value", "p")
    return _section("models", "Difference between the models", about, heads, rows, kind="values names")


def _groups(estimates: Sequence[GroupEstimate]) -> str:
    if not estimates:
        return ""
    models = tuple(dict.fromkeys(each.model for each in estimates))
    by_group: dict[str, list[GroupEstimate]] = {}
    for each in estimates:
        by_group.setdefault(each.group, []).append(each)
    heads = ("Group", "Rows", "Positive", *(f"AUC<small>{_shown(name)}</small>" if name else "AUC" for name in models))
    rows = ((*_group_row(first), *map(_group_auc, others)) for first, *others in by_group.values())
    caption = "The AUC within each group, over all parties, from a session of its own."
    return _section("groups", "Groups of rows", caption, heads, rows)


def _group_row(estimate: GroupEstimate) -> tuple[str, ...]:
    rows, positives = ("–" if each is None else f"{each:,}" for each in (estimate.rows, estimate.positives))
    return _shown(estimate.group), rows, positives, _group_auc(estimate)


def _group_auc(estimate: GroupEstimate) -> str:
    if estimate.auc is None:
        return f"<small>{escape(estimate.missing)}</small>"
    within = "" if estimate.interval is None else f"<small>CI {ends(estimate.interval, '.3f')}</small>"
    return f"{estimate.auc:.3f}{within}"


def _group_decisions(card: ReportCard, facts: Facts) -> str:
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
        rows.append((f"{_shown(name)}<small>{counts}</small>", *map(_with_interval, cells[len(CELLS) :])))
    anchor, title = _anchor(card, "group-decisions"), f"Groups at the threshold{_of(card)}"
    table = _section(anchor, title, at, ("Group", *SHOWN_RATES.values()), rows)
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
        (f"{_shown(name)}<small>{_shown(note)}</small>", *map(_with_interval, cells))
        for name, *cells, note in table.rows
    ]
    return _section(_anchor(card, anchor), f"{title}{_of(card)}", caption, map(escape, table.header[:-1]), rows)


def _with_interval(text: str) -> str:
    """Return HTML of "0.9 (0.8 to 1)"."""
    return text.replace(" (", "<small>CI ").replace(")", "</small>")


def _sites(card: ReportCard, summaries: Sequence[SiteSummary]) -> str:
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
    return _section(_anchor(card, "sites"), f"Sites{_of(card)}", caption, ("Measure", "Value"), rows)


def _headline(card: ReportCard) -> str:
    """Return a model's AUC, and what it means in words."""
    of = f"AUC{', ' + _shown(card.model) if card.model else ''}"
    return (
        f'<p class="auc"><span>{of}</span><b>{card.auc.value:.3f}</b>'
        f"<small>{_headline_interval(card)}</small>{_headline_range(card)}</p>\n"
        f'<div class="words"><p>{_shown(_in_words(card))}</p></div>'
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


def _computed_from(card: ReportCard) -> str:
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


def _figure(cards: tuple[ReportCard, ...], name: str) -> str:
    illustration = FIGURES[name]
    data = base64.b64encode(svg(draw(cards, name))).decode()
    words = " ".join(
        f"{model_text(each)}: " * bool(each.model) + illustration.words(each) for each in shown_in(cards, name)
    )
    return (
        f'<figure><h3>{escape(illustration.title)}</h3><img src="data:image/svg+xml;base64,{data}" '
        f'alt="{_shown(words)}" width="410" height="360">'
        f"<figcaption>{escape(illustration.caption)}</figcaption></figure>"
    )


def _number(value: float) -> str:
    return f"{value:.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(entry)}" for name, entry in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(entry) for entry in value)
    return "–" if value is None else str(value)


def tripod_items(*, groups: bool, sites: bool) -> tuple[tuple[str, str, str], ...]:
    """Return each item of the TRIPOD+AI checklist that the report serves, what it asks for, and where that is.

    Places are titles of sections or figures, on a page with these panels. Collins et al., BMJ 385 (2024), e078378.
    """
    fairness = "Groups of rows, Groups at the threshold, Between groups; how they were chosen: not here"
    subgroups = ", Groups of rows" if groups else "; key subgroups: not here"
    return (
        ("10", "Sample size, and how it was arrived at", _NOT_HERE),
        ("11", "Missing data", _NOT_HERE),
        ("12e", "Measures and plots of performance", "all tables, and the figures; why these: not here"),
        ("14", "Fairness", fairness if groups else _NOT_HERE),
        ("15", "Classification, and its thresholds", "How good its decisions are; why these: not here"),
        ("20a", "Participants with and without the outcome", "top of the page; their flow: not here"),
        ("20b", "Characteristics of participants", _NOT_HERE),
        ("21", "Participants and outcome events in the analysis", "top of the page"),
        ("22", "The model itself", _NOT_HERE),
        ("23a", "Performance, with confidence intervals", f"all tables, ROC curve, Reliability{subgroups}"),
        ("23b", "Heterogeneity across clusters", "Sites" if sites else _NOT_HERE),
    )
