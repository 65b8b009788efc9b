"""The report as lines of one table, a value each: for a paper's Table 2, and for pandas.

Values have the digits that the page has (`fhe_auc.results.report_card.DIGITS`) where small counts are hidden.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fhe_auc.results.intervals import Interval
from fhe_auc.results.report_card import DIGITS, Facts, ReportCard
from fhe_auc.results.report_measures import Measure

COLUMNS = {
    **dict.fromkeys(("model", "section", "name", "measure"), "object"),
    **dict.fromkeys(("estimate", "low", "high", "confidence"), "float64"),
    **{"method": "object", "p_value": "float64", "formatted": "object", "n": "Int64", "note": "object"},
}
"""Columns of the table, and their pandas types."""


class Line(NamedTuple):
    """One value: `name` is its key in the JSON, `n` the rows that it is of, `note` why it is missing.

    `section` is a heading, such as "scores", "threshold 0.1", or a group's variable; `formatted` is for a paper.
    """

    model: str
    section: str
    name: str
    measure: str
    estimate: float | None
    low: float | None
    high: float | None
    confidence: float | None
    method: str
    p_value: float | None
    formatted: str
    n: int | None
    note: str


def report_lines(cards: Mapping[str, ReportCard], facts: Facts) -> Iterator[Line]:
    """Yield the values of each model's card, by its name, the AUCs of groups, and the differences of two models."""
    digits = None if all(card.min_cell == 1 for card in cards.values()) else DIGITS
    for model, card in cards.items():
        points = [point.decision for point in card.operating_points if point.decision]
        sections = {"scores": card.measures, "calibration": card.calibration_measures}
        sections |= {f"threshold {each.threshold:.6g}": each.measures for each in card.chosen}
        sections |= {each.title: each.measures for each in (card.best, *points)}
        for section, measures in sections.items():
            yield from (_of_measure(model, section, each, card, digits) for each in measures)
    for group in facts.groups:
        variable, _, level = group.group.partition(": ")
        names = group.model, variable, "roc_auc", f"AUC, {level}"
        yield _line(names, group.auc, group.interval, DIGITS, group.rows, group.missing)
    if facts.models is not None:
        first, second = cards
        if pair := facts.models.comparison:
            names = f"{second} minus {first}", "differences", "roc_auc", "AUC, difference"
            line = _line(names, pair.difference, pair.interval, digits, facts.models.card.rows, pair.missing)
            yield line._replace(p_value=pair.p_value)
        for model, each in zip((first, second, f"{second} minus {first}"), facts.models.net_benefits, strict=False):
            yield _of_measure(model, "net benefit", each, facts.models.card, digits)


def as_csv(lines: Iterable[Line]) -> str:
    """Return the lines as CSV with a heading; what is not known is empty."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([tuple(COLUMNS), *lines])
    return text.getvalue()


def _of_measure(model: str, section: str, each: Measure, card: ReportCard, digits: int | None) -> Line:
    value, note = (None, each.missing) if each.estimate is None else (each.estimate.value, "")
    return _line((model, section, each.name, each.title), value, each.interval, digits, card.rows, note)


def _line(
    names: tuple[str, str, str, str],
    value: float | None,
    interval: Interval | None,
    digits: int | None,
    rows: int | None,
    note: str,
) -> Line:
    formatted = "" if value is None else f"{value:.3f}"
    ends: tuple[float | None, ...] = (None, None)
    if interval is not None:
        ends = interval.low, interval.high
        formatted += f" ({interval.low:.3f} to {interval.high:.3f})"
    estimate, low, high = (each if each is None or digits is None else round(each, digits) for each in (value, *ends))
    level, method = (None, "") if interval is None else (interval.level, interval.method)
    return Line(*names, estimate, low, high, level, method, None, formatted, rows, note)
