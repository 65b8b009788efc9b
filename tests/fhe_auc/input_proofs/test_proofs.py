"""Proofs, answers and decisions are, number for number, those of the VDAF draft's construction, and honest ones hold.

The oracle (tests.support.vdaf) passes the draft's vectors. What it is told here is the circuit, the field, and where
the query's randomness comes from.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.proofs import Query, coefficients_of, decide, prove, root_of_unity, values_at_roots
from fhe_auc.input_proofs.statement import LINEAR_CHECKS, PROOFS, Statement, best_shape
from fhe_auc.rlwe.modular import Residues, add, primes_below, uniform
from tests.support import vdaf
from tests.support.proved_counts import (
    LARGE,
    PRIMES,
    REAL,
    TOY,
    Proved,
    oracles_circuit,
    oracles_field,
    oracles_query,
    proved,
    statement_of,
    statements_and_counts,
)

LARGEST = primes_below(56, 1, 2**14)[0]
KEY, DIGEST = bytes(range(32)), bytes(range(32, 64))


def oracles_answers(
    statement: Statement, key: bytes, digits: list[int], proofs: Residues, weights: Residues, constants: list[int]
) -> list[int]:
    """The draft's verifiers, our order: wires, the polynomial at the point, the output; then the linear checks."""
    field, circuit, t = oracles_field(statement.prime), oracles_circuit(statement.shape), statement.prime
    points, rows = oracles_query(statement, key, DIGEST)
    found: list[int] = []
    for point, proof, own in zip(points, proofs.tolist(), weights.tolist(), strict=True):
        output, *others = vdaf.query(field, circuit, digits, proof, point, own, 2)
        found += [*others, output]
    places = range(statement.length)
    counts = [
        sum(digits[entry * statement.length + place] * statement.base**place for place in places)
        for entry in range(statement.entries)
    ]
    terms = list(zip(statement.terms.tolist(), statement.equations_of.tolist(), statement.signs.tolist(), strict=True))
    for row in rows:
        of_counts = sum(row[equation] * sign * counts[term] for term, equation, sign in terms)
        found.append((of_counts - sum(x * y for x, y in zip(row, constants, strict=True))) % t)
    return found


def answers_of(query: Query, party: Proved) -> tuple[Residues, Residues]:
    """The aggregator's and the helper's, of one party."""
    weights, constants = party.weights[None], party.constants[None]
    padded, opened = party.padded, party.opened
    return (
        query.answers(padded[0][None], padded[1][None], weights, constants),
        query.answers(opened[0][None], opened[1][None], weights),
    )


def held(query: Query, party: Proved) -> bool:
    return bool(decide(party.statement, add(*answers_of(query, party), party.statement.prime))[0])


MEDIUM = [statement_of(REAL, 7, 3, 8, 8), statement_of(LARGE, 5, 6, 5, 16), statement_of(REAL, 100, 2, 8, 32)]


@settings(max_examples=40)
@given(statements_and_counts(), st.integers(0, 2**32))
def test_proofs_and_both_servers_answers_are_the_drafts_number_for_number(
    case: tuple[Statement, NDArray[np.int64]], seed: int
) -> None:
    statement, counts = case
    agree_with_the_oracle(statement, counts, seed)


@pytest.mark.parametrize("statement", MEDIUM, ids=lambda each: f"{each.digits} digits to the base {each.base}")
def test_so_are_those_of_larger_statements(statement: Statement) -> None:
    agree_with_the_oracle(statement, np.arange(statement.entries) * 4 % statement.base**2, 1)


def agree_with_the_oracle(statement: Statement, counts: NDArray[np.int64], seed: int) -> None:
    party, query = proved(statement, counts, seed), Query(statement, KEY, DIGEST)
    field, circuit = oracles_field(statement.prime), oracles_circuit(statement.shape)
    assert circuit.proof_size == statement.shape.size
    for own, seeds, proof in zip(party.weights.tolist(), party.seeds.tolist(), party.proofs.tolist(), strict=True):
        assert proof == vdaf.prove(field, circuit, party.digits.tolist(), seeds, own)
    aggregators, helpers = answers_of(query, party)
    nothing = [0] * statement.equations
    for answers, shares, constants in (
        (aggregators, party.padded, party.constants.tolist()),
        (helpers, party.opened, nothing),
    ):
        expected = oracles_answers(statement, KEY, shares[0].tolist(), shares[1], party.weights, constants)
        assert answers.tolist() == [expected]
    together = add(aggregators, helpers, statement.prime)
    of_proofs = together[0, :-LINEAR_CHECKS].reshape(PROOFS, -1).tolist()
    assert all(vdaf.decide(field, circuit, [output, *others]) for *others, output in of_proofs)
    assert decide(statement, together).tolist() == [True]


@settings(max_examples=30)
@given(statements_and_counts([REAL, LARGE]), st.integers(0, 2**32), st.data())
def test_one_residue_that_is_changed_anywhere_makes_a_proof_fail(
    case: tuple[Statement, NDArray[np.int64]], seed: int, data: st.DataObject
) -> None:
    """Of either server's digits or proofs, constants, or answers; by anything."""
    statement, counts = case
    t, party, query = statement.prime, proved(case[0], counts, seed), Query(case[0], KEY, DIGEST)
    by = data.draw(st.one_of(st.integers(1, t - 1), st.sampled_from([1, t - 1, t // 2])))
    for name in ("padded", "opened", "constants"):
        again = proved(statement, counts, seed)
        changed = getattr(again, name) if name == "constants" else data.draw(st.sampled_from(getattr(again, name)))
        flat = changed.reshape(-1)
        place = data.draw(st.integers(0, len(flat) - 1))
        flat[place] = (int(flat[place]) + by) % t
        assert not held(query, again)
    answers = add(*answers_of(query, party), t)
    place = data.draw(st.integers(0, answers.shape[1] - 1))
    answers[0, place] = (int(answers[0, place]) + by) % t
    assert not decide(statement, answers)[0]


@pytest.mark.parametrize(
    ("entries", "length", "base", "points"),
    [(1, 1, 2, 2), (1, 1, 8, 16), (15, 1, 2, 16), (3, 1, 8, 2), (2, 2, 3, 8)],
    ids=["one digit, one call", "fewer digits than calls", "a digit a call", "one call of all", "odd base"],
)
def test_an_odd_shape_is_proved_and_its_every_lie_found(entries: int, length: int, base: int, points: int) -> None:
    """Every digit, one after the other, is the base, or −1: the smallest lies, with equations that hold."""
    statement = statement_of(REAL, entries, length, base, points)
    counts = np.zeros(entries, np.int64)
    query = Query(statement, KEY, DIGEST)
    assert held(query, proved(statement, counts, 1))
    for place in range(statement.digits):
        for lie in (base, -1):
            digits = statement.digits_of(counts)
            digits[place] = lie % REAL
            constant = lie * base ** (place % length) % REAL
            assert not held(query, Proved(statement, digits, 2, [constant]))


def test_at_a_sessions_size_a_proof_holds_and_the_smallest_lie_is_found() -> None:
    """1,000 thresholds, two labels, and what is left of a cap of 4,500."""
    length, shape = best_shape(4500, 2001, REAL)
    statement = statement_of(REAL, 2001, length, shape.base, shape.points)
    query, counts = Query(statement, KEY, DIGEST), np.arange(2001) % 5
    assert held(query, proved(statement, counts, 1))
    digits = statement.digits_of(counts)
    digits[-1] = shape.base
    constant = int(counts[:-1].sum()) + int(digits[-length:] @ [shape.base**place for place in range(length)])
    assert not held(query, Proved(statement, digits, 2, [constant]))


def test_joint_randomness_lets_one_lie_of_t_pass_whatever_the_digits_are() -> None:
    """All weights of two wrong digits are tried, at the smallest field that has the roots of unity."""
    t = 17
    statement = statement_of(t, 3, 1, 2, 4)
    query = Query(statement, bytes(32), DIGEST)
    for first, second in ((2, 0), (16, 2), (5, 9)):
        digits = np.array([first, second, 1], np.uint64)
        weights = np.full((t * t, 3), 3, np.uint64)
        weights[:, :2] = np.indices((t, t)).reshape(2, -1).T
        proofs = prove(statement, digits, weights, uniform(KeyStream(bytes(32)), t, t * t, 2))
        answers = query.answers(
            np.repeat(digits[None], t * t, axis=0),
            np.repeat(proofs[:, None], PROOFS, axis=1),
            np.repeat(weights[:, None], PROOFS, axis=1),
            np.full((t * t, 1), int(digits.sum()) % t, np.uint64),
        )
        assert int(decide(statement, answers).sum()) == t


def test_a_query_shows_nothing_of_itself_and_takes_keys_of_32_bytes() -> None:
    statement = statement_of(TOY, 2, 2, 4, 4)
    assert repr(Query(statement, KEY, DIGEST)) == "Query(...)"
    with pytest.raises(InputError, match="32 bytes"):
        Query(statement, KEY[:16], DIGEST)


@given(st.data(), st.sampled_from([*PRIMES, LARGEST]), st.sampled_from([1, 2, 4, 32]))
def test_transforms_are_values_at_the_roots_and_undo_one_another(data: st.DataObject, prime: int, size: int) -> None:
    element = st.one_of(st.integers(0, prime - 1), st.sampled_from([0, prime - 1]))
    rows = data.draw(st.lists(st.lists(element, min_size=size, max_size=size), min_size=1, max_size=3))
    field, found = oracles_field(prime), values_at_roots(np.array(rows, np.uint64), prime)
    assert found.tolist() == [[field.value(row, root) for root in field.roots(size)] for row in rows]
    assert coefficients_of(found, prime).tolist() == rows
    assert coefficients_of(np.array(rows, np.uint64), prime).tolist() == [field.interpolated(row) for row in rows]


@pytest.mark.parametrize("prime", [*PRIMES, LARGEST])
def test_a_root_has_its_order_and_an_order_that_the_field_lacks_is_refused(prime: int) -> None:
    for order in (1, 2, 64):
        root = root_of_unity(order, prime)
        assert [exponent for exponent in range(1, order + 1) if pow(root, exponent, prime) == 1] == [order]
    for order in (0, 3, 2**40):
        with pytest.raises(ValueError, match="no element of order"):
            root_of_unity(order, prime)
