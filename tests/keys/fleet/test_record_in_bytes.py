"""docs/guide/record.md: tests/fleet_record.json has a record with all that it hangs on; another maker makes others.

To make the file anew: python -m tests.keys.fleet.test_record_in_bytes
"""

import hashlib
import json
import secrets
import struct
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fhe_auc.base.serialise import encode
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN
from fhe_auc.question.fleet import Fleet
from fhe_auc.question.score_bins import of_one_number
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.fleet import session
from fhe_auc_keys.fleet.device import Device, Floor, Record
from fhe_auc_keys.roles.blobs import is_signed
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import PrivateKeys
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums, ExactPlan
from fhe_auc_protocols.exact_auc.exact_protocols import Exact
from fhe_auc_protocols.exact_auc.tie_sums import runs_of
from tests.support import records
from tests.support.exact_sessions import pairs_of
from tests.support.fleet_sessions import Play

FILE = Path(__file__).parents[2] / "fleet_record.json"
MEMBER, MEMBERS = 300, 1000
NUMBERS = "prime", "base", "length", "calls", "chunk"
SECRETS = "memory_salt", "seed", "response_key", "blind", "proof_key"  # in the order in which a device draws them


class Vector:
    """The file, with bytes as hexadecimal digits."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.aggregator, self.helper = (
            Identity(f"the {name}", PrivateKeys.from_components(*self.keys(name))) for name in ("aggregator", "helper")
        )
        self.manifest = Manifest.from_bytes(self["manifest"])
        self.signing = Ed25519PrivateKey.from_private_bytes(self["device_signing_key"])

    def __getitem__(self, name: str) -> bytes:
        return bytes.fromhex(self.values[name])

    def keys(self, name: str) -> tuple[bytes, tuple[bytes, bytes]]:
        signing, ml_kem, x25519 = (self[f"{name}_{each}"] for each in ("signing_key", "ml_kem_seed", "x25519_key"))
        return signing, (ml_kem, x25519)

    @property
    def rows(self) -> list[tuple[int, float]]:
        return list(zip(self.values["labels"], self.values["scores"], strict=True))

    @property
    def public(self) -> records.Session:
        """What another maker is told."""
        keys = {"aggregator": self.aggregator.encryption_key, "helper": self.helper.encryption_key}
        return records.Session(session=self["session"], digest=self["digest"], **keys, **self.values["statement"])

    def recorded(self) -> Record:
        """What a device makes of these rows with these secrets; seals are fresh each time."""
        rows = PartyData.from_arrays("a device", self.values["labels"], self.values["scores"])
        own, now, adder, study = map(self.__getitem__, SECRETS), datetime.now(timezone.utc), self.aggregator.line, None
        announced = Announcement(self.manifest, b"", study, {}, adder, adder, now, now, self.helper.line)  # type: ignore[arg-type]
        with patch.object(secrets, "token_bytes", lambda _: next(own)):
            return Device(announced, MEMBER, self.signing, Floor(members=2, share=0.5)).submit(rows, b"").record

    def opened(self, record: Record) -> tuple[bytes, bytes]:
        """What is sealed to aggregator and helper."""
        info = session.sketch_info(self["digest"], MEMBER)
        text = self.aggregator.unseal(record.sketch, info=info)
        return text, self.helper.unseal(record.blob, info=records.BLOB + self.about(record))

    def about(self, record: Record) -> bytes:
        return session.blob_about(self["digest"], MEMBER, hashlib.sha256(record.sketch).digest())


@pytest.fixture(scope="module")
def vector() -> Vector:
    return Vector(json.loads(FILE.read_text("utf-8")))


def test_another_maker_makes_the_bytes_of_the_vector(vector: Vector) -> None:
    counts = records.entries(vector.public, vector.rows)
    assert counts == vector.values["counts"]
    text, randomness = records.sketch(
        vector.public, MEMBER, vector.rows, vector["seed"], vector["blind"], vector["proof_key"]
    )
    assert text == vector["padded"] + vector["proof"]
    assert randomness == vector["proof"][:64]
    about = records.msgpack(vector["digest"], MEMBER, hashlib.sha256(vector["sketch"]).digest())
    signed = records.BLOB + about + hashlib.sha256(vector["blob"]).digest() + randomness
    assert vector.signing.sign(signed) == vector["signature"]


@pytest.mark.parametrize("grid", [thresholds.uniform(12), thresholds.hybrid(60), thresholds.uniform(1001)], ids=len)
def test_another_maker_counts_at_any_thresholds_as_we_do(grid: Any) -> None:
    random, runs = np.random.default_rng(len(grid)), runs_of(of_one_number(grid))
    sums = AnalysisSums(PLAIN, len(grid), interval=False, runs=runs, proved=True)
    assert sums.signs.buckets == {12: 11, 60: 1, 1001: 6}[len(grid)]
    public: dict[str, Any] = dict.fromkeys(("session", "aggregator", "helper"), b"") | dict.fromkeys(NUMBERS, 0)
    for digest in map(random.bytes, [32] * 5):
        labels, scores = random.integers(0, 2, 19), random.choice([random.random(), 1e-300, *grid], 19)
        scores[:9] = np.clip(scores[:9] * (1 + random.normal(0, 1e-7, 9)), 0, 1)  # some of one number, others near it
        counts = sums.sketch(PartyData.from_arrays("a device", labels, scores), grid, 19, 2**40, digest).tolist()
        session_of = records.Session(digest=digest, thresholds=grid.tolist(), runs=runs, row_cap=19, **public)
        rows = list(zip(labels.tolist(), scores.tolist(), strict=True))
        assert records.entries(session_of, rows) == [*counts, 0]


def test_a_device_makes_the_bytes_of_the_vector_and_its_seals_open(vector: Vector) -> None:
    assert hashlib.sha256(b"fhe-auc manifest\0" + vector["manifest"]).digest() == vector["digest"]
    sent = Record(MEMBER, vector["sketch"], vector["blob"], vector["signature"])
    texts = vector["padded"] + vector["proof"], vector["seed"] + vector["response_key"]
    for record in (sent, vector.recorded()):
        assert vector.opened(record) == texts
        key, about = vector.signing.public_key().public_bytes_raw(), vector.about(record)
        assert is_signed(key, record.blob, record.signature, about=about, randomness=vector["proof"][:64])


def test_the_sums_of_the_vector_open_by_code_and_page(vector: Vector) -> None:
    digest, part, sums = vector["digest"], vector["part"], vector["sums"]
    key = session.opened_part(vector["response_key"], part, digest, MEMBER)
    number, (found,) = session.opened_sums(sums, vector.helper.signing_key, key, digest)
    assert (number, found.tolist()) == (vector.values["members"], vector.values["totals"])

    sealed, signature = sums[3:-66], sums[-64:]
    assert sums == b"\x92\xc4" + bytes([len(sealed)]) + sealed + b"\xc4\x40" + signature
    about = records.msgpack(b"fleet's response 1", digest, MEMBER)
    content = ChaCha20Poly1305(vector["response_key"]).decrypt(bytes(12), part, about)
    signer = Ed25519PublicKey.from_public_bytes(vector.helper.signing_key)
    signer.verify(signature, b"fhe-auc fleet's sums 1\0" + digest + hashlib.sha256(sealed).digest())
    both = HKDF(SHA256(), 64, None, b"fhe-auc group sealing 2").derive(content)
    assert sealed[:32] == both[32:]
    text = ChaCha20Poly1305(both[:32]).decrypt(bytes(12), sealed[32:], records.msgpack(b"fleet's response 1", digest))
    residues = struct.pack(f"<{len(found)}Q", *vector.values["totals"])
    assert text == b"\x92\xcd" + struct.pack(">H", number) + b"\x91\xc4" + bytes([len(residues)]) + residues


@pytest.mark.parametrize("noise", [(), (9, -31, 7, -2)], ids=["exact", "noisy"])
def test_servers_count_the_records_of_another_maker(noise: tuple[int, ...], tmp_path: Path) -> None:
    play = Play(tmp_path, 5, options={"epsilon": 1.0} if noise else {})
    plan = play.announced.manifest.decoded_plan(ExactPlan)
    public = records.Session(
        session=play.announced.manifest.session,
        digest=play.announced.manifest.digest,
        aggregator=play.announced.aggregator.encryption_key,
        helper=play.consortium.identities[play.consortium.helper].encryption_key,
        noise=noise,
        **statement_of(plan, play.announced.manifest),
    )
    made, keys = list[Record](), list[bytes]()
    for index, data in enumerate(play.rows):
        rows = [*zip(data.labels.tolist(), data.y_score.tolist(), strict=True)]
        *record, key = records.record(public, index, play.keys[index], rows)
        made.append(Record(index, *record))
        keys.append(key)
    play.write(made)
    play.to_the_end()
    found, (auc, _, positives, negatives) = play.read(3, keys[3]), pairs_of(play.rows)
    if plan.privacy is None:
        assert found.fraction == auc
        return
    assert found.settings["noisy_positives"] == (p := positives + 5 * 7)
    assert found.settings["noisy_negatives"] == (n := negatives - 5 * 2)
    difference = (2 * auc - 1) * positives * negatives + 5 * (9 - (plan.privacy.grain - 1) / 2)
    assert found.auc == pytest.approx(float(0.5 + difference / (2 * p * n)))


def statement_of(plan: ExactPlan, manifest: Manifest) -> dict[str, Any]:
    assert plan.proved is not None
    own, shape = plan.proved.statement, plan.proved.statement.shape
    numbers = zip(NUMBERS, (own.prime, own.base, int(own.lengths[0]), shape.calls, shape.chunk), strict=True)
    public = {"thresholds": manifest.thresholds.tolist(), "runs": list(plan.runs or ()), "row_cap": plan.caps[0]}
    return public | dict(numbers)


def made() -> dict[str, Any]:
    """Return what the file has; seals are fresh each time."""
    given = (hashlib.sha256(b"fleet_record.json" + bytes([number])).digest() for number in range(100))
    grid = np.unique(np.concatenate([thresholds.uniform(17), [0.3, 0.3 + 1e-9]]))  # two of one number: a bin is narrow
    fleet = Fleet(members=MEMBERS, keys=next(given), row_cap=9)
    asked = Request(
        parties=(), fleet=fleet, thresholds=grid, max_rows=9 * MEMBERS, min_parties=500, keys="helper", row_caps=9
    )
    plan = Exact().planned(asked)
    manifest = Manifest(
        protocol="exact", session=next(given)[:16], parties=(), grid=grid.astype("<f8").tobytes(), min_parties=500,
        keys="helper", plan=EncodedPlan(plan.kind, encode(plan)), fleet=fleet,
    )  # fmt: skip
    found: dict[str, Any] = {"manifest": manifest.to_bytes(), "session": manifest.session, "digest": manifest.digest}
    for name in ("aggregator", "helper"):
        names = [f"{name}_{each}" for each in ("signing_key", "ml_kem_seed", "x25519_key")]
        found |= dict(zip(names, (next(given), next(given) + next(given), next(given)), strict=True))
    found |= {"device_signing_key": next(given), **{name: next(given) for name in SECRETS}}
    found |= {"statement": statement_of(plan, manifest), "member": MEMBER}
    found |= {"labels": [0, 1, 1, 0, 1, 0, 1], "scores": [0.0, 1.0, 0.3, 1 / 3, 0.30000001, 0.7, 0.0625]}
    found = {name: value.hex() if isinstance(value, bytes) else value for name, value in found.items()}
    vector = Vector(found)
    record = vector.recorded()
    (text, _), (size,) = vector.opened(record), session.loaded(manifest.to_bytes()).computation.part_bytes
    content_key = next(given)
    totals, number = np.array([12345, 678, 4000, 3000, *range(8)], np.uint64), 700
    more = {
        "padded": text[:size],
        "proof": text[size:],
        **record._asdict(),
        "part": session.part_for(vector["response_key"], content_key, manifest.digest, MEMBER),
        "sums": session.sealed_sums(vector.helper, content_key, number, [totals], manifest.digest),
        "counts": records.entries(vector.public, vector.rows),
        "members": number,
        "totals": totals.tolist(),
    }
    return found | {name: value.hex() if isinstance(value, bytes) else value for name, value in more.items()}


if __name__ == "__main__":
    FILE.write_text(json.dumps(made(), indent=1) + "\n", "utf-8")
