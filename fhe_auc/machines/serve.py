"""One process that stays, and plays a role in every session that comes into a folder: `Server`.

    inbox/NAME/                a session: the key holder's files, the rounds (`file_transport`)
    state/status.json, lock    how it stands (`read`); locked while the process lives
    state/journals/SESSION/    an aggregator's sessions; `folder` names the one in the inbox
    state/taken/FILE           results that the hook has taken

Nothing here is needed to go on: what a session must not lose is in the key store, in journals and in the folder of
results, and whatever is done again after a crash has the same bytes. What fails is named, in log and status, and tried
again: at once when a file of the session changes, else after pauses that grow. One session's fault is no other's; a
site answers one after the other. A look is a pass that never sleeps, by the clock that the server is given.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import InputError
from fhe_auc.base.exchange import Arrivals, Exchange, Folder, Version
from fhe_auc.base.logs import RoleLog, one_line
from fhe_auc.machines import file_transport, site_role
from fhe_auc.machines.isolation import Isolation, sentence
from fhe_auc.machines.result_hook import ResultHook
from fhe_auc.machines.served_session import Answering, Conducting, File, Part, Session, files_of
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


class Server:
    """Plays a role while it is open, a context manager; `config` has `ENTRIES` of its ``role``.

    ``inbox`` is a folder, an aggregator's also a list of them (one for each site that sees no other's); ``state`` a
    folder of its own. ``store``, ``passphrase-file`` and ``holder`` are as the plug-in of `fhe_auc.machines.site_state`
    takes them, the rest as `site_role.answer`, `aggregator_role.passes` and `ResultHook` do. The exchanges `inboxes`
    may stand in place of folders. What is done `apart` has a process of its own (`fhe_auc.machines.isolation`).

    Raises `InputError` for a configuration that cannot be, `FheAucError` where another process has ``state`` or
    ``store``, or that cannot be opened.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        clock: Clock = SYSTEM,
        inboxes: Sequence[Exchange] | None = None,
        apart: bool = sys.platform != "win32",
    ) -> None:
        self.role = role_of(config)
        for name in ("inbox", "state", "store", *_NEEDED.get(self.role, ())):
            if not config.get(name):
                raise InputError(f"{name} is not configured")
        given = config["inbox"]
        several = isinstance(given, list) and self.role == "aggregator"
        if not isinstance(given, str) and not (several and all(isinstance(inbox, str) for inbox in given)):
            raise InputError("inbox is a folder, at an aggregator also a list of them")
        folders = [Folder(Path(inbox)) for inbox in (given if several else [given])]
        self._inboxes: Sequence[Exchange] = folders if inboxes is None else inboxes
        self._listed: list[dict[str, Version]] = []
        self.config = dict(config)
        systemd = Path(os.environ.get("CREDENTIALS_DIRECTORY", "/nowhere"), "passphrase")
        if not config.get("passphrase-file") and systemd.exists():
            self.config["passphrase-file"] = str(systemd)
        self.state = Path(str(config["state"]))
        self._by_policy = self.role in ("site", "helper")
        self._clock, self._apart = clock, apart
        self._sessions: dict[str, Session] = {}
        self._log, self._trouble, self._since = RoleLog(), "", clock.told()
        self._hook: ResultHook | None = None
        self._told: tuple[object, float] = (None, -math.inf)
        self._renewal, self._standing = -math.inf, ""

    def __enter__(self) -> Server:
        with ExitStack() as held:
            held.callback(os.close, journal.lock_folder(self.state, "state", "serves with"))
            self._storage: SiteStorage = site_storage(self._clock)
            held.enter_context(self._storage.serving(self.config, by_policy=self._by_policy))
            if self.config.get("on-result"):
                self._hook = ResultHook(self.config, self.state / "taken", self._log, self._clock)
            self._check = self._storage.checking(self.config) if self.role == "aggregator" else None
            self._isolation = Isolation(self._log, apart=self._apart)
            self._held = held.pop_all()
        part = self.role, self.config, self._storage, self._isolation, self._clock
        self._part: Part = Answering(*part)
        if self._check is not None:
            self._part = Conducting(*part, self.state, self._sessions.__contains__)
        self._log.info("%s: serves %s", self.role, one_line(", ".join(map(str, self._inboxes))))
        return self

    def __exit__(self, *error: object) -> None:
        with self._held:
            self._isolation.end(session.work for session in self._sessions.values() if session.work is not None)
            if self._hook is not None:
                self._hook.end()
            self._tell(ended=True)
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
        if self._clock.monotonic() > self._renewal:
            self._standing = self._renewed()
        wrong = wrong or self._standing
        if self.role == "site":
            wrong = wrong or "; ".join(self._storage.make_due(self.config, self._inboxes[0]))
        for session in self._sessions.values():
            if stop is not None and stop.is_set():
                return
            try:
                self._attend(session)
            except Exception as error:  # one session's fault ends no other
                session.tell(f"failed: {sentence(error)}", sentence(error))
                session.retry.plan(wanted=True)
        if self._hook is not None:
            wrong = self._hook.look() or wrong
        if wrong and wrong != self._trouble:
            self._log.warning("%s", one_line(wrong))
        self._trouble = wrong
        self._tell()

    def _renewed(self) -> str:
        """Take newer revocation lists, and see that certificate and policy still stand; return what is wrong."""
        now = self._clock.monotonic()
        try:
            self._storage.take_in(self.config, self._inboxes[0], [], by_policy=self._by_policy)
            self._check = self._storage.checking(self.config) if self.role == "aggregator" else None
        except Exception as error:
            self._renewal = now + _AFTER_FAILURE
            return sentence(error)
        self._renewal = now + _RENEWAL
        return ""

    def _find(self) -> str:
        """Find the sessions, and forget those that are not there any more; return what is wrong with an inbox."""
        self._listed, wrong = [], ""
        for inbox in self._inboxes:
            try:
                self._listed.append(inbox.list(""))
            except OSError as error:
                self._listed.append({})
                wrong = f"inbox: {error}"
        listed = [each for listing in self._listed for each in listing.items()]
        places = {name: at for name, at in listed if name.endswith("/") and not name.startswith(".")}
        new = [(at, name[:-1]) for name, at in places.items() if name[:-1] not in self._sessions]
        for _, name in sorted(new, reverse=True):  # the newest first: a policy may allow one in so many hours
            log = RoleLog()
            views = [Arrivals(inbox, log) for inbox in self._inboxes]
            self._sessions[name] = Session(name, self._clock, views, log)
        for session in [] if wrong else list(self._sessions.values()):
            if session.place not in places and session.work is None:
                del self._sessions[session.name]
        return wrong

    def _attend(self, session: Session) -> None:
        """Do what a session's files ask for, if they have changed, or something has failed some time ago."""
        rounds = self._part.rounds(session)
        versions: list[object] = [listed.get(session.place) for listed in self._listed]
        if rounds != session.place:
            versions.append(files_of(session.views[0].exchange, rounds))
        if versions != session.places:
            session.places, session.looks = versions, _SETTLED
        runs = self._part.runs(session)
        if runs:
            session.looks = _SETTLED  # when it has ended
        lost = session.is_lost()
        if lost and not session.lost.wanted:  # a program may carry off what is there: not at each look
            session.lost.plan(wanted=True)
        due = session.retry.due
        if lost and session.lost.due:
            session.lost.plan(wanted=True)
            due = True
        if not (session.looks or due):
            return
        session.looks = max(0, session.looks - 1)
        if self._check is not None and len(self._inboxes) > 1:
            file_transport.forward(session.views, session.place, self._check)
        files: dict[File, Version] = {}
        for number, view in enumerate(session.views):
            for place in {session.place, rounds}:
                files |= {(number, name): version for name, version in files_of(view.exchange, place).items()}
        if runs:  # what changes meanwhile is new when it has ended
            return
        changed = [file for file, version in files.items() if session.files.get(file) != version]
        session.files = files
        if changed or due:
            due |= session.retry.wanted  # something has failed, and something has changed
            self._part.attend(session, list(files) if due else changed, due=due)

    def _tell(self, *, ended: bool = False) -> None:
        """Write the status where it has changed, or has not been written for a while."""
        sessions = [session.told() for session in self._sessions.values() if session.step]
        wrong = next((f"{each.name}: {each.wrong}" for each in self._sessions.values() if each.wrong), "")
        health = one_line(self._trouble or wrong or "ok")
        told, at = (health, sessions, ended), self._clock.monotonic()
        if told == self._told[0] and at < self._told[1] + _BEAT:
            return
        look = self._clock.told()
        status = {"role": self.role, "since": self._since, "look": look, "health": health, "sessions": sessions}
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


def read(config: Mapping[str, Any], clock: Clock = SYSTEM) -> tuple[dict[str, Any], str]:
    """Return the status that a server has written last, and what is wrong with it: "" if all is well."""
    if not config.get("state"):
        raise InputError("state is not configured")
    folder = Path(str(config["state"]))
    told = journal.read_status(folder)
    if not journal.is_running(folder):
        return told or {}, "it does not run: start `fhe-auc serve`"
    if told is None:
        return {}, f"it runs, but no status can be read or written in {str(folder)!r} (a full disk?): see its log"
    ago = (clock.now() - datetime.fromisoformat(told["look"])).total_seconds()
    if abs(ago) > _STALE:
        return told, f"it has not looked for {ago:.0f} s: see its log"
    return told, "" if told["health"] == "ok" else told["health"]
