"""The report as lines of one table, a value each: for a paper's Table 2, and for pandas.

`section` is a heading, such as "scores", "threshold 0.1", or a group's variable; `name` is the value's key in the JSON,
`measure` its title, `n` the rows that it is of, and `note` why it is missing. `formatted` is for a paper. Where small
counts are hidden, values have the digits that the page has.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from fhe_auc.results.intervals import Interval
from fhe_auc.results.private_measures import BANDS, PrivateNumbers
from fhe_auc.results.report_card import DIGITS, Facts, ReportCard

Line: TypeAlias = tuple[str | float | None, ...]

COLUMNS = {
    **dict.fromkeys(("model", "section", "name", "measure"), "object"),
    **dict.fromkeys(("estimate", "low", "high", "confidence"), "float64"),
    **{"method": "object", "p_value": "float64", "formatted": "object", "n": "Int64", "note": "object"},
}
"""Columns of the table, and their pandas types."""


def report_lines(cards: Mapping[str, ReportCard], facts: Facts) -> Iterator[Line]:
    """Yield the values of each model's card, by its name, the AUCs of groups, and the differences of two models."""
    few = any(card.min_cell > 1 for card in cards.values())
    found = [
        (model, section, each)
        for model, card in cards.items()
        for section, measures in (
            ("scores", card.measures),
            ("calibration", card.calibration_measures),
            *((f"threshold {each.threshold:.6g}", each.measures) for each in card.chosen),
            *(
                (each.title, each.measures)
                for each in (card.best, *(p.decision for p in card.operating_points))
                if each
            ),
        )
        for each in measures
    ]
    rows = next(iter(cards.values())).rows
    between = " minus ".join(reversed([*cards]))
    found += zip((*cards, between), ["net benefit"] * 3, facts.net_benefits, strict=False)
    found += [(between, "differences", each) for each in (facts.bootstrap.differences if facts.bootstrap else ())]
    if pair := facts.comparison:
        head = between, "differences", "roc_auc", "AUC, difference"
        yield _line(head, pair.difference, pair.interval, rows, pair.missing, few, pair.p_value)
    why_none = {model: card.private.why_none for model, card in cards.items() if card.private}
    for model, section, each in found:
        value, note = (None, each.missing) if each.estimate is None else (each.estimate.value, each.no_interval)
        note = note or why_none.get(model, "") * (each.interval is None)
        yield _line((model, section, each.name, each.title), value, each.interval, rows, note, few)
    for model, point in ((model, point) for model, card in cards.items() for point in card.operating_points):
        if point.decision and point.interval:
            head = model, point.title, "threshold", "Threshold"
            yield _line(head, point.decision.threshold, point.interval, rows, "", False)
    for model, card in cards.items():
        yield from () if card.private is None else _of_curves(model, card.private)
    for group in (each for card in cards.values() for each in card.groups):
        variable, _, level = group.group.partition(": ")
        head = group.model, variable, "roc_auc", f"AUC, {level}"
        yield _line(head, group.auc, group.interval, group.rows, group.missing, True)


def _of_curves(model: str, private: PrivateNumbers) -> Iterator[Line]:
    """Yield every tenth point of noisy counts' interpolated curves, with its interval, and that of the whole curve."""
    for curve, columns in private.curves.items():
        x, y, *_ = columns
        at, values, *bands = columns.values()
        title = f"{y.upper() if y == 'tpr' else y.capitalize()} at {x.upper() if x == 'fpr' else x} "
        for point in range(9, len(at), 10):
            head = model, f"{curve} curve", f"{y}_at_{x}_{at[point]:.2f}", title + f"{at[point]:.2f}"
            if not bands:
                yield _line(head, values[point], None, None, private.why_none, False)
            for low, high, method in zip(bands[::2], bands[1::2], BANDS, strict=False):
                interval = Interval(private.level or 0, float(low[point]), float(high[point]), method)
                yield _line(head, float(values[point]), interval, None, "", False)


def as_csv(lines: Iterable[Line]) -> str:
    """Return the lines as CSV with a heading; what is not known is empty."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([tuple(COLUMNS), *lines])
    return text.getvalue()


def _line(
    head: tuple[str, ...],
    value: float | None,
    interval: Interval | None,
    rows: int | None,
    note: str,
    rounded: bool,
    p_value: float | None = None,
) -> Line:
    ends = (
        (None, None, None, "") if interval is None else (interval.low, interval.high, interval.level, interval.method)
    )
    low, high, level, method = ends
    within = "" if interval is None else f" ({interval.low:.3f} to {interval.high:.3f})"
    told = (each if each is None or not rounded else round(each, DIGITS) for each in (value, low, high))
    return *head, *told, level, method, p_value, "" if value is None else f"{value:.3f}{within}", rows, note
