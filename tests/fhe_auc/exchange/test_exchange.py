"""What lies in a folder that others write into is read once, whatever it is, and what is made there is theirs, too."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import LONGEST, read_from_others
from fhe_auc.base.logs import RoleLog
from fhe_auc.exchange.exchange import Arrivals, Folder, Version, make_folder
from tests.suite.physics import RoleClock
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
def test_a_folder_is_as_the_one_above_but_others_only_read_it_and_is_left_alone_where_it_is_there(
    mode: int, tmp_path: Path
) -> None:
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(mode)
    for _ in range(2):
        make_folder(exchange / "night 1", inside=True)
        make_folder(exchange / "night 1" / "round-1", inside=True)
    with pytest.raises(OSError, match="night 2"):  # an exchange that is away is not made anew
        make_folder(exchange / "night 2" / "round-1", inside=True)
    for made in (exchange / "night 1", exchange / "night 1" / "round-1"):
        assert (stat.S_IMODE(made.stat().st_mode), made.stat().st_gid) == (mode & ~0o022, exchange.stat().st_gid)
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
    arrivals.begin()
    arrivals.names("")
    return arrivals.read("file", longest)


def make_socket(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(file))


@needs_unix_files
@pytest.mark.parametrize(
    "make",
    [
        *(os.mkfifo, make_socket, lambda file: file.symlink_to(file)),
        *(lambda file: file.symlink_to(__file__), lambda file: file.write_bytes(bytes(101))),
    ],
    ids=["pipe", "socket", "loop", "link", "oversized"],
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
    file.unlink()
    assert looked(arrivals) is None
    assert arrivals.skipped == {}
    file.write_bytes(b"ours")
    assert looked(arrivals) == b"ours"
    with pytest.raises(InputError, match="a device"):
        read_from_others("/dev/zero", plain=True)


def test_what_does_not_count_is_read_at_each_look_and_what_is_good_once_it_has_changed(tmp_path: Path) -> None:
    """Whatever time and size say of what is not good yet."""
    file, arrivals, parsed = tmp_path / "file", Arrivals(Folder(tmp_path)), list[bytes]()

    def refuse(data: bytes) -> bytes:
        parsed.append(data)
        if data != b"whole":
            raise InputError("cut short")
        return data

    def take() -> bytes | None:
        arrivals.begin()
        arrivals.names("")
        return arrivals.take("file", refuse)

    file.write_bytes(b"whoxx")
    before = file.stat()
    assert take() is None
    assert (arrivals.skipped, arrivals.stuck) == ({"file": "cut short"}, set())
    assert take() is None
    assert (arrivals.stuck, parsed) == ({"file"}, [b"whoxx"])  # which is the same, and told as such
    file.write_bytes(b"whole")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [take() for _ in range(3)] == [b"whole"] * 3
    assert (arrivals.skipped, arrivals.stuck, parsed) == ({}, set(), [b"whoxx", b"whole"])
    file.write_bytes(b"other")
    assert take() is None
    file.unlink()
    assert take() is None
    assert arrivals.skipped == {}


class Coarse(Folder):
    """Tells times of whole days."""

    coarse = 86_400.0

    def list(self, place: str) -> dict[str, Version]:
        return {name: (version[0] // 10**9 // 86_400, version[-1]) for name, version in super().list(place).items()}


def test_where_times_are_coarse_what_is_good_is_read_until_it_has_rested(tmp_path: Path) -> None:
    clock = RoleClock("")
    file, arrivals = tmp_path / "file", Arrivals(Coarse(tmp_path), clock=clock)

    def take() -> bytes | None:
        arrivals.begin()
        arrivals.names("")
        return arrivals.take("file", bytes)

    for data in (b"one", b"two"):
        file.write_bytes(data)
        assert take() == data
    clock.physics.passed += Coarse.coarse
    assert take() == b"two"
    file.unlink()
    file.write_bytes(b"six")  # as old, by what the exchange tells
    assert take() == b"two"


def test_what_cannot_be_read_for_a_moment_is_tried_again_though_it_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, arrivals = tmp_path / "file", Arrivals(Folder(tmp_path), RoleLog())
    file.write_bytes(b"whole")
    with monkeypatch.context() as away:
        away.setattr(os, "open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
        assert [looked(arrivals) for _ in range(2)] == [None] * 2
    assert arrivals.skipped == {"file": "Permission denied"}
    assert looked(arrivals) == b"whole"
