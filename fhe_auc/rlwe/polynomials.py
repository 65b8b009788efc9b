"""Polynomials modulo primes, and the number-theoretic transform: coefficients, and values at the roots of -1.

Coefficients travel as packed bytes, in as many as the modulus needs. Sums of them need no encryption library.

    value j = Σ_k c_k·ψ^((2·rev(j) + 1)·k) mod q        rev reverses the log2 N bits of j

with ψ the smallest primitive 2N-th root of one. Both libraries keep ciphertexts and keys as these values, in this
order; a test compares. Here it serves what the libraries do not offer or take long for: noise of our own choice,
looking at noise, plaintexts, and other moduli.

Source: Longa and Naehrig, "Speeding up the Number Theoretic Transform …", CANS 2016: algorithm 1, and for the inverse
the textbook's transform in time, whose products with powers of ψ come last.

Numbers grow from stage to stage and are reduced at the end. The quotient of a product of a number and a factor (at most
q/2) is taken in double precision, three roundings. What is left is added in this stage, as it is or reduced once more
to between -q/2 and q/2, as it has to be for numbers to stay below 2^63 (`_again`): for primes of 56 bits in all stages,
after which no number is above 9q; of 52 bits in few, of 49 bits in none.

Short runs of numbers are slow in numpy. So the N numbers stand in a square, more or less, and half of the stages work
on the square turned over: a stage always works on whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe.modular import MULTIPLIED_BITS, fill, multiply, powers

WORD = 8  # bytes of a coefficient in both libraries' formats
Words: TypeAlias = NDArray[np.uint64]
"""Coefficients, or values at the roots of unity, of several polynomials: shape (polynomials, N)."""
Signed: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Polynomials:
    """A sequence of polynomials of N coefficients, N being the ring dimension, each modulo one prime below 2^63."""

    ring_dimension: int
    moduli: tuple[int, ...]

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Bytes that a coefficient of each polynomial takes."""
        return tuple([(modulus.bit_length() + 7) // 8 for modulus in self.moduli])

    @property
    def packed_size(self) -> int:
        """Bytes of all polynomials, packed."""
        return self.ring_dimension * sum(self.widths)

    def pack(self, words: Words) -> bytes:
        """Return coefficients of shape (polynomials, N) as bytes."""
        rows = np.ascontiguousarray(words, "<u8").reshape(self.shape)
        return b"".join([_low(row, width).tobytes() for row, width in zip(rows, self.widths, strict=True)])

    def unpack(self, packed: bytes | memoryview, into: Words | None = None) -> Words:
        """Return coefficients, (polynomials, N), written `into` an array of that shape if there is one.

        Raises `DeserialisationError` for another number of bytes, or a coefficient that is not below its modulus.
        """
        widths = self.widths
        if len(packed) != self.ring_dimension * sum(widths):
            raise DeserialisationError(f"expected {self.packed_size} bytes of coefficients, got {len(packed)}")
        words = np.empty(self.shape, "<u8") if into is None else into
        words.fill(0)
        position = 0
        for row, width in zip(words, widths, strict=True):
            _low(row, width)[:] = np.frombuffer(packed, f"V{width}", self.ring_dimension, position)
            position += self.ring_dimension * width
        if (words.max(axis=1, initial=0) >= np.array(self.moduli, np.uint64)).any():
            raise DeserialisationError("a coefficient is not below its modulus")
        return words

    def add_in_place(self, total: Words, words: Words) -> None:
        """Add `words` to `total`, each polynomial modulo its prime; both as `unpack` returns them."""
        for row, summand, modulus in zip(total, words, self.moduli, strict=True):
            row += summand
            np.minimum(row, row - np.uint64(modulus), out=row)  # smaller ones wrap around

    def subtract_in_place(self, total: Words, words: Words) -> None:
        """Subtract `words` from `total`, in the same way."""
        for row, summand, modulus in zip(total, words, self.moduli, strict=True):
            row += np.uint64(modulus) - summand
            np.minimum(row, row - np.uint64(modulus), out=row)

    def multiply(self, left: Words, right: Words) -> Words:
        """Return the products, coefficient by coefficient; ValueError where a prime has more than 56 bits."""
        product = np.empty(self.shape, np.uint64)
        for row, x, y, modulus in zip(product, left, right, self.moduli, strict=True):
            row[:] = multiply(x, y, modulus)
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
        words = np.empty(self.shape, np.uint64) if into is None else into
        fill(KeyStream(seed), self.moduli, words)
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


def _low(row: Words, width: int) -> NDArray[np.void]:
    """Return the lowest bytes of each word, as one piece, which copies many times faster."""
    kind = np.dtype({"names": ["low"], "formats": [f"V{width}"], "itemsize": WORD})
    return np.asarray(row.view(kind)["low"])


class _Factors(NamedTuple):
    """Factors between -q/2 and q/2, and what they are over q."""

    numbers: Signed
    over_modulus: NDArray[np.float64]
    again: bool
    """Whether products with these are to be reduced once more."""


class _Tables(NamedTuple):
    """What transforms of one shape take; arrays have the axes modulus, block of rows, row, column."""

    moduli: Signed
    rows: int
    to_values: list[_Factors]
    to_coefficients: list[_Factors]
    last: _Factors


def values_of(polynomials: Polynomials, coefficients: Words) -> Words:
    """Return the values of polynomials given by their coefficients; both as `Polynomials.unpack` returns them.

    Raises ValueError where a prime has more than 56 bits.
    """
    tables = _tables(polynomials)
    square: Signed = coefficients.astype(np.int64).reshape(len(coefficients), tables.rows, -1)
    blocks, turn = 1, len(tables.to_values) // 2
    for stage, factors in enumerate(tables.to_values):
        if stage == turn:
            square, blocks = _turned(square), 1
        halves = square.reshape(len(square), blocks, 2, -1, square.shape[-1])
        product = _times(halves[:, :, 1], factors, tables.moduli)
        np.subtract(halves[:, :, 0], product, out=halves[:, :, 1])  # (x, y) become (x + factor·y, x - factor·y)
        halves[:, :, 0] += product
        blocks *= 2
    return _reduced(_turned(square).reshape(coefficients.shape), tables.moduli)


def coefficients_of(polynomials: Polynomials, values: Words) -> Words:
    """Return the coefficients of polynomials given by their values; errors as `values_of`."""
    tables = _tables(polynomials)
    square = _turned(values.astype(np.int64).reshape(len(values), tables.rows, -1))
    blocks = square.shape[1]
    for factors in tables.to_coefficients:
        if blocks == 1:
            square = _turned(square)
            blocks = square.shape[1]
        blocks //= 2
        halves = square.reshape(len(square), blocks, 2, -1, square.shape[-1])
        product = _times(halves[:, :, 1], factors, tables.moduli)
        np.subtract(halves[:, :, 0], product, out=halves[:, :, 1])
        halves[:, :, 0] += product
    found = _times(square[:, None], tables.last, tables.moduli)
    return _reduced(found.reshape(values.shape), tables.moduli)


def _times(numbers: Signed, factors: _Factors, moduli: Signed) -> Signed:
    """Return what is left of the products, reduced `again` between -q/2 and q/2 (but for the last unit)."""
    quotients = (numbers * factors.over_modulus).astype(np.int64)
    quotients *= moduli
    found = numbers * factors.numbers  # modulo 2^64, as is what is subtracted: the difference is small
    found -= quotients
    if factors.again:
        quotients = np.rint(found / moduli).astype(np.int64)
        quotients *= moduli
        found -= quotients
    return found


def _turned(square: Signed) -> Signed:
    return np.ascontiguousarray(square.transpose(0, 2, 1))


def _reduced(numbers: Signed, moduli: Signed) -> Words:
    return np.mod(numbers, moduli[:, :, 0, 0]).view(np.uint64)


@lru_cache(maxsize=16)
def _tables(polynomials: Polynomials) -> _Tables:
    size, moduli = polynomials.ring_dimension, polynomials.moduli
    if max(moduli).bit_length() > MULTIPLIED_BITS:
        raise ValueError(f"only modulo primes of at most {MULTIPLIED_BITS} bits")
    stages = size.bit_length() - 1
    rows = 1 << stages // 2
    columns = size // rows
    broadcast = np.array(moduli, np.int64).reshape(-1, 1, 1, 1)
    roots, inverses, last = (np.stack(each) for each in zip(*(_factors(size, each) for each in moduli), strict=True))

    def shaped(numbers: Signed, *shape: int, again: bool) -> _Factors:
        numbers = np.ascontiguousarray(numbers).reshape(len(moduli), *shape)
        # Extended precision holds both, so that the quotient is rounded once.
        return _Factors(numbers, (numbers.astype(np.longdouble) / broadcast).astype(np.float64), again)

    to_values, to_coefficients = [], []
    for stage, again in enumerate(_again(max(moduli).bit_length(), stages)):
        half = 1 << stage  # of the blocks to values, or of the numbers in half a block to coefficients
        level = roots[:, half : 2 * half]
        if half < rows:
            to_values.append(shaped(level, half, 1, 1, again=again))
        else:  # turned over: blocks of before are columns
            turned = _turned(level.reshape(len(moduli), rows, -1))
            to_values.append(shaped(turned, half // rows, 1, rows, again=again))
        level = inverses[:, :: size // (2 * half)]
        to_coefficients.append(shaped(level, 1, *((half, 1) if half < columns else (-1, columns)), again=again))
    return _Tables(broadcast, rows, to_values, to_coefficients, shaped(last, 1, rows, -1, again=False))


def _again(bits: int, stages: int) -> list[bool]:
    """Return in which stages products are reduced once more, modulo primes of so many bits: in as few as it takes.

    Of numbers up to b·q the quotient is off by 3·b·2^(bits - 54), and by less than 1 as it is cut to an integer.
    """
    error, most, largest = 3 * 2.0 ** (bits - 54), 2.0 ** (63 - bits), 1.0
    found = []
    for left in reversed(range(stages)):
        grown = largest + error * largest + 1
        at_last = grown + left / 2  # if all others are reduced
        found.append(at_last + error * at_last + 1 > most)
        largest = largest + 1 / 2 if found[-1] else grown
    return found


@lru_cache(maxsize=32)
def _factors(ring_dimension: int, modulus: int) -> tuple[Signed, Signed, Signed]:
    """Return ψ^rev(j) for all j, ψ^(-2k) for k < N/2, and ψ^-k/N for all k, between -q/2 and q/2."""
    root = smallest_root(ring_dimension, modulus)
    order = bit_reversed(ring_dimension)
    inverse_powers = powers(pow(root, -1, modulus), ring_dimension, modulus)
    over_size = multiply(inverse_powers, np.uint64(pow(ring_dimension, -1, modulus)), modulus)
    roots, inverses, last = (
        np.where(each > modulus // 2, each - np.uint64(modulus), each).view(np.int64)
        for each in (powers(root, ring_dimension, modulus)[order], inverse_powers[::2], over_size)
    )
    return roots, inverses, last


@lru_cache(maxsize=32)
def bit_reversed(size: int) -> Signed:
    """Return 0 … size − 1, a power of two, the bits of each reversed; read-only."""
    found: Signed = np.zeros(1, np.int64)
    while len(found) < size:
        found = np.append(2 * found, 2 * found + 1)
    found.flags.writeable = False
    return found


def smallest_root(ring_dimension: int, modulus: int) -> int:
    """Return the smallest primitive 2N-th root of one modulo a prime that is 1 modulo 2N."""
    base = 2
    while pow(base, (modulus - 1) // 2, modulus) != modulus - 1:
        base += 1
    root = pow(base, (modulus - 1) // (2 * ring_dimension), modulus)
    odd_powers = multiply(powers(root * root % modulus, ring_dimension, modulus), np.uint64(root), modulus)
    return int(odd_powers.min())
