"""``fhe-auc fleet …``: sessions of so many devices that each is a record in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_from_others, write_atomically
from fhe_auc.base.names import HELPER
from fhe_auc.base.quantities import bytes_text
from fhe_auc.cli import inputs, output
from fhe_auc.cli.settings import CommandGroup
from fhe_auc.exchange.exchange import SHARED
from fhe_auc.question import thresholds as grids
from fhe_auc.question.fleet import Fleet
from fhe_auc.question.study import MOST_ROWS as MOST_OF_A_CAP
from fhe_auc.question.study import Study
from fhe_auc.session import registry
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS, Request
from fhe_auc_keys.bundles.announcement import announce, open_announcement
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import about
from fhe_auc_keys.fleet import aggregator, helper, tables
from fhe_auc_keys.fleet.fleet_session import FleetSession
from fhe_auc_keys.fleet.simulation import MOST_ROWS, simulate
from fhe_auc_keys.fleet.workers import Workers
from fhe_auc_keys.store import audit, known_members
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import Vault, own_identity

_THRESHOLDS = "uniform:100"  # unless others are named
_SESSION = click.argument("session_file", metavar="SESSION", type=common.FILE)

_HELP = """Evaluate on a fleet: on so many devices that each is a record in a file.

Who runs what, in this order; docs/guide/scale.md says what each sees.

\b
coordinator   `fhe-auc members renew --fleet` names the fleet's members in the members' file
convener      convene    names fleet and study, which names aggregator and helper, in a signed file
each device   (Python)   fhe_auc_keys.fleet.device: a record of its rows, with a proof
aggregator    collect    fixes and checks the records, and writes the blobs for the helper
helper        open       opens the sum of the pads of those that count, or says that it opens nothing
aggregator    add        adds their sketches; the encrypted result
helper        decrypt    decrypts it, and seals the sums to each device
each device   (Python)   reads them

Folders may be URLs, s3:// and gs:// among them.
"""


@click.group(
    cls=CommandGroup,
    help=_HELP,
    short_help="Evaluate on a fleet of devices, through files.",
    epilog=output.examples("fhe-auc fleet simulate --parties 10000     all of it on this machine, and what it costs"),
)
def fleet() -> None:
    """Evaluate on a fleet."""


def _with_workers(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command whose work processes share: it receives ``pool``."""

    @inputs.whole_number("--workers", 1, default=1, about="Processes that share the work.")
    @wraps(command)
    def with_pool(*args: Any, workers: int, **options: Any) -> Any:
        with Workers(workers) as pool:
            return command(*args, pool=pool, **options)

    return with_pool


class _Role(NamedTuple):
    """What a command of the aggregator's or the helper's works with."""

    session: FleetSession
    store: KeyStore
    convener: str

    def note(self, event: str) -> None:
        """Write a line to the role's audit trail."""
        me, manifest = self.session.identity, self.session.manifest
        audit.append(self.store, me, event, manifest, self.convener, at=common.now())


def _as_role(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command of the aggregator's or the helper's: it receives ``role``, whose key store is open."""

    @_SESSION
    @click.option(
        "--holder", metavar="NAME", required=True, help="The convener agreed on; a session of others is refused."
    )
    @common.key_store
    @wraps(command)
    def as_role(*args: Any, session_file: Path, holder: str, vault: Vault, **options: Any) -> None:
        with vault.open() as store:
            identity, members = own_identity(store), known_members.stored(store)
            with about(session_file):
                data = read_from_others(session_file)
                session = FleetSession.open(data, identity, members, holder=holder, at=common.now())
            command(*args, role=_Role(session, store, holder), **options)

    return as_role


@common.command(
    "Name a fleet and all that is agreed, in a signed file.",
    "fhe-auc fleet convene members.parquet study.toml --row-cap 500 --store keystore",
)
@click.argument("members_file", metavar="MEMBERS", type=str)
@click.argument("study_file", metavar="STUDY", type=common.FILE)
@click.option(
    "--row-cap",
    metavar="N",
    type=click.IntRange(1, MOST_OF_A_CAP),
    required=True,
    help="Most rows of a device, within which it proves its counts.",
)
@common.key_store
@click.option("--out", "target", metavar="FILE", type=common.NEW_FILE, default="session.fleet", help="File to write.")
@click.option("--force", is_flag=True, help="Overwrite files that are there already.")
@common.reported
def convene(
    members_file: str, study_file: Path, row_cap: int, vault: Vault, target: Path, force: bool
) -> common.Report:
    """Convene a session of a fleet.

    MEMBERS is the file that the members' file names (`fhe-auc members renew --fleet`). STUDY (TOML) says what is
    evaluated, by the protocol exact; who is aggregator and who helper; how many devices must count (min-parties, else
    all), of how many rows in all (max-rows); and whether they prove their cap (proofs). The convener is neither
    aggregator nor helper.
    """
    study = Study.read(study_file)
    if not study.aggregator or not study.helper or study.protocol != "exact":
        what = 'a fleet\'s study names its aggregator, its helper, and protocol = "exact"'
        raise InputError(f"{study_file}: {what}", file=str(study_file))
    if not study.proofs:
        output.print_warning(
            "no party proves what it puts in (proofs = false): one that lies can decide the AUC, and nobody would "
            "notice"
        )
    inputs.check_out_file(target, force=force)
    fleet, exact = Fleet.of(tables.read_members(members_file), row_cap=row_cap), registry.load("exact")
    request = Request(
        parties=(),
        fleet=fleet,
        thresholds=grids.resolve(study.thresholds or _THRESHOLDS),
        min_parties=study.min_parties or None,
        max_rows=study.max_rows or DEFAULT_MAX_ROWS,
        interval=study.interval or None,
        keys="helper",
        row_caps=row_cap if study.proofs else None,
    )
    with vault.open() as store:
        convener, members = own_identity(store), known_members.stored(store)
        made = announce(convener, exact.prepare(request).manifest, members, study, at=common.now())
        announced = open_announcement(made, members, holder=convener.name, at=common.now())
        audit.append(store, convener, "made", announced.manifest, convener.name, at=common.now())
        write_atomically(target, made, mode=SHARED)
    session, plan = announced.manifest.session, exact.plan_of(announced.manifest)
    facts = {
        "session": session,
        "file": target,
        "holder": convener.name,
        "not_after": announced.not_after,
        "study": study.as_dict(),
        "fleet": {"members": fleet.members, "root": fleet.root, "row_cap": row_cap},
    }
    root = f"at most {row_cap:,} rows each; Merkle root, which the members' file names\n{common.spelled(fleet.root)}"
    rows: common.Rows = [
        ("file", target, f"convened by {convener.name}, until {common.moment(announced.not_after)}"),
        ("session", session, "compare: everybody in it must see the same"),
        *study.lines(),
        *(() if plan is None else plan.terms().rows),
        ("fleet", f"{fleet.members:,} members", root),
        (HELPER, study.helper, "has the key, reads the result, and must not work with the aggregator"),
    ]
    return common.Report(facts, rows)


@common.command(
    "As the aggregator: check the records, hand on the blobs.",
    "fhe-auc fleet collect session.fleet s3://fleet/records blobs --holder vendor --store keystore",
)
@_as_role
@click.argument("records")
@click.argument("blobs")
@_with_workers
@common.reported
def collect(records: str, blobs: str, role: _Role, pool: Workers) -> common.Report:
    """Check every record in the Parquet files of the folder RECORDS, and write the blobs of those that are whole.

    The new folder BLOBS is for the helper. A session has one list: RECORDS must stay as it is until `add`. After a
    crash collect the same again.
    """
    found = aggregator.collect(role.session, role.store, records, blobs, pool, at=common.now())
    where = f"their blobs are in {blobs!r}, for the helper"
    rows: common.Rows = [("collected", f"{found.records:,} records", where)]
    for why, count in found.refusals.counts.items():
        rows.append(("refused", f"{count:,} records", f"{why}: {'; '.join(found.refusals.examples[why])}"))
    return common.Report({"records": found.records, "refused": found.refusals.as_dict()}, rows)


@common.command(
    "As the helper: open the sum of the pads.",
    "fhe-auc fleet open session.fleet opening members.parquet blobs --holder vendor --store keystore",
    "fhe-auc fleet open session.fleet word --nothing --holder vendor --store keystore",
    name="open",
)
@_as_role
@click.argument("opening")
@click.argument("members_file", metavar="[MEMBERS", required=False)
@click.argument("blobs", metavar="BLOBS]", required=False)
@click.option("--nothing", is_flag=True, help="Open nothing in this session, whose records or list are lost, ever.")
@_with_workers
@common.reported
def open_pads(
    opening: str, members_file: str | None, blobs: str | None, nothing: bool, role: _Role, pool: Workers
) -> common.Report:
    """Open the sum of the pads of those of the folder BLOBS that count, once; write the answer to the file OPENING.

    MEMBERS is the fleet's file. The first list is the session's: asked again it writes the same answer, and it refuses
    another list. Exit status 1: too few count, and the session has ended. OPENING is then the signed word that nothing
    was opened; devices that are given it may answer for the same rows in another session. With --nothing it is that
    word, too; the session must not be over.
    """
    if nothing is (members_file is not None) or nothing is (blobs is not None):
        raise click.UsageError("give MEMBERS and BLOBS; or --nothing")
    if members_file is None or blobs is None:
        tables.write_file(opening, helper.end(role.session, role.store, at=common.now()))
        role.note("ended unopened")
        return common.Report({"opened": False}, [("ended", "unopened", f"{opening!r} says so to its devices")])
    found = helper.open_pads(role.session, role.store, members_file, blobs, pool, at=common.now())
    role.note("opened" if found.opened else "ended unopened")
    tables.write_file(opening, found.document)
    if found.opened:
        return _verdicts(found.verdicts, f"the answer for the aggregator is {opening!r}")
    where = f"too few count, so nothing is opened and the session has ended: {opening!r} says so to its devices"
    return _verdicts(found.verdicts, where, failed=True)


@common.command(
    "As the aggregator: add the sketches, and compute.",
    "fhe-auc fleet add session.fleet s3://fleet/records blobs opening result --holder vendor --store keystore",
)
@_as_role
@click.argument("records")
@click.argument("blobs")
@click.argument("opening", type=str)
@click.argument("result", type=str)
@_with_workers
@common.reported
def add(records: str, blobs: str, opening: str, result: str, role: _Role, pool: Workers) -> common.Report:
    """Add the sketches of those in RECORDS that count, and write the encrypted sums to the file RESULT.

    BLOBS is the folder that `collect` has written, OPENING the helper's answer.
    """
    made, found = aggregator.add(role.session, records, blobs, tables.read_file(opening), pool, at=common.now())
    tables.write_file(result, made)
    return _verdicts(found, f"the result for the helper is {result!r}")


@common.command(
    "As the helper: decrypt the sums, for the devices.",
    "fhe-auc fleet decrypt session.fleet result s3://fleet/responses --holder vendor --store keystore",
)
@_as_role
@click.argument("result", type=str)
@click.argument("responses")
@common.reported
def decrypt(result: str, responses: str, role: _Role) -> common.Report:
    """Decrypt RESULT, once, and write into the folder RESPONSES the sums, sealed, and what opens them for each device.

    Keep RESPONSES until the devices have read: once it is written, this key store has no key of the session any more.
    """
    number = helper.decrypt(role.session, role.store, tables.read_file(result), responses, at=common.now())
    role.note("decrypted")
    rows: common.Rows = [("decrypted", f"for {number:,} devices", f"what they read is in {responses!r}")]
    return common.Report({"devices": number, "responses": responses}, rows)


def _verdicts(found: dict[str, int], where: str, *, failed: bool = False) -> common.Report:
    rows: common.Rows = [("records", f"{count:,}", why) for why, count in found.items()]
    return common.Report({"records": found, "opened": not failed}, [*rows, ("written", "", where)], failed=failed)


@common.command(
    "Play a whole session on this machine, and measure it.",
    "fhe-auc fleet simulate --parties 1000",
    "fhe-auc fleet simulate --parties 1000000 --workers 2 --folder /var/tmp/fleet",
    name="simulate",
)
@inputs.whole_number("--parties", 2, default=1000, about="Devices.")
@click.option("--thresholds", metavar="SPEC", default=_THRESHOLDS, help="As of `fhe-auc evaluate`.")
@_with_workers
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="New folder for the session's files, about 10 kB a device; they stay there. Default: a temporary one.",
)
@click.option("--no-proofs", is_flag=True, help="Nobody proves its row cap.")
@common.reported
def simulate_session(
    parties: int, thresholds: str, pool: Workers, folder: Path | None, no_proofs: bool
) -> common.Report:
    """Play all the steps through files, with made-up devices, and compare with the fraction over all their rows.

    Exit status 1: they differ. What devices do is measured apart from what aggregator and helper do.
    """
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise InputError(f"{str(folder)!r} is not empty; give a new folder")
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        with output.progress("Playing", unit="steps") as report:
            found = simulate(parties, grids.resolve(thresholds), place, pool, proofs=not no_proofs, progress=report)
    rows: common.Rows = [
        *((role, f"{1e3 * cpu / parties:.3f} ms", "of CPU a device") for role, cpu in found.cpu_seconds.items()),
        ("devices", f"{found.counted:,} of {parties:,}", f"count; 1 to {MOST_ROWS} rows each"),
        ("record", bytes_text(found.record_bytes), "what a device sends"),
        ("AUC", f"{float(found.fraction):.6f}", str(found.fraction)),
        ("of all rows", f"{float(found.expected):.6f}", "equal" if found.equal else "NOT EQUAL"),
    ]
    exact = {"equal": found.equal, "fraction": str(found.fraction), "expected": str(found.expected)}
    return common.Report({**vars(found), **exact}, rows, failed=not found.equal)


for _command in (convene, collect, open_pads, add, decrypt, simulate_session):
    fleet.add_command(_command)
