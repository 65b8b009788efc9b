"""Sites' sessions in their key stores, for `site_state`: what has been opened, and their state."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import InputError
from fhe_auc.base.logs import LOGGER
from fhe_auc.base.names import HELPER
from fhe_auc.exchange.exchange import Exchange
from fhe_auc.machines.file_transport import ANNOUNCEMENT, FOR_AGGREGATOR
from fhe_auc.machines.site_state import Arrived, Joined, LocalSites, Meeting, Newest, Standing
from fhe_auc.report.studies import asked_of
from fhe_auc.results.asked import Asked
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Session, Spending
from fhe_auc_keys.bundles.announcement import Announcement, claimed, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import Kept, check_bundle, open_for_aggregator, spend_seed
from fhe_auc_keys.errors import DamagedFileError
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.site import restored, session_files
from fhe_auc_keys.site.key_erasure import close_ended, destroy_keys
from fhe_auc_keys.site.making import NAME, make_due
from fhe_auc_keys.site.policy import agreed, ask_about_rows, sessions_before
from fhe_auc_keys.store import audit, budget, fixed_lists, known_members
from fhe_auc_keys.store.key_store import KeyStore, serving
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase, drop_variable, own_identity
from fhe_auc_keys.trust import signed_json
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Members
from fhe_auc_keys.trust.published import Published

_SERVED: dict[Path, Vault] = {}
"""Key stores that open without their passphrase while this process serves with them."""

_TIDIES = 3600.0  # seconds

RESULT = b"result 1"  # the purpose of a site's signature on what a session has yielded


@dataclass(frozen=True)
class Records:
    """What a role writes down about a session so that others can check it later.

    `opened` opens its key store, or has it open.
    """

    opened: Callable[[], AbstractContextManager[KeyStore]]
    identity: Identity = field(repr=False)
    announced: Announcement = field(repr=False)
    clock: Clock = SYSTEM
    before: tuple[bytes, ...] = ()

    def question(self) -> tuple[Asked | None, tuple[bytes, ...]]:
        """Return what the session's study asks, and the ids of the sessions before that answer it with this one."""
        step, study = self.announced.manifest.step, self.announced.study
        return (asked_of(study), self.before) if step else (None, ())

    def note(self, event: str, **facts: Any) -> None:
        """Add to the audit trail what has happened, and facts (plain JSON); `OSError` where that cannot be written."""
        manifest, holder = self.announced.manifest, self.announced.holder.name
        with self.opened() as store, store.together():
            audit.append(store, self.identity, event, manifest, holder, at=self.clock.now(), **facts)
            if event == "ended":
                restored.settle(store)

    def ask_about_rows(self, odd: str) -> None:
        """Raise `WaitsForPersonError` until a person has agreed to this role's odd rows (`policy.ask_about_rows`)."""
        with self.opened() as store:
            document = Kept.stored(store, self.announced.manifest.session).announcement
            ask_about_rows(store, self.announced, document, odd, at=self.clock.now())

    def signed(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the role tells as plain JSON with its signature; `told` has a ``time`` (ISO, with time zone)."""
        return signed_json.sign_json(self.identity, RESULT, told)


class SiteState:
    """A site's open key store, in which it keeps what must not be lost nor seen.

    `name` is the party that it is in every session, `data_set` names its rows in the ledger of budgets.
    """

    def __init__(self, store: KeyStore, data_set: str = budget.DEFAULT_DATA_SET, clock: Clock = SYSTEM) -> None:
        self._store, self._clock = store, clock
        self._data_set = budget.checked_name("data-set", data_set)
        self._identity = own_identity(store)
        self.name = self._identity.name

    def session(self, session: bytes) -> Joined:
        """Return what the site's party starts from in a session; `FheAucError` where it is not, or no longer, in it."""
        announced, material = session_files.kept_for_party(self._store, session, at=self._clock.now())
        store, earlier = self._store, sessions_before(self._store, announced)
        records = Records(lambda: nullcontext(store), self._identity, announced, self._clock, earlier)
        protection = announced.protection(self._identity, self._clock)
        return Joined(announced.manifest, material, protection, records, helps=announced.is_helper(self.name))

    def state(self, session: bytes) -> bytes | None:
        """Return what `keep` was given last for a session; None: nothing yet."""
        name = session.hex()
        return self._store.get("state", name) if self._store.has("state", name) else None

    def others(self, session: bytes) -> Mapping[str, bytes]:
        """Return what `keep` was given last for each other session, by its id in hex; empty where it is damaged."""
        found = dict.fromkeys((name for name in self._store.names("state") if name != session.hex()), b"")
        for name in found:
            with suppress(DamagedFileError):
                found[name] = self._store.get("state", name)
        return found

    def together(self) -> AbstractContextManager[None]:
        """Let all that is written down in a context, in `Records` too, be kept as a whole; as `KeyStore.together`."""
        return self._store.together()

    def keep(self, session: bytes, state: bytes, *, ended: bool = False) -> None:
        """Write down a session's state, and erase what the site's party needed to submit.

        Where the session has `ended` here, all its keys are erased, but not its state. There may be none.
        """
        self._store.put("state", session.hex(), state, replace=True)
        if self._store.has("bundle", session.hex()):
            spend_seed(self._store, session)
        if ended:
            destroy_keys(self._store, session, has_result=True)

    def charge(self, manifest: Manifest, spending: Spending | None, *, rows: int) -> Mapping[str, Any]:
        """Write down what a session spends of the privacy of the site's `rows`, as `budget.spend`."""
        return budget.spend(self._store, self._data_set, manifest, spending, rows=rows, at=self._clock.now())

    def stop(self, manifest: Manifest) -> None:
        """Raise `FheAucError` where a session that has spent must not go on, for what another one has ended with."""
        budget.stop(self._store, self._data_set, manifest)

    def refuse(self, manifest: Manifest, error: str) -> None:
        """Write down that a result has failed its checks, with an error of this name, before all else.

        With a privacy budget, the site has to look into that before it submits these rows again.
        """
        budget.refuse(self._store, manifest, error)

    def close_all(self, why: str) -> None:
        """Erase the keys of all sessions: this state was put back to an older one, and says so from now on.

        Sessions that were made before are not opened any more, and where budgets may have been spent, somebody has to
        look into that.
        """
        restored.close_all(self._store, why, at=self._clock.now())


class SiteStorage:
    """What keeps the state of sites in their key stores, and opens sessions for aggregators."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._tidied: dict[Path, float] = {}
        self._published: dict[Exchange, Published] = {}

    @contextmanager
    def serving(self, config: Mapping[str, Any]) -> Iterator[None]:
        """Be the process that plays a role for long: all other calls open the role's store without its passphrase.

        Raises `FheAucError` where it cannot be opened, or another process serves with it.
        """
        vault = vault_of(config)
        with serving(vault.directory):
            audit.versions()  # so that processes that are made of this one know them
            try:
                _SERVED[vault.directory] = vault.unlocked()
                drop_variable()
                with self._opened(config) as store:
                    own_identity(store)
                yield
            finally:
                _SERVED.pop(vault.directory, None)

    def upkeep(self, config: Mapping[str, Any]) -> str:
        """Erase, at each pass, what nobody needs any more; return whether, and why, the store is known to be put back.

        Where ``state``, the role's folder, has seen a newer one, `SiteState.close_all` comes first. Raises
        `FheAucError` or `OSError` where it cannot be opened or written.
        """
        now = self._clock.monotonic()
        with self._opened(config) as store:
            if now > self._tidied.get(store.directory, -math.inf) + _TIDIES:  # it reads all that is open
                close_ended(store, at=self._clock.now())
                self._tidied[store.directory] = now
            return restored.warning(store)

    def standing(self, config: Mapping[str, Any], exchange: Exchange) -> Standing:
        """Return who the role is, and whose sessions it takes part in, after taking in who is a member now.

        Errors are raised where the role's own store is at fault, or it is no member.
        """
        published, at = self._published.setdefault(exchange, Published(exchange)), self._clock.now()
        with self._opened(config) as store:
            identity = own_identity(store)
            members = known_members.renewed(store, published, identity.name)
            wrong = "; ".join(published.wrong)
            if wrong:
                LOGGER.warning("members' files: %s", wrong)
            me = identity.member(members, at=at)
            makers = {own.study.maker for own in agreed(store)} & members.by_name.keys()
            others = tuple(name for name in members.by_name if name not in makers)
            return Standing(me.name, tuple(makers), others, wrong, members.ends if members.ends_soon(at) else None)

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
        signed shows that the store was put back (`SiteState.close_all`). What is wrong is told; errors are raised where
        the role's own store or keys are at fault.
        """
        results, at = Path(str(config["results"])) if config.get("results") else None, self._clock.now()
        with self._opened(config) as store:
            return session_files.take_in(store, session, files, begun, own, results=results, at=at)

    def begins(self, document: bytes) -> float:
        """Return when a session begins, as its announcement says, in Unix seconds; `FheAucError` for no such."""
        return float(claimed(document).not_before)

    def ends(self, config: Mapping[str, Any], session: bytes) -> datetime | None:
        """Return when a session ends that a site or a helper has opened; None where it knows of none."""
        with self._opened(config) as store:
            return session_files.meeting_of(store, session).ends if store.has("bundle", session.hex()) else None

    def columns(self, config: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return the columns of scores, and the others, for which studies ask that the site has agreed to."""
        with self._opened(config) as store:
            studies = [each.study for each in agreed(store)]
        own = bool(config.get("label-column"))
        labels = [study.label_column or "y_true" for study in studies if not own and not study.time_column]
        others = [name for study in studies for name in study.other_columns]
        return [name for study in studies for name in study.number_columns], [*labels, *others]

    def make_due(self, config: Mapping[str, Any], exchange: Exchange) -> list[str]:
        """Make the sessions that are due of the studies that this site makes; return what is wrong with them."""
        with self._opened(config) as store:
            if not store.has("trust", NAME):
                return []
            stands = make_due(config, store, exchange, known_members.stored(store), self._clock)
        return [f"study {each.study.digest.hex()[:8]}: {each.wrong}" for each in stands if each.wrong]

    @contextmanager
    def site(self, config: Mapping[str, Any]) -> Iterator[SiteState]:
        """Open the key store that `config` names.

        ``store`` is its folder, ``passphrase-file`` a file of mode 600 (else the variable FHE_AUC_PASSPHRASE has it),
        ``data-set`` names the rows in the ledger of privacy budgets (`fhe_auc_keys.store.budget`).
        """
        with self._opened(config) as store:
            data_set = str(config.get("data-set") or budget.DEFAULT_DATA_SET)
            yield SiteState(store, data_set, self._clock)

    def opens(self, config: Mapping[str, Any], files: Mapping[str, bytes]) -> Meeting | None:
        """Return who meets in the session that a maker's `files` open for this aggregator; None: some are to come.

        They are those of `fhe_auc.machines.file_transport`, by their names there. Raises `FheAucError` where they open
        none.
        """
        at = self._clock.now()
        with self._opened(config) as store:
            identity, members = own_identity(store), known_members.stored(store)
        if ANNOUNCEMENT not in files:
            return None
        announced = _announced(files, identity, members, at)
        if announced.manifest.keys == "sealed":
            if FOR_AGGREGATOR not in files:
                return None
            check_bundle(files[FOR_AGGREGATOR], announced, announced.aggregator, members, at=at)
        return session_files.meeting(files[ANNOUNCEMENT])

    def aggregator(self, config: Mapping[str, Any], files: Mapping[str, bytes]) -> Joined:
        """Return what the aggregator starts from, by files as of `opens`; errors likewise."""
        at = self._clock.now()
        with self._opened(config) as store:
            identity, members = own_identity(store), known_members.stored(store)
            vault = replace(vault_of(config), key=store.key)  # its passphrase may be gone later
        announced, material, loaded = _announced(files, identity, members, at), b"", None
        if announced.manifest.keys == "sealed":
            bundle = files.get(FOR_AGGREGATOR, b"")
            material, loaded = open_for_aggregator(bundle, announced, identity, members, at=at)

        def fix_list(digest: bytes) -> bytes:
            with vault.open() as store:
                return fixed_lists.fix(store, identity, announced.manifest, digest)

        protection = announced.protection(identity, self._clock)
        records = Records(vault.open, identity, announced, self._clock)
        return Joined(announced.manifest, material, protection, records, fix_list, loaded)

    @contextmanager
    def _opened(self, config: Mapping[str, Any]) -> Iterator[KeyStore]:
        """Open a key store, and notice where it was put back."""
        folder = Path(str(config["state"])) if config.get("state") else None
        with vault_of(config).open() as store, restored.watched(store, folder, at=self._clock.now()):
            yield store

    def local_sites(self, session: Session, folder: Path) -> LocalSites:
        """Play coordinator and key holder; make each role's store in an empty folder that only this user can read."""
        manifest, consortium = session.manifest, Consortium(session.manifest.parties)
        sealed, at = consortium.seal(session), consortium.at

        def stored(number: int, name: str) -> tuple[dict[str, str], KeyStore]:
            """Make a role's key store; return its configuration, and the store, which is open."""
            place, passphrase_file = folder / f"store-{number}", folder / f"passphrase-{number}"
            store = create_with_random_passphrase(place, passphrase_file)
            store.put("identity", OWN, consortium.identities[name].to_bytes())
            known_members.keep(store, consortium.members)
            return {"store": str(place), "passphrase-file": str(passphrase_file)}, store

        sites, document = {}, sealed.announcement
        for number, role in enumerate((*manifest.parties, HELPER) if manifest.keys == "helper" else manifest.parties):
            name, bundle = consortium.helper if role == HELPER else role, sealed.parties.get(role, b"")
            sites[role], store = stored(number, name)
            with store:
                session_files.keep_for_party(document, bundle, store, at=at)
        aggregator, store = stored(len(sites), consortium.aggregator)
        store.close()
        drop_variable()  # which processes of carriers would inherit
        beside = {FOR_AGGREGATOR: sealed.aggregator} if sealed.aggregator else {}
        return LocalSites(aggregator, sites, {ANNOUNCEMENT: document, **beside})


def vault_of(config: Mapping[str, Any]) -> Vault:
    """Return the key store that a configuration names, unlocked where this process serves with it."""
    named, passphrase_file = config.get("store"), config.get("passphrase-file")
    if not isinstance(named, str) or not named:
        raise InputError("store is not configured")
    if (place := Path(named)) in _SERVED:
        return _SERVED[place]
    return Vault(place, Path(str(passphrase_file)) if passphrase_file else None)


def _announced(files: Mapping[str, bytes], identity: Identity, members: Members, at: datetime) -> Announcement:
    announced = open_announcement(files[ANNOUNCEMENT], members, at=at)
    announced.require_aggregator(identity.member(members, at=at))
    return announced
