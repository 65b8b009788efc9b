"""Servers on this machine, for exchanges at URLs: S3 (moto), SFTP (asyncssh), WebDAV (wsgidav)."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.base.files import LONGEST
from fhe_auc.exchange.exchange import Exchange, Version
from fhe_auc.exchange.remote import Remote, open_exchange
from tests.support.processes import wait_for

KINDS = ("folder", "s3", "sftp", "webdav")


class Below(Exchange):
    """A place of an exchange, as one of its own."""

    def __init__(self, exchange: Exchange, place: str) -> None:
        self._exchange, self._place, self.coarse = exchange, place, exchange.coarse

    def list(self, place: str) -> dict[str, Version]:
        return self._exchange.list(self._place + place)

    def read(self, name: str, longest: int = LONGEST) -> bytes:
        return self._exchange.read(self._place + name, longest)

    def put(self, name: str, data: bytes) -> None:
        self._exchange.put(self._place + name, data)

    def remove(self, name: str) -> None:
        self._exchange.remove(self._place + name)


def have(folder: Path, *names: str, at: Sequence[str] = ("server", "north", "south")) -> bool:
    """Whether exchanges below a folder have the requests of these members alone, by default of all three."""
    wanted = {*(names or at)}
    return all({path.parent.name for path in (folder / each).rglob("request")} == wanted for each in at)


@contextmanager
def url_of(kind: str, folder: Path) -> Iterator[str]:
    """Have a server of a kind, and yield the URL of an empty exchange on it; credentials are where libraries look."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        (folder / "exchange").mkdir()
        if kind == "folder":
            yield str(folder / "exchange")
        else:
            with {"s3": _s3, "sftp": _sftp, "webdav": _webdav}[kind](folder, patch) as url:
                yield url


@contextmanager
def server_of(kind: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """The same in a process of its own, beside which this one may fork; yield the folder of the credentials, too.

    All that a client of it needs is imported afterwards.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(kind, folder, there), daemon=True)
    server.start()
    there.close()
    try:
        url, threads = here.recv(), threading.active_count()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(folder / "home"))
            used = open_exchange(url)
            used.list("")
            assert isinstance(used, Remote)
            used.close()
        wait_for(lambda: threading.active_count() == threads)
        yield url, folder / "home"
    finally:
        here.close()
        server.join(30)


def _serve(kind: str, folder: Path, asked: Any) -> None:
    with url_of(kind, folder) as url:
        home = folder / "home"
        home.mkdir(mode=0o700)
        for path in folder.glob(".*"):
            path.rename(home / path.name)
        asked.send(url)
        with suppress(EOFError):
            asked.recv()


@contextmanager
def _s3(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    from boto3.session import Session
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        (folder / ".aws").mkdir(mode=0o700)
        (folder / ".aws" / "config").write_text(f"[default]\nregion = us-east-1\nendpoint_url = http://{host}:{port}\n")
        (folder / ".aws" / "credentials").write_text(
            "[default]\naws_access_key_id = nobody\naws_secret_access_key = nothing\n"
        )
        bucket = f"study-{port}"
        Session().client("s3").create_bucket(Bucket=bucket)
        yield f"s3://{bucket}/exchange"
    finally:
        server.stop()


@contextmanager
def _sftp(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    import asyncssh

    host_key, own = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
    (folder / ".ssh").mkdir(mode=0o700)
    own.write_private_key(folder / ".ssh" / "id_ed25519")
    patch.delenv("SSH_AUTH_SOCK", raising=False)
    authorized = asyncssh.import_authorized_keys(own.export_public_key().decode())
    loop = asyncio.new_event_loop()

    async def listen() -> Any:
        def files(channel: Any) -> asyncssh.SFTPServer:
            return asyncssh.SFTPServer(channel, chroot=str(folder).encode())

        return await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[host_key], authorized_client_keys=authorized, sftp_factory=files
        )

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(30)
    port = server.get_port()
    public = " ".join(host_key.export_public_key().decode().split()[:2])
    (folder / ".ssh" / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
    try:
        yield f"sftp://tester@127.0.0.1:{port}/exchange"
    finally:
        asyncio.run_coroutine_threadsafe(_ended(server), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)


async def _ended(server: Any) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def _webdav(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[str]:
    from cheroot import wsgi
    from wsgidav.wsgidav_app import WsgiDAVApp

    app = WsgiDAVApp(
        {
            "provider_mapping": {"/": str(folder / "exchange")},
            "simple_dc": {"user_mapping": {"*": {"tester": {"password": "open-sesame"}}}},
            "verbose": 0,
            "logging": {"enable": False},
        }
    )
    server = wsgi.Server(("127.0.0.1", 0), app)
    server.prepare()
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    (folder / ".netrc").write_text("machine 127.0.0.1 login tester password open-sesame\n")
    (folder / ".netrc").chmod(0o600)
    patch.delenv("NETRC", raising=False)
    try:
        yield f"webdav://127.0.0.1:{server.bind_addr[1]}"
    finally:
        server.stop()
        thread.join(30)
