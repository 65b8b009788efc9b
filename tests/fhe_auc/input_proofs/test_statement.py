"""A statement says what it says for integers, and its shape is the shortest that is safe."""

import dataclasses
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.input_proofs.statement import FORGERY_BITS, MOST_BASE, PROOFS, Shape, Statement, best_shape
from fhe_auc.rlwe.modular import add
from tests.support.proved_counts import (
    LARGE,
    PRIMES,
    REAL,
    TOY,
    proved,
    statement_of,
    statements,
    statements_and_counts,
)


@given(statements_and_counts(), st.integers(0, 2**32))
def test_counts_come_back_from_digits_and_from_shares_of_them(
    case: tuple[Statement, NDArray[np.int64]], seed: int
) -> None:
    statement, counts = case
    digits, party = statement.digits_of(counts), proved(statement, counts, seed)
    assert digits.max() < statement.base
    assert statement.counts_of(digits).tolist() == counts.tolist()
    padded, opened = statement.counts_of(np.stack([party.padded[0], party.opened[0]]))
    assert add(padded, opened, statement.prime).tolist() == counts.tolist()


@pytest.mark.parametrize("counts", [[-1, 0], [16, 0], [0], [0, 0, 0], [2**62, 0]])
def test_what_is_no_count_of_so_many_digits_has_none(counts: list[int]) -> None:
    statement = statement_of(TOY, 2, 2, 4, 4)
    with pytest.raises(InputError, match=r"^a party's numbers are not 2 counts of 2 digits$"):
        statement.digits_of(np.array(counts, np.int64))


@given(statements(), st.data())
def test_equations_with_weights_add_up_as_integers_do(statement: Statement, data: st.DataObject) -> None:
    t, row = statement.prime, st.integers(0, statement.prime - 1)
    rows = data.draw(
        st.lists(st.lists(row, min_size=statement.equations, max_size=statement.equations), min_size=1, max_size=3)
    )
    expected = [[0] * statement.entries for _ in rows]
    for term, equation, sign in zip(statement.terms, statement.equations_of, statement.signs, strict=True):
        for found, weights in zip(expected, rows, strict=True):
            found[term] += int(sign) * weights[equation]
    assert statement.combined(np.array(rows, np.uint64)).tolist() == [[each % t for each in row] for row in expected]


def test_a_count_may_stand_in_very_many_equations() -> None:
    """Its weights add up before they are reduced: 2^14 of 50 bits fill 64."""
    many = 5_000
    statement = statement_of(LARGE, 2, 1, 2, 2, [{0: -1, 1: 1}] * many)
    weights = np.full((1, many), LARGE - 1, np.uint64)
    assert statement.combined(weights).tolist() == [[many % LARGE, -many % LARGE]]


def test_a_statement_whose_sums_could_wrap_around_or_that_does_not_fit_together_is_refused() -> None:
    largest = (REAL - 1) // 4**3 - 1
    assert statement_of(REAL, largest, 3, 4, 4, [{0: 1}]).entries == largest
    with pytest.raises(CapacityError, match="could wrap around"):
        statement_of(REAL, largest + 1, 3, 4, 4, [{0: 1}])
    whole = statement_of(TOY, 3, 2, 4, 4)
    for change in ({"length": 1}, {"signs": whole.signs[:2]}, {"equations": 0}, {"shape": Shape(5, 4, 4)}):
        with pytest.raises(InputError, match="do not fit together"):
            dataclasses.replace(whole, **change)
    for signs, terms in (([1, 1, 2], [0, 1, 2]), ([1, 1, 0], [0, 1, 2]), ([1, 1, -1], [0, 1, 1])):
        with pytest.raises(InputError, match="a count twice, or a multiple of one"):
            dataclasses.replace(whole, signs=np.array(signs), terms=np.array(terms))


@pytest.mark.parametrize(("most", "entries"), [(20, 201), (4500, 2001), (4500, 8001), (1, 1), (10**6, 21)])
def test_the_best_shape_is_the_shortest_that_is_safe(most: int, entries: int) -> None:
    """Every base and every number of points is tried, by the definitions."""
    length, shape = best_shape(most, entries, REAL)
    assert shape.base**length > most >= shape.base ** (length - 1) or (most, length) == (1, 1)
    sizes = []
    for base, points in product(range(2, MOST_BASE + 1), [2**power for power in range(1, 12)]):
        own = next(number for number in range(1, 64) if base**number > most)
        calls, digits = points - 1, own * entries
        error = base * calls / (REAL - points)
        safe = error ** (PROOFS - 1) <= 2.0**-FORGERY_BITS and (entries + 1) * base**own < REAL
        power_of_two = next(2**power for power in range(9) if 2**power >= base)
        if safe and (REAL - 1) % (points * power_of_two) == 0:
            sizes.append(digits + PROOFS * (2 * -(-digits // calls) + base * calls + 1))
    assert shape.digits + PROOFS * shape.size == min(sizes)
    assert shape.error(REAL) ** (PROOFS - 1) <= 2.0**-FORGERY_BITS
    statement = statement_of(REAL, entries, length, shape.base, shape.points)  # it has all roots of unity
    assert statement.proof_size == PROOFS * shape.size


@pytest.mark.parametrize("prime", PRIMES[:2])
def test_a_small_field_proves_nothing(prime: int) -> None:
    with pytest.raises(CapacityError, match="cannot be proved"):
        best_shape(20, 10, prime)
