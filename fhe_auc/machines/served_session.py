"""A session as `serve` knows it, and what is done in it at a look: by a site or a helper, or by an aggregator."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from fhe_auc.base.clock import Clock
from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, MessageError
from fhe_auc.base.exchange import Arrivals, Exchange, Version
from fhe_auc.base.files import write_atomically
from fhe_auc.base.logs import RoleLog, one_line
from fhe_auc.machines import aggregator_role, file_transport
from fhe_auc.machines.file_transport import NOTHING
from fhe_auc.machines.isolation import Isolation, Work, sentence
from fhe_auc.machines.result_hook import Retry
from fhe_auc.machines.site_state import SiteStorage
from fhe_auc.session import journal

File: TypeAlias = "tuple[int, str]"  # in which exchange, and its name there

_JOINING = ("session.convened", "session.helper")  # of which an aggregator opens one
_FOREIGN = "not for this role"
_BEGUN = "round-1.message"
_MOST_SKIPPED = 3  # files in the status of a session
_WITHOUT_KEYS = (
    "refused: it has begun, and aggregator.bundle, or what else has opened it, is not here any more: put that back, or "
    "the key holder makes another session"
)


@dataclass
class Session:
    """A session in the exchanges, as far as it is known; `step` is for the status."""

    name: str
    clock: Clock
    views: list[Arrivals]
    log: RoleLog
    step: str = ""
    since: str = ""
    wrong: str = ""  # what somebody has to mend
    places: object = None  # their versions
    looks: int = 0
    files: Mapping[File, Version] = field(default_factory=dict)
    ours: bool = False
    skipped: Mapping[str, str] = field(default_factory=dict)  # by file, why it does not count
    answered: object = None  # the round, and the version of its message
    written: str = ""  # what this role has put there
    version: Version | None = None  # of that
    lost: Retry = field(init=False)  # when that is written again
    retry: Retry = field(init=False)
    work: Work | None = None  # an aggregator's, while it runs
    failed: object = None  # the round in which that has ended with an error
    journal: Path = Path()

    def __post_init__(self) -> None:
        self.lost, self.retry = Retry(self.clock), Retry(self.clock)

    @property
    def place(self) -> str:
        """Where it is in each exchange."""
        return f"{self.name}/"

    def tell(self, step: str, wrong: str = "") -> None:
        """Log a step, and what is wrong, once; where something is, it is tried again later."""
        if (step, wrong) != (self.step, self.wrong):
            self.step, self.wrong, self.since = step, wrong, self.clock.told()
            (self.log.warning if wrong or step.startswith(("refused", "not answered")) else self.log.info)(
                "%s", one_line(f"{self.name}: {step}")
            )

    def told(self) -> dict[str, str]:
        """Return what the status says of it."""
        some = [f"{file}: {why}" for file, why in list(self.skipped.items())[:_MOST_SKIPPED]]
        step = f"{self.step}; skipped {'; '.join(some)}" if some else self.step
        return {
            "session": self.log.session,
            "folder": one_line(self.name),
            "step": one_line(step),
            "time": self.since,
        }

    def is_lost(self) -> bool:
        """Whether what this role has written is not there any more as it was."""
        return bool(self.written) and _version(self.views[0].exchange, self.written) != self.version


@dataclass
class Part(ABC):
    """What a role does in each session."""

    role: str
    config: Mapping[str, Any]
    storage: SiteStorage
    isolation: Isolation
    clock: Clock

    def rounds(self, session: Session) -> str:
        """Return the place in which this role's rounds are."""
        return session.place

    def runs(self, session: Session) -> bool:
        """Whether the session is being conducted, which then is all that is done in it."""
        return False

    @abstractmethod
    def attend(self, session: Session, new: Sequence[File], *, due: bool) -> None:
        """Do what `new` files ask for; all are new where something has failed before, and is `due` again."""


class Answering(Part):
    """A site, or a helper, that answers each round as its policy allows."""

    def rounds(self, session: Session) -> str:
        """Return the place of the session, or of its helper's rounds."""
        return f"{session.place}helpers/" if self.role == "helper" else session.place

    def attend(self, session: Session, new: Sequence[File], *, due: bool) -> None:
        """Take in what is for this role, and answer the newest round."""
        again = self._take_in(session, sorted(name for _, name in new if _arrives(name)))
        again |= self._answer(session, due=due)
        skipped = session.views[0].skipped if session.ours else {}
        session.skipped = {name.rstrip("/").rpartition("/")[2]: why for name, why in skipped.items()}
        if not again and (session.wrong or session.step.startswith("refused") or (session.files and not session.step)):
            session.tell("opened" if session.ours else _FOREIGN)
        session.retry.plan(wanted=again)

    def _take_in(self, session: Session, names: list[str]) -> bool:
        """Open what is for this role; return whether to try again, as something is wrong."""
        refused: dict[str, list[str]] = {}
        genuine = False
        exchange = session.views[0].exchange
        taken = self.storage.take_in(self.config, exchange, names, by_policy=True) if names else []
        for name, arrived in zip(names, taken, strict=True):
            session.ours |= arrived.ours
            if arrived.outcome == "opened":
                session.log.session = arrived.why.removeprefix("session ")
                session.tell("opened")
            elif arrived.outcome == "REFUSED":
                refused.setdefault(arrived.why, []).append(name.rpartition("/")[2])
                genuine |= arrived.genuine
        if session.ours:  # the others' files are for the others
            refused = {}
        told = "; ".join(f"{', '.join(files)}: {why}" for why, files in refused.items())
        if told:
            session.tell(f"refused: {told}", told if genuine else "")
        return bool(told)

    def _answer(self, session: Session, *, due: bool) -> bool:
        """Answer the newest round; return whether to try again."""
        place, view = self.rounds(session), session.views[0]
        number = file_transport.newest_round(view, place)
        skipped = any(name[: name.rfind("/") + 1] == place for name in view.skipped)  # it may be half a copy
        if number is None:
            return skipped
        asked = file_transport.message_name(place, number)
        version = number, _version(view.exchange, asked)
        if version == session.answered and not due:
            return skipped
        session.answered = version
        step, file, session.log, session.views[0], failure = self.isolation.call(
            partial(self._round, session.log, view, place, number)
        )
        if failure:
            if asked in session.views[0].skipped:
                return True  # the status names it
            if session.ours:
                raise EvaluationError(failure)
            if not session.step.startswith("refused"):  # which tells already what to do
                session.tell(f"{_FOREIGN}: {failure}")
            return True  # another's session
        session.ours = True
        if file != session.written:
            session.lost.plan(wanted=False)
        session.written, session.version = file, _version(view.exchange, file)
        session.tell(step)
        return skipped

    def _round(self, log: RoleLog, view: Arrivals, place: str, number: int) -> tuple[str, str, RoleLog, Arrivals, str]:
        """Answer a round; return the step that this is, the file, what is known now, and what has failed."""
        step, failure, file = "", "", ""
        try:
            file, ended = file_transport.answer(view, place, self.config, number, log, self.clock)
            word = "result delivered" if self.role == "site" else "ended"
            answered = file.split("/")[-2].replace("-", " ")
            step = word if ended else f"{answered} answered"
        except Exception as error:
            missed = isinstance(error, MessageError) and error.field == "missed"
            step, failure = (f"not answered: {error}", "") if missed else ("", sentence(error))
        return step, file, log, view, failure


@dataclass
class Conducting(Part):
    """An aggregator, with the folder `state`; `is_there` says whether a session of that name is."""

    state: Path
    is_there: Callable[[str], bool]

    def attend(self, session: Session, new: Sequence[File], *, due: bool) -> None:
        """Conduct the session once what opens it is there, until it has ended."""
        if any(_opens(name) for _, name in new):
            self._start(session, sorted(file for file in session.files if _opens(file[1])))
        elif any(name == session.place + _BEGUN for _, name in session.files) and not any(
            _opens(name) for _, name in session.files
        ):
            session.tell(_WITHOUT_KEYS)

    def _start(self, session: Session, files: Sequence[File]) -> None:
        opening = self._opening(session, files)
        if opening is None:
            return
        shown, document = opening
        own = session.journal
        config = {**self.config, "session": shown, "journal": str(own)}
        exchanges = [view.exchange for view in session.views]
        check = self.storage.checking(self.config) if len(exchanges) > 1 else None
        connect = partial(file_transport.FileTransport, exchanges, session.place, check=check)
        session.retry.plan(wanted=False)
        session.work = self.isolation.begin(
            lambda: aggregator_role.passes(config, connect, document, self.clock),
            lambda: "error" in (journal.read_record(own) or {}),  # which the status tells
        )

    def _opening(self, session: Session, files: Sequence[File]) -> tuple[str, bytes] | None:
        """Return a file that opens a session here, whose journal then is the session's; None: told why not.

        A session has one journal, and runs in one folder of the inboxes: a copy elsewhere does not count.
        """
        refused, ended, new = list[str](), "", list[tuple[tuple[str, bytes], Path]]()
        for number, name in files:
            view = session.views[number]
            try:
                document = view.exchange.read(name)
                own = self.state / "journals" / self.storage.opens(self.config, document, verified=False).hex()
                place = _read(own / "folder")
                if place not in (b"", here := os.fsencode(session.name)) and self.is_there(os.fsdecode(place)):
                    raise InputError(f"its session runs in the folder {os.fsdecode(place)!r}: remove this one")
                record = journal.read_record(own)
                if place == here and record is not None and journal.is_finished(record):
                    session.log.session, ended = own.name, _ended(record)
                    continue
                self.storage.opens(self.config, document)
                new.append(((view.shown(name), document), own))
            except (FheAucError, OSError) as error:
                refused.append(f"{name.rpartition('/')[2]}: {error}")
        if not new:
            session.tell(ended or f"refused: {'; '.join(dict.fromkeys(refused))}")
            session.retry.plan(wanted=not ended)
            return None
        opening, own = next(((file, own) for file, own in new if _read(own / "folder")), new[0])
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(own / "folder", os.fsencode(session.name), mode=0o600, durable=True)
        session.journal = own
        return opening

    def runs(self, session: Session) -> bool:
        """Say how the session that is conducted stands, and whether it goes on."""
        if session.work is None:
            return False
        runs, told = session.work.runs(), journal.read_status(session.journal)
        if told is not None:
            session.log.session = told["session"]
        if runs:
            if told is not None:
                why = told["awaited"]
                awaited = ", ".join(f"{who} ({why[who]})" if why[who] not in ("", NOTHING) else who for who in why)
                step = f"round {told['round']} of {told['rounds']}, awaits {awaited or 'nobody'}, until {told['until']}"
                session.tell(step, session.wrong if session.failed == told["round"] else "")
                skipped = told.get("skipped", {}).items()
                session.skipped = {file: reason for file, reason in skipped if reason not in why.values()}
            return True
        record, status = journal.read_record(session.journal) or {}, session.work.status
        session.work = None
        if status == 0:
            lacking = [name for name in record["counted"] if name not in record["delivered"]]
            session.tell(f"ended, but not for {', '.join(lacking)}: asked again" if lacking else _ended(record))
            session.retry.plan(wanted=bool(lacking))
            return False
        signalled = f"its process was ended by signal {-status}, and is started again"
        why = signalled if status < 0 else record.get("error", {}).get("message", "see the log")
        session.failed = told and told["round"]
        session.tell(f"failed: {why}", why)
        session.retry.plan(wanted=True)
        return False


def files_of(exchange: Exchange, place: str) -> dict[str, Version]:
    """Return the files of a place, which may be anybody's; none where that cannot be listed."""
    try:
        return {place + name: version for name, version in exchange.list(place).items() if not name.endswith("/")}
    except OSError:
        return {}


def _version(exchange: Exchange, name: str) -> Version | None:
    return files_of(exchange, name[: name.rfind("/") + 1]).get(name)


def _arrives(name: str) -> bool:
    return name.endswith(".bundle") or name.rpartition("/")[2] in _JOINING


def _opens(name: str) -> bool:
    return name.rpartition("/")[2] in ("aggregator.bundle", *_JOINING)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _ended(record: Mapping[str, Any]) -> str:
    """Return the last step of a session with this record, and who is not in its result."""
    why = record["refused"]
    left = (f"{name} ({why[name]})" if name in why else name for name in record["missing"])
    return "; not counted: ".join(filter(None, ("ended: all have their results", ", ".join(left))))
