"""A second error on everything that is encrypted, so that no secret depends on the library's random numbers alone.

The libraries seed their generators once. A machine that is resumed twice from one snapshot repeats their errors, under
seeds for `a` that are fresh: of b = e - a·s + m and b' = e - a'·s + m the difference (a' - a)·s tells s. So b gets an
error of ours on top, and the difference one of its own:

    key    HMAC-SHA512(s, 32 bytes from the system's generator | b as the library made it | a message we add to it)
    e2     ChaCha20(key): each coefficient centred binomial, on [-21, 21], of variance 10.5, as SEAL's errors are

Fresh bytes from the system are enough; should they repeat as well, b differs wherever the message does, and the key of
HMAC is a secret. Half of the digest may be published: it seeds `a`, so that `a` never repeats under another message.

An encryption's error is then the sum of two, √2 times as large as the library's: `FRESH_VARIANCE`. Public keys have
ours alone, with a b of zeros, which no library makes: so a public key never has the `a` of anything else.
"""

from __future__ import annotations

import hmac
import secrets
from typing import NamedTuple

import numpy as np

from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe.polynomials import Polynomials, Words

_COINS = 21
_SIGNS = np.repeat(np.array([1, -1, 0], np.float32), [_COINS, _COINS, 64 - 2 * _COINS])
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
    drawn = hmac.digest(secret.tobytes(), b"".join(parts), "sha512")
    return EncryptionSeeds(drawn[:32], drawn[32:])


def second_error(shape: Polynomials, key: bytes) -> Words:
    """Return one small polynomial: its coefficients modulo each prime of `shape`."""
    coins = np.unpackbits(KeyStream(key).words(shape.ring_dimension).view(np.uint8)).reshape(shape.ring_dimension, -1)
    error = (coins.astype(np.float32) @ _SIGNS).astype(np.int64)
    return np.asarray(np.mod(error, np.array(shape.moduli)[:, None])).astype(np.uint64)
