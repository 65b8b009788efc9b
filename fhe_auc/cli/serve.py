"""``fhe-auc serve``: a role's process that stays, and takes part in the sessions of an exchange."""

import os
import signal
from _thread import start_new_thread
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any, get_args

import click

from fhe_auc.base import logs
from fhe_auc.base.files import read_config
from fhe_auc.cli import output
from fhe_auc.cli.failures import FAILED

CONFIG = click.Path(exists=True, dir_okay=False, path_type=Path)


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


@click.command(
    epilog=output.examples(
        "fhe-auc serve site.toml                    a site, helper or aggregator, as `role` says",
        "fhe-auc serve site.toml --once             one look, from a job",
        "fhe-auc status site.toml                   how it stands; exit status 0 if all is well",
    )
)
@click.argument("config", metavar="CONFIG", type=CONFIG)
@click.option("--once", is_flag=True, help="Do what there is to do now, and end; exit status 0 if all is well.")
@log_format_option
def serve(config: Path, once: bool) -> None:
    """Play the role of CONFIG (TOML: role, exchange, state, store, …) in every session that comes into its exchange.

    A site and a helper take part in what the studies make that they have agreed to (`fhe-auc pending`). It stays until
    SIGTERM or Ctrl-C, and then exits with 0; 1 means that the key store cannot be opened or another process serves with
    it, 2 a wrong configuration. Started again, it goes on. A changed CONFIG is read again at the next look.
    docs/guide/operations.md
    has a unit for systemd, and all entries.
    """
    from fhe_auc.machines.role_config import ENTRIES, role_of
    from fhe_auc.machines.serve import Server

    settings = read_config(config, ENTRIES[role_of(read_config(config, None))])
    if once:
        health = Server(settings, apart=False).once()
        output.print_line(health)
        if health != "ok":
            click.get_current_context().exit(FAILED)
        return
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ending(stop))
    Server(settings, file=config).run(stop)


def ending(stop: Event) -> Callable[..., None]:
    """Return a handler of signals that sets `stop`: on another thread, as this one may just be in `stop.wait`."""

    def end(*_: Any) -> None:
        start_new_thread(stop.set, ())

    return end
