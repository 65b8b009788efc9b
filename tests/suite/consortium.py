"""A consortium in one process: sites, an aggregator and a helper that serve, and who makes the sessions.

Each role has its key store, state and clock, and lives until it is killed; all meet in one exchange. Faults are done to
what lies there (`World.tamper`), to the machines (`physics`), and to stores (`World.restore`).
"""

from __future__ import annotations

import atexit
import functools
import itertools
import logging
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from fhe_auc.base.errors import EvaluationError, FheAucError
from fhe_auc.base.files import write_atomically
from fhe_auc.base.serialise import FORMAT_VERSION
from fhe_auc.machines import outcomes, serve
from fhe_auc.question.study import MOST_AWAY, Study
from fhe_auc.report.studies import next_session
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.journal import is_finished, read_record, read_status
from fhe_auc.session.messages import Message
from fhe_auc_keys.bundles.announcement import open_announcement
from fhe_auc_keys.site.making import sealed_files
from fhe_auc_keys.site.policy import agree, decide, waiting
from fhe_auc_keys.store.budget import LEDGER, Ledger, Limit
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import create_with_random_passphrase
from tests.suite.memory_exchange import Memory
from tests.suite.physics import Killed, Physics, RoleClock, View
from tests.support.certified import STUDY, Consortium
from tests.support.nothing import rows_in
from tests.support.pooled import rounding
from tests.support.several import auc_of, binned

SITES, ADDER, HELPER = ("north", "south", "west"), "adder", "registry"
GRID = np.linspace(0, 1, 9)
TIMEOUT = 1800.0  # seconds of a round
ROWS = 12  # of a site
EPSILON = 30.0  # of a night
_SHM = Path("/dev/shm")  # noqa: S108 - where nothing waits for a disk


@dataclass(frozen=True)
class Case:
    """What the nights are of."""

    protocol: str
    keys: str = "none"
    least: int = 3
    part: str = ""
    many: int = len(SITES)  # sites
    nights: int = 2  # that a budget is for

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.protocol, self.keys, self.part)))

    @property
    def options(self) -> dict[str, Any]:
        if self.part == "epsilon" or self.protocol in ("dpauc-laplace", "ustat-krr"):
            return {"epsilon": EPSILON, **({"bins": 8} if self.protocol == "ustat-krr" else {})}
        return {}

    @functools.cached_property
    def sites(self) -> tuple[str, ...]:
        return (*SITES, *(f"site {number}" for number in range(len(SITES) + 1, self.many + 1)))

    @functools.cached_property
    def roles(self) -> tuple[str, ...]:
        return (*self.sites, ADDER, *((HELPER,) if self.keys == "helper" else ()))

    @property
    def caps(self) -> dict[str, int]:
        return dict.fromkeys(self.sites, ROWS) if self.part in ("proofs", "epsilon") else {}

    @functools.cached_property
    def study(self) -> Study:
        """What all sites have agreed to."""
        return replace(
            STUDY,
            sites=self.sites,
            maker="north",
            aggregator=ADDER,
            helper=HELPER if HELPER in self.roles else "",
            every="day",
            days=6,
            min_parties=self.least,
            most_away=1 if self.many == len(SITES) else MOST_AWAY,
            protocol=self.protocol,
            options=self.options,
            thresholds=tuple(GRID.tolist()),
            max_rows=self.many * ROWS,
            min_rows=10,
            **{"rows" if self.part == "epsilon" else "row_caps": self.caps},
        )

    @property
    def spends(self) -> bool:
        return "epsilon" in self.options

    @property
    def budget(self) -> float:
        return EPSILON * self.nights


class Broken(AssertionError):
    """An invariant."""


@functools.lru_cache(maxsize=64)
def rows(name: str, version: int, seed: int) -> PartyData:
    generator = np.random.default_rng([seed, int.from_bytes(name.encode(), "big") % 2**32, version])
    labels = generator.permutation([0, 1] * 4 + [int(generator.integers(2)) for _ in range(ROWS - 8)])
    scores = np.clip(0.3 + 0.3 * labels + 0.3 * generator.standard_normal(ROWS), 0, 1).round(3)
    return PartyData.from_arrays(name, labels, scores)


@functools.cache
def certified(sites: Sequence[str] = SITES) -> Consortium:
    return Consortium(*sites, ADDER, HELPER)


@functools.cache
def clock_of(role: str) -> RoleClock:
    """Return a role's clock, in all worlds; "" is people, whose clock is right."""
    return RoleClock(role)


@functools.cache
def template(case: Case) -> tuple[Path, dict[str, bytes]]:
    """A folder of members whose stores have agreed to the study, which all worlds of a case copy; stores' keys."""
    folder, keys, known = _temporary(), {}, certified(case.sites)
    for name in case.roles:
        (folder / name).mkdir()
        with create_with_random_passphrase(folder / name / "store", folder / name / "passphrase") as store:
            known.settle(store, name)
            agree(store, case.study)
            keys[name] = store.key
            if case.spends and name in case.sites:
                LEDGER.keep(store, Ledger({"rows": Limit(case.budget)}))
    atexit.register(shutil.rmtree, folder)
    return folder, keys


@dataclass
class Night:
    """A session, and what is known of it."""

    number: int
    session: str  # its id, hexadecimal
    begun: float  # seconds since the world's beginning
    turn: int  # of the study
    files: Mapping[str, bytes]  # that open it
    why: str = ""  # it has failed, as its aggregator's record says
    auc: float | None = None  # that of the first site that had a result
    used: dict[str, set[int]] = field(default_factory=dict)  # by site, the versions of its rows that it went in with
    said: set[str] = field(default_factory=set)  # who has said anything
    scarred: bool = False  # whether something has happened that may keep it from its result
    judged: bool = False  # whether it has been seen how it ended

    def file(self, who: str, name: str) -> str:
        """Return where a role's file is."""
        return f"{who}/{self.session}/{name}"

    def __str__(self) -> str:
        return f"night {self.number}"


class World:
    """Everybody, from the first evening on; a context manager."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.seed = case, seed
        self.physics = Physics()
        self.physics.committed = self._kept
        self.exchange = Memory()
        self.sites, self.roles = case.sites, case.roles
        for name in (*self.roles, ""):
            clock_of(name).physics = self.physics
        self.nights: list[Night] = []
        self.version = dict.fromkeys(self.sites, 0)  # of the rows that a site has now
        self.said: dict[tuple[str, str, int], bytes] = {}  # by role, session and round
        self.genuine: dict[str, list[bytes]] = {}  # by file: all that was ever put there in earnest
        self.hidden: dict[str, bytes] = {}
        self.backups: dict[str, Path] = {}
        self.restored = set[str]()
        self.broken: list[str] = []
        self.away = set[str]()  # sites whose machines are off
        self.calm = False  # whether nothing is done to anybody
        self._scars = 0.0  # until when nights that begin are scarred
        self._checked = set[tuple[str, str, int]]()  # results' files
        self.servers: dict[str, serve.Server] = {}
        self.log: list[str] = []

    def __enter__(self) -> World:
        made, self._keys = template(self.case)
        self.folder = _temporary()
        for name in self.roles:
            shutil.copytree(made / name, self.folder / name)
        for name in self.sites:
            self.write_rows(name)
        logging.disable(logging.CRITICAL)
        self._installed = self.physics.installed()
        self._installed.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self.servers):
            self._bury(name)
        self._installed.__exit__(None, None, None)
        logging.disable(logging.NOTSET)
        shutil.rmtree(self.folder)

    # --- What people do ----------------------------------------------------------------------------------------------

    def make_night(self, **changed: Any) -> Night:
        """The maker makes the study's session, whether its turn has one already or not, and sends its files."""
        study, at, known = replace(self.case.study, **changed), clock_of("").now(), certified(self.sites)
        asked, turn = next_session(study, self.sites, ()), study.turn(at)
        assert asked is not None
        manifest, files = sealed_files(known.identities["north"], study, asked, turn, known.members, at=at)
        begun = self.physics.passed
        night = Night(len(self.nights) + 1, manifest.session.hex(), begun, turn, files, scarred=begun < self._scars)
        self.nights.append(night)
        for name, data in files.items():
            self.exchange.put(night.file("north", name), data)
            self.genuine.setdefault(night.file("north", name), []).append(data)
        return night

    def agree(self, night: Night, *names: str) -> None:
        """People say yes to a session that waits, as `fhe-auc pending` does."""
        at = clock_of("").now()
        for name in names:
            with self.store(name) as store:
                document = waiting(store)[night.session].announcement
                decide(store, open_announcement(document, certified(self.sites).members, at=at), yes=True, at=at)
            write_atomically(self.folder / name / "state" / serve.DECIDED, str(at).encode())

    def write_rows(self, name: str) -> None:
        data = rows(name, self.version[name], self.seed)
        np.savez(self.folder / f".{name}.npz", y_true=data.y_true, y_score=data.y_score)
        (self.folder / f".{name}.npz").replace(self.folder / f"{name}.npz")

    def new_rows(self, name: str) -> None:
        self.version[name] += 1
        self.write_rows(name)

    # --- Roles -------------------------------------------------------------------------------------------------------

    def config(self, name: str) -> dict[str, Any]:
        own = self.folder / name
        config = {
            "role": {ADDER: "aggregator", HELPER: "helper"}.get(name, "site"),
            "exchange": "exchange",
            "state": str(own / "state"),
            "store": str(own / "store"),
            "passphrase-file": str(own / "passphrase"),
        }
        if name == ADDER:
            return {**config, "round-timeout": TIMEOUT}
        if name in self.sites:
            return {**config, "data": str(self.folder / f"{name}.npz"), "results": str(own / "results")}
        return config

    def look(self, name: str, fault: str = "", at: int = 0) -> bool:
        """Have a role do what there is to do; return whether it has lived."""
        try:
            with self.physics.turn_of(name, fault, at):
                if name not in self.servers:
                    view = View(self.physics, self.exchange, self._put)
                    server = serve.Server(self.config(name), clock=clock_of(name), exchange=view, apart=False)
                    self.servers[name] = server.__enter__()
                self.servers[name].look()
        except Killed:
            self._bury(name)
            return False
        except (OSError, FheAucError):  # of a process that ends at once: systemd starts it again
            if name in self.servers:
                raise
            return False
        return True

    def _bury(self, name: str) -> None:
        """Close what a dead process had open."""
        if name in self.servers:
            with self.physics.turn_of(name, "killed before", at=1), suppress(Killed):
                self.servers.pop(name).__exit__(None, None, None)
        for number in map(int, os.listdir("/proc/self/fd")):  # locks that it had just taken
            with suppress(OSError):
                if os.readlink(f"/proc/self/fd/{number}").startswith(f"{self.folder / name}/"):
                    os.close(number)

    def status(self, name: str) -> dict[str, Any]:
        return read_status(self.folder / name / "state") or {}

    def step(self, name: str, night: Night) -> str:
        steps = (each["step"] for each in self.status(name).get("sessions", ()) if each["session"] == night.session)
        return str(next(steps, ""))

    def store(self, name: str) -> KeyStore:
        return KeyStore(self.folder / name / "store", self._keys[name])

    def journal(self, night: Night) -> Path:
        return self.folder / ADDER / "state" / "journals" / night.session

    def result(self, name: str, night: Night) -> Path | None:
        return outcomes.file_of(self.folder / name / "results", night.session)

    # --- What is done to them ----------------------------------------------------------------------------------------

    def tamper(self, how: str, which: int, at: int) -> str:
        """Do something to a file of the exchange; return to which, or "" where there is nothing to do it to."""
        found = sorted(self.exchange.files)
        if not found:
            return ""
        name = found[which % len(found)]
        data = self.exchange.read(name)
        place = at % max(len(data), 1)
        match how:
            case "lose":
                self.exchange.remove(name)
            case "hide":
                self.hidden.setdefault(name, data)
                self.exchange.remove(name)
            case "cut":
                self.exchange.put(name, data[:place])
            case "flip":
                self.exchange.put(name, data[:place] + bytes([(data or b"?")[place] ^ 1 << at % 8]) + data[place + 1 :])
            case "version":
                self.exchange.put(name, data[:7] + bytes([FORMAT_VERSION + 1]) + data[8:])
            case "double":
                other = sorted(self.genuine)[at % len(self.genuine)]
                self.exchange.put(other, data)
                return f"{name} -> {other}"
            case "old":
                same = [each for each in self.genuine if each.rpartition("/")[2] == name.rpartition("/")[2]]
                choice = [each for one in same for each in self.genuine[one] if each != data]
                if not choice:
                    return ""
                self.exchange.put(name, choice[at % len(choice)])
        return name

    @property
    def open(self) -> list[Night]:
        """The nights of which it has not been seen how they ended."""
        return [night for night in self.nights if not night.judged]

    def scar(self, lasting: float = 0.0) -> None:
        """Something happens that may keep nights from their results, and those that begin in so many seconds."""
        for night in self.open:
            night.scarred = True
        self._scars = max(self._scars, self.physics.passed + lasting)

    def mend(self) -> None:
        """What was late arrives; who has sent files that are damaged is told, and sends them again."""
        opening = {night.file("north", name): data for night in self.open for name, data in night.files.items()}
        for name, data in opening.items():
            if self.exchange.files.get(name, (b"",))[0] != data:
                self.exchange.put(name, data)
        for name, data in self.hidden.items():
            if name not in self.exchange.files:
                self.exchange.put(name, data)
        self.hidden.clear()

    def back_up(self, name: str) -> None:
        """Copy a role's store, while nothing runs there."""
        self._bury(name)
        backup = self.folder / f"backup of {name}"
        shutil.rmtree(backup, ignore_errors=True)
        shutil.copytree(self.folder / name, backup)
        self.backups[name] = backup

    def restore(self, name: str, what: str = "") -> None:
        """Put a role's machine back to the copy, or `what` of it."""
        if name in self.backups:
            self._bury(name)
            shutil.rmtree(self.folder / name / what)
            shutil.copytree(self.backups[name] / what, self.folder / name / what)
            self.restored.add(name)

    # --- What must hold ----------------------------------------------------------------------------------------------

    def _put(self, name: str, data: bytes) -> None:
        """A role has put a file into the exchange: it has one word for each round."""
        role = self.physics.role
        if not name.endswith((".message", ".submission")):  # what opens a session that it makes
            return
        message = Message.from_bytes(data, limit=len(data))
        about = role, message.session.hex(), message.round
        if self.said.setdefault(about, data) != data:
            self.broken.append(f"{role} has said two things in round {message.round}, the second one in {name}")
        for night in self.open:
            night.said |= {role} if night.session == about[1] else set()
        if data not in (known := self.genuine.setdefault(name, [])):
            known.append(data)

    def _kept(self, connection: sqlite3.Connection) -> None:
        """A role's store has changed: with a site's state of a session it goes in with its rows of now."""
        role = self.physics.role
        kept = {name for (name,) in connection.execute("select name from entry where kind = 'state'")}
        for night in self.open if role in self.sites else ():
            if night.session in kept and (role not in night.used or role in self.restored):
                night.used.setdefault(role, set()).add(self.version[role])

    def check(self, name: str) -> None:
        """After a role has looked."""
        if self.broken:  # no role has caught that
            raise Broken(self.broken[0])
        if self.physics.writes and "internal error" in (told := repr(self.status(name))):
            raise Broken(f"{name} has met what it does not know: {told}")
        if self.calm and (health := self.status(name)["health"]) != "ok":
            raise Broken(f"{name} is not well, and nothing has happened: {health}")
        if not self.physics.writes or name not in self.sites:
            return
        sessions = {night.session: night for night in self.nights}
        for file in (self.folder / name / "results").glob("*-*.json"):
            at = name, file.name, file.stat().st_mtime_ns
            if at not in self._checked:
                night = sessions[file.stem.rpartition("-")[2]]
                _check_result(self, night, name, file, self.counted(night))
                self._checked.add(at)
        if self.case.spends:
            self._check_budget(name)
        turns = [night.turn for night in self.submitted(name)]
        if len(turns) != len(set(turns)):
            raise Broken(f"{name} has answered two sessions of one turn of the study")

    def counted(self, night: Night) -> tuple[str, ...]:
        """Whose rows count, as the aggregator has signed before anybody computed anything; nobody, before it has.

        That stands where its machine was put back, and its journal has forgotten it: it has one word in each round.
        """
        said = [data for (role, session, _), data in self.said.items() if (role, session) == (ADDER, night.session)]
        lists = (Message.from_bytes(data, limit=len(data)).submissions for data in said)
        return tuple(name for name, _ in next(filter(None, lists), ()))

    def submitted(self, name: str) -> list[Night]:
        """The nights in whose session a site has said something."""
        return [night for night in self.nights if name in night.said]

    def _check_budget(self, name: str) -> None:
        with self.store(name) as store:
            spent = LEDGER.stored(store).entries
        for night in self.submitted(name):
            if night.session not in spent and name not in self.restored:  # then a person has to find out
                raise Broken(f"{name} has submitted to {night}, and forgotten what that spends")
        if sum(each.epsilon for each in spent.values()) > self.case.budget + 1e-6:
            raise Broken(f"{name} has spent more than its limit")
        if len(self.submitted(name)) > self.case.nights:
            raise Broken(f"{name} has submitted more often than its limit allows")

    def _check_results(self, night: Night) -> None:
        for name in (name for name in self.counted(night) if name not in self.away):
            file = self.result(name, night)
            if file is None:
                raise Broken(f"{name} has no result of {night}, which has ended")
            outcomes.read(file)
            _check_result(self, night, name, file, self.counted(night))
        in_time = self.physics.passed < night.begun + TIMEOUT
        if in_time and self.counted(night) != tuple(name for name in self.sites if name not in self.away):
            raise Broken(f"{night} has not counted all sites, and nothing has kept them from it: {night.why}")

    def forget_errors(self) -> None:
        """Have what has failed count once it fails again."""
        for night in self.open:
            night.why = ""

    @property
    def all_have_results(self) -> bool:
        return all(is_finished(read_record(self.journal(night))) for night in self.open)

    def settled(self, night: Night) -> bool:
        """Whether there is nothing to wait for: who counts has the result, or an error says why there is none."""
        record = read_record(self.journal(night))
        if record is not None and "error" in record:
            night.why = record["error"]["message"]
        return bool(night.why) or is_finished(record)

    def judge(self) -> None:
        """Once faults have ended, and time has passed: a night without scars has its result.

        That a turn has had its session, or is over, can keep it from that: a person decides on another one.
        """
        for night in self.open:
            sure, night.judged = not night.scarred, True
            absent = self.away.intersection(self.counted(night))  # they get theirs once they are back
            finished = is_finished(read_record(self.journal(night)))
            if sure and (finished or absent):
                self._check_results(night)
            if finished:
                for name in self.counted(night):
                    with self.store(name) as store:
                        trail = store.trail()
                    told = any(b'"submitted"' in line and night.session.encode() in line for line in trail)
                    if not told and name not in self.restored:
                        raise Broken(f"{name} has submitted to {night}, and its audit trail does not say so")
                continue
            health = {name: str(self.status(name).get("health", "")) for name in self.roles}
            steps = {name: self.step(name, night) for name in self.roles}
            said = " | ".join((night.why, *steps.values(), *health.values()))
            passed = any(other.turn >= night.turn for other in self.nights if other is not night)
            passed = passed and any("of the same step and turn" in step for step in steps.values())
            if sure and not absent and not passed:
                raise Broken(f"{night} has no result, and nothing has kept it from that: {said}")
            asked = steps[ADDER].startswith(("ended, but not for", "refused"))
            awaited = steps[ADDER].partition("awaits ")[2]  # who was put back, or is away, confirms no last round
            asked = asked or any(name in awaited for name in self.restored | self.away)
            asked = asked or (bool(self.restored) and health[ADDER] != "ok")
            if not any(name in night.why for name in (*self.roles, "helper", str(night))) and not asked:
                raise Broken(f"{night} has not ended, and nobody is named: {said}")
            later = [other for other in self.nights if other.begun > night.begun]
            mended = any(is_finished(read_record(self.journal(other))) for other in later)
            if health[ADDER] == "ok" and not asked and not mended:
                raise Broken(f"{night} has failed, and the aggregator is well: {said}")


def _check_result(world: World, night: Night, name: str, file: Path, counted: Sequence[str]) -> None:
    try:
        found: Any = outcomes.read(file)
    except EvaluationError:
        return
    if name not in counted:
        raise Broken(f"{name} has a result of {night}, and does not count")
    night.auc = found.auc if night.auc is None else night.auc
    if night.auc != found.auc:
        raise Broken(f"{name} has another result of {night} than others have")
    own = [[rows(each, version, world.seed) for version in night.used.get(each, ())] for each in counted]
    if found.parties != len(counted) or not any(_fits(world.case, found, sites) for sites in itertools.product(*own)):
        raise Broken(f"{name} has a result of {night} that is not that of the rows of {', '.join(counted)}")


def _fits(case: Case, found: Any, sites: Sequence[PartyData]) -> bool:
    if case.protocol == "nothing":
        return rows_in(found) == len(sites) * ROWS
    bins, labels = (
        np.concatenate(each) for each in zip(*((binned(own.y_score, GRID), own.y_true) for own in sites), strict=True)
    )
    if case.protocol == "histogram-federated":
        return bool(
            np.array_equal(found.histogram.positives[-len(GRID) :], np.bincount(bins[labels], minlength=len(GRID)))
        )
    right = auc_of(bins[labels], bins[~labels])
    assert right is not None
    if case.protocol in ("exact", "verified") and case.part != "epsilon":
        return bool(found.fraction == right[0])
    near = {"verified": 0.1, "dpauc-laplace": math.inf, "ustat-krr": 0.1}  # noise; the first one's is never small
    return bool(abs(found.auc - right[0]) <= near.get(case.protocol, 1e-6 + rounding(found.decimals)))


def _temporary() -> Path:
    return Path(tempfile.mkdtemp(prefix="fhe-auc-night-", dir=_SHM if os.access(_SHM, os.W_OK) else None))


CASES = (
    Case("exact", "sealed"),
    Case("verified", "sealed"),
    Case("verified", "helper", 2, "proofs"),
    Case("verified", "helper", 3, "epsilon"),
    Case("semi-honest", "sealed", 2),
    Case("malicious", "sealed"),
    Case("histogram-federated", "sealed"),
    Case("histogram-federated", "helper", 2),
    Case("dpauc-laplace", "none", 2),
    Case("ustat-krr", "none", 2),
    Case("nothing", "none", 2),
)
