"""Noise, shares of it, and exact choices: each has the law it says, and nothing that could be seeded.

OpenDP's samplers cannot be seeded, so tests of their law reject an honest one with probability `FALSE_ALARM` each;
beside each stands one that a scale wrong by a fifth does not pass.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc_protocols import exact_sampling, opendp_samplers
from fhe_auc_protocols.noise_shares import _negative_binomial, _table, polya
from tests.support.discrete_laplace import p_value_discrete, polya_mass

slow = partial(pytest.param, marks=pytest.mark.slow)
FALSE_ALARM = 1e-8
DRAWS = 10_000


@pytest.mark.parametrize("scale", [0.7, slow(3.0), 12.5])
def test_integers_get_the_discrete_laplace_law(scale: float) -> None:
    drawn = opendp_samplers.laplace(np.zeros(DRAWS, np.int64), scale)
    assert drawn.dtype == np.int64
    assert p_value_discrete(drawn, stats.dlaplace(1 / scale).pmf) > FALSE_ALARM
    assert p_value_discrete(drawn, stats.dlaplace(1 / (1.2 * scale)).pmf) < FALSE_ALARM


@pytest.mark.parametrize(
    ("add", "law", "of_absolute"),
    [(opendp_samplers.laplace, stats.laplace, stats.expon), (opendp_samplers.gaussian, stats.norm, stats.halfnorm)],
    ids=["laplace", "gaussian"],
)
@pytest.mark.parametrize("scale", [0.01, slow(1e6)])
def test_floats_get_the_continuous_law(add: Callable[..., Any], law: Any, of_absolute: Any, scale: float) -> None:
    drawn = add(np.full(DRAWS, 0.25), scale)
    assert drawn.dtype == np.float64
    assert stats.kstest(drawn, law(loc=0.25, scale=scale).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(np.abs(drawn - 0.25), of_absolute(scale=scale).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(np.abs(drawn - 0.25), of_absolute(scale=1.2 * scale).cdf).pvalue < FALSE_ALARM


def test_opendp_states_the_privacy_that_we_do() -> None:
    assert opendp_samplers._adder("laplace", "int64", 400.0).map(2.0) == pytest.approx(2 / 400, rel=1e-12)
    assert opendp_samplers._adder("laplace", "float64", 0.1).map(1.0) == pytest.approx(10, rel=1e-12)
    assert opendp_samplers._adder("gaussian", "float64", 5.0).map(1.0) == pytest.approx(1 / 50, rel=1e-12)  # ρ: Δ²/2σ²


def test_integers_saturate_rather_than_wrap_around() -> None:
    ends = np.array([2**63 - 1, -(2**63)] * 50)
    noised = opendp_samplers.laplace(ends, 1e6)
    assert ((noised > 0) == (ends > 0)).all()


@pytest.mark.parametrize("add", [opendp_samplers.laplace, opendp_samplers.gaussian])
def test_a_scale_that_is_none_and_values_that_cannot_be_noised_are_refused(add: Callable[..., Any]) -> None:
    for scale in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match=f"(scale|sigma) must be positive and finite, got {scale}"):
            add(np.zeros(2), scale)
    for values in (np.array([np.nan]), np.array([0.0, np.inf]), np.zeros(2, np.float32), np.ones(1, bool)):
        with pytest.raises(InputError, match=r"noise is added to (finite|int64 or float64)"):
            add(values, 1.0)


class Told:
    """A source that says what it is told to, word by word, and counts how often it is asked."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)
        self.asked = 0

    def words(self, *shape: int) -> NDArray[np.uint64]:
        self.asked += 1
        found = [self.left.pop(0) for _ in range(shape[0])]
        return np.array(found, np.uint64)


def cumulative(scale: Fraction, parties: int, entries: int) -> list[Decimal]:
    """Return P[NB(1/n, e^(-1/scale)) <= k], by the formula of its mass, to 100 digits."""
    with localcontext() as context:
        context.prec = 120
        p = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        r, found, total, product = Decimal(1) / parties, [], Decimal(0), Decimal(1)
        first = (r * (1 - p).ln()).exp()
        for k in range(entries):
            total += first * p**k * product
            found.append(+total)
            product *= (k + r) / (k + 1)
        return found


SCALES = [(Fraction(1, 100), 1), (Fraction(1, 3), 9), (Fraction(64, 3), 1), (Fraction(64, 3), 10**6)]
SCALES += [slow(Fraction(64, 3), 9), slow(Fraction(8), 2), slow(Fraction(170), 1000), slow(Fraction(300), 10**9)]


@pytest.mark.parametrize(("scale", "parties"), SCALES)
def test_between_the_floats_of_an_entry_lies_the_distribution_function_and_hardly_anything_else(
    scale: Fraction, parties: int
) -> None:
    lows, highs = (-own for own in _table(scale, parties))
    with localcontext() as context:
        context.prec = 120
        beyond = [Fraction((1 - each) * 2**64) for each in cumulative(scale, parties, len(lows) + 1)]
    for low, high, exact in zip(lows.tolist(), highs.tolist(), beyond, strict=False):
        assert low < exact < high
    assert (np.diff(lows) <= 0).all()
    assert (np.diff(highs) <= 0).all()
    assert beyond[-1] < 2**10  # what is beyond the last entry is none that floats decide
    assert highs[-1] >= 2**10 > 0 > lows[-1]


@pytest.mark.parametrize("parties", [1, 9, 999, 999_999])
def test_floats_decide_but_for_one_draw_in_2_to_the_30(parties: int) -> None:
    """Up to a scale of 500·√n, if that can be."""
    scale = min(Fraction(500 * math.isqrt(parties)), Fraction(2**14))
    lows, highs = (-own for own in _table(scale, parties))
    undecided = float((highs - lows).sum() + len(lows)) / 2**64
    assert undecided < 2.0**-30
    assert undecided < 1.1 * (float(scale) ** 2 / parties + 2 * float(scale)) * 2.0**-48


@pytest.mark.parametrize("parties", [1, 4, 10**5])
def test_what_floats_do_not_decide_exact_arithmetic_does_by_further_words_if_it_must(parties: int) -> None:
    scale = Fraction(5)
    with localcontext() as context:
        context.prec = 120
        c = cumulative(scale, parties, len(_table(scale, parties)[0]))
        firsts, seconds = ([int(each * 2**bits) % 2**64 for each in c] for bits in (64, 128))
    for k in (0, 3, len(c) // 2, len(c) - 40):
        first, second = firsts[k], seconds[k]
        for words, wanted in (
            ([first - 1], k),
            ([first + 1], k + 1),
            ([first, second - 1], k),
            ([first, second + 1], k + 1),
            ([first, second, 0], k),  # the second word is the entry's too
        ):
            source = Told(*words)
            assert int(_negative_binomial(source, 1, scale, parties)[0]) == wanted
            assert source.asked == len(words)


def test_beyond_the_table_the_tail_goes_on() -> None:
    """Of a word of ones the words after it say how far in the tail the draw is."""
    scale = Fraction(5)
    last = len(_table(scale, 3)[0]) - 1
    for following in (0, 2**63, 2**64 - 2**10):
        found = int(_negative_binomial(Told(2**64 - 1, following), 1, scale, 3)[0])
        with localcontext() as context:
            context.prec = 120
            place = (Decimal(2**64 - 1) * 2**64 + following) / Decimal(2**128)
            wanted = sum(each <= place for each in cumulative(scale, 3, last + 300))
        assert found == wanted
    assert found > last


def test_the_source_is_asked_once_whatever_is_drawn() -> None:
    entries = [Decimal(0), *cumulative(Fraction(20), 9, 402)]
    for k in (0, 1, 6, 400):  # words in the middle between two entries
        source = Told(int((entries[k] + entries[k + 1]) / 2 * 2**64))
        assert int(_negative_binomial(source, 1, Fraction(20), 9)[0]) == k
        assert source.asked == 1


def test_a_float_is_taken_for_its_exact_value() -> None:
    assert Fraction(100.1) != Fraction(1001, 10)
    word, other = (int(cumulative(each, 3, 51)[50] * 2**64) for each in (Fraction(100.1), Fraction(1001, 10)))
    assert word != other
    source = Told(word, word, 0, 0)
    polya(1, 100.1, 3, source)
    assert source.asked == 3  # twice undecided: these are entries of the exact value's table


def test_shares_of_a_fleet_add_up_to_discrete_laplace_noise() -> None:
    """Nearly all shares are 0; more devices than must count make more noise, half of them less."""
    source, scale = exact_sampling.SeededExperiment(np.random.default_rng(69)), 12.0
    drawn = polya(3000 * 1000, scale, 1000, source).reshape(3000, 1000)
    assert (drawn == 0).mean() > 0.99
    assert p_value_discrete(drawn.sum(axis=1), stats.dlaplace(1 / scale).pmf) > 0.01
    half = drawn[:, :500].sum(axis=1)
    assert p_value_discrete(half, stats.dlaplace(1 / scale).pmf) < FALSE_ALARM
    assert p_value_discrete(half, polya_mass(scale, 0.5)) > 0.01
    more = drawn.sum(axis=1) + polya(3000 * 500, scale, 1000, source).reshape(3000, 500).sum(axis=1)
    assert p_value_discrete(more, polya_mass(scale, 1.5)) > 0.01


@pytest.mark.parametrize(("scale", "parties"), [(1.0, 1), (1.0, 5), (3.0, 2)])
def test_the_shares_of_all_parties_add_up_to_discrete_laplace_noise(scale: float, parties: int) -> None:
    total = sum(polya(5000, scale, parties) for _ in range(parties))
    assert p_value_discrete(np.asarray(total), stats.dlaplace(1 / scale).pmf) > FALSE_ALARM
    fewer = np.asarray(sum(polya(5000, scale, 2 * parties) for _ in range(parties)))
    assert p_value_discrete(fewer, stats.dlaplace(1 / scale).pmf) < FALSE_ALARM


def test_shares_of_nobody_or_without_a_scale_are_refused_and_none_are_an_empty_array() -> None:
    for arguments in ((-1, 1.0, 2), (1, 0.0, 2), (1, 2.0**21, 2), (1, float("nan"), 2), (1, 1.0, 0)):
        with pytest.raises(InputError):
            polya(*arguments)
    assert polya(0, 1.0, 3).shape == (0,)


@given(st.integers(2, 4096), st.floats(1e-6, 32))
@example(2, 1e-6)
@example(2, 32.0)
def test_the_ratio_of_two_users_reports_is_at_most_e_to_the_epsilon_and_hardly_less(k: int, epsilon: float) -> None:
    """Of k-ary randomised response; and of a sign or bit that is flipped below 1 in 1 + e^epsilon."""
    below = exact_sampling.threshold(k, k - 1, epsilon)
    replaced = Fraction(below, 2**64)
    ratio = (1 - replaced + replaced / k) / (replaced / k)
    closer = Fraction(below - 1, 2**64)
    flipped = Fraction(exact_sampling.threshold(1, 1, epsilon), 2**64)
    with localcontext() as context:
        context.prec = 80
        bound = Fraction(Decimal(epsilon).exp())
    assert ratio <= bound
    assert below == 1 or (1 - closer + closer / k) / (closer / k) > bound
    assert max((1 - flipped) / flipped, 2 * (1 - flipped), 1 / (2 * flipped)) <= bound


def test_choices_are_exact_at_both_ends_of_the_threshold() -> None:
    below = exact_sampling.threshold(1, 1, 1.0)
    found = exact_sampling.choose(Told(*[0, below - 1, below, 2**64 - 1]), below, 4)
    assert found.tolist() == [True, True, False, False]


def test_words_beyond_the_last_whole_multiple_are_drawn_again() -> None:
    spare = 2**64 % 10
    source = Told(*[7, 2**64 - spare, 2**64 - 1, 2**64 - spare - 1, 2**64 - 2, 13, 25])
    assert exact_sampling.integers(source, 10, 4).tolist() == [7, 5, 3, 9]
    assert source.left == []


def test_a_secure_source_has_a_key_of_its_own_and_does_not_show_it() -> None:
    key = bytes(range(65, 97))
    source = KeyStream(key)
    assert type(exact_sampling.secure()) is KeyStream
    assert (exact_sampling.secure().words(8) != exact_sampling.secure().words(8)).any()
    assert (source.words(4) == KeyStream(key).words(4)).all()  # it is really this key
    for shown in (repr(source), str(source)):
        assert key.hex() not in shown
        assert key.decode()[:4] not in shown
