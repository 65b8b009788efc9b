"""One pair's comparison under noise, by the two parties that have its rows, with one ciphertext each way.

N = 4096 is the ring dimension, k the number of bins, T the table of noise of `PairResponse`, of M = N - k entries, here
0, 1 or -1. All is modulo X^N + 1, so that X^j·X^(N-j) = -1. Q = q₀·q₁ is 66 bits long, far below the 106 that N allows
at 128-bit security; Δ is Q/3, rounded. Keys and encryptions are those of `fhe_auc.rlwe.ciphertexts`.

    first     has a secret key s and, of the positive row, the bin i; draws u uniform in [0, M)
              sends the public key (p₀, p₁), once, and for each pair (c₀, c₁), an encryption of Δ·(X^i + X^(k+u))
    second    has, of the negative row, the bin j; draws w uniform in [0, M)
              makes b(X) = b₀ - Σ b_h X^(N-h) over h = 1 … N-1, b_h = sign(h - j) for h < k, b_(k+h) = T[(h + w) mod M]
              sends c₀·b + v·p₀ + f, its constant coefficient alone, and c₁·b + v·p₁ + e: an encryption of zero is in
              it, v uniform on ternary polynomials and e an error as of encryptions; both switched from Q to q₀
    first     decrypts sign(i - j) + T[(u + w) mod M] modulo 3, which is y - 1 of `pairs`

**The noise is known to neither**: to whoever lacks u or w its entry is uniform. **The second** sees encryptions alone.
**The first** sees y and, in the constant coefficient, what f hides, uniform on [-B, B]: c₀'s error times b, the key's
error times v, and e times s. Each is a sum of N products of an error, at most 21 in size, and 0, 1 or -1; and 3Δ is not
quite Q. So that is at most X = 3·21·N + 1 < 2^18, and another row, or another w, changes what is seen by a statistical
distance of X/B < 2^-45: of the 16 pairs at most that a row is in, 2^-41. The other polynomial is pseudorandom, by v
(ring learning with errors): p₁ comes from a seed, so that nobody can choose it.

**B fills the room there is.** X + B, and N roundings in the switch, worth less than N·q₁, stay below Q/6: decryption is
always right. And a *lying* first one, whose ciphertext may be anything, sees but one number modulo Q, of which no value
is more than Q/(2B + 1) < 3.0001 times as likely as if it told nothing: a pair makes no guess at a row more than 3.0001
times as good. Not less either: a ciphertext can hold any function of j with three values, without u, and seven of them
all of 1,024 bins. A lying second one may reply to another request than the pair's, by any function of i and without w,
as often as it has pairs with this first one: it reads all that the first one tells of its answers.

u, w and f are for one pair: a second reply to a request would spend the budget once more.
"""

import math
import secrets
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fhe_auc.rlwe.ciphertexts import SEED_BYTES, Seeded, check_not_small, divided, fresh_error, ternary
from fhe_auc.rlwe.modular import Signed, primes_below, signed, total
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of, values_of
from fhe_auc_protocols.u_statistics.mechanisms import Integers

RING_DIMENSION = 4096
HALF = Polynomials(RING_DIMENSION, primes_below(33, 2, RING_DIMENSION))
_Q = math.prod(HALF.moduli)
_SEEDED = Seeded(Polynomials(RING_DIMENSION, 2 * HALF.moduli))
_REPLY = Polynomials(RING_DIMENSION + 1, HALF.moduli[:1])  # the constant coefficient, then the other polynomial
_SECOND = Polynomials(RING_DIMENSION, HALF.moduli[:1])
_ONE = (_Q + 1) // 3  # Δ

REQUEST_BYTES = HALF.packed_size + SEED_BYTES  # and of a public key
REPLY_BYTES = _REPLY.packed_size

NOISE = 3 * 21 * RING_DIMENSION + 1  # X
FLOODING = _Q // 6 - NOISE - RING_DIMENSION * HALF.moduli[1]  # B

Draw: TypeAlias = Callable[[int], int]
"""Returns a uniform integer below its argument: `secrets.randbelow`, and nothing else where it protects someone."""


class First:
    """Who has a session's secret key, from a seed of 32 bytes, and positive rows."""

    def __init__(self, seed: bytes) -> None:
        self._secret = ternary(HALF, seed)
        coefficients = signed(coefficients_of(HALF, self._secret)[0], HALF.moduli[0])
        self._constant = _for_the_constant(coefficients)

    def public_key(self) -> bytes:
        """Return a public key, for all of a session's replies."""
        return _SEEDED.encrypt(self._secret, HALF.zeros(), np.zeros(0, np.uint64))

    def request(self, row: int, bins: int, draw: Draw = secrets.randbelow) -> bytes:
        """Return the request of one pair, of a row in this bin of so many."""
        places = np.array([row, bins + draw(RING_DIMENSION - bins)], np.uint64)
        message = HALF.zeros()
        message[:, places] = [[_ONE % modulus] for modulus in HALF.moduli]
        return _SEEDED.encrypt(self._secret, message, places)

    def answer(self, reply: bytes) -> int:
        """Return y, from 0 to 2; `DeserialisationError` as `checked_reply`."""
        words, modulus = checked_reply(reply)[0].view(np.int64), HALF.moduli[0]
        phase = int(words[0]) + int(words[1:] @ self._constant)  # below 2^46
        return ((6 * phase + modulus) // (2 * modulus) + 1) % 3


class Second:
    """Who has negative rows, and replies to the requests under one public key; `table` is a `PairResponse`'s.

    `DeserialisationError`: it is no public key.
    """

    def __init__(self, public_key: bytes, table: Integers) -> None:
        self._key = np.split(_SEEDED.expand(public_key), 2)
        self._table = signed(table.astype(np.uint64), 3)

    def reply(self, request: bytes, row: int, draw: Draw = secrets.randbelow) -> bytes:
        """Return the reply to the request of one pair, for a row in this bin; `DeserialisationError`: it is none."""
        bins = RING_DIMENSION - len(self._table)
        weights = np.append(np.sign(np.arange(bins) - row), np.roll(self._table, -draw(len(self._table))))
        b, v = values_of(HALF, _for_the_constant(weights)), ternary(HALF, secrets.token_bytes(SEED_BYTES))
        first, second = (HALF.multiply(part, b) for part in np.split(_SEEDED.expand(request), 2))
        for part, key in zip((first, second), self._key, strict=True):
            HALF.add_in_place(part, HALF.multiply(v, key))
        others = coefficients_of(HALF, second)
        error = fresh_error(RING_DIMENSION, secrets.token_bytes(SEED_BYTES))
        HALF.add_in_place(others, HALF.residues(error))
        flooding = draw(2 * FLOODING + 1) - FLOODING
        constant = [
            # Values at all roots add up to N times the constant coefficient.
            [(int(total(row, modulus)) * pow(RING_DIMENSION, -1, modulus) + flooding) % modulus]
            for row, modulus in zip(first, HALF.moduli, strict=True)
        ]
        both = np.concatenate([np.array(constant, np.uint64), others], axis=1)
        return _REPLY.pack(divided(HALF, both, 1))


def check_request(request: bytes | memoryview) -> None:
    """Raise `DeserialisationError` where this is no request; nor is it a public key."""
    _SEEDED.expand(request)


def checked_reply(reply: bytes | memoryview) -> Words:
    """Return the coefficients of a reply, shape (1, N + 1); `DeserialisationError`: it is none, or hides nothing."""
    words = _REPLY.unpack(reply)
    check_not_small(_SECOND, words[:, 1:])
    return words


def _for_the_constant(coefficients: Signed) -> Signed:
    """Return what Σ c_h X^h is multiplied by to have Σ c_h·coefficient_h at X^0; and it is its own inverse."""
    return np.append(coefficients[:1], -coefficients[:0:-1])
