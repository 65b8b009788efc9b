"""The figure of an evaluation that was checked: how exact, how long, how many bytes. Readable in black and white."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.base.files import replacing, require_writable
from fhe_auc.metrics.trapezoid import auc_of_rows
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".pdf", ".svg")  # kinds of file that a figure can be saved as

PAPER_UPLOAD_BYTES = 6.81e6
"""Bytes that a party sends according to [FHE], arXiv 2403.14428 (N = 16384, four ciphertexts)."""

INK, GREY, LIGHT = "black", "0.45", "0.8"  # the colours of every figure: lines, what stands back, areas

_ROLES = {  # phases in the order of a session, and whose time they take
    "keys": "key holder",
    "submit": "each party",
    "ingest": "aggregator",
    "circuit": "aggregator",
    "recover": "each party",
}


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


def site_aucs(parties: Sequence[PartyData]) -> NDArray[np.float64]:
    """Return each party's own AUC, in their order, for those that hold rows of both labels."""
    both = [party for party in parties if party.y_true.any() and not party.y_true.all()]
    return np.array([float(auc_of_rows(party.y_true, party.y_score)) for party in both], dtype=np.float64)


def draw(
    evaluation: Evaluation, parties: Sequence[PartyData], pooled_auc: float, *, title: str, sites: str = "sites"
) -> Figure:
    """Return the figure: AUC and interval beside the pooled AUC and the sites' own; time by phase; bytes a party.

    `parties` are the rows in the clear, which only a demonstration has in one place, and `pooled_auc` is scikit-learn's
    AUC of all of them; `title` says what the data are, and `sites` what a party is called, in the plural.
    """
    figure = blank_figure(12, 5)
    figure.suptitle(f"Encrypted AUC: {title}", fontsize=12, fontweight="bold")
    grid = figure.add_gridspec(2, 3, width_ratios=(1.3, 1, 1))
    _draw_interval(figure.add_subplot(grid[0, 0]), evaluation, pooled_auc)
    _draw_sites(figure.add_subplot(grid[1, 0]), evaluation, site_aucs(parties), len(parties), sites)
    _draw_seconds(figure.add_subplot(grid[:, 1]), evaluation)
    _draw_bytes(figure.add_subplot(grid[:, 2]), evaluation)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Save a figure as a whole, in the format that the file's name ends in; raise `OSError` where that fails."""
    with replacing(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:].lower(), dpi=160)


def _draw_interval(axes: Axes, evaluation: Evaluation, pooled_auc: float) -> None:
    """Draw the interval close up, since against the spread of the sites it is a mere line."""
    axes.set_title("All rows together: AUC, and how far off binning may be", fontsize=10, loc="left")
    axes.errorbar(evaluation.auc, 1, xerr=evaluation.binning_error, fmt="o", color=INK, capsize=6, markersize=6)
    axes.plot(pooled_auc, 0, "D", color="white", markeredgecolor=INK, markersize=7)
    axes.axvline(pooled_auc, color=GREY, linestyle=":", linewidth=1, zorder=0)
    reach = 1.3 * max(evaluation.binning_error, abs(evaluation.auc - pooled_auc), 10 * evaluation.numerical_error)
    axes.set_xlim(evaluation.auc - reach, evaluation.auc + reach)
    axes.locator_params(axis="x", nbins=6)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.set_ylim(-0.6, 1.6)
    encrypted = f"encrypted\n{evaluation.auc:.6g},\noff ≤ {evaluation.binning_error:.3g}"
    axes.set_yticks([1, 0], [encrypted, f"scikit-learn,\npooled rows\n{pooled_auc:.6g}"], fontsize=9)
    axes.set_xlabel("AUC")
    tidy(axes)


def _draw_sites(axes: Axes, evaluation: Evaluation, own: NDArray[np.float64], parties: int, sites: str) -> None:
    axes.set_title(f"Each party alone: {len(own)} of {parties} {sites} have both labels", fontsize=10, loc="left")
    if len(own):
        heights = np.linspace(-0.3, 0.3, 7)[np.argsort(np.argsort(own)) * 3 % 7]  # set apart those that coincide
        axes.plot(own, heights, "o", color=LIGHT, markeredgecolor=GREY, markersize=5, label="one party")
    axes.axvline(evaluation.auc, color=INK, linewidth=1.5, label="encrypted, all rows", zorder=0)
    if len(own):
        mean = float(own.mean())
        axes.axvline(mean, color=INK, linestyle="--", linewidth=1.2, label=f"mean of them ({mean:.3f})", zorder=0)
    axes.set_ylim(-0.45, 0.45)
    axes.set_yticks([])
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.set_xlabel("AUC")
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.32),
        ncols=3,
        fontsize=8,
        frameon=False,
        handlelength=1.6,
        columnspacing=1.2,
    )
    tidy(axes)


def _draw_seconds(axes: Axes, evaluation: Evaluation) -> None:
    axes.set_title("Where the time went", fontsize=10, loc="left")
    known = [phase for phase in _ROLES if phase in evaluation.seconds]
    phases = known + [phase for phase in evaluation.seconds if phase not in _ROLES]
    labels = [f"{phase}\n({_ROLES[phase]})" if phase in _ROLES else phase for phase in phases]
    values = [1e3 * evaluation.seconds[phase] for phase in phases]
    bars = axes.barh(range(len(phases)), values, height=0.6, color=LIGHT, edgecolor=INK)
    axes.bar_label(bars, labels=[_three_digits(value) for value in values], padding=3, fontsize=9)
    axes.set_yticks(range(len(phases)), labels, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("time (ms)")
    axes.margins(x=0.15)
    tidy(axes)


def _draw_bytes(axes: Axes, evaluation: Evaluation) -> None:
    axes.set_title("What one party sent and received", fontsize=10, loc="left")
    names = ["sent", "received", "sent, as\n[FHE] reports"]
    values = [evaluation.upload_bytes_per_party, evaluation.download_bytes_per_party, PAPER_UPLOAD_BYTES]
    bars = axes.bar(range(3), [value / 1e6 for value in values], width=0.6, color=LIGHT, edgecolor=INK)
    bars[2].set(facecolor="white", hatch="//")  # not measured here
    axes.bar_label(bars, labels=[_three_digits(value / 1e6) for value in values], padding=3, fontsize=9)
    axes.set_xticks(range(3), names, fontsize=9)
    axes.set_ylabel("data (MB)")
    axes.margins(y=0.1)
    axes.annotate(
        "[FHE]: arXiv 2403.14428", (1, -0.17), xycoords="axes fraction", ha="right", va="top", fontsize=7.5, color=GREY
    )
    tidy(axes)


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


def make_logarithmic(axes: Axes, ticks: Mapping[int, str]) -> None:
    """Make both axes logarithmic, label the horizontal one at these values alone, and draw a grid behind all."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(list(ticks), list(ticks.values()), fontsize=9)
    axes.set_xticks([], minor=True)
    axes.grid(visible=True, which="major", color="0.9", linewidth=0.7)
    axes.set_axisbelow(True)
    tidy(axes)


def _three_digits(number: float) -> str:
    return f"{number:#.3g}".rstrip(".") if number < 1000 else f"{number:,.0f}"
