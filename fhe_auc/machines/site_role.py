"""A site's part in sessions, as its configuration says, over any transport: `answer`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.logs import RoleLog
from fhe_auc.machines import answers, outcomes
from fhe_auc.machines.site_state import Joined, site_storage
from fhe_auc.question.analysis import Questions
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import Message
from fhe_auc.session.party import Party

if TYPE_CHECKING:
    from fhe_auc.machines.site_state import Records
    from fhe_auc.rows.party_files import FileEntries


def answer(
    config: Mapping[str, Any],
    message: bytes,
    *,
    own: Iterable[bytes] = (),
    log: RoleLog | None = None,
    clock: Clock = SYSTEM,
) -> answers.Answer:
    """Return a site's answer to an aggregator's message; the same one where it has been asked before.

    Of the configuration, ``store`` and ``passphrase-file`` are as `fhe_auc.machines.site_state.site_storage` takes
    them. ``data`` is the file with the rows, or a database's address; ``label-column``, ``score-column`` (where the
    session does not name the models), ``sheet``, ``query``, ``database-password-file``, ``positive-label``,
    ``drop-missing``, ``score-scale``, ``delimiter``, ``decimal`` and ``encoding`` are as of
    `fhe_auc.rows.party_files.FileEntries`, whose `form` is of text.
    ``results`` is the folder for the sessions' outcomes, a file each (`fhe_auc.machines.outcomes.write`).

    `own` is what lies where its answers in the session belong (`fhe_auc.machines.answers.answer`).
    `log` learns session, round and party as soon as they are known.

    Errors as `fhe_auc.machines.answers.answer`, and `InputError` where the configuration is not right.
    """
    log = log or RoleLog()
    with site_storage(clock).site(config) as kept:
        log.party = kept.name
        asked = Message.from_bytes(message, limit=len(message))
        log.session, log.round = asked.session.hex(), asked.round
        made = answers.answer(kept, message, _reader(config), _writer(config, log, clock), own)
    log.info("answered, %d bytes", len(made.submission))
    return made


def _reader(config: Mapping[str, Any]) -> Callable[[str, Joined], PartyData]:
    def read(name: str, joined: Joined) -> PartyData:
        # With Arrow, which takes a moment: rows are not read for every message.
        from fhe_auc.rows.party_files import read_for

        if not config.get("data"):
            raise InputError("data is not configured")
        study = joined.manifest.study
        questions = Questions.of(joined.analysis, str(config.get("score-column") or "y_score"))
        if study is not None and study.follow_up:  # also in a session that finds thresholds: there are no labels
            questions = replace(questions, follow_up=study.follow_up)
        label = str(config.get("label-column") or "") or ("" if study is None else study.label_column) or "y_true"
        (data,), _ = read_for(questions, str(config["data"]), label_column=label, entries=_entries(config))
        return replace(data, name=name)

    return read


def wrong_columns(config: Mapping[str, Any], scores: Sequence[str], others: Sequence[str]) -> str:
    """Return what is wrong with the site's rows, by the first of them; "" where nothing is.

    `scores` and `others` are the columns of the studies that are agreed to.
    """
    from fhe_auc.rows.party_files import table_at
    from fhe_auc.rows.table_files import TableFile

    label, score = ([str(config[name])] if config.get(name) else [] for name in ("label-column", "score-column"))
    numbers, texts = (list(dict.fromkeys(names)) for names in ((*score, *scores), (*label, *others)))
    if not config.get("data"):
        return "data is not configured: write where this site's rows are into the configuration"
    try:
        table = table_at(str(config["data"]), _entries(config))
        if numbers or texts:
            next(table.pieces(numbers, texts), None)
        elif isinstance(table, TableFile) and not table.parts:
            table.path.stat()
    except (FheAucError, OSError) as error:
        return str(error)
    return ""


def _entries(config: Mapping[str, Any]) -> FileEntries:
    from fhe_auc.rows.csv_files import TextFormat
    from fhe_auc.rows.party_files import FileEntries

    def given(*names: str) -> dict[str, str]:
        return {name.replace("-", "_"): str(config[name]) for name in names if config.get(name) not in (None, "")}

    drop = config.get("drop-missing", False)
    if drop not in (True, False):
        raise InputError(f"drop-missing is true or false, not {drop!r}")
    form = TextFormat(**given("delimiter", "decimal", "encoding"))
    file = config.get("database-password-file")
    own = given("positive-label", "score-scale", "sheet", "query")
    return FileEntries(form=form, drop_missing=bool(drop), password_file=Path(str(file)) if file else None, **own)


def _writer(config: Mapping[str, Any], log: RoleLog, clock: Clock) -> Callable[[Party[Any], Records], object]:
    if not config.get("results"):  # a helper's

        def refuse(party: Party[Any], records: Records) -> None:
            raise InputError("results is not configured: there is no folder for what sessions yield")

        return refuse
    folder = Path(str(config["results"]))
    try:  # before a round is answered that cannot be answered again
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fits = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        fits = False
    if not fits:
        raise InputError(f"results: no file can be written in {str(folder)!r}")

    def write(party: Party[Any], records: Records) -> None:
        asked, sessions = records.question()
        before = outcomes.with_results(folder, sessions)
        file = outcomes.write(folder, party, records.signed, clock, asked=asked, before=before)
        if party.failure is None:
            log.info("the session has ended here; what it has yielded is in %s", file)
        else:  # the file says it; nothing of what pooled rows are belongs into a log
            log.warning("the session has ended here without a result: why, is in %s", file)

    return write
