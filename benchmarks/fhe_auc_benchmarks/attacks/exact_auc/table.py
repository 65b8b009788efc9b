"""``fhe-auc attack --protocol verified``: the table of what lies come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fhe_auc.cli import output
from fhe_auc.errors import InputError
from fhe_auc_benchmarks.attacks.blinded_auc.bounds import clopper_pearson
from fhe_auc_benchmarks.attacks.exact_auc import algebra
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES
from fhe_auc_benchmarks.attacks.strategies import Outcome
from fhe_auc_protocols.exact_auc import result_check as verdict

_CONFIDENCE = 0.95
_REAL_PRIME = 2_199_023_288_321  # the first above 2^41 that is 1 modulo 16384
_TOY_PRIME = 257
_GUESSING = "see everything in the clear, and choose the result that passes for most values of the secret point"


def names() -> tuple[str, ...]:
    """Return all attacks."""
    return (*STRATEGIES, algebra.GUESS)


def attack(chosen: Sequence[str], trials: int, simulated_trials: int, seed: int, *, as_json: bool) -> None:
    """Play attacks, and print what came of them.

    Raises
    ------
    InputError
        There is no such attack.
    """
    if unknown := sorted(set(chosen) - set(names())):
        raise InputError(f"there is no attack {unknown[0]!r} on this protocol; known are {', '.join(names())}")
    rows = []
    with output.progress("Attacks") as report:
        for number, name in enumerate(found := tuple(chosen) or names()):
            report(name, number, len(found))
            rows.append(_row(name, trials, simulated_trials, seed))
    bound = verdict.soundness_of_check((_TOY_PRIME,), sums=2)
    if as_json:
        output.print_json({"seed": seed, "confidence": _CONFIDENCE, "toy_bound": bound, "attacks": rows})
        return
    output.print_text(
        'Passes of so many trials: a pass is a wrong AUC or half-width that a party accepts, or a false "undefined". '
        f"None of n says that fewer than 3/n pass, with {_CONFIDENCE:.0%} confidence. Simulated with one prime of 41 "
        f"bits, where a session has several, and with {_TOY_PRIME}, where passes can be counted: there a rate of "
        f"{bound:.4f} at most is proved.\n"
    )
    columns = ("ciphertexts", "exact"), ("ciphertexts", "verified"), ("simulated", "one prime"), ("simulated", "toy")
    output.print_table(
        [(row["attack"], *(_cell(row[kind][which]) for kind, which in columns), _remark(row)) for row in rows],
        header=("attack", "exact, real", "verified, real", "one prime", f"t = {_TOY_PRIME}", ""),
        numbers=4,
    )
    output.print_text("\nWhat the aggregator does:")
    output.print_table([(f"  {row['attack']}", row["what"]) for row in rows])


def _row(name: str, trials: int, simulated_trials: int, seed: int) -> dict[str, Any]:
    from fhe_auc_benchmarks.attacks.exact_auc import ciphertexts

    real: dict[str, dict[str, Any] | None] = {"exact": None, "verified": None}
    guessing = name == algebra.GUESS
    if trials and not guessing and not STRATEGIES[name].rotates:
        for protocol in real:
            # Tags that exact sessions do not have cannot be tampered with.
            if protocol == "verified" or not STRATEGIES[name].on_tags:
                real[protocol] = _summary(ciphertexts.run(name, protocol, trials, seed))
    simulated: dict[str, dict[str, Any] | None] = {"one prime": None, "toy": None}
    if simulated_trials:
        simulated["one prime"] = _summary(algebra.play(name, _REAL_PRIME, simulated_trials, seed, ties=not guessing))
        simulated["toy"] = _summary(algebra.play(name, _TOY_PRIME, simulated_trials, seed, ties=False))
    what = _GUESSING if guessing else STRATEGIES[name].description
    return {"attack": name, "what": what, "ciphertexts": real, "simulated": simulated}


def _summary(outcome: Outcome) -> dict[str, Any]:
    return {
        "trials": outcome.trials,
        "passed": outcome.passed,
        "harmless": outcome.harmless,
        "refused": outcome.refused,
        "pass_rate": outcome.passed / outcome.trials,
        "pass_rate_below": clopper_pearson(outcome.passed, outcome.trials, _CONFIDENCE),
    }


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-"
    return f"{found['passed']:,}/{found['trials']:,}"


def _remark(row: dict[str, Any]) -> str:
    """Say where a lie changes nothing: parties accept, and what they accept is right."""
    played = [*row["ciphertexts"].values(), *row["simulated"].values()]
    return "harmless" if any(each and each["harmless"] == each["trials"] for each in played) else ""
