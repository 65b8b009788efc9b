"""What is proved of a party's numbers, and how long a proof of it is.

A number w is submitted as B digits to the base b, the lowest first: w = Σ_j b^j·d_j, B its own length. Proved is

    every d_j is one of 0 … b − 1
    Σ m·w over the terms of an equation = its constant, for each equation; m are whole numbers of either sign

modulo a prime t. As Σ |m|·b^B over an equation, and its constant, are below t together, neither what it adds nor what
it takes away wraps around: it holds for integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.rlwe.modular import Residues, multiply, residues

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
class Equations:
    """Sums of multiples of numbers, each a constant; these may differ from party to party.

    Term i is `multiples[i]` times the number `terms[i]`, in equation `equations_of[i]`, of so many (`number`). Raises
    `InputError` where these do not fit together, or an equation has a number twice, or none of it.
    """

    number: int
    terms: NDArray[np.int64]
    equations_of: NDArray[np.int64]
    multiples: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.number < 1 or not len(self.terms) == len(self.equations_of) == len(self.multiples):
            raise InputError("the parts of a statement do not fit together")
        each = np.unique(self.equations_of * (1 + self.terms.max(initial=0)) + self.terms)
        if len(each) < len(self.terms) or not self.multiples.all():
            raise InputError("an equation has a number twice, or none of it: its sum could wrap around")

    def room(self, base: int, lengths: NDArray[np.int64]) -> float:
        """Return what no equation of such lengths exceeds, nor with the longest constant; exact below 2^53."""
        sizes = float(base) ** lengths
        sums = np.bincount(self.equations_of, np.abs(self.multiples) * sizes[self.terms])
        return float(sums.max(initial=0) + sizes.max())


@dataclass(frozen=True, eq=False)
class Statement:
    """Numbers, each of its `lengths` digits to the base `base`, and equations between them, modulo `prime`.

    Constants of equations have no more digits than the longest number. Raises `InputError` where these do not fit
    together; `CapacityError` where an equation could wrap around.
    """

    prime: int
    lengths: NDArray[np.int64]
    shape: Shape
    equations: Equations

    def __post_init__(self) -> None:
        points = self.base * (self.shape.known - 1)  # what a proof is about is of this degree
        if self.lengths.min(initial=1) < 1 or self.shape.digits != self.digits or points >= self.prime:
            raise InputError("the parts of a statement do not fit together")
        if self.equations.room(self.base, self.lengths) >= self.prime:
            raise CapacityError(f"an equation of {self.entries:,} numbers could wrap around modulo the prime")

    @classmethod
    def shortest(cls, prime: int, most: NDArray[np.int64] | NDArray[np.float64], equations: Equations) -> Statement:
        """Return the one with the fewest residues of digits and proofs; `most` is what each number can be at most.

        The base is at most `MOST_BASE`, and the error is small enough for `FORGERY_BITS` where a liar has tried so many
        submissions that one of the proofs passes. Raises `CapacityError` where the prime is too small for that.
        """
        found: list[tuple[int, NDArray[np.int64], Shape]] = []
        for base in range(2, MOST_BASE + 1):
            lengths: NDArray[np.int64] = np.ones(len(most), np.int64)
            while (longer := most >= float(base) ** lengths).any():
                lengths = lengths + longer
            if equations.room(base, lengths) >= prime:
                continue
            # A size is about N·(n/C + (b − 1)·C): the least is at √(n/(b − 1)), and none is beyond twice that.
            digits = int(lengths.sum())
            for calls in range(1, 2 * math.isqrt(digits // (base - 1)) + 4):
                shape = Shape(digits, base, calls)
                if shape.known < prime and shape.error(prime) ** (PROOFS - 1) <= 2.0**-FORGERY_BITS:
                    found.append((shape.digits + shape.size, lengths, shape))
        if not found:
            raise CapacityError(f"modulo a prime of {prime.bit_length()} bits, {len(most):,} counts cannot be proved")
        _, lengths, shape = min(found, key=lambda each: each[0])
        return cls(prime, lengths, shape, equations)

    @property
    def base(self) -> int:
        """Digits are below it."""
        return self.shape.base

    @property
    def entries(self) -> int:
        """How many numbers there are."""
        return len(self.lengths)

    @property
    def digits(self) -> int:
        """Of all numbers."""
        return int(self.lengths.sum())

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where each number's digits begin."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def _weights(self) -> Residues:
        """What each digit counts in its number."""
        places = np.arange(self.digits) - np.repeat(self._starts, self.lengths)
        return np.uint64(self.base) ** places.astype(np.uint64)

    def digits_of(self, numbers: NDArray[np.int64]) -> Residues:
        """Return the digits of numbers, shape (entries,), as residues of shape (digits,).

        Raises `InputError` for a number below zero, or of more digits: it says no number.
        """
        fit = numbers.shape == self.lengths.shape and (numbers >= 0) & (numbers < float(self.base) ** self.lengths)
        if not np.all(fit):
            raise InputError(f"a party's numbers are not {self.entries} counts of as many digits as they may have")
        return np.repeat(numbers.astype(np.uint64), self.lengths) // self._weights % np.uint64(self.base)

    def counts_of(self, digits: Residues) -> Residues:
        """Return numbers, shape (…, entries), of digits or shares of them, shape (…, digits)."""
        places = multiply(digits, self._weights, self.prime)  # of one number so few that nothing overflows
        return np.asarray(np.add.reduceat(places, self._starts, axis=-1) % np.uint64(self.prime))

    def of_digits(self, counts: Residues) -> Residues:
        """Return for each digit what it counts, shape (…, digits), where numbers are multiplied with these."""
        return multiply(np.repeat(counts, self.lengths, axis=-1), self._weights, self.prime)

    def combined(self, weights: Residues) -> Residues:
        """Return for each number what it counts in the sum of all equations with these weights.

        `weights` have the shape (checks, equations); what is returned (checks, entries).
        """
        found, own = np.zeros((len(weights), self.entries), np.uint64), self.equations
        for row, of_equations in zip(found, weights, strict=True):
            multiples = multiply(of_equations[own.equations_of], residues(own.multiples, self.prime), self.prime)
            np.add.at(row, own.terms, multiples)  # a number is in few equations: nothing overflows
        return np.asarray(found % np.uint64(self.prime))
