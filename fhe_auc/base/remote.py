"""The exchange at a URL: `open_exchange`; a bucket of S3, a server's folder over SFTP or WebDAV, through fsspec.

Credentials come from what the libraries read themselves: for ``s3://`` the environment or ~/.aws, for ``sftp://`` an
agent or ~/.ssh, for ``webdav://`` and ``webdavs://`` ~/.netrc, or the file that NETRC names. A host whose key is not in
~/.ssh/known_hosts is refused. Needs the extra fhe-auc[remote].
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from fhe_auc.base.errors import InputError
from fhe_auc.base.exchange import Exchange, Folder, Version
from fhe_auc.base.files import LONGEST

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_SCHEMES = ("s3", "sftp", "webdav", "webdavs")
_PATIENCE = 30.0  # seconds for an answer
T = TypeVar("T")


def open_exchange(where: str) -> Exchange:
    """Return the exchange in a folder, or at a URL; raise `InputError` for a URL that cannot be."""
    scheme, slashes, _ = where.partition("://")
    if not slashes:
        return Folder(Path(where))
    if scheme not in _SCHEMES:
        raise InputError(f"exchange: a folder, or a URL that begins with {', '.join(_SCHEMES)}, not {scheme!r}")
    return Remote(where)


class Remote(Exchange):
    """The exchange at a URL, which is reached when it is needed, and by each process anew."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        if not self._url.hostname:
            raise InputError("exchange: the URL names no host")
        if self._url.password:
            raise InputError("exchange: no URL has a password: put that where the library reads it itself")
        self.coarse = 0.0 if self._url.scheme == "s3" else 2.0  # times of whole seconds, by the server's clock
        path = unquote(self._url.path).strip("/")
        self._root = {
            "s3": "/".join(filter(None, (self._url.netloc, path))) + "/",
            "sftp": f"/{path}/" if path else "/",
        }.get(self._url.scheme, "")
        self._process, self._system = 0, None

    def __str__(self) -> str:
        return self._url.geturl().rstrip("/")

    def list(self, place: str) -> dict[str, Version]:
        """List a place; `InputError` where the bucket, or the server's folder, is not there."""
        path = self._path(place)
        try:
            found = self._done(lambda system: system.ls(path.rstrip("/") or self._root, detail=True))
        except FileNotFoundError:
            top = self._root.split("/")[0] if self._url.scheme == "s3" else self._root
            if self._done(lambda system: not system.exists(top)):
                raise InputError(f"there is no {str(self)!r}") from None
            raise
        listed: dict[str, Version] = {}
        for entry in found:
            name = str(entry["name"]).rstrip("/").rpartition("/")[2]
            if entry["type"] == "directory":
                listed[f"{name}/"] = ()
            elif name and str(entry["name"]).strip("/") != path.strip("/"):
                version = (entry.get(key) for key in ("ETag", "etag", "mtime", "modified", "size"))
                listed[name] = tuple(str(part) for part in version if part is not None)
        return listed

    def read(self, name: str, longest: int = LONGEST) -> bytes:
        """Read a file."""
        path = self._path(name)
        try:
            data = bytes(self._done(lambda system: system.cat_file(path, start=0, end=longest + 1)))
        except FileNotFoundError:
            raise
        except OSError:
            if self._done(lambda system: system.info(path)["size"]) != 0:  # of nothing there is no range
                raise
            return b""
        if len(data) > longest:
            raise InputError(f"{name!r} is longer than {longest:,} bytes, the most that it may have: remove it")
        return data

    def put(self, name: str, data: bytes) -> None:
        """Write a file, in one call; while that goes on, others may see a part of it."""
        path = self._path(name)
        try:
            self._done(lambda system: system.pipe_file(path, data))
        except OSError:  # the libraries differ in how they say that the folder is missing
            if self._url.scheme == "s3":
                raise
            self._done(lambda system: system.makedirs(path.rpartition("/")[0], exist_ok=True))
            self._done(lambda system: system.pipe_file(path, data))

    def remove(self, name: str) -> None:
        """Remove a file, and the folders on the way that have nothing more in them."""
        path = self._path(name)
        with suppress(FileNotFoundError):
            self._done(lambda system: system.rm_file(path))
        if self._url.scheme != "s3":
            folders = name.split("/")[:-1]
            with suppress(OSError):
                for depth in range(len(folders), 0, -1):
                    folder = self._root + "/".join(folders[:depth])
                    if self._done(lambda system, folder=folder: system.ls(folder)):  # type: ignore[misc]
                        break
                    self._done(lambda system, folder=folder: system.rmdir(folder))  # type: ignore[misc]

    def _path(self, name: str) -> str:
        if ".." in name.split("/"):
            raise InputError(f"{name!r} leads out of {str(self)!r}")
        return self._root + name

    def _done(self, call: Callable[[AbstractFileSystem], T]) -> T:
        """Return what a call returns; raise `OSError` for whatever a library raises, and connect anew afterwards."""
        try:
            if self._system is None or self._process != os.getpid():
                self._process, self._system = os.getpid(), _connected(self._url)
            return call(self._system)
        except (FileNotFoundError, InputError):
            raise
        except Exception as error:
            self._system = None
            text = str(error) or type(error).__name__
            raise OSError(errno.EIO, text, str(self)) from None


def _connected(url: SplitResult) -> AbstractFileSystem:
    """Return the file system of a URL, without a cache of what it lists; each library has its own errors."""
    try:
        return {"s3": _s3, "sftp": _sftp}.get(url.scheme, _webdav)(url)
    except ImportError as error:
        raise InputError(f"exchange: {url.scheme} needs {error.name}: install fhe-auc[remote]") from None


def _s3(url: SplitResult) -> AbstractFileSystem:
    from s3fs import S3FileSystem

    waits = {"connect_timeout": _PATIENCE, "read_timeout": _PATIENCE}
    # Reads are small, and asking for the size before each costs as much again.
    system: Any = S3FileSystem(
        use_listings_cache=False, skip_instance_cache=True, config_kwargs=waits, max_concurrency=1
    )
    return system


def _sftp(url: SplitResult) -> AbstractFileSystem:
    import paramiko
    from fsspec.implementations.sftp import SFTPFileSystem

    class KnownHosts(SFTPFileSystem):  # type: ignore[misc] # fsspec has no types
        """Takes no host key that is not known; fsspec's own takes any."""

        def _connect(self) -> None:
            self.client = paramiko.SSHClient()
            self.client.load_system_host_keys()
            self.client.set_missing_host_key_policy(paramiko.RejectPolicy())
            self.client.connect(self.host, **self.ssh_kwargs)
            self.ftp = self.client.open_sftp()
            channel = self.ftp.get_channel()
            if channel is not None:
                channel.settimeout(_PATIENCE)

    given = {"port": url.port or 22, "username": unquote(url.username) if url.username else None}
    waits = {"timeout": _PATIENCE, "banner_timeout": _PATIENCE, "auth_timeout": _PATIENCE}
    return KnownHosts(url.hostname, skip_instance_cache=True, **given, **waits)


def _webdav(url: SplitResult) -> AbstractFileSystem:
    import httpx
    from webdav4.fsspec import WebdavFileSystem

    base = url._replace(scheme="http" + "s" * url.scheme.endswith("s")).geturl()
    netrc = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    auth = httpx.NetRCAuth(str(netrc)) if netrc.is_file() else None
    system: Any = WebdavFileSystem(base, auth=auth, timeout=_PATIENCE, skip_instance_cache=True)
    return system
