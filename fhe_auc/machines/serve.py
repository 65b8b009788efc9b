"""One process that stays, and plays a role in every session that comes into an exchange: `Server`.

    the exchange               sessions, each in the places of those who meet in it (`file_transport`)
    state/status.json, lock    how it stands (`health.read_role`); locked while the process lives
    state/metrics.prom         the same for Prometheus
    state/journals/SESSION/    an aggregator's sessions
    state/taken/FILE           results that the hook has taken

Nothing here is needed to go on: what a session must not lose is in the key store, in journals and in the folder of
results, and whatever is done again after a crash has the same bytes. What fails is named, in log and status, and tried
again: at once when a file of the session changes, else after pauses that grow. One session's fault is no other's; a
site answers one after the other. A look is a pass that never sleeps, by the clock that the server is given.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.files import read_config, write_atomically
from fhe_auc.base.logs import RoleLog, one_line
from fhe_auc.exchange.exchange import Arrivals, Exchange, Version, place_of
from fhe_auc.exchange.remote import open_exchange
from fhe_auc.machines import site_role
from fhe_auc.machines.answering import Answering
from fhe_auc.machines.conducting import Conducting
from fhe_auc.machines.file_transport import ANNOUNCEMENT, is_submission, of_session
from fhe_auc.machines.health import Health, Problem, metrics
from fhe_auc.machines.isolation import Isolation, sentence
from fhe_auc.machines.result_hook import ResultHook
from fhe_auc.machines.role_config import ENTRIES, required_role
from fhe_auc.machines.served_session import SESSION, Part, Session
from fhe_auc.machines.site_state import Standing, site_storage
from fhe_auc.session import journal

if TYPE_CHECKING:
    from fhe_auc.machines.site_state import SiteStorage


_FIXED = ("role", "exchange", "state", "store")  # entries that a process has to be started again for

_LOOK = 1.0, 60.0  # seconds between looks: at least, and at most
_SHARE, _BUSY_SHARE = 0.0003, 0.003  # of a core, for looking: while there is no session, or one
_RENEWAL, _TIDYING = 60.0, 3600.0  # seconds until it is asked again who is a member; between looks for what is over
_SET = 60.0  # seconds by which a clock jumps that somebody has set
_BEAT = 30.0  # seconds: how often the status says that the process looks
_TURN = 5  # looks, in which all places are looked at where nobody is known to make sessions
_MOST_SESSIONS = 200  # at a time in a member's place, which removes them a day after their end
METRICS = "metrics.prom"
DECIDED = "decided"
"""The file in the role's state that changes when a person has decided on a session: it is then looked at again."""


class Server:
    """Plays a role while it is open, a context manager; `config` has `ENTRIES` of its ``role``.

    ``exchange`` is a folder or a URL (`fhe_auc.exchange.remote`), ``state`` a folder of its own. ``store`` and
    ``passphrase-file`` are as `fhe_auc.machines.site_state.site_storage` takes them; with ``result-hours`` it is a
    problem that the last result is older; the rest is as `site_role.answer`, `aggregator_role.passes` and `ResultHook`
    take it. An `exchange` may stand in place of the one configured. What is done `apart` has a process of its own
    (`fhe_auc.machines.isolation`). The configuration is read again once `file`, which it is from, has changed.

    Raises `InputError` for a configuration that cannot be, `FheAucError` where another process has ``state`` or
    ``store``, or that cannot be opened.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        clock: Clock = SYSTEM,
        exchange: Exchange | None = None,
        apart: bool = sys.platform != "win32",
        file: Path | None = None,
    ) -> None:
        self.role = required_role(config)
        self.config = dict(config)
        self._exchange = open_exchange(str(config["exchange"])) if exchange is None else exchange
        self._file, self._read = file, _state_of(file)
        self._decided = _state_of(Path(str(config["state"]), DECIDED))
        systemd = Path(os.environ.get("CREDENTIALS_DIRECTORY", "/nowhere"), "passphrase")
        if not config.get("passphrase-file") and systemd.exists():
            self.config["passphrase-file"] = str(systemd)
        self.state = Path(str(config["state"]))
        self._clock, self._apart = clock, apart
        self._sessions: dict[tuple[str, str], Session] = {}
        self._log, self._since = RoleLog(), clock.told()
        self._ahead = clock.ahead
        self.health = Health(clock)
        self._standing = Standing("", ())
        self._known, self._turn = tuple[str, ...](), 0  # all who may make sessions; whose turn it is
        self._unread = set[str]()  # those whose places could not be listed
        self._hook: ResultHook | None = None
        self._told: tuple[object, float] | None = None
        self._renewal = self._tidied = clock.monotonic() - 1
        self._wrong: list[Problem] = []  # of the role itself, until it is asked again
        self._columns: list[Problem] | None = None
        self._configuration: list[Problem] = []
        self._replaced = 0
        self._result: datetime | None = None
        self._once = False

    def __enter__(self) -> Server:
        with ExitStack() as held:
            held.callback(os.close, journal.lock_folder(self.state, "state", "serves with"))
            self._storage: SiteStorage = site_storage(self._clock)
            held.enter_context(self._storage.serving(self.config))
            self._set_hook()
            self._isolation = Isolation(self._log, apart=self._apart)
            self._held = held.pop_all()
        given = self.config, self._storage, self._isolation, self._clock, self._standing
        self._part: Part = Conducting(*given, self.state) if self.role == "aggregator" else Answering(*given)
        self._log.info("%s: serves %s", self.role, one_line(str(self._exchange)))
        return self

    def __exit__(self, *error: object) -> None:
        with self._held:
            self._isolation.end(session.work for session in self._sessions.values() if session.work is not None)
            if self._hook is not None:
                self._hook.end()
            if self._told is not None:  # else it has not looked, and knows nothing
                self._tell(ended=True)
        self._log.info("%s: ended", self.role)

    def run(self, stop: threading.Event) -> None:
        """Look, and do what there is to do, until `stop` is set; errors as of the class."""
        with self:
            cost = 0.0  # of a look without work, in CPU seconds
            while not stop.is_set():
                began = time.process_time()
                self.look(stop)
                cost = min(2 * cost + 1e-4, time.process_time() - began)
                busy = any(session.concerns and not session.is_over for session in self._sessions.values())
                stop.wait(min(max(cost / (_BUSY_SHARE if busy else _SHARE), _LOOK[0]), _LOOK[1]))

    def once(self) -> str:
        """Look once, or twice where a file may just be on its way; return how all stands, as of `Health.line`."""
        self._once = True
        with self:
            self.look()
            if any(session.view.skipped for session in self._sessions.values()):
                time.sleep(_LOOK[0])
                self.look()
            return self.health.line

    def look(self, stop: threading.Event | None = None) -> None:
        """Do what there is to do, session by session, unless `stop` is set; and say how all stands."""
        self._reconfigure()
        if self._wrong or self._standing.wrong or self._clock.monotonic() > self._renewal:
            self._wrong = self._renewed()
        problems = [*self._upkeep(), *self._find()]
        if self.role == "site":
            problems += _tried("repeat", lambda: self._storage.make_due(self.config, self._exchange))
        for session in list(self._sessions.values()):
            if stop is not None and stop.is_set():
                return
            try:
                self._part.attend(session)
            except Exception as error:  # one session's fault ends no other
                session.tell(f"failed: {sentence(error)}", sentence(error))
                session.retry.plan(wanted=True)
        if self._hook is not None and (why := self._hook.look()):
            problems.append(Problem("result", why))
        if self._clock.monotonic() > self._tidied:
            self._tidied = self._clock.monotonic() + _TIDYING
            self._part.tidy(self._exchange)
        self._see([*self._configuration, *self._wrong, *problems, *self._checked_columns(), *self._old()])
        self._tell()

    def _reconfigure(self) -> None:
        """Take in the configuration again where its file has changed; try again what a clock that is set may mend."""
        if abs((ahead := self._clock.ahead) - self._ahead) > _SET:
            self._ahead = ahead
            self._try_again()
        if (decided := _state_of(self.state / DECIDED)) != self._decided:
            self._decided = decided
            self._renewal, self._known = self._clock.monotonic() - 1, ()
            self._try_again()
        state = _state_of(self._file)
        if self._file is None or state == self._read:
            return
        self._read, self._configuration, self._columns = state, [], None
        try:
            found = read_config(self._file, ENTRIES[self.role])
            required_role(found)
            if changed := [name for name in _FIXED if found.get(name) != self.config.get(name)]:
                raise InputError(f"{', '.join(changed)}: start the process again, to have that changed")
            found.setdefault("passphrase-file", self.config.get("passphrase-file"))
            self.config.clear()
            self.config.update(found)
            self._set_hook()
            self._renewal = self._clock.monotonic() - 1
            self._try_again()
            self._log.info("%s: the configuration has changed", self.role)
        except (FheAucError, OSError) as error:
            self._configuration = [Problem("role", sentence(error))]

    def _try_again(self) -> None:
        for session in self._sessions.values():
            session.retry.plan(wanted=session.retry.wanted, now=True)

    def _set_hook(self) -> None:
        if self._hook is not None:
            self._hook.end()
        self._hook = None
        if self.config.get("on-result"):
            self._hook = ResultHook(self.config, self.state / "taken", self._log, self._clock)

    def _renewed(self) -> list[Problem]:
        """Ask who is a member, and whose sessions the role takes part in; return what is wrong."""
        self._renewal, before = self._clock.monotonic() + _RENEWAL, self._standing.wrong
        try:
            self._standing = self._part.standing = self._storage.standing(self.config, self._exchange)
        except Exception as error:
            return [Problem("role", sentence(error))]
        _, _, _, wrong, ends = self._standing
        problems = [Problem("members", wrong)] if wrong == before and wrong else []  # else it may be on its way
        if ends is not None:
            problems.append(Problem("members", f"the members' file ends on {ends:%Y-%m-%d}: `fhe-auc members renew`"))
        return problems

    def _upkeep(self) -> list[Problem]:
        """Have the state tidied; return what is wrong with it."""
        try:
            why = self._storage.upkeep(self.config)
            return [Problem("restored", why)] if why else []
        except (FheAucError, OSError) as error:
            return [Problem("role", sentence(error))]

    def _find(self) -> list[Problem]:
        """Find the sessions, and forget those that are not there any more; return what is wrong with the exchange."""
        looked_at, unread, problems = self._looked_at(), set[str](), list[Problem]()
        listed = {known for known in self._sessions if known[0] in self._known and known[0] not in looked_at}
        for maker in looked_at:
            try:
                there = self._exchange.list(place_of(maker))
            except FileNotFoundError:
                there = {}
            except (OSError, InputError) as error:
                problems.append(Problem("role", f"exchange: {sentence(error)}"))
                unread.add(maker)
                listed |= {known for known in self._sessions if known[0] == maker}
                continue
            found = [(maker, name[:-1]) for name in there if SESSION.fullmatch(name)]
            if len(found) > _MOST_SESSIONS:
                why = f"of {len(found):,} sessions in its place {_MOST_SESSIONS} are looked at: it removes what is over"
                problems.append(Problem("skipped", why, maker))
                found.sort(key=lambda known: known not in self._sessions)
            listed |= set(found[:_MOST_SESSIONS])
        self._unread = unread
        own = {name: maker for (maker, name), known in self._sessions.items() if known.met and known.met.maker == maker}
        listed = {(maker, name) for maker, name in listed if own.get(name, maker) == maker}  # others have answers there
        new = [self._met(*known) for known in listed - self._sessions.keys()]
        for session in sorted(new, key=self._comes_first, reverse=True):
            self._sessions[session.maker, session.name] = session
        for known in [known for known in self._sessions if known not in listed]:
            if self._sessions[known].work is None:
                del self._sessions[known]
        return problems

    def _looked_at(self) -> set[str]:
        """Return whose places are looked at now: of who makes sessions, and of some of those who may, in turn."""
        makers, others, before = self._standing.makers, self._standing.others, self._known
        self._known = (*makers, *others)
        if self._known != before:
            return {*self._known}
        busy = {session.maker for session in self._sessions.values() if session.concerns} | self._unread
        number = -(-len(others) // _TURN)
        some = (*others, *others)[self._turn : self._turn + number]
        self._turn = (self._turn + number) % max(len(others), 1)
        return {*makers, *some, *busy.intersection(self._known)}

    def _met(self, maker: str, name: str) -> Session:
        log = RoleLog()
        view = Arrivals(self._exchange, log, self._clock, lambda name: of_session(name, self._part.bundle))
        return Session(maker, name, self._clock, view, log)

    def _comes_first(self, session: Session) -> tuple[bool, float]:
        """Return what is larger for who is attended to first: a turn takes one session alone, the newest.

        Before come those with answers of this role: they show that its store was put back before it answers others.
        """
        answered, begins = False, 0.0
        with suppress(FheAucError, OSError):
            there = self._exchange.list(f"{place_of(self._standing.name)}{session.name}/")
            answered = any(map(is_submission, there))
        with suppress(FheAucError, OSError):
            begins = self._storage.begins(self._exchange.read(session.place + ANNOUNCEMENT))
        return answered, begins

    def _see(self, problems: list[Problem]) -> None:
        """Take in what is wrong: as of `fhe_auc.machines.health`."""
        clocks: dict[str, tuple[float, str, str]] = {}
        for session in self._sessions.values():
            self._replaced += bool(session.replaced)
            found = list(session.problems())
            if found and any(later.mends(session) for later in self._sessions.values()):
                found = [problem for problem in found if problem.rule == "replaced"]
            problems += found
            for member, (heard, why) in session.clocks.items():
                clocks[member] = max(clocks.get(member, (0.0, "", "")), (heard, why, session.name))
            if session.is_over:  # nothing more will show that a clock has been set
                session.clocks = {member: each for member, each in session.clocks.items() if not each[1]}
        problems += [Problem("clock", why, member, name) for member, (_, why, name) in clocks.items() if why]
        before = self.health.line
        self.health.see(problems)
        if self.health.line not in ("ok", before):
            self._log.warning("%s", self.health.line)

    def _checked_columns(self) -> list[Problem]:
        """Return what is wrong with a site's file of rows, as it was when the process or its configuration began."""

        def wrong() -> list[str]:
            asked = self._storage.columns(self.config)
            return [self._isolation.call(partial(site_role.wrong_columns, self.config, *asked))]

        if self._columns is None or self._columns:
            self._columns = _tried("columns", wrong) if self.role == "site" else []
        return self._columns

    def _old(self) -> list[Problem]:
        """Return that the last result is too old, if it is."""
        hours = float(self.config.get("result-hours") or 0)
        if self.role == "site":  # not what a clock was ahead at
            latest = self._clock.now() + timedelta(hours=hours or 24)
            times = map(_time, Path(str(self.config["results"])).glob("*-*.json"))
            self._result = max((time for time in times if time is not None and time <= latest), default=None)
        else:
            over = [datetime.fromisoformat(session.since) for session in self._sessions.values() if session.is_over]
            self._result = max([*([self._result] if self._result else []), *over], default=None)
        last = self._result or datetime.fromisoformat(self._since)
        if not hours or self._clock.now() - last <= timedelta(hours=hours):
            return []
        why = f"the last result is older than {hours:g} hours" if self._result else f"no result within {hours:g} hours"
        return [Problem("old", why)]

    def _tell(self, *, ended: bool = False) -> None:
        """Write the status where it has changed, or has not been written for a while."""
        sessions = [session.told() for session in self._sessions.values() if session.step]
        told, at = (self.health.problems, sessions, ended), self._clock.monotonic()
        if self._told is not None and told == self._told[0] and at < self._told[1] + _BEAT and not self._once:
            return
        status = {
            "role": self.role,
            "name": self._standing.name,
            "since": self._since,
            "look": self._clock.told(),
            "once": self._once,
            "health": self.health.line,
            "problems": self.health.told(),
            "sessions": sessions,
            "replaced": self._replaced,
            "result": self._result.isoformat() if self._result else "",
        }
        try:
            journal.keep_status(self.state, status)
            write_atomically(self.state / METRICS, metrics(status).encode(), mode=0o644)
        except OSError as error:
            if self._told is None or told != self._told[0]:
                self._log.warning("the status cannot be written: %s", error)
            journal.forget_status(self.state)  # rather none than an old one
        self._told = told, at


def _tried(rule: str, wrong: Callable[[], Iterable[str]]) -> list[Problem]:
    """Return what is `wrong`, or why that cannot be said."""
    try:
        return [Problem(rule, why) for why in wrong() if why]
    except Exception as error:
        return [Problem(rule, sentence(error))]


def _time(file: Path) -> datetime | None:
    """Return when a result came, by its file's name; None for what people have put there."""
    with suppress(ValueError):
        return datetime.strptime(file.name.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    return None


def _state_of(file: Path | None) -> Version | None:
    """Return what changes with a file; None where there is none."""
    with suppress(OSError):
        found = None if file is None else file.stat()
        return found and (found.st_mtime_ns, found.st_ino, found.st_size)
    return None
