"""A site's policy: the studies that it has agreed to, what it answers without a person, and what waits for one.

A session is answered unasked if it is exactly what an agreed study makes (`fhe_auc.report.studies`), by the study's
maker, with all its sites but those that are members no more; no more often than the study says, and not after its end.
Two results that differ in one site tell about that site: a session whose parties are not those of the last one waits
for a person, unless the study lets so many be away. So does one in which this site's rows have few of the levels that
the study lists (`ask_about_rows`). Turns are those of the signed beginnings of sessions, which never
go back; the site's clock counts too, so that one that jumps allows little more.

What waits is kept with its reason, for ``fhe-auc pending``. A yes agrees to the study, and to this session whatever is
odd about it; a no refuses the session for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeAlias

import msgspec
import numpy as np

from fhe_auc.base.errors import FheAucError, MessageError
from fhe_auc.base.serialise import KeptFormat
from fhe_auc.machines import outcomes
from fhe_auc.question.study import Study
from fhe_auc.report.studies import differing, finds_thresholds, next_session
from fhe_auc.results.evaluation import Outcome, QuantileThresholds
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.store.key_store import KeyStore, Record
from fhe_auc_keys.trust.public_keys import SKEW

NAME = "studies"  # of the entry of kind "trust"
_OF_ROWS = "its rows here: "  # begins why a session waits
_LOST = "0"  # no step: of one that a site may have forgotten
MOST_WAITING = 10
"""Sessions of each maker: any member can announce more, and hides no other's. None goes for a newer one: a maker could
have another session of the same id, of which it signs several, take the place of what a person has looked at.
"""


class WaitsForPersonError(KeysError):
    """A session is genuine, and no agreed study makes it."""


class RefusedByPersonError(KeysError):
    """A person has refused a session: nobody has to look at it any more."""


class TooSoonError(KeysError):
    """A session is answered a little later: its study was begun late in a turn, and the next one has come."""


class Answered(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The newest session of a step in which the site took part, or that it has made."""

    session: bytes
    turn: int
    at: int  # by the site's clock, Unix seconds


Newest: TypeAlias = dict[str, Answered]
"""The newest session of each step, by its number."""


class Agreed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A study, and what has become of it here."""

    study: Study
    last: Newest = {}
    thresholds: bytes = b""  # that a person has agreed to where this site has not found them itself, float64
    rows: str = ""  # what is odd about this site's rows, as a person has agreed to it


class Waiting(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A session that waits for a person, as it is announced, and why."""

    announcement: bytes
    maker: str
    why: str
    ends: int  # Unix seconds


class _Book(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    studies: tuple[Agreed, ...] = ()
    parties: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  # model, outcome, and the parties of its last session
    decided: dict[str, tuple[bool, int]] = {}  # whether a person has said yes (`_yes`) or no (session), and its end
    waiting: dict[str, Waiting] = {}  # by session


_BOOK = Record("trust", NAME, KeptFormat(b"fhestud", _Book, "record of agreed studies", version=4), _Book())


class Site(NamedTuple):
    """Who decides on sessions."""

    results: Path | None  # its folder of results
    members: Collection[str] | None  # names of all members; None where nobody knows
    helps: bool = False  # whether it is the session's helper, which has no results


def agreed(store: KeyStore) -> tuple[Agreed, ...]:
    """Return the studies that a site has agreed to; `DamagedFileError` where the record cannot be read."""
    return _BOOK.stored(store).studies


def agree(store: KeyStore, study: Study, *, rows: str = "") -> None:
    """Agree to a study, in place of one that it goes on with (`Study.series`), and to `rows` that are odd, if any."""
    book = _BOOK.stored(store)
    old = next((each for each in book.studies if each.study.series == study.series), Agreed(study))
    others = tuple(each for each in book.studies if each.study.series != study.series)
    new = msgspec.structs.replace(old, study=study, rows=rows or (old.rows if old.study == study else ""))
    _BOOK.keep(store, msgspec.structs.replace(book, studies=(*others, new)))


def note_restored(store: KeyStore, *, at: datetime) -> None:
    """Write down that the site may have taken part in each study's turn of `at`: its store was put back."""
    book, replace = _BOOK.stored(store), msgspec.structs.replace
    lost = [{_LOST: Answered(b"", each.study.turn(at), int(at.timestamp()))} for each in book.studies]
    studies = [replace(each, last=each.last | own) for each, own in zip(book.studies, lost, strict=True)]
    _BOOK.keep(store, replace(book, studies=tuple(studies)))


def withdraw(store: KeyStore, digest: str) -> None:
    """Take an agreement back, by how the study's digest (hexadecimal) begins; raise `KeysError` for none or several."""
    book = _BOOK.stored(store)
    left = tuple(each for each in book.studies if not each.study.digest.hex().startswith(digest))
    if len(left) != len(book.studies) - 1:
        raise KeysError(f"{len(book.studies) - len(left)} sessions that wait, or agreed studies, begin with {digest!r}")
    _BOOK.keep(store, msgspec.structs.replace(book, studies=left))


def admit(store: KeyStore, announced: Announcement, site: Site, document: bytes, *, at: datetime) -> None:
    """Write down that the site takes part in a session now; the same one again changes nothing.

    That stands where opening its keys then fails, too. `document` is what announces it. Raises `WaitsForPersonError`
    for a session that no agreed study makes, which is kept for a person; `TooSoonError`; `RefusedByPersonError`; and
    `KeysError` for one after the study's end.
    """
    book, manifest = _tidied(_BOOK.stored(store), at), announced.manifest
    session = manifest.session.hex()
    said_yes = _yes(manifest) in book.decided
    if session in book.decided:
        raise RefusedByPersonError("a person has refused this session here")
    if session in book.waiting and book.waiting[session].announcement != document:
        raise KeysError("its maker has signed another session of the same id, which waits for a person here")
    known = next((each for each in book.studies if each.study == announced.study), None)
    if not said_yes:
        if why := next(_objections(book, known, announced, site), ""):
            _wait(store, book, announced, document, why)
        assert known is not None  # noqa: S101 - else there is an objection
        _check_time(known, announced, at)
    _write_down(store, book, known or Agreed(announced.study), announced, at, by_person=said_yes)


def ask_about_rows(store: KeyStore, announced: Announcement, document: bytes, odd: str, *, at: datetime) -> None:
    """Let a session of an agreed study wait for a person where this site's rows are `odd`, before it is answered.

    A yes is for all later sessions of the study: other days' rows may have other levels. Raises `WaitsForPersonError`;
    and `MessageError` where a person has refused the session.
    """
    book, why = _tidied(_BOOK.stored(store), at), _OF_ROWS + odd
    if announced.manifest.session.hex() in book.decided:
        raise MessageError("a person has refused this session here", field="missed")
    if any(each.study == announced.study and not each.rows for each in book.studies):
        _wait(store, book, announced, document, why)


def _wait(store: KeyStore, book: _Book, announced: Announcement, document: bytes, why: str) -> NoReturn:
    session, ends = announced.manifest.session.hex(), int(announced.not_after.timestamp())
    new = Waiting(document, announced.holder.name, why, ends)
    others = sum(each.maker == new.maker for name, each in book.waiting.items() if name != session)
    if others >= MOST_WAITING:
        raise WaitsForPersonError(f"{others} sessions of its maker wait already: decide on them (fhe-auc pending)")
    if book.waiting.get(session) != new:
        _BOOK.keep(store, msgspec.structs.replace(book, waiting={**book.waiting, session: new}))
    raise WaitsForPersonError(f"it waits for a person (fhe-auc pending): {why}")


def waiting(store: KeyStore) -> Mapping[str, Waiting]:
    """Return the sessions that wait for a person, by id."""
    return _BOOK.stored(store).waiting


def decide(store: KeyStore, announced: Announcement, *, yes: bool, at: datetime) -> None:
    """Take a session that waits, and no other one of its id, and agree to its study, or refuse all of its id."""
    session, book = announced.manifest.session.hex(), _BOOK.stored(store)
    left = {name: each for name, each in book.waiting.items() if name != session}
    decided = {name: each for name, each in book.decided.items() if name != session}
    decided[_yes(announced.manifest) if yes else session] = yes, int(announced.not_after.timestamp())
    _BOOK.keep(store, _tidied(msgspec.structs.replace(book, waiting=left, decided=decided), at))
    if yes:
        why = book.waiting[session].why if session in book.waiting else ""
        agree(store, announced.study, rows=why if why.startswith(_OF_ROWS) else "")


def _yes(manifest: Manifest) -> str:
    """Return under what a yes is kept: what was said yes to, as its maker can sign several sessions of one id."""
    return f"yes {manifest.digest.hex()}"


def results_of(study: Study, last: Newest, turn: int, folder: Path) -> list[Outcome]:
    """Return what this turn's sessions have yielded here, from the first on, in their order."""
    found = list[Outcome]()
    for answered in _of_turn(study, last, turn):
        path = outcomes.file_of(folder, answered.session.hex())
        if path is None:
            break
        try:
            found.append(_outcome(path, path.stat().st_mtime_ns))
        except (FheAucError, OSError):  # it has failed, or somebody has moved or changed it
            break
    return found


def sessions_before(store: KeyStore, announced: Announcement) -> tuple[bytes, ...]:
    """Return the sessions that come before one in its turn, as far as this site has taken part."""
    manifest = announced.manifest
    known = next((each for each in _BOOK.stored(store).studies if each.study == announced.study), None)
    of_turn = [] if known is None else _of_turn(known.study, known.last, manifest.turn)
    return tuple(each.session for each in of_turn[: max(0, manifest.step - 1)])


def _of_turn(study: Study, last: Newest, turn: int) -> list[Answered]:
    found = list[Answered]()
    once = finds_thresholds(study)
    while (answered := last.get(str(len(found) + 1))) is not None and (answered.turn == turn or (once and not found)):
        found.append(answered)
    return found


@lru_cache(maxsize=16)  # a maker asks at each look
def _outcome(path: Path, changed: int) -> Outcome:
    return outcomes.read(path)


def _objections(book: _Book, known: Agreed | None, announced: Announcement, site: Site) -> Iterator[str]:
    """Yield why a person has to decide on a session."""
    manifest, study = announced.manifest, announced.study
    if known is None:
        alike = next((each.study for each in book.studies if each.study.question == study.question), None)
        fields = "" if alike is None else f": it differs from one that is in {', '.join(alike.differing(study))}"
        yield f"nobody here has agreed to its study{fields}"
        return
    for what, name, expected in (
        ("signed", announced.holder.name, study.maker),
        ("aggregated", announced.aggregator.name, study.aggregator),
        ("helped", "" if announced.helper is None else announced.helper.name, study.helper),
    ):
        if name != expected:
            yield f"it is {what} by {name or 'nobody'!r}, not by {expected or 'nobody'!r}"
    left = [name for name in study.sites if name not in manifest.parties]
    if manifest.parties != tuple(name for name in study.sites if name not in left):
        yield "its parties are others than the study's sites"
    if still := [name for name in left if site.members is not None and name in site.members]:
        yield f"it leaves out {', '.join(still)}, who is a member"
    last = next((parties for *question, parties in book.parties if tuple(question) == study.question), None)
    changed = sorted(set(manifest.parties) ^ set(last)) if last is not None else []
    if len(changed) > study.most_away:
        names = ", ".join(map(repr, changed))
        yield f"its parties differ from those of this study's last session in {names}: two results would tell about it"
    if manifest.turn not in (0, study.turn(announced.not_before + SKEW)):
        yield "its turn is not that of its beginning"
    if announced.not_after - announced.not_before > timedelta(days=study.days) + 2 * SKEW:
        yield f"it can go on for more than the study's {study.days} days"
    yield from _differences(known, announced, site)
    lost = known.last.get(_LOST)
    if lost is not None and manifest.turn <= lost.turn:
        yield "this site may have taken part in this turn: its key store was put back to an older one"
    before = known.last.get(str(manifest.step))
    if before is not None and before.session != manifest.session and manifest.turn <= before.turn:
        yield f"this site took part in session {before.session.hex()} of the same step and turn, or a later one"


def _differences(known: Agreed, announced: Announcement, site: Site) -> Iterator[str]:
    """Yield in what a session is not a step of its study.

    A helper, which has no results, leaves to the parties what depends on them: thresholds that were found, weights of a
    censoring curve, and what a report asks after its first session. No honest party submits to a session that its
    results do not lead to.
    """
    manifest, study = announced.manifest, announced.study
    results = [] if site.results is None else results_of(study, known.last, manifest.turn, site.results)
    thresholds = manifest.grid if site.helps and finds_thresholds(study) else known.thresholds
    if thresholds and not results and manifest.step > 1:
        grid = np.frombuffer(thresholds, "<f8")
        results = [QuantileThresholds(protocol="", backend="", parties=0, security_bits=0, grid=grid)]
    if len(results) < manifest.step - 1:
        if not (site.helps and (study.report or study.follow_up)):
            yield f"this site has no result of step {len(results) + 1}, which comes before it, step {manifest.step}"
        return
    try:
        session = next_session(study, manifest.parties, results[: max(0, manifest.step - 1)])
    except FheAucError as error:
        yield str(error)
        return
    if session is None or manifest.step < 1:
        yield f"its study has no step {manifest.step}"
    elif session.once == bool(manifest.turn) and study.every:
        yield "its turn is not that of its step"
    elif fields := differing(manifest, session):
        which = ", or its weights are not those of the censoring curve that this site has read" * bool(study.follow_up)
        yield f"it is not what the study makes, but for other {', '.join(fields)}{which}"


def _check_time(known: Agreed, announced: Announcement, at: datetime) -> None:
    """Raise where an agreed study's session is not answered now, though it is what the study makes."""
    study, begun = known.study, announced.not_before + SKEW
    if study.until is not None and max(at, begun).astimezone(timezone.utc).date() > study.until:
        raise KeysError(f"its study ended on {study.until}")
    before = known.last.get(str(announced.manifest.step))
    if before is None or before.session == announced.manifest.session:
        return
    if 0 <= at.timestamp() - before.at < study.pause.total_seconds():
        when = datetime.fromtimestamp(before.at, timezone.utc)
        raise TooSoonError(
            f"this site took part in this study at {when:%Y-%m-%d %H:%M} UTC: by its clock it is too soon"
        )


def _write_down(
    store: KeyStore, book: _Book, known: Agreed, announced: Announcement, at: datetime, *, by_person: bool
) -> None:
    manifest, study = announced.manifest, announced.study
    last = {**known.last, str(manifest.step): Answered(manifest.session, manifest.turn, int(at.timestamp()))}
    thresholds = known.thresholds
    if by_person and finds_thresholds(study) and manifest.step == 2:
        thresholds = manifest.grid
    new = msgspec.structs.replace(known, last=last, thresholds=thresholds)
    parties = (*(each for each in book.parties if each[:2] != study.question), (*study.question, manifest.parties))
    studies = tuple(new if each.study == study else each for each in book.studies)
    left = {name: each for name, each in book.waiting.items() if name != manifest.session.hex()}
    _BOOK.keep(store, _tidied(_Book(studies, parties, book.decided, left), at))


def _tidied(book: _Book, at: datetime) -> _Book:
    """Return the record without sessions that are over."""
    now = int(at.timestamp())
    decided = {name: each for name, each in book.decided.items() if each[1] >= now}
    waiting = {name: each for name, each in book.waiting.items() if each.ends >= now}
    return msgspec.structs.replace(book, decided=decided, waiting=waiting)
