"""The figure of a comparison: error against the number of rows, a panel for each number of thresholds.

Readable without colour too: protocols differ in marker, budgets in line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fhe_auc.figures.plot import GREY, INK, blank_figure, make_logarithmic
from fhe_auc_benchmarks.comparison.measure import SKLEARN, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's, which people tell apart however they see colour."""
_MARKERS = ("o", "s", "^", "v", "D", "P")
_LINES = ((0, ()), (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)))
_LEAST = 1e-6  # errors below it are drawn there


def draw(rows: Sequence[Row]) -> Figure:
    """Return the figure of a comparison, from the rows that `measure.compare` returns."""
    truth = {row.rows: max(abs(row.auc - 0.5), _LEAST) for row in rows if row.method == SKLEARN}
    measured = [row for row in rows if row.thresholds is not None]
    counts, styles = list(dict.fromkeys(row.thresholds for row in measured)), _styles(measured)
    runs = max((row.runs for row in rows if row.epsilon is not None), default=1)
    caption = f" (mean of {runs:,} runs; bands: 10th to 90th percentile)" if runs > 1 else ""
    width = max(7.5, 4.0 * len(counts))
    figure = blank_figure(width, 4.3 + 0.6 * len(styles) / width, f"How far off the AUC is, by protocol{caption}")
    panels = figure.subplots(1, len(counts), sharex=True, sharey=True, squeeze=False)[0]
    for axes, count in zip(panels, counts, strict=True):
        for label, style in styles.items():
            of = [row for row in measured if (_label(row), row.thresholds) == (label, count) and row.runs]
            of.sort(key=lambda row: row.rows)
            sizes = [row.rows for row in of]
            low, mean, high = (
                [max(getattr(row, name), _LEAST) for row in of] for name in ("error_low", "error", "error_high")
            )
            axes.plot(sizes, mean, linewidth=1.6, label=label, **style)
            axes.fill_between(sizes, low, high, color=style["color"], alpha=0.11, linewidth=0, zorder=1)
        axes.plot(list(truth), list(truth.values()), ":", color=GREY, linewidth=1.2, label="saying 0.5 always")
        make_logarithmic(axes, {size: f"{size:,}" if size < 10_000 else f"{size / 1000:,.0f}k" for size in truth})
        axes.margins(x=0.08)
        axes.set_title(f"{count} thresholds", fontsize=10, loc="left")
        axes.set_xlabel("rows of all parties together")
    panels[0].set_ylabel("|AUC − scikit-learn's|")
    looks = {"ncols": int(width / 2.2), "fontsize": 9, "frameon": False, "handlelength": 3.2}
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", **looks)
    return figure


def _label(row: Row) -> str:
    return row.method if row.epsilon is None else f"{row.method}, ε = {row.epsilon:g}"


def _styles(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Return how each method is drawn, for `Axes.plot`: colour and marker by protocol, line by budget."""
    protocols = list(dict.fromkeys(row.method for row in rows))
    budgets = list(dict.fromkeys(row.epsilon for row in rows if row.epsilon is not None))
    found = {}
    for row in rows:
        at, line = protocols.index(row.method), 0 if row.epsilon is None else budgets.index(row.epsilon)
        colour = INK if row.epsilon is None else _COLOURS[at % len(_COLOURS)]
        found[_label(row)] = {
            "color": colour,
            "marker": _MARKERS[at % len(_MARKERS)],
            "markerfacecolor": "none" if line else colour,
            "linestyle": _LINES[line % len(_LINES)],
            "zorder": 3 if row.epsilon is None else 2,
        }
    return found
