"""``fhe-auc status``: whether all is well at a role, and how its sessions stand."""

from pathlib import Path

import click

from fhe_auc.base.files import read_config
from fhe_auc.cli import output
from fhe_auc.cli.failures import FAILED
from fhe_auc.cli.serve import CONFIG


@click.command(epilog=output.examples("fhe-auc status site.toml", "fhe-auc status site.toml --json"))
@click.argument("config", metavar="CONFIG", type=CONFIG)
@output.json_option
def status(config: Path, as_json: bool) -> None:
    """Tell whether all is well at the role of CONFIG, and how its sessions stand; if it is not, exit status 1."""
    from fhe_auc.machines.health import read_role

    told, wrong = read_role(read_config(config, None))
    if as_json:
        output.print_json({**told, "healthy": not wrong, "wrong": wrong})
    else:
        known = ((f"session {each['session']}", each["maker"], each["step"]) for each in told.get("sessions", ()))
        looked = f"last look {told['look']}" if told else ""
        output.print_table([("health", wrong or "ok", looked), *known])
    if wrong:
        click.get_current_context().exit(FAILED)
