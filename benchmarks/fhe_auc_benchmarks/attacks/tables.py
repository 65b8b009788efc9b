"""``fhe-auc attack``: the tables of what lies come to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fhe_auc.base import quantities
from fhe_auc_benchmarks.attacks.blinded_auc import ciphertexts as blinded
from fhe_auc_benchmarks.attacks.blinded_auc import simulated
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import TrialSetting
from fhe_auc_benchmarks.attacks.exact_auc import ciphertexts as exact
from fhe_auc_benchmarks.attacks.exact_auc import helped, strategies
from fhe_auc_benchmarks.attacks.exact_auc import simulated as integers
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES
from fhe_auc_benchmarks.attacks.laboratory import CONFIDENCE, AttackOutcome
from fhe_auc_benchmarks.attacks.learning import ATTACKS, OTHERS

_REAL_PRIME = 2_199_023_288_321  # the first above 2^41 that is 1 modulo 16384
_TOY_PRIME = 257
_TOY_BOUND = 2 / (_TOY_PRIME - 1)  # the theorem's: no sum of an AUC has a larger degree than 2
_ANY_WRONG_NUMBER = (
    "Passes of so many trials: a pass is a wrong AUC, half-width, P or N that a party accepts, or a false "
    f'"undefined". None of n says that fewer than 3/n pass, with {CONFIDENCE:.0%} confidence.'
)

Summary = dict[str, Any]


@dataclass(frozen=True)
class AttackTable:
    """Attacks of one kind: `play` returns a row of the JSON by an attack's name, `cells` what is printed of it."""

    descriptions: Mapping[str, str]
    header: tuple[str, ...]
    introduction: str
    """What the printed table's numbers mean."""
    play: Callable[[str], Summary]
    cells: Callable[[Summary], tuple[str, ...]]
    """After the attack's name."""
    settings: Mapping[str, Any] = field(default_factory=dict)


# Of every table, `trials` of each attack are played on ciphertexts, and `simulated_trials` in simulation; 0: none.


def on_malicious(of: TrialSetting, trials: int, seed: int, simulated_trials: int) -> AttackTable:
    """Return attacks on ``malicious``, and on ``semi-honest``; the setting is that of simulations."""
    plan = of.plan

    def real(name: str, protocol: str) -> Summary | None:
        return blinded.run(name, protocol, trials, seed).summary() if trials else None

    def play(name: str) -> Summary:
        simulation: Summary | None = None
        if simulated_trials:
            parameter = simulated.best(name, of, seed)
            outcome = simulated.run(name, of, simulated_trials, seed, parameter)
            simulation = None if outcome is None else outcome.summary()
            if simulation and parameter:
                simulation["parameter"] = [str(each) for each in parameter]
        return {
            "semi_honest": {"real": real(name, "semi-honest")},
            "malicious": {"real": real(name, "malicious"), "simulated": simulation},
        }

    def cells(row: Summary) -> tuple[str, ...]:
        of_malicious = _passes(row["malicious"]["real"]), _passes(row["malicious"]["simulated"])
        return _happens(row["semi_honest"]["real"]), *of_malicious, ""

    table = AttackTable(
        blinded.BlindedAucAttacks.descriptions,
        ("attack", "semi-honest", "real", "simulated", ""),
        "A pass is a wrong AUC (by 0.001 or more) that a party accepts. Behind it: what the pass rate lies below, "
        f"with {CONFIDENCE:.0%} confidence. Real: malicious, on ciphertexts. Simulated: tolerance "
        f"{plan.tolerance:.2e}, {plan.thresholds:,} thresholds; what is guessed is guessed right.",
        play,
        cells,
        {"tolerance": plan.tolerance, "thresholds": plan.thresholds},
    )
    return with_learning(table, ("semi-honest", "malicious"), "sealed", trials, seed)


def _happens(found: Summary | None) -> str:
    if found is None:
        return "-"
    trials = found["trials"]
    if found["passed"]:
        return f"wrong AUC {found['passed']}/{trials}"
    return "harmless" if found["harmless"] == trials else f"refused {sum(found['refused'].values())}/{trials}"


def _passes(found: Summary | None) -> str:
    if found is None:
        return "-"
    harmless = " harmless" if found["harmless"] == found["trials"] else ""
    return f"{found['passed']}/{found['trials']:,}{harmless} <{quantities.bound_text(found['pass_rate_below'])}"


def on_helped(trials: int, seed: int) -> AttackTable:
    """Return attacks on sessions of ``verified``, and of ``exact``, with a helper; parties' lies are about row caps."""

    def play(name: str) -> Summary:
        lie = LIES.get(name)
        on_tags = helped.ATTACKS[name].on_tags if lie is None else lie.spoils_tags
        row = _on_ciphertexts(helped.run, name, on_tags, trials, seed)
        if lie is None:
            return row
        without = dict[str, Any].fromkeys(row["ciphertexts"])
        if not lie.on_proofs:
            run = partial(helped.run, proofs=False)
            without = _on_ciphertexts(run, name, on_tags, trials, seed)["ciphertexts"]
        return {**row, "without_proofs": without}

    def cells(row: Summary) -> tuple[str, ...]:
        *passes, note = _exact_cells(row)
        refused = {check for each in row["ciphertexts"].values() if each for check in each["refused"]}
        if "without_proofs" not in row:
            return *passes, f"{helped.THE_HELPER} refuses" if helped.THE_HELPER in refused else note
        by = ", ".join(sorted(refused & {helped.THE_AGGREGATOR, helped.THE_HELPER}))
        without = row["without_proofs"]["verified"]
        then = "" if without is None else f"{without['passed']:,}/{without['trials']:,} without proofs"
        return *passes, "; ".join(each for each in (f"{by} names it" if by else "", then) if each)

    descriptions = {name: f"{attack.who}: {attack.description}" for name, attack in helped.ATTACKS.items()}
    table = AttackTable(
        {**descriptions, **{name: f"a party: {lie.description}" for name, lie in LIES.items()}},
        ("attack", "exact", "verified", ""),
        f"{_ANY_WRONG_NUMBER} Of party-…: what the others accept where parties prove their row caps; and, with "
        "verified, where they do not.",
        play,
        cells,
    )
    return with_learning(table, ("exact", "verified", *OTHERS), "helper", trials, seed)


def on_verified(trials: int, seed: int, simulated_trials: int) -> AttackTable:
    """Return the same with sealed keys, and with simulation."""

    def play(name: str) -> Summary:
        strategy, simulation = strategies.STRATEGIES[name], dict[str, Any].fromkeys(("one prime", "toy"))
        if simulated_trials and strategy.tamper is None:
            for prime, modulus in (("one prime", _REAL_PRIME), ("toy", _TOY_PRIME)):
                simulation[prime] = _summary(integers.run(name, modulus, simulated_trials, seed))
        real = _on_ciphertexts(exact.run, name, strategy.on_tags, 0 if strategy.on_lists else trials, seed)
        return {**real, "simulated": simulation}

    table = AttackTable(
        strategies.DESCRIPTIONS,
        ("attack", "exact, real", "verified, real", "one prime", f"t = {_TOY_PRIME}", ""),
        f"{_ANY_WRONG_NUMBER} Simulated with one prime of 42 bits, and with {_TOY_PRIME}, where passes can be "
        f"counted: there a rate of {_TOY_BOUND:.4f} at most is proved.",
        play,
        _exact_cells,
        {"toy_bound": _TOY_BOUND},
    )
    return with_learning(table, ("exact", "verified", *OTHERS), "sealed", trials, seed)


def _on_ciphertexts(
    run: Callable[[str, str, int, int], AttackOutcome], name: str, on_tags: bool, trials: int, seed: int
) -> Summary:
    real = dict[str, Any].fromkeys(("exact", "verified"))
    for protocol in real if trials else ():
        # Tags that exact sessions do not have cannot be tampered with.
        if protocol == "verified" or not on_tags:
            real[protocol] = _summary(run(name, protocol, trials, seed))
    return {"ciphertexts": real}


def _exact_cells(row: Summary) -> tuple[str, ...]:
    found = [*row["ciphertexts"].values(), *row.get("simulated", {}).values()]
    # Parties accept, and what they accept is right.
    harmless = any(each and each["harmless"] == each["trials"] for each in found)
    passes = ("-" if each is None else f"{each['passed']:,}/{each['trials']:,}" for each in found)
    return *passes, "harmless" if harmless else ""


def _summary(outcome: AttackOutcome) -> Summary:
    return {name: value for name, value in outcome.summary().items() if name != "changed"}


def with_learning(table: AttackTable, protocols: tuple[str, ...], keys: str, trials: int, seed: int) -> AttackTable:
    """Return the table with attacks that learn, too, on these protocols, of which the first two have columns."""
    learning = {name: each for name, each in ATTACKS.items() if trials and {*protocols} & {*each.on.get(keys, ())}}

    def play(name: str) -> Summary:
        if (attack := learning.get(name)) is None:
            return table.play(name)
        return {"learned": {on: attack.run(on, keys, trials, seed) for on in protocols if on in attack.on[keys]}}

    def cells(row: Summary) -> tuple[str, ...]:
        if (found := row.get("learned")) is None:
            return table.cells(row)
        passes = (f"{max([*found[on]['read'].values(), 0])}/{trials}" if on in found else "-" for on in protocols[:2])
        said = [f"{on} {how}: {', '.join(told)}" for on in found for how, told in found[on].items() if told]
        return *passes, *[""] * (len(table.header) - 4), "; ".join(said) or "learns nothing"

    descriptions = {**table.descriptions, **{name: each.description for name, each in learning.items()}}
    introduction = f'{table.introduction} Who learns passes with any secret; "beyond" are those that are not promised.'
    return replace(table, descriptions=descriptions, introduction=introduction, play=play, cells=cells)
