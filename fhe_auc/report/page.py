"""The report as one HTML page: nothing to fetch, nothing to run, every text passed in escaped."""

from __future__ import annotations

import base64
import json
import os
import unicodedata
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from fhe_auc.files import write_atomically
from fhe_auc.intervals import Interval
from fhe_auc.metrics import Estimate
from fhe_auc.report.card import Decision, Facts, Measure, ReportCard, as_dict
from fhe_auc.report.figures import FIGURES, draw, png, svg

__all__ = ["FILES", "render", "save"]

FILES = ("report.html", "report.json", *(f"{name}.png" for name in FIGURES))
"""Names of the files that `save` writes."""

_NEGLIGIBLE = 5e-5  # what four decimals do not show

_RANGE_HOLDS = {
    False: "the metric of the counted rows lies inside it.",
    True: "it leaves out the noise that the counts carry for privacy, so the metric of the rows may lie outside.",
}


def render(metrics: ReportCard, facts: Facts) -> str:
    """Write the report as one self-contained page in HTML 5.

    Style and figures are inside; there is no script, and a policy forbids any request. The texts of `facts` are
    escaped: they appear as they are.
    """
    template = resources.files(__package__) / "page.html"
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=_shown(facts.title),
        warnings=_warnings(facts.warnings),
        auc=f"{metrics.auc.value:.3f}",
        auc_interval=_headline_interval(metrics.interval, noisy=facts.noisy),
        auc_range=_headline_range(metrics.auc, noisy=facts.noisy),
        in_words=_in_words(metrics),
        rows=f"{'about ' if facts.noisy else ''}{metrics.histogram.counts.sum():,.0f}",
        range_holds=_RANGE_HOLDS[facts.noisy],
        positives=f"{metrics.histogram.positives.sum():,.0f}",
        prevalence=_percent(metrics.prevalence),
        bins=f"{metrics.histogram.bins:,}",
        measures="\n".join(_measure_row(measure) for measure in metrics.measures),
        decision_heads="".join(_decision_head(decision) for decision in (metrics.best, metrics.chosen)),
        decisions="\n".join(_decision_rows(metrics.best, metrics.chosen)),
        figures="\n".join(_figure(metrics, name) for name in FIGURES),
        privacy="\n".join(f"<p>{_shown(part)}</p>" for part in facts.privacy.split("\n\n") if part.strip()),
        session="\n".join(
            f'<tr><th scope="row">{_shown(str(name))}</th><td>{_shown(_text(value))}</td></tr>'
            for name, value in facts.session.items()
        ),
    )


def save(metrics: ReportCard, facts: Facts, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the page, the same content as JSON, and each figure as PNG; return the paths of `FILES`.

    The folder is made if it does not exist; files in it with these names are overwritten. Raises `OSError` where a file
    cannot be written.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    contents = (
        render(metrics, facts).encode(),
        (json.dumps(as_dict(metrics, facts), allow_nan=False, indent=1) + "\n").encode(),
        *(png(draw(metrics, name)) for name in FIGURES),
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


def _headline_interval(interval: Interval | None, *, noisy: bool) -> str:
    if noisy or interval is None:
        return "no confidence interval"
    return (
        f"{100 * interval.level:.0f} % confidence interval {interval.low:.3f} to {interval.high:.3f} "
        f"({interval.method}), if rows are independent"
    )


def _headline_range(auc: Estimate, *, noisy: bool) -> str:
    if noisy:
        return "computed from counts with random noise, which no range on this page covers"
    if auc.half_width < _NEGLIGIBLE:
        return "the bins leave nothing open"
    return f"the AUC of these rows lies between {auc.low:.3f} and {auc.high:.3f}, wherever they lie inside their bins"


def _in_words(card: ReportCard) -> str:
    of_hundred = f"{100 * card.auc.value:.0f}"
    best = {measure.name: measure.estimate for measure in card.best.measures}
    found, right = best["recall"], best["precision"]
    assert found is not None and right is not None  # noqa: S101, PT018 - the best F1 predicts a row positive
    return (
        f"Of 100 pairs of a positive and a negative row, the classifier gives the positive one the higher score in "
        f"{of_hundred}. At its best F1, with a threshold of {_number(card.best.threshold)}, it finds "
        f"{_percent(found.value)} of the positive rows, and {_percent(right.value)} of the rows that it predicts "
        "positive are truly positive."
    )


def _measure_row(measure: Measure) -> str:
    value, span = _cells(measure.estimate)
    span = span or "none"
    return (
        f'<tr><th scope="row">{escape(measure.title)}<small>{escape(measure.meaning)}</small></th>'
        f'<td class="number">{value}</td><td class="range">{span}</td></tr>'
    )


def _decision_head(decision: Decision) -> str:
    below = f"threshold {_number(decision.threshold)}"
    return f'<th scope="col" class="number">{escape(decision.title)}<small>{below}</small></th>'


def _decision_rows(*decisions: Decision) -> Iterable[str]:
    for measures in zip(*(decision.measures for decision in decisions), strict=True):
        cells = ""
        for measure in measures:
            value, span = _cells(measure.estimate)
            cells += f'<td class="number">{value}{span and f"<small>{span}</small>"}</td>'
        head = f"{escape(measures[0].title)}<small>{escape(measures[0].meaning)}</small>"
        yield f'<tr><th scope="row">{head}</th>{cells}</tr>'
    for title, (i, j) in {
        "True positives": (1, 1),
        "False positives": (0, 1),
        "False negatives": (1, 0),
        "True negatives": (0, 0),
    }.items():
        cells = "".join(f'<td class="number">{decision.confusion[i, j]:,.0f}</td>' for decision in decisions)
        yield f'<tr class="count"><th scope="row">{title}</th>{cells}</tr>'


def _cells(estimate: Estimate | None) -> tuple[str, str]:
    if estimate is None:
        return "undefined", "no row is predicted positive"
    value = f"{estimate.value:.4f}"
    if estimate.half_width < _NEGLIGIBLE:
        return value, ""
    return value, f"<span>{estimate.low:.4f} to</span> <span>{estimate.high:.4f}</span>"


def _figure(card: ReportCard, name: str) -> str:
    illustration = FIGURES[name]
    data = base64.b64encode(svg(draw(card, name))).decode()
    return (
        f'<figure><h3>{escape(illustration.title)}</h3><img src="data:image/svg+xml;base64,{data}" '
        f'alt="{escape(illustration.words(card))}" width="410" height="360">'
        f"<figcaption>{escape(illustration.caption)}</figcaption></figure>"
    )


def _number(value: float) -> str:
    return f"{value:.4g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _text(value: object) -> str:
    """Write a fact for people."""
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
