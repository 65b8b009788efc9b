"""Polynomials modulo primes as packed bytes: each coefficient takes only the bytes that its modulus needs.

This is how coefficients travel. Sums of them need no encryption library: adding the parts of a joint key, one modulus
after the other, is all that there is to combining them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fhe_auc.errors import DeserialisationError
from fhe_auc.keystream import KeyStream

WORD = 8
"""Bytes of a coefficient in both libraries' formats."""

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Polynomials:
    """A sequence of polynomials, each modulo one prime.

    Attributes
    ----------
    ring_dimension : int
        N, coefficients of a polynomial.
    moduli : tuple of int
        Prime of each polynomial, below 2^63.
    """

    ring_dimension: int
    moduli: tuple[int, ...]

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Bytes that a coefficient of each polynomial takes."""
        return tuple((modulus.bit_length() + 7) // 8 for modulus in self.moduli)

    @property
    def packed_size(self) -> int:
        """Bytes of all polynomials, packed."""
        return self.ring_dimension * sum(self.widths)

    def pack(self, words: Words) -> bytes:
        """Return coefficients of shape (polynomials, N) as bytes."""
        octets = np.ascontiguousarray(words, "<u8").view(np.uint8).reshape(len(self.moduli), self.ring_dimension, WORD)
        return b"".join(row[:, :width].tobytes() for row, width in zip(octets, self.widths, strict=True))

    def unpack(self, packed: bytes) -> Words:
        """Return coefficients of shape (polynomials, N).

        Raises
        ------
        DeserialisationError
            Wrong length, or a coefficient that is not below its modulus.
        """
        if len(packed) != self.packed_size:
            raise DeserialisationError(f"expected {self.packed_size} bytes of coefficients, got {len(packed)}")
        octets = np.zeros((len(self.moduli), self.ring_dimension, WORD), np.uint8)
        position = 0
        for row, width in zip(octets, self.widths, strict=True):
            size = self.ring_dimension * width
            row[:, :width] = np.frombuffer(packed, np.uint8, size, position).reshape(self.ring_dimension, width)
            position += size
        words: Words = octets.view("<u8").reshape(len(self.moduli), self.ring_dimension)
        for row, modulus in zip(words, self.moduli, strict=True):
            if int(row.max()) >= modulus:
                raise DeserialisationError("a coefficient is not below its modulus")
        return words

    def add_in_place(self, total: Words, words: Words) -> None:
        """Add `words` to `total`, each polynomial modulo its prime; both as `unpack` returns them."""
        for row, summand, modulus in zip(total, words, self.moduli, strict=True):
            row += summand
            row[row >= modulus] -= np.uint64(modulus)

    def subtract_in_place(self, total: Words, words: Words) -> None:
        """Subtract `words` from `total`, in the same way."""
        for row, summand, modulus in zip(total, words, self.moduli, strict=True):
            row += np.uint64(modulus) - summand
            row[row >= modulus] -= np.uint64(modulus)

    def zeros(self) -> Words:
        """Return polynomials that are zero, shaped as `unpack` returns them."""
        return np.zeros((len(self.moduli), self.ring_dimension), np.uint64)

    def uniform(self, seed: bytes) -> Words:
        """Return polynomials with independent uniform coefficients, expanded from a seed of 32 bytes by ChaCha20."""
        stream = KeyStream(seed)
        words = np.empty((len(self.moduli), self.ring_dimension), np.uint64)
        for row, modulus in zip(words, self.moduli, strict=True):
            mask = np.uint64((1 << modulus.bit_length()) - 1)
            filled = 0
            while filled < self.ring_dimension:  # rejection: at least every second draw is below the modulus
                drawn = stream.words(self.ring_dimension) & mask
                drawn = drawn[drawn < modulus][: self.ring_dimension - filled]
                row[filled : filled + len(drawn)] = drawn
                filled += len(drawn)
        return words


class Sum:
    """A running sum of packed polynomials; it holds one summand's worth of memory.

    Parameters
    ----------
    polynomials : Polynomials
    """

    def __init__(self, polynomials: Polynomials) -> None:
        self.polynomials = polynomials
        self.words = polynomials.zeros()

    def add(self, words: Words) -> None:
        """Add what `unpack` returned."""
        self.polynomials.add_in_place(self.words, words)
