"""What a benchmark says in a page: ratios first, then times, bytes and the machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fhe_auc.files import write_atomically
from fhe_auc.plot import PAPER_UPLOAD_BYTES
from fhe_auc_benchmarks import tables
from fhe_auc_benchmarks.runtime import padded_sketches
from fhe_auc_benchmarks.runtime.benchmark import HEADLINE, Benchmark
from fhe_auc_benchmarks.runtime.measure import FLOOR, OURS, PUBLISHED, TUNED, Measurement

_COLUMNS = ("contender", "parties", "thresholds", "grid", "phase", "runs", "cpu", "cpu_median", "wall", "wall_median",
            "upload_bytes", "download_bytes", "auc", "exact_auc", "sklearn_auc")  # fmt: skip
_SINGLE = ("ingest", "circuit", "relay", "submit", "echo", "recover", "keys")


def save_csv(path: Path, measured: Benchmark) -> None:
    """Save a row for each contender, problem and phase; times in seconds."""
    measurements = [asdict(each) for each in measured.measurements]
    rows = ({**each, "phase": phase, **times} for each in measurements for phase, times in each["phases"].items())
    tables.save_csv(path, _COLUMNS, rows)


def save_json(path: Path, measured: Benchmark, machine: dict[str, Any]) -> None:
    """Save everything."""
    everything = {
        "machine": machine,
        "quick": measured.quick,
        "ratios": ratios(measured),
        "padded_sketches": padded_sketches.as_dict(measured),
        "measurements": [asdict(each) for each in measured.measurements],
        "accuracies": [each._asdict() for each in measured.accuracies],
    }
    write_atomically(path, (json.dumps(everything, indent=2) + "\n").encode())


def ratios(measured: Benchmark) -> dict[str, float]:
    """Return what the benchmark is about, by name; what was not measured is missing."""
    at = {(each.contender, each.parties, each.thresholds): each for each in measured.measurements}
    parties, thresholds = HEADLINE
    found: dict[str, float] = {}

    def add(name: str, above: Measurement | None, below: Measurement | None) -> None:
        if above is not None and below is not None:
            found[name] = above.aggregation / below.aggregation

    contenders = (each.contender for each in measured.measurements)
    for name in dict.fromkeys(each for each in contenders if each.startswith(f"{OURS} (")):
        backend = name.removeprefix(f"{OURS} (").removesuffix(")")
        ours = at.get((name, *HEADLINE))
        for peer in (PUBLISHED, TUNED):
            add(f"{peer} / {name}, aggregation", at.get((peer, *HEADLINE)), ours)
        add(f"{name} / ciphertext sum alone, aggregation", ours, at.get((f"{FLOOR} ({backend})", *HEADLINE)))
        add(f"{name}, {parties} parties: 1,000 / {thresholds} thresholds", at.get((name, parties, 1000)), ours)
        add(f"{name}, {thresholds} thresholds: 1,000 / {parties} parties", at.get((name, 1000, thresholds)), ours)
        if ours is not None:
            found[f"upload that [FHE] reports / {name}"] = PAPER_UPLOAD_BYTES / ours.upload_bytes
    return found


def markdown(measured: Benchmark, machine: dict[str, Any]) -> str:
    """Return the summary."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    parties, thresholds = HEADLINE
    ordered = sorted(measured.measurements, key=lambda each: (each.contender, each.parties, each.thresholds))
    return f"""\
# Benchmark

{machine["date"]}; {machine["processor"]}, {machine["cores"]} cores, {machine["memory_gib"]} GiB, load average \
{machine["load_average"]} at the start; {machine["system"]}, Python {machine["python"]}; {versions}.
One thread a process. CPU time; the median of {measured.runs} runs, in which all contenders took turns. Keys are made \
once; Paillier, which takes seconds, ran once.

## Ratios

{tables.markdown(("", "ratio"), ((name, f"{ratio:.2f}") for name, ratio in ratios(measured).items()))}
## Padded sketches, {parties} parties

{tables.markdown(*padded_sketches.table(measured))}
## {parties} parties, {thresholds} thresholds

Aggregation is ingest, circuit and relay together. Keys: once; submit, echo and recover: one party.

{tables.markdown(("", "aggregation", *_SINGLE, "a party sends", "receives"), map(_row, measured.headline))}
## Aggregation, all measurements

{tables.markdown(("", "parties", "thresholds", "CPU", "wall", "upload"), map(_aggregation_row, ordered))}
[FHE]: arXiv 2403.14428.
"""


def _row(each: Measurement) -> tuple[str, ...]:
    single = (_milliseconds(each.spent(phase)) for phase in _SINGLE)
    return _name(each), _milliseconds(each.aggregation), *single, f"{each.upload_bytes:,}", f"{each.download_bytes:,}"


def _aggregation_row(each: Measurement) -> tuple[str, ...]:
    wall = sum(each.phases[phase].wall_median for phase in ("ingest", "circuit", "relay"))
    times = _milliseconds(each.aggregation), _milliseconds(wall)
    return _name(each), f"{each.parties:,}", f"{each.thresholds:,}", *times, f"{each.upload_bytes:,}"


def _name(each: Measurement) -> str:
    return each.contender.replace(FLOOR, "ciphertext sum alone")


def _milliseconds(seconds: float) -> str:
    number = 1e3 * seconds
    return f"{number:,.0f} ms" if number >= 100 else f"{number:.1f} ms" if number >= 1 else f"{number:.3f} ms"
