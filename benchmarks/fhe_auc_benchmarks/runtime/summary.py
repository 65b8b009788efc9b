"""What a benchmark says in a page: ratios first, then times, bytes and the machine."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

from fhe_auc.files import write_atomically
from fhe_auc.plot import PAPER_UPLOAD_BYTES
from fhe_auc_benchmarks.runtime.benchmark import HEADLINE, Benchmark
from fhe_auc_benchmarks.runtime.measure import FLOOR, OURS, PUBLISHED, TUNED, Measurement

_COLUMNS = ("contender", "parties", "thresholds", "grid", "phase", "runs", "cpu", "cpu_median", "wall", "wall_median",
            "upload_bytes", "download_bytes", "auc", "exact_auc", "sklearn_auc")  # fmt: skip


def save_csv(path: Path, measured: Benchmark) -> None:
    """Save a row for each contender, problem and phase; times in seconds."""
    text = StringIO(newline="")
    writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore")
    writer.writeheader()
    for each in measured.measurements:
        for phase, seconds in each.phases.items():
            writer.writerow({**asdict(each), "phase": phase, **seconds._asdict()})
    write_atomically(path, text.getvalue().encode())


def save_json(path: Path, measured: Benchmark, machine: dict[str, Any]) -> None:
    """Save everything."""
    measurements = [
        {**asdict(each), "phases": {phase: seconds._asdict() for phase, seconds in each.phases.items()}}
        for each in measured.measurements
    ]
    everything = {
        "machine": machine,
        "quick": measured.quick,
        "ratios": ratios(measured),
        "measurements": measurements,
        "throughputs": [{**each._asdict(), "rate": each.rate} for each in measured.throughputs],
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

    for backend in dict.fromkeys(each.backend for each in measured.throughputs):
        name = f"{OURS} ({backend})"
        ours = at.get((name, *HEADLINE))
        for peer in (PUBLISHED, TUNED):
            add(f"{peer} / {name}, aggregation", at.get((peer, *HEADLINE)), ours)
        add(f"{name} / ciphertext sum alone, aggregation", ours, at.get((f"{FLOOR} ({backend})", *HEADLINE)))
        add(f"{name}, {parties} parties: 1,000 / {thresholds} thresholds", at.get((name, parties, 1000)), ours)
        add(f"{name}, {thresholds} thresholds: 1,000 / {parties} parties", at.get((name, 1000, thresholds)), ours)
        if ours is not None:
            found[f"upload that [FHE] reports / {name}"] = PAPER_UPLOAD_BYTES / ours.upload_bytes
        rates = measured.rates(backend)
        found |= {
            f"{name}, ingest: {count} processes / 1 (wall)": rate / rates[1]
            for count, rate in rates.items()
            if count > 1
        }
    return found


def markdown(measured: Benchmark, machine: dict[str, Any]) -> str:
    """Return the summary."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    parties, thresholds = HEADLINE
    lines = [
        "# Benchmark",
        "",
        f"{machine['date']}; {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, load "
        f"average {machine['load_average']} at the start; {machine['system']}, Python {machine['python']}; {versions}.",
        f"One thread a process. CPU time; the median of {measured.runs} runs, in which all contenders took turns. Keys "
        "are made once; Paillier, which takes seconds, ran once.",
        "",
        "## Ratios",
        "",
        *_table(("", "ratio"), ((name, f"{ratio:.2f}") for name, ratio in ratios(measured).items())),
        "",
        f"## {parties} parties, {thresholds} thresholds",
        "",
        "Aggregation is ingest and circuit together. Keys, submit and recover: once, one party, one party.",
        "",
        *_table(
            ("", "aggregation", "ingest", "circuit", "submit", "recover", "keys", "a party sends", "receives"),
            (_row(each) for each in measured.measurements if (each.parties, each.thresholds) == HEADLINE),
        ),
        "",
        "## Aggregation, all measurements",
        "",
        *_table(
            ("", "parties", "thresholds", "CPU", "wall", "upload"),
            (
                (
                    _name(each),
                    f"{each.parties:,}",
                    f"{each.thresholds:,}",
                    _milliseconds(each.aggregation),
                    _milliseconds(each.phases["ingest"].wall_median + each.phases["circuit"].wall_median),
                    f"{each.upload_bytes:,}",
                )
                for each in sorted(measured.measurements, key=lambda one: (one.contender, one.parties, one.thresholds))
            ),
        ),
        "",
        "## Ingest in several processes (wall-clock time)",
        "",
        "One run a row; the ratio above is of medians.",
        "",
        *_table(
            ("", "processes", "submissions", "seconds", "submissions per second"),
            (
                (each.backend, f"{each.processes}", f"{each.submissions:,}", f"{each.seconds:.2f}", f"{each.rate:,.0f}")
                for each in measured.throughputs
            ),
        ),
        "",
        "[FHE]: arXiv 2403.14428.",
    ]
    return "\n".join(lines) + "\n"


def _row(each: Measurement) -> tuple[str, ...]:
    single = (
        _milliseconds(each.phases[phase].cpu_median) for phase in ("ingest", "circuit", "submit", "recover", "keys")
    )
    return _name(each), _milliseconds(each.aggregation), *single, f"{each.upload_bytes:,}", f"{each.download_bytes:,}"


def _name(each: Measurement) -> str:
    return each.contender.replace(FLOOR, "ciphertext sum alone")


def _milliseconds(seconds: float) -> str:
    number = 1e3 * seconds
    return f"{number:,.0f} ms" if number >= 100 else f"{number:.1f} ms" if number >= 1 else f"{number:.3f} ms"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [header, ("---",) * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]
