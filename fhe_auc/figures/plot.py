"""What all figures share: where they are saved, their colours, and how axes look. Readable in black and white."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.base.files import replacing, require_writable
from fhe_auc.base.logs import LOGGER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")  # kinds of file that a figure can be saved as

_TOLD = set[str]()  # characters that no font has

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


def written(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    r"""Return texts as figures have them, and the families of fonts that have their characters.

    What no installed font has is written as its code point, "\u7537", which is told once on stderr. Matplotlib writes
    letters from left to right, as they come, and joins none until 3.11: Arabic and Hebrew read backwards there.
    """
    from matplotlib import font_manager, rcParams

    own = [re.sub("[\ufe00-\ufe0f]", "", text) for text in texts]  # which choose looks: an emoji in colours
    missing = frozenset(each for each in "".join(own) if not each.isascii())
    if missing:
        missing -= _drawable(font_manager.findfont(font_manager.FontProperties()), missing)
    families, missing = _fonts_with(missing) if missing else ((), missing)
    escaped = {ord(each): each.encode("ascii", "backslashreplace").decode() for each in missing}
    return [text.translate(escaped) for text in own], [*rcParams["font.family"], *families]


@lru_cache(maxsize=64)
def _fonts_with(left: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the families of installed fonts that have these characters, and those characters that none has.

    Those that have most go first, of these upright ones of usual weight without serifs.
    """
    from matplotlib import font_manager

    manager = font_manager.fontManager
    for file in set(font_manager.findSystemFonts()) - {font.fname for font in manager.ttflist}:
        with suppress(Exception):  # its list is from a file, made when fonts were others; some fonts it cannot read
            manager.addfont(file)
    order = sorted(manager.ttflist, key=lambda own: (own.style == "normal", own.weight == 400, "Sans" in own.name))
    files = {font.name: font.fname for font in order}
    covers = {name: _drawable(file, left) for name, file in files.items() if "Last Resort" not in name}
    families = list[str]()
    while here := covers[best := max(reversed(covers), key=lambda name: len(covers[name] & left))] & left:
        families.append(best)
        left -= here
    if left - _TOLD:
        _TOLD.update(left)
        told = ", ".join(f"{each} (U+{ord(each):04X})" for each in sorted(left)[:8]) + ", …" * (len(left) > 8)
        LOGGER.warning("no installed font has %s: install one, such as Noto; the figure has code points instead", told)
    return tuple(families), left


def _drawable(file: str, wanted: frozenset[str]) -> frozenset[str]:
    """Return the characters that a font has, with an outline: matplotlib draws no bitmaps, as of coloured emoji."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(file)
        font.set_size(10, 72)
        own = [each for each in wanted if font.get_char_index(ord(each))]
        return frozenset(each for each in own if font.load_char(ord(each)).width or not each.isprintable())
    except (OSError, RuntimeError):
        return frozenset()


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
