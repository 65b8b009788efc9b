"""The definitions of proofs/Inputs.v in Python, word for word, against the code, on fields of 17 to 103 elements."""

import math
import random
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fhe_auc.base.errors import CapacityError
from fhe_auc.input_proofs.proofs import Query, prove
from fhe_auc.input_proofs.statement import FORGERY_BITS, LINEAR_CHECKS, PROOFS, Shape, Statement, best_shape

INPUTS = Path(__file__).parents[2] / "proofs" / "Inputs.v"


class Field(int):
    """F: polynomials through values at points, and what vanishes on digits."""

    def interpolated(self, values: Mapping[int, int], z: int) -> int:
        return sum(value * self.through(k, values, z) for k, value in values.items()) % self

    def through(self, k: int, points: Iterable[int], z: int) -> int:
        return math.prod(pow(k - each, -1, self) * (z - each) for each in points if each != k) % self

    def vanishing(self, a: int, b: int) -> int:
        return math.prod(a - v for v in range(b)) % self


class Model:
    """What Inputs.v says of digits x under weights r and a proof, with the code's layout of them."""

    def __init__(self, statement: Statement, digits: list[int], weights: list[list[int]], proof: list[int]) -> None:
        self.F, self.b, self.C = Field(statement.prime), statement.base, statement.shape.calls
        self.J = len(weights)
        filled = digits + [0] * (self.C * self.J - len(digits))
        self.x = {(k, j): filled[j * self.C + k - 1] for k in self.calls for j in range(self.J)}
        self.r = {(i, j): weights[j][i] for j in range(self.J) for i in range(PROOFS)}
        self.most = self.b * (self.C + PROOFS - 1)
        self.at_points = range(self.C + 1, self.most + 2)
        assert len(self.at_points) + self.C == self.most + 1  # `degree_left`
        own = iter(proof)
        self.seeds = {(j, m): next(own) for j in range(self.J) for m in range(PROOFS)}
        self.quotients = [{y: next(own) for y in self.at_points} for _ in range(PROOFS)]
        assert not [*own]

    @property
    def calls(self) -> range:
        return range(1, self.C + 1)

    @property
    def away(self) -> set[int]:
        return {*range(self.F)} - {*self.calls}

    def wire(self, j: int, z: int) -> int:
        values = {k: self.x[k, j] for k in self.calls} | {self.C + 1 + m: self.seeds[j, m] for m in range(PROOFS)}
        return self.F.interpolated(values, z)

    def zero_in_calls(self, z: int) -> int:
        return math.prod(z - k for k in self.calls) % self.F

    def of_wires(self, i: int, z: int) -> int:
        return sum(self.r[i, j] * self.F.vanishing(self.wire(j, z), self.b) for j in range(self.J)) % self.F

    def quotient(self, i: int, z: int) -> int:
        return self.F.interpolated(self.quotients[i], z)

    def holds(self, i: int, z: int) -> bool:
        return self.of_wires(i, z) == self.zero_in_calls(z) * self.quotient(i, z) % self.F

    def in_call(self, i: int, k: int) -> int:
        return sum(self.r[i, j] * self.F.vanishing(self.x[k, j], self.b) for j in range(self.J)) % self.F

    def lucky(self, i: int) -> bool:
        return not any(self.in_call(i, k) for k in self.calls)

    def honest(self, i: int) -> list[int]:
        return [self.of_wires(i, y) * pow(self.zero_in_calls(y), -1, self.F) % self.F for y in self.at_points]

    def lie(self, i: int, rnd: random.Random) -> list[int]:
        """Return where a quotient passes, D + 1 points or more; it is put in the place of its own."""
        roots = rnd.sample(sorted(self.away), len(self.at_points))
        missing = dict.fromkeys(roots, 0) | {k: self.in_call(i, k) for k in self.calls}
        over = {y: pow(self.zero_in_calls(y), -1, self.F) for y in self.at_points}
        for y in self.at_points:
            self.quotients[i][y] = (self.of_wires(i, y) - self.F.interpolated(missing, y)) * over[y] % self.F
        return roots

    def proof(self) -> list[int]:
        return [*self.seeds.values(), *(value for own in self.quotients for value in own.values())]


def stated(base: int, prime: int, calls: int = 3) -> Statement:
    """Three counts of two digits: the first is 1, and the others are alike."""
    terms, equations, signs = np.array([0, 1, 2]), np.array([0, 1, 1]), np.array([1, 1, -1])
    return Statement(prime, 3, 2, Shape(6, base, calls), 2, terms, equations, signs)


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


def points(statement: Statement, query: Query) -> list[int]:
    """Return where a query looks: what it answers where each quotient is y."""
    shape = statement.shape
    identity = [0] * shape.seeds + PROOFS * [
        y % statement.prime for y in range(shape.calls + 1, shape.calls + 1 + shape.quotient)
    ]
    return answers(query, [0] * 6, identity, [0, 0])[shape.seeds : shape.seeds + PROOFS]


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
        number = [digits[2 * w] + base * digits[2 * w + 1] for w in range(3)]
        errors = [number[0] - constants[0], number[1] - number[2] - constants[1]]
        forms = [sum(a * e for a, e in zip(row, errors, strict=True)) % prime for row in weights]
        wires = [model.wire(j, z) for j in range(model.J) for z in at]
        wanted = [*wires, *(model.quotient(i, z) for i, z in enumerate(at)), *forms]
        found = answers(query, digits, model.proof(), constants)
        assert found == wanted
        assert (len(at), len(forms), len(wires)) == (PROOFS, LINEAR_CHECKS, statement.shape.seeds)
        agreed.append(all(model.holds(i, z) for i, z in enumerate(at)) and not any(forms))
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


def test_query_points_are_all_points_outside_the_calls_and_no_two_proofs_have_one() -> None:
    statement = stated(2, 17)
    at = np.array([points(statement, Query.drawn(statement, key.to_bytes(32, "big"), bytes(32))) for key in range(150)])
    for own in at.T:
        assert set(own.tolist()) == {0, *range(4, 17)}
    assert all(len(set(own)) == PROOFS for own in at.tolist())


@pytest.mark.parametrize("bits", [36, 38, 42, 61])
def test_a_shape_is_taken_only_if_all_proofs_but_a_lucky_one_fail_as_the_theorem_says(bits: int) -> None:
    prime = next(n for n in range(2**bits - 2**20 + 1, 0, -(2**20)) if pow(3, n - 1, n) == 1)
    if bits == 36:  # a binary digit in one call, the least: 3 proofs pass with more than 2^-100, 4 with less
        least = Fraction(2 * PROOFS, prime - PROOFS)
        assert least**4 < Fraction(1, 2**FORGERY_BITS) < least**3
        with pytest.raises(CapacityError):
            best_shape(1000, 500, prime)
        return
    _, shape = best_shape(1000, 500, prime)
    passing = Fraction(shape.base * (shape.calls + PROOFS - 1), prime - shape.calls - PROOFS + 1)
    assert passing ** (PROOFS - 1) <= Fraction(1, 2**FORGERY_BITS)  # `false_proofs_pass_rarely`, one of them lucky
    assert Fraction(1, prime) ** LINEAR_CHECKS <= Fraction(1, 2**FORGERY_BITS)  # `false_equations_pass_rarely`


def test_what_is_played_here_is_defined_there() -> None:
    defined = set(re.findall(r"^Definition (\w+)", INPUTS.read_text(encoding="utf-8"), re.MULTILINE))
    played = (
        "interpolated through vanishing wire zero_in_calls of_wires quotient holds in_call lucky most honest number"
    )
    assert defined >= {*played.split()}
