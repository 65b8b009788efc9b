"""A session as `serve` knows it, and what is done in it at a look (`answering`, `conducting`)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fhe_auc.base.clock import Clock, Retry
from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.logs import RoleLog, one_line
from fhe_auc.exchange.exchange import Arrivals, Exchange, place_of
from fhe_auc.machines.file_transport import Begun, Own
from fhe_auc.machines.health import Problem
from fhe_auc.machines.isolation import Isolation, Work
from fhe_auc.machines.site_state import Meeting, Standing

if TYPE_CHECKING:
    from fhe_auc.machines.site_state import SiteStorage


FOREIGN = "not for this role"
SESSION = re.compile(r"[0-9a-f]{32}/")
"""A session's place in a member's."""

_REST = timedelta(days=1)  # after a session's end, until its files go
_MOST_SKIPPED = 3  # files in the status of a session


@dataclass
class Session:
    """A session of a maker's, as far as it is known; `step` is for the status.

    `wrong` is what somebody has to look at, and `rule` what kind of problem that is (`fhe_auc.machines.health`).
    """

    maker: str
    name: str  # its id, hexadecimal
    clock: Clock
    view: Arrivals
    log: RoleLog
    step: str = ""
    since: str = ""
    wrong: str = ""
    rule: str = "failed"
    meeting: Meeting | None = None
    met: Meeting | None = None  # the same, or of what was refused
    judged: Mapping[str, object] = field(default_factory=dict)  # files of the maker that need not be read again
    answered: Begun | None = None
    word: tuple[str, str, str] = ("", "", "")  # the step that this was, and what is wrong with it
    own: Own | None = None  # what this role has put there last
    outcome: str | None = None  # with what it has ended here
    caps: str = ""  # whose rows no cap bounds, while others' are
    replaced: str = ""  # what of this role others have changed, since the look before
    times: int = 0  # that this has happened, by an aggregator's own process
    skipped: Mapping[str, str] = field(default_factory=dict)  # by file, why it does not count
    stuck: Mapping[str, str] = field(default_factory=dict)  # those of them that stay as they are
    awaited: dict[str, str] = field(default_factory=dict)  # since when
    clocks: Mapping[str, tuple[float, str]] = field(default_factory=dict)  # by member: when heard, how far it is off
    asked: tuple[int, float, float, float] = 0, 0.0, 0.0, 0.0  # round; its time; what that lies between, monotonic
    missing: Mapping[str, str] = field(default_factory=dict)  # parties that the result lacks, and why
    retry: Retry = field(init=False)
    work: Work | None = None  # an aggregator's, while it runs
    failed: object = None  # the round in which that has ended with an error
    journal: Path = Path()

    def __post_init__(self) -> None:
        self.retry = Retry(self.clock)

    @property
    def place(self) -> str:
        """Where its maker writes."""
        return f"{place_of(self.maker)}{self.name}/"

    @property
    def is_over(self) -> bool:
        """Whether it has ended here, well or not."""
        return self.outcome is not None

    @property
    def concerns(self) -> bool:
        """Whether there is anything in it for this role, as far as is known."""
        return self.step not in ("", FOREIGN)

    @property
    def rests(self) -> bool:
        """Whether there is nothing to do in it before its `retry` is due."""
        return (self.is_over or (not self.concerns and self.retry.wanted)) and not self.retry.due

    def tell(self, step: str, wrong: str = "", rule: str = "failed") -> None:
        """Log a step, and what is wrong, once."""
        self.rule = rule
        if (step, wrong) != (self.step, self.wrong):
            self.step, self.wrong, self.since = step, wrong, self.clock.told()
            (self.log.warning if wrong or step.startswith(("refused", "not answered")) else self.log.info)(
                "%s", one_line(f"{self.name[:8]}: {step}")
            )

    def problems(self) -> Iterator[Problem]:
        """Yield what somebody has to look at."""
        if self.wrong:
            yield Problem(self.rule, self.wrong, self.maker if self.rule == "refused" else "", self.name)
        if self.replaced:
            yield Problem("replaced", self.replaced, session=self.name)
        if self.caps:
            yield Problem("row caps", f"no row cap is for {self.caps}", self.maker, self.name)
        for party, why in self.missing.items():
            yield Problem("not counted", f"not counted{': ' * bool(why)}{why}", party, self.name)
        stuck = {self.view.shown(name): self.view.skipped[name] for name in self.view.stuck}
        for name, why in sorted({**stuck, **self.stuck}.items()):
            yield Problem("skipped", f"{name}: {why}", session=self.name)

    def mends(self, other: Session) -> bool:
        """Whether nobody has to look at what another session lacks any more, as this is a later, good one of its study.

        Good is one with a result here; where the other was refused, one that is answered.
        """
        if self.meeting is None or other.met is None or self.maker != other.maker:
            return False
        good = self.outcome == "result" or (self.answered is not None and other.meeting is None)
        return good and self.meeting.study == other.met.study and self.meeting.begins > other.met.begins

    def told(self) -> dict[str, Any]:
        """Return what the status says of it."""
        some = [f"{file}: {why}" for file, why in list(self.skipped.items())[:_MOST_SKIPPED]]
        step = f"{self.step}; skipped {'; '.join(some)}" if some else self.step
        who = {"session": self.name, "maker": self.maker}
        return {**who, "step": one_line(step), "time": self.since, "awaited": dict(self.awaited)}


@dataclass
class Part(ABC):
    """What a role does in each session, as `standing` says who it is."""

    config: Mapping[str, Any]
    storage: SiteStorage
    isolation: Isolation
    clock: Clock
    standing: Standing

    @property
    @abstractmethod
    def bundle(self) -> str:
        """The name of a maker's file that is for this role alone."""

    @abstractmethod
    def attend(self, session: Session) -> None:
        """Do what there is to do in a session."""

    @abstractmethod
    def ends(self, name: str) -> datetime | None:
        """Return when a session ends, by its id, as this role has written that down; None: it has not."""

    def is_past(self, name: str) -> bool:
        """Whether a session has ended so long ago that its files may go."""
        with suppress(FheAucError, OSError, ValueError):  # what is damaged is for others to tell, and stays
            ends = self.ends(name)
            return ends is not None and ends + _REST < self.clock.now()
        return False

    def tidy(self, exchange: Exchange) -> None:
        """Remove this role's files of sessions that are past."""
        own = place_of(self.standing.name)
        with suppress(OSError, InputError):
            for name in filter(SESSION.fullmatch, exchange.list(own)):
                if self.is_past(name[:-1]):
                    for left in exchange.list(own + name):
                        exchange.remove(own + name + left)

    def read(self, session: Session, wanted: Sequence[str]) -> dict[str, bytes]:
        """Return these files of a session's maker; none, if none has changed, and nothing is to be tried again."""
        view, place = session.view, session.place
        there = view.names(place)
        names = [place + name for name in wanted if name in there]
        versions = {name: view.version(name) for name in names}
        if versions == session.judged and not session.retry.due:
            return {}
        if session.retry.due:
            for name in names:
                view.again(name)
        changed = {name: data for name in names if (data := view.read(name)) is not None}
        if not changed:
            return {}
        for name in names:
            if name not in changed:
                view.again(name)
                if (data := view.read(name)) is not None:
                    changed[name] = data
        return {name.removeprefix(place): data for name, data in changed.items()}

    def _wait(self, session: Session) -> None:
        """Look again later where nothing was to be read: most members' places have answers alone."""
        if not session.step and session.maker not in self.standing.makers:
            session.retry.plan(wanted=True)
