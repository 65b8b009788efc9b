"""An evaluation's estimates, comparisons and sites as text: the cells of its tables, in a terminal or a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from fhe_auc.metrics.binning_error import WIDENED
from fhe_auc.results.estimates import Comparison, GroupEstimate
from fhe_auc.results.heterogeneity import LEAST_SITES, SiteSummary
from fhe_auc.results.intervals import Interval

if TYPE_CHECKING:
    from fhe_auc.results.report_measures import Measure

_ALL_ROWS = "all rows"
_LEFT, _RIGHT = ' style="text-align: left"', ' style="text-align: right; font-variant-numeric: tabular-nums"'


class TextTable(NamedTuple):
    """A table of text: first the columns of words, as many as `words` says, then numbers, and last a note."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int


def of_estimates(estimates: Sequence[GroupEstimate]) -> TextTable:
    """Return a row for each estimate, without names that say nothing; of several models with each binning error."""
    names = {
        "horizon": [_horizon(each) for each in estimates],
        "model": [each.model for each in estimates],
        "group": [each.group or _ALL_ROWS for each in estimates],
        "positives from negatives": [each.contrast for each in estimates],
    }
    told = {name: texts for name, texts in names.items() if len(set(texts)) > 1}
    several = "model" in told
    bounds = ("" if each.binning_error is None else _bound(each.binning_error) for each in estimates)
    binning = ((bound,) * several for bound in bounds)
    numbers = (
        (_count(each.rows), _count(each.positives), auc, interval, *error, note)
        for each, (auc, interval, note), error in zip(estimates, map(_auc, estimates), binning, strict=True)
    )
    header = (*told, "n", "events", "AUC", heading(estimates), *(("binning error <",) * several), "")
    rows = ((*texts, *cells) for *texts, cells in zip(*told.values(), numbers, strict=True))
    return TextTable(header, tuple(rows), len(told))


def of_comparisons(comparisons: Sequence[Comparison]) -> TextTable:
    """Return one row for each difference of two AUCs; of several with p-values by Holm too."""
    several = len(comparisons) > 1
    rows = tuple(
        (
            f"{each.second} minus {each.first}" + f" at {_horizon(each)}" * (each.horizon is not None),
            f"{each.difference:+.4f}",
            ends(each.interval, "+.4f") if each.interval else "none",
            p_of(each),
            *([""] if each.p_holm is None else [p_text(each.p_holm)])[:several],
            each.interval.method if each.interval else each.missing or "not released, or alike in all rows",
        )
        for each in comparisons
    )
    return TextTable(("comparison", "difference", heading(comparisons), *("p", "p, Holm")[: 1 + several], ""), rows, 1)


def of_sites(sites: Iterable[SiteSummary]) -> list[tuple[str, str, str]]:
    """Return label, value and note: of each model the AUC within sites and, where there is one, what a new site has."""
    rows = []
    for each in sites:
        of_model = f"{each.model}: " if each.model else ""
        counted = f"{each.one_class} of {each.one_class + each.both_classes} sites have rows of one label only"
        if each.within is None:
            few = f"{of_model}{counted}, and fewer than {LEAST_SITES} both: single sites could be told"
            rows.append(("within sites", "not shown", few))
        else:
            own = each.within_interval
            within = "" if own is None else f"{own.heading} {ends(own)}; "
            pairs = "AUC over pairs of rows of one site; the AUC above counts pairs across sites too"
            rows.append(("within sites", f"{each.within:.4f}", f"{of_model}{within}{pairs}; {counted}"))
        if each.prediction is not None and each.i2 is not None and each.tau2 is not None:
            note = (
                f"{of_model}{100 * each.prediction.level:.6g} % prediction interval of its AUC, from {each.usable} "
                f"sites whose AUC has a standard error, around their fixed-effect mean {each.mean:.4f} (IVhet); "
                f"between: I² {100 * each.i2:.0f} %, τ {each.tau2**0.5:.2f} (logit)"
            )
            rows.append(("a new site", ends(each.prediction), note))
        if each.random_mean is not None and each.random_interval is not None:
            within = f"{each.random_interval.heading} {ends(each.random_interval)} (Hartung and Knapp)"
            note = f"{of_model}random-effects mean of {each.usable} sites' AUCs; {within}"
            rows.append(("mean of sites", f"{each.random_mean:.4f}", note))
    return rows


def ends(interval: Interval, form: str = ".4f") -> str:
    """Return "0.7625 to 0.8102"."""
    return f"{interval.low:{form}} to {interval.high:{form}}"


def p_of(comparison: Comparison) -> str:
    """Return its p-value, or what that is at most; nothing where neither is known."""
    if comparison.p_value is not None:
        return p_text(comparison.p_value)
    return "" if comparison.p_at_most is None else p_text(comparison.p_at_most, "≤")


def p_text(p_value: float, sign: str = "") -> str:
    """Return a p-value with two significant digits, or "< 0.0001"; with "≤" one that it does not exceed, rounded up."""
    if p_value < 0.0001:
        return "< 0.0001"
    unit = 10.0 ** (math.floor(math.log10(p_value)) - 1)
    return f"{sign} {min(math.ceil(p_value / unit) * unit, 1.0):#.2g}" if sign else f"{p_value:#.2g}"


def _horizon(line: GroupEstimate | Comparison) -> str:
    return "" if line.horizon is None else f"{line.horizon:g}"


def _auc(estimate: GroupEstimate) -> tuple[str, str, str]:
    if estimate.auc is None:
        return "", "", f"not shown: {estimate.missing}"
    if estimate.interval is None:
        return f"{estimate.auc:.4f}", "", ""
    note = WIDENED.removeprefix(", ") if estimate.interval.method.endswith(WIDENED) else ""
    return f"{estimate.auc:.4f}", ends(estimate.interval), note


def _bound(error: float) -> str:
    return f"{math.ceil(round(1e4 * error, 6)) / 1e4:.4f}" if error else "0"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def heading(lines: Sequence[GroupEstimate] | Sequence[Comparison] | Sequence[Measure]) -> str:
    """Return what stands above their intervals."""
    return next((each.interval.heading for each in lines if each.interval is not None), "interval")


def notebook_html(headline: str, tables: Iterable[TextTable], lines: Iterable[str]) -> str:
    """Return a headline, tables, and a list of lines; none of these texts may be HTML, and none is taken for it."""
    listed = "".join(f"<li>{escape(line)}</li>" for line in lines)
    listed = f"<ul>{listed}</ul>" if listed else ""
    return f"<div><p><strong>{escape(headline)}</strong></p>{''.join(map(_table, tables))}{listed}</div>"


def _table(table: TextTable) -> str:
    body = "".join(_row("td", row, table) for row in table.rows)
    return f"<table><thead>{_row('th', table.header, table)}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: tuple[str, ...], table: TextTable) -> str:
    styles = [_RIGHT if table.words <= at < len(cells) - 1 else _LEFT for at in range(len(cells))]
    shown = (f"<{tag}{style}>{escape(text)}</{tag}>" for style, text in zip(styles, cells, strict=True))
    return f"<tr>{''.join(shown)}</tr>"
