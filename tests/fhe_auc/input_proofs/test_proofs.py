"""Proofs, answers and decisions are, number for number, those of the definition, and tell and let pass what it says.

The definition is that of proofs/Inputs.v, which `tests.support.quotients` plays. Soundness and zero knowledge are
counted over all there is in small fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.proofs import Query, gadget, prove
from fhe_auc.input_proofs.statement import FORGERY_BITS, LINEAR_CHECKS, MOST_BASE, PROOFS, Equations, Shape, Statement
from fhe_auc.rlwe.modular import Residues, add, subtract, uniform
from tests.support.proved_counts import LARGE, PRIMES, REAL, TOY, Proved, proved, statement_of, statements_and_counts
from tests.support.quotients import Model, forms

KEY, DIGEST = bytes(range(32)), bytes(range(32, 64))


def query_of(statement: Statement, points: Sequence[int]) -> Query:
    rows = uniform(KeyStream(bytes(32)), statement.prime, LINEAR_CHECKS, statement.equations.number)
    return Query(statement, points, rows)


def shortest(prime: int, most: Sequence[int], multiples: Sequence[int] | None = None) -> Statement:
    """The shortest of so many numbers, which are in one equation."""
    terms = np.arange(len(most))
    own = np.ones_like(terms) if multiples is None else np.array(multiples)
    return Statement.shortest(prime, np.array(most), Equations(1, terms, np.zeros_like(terms), own))


def both_answers(query: Query, party: Proved) -> tuple[Residues, Residues]:
    """The aggregator's of what is padded, and the helper's of the pads."""
    (digits, proof), (of_digits, of_proof) = party.padded, party.pad
    aggregators = query.answers(digits[None], proof[None], party.constants[None])
    return aggregators, query.answers(of_digits[None], of_proof[None])


def held(query: Query, party: Proved) -> bool:
    answers = subtract(*both_answers(query, party), party.statement.prime)
    return bool(query.decide(answers, party.weights[None])[0])


@given(statements_and_counts(), st.integers(0, 2**32), st.data())
def test_proofs_both_servers_answers_and_the_decision_are_those_of_the_definition(
    case: tuple[Statement, NDArray[np.int64]], seed: int, data: st.DataObject
) -> None:
    """Also of digits that are none, and of points among those where seeds and quotients are told."""
    statement, counts = case
    t, shape, party = statement.prime, statement.shape, proved(case[0], counts, seed)
    point = st.one_of(st.integers(shape.calls + 1, t), st.integers(shape.calls + 1, shape.calls + shape.quotient))
    points = data.draw(st.lists(point, min_size=PROOFS, max_size=PROOFS, unique=True))
    rows = uniform(KeyStream(bytes(32)), t, LINEAR_CHECKS, statement.equations.number)
    query, weights = Query(statement, points, rows), party.weights.tolist()
    if data.draw(st.booleans()):
        party.digits[0] = data.draw(st.integers(0, t - 1))
        party.proof = prove(statement, party.digits, party.weights, party.seeds)
        party.padded = tuple(add(x, y, t) for x, y in zip((party.digits, party.proof), party.pad, strict=True))
    model = Model(statement, party.digits.tolist(), weights, party.proof.tolist())
    assert party.proof.tolist()[: shape.seeds] == party.seeds.ravel().tolist()
    assert [[*own.values()] for own in model.quotients] == [model.honest(i) for i in range(PROOFS)]
    aggregators, helpers = both_answers(query, party)
    for answers, (digits, proof), constants in (
        (aggregators, party.padded, party.constants.tolist()),
        (helpers, party.pad, [0] * statement.equations.number),
    ):
        own = Model(statement, digits.tolist(), weights, proof.tolist())
        linear = forms(statement, rows.tolist(), digits.tolist(), constants)
        assert answers.tolist() == [[*own.answers(points), *linear]]
    decided = subtract(aggregators, helpers, t)
    equal = forms(statement, rows.tolist(), party.digits.tolist(), party.constants.tolist())
    expected = model.hold(points) and not any(equal)
    assert query.decide(decided, party.weights[None]).tolist() == [expected]
    assert expected or party.digits.tolist() != statement.digits_of(counts).tolist()


@settings(max_examples=30)
@given(statements_and_counts([REAL, LARGE]), st.integers(0, 2**32), st.data())
def test_one_residue_that_is_changed_anywhere_makes_a_proof_fail(
    case: tuple[Statement, NDArray[np.int64]], seed: int, data: st.DataObject
) -> None:
    """Of either server's digits or proofs, constants, or answers; by anything."""
    statement, counts = case
    t, party, query = statement.prime, proved(case[0], counts, seed), Query.drawn(case[0], KEY, DIGEST)
    by = data.draw(st.one_of(st.integers(1, t - 1), st.sampled_from([1, t - 1, t // 2])))
    for name in ("padded", "pad", "constants"):
        again = proved(statement, counts, seed)
        changed = getattr(again, name) if name == "constants" else data.draw(st.sampled_from(getattr(again, name)))
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place] = (int(changed[place]) + by) % t
        assert not held(query, again)
    answers = subtract(*both_answers(query, party), t)
    assert query.decide(answers, party.weights[None])[0]
    place = data.draw(st.integers(0, answers.shape[1] - 1))
    answers[0, place] = (int(answers[0, place]) + by) % t
    assert not query.decide(answers, party.weights[None])[0]


@pytest.mark.parametrize(
    ("entries", "length", "base", "calls"),
    [(1, 1, 2, 1), (1, 1, 8, 15), (15, 1, 2, 15), (3, 1, 8, 1), (2, 2, 3, 3)],
    ids=["one digit, one call", "fewer digits than calls", "all digits in one polynomial", "one call", "odd base"],
)
def test_an_odd_shape_is_proved_and_its_every_lie_found(entries: int, length: int, base: int, calls: int) -> None:
    """Every digit, one after the other, is the base, or −1: the smallest lies, with equations that hold."""
    statement = statement_of(REAL, entries, length, base, calls)
    counts = np.zeros(entries, np.int64)
    query = Query.drawn(statement, KEY, DIGEST)
    assert held(query, proved(statement, counts, 1))
    for place in range(statement.digits):
        for lie in (base, -1):
            digits = statement.digits_of(counts)
            digits[place] = lie % REAL
            constant = lie * base ** (place % length) % REAL
            assert not held(query, Proved(statement, digits, 2, [constant]))


def test_at_a_sessions_size_a_proof_holds_and_the_smallest_lie_is_found() -> None:
    """1,000 thresholds, two labels, and what is left of a cap of 4,500."""
    statement = shortest(REAL, [4500] * 2001)
    length, base = int(statement.lengths[-1]), statement.base
    query, counts = Query.drawn(statement, KEY, DIGEST), np.arange(2001) % 5
    assert held(query, proved(statement, counts, 1))
    digits = statement.digits_of(counts)
    digits[-1] = base
    constant = int(counts[:-1].sum()) + int(digits[-length:] @ [base**place for place in range(length)])
    assert not held(query, Proved(statement, digits, 2, [constant]))


@pytest.mark.parametrize("base", range(2, MOST_BASE + 1))
def test_the_gadget_is_zero_on_digits_alone(base: int) -> None:
    everything = np.arange(TOY, dtype=np.uint64)
    assert np.flatnonzero(gadget(everything, base, TOY) == 0).tolist() == list(range(base))


def test_points_of_a_key_are_distinct_and_at_no_digit_and_a_query_shows_nothing_of_itself() -> None:
    """At the smallest field there is for four proofs: nearly all of its elements are points of one key or another."""
    statement, drawn = statement_of(13, 3, 1, 2, 3), set[int]()
    shape, nothing = statement.shape, np.zeros((1, 3), np.uint64)
    told = np.tile(np.arange(4, 4 + shape.quotient, dtype=np.uint64) % np.uint64(13), PROOFS)  # q_i = y
    proof = np.concatenate([np.zeros(shape.seeds, np.uint64), told])[None]
    for number in range(200):
        query = Query.drawn(statement, number.to_bytes(32, "big"), DIGEST)
        points = query.answers(nothing, proof)[0, shape.seeds :][:PROOFS].tolist()
        assert len(set(points)) == PROOFS
        drawn |= set(points)
    assert drawn == {0, *range(4, 13)}
    assert repr(query) == "Query(...)"
    with pytest.raises(InputError, match="32 bytes"):
        Query.drawn(statement, KEY[:16], DIGEST)


# --- Statements -------------------------------------------------------------------------------------------------------


@given(statements_and_counts(), st.integers(0, 2**32))
def test_counts_come_back_from_digits_and_from_shares_of_them(
    case: tuple[Statement, NDArray[np.int64]], seed: int
) -> None:
    statement, counts = case
    digits, party = statement.digits_of(counts), proved(statement, counts, seed)
    assert digits.max() < statement.base
    assert statement.counts_of(digits).tolist() == counts.tolist()
    padded, pad = statement.counts_of(np.stack([party.padded[0], party.pad[0]]))
    assert subtract(padded, pad, statement.prime).tolist() == counts.tolist()


@pytest.mark.parametrize("counts", [[-1, 0], [16, 0], [0], [0, 0, 0], [2**62, 0]])
def test_what_is_no_count_of_so_many_digits_has_none(counts: list[int]) -> None:
    statement = statement_of(TOY, 2, 2, 4, 4)
    with pytest.raises(InputError, match=r"^a party's numbers are not 2 counts of as many digits as they may have$"):
        statement.digits_of(np.array(counts, np.int64))


def test_a_count_may_stand_in_very_many_equations() -> None:
    """Its weights add up before they are reduced: 2^14 of 50 bits fill 64."""
    many = 5_000
    statement = statement_of(LARGE, 2, 1, 2, 2, [{0: -1, 1: 1}] * many)
    weights = np.full((1, many), LARGE - 1, np.uint64)
    assert statement.combined(weights).tolist() == [[many % LARGE, -many % LARGE]]


def test_a_statement_whose_sums_could_wrap_around_or_that_does_not_fit_together_is_refused() -> None:
    largest = (REAL - 1 - 4**5) // 4**3
    for multiple in (largest, -largest):
        assert statement_of(REAL, 2, (3, 5), 4, 4, [{0: multiple}, {1: 1}]).equations.number == 2
        for further in ({0: multiple + multiple // largest}, {0: multiple, 1: 1}):
            with pytest.raises(CapacityError, match="could wrap around"):
                statement_of(REAL, 2, (3, 5), 4, 4, [further])
    whole = statement_of(TOY, 3, 2, 4, 4)
    for change in ({"lengths": whole.lengths[:2]}, {"shape": Shape(5, 4, 4)}, {"shape": Shape(6, 4, 62)}):
        with pytest.raises(InputError, match="do not fit together"):
            dataclasses.replace(whole, **change)
    for change in ({"multiples": whole.equations.multiples[:2]}, {"number": 0}):
        with pytest.raises(InputError, match="do not fit together"):
            dataclasses.replace(whole.equations, **change)
    for multiples, terms in (([1, 1, 0], [0, 1, 2]), ([1, 1, -1], [0, 1, 1])):
        with pytest.raises(InputError, match="a number twice, or none of it"):
            dataclasses.replace(whole.equations, multiples=np.array(multiples), terms=np.array(terms))


@pytest.mark.parametrize("prime", PRIMES[1:])
def test_what_holds_modulo_the_prime_of_numbers_at_their_most_holds_for_integers(prime: int) -> None:
    """The multiples are as large as may be; with the least larger one, numbers are found that wrap around."""
    largest = (prime - 1 - 4**3 - 4**2) // 4**3
    whole, numbers = statement_of(prime, 2, (2, 3), 4, 4, [{0: 1, 1: -largest}]), (range(4**2), range(4**3))
    wrapped = [sum(map(int.__mul__, pair, (1, -largest))) for pair in product(*numbers)]
    assert [each for each in wrapped if each % prime == 0] == [0]
    assert whole.equations.room(4, whole.lengths) < prime
    half = (prime + 1) // 2
    assert (1 - half * 2) % prime == 0 != 1 - half * 2  # 1 and 2, which wrap around
    with pytest.raises(CapacityError, match="could wrap around"):
        statement_of(prime, 2, (2, 3), 4, 4, [{0: 1, 1: -half}])


@pytest.mark.parametrize(("most", "entries"), [(20, 201), (4500, 2001), (4500, 8001), (1, 1), (10**6, 21)])
def test_the_best_shape_is_the_shortest_that_is_safe(most: int, entries: int) -> None:
    """Every base and every number of calls is tried, by the definitions."""
    statement = shortest(REAL, [most] * entries)
    ((length, *_), shape) = statement.lengths, statement.shape
    assert set(statement.lengths) == {length}
    assert shape.base**length > most >= shape.base ** (length - 1) or (most, length) == (1, 1)
    sizes = []
    for base, calls in product(range(2, MOST_BASE + 1), range(1, 2000)):
        own = next(number for number in range(1, 64) if base**number > most)
        digits, degree = own * entries, base * (calls + PROOFS - 1)
        safe = (degree / (REAL - calls - PROOFS + 1)) ** (PROOFS - 1) <= 2.0**-FORGERY_BITS
        if safe and (entries + 1) * base**own < REAL:
            sizes.append(digits + PROOFS * -(-digits // calls) + PROOFS * (degree - calls + 1))
    assert shape.digits + shape.size == min(sizes)
    assert shape.error(REAL) ** (PROOFS - 1) <= 2.0**-FORGERY_BITS
    assert (shape.error(REAL) + 1 / REAL) ** PROOFS <= 2.0**-133  # draft-irtf-cfrg-vdaf-20, section 9.7, asks for -128


@pytest.mark.parametrize("prime", PRIMES[:2])
def test_a_small_field_proves_nothing(prime: int) -> None:
    with pytest.raises(CapacityError, match="cannot be proved"):
        shortest(prime, [20] * 10)


@given(st.lists(st.integers(0, 2**36), min_size=1, max_size=9), st.integers(1, 7))
def test_each_number_has_as_many_digits_as_it_can_have_and_no_more(most: list[int], multiple: int) -> None:
    statement = shortest(LARGE, most, [multiple] * len(most))
    assert statement.counts_of(statement.digits_of(np.array(most))).tolist() == most
    for number, length in zip(most, statement.lengths.tolist(), strict=True):
        assert length == 1 or statement.base ** (length - 1) <= number


# --- Soundness and zero knowledge, counted ----------------------------------------------------------------------------


def all_of(t: int, count: int) -> Residues:
    """All vectors of so many residues."""
    return np.indices((t,) * count).reshape(count, -1).T.astype(np.uint64)


def answers_of(query: Query, digits: Residues, proofs: Residues, prime: int) -> Residues:
    """Both servers' together, of one party's digits and any proofs; the equation holds."""
    constants = np.full((len(proofs), 1), int(digits.sum()) % prime, np.uint64)
    return query.answers(np.repeat(digits[None], len(proofs), axis=0), proofs, constants)


def passed(statement: Statement, point: int, digits: Residues, proofs: Residues, weights: Residues) -> Residues:
    query, of_all = query_of(statement, [point]), np.repeat(weights[None], len(proofs), axis=0)
    return query.decide(answers_of(query, digits, proofs, statement.prime), of_all).astype(np.uint64)


def test_no_proof_of_a_false_statement_passes_at_more_points_than_the_bound_says() -> None:
    """All proofs there are, seeds and quotients, at all points: two calls, one proof, and a field of seven elements."""
    t, ones, outside = 7, np.ones((1, 1), np.uint64), [0, *range(3, 7)]
    statement = statement_of(t, 2, 1, 2, 2, proofs=1)
    proofs, most = all_of(t, statement.shape.size), []
    for digits in ([2, 0], [5, 1], [3, 4], [1, 0]):
        of_points = [passed(statement, point, np.array(digits, np.uint64), proofs, ones) for point in outside]
        most.append(int(sum(of_points).max()) / len(outside))
    assert max(most[:-1]) == statement.shape.error(t) == 4 / 5
    assert most[-1] == 1  # of what is true


def test_weights_let_one_lie_of_t_pass_everywhere_whatever_the_digits_are() -> None:
    """All weights of two wrong digits of one call are tried."""
    t, outside = 13, [0, *range(2, 13)]
    statement = statement_of(t, 3, 1, 2, 1, proofs=1)
    seeds = uniform(KeyStream(bytes(32)), t, 3, 1)
    for first, second in ((2, 0), (12, 2), (5, 9)):
        digits, hidden = np.array([first, second, 1], np.uint64), 0
        for pair in all_of(t, 2):
            weights = np.append(pair, np.uint64(3))[:, None]
            proof = prove(statement, digits, weights, seeds)[None]
            hidden += all(passed(statement, point, digits, proof, weights)[0] for point in outside)
        assert hidden == t


T = 17
SMALL = statement_of(T, 3, 1, 2, 3, proofs=2), statement_of(T, 4, 1, 2, 2, proofs=1)  # one polynomial, and two
WEIGHTS = uniform(KeyStream(bytes(32)), T, 2)


def honest(statement: Statement, digits: Residues) -> Residues:
    """The proofs with all seeds there are, two residues of them."""
    shape = statement.shape.chunk, statement.shape.proofs
    return np.stack([prove(statement, digits, WEIGHTS.reshape(shape), each.reshape(shape)) for each in all_of(T, 2)])


def tuples(statement: Statement) -> list[tuple[int, ...]]:
    return [*permutations([0, *range(statement.shape.calls + 1, T)], statement.shape.proofs)]


@pytest.mark.parametrize("statement", SMALL, ids=["two points of one", "one point of two"])
def test_at_whatever_points_servers_see_the_same_for_all_digits_each_value_once(statement: Statement) -> None:
    """Both servers' answers together, over all seeds, for all digits there are: so they say that these are digits."""
    inputs = all_of(2, statement.digits)
    proofs = [honest(statement, digits) for digits in inputs]
    for points in tuples(statement):
        query, seen = query_of(statement, points), set[bytes]()
        for digits, own in zip(inputs, proofs, strict=True):
            answers = answers_of(query, digits, own, T)
            seen.add(answers[np.lexsort(answers.T[1::-1])].tobytes())
            assert len(np.unique(answers[:, :2], axis=0)) == T**2
        assert len(seen) == 1


def test_four_points_of_one_polynomial_have_all_values_once() -> None:
    statement = statement_of(T, 3, 1, 2, 3)
    seeds = all_of(T, PROOFS)
    proofs = np.concatenate([seeds, np.zeros((len(seeds), PROOFS * statement.shape.quotient), np.uint64)], axis=1)
    for points in ((0, 4, 5, 16), (7, 6, 9, 8)):
        answers = answers_of(query_of(statement, points), np.array([1, 0, 1], np.uint64), proofs, T)
        assert len(np.unique(answers[:, :PROOFS] @ T ** np.arange(PROOFS, dtype=np.uint64))) == T**PROOFS


@pytest.mark.parametrize(("points", "values"), [((1, 5), T), ((5, 5), T)], ids=["at a digit", "equal"])
def test_at_a_digit_or_twice_at_a_point_values_are_not_uniform(points: tuple[int, int], values: int) -> None:
    """So no key has such points: at a digit it is read, and at one point a lie passes both proofs as it passes one."""
    statement, (digits, *_) = SMALL[0], [np.array([1, 0, 1], np.uint64)]
    answers = answers_of(query_of(statement, points), digits, honest(statement, digits), T)
    assert len(np.unique(answers[:, :2], axis=0)) == values
    assert (answers[:, 0] == 1).all() or (answers[:, 0] == answers[:, 1]).all()


def test_answers_under_two_keys_would_tell_two_inputs_apart() -> None:
    """So a submission is answered once: three values of a polynomial have two seeds."""
    statement, seen = SMALL[0], []
    for digits in ([1, 1, 0], [0, 1, 1]):
        of = np.array(digits, np.uint64)
        pairs = [answers_of(query_of(statement, points), of, honest(statement, of), T) for points in ((5, 9), (12, 9))]
        seen.append({(*first[:2], second[0]) for first, second in zip(*(each.tolist() for each in pairs), strict=True)})
    assert len(seen[0]) == len(seen[1]) == T**2
    assert not seen[0] & seen[1]


@pytest.mark.parametrize("number", range(12))
def test_the_verdict_is_as_likely_for_all_digits_whatever_the_aggregator_answers(number: int) -> None:
    """It knows its shares and the query, so that any answers are right ones and an error that it knows."""
    statement, counts = SMALL[0], set[int]()
    query, stream = query_of(statement, (5, 9)), KeyStream(bytes([number]) * 32)
    error = uniform(stream, T, statement.shape.verifier_size)
    error[[*range(number % 4), *range(4, 7)]] = 0  # not of the equations, which fail by any
    for digits in all_of(2, 3):
        answers = add(answers_of(query, digits, honest(statement, digits), T), error, T)
        counts.add(int(query.decide(answers, np.repeat(WEIGHTS.reshape(1, 1, 2), T**2, axis=0)).sum()))
    assert len(counts) == 1
    assert counts.pop() < T**2
