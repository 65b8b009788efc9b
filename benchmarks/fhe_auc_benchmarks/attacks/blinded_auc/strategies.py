"""What a lying aggregator may try, by name; each is played on real ciphertexts and on the plaintext algebra.

`ciphertexts` plays strategies on ciphertexts, `simulated` on the numbers that ciphertexts hold, millions of times;
`bounds` computes what luck may reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fhe_auc_benchmarks.attacks.blinded_auc import ciphertext_lies, simulated_lies
from fhe_auc_benchmarks.attacks.blinded_auc.ciphertext_lies import Lie
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_lies import Parameter
from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import Setting, Totals, Trials


@dataclass(frozen=True)
class Strategy:
    """One way of lying.

    Attributes
    ----------
    description : str
        What the aggregator does.
    lie : callable
        What it makes of the ciphertexts that it has.
    simulated_lie : callable
        What it makes of honest totals.
    parameters : callable or None
        Values of its free parameter, among which the best for a setting is looked for; None: it has no parameter.
    by_position : bool
        Whether it touches single positions: simulated trials then draw far more random numbers.
    """

    description: str
    lie: Lie
    simulated_lie: Callable[[Trials, Parameter], Totals]
    parameters: Callable[[Setting], tuple[Parameter, ...]] | None = None
    by_position: bool = False


STRATEGIES: Mapping[str, Strategy] = {
    "scale-num": Strategy(
        "multiply num' of every execution by a constant",
        ciphertext_lies.scale_num,
        simulated_lies.scale_num,
        simulated_lies.factors,
    ),
    "scale-den": Strategy(
        "multiply den' of every execution by a constant",
        ciphertext_lies.scale_den,
        simulated_lies.scale_den,
        simulated_lies.factors,
    ),
    "scale-all": Strategy(
        "multiply all totals by a constant (changes nothing: r is the aggregator's own)",
        ciphertext_lies.scale_all,
        simulated_lies.scale_all,
        lambda _: ((1.0,),),
    ),
    "add-polynomial": Strategy(
        "add a polynomial of per-class sums such as ΣX·Y, ΣX², ΣY² to num'",
        ciphertext_lies.add_polynomial,
        simulated_lies.add_polynomial,
        simulated_lies.polynomials,
        by_position=True,
    ),
    "scale-but-guessed": Strategy(
        "scale X at all positions but those guessed to be the extra element's",
        ciphertext_lies.scale_but_guessed,
        simulated_lies.scale_positions,
        simulated_lies.guessed_positions,
        by_position=True,
    ),
    "add-constant": Strategy(
        "add a constant to num' of every execution",
        ciphertext_lies.add_constant,
        simulated_lies.add_constant,
        simulated_lies.constants,
    ),
    "drop-party": Strategy(
        "leave one party's submission out of the sum", ciphertext_lies.drop_party, simulated_lies.leave_masks
    ),
    "count-twice": Strategy(
        "add one party's submission twice", ciphertext_lies.count_twice, simulated_lies.leave_masks
    ),
    "replay-session": Strategy(
        "replace a party's submission by the one it sent in another session",
        ciphertext_lies.replay_session,
        simulated_lies.leave_masks,
    ),
    "replace-with-zero": Strategy(
        "replace a party's submission by an encryption of zero",
        ciphertext_lies.replace_with_zero,
        simulated_lies.leave_masks,
    ),
    "replace-with-counts": Strategy(
        "replace a party's submission by an encryption of made-up counts",
        ciphertext_lies.replace_with_counts,
        simulated_lies.leave_masks,
    ),
    "zero-slots": Strategy(
        "set random positions to zero before the product",
        ciphertext_lies.zero_slots,
        simulated_lies.scale_positions,
        simulated_lies.zeroed_positions,
        by_position=True,
    ),
    "scale-slots": Strategy(
        "scale random positions before the product",
        ciphertext_lies.scale_slots,
        simulated_lies.scale_positions,
        simulated_lies.scaled_positions,
        by_position=True,
    ),
    "shift-bins": Strategy(
        "multiply X by Y of the neighbouring position",
        ciphertext_lies.shift_bins,
        simulated_lies.shift_bins,
        lambda _: tuple((value,) for value in (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)),
        by_position=True,
    ),
    "swap-executions": Strategy(
        "exchange the classes of two executions", ciphertext_lies.swap_executions, simulated_lies.swap_executions
    ),
    "stop-rotations": Strategy(
        "leave out the last rotations, so that slots hold partial sums",
        ciphertext_lies.stop_rotations,
        simulated_lies.stop_rotations,
        simulated_lies.one_rotation_more_than_copies,
        by_position=True,
    ),
    "chosen-values": Strategy(
        "return an encryption of chosen totals, computed without the submissions",
        ciphertext_lies.chosen_values,
        simulated_lies.chosen_values,
        lambda _: tuple((sign * value,) for value in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0) for sign in (1, -1)),
    ),
    "earlier-result": Strategy(
        "return an earlier session's result", ciphertext_lies.earlier_result, simulated_lies.earlier_result
    ),
    "other-subset": Strategy(
        "return the result over some of the parties only", ciphertext_lies.other_subset, simulated_lies.leave_masks
    ),
    "flip-bytes": Strategy("flip bytes of the result", ciphertext_lies.flip_bytes, simulated_lies.flip_bytes),
}
"""By name, in the order of the printed table."""

NEED_EARLIER = frozenset({"replay-session", "earlier-result"})
"""Strategies for which ciphertexts of an earlier session are kept."""
