"""``fhe-auc attack``: let a lying aggregator try, and count what gets through."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from fhe_auc import quantities
from fhe_auc.cli import inputs, output
from fhe_auc.errors import InputError
from fhe_auc_benchmarks.attacks.strategies import NAMES, STRATEGIES, Outcome

_CONFIDENCE = 0.95


@click.command(
    epilog=output.examples(
        "fhe-auc attack                                        everything; takes minutes",
        "fhe-auc attack --attack scale-num --attack drop-party",
        "fhe-auc attack --trials 0 --simulated-trials 10000000 the simulation alone, with many trials",
        "fhe-auc attack --trials 0 --executions 2 --tolerance 1e-5",
        "                                                      about the parameters of the paper: some pass",
        "fhe-auc attack --attack drop-party --json | jq '.attacks[0].malicious'",
        "fhe-auc attack --protocol verified                    the exact protocols, and attacks of their own",
    )
)
@click.option(
    "--protocol",
    type=click.Choice(("malicious", "verified")),
    default="malicious",
    show_default=True,
    help="Whom to attack; beside malicious also semi-honest, and beside verified also exact.",
)
@click.option("--attack", "names", metavar="NAME", multiple=True, help="May be repeated. Default: all.")
@click.option(
    "--trials",
    metavar="N",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Trials of each attack on real ciphertexts.",
)
@click.option(
    "--simulated-trials",
    metavar="N",
    type=click.IntRange(min=0),
    default=100_000,
    show_default=True,
    help="Trials of each attack on the numbers that ciphertexts hold.",
)
@click.option(
    "--executions",
    type=click.Choice(("2", "4", "8")),
    default="4",
    show_default=True,
    help="Disguised executions that must agree (simulation and bound; malicious only).",
)
@click.option(
    "--tolerance",
    metavar="T",
    type=click.FloatRange(0, 1e-3, min_open=True),
    help="Difference that is accepted between executions (simulation and bound; malicious only). Default: as planned.",
)
@click.option(
    "--thresholds",
    metavar="SPEC",
    default="uniform:100",
    show_default=True,
    help="Decision points (simulation and bound; malicious only), as of `fhe-auc evaluate`.",
)
@click.option("--seed", metavar="N", type=click.IntRange(min=0), default=0, show_default=True, help="Repeat with it.")
@output.json_option
def attack(
    protocol: str,
    names: tuple[str, ...],
    trials: int,
    simulated_trials: int,
    executions: str,
    tolerance: float | None,
    thresholds: str,
    seed: int,
    as_json: bool,
) -> None:
    """Attack the encrypted protocols as a lying aggregator.

    Each attack is played on real ciphertexts, against both protocols, and many times over on the numbers that the
    malicious protocol's ciphertexts hold. It passes if a party accepts an AUC that is wrong by 0.001 or more. The
    semi-honest protocol promises nothing here: it shows what an attack does where nobody checks. Attacks with a free
    parameter are simulated with the best one found; where luck decides, a bound on the probability is computed too.

    With --protocol verified it is `exact` that promises nothing. There an attack passes with any wrong AUC or
    half-width, and the simulation plays on a single prime: one as large as each of a session's, and a toy.
    """
    from fhe_auc_benchmarks.attacks.blinded_auc import bounds, simulated
    from fhe_auc_benchmarks.attacks.blinded_auc.trials import setting

    if protocol == "verified":
        from fhe_auc_benchmarks.attacks.exact_auc import table

        for option in ("executions", "tolerance", "thresholds"):
            if inputs.given(option):
                raise click.UsageError(f"--{option} is for --protocol malicious only")
        table.attack(names, trials, simulated_trials, seed, as_json=as_json)
        return
    if unknown := sorted(set(names) - set(NAMES)):
        raise InputError(f"there is no attack {unknown[0]!r} on this protocol; known are {', '.join(NAMES)}")
    of = setting(
        executions=int(executions),
        tolerance=tolerance,
        thresholds=thresholds,
    )
    workload = of.plan.workload
    chosen = [strategy for strategy in STRATEGIES if strategy.name in names or not names]
    rows: list[dict[str, Any]] = []
    with output.progress("Attacks") as report:
        for number, strategy in enumerate(chosen):
            name = strategy.name
            report(name, number, len(chosen))
            row: dict[str, Any] = {"attack": name, "what": strategy.description}
            row["semi_honest"] = {"real": _summary(_real(name, "semi-honest", trials, seed))}
            row["malicious"] = {"real": _summary(_real(name, "malicious", trials, seed))}
            simulation: dict[str, Any] | None = None
            if simulated_trials:
                parameter = simulated.best(name, of, seed)
                simulation = _summary(simulated.run(name, of, simulated_trials, seed, parameter))
                if simulation is not None and strategy.tunable:
                    simulation["parameter"] = list(parameter)
            row["malicious"]["simulated"] = simulation
            row["bound"] = bounds.of_strategy(
                name,
                of.executions,
                of.plan.tolerance,
                positions=of.positions,
                thresholds=workload.thresholds,
                splits=workload.splits,
            )
            rows.append(row)
    if as_json:
        output.print_json(
            {
                "executions": of.executions,
                "tolerance": of.plan.tolerance,
                "thresholds": workload.thresholds,
                "seed": seed,
                "confidence": _CONFIDENCE,
                "attacks": rows,
            }
        )
        return
    _print(rows, of.executions, of.plan.tolerance, workload.thresholds)


def _real(name: str, protocol: str, trials: int, seed: int) -> Outcome | None:
    """Attack real ciphertexts; None where that is not asked for."""
    from fhe_auc_benchmarks.attacks.blinded_auc import ciphertexts as real

    if not trials:
        return None
    try:
        return real.run(name, protocol, trials, seed)
    except InputError as error:
        output.print_warning(f"{name}: {error}")
        return None


def _summary(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    from fhe_auc_benchmarks.attacks.blinded_auc.bounds import clopper_pearson

    found = asdict(outcome)
    found["pass_rate"] = outcome.passed / outcome.trials
    found["pass_rate_below"] = clopper_pearson(outcome.passed, outcome.trials, _CONFIDENCE)
    return found


def _print(rows: list[dict[str, Any]], executions: int, tolerance: float, thresholds: int) -> None:
    output.print_text(
        f"A pass is a wrong AUC (by 0.001 or more) that a party accepts. Behind it: what the pass rate lies "
        f"below, with {_CONFIDENCE:.0%} confidence. Simulation and bound: {executions} executions, tolerance "
        f"{tolerance:.2e}, {thresholds:,} thresholds.\n"
    )
    output.print_table(
        [
            (
                row["attack"],
                _happens(row["semi_honest"]["real"]),
                _passes(row["malicious"]["real"]),
                _passes(row["malicious"]["simulated"]),
                "" if row["bound"] is None else quantities.bound_text(row["bound"]),
                "",
            )
            for row in rows
        ],
        header=("attack", "semi-honest", "malicious, real", "simulated", "bound", ""),
        numbers=4,
    )
    output.print_text("\nWhat the aggregator does:")
    output.print_table([(f"  {row['attack']}", row["what"]) for row in rows])


def _happens(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    trials = found["trials"]
    if found["passed"]:
        return f"wrong AUC {found['passed']}/{trials}"
    return "harmless" if found["harmless"] == trials else f"refused {sum(found['refused'].values())}/{trials}"


def _passes(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    harmless = " harmless" if found["harmless"] == found["trials"] else ""
    return f"{found['passed']}/{found['trials']:,}{harmless} <{quantities.bound_text(found['pass_rate_below'])}"
