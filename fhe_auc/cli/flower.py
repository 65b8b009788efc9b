"""``fhe-auc flower …``: sessions carried by Flower, a plug-in of the command line."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.files import read_config
from fhe_auc.cli import inputs, output
from fhe_auc.cli.defaults import CommandGroup
from fhe_auc.cli.local_session import local_options, play
from fhe_auc.cli.serve import log_format_option
from fhe_auc.machines.flower import require_flower

_DEPLOYED_AT_MOST = 10


@click.group(
    "flower",
    cls=CommandGroup,
    epilog=output.examples(
        "fhe-auc flower simulate all.csv --site-column hospital        each hospital a virtual site",
        "fhe-auc flower local-deployment north.csv south.csv west.csv  three nodes here, over TLS",
        "fhe-auc flower bundle session-app                             what `flwr run` takes",
        "fhe-auc flower superlink --help                               what the aggregator runs",
        "fhe-auc flower supernode --help                               what a site runs",
    ),
)
def flower() -> None:
    """Run sessions between machines, carried by Flower (extras fhe-auc[flower], and fhe-auc[simulation] to simulate).

    docs/guide/flower.md walks through it.
    """


@flower.command(
    epilog=output.examples(
        "fhe-auc flower simulate all.parquet --site-column hospital",
        "fhe-auc flower simulate *.csv --protocol malicious --json | jq .auc",
        "fhe-auc flower simulate *.csv --keys helper",
        "fhe-auc flower simulate *.csv --thresholds quantile:200",
        "fhe-auc flower simulate *.csv --protocol dpauc-laplace -o epsilon=1 --thresholds uniform:50",
    )
)
@local_options
def simulate(**asked: Any) -> None:
    """Run an evaluation over Flower's simulation engine, each site a virtual client.

    The options are those of `fhe-auc evaluate`, and so is the result. Every site has its own key store, opens its own
    bundle in it, and reads its own rows only; all of them lie in a private folder that is removed afterwards.
    """
    _play(**asked, deployed=False)


@flower.command(
    "local-deployment",
    short_help="Run an evaluation over a real deployment of Flower on this machine.",
    epilog=output.examples(
        "fhe-auc flower local-deployment north.csv south.csv west.csv",
        "fhe-auc flower local-deployment *.csv --protocol malicious --json | jq .auc",
        "fhe-auc flower local-deployment *.csv --keys helper",
    ),
)
@local_options
def local_deployment(**asked: Any) -> None:
    """Run an evaluation over a SuperLink and a SuperNode for each site, all on this machine, then stop them.

    As between machines: TLS, a node key for each site, and sites that run one app bundle only. All of it listens on
    127.0.0.1, on ports that are free. The options are those of `fhe-auc evaluate`.
    """
    _play(**asked, deployed=True)


def _play(*, deployed: bool, files: inputs.PartyFiles, **asked: Any) -> None:
    require_flower("flower" if deployed else "simulation")
    from fhe_auc.machines.flower.runtime import Flower

    play(partial(Flower, deployed=deployed), files, "Flower", most=_DEPLOYED_AT_MOST if deployed else None, **asked)


@flower.command(
    short_help="Write the app that `flwr run` takes, and print its hash.",
    epilog=output.examples(
        "fhe-auc flower bundle session-app", "fhe-auc flower bundle session-app --json | jq -r .sha256"
    ),
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@output.json_option
def bundle(folder: Path, as_json: bool) -> None:
    """Write the Flower app of a session to DIR, for `flwr run DIR`, and print the hash that sites pin.

    It holds configuration and no code: every machine runs the fhe-auc that it has installed. With the same versions the
    hash is the same everywhere, so that each site can make its own.
    """
    require_flower()
    from fhe_auc.machines.flower import bundle as made

    digest = made.write(folder)
    if as_json:
        output.print_json({"folder": str(folder), "sha256": digest})
    else:
        output.print_table([("app", str(folder), "for `flwr run`"), ("sha256", digest, "sites pin it")])


def _sha256(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if not re.fullmatch("[0-9a-fA-F]{64}", value):
        raise click.BadParameter("expected 64 hexadecimal digits, as `fhe-auc flower bundle` prints them")
    return value.lower()


@flower.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Start a site's SuperNode, which runs one app bundle only.",
    epilog=output.examples(
        "fhe-auc flower supernode --bundle-sha256 HEX --superlink link.example.org:9092 \\",
        "    --root-certificates ca.pem --auth-supernode-private-key node.key \\",
        '    --node-config \'store="keystore" passphrase-file="passphrase" holder="north"',
        '                   data="rows.csv" results="results"\'',
    ),
)
@click.option(
    "--bundle-sha256",
    metavar="HEX",
    required=True,
    callback=_sha256,
    help="The only app bundle that this site runs; `fhe-auc flower bundle` prints its hash.",
)
@log_format_option
@click.argument("arguments", metavar="[OPTION OF flower-supernode]...", nargs=-1, type=click.UNPROCESSED)
def supernode(bundle_sha256: str, arguments: tuple[str, ...]) -> None:
    """Start `flower-supernode` with the options given, so that it runs no app bundle but one, and calls nobody's home.

    Its own interface, which only processes on this machine use, is bound to 127.0.0.1, on any free port, unless --host
    or --port says otherwise. Where one with the same key was killed, the SuperLink notices after a minute: this waits.
    """
    require_flower()
    from fhe_auc.machines.flower.supernode import run
    from fhe_auc.machines.flower.uniform_logs import uniform_output

    with uniform_output():
        run(arguments, bundle_sha256=bundle_sha256)


@flower.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Start a SuperLink, of which other machines reach the fleet API alone.",
    epilog=output.examples(
        "fhe-auc flower superlink --host 0.0.0.0 --port 9092 --enable-supernode-auth \\",
        "    --ssl-ca-certfile ca.pem --ssl-certfile tls.pem --ssl-keyfile tls.key",
    ),
)
@log_format_option
@click.argument("arguments", metavar="[OPTION OF flower-superlink]...", nargs=-1, type=click.UNPROCESSED)
def superlink(arguments: tuple[str, ...]) -> None:
    """Start `flower-superlink` with the options given; it calls nobody's home, and installs nothing for apps.

    Nodes reach it at --host and --port. Whoever else does, to start runs or register nodes, must do so on this machine,
    at 127.0.0.1. Nodes and runs are kept in $FLWR_HOME/superlink.db, unless --database says otherwise, for a restart.
    """
    require_flower()
    from fhe_auc.machines.flower.superlink import run
    from fhe_auc.machines.flower.uniform_logs import uniform_output

    with uniform_output():
        run(arguments)


@flower.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Go on with a session that was stopped, or that a site has missed.",
    epilog=output.examples("fhe-auc flower rerun session-app --run-config run.toml"),
)
@click.argument("app", metavar="APP", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--run-config",
    metavar="FILE",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration, in TOML, with which the session was run.",
)
@click.argument("arguments", metavar="[ARGUMENT OF flwr run]...", nargs=-1, type=click.UNPROCESSED)
def rerun(app: Path, run_config: Path, arguments: tuple[str, ...]) -> None:
    """Run the app of a session again, as `flwr run` does, where there is something left to do.

    It goes on where the session was: no site sees a second message of a round, and those that have missed the last one
    get it. APP is the folder that `fhe-auc flower bundle` has written.
    """
    require_flower()
    from fhe_auc.machines.aggregator_role import journal_folder
    from fhe_auc.session import journal

    folder = journal_folder(read_config(run_config, None))
    record = journal.read_record(folder)
    if record is not None and journal.is_finished(record):
        output.print_line(f"already finished: all {len(record['delivered'])} sites have their results")
        return
    if journal.is_running(folder):
        raise EvaluationError("the session runs; `fhe-auc flower status` tells who is awaited")
    flwr = str(Path(sys.executable).with_name("flwr"))
    command = [flwr, "run", str(app), *arguments, "--run-config", str(run_config)]
    sys.exit(subprocess.run(command, check=False).returncode)  # noqa: S603 - Flower's own command
