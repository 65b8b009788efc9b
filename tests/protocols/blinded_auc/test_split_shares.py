"""Split shares against exact fractions, and the numbers that split and blind them against their distributions."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import math
from dataclasses import fields, replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, ks_2samp, kstest, uniform

from fhe_auc.base.serialise import encode
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.blinded_auc import split_shares
from fhe_auc_protocols.blinded_auc.error_bound import MAX_AMPLIFICATION
from fhe_auc_protocols.blinded_auc.packing import split_norms
from fhe_auc_protocols.blinded_auc.split_shares import Execution, Stream, amplification
from fhe_auc_protocols.blinded_auc.workload import LEAST_EXTRA, MAX_SPLITS, Workload
from tests.support import general_purpose_generators
from tests.support.blinded_auc import counts_of

FALSE_ALARM = 1e-9
"""Probability with which a statistical test here would fail on other, equally good numbers; the secrets are fixed."""

ROUNDING = 1e-13
"""Error allowed relative to the sum of absolute values: a few hundred units in the last place."""

examples = settings(max_examples=25, deadline=None)
secrets_ = st.binary(min_size=32, max_size=32)


def stream(*purpose: str | int, secret: bytes = bytes(32), session: bytes = bytes(32)) -> Stream:
    return Stream(secret, session, *(purpose or ("test",)))


@st.composite
def executions(draw: st.DrawFn, thresholds: int | None = None) -> tuple[Execution, int, int]:
    """An execution, its splits and its number of thresholds; positions are as many as a plan would have, or more."""
    m = draw(st.integers(1, 12)) if thresholds is None else thresholds
    splits = draw(st.integers(2, MAX_SPLITS))
    positions = 1 << (splits * (m + 1) - 1).bit_length()
    positions <<= draw(st.integers(0, 2))
    source = stream("execution", draw(st.integers(0, 7)), secret=draw(secrets_))
    return Execution.draw(source, thresholds=m, splits=splits, positions=positions), splits, m


@st.composite
def pools(draw: st.DrawFn) -> tuple[Execution, list[Counts]]:
    """An execution and the counts of one to five parties, one-class parties and one-class pools among them."""
    execution, _, m = draw(executions())
    rows = st.lists(st.integers(0, draw(st.sampled_from([1, 40, 10**5]))), min_size=m, max_size=m)
    nothing = st.just([0] * m)
    parties = draw(st.lists(st.tuples(rows | nothing, rows | nothing), min_size=1, max_size=5))
    return execution, [counts_of(*each) for each in parties]


def exact(parties: list[Counts]) -> tuple[int, int, int]:
    """num, tie and den of the pool."""
    pool = reduce(add, parties)
    if pool.positives and pool.negatives:
        found = trapezoid(pool)
        return found.num, found.tie, found.den
    # One class only: no pair of rows at all.
    return 0, 0, 0


class Exact(NamedTuple):
    """A complex number of two fractions."""

    real: Fraction
    imag: Fraction = Fraction(0)

    @classmethod
    def of(cls, value: complex) -> Exact:
        return cls(Fraction(float(value.real)), Fraction(float(value.imag)))

    def __add__(self, other: Exact) -> Exact:  # type: ignore[override]
        return Exact(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Exact) -> Exact:
        return Exact(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: Exact) -> Exact:  # type: ignore[override]
        return Exact(self.real * other.real - self.imag * other.imag, self.real * other.imag + self.imag * other.real)

    def __truediv__(self, other: Exact) -> Exact:
        size = other.real**2 + other.imag**2
        product = self * Exact(other.real, -other.imag)
        return Exact(product.real / size, product.imag / size)

    def __abs__(self) -> float:
        return math.hypot(float(self.real), float(self.imag))

    def __complex__(self) -> complex:
        return complex(float(self.real), float(self.imag))


def class_totals(execution: Execution, parties: list[Counts]) -> tuple[list[complex], list[float]]:
    """What the circuit computes without noise, r = 1 and gain = 1, and the sums of absolute values."""
    vectors = [execution.vectors(counts) for counts in parties]
    x, y = (np.sum(side, axis=0) for side in zip(*vectors, strict=True))
    products = x * y
    return (
        [complex(math.fsum(row.real), math.fsum(row.imag)) for row in products],
        [float(row.sum()) for row in np.abs(products)],
    )


def in_order(execution: Execution) -> Execution:
    """The same, where every value stays in its place and keeps its phase."""
    positions = execution.order.shape[1]
    return replace(execution, order=np.tile(np.arange(positions), (2, 1)), phases=np.ones_like(execution.phases))


def fractions(execution: Execution) -> tuple[Exact, Exact, Exact]:
    """R0R1, R2R3 and R4R5, exactly."""
    r = [Exact.of(value) for value in execution.multipliers]
    return r[0] * r[1], r[2] * r[3], r[4] * r[5]


class TestAlgebra:
    @examples
    @given(executions())
    def test_weights_add_up_to_one_and_pairs_of_extra_element_and_totals_too(self, drawn):
        execution, splits, m = drawn
        assert execution.weights.shape == (splits, m)
        sums = [complex(math.fsum(column.real), math.fsum(column.imag)) for column in execution.weights.T]
        np.testing.assert_allclose(sums, 1, rtol=0, atol=2e-15)
        assert np.abs(execution.weights - 0.5).max() <= 1.5
        execution, splits, m = drawn
        positions = execution.order.shape[1]
        assert (execution.extra.shape, execution.totals.shape) == ((2, positions - splits * m), (2, positions))
        for x, y in (execution.extra, execution.totals):
            assert math.fsum(x * y) == pytest.approx(1, rel=0, abs=1e-14)
            assert (x >= 0.25).all()
            assert (x <= 1).all()
            assert (y > 0).all()
        execution, _, _ = drawn
        for row in execution.order:
            assert sorted(row) == list(range(len(row)))
        np.testing.assert_allclose(np.abs(execution.phases), 1, rtol=1e-15)
        assert (execution.phases[0] != execution.phases[1]).all()  # each class has its own

    @examples
    @given(executions())
    def test_no_vector_is_larger_than_the_planner_takes_it_to_be(self, drawn):
        """Of the largest counts: all positives in the last bin, so that all bins count them, all negatives in one."""
        execution, splits, m = drawn
        positions = execution.order.shape[1]
        if positions - splits * m < LEAST_EXTRA:
            return
        workload = Workload(thresholds=m, parties=1, classes=2, splits=splits)
        x_norm, y_norm = split_norms(workload, positions)
        positives, negatives = np.zeros((2, m), int)
        positives[-1], negatives[m // 2] = 1000, 500
        x, y = execution.vectors(counts_of(positives, negatives))
        for rows, whole, norm in ((x, 2000, x_norm), (y, 500, y_norm)):
            assert np.linalg.norm(rows, axis=1).max() <= whole * norm
            assert np.abs(rows).max() <= 2 * whole

    @examples
    @given(pools())
    def test_sums_over_parties_multiply_out_to_the_exact_counts_times_the_multipliers(self, pool):
        execution, parties = pool
        main, extra, totals = fractions(execution)
        num, tie, den = exact(parties)
        (found_num, found_den), sizes = class_totals(execution, parties)
        value = Exact(Fraction(num), Fraction(tie))
        assert abs(Exact.of(found_num) - (main * value + extra * Exact(Fraction(den)))) <= ROUNDING * sizes[0]
        assert abs(Exact.of(found_den) - totals * Exact(Fraction(den))) <= ROUNDING * sizes[1]

    @examples
    @given(pools())
    def test_permutation_and_phases_change_where_values_stand_and_no_total(self, pool):
        execution, parties = pool
        plain = in_order(execution)
        placed, bare = execution.vectors(parties[0]), plain.vectors(parties[0])
        for q, (side, phases) in itertools.product(range(2), enumerate((execution.phases, execution.phases.conj()))):
            # X and Y of a position move together, and keep their product.
            np.testing.assert_array_equal(placed[side][q], (bare[side][q] * phases[q])[execution.order[q]])
        found, sizes = class_totals(execution, parties)
        expected, _ = class_totals(plain, parties)
        for one, other, size in zip(found, expected, sizes, strict=True):
            assert abs(one - other) <= ROUNDING * size

    @examples
    @given(executions(thresholds=6), st.lists(st.booleans(), min_size=6, max_size=6))
    def test_role_bits_say_which_side_is_split_and_the_other_is_repeated(self, drawn, roles):
        execution, splits, m = drawn
        bare = replace(in_order(execution), roles=np.array(roles))
        counts = counts_of([3, 0, 5, 2, 1, 4], [2, 7, 1, 3, 6, 5])
        x, y = (side[0][: splits * m].reshape(splits, m) for side in bare.vectors(counts))
        r = execution.multipliers
        left = r[0] * (counts.trapezoid_heights + 1j * counts.bin_positives)
        right = r[1] * counts.bin_negatives
        for k, split_right in enumerate(roles):
            whole, shares = (x, y) if split_right else (y, x)
            value, shared = (left, right) if split_right else (right, left)
            assert (whole[:, k] == value[k]).all()
            np.testing.assert_allclose(shares[:, k], shared[k] * execution.weights[:, k], rtol=1e-15)
            assert abs(shares[:, k].sum() - shared[k]) <= 1e-14 * (1 + np.abs(shares[:, k]).sum())

    @examples
    @given(pools(), st.lists(st.booleans(), min_size=12, max_size=12))
    def test_totals_are_the_same_whatever_the_role_bits(self, pool, bits):
        execution, parties = pool
        other = replace(execution, roles=np.array(bits[: len(execution.roles)]))
        found, sizes = class_totals(other, parties)
        expected, other_sizes = class_totals(execution, parties)
        for one, another, size in zip(found, expected, map(max, sizes, other_sizes), strict=True):
            assert abs(one - another) <= ROUNDING * size

    def test_parties_with_different_role_bits_would_not_add_up(self):
        """Why they are common to all parties: this is what the property above is worth."""
        execution = Execution.draw(stream(), thresholds=3, splits=2, positions=8)
        parties = [counts_of([5, 3, 9], [2, 8, 4]), counts_of([1, 7, 2], [6, 5, 3])]
        other = replace(execution, roles=~execution.roles)
        vectors = [execution.vectors(parties[0]), other.vectors(parties[1])]
        x, y = (np.sum(side, axis=0) for side in zip(*vectors, strict=True))
        right, _ = class_totals(execution, parties)
        assert abs((x * y).sum(axis=1)[0] - right[0]) > 1e-3 * abs(right[0])


multiples = st.builds(
    lambda size, phase: size * complex(math.cos(phase), math.sin(phase)),
    st.floats(1e-3, 1e15),
    st.floats(0, 2 * math.pi),
)


class TestRecovery:
    @examples
    @given(executions(), st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 10**6), multiples)
    def test_auc_and_resolution_come_back_whatever_both_totals_are_multiplied_by(self, drawn, num, den, tie, common):
        execution, _, _ = drawn
        num, tie = min(num, den), min(tie, den // 2)
        main, extra, totals = fractions(execution)
        whole = Exact(Fraction(den))
        total = main * Exact(Fraction(num), Fraction(tie)) + extra * whole
        found = execution.recover(common * complex(total), common * complex(totals * whole))
        assert found.real == pytest.approx(num / den, rel=0, abs=1e-13)
        assert found.imag == pytest.approx(tie / den, rel=0, abs=1e-13)

    @examples
    @given(pools(), st.floats(1e-3, 1e12))
    def test_what_parties_sum_up_to_recovers_to_the_exact_fraction(self, pool, common):
        execution, parties = pool
        num, tie, den = exact(parties)
        if den == 0:
            return
        (found_num, found_den), sizes = class_totals(execution, parties)
        found = execution.recover(common * found_num, common * found_den)
        # Rounding errors of the sums, amplified, and relative to den.
        allowed = 10 * MAX_AMPLIFICATION * ROUNDING * max(sizes) / den
        assert abs(found.real - Fraction(num, den)) <= allowed
        assert abs(found.imag - Fraction(tie, den)) <= allowed

    @examples
    @given(
        executions(),
        st.floats(0, 1),
        st.floats(0, 0.5),
        st.tuples(*[st.complex_numbers(max_magnitude=1, allow_subnormal=False)] * 2),
        st.sampled_from([1e-6, 1e-8]),
    )
    def test_no_error_of_the_totals_is_amplified_more_than_stated(self, drawn, auc, binning_error, errors, size):
        """In exact fractions, num' off by one and den' by the other, both at most `size` of den."""
        execution, _, _ = drawn
        binning_error = min(binning_error, auc, 1 - auc)
        main, extra, totals = fractions(execution)
        value = Exact(Fraction(auc), Fraction(binning_error))
        on_num, on_den = (Exact.of(error * size) for error in errors)
        largest = max(abs(on_num), abs(on_den))
        num, den = main * value + extra + on_num, totals + on_den
        found = (num / den - extra / totals) * totals / main
        # First order, and the second: den' itself is at least 1/16.
        assert abs(found - value) <= float(amplification(execution.multipliers)) * largest * (1 + size * 32)

    def test_the_amplification_is_reached_at_an_auc_of_one_and_phases_do_not_change_it(self):
        """It is no larger than it need be: with errors of opposite sign, and multipliers of the same phase."""
        for number in range(50):
            execution = Execution.draw(stream(number), thresholds=2, splits=2, positions=8)
            execution = replace(execution, multipliers=np.abs(execution.multipliers))
            main, extra, totals = execution.products
            size = 1e-7
            found = execution.recover(main + extra + size, totals - size)
            assert (found.real - 1) / size == pytest.approx(amplification(execution.multipliers), rel=1e-4)
        r = np.array([0.3, 0.9, 0.25, 1.0, 0.7, 0.8])
        turned = r * np.exp(2j * np.pi * np.random.default_rng(4).random((20, 6)))
        np.testing.assert_allclose(amplification(turned), amplification(r), rtol=1e-14)


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    source = stream("multipliers")
    return np.array([split_shares._multipliers(source) for _ in range(20_000)])


class TestMultipliers:
    def test_multipliers_lie_between_a_quarter_and_one_and_amplify_no_more_than_the_plan_assumes(self, drawn):
        sizes = np.abs(drawn)
        assert (sizes >= 0.25).all()
        assert (sizes <= 1).all()
        # Even conditioned on the amplification, hundreds of 20,000 fall into the last hundredth of either end.
        assert (sizes[:, 2:4].min(axis=0) < 0.26).all()
        assert (sizes.max(axis=0) > 0.99).all()
        worst = [amplification(r) for r in drawn]
        assert max(worst) <= MAX_AMPLIFICATION
        assert max(worst) > 0.99 * MAX_AMPLIFICATION  # the bound is what decides
        for r in drawn[:200]:
            r0, r1, r2 = (abs(Exact.of(a) * Exact.of(b)) for a, b in r.reshape(3, 2))
            assert amplification(r) == pytest.approx(1 / r0 + (r0 + r1) / (r0 * r2), rel=1e-12)

    def test_phases_are_uniform_and_independent_and_multipliers_those_of_plain_rejection(self, drawn):
        """Kolmogorov-Smirnov of each; chi-square over all 64 combinations of half-planes, cut in two ways."""
        turns = np.angle(drawn) / (2 * np.pi) + 0.5
        for column in turns.T:
            assert kstest(column, uniform.cdf).pvalue > FALSE_ALARM
        for cut in (0.0, 0.25):
            combinations = ((turns + cut) % 1 > 0.5) @ (1 << np.arange(6))
            assert chisquare(np.bincount(combinations, minlength=64)).pvalue > FALSE_ALARM
        # Against numpy's generator: two-sample Kolmogorov-Smirnov of each multiplier.
        rng = np.random.default_rng(1)
        sizes = rng.uniform(0.25, 1, (4 * len(drawn), 6))
        kept = sizes[[amplification(r) <= MAX_AMPLIFICATION for r in sizes]]
        for column, other in zip(np.abs(drawn).T, kept.T, strict=True):
            assert kstest(column, other).pvalue > FALSE_ALARM


class TestIndependence:
    """Whatever differs (execution, session, secret, purpose), the numbers have nothing to do with one another."""

    STREAMS = {  # noqa: RUF012
        "one": ((bytes(32), bytes(32)), ("execution", 0)),
        "another execution": ((bytes(32), bytes(32)), ("execution", 1)),
        "another session": ((bytes(32), bytes(31) + b"\1"), ("execution", 0)),
        "another secret": ((bytes(31) + b"\1", bytes(32)), ("execution", 0)),
        "another purpose": ((bytes(32), bytes(32)), ("mask", 0)),
        "another block": ((bytes(32), bytes(32)), ("mask", 0, 1)),
        "another block and party": ((bytes(32), bytes(32)), ("mask", 1, 0)),
        "a number as text": ((bytes(32), bytes(32)), ("execution", "0")),
        "two purposes in one": ((bytes(32), bytes(32)), ("execution0",)),
        "digits elsewhere": ((bytes(32), bytes(32)), ("mask", 10)),
    }

    @pytest.mark.parametrize(("left", "right"), list(itertools.combinations(STREAMS, 2)))
    def test_bits_of_two_streams_agree_half_of_the_time(self, left, right):
        """Of 64,000 bits, two-sided binomial test."""
        a, b = (Stream(*self.STREAMS[name][0], *self.STREAMS[name][1]) for name in (left, right))
        assert a.key != b.key
        differing = int(np.unpackbits((a.words(1000) ^ b.words(1000)).view(np.uint8)).sum())
        assert binom.ppf(FALSE_ALARM / 2, 64_000, 0.5) <= differing <= binom.isf(FALSE_ALARM / 2, 64_000, 0.5)

    def test_no_number_of_any_execution_is_found_in_another(self):
        """Every array of four executions of three sessions: no multiplier, weight or factor twice."""
        seen: set[float] = set()
        for session, number in itertools.product(range(3), range(4)):
            source = stream("execution", number, session=bytes([session]) * 32)
            execution = Execution.draw(source, thresholds=50, splits=3, positions=256)
            parts = (np.abs(execution.multipliers), np.abs(execution.weights), execution.extra, execution.totals)
            values = np.concatenate([part.ravel() for part in parts])
            assert not seen & set(values)
            assert len(set(values)) == len(values)
            seen |= set(values)

    def test_successive_draws_go_on_where_the_last_ended(self):
        one, other = stream(), stream()
        np.testing.assert_array_equal(np.concatenate([one.words(3), one.words(2, 5).ravel()]), other.words(13))


def chacha20(key: bytes, blocks: int) -> bytes:
    """RFC 8439 with a zero nonce and a counter from zero, written out."""

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF

    def quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
        for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & 0xFFFFFFFF
            s[z] = rotated(s[z] ^ s[x], bits)

    found = b""
    for counter in range(blocks):
        words = [int.from_bytes(part, "little") for part in (b"expa", b"nd 3", b"2-by", b"te k")]
        words += [int.from_bytes(key[i : i + 4], "little") for i in range(0, 32, 4)] + [counter, 0, 0, 0]
        state = list(words)
        for _ in range(10):
            for i in range(4):
                quarter(state, i, 4 + i, 8 + i, 12 + i)
            for i in range(4):
                quarter(state, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
        found += b"".join(((a + b) & 0xFFFFFFFF).to_bytes(4, "little") for a, b in zip(state, words, strict=True))
    return found


class TestStream:
    @given(secrets_, secrets_)
    @settings(max_examples=20, deadline=None)
    def test_it_is_the_chacha20_key_stream_of_an_hkdf_key(self, secret, session):
        """Both written out here, from RFC 5869 and RFC 8439."""
        extracted = hmac.digest(session, secret, hashlib.sha256)
        info = b"fhe-auc malicious 1\0" + encode(("execution", 3))
        key = hmac.digest(extracted, info + b"\1", hashlib.sha256)
        found = Stream(secret, session, "execution", 3)
        assert (found.key, found.words(24).tobytes()) == (key, chacha20(key, 3))

    def test_uniform_is_uniform_and_never_an_end_even_for_the_extreme_words(self, monkeypatch):
        for low, high in [(0.25, 1), (-1, 2)]:
            values = stream().uniform(low, high, 50_000)
            assert kstest(values, uniform(low, high - low).cdf).pvalue > FALSE_ALARM
            assert low < values.min()
            assert values.max() < high
        for word in [0, 2**64 - 1]:
            extreme = stream()
            monkeypatch.setattr(Stream, "words", lambda self, *shape, word=word: np.full(shape, word, np.uint64))
            assert 0 < extreme.uniform(0, 1, 1)[0] < 1

    def test_coins_are_fair_permutations_uniform_and_phases_and_the_disc_filled_evenly(self):
        """Chi-square over runs of five."""
        runs = stream().bits(20_000, 5) @ (1 << np.arange(5))
        assert chisquare(np.bincount(runs, minlength=32)).pvalue > FALSE_ALARM
        drawn = stream().phases(50_000)
        np.testing.assert_allclose(np.abs(drawn), 1, rtol=1e-15)
        assert kstest(np.angle(drawn) / (2 * np.pi) + 0.5, uniform.cdf).pvalue > FALSE_ALARM
        inside = stream().disc(50_000)
        assert kstest(np.abs(inside) ** 2, uniform.cdf).pvalue > FALSE_ALARM
        assert kstest(np.angle(inside) / (2 * np.pi) + 0.5, uniform.cdf).pvalue > FALSE_ALARM
        # Chi-square over all 24 orders of four things.
        source = stream()
        orders = list(itertools.permutations(range(4)))
        found = [orders.index(tuple(source.permutation(4))) for _ in range(24_000)]
        assert chisquare(np.bincount(found, minlength=24)).pvalue > FALSE_ALARM

    def test_in_a_long_permutation_everything_lands_everywhere(self):
        """Chi-square over where the first of 64 things goes, and over what comes first."""
        source = stream()
        orders = np.array([source.permutation(64) for _ in range(6400)])
        for landed in (orders[:, 0], np.argmin(orders, axis=1)):
            assert chisquare(np.bincount(landed, minlength=64)).pvalue > FALSE_ALARM

    def test_what_an_execution_draws_has_the_distribution_it_should(self):
        drawn = [
            Execution.draw(stream("execution", number), thresholds=100, splits=2, positions=512) for number in range(40)
        ]
        assert all((each.order[0] != each.order[1]).any() for each in drawn)  # each class has its own
        for row in np.concatenate([each.weights for each in drawn], axis=1):
            assert kstest(np.abs(row - 0.5) ** 2 / 1.5**2, uniform.cdf).pvalue > FALSE_ALARM
        for name in ("extra", "totals"):
            x = np.concatenate([getattr(each, name)[0] for each in drawn])
            assert kstest(x, uniform(0.25, 0.75).cdf).pvalue > FALSE_ALARM
            # y before it was scaled, in units of its mean.
            y = np.concatenate([getattr(each, name)[1] / getattr(each, name)[1].max() for each in drawn])
            assert kstest(y, uniform(0.25, 0.75).cdf).statistic < 0.02
        heads = np.concatenate([each.roles for each in drawn])
        low, high = (tail(FALSE_ALARM / 2, heads.size, 0.5) for tail in (binom.ppf, binom.isf))
        assert low <= heads.sum() <= high
        turns = np.concatenate([np.angle(each.phases.ravel()) for each in drawn]) / (2 * np.pi) + 0.5
        assert kstest(turns, uniform.cdf).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("splits", [2, 3, 4])
    def test_weights_of_all_splits_are_distributed_alike(self, splits):
        """Uniform among those that fit has no favourite among the splits; an independent draw, all at once, agrees."""
        drawn = split_shares.split_weights(stream().disc, splits, 8_000)
        square = np.random.default_rng(splits).uniform(-1.5, 1.5, (2, splits - 1, 200_000))
        free = 0.5 + square[0] + 1j * square[1]
        fits = (np.abs(np.vstack([free, 1 - free.sum(axis=0)]) - 0.5) <= 1.5).all(axis=0)
        expected = free[0, fits]
        for row in drawn:
            assert ks_2samp(row.real, expected.real).pvalue > FALSE_ALARM
            assert ks_2samp(row.imag, expected.imag).pvalue > FALSE_ALARM

    def test_equal_secrets_give_equal_numbers_of_no_general_purpose_generator(self, monkeypatch):
        one, other = (
            Execution.draw(stream("execution", 1, secret=b"x" * 32), thresholds=20, splits=2, positions=64)
            for _ in range(2)
        )
        for each in fields(Execution):
            np.testing.assert_array_equal(getattr(one, each.name), getattr(other, each.name))
        before = Execution.draw(stream(), thresholds=20, splits=2, positions=64)
        general_purpose_generators.forbid(monkeypatch)
        after = Execution.draw(stream(), thresholds=20, splits=2, positions=64)
        np.testing.assert_array_equal(before.order, after.order)
        np.testing.assert_array_equal(before.multipliers, after.multipliers)

    def test_repr_shows_nothing(self):
        source = stream()
        execution = Execution.draw(source, thresholds=4, splits=2, positions=16)
        assert repr(source) == str(source) == "Stream(...)"
        for text in (repr(execution), str(execution), f"{execution}", f"{[source, execution]}"):
            assert source.key.hex() not in text
            assert repr(source.key) not in text
            assert "array" not in text
            for value in np.concatenate([execution.multipliers, execution.weights.ravel()]):
                for part in (value.real, value.imag, value):
                    assert f"{abs(part):.4f}" not in text
