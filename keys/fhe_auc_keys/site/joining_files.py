"""What joining writes: a role's own folder.

config.toml    how `fhe-auc serve` plays the role; mode 600, as all that is in here
store/         its key store, with its private keys
passphrase     of the key store: 256 random bits
state/         made by the process that serves; for a site also results/, in which its results lie
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import is_database, write_atomically
from fhe_auc_keys.store.key_store import KeyStore, is_in
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase
from fhe_auc_keys.trust.identity import Identity


@dataclass(frozen=True)
class NewRole:
    """A role that is made; done again, what is there stays as it is."""

    name: str
    role: str  # "site", "aggregator" or "helper"
    data: str | None  # where a site's rows are
    folder: Path

    @contextmanager
    def opened(self) -> Iterator[tuple[KeyStore, Identity]]:
        """Open its key store, and make it and the identity in it where there is none; `InputError` for another's."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place, passphrase = self.folder / "store", self.folder / "passphrase"
        there = is_in(place)
        with Vault(place, passphrase).open() if there else create_with_random_passphrase(place, passphrase) as store:
            if not store.has("identity", OWN):
                store.put("identity", OWN, Identity.create(self.name).to_bytes())
            identity = Identity.from_bytes(store.get("identity", OWN))
            if identity.name != self.name:
                raise InputError(f"{str(self.folder)!r} is {identity.name!r}'s: give another --folder")
            yield store, identity

    @property
    def config(self) -> Path:
        """Where its configuration is."""
        return self.folder / "config.toml"

    def configured(self, exchange: str) -> Path:
        """Write its configuration, and return where it is."""
        config, place = self.config, self.folder.absolute()
        if config.exists():
            return config
        entries = {
            "role": self.role,
            "exchange": exchange,
            "store": str(place / "store"),
            "passphrase-file": str(place / "passphrase"),
            "state": str(place / "state"),
        }
        if self.role == "site":
            data = self.data or ""
            data = data if not data or is_database(data) else str(Path(data).absolute())
            entries |= {"results": str(place / "results"), "data": data}
        text = "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in entries.items())
        write_atomically(config, text.encode(), mode=0o600)
        return config
