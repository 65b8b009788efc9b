"""What a benchmark says in a page: what it costs, against sites and thresholds, and beside its peers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from fhe_auc.figures.plot import INK, blank_figure, tidy
from fhe_auc_benchmarks.runtime.benchmark import (
    DEFAULT_THRESHOLDS,
    KEYS,
    LEVEL,
    PARTIES,
    PEERS,
    PROTOCOL,
    THRESHOLD_PARTIES,
    Measurement,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
_COLUMNS: Mapping[str, tuple[Callable[[Measurement], float], int]] = {
    "site, ms": (lambda each: 1e3 * each.cpu["party"], 2),
    "server, s": (lambda each: each.cpu["aggregator"], 2),
    "server, ms": (lambda each: 1e3 * each.cpu["aggregator"], 2),
    "helper, s": (lambda each: each.cpu["helper"], 2),
    "keys of all, s": (lambda each: each.cpu["keys"], 2),
    "a site sends, kB": (lambda each: each.upload_bytes / 1e3, 3),
    "receives, kB": (lambda each: each.download_bytes / 1e3, 3),
    "before, kB": (lambda each: each.before_bytes / 1e3, 3),
}
"""What a column holds, and with how many digits."""
_COSTS = tuple(name for name in _COLUMNS if name != "server, ms")
_BESIDE_PEERS = "site, ms", "server, ms", "a site sends, kB", "receives, kB"
_PEERS = {(problem.parties, problem.thresholds) for problem in PEERS}
_MARKERS = {"sealed": ("o", "-", "sealed keys"), "helper": ("s", "--", "with a helper")}


def tables(measurements: Iterable[Measurement]) -> dict[str, Table]:
    """Return by title: what the default protocol costs, against sites and thresholds, and protocols beside peers."""
    ours, peers = list[Measurement](), list[Measurement]()
    for each in measurements:
        (peers if (each.parties, each.thresholds) in _PEERS else ours).append(each)
    ours.sort(key=lambda each: (KEYS.index(keys_of(each)), each.parties, each.thresholds))
    peers.sort(key=lambda each: each.thresholds)
    at_default = [each for each in ours if each.thresholds == DEFAULT_THRESHOLDS]
    others = [each for each in ours if each.thresholds != DEFAULT_THRESHOLDS]
    return {
        f"{PROTOCOL}, {DEFAULT_THRESHOLDS:,} thresholds, {LEVEL:.0%} interval": (
            ("keys", "sites", *_COSTS),
            _rows(at_default, lambda each: (keys_of(each), f"{each.parties:,}"), _COSTS),
        ),
        f"{PROTOCOL}, {THRESHOLD_PARTIES} sites, {LEVEL:.0%} interval": (
            ("keys", "thresholds", *_COSTS),
            _rows(others, lambda each: (keys_of(each), f"{each.thresholds:,}"), _COSTS),
        ),
        f"Beside peers, {PEERS[0].parties} sites, no interval": (
            ("thresholds", "", *_BESIDE_PEERS),
            _rows(peers, lambda each: (f"{each.thresholds:,}", each.contender), _BESIDE_PEERS),
        ),
    }


def keys_of(each: Measurement) -> str:
    """Return who makes the keys, of our own."""
    return each.contender.removeprefix(f"{PROTOCOL}, ").removesuffix(" keys")


def _rows(
    found: Iterable[Measurement], title: Callable[[Measurement], tuple[str, ...]], columns: tuple[str, ...]
) -> list[tuple[str, ...]]:
    """Return a row for each title, with the least and the most of its measurements: "1.2 – 1.5"."""
    groups: dict[tuple[str, ...], list[Measurement]] = defaultdict(list)
    for each in found:
        groups[title(each)].append(each)

    def range_of(several: list[Measurement], column: str) -> str:
        value, digits = _COLUMNS[column]
        least, *_, most = [rounded(number, digits) for number in sorted(map(value, several))] * 2
        return least if least == most else f"{least} – {most}"

    return [(*name, *(range_of(group, column) for column in columns)) for name, group in groups.items()]


def rounded(number: float, digits: int) -> str:
    """Write a number with so many digits: 1234.5 as "1,200"; nothing at all is a dash."""
    if not number:
        return "–"
    places = digits - 1 - math.floor(math.log10(number))
    return f"{round(number, places):,.{max(places, 0)}f}"


def against_sites(measurements: list[Measurement]) -> Figure:
    """Return what a session costs the server, a site and its link, against the number of sites; medians of all runs."""
    from matplotlib.ticker import LogLocator, NullLocator

    figure = blank_figure(
        11, 3.6, f"What a session costs ({PROTOCOL}, {DEFAULT_THRESHOLDS:,} thresholds, {LEVEL:.0%} interval)"
    )
    panels: dict[str, Callable[[Measurement], float]] = {
        "server, CPU seconds": lambda each: each.cpu["aggregator"],
        "one site, CPU seconds": lambda each: each.cpu["party"],
        "one site sends and receives, MB": lambda each: (
            (each.before_bytes + each.upload_bytes + each.download_bytes) / 1e6
        ),
    }
    drawn = figure.subplots(1, len(panels))
    for axes, (what, value) in zip(drawn, panels.items(), strict=True):
        for keys, (marker, line, label) in _MARKERS.items():
            at: dict[int, list[float]] = defaultdict(list)
            for each in measurements:
                if each.contender == f"{PROTOCOL}, {keys} keys" and each.thresholds == DEFAULT_THRESHOLDS:
                    at[each.parties].append(value(each))
            looks = {"marker": marker, "linestyle": line, "color": INK, "markersize": 5, "linewidth": 1.4}
            axes.plot(sorted(at), [median(at[size]) for size in sorted(at)], label=label, **looks)
        axes.set(xscale="log", yscale="log", axisbelow=True)
        axes.set_xticks(PARTIES, [f"{size:,}" for size in PARTIES], fontsize=8)
        axes.set_xticks([], minor=True)
        axes.grid(visible=True, which="major", color="0.9", linewidth=0.7)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("sites")
        tidy(axes).set_title(what, fontsize=10)
    drawn[0].legend(fontsize=9, frameon=False, handlelength=3.5, loc="upper left")
    return figure


def markdown(measurements: list[Measurement], machines: list[dict[str, Any]]) -> str:
    """Return the summary."""
    ran = "\n".join(
        f"- {machine['date']}; {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, load "
        f"average {machine['load_average']} at the start; {machine['system']}, Python {machine['python']}; "
        + ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        for machine in machines
    )
    text = f"""\
# Benchmark

CPU time, one thread a process; of several runs of the command the least and the most. "Keys of all": their own
keys, sealing and opening, of all sites. "Before": the bundle, or the session's file, that a site is sent.

{ran}
"""
    for title, (header, rows) in tables(measurements).items():
        lines = (f"| {' | '.join(cells)} |" for cells in (header, ("---",) * len(header), *rows))
        text += f"\n## {title}\n\n" + "\n".join(lines) + "\n"
    return text
