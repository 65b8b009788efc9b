"""``fhe-auc keys session``: make a session's keys and seal them, role by role; or convene one with joint keys."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from fhe_auc import registry
from fhe_auc.cli import inputs, output
from fhe_auc.cli.session import SessionOptions, session_options
from fhe_auc.errors import InputError
from fhe_auc.files import read_from_others
from fhe_auc.study import Study
from fhe_auc_keys.announcement import MAX_LIFETIME, announce, open_announcement
from fhe_auc_keys.bundles import SealedSession, seal_session
from fhe_auc_keys.certificates import Peer, verify
from fhe_auc_keys.cli import common, describe, trust
from fhe_auc_keys.cli.key_store import key_store
from fhe_auc_keys.late_opening import hold, is_late, purge
from fhe_auc_keys.vault import Vault, certified_identity


@click.command(
    short_help="Make a session, its keys sealed to each party.",
    epilog=output.examples(
        "fhe-auc keys session north.credential south.credential --aggregator adder.credential --study study.toml",
        "fhe-auc keys session sites/* --aggregator adder.credential --study study.toml --out week-18 --days 3",
        "fhe-auc keys session sites/* --aggregator adder.credential --study study.toml --revocation-list ca.crl",
        "fhe-auc keys session sites/* --aggregator adder.credential --study study.toml --keys joint",
        "fhe-auc keys session sites/* --aggregator adder.credential --study study.toml --thresholds quantile:200",
        "fhe-auc keys session sites/* --aggregator adder.credential --study study.toml --json | jq -r .session",
    ),
)
@click.argument("credentials", metavar="CREDENTIAL...", nargs=-1, required=True, type=common.FILE)
@click.option(
    "--aggregator",
    metavar="CREDENTIAL",
    required=True,
    type=common.FILE,
    help="Credential of who adds up, written by its `enrol`; no party, nor the key holder.",
)
@click.option(
    "--study",
    "study_file",
    metavar="FILE",
    required=True,
    type=common.FILE,
    help="What is evaluated (TOML): model, outcome, cohort, period; a table [row-caps] may bound each party's rows.",
)
@key_store
@session_options(registry.load)
@inputs.min_parties_option
@click.option(
    "--average-precision",
    is_flag=True,
    help="Of exact and verified, at thresholds that a session before has found: each site gives its result of that.",
)
@click.option(
    "--days",
    metavar="N",
    type=click.IntRange(1, MAX_LIFETIME.days),
    default=7,
    help="How long the bundles can be opened.",
)
@trust.list_option
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="New folder to write to. Default: session-, and how the session's id begins.",
)
@output.json_option
def session(
    credentials: tuple[Path, ...],
    aggregator: Path,
    study_file: Path,
    vault: Vault,
    session: SessionOptions,
    min_parties: int | None,
    average_precision: bool,
    days: int,
    lists: tuple[str, ...],
    folder: Path | None,
    as_json: bool,
) -> None:
    """Make the keys of one session, and one sealed bundle for each party and for the aggregator.

    Each CREDENTIAL is that of one party, written by its `enrol`; the key holder takes part if its own is among them.
    Who was revoked, is outdated or is not certified is refused. The secret key is sealed to each party's certificate,
    and not kept here, but for what `open-late` takes where --min-parties lets sites be missing. The aggregator's bundle
    is sealed to it, and holds what it computes with and no secret key, which is checked. Everybody signs every message
    with the key of the certificate that this session names, the aggregator too.

    The study is signed too, and every party confirms it when it opens its bundle. Where each party has a row cap,
    --max-rows is their sum by default, and --min-rows no more than that; each checks its own cap, so that a party that
    lies goes past it.

    With --thresholds quantile:N this makes the session that finds the thresholds. Every party reads them off its
    result; make the evaluation's session with the file that holds them, and let every party compare the two with
    `open --thresholds`.

    With --keys joint there is no key holder: the parties make the keys together once the evaluation runs. You convene
    the session, and everybody gets the same signed file, which says who takes part. The same holds for protocols that
    encrypt nothing, where it is each site's occasion to look at the privacy budget.
    """
    study = Study.read(study_file)
    plugin, bins = session.plugin, session.quantiles
    request = session.request((), min_parties)  # who they are is known once their certificates are verified
    if bins is not None:
        request, _ = plugin.staged(request, bins)
        plugin = registry.finding(plugin.require_boundaries())
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise InputError(f"{str(folder)!r} is not empty; every session gets a new folder")
    with vault.open() as store:
        trusted = trust.renewed(store, lists).trust
        holder = certified_identity(store)
        purge(store, at=common.now())
    verify(holder.credential, trusted, at=common.now())
    peers: dict[str, Peer] = {}
    shown = [read_from_others(path) for path in credentials]
    for path, credential in zip(credentials, shown, strict=True):
        with common.about(path):
            peer = verify(credential, trusted, at=common.now())
        if peer.name in peers:
            raise InputError(f"{path}: {peer.name!r} is there already, by another of these credentials")
        peers[peer.name] = peer
    adder = read_from_others(aggregator)
    with common.about(aggregator):
        verify(adder, trusted, at=common.now())
    if average_precision and (bins is not None or not plugin.several):
        raise InputError("--average-precision is for exact and verified, at thresholds that a session before has found")
    request = replace(request, parties=tuple(peers), average_precision=average_precision)
    if set(study.row_caps) == set(peers) and not inputs.given("max_rows"):
        most = sum(study.row_caps.values())
        if inputs.given("min_rows") and request.min_rows > most:
            raise InputError(f"--min-rows is {request.min_rows:,}, but the study's row caps allow {most:,} rows in all")
        request = replace(request, max_rows=most, min_rows=min(request.min_rows, most))
    given: dict[str, Any] = {"aggregator": adder, "study": study, "lifetime": timedelta(days=days), "at": common.now()}
    with output.progress("Making keys"):
        prepared = plugin.prepare(request)
        folder = folder or Path(f"session-{prepared.manifest.session.hex()[:8]}")
        if not prepared.manifest.context:
            document = announce(holder, prepared.manifest, shown, trusted, **given)
            announced = open_announcement(document, trusted, holder=holder.name, at=common.now())
            files = _write_joint_session(folder, document, "joint" if plugin.encrypts else "convened")
        else:
            sealed = seal_session(holder, prepared, shown, trusted, **given)
            announced = open_announcement(sealed.announcement, trusted, holder=holder.name, at=common.now())
            if is_late(announced.manifest):
                with vault.open() as store:
                    hold(store, prepared, sealed.announcement, announced.not_after)
            files = _write(folder, sealed)
    if bins is not None:
        output.print_line("this session finds the thresholds: make the evaluation's with --thresholds and their file")
    if as_json:
        sent = {role: str(path) for path, role, _ in files}
        output.print_json({**describe.announcement_as_dict(announced), "files": sent})
        return
    output.print_table(describe.announcement_rows(announced))
    output.print_text()
    output.print_table(
        [(str(path), f"to {role}", what) for path, role, what in files], header=("send", "", "what it is")
    )


def _write_joint_session(folder: Path, document: bytes, suffix: str) -> list[tuple[Path, str, str]]:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"session.{suffix}"
    common.write(path, document, common.PUBLIC)
    return [(path, "everybody", "public, signed: parties with their certificates, thresholds, parameters")]


def _write(folder: Path, sealed: SealedSession) -> list[tuple[Path, str, str]]:
    """Write everything that leaves the key holder; return each file, who gets it, and what it is."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [
        (folder / "session.announcement", "everybody", "public, signed: parties, thresholds, parameters"),
        (folder / "aggregator.bundle", "the aggregator", "sealed, signed: what it computes with; only it can open it"),
    ]
    common.write(files[0][0], sealed.announcement, common.PUBLIC)
    common.write(files[1][0], sealed.aggregator, common.PUBLIC)
    for name, bundle in sealed.parties.items():
        path = folder / f"{common.file_stem(name)}.bundle"
        if path.exists():  # names that differ in blanks or slashes only
            path = folder / f"{common.file_stem(name)}-{len(files)}.bundle"
        common.write(path, bundle, common.PRIVATE)
        files.append((path, name, f"sealed, signed: only {name!r} can open it, once"))
    return files
