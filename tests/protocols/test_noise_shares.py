"""Shares of discrete Laplace noise: their law, exactly, and how much work it is to draw them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fhe_auc.base.errors import InputError
from fhe_auc_protocols.noise_shares import _negative_binomial, _table, polya
from tests.protocols.test_opendp_samplers import DRAWS, FALSE_ALARM, p_value_discrete

slow = partial(pytest.param, marks=pytest.mark.slow)


class Told:
    """A source that says what it is told to, word by word, and counts how often it is asked."""

    def __init__(self, *words: int) -> None:
        self._left = list(words)
        self.asked = 0

    def words(self, *shape: int) -> NDArray[np.uint64]:
        self.asked += 1
        found = [self._left.pop(0) for _ in range(shape[0])]
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


@pytest.mark.parametrize("scale", [Fraction(1, 100), Fraction(1, 3), Fraction(64, 3), slow(Fraction(170))])
@pytest.mark.parametrize("parties", [1, 9, slow(1000)])
def test_every_entry_of_a_table_is_the_first_64_bits_of_the_distribution_function(
    scale: Fraction, parties: int
) -> None:
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


def polya_mass(scale: float, shape: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the law of NB(shape, p) − NB(shape, p) by convolution, from scipy's negative binomial."""
    reach = np.arange(4000)
    one = stats.nbinom.pmf(reach, shape, -np.expm1(-1 / scale))
    both = np.convolve(one, one[::-1])
    return lambda k: both[k + len(reach) - 1]


@pytest.mark.parametrize(("scale", "parties"), [(1.0, 2), (1.0, 8), (4.0, 3)])
def test_a_polya_share_is_a_difference_of_negative_binomials(scale: float, parties: int) -> None:
    drawn = polya(DRAWS, scale, parties)
    assert drawn.dtype == np.int64
    assert p_value_discrete(drawn, polya_mass(scale, 1 / parties)) > FALSE_ALARM
    assert p_value_discrete(drawn, polya_mass(1.5 * scale, 1 / parties)) < FALSE_ALARM
    assert p_value_discrete(drawn, polya_mass(scale, 1.5 / parties)) < FALSE_ALARM


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
