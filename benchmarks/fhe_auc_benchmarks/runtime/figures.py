"""The figures of a benchmark, as a paper would print them: readable without colour, by marker, line and hatching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fhe_auc.plot import GREY, INK, LIGHT, PAPER_UPLOAD_BYTES, save_figure, tidy
from fhe_auc.quantities import bytes_text
from fhe_auc_benchmarks.drawing import blank, make_logarithmic
from fhe_auc_benchmarks.runtime.benchmark import ACCURACY_DATA, HEADLINE, PAPER_PARTIES, Benchmark
from fhe_auc_benchmarks.runtime.contender import SIGNED
from fhe_auc_benchmarks.runtime.measure import FLOOR, OURS, PADDED, PUBLISHED, TUNED, Measurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BARS = {"ingest": ("white", "///"), "circuit": ("0.35", ""), "relay": ("white", "...")}
_PARTY_BARS = {"submit": (LIGHT, ""), "echo": ("0.35", ""), "recover": ("white", "xxx")}


def _label(contender: str) -> str:
    return contender.replace(FLOOR, "ciphertext sum only")


def _line_style(contender: str) -> dict[str, Any]:
    """Return how a contender's line is drawn: the marker says what it is, a hollow one that it runs on SEAL."""
    protocol, _, backend = contender.partition(" (")
    marker, line, colour = {
        OURS: ("o", "-", INK),
        "malicious": ("s", "-.", "0.3"),
        "exact": ("v", ":", INK),
        "verified": ("P", "-", "0.3"),
        FLOOR: ("^", ":", GREY),
        PUBLISHED: ("D", "--", INK),
    }.get(protocol, ("x", (0, (1, 3)), GREY))
    inside = "white" if backend.startswith("tenseal") else colour
    return {"marker": marker, "linestyle": line, "color": colour, "markerfacecolor": inside}


def save_all(folder: Path, measured: Benchmark) -> list[Path]:
    """Save every figure for which there are measurements; return the files."""
    saved = []
    for name, draw in FIGURES.items():
        saved.append(folder / f"{name}.png")
        save_figure(draw(measured), saved[-1])
    return saved


def _parties(measured: Benchmark) -> Figure:
    _, thresholds = HEADLINE
    found = [each for each in measured.measurements if each.thresholds == thresholds]
    return _lines(found, lambda each: each.parties, "parties", f"{thresholds} thresholds")


def _thresholds(measured: Benchmark) -> Figure:
    found = [each for each in measured.measurements if each.parties == PAPER_PARTIES]
    return _lines(found, lambda each: each.thresholds, "thresholds", f"{PAPER_PARTIES} parties")


def _lines(found: Sequence[Measurement], x: Callable[[Measurement], int], against: str, fixed: str) -> Figure:
    """Draw a line for each contender that was measured more than once."""
    from matplotlib.ticker import LogLocator, NullLocator

    figure = blank(7, 4.6, f"What the aggregator spends, against {against} ({fixed})")
    axes = figure.subplots()
    names = dict.fromkeys(each.contender for each in found if SIGNED not in each.contender)
    for name in names:
        points = sorted((x(each), each.aggregation) for each in found if each.contender == name)
        if len(points) < 2:
            continue
        axes.plot(*zip(*points, strict=True), **_line_style(name), markersize=6, linewidth=1.4, label=_label(name))
    make_logarithmic(axes, {tick: f"{tick:,}" for tick in sorted({x(each) for each in found})})
    axes.set_xlabel(against)
    axes.set_ylabel("CPU seconds of the aggregator")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.legend(fontsize=8.5, frameon=False, handlelength=3.5, loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure


def _phases(measured: Benchmark) -> Figure:
    parties, thresholds = HEADLINE
    found = [each for each in measured.headline if each.contender.partition(" (")[0] in _COMPARED]
    figure = blank(9, 4.2, f"Where the time goes: {parties} parties, {thresholds} thresholds (CPU time)")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, bars, what in ((left, _BARS, "aggregator, all parties"), (right, _PARTY_BARS, "one party")):
        _draw_stacks(axes, found, bars)
        axes.set_xlabel(f"{what} (ms)")
    return figure


_COMPARED = (*PADDED, OURS, "malicious", FLOOR, PUBLISHED, TUNED)
_CUT = 3  # times as long as ours


def _draw_stacks(axes: Axes, found: Sequence[Measurement], bars: dict[str, tuple[str, str]]) -> None:
    """Draw stacked bars; where the published design takes far longer than all others, it is cut off, and says so."""
    ends = [0.0] * len(found)
    places = range(len(found))
    for phase, (colour, hatch) in bars.items():
        widths = [1e3 * each.phases[phase].cpu_median for each in found]
        axes.barh(places, widths, left=ends, color=colour, edgecolor=INK, hatch=hatch, label=phase, height=0.6)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    longest = max(ends)
    others = [end for each, end in zip(found, ends, strict=True) if each.contender not in (PUBLISHED, TUNED)]
    ours = max(others, default=longest)
    reach = 1.3 * (ours if longest > _CUT * ours else longest)
    axes.set_xlim(0, reach)
    for at, end in enumerate(ends):
        text = f"{end:,.0f}" if end >= 20 else f"{end:.1f}"
        if end <= reach:
            axes.annotate(text, (end, at), (4, 0), textcoords="offset points", va="center", fontsize=9)
        else:
            parts = " + ".join(f"{1e3 * found[at].phases[phase].cpu_median:,.0f}" for phase in bars)
            box = {"facecolor": "white", "edgecolor": INK, "linewidth": 0.8, "pad": 2.5}
            axes.annotate(f"cut off: {text} = {parts} →", (0.97 * reach, at), ha="right", va="center", fontsize=9,
                          bbox=box)  # fmt: skip
    axes.set_yticks(places, [_label(each.contender) for each in found], fontsize=9)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.legend(fontsize=9, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
    tidy(axes)


def _bytes(measured: Benchmark) -> Figure:
    # Tuning changes no byte, and a signature adds 96.
    found = [each for each in measured.headline if each.contender != TUNED and SIGNED not in each.contender]
    names = [_label(each.contender) for each in found] + ["arXiv 2403.14428\nreports (not measured)"]
    values = [float(each.upload_bytes) for each in found] + [PAPER_UPLOAD_BYTES]
    figure = blank(7.5, 0.45 * len(names) + 1.3, f"What one party sends ({HEADLINE[1]} thresholds)")
    axes = figure.subplots()
    bars = axes.barh(range(len(names)), values, height=0.6, color=LIGHT, edgecolor=INK)
    bars[-1].set(facecolor="white", hatch="//")  # not measured here
    axes.bar_label(bars, labels=[bytes_text(value) for value in values], padding=4, fontsize=9)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel("bytes, logarithmic")
    tidy(axes)
    return figure


def _accuracy(measured: Benchmark) -> Figure:
    figure = blank(7, 4.4, f"Accuracy against thresholds ({ACCURACY_DATA}: real rows)")
    axes = figure.subplots()
    for grid, marker, line in (("uniform", "o", "-"), ("hybrid", "s", "--")):
        points = [each for each in measured.accuracies if each.grid == grid]
        sizes = [each.thresholds for each in points]
        axes.plot(sizes, [each.error for each in points], marker=marker, linestyle=line, color=INK,
                  label=f"{grid}: off by")  # fmt: skip
        axes.plot(sizes, [each.binning_error for each in points], marker=marker, linestyle=":", color=GREY,
                  markerfacecolor="white", label=f"{grid}: half-width stated")  # fmt: skip
    numerical: dict[int, float] = {}
    for each in measured.measurements:
        if each.contender.startswith(OURS):
            error = max(abs(each.auc - each.exact_auc), 1e-16)
            numerical[each.thresholds] = max(error, numerical.get(each.thresholds, 0.0))
    axes.plot(sorted(numerical), [numerical[size] for size in sorted(numerical)], marker="^", linestyle="-.",
              color="0.3", label="what encryption adds,\nmade-up rows (worst)")  # fmt: skip
    make_logarithmic(axes, {size: f"{size:,}" for size in sorted({each.thresholds for each in measured.accuracies})})
    axes.set_xlabel("thresholds")
    axes.set_ylabel("distance from scikit-learn's AUC")
    axes.legend(fontsize=9, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1), handlelength=3.5)
    return figure


FIGURES: dict[str, Callable[[Benchmark], Figure]] = {
    "parties": _parties,
    "thresholds": _thresholds,
    "phases": _phases,
    "bytes": _bytes,
    "accuracy": _accuracy,
}
"""Name of the file, without its suffix, to what draws it."""
