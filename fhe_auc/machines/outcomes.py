"""What sessions have yielded, in a file each at the site: JSON, readable to the site's user only."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import EvaluationError, FheAucError
from fhe_auc.base.files import write_atomically
from fhe_auc.base.serialise import json_text
from fhe_auc.results import result_file
from fhe_auc.results.asked import Asked
from fhe_auc.results.evaluation import Outcome
from fhe_auc.session.party import Party

_VERSION = version("fhe-auc")  # looked up once, before processes are made that write results


def write(
    folder: Path,
    party: Party[Any],
    sign: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    clock: Clock = SYSTEM,
    *,
    asked: Asked | None = None,
    before: Sequence[Path] = (),
) -> Path:
    """Write a party's result, or why there is none, to ``TIME-SESSION.json`` in a folder, signed; return the file.

    A file of that session, from before a crash, is written anew. Where the session is one of several that a question
    takes, `asked` is the question, and `before` are the files of those before it, in their order: what they say is in
    this file too.
    """
    session = party.manifest.session.hex()
    now = clock.now()
    path = file_of(folder, session) or folder / f"{now:%Y%m%dT%H%M%SZ}-{session}.json"
    try:
        outcome = result_file.as_plain(party.result())
    except EvaluationError as error:
        outcome = result_file.as_error(error)
    of_several = {"before": result_file.earlier(before)} if before else {}
    told = {
        "party": party.name,
        "session": session,
        "manifest": party.manifest.digest.hex(),
        "time": now.isoformat(timespec="seconds"),
        "version": _VERSION,
        **({"step": party.manifest.step, "turn": party.manifest.turn} if party.manifest.step else {}),
        **({} if asked is None else {"asked": msgspec.to_builtins(asked)}),
        **of_several,
        **outcome,
    }
    write_json(path, sign(told))
    return path


def file_of(folder: Path, session: str) -> Path | None:
    """Return the file in a folder with what a session (its id, hexadecimal) has yielded; None: there is none."""
    return next(iter(sorted(folder.glob(f"*-{session}.json"))), None)


def with_results(folder: Path, sessions: Sequence[bytes]) -> list[Path]:
    """Return the files of these sessions if all are there and have results, else none."""
    files = [file for session in sessions if (file := file_of(folder, session.hex())) is not None]
    try:
        whole = len(files) == len(sessions) and all(result_file.read_result(file).outcome for file in files)
    except FheAucError:
        whole = False
    return files if whole else []


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON, as a whole, in a file of mode 600; what is not finite becomes null."""
    write_atomically(path, json_text(value).encode(), mode=0o600, durable=True)


def read(path: Path) -> Outcome:
    """Return what the session has yielded that `write` has written; raise the `EvaluationError` in its place."""
    return result_file.read_result(path).outcome
