"""The key store: what is kept, what is refused, and that nothing readable touches the disk."""

import errno
import os
import pickle
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from fhe_auc.base.serialise import FIRST_KEPT_VERSION, KeptFormat
from fhe_auc_keys.errors import DamagedFileError, LockedError, StoreError, UnsafeModeError
from fhe_auc_keys.store import database as database_module
from fhe_auc_keys.store import key_store as store_module
from fhe_auc_keys.store.database import Database
from fhe_auc_keys.store.key_store import STORE, KeyStore, is_in
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.identity import Identity
from tests.support.platforms import needs_modes
from tests.support.wire import flipped

PASSPHRASE = "correct horse, K\u00f6ln"  # noqa: S105
SECRET = b"the secret key's own coefficients"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with KeyStore.create(tmp_path / "store", PASSPHRASE) as store:
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
        KeyStore.create(directory, PASSPHRASE)


def test_what_is_put_comes_back_also_with_the_passphrase_in_another_normal_form(directory) -> None:
    assert not any(SECRET[:12] in each.read_bytes() for each in directory.rglob("*") if each.is_file())
    with KeyStore(directory, "correct horse, Ko\u0308ln") as store:
        assert store.get("state", "north") == SECRET
        assert store.names("state") == ("north",)
        identity = Identity.create("north")
        store.put("identity", "north", identity.to_bytes())
        assert Identity.from_bytes(store.get("identity", "north")).signing_key == identity.signing_key


def test_a_wrong_passphrase_a_newer_version_and_a_damaged_header_are_told_apart(directory) -> None:
    for wrong in ("correct horse", "", PASSPHRASE + " "):
        unopened(directory, StoreError, r"passphrase is (not this key store's|empty, or not text)", wrong)
    newer = KeptFormat(store_module._FORMAT.magic, bytes, "key store header", version=FIRST_KEPT_VERSION + 1)
    with Database(directory / STORE) as database:
        ((good,),) = database.rows("select data from header")
        database.change("update header set data = ?", newer.frame(b"who knows"))
    # Whoever reads that it is damaged takes the backup, which is as new, or makes a new one.
    unopened(directory, StoreError, r"from a newer fhe-auc than this, .*: install the newer one here$")
    for position in range(len(good)):
        for bad in (flipped(good, position), good[:position]):
            with Database(directory / STORE) as database:
                database.change("update header set data = ?", bad)
            unopened(directory, DamagedFileError)


def test_every_flipped_or_missing_byte_of_an_entry_is_found_and_another_entry_s_data(store) -> None:
    store.put("state", "south", b"other")
    store.put("bundle", "north", b"other")
    update = "update entry set data = ? where kind = 'state' and name = 'north'"
    (good, *others) = (data for (data,) in store.rows("select data from entry order by name, kind desc"))
    for data in [f(good, at) for at in range(len(good)) for f in (flipped, lambda data, at: data[:at])] + others:
        store.change(update, data)
        with pytest.raises(DamagedFileError, match="state/north"):
            store.get("state", "north")
    store.change(update, good)
    assert store.get("state", "north") == SECRET


@pytest.mark.parametrize("at", [0, 20, 100, 4096, 4200, -1])
def test_a_file_that_is_cut_or_overwritten_is_damaged_and_never_a_traceback(directory, at) -> None:
    file = directory / STORE
    whole = file.read_bytes()
    for bad in (whole[:at], whole[:at] + b"\xff" * 60 + whole[at:][60:]):
        file.write_bytes(bad)
        try:
            with KeyStore(directory, PASSPHRASE) as store:
                assert store.get("state", "north") == SECRET  # what was hit is of no use to anybody
        except StoreError:
            pass


def test_entries_are_not_overwritten_unasked_and_stores_never(directory, store) -> None:
    with pytest.raises(StoreError, match="the key store has a"):
        store.put("state", "north", b"new")
    store.put("state", "north", b"new", replace=True)
    assert store.get("state", "north") == b"new"
    with pytest.raises(StoreError, match="the key store has no"):
        store.get("state", "nobody")
    unmade(directory, StoreError, "is not empty; a key store is made in a new")
    unopened(directory / "nowhere", StoreError, "no key store in")


def test_two_processes_that_open_a_store_at_one_moment_do_not_keep_each_other_out(directory: Path) -> None:
    """Were a lock for reading kept while a process waits, neither would get the whole one."""
    opening = (
        "import sys\nfrom pathlib import Path\nfrom fhe_auc_keys.store.database import Database\n"
        "for _ in range(100): Database(Path(sys.argv[1]), patience=60.0).close()"
    )
    processes = [Popen([sys.executable, "-c", opening, str(directory / STORE)], stderr=PIPE) for _ in range(2)]
    for process in processes:
        assert process.communicate()[1] == b""
        assert process.returncode == 0


@needs_modes
@pytest.mark.parametrize("path", [".", "store.sqlite"])
def test_what_others_can_read_is_refused(directory, path) -> None:
    target = directory / path
    target.chmod(target.stat().st_mode | 0o040)
    with pytest.raises(UnsafeModeError, match="chmod -R go="), KeyStore(directory, PASSPHRASE) as store:
        store.get("state", "north")


def test_a_second_process_is_kept_out_until_the_first_is_done_and_none_is_pickled(directory, store) -> None:
    unopened(directory, LockedError)
    with pytest.raises(LockedError, match=r"open, and has not closed it within 0\.2 s$"):
        KeyStore(directory, PASSPHRASE, patience=0.2)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(store)
    store.close()
    with pytest.raises(LockedError, match="closed"):
        store.get("state", "north")
    KeyStore(directory, PASSPHRASE).close()


def test_what_belongs_together_is_kept_as_a_whole_or_not_at_all(directory) -> None:
    with KeyStore(directory, PASSPHRASE) as store:
        before = store.count
        with suppress(EOFError), store.together():
            store.put("state", "south", b"other")
            store.add_line(b"a line")
            with store.together():  # part of the outer one
                store.remove("state", "north")
            raise EOFError
        with store.together():
            assert store.get("state", "north") == SECRET
        assert (store.names("state"), store.trail(), store.count) == (("north",), [], before)
        with store.together():
            store.put("state", "south", b"other")
            store.add_line(b"a line")
    with KeyStore(directory, PASSPHRASE) as store:
        assert (store.names("state"), store.trail(), store.count) == (("north", "south"), [b"a line"], before + 1)


def test_a_process_that_is_killed_leaves_what_it_has_committed(directory) -> None:
    """SIGKILL at any time: each entry is there with the line of the audit trail that tells of it."""
    program = (
        "import sys; from pathlib import Path; from fhe_auc_keys.store.key_store import KeyStore\n"
        "with KeyStore(Path(sys.argv[1]), sys.argv[2]) as store:\n"
        "    for number in range(10**9):\n"
        "        with store.together():\n"
        "            store.put('state', 'north', str(number).encode(), replace=True)\n"
        "            store.add_line(str(number).encode())\n"
        "        print(number, flush=True)\n"
    )
    for told in (0, 15, 35):
        with Popen([sys.executable, "-c", program, str(directory), PASSPHRASE], stdout=PIPE) as process:
            assert process.stdout is not None
            while int(process.stdout.readline()) < told:
                pass
            process.kill()
        with KeyStore(directory, PASSPHRASE) as store:
            last = store.line(store.lines)
            assert store.get("state", "north") == last
            assert int(last) >= told


def test_what_is_deleted_is_not_in_the_file_any_more(directory) -> None:
    with KeyStore(directory, PASSPHRASE) as store:
        ((data,),) = store.rows("select data from entry")
        assert data in (directory / STORE).read_bytes()
        store.put("state", "north", b"new", replace=True)
    assert data not in (directory / STORE).read_bytes()


def test_a_store_that_was_not_finished_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the first, second, … step; with room again, the same call makes the store."""

    def failing(action):
        def act(*given, **named):
            if not next(left):
                raise OSError(errno.ENOSPC, "No space left on device")
            return action(*given, **named)

        return act

    for full in range(1, 20):
        left, directory = iter([1] * (full - 1) + [0] + [1] * 99), tmp_path / str(full)
        with monkeypatch.context() as patched:
            for where, name in ((Path, "mkdir"), (Path, "rename"), (os, "open"), (database_module, "commit")):
                patched.setattr(where, name, failing(getattr(where, name)))
            with suppress(OSError):
                KeyStore.create(directory, PASSPHRASE).close()
                break
        if not is_in(directory):
            unopened(directory, StoreError, "no key store in")
            with KeyStore.create(directory, PASSPHRASE) as store:
                store.put("state", "north", b"kept")
        with KeyStore(directory, PASSPHRASE) as store:
            assert store.names("state") in ((), ("north",))
        assert [each.name for each in directory.iterdir()] == [STORE]
    assert full > 4


def test_no_link_is_followed_and_no_store_made_in_place_of_a_file_nor_anything_left_there(directory, tmp_path) -> None:
    (shared := tmp_path / "shared").mkdir(mode=0o700)
    unopened(shared, StoreError, "no key store in")
    (tmp_path / "link").symlink_to(shared)
    unmade(tmp_path / "link", UnsafeModeError, "link")
    (tmp_path / "file").write_bytes(b"precious")
    unmade(tmp_path / "file", StoreError, "is not empty; a key store is made in a new")
    assert (list(shared.iterdir()), (tmp_path / "file").read_bytes()) == ([], b"precious")
    (directory / STORE).rename(tmp_path / "moved")
    (directory / STORE).symlink_to(tmp_path / "moved")
    unopened(directory, UnsafeModeError, "link")
    (directory / STORE).unlink()
    (directory / STORE).mkdir(mode=0o700)
    unopened(directory, UnsafeModeError, "odd kind")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what is on a network drive")
def test_a_store_on_a_network_drive_is_refused(directory, tmp_path, monkeypatch) -> None:
    mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:40 / {} rw,relatime - {} server:/home rw\n"
    monkeypatch.setattr(database_module, "_MOUNTS", listed := tmp_path / "mountinfo")
    for where, kind, fits in (
        (directory.parent, "nfs4", False),
        (directory, "cifs", False),
        (directory.parent, "xfs", True),
        ("/elsewhere", "nfs4", True),
        (f"{directory.parent}-2", "nfs4", True),
    ):
        listed.write_text(mounts.format(where, kind))
        if fits:
            KeyStore(directory, PASSPHRASE).close()
        else:
            unopened(directory, StoreError, rf"on a network drive \({kind}\), where no lock")
            unmade(directory.parent / "new", StoreError, "network drive") if where == directory.parent else None


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
    KeyStore.create(directory, PASSPHRASE).close()
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


@needs_modes
@pytest.mark.parametrize("data", [b"\xef\xbb\xbf%s\r\n", b"\xef\xbb\xbf%s", b"%s\r\n"])
def test_a_passphrase_file_opens_the_store_however_an_editor_has_saved_it(
    directory: Path, tmp_path: Path, data: bytes
) -> None:
    for content in (data % PASSPHRASE.encode(), (data % PASSPHRASE.encode()).decode("utf-8-sig").encode("utf-16")):
        (tmp_path / "passphrase").write_bytes(content)
        (tmp_path / "passphrase").chmod(0o600)
        Vault(directory, tmp_path / "passphrase").open().close()


def test_one_process_serves_with_a_store_and_others_open_it_meanwhile(directory: Path) -> None:
    with store_module.serving(directory):
        with KeyStore(directory, PASSPHRASE) as store:
            assert store.strangers() == ()
        with pytest.raises(LockedError, match="another `fhe-auc serve`"), store_module.serving(directory):
            pass
    with store_module.serving(directory):
        pass
