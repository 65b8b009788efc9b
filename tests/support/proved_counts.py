"""Statements about counts of any shape, and proofs of them, true or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.proofs import prove
from fhe_auc.input_proofs.statement import PROOFS, Equations, Shape, Statement
from fhe_auc.rlwe.modular import Residues, add, primes_below, uniform
from fhe_auc_protocols.exact_auc.proved_counts import ProvedCounts

TOY = 257
REAL, LARGE = (primes_below(bits, 1, 2**14)[0] for bits in (42, 50))  # a session's field, and the largest that must do
PRIMES = [TOY, 12289, REAL, LARGE]

Equation = Mapping[int, int]
"""What each count counts in it."""


def statement_of(
    prime: int,
    entries: int,
    length: int | Sequence[int],
    base: int,
    calls: int,
    equations: Sequence[Equation] | None = None,
    proofs: int = PROOFS,
) -> Statement:
    """Without equations: all counts together are a number that is known."""
    given = [dict.fromkeys(range(entries), 1)] if equations is None else equations
    terms = [(term, number, sign) for number, equation in enumerate(given) for term, sign in equation.items()]
    columns = np.array(terms, np.int64).reshape(-1, 3)
    lengths = np.broadcast_to(np.asarray(length, np.int64), entries)
    shape = Shape(int(lengths.sum()), base, calls, proofs)
    return Statement(prime, lengths, shape, Equations(len(given), *np.ascontiguousarray(columns.T)))


def integers_of(statement: Statement, counts: Sequence[int]) -> list[int]:
    """What the equations of these counts come to."""
    own = statement.equations
    found = [0] * own.number
    for term, equation, multiple in zip(own.terms, own.equations_of, own.multiples, strict=True):
        found[equation] += int(multiple) * counts[term]
    return found


def holds(wanted: ProvedCounts, submitted: Residues, cap: int) -> bool:
    """Whether digits are digits and all equations hold, by their definitions, in integers modulo the prime."""
    statement = wanted.statement
    digits = submitted[: statement.digits]
    counts = [int(each) for each in statement.counts_of(digits)]
    constants = wanted.constants([cap])[0].tolist()
    sums = zip(integers_of(statement, counts), constants, strict=True)
    return int(digits.max()) < statement.base and not any((own - each) % statement.prime for own, each in sums)


def constants_of(statement: Statement, counts: Sequence[int]) -> list[int]:
    """What makes the equations hold, by integers."""
    return [each % statement.prime for each in integers_of(statement, counts)]


@st.composite
def statements(draw: st.DrawFn, primes: Sequence[int] = PRIMES) -> Statement:
    """Small ones, with all that is odd: calls of one digit or filled up, one digit in all, several equations.

    Lengths differ, and equations have multiples, where these cannot wrap around.
    """
    prime, base = draw(st.sampled_from(primes)), draw(st.integers(2, 8))
    calls = draw(st.integers(1, 6))
    most = (prime - 1) // base - 1  # entries with one digit that cannot wrap around
    entries = draw(st.integers(1, min(6, most)))
    lengths = draw(st.lists(st.integers(1, 3), min_size=entries, max_size=entries))
    multiple = st.integers(-60, 60).filter(bool)
    equation = st.dictionaries(st.integers(0, entries - 1), multiple, max_size=entries)
    equations = draw(st.lists(equation, min_size=1, max_size=3))
    try:
        return statement_of(prime, entries, lengths, base, calls, equations)
    except CapacityError:
        ones = [{term: 1 if sign > 0 else -1 for term, sign in each.items()} for each in equations]
        return statement_of(prime, entries, 1, base, calls, ones)


@st.composite
def statements_and_counts(draw: st.DrawFn, primes: Sequence[int] = PRIMES) -> tuple[Statement, NDArray[np.int64]]:
    statement = draw(statements(primes))
    counts = [draw(st.integers(0, statement.base**length - 1)) for length in statement.lengths.tolist()]
    return statement, np.array(counts, np.int64)


class Proved:
    """A party's digits and their proof, true or not, padded, and the pads; everything follows from `seed`."""

    def __init__(self, statement: Statement, digits: Residues, seed: int, constants: Sequence[int]) -> None:
        shape, stream, t = statement.shape, KeyStream(seed.to_bytes(32, "big")), statement.prime
        self.statement, self.digits, self.constants = statement, digits, np.array(constants, np.uint64)
        self.weights, self.seeds = (uniform(stream, t, shape.chunk, shape.proofs) for _ in range(2))
        self.proof = prove(statement, digits, self.weights, self.seeds)
        self.pad = uniform(stream, t, statement.digits), uniform(stream, t, shape.size)
        self.padded = add(digits, self.pad[0], t), add(self.proof, self.pad[1], t)


def proved(statement: Statement, counts: NDArray[np.int64], seed: int) -> Proved:
    """An honest party's."""
    return Proved(statement, statement.digits_of(counts), seed, constants_of(statement, counts.tolist()))
