"""Opening a site's key store: its passphrase comes from a file, the environment, or whoever can be asked."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_secret, write_atomically
from fhe_auc_keys.errors import StoreError, UnsafeModeError
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.key_store import KeyStore, is_in
from fhe_auc_keys.trust.identity import Identity

PASSPHRASE_VARIABLE = "FHE_AUC_PASSPHRASE"  # noqa: S105 - the variable's name
STORE_VARIABLE = "FHE_AUC_STORE"  # of commands: their key store; of a worker of Dask's: its own
_RANDOM_BYTES = 32
_PATIENCE = 30.0  # seconds for which another process may have the store open
OWN = "own"  # name of the entry that a store has one of: its identity


@dataclass(frozen=True)
class Vault:
    """A key store that is not open yet.

    The passphrase is in `passphrase_file`, one line of text, mode 600; without it in the variable FHE_AUC_PASSPHRASE.
    With a file the variable is not read, and leaves the environment (`drop_variable`). With the `key` of an earlier
    opening (`unlocked`) there is no question of a passphrase.
    """

    directory: Path
    passphrase_file: Path | None = None
    key: bytes = field(default=b"", repr=False)

    def open(self) -> KeyStore:
        """Open the store, and wait a little where another process, such as a role, has it open.

        Errors as `KeyStore`, and `InputError` where there is no passphrase for it.
        """
        if not is_in(self.directory):
            raise StoreError(f"no key store in {str(self.directory)!r}: `fhe-auc join LINK NAME` makes one")
        return KeyStore(self.directory, self.key or self._passphrase(), patience=_PATIENCE)

    def unlocked(self) -> Vault:
        """Return the same, to be opened again without its passphrase; errors as `open`."""
        with self.open() as store:
            return replace(self, key=store.key)

    def _passphrase(self) -> str:
        if self.passphrase_file is not None:
            drop_variable()
            return read_secret(self.passphrase_file, "passphrase", StoreError, UnsafeModeError)
        if found := os.environ.get(PASSPHRASE_VARIABLE):
            return found
        raise InputError(
            f"which is the passphrase of {str(self.directory)!r}? Name its file (passphrase-file), or set "
            f"{PASSPHRASE_VARIABLE}"
        )


def create_with_random_passphrase(directory: Path, file: Path) -> KeyStore:
    """Make a key store whose passphrase, 256 random bits, is first written to a new file: one line, mode 600, durable.

    Where there is no store in the end, there is no file either. Raises `InputError` where `file` is there already,
    `OSError` that names it where it cannot be written, and as `KeyStore.create`.
    """
    passphrase = secrets.token_hex(_RANDOM_BYTES)
    try:
        file.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        raise InputError(
            f"{str(file)!r} is there already, and may be another key store's passphrase: name a new file, or delete it "
            "if no key store opens with it",
            file=str(file),
        ) from None
    try:
        write_atomically(file, f"{passphrase}\n".encode(), mode=0o600, durable=True)
        return KeyStore.create(directory, passphrase)
    except BaseException:
        if not is_in(directory):
            file.unlink(missing_ok=True)
        raise


def drop_variable() -> None:
    """Take FHE_AUC_PASSPHRASE out of this process's environment, which its children would inherit.

    Where the system shows with what a process was started (/proc/PID/environ: to its user and root), it stays.
    """
    os.environ.pop(PASSPHRASE_VARIABLE, None)


def own_identity(store: KeyStore) -> Identity:
    """Return a store's identity, which signs under its newest members' file; `StoreError` where it has either not."""
    if not store.has("identity", OWN):
        raise StoreError("this key store holds nobody's keys: `fhe-auc join LINK NAME` makes them")
    identity = Identity.from_bytes(store.get("identity", OWN))
    return replace(identity, version=known_members.stored(store).version)
