"""Sessions of a fleet over files in a folder, with all roles, and records that are not an honest device's."""

import copy
import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fhe_auc.input_proofs.sessions import RANDOMNESS_BYTES
from fhe_auc.question import thresholds
from fhe_auc.question.fleet import Fleet
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.computation import Submission
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import Lie, LyingComputation, LyingTask
from fhe_auc_keys.bundles.announcement import Announcement, announce, open_announcement
from fhe_auc_keys.fleet import aggregator, helper, tables
from fhe_auc_keys.fleet.device import Device, Floor, Record, Submitted
from fhe_auc_keys.fleet.session import (
    COUNTS,
    LIST,
    QUERY,
    Document,
    FleetSession,
    blob_about,
    loaded,
    sketch_info,
    unsealed,
)
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.roles.blobs import sealed_blob
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.members import Change
from fhe_auc_keys.trust.signed_documents import claimed_body
from fhe_auc_protocols.exact_auc.computations import ExactComputation, ExactTask
from tests.support.exact_sessions import pairs_of, rows

CAP = 12  # rows of a device
GRID = thresholds.uniform(12)
SEED = bytes(range(32))  # of a pad that tests know


class Play:
    """A fleet's session over files in a folder, with all its roles; devices prove their counts but for `proofs`.

    Members' keys are in files of `per_file`, by default in one.
    """

    def __init__(
        self, folder: Path, number: int, *, least: int = 2, interval: float | None = None, proofs: bool = True,
        per_file: int = 1000, options: dict[str, Any] | None = None,
        protocol: str = "exact",
    ) -> None:  # fmt: skip
        self.folder, self.at_hand = folder, Workers()
        self.rows = rows(number, 3, most=CAP)
        self.keys = sorted((Ed25519PrivateKey.generate() for _ in range(number)), key=public)
        self.known = np.frombuffer(b"".join(map(public, self.keys)), np.uint8).reshape(number, 32)
        self.listed = tables.write_keys(self.place("keys"), self.known, per_file)
        self.consortium = made = Consortium(())
        self.fleet = Fleet.of(self.listed, row_cap=CAP)
        made.change(Change(fleets=[self.listed]))
        self.request = Request(
            parties=(), fleet=self.fleet, thresholds=GRID, max_rows=CAP * number, min_parties=least, keys="helper",
            interval=interval, row_caps=CAP if proofs else None, options=options or {},
        )  # fmt: skip
        self.announcement = made.convene(registry.load(protocol).prepare(self.request).manifest)
        self.announced = self.opened(self.announcement)
        self.aggregator, self.helper = (
            FleetSession.open(self.announcement, made.identities[each], made.members, holder=made.holder, at=made.at)
            for each in (made.aggregator, made.helper)
        )
        for name, session in (("adder", self.aggregator), ("trustee", self.helper)):
            with create_with_random_passphrase(folder / name, folder / f"{name}.passphrase") as store:
                store.put("identity", OWN, session.identity.to_bytes())

    def copied(self, folder: Path) -> "Play":
        """The same in another folder, before anything is written there but keys."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        made = copy.copy(self)
        made.folder, made.consortium = folder, copy.copy(self.consortium)
        for identity in made.consortium.identities.values():  # which other copies have, too
            identity.version = made.consortium.members.version
        return made

    def vault(self, name: str) -> Vault:
        return Vault(self.folder / name, self.folder / f"{name}.passphrase")

    def kept(self, name: str = "trustee") -> bytes:
        """What a role keeps of the session."""
        with self.vault(name).open() as store:
            return store.get("fleet", self.announced.manifest.session.hex())

    def lose(self, name: str, kind: Literal["fleet", "list"]) -> None:
        """Take an entry of the session out of a role's store, as who has lost it, or lies."""
        with self.vault(name).open() as store:
            store.remove(kind, self.announced.manifest.session.hex())

    def place(self, name: str) -> str:
        return str(self.folder / name)

    def file(self, folder: str, number: int = 0) -> Path:
        """The file of a range."""
        return self.folder / folder / self.listed.files[number].name

    def opened(self, announcement: bytes) -> Announcement:
        made = self.consortium
        return open_announcement(announcement, made.members, holder=made.holder, at=made.at)

    @property
    def computation(self) -> ExactComputation:
        found = loaded(self.announced.manifest.to_bytes()).computation
        assert isinstance(found, ExactComputation)
        return found

    def device(self, index: int, floor: Floor | None = None, announced: Announcement | None = None) -> Device:
        floor = floor or Floor(members=4, share=0.25)
        return Device(announced or self.announced, index, self.keys[index], floor)

    @cached_property
    def submitted(self) -> list[Submitted]:
        """What everybody has made of their rows."""
        return [self.device(index).submit(data, b"") for index, data in enumerate(self.rows)]

    @property
    def records(self) -> list[Record]:
        return [each.record for each in self.submitted]

    def write(self, records: Sequence[Record] | None = None) -> None:
        """Put records, by default everybody's, into the files of their members' ranges, as a receiver does."""
        records = self.records if records is None else records
        for each in self.listed.ranges:
            own = range(each.first, each.first + each.number)
            if mine := [one for one in records if one.member in own]:
                tables.write_records(tables.within(self.place("records"), each.name), mine)

    def collect(self, blobs: str = "blobs") -> aggregator.Collected:
        places = self.vault("adder"), self.place("records"), self.place(blobs)
        return aggregator.collect(self.aggregator, *places, self.at_hand, at=self.consortium.at)

    def asked(self, blobs: str = "blobs", answers: str = "answers") -> helper.HelperAnswer:
        places = self.vault("trustee"), self.place("keys"), self.place(blobs), self.place(answers)
        return helper.open_pads(self.helper, *places, self.at_hand, at=self.consortium.at)

    def open(self, blobs: str = "blobs", answers: str = "answers") -> dict[str, int]:
        answer = self.asked(blobs, answers)
        assert answer.opened
        return answer.verdicts

    def until_opened(self, records: Sequence[Record] | None = None) -> dict[str, int]:
        """Write records, collect them, and open the pads."""
        self.write(records)
        self.collect()
        return self.open()

    def add(self) -> bytes:
        places = self.vault("adder"), *map(self.place, ("records", "blobs", "answers"))
        return aggregator.add(self.aggregator, *places, self.at_hand, at=self.consortium.at)[0]

    def decrypt(self, result: bytes, answers: str = "answers") -> int:
        return helper.decrypt(self.helper, self.vault("trustee"), result, self.place(answers), at=self.consortium.at)

    def to_the_end(self) -> tuple[aggregator.Collected, dict[str, int]]:
        collected = self.collect()
        verdicts = self.open()
        self.decrypt(self.add())
        return collected, verdicts

    def table(self, folder: str, number: int = 0) -> dict[str, Any]:
        """All columns of a range's blobs or answers."""
        schema = tables.ANSWERS if folder == "answers" else tables.blobs(self.aggregator.loaded)
        found = [*tables.batches(str(self.file(folder, number)), schema)]
        return {name: np.concatenate([each[name] for each in found]) for name in schema.names}

    def parts(self) -> dict[int, bytes]:
        """What each member that counts is answered."""
        there = [number for number in range(len(self.listed.files)) if self.file("answers", number).exists()]
        rows = [row for number in there for row in zip(*self.table("answers", number).values(), strict=True)]
        return {int(member): part.tobytes() for member, _, verdict, part in rows if verdict == COUNTS}

    def read(self, index: int, key: bytes = b"", sums: bytes = b"") -> Evaluation:
        """What a device reads, with its response key or another one, of these sums or others."""
        key, sums = key or self.submitted[index].response_key, sums or tables.read_file(self.place("answers/sums"))
        return self.device(index).read(self.rows[index], key, self.parts()[index], sums)

    def reads(self, index: int, counted: Sequence[PartyData]) -> bool:
        """Whether a device reads the fraction of all these rows."""
        return self.read(index).fraction == fraction_of(counted)


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def convened(play: Play, fleet: NDArray[np.uint8] | Fleet, *, by: str = "", **request: Any) -> bytes:
    """Another session of the fleet, or of members with other keys."""
    made = play.consortium
    if not isinstance(fleet, Fleet):
        listed = tables.write_keys(play.place(f"keys of {len(fleet)}"), fleet, 1000)
        fleet = Fleet.of(listed, row_cap=CAP)
        made.change(Change(fleets=[play.listed, listed]))
        for role in ("aggregator", "helper"):  # which has seen the newer file, too
            setattr(play, role, replace(getattr(play, role), members=made.members))
    manifest = registry.load("exact").prepare(replace(play.request, fleet=fleet, **request)).manifest
    return announce(made.identities[by or made.holder], manifest, made.members, made.study, at=made.at)


def fraction_of(parties: list[PartyData]) -> Fraction:
    return pairs_of(parties, GRID)[0]


def about(play: Play, record: Record) -> bytes:
    return blob_about(play.announced.manifest.digest, record.member, hashlib.sha256(record.sketch).digest())


def signed(
    play: Play, record: Record, signing: Ed25519PrivateKey, randomness: bytes = b"", *, to: bytes = b""
) -> Record:
    """The record with a blob that who has this key has sealed, to the helper or another key, and signed."""
    to = to or play.helper.helper.encryption_key
    blob, signature = sealed_blob(to, signing, SEED + bytes(32), about=about(play, record), randomness=randomness)
    return record._replace(blob=blob, signature=signature)


def sending(play: Play, index: int, padded: Submission | bytes, randomness: bytes = b"") -> Record:
    """What a device that runs other code sends: whatever it likes, sealed and signed as its own, with `SEED`.

    `randomness` are the parts of the joint randomness that it signs, if they are not those of its proof.
    """
    if isinstance(padded, Submission):
        randomness = randomness or padded.proof[:RANDOMNESS_BYTES]
        padded = b"".join((*padded.parts, padded.proof))
    key, info = play.announced.aggregator.encryption_key, sketch_info(play.announced.manifest.digest, index)
    record = Record(index, sealing.seal(key, padded, info=info), b"", b"")
    return signed(play, record, play.keys[index], randomness)


def padded(play: Play, index: int, lie: Lie | None = None) -> Submission:
    """What a device submits under the pad of `SEED`, or one that lies as a party may."""
    manifest, data = play.announced.manifest, play.rows[index]
    if lie is None:
        return play.computation.under_pad(index, SEED, ExactTask(manifest, data).encode(b""))
    computation = LyingComputation(manifest, lie, len(play.rows))
    return computation.under_pad(index, SEED, LyingTask(manifest, data, computation).encode(b""))


def lying(play: Play, index: int, lie: Lie) -> Record:
    """What a device sends whose program lies as a party may, of which `lying_parties` has the lies."""
    return sending(play, index, padded(play, index, lie))


def query_listed(play: Play) -> bytes:
    """The key of the query, which the helper alone can unseal."""
    listed = claimed_body(LIST, tables.read_file(play.place("blobs/list")), Document)
    return unsealed(play.helper.identity, listed.sealed, listed.session, QUERY)
