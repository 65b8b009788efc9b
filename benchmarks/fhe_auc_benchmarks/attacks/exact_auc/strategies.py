"""What a lying aggregator may try against exact sessions, by name: how it changes what is in the slots.

A strategy works on the integers that ciphertexts hold, for many sessions at once (`algebra`). Those that need no more
than the homomorphic operations are played on ciphertexts as well (`ciphertexts`), by the same functions: they see
nothing but `Slots`, which both of them provide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc_protocols.exact_auc.packing import ExactPacking

Vector: TypeAlias = Any
"""Slots of a left or right ciphertext, or of a product: whatever the `Ring` computes with."""


class Ring:
    """Arithmetic on slots modulo one prime, in the clear: arrays of shape (…, slots)."""

    def __init__(self, packing: ExactPacking, prime: int) -> None:
        self.packing = packing
        self.prime = prime

    def sum(self, vectors: Sequence[Vector]) -> Vector:
        """Return the sum of vectors, one at least."""
        return reduce(lambda x, y: modular.add(x, y, self.prime), vectors)

    def times(self, x: Vector, y: Vector) -> Vector:
        """Return the product of two ciphertexts."""
        return modular.multiply(x, y, self.prime)

    def scaled(self, x: Vector, weights: Residues) -> Vector:
        """Return a ciphertext times known weights, shape (slots,)."""
        return modular.multiply(x, np.broadcast_to(weights, x.shape), self.prime)

    def shifted(self, x: Vector, constants: Residues) -> Vector:
        """Return a ciphertext plus known constants, shape (slots,)."""
        return modular.add(x, np.broadcast_to(constants, x.shape), self.prime)

    def moved(self, x: Vector, order: Any) -> Vector:
        """Return a vector whose slot k is that of `x` at order[k]; under encryption this takes rotation keys."""
        return x[..., order]


@dataclass(frozen=True)
class Seen:
    """What the aggregator has in hand of one prime.

    Attributes
    ----------
    ring : Ring
    left, right : list of Vector
        Of each party; one pair.
    earlier : tuple of two lists of Vector
        The same of an earlier session of the same parties.
    generator : numpy.random.Generator
        For the liar's choices.
    """

    ring: Ring
    left: list[Vector]
    right: list[Vector]
    earlier: tuple[list[Vector], list[Vector]]
    generator: np.random.Generator

    def product(self, left: list[Vector] | None = None, right: list[Vector] | None = None) -> Vector:
        """Return the product of the sums of all parties' vectors, or of those given."""
        return self.ring.times(self.ring.sum(self.left if left is None else left), self.ring.sum(right or self.right))

    def constant(self, *, but: tuple[int, ...] = (0,)) -> int:
        """Return a random residue, none of `but`."""
        while (drawn := int(self.generator.integers(self.ring.prime))) in but:
            pass
        return drawn

    def weights(self, chosen: Any, value: int, elsewhere: int = 1) -> Residues:
        """Return `value` in the chosen slots and `elsewhere` in the others."""
        flags = np.broadcast_to(chosen, len(self.groups))
        return np.where(flags, np.uint64(value), np.uint64(elsewhere))

    @property
    def groups(self) -> Any:
        """Group of each slot."""
        return self.ring.packing.groups

    def some_slots(self) -> Any:
        """Return one to three used slots, as flags."""
        used = np.flatnonzero(self.groups >= 0)
        flags = np.zeros(len(self.groups), bool)
        flags[self.generator.choice(used, size=int(self.generator.integers(1, 4)), replace=False)] = True
        return flags


Strategy: TypeAlias = Callable[[Seen], Vector]


class Attack(NamedTuple):
    """One way of lying.

    Attributes
    ----------
    description : str
        What the aggregator does.
    play : Strategy
        How it comes to the product that it blinds.
    rotates : bool
        Whether slots are moved, which no aggregator of these protocols has keys for.
    on_tags : bool
        Whether it makes sense with authenticators only.
    """

    description: str
    play: Strategy
    rotates: bool = False
    on_tags: bool = False


def _of_sum(seen: Seen, which: int) -> Any:
    """Flag the slots of one sum, all its powers."""
    groups = seen.groups
    return (groups >= 0) & (groups % seen.ring.packing.sums == which)


def _scale(which: int, factor: int, others: int) -> Strategy:
    """Multiply one sum, all its coefficients, by `factor`, and the others by another small number."""

    def strategy(seen: Seen) -> Vector:
        flags = _of_sum(seen, which % seen.ring.packing.sums)
        return seen.ring.scaled(seen.product(), seen.weights(flags, factor, others))

    return strategy


def _scale_all(seen: Seen) -> Vector:
    return seen.ring.scaled(seen.product(), seen.weights(False, 1, seen.constant()))


def _scale_group(seen: Seen) -> Vector:
    group = int(seen.generator.integers(seen.ring.packing.group_count))
    return seen.ring.scaled(seen.product(), seen.weights(seen.groups == group, seen.constant(but=(0, 1))))


def _forge(power: int, which: int) -> Strategy:
    """Add a constant to one coefficient of one sum."""

    def strategy(seen: Seen) -> Vector:
        packing = seen.ring.packing
        group = packing.sums * power + which % packing.sums
        places = np.flatnonzero(seen.groups == group)[:1]
        flags = np.isin(np.arange(len(seen.groups)), places)
        return seen.ring.shifted(seen.product(), seen.weights(flags, seen.constant(), 0))

    return strategy


def _add_polynomial(seen: Seen) -> Vector:
    """Add ΣX² or ΣY², weighted, to the constant coefficient of num."""
    side = seen.left if seen.generator.integers(2) else seen.right
    square = seen.ring.times(seen.ring.sum(side), seen.ring.sum(side))
    added = seen.ring.scaled(square, seen.weights(seen.groups == 0, seen.constant(), 0))
    return seen.ring.sum([seen.product(), added])


def _drop(which: int | None) -> Strategy:
    def strategy(seen: Seen) -> Vector:
        left_out = int(seen.generator.integers(1, len(seen.left))) if which is None else which
        kept = [party for party in range(len(seen.left)) if party != left_out]
        return seen.product([seen.left[each] for each in kept], [seen.right[each] for each in kept])

    return strategy


def _twice(seen: Seen) -> Vector:
    again = int(seen.generator.integers(len(seen.left)))
    return seen.product([*seen.left, seen.left[again]], [*seen.right, seen.right[again]])


def _replaced(seen: Seen, left: Vector, right: Vector) -> Vector:
    which = int(seen.generator.integers(len(seen.left)))
    lefts, rights = list(seen.left), list(seen.right)
    lefts[which], rights[which] = left, right
    return seen.product(lefts, rights)


def _replay(seen: Seen) -> Vector:
    which = int(seen.generator.integers(len(seen.left)))
    lefts, rights = list(seen.left), list(seen.right)
    lefts[which], rights[which] = seen.earlier[0][which], seen.earlier[1][which]
    return seen.product(lefts, rights)


def _with_zero(seen: Seen) -> Vector:
    nothing = seen.ring.scaled(seen.left[0], seen.weights(False, 0, 0))
    return _replaced(seen, nothing, nothing)


def _with_counts(seen: Seen) -> Vector:
    nothing = seen.ring.scaled(seen.left[0], seen.weights(False, 0, 0))
    packing, made = seen.ring.packing, seen.generator.integers(1, 50, (2, len(seen.groups))).astype(np.uint64)
    made[:, packing.used :] = 0
    return _replaced(seen, seen.ring.shifted(nothing, made[0]), seen.ring.shifted(nothing, made[1]))


def _at_slots(value: int | None, side: str) -> Strategy:
    def strategy(seen: Seen) -> Vector:
        factor = seen.constant(but=(0, 1)) if value is None else value
        weights = seen.weights(seen.some_slots(), factor)
        left, right = seen.ring.sum(seen.left), seen.ring.sum(seen.right)
        if side == "left":
            left = seen.ring.scaled(left, weights)
        else:
            right = seen.ring.scaled(right, weights)
        return seen.ring.times(left, right)

    return strategy


def _part_of_slots(seen: Seen) -> Vector:
    """Leave some slots of the product out of their sums."""
    return seen.ring.scaled(seen.product(), seen.weights(seen.some_slots(), 0))


def _nothing(seen: Seen) -> Vector:
    """Return zeros: what a pool of one class has as its constant coefficients, and polynomials that fit any point."""
    return seen.ring.scaled(seen.product(), seen.weights(False, 0, 0))


def _chosen_values(seen: Seen) -> Vector:
    drawn = seen.generator.integers(0, seen.ring.prime, len(seen.groups)).astype(np.uint64)
    return seen.ring.shifted(_nothing(seen), drawn)


def _constants(num: int, tie: int, den: int) -> Strategy:
    """Return constants alone: these numbers as constant coefficients, zero elsewhere."""

    def strategy(seen: Seen) -> Vector:
        chosen = np.zeros(len(seen.groups), np.uint64)
        for which, value in enumerate((num, tie, den) if seen.ring.packing.ties else (num, den)):
            chosen[np.flatnonzero(seen.groups == which)[0]] = value
        constant = np.full(len(chosen), seen.constant(), np.uint64)
        return seen.ring.shifted(_nothing(seen), modular.multiply(chosen, constant, seen.ring.prime))

    return strategy


def _earlier_result(seen: Seen) -> Vector:
    return seen.product(*seen.earlier)


def _shift_bins(seen: Seen) -> Vector:
    """Meet X of one party's sum with Y of others only: products of partial sums, which no rotation is needed for."""
    half = max(len(seen.left) // 2, 1)
    return seen.product(seen.left[:half], seen.right[half:] or seen.right)


def _swap_groups(seen: Seen) -> Vector:
    """Exchange two blocks of entries that belong to different powers of z."""
    n = seen.ring.packing.entries
    middle = int(seen.generator.integers(1, 3))
    one, two = (n * int(block) for block in seen.generator.choice((0, middle, 3), 2, replace=False))
    order = np.arange(len(seen.groups))
    order[one : one + n], order[two : two + n] = np.arange(two, two + n), np.arange(one, one + n)
    return seen.ring.moved(seen.product(), order)


def _spend_noise(seen: Seen) -> Vector:
    """Multiply by random numbers and divide by them again: nothing changes but the ciphertext's noise."""
    found, prime = seen.product(), seen.ring.prime
    for _ in range(3):
        weights = seen.generator.integers(1, prime, len(seen.groups)).astype(np.uint64)
        found = seen.ring.scaled(seen.ring.scaled(found, weights), modular.inverse(weights, prime))
    return found


STRATEGIES: Mapping[str, Attack] = MappingProxyType(
    {
        "scale-num": Attack("multiply num, and its authenticator, by 9/10", _scale(0, 9, 10)),
        "scale-den": Attack("multiply den, and its authenticator, by 10/9", _scale(-1, 10, 9)),
        "scale-all": Attack(
            "multiply everything by a constant (changes nothing: r is the aggregator's own)", _scale_all
        ),
        "scale-group": Attack("multiply one coefficient of one sum by a constant", _scale_group),
        "forge-num": Attack("add a constant to num", _forge(0, 0)),
        "forge-num-1": Attack("add a constant to the coefficient of z of num", _forge(1, 0), on_tags=True),
        "forge-num-2": Attack("add a constant to the coefficient of z² of num", _forge(2, 0), on_tags=True),
        "forge-den": Attack("add a constant to den", _forge(0, -1)),
        "forge-den-1": Attack("add a constant to the coefficient of z of den", _forge(1, -1), on_tags=True),
        "forge-den-2": Attack("add a constant to the coefficient of z² of den", _forge(2, -1), on_tags=True),
        "add-polynomial": Attack("add ΣX² or ΣY², weighted, to num", _add_polynomial),
        "drop-party": Attack("leave out a party's submission", _drop(None)),
        "drop-first-party": Attack("leave out the submission of the party with the ones", _drop(0), on_tags=True),
        "count-twice": Attack("add one party's submission twice", _twice),
        "replay-session": Attack("replace a submission by the same party's in an earlier session", _replay),
        "replace-with-zero": Attack("replace a submission by an encryption of zero", _with_zero),
        "replace-with-counts": Attack("replace a submission by an encryption of made-up numbers", _with_counts),
        "zero-slots": Attack("set random slots of X to zero before the product", _at_slots(0, "left")),
        "scale-slots": Attack("scale random slots of Y before the product", _at_slots(None, "right")),
        "part-of-slots": Attack("leave random slots of the product out of the sums", _part_of_slots),
        "mix-parties": Attack("multiply X of some parties by Y of others", _shift_bins),
        "other-subset": Attack(
            "return the result over the first two parties", lambda seen: seen.product(seen.left[:2], seen.right[:2])
        ),
        "swap-groups": Attack("exchange two blocks of slots of the product", _swap_groups, rotates=True),
        "spend-noise": Attack("make the noise so large that decryption fails", _spend_noise),
        "chosen-values": Attack("return random numbers", _chosen_values),
        "plausible-values": Attack(
            "return chosen num and den, computed without the submissions", _constants(num=9, tie=0, den=10)
        ),
        "equal-values": Attack("return one number as num, tie and den: an AUC of 1", _constants(num=1, tie=1, den=1)),
        "zeros": Attack("return zeros, as if the pooled rows had one class only", _nothing),
        "earlier-result": Attack("return an earlier session's result", _earlier_result),
    }
)
"""By name."""

HARMLESS = frozenset({"scale-all", "spend-noise"})
"""Strategies that change nothing a party reads off the integers in the slots."""

NEED_EARLIER = frozenset({"replay-session", "earlier-result"})
"""Strategies that need an earlier session of the same parties."""
