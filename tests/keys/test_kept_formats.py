"""What outlives a session outlives the version of fhe-auc that wrote it; sessions end with theirs, in a sentence."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fhe_auc.base import serialise
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import FIRST_KEPT_VERSION, KeptFormat
from fhe_auc.machines import answers
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import announce
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.site import key_erasure
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store.database import Database
from fhe_auc_keys.store.key_store import _FORMAT, STORE, KeyStore
from tests.support.certified import NOW, STUDY
from tests.support.certified import Consortium as Certified
from tests.support.wire import flipped

PASSPHRASE = "four random words"  # noqa: S105
MATERIAL = b"all that the session can go on with"


def test_sessions_are_not_called_damaged_by_a_later_version_which_closes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages, and so sessions, end with their version; key stores do not."""
    certified = Certified("north", "south", "adder")
    request = Request(parties=("north", "south"), thresholds=np.linspace(0, 1, 5), options={"epsilon": 1.0})
    manifest = registry.load("dpauc-laplace").prepare(request).manifest
    study = msgspec.structs.replace(STUDY, aggregator="adder")
    document = announce(certified.identities["north"], manifest, certified.members, study, at=NOW)
    session, state = (
        manifest.session,
        answers._Answered(b"asked", b"sent", b"rows", MATERIAL, b"", 900, (), False, "", ()),
    )
    with KeyStore.create(tmp_path / "site", PASSPHRASE) as store:
        certified.settle(store, "north")
        Kept(document, int((NOW + timedelta(days=7)).timestamp()), MATERIAL).keep(store, session)
        store.put("state", session.hex(), answers._FORMAT.frame(state))
        assert problems(store, at=NOW) == []
        monkeypatch.setattr(serialise, "FORMAT_VERSION", 200)
        (found,) = problems(store, at=NOW)
        assert (found.entry, found.wrong[:38]) == (f"bundle/{session.hex()}", "session announcement of format version")
        assert f"`fhe-auc keys close {session.hex()} --lose-result`" in found.remedy
        with pytest.raises(KeysError, match="this site gets no result of it"):
            key_erasure.close(store, session)
        kinds = ("bundle", "state")
        assert all(MATERIAL in store.get(kind, session.hex()) for kind in kinds)
        key_erasure.close(store, session, lose_result=True)
        assert not any(MATERIAL in store.get(kind, session.hex()) for kind in kinds)
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
    framed = OLD.frame(One(4.0))
    for position in range(len(framed)):  # what is cut off or altered is damaged, and of no other version
        for bad in (framed[:position], flipped(framed, position)):
            with pytest.raises(DeserialisationError) as caught:
                OLD.unframe(bad)
            assert caught.value.field == ("format" if position < 7 else "checksum")
    with pytest.raises(DeserialisationError, match=r"version 5, from a newer .* up to 3: install the newer one"):
        OLD.unframe(NEW.frame(Three({})))


def test_a_key_store_of_a_newer_version_is_not_called_damaged(tmp_path: Path) -> None:
    """Whoever reads that it is damaged takes the backup, which is as new, or makes a new one."""
    store = tmp_path / "site"
    KeyStore.create(store, PASSPHRASE).close()
    newer = KeptFormat(_FORMAT.magic, bytes, "key store header", version=FIRST_KEPT_VERSION + 1)
    with Database(store / STORE) as database:
        database.change("update header set data = ?", newer.frame(b"who knows"))
    with pytest.raises(StoreError, match=r"from a newer fhe-auc than this, .*: install the newer one here$"):
        KeyStore(store, PASSPHRASE)
