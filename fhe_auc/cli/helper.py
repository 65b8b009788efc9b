"""``fhe-auc helper …``: the part of a session's helper, who has the key in place of the parties."""

from pathlib import Path

import click

from fhe_auc.cli import output
from fhe_auc.cli.defaults import CommandGroup
from fhe_auc.cli.session import answer_options, answer_rounds


@click.group(
    "helper",
    cls=CommandGroup,
    epilog=output.examples(
        "fhe-auc keys enrol registry                               once: its keys, as a site makes them",
        "fhe-auc keys open session.helper --holder north           for each session",
        "fhe-auc helper answer exchange/helpers helper.toml --wait 24    by files: waits for one",
    ),
)
def helper() -> None:
    """Play the helper of sessions with --keys helper, which opens the sum of the pads, and decrypts one result.

    A helper is enrolled and certified as a site is (`fhe-auc keys enrol`), and opens each session as a site does, by
    hand or by a policy (`fhe-auc keys open`). It has no rows and gets no result: its configuration is ``store``,
    ``passphrase-file`` and ``holder``, who convenes. It answers with `fhe-auc helper answer`.
    """


@helper.command(
    short_help="Answer what the aggregator asks the helper.",
    epilog=output.examples("fhe-auc helper answer exchange/helpers helper.toml --wait 24"),
)
@answer_options
def answer(folder: Path, config: Path, wait: float, as_json: bool) -> None:
    """Answer the newest question in DIR, the helper's folder, as CONFIG says (TOML: store, holder, passphrase-file).

    With --wait it may be started before the session begins. It ends once the session needs it no more.
    """
    answer_rounds(folder, config, wait, as_json)
