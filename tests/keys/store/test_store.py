"""The key store: what is kept, what is refused, and that nothing readable touches the disk."""

import errno
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fhe_auc_keys.errors import DamagedFileError, KeysError, LockedError, StoreError, UnsafeModeError
from fhe_auc_keys.store import key_store as store_module
from fhe_auc_keys.store.key_store import KeyStore, is_in
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.identity import Identity
from tests.support.platforms import needs_modes
from tests.support.wire import flipped

PASSPHRASE = "correct horse, K\u00f6ln"  # noqa: S105
SECRET = b"the secret key's own coefficients"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with KeyStore.create(tmp_path / "store", PASSPHRASE, log2_cost=10) as store:
        store.put("state", "north", SECRET)
    return tmp_path / "store"


@pytest.fixture
def store(directory: Path) -> Iterator[KeyStore]:
    with KeyStore(directory, PASSPHRASE) as opened:
        yield opened


def unopened(directory: Path, error: type[StoreError], match: str | None = None, passphrase: str = PASSPHRASE) -> None:
    with pytest.raises(error, match=match) as caught:
        KeyStore(directory, passphrase)
    assert passphrase not in str(caught.value) or not passphrase


def unmade(directory: Path, error: type[StoreError], match: str) -> None:
    with pytest.raises(error, match=match):
        KeyStore.create(directory, PASSPHRASE, log2_cost=10)


def test_what_is_put_comes_back_also_with_the_passphrase_in_another_normal_form(directory) -> None:
    assert not any(SECRET[:12] in each.read_bytes() for each in directory.rglob("*") if each.is_file())
    with KeyStore(directory, "correct horse, Ko\u0308ln") as store:
        assert store.get("state", "north") == SECRET
        assert store.names("state") == ("north",)
        identity = Identity.create("north")
        store.put("identity", "north", identity.to_bytes())
        assert Identity.from_bytes(store.get("identity", "north")).signing_key == identity.signing_key


def test_a_wrong_passphrase_and_a_damaged_header_are_told_apart(directory) -> None:
    for wrong in ("correct horse", "", PASSPHRASE + " "):
        unopened(directory, StoreError, r"passphrase is (not this key store's|empty, or not text)", wrong)
    header = directory / "store.header"
    good = header.read_bytes()
    for position in range(len(good)):
        for bad in (flipped(good, position), good[:position]):
            header.write_bytes(bad)
            unopened(directory, DamagedFileError)


def test_every_flipped_or_missing_byte_of_an_entry_or_of_the_list_of_bundles_and_another_entry_s_file(
    directory, store
) -> None:
    store.put("state", "south", b"other")
    store.put("bundle", "north", b"other")
    others = [(directory / other).read_bytes() for other in ("state/south", "bundle/north")]
    for path, read in (("state/north", lambda: store.get("state", "north")), ("seen/bundles", store.opened_bundles)):
        good = (directory / path).read_bytes()
        for data in [f(good, at) for at in range(len(good)) for f in (flipped, lambda data, at: data[:at])] + others:
            (directory / path).write_bytes(data)
            with pytest.raises(DamagedFileError, match=path):
                read()


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../north", "a/b", "/etc/passwd", "a\0b", ".hidden", " a", "a.", "a\nb", "x" * 201, "\ud800"],
)
def test_names_that_lead_elsewhere(store, name) -> None:
    for action in (store.get, lambda kind, name: store.put(kind, name, b"")):
        with pytest.raises(StoreError, match="is no name for an entry: letters, digits"):
            action("state", name)
    with pytest.raises(StoreError, match="a key store has no kind"):
        store.names("../state")


def test_entries_are_not_overwritten_unasked_and_stores_never(directory, store) -> None:
    with pytest.raises(StoreError, match="the key store has a"):
        store.put("state", "north", b"new")
    store.put("state", "north", b"new", replace=True)
    assert store.get("state", "north") == b"new"
    with pytest.raises(StoreError, match="the key store has no"):
        store.get("state", "nobody")
    unmade(directory, StoreError, "is not empty; a key store is made in a new")
    unopened(directory / "nowhere", StoreError, "no key store in")


@needs_modes
@pytest.mark.parametrize("path", [".", "state", "state/north", "store.header"])
def test_what_others_can_read_is_refused(directory, path) -> None:
    target = directory / path
    target.chmod(target.stat().st_mode | 0o040)
    with pytest.raises(UnsafeModeError, match="chmod -R go="), KeyStore(directory, PASSPHRASE) as store:
        store.get("state", "north")


def test_a_second_process_is_kept_out_until_the_first_is_done_and_none_is_pickled(directory, store) -> None:
    unopened(directory, LockedError)
    with pytest.raises(LockedError, match=r"open, and has not closed it within 0\.2 s$"):
        KeyStore(directory, PASSPHRASE, patience=0.2)
    store.close()
    with pytest.raises(LockedError, match="closed"):
        store.get("state", "north")
    assert repr(store) == f"<KeyStore {str(directory)!r}>"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(store)
    KeyStore(directory, PASSPHRASE).close()


def test_seen_bundles_are_remembered_and_their_list_cannot_be_removed(directory) -> None:
    with KeyStore(directory, PASSPHRASE) as store:
        store.register(b"a" * 16)
    with KeyStore(directory, PASSPHRASE) as store:
        store.register(b"b" * 16)
        with pytest.raises(KeysError, match="has been opened before"):
            store.register(b"a" * 16)
        (directory / "seen" / "bundles").unlink()
        with pytest.raises(StoreError, match="the key store has no"):
            store.register(b"a" * 16)


def test_a_store_that_was_not_finished_is_made_again(tmp_path, monkeypatch) -> None:
    """The disk is full at the first, second, … folder or file; with room again, the same call makes the store."""
    write, mkdir, calls = store_module._write, Path.mkdir, []

    def failing(action):
        def act(*given, **named):
            calls.append(action)
            if len(calls) == full:
                if action is write:
                    given[0].with_name(".tmp-0123").write_bytes(b"half")
                raise OSError(errno.ENOSPC, "No space left on device")
            return action(*given, **named)

        return act

    for full in range(1, 20):
        calls.clear()
        directory = tmp_path / str(full)
        with monkeypatch.context() as patched:
            patched.setattr(store_module, "_write", failing(write))
            patched.setattr(Path, "mkdir", failing(mkdir))
            try:
                KeyStore.create(directory, PASSPHRASE, log2_cost=10).close()
            except OSError:
                pass
            else:
                break
        unopened(directory, StoreError, "no key store in")
        assert not is_in(directory)
        with KeyStore.create(directory, PASSPHRASE, log2_cost=10) as store:
            store.put("state", "north", b"kept")
        with KeyStore(directory, PASSPHRASE) as store:
            assert store.get("state", "north") == b"kept"
        assert not list(directory.rglob(".tmp-*"))
    assert full > 8  # a directory, seven folders and two files can fail


def test_a_store_without_its_header_is_not_taken_for_an_unfinished_one(directory) -> None:
    (directory / "store.header").unlink()
    before = sorted(directory.rglob("*"))
    unmade(directory, DamagedFileError, r"without its store\.header; restore it from the backup")
    (directory / "lock").unlink()
    unmade(directory, DamagedFileError, "restore it from the backup")
    (directory / "state" / "north").unlink()
    (directory / "letter").write_text("mine")
    unmade(directory, StoreError, "is not empty; a key store is made in a new")
    assert {*before} - {*directory.rglob("*")} == {directory / "lock", directory / "state" / "north"}


def test_no_store_is_made_behind_a_link_or_in_place_of_a_file_nor_anything_left_there(tmp_path) -> None:
    (shared := tmp_path / "shared").mkdir(mode=0o700)
    unopened(shared, StoreError, "no key store in")
    (tmp_path / "link").symlink_to(shared)
    unmade(tmp_path / "link", UnsafeModeError, "link")
    (tmp_path / "file").write_bytes(b"precious")
    unmade(tmp_path / "file", StoreError, "is not empty; a key store is made in a new")
    assert (list(shared.iterdir()), (tmp_path / "file").read_bytes()) == ([], b"precious")


def test_a_link_in_place_of_a_file_the_lock_or_a_folder_is_not_followed_not_even_to_tidy_up(
    directory, tmp_path
) -> None:
    path = directory / "state" / "north"
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    with KeyStore(directory, PASSPHRASE) as store, pytest.raises(UnsafeModeError):
        store.get("state", "north")
    (directory / "lock").unlink()
    (directory / "lock").symlink_to(tmp_path / "target")
    unopened(directory, UnsafeModeError, "plain file")
    assert not (tmp_path / "target").exists()
    (directory / "lock").unlink()
    (directory / "lock").mkdir(mode=0o700)
    unopened(directory, UnsafeModeError)
    (directory / "lock").rmdir()
    (directory / "state").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / ".tmp-mine").write_bytes(b"")
    (directory / "state").symlink_to(tmp_path / "elsewhere")
    unopened(directory, UnsafeModeError, "link")
    assert (tmp_path / "elsewhere" / ".tmp-mine").exists()


def test_a_backup_without_its_empty_folders_serves_but_not_one_without_the_seen_bundles(directory) -> None:
    for kind in ("bundle", "identity", "trust"):
        (directory / kind).rmdir()
    with KeyStore(directory, PASSPHRASE) as store:
        store.put("bundle", "session", SECRET)
        assert store.get("state", "north") == SECRET
    shutil.rmtree(directory / "seen")
    unopened(directory, DamagedFileError, "seen")


def test_an_opened_store_opens_again_by_its_key_which_shows_nowhere_and_fits_no_other_store(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "passphrase").write_text(PASSPHRASE)
    (tmp_path / "passphrase").chmod(0o600)
    vault = Vault(directory, tmp_path / "passphrase").unlocked()
    (tmp_path / "passphrase").unlink()
    monkeypatch.setattr(store_module, "_stretch", None)  # no scrypt
    with vault.open() as store:
        assert store.get("state", "north") == SECRET
    assert repr(vault.key) not in repr(vault)
    monkeypatch.undo()
    shutil.rmtree(directory)
    KeyStore.create(directory, PASSPHRASE, log2_cost=10).close()
    with pytest.raises(StoreError, match="has been exchanged since it was opened first: start this process again"):
        vault.open()


@needs_modes
@pytest.mark.parametrize(("mode", "own", "fits"), [(0o440, True, True), (0o444, True, False), (0o440, False, False)])
def test_a_passphrase_from_systemd_may_show_its_access_list_as_the_groups(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, own: bool, fits: bool
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path if own else directory))
    (tmp_path / "passphrase").write_text(PASSPHRASE)
    (tmp_path / "passphrase").chmod(mode)
    vault = Vault(directory, tmp_path / "passphrase")
    if fits:
        vault.open().close()
    else:
        with pytest.raises(UnsafeModeError, match="is open to other users"):
            vault.open()


def test_one_process_serves_with_a_store_and_others_open_it_meanwhile(directory: Path) -> None:
    with store_module.serving(directory):
        with KeyStore(directory, PASSPHRASE) as store:
            assert store.strangers() == ()
        with pytest.raises(LockedError, match="another `fhe-auc serve`"), store_module.serving(directory):
            pass
    with store_module.serving(directory):
        pass
