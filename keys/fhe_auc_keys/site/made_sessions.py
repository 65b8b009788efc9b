"""The sessions that a key holder has made, or convened: to repeat one, or to make it again without some parties.

A *repetition* asks the same of the same sites again, with new keys. Sessions that repeat one another are a series, and
the id of any means its newest. Each adds a result, and takes the place of none.

A session made again without some parties *replaces* the old one.
Two results that differ in one party tell about that party. So nothing replaces a session that has released its result,
and a session is replaced once. A key holder that is a party knows where it has the result itself; otherwise somebody
has to state that there is none.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import KeptFormat
from fhe_auc.question.study import Study
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import claimed
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.errors import DamagedFileError, KeysError, StoreError, about
from fhe_auc_keys.store.key_store import KeyStore


class _Made(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    announcement: bytes
    request: dict[str, Any]  # by the fields of `Request`
    aggregator: str  # names, as the next
    helper: str  # empty where there is none
    lifetime: int  # seconds
    successor: bytes = b""  # id of the session that has replaced it
    first: bytes = b""  # of a repetition: id of the first session of its series
    newest: bytes = b""  # of the first session of a series: id of the newest


_FORMAT = KeptFormat(b"fhemade", _Made, "session made", version=5)


@dataclass(frozen=True)
class Wanted:
    """What a session is made of."""

    protocol: str
    request: Request
    aggregator: str  # names, as the next
    helper: str  # empty where there is none
    study: Study
    lifetime: timedelta

    def without(self, names: Collection[str]) -> Wanted:
        """Return the same for the other parties, at least two; `InputError` for a stranger, or where too few are left.

        Row caps of those who are left out go; where all caps bounded all rows together, the others' do.
        """
        old = self.request
        if strangers := [name for name in names if name not in old.parties]:
            raise InputError(f"{strangers[0]!r} is no party of the session, whose are: {', '.join(old.parties)}")
        left = [name for name in old.parties if name not in names]
        all_needed = old.min_parties in (None, len(old.parties))
        least = 2 if all_needed or old.min_parties is None else old.min_parties
        if len(left) < least:
            raise InputError(f"{len(left)} parties would be left, and this session needs {least} at least")
        caps = {name: cap for name, cap in self.study.row_caps.items() if name in left}
        most = old.max_rows
        if set(self.study.row_caps) == set(old.parties) and most == sum(self.study.row_caps.values()):
            most = sum(caps.values())
        request = replace(
            old,
            parties=tuple(left),
            min_parties=None if all_needed else old.min_parties,
            row_caps=None if old.row_caps is None else caps,
            max_rows=most,
            min_rows=min(old.min_rows, most),
        )
        study = msgspec.structs.replace(self.study, row_caps=caps)
        return replace(self, request=request, study=study)


def remember(store: KeyStore, announcement: bytes, wanted: Wanted, *, repeats: bytes = b"") -> None:
    """Keep what the session announced was made of; there are no keys in it. `repeats` is a session of its series."""
    session = claimed(announcement).manifest.session
    said = {each.name: getattr(wanted.request, each.name) for each in fields(Request)}
    said["thresholds"] = wanted.request.thresholds.astype("<f8").tobytes()
    first = _first(store, repeats) if repeats else b""
    given = said, wanted.aggregator, wanted.helper, int(wanted.lifetime.total_seconds())
    found = _Made(announcement, *given, first=first)
    store.put("made", session.hex(), _FORMAT.frame(found))
    if first:
        series = msgspec.structs.replace(_stored(store, first), newest=session)
        store.put("made", first.hex(), _FORMAT.frame(series), replace=True)


def newest(store: KeyStore, session: bytes) -> bytes:
    """Return the id of the newest session of a series, for `made`, by that of any; errors as `made`.

    Raise `KeysError` where that one was replaced: nobody but a person can say with whom the study goes on.
    """
    first = _first(store, session)
    found = _stored(store, first).newest or first
    if other := successor(store, found):
        raise KeysError(
            f"session {found.hex()} was replaced by {other.hex()}, without some of its parties: --repeat {other.hex()} "
            "goes on without them; to go on with all, make a session of them by name"
        )
    return found


def is_in_series(store: KeyStore, session: bytes) -> bool:
    """Return whether a session repeats another one, or was repeated; errors as `made`."""
    found = _stored(store, session)
    return bool(found.first or found.newest)


def _first(store: KeyStore, session: bytes) -> bytes:
    return _stored(store, session).first or session


def made(store: KeyStore, session: bytes) -> Wanted:
    """Return what a session was made of; `StoreError` where it was not here, otherwise errors as `KeyStore.load`."""
    found = _stored(store, session)
    with about(f"session {session.hex()} is not made again"):
        announced = claimed(found.announcement)
    try:
        request = msgspec.convert(found.request, Request, dec_hook=lambda _, data: np.frombuffer(data, "<f8"))
    except (TypeError, ValueError, InputError, msgspec.ValidationError):
        raise DamagedFileError(
            f"made/{session.hex()} is malformed, or of another version: make the session anew"
        ) from None
    if announced.manifest.study is None:
        raise DamagedFileError(f"made/{session.hex()} names no study: make the session anew")
    protocol, study = announced.manifest.protocol, announced.manifest.study
    lifetime = timedelta(seconds=found.lifetime)
    return Wanted(protocol, request, found.aggregator, found.helper, study, lifetime)


def successor(store: KeyStore, session: bytes) -> bytes:
    """Return the id of the session that has replaced this one, empty for none; errors as `made`."""
    return _stored(store, session).successor


def require_unreleased(store: KeyStore, session: bytes, *, stated: bool) -> None:
    """Raise `KeysError` unless a session has released no result; `stated`: somebody vouches for what is not known."""
    name, other = session.hex(), successor(store, session)
    if other:
        raise KeysError(
            f"session {name} was replaced by {other.hex()} already: take that one, so that no two results differ "
            "in a site"
        )
    if store.has("bundle", name) and Kept.stored(store, session).has_result:
        raise KeysError(
            f"this site has the result of session {name}: another one without a site would tell about that site"
        )
    if not stated:
        raise KeysError(
            f"nobody can see here whether session {name} has released its result; another one without a site would "
            "tell about that site. Ask the aggregator whether any party was sent the result, have every party run "
            f"`fhe-auc keys close {name} --lose-result`, and then state it: --no-result-was-released"
        )


def replace_by(store: KeyStore, session: bytes, other: bytes, *, stated: bool) -> None:
    """Write down that one session replaces another, before it leaves; errors as `require_unreleased`."""
    require_unreleased(store, session, stated=stated)
    found = msgspec.structs.replace(_stored(store, session), successor=other)
    store.put("made", session.hex(), _FORMAT.frame(found), replace=True)


def _stored(store: KeyStore, session: bytes) -> _Made:
    name = session.hex()
    if not store.has("made", name):
        raise StoreError(f"no session {name} was made with this key store: `fhe-auc keys show` lists those that were")
    return store.load("made", name, _FORMAT)
