"""What padded sketches cost, protocol by protocol, beside the published design and the counts in the clear."""

from __future__ import annotations

from collections.abc import Iterator

from fhe_auc_benchmarks.runtime.benchmark import HEADLINE, MANY_THRESHOLDS, PARTIES, Benchmark
from fhe_auc_benchmarks.runtime.contender import SIGNED
from fhe_auc_benchmarks.runtime.measure import PADDED, PUBLISHED, Measurement

_COUNTS_BYTES = 16
"""Of both counts of a threshold in the clear."""

_FINE = HEADLINE[0], MANY_THRESHOLDS


def as_dict(measured: Benchmark) -> dict[str, dict[str, float]]:
    """Return numbers by row, then by contender; what was not measured is missing.

    Where a row does not say otherwise, messages are signed, and there are 1,000 thresholds.
    """
    names = dict.fromkeys(each.contender for each in measured.measurements if each.contender.startswith(PADDED))
    found: dict[str, dict[str, float]] = {}
    for name in names:
        protocol, _, backend = name.partition(" (")
        for signed in (True, False):
            if protocol in PADDED:
                way = SIGNED if signed else ""
                for row, number in _numbers(measured, f"{protocol}{way} ({backend}", signed=signed):
                    found.setdefault(row, {})[name] = number
    return found


def table(measured: Benchmark) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the same as a header and rows of text."""
    found = as_dict(measured)
    columns = tuple(dict.fromkeys(name for numbers in found.values() for name in numbers))
    rows = [
        (row, *(f"{numbers[each]:.3g}" if each in numbers else "" for each in columns))
        for row, numbers in found.items()
    ]
    return (f"{HEADLINE[0]} parties", *columns), rows


def _numbers(measured: Benchmark, contender: str, *, signed: bool) -> Iterator[tuple[str, float]]:
    at = {(each.contender, each.parties, each.thresholds): each for each in measured.measurements}
    how = "" if signed else ", unsigned"
    coarse, fine = at.get((contender, *HEADLINE)), at.get((contender, *_FINE))
    if signed and coarse:
        yield f"upload, {coarse.thresholds:,} thresholds (kB)", coarse.upload_bytes / 1e3
    if signed and fine:
        yield from _of_party(fine)
    if fine:
        yield f"ingest of a submission{how} (ms)", 1e3 * fine.spent("ingest") / fine.parties
        yield f"after the last submission{how} (ms)", 1e3 * fine.spent("circuit", "relay")
    for problem in (HEADLINE, _FINE, (max(PARTIES), HEADLINE[1])):
        ours, theirs = at.get((contender, *problem)), at.get((PUBLISHED, *problem))
        if ours and theirs:
            what = f"aggregator, published design / ours{how}: {problem[0]:,} parties, {problem[1]:,} thresholds"
            yield what, theirs.aggregation / ours.aggregation


def _of_party(each: Measurement) -> Iterator[tuple[str, float]]:
    yield f"upload, {each.thresholds:,} thresholds (kB)", each.upload_bytes / 1e3
    yield "upload / counts in the clear", each.upload_bytes / (_COUNTS_BYTES * each.thresholds)
    yield "download (kB)", each.download_bytes / 1e3
    yield "party: count, pad, message (ms)", 1e3 * each.spent("submit")
    yield "party: echo, recover (ms)", 1e3 * each.spent("echo", "recover")
