"""Evaluations over a real transport on this machine: their options, and `play`, for the commands of each transport."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from fhe_auc.cli import inputs, output
from fhe_auc.cli.evaluation_table import Form, form_options, print_evaluation
from fhe_auc.cli.session_options import SessionOptions, session_options
from fhe_auc.session import registry

if TYPE_CHECKING:
    from fhe_auc.machines.local_sites import LocalCarrier

_TERMINATED = 143  # 128 + SIGTERM


def local_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command with the options of ``evaluate`` and of rounds, in keyword arguments for `play`."""
    round_timeout = click.option(
        "--round-timeout",
        metavar="SECONDS",
        type=click.FloatRange(1, 86_400),
        default=300,
        help="How long a round waits for sites.",
    )
    command = inputs.min_parties_option(round_timeout(form_options(command)))
    return inputs.party_files(session_options(registry.evaluating)(command))


def play(
    place: Callable[[], LocalCarrier],
    files: inputs.PartyFiles,
    carrier: str,
    *,
    session: SessionOptions,
    min_parties: int | None,
    round_timeout: float,
    form: Form,
) -> None:
    """Play a session where `place` says, carried by `carrier`, and print its result."""
    from fhe_auc.machines.local_sites import Stage

    parties, analysis = files.read_for(session.questions)
    setup = session.plugin.set_up(session.setup, session.options, {data.name: data.rows for data in parties})
    request = replace(session, setup=setup).request([data.name for data in parties], min_parties, analysis)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # so that what was started is stopped
    started = time.perf_counter()
    evaluation = Stage(place, round_timeout, output.print_line).evaluate(
        session.plugin, request, session.quantiles, parties
    )
    whole = f"with making keys, and starting and stopping {carrier}"
    print_evaluation(
        evaluation,
        form,
        wall_seconds=time.perf_counter() - started,
        specification=session.specification,
        whole=whole,
    )
