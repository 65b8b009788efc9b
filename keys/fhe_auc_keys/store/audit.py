"""A role's audit trail: what it has done in which session, a signed line of JSON each, chained to the line before.

It lies in the role's key store as ``audit.jsonl``, and is only ever appended to. A line that is changed, or removed
from the middle, shows (`read`). Lines removed from the end do not, unless somebody has noted the last one's digest.
Whoever has the role's key and its disk can write the file anew: where that matters, the role keeps a copy elsewhere.
"""

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from fhe_auc.base import files
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.store.key_store import TRAIL, TRAIL_LOCK
from fhe_auc_keys.trust import signed_json
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Members

_PURPOSE = b"audit line 1"
_PACKAGES = ("fhe-auc", "openfhe", "tenseal", "numpy")


def append(
    folder: Path, identity: Identity, event: str, manifest: Manifest, holder: str, *, at: datetime, **facts: Any
) -> None:
    """Add a line about a session, as `append_line` does; `holder` has made its keys, or has convened it."""
    append_line(folder, identity, event, at=at, **{**_about(manifest, holder), **facts})  # facts may say more


def append_line(folder: Path, identity: Identity, event: str, *, at: datetime, **facts: Any) -> None:
    """Add a line to the trail in a key store's folder, after removing what a crash has left of one.

    It is on the disk when this returns. `at` is the present, `facts` plain JSON. `OSError`: nothing of it is there.
    """
    path = folder / TRAIL
    told = {"time": at.isoformat(timespec="seconds"), "event": event, **facts}
    with files.naming(path), _locked(folder):
        trail = files.open_descriptor(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            before, last = _end(trail)
            if not before:
                files.sync_folder(folder)
            if os.fstat(trail).st_size > before:  # else a system that lets the file only grow would refuse
                os.ftruncate(trail, before)
            line = signed_json.sign(identity, _PURPOSE, {**told, "previous": _digest(last)})
            files.append(trail, json.dumps(line).encode() + b"\n", durable=True)
        finally:
            os.close(trail)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from adding a line, by a file of its own: on Windows nobody could read a locked trail."""
    lock = files.open_descriptor(folder / TRAIL_LOCK, os.O_RDWR | os.O_CREAT)
    try:
        lock_descriptor(lock)
        yield
    finally:
        os.close(lock)


@dataclass(frozen=True)
class Trail:
    """A trail that was read."""

    lines: tuple[dict[str, Any], ...]  # all that are whole, without their signatures
    signers: tuple[str, ...]
    problems: tuple[str, ...]  # what is wrong with which line
    last: str  # SHA-256 of the last line, hexadecimal
    unfinished: bool  # whether a crash has left a part of another one


def read(data: bytes, members: Members, *, at: datetime) -> Trail:
    """Return what is in a trail's file, and what is wrong with it; `at` is the present, with a time zone."""
    *whole, rest = data.split(b"\n")
    lines: list[dict[str, Any]] = []
    signers: dict[str, None] = {}
    problems: list[str] = []
    previous = b""
    for number, line in enumerate(whole, 1):
        try:
            found = signed_json.parse(line)
            if found.get("previous") != _digest(previous):
                before = f"line {number - 1}" if previous else "the beginning"
                problems.append(f"line {number} does not follow {before}: what came before was removed or changed")
            signers[signed_json.check(found, _PURPOSE, members, at=at).name] = None
            lines.append({name: value for name, value in found.items() if name != "signature"})
        except KeysError as error:
            problems.append(f"line {number}: {error}")
        previous = line
    if len(signers) > 1:
        problems.append(f"it is signed by several: {', '.join(map(repr, signers))}")
    return Trail(tuple(lines), tuple(signers), tuple(problems), _digest(previous), bool(rest))


def follows(line: bytes, previous: bytes) -> bool:
    """Return whether a line of a trail, without its line feed, names the one before, which is empty for the first."""
    try:
        return signed_json.parse(line).get("previous") == _digest(previous)
    except KeysError:
        return False


def is_genuine(line: bytes, members: Members, *, at: datetime) -> bool:
    """Return whether a member has signed a line of a trail; `at` is the present, with a time zone."""
    try:
        return bool(signed_json.check(signed_json.parse(line), _PURPOSE, members, at=at))
    except KeysError:
        return False


def _about(manifest: Manifest, holder: str) -> dict[str, Any]:
    """Return what every line says of its session, and of the programs."""
    grid = hashlib.sha256(manifest.grid).hexdigest()
    study = manifest.study
    return {
        "session": manifest.session.hex(),
        "manifest": manifest.digest.hex(),
        "convened_by": holder,
        "protocol": manifest.protocol,
        "keys": manifest.keys,
        "parties": manifest.size,
        "thresholds": {"count": len(manifest.thresholds), "sha256": grid},
        "study": None if study is None else {"model": study.model, "outcome": study.outcome},
        "versions": {"python": platform.python_version(), **_versions()},
    }


@lru_cache(maxsize=1)  # a process that stays is replaced to be upgraded
def _versions() -> Mapping[str, str]:
    found = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _digest(line: bytes) -> str:
    """Return what the next line calls the one before; empty for the first."""
    return hashlib.sha256(line).hexdigest() if line else ""


def _end(trail: int) -> tuple[int, bytes]:
    """Return where the last whole line of an open file ends, and that line without its line feed.

    The file is read as a whole: a trail of years has some megabytes.
    """
    os.lseek(trail, 0, os.SEEK_SET)
    whole, end, _ = os.read(trail, os.fstat(trail).st_size).rpartition(b"\n")
    return len(whole + end), whole.rpartition(b"\n")[2]
