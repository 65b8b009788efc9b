"""A session between machines, all on this one: key stores, journal, and the files of an exchange folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from fhe_auc.base.party_names import AGGREGATOR
from fhe_auc.machines.file_transport import file_name, message_file
from fhe_auc.machines.site_state import Records, answer, site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.journal import Journal
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID
from fhe_auc_keys.store.key_store import KeyStore, Kind
from fhe_auc_keys.store.vault import Vault

_NOISY = (
    *("dpauc-gaussian", "dpauc-laplace", "dpauc-rr", "ustat-krr", "ustat-hierarchy"),
    *("histogram-distributed-dp", "histogram-local-dp"),
)
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    name: {"epsilon": 1.0, **({"delta": 1e-5} if name == "dpauc-gaussian" else {})} for name in _NOISY
}
_OF_A_SESSION = {"identity", "bundle"}  # kinds of entries that another night has of its own


class Night:
    """A session in an empty folder; `play` plays it to its end, and `results` are those of sites, by name.

    The stores begin with what those of the night `before` hold. The aggregator says of `missing` that it did not come.
    """

    def __init__(
        self, protocol: str, keys: str, sites: Sequence[PartyData], folder: Path, before: Night | None = None,
        missing: str = "", **request: Any,
    ) -> None:  # fmt: skip
        self.folder, self._missing, self.results = folder, missing, dict[str, Any]()
        self.sites = {each.name: each for each in sites}
        names, options = tuple(self.sites), OPTIONS.get(protocol, {})
        plugin = registry.load(protocol)
        self.session: Any = plugin.prepare(
            Request(parties=names, thresholds=GRID, keys=keys, max_rows=1_000, options=options, **request)
        )
        self.plan = plugin.plan_of(self.session.manifest)
        (folder / "sites").mkdir(mode=0o700)
        self._made = site_storage().local_sites(self.session, folder / "sites", {})
        self.configured = {**self._made.sites, AGGREGATOR: self._made.aggregator}
        self.aggregator = site_storage().aggregator(self._made.aggregator).aggregator()
        self.manifest = self.aggregator.manifest
        for role in self.configured if before else ():
            with before.store(role) as old, self.store(role) as new:  # type: ignore[union-attr]
                for kind in [each for each in get_args(Kind) if each not in _OF_A_SESSION]:
                    for name in set(old.names(kind)) - set(new.names(kind)):
                        new.put(kind, name, old.get(kind, name))

    def store(self, role: str) -> KeyStore:
        """Open a role's key store."""
        config = self.configured[role]
        return Vault(Path(config["store"]), Path(config["passphrase-file"])).open()

    def play(self) -> None:
        """Play all rounds; errors are those of honest roles."""
        with Journal(self.folder / "journal") as self.aggregator.journal, self._made.meanwhile:
            self.aggregator.journal.bind(self.manifest.session)
            conduct(self.aggregator, self._exchange)

    def sent(self, data: bytes, recipient: str) -> None:
        """Called with each message that travels, once its file is there; no recipient stands for all who are asked."""

    def _exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        file = message_file(self.folder, self.aggregator.round)
        file.write_bytes(message)
        file.with_suffix("").mkdir()
        self.sent(message, "")
        for name in [each for each in self.aggregator.asked if each != self._missing]:
            with site_storage().site(self.configured[name]) as site:
                made = answer(site, message, lambda name, _: self.sites[name], self._done)
            (file.with_suffix("") / file_name(name)).write_bytes(made)
            self.sent(made, AGGREGATOR)
            yield name, made

    def _done(self, party: Party[Any], records: Records) -> None:
        if party.failure is None:  # noise may leave no AUC
            self.results[party.name] = party.result()
