"""A second error on everything that is encrypted, so that no secret depends on the library's random numbers alone.

The libraries seed their generators once. A machine that is resumed twice from one snapshot repeats their errors, under
seeds for `a` that are fresh: of b = e - a·s + m and b' = e - a'·s + m the difference (a' - a)·s tells s. So b gets an
error of ours on top, and the difference one of its own:

    key    HMAC-SHA512(s, 32 bytes from the system's generator | b as the library made it | a message we add to it)
    e2     ChaCha20(key): each coefficient centred binomial, on [-21, 21], of variance 10.5, as SEAL's errors are

Fresh bytes from the system are enough; should they repeat as well, b differs wherever the message does, and the key of
HMAC is a secret. Half of the digest may be published: it seeds `a`, so that `a` never repeats under another message.

An encryption's error is then the sum of two, √2 times as large as the library's: `FRESH_VARIANCE`. What is encrypted
without the library has ours alone: BFV submissions, which have no b of a library, and public keys, encryptions of zero.
"""

from __future__ import annotations

import hmac
import secrets
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe.modular import residues, uniform
from fhe_auc.rlwe.number_theoretic_transform import values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words

_COINS = 21
_PAIRS, _FOURS, _BYTES = (np.uint64((2**64 - 1) // each) for each in (0b11, 0b101, 0x11))
_RANDOM_BYTES = 32
VARIANCE = _COINS / 2  # of a coefficient of the second error
FRESH_VARIANCE = 3.25**2 + VARIANCE
"""Of a coefficient of a fresh encryption's error; the libraries' own deviation is 3.24 (SEAL) and 3.19 (OpenFHE)."""


class EncryptionSeeds(NamedTuple):
    """Two independent keys of 32 bytes, good for one encryption."""

    seed: bytes
    """Of `a`; public."""

    error: bytes
    """Of the second error; secret."""


def fresh_keys(secret: Words, *b: Words) -> EncryptionSeeds:
    """Return keys for the encryption `b`, as the library made it and what is added to that, under the key `secret`."""
    parts = secrets.token_bytes(_RANDOM_BYTES), *(each.tobytes() for each in b)
    drawn = hmac.digest(secret[0].tobytes(), b"".join(parts), "sha512")  # the key modulo one prime is all of it
    return EncryptionSeeds(drawn[:32], drawn[32:])


def second_error(shape: Polynomials, key: bytes) -> Words:
    """Return one small polynomial: its coefficients modulo each prime of `shape`."""
    heads = _ones(KeyStream(key).words(shape.ring_dimension) & np.uint64(2 ** (2 * _COINS) - 1))
    error = heads.astype(np.int64) - _COINS  # of 42 coins as many as of 21, less as many of 21 others
    return np.asarray(np.mod(error, np.array(shape.moduli, np.int64)[:, None])).view(np.uint64)


def ternary(shape: Polynomials, seed: bytes) -> Words:
    """Return a polynomial with coefficients uniform on -1, 0 and 1, as values at the roots of -1."""
    drawn = uniform(KeyStream(seed), 3, shape.ring_dimension).view(np.int64) - 1
    return values_of(shape, np.array([residues(drawn, modulus) for modulus in shape.moduli]))


def _ones(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return how many bits of each word are set, in a time that tells nothing of them."""
    words = words - ((words >> np.uint64(1)) & _PAIRS)
    words = (words & _FOURS) + ((words >> np.uint64(2)) & _FOURS)
    words = (words + (words >> np.uint64(4))) & _BYTES
    return (words * np.uint64((2**64 - 1) // 0xFF)) >> np.uint64(56)
