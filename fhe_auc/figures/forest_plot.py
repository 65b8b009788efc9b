"""The forest plot of an evaluation: AUC and interval of each model in each group, and what a new site may expect.

Models differ in colour and in marker, so that the plot reads in black and white; the colours are those of Okabe and Ito
(jfly.uni-koeln.de/color), which colour-blind people tell apart. Names are drawn as they are, never as formulas.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import accumulate, cycle
from typing import TYPE_CHECKING, NamedTuple

from fhe_auc.base.errors import InputError
from fhe_auc.figures.plot import GREY, INK, blank_figure, current, tidy, written
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.results.intervals import Interval
from fhe_auc.results.result_tables import ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = (INK, "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vPX*"
_WIDEST_NAME = 34  # characters a line

_LINE, _MARK, _GAP = 0.17, 0.2, 0.12  # inches: of a name, of a model, between rows
_COLUMNS = (52, 104, 238)  # where n, events and AUC end, in points right of the axes
_SIZE = 9


class _Mark(NamedTuple):
    """What is drawn for one model: a point with its interval, and the text at the right."""

    model: str
    auc: float | None
    interval: Interval | None
    predicted: bool = False

    @property
    def text(self) -> str:
        if self.auc is None:
            return "not shown"
        return f"{self.auc:.3f}" + ("" if self.interval is None else f" ({ends(self.interval, '.3f')})")


class _ForestRow(NamedTuple):
    name: str
    n: str
    events: str
    marks: list[_Mark]
    horizon: float | None = None

    @property
    def height(self) -> float:
        """Inches that it takes."""
        return max(len(self.name.splitlines()) * _LINE, len(self.marks) * _MARK) + _GAP


def draw(evaluation: Evaluation) -> Figure:
    """Return the forest plot in a figure of its own, as high as its rows take."""
    rows = list(_rows(evaluation))
    models = _models(evaluation, rows)
    height = sum(row.height for row in rows) + 1.2 + 0.2 * len(models)
    figure = blank_figure(9, height)
    plot_forest(evaluation, figure.add_subplot())
    return figure


def plot_forest(evaluation: Evaluation, ax: Axes | None = None) -> Axes:
    """Draw AUCs with their intervals: all rows, with a line through their AUC, groups, last what a new site may expect.

    At horizons a line is as long as the rows of its own.

    A group that is not shown has a row that says so. Where classes are told from one another, the line is the average
    over their pairs. n, events and AUC are written right of the axes: with ``layout="constrained"`` there is room.

    Parameters
    ----------
    evaluation : Evaluation
        What `fhe_auc.federated_auc` returns.
    ax : matplotlib Axes, optional
        Where to draw; without it, on pyplot's current axes. They are returned.

    Raises
    ------
    InputError
        This is no `Evaluation`.

    Examples
    --------
    >>> from fhe_auc import federated_auc, plot_forest
    >>> plot_forest(federated_auc([([0, 1, 1], [0.1, 0.8, 0.4])], round_scores=1)).get_xlabel()
    'AUC'
    """
    if not isinstance(evaluation, Evaluation):
        raise InputError(f"expected the evaluation that federated_auc returns, got {type(evaluation).__name__}")
    axes = current(ax)
    rows = list(_rows(evaluation))
    models = _models(evaluation, rows)
    styles = dict.fromkeys((each.model for each in evaluation.estimates), (INK, "o"))
    styles.update(zip(models, zip(cycle(_COLOURS), cycle(_MARKERS), strict=False), strict=False))
    heights = [row.height for row in rows]
    centres = [below - height / 2 for below, height in zip(accumulate(heights), heights, strict=True)]
    axes.set(ylim=(sum(heights), -0.1), xlabel="AUC")
    tidy(axes)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=_SIZE)
    names, families = written(row.name for row in rows)
    axes.set_yticks(centres, names, fontsize=_SIZE, fontfamily=families, parse_math=False)
    for row, centre in zip(rows, centres, strict=True):
        _write(axes, centre, row.n, row.events, "")
        for at, mark in enumerate(row.marks):
            _draw_mark(axes, mark, centre + (at - (len(row.marks) - 1) / 2) * _MARK, *styles[mark.model])
    pooled = [each for each in evaluation.estimates if not each.group and not each.contrast]
    lines = [(each.auc, each.horizon, styles[each.model][0]) for each in pooled if each.auc is not None]
    for auc, horizon, colour in lines or [(evaluation.auc, None, GREY)]:
        own = [at for at, row in enumerate(rows) if row.horizon == horizon]  # one below the other
        span = [sum(heights[: own[0]]), sum(heights[: own[-1] + 1])] if horizon is not None else axes.get_ylim()
        axes.plot([auc, auc], span, color=colour, linestyle=":", linewidth=1, zorder=0)
    levels = (f"AUC ({each.interval.heading})" for each in evaluation.estimates if each.interval is not None)
    _write(axes, -0.15, "n", "events", next(levels, "AUC"), weight="bold")
    if models:
        _legend(axes, models, styles)
    return axes


def _models(evaluation: Evaluation, rows: list[_ForestRow]) -> list[str]:
    """Return the models that the legend names: none where no row has more than one."""
    named = list(dict.fromkeys(each.model for each in evaluation.estimates))
    return named if any(len(row.marks) > 1 for row in rows) else []


def _rows(evaluation: Evaluation) -> Iterator[_ForestRow]:
    """Return a row for each group and contrast, and one of what a new site may expect, where that is known."""
    of_row: dict[tuple[str, str, str], list[GroupEstimate]] = {}
    for each in evaluation.estimates:
        horizon = "" if each.horizon is None else f"at {each.horizon:g}"
        of_row.setdefault((each.group, each.contrast, horizon), []).append(each)
    texts = {text for row in of_row for text in row} | {each.model for each in evaluation.estimates}
    names = dict(zip(texts, written(texts)[0], strict=True))
    for (group, contrast, horizon), estimates in of_row.items():
        named = names[group] or "all rows", names[contrast], names[horizon]
        lines = [line for text in named for line in textwrap.wrap(text, _WIDEST_NAME)]
        first = estimates[0]
        n, events = ("" if number is None else f"{number:,}" for number in (first.rows, first.positives))
        marks = [_Mark(each.model, each.auc, each.interval) for each in estimates]
        yield _ForestRow("\n".join(lines), n, events, marks, first.horizon)
    predicted = [each for each in evaluation.sites if each.prediction is not None and each.mean is not None]
    if predicted:
        marks = [_Mark(each.model, each.mean, each.prediction, predicted=True) for each in predicted]
        yield _ForestRow(f"a new site: prediction\n(IVhet, {predicted[-1].usable} sites)", "", "", marks)


def _draw_mark(axes: Axes, mark: _Mark, y: float, colour: str, marker: str) -> None:
    if mark.auc is not None:
        low, high = (mark.interval.low, mark.interval.high) if mark.interval else (mark.auc, mark.auc)
        errors = [[max(0.0, mark.auc - low)], [max(0.0, high - mark.auc)]]
        *_, (bar,) = axes.errorbar(
            mark.auc, y, xerr=errors, fmt=marker, color=colour, markersize=5, elinewidth=1.3, capsize=2.5
        )
        if mark.predicted:  # no confidence interval
            bar.set_linestyle("--")
    _write(axes, y, "", "", mark.text)


def _write(axes: Axes, y: float, *texts: str, weight: str = "normal") -> None:
    for text, end in zip(texts, _COLUMNS, strict=True):
        if text:
            axes.annotate(
                text,
                (1, y),
                xycoords=axes.get_yaxis_transform(),
                xytext=(end, 0),
                textcoords="offset points",
                ha="right",
                va="center",
                fontsize=_SIZE,
                fontweight=weight,
                annotation_clip=False,
            )


def _legend(axes: Axes, models: list[str], styles: dict[str, tuple[str, str]]) -> None:
    """Draw the legend; its texts are set afterwards, as matplotlib would leave out a name that begins with "_"."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="") for colour, marker in map(styles.__getitem__, models)
    ]
    legend = axes.legend(
        handles, ["model"] * len(models), loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False, fontsize=_SIZE
    )
    names, families = written(models)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=name, fontfamily=families, parse_math=False)
