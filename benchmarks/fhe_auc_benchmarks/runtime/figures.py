"""The figure of a benchmark: readable without colour, by marker and line."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

from fhe_auc.figures.plot import GREY, INK
from fhe_auc_benchmarks.drawing import blank, make_logarithmic
from fhe_auc_benchmarks.runtime.benchmark import DEFAULT_THRESHOLDS, KEYS, LEVEL, PARTIES, PROTOCOL
from fhe_auc_benchmarks.runtime.measure import Measurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABELS = {"sealed": "sealed keys", "helper": "with a helper", "joint": "joint keys"}
_STYLES = dict(zip(KEYS, (("o", "-", INK), ("s", "--", INK), ("^", ":", GREY)), strict=True))


def against_sites(measurements: list[Measurement]) -> Figure:
    """Return what a session costs the server, a site and its link, against the number of sites; medians of all runs."""
    figure = blank(
        11, 3.6, f"What a session costs ({PROTOCOL}, {DEFAULT_THRESHOLDS:,} thresholds, {LEVEL:.0%} interval)"
    )
    panels: tuple[tuple[str, Callable[[Measurement], float]], ...] = (
        ("server, CPU seconds", lambda each: each.cpu["aggregator"]),
        ("one site, CPU seconds", lambda each: each.cpu["party"]),
        ("one site sends and receives, MB", lambda each: _all_bytes(each) / 1e6),
    )
    drawn = figure.subplots(1, len(panels))
    for axes, (what, value) in zip(drawn, panels, strict=True):
        _draw(axes, measurements, value)
        axes.set_xlabel("sites")
        axes.set_title(what, fontsize=10)
    drawn[0].legend(fontsize=9, frameon=False, handlelength=3.5, loc="upper left")
    return figure


def _all_bytes(each: Measurement) -> int:
    return each.before_bytes + each.upload_bytes + each.download_bytes


def _draw(axes: Axes, measurements: list[Measurement], value: Callable[[Measurement], float]) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    for keys, (marker, line, colour) in _STYLES.items():
        at: dict[int, list[float]] = {}
        for each in measurements:
            if each.contender == f"{PROTOCOL}, {keys} keys" and each.thresholds == DEFAULT_THRESHOLDS:
                at.setdefault(each.parties, []).append(value(each))
        sizes = sorted(at)
        axes.plot(sizes, [median(at[size]) for size in sizes], marker=marker, linestyle=line, color=colour,
                  markersize=5, linewidth=1.4, label=_LABELS[keys])  # fmt: skip
    make_logarithmic(axes, {size: f"{size:,}" for size in PARTIES})
    axes.tick_params(axis="x", labelsize=8)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
