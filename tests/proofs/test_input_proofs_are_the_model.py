"""The definitions of proofs/Inputs.v in Python, word for word, against the code, on fields of 17 to 257 elements."""

import itertools
import math
import random
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fhe_auc.base.errors import CapacityError
from fhe_auc.input_proofs.proofs import Query, decide, prove, root_of_unity
from fhe_auc.input_proofs.statement import FORGERY_BITS, LINEAR_CHECKS, PROOFS, Shape, Statement, best_shape

INPUTS = Path(__file__).parents[2] / "proofs" / "Inputs.v"
Digits = dict[tuple[int, int], int]  # by call and place in it, as x and as each proof's weights r there


class Field(int):
    """F: its points, a polynomial through their values, and what the gadget does."""

    def point(self, k: int, calls: int) -> int:  # 0 is None, the seeds'
        return pow(root_of_unity(calls + 1, self), k, self)

    def through(self, k: int, calls: int, z: int) -> int:
        others = [self.point(n, calls) for n in range(calls + 1) if n != k]
        return math.prod(pow(self.point(k, calls) - each, -1, self) * (z - each) for each in others) % self

    def wire(self, seed: int, v: list[int], z: int) -> int:
        at_calls = (value * self.through(c, len(v), z) for c, value in enumerate(v, 1))
        return (seed * self.through(0, len(v), z) + sum(at_calls)) % self

    def vanishing(self, a: int, b: int) -> int:
        return math.prod(a - v for v in range(b)) % self

    def gadget(self, u: list[int], a: list[int], b: int) -> int:
        return sum(x * math.prod(y - v for v in range(1, b)) for x, y in zip(u, a, strict=True)) % self


class Model:
    """What Inputs.v says of digits x under weights r and a proof, with the code's layout of them."""

    def __init__(self, statement: Statement, digits: list[int], weights: list[int], proof: list[int]) -> None:
        self.F, self.b, self.C = Field(statement.prime), statement.base, statement.shape.points - 1
        self.J = -(-len(digits) // self.C)
        self.most = self.b * self.C
        self.x, self.r = self._laid_out(digits), self._laid_out(weights)
        self.product_seeds, self.digit_seeds = proof[: self.J], proof[self.J : 2 * self.J]
        self.coefficients = proof[2 * self.J :]
        assert len(self.coefficients) == self.most + 1

    def _laid_out(self, of_digits: list[int]) -> Digits:
        filled = of_digits + [0] * (self.C * self.J - len(of_digits))
        return {divmod(at, self.J): each for at, each in enumerate(filled)}

    def wires_at(self, z: int) -> tuple[list[int], list[int]]:
        products = [[self.r[c, j] * self.x[c, j] for c in range(self.C)] for j in range(self.J)]
        digits = [[self.x[c, j] for c in range(self.C)] for j in range(self.J)]
        return (
            [self.F.wire(seed, v, z) for seed, v in zip(self.product_seeds, products, strict=True)],
            [self.F.wire(seed, v, z) for seed, v in zip(self.digit_seeds, digits, strict=True)],
        )

    def of_wires(self, z: int) -> int:
        return self.F.gadget(*self.wires_at(z), self.b)

    def claimed(self, z: int) -> int:
        return sum(each * z**k for k, each in enumerate(self.coefficients)) % self.F

    def in_calls(self) -> int:
        return sum(self.claimed(self.F.point(c, self.C)) for c in range(1, self.C + 1)) % self.F

    def holds(self, z: int) -> bool:
        return self.claimed(z) == self.of_wires(z) and self.in_calls() == 0

    def luck(self) -> int:  # lucky if zero
        return sum(self.r[at] * self.F.vanishing(self.x[at], self.b) for at in self.x) % self.F


def stated(base: int, prime: int) -> Statement:
    """Three counts of two digits in calls of two: the first is 1, and the others are alike."""
    terms, equations, signs = np.array([0, 1, 2]), np.array([0, 1, 1]), np.array([1, 1, -1])
    return Statement(prime, 3, 2, Shape(6, base, 4), 2, terms, equations, signs)


def away_from_roots(statement: Statement) -> set[int]:
    return {z for z in range(statement.prime) if pow(z, statement.shape.points, statement.prime) != 1}


FIELDS = [(2, 17), (3, 241), (4, 241), (5, 257)]


@pytest.mark.parametrize(("base", "prime"), FIELDS)
def test_an_honest_proof_has_the_gadgets_polynomial_of_the_model(base: int, prime: int) -> None:
    rnd, statement = random.Random(base), stated(base, prime)
    digits = [rnd.randrange(prime) for _ in range(6)]  # whatever they are
    weights = [[rnd.randrange(prime) for _ in range(6)] for _ in range(PROOFS)]
    seeds = [[rnd.randrange(prime) for _ in range(statement.shape.wires)] for _ in range(PROOFS)]
    proofs = prove(statement, *(np.array(each, np.uint64) for each in (digits, weights, seeds))).tolist()
    for r, seed, proof in zip(weights, seeds, proofs, strict=True):
        model = Model(statement, digits, r, proof)
        assert proof[: statement.shape.wires] == seed
        assert all(model.claimed(z) == model.of_wires(z) for z in range(prime))
        assert model.in_calls() == model.luck()
    assert all((model.F.vanishing(a, base) == 0) == (a < base) for a in range(prime))


@pytest.mark.parametrize(("base", "prime"), FIELDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2, 3))])
def test_what_servers_answer_and_decide_is_what_the_model_says(seed: int, base: int, prime: int) -> None:
    rnd, statement, agreed = random.Random(seed), stated(base, prime), list[bool]()
    query, size = Query(statement, bytes([seed]) * 32, bytes(32)), statement.shape.verifier_size
    points = [int(z) for z in query._powers[:, 1]]
    for party in range(60):  # some numbers are no digits, equations may be false, and proofs made up
        digits = [1, 0, *2 * [rnd.choice([0, 0, base]), rnd.randrange(base)]]
        constants = [1, int(party % 5 == 0)]
        weights = [[rnd.randrange(prime) for _ in range(6)] for _ in points]
        seeds = [[rnd.randrange(prime) for _ in range(statement.shape.wires)] for _ in points]
        proofs = prove(statement, *(np.array(each, np.uint64) for each in (digits, weights, seeds))).tolist()
        models = [Model(statement, digits, r, proof) for r, proof in zip(weights, proofs, strict=True)]
        if party % 2:
            for model, proof in zip(models, proofs, strict=True):
                lie(statement, proof, model, rnd)
        arrays = [np.array([each], np.uint64) for each in (digits, proofs, weights, constants)]
        answers = query.answers(*arrays)
        wanted = []
        for model, z in zip(models, points, strict=True):
            wanted += [*itertools.chain(*model.wires_at(z)), model.claimed(z), model.in_calls()]
        number = [digits[2 * w] + base * digits[2 * w + 1] for w in range(3)]
        errors = [number[0] - constants[0], number[1] - number[2] - constants[1]]
        forms = [sum(a * e for a, e in zip(row, errors, strict=True)) % prime for row in query._weights.tolist()]
        assert answers.tolist() == [wanted + forms]
        assert (len(points), len(forms), len(wanted)) == (PROOFS, LINEAR_CHECKS, PROOFS * size)
        agreed.append(all(m.holds(z) for m, z in zip(models, points, strict=True)) and not any(forms))
        assert decide(statement, answers).tolist() == agreed[-1:]
    assert set(agreed) == {True, False}


def lie(statement: Statement, proof: list[int], model: Model, rnd: random.Random) -> list[int]:
    """Change a proof in place so that its values in all calls add up to zero; return where it differs by nothing."""
    if model.luck() == 0:
        return []
    while True:  # a polynomial with as many roots as it can have
        roots, difference = rnd.sample(sorted(away_from_roots(statement)), model.most), [1]
        for root in roots:
            pairs = zip([0, *difference], [*difference, 0], strict=True)
            difference = [(low - root * own) % model.F for low, own in pairs]
        before, model.coefficients = model.coefficients, difference
        total, model.coefficients = model.in_calls(), before
        if total:
            break
    scale = -model.luck() * pow(total, -1, model.F)
    changed = [(a + scale * d) % model.F for a, d in zip(model.coefficients, difference, strict=True)]
    proof[2 * model.J :] = model.coefficients = changed
    return roots


@pytest.mark.parametrize(("base", "prime"), FIELDS)
def test_the_error_that_the_code_counts_with_is_the_models_and_is_reached(base: int, prime: int) -> None:
    rnd, statement = random.Random(base), stated(base, prime)
    digits, r, seeds = [base, *[0] * 5], [3, *[1] * 5], [rnd.randrange(prime) for _ in range(4)]
    (proof,) = prove(statement, *(np.array(each, np.uint64) for each in (digits, [r], [seeds]))).tolist()
    model = Model(statement, digits, r, proof)
    roots, away = lie(statement, proof, model, rnd), away_from_roots(statement)
    assert {z for z in away if model.holds(z)} == set(roots)
    assert len(away) == prime - model.C - 1
    assert statement.shape.error(prime) == float(Fraction(model.most, len(away))) == len(roots) / len(away)


def test_query_points_are_all_points_outside_the_roots_and_each_proofs_are_its_own() -> None:
    statement = stated(2, 17)
    points = np.array([Query(statement, key.to_bytes(32), bytes(32))._powers[:, 1] for key in range(150)])
    for own in points.T:
        assert set(own.tolist()) == away_from_roots(statement)
    assert len(np.unique(points, axis=1).T) == PROOFS


@pytest.mark.parametrize("bits", [34, 36, 42, 61])
def test_a_shape_is_taken_only_if_all_proofs_but_a_lucky_one_fail_as_the_theorem_says(bits: int) -> None:
    prime = next(n for n in range(2**bits - 2**20 + 1, 0, -(2**20)) if pow(3, n - 1, n) == 1)
    if bits == 34:  # a binary digit in one call, the least: 3 proofs pass with more than 2^-100, 4 with less
        assert Fraction(2, prime - 2) ** 4 < Fraction(1, 2**FORGERY_BITS) < Fraction(2, prime - 2) ** 3
        with pytest.raises(CapacityError):
            best_shape(1000, 500, prime)
        return
    _, shape = best_shape(1000, 500, prime)
    passing = Fraction(shape.base * shape.calls, prime - shape.points)  # `false_proof_passes_rarely`
    assert passing ** (PROOFS - 1) <= Fraction(1, 2**FORGERY_BITS)  # `false_proofs_pass_rarely`, one of them lucky
    assert Fraction(1, prime) ** LINEAR_CHECKS <= Fraction(1, 2**FORGERY_BITS)  # `false_equations_pass_rarely`


def test_what_is_played_here_is_defined_there() -> None:
    defined = set(re.findall(r"^Definition (\w+)", INPUTS.read_text(encoding="utf-8"), re.MULTILINE))
    assert defined >= {
        "interpolated",
        "wire",
        "vanishing",
        "gadget",
        "of_wires",
        "most",
        "holds",
        "lucky",
        "number",
    }
