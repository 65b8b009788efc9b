"""A whole session of a fleet on one machine, with made-up devices: what it costs, and whether it is exact."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import ChainMap, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.terminal import Progress
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question.fleet import MEMBER_BYTES, Fleet, FleetList, Range
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.fleet import aggregator, helper, tables
from fhe_auc_keys.fleet.device import Device, Floor
from fhe_auc_keys.fleet.session import FleetSession
from fhe_auc_keys.fleet.workers import Workers, peak
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase
from fhe_auc_keys.trust.members import Change, Members

MOST_ROWS = 19  # of a device

_RANGE = 10_000  # devices, at most; a task plays those of one
_READERS = 20
_FAR = 12  # standard errors, beyond which Laplace noise is once in 2^24
_FLOOR = Floor(members=2, share=0.5)

Order: TypeAlias = NDArray[np.uint32]  # by member's index, the number of the device
Told: TypeAlias = "tuple[bytes, tuple[bytes, ...], str, datetime]"
"""What opens a session: its announcement, the members' files, the convener, and the time."""


@dataclass
class Simulated:
    """What a simulation has found."""

    parties: int
    counted: int
    auc: float
    fraction: Fraction | None  # None where the AUC has noise
    noise: float  # standard error that it has by noise, if any
    expected: Fraction
    record_bytes: int
    cpu_seconds: dict[str, dict[str, float]]  # by role and step, in all processes
    peak_bytes: int  # the most memory that one of them has had; 0 where nothing says it

    @property
    def equal(self) -> bool:
        """Whether every device that has looked has the fraction over all rows, or an AUC as near as its noise is."""
        far = abs(self.auc - self.expected) > _FAR * self.noise if self.noise else self.fraction != self.expected
        return not far and self.counted == self.parties


def simulate(
    parties: int,
    grid: NDArray[np.float64],
    folder: Path,
    workers: Workers,
    *,
    proofs: bool,
    progress: Progress,
    epsilon: float | None = None,
) -> Simulated:
    """Play a session of so many devices in an empty folder; `EvaluationError` where they read different things.

    With `proofs` they prove that their rows are counts within the cap, `MOST_ROWS`; with `epsilon` a device's rows are
    protected. Workers see the folder, and no key stores of their own.
    """
    workers.own_stores, folder = False, folder.absolute()
    keys, records, blobs, answers = (str(folder / name) for name in ("keys", "records", "blobs", "answers"))
    seed, seconds = secrets.token_bytes(32), defaultdict[str, dict[str, float]](dict)

    @contextmanager
    def measured(role: str, step: str) -> Iterator[None]:
        progress(f"{role}: {step}", sum(map(len, seconds.values())), 7)
        before = time.process_time() + workers.seconds
        yield
        seconds[role][step] = time.process_time() + workers.seconds - before

    with measured("devices", "make keys"):
        listed, order = make_keys(keys, parties, min(_RANGE, -(-parties // workers.number)), seed, workers)
    consortium, told = convene(listed, grid, proofs=proofs, epsilon=epsilon)
    document, _, holder, at = told

    def role(name: str) -> tuple[FleetSession, Vault]:
        identity, passphrase = consortium.identities[name], folder / f"{name}.passphrase"
        with create_with_random_passphrase(folder / name, passphrase) as store:
            store.put("identity", OWN, identity.to_bytes())
        session = FleetSession.open(document, identity, consortium.members, holder=holder, at=at)
        return session, Vault(folder / name, passphrase)

    adder, trustee = role(consortium.aggregator), role(consortium.helper)
    with measured("devices", "submit"):
        wanted = range(0, parties, -(-parties // _READERS))
        counts, response_keys, size = submit(listed, order, told, seed, records, wanted, workers)
    with measured("aggregator", "collects"):
        aggregator.collect(*adder, records, blobs, workers, at=at)
    with measured("helper", "opens"):
        helper.open_pads(*trustee, keys, blobs, answers, workers, at=at)
    with measured("aggregator", "adds"):
        result, _ = aggregator.add(*adder, records, blobs, answers, workers, at=at)
    with measured("helper", "decrypts"):
        number = helper.decrypt(*trustee, result, answers, at=at)
    with measured("devices", f"{len(response_keys)} of them read"):
        found = read(listed, order, told, seed, answers, response_keys)
    noise, expected = float(found.settings.get("noise_standard_error", 0.0)), trapezoid(counts).fraction
    told_of = parties, number, found.auc, found.fraction, noise, expected
    return Simulated(*told_of, size, dict(seconds), max(workers.peak, peak()))


def make_keys(keys: str, parties: int, per_file: int, seed: bytes, workers: Workers) -> tuple[FleetList, Order]:
    """Write the keys of so many devices into a folder; return their list, and which device is which member."""
    starts = ((f"devices from {first}", first, min(per_file, parties - first)) for first in range(0, parties, per_file))
    known = np.concatenate(list(workers.map(_public_keys, starts, seed)))
    return tables.write_keys(keys, known, per_file), np.lexsort(known.T[::-1]).astype(np.uint32)


def convene(
    listed: FleetList, grid: NDArray[np.float64], *, proofs: bool, epsilon: float | None = None
) -> tuple[Consortium, Told]:
    """Return a consortium with this fleet, and its session, in which all devices must count."""
    consortium, fleet, caps = Consortium(()), Fleet.of(listed, row_cap=MOST_ROWS), MOST_ROWS if proofs else None
    consortium.change(Change(fleets=[listed]))
    most, number = MOST_ROWS * fleet.members, fleet.members
    request = Request(
        parties=(), thresholds=grid, fleet=fleet, keys="helper", max_rows=most, min_parties=number, row_caps=caps,
        options={} if epsilon is None else {"epsilon": epsilon},
    )  # fmt: skip
    document = consortium.convene(registry.load("exact").prepare(request).manifest)
    return consortium, (document, consortium.members.files, consortium.holder, consortium.at)


def submit(
    listed: FleetList, order: Order, told: Told, seed: bytes, records: str, wanted: range, workers: Workers
) -> tuple[Counts, dict[int, bytes], int]:
    """Write all records; return their rows counted in the clear, response keys of `wanted` members, and a size."""
    parts = ((each, order[each.first : each.first + each.number]) for each in listed.ranges)
    counts, keys, sizes = zip(*workers.map(_submitted, parts, told, seed, records, wanted), strict=True)
    return sum(counts[1:], counts[0]), dict(ChainMap(*keys)), max(sizes)


def _announced(told: Told) -> Announcement:
    document, members, holder, at = told
    return open_announcement(document, Members(members), holder=holder, at=at)


def _signing(seed: bytes, device: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed + device.to_bytes(8, "big")).digest())


def _public_keys(_: str, first: int, count: int, seed: bytes) -> NDArray[np.uint8]:
    """Return these devices' keys, shape (count, 32)."""
    keys = (_signing(seed, device).public_key().public_bytes_raw() for device in range(first, first + count))
    return np.frombuffer(b"".join(keys), np.uint8).reshape(count, MEMBER_BYTES)


def _rows(seed: bytes, own: Range) -> list[PartyData]:
    random = np.random.default_rng([*seed, own.first])
    ends = random.integers(1, MOST_ROWS, own.number, endpoint=True).cumsum()
    labels = (random.random(ends[-1]) < 0.3).astype(np.uint8)
    scores = np.clip(random.normal(0.4 + 0.15 * labels, 0.15), 0.0, 1.0)
    rows = zip(np.split(labels, ends[:-1]), np.split(scores, ends[:-1]), strict=True)
    return [PartyData.from_arrays("a device", *each) for each in rows]


def _submitted(
    own: Range, devices: Order, told: Told, seed: bytes, folder: str, wanted: range
) -> tuple[Counts, dict[int, bytes], int]:
    """Do the same for a range."""
    announced, rows, records, keys = _announced(told), _rows(seed, own), [], dict[int, bytes]()
    for index, (device, data) in enumerate(zip(devices.tolist(), rows, strict=True), own.first):
        submitted = Device(announced, index, _signing(seed, device), _FLOOR).submit(data, b"")
        records.append(submitted.record)
        if index in wanted:
            keys[index] = submitted.response_key
    tables.write_records(tables.within(folder, own.name), records)
    labels, scores = (np.concatenate([getattr(each, name) for each in rows]) for name in ("y_true", "y_score"))
    pooled = PartyData.from_arrays("devices", labels, scores)
    return count(pooled, announced.manifest.thresholds), keys, 4 + sum(map(len, records[0][1:]))


def read(listed: FleetList, order: Order, told: Told, seed: bytes, answers: str, keys: dict[int, bytes]) -> Evaluation:
    """Return what devices with these keys read; raise `EvaluationError` where they read different AUCs, or none."""
    announced, found = _announced(told), dict[Fraction | float, Evaluation]()
    sums = tables.read_file(tables.within(answers, helper.SUMS_FILE))
    for own in listed.ranges:
        if not keys.keys() & range(own.first, own.first + own.number):
            continue
        rows = _rows(seed, own)
        for columns in tables.batches(tables.within(answers, own.name), tables.ANSWERS):
            for place in np.flatnonzero(np.isin(columns["member"], list(keys))):
                index, part = int(columns["member"][place]), columns["part"][place].tobytes()
                device = Device(announced, index, _signing(seed, int(order[index])), _FLOOR)
                evaluation = device.read(rows[index - own.first], keys[index], part, sums)
                found[evaluation.fraction or evaluation.auc] = evaluation
    if len(found) != 1:
        raise EvaluationError("devices have read different results")
    return found.popitem()[1]
