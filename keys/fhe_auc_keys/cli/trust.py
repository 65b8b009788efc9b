"""The options that name a key store, and whose signatures count."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import about
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.vault import PASSPHRASE_VARIABLE, Vault
from fhe_auc_keys.trust.members import Members

STORE_VARIABLE = "FHE_AUC_STORE"


def key_store(command: Callable[..., Any], *, required: bool = True) -> Callable[..., Any]:
    """Decorate a command: it receives ``vault``, a `Vault`, or None where none is `required`."""

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
        type=common.FILE,
        help=f"Read the passphrase from FILE (mode 600), which lies beside the store. Without: {PASSPHRASE_VARIABLE}.",
    )
    @functools.wraps(command)
    def with_store(*args: Any, store: Path | None, passphrase_file: Path | None, **options: Any) -> Any:
        vault = None if store is None else Vault(store, passphrase_file)
        return command(*args, vault=vault, **options)

    return with_store


def members_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command that changes nothing: it receives ``vault``, and ``members``, which it or a folder has."""

    @functools.partial(key_store, required=False)
    @click.option(
        "--members",
        "members_folder",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of the consortium's members' files (1.json, 2.json, …), in place of a key store's.",
    )
    @functools.wraps(command)
    def with_members(*args: Any, vault: Vault | None, members_folder: Path | None, **options: Any) -> Any:
        members: Members | None = None
        if members_folder is not None:
            with about(members_folder):
                members = known_members.in_folder(members_folder)
        elif vault is not None:
            with vault.open() as store:
                members = known_members.stored(store)
        return command(*args, vault=vault, members=members, **options)

    return with_members
