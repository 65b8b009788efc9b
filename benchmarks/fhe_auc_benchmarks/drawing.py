"""What the laboratory's figures have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fhe_auc.base.extras import require
from fhe_auc.figures.plot import tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def blank(width: float, height: float, title: str) -> Figure:
    """Return a figure of so many inches with nothing but a title."""
    require("plots")
    from matplotlib.figure import Figure  # without pyplot: no display is needed, and no global state is left behind

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, fontsize=11)
    return figure


def make_logarithmic(axes: Axes, ticks: Mapping[int, str]) -> None:
    """Make both axes logarithmic, label the horizontal one at these values alone, and draw a grid behind all."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(list(ticks), list(ticks.values()), fontsize=9)
    axes.set_xticks([], minor=True)
    axes.grid(visible=True, which="major", color="0.9", linewidth=0.7)
    axes.set_axisbelow(True)
    tidy(axes)
