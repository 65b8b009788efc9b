"""The proof of digits straight from its definition (`fhe_auc.input_proofs.proofs`), in Python's integers modulo t.

A polynomial is what it is at some integers. Seeds and weights are rows by j, of one for each i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from fhe_auc.input_proofs.statement import Statement

Rows = Sequence[Sequence[int]]


class Oracle:
    """Of a statement."""

    def __init__(self, statement: Statement) -> None:
        shape, self.t = statement.shape, statement.prime
        self.statement, self.shape = statement, shape
        self.calls = range(1, shape.calls + 1)
        degree = shape.base * (shape.calls + shape.proofs - 1) - shape.calls  # D
        self.nodes = range(shape.calls + 1, shape.calls + degree + 2)  # where the q_i are told

    def at(self, point: int, values: Mapping[int, int]) -> int:
        """The polynomial of least degree with these values, at a point: Lagrange's sum of fractions."""
        found = 0
        for node, value in values.items():
            others = [each for each in values if each != node]
            above, below = (prod(y - each for each in others) % self.t for y in (point, node))
            found += value * above * pow(below, -1, self.t)
        return found % self.t

    def wires(self, digits: Sequence[int], seeds: Rows, point: int) -> list[int]:
        """f_1 … f_J at a point."""
        size = self.shape.calls
        filled = [*digits, *[0] * (len(seeds) * size - len(digits))]
        columns = ([*filled[j * size : (j + 1) * size], *own] for j, own in enumerate(seeds))
        return [self.at(point, dict(enumerate(column, 1))) for column in columns]

    def sums(self, wires: Sequence[int], weights: Rows) -> list[int]:
        """h_1 … h_N where the f_j are these."""
        gadgets = [prod(x - digit for digit in range(self.shape.base)) for x in wires]
        return [sum(map(int.__mul__, column, gadgets)) % self.t for column in zip(*weights, strict=True)]

    def vanishing(self, point: int) -> int:
        return prod(point - call for call in self.calls) % self.t  # Z

    def prove(self, digits: Sequence[int], weights: Rows, seeds: Rows) -> list[int]:
        told = [
            [h * pow(self.vanishing(y), -1, self.t) % self.t for h in self.sums(self.wires(digits, seeds, y), weights)]
            for y in self.nodes
        ]
        return [each for rows in (seeds, zip(*told, strict=True)) for row in rows for each in row]

    def answers(
        self, points: Sequence[int], rows: Rows, digits: list[int], proof: list[int], constants: Sequence[int]
    ) -> list[int]:
        """A server's, of its shares: f_j(z_i) by j, then q_i(z_i), then Σ row·(equations − constants)."""
        shape, of = self.shape, self.statement
        seeds = [proof[at : at + shape.proofs] for at in range(0, shape.seeds, shape.proofs)]
        wires = zip(*(self.wires(digits, seeds, point) for point in points), strict=True)
        found = [each for own in wires for each in own]
        for at, point in zip(range(shape.seeds, len(proof), len(self.nodes)), points, strict=True):
            found.append(self.at(point, dict(zip(self.nodes, proof[at:], strict=False))))
        places = [of.base**place for place in range(of.length)]
        counts = [sum(map(int.__mul__, digits[at:], places)) for at in range(0, len(digits), of.length)]
        terms = list(zip(of.terms.tolist(), of.equations_of.tolist(), of.signs.tolist(), strict=True))
        for row in rows:
            left = sum(row[equation] * sign * counts[term] for term, equation, sign in terms)
            found.append((left - sum(map(int.__mul__, row, constants))) % self.t)
        return found

    def holds(self, points: Sequence[int], answers: list[int], weights: Rows) -> bool:
        """What whoever has the sum of both servers' answers decides."""
        size, count = self.shape.seeds, self.shape.proofs
        for i, point in enumerate(points):
            h = self.sums(answers[i:size:count], weights)[i]
            if (h - self.vanishing(point) * answers[size + i]) % self.t:
                return False
        return not any(answers[size + count :])
