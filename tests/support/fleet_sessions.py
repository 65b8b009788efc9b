"""Sessions of a fleet over files in a folder, with all roles, and records that are not an honest device's."""

import copy
import hashlib
import itertools
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
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
from fhe_auc_keys.fleet.device import Device, Floor, Record, Submitted, write_records
from fhe_auc_keys.fleet.fleet_session import BLOB, FleetSession, blob_info, loaded, sealed_in, signed_of, sketch_info
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Change, FleetList, Members
from fhe_auc_protocols.exact_auc.computations import ExactComputation, ExactTask
from tests.support.exact_sessions import pairs_of, rows

CAP = 12  # rows of a device
GRID = thresholds.uniform(12)
SEED = bytes(range(32))  # of a pad that tests know
PASSPHRASE = "correct horse battery"  # noqa: S105


class Play(AbstractContextManager["Play"]):
    """A fleet's session over files in a folder, with all its roles; devices prove their counts but for `proofs`."""

    def __init__(
        self, folder: Path, number: int, *, least: int = 2, interval: float | None = None, proofs: bool = True
    ) -> None:
        self.folder, self.at_hand = folder, Workers()
        self.rows = rows(number, 3, most=CAP)
        self.identities = [Identity.create(f"device {index}") for index in range(number)]
        self.known = np.frombuffer(b"".join(each.signing_key for each in self.identities), np.uint8).reshape(number, 32)
        tables.write_members(self.place("members.parquet"), self.known)
        self.consortium = made = Consortium(())
        self.fleet = Fleet.of(self.known, row_cap=CAP)
        self.enlist(self.fleet)
        self.request = Request(
            parties=(), fleet=self.fleet, thresholds=GRID, max_rows=CAP * number, min_parties=least, keys="helper",
            interval=interval, row_caps=CAP if proofs else None,
        )  # fmt: skip
        self.announcement = made.convene(registry.load("exact").prepare(self.request).manifest)
        self.announced = self.opened(self.announcement)
        self.aggregator, self.helper = self.role(made.aggregator), self.role(made.helper)
        self.store, self.adders = (KeyStore.create(folder / name, PASSPHRASE) for name in ("store", "adders-store"))

    def copied(self, folder: Path) -> "Play":
        """The same in another folder, before anything is written there but members; this one is closed."""
        self.__exit__()
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        made = copy.copy(self)
        made.folder, made.consortium = folder, copy.copy(self.consortium)
        for identity in made.consortium.identities.values():  # which other copies have, too
            identity.version = made.consortium.members.version
        made.store, made.adders = (KeyStore(folder / name, PASSPHRASE) for name in ("store", "adders-store"))
        return made

    def __exit__(self, *error: object) -> None:
        self.store.close()
        self.adders.close()

    def place(self, name: str) -> str:
        return str(self.folder / name)

    def enlist(self, *fleets: Fleet) -> None:
        """Have the coordinator name these fleets in the members' file."""
        self.consortium.change(Change(fleets=[FleetList(each.members, each.root) for each in fleets]))

    def opened(self, announcement: bytes) -> Announcement:
        made = self.consortium
        return open_announcement(announcement, made.members, holder=made.holder, at=made.at)

    def role(self, name: str) -> FleetSession:
        made = self.consortium
        return FleetSession.open(self.announcement, made.identities[name], made.members, holder=made.holder, at=made.at)

    @property
    def computation(self) -> ExactComputation:
        found = loaded(self.announced.manifest.to_bytes()).computation
        assert isinstance(found, ExactComputation)
        return found

    def device(self, index: int, floor: Floor | None = None, announced: Announcement | None = None) -> Device:
        floor = floor or Floor(members=4, share=0.25)
        return Device(announced or self.announced, index, self.identities[index], floor)

    @cached_property
    def submitted(self) -> list[Submitted]:
        """What everybody has made of their rows."""
        return [self.device(index).submit(data, b"") for index, data in enumerate(self.rows)]

    @property
    def records(self) -> list[Record]:
        return [each.record for each in self.submitted]

    def write(self, *files: list[Record]) -> None:
        """Write records, by default everybody's into one file."""
        for number, records in enumerate(files or [self.records]):
            write_records(self.place(f"records/{number}.parquet"), records)

    def collect(self) -> aggregator.Collected:
        folders = self.place("records"), self.place("blobs")
        return aggregator.collect(self.aggregator, self.adders, *folders, self.at_hand, at=self.consortium.at)

    def asked(self, blobs: str = "blobs") -> helper.HelperAnswer:
        places = self.place("members.parquet"), self.place(blobs)
        return helper.open_pads(self.helper, self.store, *places, self.at_hand, at=self.consortium.at)

    def open(self, blobs: str = "blobs") -> tuple[bytes, dict[str, int]]:
        answer = self.asked(blobs)
        assert answer.opened
        return answer.document, answer.verdicts

    def until_opened(self, *files: list[Record]) -> tuple[bytes, dict[str, int]]:
        """Write records, collect them, and open the pads."""
        self.write(*files)
        self.collect()
        return self.open()

    def add(self, opening: bytes) -> tuple[bytes, dict[str, int]]:
        folders = self.place("records"), self.place("blobs")
        return aggregator.add(self.aggregator, *folders, opening, self.at_hand, at=self.consortium.at)

    def decrypt(self, result: bytes, out: str = "responses") -> int:
        return helper.decrypt(self.helper, self.store, result, self.place(out), at=self.consortium.at)

    def to_the_end(self) -> tuple[aggregator.Collected, dict[str, int]]:
        collected = self.collect()
        opening, verdicts = self.open()
        self.decrypt(self.add(opening)[0])
        return collected, verdicts

    def responses(self) -> dict[int, bytes]:
        parts, _ = tables.parts_of(self.place("responses"), tables.RESPONSES)
        return dict(itertools.chain.from_iterable(tables.rows_of(part, tables.RESPONSES) for part in parts))

    def read(self, index: int, key: bytes = b"") -> Evaluation:
        """What a device reads, with its response key or another one."""
        sums, key = tables.read_file(self.place("responses/sums")), key or self.submitted[index].response_key
        return self.device(index).read(self.rows[index], key, self.responses()[index], sums)

    def reads(self, index: int, counted: Sequence[PartyData]) -> bool:
        """Whether a device reads the fraction of all these rows."""
        return self.read(index).fraction == fraction_of(counted)


def convened(
    play: Play, fleet: NDArray[np.uint8] | Fleet, *, by: str = "", members: Members | None = None, **request: Any
) -> bytes:
    """Another session of the fleet, or of other members."""
    made = play.consortium
    if not isinstance(fleet, Fleet):
        fleet = Fleet.of(fleet, row_cap=CAP)
        play.enlist(play.fleet, fleet)
        for role in ("aggregator", "helper"):  # which has seen the newer file, too
            setattr(play, role, replace(getattr(play, role), members=made.members))
    manifest = registry.load("exact").prepare(replace(play.request, fleet=fleet, **request)).manifest
    return announce(made.identities[by or made.holder], manifest, members or made.members, made.study, at=made.at)


def fraction_of(parties: list[PartyData]) -> Fraction:
    return pairs_of(parties, GRID)[0]


def info_of(record: Record) -> bytes:
    return blob_info(record.session, record.member, hashlib.sha256(record.sketch).digest())


def signed(record: Record, blob: bytes, identity: Identity, randomness: bytes = b"") -> Record:
    """The record with this blob, and with what a device of this identity has signed for its sketch."""
    return record._replace(blob=blob, signature=identity.sign(BLOB, signed_of(blob, info_of(record), randomness)))


def resealed(play: Play, record: Record, identity: Identity) -> Record:
    """The record with a blob that somebody else has made, who has this identity, for the same sketch."""
    key = play.announced.helper.encryption_key
    return signed(record, sealing.seal(key, bytes(64), info=info_of(record)), identity)


def sending(play: Play, index: int, padded: Submission | bytes, randomness: bytes = b"") -> Record:
    """What a device that runs other code sends: whatever it likes, sealed and signed as its own, with `SEED`.

    `randomness` are the parts that it signs, if they are not the ones in its proof.
    """
    digest = play.announced.manifest.digest
    if isinstance(padded, Submission):
        randomness = randomness or padded.proof[:RANDOMNESS_BYTES]
        padded = sealed_in(padded)
    key = play.announced.aggregator.encryption_key
    record = Record(index, digest, sealing.seal(key, padded, info=sketch_info(digest, index)), b"", b"")
    blob = sealing.seal(play.announced.helper.encryption_key, SEED + bytes(32), info=info_of(record))
    return signed(record, blob, play.identities[index], randomness)


def padded(play: Play, index: int, lie: Lie | None = None) -> Submission:
    """What a device submits under the pad of `SEED`, or one that lies as a party may."""
    manifest, data = play.announced.manifest, play.rows[index]
    if lie is None:
        return play.computation.under_pad(index, SEED, ExactTask(manifest, data).encode(b""))
    computation = LyingComputation(manifest, lie, len(play.rows))
    return computation.under_pad(index, SEED, LyingTask(manifest, data, computation).encode(b""))
