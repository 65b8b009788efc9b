"""``fhe-auc check``: results that sites have signed, verified anywhere, and compared."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.files import read_text
from fhe_auc.cli import output
from fhe_auc.cli.evaluation_table import Form, print_evaluation
from fhe_auc.machines.isolation import sentence
from fhe_auc.results import result_file
from fhe_auc.results.evaluation import Evaluation
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.site.key_store_sites import RESULT
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust import signed_json
from fhe_auc_keys.trust.members import Members
from fhe_auc_keys.trust.public_keys import printable

_FACTS = ("party", "time", "session", "manifest")
_KINDS = (*result_file.KINDS, result_file.ERROR)
_PLAIN = Form(costs=False, brief=False, as_json=False)
_OWN = {"seconds", "upload_bytes_per_party", "download_bytes_per_party", "warnings", "own_warnings"}
"""Of what a session has yielded, that which each site measures, or is told, for itself."""
_LONGEST = 64  # characters shown of what a site has written; a digest
_MOST = 9  # differences shown
_OF_SESSIONS = ("session", "signed by", "time", "result")
_HEADER = ("file", "signed by", "time", "result", "verified")


@common.command(
    None,
    "fhe-auc check results/*.json --store keystore",
    "fhe-auc check north.json south.json west.json --members exchange/north/members    on any machine",
)
@click.argument("files", metavar="RESULT...", nargs=-1, required=True, type=common.FILE)
@common.members_option
@common.reported
def check(files: tuple[Path, ...], vault: Vault | None, members: Members | None) -> common.Report:
    """Verify results that sites have signed, and show them as `evaluate` does; those of one session must say the same.

    The signature shows which site says so, and that nothing was changed since; a site can sign any number. Where the
    other sites' copies say the same, all of them would have to lie. Of several sessions, as of several nights, there is
    a line each, and the newest is shown as a whole. Exit status 1: something is wrong.
    """
    if members is None:
        raise click.UsageError("give --store, or --members: whose signatures count?")
    found, wrong, sessions = dict[Path, dict[str, Any]](), dict[Path, str](), dict[str, dict[Path, dict[str, Any]]]()
    for path in files:
        try:
            found[path] = _genuine(path, members)
        except KeysError as error:
            wrong[path] = str(error)
    for path, result in sorted(found.items(), key=lambda each: str(each[1]["time"])):
        sessions.setdefault(result["session"], {})[path] = result
    for copies in sessions.values():
        first = next(iter(copies))
        for path, told in copies.items():
            if difference := _difference(copies[first], told):
                wrong[path] = f"differs from {first} ({copies[first]['party']!r}): {difference}"
    described = [_described(path, found.get(path), wrong.get(path)) for path in files]
    alike = [_session([told for path, told in copies.items() if path not in wrong]) for copies in sessions.values()]
    problems = [f"{path}: {reason}" for path, reason in wrong.items()]
    rows: common.Rows = []
    for each in described:
        *texts, problem = (each[name] for name in ("file", "party", "time", "result", "problem"))
        verdict = printable(f"REFUSED: {problem}") if problem else output.styled("yes", "bold green")
        rows.append((*(printable(str(text or "")) for text in texts), verdict))
    lines: common.Rows = [
        tuple(map(_short, (each["session"], ", ".join(each["parties"]), each["time"], each["result"])))
        for each in (alike if len(sessions) > 1 else ())
    ]
    below = None
    if sessions and not wrong:
        newest = next(iter([*sessions.values()][-1]))
        below = partial(_show, newest, found[newest], several=len(sessions) > 1)
    tables = common.Table(rows, _HEADER), common.Table(lines, _OF_SESSIONS)
    facts = {"results": described, "sessions": alike, "problems": problems}
    return common.Report(facts, *tables, failed=bool(wrong), below=below)


def _described(path: Path, told: Mapping[str, Any] | None, problem: str | None) -> dict[str, Any]:
    """Return what a file holds, as far as it is genuine, and what is wrong with it."""
    facts = {name: None if told is None else told[name] for name in _FACTS}
    return {"file": path, **facts, "result": None if told is None else _in_words(told), "problem": problem}


def _session(copies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what copies of a session's result say that agree with the first."""
    facts = {name: copies[0][name] for name in ("session", "manifest", "time")}
    return {**facts, "parties": [told["party"] for told in copies], "result": _in_words(copies[0])}


def _show(path: Path, told: dict[str, Any], *, several: bool) -> None:
    """Print one genuine result, the newest of several: its evaluation, as `evaluate` does, and what else it is for."""
    try:
        result = result_file.parsed(told)
        if any(isinstance(each, Evaluation) for each in result.outcomes):
            print_evaluation(result.evaluation(), _PLAIN, title=f"The newest, {result.session}:" if several else "")
    except Exception as error:  # who has signed it may have signed anything
        output.print_warning(f"{path} is genuine, and not shown here: {sentence(error)}")
        return
    if result.asked is not None and result.asked.report is not None:
        output.print_line(f"`fhe-auc report {path}` writes its page, once the sessions of its report have all ended")


def _genuine(path: Path, members: Members) -> dict[str, Any]:
    """Return a result that is what one of the members has signed; raise `KeysError` where it is not."""
    told = signed_json.parse(read_text(path))
    signer = signed_json.verified_signer(told, RESULT, members, at=common.now()).name
    if told.get("party") != signer:
        raise TamperedError(f"it is signed by {signer!r}, and said to be another's")
    kinds, before = [told[kind] for kind in _KINDS if kind in told], told.get("before", [])
    named = all(isinstance(told.get(name), str) for name in _FACTS)
    several = isinstance(before, list) and all(
        isinstance(session, dict) and all(isinstance(each, dict) for each in session.values()) for session in before
    )
    if not named or not several or len(kinds) != 1 or not isinstance(kinds[0], dict):
        raise TamperedError(f"{signer!r} has signed something that is no result")
    return told


def _kind(told: Mapping[str, Any]) -> str:
    return next(kind for kind in _KINDS if kind in told)


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return in words how two genuine results differ; empty where they say the same."""
    if one["manifest"] != other["manifest"]:
        return f"another manifest, {_short(other['manifest'])}"
    kind = _kind(one)
    if kind != _kind(other):
        return f"{_in_words(other)}, not {_in_words(one)}"
    if one.get("asked") != other.get("asked"):
        return "another question"
    here, there = _told_to_all(one), _told_to_all(other)
    names = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
    told = [f"{_short(name)} {_short(there.get(name))}, not {_short(here.get(name))}" for name in names[:_MOST]]
    return ", ".join(told + [f"and {len(names) - _MOST:,} more"] * (len(names) > _MOST))


def _told_to_all(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return by name what a result says that is the same at every site; errors are told in words of one's own."""
    found: dict[str, Any] = {}
    sessions = [*told.get("before", ()), {kind: told[kind] for kind in result_file.KINDS if kind in told}]
    for number, session in enumerate(sessions, start=1 - len(sessions)):
        before = f"session {number}, " if number else ""  # 0 is the result's own
        for values in session.values():
            found |= {f"{before}{name}": value for name, value in values.items() if name not in _OWN}
    return found


def _in_words(told: Mapping[str, Any]) -> str:
    kind = _kind(told)
    found = told[kind]
    if kind == "error":
        return f"no result: {_short(found.get('type'))}: {_short(found.get('message'))}"
    if kind == "boundaries":
        return f"thresholds: {_short(found.get('grid'))}"
    if kind == "counts":
        return "counts of a report"
    within, span = found.get("interval"), ""
    if isinstance(within, dict):
        span = f" ({_rounded(within.get('low'))} to {_rounded(within.get('high'))})"
    return f"AUC {_rounded(found.get('auc'))}{span}"


def _rounded(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else _short(value)


def _short(value: Any) -> str:
    text = printable(str(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
