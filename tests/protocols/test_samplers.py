"""Noise, shares of it, and exact choices: each has the law it says, and nothing that could be seeded.

OpenDP's samplers cannot be seeded, so tests of their law reject an honest one with probability `FALSE_ALARM` each;
beside each stands one that a scale wrong by a fifth does not pass.
"""

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
from tests.support.discrete_laplace import p_value_discrete

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


@pytest.mark.parametrize(
    "scale", [Fraction(1, 100), Fraction(1, 3), Fraction(64, 3), slow(Fraction(8)), slow(Fraction(170))]
)
@pytest.mark.parametrize("parties", [1, 9, slow(2), slow(1000)])
def test_an_entry_of_a_table_is_the_first_64_bits_of_the_distribution_function(scale: Fraction, parties: int) -> None:
    table = _table(scale, parties)
    wanted = cumulative(scale, parties, len(table))
    with localcontext() as context:
        context.prec = 120
        assert table.tolist() == [int(each * 2**64) for each in wanted]
    assert int(table[-1]) == 2**64 - 1


@pytest.mark.parametrize("parties", [1, 4])
def test_a_word_that_an_entry_has_is_decided_by_further_ones_as_exact_arithmetic_decides_it(parties: int) -> None:
    scale = Fraction(5)
    table = _table(scale, parties)
    for k in (0, 3, len(table) // 2, len(table) - 2):
        with localcontext() as context:
            context.prec = 120
            c_k = cumulative(scale, parties, k + 1)[k]
            second = int(c_k * 2**128) % 2**64
        for following, wanted in ((second - 1, k), (second + 1, k + 1)):
            source = Told(int(table[k]), following)
            found = int(_negative_binomial(source, 1, scale, parties)[0])
            assert found == wanted
            assert source.asked == 2
        third = Told(int(table[k]), second, 0)  # the second word is the entry's too: a third one decides
        assert int(_negative_binomial(third, 1, scale, parties)[0]) == k
        assert third.asked == 3


def test_beyond_the_table_the_tail_goes_on() -> None:
    """A word of ones lies in the last cell: the words after it say how far in the tail the draw is."""
    scale = Fraction(5)
    last = len(_table(scale, 3)) - 1
    for following in (0, 2**63, 2**64 - 2**10):
        found = int(_negative_binomial(Told(2**64 - 1, following), 1, scale, 3)[0])
        with localcontext() as context:
            context.prec = 120
            place = (Decimal(2**64 - 1) * 2**64 + following) / Decimal(2**128)
            wanted = sum(each <= place for each in cumulative(scale, 3, last + 200))
        assert found == wanted
    assert found > last


def test_the_source_is_asked_once_whatever_is_drawn() -> None:
    table = _table(Fraction(20), 9)
    for word in (0, int(table[0]) - 1, int(table[0]) + 1, int(table[5]) + 1, int(table[400]) + 1):
        source = Told(word)
        _negative_binomial(source, 1, Fraction(20), 9)
        assert source.asked == 1


def test_a_float_is_taken_for_its_exact_value() -> None:
    assert Fraction(100.1) != Fraction(1001, 10)
    word = int(_table(Fraction(100.1), 3)[50])
    assert word != int(_table(Fraction(1001, 10), 3)[50])
    source = Told(word, word, 0, 0)
    polya(1, 100.1, 3, source)
    assert source.asked == 3  # twice undecided: these are entries of the exact value's table


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
