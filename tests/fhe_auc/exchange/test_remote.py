"""An exchange is the same wherever it lies; what a server does or says ends nothing, and no stranger's key is taken."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.exchange.exchange import Arrivals, Exchange
from fhe_auc.exchange.remote import open_exchange
from tests.support.exchanges import KINDS, url_of
from tests.support.processes import wait_for


@pytest.fixture(scope="module", params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with url_of(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture
def exchange(url: str) -> Iterator[Exchange]:
    """Empty, and so it is afterwards."""
    made = open_exchange(url)
    yield made
    with ExitStack() as left:
        for place in ("north/1/", "north/", "south/"):
            try:
                names = made.list(place)
            except FileNotFoundError:
                continue
            for name in names:
                if not name.endswith("/"):
                    left.callback(made.remove, place + name)


def test_what_is_put_is_listed_read_replaced_and_removed(exchange: Exchange) -> None:
    with pytest.raises(FileNotFoundError):
        exchange.list("north/1/") or exchange.read("north/1/file")
    exchange.put("north/1/file", b"first")
    exchange.put("north/1/empty", b"")
    exchange.put("north/St=2E Mary's ü.bundle", b"named")
    assert set(exchange.list("north/")) == {"1/", "St=2E Mary's ü.bundle"}
    assert exchange.read("north/St=2E Mary's ü.bundle") == b"named"
    assert set(exchange.list("north/1/")) == {"file", "empty"}
    assert (exchange.read("north/1/file"), exchange.read("north/1/empty")) == (b"first", b"")
    before = exchange.list("north/1/")
    assert exchange.list("north/1/") == before
    exchange.put("north/1/file", b"second one")
    assert exchange.read("north/1/file") == b"second one"
    after = exchange.list("north/1/")
    assert (after["file"] != before["file"], after["empty"] == before["empty"]) == (True, True)
    large = os.urandom(3_000_000)
    exchange.put("north/1/file", large)
    assert exchange.read("north/1/file") == large
    assert exchange.read("north/1/file", len(large)) == large
    with pytest.raises(InputError, match="longer than 2,999,999 bytes"):
        exchange.read("north/1/file", len(large) - 1)
    for _ in range(2):
        exchange.remove("north/1/file")
    with pytest.raises(FileNotFoundError):
        exchange.read("north/1/file")
    exchange.remove("north/1/empty")
    with pytest.raises(FileNotFoundError):
        exchange.list("north/1/") or exchange.read("north/1/file")
    with pytest.raises(InputError, match="leads out of"):
        exchange.put("north/../south/file", b"")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # the server's
def test_what_another_has_put_there_is_seen_at_once(exchange: Exchange, url: str) -> None:
    """Nothing that was listed is remembered; and a process that is made by another reaches the exchange, too."""
    other = open_exchange(url)
    exchange.put("north/first", b"1")
    assert set(exchange.list("north/")) == {"first"}
    other.put("north/second", b"2")
    assert set(exchange.list("north/")) == {"first", "second"}
    other.remove("north/first")
    assert set(exchange.list("north/")) == {"second"}
    child = os.fork()
    if not child:
        status = 1
        try:
            exchange.put("north/third", exchange.read("north/second"))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert set(exchange.list("north/")) == {"second", "third"}
    assert exchange.read("north/third") == b"2"


def test_more_names_than_any_session_has_are_not_taken_in(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fhe_auc.exchange.exchange.MOST_NAMES", 2)
    for name in ("one", "two"):
        exchange.put(f"north/{name}", b"")
    assert set(exchange.list("north/")) == {"one", "two"}
    exchange.put("north/three", b"")
    with pytest.raises(InputError, match="more than 2 files in 'north/': whose place it is removes them"):
        exchange.list("north/")
    exchange.remove("north/three")


def test_a_file_of_the_same_length_put_over_another_is_seen_once_times_can_tell(exchange: Exchange) -> None:
    """Where times are whole seconds a file is read again until it has rested."""
    arrivals = Arrivals(exchange)
    for data in (b"aaaa", b"bbbb", b"cccc"):
        exchange.put("north/file", data)
        arrivals.begin()
        arrivals.names("north/")
        assert arrivals.take("north/file", bytes) == data


def test_no_connection_stays_after_an_error(exchange: Exchange, url: str) -> None:
    """With SFTP it would be a thread and a socket, at each pass."""
    before = threading.active_count()
    for _ in range(3):
        with pytest.raises((OSError, InputError)):
            exchange.read("n" * 5000)
    wait_for(lambda: threading.active_count() <= before)


def test_an_exchange_that_is_not_there_is_named(url: str) -> None:
    nowhere = url.rstrip("/") + "-nowhere" if "://" not in url or url.startswith(("sftp", "s3")) else url + "/nowhere"
    if url.startswith("s3"):
        nowhere = "s3://nowhere/exchange"
    with pytest.raises(InputError, match=r"there is no .*nowhere"):
        open_exchange(nowhere).list("north/")


def test_a_host_whose_key_is_another_or_not_known_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with url_of("sftp", tmp_path) as url:
        known = tmp_path / ".ssh" / "known_hosts"
        right = known.read_text()
        open_exchange(url).put("north/file", b"")
        for wrong in ("", right.replace(right.split()[-1], _other_key())):
            known.write_text(wrong)
            with pytest.raises(OSError, match=r"(?i)host key|not found in known_hosts"):
                open_exchange(url).list("")


def _other_key() -> str:
    import asyncssh

    return asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().split()[1]


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("ftp://host/exchange", "begins with s3, sftp, webdav, webdavs, not 'ftp'"),
        ("s3:///exchange", "names no host"),
        ("sftp://north:secret@host/exchange", "no URL has a password"),
    ],
)
def test_a_url_that_cannot_be_is_refused_without_telling_what_is_in_it(where: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        open_exchange(where)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("where", ["s3://study/exchange", "sftp://127.0.0.1:1/exchange", "webdav://127.0.0.1:1"])
def test_a_server_that_is_away_is_an_error_of_the_system(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    for _ in range(2):
        with pytest.raises(OSError, match=r".+") as caught:
            open_exchange(where).list("north/")
        assert not isinstance(caught.value, FileNotFoundError)
