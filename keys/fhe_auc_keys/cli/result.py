"""``fhe-auc check``: results that sites have signed, verified anywhere, and compared."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.files import read_from_others
from fhe_auc.cli import output
from fhe_auc_keys.cli import common, trust
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.site.key_store_sites import RESULT
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust import signed_json
from fhe_auc_keys.trust.members import Members
from fhe_auc_keys.trust.public_keys import printable

_FACTS = ("party", "time", "session", "manifest")
_KINDS = ("evaluation", "boundaries", "error")
_OWN = {"seconds", "upload_bytes_per_party", "download_bytes_per_party", "warnings", "own_warnings"}
"""Of what a session has yielded, that which each site measures, or is told, for itself."""
_LONGEST = 64  # characters shown of what a site has written; a digest
_MOST = 9  # differences shown


@common.command(
    None,
    "fhe-auc check results/*.json --store keystore",
    "fhe-auc check north.json south.json west.json --members exchange/members    on any machine",
)
@click.argument("files", metavar="RESULT...", nargs=-1, required=True, type=common.FILE)
@trust.members_option
@common.reported
def check(files: tuple[Path, ...], vault: Vault | None, members: Members | None) -> common.Report:
    """Verify results that sites have signed; several must be of one session, and say the same.

    The signature shows which site says so, and that nothing was changed since; a site can sign any number. Where the
    other sites' copies say the same, all of them would have to lie. Exit status 1: something is wrong.
    """
    if members is None:
        raise click.UsageError("give --store, or --members: whose signatures count?")
    found, wrong = _read(files, members)
    first = next(iter(found), None)
    for path, told in found.items():
        if first is not None and (difference := _difference(found[first], told)):
            wrong[path] = f"differs from {first} ({found[first]['party']!r}): {difference}"
    facts = {
        "results": [_as_dict(path, found.get(path), wrong.get(path)) for path in files],
        "problems": [f"{path}: {reason}" for path, reason in wrong.items()],
    }
    rows = [_row(path, found.get(path), wrong.get(path)) for path in files]
    table = common.Table(rows, ("file", "signed by", "time", "result", "verified"))
    same = [] if first is None else [(name, _short(found[first][name])) for name in ("session", "manifest")]
    return common.Report(facts, table, same, failed=bool(wrong))


def _read(files: Sequence[Path], members: Members) -> tuple[dict[Path, dict[str, Any]], dict[Path, str]]:
    """Return, by file, the results that are genuine; and what is wrong with the others."""
    found: dict[Path, dict[str, Any]] = {}
    wrong: dict[Path, str] = {}
    for path in files:
        try:
            told = signed_json.parse(read_from_others(path))
            signer = signed_json.check(told, RESULT, members, at=common.now()).name
            if told.get("party") != signer:
                raise TamperedError(f"it is signed by {signer!r}, and said to be another's")
            kinds = [told[kind] for kind in _KINDS if kind in told]
            named = all(isinstance(told.get(name), str) for name in _FACTS)
            if not named or len(kinds) != 1 or not isinstance(kinds[0], dict):
                raise TamperedError(f"{signer!r} has signed something that is no result")
            found[path] = told
        except KeysError as error:
            wrong[path] = str(error)
    return found, wrong


def _kind(told: Mapping[str, Any]) -> str:
    return next(kind for kind in _KINDS if kind in told)


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return in words how two genuine results differ; empty where they say the same."""
    for name in ("session", "manifest"):
        if one[name] != other[name]:
            return f"another {name}, {_short(other[name])}"
    kind = _kind(one)
    if kind != _kind(other):
        return f"{_in_words(other)}, not {_in_words(one)}"
    if kind == "error":
        return ""  # each is told in its own words
    here, there = one[kind], other[kind]
    names = sorted(name for name in {*here, *there} - _OWN if here.get(name) != there.get(name))
    told = [f"{_short(name)} {_short(there.get(name))}, not {_short(here.get(name))}" for name in names[:_MOST]]
    return ", ".join(told + [f"and {len(names) - _MOST:,} more"] * (len(names) > _MOST))


def _in_words(told: Mapping[str, Any]) -> str:
    kind = _kind(told)
    found = told[kind]
    if kind == "error":
        return f"no result: {_short(found.get('type'))}: {_short(found.get('message'))}"
    if kind == "boundaries":
        return f"thresholds: {_short(found.get('grid'))}"
    interval = found.get("interval")
    span = f" ({_short(interval.get('low'))} to {_short(interval.get('high'))})" if isinstance(interval, dict) else ""
    return f"AUC {_short(found.get('auc'))}{span}"


def _short(value: Any) -> str:
    text = printable(str(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _row(path: Path, told: Mapping[str, Any] | None, wrong: str | None) -> tuple[output.Cell, ...]:
    facts = ("", "", "") if told is None else (told["party"], told["time"], _in_words(told))
    verdict = output.styled("yes", "bold green") if wrong is None else printable(f"REFUSED: {wrong}")
    return *map(printable, (str(path), *facts)), verdict


def _as_dict(path: Path, told: Mapping[str, Any] | None, wrong: str | None) -> dict[str, Any]:
    facts = {name: None if told is None else told[name] for name in _FACTS}
    return {"file": path, **facts, "result": None if told is None else _in_words(told), "problem": wrong}
