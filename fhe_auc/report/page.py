"""The report as one HTML page: nothing to fetch, nothing to run, every text passed in escaped."""

import base64
import json
import math
import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from fhe_auc.base.files import write_atomically
from fhe_auc.figures.report_card import FIGURES, OF_BOTH, draw, level_text, png, svg
from fhe_auc.metrics import Estimate
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.group_decisions import CELLS, SHOWN_RATES, GroupDecision
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import Interval
from fhe_auc.results.report_card import Facts, ReportCard, TwoModels
from fhe_auc.results.report_json import as_dict
from fhe_auc.results.report_measures import Decision, Measure, OperatingPoint
from fhe_auc.results.result_tables import ends, of_fairness, of_group_decisions

FILES = ("report.html", "report.json", *(f"{name}.png" for name in FIGURES))  # names of the files that `save` writes
_NEGLIGIBLE = 5e-5  # what four decimals do not show

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
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=_shown(facts.title),
        date=facts.date.isoformat(),
        warnings=_warnings(facts.warnings),
        auc=f"{metrics.auc.value:.3f}",
        auc_interval=_headline_interval(metrics.interval),
        auc_range=_headline_range(metrics.auc, noisy=metrics.noisy),
        in_words=_in_words(metrics),
        computed_from=_computed_from(metrics),
        scores=_section(
            "overall",
            "How good the scores are",
            f"Metrics that need no threshold. {_below_a_value(metrics)} The range is what the bins leave open: "
            f"{_RANGE_HOLDS[metrics.noisy]}",
            _HEADS,
            map(_measure_row, metrics.measures),
        ),
        calibration=_section(
            "calibration",
            "How well scores are calibrated",
            f"Whether scores can be read as probabilities. {_below_a_value(metrics)} {_brier_in_words(metrics)}",
            _HEADS,
            map(_measure_row, metrics.calibration_measures),
        ),
        decisions=_section(
            "decisions",
            "How good its decisions are",
            "A row is predicted positive when its score is at or above the threshold. Where the bins leave a value "
            f"open, its range stands last. {_below_a_value(metrics)}",
            ("Metric", *map(_decision_head, (metrics.best, metrics.chosen))),
            _decision_rows(metrics.best, metrics.chosen),
        ),
        operating_points=_section(
            "points",
            "At a specificity or sensitivity that is held",
            "The threshold is the edge of a bin: the lowest with that specificity, the highest with that sensitivity. "
            "Intervals take it as given; those of sensitivity at a specificity, above, and the reverse do not.",
            ("Held", "Spec.", "Sens.", "PPV", "NPV"),
            map(_point_row, metrics.operating_points),
        ),
        groups=_two_models(metrics, facts.models) + _groups(facts.groups),
        sites=_group_decisions(metrics, facts.group_decisions) + _sites(metrics, facts.sites),
        figures="\n".join(_figure(metrics, name, facts.models) for name in FIGURES),
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
                for item, what, where in tripod_items(groups=bool(facts.groups), sites=facts.sites is not None)
            ],
            kind="facts",
        ),
    )


def save(metrics: ReportCard, facts: Facts, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the page, its JSON and each figure as PNG into a folder; return the paths of `FILES`."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    contents = (
        render(metrics, facts).encode(),
        (json.dumps(as_dict(metrics, facts), allow_nan=False, indent=1) + "\n").encode(),
        *(png(draw(metrics, name, facts.models)) for name in FIGURES),
    )
    paths = [place / name for name in FILES]
    for path, content in zip(paths, contents, strict=True):
        write_atomically(path, content)
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


def _two_models(card: ReportCard, models: TwoModels | None) -> str:
    if models is None:
        return ""
    pairs = zip(*((*each.measures, *each.calibration_measures) for each in (card, models.card)), strict=True)
    rows = [(escape(first.title), *map(_decision_cell, (first, second))) for first, second in pairs]
    for each in models.net_benefits[2:]:
        rows.append(
            (f"Net benefit<small>{escape(each.meaning)}</small>", *map(_decision_cell, models.net_benefits[:2]))
        )
        rows.append((escape(each.title), "", _decision_cell(each)))
    about = f"On the same rows. All other tables are of {models.names[0]}. {_below_a_value(card)}"
    return _section("models", "Two models", about, ("Metric", *map(_shown, models.names)), rows, kind="values names")


def _groups(estimates: Sequence[GroupEstimate]) -> str:
    if not estimates:
        return ""
    caption = "The AUC within each group, over all parties, from a session of its own."
    return _section(
        "groups", "Groups of rows", caption, ("Group", "Rows", "Positive", "AUC"), map(_group_row, estimates)
    )


def _group_row(estimate: GroupEstimate) -> tuple[str, ...]:
    name, interval = _shown(estimate.group), estimate.interval
    if estimate.auc is None or estimate.rows is None:
        return name, "–", "–", f"<small>{escape(estimate.missing)}</small>"
    within = "" if interval is None else f"<small>CI {ends(interval, '.3f')}</small>"
    return name, f"{estimate.rows:,}", f"{estimate.positives:,}", f"{estimate.auc:.3f}{within}"


def _group_decisions(card: ReportCard, decisions: Sequence[GroupDecision]) -> str:
    if not decisions:
        return ""
    at = f"At the threshold {_number(card.chosen.threshold)}, over all parties, from a session of its own."
    rows = []
    for each, (name, *cells, note) in zip(decisions, of_group_decisions(decisions, card.level).rows, strict=True):
        counts = note if each.counts is None else ", ".join(map("{} {:,}".format, CELLS, each.counts))
        rates = (each.replace(" (", "<small>CI ").replace(")", "</small>") for each in cells[len(CELLS) :])
        rows.append((f"{_shown(name)}<small>{counts}</small>", *rates))
    table = _section("group-decisions", "Groups at the threshold", at, ("Group", *SHOWN_RATES.values()), rows)
    between = "Largest differences and smallest ratios between groups shown, as Fairlearn's functions of these names."
    measures = [(_shown(name), *values) for name, *values, _ in of_fairness(decisions).rows]
    return table + _section("fairness", "Between groups", between, ("Measure", "Difference", "Ratio"), measures)


def _sites(card: ReportCard, sites: SiteSummary | None) -> str:
    """Return what sites have in common, if that is known; no number is of one site."""
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
    return _section("sites", "Sites", caption, ("Measure", "Value"), rows)


def _headline_interval(interval: Interval | None) -> str:
    if interval is None:
        return "no confidence interval"
    level = f"{100 * interval.level:.6g} % confidence interval"
    return f"{level} {ends(interval, '.3f')} ({interval.method}), if {interval.independent} are independent"


def _headline_range(auc: Estimate, *, noisy: bool) -> str:
    if noisy:
        return "computed from counts with random noise, which no range on this page covers"
    if auc.half_width < _NEGLIGIBLE:
        return "the bins leave nothing open"
    return f"the AUC of these rows lies between {auc.low:.3f} and {auc.high:.3f}, wherever they lie inside their bins"


def _in_words(card: ReportCard) -> str:
    best = {measure.name: measure.estimate for measure in card.best.measures}
    found, right = best["recall"], best["precision"]
    assert found is not None and right is not None  # noqa: S101, PT018 - the best F1 predicts a row positive
    return (
        f"Of 100 pairs of a positive and a negative row, the classifier gives the positive one the higher score in "
        f"{100 * card.auc.value:.0f}. At its best F1, with a threshold of {_number(card.best.threshold)}, it finds "
        f"{_percent(found.value)} of the positive rows, and {_percent(right.value)} of the rows that it predicts "
        "positive are truly positive."
    )


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
    level = level_text(card)
    return f"Below a value: its {level} confidence interval (CI), where there is one, if rows are independent."


def _brier_in_words(card: ReportCard) -> str:
    reliability, resolution, uncertainty = card.brier
    merged = card.histogram.bins < card.fine_bins
    return (
        f"The Brier score is {'about ' * merged}reliability {reliability:.4f} − resolution {resolution:.4f} + "
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
    held, decision = f"{point.title} {point.least:.2f}", point.decision
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


def _figure(card: ReportCard, name: str, models: TwoModels | None) -> str:
    illustration = FIGURES[name]
    data, words = base64.b64encode(svg(draw(card, name, models))).decode(), illustration.words(card)
    if models is not None and name in OF_BOTH:
        words += f" Of {models.names[1]}: {illustration.words(models.card)}"
    return (
        f'<figure><h3>{escape(illustration.title)}</h3><img src="data:image/svg+xml;base64,{data}" '
        f'alt="{escape(words)}" width="410" height="360">'
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
