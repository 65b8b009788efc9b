"""A result of an aggregator that may lie is accepted if it is honest, and refused, with no number, in all other cases.

How results of the semi-honest protocol are checked stands in test_semi_honest.py: it takes their circuit.
"""

import functools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc import ckks
from fhe_auc.base.errors import VerificationError
from fhe_auc_protocols.blinded_auc import split_shares
from fhe_auc_protocols.blinded_auc.error_bound import MAX_AMPLIFICATION, encoding_error, error_bound, fresh_noise
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.result_check import Recovered, accept, recover_verified
from fhe_auc_protocols.blinded_auc.split_shares import Execution, Stream, amplification
from tests.support.malicious_sessions import assert_silent, plan_for

slow = functools.partial(pytest.param, marks=pytest.mark.slow)


def execution_with(multipliers: Any) -> Execution:
    """An execution of which recovery sees all that it looks at."""
    nothing = np.empty(0)
    return Execution(np.asarray(multipliers, complex), nothing, nothing, nothing, nothing, nothing, nothing)


def drawn_executions(number: int, seed: int = 0) -> list[Execution]:
    source = Stream(seed.to_bytes(32, "big"), bytes(32), "test")
    return [execution_with(split_shares._multipliers(source)) for _ in range(number)]


def totals_of(value: complex, den: float, executions: Sequence[Execution], scale: float) -> ckks.Slots:
    """Class totals without noise, of an AUC and binning error `value`, blinded by `scale`, which includes the gain."""
    found = []
    for each in executions:
        main, extra, totals = each.products
        found += [scale * den * (main * value + extra), scale * den * totals]
    return np.array(found, complex)


def worst_multipliers() -> np.ndarray:
    """Multipliers that amplify as much as is allowed: R0R1 as small as it may be, for R2R3 at 1 and R4R5 at 1."""
    # (1 + (x + 1)/1)/x = 10 at x = 2/9
    worst = np.array([2 / 9 / 0.5, 0.5, 1, 1, 1, 1])
    assert amplification(worst) == pytest.approx(MAX_AMPLIFICATION)
    return worst


def assert_refused(check: Any, values: ckks.Slots, plan: AucPlan, executions: Sequence[Execution], why: str) -> str:
    """With no digit in the text, nor in what it is chained to."""
    with pytest.raises(VerificationError, match=why) as caught:
        check(values, plan, executions)
    assert_silent(caught.value)
    return str(caught.value)


class TestAcceptance:
    CHOSEN = plan_for()

    @property
    def scale(self) -> float:
        return self.CHOSEN.least_multiplier * self.CHOSEN.packing.gain

    def accepted(self, totals: ckks.Slots, executions: Sequence[Execution]) -> Recovered:
        return accept(totals, self.CHOSEN, executions)

    def refused(self, totals: ckks.Slots, executions: Sequence[Execution], why: str) -> str:
        return assert_refused(accept, totals, self.CHOSEN, executions, why)

    @settings(max_examples=60, deadline=None)
    @given(
        st.integers(0, 10**6),
        st.integers(1, 10**5),
        st.integers(1, 10**5),
        st.floats(0, 1),
        st.floats(0, 16),
        st.sampled_from([2, 4, 8]),
        st.integers(0, 1000),
    )
    def test_what_is_recovered_from_totals_without_noise_is_the_exact_fraction(
        self, part, positives, negatives, tied, multiplier_bits, number, seed
    ):
        den = 2 * positives * negatives
        num = min(part, den)
        tie = int(tied * min(num, den - num) / 2)
        executions = drawn_executions(number, seed)
        found = self.accepted(
            totals_of(complex(num / den, tie / den), den, executions, self.scale * 2**multiplier_bits), executions
        )
        assert found.auc == pytest.approx(num / den, abs=1e-12)
        assert found.binning_error == pytest.approx(tie / den, abs=1e-12)

    @pytest.mark.parametrize("multipliers", ["drawn", "worst"])
    @pytest.mark.parametrize("number", [slow(2), 4, slow(8)])
    @pytest.mark.parametrize("backend", [slow("openfhe"), "tenseal"])
    def test_honest_totals_are_accepted_in_every_one_of_2000_draws(self, number, multipliers, backend):
        """24,000 draws in all, 4,000 of them quick, at the least rows and smallest multiplier, with all of the noise.

        The plan's bound is seven standard deviations of noise and all of the encoding error. Each total gets Gaussian
        noise of that standard deviation, and an encoding error uniform up to its bound.
        """
        chosen = plan_for(backend=backend, thresholds=100, parties=100, classes=2 * number)
        rng = np.random.default_rng(number)
        source = Stream(number.to_bytes(32, "big"), bytes(32), "honest")
        den = 2.0 * (chosen.workload.min_rows - 1)
        scale = chosen.least_multiplier * chosen.packing.gain
        flooding = chosen.flooding_deviation / math.sqrt(chosen.packing.slots / chosen.packing.classes)
        fresh = fresh_noise(chosen) / 7 * scale * den
        encoding = encoding_error(chosen) * scale * den
        worst = execution_with(worst_multipliers())
        largest = 0.0
        for _ in range(2000):
            if multipliers == "worst":
                executions = [worst] * number
            else:
                executions = [execution_with(split_shares._multipliers(source)) for _ in range(number)]
            auc = rng.choice([0, 1, rng.random()])
            value = complex(auc, min(auc, 1 - auc) * rng.random())
            shape = 2 * number
            noise = flooding * complex_normal(rng, shape) + fresh * complex_normal(rng, shape)
            noise += encoding * rng.uniform(-1, 1, shape)
            totals = totals_of(value, den, executions, scale) + noise
            found = accept(totals, chosen, executions)
            largest = max(largest, abs(found.auc - auc), abs(found.binning_error - value.imag))
        assert largest <= error_bound(chosen)
        assert largest > error_bound(chosen) / 100  # something was added

    @pytest.mark.parametrize("backend", ["openfhe", slow("tenseal")])
    def test_encoding_errors_of_either_sign_are_accepted_on_the_larger_ring(self, backend):
        """There they are all of the plan's bound. They are no noise: two of them may be as far apart as their sum."""
        chosen = plan_for(backend=backend, thresholds=4000, parties=100)
        rng = np.random.default_rng(1)
        source = Stream(bytes(32), bytes(32), "encoding")
        scale = chosen.least_multiplier * chosen.packing.gain
        den = 2.0 * (chosen.workload.min_rows - 1)
        error = encoding_error(chosen) * scale * den
        assert 10 * encoding_error(chosen) > 0.99 * error_bound(chosen)
        for _ in range(1000):
            executions = [execution_with(split_shares._multipliers(source)) for _ in range(4)]
            totals = totals_of(rng.choice([0, 1, rng.random()]), den, executions, scale)
            accept(totals + error * rng.choice([-1, 1], 8), chosen, executions)

    @pytest.mark.parametrize("part", [1, -1, 1j, -1j], ids=["AUC up", "AUC down", "error up", "error down"])
    @pytest.mark.parametrize("number", [2, 4, 8])
    def test_executions_may_differ_by_as_much_as_is_allowed_and_no_more(self, part, number):
        executions = drawn_executions(number, number)
        allowed = [self.CHOSEN.tolerance * amplification(each.multipliers) / 10 for each in executions]
        for index, (execution, own) in enumerate(zip(executions, allowed, strict=True)):
            limit = min(math.hypot(own, other) for j, other in enumerate(allowed) if j != index)
            for factor in (0.999, 1.001):
                totals = totals_of(0.6 + 0.1j, 5000, executions, self.scale)
                totals[2 * index] += factor * limit * part * self.scale * 5000 * execution.products[0]
                if factor < 1:
                    found = self.accepted(totals, executions)
                    assert abs(found.auc - 0.6) <= self.CHOSEN.tolerance
                else:
                    self.refused(totals, executions, "the executions disagree")

    def test_one_execution_that_is_off_or_a_total_that_is_no_number_is_refused(self):
        for index in range(8):
            executions = drawn_executions(8)
            totals = totals_of(0.6, 5000, executions, self.scale)
            totals[2 * index] *= 1 + 1e-4
            self.refused(totals, executions, "the executions disagree")
        for value in [math.nan, complex(0, math.nan), complex(math.nan, math.nan)]:
            executions = drawn_executions(4)
            for position in range(8):
                totals = totals_of(0.6, 5000, executions, self.scale)
                totals[position] = value
                with np.errstate(invalid="ignore"):  # `recover_verified` lets none through; comparisons refuse it
                    self.refused(totals, executions, "disagree|near zero|finite")

    def test_the_auc_and_a_negative_resolution_are_clipped_within_the_tolerance_and_refused_beyond(self):
        for expected in [1.0, 0.0]:
            executions = drawn_executions(4)
            beyond = expected + 0.9 * self.CHOSEN.tolerance * (1 if expected else -1)
            assert self.accepted(totals_of(beyond, 5000, executions, self.scale), executions).auc == expected
        executions = drawn_executions(4)
        totals = totals_of(complex(0.7, -0.5 * self.CHOSEN.tolerance), 5000, executions, self.scale)
        assert self.accepted(totals, executions).binning_error == 0
        for value in ["1 + 1.1τ", "-1.1τ", "2", "-3"]:
            tau = self.CHOSEN.tolerance
            number = {"1 + 1.1τ": 1 + 1.1 * tau, "-1.1τ": -1.1 * tau, "2": 2.0, "-3": -3.0}[value]
            executions = drawn_executions(4)
            totals = totals_of(number, 5000, executions, self.scale)
            text = self.refused(totals, executions, "the AUC is outside its range")
            assert not re.search(r"\d", text)  # not even the range

    def test_a_denominator_near_zero_is_refused_and_that_of_one_pair_of_rows_is_not(self):
        """Of one execution or all; one positive and one negative row give 2 at the smallest multiplier."""
        for size in [0.0, 1e-30, 0.1, 0.49]:
            for which in [0, 1, 3]:
                executions = drawn_executions(4)
                totals = totals_of(0.6, 2, executions, self.scale)
                totals[2 * which : 2 * which + 2] *= size
                self.refused(totals, executions, "a denominator is near zero")
                self.refused(totals_of(0.6, 2 * size, executions, self.scale), executions, "a denominator is near zero")
        for seed in range(50):
            executions = drawn_executions(4, seed)
            for den in (2, 1.01):
                assert self.accepted(totals_of(1, den, executions, self.scale), executions).auc == pytest.approx(1)
            self.refused(totals_of(1, 0.99, executions, self.scale), executions, "a denominator is near zero")


def complex_normal(rng: np.random.Generator, size: int) -> ckks.Slots:
    """Independent complex Gaussians of E|z|² = 1."""
    return (rng.standard_normal(size) + 1j * rng.standard_normal(size)) / math.sqrt(2)


class TestSlots:
    CHOSEN = plan_for()

    def slots(self, *, noise: bool = True, seed: int = 0) -> tuple[ckks.Slots, list[Execution]]:
        executions = drawn_executions(4)
        totals = totals_of(0.6 + 0.1j, 5000, executions, self.CHOSEN.least_multiplier * self.CHOSEN.packing.gain)
        found = np.tile(totals, self.CHOSEN.packing.slots // len(totals))
        if noise:
            rng = np.random.default_rng(seed)
            found = found + self.CHOSEN.flooding_deviation * complex_normal(rng, len(found))
        return found, executions

    def refused(self, slots: ckks.Slots, executions: Sequence[Execution], why: str) -> None:
        assert_refused(recover_verified, slots, self.CHOSEN, executions, why)

    @pytest.mark.parametrize("draws", [200, slow(1000)])
    def test_flooded_slots_are_accepted_in_every_draw(self, draws):
        for seed in range(draws):
            slots, executions = self.slots(seed=seed)
            found = recover_verified(slots, self.CHOSEN, executions)
            assert found.auc == pytest.approx(0.6, abs=error_bound(self.CHOSEN))
            assert found.binning_error == pytest.approx(0.1, abs=error_bound(self.CHOSEN))

    @pytest.mark.parametrize("position", [0, 1, 7, 8, 2049, 4095])
    @pytest.mark.parametrize("part", [1, -1, 1j])
    def test_a_single_slot_that_differs_from_its_class_is_refused(self, position, part):
        slots, executions = self.slots(noise=False)
        size = np.abs(slots).max()
        limit = 10 * self.CHOSEN.flooding_deviation + 2.0**-40 * size
        slots[position] += 0.99 * limit * part
        recover_verified(slots, self.CHOSEN, executions)
        slots[position] += 0.03 * limit * part
        self.refused(slots, executions, "the slots of a class differ")

    def test_partial_sums_and_values_that_are_not_finite_zero_random_or_of_other_classes_are_refused(self):
        """Half of the slots with half of the total: what rotations that stop early leave."""
        slots, executions = self.slots()
        slots.reshape(-1, 8)[::2] /= 2
        self.refused(slots, executions, "the slots of a class differ")
        for value in [math.nan, math.inf, -math.inf, complex(0, math.inf), complex(1, math.nan)]:
            for whole in [False, True]:
                slots, executions = self.slots()
                slots[:: 1 if whole else 4096] = value
                self.refused(slots, executions, "values are not finite")
        slots, executions = self.slots()
        self.refused(0 * slots, executions, "a denominator is near zero")
        rng = np.random.default_rng(0)
        _, executions = self.slots()
        for size in (1e-3, 1.0, 1e9, 1e15, 1e100):
            self.refused(size * complex_normal(rng, 4096), executions, "slots of a class differ|near zero")
        # Executions' classes rotated by one.
        slots, executions = self.slots(noise=False)
        self.refused(np.roll(slots, 1), executions, "the executions disagree")
        self.refused(np.roll(slots, 2), executions, "the executions disagree")
        # Fixed secrets; by chance four executions would agree in 1 of 10^15 cases.
        slots, _ = self.slots()
        for seed in range(1, 200):
            self.refused(slots, drawn_executions(4, seed), "the executions disagree")
