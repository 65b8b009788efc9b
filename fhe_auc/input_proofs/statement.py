"""What is proved of a party's numbers, and how long a proof of it is.

A count is submitted as B digits to the base b, the lowest first: w = Σ_j b^j·d_j. Proved is

    every d_j is one of 0 … b − 1
    Σ ± w over the terms of an equation = its constant, for each equation

modulo a prime t. As (entries + 1)·b^B < t, no sum of counts wraps around, and the equations hold for integers.
"""

from __future__ import annotations

import itertools
import math
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


@dataclass(frozen=True)
class Shape:
    """How digits are laid out for N `proofs`: `chunk` of them in each of so many `calls`.

    Digit (j − 1)·C + k − 1 is x_kj, the value at k of the polynomial f_j.
    """

    digits: int
    base: int
    calls: int
    proofs: int = PROOFS

    @property
    def chunk(self) -> int:
        """J, digits of a call, and so polynomials; the last one is filled up with zeros."""
        return -(-self.digits // self.calls)

    @property
    def known(self) -> int:
        """C + N, values that a polynomial f_j has from 1 on: digits, and seeds."""
        return self.calls + self.proofs

    @property
    def seeds(self) -> int:
        """Of all polynomials f_j; all proofs have them in common."""
        return self.chunk * self.proofs

    @property
    def quotient(self) -> int:
        """D + 1, values of a quotient q_i, from C + 1 on."""
        return self.base * (self.known - 1) - self.calls + 1

    @property
    def size(self) -> int:
        """Residues of all proofs."""
        return self.seeds + self.proofs * self.quotient

    @property
    def verifier_size(self) -> int:
        """Residues that a server makes of its shares."""
        return self.seeds + self.proofs + LINEAR_CHECKS

    def error(self, prime: int) -> float:
        """Return a bound on the chance that one proof of a false statement passes at a random query point."""
        return self.base * (self.known - 1) / (prime - self.known + 1)


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
        points = self.base * (self.shape.known - 1)  # what a proof is about is of this degree
        if not fits or min(self.entries, self.length, self.equations) < 1 or points >= self.prime:
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

    def of_digits(self, counts: Residues) -> Residues:
        """Return for each digit what it counts, shape (…, digits), where counts are multiplied with these."""
        found = multiply(counts[..., None], self._weights, self.prime)
        return found.reshape(*counts.shape[:-1], self.digits)

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
        # A size is about N·(n/C + (b − 1)·C): the least is at √(n/(b − 1)), and none is beyond twice that.
        for calls in range(1, 2 * math.isqrt(entries * length // (base - 1)) + 4):
            shape = Shape(entries * length, base, calls)
            if shape.known < prime and shape.error(prime) ** (PROOFS - 1) <= 2.0**-FORGERY_BITS:
                found.append((shape.digits + shape.size, length, shape))
    if not found:
        raise CapacityError(f"modulo a prime of {prime.bit_length()} bits, {entries:,} counts cannot be proved")
    _, length, shape = min(found, key=lambda each: each[0])
    return length, shape
