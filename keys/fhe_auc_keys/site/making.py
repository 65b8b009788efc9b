"""The sessions that a maker makes of its studies: one a step and turn, whatever stops it, and the next step by itself.

Session, sealed keys and what is known of them are one transaction; what is sent is kept until the session is over, and
put again where it is not in the exchange. So a maker that was killed at any moment makes no second session. Sessions
that need an earlier one's result (`fhe_auc.report.studies`) follow when the maker, a party, has it. Who is no member
any more is left out. A store that was put back to an older one does not know what it has made since; then the session
in the exchange, which the maker has signed, counts as this turn's. Where that is gone, too, sites that took part in it
have a person look at another one of its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import EvaluationError, FheAucError
from fhe_auc.base.serialise import KeptFormat
from fhe_auc.exchange.exchange import Exchange, file_of, place_of
from fhe_auc.machines import outcomes
from fhe_auc.machines.file_transport import ANNOUNCEMENT, FOR_AGGREGATOR
from fhe_auc.question.study import Study
from fhe_auc.report.studies import Session, check_study, finds_thresholds, next_session
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import open_announcement
from fhe_auc_keys.bundles.sealed_bundles import seal_session
from fhe_auc_keys.errors import ExpiredError, KeysError, RevokedError
from fhe_auc_keys.site.policy import Answered, Newest, agree, results_of
from fhe_auc_keys.store import audit
from fhe_auc_keys.store.key_store import KeyStore, Record
from fhe_auc_keys.store.vault import own_identity
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Members
from fhe_auc_keys.trust.public_keys import SKEW

_LATER = (
    "session {} is of a later turn than it is by the clock, and no other one is made until then: set the clock, or, "
    "where it was ahead, `session make … --again`"
)
_REST = timedelta(days=1)  # after a session's end, until its files go: the clock may be a day ahead
NAME = "series"  # of the entry of kind "trust"


class _Series(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A study of which this maker makes the sessions, and the newest one of each step."""

    study: Study
    made: Newest = {}
    ended: int = -1  # the newest turn that has all its results

    def with_made(self, step: int, answered: Answered) -> _Series:
        """Return it with the newest session of a step."""
        return _Series(self.study, {**self.made, str(step): answered})


class _Sent(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a session has to have in the exchange until it is over: names alone, as each look asks for them."""

    files: tuple[str, ...]
    ends: int  # Unix seconds


class _Studies(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    series: tuple[_Series, ...] = ()
    sent: dict[str, _Sent] = {}  # by session

    def changed(self, series: _Series, new: _Series, sent: dict[str, _Sent]) -> _Studies:
        """Return it with a series in place of another, and with more sent."""
        return _Studies(tuple(new if each == series else each for each in self.series), self.sent | sent)


_RECORD = Record("trust", NAME, KeptFormat(b"fhesrie", _Studies, "record of studies made here"), _Studies())
_FILES = KeptFormat[dict[str, bytes]](b"fhesent", dict[str, bytes], "files of a session made here")


@dataclass(frozen=True)
class Made:
    """How a study stands at its maker: its newest session, whether it is `new`, and what is wrong; "" if nothing is."""

    study: Study
    step: int = 0
    session: bytes = b""
    new: bool = False
    wrong: str = ""
    ended: bool = False  # whether this turn has all its results


def begin(store: KeyStore, study: Study, *, again: bool = False) -> None:
    """Have this maker make the sessions of a study, from now on; a changed one takes the old one's place.

    `again`: whatever has failed, or has a result, is made once more in this turn; sites ask a person then. Raises
    `InputError` for a study that cannot be, `KeysError` where somebody else makes its sessions.
    """
    check_study(study)
    if (own := own_identity(store).name) != study.maker:
        raise KeysError(f"the study's maker is {study.maker!r}, and this is the store of {own!r}")
    record = _RECORD.stored(store)
    old = next((each for each in record.series if each.study.series == study.series), _Series(study))
    made = old.made if old.study == study and not again else {}
    others = tuple(each for each in record.series if each is not old)
    with store.together():
        agree(store, study)
        _RECORD.keep(store, _Studies((*others, _Series(study, made, old.ended if made else -1)), record.sent))


def make_due(
    config: Mapping[str, Any], store: KeyStore, exchange: Exchange, members: Members, clock: Clock = SYSTEM
) -> list[Made]:
    """Make what is due, publish what is not in the exchange, and return how each study stands: a pass of a maker.

    ``results`` in the configuration is the maker's folder of results, as a party. What is wrong with one study is
    told, and keeps no other one; `OSError` is of the exchange, where the next pass publishes.
    """
    at, folder = clock.now(), Path(str(config["results"]))
    stands = list[Made]()
    for series in _RECORD.stored(store).series:
        try:
            stands.append(_advanced(store, series, exchange, members, folder, at))
        except FheAucError as error:
            stands.append(Made(series.study, wrong=str(error)))
    _publish(store, exchange, at)
    return stands


def _advanced(
    store: KeyStore, series: _Series, exchange: Exchange, members: Members, folder: Path, at: datetime
) -> Made:
    """Make the session that follows those of this turn that have their results."""
    study = series.study
    turn = study.turn(at)
    if series.ended == turn:
        return _ended(series)
    results = results_of(study, series.made, turn, folder)
    made = series.made.get(str(len(results) + 1))
    once = not results and finds_thresholds(study)
    if made is not None and (once or made.turn >= turn):
        wrong = _failure(study, made, folder, at) if once or made.turn == turn else _LATER.format(made.session.hex())
        return Made(study, len(results) + 1, made.session, wrong=wrong)
    if study.until is not None and at.date() > study.until:
        return Made(study, ended=True)
    left_in = tuple(name for name in study.sites if name in members.by_name)
    session = next_session(study, left_in, results)
    if session is None:
        ended = msgspec.structs.replace(series, ended=turn)
        _RECORD.keep(store, _RECORD.stored(store).changed(series, ended, {}))
        return _ended(ended)
    if (found := _published(store, series, session, turn, exchange, members, at)) is not None:
        return Made(study, session.step, found)
    return Made(study, session.step, _made(store, series, session, turn, members, at), new=True)


def _ended(series: _Series) -> Made:
    """Say that a turn has all its results, by its last session."""
    step, last = max(series.made.items(), key=lambda each: (each[1].turn, int(each[0])))
    return Made(series.study, int(step), last.session, ended=True)


def _published(
    store: KeyStore, series: _Series, asked: Session, turn: int, exchange: Exchange, members: Members, at: datetime
) -> bytes | None:
    """Return the session that is asked for, where it lies in the exchange though this store has forgotten it.

    It is written down as made; its maker's signature shows that it was.
    """
    maker, record = series.study.maker, _RECORD.stored(store)
    for place in _listed(exchange, [place_of(maker)]):
        session = place.rstrip("/").rpartition("/")[2]
        if session in record.sent:
            continue
        try:
            announced = open_announcement(exchange.read(f"{place}{ANNOUNCEMENT}"), members, holder=maker, at=at)
        except (FileNotFoundError, NotADirectoryError, FheAucError):
            continue
        manifest, begun = announced.manifest, int((announced.not_before + SKEW).timestamp())
        if announced.study.series != series.study.series or manifest != asked.named(manifest, turn):
            continue
        new = series.with_made(asked.step, Answered(manifest.session, manifest.turn, begun))
        there = tuple(file for file in _listed(exchange, [place]) if not file.endswith("/"))  # no folder is ours
        sent = _Sent(there, int(announced.not_after.timestamp()))
        _RECORD.keep(store, record.changed(series, new, {session: sent}))
        return manifest.session
    return None


def _failure(study: Study, made: Answered, folder: Path, at: datetime) -> str:
    """Say why a session will have no result here, if it has failed or is over."""
    name = made.session.hex()
    remedy = "the next one is made in the next turn" if study.every else "to ask once more, `session make … --again`"
    if (path := outcomes.file_of(folder, name)) is not None:
        try:
            outcomes.read(path)
        except (EvaluationError, KeysError) as error:
            return f"session {name} has no result: {error}; {remedy}"
        except (FheAucError, OSError, ValueError, KeyError, TypeError):
            return f"{path}: cannot be read; restore it"
    if at.timestamp() > made.at + study.days * 86_400:
        return f"session {name} is over, and has no result here; {remedy}"
    return ""


def _made(store: KeyStore, series: _Series, asked: Session, turn: int, members: Members, at: datetime) -> bytes:
    """Make a session, and keep it with all that it sends; nothing of it has left yet."""
    study, holder = series.study, own_identity(store)
    try:
        manifest, leaving = sealed_files(holder, study, asked, turn, members, at=at)
    except (RevokedError, ExpiredError) as error:
        raise KeysError(f"no session is made: {error}") from None
    session, ends = manifest.session, at + timedelta(days=study.days)
    files = {f"{place_of(holder.name)}{session.hex()}/{name}": data for name, data in leaving.items()}
    new = series.with_made(asked.step, Answered(session, manifest.turn, int(at.timestamp())))
    sent = {session.hex(): _Sent(tuple(files), int(ends.timestamp()))}
    with store.together():
        store.put("made", session.hex(), _FILES.frame(files))
        _RECORD.keep(store, _RECORD.stored(store).changed(series, new, sent))
        audit.append(store, holder, "made", manifest, holder.name, at=at)
    return session


def sealed_files(
    holder: Identity, study: Study, asked: Session, turn: int, members: Members, *, at: datetime
) -> tuple[Manifest, dict[str, bytes]]:
    """Make a session of a study; return its manifest, and what leaves its maker, by name in the session's folder.

    Errors as `seal_session`.
    """
    prepared = registry.load(asked.protocol).prepare(asked.request)
    prepared = replace(prepared, manifest=asked.named(prepared.manifest, turn))
    sealed = seal_session(holder, prepared, members, study, at=at)
    files = {ANNOUNCEMENT: sealed.announcement, **({FOR_AGGREGATOR: sealed.aggregator} if sealed.aggregator else {})}
    files |= {f"{file_of(name)}.bundle": bundle for name, bundle in sealed.parties.items()}
    return prepared.manifest, files


def sessions_sent(store: KeyStore) -> tuple[str, ...]:
    """Return the ids of sessions that were made here and are not over; errors as `KeyStore.load`."""
    return tuple(_RECORD.stored(store).sent)


def sent_files(store: KeyStore, session: bytes) -> Mapping[str, bytes]:
    """Return what a session that was made here has to have in the exchange, by name."""
    return store.load("made", session.hex(), _FILES)


def _publish(store: KeyStore, exchange: Exchange, at: datetime) -> None:
    """Put what is not in the exchange; take what is over out of it, and forget it."""
    record, past = _RECORD.stored(store), (at - _REST).timestamp()
    newest_first = sorted(record.sent.items(), key=lambda each: -each[1].ends)
    for name, sent in newest_first:  # one whose place is obstructed stops no later one
        if sent.ends < past:
            for file in sent.files:
                exchange.remove(file)
            if store.has("made", name):
                store.remove("made", name)
            continue
        there = _listed(exchange, {file[: file.rfind("/") + 1] for file in sent.files})
        missing = [file for file in sent.files if file not in there]
        if missing and store.has("made", name):  # a store that was put back may lack it
            files = sent_files(store, bytes.fromhex(name))
            for file in missing:
                exchange.put(file, files[file])
    left = {name: sent for name, sent in record.sent.items() if sent.ends >= past}
    if left != record.sent:
        _RECORD.keep(store, _Studies(record.series, left))


def _listed(exchange: Exchange, places: Iterable[str]) -> set[str]:
    found = set[str]()
    for place in places:
        with suppress(FileNotFoundError):
            found |= {place + name for name in exchange.list(place)}
    return found
