"""Polynomials modulo primes as packed bytes: each coefficient takes only the bytes that its modulus needs.

This is how coefficients travel. Sums of them need no encryption library.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular

WORD = 8  # bytes of a coefficient in both libraries' formats
Words = NDArray[np.uint64]
"""Coefficients, or values at the roots of unity, of several polynomials: shape (polynomials, N)."""


@dataclass(frozen=True)
class Polynomials:
    """A sequence of polynomials of N coefficients, N being the ring dimension, each modulo one prime below 2^63."""

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
        rows = np.ascontiguousarray(words, "<u8").reshape(self.shape)
        return b"".join(_low(row, width).tobytes() for row, width in zip(rows, self.widths, strict=True))

    def unpack(self, packed: bytes | memoryview, into: Words | None = None) -> Words:
        """Return coefficients, (polynomials, N), written `into` an array of that shape if there is one.

        Raises `DeserialisationError` for another number of bytes, or a coefficient that is not below its modulus.
        """
        if len(packed) != self.packed_size:
            raise DeserialisationError(f"expected {self.packed_size} bytes of coefficients, got {len(packed)}")
        words = np.empty(self.shape, "<u8") if into is None else into
        words.fill(0)
        position = 0
        for row, width in zip(words, self.widths, strict=True):
            _low(row, width)[:] = np.frombuffer(packed, f"V{width}", self.ring_dimension, position)
            position += self.ring_dimension * width
        largest = words.max(axis=1, initial=0).tolist()
        if any(most >= modulus for most, modulus in zip(largest, self.moduli, strict=True)):
            raise DeserialisationError("a coefficient is not below its modulus")
        return words

    def add_in_place(self, total: Words, words: Words) -> None:
        """Add `words` to `total`, each polynomial modulo its prime; both as `unpack` returns them."""
        for row, summand, modulus in zip(total, words, self.moduli, strict=True):
            row += summand
            _reduce(row, modulus)

    def subtract_in_place(self, total: Words, words: Words) -> None:
        """Subtract `words` from `total`, in the same way."""
        for row, summand, modulus in zip(total, words, self.moduli, strict=True):
            row += np.uint64(modulus) - summand
            _reduce(row, modulus)

    def multiply(self, left: Words, right: Words) -> Words:
        """Return the products, coefficient by coefficient; ValueError where a prime has more than 56 bits."""
        product = np.empty(self.shape, np.uint64)
        for row, x, y, modulus in zip(product, left, right, self.moduli, strict=True):
            row[:] = modular.multiply(x, y, modulus)
        return product

    @property
    def shape(self) -> tuple[int, int]:
        """Of the arrays: polynomials, coefficients of each."""
        return len(self.moduli), self.ring_dimension

    def zeros(self) -> Words:
        """Return polynomials that are zero, shaped as `unpack` returns them."""
        return np.zeros(self.shape, np.uint64)

    def uniform(self, seed: bytes, into: Words | None = None) -> Words:
        """Return polynomials with independent uniform coefficients, expanded from a seed of 32 bytes by ChaCha20.

        They are written `into` an array of their shape if there is one.
        """
        stream = KeyStream(seed)
        words = np.empty(self.shape, np.uint64) if into is None else into
        for row, modulus in zip(words, self.moduli, strict=True):
            modular.fill(stream, modulus, row)
        return words


class PolynomialSum:
    """A running sum of polynomials, in one summand's memory; reduced only where the next summand might not fit."""

    def __init__(self, polynomials: Polynomials) -> None:
        self.polynomials = polynomials
        self._words = polynomials.zeros()
        self._most = 2 ** (64 - max(polynomials.moduli, default=1).bit_length())
        self._pending = 1  # summands below their modulus that the words may stand for

    def add(self, words: Words) -> None:
        """Add what `Polynomials.unpack` returned."""
        if self._pending == self._most:
            self._reduce()
        self._words += words
        self._pending += 1

    @property
    def words(self) -> Words:
        """The sum, each polynomial modulo its prime; it changes as more is added."""
        self._reduce()
        return self._words

    def _reduce(self) -> None:
        for row, modulus in zip(self._words, self.polynomials.moduli, strict=True):
            row %= np.uint64(modulus)
        self._pending = 1


def _reduce(row: Words, modulus: int) -> None:
    """Reduce numbers below twice their modulus: smaller ones wrap around when it is subtracted."""
    np.minimum(row, row - np.uint64(modulus), out=row)


def _low(row: Words, width: int) -> NDArray[np.void]:
    """Return the lowest bytes of each word, as one piece, which copies many times faster."""
    kind = np.dtype({"names": ["low"], "formats": [f"V{width}"], "itemsize": WORD})
    return np.asarray(row.view(kind)["low"])
