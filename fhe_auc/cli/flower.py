"""``fhe-auc flower …``: Flower as what carries sessions, a plug-in of the command line."""

import sys
from typing import Any

import click

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.cli import inputs, output
from fhe_auc.cli.defaults import CommandGroup
from fhe_auc.cli.local_session import local_options, play


@click.group("flower", cls=CommandGroup)
def flower() -> None:
    """Try sessions carried by Flower, on this machine (extra fhe-auc[simulation]).

    Between machines Flower's own commands carry them: docs/guide/flower.md.
    """


@flower.command(
    epilog=output.examples(
        "fhe-auc flower simulate all.parquet --site-column hospital",
        "fhe-auc flower simulate *.csv --protocol malicious --json | jq .auc",
        "fhe-auc flower simulate *.csv --keys helper",
        "fhe-auc flower simulate *.csv --thresholds quantile:200",
    )
)
@local_options
def simulate(files: inputs.PartyFiles, **asked: Any) -> None:
    """Run an evaluation over Flower's simulation engine, each site a virtual client.

    The options are those of `fhe-auc evaluate`, and so is the result. Every site has its own key store and exchange,
    and reads its own rows only; all of them lie in a private folder that is removed afterwards.
    """
    if sys.version_info < (3, 11):
        raise InputError(f"Flower needs Python 3.11 or later, and this is {sys.version_info[0]}.{sys.version_info[1]}")
    require("simulation")
    from fhe_auc.machines.flower.simulation import Simulation

    play(Simulation, files, "Flower", **asked)
