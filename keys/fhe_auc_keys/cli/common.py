"""What the commands share: how they ask, say what they have done, and are told of key stores and members."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import click

from fhe_auc.base.errors import InputError
from fhe_auc.cli import failures, output
from fhe_auc.cli.inputs import option
from fhe_auc.session.manifest import SESSION_BYTES
from fhe_auc_keys.errors import about
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.vault import PASSPHRASE_VARIABLE, STORE_VARIABLE, Vault
from fhe_auc_keys.trust.members import Members

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
_STORE = "Key store: a folder that only you can read."
_PASSPHRASE = f"Read the passphrase from FILE (mode 600), which lies beside the store. Without: {PASSPHRASE_VARIABLE}."
_MEMBERS = "Folder of the consortium's members' files (1.json, 2.json, …), in place of a key store's."

Rows: TypeAlias = "list[tuple[Any, ...]]"  # of a table: texts, and the values that `_cell` writes


class Table(NamedTuple):
    """A table, and its header if it has any."""

    rows: Rows
    header: tuple[str, ...] | None = None


class Report:
    """What a command has done: facts for JSON, and the same in tables; `failed` is exit status 1.

    `below` prints what is no table of `tables`, below them; `then` is done once all is printed, as JSON, too.
    """

    def __init__(
        self,
        facts: Mapping[str, Any],
        *tables: Rows | Table,
        failed: bool = False,
        below: Callable[[], object] | None = None,
        then: Callable[[], object] | None = None,
    ) -> None:
        self.facts, self.failed, self.below, self.then = facts, failed, below, then
        self.tables = [each if isinstance(each, Table) else Table(each) for each in tables]


def command(short_help: str | None, *examples: str, name: str | None = None) -> Callable[[Any], click.Command]:
    """Decorate a function that becomes a command, whose help teaches by examples."""
    return click.command(name, short_help=short_help, epilog=output.examples(*examples))


def reported(command: Callable[..., Report]) -> Callable[..., None]:
    """Decorate a command that returns its report: it gets the option ``--json``, and the report is printed."""

    @output.json_option
    @functools.wraps(command)
    def print_report(*args: Any, as_json: bool, **options: Any) -> None:
        report = command(*args, **options)
        if as_json:
            output.print_json(_plain(report.facts))
        else:
            for number, table in enumerate(each for each in report.tables if each.rows):
                if number:
                    output.print_text()
                output.print_table([tuple(map(_cell, row)) for row in table.rows], header=table.header)
            if report.below is not None:
                output.print_text()
                report.below()
        if report.then is not None:
            sys.stdout.flush()
            report.then()
        if report.failed:
            click.get_current_context().exit(failures.FAILED)

    return print_report


def _cell(value: Any) -> output.Cell:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return moment(value)
    text: output.Cell = str(value) if isinstance(value, Path) else value
    return text


def _plain(value: Any) -> Any:
    """Write a value for JSON: bytes in hexadecimal digits, times in UTC as ISO 8601 has them."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="seconds")
    return str(value) if isinstance(value, Path) else value


def now() -> datetime:
    """Return the present."""
    return datetime.now(timezone.utc)


def moment(at: datetime) -> str:
    """Write a time."""
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"


class SessionId(click.ParamType):  # type: ignore[type-arg] # it has none in click 8.1
    """A session's id, as hexadecimal digits in either case and grouped in any way."""

    name = "hexadecimal"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return its bytes."""
        found = re.sub(r"[\s:.-]", "", value)
        if not re.fullmatch(rf"[0-9A-Fa-f]{{{2 * SESSION_BYTES}}}", found):
            self.fail(f"expected {2 * SESSION_BYTES} hexadecimal digits, as the other side sees them", param, ctx)
        return bytes.fromhex(found)


def agreed(question: str, *, nobody: str = "") -> bool:
    """Ask the user, whose default is no; where there is none, raise `InputError` with the text `nobody`, if given."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        if nobody:
            raise InputError(nobody) from None
        return False


def absolute(place: str) -> str:
    """Return a file or folder as processes find it that stand elsewhere; a URL is one already."""
    return place if "://" in place else os.path.abspath(place)


def file_stem(name: str) -> str:
    """Return a party's name as a file name's beginning: names may hold blanks, slashes and the like, or be long."""
    return re.sub(r"[^\w.@-]+", "_", name).lstrip(".")[:40] or "party"


def key_store(command: Callable[..., Any], *, required: bool = True) -> Callable[..., Any]:
    """Decorate a command: it receives ``vault``, a `Vault`, or None where none is `required`."""

    @option("--store DIR", _STORE, type=FOLDER, envvar=STORE_VARIABLE, show_envvar=True, required=required)
    @option("--passphrase-file FILE", _PASSPHRASE, type=FILE)
    @functools.wraps(command)
    def with_store(*args: Any, store: Path | None, passphrase_file: Path | None, **options: Any) -> Any:
        vault = None if store is None else Vault(store, passphrase_file)
        return command(*args, vault=vault, **options)

    return with_store


def members_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command that changes nothing: it receives ``vault``, and ``members``, which it or a folder has."""

    @functools.partial(key_store, required=False)
    @option("--members DIR", _MEMBERS, name="members_folder", type=click.Path(True, file_okay=False, path_type=Path))
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
