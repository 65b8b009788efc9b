"""Getting at a key store: where it is, and its passphrase, which is never an argument."""

from __future__ import annotations

import functools
import getpass
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fhe_auc.errors import InputError
from fhe_auc_keys.errors import MissingError, UnsafeModeError
from fhe_auc_keys.identity import Identity
from fhe_auc_keys.store import KeyStore

PASSPHRASE_VARIABLE = "FHE_AUC_PASSPHRASE"  # noqa: S105 - the variable's name
STORE_VARIABLE = "FHE_AUC_STORE"
LEAST_CHARACTERS = 12
OWN = "own"
"""Name of the entry that a store has one of: its identity, its authority, whom it trusts."""


@dataclass(frozen=True)
class Vault:
    """A key store as named on the command line, not open yet.

    Attributes
    ----------
    directory : Path
    passphrase_file : Path or None
    """

    directory: Path
    passphrase_file: Path | None

    def exists(self) -> bool:
        """Return whether there is anything in the directory."""
        return self.directory.is_dir() and any(self.directory.iterdir())

    def open(self) -> KeyStore:
        """Ask for the passphrase and open the store; errors as `KeyStore`."""
        if not self.exists():
            raise MissingError(
                f"no key store in {str(self.directory)!r}: `fhe-auc keys enrol NAME` makes a site's, "
                "`fhe-auc keys ca-init NAME` an authority's"
            )
        return KeyStore(self.directory, self._passphrase(new=False))

    def open_or_make(self) -> KeyStore:
        """Open the store, or make it where there is none."""
        if self.exists():
            return self.open()
        passphrase = self._passphrase(new=True)
        if len(passphrase) < LEAST_CHARACTERS:
            raise InputError(
                f"the passphrase is too short: take at least {LEAST_CHARACTERS} characters, say four random words"
            )
        return KeyStore.create(self.directory, passphrase)

    def _passphrase(self, *, new: bool) -> str:
        if self.passphrase_file is not None:
            return _from_file(self.passphrase_file)
        kind = "Passphrase of the new key store" if new else "Passphrase of key store"
        return os.environ.get(PASSPHRASE_VARIABLE) or ask_hidden(
            f"{kind} {str(self.directory)!r}",
            otherwise=f"set {PASSPHRASE_VARIABLE} or give --passphrase-file",
            confirm=new,
        )


def certified_identity(store: KeyStore) -> Identity:
    """Return a store's identity; raise `MissingError` where it has none, or none that is certified."""
    if OWN not in store.names("identity"):
        raise MissingError("this key store holds no site's keys: run `fhe-auc keys enrol NAME` first")
    identity = Identity.from_bytes(store.get("identity", OWN))
    if not identity.credential:
        raise MissingError(
            f"{identity.name!r} is not certified yet: run `fhe-auc keys enrol` with the --certificate that the "
            "authority issued"
        )
    return identity


def ask_hidden(question: str, *, otherwise: str, confirm: bool = False) -> str:
    """Ask on the terminal without echo; `InputError` with the advice `otherwise` where there is no terminal."""
    with warnings.catch_warnings():
        # Without a terminal, getpass warns and goes on to read what was typed in full view.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            answer: str = click.prompt(question, hide_input=True, confirmation_prompt=confirm, err=True)
        except getpass.GetPassWarning:
            raise InputError(f"no terminal to ask for the {question[:1].lower()}{question[1:]}: {otherwise}") from None
    return answer


def _from_file(path: Path) -> str:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise UnsafeModeError(f"passphrase file {str(path)!r} is open to other users: chmod 600 it")
        try:
            lines = file.read().decode().splitlines()
        except UnicodeDecodeError:
            lines = []
    if len(lines) != 1 or not lines[0]:
        raise InputError(f"passphrase file {str(path)!r} is not one line of text")
    return lines[0]


_passphrase_option = click.option(
    "--passphrase-file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"Read the passphrase from FILE (mode 600). Default: {PASSPHRASE_VARIABLE}, else it is asked for.",
)


def key_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: it receives ``vault``, a `Vault`."""
    return _key_store(required=True)(command)


def optional_key_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: it receives ``vault``, a `Vault` or None."""
    return _key_store(required=False)(command)


def _key_store(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--store",
            metavar="DIR",
            type=click.Path(file_okay=False, path_type=Path),
            envvar=STORE_VARIABLE,
            show_envvar=True,
            required=required,
            help="Key store: a folder that only you can read.",
        )
        @_passphrase_option
        @functools.wraps(command)
        def with_store(*args: Any, store: Path | None, passphrase_file: Path | None, **options: Any) -> Any:
            vault = None if store is None else Vault(store, passphrase_file)
            return command(*args, vault=vault, **options)

        return with_store

    return decorate
