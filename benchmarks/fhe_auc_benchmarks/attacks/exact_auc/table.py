"""``fhe-auc attack --protocol verified``: the table of what lies come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from fhe_auc_benchmarks.attacks.exact_auc import ciphertexts, helped, simulated
from fhe_auc_benchmarks.attacks.exact_auc.strategies import DESCRIPTIONS, STRATEGIES
from fhe_auc_benchmarks.attacks.outcome import CONFIDENCE, AttackOutcome

_REAL_PRIME = 2_199_023_288_321  # the first above 2^41 that is 1 modulo 16384
_TOY_PRIME = 257
_TOY_BOUND = 2 / (_TOY_PRIME - 1)  # the theorem's: no sum of an AUC has a larger degree than 2
_COLUMNS = ("ciphertexts", "exact"), ("ciphertexts", "verified"), ("simulated", "one prime"), ("simulated", "toy")
_PASSES = (
    "Passes of so many trials: a pass is a wrong AUC, half-width, P or N that a party accepts, or a false "
    f'"undefined". None of n says that fewer than 3/n pass, with {CONFIDENCE:.0%} confidence.'
)


class ExactAucTable:
    """Attacks on ``verified``, and on ``exact``: so many trials of each, on ciphertexts and in simulation; 0: none."""

    descriptions = DESCRIPTIONS
    header = ("attack", "exact, real", "verified, real", "one prime", f"t = {_TOY_PRIME}", "")

    def __init__(self, trials: int, simulated_trials: int, seed: int) -> None:
        self._trials, self._simulated_trials, self._seed = trials, simulated_trials, seed

    def play(self, name: str) -> dict[str, Any]:
        """Play an attack on both protocols' ciphertexts where it can be, and in simulation."""
        strategy = STRATEGIES[name]
        real = _on_ciphertexts(ciphertexts.run, name, strategy.on_tags, self._trials, self._seed)
        simulation: dict[str, dict[str, Any] | None] = {"one prime": None, "toy": None}
        if self._simulated_trials and strategy.tamper is None:
            for prime, modulus in (("one prime", _REAL_PRIME), ("toy", _TOY_PRIME)):
                simulation[prime] = _summary(simulated.run(name, modulus, self._simulated_trials, self._seed))
        return {"ciphertexts": real, "simulated": simulation}

    def settings(self) -> dict[str, Any]:
        """Return the seed, and the proved bound on the toy prime's pass rate."""
        return {"seed": self._seed, "confidence": CONFIDENCE, "toy_bound": _TOY_BOUND}

    def introduction(self) -> str:
        """Return what the printed table's numbers mean."""
        return (
            f"{_PASSES} Simulated with "
            f"one prime of 42 bits, and with {_TOY_PRIME}, where passes can be counted: there a rate of "
            f"{_TOY_BOUND:.4f} at most is proved."
        )

    def cells(self, played: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the printed row, after the attack's name."""
        return _cells([played[kind][which] for kind, which in _COLUMNS])


class HelpedTable:
    """Attacks on sessions of ``verified``, and of ``exact``, with a helper: so many trials of each."""

    descriptions: ClassVar[Mapping[str, str]] = {
        name: f"{attack.who}: {attack.description}" for name, attack in helped.ATTACKS.items()
    }
    header = ("attack", "exact", "verified", "")

    def __init__(self, trials: int, seed: int) -> None:
        self._trials, self._seed = trials, seed

    def play(self, name: str) -> dict[str, Any]:
        """Play an attack on both protocols where it can be."""
        attack = helped.ATTACKS[name]
        return {"ciphertexts": _on_ciphertexts(helped.run, name, attack.on_tags, self._trials, self._seed)}

    def settings(self) -> dict[str, Any]:
        """Return the seed."""
        return {"seed": self._seed, "confidence": CONFIDENCE}

    def introduction(self) -> str:
        """Return what the printed table's numbers mean."""
        return _PASSES

    def cells(self, played: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the printed row, after the attack's name."""
        found = list(played["ciphertexts"].values())
        *passes, note = _cells(found)
        refused = any(each and helped.THE_HELPER in each["refused"] for each in found)
        return *passes, "the helper refuses" if refused else note


def _on_ciphertexts(
    run: Callable[[str, str, int, int], AttackOutcome], name: str, on_tags: bool, trials: int, seed: int
) -> dict[str, dict[str, Any] | None]:
    real: dict[str, dict[str, Any] | None] = {"exact": None, "verified": None}
    for protocol in real if trials else ():
        # Tags that exact sessions do not have cannot be tampered with.
        if protocol == "verified" or not on_tags:
            real[protocol] = _summary(run(name, protocol, trials, seed))
    return real


def _cells(found: Sequence[Mapping[str, Any] | None]) -> tuple[str, ...]:
    # Parties accept, and what they accept is right.
    harmless = any(each and each["harmless"] == each["trials"] for each in found)
    passes = ("-" if each is None else f"{each['passed']:,}/{each['trials']:,}" for each in found)
    return *passes, "harmless" if harmless else ""


def _summary(outcome: AttackOutcome) -> dict[str, Any]:
    return {name: value for name, value in outcome.summary().items() if name != "changed"}
