"""One process that stays, and plays a role in every session that comes into a folder: `Server`.

    inbox/NAME/                a session: the key holder's files, the rounds (`file_transport`)
    state/status.json, lock    how it stands (`read`); locked while the process lives
    state/journals/SESSION/    an aggregator's sessions; `folder` names the one in the inbox
    state/taken/FILE           results that the hook has taken

Nothing here is needed to go on: what a session must not lose is in the key store, in journals and in the folder of
results, and whatever is done again after a crash has the same bytes. What fails is named, in log and status, and tried
again: at once when a file of the session changes, else after pauses that grow. One session's fault is no other's; a
site answers one after the other.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, MessageError
from fhe_auc.base.exchange import Arrivals, State, state_of
from fhe_auc.base.files import write_atomically
from fhe_auc.base.logs import RoleLog, one_line
from fhe_auc.machines import aggregator_role, file_transport, site_role
from fhe_auc.machines.file_transport import NOTHING
from fhe_auc.machines.result_hook import ResultHook, Retry
from fhe_auc.machines.site_state import SiteStorage, site_storage
from fhe_auc.session import journal

_COMMON = ("role", "inbox", "state", "store", "passphrase-file", "holder")
_LIMITS = ("protocol", "thresholds", "min-parties", "round-timeout", "close-at")
ENTRIES: Mapping[str, tuple[str, ...]] = {
    "site": tuple(dict.fromkeys((*_COMMON, *site_role.ENTRIES, "on-result", "on-result-seconds"))),
    "aggregator": (*_COMMON, *_LIMITS),
    "helper": _COMMON,
}
"""What a role's configuration may have."""

_NEEDED = {"site": ("data", "results"), "aggregator": ("holder",)}

_LOOK = 1.0, 10.0  # seconds between looks: at least, and at most where there is so much to look at
_SHARE = 0.0005  # of a core, for looking
_SETTLED = 3  # looks after the last change of a folder: the times of some file systems are coarse
_RENEWAL, _AFTER_FAILURE = 3600.0, 60.0  # seconds between looks for newer revocation lists
_BEAT, _STALE = 30.0, 600.0  # seconds: how often the status says that the process looks, and when that is too long ago
_GRACE, _PAUSE = 10.0, 0.02  # seconds that processes have to end, and between looks for that
_JOINING = ("session.convened", "session.helper")  # of which an aggregator opens one
_MOST_OPEN = 2**16  # files of a process, of which one for a session keeps none of the server's
_MOST_SKIPPED = 3  # files in the status of a session
T = TypeVar("T")
_FOREIGN = "not for this role"
_BEGUN = "round-1.message"
_WITHOUT_KEYS = (
    "refused: it has begun, and aggregator.bundle, or what else has opened it, is not here any more: put that back, or "
    "the key holder makes another session"
)


@dataclass
class _Session:
    """A folder of the inbox, as far as it is known; `step` is for the status."""

    name: str
    folders: list[Path]
    log: RoleLog = field(default_factory=RoleLog)
    step: str = ""
    since: str = ""
    wrong: str = ""  # what somebody has to mend
    times: object = None  # of the folders
    looks: int = 0
    files: dict[Path, State] = field(default_factory=dict)
    ours: bool = False
    failed: object = None  # the round in which its process has ended with an error
    skipped: Mapping[str, str] = field(default_factory=dict)  # by file, why it does not count
    arrivals: Arrivals = field(init=False)
    answered: object = None  # the round, and the state of its message
    written: dict[Path, State | None] = field(default_factory=dict)  # what this role has put there, as it was then
    lost: Retry = field(default_factory=Retry)  # when that is written again
    retry: Retry = field(default_factory=Retry)
    child: int = 0  # id of the process that conducts it, an aggregator's
    status: int = 0  # with which that has ended
    journal: Path = Path()

    def __post_init__(self) -> None:
        self.arrivals = Arrivals(self.log)

    def tell(self, step: str, wrong: str = "") -> None:
        """Log a step, and what is wrong, once; where something is, it is tried again later."""
        if (step, wrong) != (self.step, self.wrong):
            self.step, self.wrong, self.since = step, wrong, _now()
            (self.log.warning if wrong or step.startswith(("refused", "not answered")) else self.log.info)(
                "%s", one_line(f"{self.name}: {step}")
            )


class Server:
    """Plays a role while it is open, a context manager; `config` has `ENTRIES` of its ``role``.

    ``inbox`` is a folder, an aggregator's also a list of them (one for each site that sees no other's); ``state`` a
    folder of its own. ``store``, ``passphrase-file`` and ``holder`` are as the plug-in of `fhe_auc.machines.site_state`
    takes them, the rest as `site_role.answer`, `aggregator_role.run` and `ResultHook` do. Raises `InputError` for a
    configuration that cannot be, `FheAucError` where another process has ``state`` or ``store``, or that cannot be
    opened.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.role = role_of(config)
        for name in ("inbox", "state", "store", *_NEEDED.get(self.role, ())):
            if not config.get(name):
                raise InputError(f"{name} is not configured")
        given = config["inbox"]
        several = isinstance(given, list) and self.role == "aggregator"
        self._inboxes = [Path(str(each)) for each in (given if several else [given])]
        if not isinstance(given, str) and not (several and all(isinstance(each, str) for each in given)):
            raise InputError("inbox is a folder, at an aggregator also a list of them")
        self.config = dict(config)
        systemd = Path(os.environ.get("CREDENTIALS_DIRECTORY", "/nowhere"), "passphrase")
        if not config.get("passphrase-file") and systemd.exists():
            self.config["passphrase-file"] = str(systemd)
        if self.role == "aggregator" and sys.platform == "win32":
            raise InputError("this system starts no process for each session: use `fhe-auc session aggregate`")
        self.state = Path(str(config["state"]))
        self._by_policy = self.role in ("site", "helper")
        self._sessions: dict[str, _Session] = {}
        self._log, self._trouble, self._since = RoleLog(), "", _now()
        self._hook: ResultHook | None = None
        self._told: tuple[object, float] = (None, -math.inf)
        self._renewal, self._standing = 0.0, ""

    def __enter__(self) -> Server:
        with ExitStack() as held:
            held.callback(os.close, journal.lock_folder(self.state, "state", "serves with"))
            self._storage: SiteStorage = site_storage()
            held.enter_context(self._storage.serving(self.config, by_policy=self._by_policy))
            self._check = self._storage.checking(self.config) if self.role == "aggregator" else None
            if self.config.get("on-result"):
                self._hook = ResultHook(self.config, self.state / "taken", self._log)
            self._living, self._life = os.pipe()  # whose end, at ours, ends the sessions' processes
            held.callback(os.close, self._living)
            self._held = held.pop_all()
        self._log.info("%s: serves %s", self.role, one_line(", ".join(map(str, self._inboxes))))
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._life)
        deadline = time.monotonic() + _GRACE
        for session in self._sessions.values():
            while _runs(session):
                time.sleep(_PAUSE)
                if sys.platform != "win32" and time.monotonic() > deadline:
                    os.kill(session.child, signal.SIGKILL)
        if self._hook is not None:
            self._hook.end()
        self._tell(ended=True)
        self._held.close()
        self._log.info("%s: ended", self.role)

    def run(self, stop: threading.Event) -> None:
        """Look, and do what there is to do, until `stop` is set; errors as of the class."""
        with self:
            cost = 0.0  # of a look without work, in CPU seconds
            while not stop.is_set():
                began = time.thread_time()
                self.look(stop)
                cost = min(2 * cost + 1e-4, time.thread_time() - began)
                stop.wait(min(max(cost / _SHARE, _LOOK[0]), _LOOK[1]))

    def look(self, stop: threading.Event | None = None) -> None:
        """Do what there is to do, session by session, unless `stop` is set; and say how all stands."""
        wrong = self._find()
        if time.monotonic() > self._renewal:
            self._standing = self._renewed()
        wrong = wrong or self._standing
        for session in self._sessions.values():
            if stop is not None and stop.is_set():
                return
            try:
                self._attend(session)
            except Exception as error:  # one session's fault ends no other
                session.tell(f"failed: {_sentence(error)}", _sentence(error))
                session.retry.plan(wanted=True)
        if self._hook is not None:
            wrong = self._hook.look() or wrong
        if wrong and wrong != self._trouble:
            self._log.warning("%s", one_line(wrong))
        self._trouble = wrong
        self._tell()

    def _renewed(self) -> str:
        """Take newer revocation lists, and see that certificate and policy still stand; return what is wrong."""
        try:
            self._storage.take_in(self.config, [], by_policy=self._by_policy)
            self._check = self._storage.checking(self.config) if self.role == "aggregator" else None
        except Exception as error:
            self._renewal = time.monotonic() + _AFTER_FAILURE
            return _sentence(error)
        self._renewal = time.monotonic() + _RENEWAL
        return ""

    def _find(self) -> str:
        """Find the sessions, and forget those that are not there any more; return what is wrong with an inbox."""
        found, new, wrong = set[str](), dict[str, float](), ""
        for inbox in self._inboxes:
            try:
                with os.scandir(inbox) as entries:
                    for each in entries:
                        if each.name[0] != "." and each.is_dir(follow_symlinks=False):
                            found.add(each.name)
                            if each.name not in self._sessions:
                                new[each.name] = each.stat().st_mtime
            except OSError as error:
                wrong = f"inbox: {error}"
        for name in sorted(new, key=new.__getitem__, reverse=True):  # a policy may allow one in so many hours
            self._sessions[name] = _Session(name, [inbox / name for inbox in self._inboxes])
        for name in [] if wrong else self._sessions.keys() - found:
            if not self._sessions[name].child:
                del self._sessions[name]
        return wrong

    def _attend(self, session: _Session) -> None:
        """Do what a session's files ask for, if they have changed, or something has failed some time ago."""
        if len(self._inboxes) > 1:  # a link in one of them is a site's, and may point anywhere
            session.folders = [
                folder for folder in (each / session.name for each in self._inboxes) if not folder.is_symlink()
            ]
        folders = [folder / "helpers" if self.role == "helper" else folder for folder in session.folders]
        times = [each and each[2] for each in map(_state, (*session.folders, *folders))]
        if times != session.times:
            session.times, session.looks = times, _SETTLED
        if session.child and self._watch(session):
            session.looks = _SETTLED  # when it has ended
        lost = any(_state(file) != state for file, state in session.written.items())
        if lost and not session.lost.wanted:  # a program may carry off what is there: not at each look
            session.lost.plan(wanted=True)
        due = session.retry.due
        if lost and session.lost.due:
            session.lost.plan(wanted=True)
            due = True
        if not (session.looks or due):
            return
        session.looks = max(0, session.looks - 1)
        if self._check is not None and len(session.folders) > 1:
            file_transport.forward(session.folders, session.arrivals, self._check)
        files = {file: state for folder in {*session.folders, *folders} for file, state in _files(folder)}
        changed = {file for file, state in files.items() if session.files.get(file) != state}
        session.files = files
        if not (changed or due) or session.child:
            return
        due |= session.retry.wanted  # something has failed, and something has changed
        new = set(files) if due else changed
        if self.role == "aggregator":
            if any(map(_opens, new)):
                self._start(session, files)
            elif _BEGUN in {file.name for file in files} and not any(map(_opens, files)):
                session.tell(_WITHOUT_KEYS)
            return
        again = self._take_in(session, sorted(filter(_arrives, new)))
        again |= self._answer(session, folders[0], due=due)
        session.skipped = {file.name: why for file, why in session.arrivals.skipped.items() if session.ours}
        if not again and (session.wrong or session.step.startswith("refused") or (files and not session.step)):
            session.tell("opened" if session.ours else _FOREIGN)
        session.retry.plan(wanted=again)

    def _take_in(self, session: _Session, files: list[Path]) -> bool:
        """Open what is for this role; return whether to try again, as something is wrong."""
        refused: dict[str, list[Path]] = {}
        genuine = False
        taken = self._storage.take_in(self.config, files, by_policy=self._by_policy) if files else []
        for file, arrived in zip(files, taken, strict=True):
            session.ours |= arrived.ours
            if arrived.outcome == "opened":
                session.log.session = arrived.why.removeprefix("session ")
                session.tell("opened")
            elif arrived.outcome == "REFUSED":
                refused.setdefault(arrived.why, []).append(file)
                genuine |= arrived.genuine
        if session.ours:  # the others' files are for the others
            refused = {}
        told = "; ".join(f"{', '.join(file.name for file in of)}: {why}" for why, of in refused.items())
        if told:
            session.tell(f"refused: {told}", told if genuine else "")
        return bool(told)

    def _answer(self, session: _Session, folder: Path, *, due: bool) -> bool:
        """Answer the newest round; return whether to try again."""
        number = file_transport.newest_round(folder, session.arrivals)
        skipped = any(each.parent == folder for each in session.arrivals.skipped)  # it may be half a copy
        if number is None:
            return skipped
        asked = file_transport.message_file(folder, number)
        state = number, _state(asked)
        if state == session.answered and not due:
            return skipped
        session.answered = state
        step, file, session.log, session.arrivals, failure = self._apart(partial(self._round, session, folder, number))
        if failure:
            if asked in session.arrivals.skipped:
                return True  # the status names it
            if session.ours:
                raise EvaluationError(failure)
            if not session.step.startswith("refused"):  # which tells already what to do
                session.tell(f"{_FOREIGN}: {failure}")
            return True  # another's session
        session.ours = True
        if file is not None and file not in session.written:
            session.lost.plan(wanted=False)
        session.written = {} if file is None else {file: _state(file)}
        session.tell(step)
        return skipped

    def _round(self, session: _Session, folder: Path, number: int) -> tuple[str, Path | None, RoleLog, Arrivals, str]:
        """Answer a round; return the step that this is, the file, what is known now, and what has failed."""
        log, arrivals, step, failure, file = session.log, session.arrivals, "", "", None
        try:
            file, ended = file_transport.answer(folder, self.config, number, log, arrivals)
            word = "result delivered" if self.role == "site" else "ended"
            step = word if ended else f"{file.parent.name.replace('-', ' ')} answered"
        except Exception as error:
            missed = isinstance(error, MessageError) and error.field == "missed"
            step, failure = (f"not answered: {error}", "") if missed else ("", _sentence(error))
        return step, file, log, arrivals, failure

    def _apart(self, work: Callable[[], T]) -> T:
        """Return what `work` returns in a process of its own, which gives back the memory of rows and libraries."""
        if sys.platform == "win32":
            return work()
        reading, writing = os.pipe()
        child = self._fork(lambda: _write(writing, pickle.dumps(work())), writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            told = file.read()
        _, status = os.waitpid(child, 0)
        if status:
            raise EvaluationError(f"the process that answers has ended with {os.waitstatus_to_exitcode(status)}")
        returned: T = pickle.loads(told)  # noqa: S301 - our own
        return returned

    def _start(self, session: _Session, files: Iterable[Path]) -> None:
        """Conduct a session in a process of its own: it has the key of the store, and takes no other down with it."""
        opening = self._opening(session, filter(_opens, sorted(files)))
        if opening is None:
            return
        own = session.journal
        about = {"session": str(opening), "journal": str(own)}
        session.retry.plan(wanted=False)
        transport = partial(file_transport.FileTransport, session.folders, check=self._check, inside=True)
        session.child = self._fork(lambda: aggregator_role.run({**self.config, **about}, transport), own=own)

    def _opening(self, session: _Session, files: Iterable[Path]) -> Path | None:
        """Return the file that opens a session here, whose journal then is the session's; None: told why not.

        A session has one journal, and runs in one folder of the inboxes: a copy elsewhere does not count.
        """
        refused, ended, new = list[str](), "", list[tuple[Path, Path]]()
        for file in files:
            try:
                own = self.state / "journals" / self._storage.opens(self.config, file, verified=False).hex()
                place = _read(own / "folder")
                if place not in (b"", here := os.fsencode(session.name)) and os.fsdecode(place) in self._sessions:
                    raise InputError(f"its session runs in the folder {os.fsdecode(place)!r}: remove this one")
                record = journal.read_record(own)
                if place == here and record is not None and journal.is_finished(record):
                    session.log.session, ended = own.name, _ended(record)
                    continue
                self._storage.opens(self.config, file)
                new.append((file, own))
            except (FheAucError, OSError) as error:
                refused.append(f"{file.name}: {error}")
        if not new:
            session.tell(ended or f"refused: {'; '.join(dict.fromkeys(refused))}")
            session.retry.plan(wanted=not ended)
            return None
        opening, own = next(((file, own) for file, own in new if _read(own / "folder")), new[0])
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(own / "folder", os.fsencode(session.name), mode=0o600, durable=True)
        session.journal = own
        return opening

    def _fork(self, work: Callable[[], object], *kept: int, own: Path | None = None) -> int:
        """Do `work` in a process that has these files, none of the server's locks, and ends with it; return its id.

        `own` is the journal of a session that it conducts.
        """
        if sys.platform == "win32":
            raise NotImplementedError
        if child := os.fork():
            return child
        status = 1
        try:
            held = sorted({2, self._living, *kept, _MOST_OPEN})
            for below, above in pairwise(held):
                os.closerange(below + 1, above)
            threading.Thread(target=lambda: os._exit(1 + len(os.read(self._living, 1))), daemon=True).start()
            work()
            status = 0
        except Exception as error:
            if own is None or "error" not in (journal.read_record(own) or {}):  # else the server tells
                self._log.error("%s", _sentence(error))
        finally:
            os._exit(status)

    def _watch(self, session: _Session) -> bool:
        """Say how the session's process is doing; return whether it runs."""
        runs, told = _runs(session), journal.read_status(session.journal)
        if told is not None:
            session.log.session = told["session"]
        if runs:
            if told is not None:
                why = told["awaited"]
                awaited = ", ".join(f"{who} ({why[who]})" if why[who] not in ("", NOTHING) else who for who in why)
                step = f"round {told['round']} of {told['rounds']}, awaits {awaited or 'nobody'}, until {told['until']}"
                session.tell(step, session.wrong if session.failed == told["round"] else "")
                skipped = told.get("skipped", {}).items()
                session.skipped = {file: each for file, each in skipped if each not in why.values()}
            return True
        record = journal.read_record(session.journal) or {}
        if session.status == 0:
            lacking = [name for name in record["counted"] if name not in record["delivered"]]
            session.tell(f"ended, but not for {', '.join(lacking)}: asked again" if lacking else _ended(record))
            session.retry.plan(wanted=bool(lacking))
            return False
        signalled = f"its process was ended by signal {-session.status}, and is started again"
        why = signalled if session.status < 0 else record.get("error", {}).get("message", "see the log")
        session.failed = told and told["round"]
        session.tell(f"failed: {why}", why)
        session.retry.plan(wanted=True)
        return False

    def _tell(self, *, ended: bool = False) -> None:
        """Write the status where it has changed, or has not been written for a while."""
        wrong = next((f"{each.name}: {each.wrong}" for each in self._sessions.values() if each.wrong), "")
        stand = [each for each in self._sessions.values() if each.step]
        known = [(each.log.session, one_line(each.name), one_line(_shown(each)), each.since) for each in stand]
        health = one_line(self._trouble or wrong or "ok")
        told, at = (health, known, ended), time.monotonic()
        if told == self._told[0] and at < self._told[1] + _BEAT:
            return
        sessions = [dict(zip(("session", "folder", "step", "time"), each, strict=True)) for each in known]
        status = {"role": self.role, "since": self._since, "look": _now(), "health": health, "sessions": sessions}
        try:
            journal.keep_status(self.state, status)
            self._told = told, at
        except OSError as error:
            if told != self._told[0]:
                self._log.warning("the status cannot be written: %s", error)
            journal.forget_status(self.state)  # rather none than an old one
            self._told = told, at


def role_of(config: Mapping[str, Any]) -> str:
    """Return the role that a configuration is for; raise `InputError` where it is none."""
    role = config.get("role")
    if role not in ENTRIES:
        raise InputError(f"role is one of {', '.join(map(repr, ENTRIES))}, not {role!r}")
    return str(role)


def read(config: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the status that a server has written last, and what is wrong with it: "" if all is well."""
    if not config.get("state"):
        raise InputError("state is not configured")
    folder = Path(str(config["state"]))
    told = journal.read_status(folder)
    if not journal.is_running(folder):
        return told or {}, "it does not run: start `fhe-auc serve`"
    if told is None:
        return {}, f"it runs, but no status can be read or written in {str(folder)!r} (a full disk?): see its log"
    ago = (datetime.now(timezone.utc) - datetime.fromisoformat(told["look"])).total_seconds()
    if abs(ago) > _STALE:
        return told, f"it has not looked for {ago:.0f} s: see its log"
    return told, "" if told["health"] == "ok" else told["health"]


def _arrives(file: Path) -> bool:
    return file.suffix == ".bundle" or file.name in _JOINING


def _opens(file: Path) -> bool:
    return file.name in ("aggregator.bundle", *_JOINING)


def _runs(session: _Session) -> bool:
    """Whether the session's process lives; keeps its status once it has ended: below 0 by a signal, as `subprocess`."""
    if session.child and sys.platform != "win32":
        ended, status = os.waitpid(session.child, os.WNOHANG)
        if ended:
            session.child, session.status = 0, os.waitstatus_to_exitcode(status)
    return bool(session.child)


def _files(folder: Path) -> list[tuple[Path, State]]:
    """Return the plain files of a folder, and what changes with their contents; none where that cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return [(Path(each.path), state_of(each)) for each in entries if each.is_file(follow_symlinks=False)]
    except OSError:  # of an inbox, `_find` tells that; of a session's folder, it may be a file, or anybody's
        return []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _state(path: Path) -> State | None:
    try:
        return state_of(path)
    except OSError:
        return None


def _shown(session: _Session) -> str:
    """Return a session's step, with files that do not count."""
    some = [f"{file}: {why}" for file, why in list(session.skipped.items())[:_MOST_SKIPPED]]
    return f"{session.step}; skipped {'; '.join(some)}" if some else session.step


def _write(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _ended(record: Mapping[str, Any]) -> str:
    """Return the last step of a session with this record, and who is not in its result."""
    why = record["refused"]
    left = (f"{name} ({why[name]})" if name in why else name for name in record["missing"])
    return "; not counted: ".join(filter(None, ("ended: all have their results", ", ".join(left))))


def _sentence(error: Exception) -> str:
    """Return what may be told of an error: of those that are not ours no text, which might hold somebody's rows."""
    return str(error) if isinstance(error, (FheAucError, OSError)) else f"internal error: {type(error).__name__}"


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
