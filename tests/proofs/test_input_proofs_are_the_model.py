"""What proofs/Inputs.v says, played by `tests.support.quotients`, against the code, on fields of 17 to 103 elements."""

import random
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fhe_auc.base.errors import CapacityError
from fhe_auc.input_proofs.proofs import Query, prove
from fhe_auc.input_proofs.statement import FORGERY_BITS, LINEAR_CHECKS, PROOFS, Equations, Shape, Statement
from tests.support.quotients import Model, forms

INPUTS = Path(__file__).parents[2] / "proofs" / "Inputs.v"


def stated(base: int, prime: int, calls: int = 3) -> Statement:
    """Three counts of two digits: the first is 1, and the others are alike."""
    terms, equations, multiples = np.array([0, 1, 2]), np.array([0, 1, 1]), np.array([1, 1, -1])
    return Statement(prime, np.full(3, 2), Shape(6, base, calls), Equations(2, terms, equations, multiples))


def made(statement: Statement, digits: list[int], rnd: random.Random) -> Model:
    """Return the code's proof of digits, with weights and seeds that are drawn."""

    def drawn() -> list[list[int]]:
        return [[rnd.randrange(statement.prime) for _ in range(PROOFS)] for _ in range(statement.shape.chunk)]

    weights, seeds = drawn(), drawn()
    proof = prove(statement, *(np.array(each, np.uint64) for each in (digits, weights, seeds))).tolist()
    assert proof[: statement.shape.seeds] == [each for own in seeds for each in own]
    return Model(statement, digits, weights, proof)


def answers(query: Query, digits: list[int], proof: list[int], constants: list[int]) -> list[int]:
    (own,) = query.answers(*(np.array([each], np.uint64) for each in (digits, proof, constants)))
    return [int(each) for each in own]


FIELDS = [(2, 17), (3, 37), (4, 67), (5, 103)]


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
@pytest.mark.parametrize(("base", "prime"), [(2, 19), *FIELDS[1:]])
def test_an_honest_proof_has_the_quotients_of_the_model(base: int, prime: int, calls: int) -> None:
    rnd, statement = random.Random(base), stated(base, prime, calls)
    whatever = made(statement, [rnd.randrange(prime) for _ in range(6)], rnd)
    of_digits = made(statement, [rnd.randrange(base) for _ in range(6)], rnd)
    for i in range(PROOFS):
        assert [*whatever.quotients[i].values()] == whatever.honest(i)
        assert [*of_digits.quotients[i].values()] == of_digits.honest(i)
        assert of_digits.lucky(i)
        assert all(of_digits.holds(i, z) for z in range(prime))  # `honest_proofs_hold`
        assert {z for z in range(1, calls + 1) if whatever.in_call(i, z)}.isdisjoint(
            z for z in range(prime) if whatever.holds(i, z)
        )
    assert all((of_digits.F.vanishing(a, base) == 0) == (a < base) for a in range(prime))


@pytest.mark.parametrize(("base", "prime"), FIELDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2, 3))])
def test_what_servers_answer_and_decide_is_what_the_model_says(seed: int, base: int, prime: int) -> None:
    rnd, statement, agreed = random.Random(seed), stated(base, prime), list[bool]()
    at = rnd.sample([0, *range(statement.shape.calls + 1, prime)], PROOFS)
    weights = [[rnd.randrange(prime) for _ in range(2)] for _ in range(LINEAR_CHECKS)]
    query = Query(statement, at, np.array(weights, np.uint64))
    for party in range(60):  # some numbers are no digits, equations may be false, and proofs made up
        digits = [1, 0, *2 * [rnd.choice([0, 0, base]), rnd.randrange(base)]]
        constants = [1, int(party % 5 == 0)]
        model = made(statement, digits, rnd)
        if party % 2:
            for i in range(PROOFS):
                model.lie(i, rnd)
        linear = forms(statement, weights, digits, constants)
        found = answers(query, digits, model.proof(), constants)
        assert found == [*model.answers(at), *linear]
        agreed.append(model.hold(at) and not any(linear))
        of_places = np.array([[[model.r[i, j] for i in range(PROOFS)] for j in range(model.J)]], np.uint64)
        assert query.decide(np.array([found], np.uint64), of_places).tolist() == agreed[-1:]
    assert set(agreed) == {True, False}


@pytest.mark.parametrize(("base", "prime"), FIELDS)
def test_the_error_that_the_code_counts_with_is_the_models_and_is_reached(base: int, prime: int) -> None:
    rnd, statement = random.Random(base), stated(base, prime, calls=1)
    model = made(statement, [base, *[0] * 5], rnd)
    assert not model.lucky(0)
    roots = model.lie(0, rnd)
    assert {z for z in model.away if model.holds(0, z)} == set(roots)
    assert len(roots) == model.most
    assert statement.shape.error(prime) == float(Fraction(model.most, len(model.away) + 1 - PROOFS))


@pytest.mark.parametrize("bits", [36, 38, 42, 61])
def test_a_shape_is_taken_only_if_all_proofs_but_a_lucky_one_fail_as_the_theorem_says(bits: int) -> None:
    prime = next(n for n in range(2**bits - 2**20 + 1, 0, -(2**20)) if pow(3, n - 1, n) == 1)
    most, terms = np.full(500, 1000), np.arange(500)
    equation = Equations(1, terms, np.zeros_like(terms), np.ones_like(terms))
    if bits == 36:  # a binary digit in one call, the least: 3 proofs pass with more than 2^-100, 4 with less
        least = Fraction(2 * PROOFS, prime - PROOFS)
        assert least**4 < Fraction(1, 2**FORGERY_BITS) < least**3
        with pytest.raises(CapacityError):
            Statement.shortest(prime, most, equation)
        return
    shape = Statement.shortest(prime, most, equation).shape
    passing = Fraction(shape.base * (shape.calls + PROOFS - 1), prime - shape.calls - PROOFS + 1)
    assert passing ** (PROOFS - 1) <= Fraction(1, 2**FORGERY_BITS)  # `false_proofs_pass_rarely`, one of them lucky
    assert Fraction(1, prime) ** LINEAR_CHECKS <= Fraction(1, 2**FORGERY_BITS)  # `false_equations_pass_rarely`


def test_what_is_played_here_is_defined_there() -> None:
    defined = set(re.findall(r"^Definition (\w+)", INPUTS.read_text(encoding="utf-8"), re.MULTILINE))
    played = (
        "interpolated through vanishing wire zero_in_calls of_wires quotient holds in_call lucky most honest number"
    )
    assert defined >= {*played.split()}
