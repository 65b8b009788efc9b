"""What a benchmark says in a page: what it costs, against sites and thresholds, and beside its peers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from fhe_auc.figures.plot import INK, blank_figure, make_logarithmic
from fhe_auc_benchmarks import tables
from fhe_auc_benchmarks.runtime.benchmark import (
    DEFAULT_THRESHOLDS,
    KEYS,
    LEVEL,
    PARTIES,
    PEERS,
    PROTOCOL,
    THRESHOLD_PARTIES,
)
from fhe_auc_benchmarks.runtime.measure import Measurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
_COSTS = ("site, ms", "server, s", "helper, s", "keys of all, s", "a site sends, kB", "receives, kB", "before, kB")


def by_sites(measurements: Iterable[Measurement]) -> Table:
    """Return header and rows of what the default protocol costs, against sites, for each kind of keys."""
    found = [each for each in measurements if _default(each) and each.thresholds == DEFAULT_THRESHOLDS]
    return _against("sites", found, lambda each: each.parties)


def by_thresholds(measurements: Iterable[Measurement]) -> Table:
    """Return the same against thresholds."""
    found = [each for each in measurements if _default(each) and each.thresholds != DEFAULT_THRESHOLDS]
    return _against("thresholds", found, lambda each: each.thresholds)


def _against(what: str, found: list[Measurement], number: Callable[[Measurement], int]) -> Table:
    found.sort(key=lambda each: (KEYS.index(keys_of(each)), number(each)))
    return ("keys", what, *_COSTS), _rows(found, lambda each: (keys_of(each), f"{number(each):,}"), _costs)


def beside_peers(measurements: Iterable[Measurement]) -> Table:
    """Return protocols and peers on the same counts, without intervals."""
    found = [each for each in measurements if (each.parties, each.thresholds) in _PEERS]
    found.sort(key=lambda each: each.thresholds)
    rows = _rows(
        found,
        lambda each: (f"{each.thresholds:,}", each.contender),
        lambda each: [(1e3 * each.cpu["party"], 2), (1e3 * each.cpu["aggregator"], 2), *_bytes(each)[:2]],
    )
    return ("thresholds", "", _COSTS[0], "server, ms", *_COSTS[4:6]), rows


def against_sites(measurements: list[Measurement]) -> Figure:
    """Return what a session costs the server, a site and its link, against the number of sites; medians of all runs."""
    figure = blank_figure(
        11, 3.6, f"What a session costs ({PROTOCOL}, {DEFAULT_THRESHOLDS:,} thresholds, {LEVEL:.0%} interval)"
    )
    panels: tuple[tuple[str, Callable[[Measurement], float]], ...] = (
        ("server, CPU seconds", lambda each: each.cpu["aggregator"]),
        ("one site, CPU seconds", lambda each: each.cpu["party"]),
        (
            "one site sends and receives, MB",
            lambda each: (each.before_bytes + each.upload_bytes + each.download_bytes) / 1e6,
        ),
    )
    drawn = figure.subplots(1, len(panels))
    for axes, (what, value) in zip(drawn, panels, strict=True):
        _draw(axes, measurements, value)
        axes.set_xlabel("sites")
        axes.set_title(what, fontsize=10)
    drawn[0].legend(fontsize=9, frameon=False, handlelength=3.5, loc="upper left")
    return figure


def keys_of(each: Measurement) -> str:
    """Return who makes the keys, of our own."""
    return each.contender.removeprefix(f"{PROTOCOL}, ").removesuffix(" keys")


def markdown(measurements: list[Measurement], machines: list[dict[str, Any]]) -> str:
    """Return the summary."""
    ran = "\n".join(
        f"- {machine['date']}; {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, load "
        f"average {machine['load_average']} at the start; {machine['system']}, Python {machine['python']}; "
        + ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        for machine in machines
    )
    return f"""\
# Benchmark

CPU time, one thread a process; of several runs of the command the least and the most. "Keys of all": their own
keys, sealing and opening, of all sites. "Before": the bundle, or the session's file, that a site is sent.

{ran}

## {PROTOCOL}, {DEFAULT_THRESHOLDS:,} thresholds, {LEVEL:.0%} interval

{tables.markdown(*by_sites(measurements))}
## {PROTOCOL}, {THRESHOLD_PARTIES} sites, {LEVEL:.0%} interval

{tables.markdown(*by_thresholds(measurements))}
## Beside peers, {PEERS[0].parties} sites, no interval

{tables.markdown(*beside_peers(measurements))}"""


_LABELS = {"sealed": "sealed keys", "helper": "with a helper"}
_STYLES = dict(zip(KEYS, (("o", "-", INK), ("s", "--", INK)), strict=True))
_PEERS = {(problem.parties, problem.thresholds) for problem in PEERS}
_Numbers = Sequence[tuple[float, int]]


def _default(each: Measurement) -> bool:
    return (each.parties, each.thresholds) not in _PEERS


def _costs(each: Measurement) -> _Numbers:
    (party, digits), *others = _seconds(each)
    return [(1e3 * party, digits), *others, *_bytes(each)]


def _seconds(each: Measurement) -> _Numbers:
    return [(each.cpu[role], 2) for role in ("party", "aggregator", "helper", "keys")]


def _bytes(each: Measurement) -> _Numbers:
    return [(number / 1e3, 3) for number in (each.upload_bytes, each.download_bytes, each.before_bytes)]


def _rows(
    found: Iterable[Measurement],
    title: Callable[[Measurement], tuple[str, ...]],
    numbers: Callable[[Measurement], _Numbers],
) -> list[tuple[str, ...]]:
    """Return a row for each title, with the least and the most of its measurements; numbers have their digits."""
    groups: dict[tuple[str, ...], list[_Numbers]] = defaultdict(list)
    for each in found:
        groups[title(each)].append(numbers(each))
    return [(*name, *map(_range, zip(*group, strict=True))) for name, group in groups.items()]


def _range(numbers: Iterable[tuple[float, int]]) -> str:
    """Write the least and the most: "1.2 – 1.5"; nothing at all is a dash."""
    texts = [_text(*each) for each in sorted(numbers)]
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} – {texts[-1]}"


def _text(number: float, digits: int) -> str:
    """Write a number with so many digits: 1234.5 as "1,200"."""
    if not number:
        return "–"
    places = digits - 1 - math.floor(math.log10(number))
    return f"{round(number, places):,.{max(places, 0)}f}"


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
