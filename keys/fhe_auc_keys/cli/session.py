"""``fhe-auc keys session``: make a session's keys and seal them, role by role; or convene one without a key holder."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.errors import InputError
from fhe_auc.base.exchange import make_folder
from fhe_auc.cli import inputs, output
from fhe_auc.cli.session_options import SessionOptions, session_options
from fhe_auc.question.study import Study
from fhe_auc.rows.own_rows import NOT_OF_ROWS
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import open_announcement
from fhe_auc_keys.bundles.sealed_bundles import SealedBundles, seal_session
from fhe_auc_keys.cli import common, describe, trust
from fhe_auc_keys.store import audit
from fhe_auc_keys.store.vault import Vault


@common.command(
    "Make a session, its keys sealed to each party.",
    "fhe-auc keys session north south --aggregator adder --study study.toml",
    "fhe-auc keys session north south --aggregator adder --study study.toml --out week-18 --days 3",
    "fhe-auc keys session north south --aggregator adder --study study.toml --thresholds quantile:200",
    "fhe-auc keys session north south --aggregator adder --study study.toml --json | jq -r .session",
)
@click.argument("parties", metavar="NAME...", nargs=-1)
@click.option("--aggregator", metavar="NAME", help="Member who adds up; no party, nor the key holder.")
@click.option(
    "--helper", metavar="NAME", default="", help="With --keys helper: member who has the key in place of the parties."
)
@common.file_option(
    "--study",
    "study_file",
    help="What is evaluated (TOML): model, outcome, cohort, period; [row-caps] may bound each party's rows; "
    "score-values may list all scores that there are (0:9); most-away says how many sites one result may lack of "
    "another, so that their counts may be told.",
)
@trust.key_store
@session_options(registry.load)
@inputs.min_parties_option
@common.no_proofs_option
@common.days_option(about="How long the bundles can be opened.")
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="New folder to write to. Default: session-, and how the session's id begins.",
)
@common.reported
def session(
    parties: tuple[str, ...],
    aggregator: str | None,
    helper: str,
    study_file: Path | None,
    vault: Vault,
    session: SessionOptions,
    min_parties: int | None,
    no_proofs: bool,
    days: int,
    folder: Path | None,
) -> common.Report:
    """Make the keys of one session, and one sealed bundle for each party and for the aggregator.

    Each NAME is a member's, who is a party; the key holder takes part if its own is among them. Who is no member is
    refused. The secret key is sealed to each party's key, and not kept here. The aggregator's bundle is
    sealed to it, and holds what it computes with and no secret key, which is checked. Everybody signs every message
    with the key that this session names, the aggregator too.

    The study is signed too, and every party confirms it when it opens its bundle. Where each party has a row cap,
    --max-rows is their sum by default, and --min-rows no more than that. Each checks its own cap. With exact or
    verified and --keys helper it also proves to aggregator and helper that its counts are within its cap. Who does not
    is named, and left out where --min-parties allows that; else the session stops. Otherwise, and with --no-proofs, a
    party that lies goes past its cap unseen; --epsilon is refused then, as noise is sized for the rows that there are.

    With --thresholds quantile:N this makes the session that finds the thresholds. Every party reads them off its
    result; make the evaluation's session with the file that holds them, and let every party compare the two with
    `open --thresholds`.

    With a protocol that encrypts nothing there is no key holder: you convene the session, and everybody gets the same
    signed file, which says who takes part, and is each site's occasion to look at the privacy budget.

    With --keys helper no party has a key, and any number may vanish, down to --min-parties: a helper that is trusted
    not to collude with the aggregator opens the sum of those who have submitted. A party convenes such a session, and
    seals to each party what it checks the result by. Everybody gets session.helper; a party opens its own bundle, with
    that file beside it.

    """
    if not parties or aggregator is None or study_file is None:
        raise _missing("parties" if not parties else "aggregator" if aggregator is None else "study_file")
    study = Study.read(study_file)
    request = session.request(parties, min_parties)
    if study.listed is not None:
        if not session.of_rows or session.options.keys() & NOT_OF_ROWS:
            raise InputError("the study lists score values, which are its thresholds: take no others")
        request = replace(request, thresholds=study.listed)
    if bool(helper) != (request.keys == "helper"):
        raise click.UsageError("--keys helper and --helper go together")
    protocol, finds = session.plugin.name, session.quantiles is not None
    if session.quantiles is not None:
        request, _ = session.plugin.staged(request, session.quantiles)
        protocol = registry.finder(session.plugin).name
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise InputError(f"{str(folder)!r} is not empty; every session gets a new folder")
    with trust.opened(vault) as (store, holder, members):
        holder.member(members, at=common.now())
        request = _bounded(request, study)
        proves = _could_prove(protocol, request, study)
        if no_proofs and not proves:
            raise click.UsageError(
                "--no-proofs: there are none without --keys helper, row caps, and exact or verified"
                + (", nor in a session that finds thresholds" if finds else "")
            )
        if proves and not no_proofs:
            request = replace(request, row_caps=study.row_caps)
        elif proves:
            output.print_warning(common.NOTHING_PROVED)
        given: dict[str, Any] = {"aggregator": aggregator, "helper": helper, "lifetime": timedelta(days=days)}
        with output.progress("Making keys"):
            prepared = registry.load(protocol).prepare(request)
            folder = folder or Path(f"session-{prepared.manifest.session.hex()[:8]}")
            sealed = seal_session(holder, prepared, members, **given, study=study, at=common.now())
            announced = open_announcement(sealed.announcement, members, holder=holder.name, at=common.now())
            audit.append(store, holder, "made", announced.manifest, holder.name, at=common.now())
            files = _write(folder, sealed, prepared.manifest.keys)
    if finds:
        output.print_line("this session finds the thresholds: make the evaluation's with --thresholds and their file")
    if announced.manifest.min_parties < len(announced.manifest.parties) and not announced.study.most_away:
        output.print_warning(
            "--min-parties lets sites be away, but the study has no most-away: where one to four are, nothing is "
            "opened, as results with and without them would tell their counts (five or more may be away)"
        )
    sent = {role: path for path, role, _ in files}
    rows: common.Rows = [(path, f"to {role}", what) for path, role, what in files]
    return common.Report(
        {**describe.announcement_as_dict(announced), "files": sent},
        describe.announcement_rows(announced),
        common.Table(rows, ("send", "", "what it is")),
    )


def _could_prove(protocol: str, request: Request, study: Study) -> bool:
    """Whether the parties of such a session can prove their row caps."""
    return bool(study.row_caps) and request.keys == "helper" and registry.load(protocol).proves_inputs


def _missing(name: str) -> click.UsageError:
    context = click.get_current_context()
    param = next(each for each in context.command.params if each.name == name)
    return click.MissingParameter(ctx=context, param=param)


def _bounded(request: Request, study: Study) -> Request:
    """Return the request with the study's row caps as bounds on all rows, where each party has one."""
    if set(study.row_caps) != set(request.parties):
        return request
    if inputs.given("max_rows"):
        return request
    most = sum(study.row_caps.values())
    if inputs.given("min_rows") and request.min_rows > most:
        raise InputError(f"--min-rows is {request.min_rows:,}, but the study's row caps allow {most:,} rows in all")
    return replace(request, max_rows=most, min_rows=min(request.min_rows, most))


_ANNOUNCEMENTS = {"sealed": "announcement", "helper": "helper", "none": "convened"}
"""How the file ends that announces or convenes a session, by its keys."""


def _write(folder: Path, sealed: SealedBundles, keys: str) -> list[tuple[Path, str, str]]:
    """Write everything that leaves the key holder or convener; return each file, who gets it, and what it is."""
    make_folder(folder)
    files: list[tuple[Path, str, str]] = []

    def add(name: str, role: str, what: str, data: bytes) -> None:
        common.write(folder / name, data)
        files.append((folder / name, role, what))

    what = "public, signed: parties and their keys, thresholds, parameters"
    add(f"session.{_ANNOUNCEMENTS[keys]}", "everybody", what, sealed.announcement)
    if keys == "sealed":
        what = "sealed, signed: what it computes with; only it can open it"
        add("aggregator.bundle", "the aggregator", what, sealed.aggregator)
    for name, bundle in sealed.parties.items():
        file = f"{common.file_stem(name)}.bundle"
        if (folder / file).exists():  # names that differ in blanks or slashes only
            file = f"{common.file_stem(name)}-{len(files)}.bundle"
        add(file, name, f"sealed, signed: only {name!r} can open it, once", bundle)
    return files
