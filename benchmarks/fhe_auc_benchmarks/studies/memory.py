"""Resident memory of the aggregator's process after 10, 100, 1,000 and 10,000 submissions.

    python -m fhe_auc_benchmarks.studies.memory [--counts 10 100 1000 10000] [--protocols verified]        (Linux only)

The aggregator runs alone in a process of its own, as at a real site: it loads its keys, opens the session and receives
protocol messages through a pipe, one after the other, with all checks but signatures. The parties encrypt in the parent
process; from the 21st on, what they send is sent again under other names. The last columns are what the submissions
would take if they were kept, the CPU time that the aggregator spent on each, and on all.

With ``--whole 10 10000`` one process plays all roles of so many parties, keys and certificates included, at the default
thresholds, without an interval: its largest resident memory, and CPU time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from fhe_auc import ckks, federated_auc, registry, thresholds
from fhe_auc.counts import PartyData
from fhe_auc.manifest import Manifest
from fhe_auc.messages import Message
from fhe_auc.protocol import Request
from fhe_auc.serialise import encode
from fhe_auc_keys.session_keys import party_secrets

PROTOCOLS = ("semi-honest", "exact", "verified")
GRIDS = ("uniform:100", "uniform:4000")
COUNTS = (10, 100, 1000, 10_000)
DISTINCT = 20


def send(stream: BinaryIO, item: bytes) -> None:
    stream.write(len(item).to_bytes(8, "little") + item)
    stream.flush()


def receive(stream: BinaryIO) -> bytes:
    return stream.read(int.from_bytes(stream.read(8), "little"))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def aggregate() -> None:
    """Play the aggregator: manifest, keys, how often to report, then messages on stdin; memory on stdout."""
    stdin = sys.stdin.buffer
    manifest = Manifest.from_bytes(receive(stdin))
    aggregator = registry.load(manifest.protocol).aggregator(manifest, receive(stdin))
    report = [int(item) for item in receive(stdin).split()]
    send(sys.stdout.buffer, aggregator.start())
    started = time.process_time()
    for number, party in enumerate(manifest.parties, start=1):
        aggregator.receive(party, receive(stdin))
        if number in report:
            send(sys.stdout.buffer, str(resident()).encode())
    spent = time.process_time() - started
    aggregator.finish_round()
    send(sys.stdout.buffer, str(resident()).encode())
    send(sys.stdout.buffer, str(spent / len(manifest.parties)).encode())


def measure(protocol: str, backend: str, spec: str, counts: Sequence[int]) -> tuple[list[int], int, float]:
    """Return resident bytes after some submissions and after the circuit, bytes of an upload, CPU seconds of each."""
    names = tuple(f"site {i}" for i in range(max(counts)))
    plugin = registry.load(protocol)
    session = plugin.prepare(Request(parties=names, thresholds=thresholds.parse(spec), backend=backend))
    child = subprocess.Popen(
        [sys.executable, "-m", "fhe_auc_benchmarks.studies.memory", "--aggregator"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        for item in (session.manifest.to_bytes(), session.aggregator_material, " ".join(map(str, counts)).encode()):
            send(child.stdin, item)
        opening = receive(child.stdout)
        found, made = [], []
        common = party_secrets(session.party_material, session.manifest.context)
        rng = np.random.default_rng(1)
        for name in names[:DISTINCT]:
            data = PartyData.from_arrays(name, rng.random(20) < 0.5, rng.random(20))
            own = encode(msgspec.structs.replace(common, seed=session.seeds.get(name, b"")))
            made.append(plugin.party(session.manifest, own, data).respond(opening))
        for number, name in enumerate(names, start=1):
            submission = renamed(made[(number - 1) % DISTINCT], name)
            send(child.stdin, submission)
            if number in counts:
                found.append(int(receive(child.stdout)))
        found.append(int(receive(child.stdout)))
        spent = float(receive(child.stdout))
    return found, len(submission), spent


def renamed(submission: bytes, name: str) -> bytes:
    """Return the same submission, sent by another party."""
    message = Message.from_bytes(submission, limit=len(submission))
    return msgspec.structs.replace(message, sender=name).to_bytes()


def play(protocol: str, backend: str, number: int) -> None:
    rng = np.random.default_rng(1)
    parties = [PartyData.from_arrays(f"site {i}", rng.random(5) < 0.5, rng.random(5)) for i in range(number)]
    started = time.process_time()
    federated_auc(parties, protocol=protocol, backend=backend, interval=None)
    spent, peak = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"| {protocol} | {backend} | {number:,} | {peak:.0f} MiB | {spent:.0f} s |", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure the aggregator's resident memory.")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="report after so many submissions")
    parser.add_argument("--protocols", nargs="+", default=PROTOCOLS)
    parser.add_argument("--grids", nargs="+", default=GRIDS)
    parser.add_argument("--whole", type=int, nargs="+", help="numbers of parties that one process plays")
    parser.add_argument("--aggregator", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.aggregator:
        aggregate()
        return
    if arguments.whole:
        print("| protocol | backend | parties | all roles | CPU |\n" + "| --- " * 5 + "|", flush=True)
        for each in product(arguments.protocols, ckks.available_backends(), arguments.whole):
            alone = multiprocessing.get_context("spawn").Process(target=play, args=each)
            alone.start()
            alone.join()
        return
    counts = sorted(set(arguments.counts))
    after = "".join(f" after {n:,} |" for n in counts)
    print(f"| protocol | backend | grid |{after} after the circuit | growth | if kept | each | all |")
    print("| " + "--- | " * (len(counts) + 8))
    for protocol, backend, spec in product(arguments.protocols, ckks.available_backends(), arguments.grids):
        found, upload, spent = measure(protocol, backend, spec, counts)
        columns = "".join(f" {size / 2**20:.1f} MiB |" for size in found)
        growth, kept = (found[-2] - found[0]) / 2**20, upload * (counts[-1] - counts[0]) / 2**20
        print(
            f"| {protocol} | {backend} | {spec} |{columns} {growth:+.1f} MiB | {kept:+,.0f} MiB "
            f"| {spent * 1e3:.3f} ms | {spent * counts[-1]:.1f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
