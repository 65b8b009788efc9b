"""What a benchmark says in a page: whole commands, what each role has of a session, and beside its peers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from fhe_auc.figures.plot import GREY, INK, blank_figure, tidy
from fhe_auc_benchmarks.runtime.benchmark import LEVEL, PEERS, PROTOCOL, THRESHOLDS, Measurement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
_WAYS = "before", "upload", "download"
_COLUMNS: Mapping[str, tuple[Callable[[Measurement], float], int]] = {
    "CPU, s": (lambda each: each.costs["cpu"], 2),
    "wall, s": (lambda each: each.costs["wall"], 2),
    "memory, MB": (lambda each: each.costs["peak_bytes"] / 1e6, 2),
    "rows a CPU second": (lambda each: each.rows / each.costs["cpu"], 2),
    "site, ms": (lambda each: 1e3 * each.costs["party"], 2),
    "server, ms": (lambda each: 1e3 * each.costs["aggregator"], 2),
    "helper, ms": (lambda each: 1e3 * each.costs["helper"], 2),
    "keys of all, s": (lambda each: each.costs["keys"], 2),
    "a site sends, kB": (lambda each: each.costs["upload_bytes"] / 1e3, 3),
    "receives, kB": (lambda each: each.costs["download_bytes"] / 1e3, 3),
    "before, kB": (lambda each: each.costs["before_bytes"] / 1e3, 3),
    "a site's bytes in all, kB": (lambda each: sum(each.costs[f"{way}_bytes"] for way in _WAYS) / 1e3, 3),
}
"""What a column holds, and with how many digits."""
_OF_COMMANDS, _OF_SESSIONS, _IN_ALL = tuple(_COLUMNS)[:4], tuple(_COLUMNS)[4:-1], tuple(_COLUMNS)[-1]
_BESIDE_PEERS = "site, ms", "server, ms", "a site sends, kB", "receives, kB"
_LABELS: Mapping[str, Callable[[Measurement], str]] = {
    "rows": lambda each: f"{each.rows:,}",
    "files": lambda each: each.kind,
    "sites": lambda each: f"{each.parties:,}",
    "": lambda each: each.contender,
}
_TITLES = (
    "What a whole command takes",
    f"What a session costs ({PROTOCOL}, {THRESHOLDS:,} thresholds, {LEVEL:.0%} interval)",
    f"Beside peers ({PEERS}, no interval)",
)
_LOOKS = ("o", "-", INK), ("s", "--", INK), ("^", ":", GREY)  # a line's marker, style and colour


def tables(measurements: Iterable[Measurement]) -> dict[str, Table]:
    """Return by title: whole commands; what the default costs each role, against sites; protocols beside peers."""
    labels = ("rows", "files", ""), ("sites", ""), ("",)
    columns = _OF_COMMANDS, _OF_SESSIONS, _BESIDE_PEERS
    return {
        title: ((*own, *costs), _rows(found, own, costs))
        for title, own, costs, found in zip(_TITLES, labels, columns, _sorted(measurements), strict=True)
    }


def _sorted(measurements: Iterable[Measurement]) -> tuple[list[Measurement], ...]:
    """Return whole commands, sessions of the default, and those beside peers; each by size."""
    commands, ours, peers = list[Measurement](), list[Measurement](), list[Measurement]()
    for each in sorted(measurements, key=lambda each: each.rows):
        (commands if each.kind else ours if each.thresholds == THRESHOLDS else peers).append(each)
    return commands, ours, peers


def _rows(found: list[Measurement], labels: tuple[str, ...], columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return a row for what has the same labels, with the least and the most of its measurements: "1.2 – 1.5"."""
    groups: dict[tuple[str, ...], list[Measurement]] = defaultdict(list)
    for each in found:
        groups[tuple(_LABELS[label](each) for label in labels)].append(each)

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


def figures(measurements: Iterable[Measurement]) -> dict[str, Figure]:
    """Return by file name: what commands take, against rows, and sessions, against sites; medians of all runs."""
    commands, ours, _ = _sorted(measurements)
    found = {
        "sites.png": _figure(_TITLES[1], ("server, ms", "site, ms", _IN_ALL), ours, "sites", lambda each: each.parties)
    }
    if commands:
        found["rows.png"] = _figure(_TITLES[0], _OF_COMMANDS[:3], commands, "rows", lambda each: each.rows)
    return found


def _figure(
    title: str, columns: tuple[str, ...], found: list[Measurement], against: str, size: Callable[[Measurement], int]
) -> Figure:
    """Return a panel for each column, with a line for each contender, against a size; both logarithmic."""
    from matplotlib.ticker import LogLocator, NullLocator

    figure, sizes = blank_figure(11, 3.6, title), sorted(set(map(size, found)))
    drawn = figure.subplots(1, len(columns))
    for axes, column in zip(drawn, columns, strict=True):
        contenders = dict.fromkeys(each.contender for each in found)
        for contender, (marker, line, color) in zip(contenders, _LOOKS, strict=False):
            at: dict[int, list[float]] = defaultdict(list)
            for each in found:
                if each.contender == contender:
                    at[size(each)].append(_COLUMNS[column][0](each))
            looks = {"marker": marker, "linestyle": line, "color": color, "markersize": 5, "linewidth": 1.4}
            axes.plot(sorted(at), [median(at[each]) for each in sorted(at)], label=contender, **looks)
        low, high = axes.dataLim.intervaly
        axes.set(xscale="log", yscale="log", axisbelow=True, ylim=(low / 2, 4 * high))  # noise looks small, as it is
        axes.set_xticks(sizes, [f"{each:,}" for each in sizes], fontsize=8)
        axes.set_xticks([], minor=True)
        axes.grid(visible=True, which="major", color="0.9", linewidth=0.7)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(against)
        tidy(axes).set_title(column, fontsize=10)
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

Of several runs of the benchmark the least and the most. Of sessions, CPU time with one thread. "Keys of all": their
own keys, sealing and opening, of all sites. "Before": the bundle, or the session's file, that a site is sent.

{ran}
"""
    for title, (header, rows) in tables(measurements).items():
        lines = (f"| {' | '.join(cells)} |" for cells in (header, ("---",) * len(header), *rows))
        text += f"\n## {title}\n\n" + "\n".join(lines) + "\n"
    return text
