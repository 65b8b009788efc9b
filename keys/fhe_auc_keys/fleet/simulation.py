"""A whole session of a fleet on one machine, with made-up devices: what it costs, and whether it is exact."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.terminal import Progress
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question.fleet import Fleet
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.fleet import aggregator, helper, tables
from fhe_auc_keys.fleet.device import Device, Floor, Record, write_records
from fhe_auc_keys.fleet.fleet_session import FleetSession
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Change, FleetList
from fhe_auc_keys.trust.sealing import PrivateKeys

MOST_ROWS = 19  # of a device

_CHUNK = tables.GROUP
_READERS = 20
_FLOOR = Floor(members=2, share=0.5)


@dataclass
class Simulated:
    """What a simulation has found."""

    parties: int
    counted: int
    fraction: Fraction
    expected: Fraction
    record_bytes: int
    cpu_seconds: dict[str, float]  # by role, in all its processes

    @property
    def equal(self) -> bool:
        """Whether every device that has looked has the fraction over all rows, which are all in it."""
        return self.fraction == self.expected and self.counted == self.parties


def simulate(
    parties: int, grid: NDArray[np.float64], folder: Path, workers: Workers, *, proofs: bool, progress: Progress
) -> Simulated:
    """Play a session of so many devices in an empty folder; `EvaluationError` where they read different things.

    With `proofs` they prove that their rows are counts within the cap, `MOST_ROWS`.
    """
    place = str(folder)
    seed = secrets.token_bytes(32)
    seconds = defaultdict[str, float](float)
    steps = itertools.count()

    @contextmanager
    def measured(role: str, step: str) -> Iterator[None]:
        progress(f"{role}: {step}", next(steps), 7)
        before = time.process_time() + workers.seconds
        yield
        seconds[role] += time.process_time() + workers.seconds - before

    chunks = [(first, min(_CHUNK, parties - first)) for first in range(0, parties, _CHUNK)]  # a task plays one of them
    with measured("devices", "make their secrets"):
        known = np.concatenate(list(workers.map(_known_by, chunks, seed)))
        tables.write_members(f"{place}/members.parquet", known)
    consortium = Consortium(())
    at, holder = consortium.at, consortium.holder
    fleet = Fleet.of(known, row_cap=MOST_ROWS)
    consortium.change(Change(fleets=[FleetList(fleet.members, fleet.root)]))
    request = Request(
        parties=(),
        thresholds=grid,
        fleet=fleet,
        max_rows=MOST_ROWS * parties,
        min_parties=parties,
        keys="helper",
        row_caps=MOST_ROWS if proofs else None,
    )
    document = consortium.convene(registry.load("exact").prepare(request).manifest)
    adder, trustee = (
        FleetSession.open(document, consortium.identities[name], consortium.members, holder=holder, at=at)
        for name in (consortium.aggregator, consortium.helper)
    )
    announced = open_announcement(document, consortium.members, holder=holder, at=at)
    wanted = frozenset(range(0, parties, max(1, parties // _READERS)))
    counted, kept, sizes = list[Counts](), dict[int, bytes](), set[int]()
    with measured("devices", "submit"):
        for counts, keys, size in workers.map(_submitted, chunks, announced, seed, f"{place}/records", wanted):
            counted.append(counts)
            kept |= keys
            sizes.add(size)
    records, blobs, responses = (f"{place}/{name}" for name in ("records", "blobs", "responses"))
    with (
        KeyStore.create(folder / "aggregator", secrets.token_hex(16)) as own,
        measured("aggregator", "collects"),
    ):
        aggregator.collect(adder, own, records, blobs, workers, at=at)
    with KeyStore.create(folder / "helper", secrets.token_hex(16)) as store:
        with measured("helper", "opens"):
            opening = helper.open_pads(trustee, store, f"{place}/members.parquet", blobs, workers, at=at).document
        with measured("aggregator", "adds"):
            result, _ = aggregator.add(adder, records, blobs, opening, workers, at=at)
        with measured("helper", "decrypts"):
            number = helper.decrypt(trustee, store, result, responses, at=at)
    with measured("devices", f"{len(kept)} of them read"):
        found = _read(announced, seed, responses, kept)
    expected = trapezoid(sum(counted[1:], counted[0])).fraction
    return Simulated(parties, number, found, expected, max(sizes), dict(seconds))


def _identity(seed: bytes, index: int) -> Identity:
    secret = hashlib.sha256(seed + index.to_bytes(8, "big")).digest()
    return Identity("a device", PrivateKeys.generate(Ed25519PrivateKey.from_private_bytes(secret)))


def _known_by(first: int, count: int, seed: bytes) -> NDArray[np.uint8]:
    """Return these devices' keys, shape (count, 32)."""
    keys = [_identity(seed, index).signing_key for index in range(first, first + count)]
    return np.frombuffer(b"".join(keys), np.uint8).reshape(count, -1)


def _rows(seed: bytes, first: int, count: int) -> list[PartyData]:
    random = np.random.default_rng([*seed, first])
    ends = random.integers(1, MOST_ROWS, count, endpoint=True).cumsum()
    labels = (random.random(ends[-1]) < 0.3).astype(np.uint8)
    scores = np.clip(random.normal(0.4 + 0.15 * labels, 0.15), 0.0, 1.0)
    rows = zip(np.split(labels, ends[:-1]), np.split(scores, ends[:-1]), strict=True)
    return [PartyData.from_arrays("a device", *each) for each in rows]


def _submitted(
    first: int, number: int, announced: Announcement, seed: bytes, folder: str, wanted: frozenset[int]
) -> tuple[Counts, dict[int, bytes], int]:
    """Write these devices' records; return their rows counted in the clear, the wanted ones' keys, and a size."""
    rows = _rows(seed, first, number)
    records: list[Record] = []
    keys: dict[int, bytes] = {}
    for index, data in enumerate(rows, first):
        submitted = Device(announced, index, _identity(seed, index), _FLOOR).submit(data, b"")
        records.append(submitted.record)
        if index in wanted:
            keys[index] = submitted.response_key
    write_records(tables.within(folder, f"records-{first:010}.parquet"), records)
    labels, scores = (np.concatenate([getattr(each, name) for each in rows]) for name in ("y_true", "y_score"))
    pooled = PartyData.from_arrays("devices", labels, scores)
    return count(pooled, announced.manifest.thresholds), keys, 4 + sum(map(len, records[0][1:]))


def _read(announced: Announcement, seed: bytes, folder: str, keys: dict[int, bytes]) -> Fraction:
    """Return the fraction that these devices read; raise `EvaluationError` where they read different ones."""
    sums = tables.read_file(f"{folder}/{helper.SUMS_FILE}")
    parts, _ = tables.parts_of(folder, tables.RESPONSES)
    found = set()
    for part in parts:
        for member, wrapped in tables.rows_of(part, tables.RESPONSES):
            if member in keys:
                first = member // _CHUNK * _CHUNK
                rows = _rows(seed, first, min(_CHUNK, announced.manifest.size - first))
                device = Device(announced, member, _identity(seed, member), _FLOOR)
                found.add(device.read(rows[member - first], keys.pop(member), wrapped, sums).fraction)
    if keys or len(found) != 1 or None in found:
        raise EvaluationError(f"of the devices that look, {len(keys)} find no result, and the others {len(found)}")
    (fraction,) = found
    return Fraction(fraction)  # type: ignore[arg-type]
