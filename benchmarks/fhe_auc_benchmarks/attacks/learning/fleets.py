"""Attacks on a fleet's session that learn: readers of its folder, a device that probes, a server that counts twice."""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.input_proofs.sessions import Opened
from fhe_auc.input_proofs.statement import PROOFS
from fhe_auc.question.fleet import Fleet
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc.sums.residues import pack, unpack
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID
from fhe_auc_benchmarks.attacks.learning.learned import Learned, LearningAttack
from fhe_auc_benchmarks.attacks.learning.readers import Secret, forms_of, found_in, of_bytes
from fhe_auc_keys.bundles.announcement import open_announcement
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.fleet import aggregator, helper, tables
from fhe_auc_keys.fleet.device import Device, Floor, Record, Submitted, write_records
from fhe_auc_keys.fleet.session import BLOB, KEY_BYTES, FleetSession, blob_info, sealed_in, signed_of, sketch_info
from fhe_auc_keys.fleet.tasks import Workers
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.member_lists import sign_list

_CAP = 12
_DEVICES = 8
_LIAR = 2
_FLOOR = Floor(members=4, share=0.25)


class FleetNight:
    """A session of a fleet over files in a folder; `told` and `key` are what the helper has been told of proofs."""

    def __init__(self, folder: Path, rows: Sequence[PartyData], identities: Sequence[Identity], least: int) -> None:
        self.place, self.rows, self.identities = str(folder), rows, identities
        known = np.frombuffer(b"".join(each.signing_key for each in identities), np.uint8).reshape(len(rows), -1)
        tables.write_members(f"{self.place}/members.parquet", known)
        made = Consortium(())
        self.at, fleet = made.at, Fleet.of(known, row_cap=_CAP, listed=sign_list(made.authority, known, at=made.at))
        request = Request(
            parties=(), fleet=fleet, thresholds=GRID, max_rows=_CAP * len(rows), min_parties=least, keys="helper",
            row_caps=_CAP,
        )  # fmt: skip
        document = made.convene(registry.load("exact").prepare(request).manifest)
        self.announced = open_announcement(document, made.trust, holder=made.holder, at=made.at)
        self.adder, self.helper = (
            FleetSession.open(document, made.identities[name], made.trust, holder=made.holder, at=made.at)
            for name in (made.aggregator, made.helper)
        )
        self.computation: Any = self.helper.loaded.computation
        proofs: Any = self.computation.proofs
        self.told, self.key, held = list[Opened](), b"", proofs.held

        def listening(key: bytes, opened: Iterable[Opened]) -> list[bool]:
            told = [*opened]
            self.told, self.key = [*self.told, *told], key
            found: list[bool] = held(key, told)
            return found

        proofs.held = listening

    def submit(self, index: int, memory: bytes = b"") -> Submitted:
        """Return what a device makes of its rows."""
        return Device(self.announced, index, self.identities[index], _FLOOR).submit(self.rows[index], memory)

    def play(self, records: Sequence[Record]) -> None:
        """Play all roles' steps on these records; errors are those of honest roles."""
        place, workers, at = self.place, Workers(), self.at
        folders = f"{place}/records", f"{place}/blobs"
        write_records(f"{folders[0]}/0.parquet", records)
        aggregator.collect(self.adder, *folders, workers, at=at)
        with KeyStore.create(Path(place) / "store", secrets.token_hex(16), log2_cost=10) as store:
            opening, _ = helper.open_pads(self.helper, store, f"{place}/members.parquet", folders[1], workers, at=at)
            result, _ = aggregator.add(self.adder, *folders, opening, workers, at=at)
            helper.decrypt(self.helper, store, result, f"{place}/responses", at=at)
        Path(place, "opening").write_bytes(opening)
        Path(place, "result").write_bytes(result)

    def read(self, submitted: Submitted) -> Any:
        """Return what a device reads of the responses."""
        index, folder = submitted.record.member, f"{self.place}/responses"
        parts, _ = tables.parts_of(folder, tables.RESPONSES)
        own = dict(row for part in parts for row in tables.rows_of(part, tables.RESPONSES))[index]
        device = Device(self.announced, index, self.identities[index], _FLOOR)
        return device.read(self.rows[index], submitted.response_key, own, tables.read(f"{folder}/{helper.SUMS_FILE}"))

    def seen(self, member: int | None = None) -> Iterator[bytes]:
        """Yield all files, and every cell of those that are tables; or the cells of a member's rows."""
        for file in [each for each in Path(self.place).rglob("*") if each.is_file()]:
            if member is None:
                yield file.read_bytes()
            for row in pq.read_table(file).to_pylist() if file.suffix == ".parquet" else ():
                if member in (None, row.get("member")):
                    yield from (cell for cell in row.values() if isinstance(cell, bytes))

    def sending(self, padded: Any, seed: bytes) -> Record:
        """Return the record of a liar that runs other code: whatever it likes, sealed and signed as its own."""
        digest, info = self.announced.manifest.digest, sketch_info(self.announced.manifest.digest, _LIAR)
        sketch = sealing.seal(self.announced.aggregator.encryption_key, sealed_in(padded), info=info)
        info = blob_info(digest, _LIAR, hashlib.sha256(sketch).digest())
        blob = sealing.seal(self.helper.helper.encryption_key, seed + bytes(KEY_BYTES), info=info)
        signed = signed_of(blob, info, b"".join(padded.proof.parts))
        return Record(_LIAR, digest, sketch, blob, self.identities[_LIAR].sign(BLOB, signed))


def _devices(generator: np.random.Generator, number: int) -> tuple[list[PartyData], list[Identity]]:
    rows = []
    for _ in range(number):
        labels = generator.random(int(generator.integers(4, _CAP + 1))) < 0.4
        rows.append(PartyData.from_arrays("a device", labels, generator.random(len(labels)).round(3)))
    return rows, [Identity.create(f"device {index}") for index in range(number)]


def _read(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    """Everything that the helper is told of proofs is secret, and the keys under which it answers."""
    with tempfile.TemporaryDirectory() as place:
        night = FleetNight(Path(place), *_devices(generator, _DEVICES), 2)
        submitted = [night.submit(index) for index in range(_DEVICES)]
        night.play([each.record for each in submitted])
        hidden = {f"response key of device {each.record.member}": each.response_key for each in submitted}
        for each in night.told:
            hidden |= {f"answers about device {each.party}": each.answers, f"seed of device {each.party}": each.seed}
        hidden["key of the query"] = night.key
        known = {name: of_bytes(each) for name, each in hidden.items()}
        first, *others = (count(each, GRID) for each in night.rows)
        own = sum(others, first).bin_negatives
        known["negatives of the pool"] = Secret(own.tolist(), frozenset(), forms_of(own))
        return found_in(night.seen(), known)


def _probe(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    """A proof that says "the gadget's polynomial is y" has the point of the query for an answer."""
    with tempfile.TemporaryDirectory() as place:
        night = FleetNight(Path(place), *_devices(generator, _DEVICES), 2)
        statement, seed = night.computation.plan.proved.statement, secrets.token_bytes(SEED_BYTES)
        task = night.helper.loaded.plugin.task(night.announced.manifest, night.rows[_LIAR])
        padded = night.computation.under_pad(task, _LIAR, seed, b"")
        share = np.zeros((PROOFS, statement.shape.size), np.uint64)
        share[:, statement.shape.wires + 1] = 1
        proof = msgspec.structs.replace(padded.proof, share=pack(share.reshape(-1), statement.prime))
        others = [night.submit(index).record for index in range(_DEVICES) if index != _LIAR]
        night.play([night.sending(padded._replace(proof=proof), seed), *others])

        def points(answers: bytes) -> list[int]:
            found = unpack(answers[SEED_BYTES:], statement.verifier_size, statement.prime)
            return [int(found[each * statement.shape.verifier_size + statement.shape.wires]) for each in range(PROOFS)]

        read: list[list[int]] = []
        for cell in night.seen(_LIAR):
            with suppress(DeserialisationError):
                read.append(points(cell))
        (true,) = (points(each.answers) for each in night.told if each.party == _LIAR)
        return Learned({"points of the query": read[0]} if read else {}, {"points of the query": true})


def _other_list(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
    """Two sessions of other numbers of members count the same devices but one; whoever reads both subtracts."""
    some, victim, positives = [0, 1, 2, 3], _DEVICES - 1, []
    rows, identities = _devices(generator, _DEVICES + _FLOOR.members)
    memories: dict[int, bytes] = {}
    for number, counted in ((_DEVICES, some), (_DEVICES + _FLOOR.members, [*some, victim])):
        with tempfile.TemporaryDirectory() as place:
            night = FleetNight(Path(place), rows[:number], identities[:number], _FLOOR.members)
            submitted = {index: night.submit(index, memories.get(index, b"")) for index in [*some, victim]}
            memories = {index: each.memory for index, each in submitted.items()}
            night.play([submitted[index].record for index in counted])
            positives.append(night.read(submitted[0]).positives)
    what = f"positives of device {victim}"
    return Learned({what: positives[1] - positives[0]}, {what: int(rows[victim].y_true.sum())})


_ON = {"helper": ("exact",)}
FLEETS = {
    "fleet-read": LearningAttack("nobody: read every file of a fleet's session", _read, _ON),
    "fleet-probe": LearningAttack("a device: read the points of the query off its answers", _probe, _ON),
    "fleet-two-lists": LearningAttack(
        "aggregator and a device: count the same devices twice, but one", _other_list, _ON
    ),
}
"""By name."""
