"""What a lying aggregator may try, by name; each is played on real ciphertexts and on the plaintext algebra.

`ciphertexts` plays strategies on ciphertexts, `simulated` on the numbers that ciphertexts hold, millions of times;
`bounds` computes what luck may reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fhe_auc_benchmarks.attacks.blinded_auc import ciphertext_lies as real
from fhe_auc_benchmarks.attacks.blinded_auc import simulated_lies as simulated
from fhe_auc_benchmarks.attacks.blinded_auc.ciphertext_lies import Lie
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_lies import Parameter
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Totals, Trials, TrialSetting


@dataclass(frozen=True)
class BlindedStrategy:
    """One way of lying: what it makes of ciphertexts, and what of honest totals."""

    lie: Lie
    simulated_lie: Callable[[Trials, Parameter], Totals] = simulated.leave_masks
    parameters: Callable[[TrialSetting], tuple[Parameter, ...]] | None = None
    """Values of the simulated lie's free parameter, among which the best is looked for; None: it has no parameter."""
    by_position: bool = False
    """Whether it touches single positions: simulated trials then draw far more random numbers."""

    @property
    def description(self) -> str:
        """What it is, as the lie's docstring has it."""
        first = (self.lie.__doc__ or "").partition(".\n")[0].removesuffix(".")
        return first[:1].lower() + first[1:]


_ALL = (
    BlindedStrategy(real.scale_num, simulated.scale_num, simulated.factors),
    BlindedStrategy(real.scale_den, simulated.scale_den, simulated.factors),
    BlindedStrategy(real.scale_all, simulated.scale_all, lambda _: ((1.0,),)),
    BlindedStrategy(real.add_polynomial, simulated.add_polynomial, simulated.polynomials, by_position=True),
    BlindedStrategy(real.scale_but_guessed, simulated.scale_positions, simulated.guessed_positions, by_position=True),
    BlindedStrategy(real.add_constant, simulated.add_constant, simulated.constants),
    BlindedStrategy(real.drop_party),
    BlindedStrategy(real.count_twice),
    BlindedStrategy(real.replay_session),
    BlindedStrategy(real.replace_with_zero),
    BlindedStrategy(real.replace_with_counts),
    BlindedStrategy(real.zero_slots, simulated.scale_positions, simulated.zeroed_positions, by_position=True),
    BlindedStrategy(real.scale_slots, simulated.scale_positions, simulated.scaled_positions, by_position=True),
    BlindedStrategy(real.shift_bins, simulated.shift_bins, simulated.shifts, by_position=True),
    BlindedStrategy(real.swap_executions, simulated.swap_executions),
    BlindedStrategy(
        real.stop_rotations, simulated.stop_rotations, simulated.one_rotation_more_than_copies, by_position=True
    ),
    BlindedStrategy(real.chosen_values, simulated.chosen_values, simulated.chosen_aucs),
    BlindedStrategy(real.earlier_result, simulated.earlier_result),
    BlindedStrategy(real.other_subset),
    BlindedStrategy(real.flip_bytes, simulated.flip_bytes),
)
STRATEGIES: Mapping[str, BlindedStrategy] = {each.lie.__name__.replace("_", "-"): each for each in _ALL}
"""By name, in the order of the printed table."""

NEED_EARLIER = frozenset({"replay-session", "earlier-result"})
"""Strategies for which ciphertexts of an earlier session are kept."""
