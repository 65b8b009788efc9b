"""A whole session of a fleet on one machine, through files as between machines: what it costs, and whether it is exact.

Devices are made up: each has 1 to 19 rows. What is compared is the fraction over all their rows, counted in the clear.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.terminal import Progress
from fhe_auc.question.fleet import Fleet
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import Announcement, announce, open_announcement
from fhe_auc_keys.fleet import aggregator, helper, members, tables
from fhe_auc_keys.fleet.device import Device, Floor, Record, write_records
from fhe_auc_keys.fleet.session import FleetSession
from fhe_auc_keys.fleet.tasks import Workers
from fhe_auc_keys.roles.local_consortium import LIFETIME, TRIAL, Consortium
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.certificates import Trust
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.member_lists import sign_list
from fhe_auc_keys.trust.sealing import PrivateKey

MOST_ROWS = 19
"""Of a device."""

_CONVENER = "convener"
_CHUNK = tables.GROUP
_READERS = 20
_FLOOR = Floor(members=2, share=0.5)


class StepCost(NamedTuple):
    """What a step has cost, over all processes of its role."""

    role: str
    step: str
    cpu: float  # seconds
    wall: float


@dataclass
class Simulated:
    """What a simulation has found."""

    parties: int
    counted: int
    fraction: Fraction
    expected: Fraction
    record_bytes: int
    steps: list[StepCost] = field(default_factory=list)
    peak_bytes: int = 0

    @property
    def equal(self) -> bool:
        """Whether every device that has looked has the fraction over all rows, which are all in it."""
        return self.fraction == self.expected and self.counted == self.parties

    def cpu(self, role: str) -> float:
        """Return the CPU seconds of a role."""
        return sum(each.cpu for each in self.steps if each.role == role)


class _Chunk(NamedTuple):
    """Devices that one task plays, from the index `first` on."""

    first: int
    number: int


def simulate(
    parties: int, grid: NDArray[np.float64], folder: Path, workers: Workers, *, progress: Progress
) -> Simulated:
    """Play a session of so many devices in an empty folder, and compare what they read with what is in their rows.

    Raises `InputError` where there cannot be such a session, `EvaluationError` where devices read different things.
    """
    place = str(folder)
    seed = secrets.token_bytes(32)
    steps: list[StepCost] = []

    @contextmanager
    def measured(role: str, step: str) -> Iterator[None]:
        progress(f"{role}: {step}", len(steps), 7)
        before, others, started = time.process_time(), workers.seconds, time.perf_counter()
        yield
        cpu = time.process_time() - before + workers.seconds - others
        steps.append(StepCost(role, step, cpu, time.perf_counter() - started))

    chunks = [_Chunk(first, min(_CHUNK, parties - first)) for first in range(0, parties, _CHUNK)]
    with measured("devices", "make their secrets"):
        known = np.concatenate(list(workers.map(_known_by, chunks, seed)))
        members.write(f"{place}/members.parquet", known)
    consortium = Consortium([_CONVENER])
    # The devices have keys and no certificates: a million of those would measure the authority.
    listed = sign_list(consortium.authority, known, at=consortium.at)
    fleet = Fleet.of(known, row_cap=MOST_ROWS, listed=listed)
    announced = _announced(consortium, fleet, grid)
    sessions = {
        role: FleetSession.open(announced, consortium.identities[name], consortium.trust, holder=_CONVENER, at=now)
        for role, name, now in (
            ("aggregator", consortium.aggregator, consortium.at),
            ("helper", consortium.holder, consortium.at),
        )
    }
    pem = consortium.certificate_pem, consortium.revocation_list
    wanted = frozenset(range(0, parties, max(1, parties // _READERS)))
    counts, kept, sizes = np.zeros((2, len(grid) + 1), np.int64), dict[int, bytes](), set[int]()
    with measured("devices", "submit"):
        given = (announced, *pem, consortium.at, seed, f"{place}/records", wanted)
        for counted, keys, size in workers.map(_submitted, chunks, *given):
            counts += counted
            kept |= keys
            sizes.add(size)
    at = consortium.at
    with measured("aggregator", "collects"):
        aggregator.collect(sessions["aggregator"], f"{place}/records", f"{place}/blobs", workers, at=at)
    with KeyStore.create(folder / "helper", secrets.token_hex(16), log2_cost=10) as store:
        with measured("helper", "opens"):
            opening, _ = helper.open_pads(
                sessions["helper"], store, f"{place}/members.parquet", f"{place}/blobs", workers, at=at
            )
        with measured("aggregator", "adds"):
            result, _ = aggregator.add(
                sessions["aggregator"], f"{place}/records", f"{place}/blobs", opening, workers, at=at
            )
        with measured("helper", "decrypts"):
            number = helper.decrypt(sessions["helper"], store, result, f"{place}/responses", at=at)
    with measured("devices", f"{len(kept)} of them read"):
        found = _read(open_announcement(announced, consortium.trust, holder=_CONVENER, at=at), seed, place, kept)
    return Simulated(parties, number, found, _fraction(counts), max(sizes), steps, workers.peak)


def _announced(consortium: Consortium, fleet: Fleet, grid: NDArray[np.float64]) -> bytes:
    request = Request(
        parties=(),
        fleet=fleet,
        thresholds=grid,
        max_rows=MOST_ROWS * fleet.members,
        min_parties=fleet.members,
        keys="helper",
    )
    return announce(
        consortium.identities[_CONVENER],
        registry.load("exact").prepare(request).manifest,
        (),
        consortium.trust,
        aggregator=consortium.identities[consortium.aggregator].credential,
        helper=consortium.identities[consortium.holder].credential,
        study=TRIAL,
        lifetime=LIFETIME,
        at=consortium.at,
    )


def _identity(seed: bytes, index: int) -> Identity:
    secret = hashlib.sha256(seed + index.to_bytes(8, "big")).digest()
    return Identity("a device", Ed25519PrivateKey.from_private_bytes(secret), PrivateKey.generate())


def _known_by(first: int, count: int, seed: bytes) -> NDArray[np.uint8]:
    """Return these devices' keys, shape (count, 32)."""
    keys = [_identity(seed, index).signing_key for index in range(first, first + count)]
    return np.frombuffer(b"".join(keys), np.uint8).reshape(count, -1)


def _rows(seed: bytes, first: int, count: int) -> list[tuple[NDArray[np.uint8], NDArray[np.float64]]]:
    """Return the labels and scores of these devices."""
    random = np.random.default_rng([*seed, first])
    ends = random.integers(1, MOST_ROWS, count, endpoint=True).cumsum()
    labels = (random.random(ends[-1]) < 0.3).astype(np.uint8)
    scores = np.clip(random.normal(0.4 + 0.15 * labels, 0.15), 0.0, 1.0)
    return list(zip(np.split(labels, ends[:-1]), np.split(scores, ends[:-1]), strict=True))


def _submitted(
    first: int,
    count: int,
    announced: bytes,
    authority: bytes,
    revoked: bytes,
    at: datetime,
    seed: bytes,
    folder: str,
    wanted: frozenset[int],
) -> tuple[NDArray[np.int64], dict[int, bytes], int]:
    """Write these devices' records; return their rows counted by label and bin, the wanted ones' keys, and a size."""
    session = open_announcement(announced, Trust.from_pem(authority, (revoked,)), holder=_CONVENER, at=at)
    rows = _rows(seed, first, count)
    records: list[Record] = []
    keys: dict[int, bytes] = {}
    for index, (labels, scores) in enumerate(rows, first):
        submitted = Device(session, index, _identity(seed, index), _FLOOR).submit(_data(labels, scores), b"")
        records.append(submitted.record)
        if index in wanted:
            keys[index] = submitted.response_key
    write_records(tables.within(folder, f"records-{first:010}.parquet"), records)
    grid = session.manifest.thresholds
    labels, scores = (np.concatenate(each) for each in zip(*rows, strict=True))
    bins = np.searchsorted(grid, scores, side="right")
    counted = [np.bincount(bins[labels == label], minlength=len(grid) + 1) for label in (0, 1)]
    return np.array(counted), keys, 4 + sum(map(len, records[0][1:]))


def _data(labels: NDArray[np.uint8], scores: NDArray[np.float64]) -> PartyData:
    return PartyData.from_arrays("a device", labels, scores)


def _read(announced: Announcement, seed: bytes, folder: str, keys: dict[int, bytes]) -> Fraction:
    """Return the fraction that these devices read; raise `EvaluationError` where they read different ones."""
    sums = tables.read(f"{folder}/responses/{helper.SUMS_FILE}")
    parts, _ = tables.parts_of(f"{folder}/responses", tables.RESPONSES)
    found = set()
    for part in parts:
        for member, wrapped in tables.rows_of(part, tables.RESPONSES):
            if member in keys:
                first = member // _CHUNK * _CHUNK
                count = min(_CHUNK, announced.manifest.size - first)
                data = _data(*_rows(seed, first, count)[member - first])
                device = Device(announced, member, _identity(seed, member), _FLOOR)
                found.add(device.read(data, keys.pop(member), wrapped, sums).fraction)
    if keys or len(found) != 1 or None in found:
        raise EvaluationError(f"of the devices that look, {len(keys)} find no result, and the others {len(found)}")
    (fraction,) = found
    return Fraction(fraction)  # type: ignore[arg-type]


def _fraction(counts: NDArray[np.int64]) -> Fraction:
    """Return the AUC of rows counted by label and bin, pair by pair in exact integers."""
    negatives, positives = (each.tolist() for each in counts)
    below, twice = 0, 0
    for positive, negative in zip(positives, negatives, strict=True):
        twice += positive * (2 * below + negative)
        below += negative
    return Fraction(twice, 2 * sum(positives) * sum(negatives))
