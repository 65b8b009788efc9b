"""A real SuperLink, and nodes at its door: who reaches what, and what a node is told that does not get in."""

import asyncio
import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

import httpx
from flwr.supercore.error import ApiErrorCode

from fhe_auc.base.errors import InputError
from fhe_auc.machines.flower import superlink, supernode
from fhe_auc.machines.flower.certificates import node_keys
from fhe_auc.machines.flower.runtime import Flower
from fhe_auc.machines.flower.superlink import FleetAlone
from fhe_auc.machines.processes import reserved_port
from tests.support.processes import running_first

pytestmark = [pytest.mark.xdist_group("flower"), pytest.mark.timeout(300)]

EVERYWHERE = "0.0.0.0"  # noqa: S104 - who reaches what there is what is tested

SHIFTED = """
import datetime
class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=100)
datetime.datetime = Shifted
"""


class Link(Flower):
    """A SuperLink that listens on all addresses of this machine, as one for other machines does."""

    def __init__(self) -> None:
        super().__init__(deployed=True)
        self.numbers = count()
        assert self._tls is not None
        self.authority = str(self._tls.authority)
        self.start_superlink("--host", EVERYWHERE)

    def status(self, address: str, path: str, **headers: str) -> int:
        trusted = ssl.create_default_context(cafile=self.authority)
        trusted.check_hostname = False  # it is for 127.0.0.1
        with httpx.Client(verify=trusted) as client:
            url = f"https://{address}:{self._port}{path}"
            return client.request("GET" if path == "/health" else "POST", url, headers=headers).status_code

    def key(self, name: str) -> tuple[str, str]:
        """The option with a new key, which is registered."""
        private, public = node_keys(self.folder, name)
        self.register(public)
        return "--auth-supernode-private-key", str(private)

    def node(self, *arguments: str, **variables: str) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a node; return it and its log."""
        command = ["fhe-auc", "flower", "supernode", "--bundle-sha256", "0" * 64, "--superlink", self.superlink]
        command += ["--root-certificates", self.authority, *arguments]
        name = f"node-{next(self.numbers)}"
        return self.processes.start(name, command, **variables), self.folder / f"{name}.log"

    def ending(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Status and last line of a node that does not get in."""
        node, log = self.node(*arguments, **variables)
        return node.wait(timeout=200), log.read_text().splitlines()[-1]


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    with Link() as made:
        yield made


def test_other_machines_reach_the_fleet_api_and_nothing_else(link: Link) -> None:
    """127.0.0.2 stands for the address at which other machines reach this one."""
    with pytest.raises(InputError, match=r"--host is 0\.0\.0\.0 .* not '10\.0\.0\.5'"):  # a stranger to Flower's own
        superlink.run(["--host", "10.0.0.5", "--insecure"])
    for path in ("/v1/control/list-runs", "/v1/control/start-run", "/v1/runtime/acquire-task", "/docs", "/health"):
        assert link.status("127.0.0.2", path, **{"x-forwarded-for": "127.0.0.1"}) == 403
        assert link.status("127.0.0.1", path) != 403
    for address in ("127.0.0.1", "127.0.0.2"):
        assert link.status(address, "/v1/fleet/pull-messages") not in (403, 404)
    # What it keeps only its user can read.
    database = link.folder / "flwr" / "superlink.db"
    assert database.read_bytes()[:6] == b"SQLite"
    assert database.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("server", "path", "passes"),
    [
        (("127.0.0.1", 9092), "/v1/control/start-run", True),
        (("10.0.0.5", 9092), "/v1/fleet/pull-messages", True),
        (("10.0.0.5", 9092), "/v1/control/start-run", False),
        (("10.0.0.5", 9092), "/v1/fleet", False),
        (("10.0.0.5", 9092), "//v1/fleet/pull-messages", False),
        (("10.0.0.5", 9092), "/V1/FLEET/pull-messages", False),
        (("127.0.0.11", 9092), "/v1/runtime/acquire-task", False),
        (None, "/v1/control/start-run", False),
    ],
)
def test_where_a_request_was_sent_decides_what_it_reaches(server: Any, path: str, passes: bool) -> None:
    reached: list[str] = []
    answered: list[Any] = []

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])

    async def send(message: Any) -> None:
        answered.append(message.get("status"))

    for kind in ("http", "websocket"):
        scope = {"type": kind, "server": server, "path": path, "headers": [], "extensions": {}}
        asyncio.run(FleetAlone(inside)(scope, None, send))  # type: ignore[arg-type]
    assert len(reached) == (2 if passes else 0)
    assert bool(answered) is not passes


def test_a_node_whose_clock_is_wrong_says_by_how_much(link: Link, tmp_path: Path) -> None:
    key = link.key("fast")
    status, told = link.ending(*key, **running_first(tmp_path, SHIFTED))
    assert (status, told.startswith("error: this machine's clock is ")) == (1, True)
    assert "ahead of the SuperLink's" in told
    assert "set the clock (NTP)" in told


NOW = datetime(2026, 5, 4, 12, tzinfo=timezone.utc)


def response(status: int, *, seconds_ahead: float = 0, code: int | None = None) -> httpx.Response:
    date = NOW - timedelta(seconds=seconds_ahead)
    content = b"" if code is None else json.dumps({"code": code, "detail": "no"}).encode()
    return httpx.Response(status, headers={"date": format_datetime(date, usegmt=True)}, content=content)


@pytest.mark.parametrize(
    ("found", "reason"),  # of all answers, or of each of the last ones
    [
        (response(200), ""),
        (response(401, seconds_ahead=100), "clock is 100 s ahead of the SuperLink's"),
        (response(401, seconds_ahead=-400), "clock is 400 s behind the SuperLink's"),
        ([(200, 100), (200, 100), (401, 100)], "clock is 100 s ahead of the SuperLink's, by 3 answers"),
        ([(401, 100), (401, 100)], "does not know this node any more"),  # it may be a SuperLink under load
        ([(200, 0), (401, 100), (401, 100)], "If it is registered, the SuperLink is under load"),
        ([(401, 100), (401, -400), (401, 100)], "does not know this node any more"),
        (response(401), "does not know this node any more"),
        (response(412, code=ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED), "its key is not registered there"),
        (response(412, code=ApiErrorCode.FLEET_SUPERNODE_REGISTRATION_DISABLED), "this one was given none"),
        (httpx.Response(502, content=b"<html>"), ""),
    ],
)
def test_answers_are_sentences_at_the_site(
    found: httpx.Response | list[tuple[int, float]], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supernode, "now", lambda: NOW)
    refusals = supernode.SuperLinkRefusals()
    single = isinstance(found, httpx.Response)
    answers = [found] * 3 if single else [response(status, seconds_ahead=ahead) for status, ahead in found]
    for each in answers:
        assert refusals.intercept(None, lambda _, each=each: each) is each  # type: ignore[arg-type]
    assert reason in refusals.reason
    assert bool(refusals.reason) is bool(reason)
    refusals.intercept(None, lambda _: response(200))  # type: ignore[arg-type]
    assert not refusals.reason  # it has passed


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        ((9, "certificate is not yet valid"), "certificate is not yet valid, by this machine's clock: set the clock"),
        ((20, "unable to get local issuer"), "not trusted here (unable to get local issuer)"),
        ((62, "Hostname mismatch"), "not trusted here (Hostname mismatch)"),
        (None, ""),  # closed: tried again, whereas Flower gives up where a text has SSL
    ],
)
def test_a_certificate_that_does_not_verify_is_told_apart_from_a_wrong_clock_and_a_closed_connection(
    cause: tuple[int, str] | None, reason: str
) -> None:
    error: Any = ssl.SSLCertVerificationError() if cause else ssl.SSLEOFError("EOF")
    if cause:
        error.verify_code, error.verify_message = cause

    def fail(_: object) -> httpx.Response:
        raise httpx.ConnectError("[SSL: UNEXPECTED_EOF_WHILE_READING] certificate") from error

    refusals = supernode.SuperLinkRefusals()
    with pytest.raises(httpx.ConnectError, match="certificate" if cause else "^the connection was closed while it was"):
        refusals.intercept(None, fail)  # type: ignore[arg-type]
    assert reason in refusals.reason
    assert bool(refusals.reason) is bool(reason)


def test_a_clock_that_is_off_by_three_answers_is_told_once_before_it_is_refused(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supernode, "now", lambda: NOW)
    for seconds, warned in (
        ([0, 0, 0, 0], False),
        ([10, 10, 1, 10, 10], False),  # answers of a SuperLink under load are dated late
        ([10, 10, 10, 10, 10], True),
        ([-10, -10, -10, -10], True),
    ):
        caplog.clear()
        refusals = supernode.SuperLinkRefusals()
        for ahead in seconds:
            refusals.intercept(None, lambda _, ahead=ahead: response(200, seconds_ahead=ahead))  # type: ignore[arg-type]
        assert caplog.text.count("this machine's clock is") == warned


def test_a_reserved_port_is_nobody_elses_and_can_be_listened_on() -> None:
    with reserved_port() as first, reserved_port() as second:
        assert first != second
        with closing(socket.create_server(("127.0.0.1", first))) as server:
            socket.create_connection(server.getsockname(), timeout=10).close()
