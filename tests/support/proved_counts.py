"""Statements about counts of any shape, and the circuit that `tests.support.vdaf` proves them by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.input_proofs.proofs import prove
from fhe_auc.input_proofs.statement import LINEAR_CHECKS, PROOFS, Shape, Statement
from fhe_auc.rlwe.modular import Residues, add, primes_below, subtract, uniform
from tests.support import vdaf

TOY = 257
REAL, LARGE = (primes_below(bits, 1, 2**14)[0] for bits in (42, 50))  # a session's field, and the largest that must do
PRIMES = [TOY, 12289, REAL, LARGE]

Equation = Mapping[int, int]
"""What each count counts in it: 1 or −1."""


def statement_of(
    prime: int, entries: int, length: int, base: int, points: int, equations: Sequence[Equation] | None = None
) -> Statement:
    """Without equations: all counts together are a number that is known."""
    given = [dict.fromkeys(range(entries), 1)] if equations is None else equations
    terms = [(term, number, sign) for number, equation in enumerate(given) for term, sign in equation.items()]
    columns = np.array(terms, np.int64).reshape(-1, 3)
    return Statement(
        prime, entries, length, Shape(entries * length, base, points), len(given), *np.ascontiguousarray(columns.T)
    )


def constants_of(statement: Statement, counts: Sequence[int]) -> list[int]:
    """What makes the equations hold, by integers."""
    found = [0] * statement.equations
    for term, equation, sign in zip(statement.terms, statement.equations_of, statement.signs, strict=True):
        found[equation] += int(sign) * counts[term]
    return [each % statement.prime for each in found]


@st.composite
def statements(draw: st.DrawFn, primes: Sequence[int] = PRIMES) -> Statement:
    """Small ones, with all that is odd: calls of one digit or filled up, one digit in all, several equations."""
    prime, base = draw(st.sampled_from(primes)), draw(st.integers(2, 8))
    points = draw(st.sampled_from([each for each in (2, 4, 8, 16) if (prime - 1) % (each * 8) == 0]))
    most = (prime - 1) // base - 1  # entries with one digit that cannot wrap around
    entries = draw(st.integers(1, min(6, most)))
    lengths = [each for each in (1, 2, 3) if (entries + 1) * base**each < prime]
    equation = st.dictionaries(st.integers(0, entries - 1), st.sampled_from([1, -1]), max_size=entries)
    equations = draw(st.lists(equation, min_size=1, max_size=3))
    return statement_of(prime, entries, draw(st.sampled_from(lengths)), base, points, equations)


@st.composite
def statements_and_counts(draw: st.DrawFn, primes: Sequence[int] = PRIMES) -> tuple[Statement, NDArray[np.int64]]:
    statement = draw(statements(primes))
    count = st.integers(0, statement.base**statement.length - 1)
    counts = draw(st.lists(count, min_size=statement.entries, max_size=statement.entries))
    return statement, np.array(counts, np.int64)


class Proved:
    """A party's digits and their proofs, true or not, shared between two servers; everything follows from `seed`."""

    def __init__(self, statement: Statement, digits: Residues, seed: int, constants: Sequence[int]) -> None:
        t, self.statement = statement.prime, statement
        self._stream = KeyStream(seed.to_bytes(32, "big"))
        self.digits, self.constants = digits, np.array(constants, np.uint64)
        self.weights = self.drawn(PROOFS, statement.digits)
        self.seeds = self.drawn(PROOFS, statement.shape.wires)
        self.proofs = prove(statement, digits, self.weights, self.seeds)
        self.pad = self.drawn(statement.digits), self.drawn(PROOFS, statement.shape.size)
        self.padded = add(digits, self.pad[0], t), add(self.proofs, self.pad[1], t)
        zero = np.uint64(0)
        self.opened = subtract(zero * self.pad[0], self.pad[0], t), subtract(zero * self.pad[1], self.pad[1], t)

    def drawn(self, *shape: int) -> Residues:
        return uniform(self._stream, self.statement.prime, *shape)


def proved(statement: Statement, counts: NDArray[np.int64], seed: int) -> Proved:
    """An honest party's."""
    return Proved(statement, statement.digits_of(counts), seed, constants_of(statement, counts.tolist()))


def oracles_field(prime: int) -> vdaf.Field:
    order = (prime - 1) & -(prime - 1)
    non_residue = next(each for each in range(2, prime) if pow(each, (prime - 1) // 2, prime) == prime - 1)
    return vdaf.Field(prime, pow(non_residue, (prime - 1) // order, prime), order)


def oracles_circuit(shape: Shape) -> vdaf.Circuit:
    """All digits' products with weights, and then the digits, go into a call; all calls add up to zero."""
    base, chunk, calls = shape.base, shape.chunk, shape.calls

    def gadget(field: vdaf.Field, inputs: Sequence[vdaf.Polynomial]) -> vdaf.Polynomial:
        found = []
        for product, digit in zip(inputs[:chunk], inputs[chunk:], strict=True):
            for value in range(1, base):
                product = field.product(product, field.sum([digit, [-value]]))
            found.append(product)
        return field.sum(found)

    def evaluate(field: vdaf.Field, call: vdaf.Call, digits: list[int], weights: list[int], shares: int) -> int:
        total = 0
        for at in range(0, calls * chunk, chunk):
            pairs = [(digits[each], weights[each]) if each < shape.digits else (0, 0) for each in range(at, at + chunk)]
            total += call([x * r % field.prime for x, r in pairs] + [x for x, _ in pairs])
        return total

    return vdaf.Circuit(
        vdaf.Gadget(2 * chunk, base, gadget),
        calls,
        shape.digits,
        shape.digits,
        evaluate,
        encode=lambda digits: list(digits),
        truncate=lambda field, digits: digits,
    )


def oracles_query(statement: Statement, key: bytes, digest: bytes) -> tuple[list[int], list[list[int]]]:
    """Points, one for each proof, and weights of equations, one row for each linear check."""
    t, stream = statement.prime, KeyStream(derived_key(key, digest, b"fhe-auc input proofs: query 1\0"))
    points: list[int] = []
    while len(points) < PROOFS:
        point = int(uniform(stream, t, 1)[0])
        points += [] if pow(point, statement.shape.points, t) == 1 else [point]
    return points, uniform(stream, t, LINEAR_CHECKS, statement.equations).tolist()
