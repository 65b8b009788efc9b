"""A role's audit trail: what it has done in which session, a signed line of JSON each, chained to the line before.

It lies in the role's key store, not encrypted, and is only ever added to, together with what it tells of. A line that
is changed, or removed from the middle, shows (`read_trail`). Lines removed from the end do not, unless somebody has
noted the last one's digest. Whoever has the role's key and its disk can write the trail anew: where that matters, the
role keeps a copy elsewhere.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust import signed_json
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Members

_PURPOSE = b"audit line 1"
_PACKAGES = ("fhe-auc", "openfhe", "tenseal", "numpy")


def append(
    store: KeyStore, identity: Identity, event: str, manifest: Manifest, holder: str, *, at: datetime, **facts: Any
) -> None:
    """Add a line about a session, as `append_line` does; `holder` has made its keys, or has convened it."""
    append_line(store, identity, event, at=at, **{**_about(manifest, holder), **facts})  # facts may say more


def append_line(store: KeyStore, identity: Identity, event: str, *, at: datetime, **facts: Any) -> None:
    """Add a line to a key store's trail; `at` is the present, `facts` plain JSON. Errors as `KeyStore.together`."""
    previous = _digest(store.line(store.lines))
    told = {"time": at.isoformat(timespec="seconds"), "event": event, **facts, "previous": previous}
    store.add_line(json.dumps(signed_json.sign_json(identity, _PURPOSE, told)).encode())


@dataclass(frozen=True)
class Trail:
    """A trail that was read."""

    lines: tuple[dict[str, Any], ...]  # all that are genuine, without their signatures
    signers: tuple[str, ...]
    problems: tuple[str, ...]  # what is wrong with which line
    last: str  # SHA-256 of the last line, hexadecimal


def read_trail(trail: Iterable[bytes], members: Members, *, at: datetime) -> Trail:
    """Return what a trail's lines say, and what is wrong with them; `at` is the present, with a time zone."""
    lines: list[dict[str, Any]] = []
    signers: dict[str, None] = {}
    problems: list[str] = []
    previous = b""
    for number, line in enumerate(trail, 1):
        try:
            found = signed_json.parse(line)
            if found.get("previous") != _digest(previous):
                before = f"line {number - 1}" if previous else "the beginning"
                problems.append(f"line {number} does not follow {before}: what came before was removed or changed")
            signers[signed_json.verified_signer(found, _PURPOSE, members, at=at).name] = None
            lines.append({name: value for name, value in found.items() if name != "signature"})
        except KeysError as error:
            problems.append(f"line {number}: {error}")
        previous = line
    if len(signers) > 1:
        problems.append(f"it is signed by several: {', '.join(map(repr, signers))}")
    return Trail(tuple(lines), tuple(signers), tuple(problems), _digest(previous))


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
        "versions": {"python": platform.python_version(), **versions()},
    }


@lru_cache(maxsize=1)  # a process that stays is replaced to be upgraded
def versions() -> Mapping[str, str]:
    """Return the versions of programs that lines tell; to look them up takes milliseconds."""
    found = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _digest(line: bytes) -> str:
    """Return what the next line calls the one before; empty for the first."""
    return hashlib.sha256(line).hexdigest() if line else ""
