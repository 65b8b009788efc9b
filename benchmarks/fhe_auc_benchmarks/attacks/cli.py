"""``fhe-auc attack``: let those who lie try, and count what gets through."""

from typing import Any

import click

from fhe_auc.base import quantities
from fhe_auc.base.extras import require
from fhe_auc.cli import inputs, output
from fhe_auc_benchmarks.attacks.laboratory import CONFIDENCE, PASSED, known

_WHOM = "Whom to attack; beside malicious also semi-honest, and beside verified also exact."
_KEYS = "Who decrypts: each party (sealed), or a helper; with one, helper and parties may lie, too (verified only)."


@click.command(
    epilog=output.examples(
        "fhe-auc attack                                    every attack on malicious; takes two minutes",
        "fhe-auc attack --attack scale-last --attack drop-party --trials 200",
        "fhe-auc attack --attack drop-party --json | jq '.attacks[0].malicious'",
        "fhe-auc attack --protocol verified                the exact protocols, and attacks of their own",
        "fhe-auc attack --protocol verified --keys helper  … and a helper or a party that lies, too",
    )
)
@inputs.option("--protocol NAME", _WHOM, type=click.Choice(("malicious", "verified")), default="malicious")
@inputs.option("--keys WHO", _KEYS, type=click.Choice(("sealed", "helper")), default="sealed")
@inputs.option("--attack NAME", "May be repeated. Default: all.", name="names", multiple=True)
@inputs.whole_number("--trials", 1, default=2, about="Trials of each attack.")
@inputs.whole_number("--seed", 0, default=0, about="Repeat with it.")
@output.json_option
def attack(protocol: str, keys: str, names: tuple[str, ...], trials: int, seed: int, as_json: bool) -> None:
    """Attack the encrypted protocols as somebody who lies.

    It is the aggregator; with --keys helper also the helper, or a party. Each trial is a session of its own, with real
    ciphertexts; of luckiest-… and guess-point-small, where chances show, a thousand, on the numbers in them. An attack
    passes if a party accepts a wrong AUC: by 0.001 or more, or by any, or a wrong half-width, P or N, where results
    are exact. semi-honest and exact promise nothing here: they show what an attack does where nobody checks.

    Others read all that lies and travels, or lie to learn. Where anything comes of an attack that is not promised, it
    is marked, and the exit status is 1.
    """
    require("benchmark")
    from fhe_auc_benchmarks.attacks import table

    if protocol == "malicious" and inputs.given("keys"):
        raise click.UsageError("--keys is for --protocol verified only")
    lies = table.on_malicious() if protocol == "malicious" else table.on_verified(keys)
    for name in sorted(names):
        known(name, lies)
    chosen = {name: lie for name, lie in lies.items() if name in names or not names}
    found = list[dict[str, Any]]()
    with output.progress("Attacks") as report:
        for number, (name, lie) in enumerate(chosen.items()):
            report(name, number, len(chosen))
            came = {on: lie.run(on, trials, seed) for on in lie.may}
            found.append({"attack": name, "who": lie.who, "what": lie.what, "proved": lie.proved, **came})
    beyond = any(each[on]["beyond"] for lie, each in zip(chosen.values(), found, strict=True) for on in lie.may)
    if as_json:
        output.print_json({"trials": trials, "seed": seed, "confidence": CONFIDENCE, "attacks": found})
        click.get_current_context().exit(beyond)
    output.print_text(
        f"Passed: a party accepts what is wrong. Below: what the pass rate lies below, with {CONFIDENCE:.0%} "
        "confidence. Behind it: in how many sessions what came of it, or who refused.\n"
    )
    lines = [
        _line(name, on, lie.proved, each[on])
        for (name, lie), each in zip(chosen.items(), found, strict=True)
        for on in lie.may
    ]
    output.print_table(lines, header=("attack", "protocol", "passed", "below", ""), words=2, numbers=2)
    output.print_text("\nWhat the liar does:")
    output.print_table([(f"  {each['attack']}", f"{each['who']}: {each['what']}") for each in found])
    click.get_current_context().exit(beyond)


def _line(name: str, protocol: str, proved: float | None, came: dict[str, Any]) -> tuple[output.Cell, ...]:
    said = [f"{each} {number:,}" for each, number in came["came"].items() if each != PASSED]
    said += [f"proved: {proved:.2%} at most"] if proved else []
    said += [f"NOT PROMISED: {', '.join(came['beyond'])}"] if came["beyond"] else []
    below = quantities.bound_text(came["pass_rate_below"])
    return name, protocol, f"{came['passed']:,}/{came['sessions']:,}", below, "; ".join(said)
