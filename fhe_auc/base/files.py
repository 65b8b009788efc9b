"""Files written as a whole, so that the old contents are there or the new ones, after a crash too; and files read."""

import errno
import os
import re
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.file_kinds import LOOK, TEXT, kind_of, utf8_marks
from fhe_auc.base.names import known_names

T = TypeVar("T")

LONGEST = 2**28
"""Bytes, more than any message of a session has."""

CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"  # where systemd puts what LoadCredential= names
TEMPORARY = ".tmp-"  # how the names of unfinished files begin; a process that is killed leaves one behind

_PATIENCE, _PAUSE = 0.5, 0.02  # seconds
_NOT_PLAIN = "{!r} is a link, a folder, a pipe or a device, where a file should be: remove it"


@contextmanager
def replacing(path: str | os.PathLike[str], *, mode: int | None = None, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` when the context ends without an exception.

    `mode` are permissions, whatever the umask is, and a link or pipe is replaced. None is for a file that the user has
    named: it keeps its permissions, a link is followed, and a terminal or a pipe is written to. A `durable` file is
    there after a power cut, too. Raises `OSError` where the file cannot be written; nothing of it is left behind.
    """
    target = Path(path)
    if mode is None and _is_special(target):
        with naming(target), target.open("wb") as file:
            yield file
        return
    if mode is None and target.is_symlink():
        target = target.resolve()
    temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        descriptor = open_descriptor(temporary, flags, 0o666 if mode is None else mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is None and target.exists():
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            elif mode is not None and stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
                with suppress(OSError):  # some shared drives have one mode for all
                    temporary.chmod(mode)
            yield file
            file.flush()
            if durable:
                os.fsync(descriptor)
        _put(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        with naming(target):
            raise error
    if durable:
        sync_folder(target.parent)


def _put(temporary: Path, target: Path) -> None:
    """Rename a file to `target`; on Windows try again for a while, as somebody may have that open for a moment."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            temporary.replace(target)
            return
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have an `OSError` about an open file, such as one on a full disk, say which file that is."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def write_atomically(
    path: str | os.PathLike[str], data: bytes, *, mode: int | None = None, durable: bool = False
) -> None:
    """Write a file as a whole; parameters and errors as `replacing`."""
    with replacing(path, mode=mode, durable=durable) as file:
        file.write(data)


def read_from_others(path: str | os.PathLike[str], longest: int = LONGEST, *, plain: bool = False) -> bytes:
    """Return a file's contents; `InputError` where it has more than `longest` bytes, and `OSError` as ever.

    `plain`, for a file that the user has not named, refuses what is none: a link, folder, pipe or device.
    """
    if plain and not stat.S_ISREG(os.lstat(path).st_mode):
        raise InputError(_NOT_PLAIN.format(os.fspath(path)))
    with os.fdopen(open_descriptor(path, os.O_RDONLY), "rb") if plain else open(path, "rb") as file:
        found = os.fstat(file.fileno())
        if plain and not stat.S_ISREG(found.st_mode):  # exchanged for one meanwhile
            raise InputError(_NOT_PLAIN.format(os.fspath(path)))
        if found.st_size <= longest:
            data = file.read(longest + 1)  # a pipe has no size
            if len(data) <= longest:
                return data
    advice = ": remove it" if plain else ""
    raise InputError(f"{os.fspath(path)!r} is longer than {longest:,} bytes, the most that it may have{advice}")


def require_writable(path: str | os.PathLike[str], what: str) -> None:
    """Raise `InputError` where a file that the user has named, a "figure" or another `what`, cannot be written."""
    file = Path(path)
    problem = ""
    if file.is_dir():
        problem = " is a folder; name a file"
    elif not file.parent.is_dir():
        problem = f": there is no folder {str(file.parent)!r}; make it first"
    else:
        try:
            with file.open("ab") if _is_special(file) else tempfile.TemporaryFile(dir=file.resolve().parent):
                pass
        except OSError as error:
            problem = f" cannot be written: {error.strerror}; choose another place"
    if problem:
        raise InputError(f"{what} {str(file)!r}{problem}", file=str(file))


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def sync_folder(folder: Path) -> None:
    """Make it survive a power cut that a file was made or renamed in a folder; raise `OSError` where it cannot be."""
    if sys.platform == "win32":
        return  # no such call there: NTFS writes the change of a name to its own journal
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_descriptor(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """Open a file as `os.open` does, for bytes; never a pipe, or what a link points to. Raises `OSError`."""
    if sys.platform == "win32":
        if os.path.islink(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
        return os.open(path, flags | os.O_BINARY, mode)
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, mode)


def is_database(name: str) -> bool:
    """Return whether what is given in place of a file's name is a database's address."""
    return re.match(r"[a-z][\w+.-]+://|(sqlite|duckdb|odbc):", name, re.IGNORECASE) is not None


def is_private(status: os.stat_result) -> bool:
    """Whether a file or folder is this user's, and nobody else can read or change it.

    On Windows that is in its access list, which Python does not read: this is True there, and the guide says what to
    do. A folder made with mode 700 is the user's alone there, too, from Python 3.10.15, 3.11.10 and 3.12.4 on.
    """
    return sys.platform == "win32" or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)


def read_text(path: str | os.PathLike[str], longest: int = LONGEST) -> bytes:
    """Return a small text, as people write and edit them, as UTF-8 without a mark.

    Editors put a mark before it, and PowerShell's ``>`` writes UTF-16. Raises as `read_from_others`, `InputError` for
    what is no text, and `UnicodeDecodeError`.
    """
    data = read_from_others(path, longest)
    kind = kind_of(data[:LOOK])
    if not kind.encoding:
        raise InputError(f"{os.fspath(path)!r} is {kind.name}")
    if kind.encoding != TEXT.encoding:
        data = data.decode(kind.encoding).encode()
    return data[utf8_marks(data) :]


def read_secret(
    path: Path,
    what: str,
    unreadable: Callable[[str], FheAucError] = InputError,
    unsafe: Callable[[str], FheAucError] = InputError,
) -> str:
    """Return the one line of a file that nobody else may read: a "passphrase", or another `what`.

    Raises what `unreadable` and `unsafe` make of a message, and `InputError` where the file is not one line of text.
    """
    # systemd gives its user access by a list, which shows as the group's; the folder is nobody else's.
    others = 0o007 if str(path.parent) == os.environ.get(CREDENTIALS_VARIABLE) else 0o077
    title = f"{what} file {str(path)!r}"
    try:
        if sys.platform != "win32" and path.stat().st_mode & others:  # there, modes say nothing
            raise unsafe(f"{title} is open to other users: chmod 600 it")
        lines = read_text(path).decode().splitlines()
    except OSError as error:
        raise unreadable(f"{title} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        lines = []
    if len(lines) != 1 or not lines[0]:
        raise InputError(f"{title} is not one line of text", file=str(path))
    return lines[0]


def read_toml(file: Path, shape: type[T], what: str) -> T:
    """Return a file in TOML as a `shape`; raise `InputError` that says `what` it is, and where it does not fit."""
    import msgspec  # takes longer to load than all else here

    try:
        return msgspec.toml.decode(read_text(file).decode(), type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, InputError) as error:
        why = f"{error}: save it as UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise InputError(f"{what} file {str(file)!r}: {why}", file=str(file)) from None


def read_config(file: Path, known: Iterable[str] | None) -> dict[str, Any]:
    """Return a configuration in TOML; raise `InputError` where it is none, or has entries other than the `known`."""
    found = read_toml(file, dict[str, Any], "configuration")
    for name in found if known is not None else ():
        if name not in (names := list(known or ())):
            raise InputError(f"{file}: there is no entry {name!r}{known_names(name, names)}", file=str(file))
    return found
