"""``fhe-auc flare …``: sessions carried by NVIDIA FLARE, a plug-in of the command line."""

from pathlib import Path
from typing import Any

import click

from fhe_auc.base.extras import require
from fhe_auc.base.files import read_config
from fhe_auc.cli import inputs, output
from fhe_auc.cli.defaults import CommandGroup
from fhe_auc.cli.local_session import local_options, play
from fhe_auc.cli.serve import CONFIG, FOLDER


@click.group("flare", cls=CommandGroup)
def flare() -> None:
    """Run sessions between machines, carried by NVIDIA FLARE (extra fhe-auc[flare]): docs/guide/flare.md."""
    require("flare")


@flare.command(epilog=output.examples("fhe-auc flare simulate north.csv south.csv west.csv"))
@local_options
def simulate(files: inputs.PartyFiles, **asked: Any) -> None:
    """Run an evaluation over FLARE's simulator; options and result are those of `fhe-auc evaluate`."""
    from fhe_auc.machines.flare.job import Simulator

    play(Simulator, files, "FLARE", most=30, **asked)  # each is a process of some 300 MB


@flare.command(epilog=output.examples("fhe-auc flare job session-job run.toml --min-clients 3"))
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.argument("config", metavar="CONFIG", type=CONFIG)
@click.option("--min-clients", metavar="N", type=click.IntRange(1), required=True, help="How many it takes to start.")
@output.json_option
def job(folder: Path, config: Path, min_clients: int, as_json: bool) -> None:
    """Write the job that runs the session of CONFIG, the aggregator's, to DIR; submitted again, it goes on."""
    from fhe_auc.machines.flare.controller import DEFAULTS
    from fhe_auc.machines.flare.job import write_job

    write_job(folder.absolute(), read_config(config, DEFAULTS), min_clients=min_clients)
    if as_json:
        output.print_json({"folder": str(folder)})
    else:
        output.print_table([("job", str(folder), "for `nvflare job submit -j`")])
