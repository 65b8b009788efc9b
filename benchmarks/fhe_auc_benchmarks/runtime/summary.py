"""What a benchmark says in a page: what it costs, against sites and thresholds, and beside its peers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fhe_auc.quantities import bytes_text, seconds_text
from fhe_auc_benchmarks import tables
from fhe_auc_benchmarks.runtime.benchmark import DEFAULT_THRESHOLDS, LEVEL, PEERS, PROTOCOL, THRESHOLD_PARTIES
from fhe_auc_benchmarks.runtime.measure import Measurement

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
_BYTES = ("a site sends", "receives")
_COSTS = ("site", "server", "helper", "keys, all sites", *_BYTES)
_ROLES = ("party", "aggregator", "helper", "keys")


def by_sites(measurements: Iterable[Measurement]) -> Table:
    """Return header and rows of what the default protocol costs, against sites."""
    found = [each for each in measurements if _default(each) and each.thresholds == DEFAULT_THRESHOLDS]
    return ("sites", "keys", *_COSTS), _rows(found, lambda each: (f"{each.parties:,}", keys_of(each)))


def by_thresholds(measurements: Iterable[Measurement]) -> Table:
    """Return the same against thresholds."""
    found = [each for each in measurements if _default(each) and each.parties == THRESHOLD_PARTIES]
    found.sort(key=lambda each: each.thresholds)
    return ("thresholds", "keys", *_COSTS), _rows(found, lambda each: (f"{each.thresholds:,}", keys_of(each)))


def beside_peers(measurements: Iterable[Measurement]) -> Table:
    """Return protocols and peers on the same counts, without intervals."""
    found = [each for each in measurements if not _default(each)]
    found.sort(key=lambda each: each.thresholds)
    rows = _rows(found, lambda each: (f"{each.thresholds:,}", each.contender), roles=_ROLES[:2])
    return ("thresholds", "", *_COSTS[:2], *_BYTES), rows


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

CPU time, one thread a process; of several runs of the command the least and the most. Keys: of all sites, certificates,
keys, sealing and opening.

{ran}

## {PROTOCOL}, {DEFAULT_THRESHOLDS:,} thresholds, {LEVEL:.0%} interval

{tables.markdown(*by_sites(measurements))}
## {PROTOCOL}, {THRESHOLD_PARTIES} sites, {LEVEL:.0%} interval

{tables.markdown(*by_thresholds(measurements))}
## Beside peers, {PEERS[0].parties} sites, no interval

{tables.markdown(*beside_peers(measurements))}"""


def _default(each: Measurement) -> bool:
    return (each.parties, each.thresholds) not in {(peer.parties, peer.thresholds) for peer in PEERS}


def _rows(
    found: Iterable[Measurement], title: Callable[[Measurement], tuple[str, str]], roles: Sequence[str] = _ROLES
) -> list[tuple[str, ...]]:
    """Return a row for each title, whose numbers are the least and the most of its measurements."""
    groups: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for each in found:
        groups[title(each)].append(each)
    return [
        (
            *name,
            *(_range(seconds_text, [each.cpu[role] for each in group]) for role in roles),
            _range(bytes_text, [each.upload_bytes for each in group]),
            _range(bytes_text, [each.download_bytes for each in group]),
        )
        for name, group in groups.items()
    ]


def _range(text: Callable[[float], str], numbers: Iterable[float]) -> str:
    """Write the least and the most: "1.20 – 1.50 s"."""
    low, high = (text(number) if number else "–" for number in (min(numbers), max(numbers)))
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number if high.endswith(f' {unit}') else low} – {high}"
