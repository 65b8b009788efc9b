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

from fhe_auc.base.files import write_atomically
from fhe_auc.figures.report_card import FIGURES, draw, level_text, model_text, png, shown, svg
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.group_decisions import CELLS, SHOWN_RATES, GroupDecision
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import WIDENED, Interval
from fhe_auc.results.report_card import Facts, ReportCard, TwoModels
from fhe_auc.results.report_json import as_dict
from fhe_auc.results.report_measures import Decision, Measure, OperatingPoint
from fhe_auc.results.result_tables import ends, of_fairness, of_group_decisions, p_of, p_text

FILES = ("report.html", "report.json", *(f"{name}.png" for name in FIGURES))  # names of the files that `save` writes
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
        headline="\n".join(map(_headline, cards)) + (_headline_difference(facts.models) if facts.models else ""),
        computed_from=_computed_from(metrics),
        scores=_scores(cards, [each.measures for each in cards]),
        models=_two_models(facts.models) if facts.models else "",
        calibration=_calibration(cards),
        decisions="\n".join(map(_decisions, cards)),
        operating_points="\n".join(map(_operating_points, cards)),
        groups=_groups(facts.groups)
        + "\n".join(_group_decisions(each, facts.of_model(each.model).group_decisions) for each in cards),
        sites="\n".join(_sites(each, facts.of_model(each.model).sites) for each in cards),
        figures="\n".join(_figure(cards, name) for name in shown(metrics)),
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


def save(metrics: ReportCard, facts: Facts, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the page, its JSON and each figure as PNG into a folder; return the paths, which are among `FILES`."""
    place, names = Path(folder), shown(metrics)
    place.mkdir(parents=True, exist_ok=True)
    contents = (
        render(metrics, facts).encode(),
        (json.dumps(as_dict(metrics, facts), allow_nan=False, indent=1) + "\n").encode(),
        *(png(draw(facts.cards(metrics), name)) for name in names),
    )
    paths = [place / name for name in (*FILES[:2], *(f"{name}.png" for name in names))]
    for path, content in zip(paths, contents, strict=True):
        write_atomically(path, content)
    for stale in {place / name for name in FILES} - {*paths}:  # of an earlier report that had these figures
        stale.unlink(missing_ok=True)
    return paths


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
    if any(card.brier is None for card in cards):
        title = '<h2 id="calibration">How well scores are calibrated</h2>'
        return f'<section aria-labelledby="calibration">{title}<p>{_NO_PROBABILITIES}</p></section>'
    heads, rows, kind = _side_by_side(cards, [card.calibration_measures for card in cards])
    brier = " ".join(map(_brier_in_words, cards))
    about = f"Whether scores can be read as probabilities. {_below_a_value(cards[0])} {brier}"
    return _section("calibration", "How well scores are calibrated", about, heads, rows, kind=kind)


def _decisions(card: ReportCard) -> str:
    return _section(
        _anchor(card, "decisions"),
        f"How good decisions{_of(card)} are" if card.model else "How good its decisions are",
        "A row is predicted positive when its score is at or above the threshold. Where the bins leave a value "
        f"open, its range stands last. {_below_a_value(card)}",
        ("Metric", *map(_decision_head, (card.best, card.chosen))),
        _decision_rows(card.best, card.chosen),
    )


def _operating_points(card: ReportCard) -> str:
    return _section(
        _anchor(card, "points"),
        f"Thresholds that keep a specificity or sensitivity{_of(card)}",
        "The threshold is the edge of a bin: the lowest with at least that specificity, the highest with at least that "
        "sensitivity. Intervals take it as given. Where it falls on the curve exactly, and is estimated, is above: How "
        "good the scores are.",
        ("At least", "Spec.", "Sens.", "PPV", "NPV"),
        map(_point_row, card.operating_points),
    )


def _two_models(models: TwoModels) -> str:
    rows = []
    if comparison := models.comparison:
        within = "" if comparison.interval is None else f"<small>CI {ends(comparison.interval, '+.4f')}</small>"
        p = p_of(comparison) or "none"
        name = f"AUC, {_shown(comparison.second)} minus {_shown(comparison.first)}"
        why = f"<small>{_shown(comparison.missing)}</small>"
        rows.append((name + why * bool(comparison.missing), f"{comparison.difference:+.4f}{within}", p))
    rows += [(escape(each.title), _decision_cell(each), "") for each in models.net_benefits]
    about = "Both models on the same rows."
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


def _group_decisions(card: ReportCard, decisions: Sequence[GroupDecision]) -> str:
    if not decisions:
        return ""
    at = f"At the threshold {_number(card.chosen.threshold)}, over all parties, from a session of its own."
    rows = []
    for each, (name, *cells, note) in zip(decisions, of_group_decisions(decisions, card.level).rows, strict=True):
        counts = note if each.counts is None else ", ".join(map("{} {:,}".format, CELLS, each.counts))
        rates = (each.replace(" (", "<small>CI ").replace(")", "</small>") for each in cells[len(CELLS) :])
        rows.append((f"{_shown(name)}<small>{counts}</small>", *rates))
    anchor, title = _anchor(card, "group-decisions"), f"Groups at the threshold{_of(card)}"
    table = _section(anchor, title, at, ("Group", *SHOWN_RATES.values()), rows)
    between = "Largest differences and smallest ratios between groups shown, as Fairlearn's functions of these names."
    measures = [(_shown(name), *values) for name, *values, _ in of_fairness(decisions).rows]
    anchor, title = _anchor(card, "fairness"), f"Between groups{_of(card)}"
    return table + _section(anchor, title, between, ("Measure", "Difference", "Ratio"), measures)


def _sites(card: ReportCard, summaries: Sequence[SiteSummary]) -> str:
    """Return what sites have in common, if that is known; no number is of one site."""
    sites = next(iter(summaries), None)
    if sites is None or sites.within is None:
        return ""
    rows = [
        (
            "AUC within sites<small>Pairs of rows of the same site only. Far from the AUC of all rows, "
            f"{card.auc.value:.3f}: the model tells sites apart, or is held back by their differences.</small>",
            f"{sites.within:.3f}",
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
                "AUC to expect at a new site<small>Prediction interval around that mean (IVhet, Doi 2015).</small>",
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


def _headline_difference(models: TwoModels) -> str:
    if (each := models.comparison) is None:
        return ""
    within = f"no interval and no p-value: {each.missing or 'both models rank all rows alike'}"
    if each.interval is not None and each.p_value is not None:
        level = f"{100 * each.interval.level:.6g} % confidence interval"
        within = f"{level} {ends(each.interval, '+.4f')}, p {p_text(each.p_value)} ({each.interval.method})"
    names = f"{_shown(each.second)} minus {_shown(each.first)}"
    return f"<p>Difference of the AUCs, {names}: {each.difference:+.4f}; {_shown(within)}.</p>"


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
    return head, value + _interval(measure.interval), f"<small>{span or 'nothing'}</small>"


def _decision_head(decision: Decision) -> str:
    return f"{escape(decision.title)}<small>threshold {_number(decision.threshold)}</small>"


def _decision_rows(*decisions: Decision) -> Iterable[tuple[str, ...]]:
    for measures in zip(*(decision.measures for decision in decisions), strict=True):
        head = f"{escape(measures[0].title)}<small>{escape(measures[0].meaning)}</small>"
        yield head, *map(_decision_cell, measures)
    for title, cell in _CELLS.items():
        yield title, *(f"{decision.confusion[cell]:,.0f}" for decision in decisions)


def _decision_cell(measure: Measure) -> str:
    value, span = _cells(measure)
    return value + _interval(measure.interval) + (span and f"<small>{span}</small>")


def _point_row(point: OperatingPoint) -> tuple[str, ...]:
    held, decision = f"{point.title} at least {point.least:.2f}", point.decision
    if decision is None:
        return held, "no bin begins there", "–", "–", "–"
    measures = {measure.name: _decision_cell(measure) for measure in decision.measures}
    return f"{held}<small>threshold {_number(decision.threshold)}</small>", *(
        measures[name] for name in ("specificity", "recall", "precision", "npv")
    )


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return f"<small>CI <span>{interval.low:.4f} to</span> <span>{interval.high:.4f}</span></small>"


def _cells(measure: Measure) -> tuple[str, str]:
    estimate = measure.estimate
    if estimate is None:
        return "undefined", measure.missing
    value = f"{estimate.value:.4f}"
    if not math.isfinite(estimate.half_width):
        return value, "not known"
    if estimate.half_width < _NEGLIGIBLE:
        return value, ""
    return value, f"<span>{estimate.low:.4f} to</span> <span>{estimate.high:.4f}</span>"


def _figure(cards: tuple[ReportCard, ...], name: str) -> str:
    illustration = FIGURES[name]
    data = base64.b64encode(svg(draw(cards, name))).decode()
    words = " ".join(f"{model_text(each)}: " * bool(each.model) + illustration.words(each) for each in cards)
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
