"""What a site keeps: the sessions that it has joined, and how far it is in each (`fhe_auc.machines.answers`).

Key stores keep these things (`site_storage`): a package above has them, whose types alone are known here.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.exchange.exchange import place_of
from fhe_auc.question.analysis import Analysis
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Protection
from fhe_auc.session.party import Party

if TYPE_CHECKING:
    from fhe_auc_keys.site.key_store_sites import Records as Records
    from fhe_auc_keys.site.key_store_sites import SiteState as SiteState
    from fhe_auc_keys.site.key_store_sites import SiteStorage as SiteStorage


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
            counted = rows.weighing(self.analysis.units)
            self.manifest.study.require_rows(rows.name, counted, weighed=rows.weights is not None)
        made = registry.load(self.manifest.protocol).party(self.manifest, self.material, rows)
        made.protection = self.protection
        return made


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


@lru_cache(maxsize=64)
def site_storage(clock: Clock = SYSTEM) -> SiteStorage:
    """Return the storage in key stores, by whose clock members count: of a package above, which knows of keys."""
    made: SiteStorage = pkgutil.resolve_name("fhe_auc_keys.site.key_store_sites:SiteStorage")(clock)
    return made
