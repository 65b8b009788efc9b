"""The figure of a comparison: error against the number of rows, a panel for each number of thresholds.

With one number of rows, a line for each protocol instead, and a mark for each number of thresholds.

Readable without colour too: protocols differ in marker, budgets in line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fhe_auc.figures.plot import GREY, INK, blank_figure, make_logarithmic
from fhe_auc_benchmarks.comparison.measure import SKLEARN, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people tell apart however they see colour.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "v", "D", "P")
_LINES = ((0, ()), (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
_LEAST = 1e-6  # errors below it are drawn there
_COLUMNS = 4
_LEGEND_ENTRY = 2.2  # inches


def draw(rows: Sequence[Row]) -> Figure:
    """Return the figure of a comparison, from the rows that `measure.compare` returns."""
    truth = {row.rows: row.auc for row in rows if row.method == SKLEARN}
    counts = list(dict.fromkeys(row.thresholds for row in rows if row.thresholds is not None))
    if len(truth) == 1:
        return _draw_protocols(rows, counts, *truth.items())
    styles = _styles(rows)
    columns = min(len(counts), _COLUMNS)
    lines = math.ceil(len(counts) / columns)
    width = max(7.5, 4 * columns)
    legend_columns = int(width / _LEGEND_ENTRY)
    legend_lines = math.ceil((len(styles) + 1) / legend_columns)
    title = f"How far off the AUC is, by protocol{_caption(rows)}"
    figure = blank_figure(width, 3.4 * lines + 0.9 + 0.22 * legend_lines, title)
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, count in zip(panels, counts, strict=False):
        _draw_panel(axes, [row for row in rows if row.thresholds == count], styles, truth)
        axes.set_title(f"{count} thresholds", fontsize=10, loc="left")
        axes.set_xlabel("rows of all parties together")
    for axes in panels[len(counts) :]:
        axes.set_visible(False)
    for axes in panels[::columns]:
        axes.set_ylabel("|AUC − scikit-learn's|")
    looks = {"ncols": legend_columns, "fontsize": 9, "frameon": False, "handlelength": 3.2}
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", **looks)
    return figure


def _draw_protocols(rows: Sequence[Row], counts: Sequence[int], truth: tuple[int, float]) -> Figure:
    """Return the figure for one number of rows, with its AUC in the clear: protocols from top to bottom."""
    measured = [row for row in rows if row.thresholds is not None and not math.isnan(row.error)]
    labels = list(dict.fromkeys(_label(row) for row in measured))
    figure = blank_figure(
        7.5, 1.4 + 0.2 * len(labels) * max(2, len(counts) ** 0.5), f"How far off the AUC is{_caption(rows)}"
    )
    axes = figure.subplots()
    for at, count in enumerate(counts):
        of = [row for row in measured if row.thresholds == count]
        above = 0.5 * (at - (len(counts) - 1) / 2) / len(counts)
        lines = [labels.index(_label(row)) + above for row in of]
        colour = _COLOURS[at % len(_COLOURS)]
        low, mean, high = _errors(of)
        axes.hlines(lines, low, high, color=colour, alpha=0.4, linewidth=4)
        marker = _MARKERS[at % len(_MARKERS)]
        axes.plot(mean, lines, linestyle="none", marker=marker, color=colour, label=f"{count} thresholds")
    guess = max(abs(truth[1] - 0.5), _LEAST)
    axes.axvline(guess, color=GREY, linestyle=":", linewidth=1.2, label="saying 0.5 always")
    axes.set_xscale("log")
    axes.set_xlim(right=max(1.0, axes.get_xlim()[1]))
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(f"|AUC − scikit-learn's|, {truth[0]:,} rows of all parties together")
    figure.legend(loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    return figure


def _caption(rows: Sequence[Row]) -> str:
    runs = max((row.runs for row in rows if row.epsilon is not None), default=1)
    return f" (mean of {runs:,} runs; bands: 10th to 90th percentile)" if runs > 1 else ""


def _label(row: Row) -> str:
    return row.method if row.epsilon is None else f"{row.method}, ε = {row.epsilon:g}"


def _errors(rows: Sequence[Row]) -> list[list[float]]:
    """Return the band's lower end, the mean and the upper end, of each row."""
    return [[max(getattr(row, name), _LEAST) for row in rows] for name in ("error_low", "error", "error_high")]


def _styles(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Return how each method is drawn, for `Axes.plot`: colour and marker by protocol, line by budget."""
    styles: dict[str, dict[str, Any]] = {}
    private, other, budgets = dict[str, int](), dict[str, int](), dict[float, int]()
    for row in (row for row in rows if row.thresholds is not None):
        if row.epsilon is None:
            at = other.setdefault(row.method, len(other))
            styles[_label(row)] = _style(INK, at, at)
        else:
            at = private.setdefault(row.method, len(private))
            budget = budgets.setdefault(row.epsilon, len(budgets))
            styles[_label(row)] = _style(_COLOURS[at % len(_COLOURS)], at + 2, budget)
    return styles


def _style(colour: str, marker: int, line: int) -> dict[str, Any]:
    hollow = line > 0
    return {
        "color": colour,
        "marker": _MARKERS[marker % len(_MARKERS)],
        "markerfacecolor": "none" if hollow else colour,
        "markersize": 9 if colour == INK and hollow else 6,
        "linestyle": _LINES[line % len(_LINES)],
        "zorder": 3 if colour == INK else 2,
    }


def _draw_panel(axes: Axes, rows: Sequence[Row], styles: dict[str, dict[str, Any]], truth: dict[int, float]) -> None:
    for label, style in styles.items():
        of = sorted((row for row in rows if _label(row) == label and not math.isnan(row.error)), key=lambda r: r.rows)
        sizes = [row.rows for row in of]
        low, mean, high = _errors(of)
        axes.plot(sizes, mean, linewidth=1.6, label=label, **style)
        if len(of) > 1:
            axes.fill_between(sizes, low, high, color=style["color"], alpha=0.11, linewidth=0, zorder=1)
    sizes = sorted(truth)
    guess = [max(abs(truth[size] - 0.5), _LEAST) for size in sizes]
    axes.plot(sizes, guess, color=GREY, linestyle=":", linewidth=1.2, label="saying 0.5 always", zorder=1)
    make_logarithmic(axes, {size: f"{size:,}" if size < 10_000 else f"{size / 1000:,.0f}k" for size in sizes})
    axes.margins(x=0.08)
