"""What is proved of a party's numbers, and how long a proof of it is.

A count is submitted as B digits to the base b, the lowest first: w = Σ_j b^j·d_j. Proved is

    every d_j is one of 0 … b − 1
    Σ ± w over the terms of an equation = its constant, for each equation

modulo a prime t. As (entries + 1)·b^B < t, no sum of counts wraps around, and the equations hold for integers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.rlwe.modular import Residues, multiply, residues, total

PROOFS = 4  # of a submission, each with randomness of its own; a lie has to pass all of them
LINEAR_CHECKS = 3  # random combinations of all equations
FORGERY_BITS = 100  # a lie passes below 2^-100 for whoever has tried as many submissions as the field has elements
MOST_BASE = 8  # a larger one makes submissions smaller, and proving slower: the gadget's degree
_MOST_POINTS = 2**11


@dataclass(frozen=True)
class Shape:
    """How digits are laid out for a proof: the gadget is called `points` − 1 times, with `chunk` digits each.

    points : P, a power of two: wires' polynomials have degree P − 1, the gadget's b·(P − 1).
    """

    digits: int
    base: int
    points: int

    @property
    def calls(self) -> int:
        """C, of the gadget."""
        return self.points - 1

    @property
    def chunk(self) -> int:
        """Digits of a call; the last ones are filled up with zeros."""
        return -(-self.digits // self.calls)

    @property
    def wires(self) -> int:
        """Inputs of the gadget: for each digit of a call its product with a weight, and itself."""
        return 2 * self.chunk

    @property
    def coefficients(self) -> int:
        """Of the gadget's polynomial."""
        return self.base * self.calls + 1

    @property
    def size(self) -> int:
        """Residues of one proof."""
        return self.wires + self.coefficients

    @property
    def order(self) -> int:
        """Of the root of unity that proving takes: P times a power of two that is at least b."""
        return self.points << (self.base - 1).bit_length()

    @property
    def verifier_size(self) -> int:
        """Residues that a server makes of one proof: the wires and the gadget's polynomial at a point, and its sum."""
        return self.wires + 2

    def error(self, prime: int) -> float:
        """Return a bound on the chance that one proof of a false statement passes at a random query point."""
        return self.base * self.calls / (prime - self.points)


@dataclass(frozen=True, eq=False)
class Statement:
    """`entries` counts of `length` digits to the base `base`, and equations between them, modulo `prime`.

    Term i of the equations is `signs[i]` times the count `terms[i]`, in equation `equations_of[i]`; there are
    `equations` of them. Their constants, below b^B, may differ from party to party. Raises `InputError` where these do
    not fit together, or an equation has a count twice or a multiple of one; `CapacityError` where a sum of all counts
    could wrap around.
    """

    prime: int
    entries: int
    length: int
    shape: Shape
    equations: int
    terms: NDArray[np.int64]
    equations_of: NDArray[np.int64]
    signs: NDArray[np.int64]

    def __post_init__(self) -> None:
        fits = self.shape.digits == self.digits and len(self.terms) == len(self.equations_of) == len(self.signs)
        if not fits or min(self.entries, self.length, self.equations) < 1:
            raise InputError("the parts of a statement do not fit together")
        each_once = len(np.unique(self.equations_of * self.entries + self.terms)) == len(self.terms)
        if not each_once or (np.abs(self.signs) != 1).any():
            raise InputError("an equation has a count twice, or a multiple of one: its sum could wrap around")
        if (self.entries + 1) * self.base**self.length >= self.prime:
            raise CapacityError(f"{self.entries:,} counts of {self.length} digits could wrap around modulo the prime")

    @property
    def base(self) -> int:
        """Digits are below it."""
        return self.shape.base

    @property
    def digits(self) -> int:
        """Of all counts."""
        return self.entries * self.length

    @property
    def proof_size(self) -> int:
        """Residues of all proofs."""
        return PROOFS * self.shape.size

    @property
    def verifier_size(self) -> int:
        """Residues that a server makes of its shares."""
        return PROOFS * self.shape.verifier_size + LINEAR_CHECKS

    @cached_property
    def _weights(self) -> Residues:
        return np.array([self.base**place for place in range(self.length)], np.uint64)

    def digits_of(self, counts: NDArray[np.int64]) -> Residues:
        """Return the digits of counts, shape (entries,), as residues of shape (digits,).

        Raises `InputError` for a count below zero, or of more digits: it says no count.
        """
        if counts.shape != (self.entries,) or counts.min() < 0 or counts.max() >= self.base**self.length:
            raise InputError(f"a party's numbers are not {self.entries} counts of {self.length} digits")
        return (counts.astype(np.uint64)[:, None] // self._weights % np.uint64(self.base)).reshape(-1)

    def counts_of(self, digits: Residues) -> Residues:
        """Return counts, shape (…, entries), of digits or shares of them, shape (…, digits)."""
        places = multiply(digits.reshape(*digits.shape[:-1], self.entries, self.length), self._weights, self.prime)
        return total(places, self.prime)

    def combined(self, weights: Residues) -> Residues:
        """Return for each count what it counts in the sum of all equations with these weights.

        `weights` have the shape (checks, equations); what is returned (checks, entries).
        """
        found = np.zeros((len(weights), self.entries), np.uint64)
        signed = multiply(weights[:, self.equations_of], residues(self.signs, self.prime), self.prime)
        for row, own in zip(found, signed, strict=True):
            np.add.at(row, self.terms, own)  # a count is in few equations: nothing overflows
        return np.asarray(found % np.uint64(self.prime))


def best_shape(most: int, entries: int, prime: int) -> tuple[int, Shape]:
    """Return how many digits a count up to `most` has, and the shape, so that digits and proofs are as short as can be.

    The base is at most `MOST_BASE`, and the error is small enough for `FORGERY_BITS` where a liar has tried so many
    submissions that one of the proofs passes. Raises `CapacityError` where the prime is too small for that.
    """
    found: list[tuple[int, int, Shape]] = []
    for base in range(2, MOST_BASE + 1):
        length = next(number for number in itertools.count(1) if base**number > most)
        if (entries + 1) * base**length >= prime:
            continue
        for points in (2**power for power in range(1, _MOST_POINTS.bit_length())):
            shape = Shape(entries * length, base, points)
            fits = (prime - 1) % shape.order == 0
            if fits and shape.error(prime) ** (PROOFS - 1) <= 2.0**-FORGERY_BITS:
                found.append((shape.digits + PROOFS * shape.size, length, shape))
    if not found:
        raise CapacityError(f"modulo a prime of {prime.bit_length()} bits, {entries:,} counts cannot be proved")
    _, length, shape = min(found, key=lambda each: each[0])
    return length, shape
