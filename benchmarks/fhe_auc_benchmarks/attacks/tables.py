"""``fhe-auc attack``: the tables of what lies come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fhe_auc.base import quantities
from fhe_auc_benchmarks.attacks.blinded_auc import bounds, ciphertexts, simulated
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import TrialSetting
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import STRATEGIES
from fhe_auc_benchmarks.attacks.exact_auc import ciphertexts as exact
from fhe_auc_benchmarks.attacks.exact_auc import helped, strategies
from fhe_auc_benchmarks.attacks.exact_auc import simulated as integers
from fhe_auc_benchmarks.attacks.outcome import CONFIDENCE, AttackOutcome

_REAL_PRIME = 2_199_023_288_321  # the first above 2^41 that is 1 modulo 16384
_TOY_PRIME = 257
_TOY_BOUND = 2 / (_TOY_PRIME - 1)  # the theorem's: no sum of an AUC has a larger degree than 2

Found = dict[str, "dict[str, Any] | None"]


class BlindedAucTable:
    """Attacks on ``malicious``, and on ``semi-honest``; `setting` is that of simulations and bounds.

    `trials` of each attack are played on ciphertexts, and `simulated_trials` in simulation; 0: none.
    """

    descriptions = MappingProxyType({name: strategy.description for name, strategy in STRATEGIES.items()})
    header = ("attack", "semi-honest", "malicious, real", "simulated", "bound", "")

    def __init__(self, setting: TrialSetting, trials: int, seed: int, simulated_trials: int) -> None:
        self._setting = setting
        self._trials, self._simulated_trials, self._seed = trials, simulated_trials, seed
        plan = setting.plan
        self.settings = {
            "executions": setting.executions,
            "tolerance": plan.tolerance,
            "thresholds": plan.workload.thresholds,
        }
        self.introduction = (
            "A pass is a wrong AUC (by 0.001 or more) that a party accepts. Behind it: what the pass rate lies below, "
            f"with {CONFIDENCE:.0%} confidence. Simulation and bound: {setting.executions} executions, tolerance "
            f"{plan.tolerance:.2e}, {plan.workload.thresholds:,} thresholds."
        )

    def play(self, name: str) -> dict[str, Any]:
        """Play an attack on both protocols' ciphertexts and in simulation, and compute its bound."""
        of = self._setting
        simulation: dict[str, Any] | None = None
        if self._simulated_trials:
            parameter = simulated.best(name, of, self._seed)
            simulation = simulated.run(name, of, self._simulated_trials, self._seed, parameter).summary()
            if parameter:
                simulation["parameter"] = list(parameter)
        return {
            "semi_honest": {"real": self._real(name, "semi-honest")},
            "malicious": {"real": self._real(name, "malicious"), "simulated": simulation},
            "bound": bounds.of_strategy(name, of),
        }

    def _real(self, name: str, protocol: str) -> dict[str, Any] | None:
        return ciphertexts.run(name, protocol, self._trials, self._seed).summary() if self._trials else None

    def cells(self, played: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the printed row, after the attack's name."""
        return (
            _happens(played["semi_honest"]["real"]),
            _passes(played["malicious"]["real"]),
            _passes(played["malicious"]["simulated"]),
            "" if played["bound"] is None else quantities.bound_text(played["bound"]),
            "",
        )


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


class HelpedTable:
    """Attacks on sessions of ``verified``, and of ``exact``, with a helper: so many trials of each."""

    descriptions: Mapping[str, str] = {
        name: f"{attack.who}: {attack.description}" for name, attack in helped.ATTACKS.items()
    }
    header: tuple[str, ...] = ("attack", "exact", "verified", "")
    settings: Mapping[str, Any] = {}
    introduction = (
        "Passes of so many trials: a pass is a wrong AUC, half-width, P or N that a party accepts, or a false "
        f'"undefined". None of n says that fewer than 3/n pass, with {CONFIDENCE:.0%} confidence.'
    )
    """What the printed table's numbers mean."""

    def __init__(self, trials: int, seed: int) -> None:
        self._trials, self._seed = trials, seed

    def play(self, name: str) -> dict[str, Any]:
        """Play an attack on both protocols where it can be."""
        return {"ciphertexts": self._on_ciphertexts(helped.run, name, helped.ATTACKS[name].on_tags)}

    def cells(self, played: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the printed row, after the attack's name."""
        found = list(played["ciphertexts"].values())
        *passes, note = _cells(found)
        refused = any(each and helped.THE_HELPER in each["refused"] for each in found)
        return *passes, "the helper refuses" if refused else note

    def _on_ciphertexts(self, run: Callable[[str, str, int, int], AttackOutcome], name: str, on_tags: bool) -> Found:
        real: Found = {"exact": None, "verified": None}
        for protocol in real if self._trials else ():
            # Tags that exact sessions do not have cannot be tampered with.
            if protocol == "verified" or not on_tags:
                real[protocol] = _summary(run(name, protocol, self._trials, self._seed))
        return real


class ExactAucTable(HelpedTable):
    """The same with sealed keys, and so many trials in simulation; 0: none."""

    descriptions = strategies.DESCRIPTIONS
    header = ("attack", "exact, real", "verified, real", "one prime", f"t = {_TOY_PRIME}", "")
    settings: Mapping[str, Any] = {"toy_bound": _TOY_BOUND}
    introduction = (
        f"{HelpedTable.introduction} Simulated with one prime of 42 bits, and with {_TOY_PRIME}, where passes can be "
        f"counted: there a rate of {_TOY_BOUND:.4f} at most is proved."
    )

    def __init__(self, trials: int, seed: int, simulated_trials: int) -> None:
        super().__init__(trials, seed)
        self._simulated_trials = simulated_trials

    def play(self, name: str) -> dict[str, Any]:
        """Play an attack on both protocols' ciphertexts where it can be, and in simulation."""
        strategy, simulation = strategies.STRATEGIES[name], Found({"one prime": None, "toy": None})
        if self._simulated_trials and strategy.tamper is None:
            for prime, modulus in (("one prime", _REAL_PRIME), ("toy", _TOY_PRIME)):
                simulation[prime] = _summary(integers.run(name, modulus, self._simulated_trials, self._seed))
        real = self._on_ciphertexts(exact.run, name, strategy.on_tags)
        return {"ciphertexts": real, "simulated": simulation}

    def cells(self, played: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the printed row, after the attack's name."""
        return _cells([*played["ciphertexts"].values(), *played["simulated"].values()])


def _cells(found: Sequence[Mapping[str, Any] | None]) -> tuple[str, ...]:
    # Parties accept, and what they accept is right.
    harmless = any(each and each["harmless"] == each["trials"] for each in found)
    passes = ("-" if each is None else f"{each['passed']:,}/{each['trials']:,}" for each in found)
    return *passes, "harmless" if harmless else ""


def _summary(outcome: AttackOutcome) -> dict[str, Any]:
    return {name: value for name, value in outcome.summary().items() if name != "changed"}
