"""The definitions of proofs/Inputs.v in Python, word for word, with the layout of `fhe_auc.input_proofs`."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence

from fhe_auc.input_proofs.statement import Statement


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
        self.J, self.N = len(weights), statement.shape.proofs
        filled = digits + [0] * (self.C * self.J - len(digits))
        self.x = {(k, j): filled[j * self.C + k - 1] for k in self.calls for j in range(self.J)}
        self.r = {(i, j): weights[j][i] for j in range(self.J) for i in range(self.N)}
        self.most = self.b * (self.C + self.N - 1)
        self.at_points = range(self.C + 1, self.most + 2)
        assert len(self.at_points) + self.C == self.most + 1  # `degree_left`
        own = iter(proof)
        self.seeds = {(j, m): next(own) for j in range(self.J) for m in range(self.N)}
        self.quotients = [{y: next(own) for y in self.at_points} for _ in range(self.N)]
        assert not [*own]

    @property
    def calls(self) -> range:
        return range(1, self.C + 1)

    @property
    def away(self) -> set[int]:
        return {*range(self.F)} - {*self.calls}

    def wire(self, j: int, z: int) -> int:
        values = {k: self.x[k, j] for k in self.calls} | {self.C + 1 + m: self.seeds[j, m] for m in range(self.N)}
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

    def answers(self, points: Sequence[int]) -> list[int]:
        """What a server makes of these digits and this proof, as its shares: f_j(z_i) by j, then q_i(z_i)."""
        wires = [self.wire(j, z) for j in range(self.J) for z in points]
        return [*wires, *(self.quotient(i, z) for i, z in enumerate(points))]

    def hold(self, points: Sequence[int]) -> bool:
        return all(self.holds(i, z) for i, z in enumerate(points))

    def proof(self) -> list[int]:
        return [*self.seeds.values(), *(value for own in self.quotients for value in own.values())]


def forms(
    statement: Statement, rows: Sequence[Sequence[int]], digits: Sequence[int], constants: Sequence[int]
) -> list[int]:
    """Σ row·(equations − constants), by counts of such digits."""
    given, own = iter(digits), statement.equations
    counts = [sum(next(given) * statement.base**j for j in range(length)) for length in statement.lengths.tolist()]
    errors = [-each for each in constants]
    for term, equation, multiple in zip(own.terms, own.equations_of, own.multiples, strict=True):
        errors[equation] += int(multiple) * counts[term]
    return [sum(map(int.__mul__, row, errors)) % statement.prime for row in rows]
