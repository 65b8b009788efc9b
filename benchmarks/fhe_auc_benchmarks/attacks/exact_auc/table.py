"""``fhe-auc attack --protocol verified``: the table of what lies come to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fhe_auc_benchmarks.attacks.exact_auc import ciphertexts, simulated
from fhe_auc_benchmarks.attacks.exact_auc.strategies import DESCRIPTIONS, STRATEGIES
from fhe_auc_benchmarks.attacks.outcome import CONFIDENCE, Outcome
from fhe_auc_protocols.exact_auc.result_check import soundness_of_check

_REAL_PRIME = 2_199_023_288_321  # the first above 2^41 that is 1 modulo 16384
_TOY_PRIME = 257
_GUESSING = "see everything in the clear, and choose the result that passes for most values of the secret point"
_COLUMNS = ("ciphertexts", "exact"), ("ciphertexts", "verified"), ("simulated", "one prime"), ("simulated", "toy")


class ExactAucTable:
    """Attacks on ``verified``, and on ``exact``: so many trials of each, on ciphertexts and in simulation; 0: none."""

    descriptions = MappingProxyType({**DESCRIPTIONS, simulated.GUESS: _GUESSING})
    header = ("attack", "exact, real", "verified, real", "one prime", f"t = {_TOY_PRIME}", "")

    def __init__(self, trials: int, simulated_trials: int, seed: int) -> None:
        self._trials, self._simulated_trials, self._seed = trials, simulated_trials, seed
        self._bound = soundness_of_check((_TOY_PRIME,), sums=2)

    def play(self, name: str) -> dict[str, Any]:
        """Play an attack on both protocols' ciphertexts where it can be, and in simulation."""
        real: dict[str, dict[str, Any] | None] = {"exact": None, "verified": None}
        guessing = name == simulated.GUESS
        if self._trials and not guessing and not STRATEGIES[name].rotates:
            for protocol in real:
                # Tags that exact sessions do not have cannot be tampered with.
                if protocol == "verified" or not STRATEGIES[name].on_tags:
                    real[protocol] = _summary(ciphertexts.run(name, protocol, self._trials, self._seed))
        simulation: dict[str, dict[str, Any] | None] = {"one prime": None, "toy": None}
        if number := self._simulated_trials:
            simulation["one prime"] = _summary(simulated.run(name, _REAL_PRIME, number, self._seed, ties=not guessing))
            simulation["toy"] = _summary(simulated.run(name, _TOY_PRIME, number, self._seed, ties=False))
        return {"ciphertexts": real, "simulated": simulation}

    def settings(self) -> dict[str, Any]:
        """Return the seed, and the proved bound on the toy prime's pass rate."""
        return {"seed": self._seed, "confidence": CONFIDENCE, "toy_bound": self._bound}

    def introduction(self) -> str:
        """Return what the printed table's numbers mean."""
        return (
            "Passes of so many trials: a pass is a wrong AUC or half-width that a party accepts, or a false "
            f'"undefined". None of n says that fewer than 3/n pass, with {CONFIDENCE:.0%} confidence. Simulated with '
            f"one prime of 41 bits, where a session has several, and with {_TOY_PRIME}, where passes can be counted: "
            f"there a rate of {self._bound:.4f} at most is proved."
        )

    def cells(self, played: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the printed row, after the attack's name."""
        found = [played[kind][which] for kind, which in _COLUMNS]
        # Parties accept, and what they accept is right.
        harmless = any(each and each["harmless"] == each["trials"] for each in found)
        passes = ("-" if each is None else f"{each['passed']:,}/{each['trials']:,}" for each in found)
        return *passes, "harmless" if harmless else ""


def _summary(outcome: Outcome) -> dict[str, Any]:
    return {name: value for name, value in outcome.summary().items() if name != "changed"}
