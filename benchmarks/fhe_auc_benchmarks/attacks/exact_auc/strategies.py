"""What a lying aggregator may try against exact sessions, by name: how it changes what is in the slots.

A strategy works on the integers that ciphertexts hold, for many sessions at once (`simulated`). Those that need no more
than the homomorphic operations are played on ciphertexts as well (`ciphertexts`), by the same functions: they see
nothing but a `View`, whose `Ring` both of them provide.
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

    def zero(self, like: Vector) -> Vector:
        """Return zeros in the place of a ciphertext."""
        return np.zeros_like(like)

    def scaled(self, x: Vector, weights: Residues) -> Vector:
        """Return a ciphertext times known weights, shape (slots,)."""
        return modular.multiply(x, weights, self.prime)

    def shifted(self, x: Vector, constants: Residues) -> Vector:
        """Return a ciphertext plus known constants, shape (slots,)."""
        return modular.add(x, constants, self.prime)

    def moved(self, x: Vector, order: Any) -> Vector:
        """Return a vector whose slot k is that of `x` at order[k]; under encryption this takes rotation keys."""
        return x[..., order]


@dataclass(frozen=True)
class View:
    """What the aggregator has in hand of one prime: left and right of each party, one pair.

    Of an `earlier` session of the same parties it has both, too; the generator is for the liar's choices.
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

    def first_slot(self, group: int) -> Any:
        """Return the first slot of a group, as flags."""
        return np.arange(len(self.groups)) == np.flatnonzero(self.groups == group)[0]

    def some_party(self) -> int:
        """Return a random party's index."""
        return int(self.generator.integers(len(self.left)))

    def some_slots(self) -> Any:
        """Return one to three used slots, as flags."""
        used = np.flatnonzero(self.groups >= 0)
        flags = np.zeros(len(self.groups), bool)
        flags[self.generator.choice(used, size=int(self.generator.integers(1, 4)), replace=False)] = True
        return flags


Lie: TypeAlias = Callable[[View], Vector]


class Strategy(NamedTuple):
    """One way of lying: what the aggregator does, and how it comes to the product that it blinds.

    One that `rotates` moves slots, which no aggregator of these protocols has keys for; `on_tags` makes sense with
    authenticators only; `needs_earlier` is for where there was an earlier session of the same parties.
    """

    description: str
    play: Lie
    rotates: bool = False
    on_tags: bool = False
    needs_earlier: bool = False


def _scale(which: int, factor: int, others: int) -> Lie:
    """Multiply one sum, all its coefficients, by `factor`, and the others by another small number."""

    def lie(view: View) -> Vector:
        sums = view.ring.packing.sums
        of_sum = (view.groups >= 0) & (view.groups % sums == which % sums)
        return view.ring.scaled(view.product(), view.weights(of_sum, factor, others))

    return lie


def _scale_all(view: View) -> Vector:
    return view.ring.scaled(view.product(), view.weights(False, 1, view.constant()))


def _scale_group(view: View) -> Vector:
    group = int(view.generator.integers(view.ring.packing.group_count))
    return view.ring.scaled(view.product(), view.weights(view.groups == group, view.constant(but=(0, 1))))


def _forge(power: int, which: int) -> Lie:
    """Add a constant to one coefficient of one sum."""

    def lie(view: View) -> Vector:
        sums = view.ring.packing.sums
        place = view.first_slot(sums * power + which % sums)
        return view.ring.shifted(view.product(), view.weights(place, view.constant(), 0))

    return lie


def _add_polynomial(view: View) -> Vector:
    """Add ΣX² or ΣY², weighted, to the constant coefficient of num."""
    side = view.left if view.generator.integers(2) else view.right
    square = view.ring.times(view.ring.sum(side), view.ring.sum(side))
    added = view.ring.scaled(square, view.weights(view.groups == 0, view.constant(), 0))
    return view.ring.sum([view.product(), added])


def _drop(which: int | None) -> Lie:
    def lie(view: View) -> Vector:
        left_out = int(view.generator.integers(1, len(view.left))) if which is None else which
        kept = [party for party in range(len(view.left)) if party != left_out]
        return view.product([view.left[each] for each in kept], [view.right[each] for each in kept])

    return lie


def _twice(view: View) -> Vector:
    again = view.some_party()
    return view.product([*view.left, view.left[again]], [*view.right, view.right[again]])


def _replaced(view: View, party: int, left: Vector, right: Vector) -> Vector:
    lefts, rights = list(view.left), list(view.right)
    lefts[party], rights[party] = left, right
    return view.product(lefts, rights)


def _replay(view: View) -> Vector:
    party = view.some_party()
    return _replaced(view, party, view.earlier[0][party], view.earlier[1][party])


def _with_zero(view: View) -> Vector:
    zero = view.ring.zero(view.left[0])
    return _replaced(view, view.some_party(), zero, zero)


def _with_counts(view: View) -> Vector:
    zero = view.ring.zero(view.left[0])
    made = view.generator.integers(1, 50, (2, len(view.groups))).astype(np.uint64)
    made[:, view.ring.packing.used :] = 0
    left, right = (view.ring.shifted(zero, each) for each in made)
    return _replaced(view, view.some_party(), left, right)


def _zero_slots(view: View) -> Vector:
    weights = view.weights(view.some_slots(), 0)
    return view.product([view.ring.scaled(view.ring.sum(view.left), weights)])


def _scale_slots(view: View) -> Vector:
    factor = view.constant(but=(0, 1))
    weights = view.weights(view.some_slots(), factor)
    return view.product(None, [view.ring.scaled(view.ring.sum(view.right), weights)])


def _part_of_slots(view: View) -> Vector:
    """Leave some slots of the product out of their sums."""
    return view.ring.scaled(view.product(), view.weights(view.some_slots(), 0))


def _nothing(view: View) -> Vector:
    """Return zeros: what a pool of one class has as its constant coefficients, and polynomials that fit any point."""
    return view.ring.zero(view.left[0])


def _chosen_values(view: View) -> Vector:
    drawn = view.generator.integers(0, view.ring.prime, len(view.groups)).astype(np.uint64)
    return view.ring.shifted(_nothing(view), drawn)


def _constants(num: int, tie: int, den: int) -> Lie:
    """Return constants alone: these numbers as constant coefficients, zero elsewhere."""

    def lie(view: View) -> Vector:
        numbers = (num, tie, den) if view.ring.packing.ties else (num, den)
        chosen = np.zeros(len(view.groups), np.uint64)
        for which, value in enumerate(numbers):
            chosen[view.first_slot(which)] = value
        constant = np.uint64(view.constant())
        return view.ring.shifted(_nothing(view), modular.multiply(chosen, constant, view.ring.prime))

    return lie


def _mix_parties(view: View) -> Vector:
    """Meet X of one party's sum with Y of others only: products of partial sums, which no rotation is needed for."""
    half = max(len(view.left) // 2, 1)
    return view.product(view.left[:half], view.right[half:] or view.right)


def _swap_groups(view: View) -> Vector:
    """Exchange two blocks of entries that belong to different powers of z."""
    n = view.ring.packing.entries
    middle = int(view.generator.integers(1, 3))
    one, two = (n * int(block) for block in view.generator.choice((0, middle, 3), 2, replace=False))
    order = np.arange(len(view.groups))
    order[one : one + n], order[two : two + n] = np.arange(two, two + n), np.arange(one, one + n)
    return view.ring.moved(view.product(), order)


def _spend_noise(view: View) -> Vector:
    """Multiply by random numbers and divide by them again: nothing changes but the ciphertext's noise."""
    found, prime = view.product(), view.ring.prime
    for _ in range(3):
        weights = view.generator.integers(1, prime, len(view.groups)).astype(np.uint64)
        found = view.ring.scaled(view.ring.scaled(found, weights), modular.inverse(weights, prime))
    return found


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "scale-num": Strategy("multiply num, and its authenticator, by 9/10", _scale(0, 9, 10)),
        "scale-den": Strategy("multiply den, and its authenticator, by 10/9", _scale(-1, 10, 9)),
        "scale-all": Strategy(
            "multiply everything by a constant (changes nothing: r is the aggregator's own)", _scale_all
        ),
        "scale-group": Strategy("multiply one coefficient of one sum by a constant", _scale_group),
        "forge-num": Strategy("add a constant to num", _forge(0, 0)),
        "forge-num-1": Strategy("add a constant to the coefficient of z of num", _forge(1, 0), on_tags=True),
        "forge-num-2": Strategy("add a constant to the coefficient of z² of num", _forge(2, 0), on_tags=True),
        "forge-den": Strategy("add a constant to den", _forge(0, -1)),
        "forge-den-1": Strategy("add a constant to the coefficient of z of den", _forge(1, -1), on_tags=True),
        "forge-den-2": Strategy("add a constant to the coefficient of z² of den", _forge(2, -1), on_tags=True),
        "add-polynomial": Strategy("add ΣX² or ΣY², weighted, to num", _add_polynomial),
        "drop-party": Strategy("leave out a party's submission", _drop(None)),
        "drop-first-party": Strategy("leave out the submission of the party with the ones", _drop(0), on_tags=True),
        "count-twice": Strategy("add one party's submission twice", _twice),
        "replay-session": Strategy(
            "replace a submission by the same party's in an earlier session", _replay, needs_earlier=True
        ),
        "replace-with-zero": Strategy("replace a submission by an encryption of zero", _with_zero),
        "replace-with-counts": Strategy("replace a submission by an encryption of made-up numbers", _with_counts),
        "zero-slots": Strategy("set random slots of X to zero before the product", _zero_slots),
        "scale-slots": Strategy("scale random slots of Y before the product", _scale_slots),
        "part-of-slots": Strategy("leave random slots of the product out of the sums", _part_of_slots),
        "mix-parties": Strategy("multiply X of some parties by Y of others", _mix_parties),
        "other-subset": Strategy(
            "return the result over the first two parties", lambda view: view.product(view.left[:2], view.right[:2])
        ),
        "swap-groups": Strategy("exchange two blocks of slots of the product", _swap_groups, rotates=True),
        "spend-noise": Strategy("make the noise so large that decryption fails", _spend_noise),
        "chosen-values": Strategy("return random numbers", _chosen_values),
        "plausible-values": Strategy(
            "return chosen num and den, computed without the submissions", _constants(num=9, tie=0, den=10)
        ),
        "equal-values": Strategy("return one number as num, tie and den: an AUC of 1", _constants(num=1, tie=1, den=1)),
        "zeros": Strategy("return zeros, as if the pooled rows had one class only", _nothing),
        "earlier-result": Strategy(
            "return an earlier session's result", lambda view: view.product(*view.earlier), needs_earlier=True
        ),
    }
)
"""By name."""

DESCRIPTIONS = MappingProxyType({name: strategy.description for name, strategy in STRATEGIES.items()})
"""What the aggregator does, by name."""
