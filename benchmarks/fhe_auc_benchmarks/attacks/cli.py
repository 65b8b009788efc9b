"""``fhe-auc attack``: let those who lie try, and count what gets through."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from fhe_auc.base.extras import require
from fhe_auc.cli import inputs, output
from fhe_auc_benchmarks.attacks.laboratory import CONFIDENCE, strategy_of

if TYPE_CHECKING:
    from fhe_auc_benchmarks.attacks.tables import AttackTable


_count = partial(click.option, metavar="N", type=click.IntRange(min=0))


@click.command(
    epilog=output.examples(
        "fhe-auc attack                                        every attack; takes a minute",
        "fhe-auc attack --trials 200                           rates on real ciphertexts; takes half an hour",
        "fhe-auc attack --attack scale-last --attack drop-party",
        "fhe-auc attack --trials 0 --simulated-trials 10000000 the simulation alone, with many trials",
        "fhe-auc attack --trials 0 --tolerance 1e-3            so loose that some pass",
        "fhe-auc attack --attack drop-party --json | jq '.attacks[0].malicious'",
        "fhe-auc attack --protocol verified                    the exact protocols, and attacks of their own",
        "fhe-auc attack --protocol verified --keys helper      … and a helper or a party that lies, too",
    )
)
@click.option(
    "--protocol",
    type=click.Choice(("malicious", "verified")),
    default="malicious",
    help="Whom to attack; beside malicious also semi-honest, and beside verified also exact.",
)
@click.option(
    "--keys",
    type=click.Choice(("sealed", "helper")),
    default="sealed",
    help="Who decrypts: each party, or a helper; with one, helper and parties may lie, too (verified only).",
)
@click.option("--attack", "names", metavar="NAME", multiple=True, help="May be repeated. Default: all.")
@_count("--trials", default=3, help="Trials of each attack on real ciphertexts.")
@_count("--simulated-trials", default=20_000, help="Trials of each attack on the numbers that ciphertexts hold.")
@click.option(
    "--tolerance",
    metavar="T",
    type=click.FloatRange(0, 1e-3, min_open=True),
    help="Difference that is accepted between runs (simulation; malicious only). Default: as planned.",
)
@click.option(
    "--thresholds",
    metavar="SPEC",
    default="uniform:100",
    help="Decision points (simulation; malicious only), as of `fhe-auc evaluate`.",
)
@_count("--seed", default=0, help="Repeat with it.")
@output.json_option
def attack(names: tuple[str, ...], seed: int, as_json: bool, **options: Any) -> None:
    """Attack the encrypted protocols as somebody who lies.

    It is the aggregator; with --keys helper also the helper, or a party.

    Each attack is played on real ciphertexts, against both protocols, and many times over on the numbers that the
    malicious protocol's ciphertexts hold. It passes if a party accepts an AUC that is wrong by 0.001 or more. The
    semi-honest protocol promises nothing here: it shows what an attack does where nobody checks. Attacks with a free
    parameter are simulated with the best one found.

    With --protocol verified it is `exact` that promises nothing. There an attack passes with any wrong AUC,
    half-width, P or N, and the simulation plays on a single prime: one as large as each of a session's, and a toy.
    With a helper sessions are not simulated: the simulation knows all pads as it is, as aggregator and helper do.
    There, of party-…, one of four parties lies about its row cap, and an attack passes if the others are told wrong.

    Others read all that lies and travels (with --protocol verified of all other protocols, too), or lie to learn. Where
    one reads a secret that it is not promised, such as a count or a key, the exit status is 1.
    """
    require("benchmark")
    table = _table(seed=seed, **options)
    for name in sorted(names):
        strategy_of(name, table.descriptions)
    chosen = [name for name in table.descriptions if name in names or not names]
    rows = []
    with output.progress("Attacks") as report:
        for number, name in enumerate(chosen):
            report(name, number, len(chosen))
            rows.append({"attack": name, "what": table.descriptions[name], **table.play(name)})
    beyond = any(found["beyond"] for row in rows for found in row.get("learned", {}).values())
    if as_json:
        output.print_json({**table.settings, "seed": seed, "confidence": CONFIDENCE, "attacks": rows})
        click.get_current_context().exit(beyond)
    output.print_text(table.introduction + "\n")
    output.print_table(
        [(row["attack"], *table.cells(row)) for row in rows], header=table.header, numbers=len(table.header) - 2
    )
    output.print_text("\nWhat the liar does:")
    output.print_table([(f"  {row['attack']}", row["what"]) for row in rows])
    click.get_current_context().exit(beyond)


def _table(*, protocol: str, keys: str, trials: int, simulated_trials: int, seed: int, **setting: Any) -> AttackTable:
    """Return the attacks on a protocol; `setting` is for ``malicious``, `keys` for ``verified``."""
    from fhe_auc_benchmarks.attacks import tables
    from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import setting as of

    if protocol == "malicious":
        if inputs.given("keys"):
            raise click.UsageError("--keys is for --protocol verified only")
        return tables.on_malicious(of(**setting), trials, seed, simulated_trials)
    for option in setting:
        if inputs.given(option):
            raise click.UsageError(f"--{option} is for --protocol malicious only")
    if keys == "sealed":
        return tables.on_verified(trials, seed, simulated_trials)
    if inputs.given("simulated_trials"):
        raise click.UsageError("--simulated-trials is for --keys sealed only")
    return tables.on_helped(trials, seed)
