"""``fhe-auc session …``: sessions carried by files, and how a session stands, whatever carries it."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click

from fhe_auc.base import logs
from fhe_auc.base.errors import FheAucError, InputError, MessageError
from fhe_auc.base.files import read_config
from fhe_auc.cli import output
from fhe_auc.cli.defaults import CommandGroup

_POLL, _LONGEST_PAUSE = 1.0, 30.0  # seconds
CONFIG = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


def _write_log(ctx: click.Context, param: click.Parameter, value: logs.Format) -> None:
    os.environ[logs.VARIABLE] = value
    logs.write_to_stderr()


log_format_option = click.option(
    "--log-format",
    type=click.Choice(get_args(logs.Format)),
    default="text",
    envvar=logs.VARIABLE,
    show_envvar=True,
    expose_value=False,
    callback=_write_log,
    help="What the log on stderr consists of: lines of text, or one JSON object a line.",
)
"""Decorator: the command, and the processes that it starts, write their logs so."""


@click.group(
    "session",
    cls=CommandGroup,
    epilog=output.examples(
        "fhe-auc session aggregate exchange run.toml    the aggregator; run again, it goes on",
        "fhe-auc session answer exchange site.toml      a site; run again, it sends the same",
        "fhe-auc session status run.toml                who is awaited, and why",
    ),
)
def session() -> None:
    """Carry a session by files in a folder, or see how one stands.

    Step by step, where no `fhe-auc serve` does it: docs/guide/keys-reference.md. All entries of the configurations:
    docs/guide/operations.md.
    """


@session.command(
    short_help="Play the aggregator of a session, or go on with it.",
    epilog=output.examples(
        "fhe-auc session aggregate exchange run.toml", "fhe-auc session aggregate inboxes/* run.toml"
    ),
)
@click.argument("folders", metavar="DIR…", type=FOLDER, nargs=-1, required=True)
@click.argument("config", metavar="CONFIG", type=CONFIG)
@log_format_option
@output.json_option
def aggregate(folders: tuple[Path, ...], config: Path, as_json: bool) -> None:
    """Play the aggregator of a session through files in DIR, as CONFIG says (TOML: session, holder, store, …).

    Several DIR are inboxes, say of a site each: messages, announcement and sealed bundles go into all of them.

    Whatever stops it, run it again: it goes on where it was, and sends nobody anything new.
    """
    from fhe_auc.base.exchange import Folder
    from fhe_auc.machines import aggregator_role
    from fhe_auc.machines.file_transport import FileTransport
    from fhe_auc.machines.site_state import site_storage

    settings = read_config(config, aggregator_role.DEFAULTS)
    check = site_storage().checking(settings) if len(folders) > 1 else None
    exchanges = [Folder(folder, make=True) for folder in folders]
    record = aggregator_role.run(settings, partial(FileTransport, exchanges, "", check=check))
    if as_json:
        output.print_json(record.as_dict())
        return
    named = {"counted": record.counted, "missing": record.missing, "delivered": record.delivered}
    rows = [(name, ", ".join(parties) or "nobody") for name, parties in named.items()]
    output.print_table([("session", record.session.hex()), *rows])


def answer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command that answers rounds: it receives the arguments of `answer_rounds`."""
    wait = click.option(
        "--wait",
        metavar="HOURS",
        type=click.FloatRange(0, 1000),
        default=0.0,
        help="Wait for later rounds, too, until the session has ended here.",
    )
    command = wait(log_format_option(output.json_option(command)))
    folder = click.argument("folder", metavar="DIR", type=FOLDER)
    return folder(click.argument("config", metavar="CONFIG", type=CONFIG)(command))


@session.command(
    short_help="Answer what the aggregator asks, as a site.",
    epilog=output.examples(
        "fhe-auc session answer exchange site.toml", "fhe-auc session answer exchange site.toml --wait 24"
    ),
)
@answer_options
def answer(folder: Path, config: Path, wait: float, as_json: bool) -> None:
    """Answer the newest round in DIR as the site of CONFIG (TOML: store, holder, data, results, …).

    The exit status is 0 whatever the result is, which is in the site's folder of results: nobody who sees an answer is
    to learn whether the result was accepted.
    """
    answer_rounds(folder, config, wait, as_json)


def answer_rounds(folder: Path, config: Path, wait: float, as_json: bool) -> None:
    """Answer the newest round in a folder, and later ones for so many hours, as a site or a helper."""
    from fhe_auc.base.exchange import Arrivals, Folder
    from fhe_auc.machines import file_transport, site_role

    log = logs.RoleLog()
    view = Arrivals(Folder(folder), log)
    settings = read_config(config, site_role.ENTRIES)
    deadline = time.monotonic() + 3600 * wait
    done: dict[str, Any] | None = None
    tried: int | None = None
    failure, pause, due = "", _POLL, 0.0
    while done is None or not done["ended"]:
        now = time.monotonic()
        over = now >= deadline
        try:
            number = file_transport.newest_round(view, "")
            if number != tried:
                pause = due = 0.0
            if number is not None and (done is None or number != done["round"]) and (over or now >= due):
                tried, pause = number, min(2 * pause + _POLL, _LONGEST_PAUSE)
                due = now + pause  # until the same is tried again
                written, ended = file_transport.answer(view, "", settings, number, log)
                log.info("written to %s", view.shown(written))
                number = int(written.partition("/")[0].removeprefix("round-"))
                done = {"round": number, "file": str(folder / written), "ended": ended}
        except (FheAucError, OSError) as error:  # the disk may be full, the bundle not opened yet
            if over:
                raise
            if str(error) != failure:
                log.warning("not answered yet: %s", failure := str(error))
        if over:
            break
        time.sleep(_POLL)
    if done is None and view.skipped:
        why = "; ".join(f"{name}: {why}" for name, why in view.skipped.items())
        raise MessageError(f"{str(folder)!r} holds no message that counts yet: {why}", field="message")
    if done is None:
        raise InputError(f"{str(folder)!r} holds no message of a session yet", file=str(folder))
    if as_json:
        output.print_json(done)


def add_status(group: click.Group) -> None:
    """Add the command ``status`` to a group of commands that carry sessions."""
    lines = (f"fhe-auc {group.name} status run.toml", f"fhe-auc {group.name} status run.toml --json")
    command = click.command(
        "status", short_help="Tell how a session stands, and who is awaited.", epilog=output.examples(*lines)
    )
    group.add_command(command(click.argument("config", metavar="CONFIG", type=CONFIG)(output.json_option(_status))))


def _status(config: Path, as_json: bool) -> None:
    """Tell how the session of CONFIG, the aggregator's, stands: whether it runs, who is awaited, who has the result.

    Of a CONFIG for `fhe-auc serve`: whether that is well, and how its sessions stand; if it is not, exit status 1.
    """
    from fhe_auc.machines.aggregator_role import journal_folder
    from fhe_auc.session import journal

    settings = read_config(config, None)
    if "role" in settings:
        _served(settings, as_json=as_json)
        return
    folder = journal_folder(settings)
    record, told = journal.read_record(folder), journal.read_status(folder)
    running = journal.is_running(folder)
    state = _state(record, running=running, begun=told is not None)
    if as_json:
        output.print_json({"state": state, "record": record, "status": told})
        return
    rows = [("state", state)]
    if running and told is not None:
        rows.append(("round", f"{told['round']} of {told['rounds']}, until {told['until']}"))
    if record is not None and "error" in record:
        rows.append(("error", record["error"]["message"]))
    if record is not None and "error" not in record:
        rows += [(name, ", ".join(record[name]) or "nobody") for name in ("counted", "missing", "delivered")]
        rows += [
            ("left out", f"{party}: {why}") for party, why in record["refused"].items() if party in record["missing"]
        ]
    elif told is not None:
        rows += [("awaited", f"{party}: {why}" if why else party) for party, why in told["awaited"].items()]
        rows += [("left out", f"{party}: {why}") for party, why in told.get("left-out", {}).items()]
        rows += [("skipped", f"{file}: {why}") for file, why in told.get("skipped", {}).items()]
    output.print_table(rows)


def _served(settings: Mapping[str, Any], *, as_json: bool) -> None:
    from fhe_auc.cli.failures import FAILED
    from fhe_auc.machines import serve

    told, wrong = serve.read(settings)
    if as_json:
        output.print_json({**told, "healthy": not wrong, "wrong": wrong})
    else:
        known = (
            (f"session {each['session'] or '?'}", each["folder"], each["step"]) for each in told.get("sessions", ())
        )
        looked = f"last look {told['look']}" if told else ""
        output.print_table([("health", wrong or "ok", looked), *known])
    if wrong:
        click.get_current_context().exit(FAILED)


add_status(session)


def _state(record: Mapping[str, Any] | None, *, running: bool, begun: bool) -> str:
    from fhe_auc.session.journal import is_finished

    if is_finished(record):
        return "finished: all have their results"
    if running:
        return "running"
    if record is not None and "error" not in record:
        return "ended; run it again for those without their results"
    if record is not None and record["error"]["type"] == "VersionError":
        return "stopped; it cannot go on, as fhe-auc has been upgraded"
    return "stopped; run it again to go on" if begun or record is not None else "not begun"
