"""``fhe-auc audit``: a role's audit trail, verified and shown."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.files import read_text, write_atomically
from fhe_auc.cli import output
from fhe_auc.cli.inputs import option
from fhe_auc_keys.cli import common
from fhe_auc_keys.store.audit import read_trail
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.members import Members
from fhe_auc_keys.trust.public_keys import printable

_HEADER = ("time", "event", "session", "protocol", "details")
_DETAILS = ("rows", "spent", "exact", "limit", "by", "outcome", "error", "counted", "missing", "delivered")


@common.command(
    None,
    "fhe-auc audit --store keystore                         one's own",
    "fhe-auc audit audit.jsonl --members exchange/north/members   another's",
    "fhe-auc audit --store keystore --json | jq '.lines[] | select(.event == \"submitted\")'",
    "fhe-auc audit --store keystore --copy audit.jsonl                       to keep elsewhere",
)
@click.argument("file", metavar="[FILE]", required=False, type=common.FILE)
@option("--copy FILE", "Write the key store's trail, as it is, to FILE.", type=common.NEW_FILE)
@common.members_option
@common.reported
def audit(file: Path | None, copy: Path | None, vault: Vault | None, members: Members | None) -> common.Report:
    """Verify a role's audit trail, and show it: what it has done in which session.

    FILE is a copy of one; without it, that of the key store (--store). Each line is signed by the role, and names the
    digest of the line before. Exit status 1: a line was changed, or lines were removed. Lines removed from the end show
    only to who has noted the digest of a later one.
    """
    if members is None or (file is None and vault is None):
        raise click.UsageError("give --store; or FILE and --members")
    if file is not None:
        lines = read_text(file).splitlines()
    elif vault is not None:
        with vault.open() as store:
            lines = store.trail()
    if copy is not None:
        write_atomically(copy, b"".join(line + b"\n" for line in lines))
    found = read_trail(lines, members, at=common.now())
    signers = ", ".join(map(repr, found.signers)) or "nobody"
    rows: common.Rows = [("signed by", signers), ("last line", found.last or "none")]
    rows += [(output.styled("REFUSED", "bold red"), printable(each)) for each in found.problems]
    table = common.Table([_row(line) for line in found.lines], _HEADER)
    return common.Report({"file": file, **vars(found)}, table, rows, failed=bool(found.problems))


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    told = {name: line[name] for name in _DETAILS if name in line}
    details = "; ".join(f"{name} {_in_words(value)}" for name, value in told.items())
    first = (str(line.get(name, "")) for name in _HEADER[:-1])
    return tuple(map(printable, (*first, details)))


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "nobody"
    return str(value)
