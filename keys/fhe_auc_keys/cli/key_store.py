"""The options that name a key store, and how its passphrase is asked for; it is never an argument."""

from __future__ import annotations

import functools
import getpass
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.errors import InputError
from fhe_auc.cli import output
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import StoreError
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.store.vault import PASSPHRASE_VARIABLE, Vault

STORE_VARIABLE = "FHE_AUC_STORE"


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


def _with_store(command: Callable[..., Any], *, required: bool) -> Callable[..., Any]:
    @click.option(
        "--store",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        envvar=STORE_VARIABLE,
        show_envvar=True,
        required=required,
        help="Key store: a folder that only you can read.",
    )
    @click.option(
        "--passphrase-file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=f"Read the passphrase from FILE (mode 600). Without: {PASSPHRASE_VARIABLE}, else it is asked for.",
    )
    @functools.wraps(command)
    def with_store(*args: Any, store: Path | None, passphrase_file: Path | None, **options: Any) -> Any:
        vault = None if store is None else Vault(store, passphrase_file, _ask, _Watched)
        return command(*args, vault=vault, **options)

    return with_store


key_store = functools.partial(_with_store, required=True)
"""Decorator: the command receives ``vault``, a `Vault`."""

optional_key_store = functools.partial(_with_store, required=False)
"""Decorator: the command receives ``vault``, a `Vault` or None."""


class _Watched(KeyStore):
    """A key store that says, once a command is done with it, which revocation lists end soon."""

    def __exit__(self, *error: object) -> None:
        with suppress(StoreError):  # a damaged store is another matter
            for ending in Trusted.stored(self).ending(at=common.now()):
                output.print_warning(ending)
        super().__exit__(*error)


def _ask(question: str, new: bool) -> str:
    advice = f"set {PASSPHRASE_VARIABLE} or give --passphrase-file"
    return ask_hidden(question, otherwise=advice, confirm=new)
