"""Sessions whose sites keep their state in key stores, all on this machine."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fhe_auc.base.clock import Clock
from fhe_auc.machines.answers import answer
from fhe_auc.machines.site_state import LocalSites, site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request, Session
from fhe_auc_keys.site.key_store_sites import Records
from fhe_auc_keys.store.key_store import KeyStore, Kind
from fhe_auc_keys.store.vault import Vault

GRID = np.linspace(0, 1, 16)


class _Standing(Clock):
    """Stands still: so an aggregator's first message has the same bytes when it is made again."""

    def __init__(self) -> None:
        self._now = Clock().now()

    def now(self) -> datetime:
        return self._now


class Consortium:
    """A session on this machine, its sites and its aggregator."""

    def __init__(self, sites: list[PartyData], folder: Path, protocol: str = "semi-honest", **request: Any) -> None:
        self.plugin = registry.load(protocol)
        self.sites = {data.name: data for data in sites}
        given = Request(**{"parties": tuple(self.sites), "thresholds": GRID, **request})
        self.session: Session = self.plugin.prepare(given)
        self.folder = folder
        folder.mkdir(mode=0o700)
        self.made: LocalSites = site_storage().local_sites(self.session, folder)
        self._clock = _Standing()
        self.results: dict[str, Any] = {}

    def copied(self, folder: Path) -> Consortium:
        """The same session, as it is on the disk now, in another folder: what happens there leaves this one alone."""
        shutil.copytree(self.folder, folder)

        def moved(config: Mapping[str, str]) -> dict[str, str]:
            return {name: value.replace(str(self.folder), str(folder)) for name, value in config.items()}

        copied, sites = copy.copy(self), {name: moved(config) for name, config in self.made.sites.items()}
        made = LocalSites(moved(self.made.aggregator), sites, self.made.files)
        copied.folder, copied.made, copied.results = folder, made, {}
        return copied

    def aggregator(self) -> Aggregator:
        return site_storage(self._clock).aggregator(self.made.aggregator, self.made.files).aggregator()

    def answer(self, name: str, message: bytes, rows: Callable[[str], PartyData] | None = None) -> bytes:
        """As a process of its own would: the key store is opened and closed."""
        with site_storage().site(self.made.sites[name]) as site:
            return answer(site, message, rows or (lambda name, _: self.sites[name]), self.done).submission

    @property
    def id(self) -> bytes:
        return self.session.manifest.session

    def store(self, name: str) -> KeyStore:
        made = self.made.sites[name]
        return Vault(Path(made["store"]), Path(made["passphrase-file"])).open()

    def options(self, name: str) -> tuple[str, ...]:
        """How a command is told of a site's key store."""
        made = self.made.sites[name]
        return "--store", made["store"], "--passphrase-file", made["passphrase-file"]

    def kept(self, name: str) -> bytes:
        """All that is in a site's key store, decrypted."""
        with self.store(name) as store:
            return b"".join(store.get(kind, each) for kind in get_args(Kind) for each in store.names(kind))

    def done(self, party: Party[Any], records: Records) -> None:
        self.results[party.name] = party.result()

    def deliver(self, aggregator: Aggregator, message: bytes) -> bytes | None:
        """Everybody's answers to a message, and what the aggregator says next."""
        for name, submission in self.exchange(message, aggregator.asked):
            aggregator.receive(name, submission)
        return aggregator.finish_round()

    def exchange(self, message: bytes, asked: Sequence[str] = ()) -> Iterator[tuple[str, bytes]]:
        for name in asked or self.sites:
            yield name, self.answer(name, message)
