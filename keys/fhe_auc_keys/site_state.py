"""Sites' sessions in their key stores, for `fhe_auc.site_state`: what ``keys open`` has put there, and their state."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fhe_auc.errors import InputError
from fhe_auc.files import write_atomically
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Session
from fhe_auc.serialise import encode
from fhe_auc.site_state import LocalSites, SiteState, SiteStorage
from fhe_auc_keys.bundles import (
    AGGREGATOR_KIND,
    keep_party_bundle,
    kept_party_keys,
    open_aggregator_bundle,
    seal_session,
)
from fhe_auc_keys.certificates import Trust
from fhe_auc_keys.errors import LockedError
from fhe_auc_keys.joint_session import KIND as JOINT_KIND
from fhe_auc_keys.joint_session import keep_joint_session, kept_joint_session, open_joint_session, prepare_joint_session
from fhe_auc_keys.local_consortium import LIFETIME, Consortium, holder_beside
from fhe_auc_keys.roster import PartyMaterial
from fhe_auc_keys.store import KeyStore
from fhe_auc_keys.trusted_authorities import Trusted, read_certificates, read_list
from fhe_auc_keys.vault import OWN, Vault, certified_identity

_PATIENCE = 30.0  # seconds for which another process may have the store open
_CHEAP = 10  # log2 of scrypt's cost where the passphrase is 256 random bits: there is nothing to stretch


class StoredState(SiteState):
    """Sessions in an open key store.

    Parameters
    ----------
    store : KeyStore
        With a certified identity, and whom the site trusts.
    holder : str
        The key holder agreed on, or who convenes; sessions of others are refused.
    """

    def __init__(self, store: KeyStore, holder: str) -> None:
        self._store = store
        self._holder = holder
        self._identity = certified_identity(store)
        self.name = self._identity.name

    def session(self, session: bytes) -> tuple[Manifest, bytes]:
        """Return manifest and material; signatures, certificates and validity are verified again."""
        trust, at = Trusted.stored(self._store).trust, _now()
        if not self._store.get("bundle", session.hex()).startswith(JOINT_KIND.magic):
            opened = kept_party_keys(self._store, session, trust, holder=self._holder, at=at)
            return opened.announcement.manifest, opened.material
        announced, roster = kept_joint_session(self._store, session, trust, signer=self._holder, at=at)
        if announced.manifest.plan is None:
            return announced.manifest, b""
        return announced.manifest, encode(PartyMaterial(roster, self._identity.to_bytes()))

    def state(self, session: bytes) -> bytes | None:
        """Return the session's state, from the key store."""
        name = session.hex()
        return self._store.get("state", name) if name in self._store.names("state") else None

    def keep(self, session: bytes, state: bytes) -> None:
        """Put the session's state into the key store."""
        self._store.put("state", session.hex(), state, replace=True)


class KeyStoreStorage(SiteStorage):
    """Plug-in of ``fhe_auc.site_state``."""

    @contextmanager
    def site(self, config: Mapping[str, Any]) -> Iterator[SiteState]:
        """Open the key store that `config` names.

        ``store`` is its folder, ``passphrase-file`` a file of mode 600 (else the variable FHE_AUC_PASSPHRASE has it),
        ``holder`` the key holder agreed on, or who convenes.
        """
        passphrase_file = config.get("passphrase-file")
        vault = Vault(Path(_needed(config, "store")), None if not passphrase_file else Path(str(passphrase_file)))
        with _opened(vault) as store:
            yield StoredState(store, _needed(config, "holder"))

    def aggregator(self, config: Mapping[str, Any]) -> tuple[Manifest, bytes]:
        """Open what the key holder has sent to the aggregator.

        ``session`` is that file (aggregator.bundle, session.joint or session.convened), ``holder`` who must have signed
        it, ``authority`` and ``revocation-list`` the consortium's certificate and current list.
        """
        path = Path(_needed(config, "session"))
        trust = Trust(
            tuple(read_certificates(Path(_needed(config, "authority")))),
            (read_list(Path(_needed(config, "revocation-list"))),),
        )
        data, holder = path.read_bytes(), _needed(config, "holder")
        if data.startswith(AGGREGATOR_KIND.magic):
            announced, material = open_aggregator_bundle(data, trust, holder=holder, session=None, at=_now())
            return announced.manifest, material
        announced, roster = open_joint_session(data, trust, signer=holder, session=None, at=_now())
        return announced.manifest, b"" if announced.manifest.plan is None else roster.to_bytes()

    def local_sites(self, session: Session, folder: Path, grids: Mapping[str, bytes]) -> LocalSites:
        """Make certificates, seal or convene the session, and open it into a key store for each party."""
        manifest = session.manifest
        holder = holder_beside(manifest.parties)
        consortium = Consortium((holder, *manifest.parties))
        signer, trust, at = consortium.identities[holder], consortium.trust, consortium.at
        sealed = None
        if manifest.context:
            peers = consortium.peers(manifest.parties)
            sealed = seal_session(signer, session, peers, trust, lifetime=LIFETIME, at=at)
            document = sealed.aggregator
        else:
            shown = [consortium.identities[name].credential for name in manifest.parties]
            document = prepare_joint_session(signer, manifest, shown, trust, lifetime=LIFETIME, at=at)
        trusted = Trusted(trust.anchors, (), trust.revocation_lists)
        sites = {}
        for number, name in enumerate(manifest.parties):
            place = folder / f"store-{number}"
            passphrase_file = folder / f"passphrase-{number}"
            passphrase = secrets.token_hex(32)
            write_atomically(passphrase_file, passphrase.encode(), mode=0o600)
            identity = consortium.identities[name]
            with KeyStore.create(place, passphrase, log2_cost=_CHEAP) as store:
                store.put("identity", OWN, identity.to_bytes())
                trusted.keep(store)
                own, found = manifest.session, grids.get(name)
                if sealed is None:
                    keep_joint_session(document, identity, trust, store, signer=holder, session=own, at=at, grid=found)
                else:
                    keep_party_bundle(
                        sealed.parties[name],
                        identity,
                        trust,
                        store,
                        holder=holder,
                        session=own,
                        context=manifest.context,
                        at=at,
                        grid=found,
                    )
            sites[name] = {"store": str(place), "passphrase-file": str(passphrase_file), "holder": holder}
        return LocalSites(self._published(folder, document, consortium, holder), sites)

    def _published(self, folder: Path, document: bytes, consortium: Consortium, holder: str) -> dict[str, str]:
        """Write what the aggregator needs; return its configuration."""
        files = {
            "session": document,
            "authority": consortium.certificate_pem,
            "revocation-list": consortium.revocation_list,
        }
        for name, data in files.items():
            write_atomically(folder / name, data, mode=0o600)
        return {"holder": holder, **{name: str(folder / name) for name in files}}


@contextmanager
def _opened(vault: Vault) -> Iterator[KeyStore]:
    """Open a key store, and wait a little where another process, such as ``keys open``, has it open."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            store = vault.open()
            break
        except LockedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    with store:
        yield store


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _needed(config: Mapping[str, Any], name: str) -> str:
    value = config.get(name)
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} is not configured")
    return value
