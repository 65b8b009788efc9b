"""What a lying aggregator may try, by name; each is played on real ciphertexts and on the plaintext algebra.

`ciphertexts` plays strategies on ciphertexts, `simulated` on the numbers that ciphertexts hold, millions of times;
`bounds` computes what luck may reach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fhe_auc_benchmarks.attacks.blinded_auc import ciphertext_lies as on_ciphertexts
from fhe_auc_benchmarks.attacks.blinded_auc import simulated_lies as on_numbers
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


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "scale-num": Strategy(
            "multiply num' of every execution by a constant",
            on_ciphertexts.scale_num,
            on_numbers.scale_num,
            on_numbers.factors,
        ),
        "scale-den": Strategy(
            "multiply den' of every execution by a constant",
            on_ciphertexts.scale_den,
            on_numbers.scale_den,
            on_numbers.factors,
        ),
        "scale-all": Strategy(
            "multiply all totals by a constant (changes nothing: r is the aggregator's own)",
            on_ciphertexts.scale_all,
            on_numbers.scale_all,
            lambda _: ((1.0,),),
        ),
        "add-polynomial": Strategy(
            "add a polynomial of per-class sums such as ΣX·Y, ΣX², ΣY² to num'",
            on_ciphertexts.add_polynomial,
            on_numbers.add_polynomial,
            on_numbers.polynomials,
            by_position=True,
        ),
        "scale-but-guessed": Strategy(
            "scale X at all positions but those guessed to be the extra element's",
            on_ciphertexts.scale_but_guessed,
            on_numbers.scale_positions,
            on_numbers.guessed_positions,
            by_position=True,
        ),
        "add-constant": Strategy(
            "add a constant to num' of every execution",
            on_ciphertexts.add_constant,
            on_numbers.add_constant,
            on_numbers.constants,
        ),
        "drop-party": Strategy(
            "leave one party's submission out of the sum", on_ciphertexts.drop_party, on_numbers.leave_masks
        ),
        "count-twice": Strategy("add one party's submission twice", on_ciphertexts.count_twice, on_numbers.leave_masks),
        "replay-session": Strategy(
            "replace a party's submission by the one it sent in another session",
            on_ciphertexts.replay_session,
            on_numbers.leave_masks,
        ),
        "replace-with-zero": Strategy(
            "replace a party's submission by an encryption of zero",
            on_ciphertexts.replace_with_zero,
            on_numbers.leave_masks,
        ),
        "replace-with-counts": Strategy(
            "replace a party's submission by an encryption of made-up counts",
            on_ciphertexts.replace_with_counts,
            on_numbers.leave_masks,
        ),
        "zero-slots": Strategy(
            "set random positions to zero before the product",
            on_ciphertexts.zero_slots,
            on_numbers.scale_positions,
            on_numbers.zeroed_positions,
            by_position=True,
        ),
        "scale-slots": Strategy(
            "scale random positions before the product",
            on_ciphertexts.scale_slots,
            on_numbers.scale_positions,
            on_numbers.scaled_positions,
            by_position=True,
        ),
        "shift-bins": Strategy(
            "multiply X by Y of the neighbouring position",
            on_ciphertexts.shift_bins,
            on_numbers.shift_bins,
            lambda _: tuple((value,) for value in (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)),
            by_position=True,
        ),
        "swap-executions": Strategy(
            "exchange the classes of two executions", on_ciphertexts.swap_executions, on_numbers.swap_executions
        ),
        "stop-rotations": Strategy(
            "leave out the last rotations, so that slots hold partial sums",
            on_ciphertexts.stop_rotations,
            on_numbers.stop_rotations,
            on_numbers.one_rotation_more_than_copies,
            by_position=True,
        ),
        "chosen-values": Strategy(
            "return an encryption of chosen totals, computed without the submissions",
            on_ciphertexts.chosen_values,
            on_numbers.chosen_values,
            lambda _: tuple((sign * value,) for value in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0) for sign in (1, -1)),
        ),
        "earlier-result": Strategy(
            "return an earlier session's result", on_ciphertexts.earlier_result, on_numbers.earlier_result
        ),
        "other-subset": Strategy(
            "return the result over some of the parties only", on_ciphertexts.other_subset, on_numbers.leave_masks
        ),
        "flip-bytes": Strategy("flip bytes of the result", on_ciphertexts.flip_bytes, on_numbers.flip_bytes),
    }
)
"""By name, in the order of the printed table."""

NEED_EARLIER = frozenset({"replay-session", "earlier-result"})
"""Strategies for which ciphertexts of an earlier session are kept."""
