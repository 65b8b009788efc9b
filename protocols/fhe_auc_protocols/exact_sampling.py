"""Where the randomisers' randomness comes from, and exact choices made from it.

A source has one method, `words`, that returns uniform 64-bit integers. Every choice compares such integers with an
integer: no floating-point number decides what a user reports, so that the probabilities are exactly the stated
multiples of 2^-64. They are rounded to the private side.
"""

import secrets
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream

Words = NDArray[np.uint64]
_BITS = 64


class Source(Protocol):
    """Uniform 64-bit integers."""

    def words(self, *shape: int) -> Words:
        """Return fresh ones."""


def secure() -> Source:
    """Return what protects users: a ChaCha20 key stream under a fresh key of the operating system."""
    return KeyStream(secrets.token_bytes(32))


class SeededExperiment:
    """Words of a numpy generator: repeatable, for experiments and tests. It protects nobody."""

    def __init__(self, generator: "np.random.Generator") -> None:
        self._generator = generator

    def words(self, *shape: int) -> Words:
        """Return the generator's next words."""
        return self._generator.integers(0, 2**_BITS, shape, dtype=np.uint64)


def threshold(size: int, offset: int, epsilon: float) -> int:
    """Return ceil(2^64 · size / (e^epsilon + offset)), below 2^64 where size is at most offset + 1."""
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(2**_BITS) * size / (Decimal(epsilon).exp() + offset)
        return int(exact.to_integral_value(ROUND_CEILING))


def probability(words_below: int) -> float:
    """Return the probability that a word lies below a threshold."""
    return words_below / float(2**_BITS)


def choose(source: Source, words_below: int, shape: int) -> NDArray[np.bool_]:
    """Return independent choices, true with probability words_below / 2^64 exactly."""
    return source.words(shape) < np.uint64(words_below)


def integers(source: Source, below: int, shape: int) -> NDArray[np.int64]:
    """Return integers uniform in [0, below), exactly: words beyond the last whole multiple are drawn again."""
    found = source.words(shape)
    if spare := 2**_BITS % below:
        last = np.uint64(2**_BITS - spare - 1)
        while (again := found > last).any():
            found = np.array(found)
            found[again] = source.words(int(again.sum()))
    return (found % np.uint64(below)).astype(np.int64)
