"""A result is accepted if it is honest, and refused, with no number, in all other cases.

Results of real ciphertexts: `semi-honest` and `malicious` are checked in the same way here, each by its own rules.
"""

import math
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import ResultCheckError, UndefinedAucError, VerificationError
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc_protocols.blinded_auc.blinded_plan import CHECK_WEIGHT, disagreement, error_bound, total_error
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS, LEAST_MULTIPLIER
from fhe_auc_protocols.blinded_auc.masked_shares import Run, Stream, runs
from fhe_auc_protocols.blinded_auc.result_check import Totals, accept, recover
from tests.support.blinded_auc import Algebra, counts_of, largest_multiplier, smallest_multiplier
from tests.support.malicious_sessions import assert_silent, plan_for

slow = partial(pytest.param, marks=pytest.mark.slow)
BACKENDS = ckks.available_backends()
PLAN = plan_for()
TAU = PLAN.tolerance

SECRETS = runs(bytes(32), bytes(32), PLAN)


def secrets_of(seed: int) -> list[Run]:
    return [Run.draw(Stream(seed.to_bytes(32, "big"), bytes(32), "test", number), 16) for number in range(2)]


def totals_of(
    num: float, tie: float = 0, den: float = 5000, scale: float = LEAST_MULTIPLIER, secrets: Any = SECRETS
) -> Totals:
    """Class totals without noise: 2·r·A·B·(num + i·tie + c·den) in fractions of den."""
    value = [run.factors * run.common * (num + 1j * tie + run.den_factors) for run in secrets]
    return 2 * scale * den * np.array(value)


def refused(totals: Totals, why: str, secrets: Any = SECRETS) -> None:
    """With no digit in the text, nor in what it is chained to, and `check` says which check failed."""
    with pytest.raises(VerificationError) as caught:
        accept(totals, PLAN, secrets)
    assert caught.value.check == why
    assert_silent(caught.value)


def unseen(run: Run) -> Totals:
    """A unit vector that no unknown of this run's equations accounts for, as what both its totals would be off by."""
    return np.ascontiguousarray(np.linalg.svd(run.equations)[0][:, 3]).view(complex)


class TestForgedResults:
    def test_values_that_are_not_finite_are_refused_wherever_they_stand(self):
        for value in (math.nan, math.inf, -math.inf, complex(0, math.nan), complex(1, -math.inf)):
            for place in np.ndindex(2, 2):
                totals = totals_of(0.6)
                totals[place] = value
                refused(totals, "finite")
        for size in (1e150, 1e300, 1.7e308):  # nor is there a number that overflows on the way
            for phase in (1, 1j):
                with pytest.raises(VerificationError):
                    accept(np.full((2, 2), size * phase), PLAN, SECRETS)

    def test_a_den_of_zero_or_below_is_refused_and_that_of_one_pair_of_rows_is_not(self):
        refused(np.zeros((2, 2), complex), "denominator")
        for den in (-5000, -2, 1e-30, 0.1, 0.999):
            refused(totals_of(0.6, den=den), "denominator")
        for den in (1.001, 2):
            assert accept(totals_of(1, den=den), PLAN, SECRETS).auc == pytest.approx(1)

    @pytest.mark.parametrize("run", [0, 1])
    def test_runs_that_disagree_by_more_than_the_tolerance_are_refused_and_by_less_are_not(self, run):
        for off in (-1.01, -0.99, 0.99, 1.01, 100, 1e5):
            totals = totals_of(0.6, 0.1)
            totals[run] = totals_of(0.6 + off * TAU, 0.1)[run]
            if abs(off) > 1:
                refused(totals, "executions")
            else:
                assert abs(accept(totals, PLAN, SECRETS).auc - 0.6) <= TAU

    @pytest.mark.parametrize("run", [0, 1])
    def test_where_both_runs_give_the_same_wrong_auc_their_equations_disagree(self, run):
        """Each run has four equations for three unknowns, and both have three in common."""
        both = totals_of(0.6, 0.1)
        for den in (0.999, 1.001, 1.5):  # a run under another multiplier, or with another den
            totals = both.copy()
            totals[run] *= den
            refused(totals, "equations")
        totals[run] = totals_of(0.6, 0.1001)[run]  # with another tie
        refused(totals, "equations")
        wrong = totals_of(0.7, 0.1)
        wrong[run] = totals_of(0.7, 0.2, 4000)[run]
        refused(wrong, "equations")
        for factor in (0.99, 1.01):  # what a run's own equations alone tell
            totals = both.copy()
            totals[run] += 2 * LEAST_MULTIPLIER * 5000 * factor * TAU * unseen(SECRETS[run])
            if factor < 1:
                assert accept(totals, PLAN, SECRETS).auc == pytest.approx(0.6, abs=1e-12)
            else:
                refused(totals, "equations")

    def test_an_auc_a_tie_or_a_den_outside_its_range_is_refused_and_within_the_tolerance_is_clipped(self):
        for num, tie in [(1 + 1.01 * TAU, 0), (-1.01 * TAU, 0), (2, 0), (-3, 0), (0.5, 1 + 1.01 * TAU), (0.5, -0.1)]:
            refused(totals_of(num, tie), "range")
        assert accept(totals_of(1 + 0.99 * TAU), PLAN, SECRETS) == (1, pytest.approx(0, abs=1e-12))
        assert accept(totals_of(-0.99 * TAU, -0.99 * TAU), PLAN, SECRETS) == (0, 0)
        largest = 2.0**BLINDING_BITS * PLAN.workload.max_rows**2 / 2
        accept(totals_of(0.6, den=largest, scale=1), PLAN, SECRETS)
        for excess in (1 + 2e-6, 4, 1e9):
            refused(totals_of(0.6, den=largest * excess, scale=1), "range")

    def test_every_other_total_is_refused(self):
        """Of no secrets at all, of others, swapped, conjugate, turned, or with a constant added to all."""
        honest = totals_of(0.6, 0.1)
        others = [honest[::-1], honest[:, ::-1], honest.conj(), 1j * honest, -honest, honest + honest.mean(), honest**2]
        others += [totals_of(0.6, 0.1, secrets=secrets_of(seed)) for seed in range(100)]
        rng = np.random.default_rng(0)
        others += [size * rng.standard_normal((2, 4)).view(complex) for size in (1e-3, 1, 1e9, 1e15, 1e100) * 20]
        for totals in others:
            with pytest.raises(VerificationError) as caught:
                accept(totals, PLAN, SECRETS)
            assert_silent(caught.value)

    @pytest.mark.parametrize("backend", ["tenseal", slow("openfhe")])
    def test_honest_totals_with_all_the_noise_of_the_bound_are_accepted_in_every_draw(self, backend):
        """At the least rows and the smallest multiplier, at a tenth of the tolerance; none is the planned ten times."""
        chosen = plan_for(backend=backend, thresholds=100, parties=100)
        strict = msgspec.structs.replace(chosen, tolerance=disagreement(chosen))
        rng, den = np.random.default_rng(1), 198
        largest = 0.0
        for seed in range(400):
            secrets = secrets_of(seed)
            auc = rng.choice([0, 1, rng.random()])
            totals = totals_of(auc, min(auc, 1 - auc) / 3, den, secrets=secrets)
            totals += 2 * LEAST_MULTIPLIER * den * total_error(chosen) * rng.uniform(-1, 1, (2, 4)).view(complex)
            largest = max(largest, abs(accept(totals, strict, secrets).auc - auc))
        assert error_bound(chosen) / 100 < largest <= error_bound(chosen)
        assert chosen.tolerance == pytest.approx(10 * strict.tolerance)


class TestWholeCounts:
    """`recover`, for an aggregator that follows the protocol."""

    CHOSEN = plan_for(split=False)

    def totals(self, num: complex, den: float = 2.0, scale: float = LEAST_MULTIPLIER) -> Totals:
        return np.array([[num, den * (1 + 1j * CHECK_WEIGHT)]]) * 2 * scale

    def test_broken_redundancy_or_a_ratio_that_is_no_auc_is_refused(self):
        assert recover(self.totals(1.2 + 0.2j), self.CHOSEN) == (pytest.approx(0.6), pytest.approx(0.1))
        assert recover(self.totals(2 - 1e-12j), self.CHOSEN) == (1, 0)
        for wrong in (3, -1, 1 + 2.1j, math.nan, complex(1, math.nan)):
            with pytest.raises(ResultCheckError) as caught:
                recover(self.totals(wrong), self.CHOSEN)
            assert (caught.value.check, assert_silent(caught.value)) == ("range", None)
        for off in (1e-6j, -1e-6j, 1e3j, math.nan):
            totals = self.totals(1, 1e9)
            totals[0, 1] *= 1 + off
            with pytest.raises(ResultCheckError, match="raise max_rows") as caught:
                recover(totals, self.CHOSEN)
            assert caught.value.check == "redundancy"

    def test_a_den_of_zero_is_one_class_only(self):
        for den in (0, 1e-9, 0.99, -0.5):
            with pytest.raises(UndefinedAucError, match="one class only"):
                recover(self.totals(0, den), self.CHOSEN)


BALANCES = [(50, 50), (1, 99), slow(99, 1), slow(500_000, 500_000), slow(1, 999_999), (999_999, 1)]


def pools(bins: int, positives: int, negatives: int) -> dict[str, Any]:
    """Pools of so many rows: spread, all in one bin, all pairs right or wrong, and where values are as large as can."""
    rng = np.random.default_rng(positives)
    shares, end = rng.dirichlet(np.ones(bins), 2), np.eye(bins, dtype=int)[[0, bins // 2, bins - 1]]
    spread = [rng.multinomial(*each) for each in zip((positives, negatives), shares, strict=True)]
    return {
        "spread": counts_of(*spread),
        "tied": counts_of(positives * end[1], negatives * end[1]),
        "right": counts_of(positives * end[2], negatives * end[0]),
        "wrong": counts_of(positives * end[0], negatives * end[2]),
        "one bin of negatives": counts_of(spread[0], negatives * end[2]),
    }


@pytest.fixture(scope="module", params=[*BACKENDS, *(slow((each, 300)) for each in BACKENDS)])
def every(request: pytest.FixtureRequest) -> dict[bool, tuple[Algebra, Any]]:
    """Of either protocol: keys, and the errors of 29 parties without rows. 300 thresholds take a ciphertext a run."""
    backend, thresholds = (request.param, 100) if isinstance(request.param, str) else request.param
    found = {split: Algebra(backend, split=split, thresholds=thresholds) for split in (False, True)}
    return {split: (algebra, algebra.errors(29)) for split, algebra in found.items()}


@pytest.mark.parametrize("split", [False, True], ids=["semi-honest", "malicious"])
@pytest.mark.parametrize(("positives", "negatives"), BALANCES)
def test_every_balance_is_accepted_and_within_1e_9_of_the_exact_fraction(every, split, positives, negatives) -> None:
    """With the errors of 30 encryptions; residual and difference of the runs below a tenth of the tolerance."""
    algebra, errors = every[split]
    strict = msgspec.structs.replace(algebra.plan, tolerance=algebra.plan.tolerance / 10)
    draw = smallest_multiplier if positives % 2 else largest_multiplier
    for counts in pools(100, positives, negatives).values():
        found = algebra.read(algebra.totals([counts], draw, errors), strict)
        exact = trapezoid(counts)
        assert abs(Fraction(found.auc) - exact.fraction) < 1e-9
        assert abs(Fraction(found.auc) - exact.fraction) <= error_bound(algebra.plan)
        assert abs(found.binning_error - exact.tie / exact.den) < 1e-9
        assert 0 <= found.auc <= 1
        assert found.binning_error >= 0


@pytest.mark.parametrize("split", [False, True], ids=["semi-honest", "malicious"])
def test_bounds_on_errors_hold_and_are_not_absurdly_loose(every, split) -> None:
    """Where they are worst: one row of a class, few rows, the smallest multiplier; at most 10,000 times too large."""
    algebra, errors = every[split]
    seen = 0.0
    for positives in (1, 99):
        for counts in pools(100, positives, 100 - positives).values():
            found = algebra.recover([counts], smallest_multiplier, errors)
            seen = max(seen, abs(found.auc - trapezoid(counts).auc))
    assert error_bound(algebra.plan) / 1e4 < seen <= error_bound(algebra.plan)


@pytest.mark.parametrize("split", [False, True], ids=["semi-honest", "malicious"])
@pytest.mark.parametrize("rows", [1, 10**6])
def test_one_class_has_no_auc_however_many_rows_and_whatever_the_multiplier(every, split, rows) -> None:
    algebra, errors = every[split]
    spread = np.random.default_rng(rows).multinomial(rows, np.full(100, 0.01))
    for sides, extreme in (
        ((np.zeros(100), spread), largest_multiplier),
        ((spread, np.zeros(100)), smallest_multiplier),
    ):
        with pytest.raises((UndefinedAucError, VerificationError), match=r"one class only|one label"):
            algebra.recover([counts_of(*sides)], extreme, errors)


@pytest.mark.parametrize("split", [False, True], ids=["semi-honest", "malicious"])
@pytest.mark.parametrize("max_rows", [10**6, slow(10**9)])
def test_the_largest_workload_fits_either_ring_at_the_largest_multiplier(every, split, max_rows) -> None:
    """max_rows exactly: AUC 1, AUC 0 and one bin for all are the extremes of num, tie and den."""
    algebra, errors = every[split]
    if max_rows > algebra.plan.workload.max_rows:
        algebra, errors = Algebra(algebra.plan.parameters.backend, split=split, max_rows=max_rows), None
    half = max_rows // 2
    for counts in pools(100, half, half).values():
        found = algebra.recover([counts], largest_multiplier, errors)
        assert found.auc == pytest.approx(trapezoid(counts).auc, abs=1e-9)


@pytest.mark.parametrize("split", [False, True], ids=["semi-honest", "malicious"])
@pytest.mark.parametrize("excess_bits", [1, 2, 25])
def test_more_rows_than_the_bound_are_refused_or_right(every, split, excess_bits) -> None:
    """Up to 2^25 times 10^6 rows; at the largest multiplier four times the rows wrap around for sure."""
    algebra, errors = every[split]
    rng, refusals = np.random.default_rng(excess_bits), []
    for extreme in (largest_multiplier, smallest_multiplier) * 2:
        counts = counts_of(*(rng.dirichlet(np.ones(100), 2) * (algebra.plan.workload.max_rows << excess_bits) / 2))
        try:
            found = algebra.recover([counts], extreme, errors)
        except ResultCheckError as error:  # of which `VerificationError` is one
            refusals.append(str(error))
        else:
            assert found.auc == pytest.approx(trapezoid(counts).auc, abs=1e-7)
    assert len(refusals) >= (2 if excess_bits > 1 else 0)
    assert all("max_rows" in each for each in refusals)


def test_a_result_decrypted_with_another_key_is_refused(every) -> None:
    for algebra, _ in every.values():
        result = algebra.result([algebra.submission(counts_of(np.ones(100), np.ones(100)))])
        stranger = ckks.generate(algebra.plan.parameters).secret
        stranger.fingerprint = algebra.keys.secret.fingerprint  # or the envelope would refuse it first
        with pytest.raises(ResultCheckError):
            algebra.read(stranger.decrypt_sums(result, algebra.plan.squares))
