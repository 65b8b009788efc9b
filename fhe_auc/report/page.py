"""The report as one HTML page: nothing to fetch, nothing to run, every text passed in escaped."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fhe_auc.base.extras import require
from fhe_auc.base.files import write_atomically
from fhe_auc.figures.report_card import FIGURES, draw, png, shown_in, svg
from fhe_auc.metrics.binning_error import WIDENED
from fhe_auc.results.decisions import Decision
from fhe_auc.results.report_card import Facts, ReportCard
from fhe_auc.results.report_json import as_dict
from fhe_auc.results.report_measures import NOT_SHOWN, Measure
from fhe_auc.results.report_tables import count_text, of_groups, value_text
from fhe_auc.results.result_tables import ends, p_of

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

FILES = (
    *("report.html", "report.json", "report.pdf"),
    *(f"{name}.{ending}" for ending in ("png", "svg") for name in FIGURES),
)
"""Names of all files that `save` may write."""

_NOT_HERE = "not here"
_NEGLIGIBLE = 5e-5  # what four decimals do not show
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def render(cards: Sequence[ReportCard], facts: Facts) -> str:
    """Write the report as one self-contained page in HTML 5: no script, no request, all texts of `facts` escaped."""
    require("plots")
    return _template().render(
        facts=facts,
        cards=cards,
        names=[card.model for card in cards],
        figures=[_figure(cards, name) for name in FIGURES if shown_in(cards, name)],
        tripod=tripod_items(groups=bool(cards[0].groups), sites=cards[0].sites is not None),
    )


@cache
def _template() -> Template:
    """Return the page's template, which takes a while to compile."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("fhe_auc.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_fit,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= _FILTERS
    made.globals |= _GLOBALS
    return made.get_template("page.html")


def _fit(value: object) -> object:
    """Return what a page can hold: half a surrogate pair, and a control character, become U+FFFD."""
    return type(value)(_UNFIT.sub("�", value)) if isinstance(value, str) else value


def save(cards: Sequence[ReportCard], facts: Facts, folder: str | os.PathLike[str], *, pdf: bool = False) -> list[Path]:
    """Write the page, its JSON, each figure as PNG and SVG, and the page as PDF if asked; return the paths.

    They are among `FILES`; those of an earlier report that are not written again go.
    """
    place, html = Path(folder), render(cards, facts)
    place.mkdir(parents=True, exist_ok=True)
    contents = {
        "report.html": html.encode(),
        "report.json": (json.dumps(as_dict(cards, facts), allow_nan=False, indent=1) + "\n").encode(),
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


def _figure(cards: Sequence[ReportCard], name: str) -> dict[str, str]:
    figure = FIGURES[name]
    words = (f"{each.title}: " * bool(each.model) + figure.words(each) for each in shown_in(cards, name))
    data = base64.b64encode(svg(draw(cards, name))).decode()
    caption = figure.of_noise if cards[0].noisy else figure.caption
    return {"title": figure.title, "caption": caption, "words": " ".join(words), "data": data}


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


def _whole(count: float | None, unknown: str = NOT_SHOWN) -> str:
    return unknown if count is None else count_text(count)


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
        return ", ".join(map(_text, value))
    return "–" if value is None else str(value)


def _of(card: ReportCard) -> str:
    """Return what is added to a heading of one of several models."""
    return f" of {card.title}" if card.model else ""


def _anchor(card: ReportCard, name: str) -> str:
    """Return an id for a section of one model: names may be anything, so that it has a number."""
    return f"{name}-{zlib.crc32(card.model.encode())}" if card.model else name


def _span(measure: Measure) -> str:
    """Return what the bins leave open of a measure, if that shows and no interval has it; or why there is none."""
    estimate = measure.estimate
    if estimate is None:
        return "" if measure.missing.startswith(NOT_SHOWN) else measure.missing
    if not math.isfinite(estimate.half_width):
        return "" if measure.interval or measure.no_interval else "not known"
    if estimate.half_width < _NEGLIGIBLE:
        return ""
    from markupsafe import Markup

    return Markup("<span>{:.4f} to</span> <span>{:.4f}</span>").format(estimate.low, estimate.high)


def _with_interval(told: str) -> Markup:
    """Return HTML of "0.9 (0.8 to 1)"."""
    from markupsafe import Markup

    before, _, within = told.partition(" (")
    return Markup("{}<small>CI {}</small>").format(before, within[:-1]) if within else Markup("{}").format(told)


def _decision_head(decision: Decision) -> Markup:
    from markupsafe import Markup

    return Markup("{}<small>threshold {:.6g}</small>").format(decision.title, decision.threshold)


def _auc_head(model: str) -> Markup:
    from markupsafe import Markup

    return Markup("AUC<small>{}</small>").format(model) if model else Markup("AUC")


def _named(measures: Sequence[Measure], name: str) -> Measure:
    return next(each for each in measures if each.name == name)


_FILTERS: Mapping[str, Callable[..., object]] = {
    **{each.__name__[1:]: each for each in (_whole, _text, _of, _anchor, _span, _named)},
    **{each.__name__[1:]: each for each in (_with_interval, _decision_head, _auc_head)},
    **{"value": value_text, "number": format},
}
_GLOBALS = {
    **{"ends": ends, "p_of": p_of, "of_groups": of_groups, "zip": zip, "widened": WIDENED, "abreast": 4},
    "in_steps": (
        " Sums of weights (true positives …) are in steps of two effective rows. Rates are not of these, but of "
        "the sums as they are, each rounded by about two of its rows: report.json has the range of each."
    ),
    "confusion": {
        **{"True positives": (1, 1), "False positives": (0, 1)},
        **{"False negatives": (1, 0), "True negatives": (0, 0)},
    },
}
"""What the template names: tables of text; how many decisions one table has; where a decision has how many rows."""
