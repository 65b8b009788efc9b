"""What lies in a folder that others write into is read once, whatever it is, and what is made there is theirs, too."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.base.exchange import Arrivals, Folder, make_folder
from fhe_auc.base.files import LONGEST, read_from_others
from fhe_auc.base.logs import RoleLog
from tests.support.platforms import needs_modes, needs_unix_files


@pytest.fixture
def strict() -> Iterator[None]:
    """A user whose files are closed to all others, if nothing else is said."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@needs_modes
@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("mode", [0o2770, 0o755, 0o700, 0o1777, 0o2750])
def test_a_folder_has_the_mode_of_the_one_above_and_is_left_alone_where_it_is_there(mode: int, tmp_path: Path) -> None:
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(mode)
    for _ in range(2):
        make_folder(exchange / "night 1", inside=True)
        make_folder(exchange / "night 1" / "round-1", inside=True)
    with pytest.raises(OSError, match="night 2"):  # an exchange that is away is not made anew
        make_folder(exchange / "night 2" / "round-1", inside=True)
    for made in (exchange / "night 1", exchange / "night 1" / "round-1"):
        assert (stat.S_IMODE(made.stat().st_mode), made.stat().st_gid) == (mode, exchange.stat().st_gid)
    os.umask(0o022)
    make_folder(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o755  # though the folder above is closed
    (exchange / "night 1").chmod(0o700)
    make_folder(exchange / "night 1")
    assert stat.S_IMODE((exchange / "night 1").stat().st_mode) == 0o700
    assert [each.name for each in exchange.iterdir()] == ["night 1"]


@needs_unix_files
def test_a_link_that_others_have_put_there_leads_nobody_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "round-1").symlink_to(tmp_path / "mine")
    with pytest.raises(InputError, match="round-1' is a link"):
        make_folder(tmp_path / "round-1", inside=True)
    (tmp_path / "round-2").write_bytes(b"")
    with pytest.raises(OSError, match="round-2"):
        make_folder(tmp_path / "round-2", inside=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine", "round-1", "round-2"]
    (tmp_path / "mine" / "night").mkdir(parents=True, exist_ok=True)
    (tmp_path / "mine" / "night" / "file").write_bytes(b"mine")
    exchange = Folder(tmp_path)
    for way in (lambda: exchange.list("round-1/"), lambda: exchange.list("round-1/night/")):
        with pytest.raises(NotADirectoryError):
            way()
    for act in (exchange.read, exchange.remove):
        with pytest.raises(NotADirectoryError):
            act("round-1/night/file")
        with pytest.raises(InputError, match="leads out of"):
            act("round-1/../mine/night/file")
    with pytest.raises(InputError, match="leads out of"):
        exchange.put("../file", b"")
    assert (tmp_path / "mine" / "night" / "file").read_bytes() == b"mine"


def looked(arrivals: Arrivals, longest: int = LONGEST) -> bytes | None:
    """Look what is there, and read it."""
    arrivals.names()
    return arrivals.read("file", longest)


def make_socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(file))


@needs_unix_files
@pytest.mark.parametrize(
    "make",
    [
        *(os.mkfifo, Path.mkdir, make_socket, lambda file: file.symlink_to(file)),
        *(lambda file: file.symlink_to(__file__), lambda file: file.write_bytes(bytes(101))),
    ],
    ids=["pipe", "folder", "socket", "loop", "link", "oversized"],
)
def test_what_is_no_file_of_ours_is_named_once_and_not_waited_for(
    make: Callable[[Path], object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    make(file)
    arrivals = Arrivals(Folder(tmp_path), RoleLog())
    for _ in range(3):
        assert looked(arrivals, 100) is None
    (told,) = caplog.messages
    assert told == f"skipped {file}: {arrivals.skipped['file']}"
    assert "longer than 100 bytes" in told or "a link, a folder, a pipe or a device" in told
    file.rmdir() if file.is_dir() else file.unlink()
    assert looked(arrivals) is None
    assert arrivals.skipped == {}
    file.write_bytes(b"ours")
    assert looked(arrivals) == b"ours"
    with pytest.raises(InputError, match="a device"):
        read_from_others("/dev/zero", plain=True)


def test_a_file_is_read_once_and_again_when_it_has_changed_and_rests(tmp_path: Path) -> None:
    """Other bytes under the same inode, size and time show that it is not read again meanwhile."""
    file, arrivals = tmp_path / "file", Arrivals(Folder(tmp_path))

    def refuse(data: bytes) -> bytes:
        if data != b"whole":
            raise InputError("cut short")
        return data

    def take() -> bytes | None:
        arrivals.names()
        return arrivals.take("file", refuse)

    file.write_bytes(b"wh")
    assert take() is None
    assert arrivals.skipped == {"file": "cut short"}
    found = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"xx")
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert [looked(arrivals) for _ in range(3)] == [None] * 3
    for growing in (b"who", b"whol", b"whole"):
        file.write_bytes(growing)
        assert take() is None
        assert arrivals.skipped == {"file": "cut short"}
    assert [take() for _ in range(3)] == [b"whole"] * 3
    assert arrivals.skipped == {}


def test_what_cannot_be_read_for_a_moment_is_tried_again_though_it_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, arrivals = tmp_path / "file", Arrivals(Folder(tmp_path))
    file.write_bytes(b"whole")
    with monkeypatch.context() as away:
        away.setattr(os, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        assert [looked(arrivals) for _ in range(2)] == [None] * 2
    assert arrivals.skipped == {"file": "Permission denied"}
    assert looked(arrivals) == b"whole"
