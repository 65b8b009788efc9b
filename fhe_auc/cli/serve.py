"""``fhe-auc serve``: a role's process that stays, and takes sessions from a folder."""

import signal
from _thread import start_new_thread
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import click

from fhe_auc.base.files import read_config
from fhe_auc.cli import output
from fhe_auc.cli.session import CONFIG, log_format_option


@click.command(
    epilog=output.examples(
        "fhe-auc serve site.toml                    a site, helper or aggregator, as `role` says",
        "fhe-auc session status site.toml           how it stands; exit status 0 if all is well",
    )
)
@click.argument("config", metavar="CONFIG", type=CONFIG)
@log_format_option
def serve(config: Path) -> None:
    """Play the role of CONFIG (TOML: role, inbox, state, store, …) in every session that comes into its inbox.

    Each folder in the inbox is a session: what `fhe-auc keys session --out` has written, and the rounds. A site and a
    helper open what their policy allows (`fhe-auc keys policy`). It stays until SIGTERM or Ctrl-C, and then exits with
    0; 1 means that the key store cannot be opened or another process serves with it, 2 a wrong configuration. Started
    again, it goes on. docs/guide/operations.md has a unit for systemd, and all entries.
    """
    from fhe_auc.machines.serve import ENTRIES, Server, role_of

    settings = read_config(config, ENTRIES[role_of(read_config(config, None))])
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ending(stop))
    Server(settings).run(stop)


def ending(stop: Event) -> Callable[..., None]:
    """Return a handler of signals that sets `stop`: on another thread, as this one may just be in `stop.wait`."""

    def end(*_: Any) -> None:
        start_new_thread(stop.set, ())

    return end
