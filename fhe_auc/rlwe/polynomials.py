"""Polynomials modulo primes, and the number-theoretic transform: coefficients, and values at the roots of -1.

Coefficients travel in as many bits as their modulus needs. Sums of them need no encryption library.

    value j = Σ_k c_k·ψ^((2·rev(j) + 1)·k) mod q        rev reverses the log2 N bits of j

with ψ the smallest primitive 2N-th root of one. Both libraries keep ciphertexts and keys as these values, in this
order; a test compares. Here it serves what the libraries do not offer or take long for: noise of our own choice,
looking at noise, plaintexts, and other moduli.

Source: Longa and Naehrig, "Speeding up the Number Theoretic Transform …", CANS 2016: algorithm 1.

Numbers grow from stage to stage and are reduced at the end. The quotient of a product of a number and a factor (at most
q/2) is taken in double precision, three roundings, five beyond 53 bits. What is left is added in this stage, as it is
or reduced once more to between -q/2 and q/2, as it has to be for numbers to stay below 2^63 (`_again`): for primes of
56 bits in all stages, of 52 bits in few, of 51 bits in none.

Numpy is fast on long runs of numbers, next to each other. So a stage always takes the first half of the numbers and the
second, and puts what it makes of two of them side by side: after all stages the numbers are in order again (Pease,
J. ACM 15, 1968). Both transforms go through the same stages, with other factors: to coefficients modulo x^N - 1, to
which the powers of ψ at the end bring x^N + 1.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import MULTIPLIED_BITS, Signed, fill, multiply, powers, reduced, signed
from fhe_auc.rlwe.packing import pack, packed_size, unpack

WORD = 8  # bytes of a coefficient in both libraries' formats
Words: TypeAlias = NDArray[np.uint64]
"""Coefficients, or values at the roots of unity, of several polynomials: shape (polynomials, N)."""


@dataclass(frozen=True)
class Polynomials:
    """A sequence of polynomials of N coefficients, N being the ring dimension, each modulo one prime below 2^63."""

    ring_dimension: int
    moduli: tuple[int, ...]

    @property
    def packed_size(self) -> int:
        """Bytes of all polynomials, packed."""
        return sum(packed_size(self.ring_dimension, modulus) for modulus in self.moduli)

    def pack(self, words: Words) -> bytes:
        """Return coefficients of shape (polynomials, N) as bytes, one polynomial after the other (`rlwe.packing`)."""
        return b"".join([pack(row, modulus) for row, modulus in zip(words, self.moduli, strict=True)])

    def unpack(self, packed: bytes | memoryview, into: Words | None = None) -> Words:
        """Return coefficients, (polynomials, N), written `into` an array of that shape if there is one.

        Raises `DeserialisationError` for another number of bytes, or a coefficient that is not below its modulus.
        """
        if len(packed) != self.packed_size:
            raise DeserialisationError(f"expected {self.packed_size} bytes of coefficients, got {len(packed)}")
        words = np.empty(self.shape, np.uint64) if into is None else into
        left = memoryview(packed)
        for row, modulus in zip(words, self.moduli, strict=True):
            size = packed_size(self.ring_dimension, modulus)
            row[:] = unpack(left[:size], self.ring_dimension, modulus)
            left = left[size:]
        return words

    def add_in_place(self, total: Words, words: Words) -> None:
        """Add `words` to `total`, each polynomial modulo its prime; both as `unpack` returns them."""
        for row, summand, modulus in zip(total, words, self.moduli, strict=True):
            row[:] = modular.add(row, summand, modulus)

    def subtract_in_place(self, total: Words, words: Words) -> None:
        """Subtract `words` from `total`, in the same way."""
        for row, summand, modulus in zip(total, words, self.moduli, strict=True):
            row[:] = modular.subtract(row, summand, modulus)

    def multiply(self, left: Words, right: Words) -> Words:
        """Return the products, coefficient by coefficient; ValueError where a prime has more than 56 bits."""
        return np.array([multiply(x, y, modulus) for x, y, modulus in zip(left, right, self.moduli, strict=True)])

    def residues(self, numbers: Words | Signed) -> Words:
        """Return integers, shape (N,) or (polynomials, N), modulo each prime; sizes as of `modular.reduced`."""
        rows = np.broadcast_to(numbers, self.shape)
        return np.array([reduced(row, modulus) for row, modulus in zip(rows, self.moduli, strict=True)])

    @property
    def shape(self) -> tuple[int, int]:
        """Of the arrays: polynomials, coefficients of each."""
        return len(self.moduli), self.ring_dimension

    def zeros(self) -> Words:
        """Return polynomials that are zero, shaped as `unpack` returns them."""
        return np.zeros(self.shape, np.uint64)

    def uniform(self, seed: bytes) -> Words:
        """Return polynomials with independent uniform coefficients, expanded from a seed of 32 bytes by ChaCha20."""
        words = self.zeros()
        fill(KeyStream(seed), self.moduli, words)
        return words


class PolynomialSum:
    """A running sum of polynomials, in one summand's memory; reduced only where the next summand might not fit."""

    def __init__(self, polynomials: Polynomials) -> None:
        self.polynomials = polynomials
        self._words = polynomials.zeros()
        self._most = 2 ** min(64 - max(polynomials.moduli, default=1).bit_length(), 50)
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
        self._words[:] = self.polynomials.residues(self._words)
        self._pending = 1


class _Factors(NamedTuple):
    """Factors between -q/2 and q/2, and what they are over q, rounded."""

    numbers: Signed
    over_modulus: NDArray[np.float64]
    again: bool
    """Whether products with these are to be reduced once more."""


class _Tables(NamedTuple):
    """What the transforms modulo one prime take: factors for each stage, and those that come last."""

    to_values: list[_Factors]
    to_coefficients: list[_Factors]
    last: _Factors


def values_of(polynomials: Polynomials, coefficients: Words | Signed) -> Words:
    """Return the values of polynomials given by their coefficients, both of shape (polynomials, N).

    Coefficients may be of either sign, and up to twice their modulus in size; one row, shape (N,), stands for all.
    Raises ValueError where a prime has more than 56 bits.
    """
    values = np.empty(polynomials.shape, np.uint64)
    rows = np.broadcast_to(coefficients, polynomials.shape)
    for into, row, modulus in zip(values, rows, polynomials.moduli, strict=True):
        stages = _tables(polynomials.ring_dimension, modulus).to_values
        into[:] = reduced(_through(stages, row.view(np.int64), modulus), modulus)
    return values


def coefficients_of(polynomials: Polynomials, values: Words) -> Words:
    """Return the coefficients of polynomials given by their values, as residues; errors as `values_of`."""
    coefficients = np.empty(polynomials.shape, np.uint64)
    order = bit_reversed(polynomials.ring_dimension)
    for into, row, modulus in zip(coefficients, values, polynomials.moduli, strict=True):
        _, stages, last = _tables(polynomials.ring_dimension, modulus)
        found = _through(stages, row.view(np.int64)[order], modulus)
        into[:] = reduced(_times(found[order], last, modulus, np.empty((3, len(order)), np.int64)), modulus)
    return coefficients


def _through(stages: list[_Factors], numbers: Signed, modulus: int) -> Signed:
    """Return what all stages make of the numbers: (x, y) become (x + factor·y, x - factor·y)."""
    half = len(numbers) // 2
    made, room = np.empty((2, half, 2), np.int64), np.empty((3, half), np.int64)
    for stage, factors in enumerate(stages):
        pairs = made[stage % 2]
        product = _times(numbers[half:], factors, modulus, room)
        np.add(numbers[:half], product, out=pairs[:, 0])
        np.subtract(numbers[:half], product, out=pairs[:, 1])
        numbers = pairs.reshape(-1)
    return numbers


def _times(numbers: Signed, factors: _Factors, modulus: int, room: Signed) -> Signed:
    """Return what is left of the products, reduced `again` between -q/2 and q/2 (but for the last unit).

    They are made in `room`, shape (3, numbers): new arrays take longer.
    """
    quotients, whole, products = room[0].view(np.float64), room[1], np.asarray(room[2])
    np.multiply(numbers, factors.numbers, out=products)  # modulo 2^64, as the rest: the difference is small
    np.copyto(quotients, numbers)
    quotients *= factors.over_modulus
    for again in range(1 + factors.again):
        if again:
            np.copyto(quotients, products)
            quotients /= modulus
            np.rint(quotients, out=quotients)
        np.copyto(whole, quotients, casting="unsafe")
        whole *= modulus
        products -= whole
    return products


@lru_cache(maxsize=32)
def _tables(size: int, modulus: int) -> _Tables:
    if modulus.bit_length() > MULTIPLIED_BITS:
        raise ValueError(f"only modulo primes of at most {MULTIPLIED_BITS} bits")
    root = smallest_root(size, modulus)
    roots = powers(root, size, modulus)[bit_reversed(size)]
    inverses = powers(pow(root, -1, modulus), size, modulus)
    even_inverses = inverses[::2][bit_reversed(size // 2)]
    stages = size.bit_length() - 1

    def factors(numbers: Words, *, again: bool = False, times: int = 1) -> _Factors:
        centred = signed(numbers, modulus)
        return _Factors(np.tile(centred, times), np.tile(centred / modulus, times), again)

    def of_stage(numbers: Words, *, again: bool) -> _Factors:
        return factors(numbers, again=again, times=size // 2 // len(numbers))  # one for each block of before

    again = _again(modulus.bit_length(), stages)
    return _Tables(
        [of_stage(roots[1 << stage : 2 << stage], again=again[stage]) for stage in range(stages)],
        [of_stage(even_inverses[: 1 << stage], again=again[stage]) for stage in range(stages)],
        factors(multiply(inverses, np.uint64(pow(size, -1, modulus)), modulus)),
    )


def _again(bits: int, stages: int) -> list[bool]:
    """Return in which stages products are reduced once more, modulo primes of so many bits: in as few as it takes.

    Of numbers up to b·q the quotient is off by r·b·2^(bits - 54), r roundings, and by less than 1 as it is cut to an
    integer.
    """
    error, most, largest = (3 if bits <= 53 else 5) * 2.0 ** (bits - 54), 2.0 ** (63 - bits), 2.0
    found = []
    for left in reversed(range(stages)):
        grown = largest + error * largest + 1
        at_last = grown + left / 2  # if all others are reduced
        found.append(at_last + error * at_last + 1 > most)
        largest = largest + 1 / 2 if found[-1] else grown
    return found


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
