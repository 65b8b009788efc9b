"""A session between machines, all on this one: key stores, journal, and the files of an exchange folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from fhe_auc.base.party_names import AGGREGATOR, HELPER
from fhe_auc.machines.file_transport import file_name, message_file
from fhe_auc.machines.site_state import Records, answer, site_storage
from fhe_auc.question.study import Study
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.journal import Journal
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID
from fhe_auc_keys.bundles.announcement import announce
from fhe_auc_keys.bundles.sealed_bundles import seal_session
from fhe_auc_keys.roles.local_consortium import LIFETIME, Consortium
from fhe_auc_keys.roles.padded_roles import is_late
from fhe_auc_keys.site.late_opening import answering_by_file, hold
from fhe_auc_keys.site.session_files import keep_for_party
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase

_NOISY = (
    *("dpauc-gaussian", "dpauc-laplace", "dpauc-rr", "ustat-krr", "ustat-hierarchy"),
    *("histogram-distributed-dp", "histogram-local-dp"),
)
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    name: {"epsilon": 1.0, **({"delta": 1e-5} if name == "dpauc-gaussian" else {})} for name in _NOISY
}
_STUDY = Study(model="made up", outcome="made up", cohort="made up", period="none")


class Machines:
    """A consortium in an empty folder: each role's key store, by the role's name, and the key holder's."""

    def __init__(self, parties: tuple[str, ...], folder: Path) -> None:
        self.consortium = made = Consortium(parties)
        trusted = Trusted(made.trust.anchors, (), made.trust.revocation_lists)
        of_roles = {AGGREGATOR: made.aggregator, HELPER: made.helper, made.holder: made.holder}
        self.names = {**of_roles, **{name: name for name in parties}}
        self.configured: dict[str, dict[str, str]] = {}
        for number, (role, name) in enumerate(self.names.items()):
            place, passphrase = folder / f"store-{number}", folder / f"passphrase-{number}"
            with create_with_random_passphrase(place, passphrase) as store:
                store.put("identity", OWN, made.identities[name].to_bytes())
                trusted.keep(store)
            self.configured[role] = {"store": str(place), "passphrase-file": str(passphrase)}

    def store(self, role: str) -> KeyStore:
        """Open a role's key store."""
        config = self.configured[role]
        return Vault(Path(config["store"]), Path(config["passphrase-file"])).open()

    def convene(self, session: Any, folder: Path) -> AbstractContextManager[object]:
        """Seal a session and have all open it; return what the key holder does while it runs."""
        made, manifest = self.consortium, session.manifest
        holder, (adder, helper) = made.convener(manifest), (made.identities[e] for e in (made.aggregator, made.helper))
        whose = made.identities[holder], [made.identities[name].credential for name in manifest.parties], made.trust
        agreed: dict[str, Any] = {
            "aggregator": adder.credential, "helper": helper.credential if manifest.keys == "helper" else b"",
            "study": _STUDY, "lifetime": LIFETIME, "at": made.at,
        }  # fmt: skip
        if manifest.keys != "none":
            sealed = seal_session(whose[0], session, *whose[1:], **agreed)
            announced, document, bundles = sealed.announcement, sealed.aggregator, dict(sealed.parties)
        else:  # nothing is encrypted
            announced = document = announce(whose[0], manifest, *whose[1:], **agreed)
            bundles = dict.fromkeys(manifest.parties, document)
        for role in manifest.answering:
            with self.store(role) as store:
                keep_for_party(
                    bundles.get(role, announced), made.identities[self.names[role]], made.trust, store, holder=holder,
                    session=manifest.session, at=made.at, study=_STUDY, beside=announced,
                )  # fmt: skip
        (folder / "session").write_bytes(document)
        for config in self.configured.values():
            config |= {"holder": holder, "session": str(folder / "session"), "late-opening": str(folder)}
        if manifest.keys != "sealed" or not is_late(manifest):
            return nullcontext()
        store = self.store(made.holder)
        hold(store, session, announced, made.at + LIFETIME)
        return answering_by_file(store, made.identities[holder], made.trust, folder, manifest)


class Night:
    """A session in an empty folder; `play` plays it to its end, and `ended` has the parties then, with their results.

    The roles' machines are those of the night `before`. The aggregator says of `missing` that it did not come.
    """

    def __init__(
        self, protocol: str, keys: str, sites: Sequence[PartyData], folder: Path, before: Night | None = None,
        missing: str = "", **request: Any,
    ) -> None:  # fmt: skip
        self.folder, self._missing, self.ended = folder, missing, dict[str, Party[Any]]()
        self.sites = {each.name: each for each in sites}
        names, options = tuple(self.sites), OPTIONS.get(protocol, {})
        plugin = registry.load(protocol)
        self.session: Any = plugin.prepare(
            Request(parties=names, thresholds=GRID, keys=keys, max_rows=1_000, options=options, **request)
        )
        self.plan = plugin.plan_of(self.session.manifest)
        self.machines: Machines = before.machines if before else Machines(names, folder)
        self._meanwhile = self.machines.convene(self.session, folder)
        self.aggregator = site_storage().aggregator(self.machines.configured[AGGREGATOR]).aggregator()
        self.manifest = self.aggregator.manifest

    def play(self) -> None:
        """Play all rounds; errors are those of honest roles."""
        with Journal(self.folder / "journal") as self.aggregator.journal, self._meanwhile:
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
            with site_storage().site(self.machines.configured[name]) as site:
                made = answer(site, message, lambda name, _: self.sites[name], self._done)
            (file.with_suffix("") / file_name(name)).write_bytes(made)
            self.sent(made, AGGREGATOR)
            yield name, made

    def _done(self, party: Party[Any], records: Records) -> None:
        self.ended[party.name] = party
