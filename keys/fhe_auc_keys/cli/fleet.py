"""``fhe-auc fleet …``: sessions of so many devices that each is a record in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

import click
import msgspec

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
from fhe_auc_keys.fleet.session import FleetSession
from fhe_auc_keys.fleet.simulation import MOST_ROWS, simulate
from fhe_auc_keys.fleet.workers import Workers, make_store
from fhe_auc_keys.store import audit, known_members
from fhe_auc_keys.store.vault import STORE_VARIABLE, Vault, own_identity

_Reported: TypeAlias = tuple[common.Report, str]
"""What a step has done, and the note of it in its role's audit trail; "" is none."""

_PROTOCOLS = "exact", "histogram-distributed-dp"
ALONE = "the result is exact (no epsilon): who knows all other devices' rows reads this device's in it"
_THRESHOLDS, _CAP = "uniform:100", click.IntRange(1, MOST_OF_A_CAP)  # unless others are named; rows of a device

_HOLDER = "The convener agreed on; a session of others is refused."
_FOLDER = "New folder for the session's files, about 10 kB a device; they stay there. Default: a temporary one."
_HELP = """Evaluate on a fleet: on so many devices that each is a record in a file.

Who runs what, in this order; docs/guide/scale.md says what each sees.

\b
coordinator   `fhe-auc members renew --fleet` names the fleet's files of keys in the members' file
convener      convene    names fleet and study, which names aggregator and helper, in a signed file
each device   (Python)   fhe_auc_keys.fleet.device: a record of its rows, with a proof
aggregator    collect    fixes and checks the records, and writes the blobs for the helper
helper        open       opens the sum of the pads of those that count, or says that it opens nothing
aggregator    add        takes off those that do not count; the encrypted result
helper        decrypt    decrypts it, and seals the sums to each device
each device   (Python)   reads them

Folders may be URLs, s3:// and gs:// among them. In all of them a file is called as that of its members' keys.
"""


fleet = CommandGroup(
    "fleet",
    help=_HELP,
    short_help="Evaluate on a fleet of devices, through files.",
    epilog=output.examples("fhe-auc fleet simulate --parties 10000     all of it on this machine, and what it costs"),
)


def _with_workers(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command whose work workers share: it receives ``pool``."""

    @inputs.whole_number("--workers", 1, about="Processes that share the work. Default: this one.")
    @inputs.option("--scheduler ADDRESS", "Dask's, whose workers do it: tls://…, or tcp:// on this machine.")
    @wraps(command)
    def with_pool(*args: Any, workers: int | None, scheduler: str | None, **options: Any) -> Any:
        if workers and scheduler:
            raise click.UsageError("give --workers or --scheduler")
        with Workers.on(scheduler) if scheduler else Workers(workers or 1) as pool:
            return command(*args, pool=pool, **options)

    return with_pool


def _step(*examples: str, places: str = "", shared: bool = True) -> Callable[..., Any]:
    """Decorate a role's step: it receives ``session`` and ``vault``, `places`, and ``pool`` where workers share it."""

    def decorated(command: Callable[..., _Reported]) -> click.Command:
        @common.reported
        @wraps(command)
        def reported(*args: Any, session_file: Path, holder: str, vault: Vault, **options: Any) -> common.Report:
            with vault.open() as store:
                identity, members = own_identity(store), known_members.stored(store)
            with about(session_file):
                data = read_from_others(session_file)
                session = FleetSession.open(data, identity, members, holder=holder, at=common.now())
            report, event = command(*args, session=session, vault=vault, **options)
            if event:
                with vault.open() as store:
                    audit.append(store, identity, event, session.manifest, holder, at=common.now())
            return report

        step = common.key_store(_with_workers(reported) if shared else reported)
        step = inputs.option("--holder NAME", _HOLDER, required=True)(step)
        for place in reversed(places.split()):
            step = click.argument(place, callback=lambda _, __, value: common.absolute(value))(step)
        step = click.argument("session_file", metavar="SESSION", type=common.FILE)(step)
        shown = (f"fhe-auc fleet {each} --holder vendor --store keystore" for each in examples)
        return common.command(None, *shown, name=examples[0].split()[0])(step)

    return decorated


@common.command(None, "fhe-auc fleet convene keys study.toml --row-cap 500 --store keystore")
@click.argument("keys")
@click.argument("study_file", metavar="STUDY", type=common.FILE)
@inputs.option("--row-cap N", "Most rows of a device, within which it proves its counts.", type=_CAP, required=True)
@common.key_store
@inputs.option("--out FILE", "File to write.", name="target", type=common.NEW_FILE, default="session.fleet")
@inputs.option("--force", "Overwrite files that are there already.")
@common.reported
def convene(keys: str, study_file: Path, row_cap: int, vault: Vault, target: Path, force: bool) -> common.Report:
    """Name a fleet and all that is agreed, in a signed file.

    KEYS is the folder whose files the members' file names (`fhe-auc members renew --fleet`). STUDY (TOML) says what is
    evaluated, by the protocol exact, or histogram-distributed-dp at thresholds that it names; who is aggregator and who
    helper; how many devices must count (min-parties, else all), of how many rows in all (max-rows); whether they prove
    their cap (proofs); and whether noise protects a device (epsilon). The convener is neither aggregator nor helper.
    """
    study = Study.read(study_file)
    weighed = study.weight_column or study.time_column
    if not study.aggregator or not study.helper or study.protocol not in _PROTOCOLS or weighed:
        known = " or ".join(f'"{name}"' for name in _PROTOCOLS)
        what = f"a fleet's study names its aggregator, its helper, and protocol = {known}; no weights, no times"
        raise InputError(f"{study_file}: {what}", file=str(study_file))
    options = {**study.options, **({"epsilon": study.epsilon} if study.epsilon else {})}
    plugin = registry.load(study.protocol)
    if not (proofs := study.proofs and plugin.proves_inputs):
        lies = "one that lies can decide the AUC, and nobody would notice"
        output.print_warning(f"no party proves what it puts in{' (proofs = false)' * (not study.proofs)}: {lies}")
    if "epsilon" not in options:
        output.print_warning(ALONE)
    inputs.check_out_file(target, force=force)
    fleet = Fleet.of(tables.listed(keys), row_cap=row_cap)
    request = Request(
        parties=(),
        fleet=fleet,
        thresholds=grids.resolve(study.thresholds or _THRESHOLDS),
        min_parties=study.min_parties or None,
        max_rows=study.max_rows or DEFAULT_MAX_ROWS,
        interval=study.interval or None,
        keys="helper",
        row_caps=row_cap if proofs else None,
        options=options,
    )
    with vault.open() as store:
        convener, members = own_identity(store), known_members.stored(store)
        made = announce(convener, plugin.prepare(request).manifest, members, study, at=common.now())
        announced = open_announcement(made, members, holder=convener.name, at=common.now())
        audit.append(store, convener, "made", announced.manifest, convener.name, at=common.now())
        write_atomically(target, made, mode=SHARED)
    session, plan = announced.manifest.session, plugin.plan_of(announced.manifest)
    facts = {"session": session, "file": target, "holder": convener.name, "not_after": announced.not_after}
    facts |= {"study": study.as_dict(), "fleet": msgspec.to_builtins(fleet, builtin_types=(bytes,))}
    rows: common.Rows = [
        ("file", target, f"convened by {convener.name}, until {common.moment(announced.not_after)}"),
        ("session", session, "compare: everybody in it must see the same"),
        *(line for line in study.lines() if line[0] != "row caps"),  # a fleet's is below
        *(() if plan is None else plan.terms().rows),
        ("fleet", f"{fleet.members:,} members", f"at most {row_cap:,} rows each"),
        (HELPER, study.helper, "has the key, reads the result, and must not work with the aggregator"),
    ]
    return common.Report(facts, rows)


@_step("collect session.fleet s3://fleet/records blobs", places="records blobs")
def collect(records: str, blobs: str, session: FleetSession, vault: Vault, pool: Workers) -> _Reported:
    """As the aggregator: check the records, hand on the blobs.

    Every record in the folder RECORDS is checked. The new folder BLOBS, of those that are whole, is for the helper. A
    session has one list: RECORDS must stay as it is until `add`. After a crash collect the same again.
    """
    found = aggregator.collect(session, vault, records, blobs, pool, at=common.now())
    rows: common.Rows = [("collected", f"{found.records:,} records", f"their blobs are in {blobs!r}, for the helper")]
    for why, (count, named) in found.refused.items():
        rows.append(("refused", f"{count:,} records", f"{why}: {'; '.join(named)}"))
    refused = {why: {"records": count, "among them": named} for why, (count, named) in found.refused.items()}
    return common.Report({"records": found.records, "refused": refused}, rows), ""


@_step("open session.fleet keys blobs answers", "open session.fleet answers --nothing")
@click.argument("places", metavar="[KEYS BLOBS] ANSWERS", nargs=-1)
@inputs.option("--nothing", "Open nothing in this session, whose records or list are lost, ever.")
def open_pads(places: tuple[str, ...], nothing: bool, session: FleetSession, vault: Vault, pool: Workers) -> _Reported:
    """As the helper: open the sum of the pads.

    It is that of those of the folder BLOBS that count, and is opened once; the answer is in the folder ANSWERS. KEYS is
    the folder of the fleet's keys. The first list is the session's: asked again it writes the same answer, and it
    refuses another list. Exit status 1: too few count, and the session has ended. ANSWERS/opening is then the signed
    word that nothing was opened; devices that are given it may answer for the same rows in another session. With
    --nothing it is that word, too; the session must not be over.
    """
    if len(places) != (1 if nothing else 3):
        raise click.UsageError("give KEYS, BLOBS and ANSWERS; or ANSWERS and --nothing")
    answers = common.absolute(places[-1])
    opening = tables.within(answers, aggregator.OPENING_FILE)
    told = f"nothing is opened and the session has ended: {opening!r} says so to its devices"
    if nothing:
        with vault.open() as store:
            tables.write_file(opening, helper.end(session, store, at=common.now()))
        return common.Report({"opened": False}, [("ended", told)]), "ended unopened"
    keys, blobs = map(common.absolute, places[:-1])
    found = helper.open_pads(session, vault, keys, blobs, answers, pool, at=common.now())
    where = f"the answers, for the aggregator, are in {answers!r}" if found.opened else f"too few count, so {told}"
    return _verdicts(found.verdicts, where, opened=found.opened), "opened" if found.opened else "ended unopened"


@_step("add session.fleet s3://fleet/records blobs answers result", places="records blobs answers result")
def add(
    records: str, blobs: str, answers: str, result: str, session: FleetSession, vault: Vault, pool: Workers
) -> _Reported:
    """As the aggregator: add up those that count.

    Those in RECORDS that do not are taken off the sum; the encrypted sums are written to the file RESULT. BLOBS is the
    folder that `collect` has written, ANSWERS the helper's.
    """
    made, found = aggregator.add(session, vault, records, blobs, answers, pool, at=common.now())
    tables.write_file(result, made)
    return _verdicts(found, f"the result for the helper is {result!r}"), ""


@_step("decrypt session.fleet result s3://fleet/answers", places="result answers", shared=False)
def decrypt(result: str, answers: str, session: FleetSession, vault: Vault) -> _Reported:
    """As the helper: decrypt the sums, for the devices.

    RESULT is decrypted once. The sums are written, sealed, beside what opens them for each device: ANSWERS/sums. Keep
    ANSWERS until the devices have read: then this key store has no key of the session any more.
    """
    number = helper.decrypt(session, vault, tables.read_file(result), answers, at=common.now())
    rows: common.Rows = [("decrypted", f"for {number:,} devices", f"what they read is in {answers!r}")]
    return common.Report({"devices": number, "answers": answers}, rows), "decrypted"


@common.command(None, "fhe-auc fleet worker worker/store --store keystore --passphrase-file passphrase")
@click.argument("directory", metavar="NEWSTORE", type=click.Path(path_type=Path))
@common.key_store
@common.reported
def worker(directory: Path, vault: Vault) -> common.Report:
    """Make a key store for workers of Dask's.

    With it they unseal what is sealed to the role that --store is of, and nobody plays the role. Give it and its
    passphrase, beside it, to the machines whose workers do the role's work, and to no others: who has them, and what
    the other server has, reads every device's counts.
    """
    with vault.open() as store:
        file = make_store(directory, own_identity(store))
    start = f"start workers with {STORE_VARIABLE}={directory.absolute()}"
    rows: common.Rows = [("made", directory, start), ("passphrase", file, "for who runs the workers alone")]
    return common.Report({"store": directory, "passphrase_file": file}, rows)


def _verdicts(found: dict[str, int], where: str, *, opened: bool = True) -> common.Report:
    rows: common.Rows = [("records", f"{count:,}", why) for why, count in found.items()]
    return common.Report({"records": found, "opened": opened}, [*rows, ("written", "", where)], failed=not opened)


@common.command(
    None,
    "fhe-auc fleet simulate --parties 1000",
    "fhe-auc fleet simulate --parties 1000000 --workers 2 --folder /var/tmp/fleet",
    name="simulate",
)
@inputs.whole_number("--parties", 2, default=1000, about="Devices.")
@inputs.option("--thresholds SPEC", "As of `fhe-auc evaluate`.", default=_THRESHOLDS)
@_with_workers
@inputs.option("--folder DIR", _FOLDER, type=common.FOLDER)
@inputs.option("--no-proofs", "Nobody proves its row cap.")
@inputs.option("--epsilon E", "Privacy budget of a device: its noise. Default: none.", type=float)
@common.reported
def simulated(
    parties: int, thresholds: str, pool: Workers, folder: Path | None, no_proofs: bool, epsilon: float | None
) -> common.Report:
    """Play a whole session on this machine, and measure it.

    All steps go through files, with made-up devices; their AUC is compared with that over all their rows. Exit status
    1: they differ, by more than noise. What devices do is measured apart from what aggregator and helper do. Workers of
    a scheduler must be on this machine, or see the folder.
    """
    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise InputError(f"{str(folder)!r} is not empty; give a new folder")
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        with output.progress("Playing", unit="steps") as report:
            asked = parties, grids.resolve(thresholds), place, pool
            found = simulate(*asked, proofs=not no_proofs, progress=report, epsilon=epsilon)
    costs = ((role, step, seconds) for role, steps in found.cpu_seconds.items() for step, seconds in steps.items())
    rows: common.Rows = [
        *((role, f"{1e3 * seconds / parties:.3f} ms", f"of CPU a device: {step}") for role, step, seconds in costs),
        ("memory", bytes_text(found.peak_bytes), "the most of a process"),
        ("devices", f"{found.counted:,} of {parties:,}", f"count; 1 to {MOST_ROWS} rows each"),
        ("record", bytes_text(found.record_bytes), "what a device sends"),
        ("AUC", f"{found.auc:.6f}", f"± {found.noise:.2g} by noise" if found.noise else str(found.fraction)),
        ("of all rows", f"{float(found.expected):.6f}", "equal" if found.equal else "NOT EQUAL"),
    ]
    fraction = None if found.fraction is None else str(found.fraction)
    exact = {"equal": found.equal, "fraction": fraction, "expected": str(found.expected)}
    return common.Report({**vars(found), **exact}, rows, failed=not found.equal)


for _command in (convene, collect, open_pads, add, decrypt, worker, simulated):
    fleet.add_command(_command)
