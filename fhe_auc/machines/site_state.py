"""What a site keeps: the sessions that it has joined, and how far it is in each (`fhe_auc.machines.answers`).

Key stores keep these things (`site_storage`): transports know nothing of keys, and keys nothing of transports.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.exchange.exchange import Exchange, place_of
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.asked import Asked
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Protection
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Session, Spending


class Records(ABC):
    """What a role writes down about a session so that others can check it later."""

    @abstractmethod
    def note(self, event: str, **facts: Any) -> None:
        """Add to the audit trail what has happened, and facts (plain JSON); `OSError` where that cannot be written."""

    def question(self) -> tuple[Asked | None, tuple[bytes, ...]]:
        """Return what the session's study asks, and the ids of the sessions before that answer it with this one."""
        return None, ()

    @abstractmethod
    def signed(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the role tells as plain JSON with its signature; `told` has a ``time`` (ISO, with time zone)."""


@dataclass(frozen=True)
class Joined:
    """What a role of a session between machines starts from; `material` is for the protocol's role."""

    manifest: Manifest
    material: bytes = field(repr=False)
    protection: Protection
    records: Records
    fix_list: Callable[[bytes], bytes] | None = field(default=None, repr=False)  # as of `Aggregator`
    loaded: object = field(default=None, repr=False, compare=False)  # the public context in an aggregator's material
    helps: bool = False  # whether the role is the session's helper, which has no rows and no result

    def aggregator(self) -> Aggregator:
        """Return the session's aggregator."""
        made = registry.load(self.manifest.protocol).aggregator(self.manifest, self.material)
        made.protection, made.fix_list = self.protection, self.fix_list
        return made

    @property
    def analysis(self) -> Analysis:
        """What the session estimates, which says which columns a site's rows have."""
        return registry.load(self.manifest.protocol).analysis_of(self.manifest)

    def helper(self) -> Party[Any]:
        """Return the session's helper."""
        made = registry.load(self.manifest.protocol).helper(self.manifest, self.material)
        made.protection = self.protection
        return made

    def party(self, rows: PartyData) -> Party[Any]:
        """Return the party with these rows; raise `InputError` where they are more than its cap in the session."""
        if self.manifest.study is not None:
            self.manifest.study.require_rows(rows.name, rows.rows)
        made = registry.load(self.manifest.protocol).party(self.manifest, self.material, rows)
        made.protection = self.protection
        return made


class SiteState(ABC):
    """An open, locked place where one site keeps what must not be lost nor seen."""

    name: str  # of the site: the party it is in every session

    @abstractmethod
    def session(self, session: bytes) -> Joined:
        """Return what the site's party starts from in a session; `FheAucError` where it is not, or no longer, in it."""

    @abstractmethod
    def state(self, session: bytes) -> bytes | None:
        """Return what `keep` was given last for a session; None: nothing yet."""

    @abstractmethod
    def others(self, session: bytes) -> Mapping[str, bytes]:
        """Return what `keep` was given last for each other session, by its id in hex; empty where it is damaged."""

    @abstractmethod
    def together(self) -> AbstractContextManager[None]:
        """Let all that is written down in a context, in `Records` too, be there as a whole after a crash, or not.

        `OSError`, where the context ends, if it cannot be written.
        """

    @abstractmethod
    def keep(self, session: bytes, state: bytes, *, ended: bool = False) -> None:
        """Write down a session's state, and erase what the site's party needed to submit.

        Where the session has `ended` here, all its keys are erased, but not its state. There may be none.
        """

    @abstractmethod
    def charge(self, manifest: Manifest, spending: Spending | None, *, rows: int) -> Mapping[str, Any]:
        """Write down what a session spends of the privacy of the site's `rows`, with its submission.

        Returns facts for the audit trail, as plain JSON. Raises `FheAucError` where the site does not allow it.
        """

    @abstractmethod
    def stop(self, manifest: Manifest) -> None:
        """Raise `FheAucError` where a session that has spent must not go on, for what another one has ended with."""

    @abstractmethod
    def refuse(self, manifest: Manifest, error: str) -> None:
        """Write down that a result has failed its checks, with an error of this name, before all else.

        With a privacy budget, the site has to look into that before it submits these rows again.
        """

    @abstractmethod
    def close_all(self, why: str) -> None:
        """Erase the keys of all sessions: this state was put back to an older one, and says so from now on.

        Sessions that were made before are not opened any more, and where budgets may have been spent, somebody has to
        look into that.
        """


class Meeting(NamedTuple):
    """Who meets in a session, by their members' names: whose places in an exchange it goes through."""

    session: bytes
    aggregator: str
    begins: datetime
    ends: datetime
    helper: str = ""  # "": none
    study: tuple[str, ...] = ()  # alike in all sessions of one study
    maker: str = ""  # who has signed it

    def place(self, name: str) -> str:
        """Return where a member writes in this session."""
        return f"{place_of(name)}{self.session.hex()}/"


class Standing(NamedTuple):
    """Who a role is, and who makes sessions for it, by their members' names; `others` may make some, too."""

    name: str
    makers: tuple[str, ...]
    others: tuple[str, ...] = ()
    wrong: str = ""  # with the lists of members in the exchange
    ends: datetime | None = None  # when the list of members counts no more, where that is soon


class Arrived(NamedTuple):
    """What has become of a session that has arrived for a role, and why.

    "opened" is what it was before, too; "waits" is what is not all there yet, and "late" what has begun without it, or
    is to go on without it, as a person has said.
    """

    outcome: Literal["opened", "waits", "late", "passed over", "REFUSED"]
    why: str = ""
    meeting: Meeting | None = None  # where its maker has signed it, for this role
    caps: str = ""  # the parties whose rows no cap bounds, while others' are


@dataclass(frozen=True)
class LocalSites:
    """A consortium made up for one session on this machine: each role's configuration, for `SiteStorage`."""

    aggregator: Mapping[str, str]
    sites: Mapping[str, Mapping[str, str]] = field(repr=False)  # of each party and the helper, by name
    files: Mapping[str, bytes] = field(repr=False)  # what opens the session for the aggregator


Newest: TypeAlias = Callable[[Meeting, Protection], int]
"""Tells the number of the round that has begun in a session, by what its aggregator has signed; 0: none."""


class SiteStorage(ABC):
    """What keeps the state of sites, and opens sessions for aggregators."""

    @abstractmethod
    def site(self, config: Mapping[str, Any]) -> AbstractContextManager[SiteState]:
        """Open a site's state as configured; raise `FheAucError` where that fails."""

    def columns(self, config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the columns of scores, and the others, for which studies ask that the site has agreed to."""
        return [], []

    def make_due(self, config: Mapping[str, Any], exchange: Exchange) -> list[str]:
        """Make the sessions that are due of the studies that this site makes; return what is wrong with them."""
        return []

    @abstractmethod
    def serving(self, config: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Be the process that plays a role for long: all other calls open the role's state without its passphrase.

        Raises `FheAucError` where the state cannot be opened, or another process serves with it.
        """

    @abstractmethod
    def upkeep(self, config: Mapping[str, Any]) -> str:
        """Erase, at each pass, what nobody needs any more; return whether, and why, the state is known to be put back.

        Where ``state``, the role's folder, has seen a newer state than this one, `SiteState.close_all` comes first.
        Raises `FheAucError` or `OSError` where it cannot be opened or written.
        """

    @abstractmethod
    def standing(self, config: Mapping[str, Any], exchange: Exchange) -> Standing:
        """Return who the role is, and whose sessions it takes part in, after taking in who is a member now.

        Errors are raised where the role's own state is at fault, or it is no member.
        """

    @abstractmethod
    def take_in(
        self,
        config: Mapping[str, Any],
        session: bytes,
        files: Mapping[str, bytes],
        begun: Newest,
        own: Iterable[bytes] = (),
    ) -> Arrived:
        """Open a session that has arrived, from its maker's `files`, by their names there, if an agreed study makes it.

        `begun` tells which round has begun, and `own` is what lies where this role's answers belong: one that it has
        signed shows that the state was put back (`SiteState.close_all`). What is wrong is told; errors are raised where
        the role's own state or keys are at fault.
        """

    @abstractmethod
    def opens(self, config: Mapping[str, Any], files: Mapping[str, bytes]) -> Meeting | None:
        """Return who meets in the session that a maker's `files` open for this aggregator; None: some are to come.

        They are those of `fhe_auc.machines.file_transport`, by their names there. Raises `FheAucError` where they open
        none.
        """

    @abstractmethod
    def begins(self, document: bytes) -> float:
        """Return when a session begins, as its announcement says, in Unix seconds; `FheAucError` for no such."""

    @abstractmethod
    def ends(self, config: Mapping[str, Any], session: bytes) -> datetime | None:
        """Return when a session ends that a site or a helper has opened; None where it knows of none."""

    @abstractmethod
    def aggregator(self, config: Mapping[str, Any], files: Mapping[str, bytes]) -> Joined:
        """Return what the aggregator starts from, by files as of `opens`; errors likewise."""

    @abstractmethod
    def local_sites(self, session: Session, folder: Path) -> LocalSites:
        """Play coordinator and key holder; make each site's state in an empty folder that only this user can read."""


@lru_cache(maxsize=64)
def site_storage(clock: Clock = SYSTEM) -> SiteStorage:
    """Return the storage in key stores, by whose clock members count: of a package above, which knows of keys."""
    made: SiteStorage = pkgutil.resolve_name("fhe_auc_keys.site.key_store_sites:KeyStoreStorage")(clock)
    return made
