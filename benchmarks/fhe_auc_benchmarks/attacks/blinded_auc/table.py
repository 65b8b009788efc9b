"""``fhe-auc attack --protocol malicious``: the table of what lies come to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fhe_auc.base import quantities
from fhe_auc_benchmarks.attacks.blinded_auc import bounds, ciphertexts, simulated
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import TrialSetting
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import STRATEGIES
from fhe_auc_benchmarks.attacks.outcome import CONFIDENCE


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
