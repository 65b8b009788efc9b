"""What all figures share: where they are saved, their colours, and how axes look. Readable in black and white."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.base.files import replacing, require_writable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")  # kinds of file that a figure can be saved as

INK, GREY, LIGHT = "black", "0.45", "0.8"  # the colours of every figure: lines, what stands back, areas


def check_path(path: str | os.PathLike[str]) -> None:
    """Raise `InputError` unless a figure can be saved there, with a suffix of `SUFFIXES`."""
    require("plots")
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"figure {str(file)!r}: the name must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}", file=str(file)
        )
    require_writable(file, "figure")


def blank_figure(width: float, height: float, title: str = "") -> Figure:
    """Return a figure of so many inches with nothing but a title, if that."""
    require("plots")
    from matplotlib.figure import Figure  # without pyplot: no display is needed, and no global state is left behind

    figure = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Save a figure as a whole, in the format that the file's name ends in; raise `OSError` where that fails."""
    with replacing(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:].lower(), dpi=160)


def current(axes: Axes | None) -> Axes:
    """Return the axes, or pyplot's current ones, which nothing else here uses: no display is needed then."""
    if axes is not None:
        return axes
    require("plots")
    from matplotlib import pyplot

    return pyplot.gca()


def tidy(axes: Axes) -> Axes:
    """Take away the frame at the top and on the right; return the axes."""
    axes.spines[["top", "right"]].set_visible(False)
    return axes
