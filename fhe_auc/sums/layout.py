"""Where the monomials of each sum stand in the slots of an opening's ciphertexts.

    ciphertext 1    sum 1: monomials 1 … w_1       | sum 2: 1 … w_2         | … | unused
    ciphertext 2    sum 1: w_1 + 1 … 2·w_1         | sum 2: w_2 + 1 … 2·w_2 | … | unused

A sum has the same slots in every ciphertext, and these to itself. So the products of all ciphertexts with their
coefficients can be added up to one, whose slots need only be added up over each sum's. It does not matter which slot of
its sum a monomial is in, or in which ciphertext: an entry's do not stand together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from fhe_auc.base.errors import CapacityError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.monomials import encrypted_numbers
from fhe_auc.sums.terms import Release

MOST_CIPHERTEXTS = 2**10
MOST_SLOTS = 2**14  # so many residues of 50 bits add up in 64


@dataclass(frozen=True)
class Layout:
    """`widths` slots for each sum, one sum after the other, in each of so many ciphertexts of `slots` slots."""

    slots: int
    ciphertexts: int
    widths: tuple[int, ...]

    @classmethod
    def of(cls, release: Release, slots: int) -> Layout:
        """Return the layout with the fewest ciphertexts of at most 2^14 slots; `CapacityError` beyond 2^10 of them."""
        if slots > MOST_SLOTS:
            raise CapacityError(f"a ciphertext may have at most {MOST_SLOTS:,} slots, got {slots:,}")
        lengths = dict(release.sketch.vectors)
        terms = [[(term, term.length(lengths)) for term in total.terms] for total in release.sums]
        counts = [sum(encrypted_numbers(term, length) for term, length in own) for own in terms]
        for ciphertexts in range(-(-sum(counts) // slots), MOST_CIPHERTEXTS + 1):
            widths = tuple(-(-count // ciphertexts) for count in counts)
            if sum(widths) <= slots:
                return cls(slots, ciphertexts, widths)
        raise CapacityError(
            f"{len(counts):,} sums of {sum(counts):,} numbers take more than {MOST_CIPHERTEXTS:,} ciphertexts of "
            f"{slots:,} slots"
        )

    @property
    def _starts(self) -> list[int]:
        """First slot of each sum, and the first unused one."""
        return list(accumulate(self.widths, initial=0))

    def place(self, monomials: Sequence[Sequence[Residues]]) -> Residues:
        """Return each sum's monomials or coefficients in their slots, shape (ciphertexts, slots); zero elsewhere."""
        placed = np.zeros((self.ciphertexts, self.slots), np.uint64)
        for start, width, vectors in zip(self._starts[:-1], self.widths, monomials, strict=True):
            together = np.zeros(self.ciphertexts * width, np.uint64)
            joined = np.concatenate(vectors)
            together[: len(joined)] = joined
            placed[:, start : start + width] = together.reshape(self.ciphertexts, width)
        return placed

    def mask(self, stream: KeyStream, totals: Residues, prime: int) -> Residues:
        """Return residues, shape (slots,), uniform but for `totals`, shape (sums,): what each sum's slots add up to."""
        drawn = modular.uniform(stream, prime, self.slots)
        missing = modular.subtract(totals, self.totals(drawn, prime), prime)
        firsts = self._starts[:-1]
        drawn[firsts] = modular.add(drawn[firsts], missing, prime)
        return drawn

    def totals(self, slots: Residues, prime: int) -> Residues:
        """Return the residues of all sums, shape (sums,), from a result's slots modulo a prime of at most 50 bits."""
        *firsts, end = self._starts
        return np.asarray(np.add.reduceat(slots[:end], firsts) % np.uint64(prime))
