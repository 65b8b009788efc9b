"""Key stores of earlier versions are read: one of each kind is kept below `kept/`, in a folder for each release.

A release that changes the version of a `KeptFormat` adds a folder, and no folder is ever made again after its release:

    python -m tests.keys.test_kept_formats 0.3
"""

from __future__ import annotations

import shutil
import sys
from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from fhe_auc.base import serialise
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import FIRST_KEPT_VERSION, KeptFormat
from fhe_auc.machines import site_state
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import announce
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.fleet import device, helper
from fhe_auc_keys.site import key_erasure, late_opening, made_sessions, openings
from fhe_auc_keys.site.invitation import Offer, invite, open_invitation
from fhe_auc_keys.site.made_sessions import Wanted
from fhe_auc_keys.site.policy import Policy
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store import audit, budget
from fhe_auc_keys.store.budget import Entry, Ledger, Limit
from fhe_auc_keys.store.key_store import MAGIC, KeyStore
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.store.vault import OWN, certified_identity
from fhe_auc_keys.trust import member_lists
from fhe_auc_keys.trust.authority import Authority
from fhe_auc_keys.trust.member_lists import sign_members
from tests.support.certified import NOW, STUDY, Consortium

KEPT = Path(__file__).with_name("kept")
PASSPHRASE = "four random words"  # noqa: S105
OPEN, MATERIAL = "0123456789abcdef" * 2, b"all that the session can go on with"
SESSION, BUNDLE = "31c4ce5c3af100a30dd3d4d0b7191bc8", bytes(range(16))
ENTRY = Entry("rows", "verified", 0.5, 0.0, "row", 900, int(NOW.timestamp()), "VerificationError", "Ada Osei")
POLICY = Policy(
    holder="north",
    protocols=("verified", "exact"),
    model=STUDY.model,
    outcome=STUDY.outcome,
    min_parties=2,
    max_thresholds=16,
    options={"interval": 0.95, "epsilon": (0.25, 0.5)},
)


def make(folder: Path) -> None:
    """Write a site's key store and an authority's, in place of what is in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    certified = Consortium("north", "south", "adder")
    identity, trust = certified.identities["north"], certified.trust()
    request = Request(parties=("north", "south"), thresholds=np.linspace(0, 1, 5), keys="joint")
    prepared = registry.load("exact").prepare(request)
    document = announce(
        identity,
        msgspec.structs.replace(prepared.manifest, session=bytes.fromhex(OPEN)),
        certified.shown("north", "south"),
        trust,
        aggregator=certified.identities["adder"].credential,
        study=STUDY,
        lifetime=timedelta(days=7),
        at=NOW,
    )
    ends = int((NOW + timedelta(days=7)).timestamp())
    said = Wanted("exact", request, (), b"", b"", STUDY, timedelta(days=7))
    with KeyStore.create(folder / "authority", PASSPHRASE, log2_cost=10) as store:
        store.put("authority", OWN, certified.authority.to_bytes())
    with KeyStore.create(folder / "site", PASSPHRASE, log2_cost=10) as store:
        store.put("identity", OWN, identity.to_bytes())
        Trusted(trust.anchors, (), trust.revocation_lists).keep(store)
        POLICY.keep(store)
        last = openings._Last(bytes.fromhex(SESSION), int(NOW.timestamp()), int(NOW.timestamp()))
        opened = openings._Opened(STUDY.model, STUDY.outcome, ("north", "south"), {"verified": last})
        store.put("trust", openings.NAME, openings._FORMAT.frame((opened,)))
        store.register(BUNDLE)
        facts = budget.set_limit(store, "rows", 4.0, 1e-6)
        audit.append_line(store.directory, identity, "limited", at=NOW, **facts)
        Ledger(Ledger.stored(store).limits, {SESSION: ENTRY}).keep(store)
        store.put("bundle", OPEN, Kept(document, ends, MATERIAL).to_bytes())
        store.put("late", OPEN, late_opening._FORMAT.frame(late_opening._Held(document, ends, MATERIAL, (MATERIAL,))))
        state = site_state._Answered(
            b"asked", b"sent", b"rows", MATERIAL, b"", 900, (), True, False, "", {}, found=MATERIAL[::-1]
        )
        store.put("state", OPEN, site_state._FORMAT.frame(state))
        store.put("fleet", OPEN, helper._FORMAT.frame(helper._HelperState(b"blobs", b"answer", False, MATERIAL)))
        made_sessions.remember(store, document, said)
        offer = Offer(exchange="here", study=STUDY, policy=POLICY)
        crl = trust.revocation_lists[0].public_bytes(Encoding.PEM)
        (folder / "invitation").write_bytes(invite(certified.authority, crl, offer))
        key_erasure.ended(store, at=NOW + timedelta(days=8))
        told = {"session": SESSION, "spent": ENTRY.facts(), "by": ENTRY.acknowledged}
        audit.append_line(store.directory, identity, "acknowledged", at=NOW, **told)
    known = np.frombuffer(identity.signing_key, np.uint8).reshape(1, 32)
    (folder / "listed").write_bytes(sign_members(certified.authority, known, at=NOW))
    memory = device._Memory(
        bytes(32), (device._DeviceAnswer(bytes.fromhex(SESSION), bytes(32), bytes(32), (bytes(32),)),)
    )
    (folder / "memory").write_bytes(device._FORMAT.frame(memory))
    for lock in folder.rglob("*lock"):
        lock.unlink()


def copied(source: Path, folder: Path) -> Path:
    """Return a copy that only its owner can read: a checkout keeps no modes, nor empty folders."""
    copy = Path(shutil.copytree(source, folder / "store"))
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return copy


@pytest.fixture(params=sorted(path.name for path in KEPT.iterdir() if path.is_dir()))
def release(request: pytest.FixtureRequest) -> Path:
    return KEPT / str(request.param)


def test_a_site_s_key_store_of_that_release_is_read(release: Path, tmp_path: Path) -> None:
    with KeyStore(copied(release / "site", tmp_path), PASSPHRASE) as store:
        assert certified_identity(store).name == "north"
        assert len(Trusted.stored(store).authorities) == len(Trusted.stored(store).lists) == 1
        assert Policy.stored(store) == POLICY
        openings.check(store)
        assert made_sessions._stored(store, bytes.fromhex(OPEN)).lifetime == 7 * 24 * 3600
        assert Ledger.stored(store) == Ledger({"rows": Limit(4.0, 1e-6)}, {SESSION: ENTRY})
        assert store.opened_bundles() == (BUNDLE,)
        assert set(key_erasure.noted_ends(store)) == ({OPEN} if release.name > "0.2" else set())
        # A session ends with its version: see below.
        assert {each.entry for each in problems(store, at=NOW)} <= {f"bundle/{OPEN}"}


def test_sessions_of_that_release_are_not_called_damaged_by_a_later_one_which_closes_them(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages, and so sessions, end with their version; key stores do not."""
    with KeyStore(copied(release / "site", tmp_path), PASSPHRASE) as store:
        session = bytes.fromhex(OPEN)
        monkeypatch.setattr(serialise, "FORMAT_VERSION", 200)
        (found,) = problems(store, at=NOW)
        assert (found.entry, found.wrong[:38]) == (f"bundle/{OPEN}", "session announcement of format version")
        assert f"`fhe-auc keys close {OPEN} --lose-result`" in found.remedy
        with pytest.raises(KeysError, match="this site gets no result of it"):
            key_erasure.close(store, session, at=NOW)
        kinds = ("bundle", "late", "state")
        assert all(MATERIAL in store.get(kind, OPEN) for kind in kinds)
        key_erasure.close(store, session, at=NOW, lose_result=True)
        assert not any(MATERIAL in store.get(kind, OPEN) for kind in kinds)
        assert problems(store, at=NOW) == []
        with pytest.raises(StoreError, match="fleet's session of format version 3, which nothing reads"):
            helper._kept(store, session)


def test_an_authority_s_key_store_of_that_release_goes_on_and_what_lies_outside_is_read(
    release: Path, tmp_path: Path
) -> None:
    with pytest.raises(DeserialisationError, match="device's memory of format version 3, which nothing reads"):
        device._FORMAT.unframe((release / "memory").read_bytes())
    if (release / "invitation").exists():
        assert open_invitation((release / "invitation").read_bytes()).offer.policy == POLICY
    assert len(member_lists._FORMAT.unframe((release / "listed").read_bytes()).signature) == 64
    with KeyStore(copied(release / "authority", tmp_path), PASSPHRASE) as store:
        authority = Authority.from_bytes(store.get("authority", OWN))
        assert [line.name for line in authority.register] == ["north", "south", "adder"]
        authority.revoke(authority.register[0].serial, at=NOW)
        assert authority.revocation_list(at=NOW + timedelta(days=1))
        assert problems(store, at=NOW) == []


class One(msgspec.Struct):
    limit: float


class Two(msgspec.Struct):
    limits: dict[str, float]


class Three(msgspec.Struct):
    limits: dict[str, tuple[float, float]]


OLD = KeptFormat(b"fhetest", One, "thing")
STEPS = {
    3: (One, lambda old: Two({"rows": old.limit})),
    4: (Two, lambda old: Three({name: (limit, 0.0) for name, limit in old.limits.items()})),
}
NEW = KeptFormat(b"fhetest", Three, "thing", version=5, older=STEPS)


def test_an_older_version_is_migrated_step_by_step_and_others_are_refused_with_what_to_do() -> None:
    assert NEW.unframe(OLD.frame(One(4.0))) == Three({"rows": (4.0, 0.0)})
    assert NEW.unframe(NEW.frame(Three({}))) == Three({})
    with pytest.raises(DeserialisationError, match=r"version 5, from a newer .* up to 3: install the newer one"):
        OLD.unframe(NEW.frame(Three({})))


def test_what_is_cut_off_or_altered_is_damaged_and_of_no_other_version() -> None:
    framed = OLD.frame(One(4.0))
    for position in range(len(framed)):
        altered = bytes([*framed[:position], framed[position] ^ 1, *framed[position + 1 :]])
        for bad in (framed[:position], altered):
            with pytest.raises(DeserialisationError) as caught:
                OLD.unframe(bad)
            assert caught.value.field == ("format" if position < 7 else "checksum")


def test_a_key_store_of_a_newer_version_is_not_called_damaged(tmp_path: Path) -> None:
    """Whoever reads that it is damaged takes the backup, which is as new, or makes a new one."""
    store = copied(KEPT / "0.2" / "site", tmp_path)
    newer = KeptFormat(MAGIC, bytes, "key store header", version=FIRST_KEPT_VERSION + 1)
    (store / "store.header").write_bytes(newer.frame(b"who knows"))
    with pytest.raises(StoreError, match=r"from a newer fhe-auc than this, .*: install the newer one here$"):
        KeyStore(store, PASSPHRASE)


if __name__ == "__main__":
    make(KEPT / sys.argv[1])
