"""Masked shares against extended precision, and the numbers that mask and blind them against their distributions."""

import hashlib
import hmac
import itertools
import math
from dataclasses import fields, replace
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, uniform

from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import encode
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.blinded_auc import blinding, masked_shares, semi_honest
from fhe_auc_protocols.blinded_auc.blinded_plan import EXTRA, MASK_RADIUS, MAX_AMPLIFICATION, largest_den_factor, norms
from fhe_auc_protocols.blinded_auc.masked_shares import Run, Stream
from tests.support import general_purpose_generators
from tests.support.blinded_auc import counts_of, largest_multiplier, smallest_multiplier
from tests.support.malicious_sessions import plan_for

FALSE_ALARM = 1e-9
"""Probability with which a statistical test here would fail on other, equally good numbers; the secrets are fixed."""

ROUNDING = 1e-13
"""Error allowed relative to the sum of absolute values: a few hundred units in the last place."""

examples = settings(max_examples=25)
secrets_ = st.binary(min_size=32, max_size=32)


def stream(*purpose: str | int, secret: bytes = bytes(32), session: bytes = bytes(32)) -> Stream:
    return Stream(secret, session, *(purpose or ("test",)))


runs = st.builds(
    lambda positions, secret: Run.draw(stream(secret=secret), positions), st.sampled_from([16, 64, 1024]), secrets_
)


@st.composite
def pools(draw: st.DrawFn) -> tuple[Run, list[Counts]]:
    """A run and the counts of one to five parties, one-class parties and one-class pools among them."""
    m = draw(st.integers(1, 16 - EXTRA))
    rows = st.lists(st.integers(0, draw(st.sampled_from([1, 40, 10**5]))), min_size=m, max_size=m)
    nothing = st.just([0] * m)
    parties = draw(st.lists(st.tuples(rows | nothing, rows | nothing), min_size=1, max_size=5))
    return draw(runs), [counts_of(*each) for each in parties]


def expected(run: Run, parties: list[Counts]) -> list[np.clongdouble]:
    """A·B·(num + i·tie + c·den) of both classes, in extended precision, from secrets and pooled counts."""
    pool = reduce(add, parties)
    num = tie = den = 0
    if pool.positives and pool.negatives:
        found = trapezoid(pool)
        num, tie, den = found.num, found.tie, found.den
    a, b, x, y = (np.asarray(each, np.clongdouble) for each in (run.factors, run.common, run.x, run.y))
    return list(a * b * (float(num) + 1j * float(tie) + ((x * y).sum(axis=1) + x[:, -1]) * float(den)))


def totals(runs_of: list[Run], parties: list[Counts]) -> tuple[list[complex], list[float]]:
    """What the sums over parties, each with a run of its own, multiply out to, and the sums of absolute values."""
    pairs = zip(runs_of, parties, strict=True)
    y, x = (np.sum(side, axis=0) for side in zip(*(run.vectors(counts) for run, counts in pairs), strict=True))
    products = x * y
    return (
        [complex(math.fsum(row.real), math.fsum(row.imag)) for row in products],
        [float(row.sum()) for row in np.abs(products)],
    )


def in_order(run: Run) -> Run:
    """The same, where every value stays in its place and keeps its phase."""
    return replace(run, order=np.arange(run.y.size), phases=np.ones(run.y.size, complex))


class TestAlgebra:
    @examples
    @given(pools())
    def test_sums_over_parties_multiply_out_to_num_and_tie_and_a_share_of_den_whatever_the_counts(self, pool):
        run, parties = pool
        found, sizes = totals([run] * len(parties), parties)
        for one, exactly, size in zip(found, expected(run, parties), sizes, strict=True):
            assert abs(one - exactly) <= ROUNDING * size

    @examples
    @given(secrets_, st.sampled_from([1, 2, 100, 1021]), st.booleans())
    def test_every_position_is_filled_but_for_the_other_classs_correction(self, secret, bins, one_class):
        """With one threshold, too: 1,023 masked empty bins and extra positions are like the others."""
        run = Run.draw(stream(secret=secret), 1024)
        positives, negatives = np.zeros((2, bins), int)
        positives[-1], negatives[0] = 0 if one_class else 5, 3
        y, x = in_order(run).vectors(counts_of(positives, negatives))
        empty = np.zeros(x.shape, bool) | one_class
        empty[[0, 1], [-2, -3]] = True
        assert (y != 0).all()
        np.testing.assert_array_equal(x == 0, empty)

    @examples
    @given(secrets_, st.sampled_from([1, 16, 100, 1021, 3000]), st.integers(0, 3))
    def test_no_vector_is_larger_than_the_error_bound_takes_it_to_be(self, secret, bins, worst):
        """Of the worst counts: positives in the last bin, so that all bins count them, negatives in one, or spread."""
        chosen = plan_for(thresholds=bins, parties=1)
        run = Run.draw(stream(secret=secret), chosen.positions)
        positives, negatives = np.zeros((2, bins), int)
        positives[-1 if worst % 2 else 0], negatives[bins // 2] = 1000, 3000
        if worst > 1:
            negatives[:] = 3000 // bins + 1
        counts, whole = counts_of(positives, negatives), plan_for(thresholds=bins, parties=1, split=False)
        for of, vectors in ((whole, semi_honest.vectors(counts, whole.positions)), (chosen, run.vectors(counts))):
            y, x = vectors
            y_norm, x_norm = norms(of)
            assert np.linalg.norm(y) <= counts.negatives * y_norm
            assert np.linalg.norm(x) <= 2 * counts.positives * x_norm
        if worst % 2:
            assert np.linalg.norm(x) >= counts.positives * x_norm / 2  # a quarter of the bound: A is at least 1/2


class TestEquations:
    @examples
    @given(runs, st.integers(0, 10**6), st.integers(1, 10**6), st.integers(0, 10**6), st.floats(1, 1e12))
    def test_four_numbers_of_a_run_tell_three_whatever_they_are_multiplied_by(self, run, num, den, tie, multiplier):
        num, tie = min(num, den), min(tie, den // 2)
        value = num + 1j * tie + run.den_factors * den
        numbers = multiplier * (run.factors * run.common * value)
        np.testing.assert_allclose(
            run.equations @ np.array([num, tie, den]) * multiplier, numbers.view(float), rtol=1e-12
        )
        found = np.linalg.lstsq(run.equations, numbers.view(float), rcond=None)[0]
        np.testing.assert_allclose(found / multiplier, [num, tie, den], rtol=0, atol=1e-12 * den)

    @examples
    @given(runs, st.floats(0, 1), st.lists(st.floats(-1, 1), min_size=4, max_size=4))
    def test_no_error_of_the_totals_is_amplified_more_than_stated(self, run, auc, errors):
        size, clean = 1e-9, run.equations @ (auc, min(auc, 1 - auc) / 2, 1)
        num, _, den = np.linalg.lstsq(run.equations, clean + size * np.array(errors), rcond=None)[0]
        assert abs(num / den - auc) <= run.amplification * size * np.linalg.norm(errors) * (1 + 1e-6) + 1e-14
        # It is reached, at an AUC of 0 or 1, by errors in the direction of the form.
        inverse = np.linalg.pinv(run.equations)
        forms = [inverse[0], inverse[0] - inverse[2]]
        assert max(map(np.linalg.norm, forms)) == pytest.approx(run.amplification)


@pytest.fixture(scope="module")
def drawn() -> list[Run]:
    source = stream("runs")
    return [Run.draw(source, 64) for _ in range(3000)]


class TestDraws:
    def test_all_draws_amplify_and_take_as_much_as_the_plan_assumes_at_most(self, drawn):
        amplifications = np.array([run.amplification for run in drawn])
        shares = np.abs([run.den_factors for run in drawn])
        assert amplifications.max() <= MAX_AMPLIFICATION
        assert amplifications.max() > 0.95 * MAX_AMPLIFICATION  # the bound is what decides
        assert shares.max() <= largest_den_factor(64)
        assert shares.max() > 0.9 * largest_den_factor(64)
        for run in (Run.draw(stream(positions), positions) for positions in (1024, 2048, 10_240) for _ in range(5)):
            assert run.amplification <= MAX_AMPLIFICATION
            assert np.abs(run.den_factors).max() <= largest_den_factor(run.y.size)

    def test_factors_and_masks_have_the_sizes_and_distributions_that_they_should(self, drawn):
        factors = np.array([run.factors for run in drawn])
        assert 0.5 <= np.abs(factors).min() < 0.51 < 0.99 < np.abs(factors).max() <= 1
        phases = [factors, np.array([run.common for run in drawn]), np.concatenate([run.phases for run in drawn])]
        for each in phases:
            assert kstest(np.angle(each).ravel() / (2 * np.pi) + 0.5, uniform.cdf).pvalue > FALSE_ALARM
        np.testing.assert_allclose(np.abs([run.common for run in drawn]), 1, rtol=1e-15)
        # Rejection favours some masks of the last position, which alone is in c with weight 1.
        x, y = np.concatenate([run.x[:, :-EXTRA] for run in drawn], axis=1), np.array([run.y[:-1] for run in drawn])
        for masks, radius in ((x, 1), (y, MASK_RADIUS)):
            assert np.abs(masks).max() <= radius
            assert kstest(np.abs(masks[:10].ravel()[::5]) ** 2 / radius**2, uniform.cdf).pvalue > FALSE_ALARM
            assert kstest(np.angle(masks).ravel()[::5] / (2 * np.pi) + 0.5, uniform.cdf).pvalue > FALSE_ALARM
        corrections = np.array([run.x[:, -EXTRA:-1] for run in drawn])  # of either class, in its own column
        assert (corrections[:, [0, 1], [1, 0]] == 0).all()
        assert 0 < np.abs(corrections[:, [0, 1], [0, 1]]).min() < np.abs(corrections).max() <= MASK_RADIUS

    def test_runs_sessions_and_secrets_have_no_number_in_common(self):
        seen: set[complex] = set()
        chosen = plan_for()
        for secret, session in itertools.product((bytes(32), b"\1" * 32), repeat=2):
            for run in masked_shares.runs(secret, session, chosen):
                masks = run.x[run.x != 0]
                values = np.concatenate([run.factors, [run.common], masks, run.y, run.phases])
                assert len(set(values)) == len(values)
                assert not seen & set(values)
                seen |= set(values)

    def test_equal_secrets_give_equal_runs_of_no_general_purpose_generator(self, monkeypatch):
        one = masked_shares.runs(b"x" * 32, bytes(32), plan_for())
        general_purpose_generators.forbid(monkeypatch)
        other = masked_shares.runs(b"x" * 32, bytes(32), plan_for())
        for mine, theirs in zip(one, other, strict=True):
            for each in fields(Run):
                np.testing.assert_array_equal(getattr(mine, each.name), getattr(theirs, each.name))

    def test_repr_shows_nothing(self):
        source = stream()
        run = Run.draw(source, 16)
        assert repr(source) == str(source) == "Stream(...)"
        for text in (repr(run), str(run), f"{run}", f"{[source, run]}"):
            assert not any(part in text for part in (source.key.hex(), repr(source.key), "array"))
            for value in np.concatenate([run.factors, [run.common], run.x[0], run.y]):
                assert not any(part and f"{abs(part):.4f}" in text for part in (value.real, value.imag, value))


class TestStream:
    @given(secrets_, secrets_)
    @settings(max_examples=20, deadline=None)
    def test_it_is_the_key_stream_of_an_hkdf_key(self, secret, session):
        """Which is written out here, from RFC 5869. (ChaCha20: fhe_auc/rlwe/test_polynomials.py.)"""
        extracted = hmac.digest(session, secret, hashlib.sha256)
        info = b"fhe-auc malicious 2\0" + encode(("run", 3))
        key = hmac.digest(extracted, info + b"\1", hashlib.sha256)
        found = Stream(secret, session, "run", 3)
        assert (found.key, found.words(24).tobytes()) == (key, KeyStream(key).words(24).tobytes())

    def test_fractions_are_uniform_and_never_an_end_even_for_the_extreme_words(self, monkeypatch):
        assert kstest(stream().fractions(50_000), uniform.cdf).pvalue > FALSE_ALARM
        for word in [0, 2**64 - 1]:
            monkeypatch.setattr(Stream, "words", lambda self, *shape, word=word: np.full(shape, word, np.uint64))
            assert 0 < stream().fractions(1)[0] < 1

    def test_permutations_are_uniform(self):
        # Chi-square over all 24 orders of four things.
        source = stream()
        orders = list(itertools.permutations(range(4)))
        found = [orders.index(tuple(source.permutation(4))) for _ in range(24_000)]
        assert chisquare(np.bincount(found, minlength=24)).pvalue > FALSE_ALARM


def is_smooth(number: int) -> bool:
    for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23):
        while number % prime == 0:
            number //= prime
    return number == 1


def test_each_smooth_integer_of_the_range_belongs_to_equally_many_random_numbers() -> None:
    smooth = [number for number in range(2, 2**17 + 1) if is_smooth(number)]
    starts = [-(-(place << 64) // len(smooth)) for place in range(len(smooth) + 1)]  # 2^64 cut into equal parts
    places = range(0, len(smooth), 9)
    first, last = (
        [blinding.multiplier(17, lambda bits, number=starts[place + end] - end: number) for place in places]
        for end in (0, 1)
    )
    assert first == last
    assert len(set(first) & set(smooth)) == len(places)


@pytest.mark.parametrize("bits", [17, 26, 34, 50])
def test_multipliers_are_smooth_and_reach_both_ends_of_their_range(bits: int) -> None:
    drawn = [blinding.multiplier(bits) for _ in range(100)]
    assert all(type(r) is int and is_smooth(r) and 2 ** (bits - 16) <= r <= 2**bits for r in drawn)
    assert blinding.multiplier(bits, largest_multiplier) == 2**bits
    assert blinding.multiplier(bits, smallest_multiplier) == 2 ** (bits - 16)


def test_no_general_generator_draws_a_multiplier(monkeypatch: pytest.MonkeyPatch) -> None:
    general_purpose_generators.forbid(monkeypatch)
    assert len({blinding.multiplier(50) for _ in range(100)}) > 90  # of 4 million: 100 differ but for a chance of 0.1 %
