"""``fhe-auc helper …``: the part of a session's helper, who has the key in place of the parties."""

from __future__ import annotations

from pathlib import Path

import click

from fhe_auc.cli import output
from fhe_auc.cli.command_group import CommandGroup
from fhe_auc.cli.session import CONFIG, FOLDER, answer_rounds, log_format_option, wait_option


@click.group(
    "helper",
    cls=CommandGroup,
    short_help="Play the helper of sessions, who has the key.",
    epilog=output.examples(
        "fhe-auc helper answer exchange helper.toml --wait 24    by files",
    ),
)
def helper() -> None:
    """Play the helper of sessions with --keys helper: it opens the sum of the pads, and decrypts one result.

    It is certified as a site is (`fhe-auc keys enrol`), opens sessions as a site does (`fhe-auc keys open`), and has no
    rows. Over Flower it is a node like the others (`fhe-auc flower supernode`), named `helper:ID` in ``nodes``.
    """


@helper.command(
    short_help="Answer what the aggregator asks the helper.",
    epilog=output.examples("fhe-auc helper answer exchange helper.toml --wait 24"),
)
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.argument("config", metavar="CONFIG", type=CONFIG)
@wait_option
@log_format_option
@output.json_option
def answer(folder: Path, config: Path, wait: float, as_json: bool) -> None:
    """Answer the newest question to the helper in DIR, as CONFIG says (TOML: store, holder, passphrase-file)."""
    answer_rounds(folder, config, wait, as_json=as_json, helper=True)
