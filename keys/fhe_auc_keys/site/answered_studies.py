"""Answered studies: of each the parties last, and when this site took part in a session by its policy.

Two results of a study that differ in one site tell about that site, and each result tells more. So a policy asks here
before the site takes part in the next session. A study is known by model and outcome, which a policy names word for
word: a key holder that calls cohort or period otherwise gains nothing. Times are counted twice, by the signed
beginnings of sessions and by the site's clock, and neither goes back: a clock that jumps allows nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import msgspec

from fhe_auc.base.serialise import KeptFormat
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.store.key_store import KeyStore

NAME = "answered"  # of the entry, beside the policy


class _Last(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last session of a study and protocol in which the site took part by its policy; times in Unix seconds."""

    session: bytes
    begun: int  # as its holder signed it
    at: int  # by the site's clock


class _Study(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    model: str
    outcome: str
    parties: tuple[str, ...]  # of the last session, whoever decided on it; sorted
    last: dict[str, _Last] = {}  # by protocol


_FORMAT = KeptFormat[tuple[_Study, ...]](b"fheanst", tuple[_Study, ...], "record of answered studies")


def check(store: KeyStore) -> None:
    """Raise `DamagedFileError` where the record cannot be read."""
    _stored(store)


def objections(store: KeyStore, announced: Announcement, *, hours: int | None, at: datetime) -> Iterator[str]:
    """Yield why a site must not take part in a session by its policy, after earlier ones; `at` is the present."""
    found = _found(_stored(store), announced)
    if found is None:
        return
    parties = set(announced.manifest.parties)
    if others := ", ".join(map(repr, sorted(parties ^ set(found.parties)))):
        yield f"its parties differ from those of this study's last session in {others}: two results would tell about it"
    last = found.last.get(announced.manifest.protocol)
    if last is None or hours is None or last.session == announced.manifest.session:
        return
    if at < _time(last.at):
        yield (
            f"by its clock this site took part in the last session of this study in the future, at {_said(last.at)}: "
            "check the clock"
        )
    pause = timedelta(hours=hours)
    made_again = announced.not_before - _time(last.begun) >= pause
    own, signed = "this site took part in the last session of this study", "the last session of this study was made"
    for now, before, what in ((at, last.at, own), (announced.not_before, last.begun, signed)):
        if now - _time(before) < pause:
            turn = f": it is this one's turn from {_said(before + hours * 3600)} on" if made_again else ""
            yield f"{what} at {_said(before)}, and hours-between is {hours}{turn}"


def latest(store: KeyStore, announced: Announcement, *, at: datetime) -> datetime:
    """Return the latest time that anything says: the clock, the session's signed beginning, earlier sessions."""
    found = _found(_stored(store), announced)
    return max(at, announced.not_before, *(_time(each.at) for each in (found.last.values() if found else ())))


def write_down(store: KeyStore, announced: Announcement, *, at: datetime, by_policy: bool) -> None:
    """Write down that the site takes part in a session; errors as `check`.

    By its policy, before it does: after a crash in between it takes part all the same. A person who decides on a
    session puts times right that lie in the future, as a clock that was ahead leaves them.
    """
    studies, manifest, now = _stored(store), announced.manifest, int(at.timestamp())
    old = _found(studies, announced)
    last = dict(old.last) if old is not None else {}
    if by_policy:
        before = last.get(manifest.protocol, _Last(b"", 0, 0))
        begun = int(announced.not_before.timestamp())
        last[manifest.protocol] = _Last(manifest.session, max(begun, before.begun), max(now, before.at))
    else:
        last = {name: _Last(each.session, min(each.begun, now), min(each.at, now)) for name, each in last.items()}
    new = _Study(announced.study.model, announced.study.outcome, tuple(sorted(manifest.parties)), last)
    left = tuple(each for each in studies if each is not old)
    store.put("trust", NAME, _FORMAT.frame((*left, new)), replace=True)


def _stored(store: KeyStore) -> tuple[_Study, ...]:
    if not store.has("trust", NAME):
        return ()
    return store.load("trust", NAME, _FORMAT, "; restore it from the backup")


def _found(studies: tuple[_Study, ...], announced: Announcement) -> _Study | None:
    wanted = announced.study.model, announced.study.outcome
    return next((each for each in studies if (each.model, each.outcome) == wanted), None)


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def _said(seconds: int) -> str:
    return f"{_time(seconds):%Y-%m-%d %H:%M} UTC"
