"""The key store: what is kept, what is refused, and that nothing readable touches the disk."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from keys.errors import (
    DamagedFileError,
    ExistsError,
    KeysError,
    LockedError,
    MissingError,
    ReplayedError,
    UnfitNameError,
    UnsafeModeError,
    WrongPassphraseError,
)
from keys.identity import Identity
from keys.store import KeyStore

PASSPHRASE = "correct horse, K\u00f6ln"  # noqa: S105
SECRET = b"the secret key's own coefficients"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with KeyStore.create(tmp_path / "store", PASSPHRASE, log2_cost=10) as store:
        store.put("context", "north", SECRET)
    return tmp_path / "store"


def files(directory: Path) -> list[Path]:
    return [each for each in directory.rglob("*") if each.is_file()]


def test_what_is_put_comes_back_also_with_the_passphrase_in_another_normal_form(directory) -> None:
    with KeyStore(directory, "correct horse, Ko\u0308ln") as store:
        assert store.get("context", "north") == SECRET
        assert store.names("context") == ("north",)
        identity = Identity.create("north")
        store.put("identity", "north", identity.to_bytes())
        assert Identity.from_bytes(store.get("identity", "north")).signing_key == identity.signing_key


def test_nothing_readable_is_on_disk_and_modes_are_tight(directory) -> None:
    assert not any(SECRET[:12] in each.read_bytes() for each in files(directory))
    assert {each.stat().st_mode & 0o777 for each in files(directory)} == {0o600}
    folders = [directory, *(each for each in directory.iterdir() if each.is_dir())]
    assert {each.stat().st_mode & 0o777 for each in folders} == {0o700}


def test_a_wrong_passphrase_and_a_damaged_header_are_told_apart(directory) -> None:
    for wrong in ("correct horse", "", PASSPHRASE + " "):
        with pytest.raises(WrongPassphraseError) as caught:
            KeyStore(directory, wrong)
        assert PASSPHRASE not in str(caught.value)
    header = directory / "store.header"
    good = header.read_bytes()
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 1
        header.write_bytes(bytes(bad))
        with pytest.raises(DamagedFileError):
            KeyStore(directory, PASSPHRASE)
        header.write_bytes(good[:position])
        with pytest.raises(DamagedFileError):
            KeyStore(directory, PASSPHRASE)


def test_every_flipped_or_missing_byte_of_an_entry(directory) -> None:
    path = directory / "context" / "north"
    good = path.read_bytes()
    with KeyStore(directory, PASSPHRASE) as store:
        for position in range(len(good)):
            bad = bytearray(good)
            bad[position] ^= 1
            for data in (bytes(bad), good[:position]):
                path.write_bytes(data)
                with pytest.raises(DamagedFileError, match="context/north"):
                    store.get("context", "north")


def test_files_do_not_change_places(directory) -> None:
    with KeyStore(directory, PASSPHRASE) as store:
        store.put("context", "south", b"other")
        store.put("bundle", "north", b"other")
        for other in ("context/south", "bundle/north"):
            (directory / "context" / "north").write_bytes((directory / other).read_bytes())
            with pytest.raises(DamagedFileError):
                store.get("context", "north")


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../north", "a/b", "/etc/passwd", "a\0b", ".hidden", " a", "a.", "a\nb", "x" * 201, "\ud800"],
)
def test_names_that_lead_elsewhere(directory, name) -> None:
    with KeyStore(directory, PASSPHRASE) as store:
        for action in (lambda: store.get("context", name), lambda: store.put("context", name, b"")):
            with pytest.raises(UnfitNameError):
                action()
        with pytest.raises(UnfitNameError):
            store.names("../context")


def test_entries_are_not_overwritten_unasked_and_stores_never(directory) -> None:
    with KeyStore(directory, PASSPHRASE) as store:
        with pytest.raises(ExistsError):
            store.put("context", "north", b"new")
        store.put("context", "north", b"new", replace=True)
        assert store.get("context", "north") == b"new"
        with pytest.raises(MissingError):
            store.get("context", "nobody")
    with pytest.raises(ExistsError):
        KeyStore.create(directory, PASSPHRASE, log2_cost=10)
    with pytest.raises(MissingError):
        KeyStore(directory / "nowhere", PASSPHRASE)


@pytest.mark.parametrize("path", [".", "context", "context/north", "store.header"])
def test_what_others_can_read_is_refused(directory, path) -> None:
    target = directory / path
    target.chmod(target.stat().st_mode | 0o040)
    with pytest.raises(UnsafeModeError, match="chmod -R go="), KeyStore(directory, PASSPHRASE) as store:
        store.get("context", "north")


def test_a_link_in_place_of_a_file_is_refused(directory) -> None:
    path = directory / "context" / "north"
    path.rename(directory / "moved")
    path.symlink_to(directory / "moved")
    with KeyStore(directory, PASSPHRASE) as store, pytest.raises(UnsafeModeError):
        store.get("context", "north")


def test_a_second_process_is_kept_out_until_the_first_is_done(directory) -> None:
    with KeyStore(directory, PASSPHRASE) as store, pytest.raises(LockedError):
        KeyStore(directory, PASSPHRASE)
    with pytest.raises(LockedError, match="closed"):
        store.get("context", "north")
    KeyStore(directory, PASSPHRASE).close()


def test_seen_bundles_are_remembered_and_their_list_cannot_be_removed(directory) -> None:
    with KeyStore(directory, PASSPHRASE) as store:
        store.register(b"a" * 16)
    with KeyStore(directory, PASSPHRASE) as store:
        store.register(b"b" * 16)
        with pytest.raises(ReplayedError):
            store.register(b"a" * 16)
        (directory / "seen" / "bundles").unlink()
        with pytest.raises(MissingError):
            store.register(b"a" * 16)


def test_a_crash_while_writing_leaves_the_old_entry(directory, monkeypatch) -> None:
    def crash(*_: object) -> None:
        raise OSError("power cut")

    with KeyStore(directory, PASSPHRASE) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", crash)
            with pytest.raises(OSError, match="power cut"):
                store.put("context", "north", b"new", replace=True)
        assert store.get("context", "north") == SECRET
    (directory / "context" / ".tmp-left").write_bytes(b"")
    with KeyStore(directory, PASSPHRASE) as store:
        assert store.names("context") == ("north",)
    assert not list(directory.glob("context/.tmp*"))


def test_an_open_store_is_not_printed_or_pickled(directory) -> None:
    with KeyStore(directory, PASSPHRASE) as store:
        assert repr(store) == f"<KeyStore {str(directory)!r}>"
        with pytest.raises(TypeError):
            pickle.dumps(store)


def test_all_errors_can_be_caught_as_one(directory) -> None:
    with pytest.raises(KeysError):
        KeyStore(directory, "wrong")
