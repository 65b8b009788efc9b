"""The exchange at a URL: `open_exchange`; a bucket of S3, or a server's folder over SFTP or WebDAV.

Each is four calls of the library that speaks it: botocore, paramiko, webdav4. (fsspec stands on the last two, too. Its
S3 is asyncio in a thread, which a process that forks must not have, and takes 20 MB more.) Nothing is remembered of
what was listed. Credentials come from what the libraries read themselves: for ``s3://`` the environment or ~/.aws, for
``sftp://`` an agent or ~/.ssh, for ``webdav://`` and ``webdavs://`` ~/.netrc, or the file that NETRC names. A host
whose key is not in ~/.ssh/known_hosts is refused. Needs the extra fhe-auc[remote].
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from stat import S_ISDIR
from typing import Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import LONGEST
from fhe_auc.exchange.exchange import Exchange, Folder, Version, require_few

_PATIENCE = 30.0  # seconds for an answer
T = TypeVar("T")

_Server: TypeAlias = "_S3 | _Sftp | _WebDav"
"""A connection; its calls are those of an `Exchange`. Errors are the library's, and `FileNotFoundError`."""


def open_exchange(where: str) -> Exchange:
    """Return the exchange in a folder, or at a URL; raise `InputError` for a URL that cannot be."""
    scheme, slashes, _ = where.partition("://")
    if not slashes:
        return Folder(Path(where))
    if scheme not in _SERVERS:
        raise InputError(f"exchange: a folder, or a URL that begins with {', '.join(_SERVERS)}, not {scheme!r}")
    url = urlsplit(where)
    if not url.hostname:
        raise InputError("exchange: the URL names no host")
    if url.password:
        raise InputError("exchange: no URL has a password: put that where the library reads it itself")
    return Remote(url)


class Remote(Exchange):
    """The exchange at a URL, which is reached when it is needed, and by each process anew."""

    def __init__(self, url: SplitResult) -> None:
        self._url, self._process = url, 0
        self._server: _Server | None = None
        self._inherited: _Server | None = None  # which is not to be cleared away
        self.coarse = 0.0 if url.scheme == "s3" else 2.0  # times of whole seconds, by the server's clock

    def __str__(self) -> str:
        return self._url.geturl().rstrip("/")

    def list(self, place: str) -> dict[str, Version]:
        """List a place; `InputError` where the bucket, or the server's folder, is not there."""
        try:
            return self._done(lambda server: server.list(place))
        except FileNotFoundError:
            try:
                self._done(lambda server: server.list(""))
            except FileNotFoundError:
                raise InputError(f"there is no {str(self)!r}") from None
            raise

    def read(self, name: str, longest: int = LONGEST) -> bytes:
        """Read a file."""
        return self._done(lambda server: server.read(self._inside(name), longest))

    def put(self, name: str, data: bytes) -> None:
        """Write a file, in one call; while that goes on, others may see a part of it."""
        self._done(lambda server: server.put(self._inside(name), data))

    def remove(self, name: str) -> None:
        """Remove a file, and the folders on the way that have nothing more in them."""
        with suppress(FileNotFoundError):
            self._done(lambda server: server.remove(self._inside(name)))

    def close(self) -> None:
        """End the connection, which has a thread of its own with SFTP; the next call makes another."""
        if self._server is not None and self._process == os.getpid():
            self._server.close()
        self._server = None

    def _inside(self, name: str) -> str:
        if ".." in name.split("/"):
            raise InputError(f"{name!r} leads out of {str(self)!r}")
        return name

    def _done(self, call: Callable[[_Server], T]) -> T:
        """Return what a call returns; raise `OSError` for whatever a library raises, and connect anew afterwards."""
        try:
            if self._process != os.getpid():  # its files are closed here, and their numbers are those of others
                self._inherited, self._server = self._server, None
            if self._server is None:
                self._process, self._server = os.getpid(), _SERVERS[self._url.scheme](self._url)
            return call(self._server)
        except (FileNotFoundError, InputError):
            raise
        except ImportError as error:
            raise InputError(f"exchange: {self._url.scheme} needs {error.name}: install fhe-auc[remote]") from None
        except Exception as error:
            self.close()
            raise OSError(errno.EIO, str(error) or type(error).__name__, str(self)) from None


class _Bounded(BytesIO):
    """Takes no more than so many bytes."""

    def __init__(self, name: str, longest: int) -> None:
        super().__init__()
        self._name, self._longest = name, longest

    def write(self, data: Any) -> int:
        self.require(self.tell() + len(data))
        return super().write(data)

    def require(self, size: int) -> None:
        if size > self._longest:
            advice = "the most that it may have: remove it"
            raise InputError(f"{self._name!r} is longer than {self._longest:,} bytes, {advice}")


class _S3:
    def __init__(self, url: SplitResult) -> None:
        import botocore.config
        import botocore.session

        waits = botocore.config.Config(connect_timeout=_PATIENCE, read_timeout=_PATIENCE)
        self._client: Any = botocore.session.get_session().create_client("s3", config=waits)
        self._bucket, self._prefix = url.netloc, "".join(f"{part}/" for part in unquote(url.path).split("/") if part)

    def _call(self, name: str, **given: Any) -> Any:
        from botocore.exceptions import ClientError

        try:
            return getattr(self._client, name)(Bucket=self._bucket, **given)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "NoSuchBucket"):
                raise FileNotFoundError(errno.ENOENT, "no such file, or bucket") from None
            raise

    def list(self, place: str) -> dict[str, Version]:
        prefix, listed = self._prefix + place, dict[str, Version]()
        page = {"Prefix": prefix, "Delimiter": "/"}
        while True:
            found = self._call("list_objects_v2", **page)
            listed |= {each["Prefix"].removeprefix(prefix): () for each in found.get("CommonPrefixes", ())}
            for each in found.get("Contents", ()):
                listed[each["Key"].removeprefix(prefix)] = str(each["ETag"]), int(each["Size"])
            require_few(listed, place)
            if not found["IsTruncated"]:
                listed.pop("", None)  # what some programs put there for a folder
                return listed
            page["ContinuationToken"] = found["NextContinuationToken"]

    def read(self, name: str, longest: int) -> bytes:
        found = self._call("get_object", Key=self._prefix + name)
        with found["Body"] as body:
            _Bounded(name, longest).require(found["ContentLength"])
            return bytes(body.read())

    def put(self, name: str, data: bytes) -> None:
        self._call("put_object", Key=self._prefix + name, Body=data)

    def remove(self, name: str) -> None:
        self._call("delete_object", Key=self._prefix + name)

    def close(self) -> None:
        self._client.close()


class _Sftp:
    def __init__(self, url: SplitResult) -> None:
        import paramiko

        client = paramiko.SSHClient()
        client.load_system_host_keys()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        waits = {"timeout": _PATIENCE, "banner_timeout": _PATIENCE, "auth_timeout": _PATIENCE}
        user = unquote(url.username) if url.username else None
        client.connect(str(url.hostname), port=url.port or 22, username=user, **waits)
        self._client, self._files = client, client.open_sftp()  # the client would end with its last name
        if (channel := self._files.get_channel()) is not None:
            channel.settimeout(_PATIENCE)
        self._root = f"{unquote(url.path).rstrip('/')}/"

    def list(self, place: str) -> dict[str, Version]:
        found = self._files.listdir_attr(self._root + place)
        require_few(found, place)
        return {
            each.filename + "/" * S_ISDIR(each.st_mode or 0): (each.st_mtime or 0, each.st_size or 0) for each in found
        }

    def read(self, name: str, longest: int) -> bytes:
        with self._files.open(self._root + name, "rb") as file:
            size = file.stat().st_size or 0
            _Bounded(name, longest).require(size)
            file.prefetch(size)
            return bytes(file.read(size))

    def put(self, name: str, data: bytes) -> None:
        try:
            self._files.putfo(BytesIO(data), self._root + name)
        except FileNotFoundError:
            for folder in _folders_of(name):
                with suppress(OSError):  # it is there
                    self._files.mkdir(self._root + folder)
            self._files.putfo(BytesIO(data), self._root + name)

    def remove(self, name: str) -> None:
        self._files.remove(self._root + name)
        with suppress(OSError):  # they are not empty
            while name := name.rpartition("/")[0]:
                self._files.rmdir(self._root + name)

    def close(self) -> None:
        self._client.close()


def _folders_of(name: str) -> list[str]:
    return [name[:at] for at, letter in enumerate(name) if letter == "/"]


class _WebDav:
    def __init__(self, url: SplitResult) -> None:
        import httpx
        from webdav4.client import Client

        base = url._replace(scheme="http" + "s" * url.scheme.endswith("s")).geturl()
        netrc = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
        auth = httpx.NetRCAuth(str(netrc)) if netrc.is_file() else None
        self._client: Any = Client(base, auth=auth, timeout=_PATIENCE)

    def _call(self, name: str, *given: Any, **more: Any) -> Any:
        from webdav4.client import ResourceNotFound

        try:
            return getattr(self._client, name)(*given, **more)
        except ResourceNotFound:
            raise FileNotFoundError(errno.ENOENT, "no such file, or folder") from None

    def list(self, place: str) -> dict[str, Version]:
        listed, found = dict[str, Version](), self._call("ls", place, detail=True)
        require_few(found, place)
        for each in found:
            name = str(each["name"]).rstrip("/").rpartition("/")[2]
            version = str(each["etag"]), str(each["modified"]), int(each["content_length"] or 0)
            listed[f"{name}/" if each["type"] == "directory" else name] = version
        return listed

    def read(self, name: str, longest: int) -> bytes:
        read = _Bounded(name, longest)
        self._call("download_fileobj", name, read)
        return read.getvalue()

    def put(self, name: str, data: bytes) -> None:
        from webdav4.client import ClientError

        try:
            self._call("upload_fileobj", BytesIO(data), name, overwrite=True, size=len(data))
        except (ClientError, FileNotFoundError):  # servers differ in how they say that the folder is missing
            for folder in _folders_of(name):
                with suppress(ClientError):  # it is there
                    self._client.mkdir(folder)
            self._call("upload_fileobj", BytesIO(data), name, overwrite=True, size=len(data))

    def remove(self, name: str) -> None:
        self._call("remove", name)
        while (name := name.rpartition("/")[0]) and not self._client.ls(name):
            self._client.remove(name)  # with all that is in it

    def close(self) -> None:
        self._client.http.close()


_SERVERS: dict[str, type[_Server]] = {"s3": _S3, "sftp": _Sftp, "webdav": _WebDav, "webdavs": _WebDav}
