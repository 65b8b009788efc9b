"""``fhe-auc protocols``: what is installed, and what each asks one to trust."""

from __future__ import annotations

from typing import Any

import click

from fhe_auc import registry
from fhe_auc.cli import output
from fhe_auc.errors import FheAucError
from fhe_auc.options import described


@click.command(
    epilog=output.examples(
        "fhe-auc protocols",
        "fhe-auc protocols --json | jq -r '.protocols[].name'",
    )
)
@output.json_option
def protocols(as_json: bool) -> None:
    """List the installed protocols, and what each one trusts; all trust each party to enter its true rows.

    A package adds its own through the entry-point group fhe_auc.protocols.
    """
    found: list[dict[str, Any]] = []
    broken: dict[str, str] = {}
    for name in registry.names():
        try:
            plugin = registry.load(name)
        except FheAucError as error:
            broken[name] = str(error)
        else:
            found.append(
                {"name": name, "summary": plugin.summary, "trust": plugin.trust, "options": described(plugin.options)}
            )
    for reason in broken.values():
        output.print_warning(reason)
    if as_json:
        output.print_json({"protocols": found, "broken": broken})
        return
    for protocol in found:
        output.print_text(output.styled(protocol["name"], "bold"))
        options = [(f"  {name}", help_text) for name, help_text in protocol["options"].items()]
        output.print_table([("  what", protocol["summary"]), ("  trust", protocol["trust"]), *options])
    if not found:
        output.print_text("no protocols are installed")
