"""What differentially private sessions have spent of a site's rows, and the limit that the site has set.

An entry of the key store for each session, written before the submission leaves, and kept when the session is closed.
The same submission, sent again, is in the same entry; a new session on the same rows is another one.

**What adds up.** Budgets of sessions on the same rows (basic composition). One that protects a row protects its label
too, with as much; so the total over both units is what a flipped label may have told, and that is what the limit
bounds. A *data set* is what a site calls so: rows that sessions have in common must be in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import encode
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Spending
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.signed_documents import parsed

DEFAULT_DATA_SET = "rows"
MOST_CHARACTERS = 100

_LIMITS = "limits"
_ROUNDING = 1e-9  # sums of ten times 0.1 may reach a limit of 1


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one session has spent; `at` is in seconds since 1970."""

    data_set: str
    protocol: str
    epsilon: float
    delta: float
    unit: str
    at: int


def spend(store: KeyStore, data_set: str, manifest: Manifest, spending: Spending, *, at: datetime) -> None:
    """Write down what a session spends, once.

    Raises `InputError` where it is more than is left: nothing is written then.
    """
    name = manifest.session.hex()
    if name in store.names("budget"):
        return
    before, limit = spent(store).get(data_set, 0.0), limits(store).get(data_set)
    if limit is not None and before + spending.epsilon > limit * (1 + _ROUNDING):
        raise InputError(
            f"the session would spend epsilon = {spending.epsilon:g} of data set {data_set!r}, of which {before:g} is "
            f"spent and {limit:g} is the limit; nothing was sent. Raise the limit (fhe-auc keys budget --limit), if "
            "those whom the rows are about may be told more of"
        )
    entry = Entry(data_set, manifest.protocol, spending.epsilon, spending.delta, spending.unit, int(at.timestamp()))
    store.put("budget", name, encode(entry))


def entries(store: KeyStore) -> dict[str, Entry]:
    """Return what each session has spent, by its id in hex; raise `DamagedFileError` where that cannot be read."""
    return {name: parsed(store.get("budget", name), Entry, f"budget/{name}") for name in _sessions(store)}


def spent(store: KeyStore) -> dict[str, float]:
    """Return epsilon of all sessions together, by data set."""
    found: dict[str, float] = {}
    for entry in entries(store).values():
        found[entry.data_set] = found.get(entry.data_set, 0.0) + entry.epsilon
    return found


def limits(store: KeyStore) -> Mapping[str, float]:
    """Return the limits that are set, by data set."""
    if _LIMITS not in store.names("budget"):
        return {}
    return parsed(store.get("budget", _LIMITS), dict[str, float], f"budget/{_LIMITS}")


def set_limit(store: KeyStore, data_set: str, limit: float) -> None:
    """Set a data set's limit, in place of another; it may be below what is spent: then nothing is left."""
    store.put("budget", _LIMITS, encode({**limits(store), checked_data_set(data_set): limit}), replace=True)


def checked_data_set(name: str) -> str:
    """Return the name of a data set; raise `InputError` where it is none."""
    if not (0 < len(name) <= MOST_CHARACTERS and name.isprintable() and name == name.strip()):
        raise InputError(f"data-set: a name has 1 to {MOST_CHARACTERS} printable characters, got {name!a}")
    return name


def _sessions(store: KeyStore) -> list[str]:
    return [name for name in store.names("budget") if name != _LIMITS]
