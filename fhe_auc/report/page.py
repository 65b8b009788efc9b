"""The report as one HTML page: nothing to fetch, nothing to run, every text passed in escaped."""

import base64
import json
import os
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from fhe_auc.base.extras import require
from fhe_auc.base.files import write_atomically
from fhe_auc.figures.report_card import FIGURES, draw, model_text, png, shown_in, svg
from fhe_auc.report import sections
from fhe_auc.results.report_card import Facts, ReportCard
from fhe_auc.results.report_json import as_dict

FILES = (
    *("report.html", "report.json", "report.pdf"),
    *(f"{name}.{ending}" for ending in ("png", "svg") for name in FIGURES),
)
"""Names of all files that `save` may write."""

_NOT_HERE = "not here"


def render(metrics: ReportCard, facts: Facts) -> str:
    """Write the report as one self-contained page in HTML 5: no script, no request, all texts of `facts` escaped."""
    template = resources.files(__package__) / "page.html"
    cards = facts.cards(metrics)
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=sections.shown(facts.title),
        date=facts.date.isoformat(),
        warnings=_warnings(facts.warnings),
        headline="\n".join(map(sections.headline, cards)),
        computed_from=sections.computed_from(metrics),
        scores=sections.scores(cards, [each.measures for each in cards]),
        models=sections.two_models(facts.models) if facts.models else "",
        calibration=sections.calibration(cards),
        decisions="\n".join(map(sections.decisions, cards)),
        operating_points="\n".join(map(sections.operating_points, cards)),
        groups=sections.groups(facts.groups)
        + "\n".join(sections.group_decisions(each, facts.of_model(each.model)) for each in cards),
        sites="\n".join(sections.sites(each, facts.of_model(each.model).sites) for each in cards),
        figures="\n".join(_figure(cards, name) for name in FIGURES if shown_in(cards, name)),
        privacy="\n".join(f"<p>{sections.shown(part)}</p>" for part in facts.privacy.split("\n\n") if part.strip()),
        session=sections.section(
            "session",
            "Session",
            "How the counts came about.",
            ("Fact", "Value"),
            [(sections.shown(str(name)), sections.shown(_text(value))) for name, value in facts.session.items()],
            kind="facts",
        ),
        tripod=sections.section(
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


def _warnings(warnings: Iterable[str]) -> str:
    items = "".join(f"<li>{sections.shown(warning)}</li>" for warning in warnings)
    if not items:
        return ""
    return (
        '<section class="warnings" aria-labelledby="warnings"><h2 id="warnings">Read this first</h2>'
        f"<ul>{items}</ul></section>"
    )


def _figure(cards: tuple[ReportCard, ...], name: str) -> str:
    illustration = FIGURES[name]
    data = base64.b64encode(svg(draw(cards, name))).decode()
    words = " ".join(
        f"{model_text(each)}: " * bool(each.model) + illustration.words(each) for each in shown_in(cards, name)
    )
    return (
        f'<figure><h3>{escape(illustration.title)}</h3><img src="data:image/svg+xml;base64,{data}" '
        f'alt="{sections.shown(words)}" width="410" height="360">'
        f"<figcaption>{escape(illustration.caption)}</figcaption></figure>"
    )


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
