"""``fhe-auc keys session``: make a session's keys and seal them, role by role; or convene one without a key holder."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fhe_auc.base.errors import InputError
from fhe_auc.base.exchange import make_folder
from fhe_auc.cli import inputs, output
from fhe_auc.cli.session_options import SessionOptions, session_options
from fhe_auc.question.study import Study
from fhe_auc.results.evaluation import QuantileThresholds
from fhe_auc.rows.own_rows import NOT_OF_ROWS
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import SealedBundles, seal_session
from fhe_auc_keys.cli import common, describe, trust
from fhe_auc_keys.site import made_sessions
from fhe_auc_keys.site.made_sessions import Wanted
from fhe_auc_keys.store import audit
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import Vault
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Members

_ALWAYS = {"store", "passphrase_file", "folder", "as_json"}
_WITH_OLD = {"--from": {"old", "without", "stated", *_ALWAYS}, "--repeat": {"repeats", *_ALWAYS}}
"""Parameters that go with these; all others the old session has set."""


@common.command(
    "Make a session, its keys sealed to each party.",
    "fhe-auc keys session north south --aggregator adder --study study.toml",
    "fhe-auc keys session north south --aggregator adder --study study.toml --out week-18 --days 3",
    "fhe-auc keys session north south --aggregator adder --study study.toml --thresholds quantile:200",
    "fhe-auc keys session north south --aggregator adder --study study.toml --json | jq -r .session",
    "fhe-auc keys session --from 31c4ce5c3af100a30dd3d4d0b7191bc8 --without south       south has withdrawn",
    "fhe-auc keys session --repeat 31c4ce5c3af100a30dd3d4d0b7191bc8 --out exchange         each night, by a timer",
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
    "--from",
    "old",
    metavar="SESSION",
    type=common.SESSION_ID,
    help="Id of a session made with this key store: the new one is as that was, but for who is left out (--without).",
)
@click.option("--without", metavar="NAME", multiple=True, help="With --from: a party to leave out. May be repeated.")
@click.option(
    "--no-result-was-released",
    "stated",
    is_flag=True,
    help="With --from: you have asked, and nobody was or will be sent the result of the old session.",
)
@click.option(
    "--repeat",
    "repeats",
    metavar="SESSION",
    type=common.SESSION_ID,
    help="Id of a session made with this key store, or of any that has repeated it: the same again, with new keys.",
)
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="New folder to write to. Default: session-, and how the session's id begins. With --repeat: where that is.",
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
    old: bytes | None,
    without: tuple[str, ...],
    stated: bool,
    repeats: bytes | None,
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

    With --from and --without, in place of all else, a session made here is made again without some of its parties: same
    protocol, thresholds, options, study and validity. Two results that differ in a site tell about that site. So this
    is refused once this site has the old session's result, or another has replaced it. Nobody can see here whether any
    other party has the result: --no-result-was-released states that none was sent, nor will be, and you answer for it.

    With --repeat, a session made here is made once more with new keys: same sites, study, thresholds, protocol, options
    and validity. SESSION may be the first of the series each time, so that a timer calls
    one constant command. A session that finds
    thresholds is not repeated, and one that was replaced neither.
    """
    finds = False
    if repeats is not None:
        _require_nothing_else("--repeat")
    elif old is None:
        if without or stated:
            raise click.UsageError("--without and --no-result-was-released go with --from")
        if not parties or aggregator is None or study_file is None:
            raise _missing("parties" if not parties else "aggregator" if aggregator is None else "study_file")
        study, adder = Study.read(study_file), aggregator
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
    else:
        if not without:
            raise click.UsageError("--from needs --without, and the name of a party to leave out")
        _require_nothing_else("--from")
    if repeats is None and folder is not None and folder.exists() and any(folder.iterdir()):
        raise InputError(f"{str(folder)!r} is not empty; every session gets a new folder")
    with trust.opened(vault) as (store, holder, members):
        holder.member(members, at=common.now())
        if old is not None:
            made_sessions.require_unreleased(store, old, stated=stated)
            wanted = made_sessions.made(store, old).without(without)
            if made_sessions.is_in_series(store, old):
                output.print_warning(
                    f"other sessions of its series were with {', '.join(without)}: their results and the new one "
                    "together tell about that"
                )
        elif repeats is not None:
            wanted = _repeated(store, repeats)
        else:
            request = _bounded(request, study)
            proves = _could_prove(protocol, request, study)
            if no_proofs and not proves:
                raise click.UsageError(
                    "--no-proofs: there are none without --keys helper, row caps, and exact or verified"
                    + (", nor in a session that finds thresholds" if finds else "")
                )
            if proves and not no_proofs:
                request = replace(request, row_caps=study.row_caps)
            wanted = Wanted(protocol, request, adder, helper, study, timedelta(days=days))
        if wanted.request.row_caps is None and _could_prove(wanted.protocol, wanted.request, wanted.study):
            output.print_warning(common.NOTHING_PROVED)  # nor does what is made of a session without proofs
        series: dict[str, Any] = {"replaced": old, "stated": stated, "repeats": repeats}
        announced, files = _make(wanted, holder, members, store, folder, **series)
    if finds:
        output.print_line("this session finds the thresholds: make the evaluation's with --thresholds and their file")
    if old is not None:
        output.print_line(
            f"it replaces session {old.hex()}: let every party close that one, by `fhe-auc keys close {old.hex()} "
            "--lose-result`"
        )
    if announced.manifest.min_parties < len(announced.manifest.parties) and not announced.study.most_away:
        output.print_warning(
            "--min-parties lets sites be away, but the study has no most-away: where one to four are, nothing is "
            "opened, as results with and without them would tell their counts (five or more may be away)"
        )
    if repeats is not None:
        describe.warn_of_repetition(announced.manifest.options)
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


def _require_nothing_else(option: str) -> None:
    """Raise `click.UsageError` where --from or --repeat comes with what the old session says already."""
    context = click.get_current_context()
    for param in context.command.params:
        given = context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if given and param.name not in _WITH_OLD[option]:
            raise click.UsageError(f"{param.opts[0]} does not go with {option}: the new session is as the old one was")


def _repeated(store: KeyStore, session: bytes) -> Wanted:
    """Return what repeats the newest session of a series."""
    wanted = made_sessions.made(store, made_sessions.newest(store, session))
    plugin = registry.load(wanted.protocol)
    if plugin.yields is QuantileThresholds and "bins" in wanted.request.options:
        raise InputError(
            f"session {session.hex()} finds thresholds, and is not repeated: repeat the evaluation made with them, "
            "which keeps them"
        )
    return wanted


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


def _make(
    wanted: Wanted,
    holder: Identity,
    members: Members,
    store: KeyStore,
    folder: Path | None,
    *,
    replaced: bytes | None,
    stated: bool,
    repeats: bytes | None,
) -> tuple[Announcement, list[tuple[Path, str, str]]]:
    """Make the keys; write down in the key store what was made, then the files; return what they are."""
    plugin = registry.load(wanted.protocol)
    given = {name: getattr(wanted, name) for name in ("aggregator", "helper", "study", "lifetime")}
    with output.progress("Making keys"):
        prepared = plugin.prepare(wanted.request)
        session = prepared.manifest.session
        if repeats is not None or folder is None:
            folder = (folder or Path()) / f"session-{session.hex()[:8]}"
        sealed = seal_session(holder, prepared, members, **given, at=common.now())
        document = sealed.announcement
        announced = open_announcement(document, members, holder=holder.name, at=common.now())
        with store.together():
            if replaced is not None:
                made_sessions.replace_by(store, replaced, session, stated=stated)
            made_sessions.remember(store, document, wanted, repeats=repeats or b"")
            audit.append(store, holder, "made", announced.manifest, holder.name, at=common.now())
        return announced, _write(folder, sealed, prepared.manifest.keys)


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
