import errno
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import (
    LONGEST,
    read_config,
    read_from_others,
    read_secret,
    read_text,
    replacing,
    require_writable,
    write_atomically,
)
from tests.support.platforms import full_disk, needs_limits, needs_linux, needs_modes, needs_unix_files


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _fail_in_the_middle(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"half of it")
        raise KeyboardInterrupt


@pytest.mark.parametrize("durable", [False, True])
def test_what_is_written_is_there_alone_and_what_fails_leaves_no_new_file(durable: bool, tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"old", durable=durable)
    write_atomically(tmp_path / "file", b"new", durable=durable)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    path = tmp_path / "file"
    path.write_bytes(b"old")
    for name in ("file", "new"):
        with pytest.raises(KeyboardInterrupt):
            _fail_in_the_middle(tmp_path / name)
    assert path.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_somebody_reads_for_a_moment_is_replaced(tmp_path: Path) -> None:
    """On Windows it cannot be while it is open: the new one is put there once the reader is done."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as file:
        done = threading.Timer(0.1, file.close)
        done.start()
        write_atomically(path, b"new")
        done.join()
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere a file that is open can be replaced")
def test_a_file_that_stays_open_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb"), pytest.raises(PermissionError, match="file"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@needs_modes
def test_a_private_file_is_never_open_to_others_and_others_keep_their_mode_or_get_the_umask_s(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"")
    (tmp_path / "old").chmod(0o644)
    write_atomically(tmp_path / "old", b"new", mode=0o600)
    assert _mode(tmp_path / "old") == 0o600
    (tmp_path / "old").chmod(0o640)
    (tmp_path / "usual").write_bytes(b"")
    for name in ("old", "new"):
        write_atomically(tmp_path / name, b"new")
    assert _mode(tmp_path / "old") == 0o640
    assert _mode(tmp_path / "new") == _mode(tmp_path / "usual")


def test_a_link_of_the_users_own_is_followed_and_a_link_to_a_private_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "file"
    target.write_bytes(b"old")
    for name in ("followed", "replaced"):
        (tmp_path / name).symlink_to(target)
    write_atomically(tmp_path / "followed", b"new")
    write_atomically(tmp_path / "replaced", b"secret", mode=0o600)
    assert target.read_bytes() == b"new"
    assert (tmp_path / "followed").is_symlink()
    assert not (tmp_path / "replaced").is_symlink()


@needs_unix_files
def test_a_pipe_is_written_to_and_stays_a_pipe_and_one_that_never_ends_is_not_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, b"text")
    assert os.read(reader, 10) == b"text"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    os.close(reader)
    with pytest.raises(InputError, match="longer than"):
        read_from_others("/dev/zero")


@needs_linux("a file that stands for a full disk")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as caught:
        write_atomically("/dev/full", b"text")
    assert caught.value.errno == errno.ENOSPC


@needs_limits
def test_what_a_disk_has_no_room_for_is_named_and_not_there(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(OSError, match="File too large") as caught:
        write_atomically(tmp_path / "result", b"1")
    assert (caught.value.filename, [*tmp_path.iterdir()]) == (str(tmp_path / "result"), [])


def test_an_error_names_the_file_and_looking_whether_it_can_be_written_leaves_it_as_it_is(tmp_path: Path) -> None:
    for path in ("/proc/file", "/no such folder/file"):
        with pytest.raises(OSError, match="file") as caught:
            write_atomically(path, b"text")
        assert caught.value.filename == path
        with pytest.raises(InputError, match=f"^figure '{path}'.*(no folder|No such|denied|not permitted)"):
            require_writable(path, "figure")
    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "new"):
        require_writable(tmp_path / name, "file")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_what_others_send_is_read_up_to_the_longest_of_our_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs")
    assert read_from_others(path) == b"theirs"
    with path.open("ab") as file:
        file.truncate(LONGEST + 1)
    with pytest.raises(InputError, match="longer than 268,435,456 bytes"):
        read_from_others(path)
    with pytest.raises(FileNotFoundError):
        read_from_others(tmp_path / "absent")


TEXT = 'title = "Übung"\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("marks", [0, 1, 2])
def test_small_texts_are_read_as_editors_of_windows_and_powershell_write_them(
    encoding: str, marks: int, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(("\ufeff" * marks + TEXT).encode(encoding))
    assert read_text(path) == TEXT.encode()
    assert read_config(path, ["title"]) == {"title": "Übung"}
    path.chmod(0o600)
    assert read_secret(path, "password") == TEXT.strip()


def test_what_is_no_text_or_too_long_is_refused_and_signed_bytes_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfsigned")
    assert read_from_others(path) == b"\xef\xbb\xbfsigned"
    with pytest.raises(InputError, match="longer than 5 bytes"):
        read_text(path, 5)
    for data, told in (
        (b"\xff", ".*codec can't decode .*: save it as UTF-8$"),
        (b"\xff\xfea", ".*codec can't decode .*: save it as UTF-8$"),
        ("title = 'Übung'".encode("windows-1252"), ".*codec can't decode .*: save it as UTF-8$"),
        (b"PK\x03\x04 xl/workbook.xml", "'.*file' is an Excel workbook$"),
        (b"\x1f\x8b\x08", "'.*file' is a file compressed by gzip$"),
    ):
        path.write_bytes(data)
        with pytest.raises(InputError, match=rf"^configuration file '.*file': {told}"):
            read_config(path, None)


@needs_modes
def test_a_secret_is_one_line_that_nobody_else_reads_and_no_message_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"", b"\n", b"secret\nsecret\n", b"\xffsecret", b"\xef\xbb\xbf\n", b"\xff\xfes"):
        path.write_bytes(data)
        path.chmod(0o600)
        with pytest.raises(InputError, match=r"^password file '.*file' is not one line of text$"):
            read_secret(path, "password")
    path.write_text("secret")
    path.chmod(0o640)
    with pytest.raises(InputError, match=r"^password file '.*file' is open to other users: chmod 600 it$"):
        read_secret(path, "password")
    with pytest.raises(InputError, match=r"^password file '.*absent' cannot be read: No such file"):
        read_secret(tmp_path / "absent", "password")
