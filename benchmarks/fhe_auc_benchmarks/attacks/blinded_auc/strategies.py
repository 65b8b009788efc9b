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
    """One way of lying: what it is, what it makes of ciphertexts, and what of honest totals."""

    description: str
    lie: Lie
    simulated_lie: Callable[[Trials, Parameter], Totals]
    parameters: Callable[[TrialSetting], tuple[Parameter, ...]] | None = None
    """Values of the simulated lie's free parameter, among which the best is looked for; None: it has no parameter."""
    by_position: bool = False
    """Whether it touches single positions: simulated trials then draw far more random numbers."""


STRATEGIES: Mapping[str, BlindedStrategy] = {
    "scale-num": BlindedStrategy(
        "multiply num' of every execution by a constant", real.scale_num, simulated.scale_num, simulated.factors
    ),
    "scale-den": BlindedStrategy(
        "multiply den' of every execution by a constant", real.scale_den, simulated.scale_den, simulated.factors
    ),
    "scale-all": BlindedStrategy(
        "multiply all totals by a constant (changes nothing: r is the aggregator's own)",
        real.scale_all,
        simulated.scale_all,
        lambda _: ((1.0,),),
    ),
    "add-polynomial": BlindedStrategy(
        "add a polynomial of per-class sums such as ΣX·Y, ΣX², ΣY² to num'",
        real.add_polynomial,
        simulated.add_polynomial,
        simulated.polynomials,
        by_position=True,
    ),
    "scale-but-guessed": BlindedStrategy(
        "scale X at all positions but those guessed to be the extra element's",
        real.scale_but_guessed,
        simulated.scale_positions,
        simulated.guessed_positions,
        by_position=True,
    ),
    "add-constant": BlindedStrategy(
        "add a constant to num' of every execution", real.add_constant, simulated.add_constant, simulated.constants
    ),
    "drop-party": BlindedStrategy(
        "leave one party's submission out of the sum", real.drop_party, simulated.leave_masks
    ),
    "count-twice": BlindedStrategy("add one party's submission twice", real.count_twice, simulated.leave_masks),
    "replay-session": BlindedStrategy(
        "replace a party's submission by the one it sent in another session", real.replay_session, simulated.leave_masks
    ),
    "replace-with-zero": BlindedStrategy(
        "replace a party's submission by an encryption of zero", real.replace_with_zero, simulated.leave_masks
    ),
    "replace-with-counts": BlindedStrategy(
        "replace a party's submission by an encryption of made-up counts",
        real.replace_with_counts,
        simulated.leave_masks,
    ),
    "zero-slots": BlindedStrategy(
        "set random positions to zero before the product",
        real.zero_slots,
        simulated.scale_positions,
        simulated.zeroed_positions,
        by_position=True,
    ),
    "scale-slots": BlindedStrategy(
        "scale random positions before the product",
        real.scale_slots,
        simulated.scale_positions,
        simulated.scaled_positions,
        by_position=True,
    ),
    "shift-bins": BlindedStrategy(
        "multiply X by Y of the neighbouring position",
        real.shift_bins,
        simulated.shift_bins,
        lambda _: tuple((value,) for value in (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)),
        by_position=True,
    ),
    "swap-executions": BlindedStrategy(
        "exchange the classes of two executions", real.swap_executions, simulated.swap_executions
    ),
    "stop-rotations": BlindedStrategy(
        "leave out the last rotations, so that slots hold partial sums",
        real.stop_rotations,
        simulated.stop_rotations,
        simulated.one_rotation_more_than_copies,
        by_position=True,
    ),
    "chosen-values": BlindedStrategy(
        "return an encryption of chosen totals, computed without the submissions",
        real.chosen_values,
        simulated.chosen_values,
        lambda _: tuple((sign * value,) for value in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0) for sign in (1, -1)),
    ),
    "earlier-result": BlindedStrategy(
        "return an earlier session's result", real.earlier_result, simulated.earlier_result
    ),
    "other-subset": BlindedStrategy(
        "return the result over some of the parties only", real.other_subset, simulated.leave_masks
    ),
    "flip-bytes": BlindedStrategy("flip bytes of the result", real.flip_bytes, simulated.flip_bytes),
}
"""By name, in the order of the printed table."""

NEED_EARLIER = frozenset({"replay-session", "earlier-result"})
"""Strategies for which ciphertexts of an earlier session are kept."""
