"""Every format that leaves a process is pinned here: framed, signed, sealed and stored things, and files of text.

A test that fails here says that what was written before cannot be read any more, or reads differently. Where that is
meant, `fhe_auc.base.serialise.FORMAT_VERSION` goes up, or the version of that `KeptFormat`, and the line that changed
in wire_formats/pinned.json is written anew; where it is not, the code is wrong. Nothing is random: keys, times and
certificates are fixed, so that whole documents can be pinned.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fhe_auc.base import serialise
from fhe_auc.base.errors import BackendUnavailableError
from fhe_auc.bfv import BfvParameters
from fhe_auc.ckks import CkksParameters
from fhe_auc.machines import answers, outcomes, postman
from fhe_auc.metrics.calibration import CalibrationMap
from fhe_auc.metrics.updating import LogisticMap
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis, Variable
from fhe_auc.question.fleet import Fleet, FleetList, KeyFile
from fhe_auc.question.study import Study
from fhe_auc.results import calibration_file
from fhe_auc.rlwe import packing
from fhe_auc.rlwe.ciphertexts import wrap
from fhe_auc.rlwe.polynomials import Polynomials
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.journal import Journal
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import MESSAGE as MESSAGE_PURPOSE
from fhe_auc.session.messages import Message
from fhe_auc.session.party import Party
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.vector_computation import VectorPlan
from fhe_auc.sums import pads
from fhe_auc.sums.terms import Factor, Part, Release, Sketch, Sum, Term
from fhe_auc_keys.bundles import announcement
from fhe_auc_keys.bundles import sealed_bundles as bundles
from fhe_auc_keys.bundles.announcement import KIND, _Body, announce, open_announcement
from fhe_auc_keys.bundles.session_keys import PartySecrets, aggregator_material
from fhe_auc_keys.fleet import aggregator, device, helper, session, tables
from fhe_auc_keys.roles import blobs
from fhe_auc_keys.roles.helper import about_of
from fhe_auc_keys.site import making, policy, restored
from fhe_auc_keys.store import budget, fixed_lists, key_store, known_members
from fhe_auc_keys.store.budget import Entry, Ledger, Limit
from fhe_auc_keys.store.database import Database
from fhe_auc_keys.store.key_store import STORE, KeyStore
from fhe_auc_keys.trust import join_request, members, signed_json
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.message_signatures import SessionProtection
from fhe_auc_keys.trust.sealing import PrivateKeys
from fhe_auc_keys.trust.signed_documents import claimed_body, sign_document
from fhe_auc_protocols.blinded_auc.blinded_plan import AucPlan, Workload
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from nothing_protocol import Telling

PACKAGES = ("fhe_auc", "keys/fhe_auc_keys", "protocols/fhe_auc_protocols", "benchmarks/fhe_auc_benchmarks")
ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent / "wire_formats"
PINNED = json.loads((HERE / "pinned.json").read_text("utf-8"))


AT = datetime(2026, 1, 2, tzinfo=timezone.utc)
SESSION = bytes(range(16))
FINGERPRINT = bytes(range(32))

CKKS = CkksParameters("openfhe", 8192, (56, 55, 55), 0, 48.0)
BFV = BfvParameters("openfhe", 8192, (52, 52, 52, 52), 0, (2199023288321, 2199023566849))
SUMS = BfvParameters("openfhe", 8192, (54, 54, 54), 0, (2199023288321,))
PLANS = {
    "AUC": AucPlan(workload=Workload(thresholds=4, parties=2), parameters=CKKS),
    "sum": VectorPlan(keys="sealed", thresholds=4, entries=8, parties=2, max_total=1_000_034),
    "exact": ExactPlan(
        analysis=Analysis(models=("a", "b"), by=(Variable("sex", ("F", "M")),)),
        thresholds=4,
        interval=False,
        authenticated=True,
        parties=2,
        max_rows=1_000_000,
        parameters=SUMS,
        kept=1,
        flooding_bits=40,
    ),
}


def _identity(name: str, seed: int) -> Identity:
    keys = PrivateKeys.from_components(bytes([seed] * 32), (bytes([seed + 1] * 64), bytes([seed + 1] * 32)))
    return Identity(name, keys, version=2)


NORTH, SOUTH, ADDER = _identity("north", 2), _identity("south", 4), _identity("adder", 6)
PROTECTION = SessionProtection(FINGERPRINT, {}, {}, NORTH)
DEVICES = FleetList((KeyFile("000000.parquet", 2, FINGERPRINT), KeyFile("000001.parquet", 1, bytes(32))))
FLEET = Fleet.of(DEVICES, row_cap=20)
DOCUMENT = session.Document(
    FINGERPRINT,
    bytes(32),
    b"sealed",
    (session.TableFile("000000.parquet", 2, FINGERPRINT),),
    (2, 0, 0, 0, 0),
    b"context",
)


def _digest(columns: dict[str, np.ndarray]) -> bytes:
    digest = tables.Digest()
    digest.add(columns)
    return digest.value


def _members() -> members.Members:
    first = members.found_consortium("north", NORTH.keys, days=300, at=AT)
    change = members.Change(
        admit=(SOUTH.line, ADDER.line), coordinators=("north", "south"), threshold=2, fleets=(DEVICES,)
    )
    signed = members.countersign(first.next_version(change, days=300, at=AT), NORTH.keys)
    return first.newer(members.countersign(signed, SOUTH.keys))


MEMBERS = _members()
MESSAGE = Message(
    "semi-honest", SESSION, 2, "north", FINGERPRINT, b"payload", (("south", FINGERPRINT),), 1_900_000_000, bytes(64)
)
RELEASE = Release(
    Sketch((("p", 2), ("n", 2))),
    (Sum("s", (Term((Factor((Part("p"), Part("n", "below", -2))), Factor(constants=(1, -3)))),)),),
)
NEWEST = {"1": policy.Answered(SESSION, 2, 2**31)}
STUDY = Study(
    model="sepsis-net 2.1", outcome="sepsis", cohort="adults", period="2025", row_caps={"north": 5000, "south": 70_000}
)
LEDGER = Ledger(
    {"rows": Limit(4.0, 1e-6)},
    {SESSION.hex(): Entry("rows", "verified", 0.5, 0.0, "row", 1_800_000_000, "VerificationError", "Ada Osei")},
    {SESSION.hex(): ("rows", 1_800_000_000)},
)


def _manifest(plan: str | None = None) -> Manifest:
    return Manifest(
        protocol="semi-honest",
        session=SESSION,
        parties=("north", "south"),
        grid=np.array([0.0, 0.25, 0.5, 0.75]).astype("<f8").tobytes(),
        min_parties=2,
        keys="sealed" if plan else "none",
        context=FINGERPRINT if plan else b"",
        common_secret=bytes(32) if plan else b"",
        plan=EncodedPlan(PLANS[plan].kind, serialise.encode(PLANS[plan])) if plan else None,
        options={"epsilon": 0.5},
    )


def _party() -> Party:
    """One that has nothing of its own to keep."""
    return Party(_manifest(), "north", Telling(_manifest(), PartyData.without_rows("north", PLAIN)))


def _announcement() -> bytes:
    replace, study = msgspec.structs.replace, msgspec.structs.replace(STUDY, aggregator="adder", days=3)
    body = claimed_body(KIND, announce(NORTH, _manifest("AUC"), MEMBERS, study, at=AT), _Body)
    manifest = replace(Manifest.from_bytes(body.manifest), study=STUDY)
    return sign_document(KIND, NORTH, replace(body, manifest=manifest.to_bytes()))


def _file(write: Callable[[Path], None], name: str) -> Callable[[Path], bytes]:
    def written(folder: Path) -> bytes:
        write(folder / name)
        return (folder / name).read_bytes()

    return written


def _journalled(folder: Path, what: str) -> bytes:
    with Journal(folder / "journal") as journal:
        journal.add(1, "north", b"submission")
        journal.close_round(1, ("north",))
    return (folder / "journal" / f"round-1.{what}").read_bytes()


VECTORS: dict[str, Callable[[Path], bytes]] = {
    "manifest, nothing encrypted": lambda _: _manifest().to_bytes(),
    "manifest, AUC": lambda _: _manifest("AUC").to_bytes(),
    "manifest, sum": lambda _: _manifest("sum").to_bytes(),
    "manifest, exact": lambda _: _manifest("exact").to_bytes(),
    "digest of a manifest": lambda _: _manifest().digest,
    "message": lambda _: MESSAGE.to_bytes(),
    "state of a party": lambda _: _party().saved(),
    "whose submissions count": lambda folder: _journalled(folder, "closed"),
    "submission in a journal": lambda folder: _journalled(folder, "north.submission"),
    "container of a ciphertext": lambda _: wrap("ciphertext", FINGERPRINT, b"payload"),
    "name of a CKKS context": lambda _: CKKS.fingerprint(FINGERPRINT),
    "name of a BFV context": lambda _: BFV.fingerprint(FINGERPRINT),
    "packed polynomials": lambda _: Polynomials(2, (65537, 257)).pack(np.array([[65536, 1], [256, 2]], np.uint64)),
    "polynomial from a seed": lambda _: Polynomials(4, (65537,)).pack(Polynomials(4, (65537,)).uniform(FINGERPRINT)),
    "release of sums": lambda _: serialise.encode(RELEASE),
    "pad key of sums": lambda _: serialise.frame(pads._MAGIC, pads._Stored(pads._digest([RELEASE]), ((b"sealed",),))),
    "packed residues": lambda _: packing.pack(np.array([1, 2, 65536], np.uint64), 65537),
    "secrets of a party": lambda _: serialise.encode(PartySecrets(b"context", FINGERPRINT, FINGERPRINT)),
    "aggregator's material with an opening": lambda _: aggregator_material(b"context", b"opening"),
    "fleet": lambda _: serialise.encode(FLEET),
    "device's memory": lambda _: device._FORMAT.frame(
        device._Memory(FINGERPRINT, (device._DeviceAnswer(SESSION, FINGERPRINT, FINGERPRINT, (FINGERPRINT,)),))
    ),
    "fleet's session": lambda _: helper._FORMAT.frame(helper._HelperState(FINGERPRINT, b"content", b"answer")),
    "sum of a fleet's sketches": lambda _: aggregator._FORMAT.frame(
        aggregator._Added(
            FINGERPRINT, serialise.encode(blobs.bytes_of([np.array([[1, 2]], np.uint64)])), {"0.parquet": b""}
        )
    ),
    "opened session": lambda _: bundles._KEPT.frame(bundles.Kept(b"announcement", 2**31, b"secrets")),
    "answer kept": lambda _: answers._FORMAT.frame(
        answers._Answered(b"asked", b"sent", FINGERPRINT, b"party", b"", 900, (), True, "", ())
    ),
    "list of a fleet's blobs": lambda _: sign_document(session.LIST, NORTH, DOCUMENT),
    "list of submissions": lambda _: fixed_lists._FORMAT.frame(fixed_lists._FixedList(b"signature", FINGERPRINT)),
    "word that nothing was opened": lambda _: NORTH.sign(session.UNOPENED, FINGERPRINT),
    "fleet's opening": lambda _: sign_document(session.OPENING, NORTH, DOCUMENT),
    "fleet's result": lambda _: sign_document(session.RESULT, NORTH, DOCUMENT),
    "what a fleet's list is known by": lambda _: DOCUMENT.known_by,
    "fleet's sums": lambda _: session.sealed_sums(NORTH, FINGERPRINT, 2, [np.array([7, 8], np.uint64)], FINGERPRINT),
    "part of a fleet's member": lambda _: session.part_for(FINGERPRINT, bytes(32), FINGERPRINT, 7),
    "columns of a fleet's answers": lambda _: ", ".join(f"{each.name} {each.type}" for each in tables.ANSWERS).encode(),
    "digest of a table": lambda _: _digest({"member": np.arange(2, dtype="<u4"), "part": np.zeros((2, 3), np.uint8)}),
    "digest of keys": lambda _: _digest({"key": np.zeros((2, 32), np.uint8)}),
    "answers about proofs, hidden": lambda _: session.answers_cipher(FINGERPRINT, FINGERPRINT, "000000.parquet").update(
        bytes(80)
    ),
    "what a fleet's sketch is sealed for": lambda _: session.sketch_info(FINGERPRINT, 7),
    "what a fleet's blob is about": lambda _: session.blob_about(FINGERPRINT, 7, FINGERPRINT),
    "what a party's blob is about": lambda _: about_of(FINGERPRINT, "north"),
    "what a blob is sealed for": lambda _: blobs.blob_info(b"about"),
    "what is signed with a blob": lambda _: blobs._signed(b"about", b"blob", b"randomness"),
    "identity": lambda _: NORTH.to_bytes(),
    "member's line": lambda _: serialise.encode(NORTH.line),
    "request to be a member": lambda _: join_request.request(NORTH.line),
    "first members' file": lambda _: MEMBERS.files[0],
    "members' file": lambda _: MEMBERS.files[1],
    "fingerprint of a consortium": lambda _: MEMBERS.root,
    "comparison with a coordinator": lambda _: join_request.comparison(MEMBERS.root, SOUTH.line).encode(),
    "members' files in a key store": lambda _: known_members._RECORD.form.frame(
        known_members._Stored((b"one", b"two"))
    ),
    "signature of JSON": lambda _: serialise.encode(
        signed_json.sign_json(NORTH, b"result 1", {"time": AT.isoformat()})
    ),
    "announcement": lambda _: _announcement(),
    "signature of a message": lambda _: PROTECTION.sign(MESSAGE_PURPOSE, b"statement"),
    "digest of a message": lambda _: MESSAGE.digest,
    "MAC of an echo": lambda _: MESSAGE.protected(PROTECTION, mac_key=FINGERPRINT).signature,
    "bundle": lambda _: sign_document(bundles.BUNDLE, NORTH, bundles._Body(FINGERPRINT, FINGERPRINT, b"seal")),
    "privacy ledger": lambda _: budget.LEDGER.form.frame(LEDGER),
    "record of agreed studies": lambda _: policy._BOOK.form.frame(
        policy._Book(
            (policy.Agreed(STUDY, NEWEST, b"thresholds"),),
            (("model", "outcome", ("north", "south")),),
            {"00": (True, 2**31)},
            {"01": policy.Waiting(b"announcement", "north", "why", 2**31)},
        )
    ),
    "record of studies made here": lambda _: making._RECORD.form.frame(
        making._Studies((making._Series(STUDY, NEWEST),), {"00": making._Sent(("file",), 2**31)})
    ),
    "files of a session made here": lambda _: making._FILES.frame({"file": b"content"}),
    "letter between exchanges": lambda _: serialise.frame(
        postman._MAGIC, postman.Letter("north", {"south/request": SESSION}, {"north/request": b"file"}, [])
    ),
    "note of a restored key store": lambda _: restored._NOTE.form.frame(restored._Restored(2**31, "why")),
    "calibration map": _file(
        lambda path: calibration_file.save_map(path, CalibrationMap([0, 0.5, 1], [0.1, 0.7]), "bbq"), "map.json"
    ),
    "calibration map of two numbers": _file(
        lambda path: calibration_file.save_map(path, LogisticMap(-0.1, 0.7), "slope-intercept"), "map.json"
    ),
    "calibration map of rising steps": _file(
        lambda path: calibration_file.save_map(path, CalibrationMap([0, 0.5, 1], [0.1, 0.7]), "isotonic"), "map.json"
    ),
    "thresholds": _file(lambda path: thresholds.save(path, [0.0, 0.1, 0.5]), "thresholds.txt"),
    "outcome": _file(lambda path: outcomes.write_json(path, {"party": "north", "auc": float("nan")}), "result.json"),
}


def _shown(data: bytes) -> str:
    """Write short bytes as hexadecimal digits; of longer ones the first 8, the length and the SHA-256."""
    if len(data) <= 64:
        return data.hex()
    return f"{data[:8].hex()}... {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"


def _sources() -> dict[str, str]:
    """Return the text of every module of the product, by the module's name."""
    found = {}
    for package in PACKAGES:
        root = ROOT / package
        for path in root.rglob("*.py"):
            found[".".join(path.relative_to(root.parent).with_suffix("").parts)] = path.read_text(encoding="utf-8")
    return found


def _layout(struct: type[msgspec.Struct]) -> str:
    """Say how a struct is encoded: its fields in order, as an array [...] or as a map {...} with its MAC."""
    annotations: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        annotations |= inspect.get_annotations(base)
    fields = ", ".join(f"{name}: {annotations[name]}" for name in struct.__struct_fields__)
    config = struct.__struct_config__
    if config.array_like:
        return f"[{fields}]"
    return f"{{{fields}}}" if config.tag is None else f"{{type: {config.tag!r}, {fields}}}"


def _found_layouts() -> dict[str, str]:
    for module, text in _sources().items():
        if re.search("msgspec.Struct|SecretStruct|forbid_unknown_fields", text):  # or a subclass of one
            try:
                importlib.import_module(module)
            except (ImportError, BackendUnavailableError):
                continue  # needs OpenFHE, which is not everywhere
    found, queue = {}, [msgspec.Struct]
    while queue:
        struct = queue.pop()
        queue += struct.__subclasses__()
        if struct.__module__.startswith("fhe_auc"):
            name = f"{struct.__module__.rpartition('.')[2]}.{struct.__name__}"
            assert name not in found, f"two structs are called {name}"
            found[name] = _layout(struct)
    return found


def test_every_magic_stands_in_the_code_once_and_has_bytes_that_are_pinned() -> None:
    found = [magic for text in _sources().values() for magic in re.findall(r"b\"(fhe[a-z]{4})\"", text)]
    pinned = {
        bytes.fromhex(text[:14]).decode(errors="replace")
        for text in (*PINNED["bytes"].values(), *PINNED["key store"].values())
    }
    assert sorted(found) == sorted(PINNED["magics"])
    assert set(PINNED["magics"]) <= pinned


@pytest.mark.backends("all")
def test_every_struct_that_is_encoded_has_the_fields_that_are_pinned() -> None:
    found = _found_layouts()
    assert {name: PINNED["layouts"].get(name) for name in found} == found
    assert set(PINNED["layouts"]) == set(found)


def test_the_frame_is_magic_version_digest_and_body() -> None:
    body = b"\x93\x01\xc4\x01\x02\xa1\x33"
    framed = serialise.frame(b"fhetest", (1, b"\x02", "3"))
    assert serialise.FORMAT_VERSION == 4
    assert framed == b"fhetest" + b"\x04" + hashlib.sha256(body).digest() + body


@pytest.mark.parametrize("name", VECTORS)
def test_bytes_are_those_that_are_pinned(name: str, tmp_path: Path) -> None:
    assert _shown(VECTORS[name](tmp_path)) == PINNED["bytes"].get(name)


def test_what_is_pinned_can_be_read_unsealed_and_opened(tmp_path: Path) -> None:
    opened = open_announcement(_announcement(), MEMBERS, holder="north", at=AT)
    assert opened.study == STUDY
    assert msgspec.structs.replace(opened.manifest, fingerprints=(), aggregator=b"", study=None) == _manifest("AUC")
    assert announcement.KIND.purpose == b"session announcement 1"
    (sealed,) = (bytes.fromhex(each) for each in PINNED["sealed"].values())
    assert NORTH.unseal(sealed, info=b"info") == b"the text"
    stored = {place: bytes.fromhex(data) for place, data in PINNED["key store"].items()}
    tmp_path.chmod(0o700)
    entry = ("trust", "own", stored["trust/own"])
    Database.make(tmp_path / STORE, key_store._TABLES, header=(stored["header"],), entry=entry)
    with KeyStore(tmp_path, "four random words") as store:
        assert store.get("trust", "own") == b"the text"
        store.register(SESSION)
