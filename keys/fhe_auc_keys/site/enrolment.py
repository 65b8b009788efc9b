"""How a role's keys come into its key store, and its certificate to them: for `enrol` and `join`."""

from fhe_auc_keys.errors import StoreError
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.store.vault import OWN
from fhe_auc_keys.trust.identity import Identity


def identity_of(store: KeyStore, name: str) -> tuple[Identity, bool]:
    """Return the store's identity, or a fresh one and True; `StoreError` where the store is somebody else's."""
    if OWN in store.names("authority"):
        raise StoreError("this key store is the authority's; a site needs one of its own: take another --store")
    if OWN not in store.names("identity"):
        return Identity.create(name), True
    found = Identity.from_bytes(store.get("identity", OWN))
    if found.name != name:
        raise StoreError(f"this key store is that of {found.name!r}; for {name!r} take another --store")
    return found, False


def keep(store: KeyStore, identity: Identity, trusted: Trusted) -> None:
    """Keep an identity, and whom it trusts."""
    trusted.keep(store)
    store.put("identity", OWN, identity.to_bytes(), replace=True)
