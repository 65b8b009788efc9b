"""Ciphertexts and public keys: how they are encrypted, travel, get smaller, and what is refused.

**A seed for `a`.** Of (b, a), under a secret key s, `a` is random and nothing else, so whoever draws a seed may as well
send that, which halves the size:

    b + a·s = m + e        a = ChaCha20(seed)        sent: b, seed

So are public keys made, encryptions of zero, and all that is encrypted under secret keys. A seed is used once: two
ciphertexts with the same `a` tell the difference of what they encrypt.

**Errors.** A machine that is resumed twice from one snapshot repeats the numbers of a generator that was seeded before.
With the same error e under other seeds, of b = e - a·s + m and b' = e - a'·s + m the difference (a' - a)·s tells s. So:

    key    HMAC-SHA512(s, 32 bytes from the system's generator | message and mask)
    e      ChaCha20(key): each coefficient centred binomial, on [-21, 21], of variance 10.5, as SEAL's errors are

Fresh bytes from the system are enough; should they repeat as well, the key differs wherever the message does, and that
of HMAC is a secret. Half of the digest may be published: it seeds `a`, so that `a` never repeats under another message.

**A smaller modulus.** A ciphertext (c0, c1) whose noise is far below its modulus Q says as much modulo q, both
polynomials times q/Q: message and noise get smaller together, and rounding adds little (`fhe_auc.bfv.parameters`).
Anybody can do it.

**Refused** are transparent ciphertexts, whose c1, or a product's c2, is zero or small: who knows the session's name can
make one. Where c1 is zero, c0 is the message. Where all of its coefficients are small, c0 + c1·s is the message and a
noise: with c1 = 1, the secret key itself. Those of a ciphertext that a circuit has made are uniform modulo Q. It is no
more than that: a structured c1 may pass (((Q-1)/2)·(1 + x + … + x^(N-1)) is not small, and c1·s is, under every second
key), and a ciphertext made with the public key, or changed on the way, hides what it should. Signatures say whose word
a result is, and are what stops a stranger.

**The container** of a serialised context or ciphertext says what it is, and which context it belongs to. It has no
checksum: ciphertexts travel in messages, keys in what is signed or sealed, and each of these has one.
"""

from __future__ import annotations

import hmac
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import decode, encode, marked, unmarked
from fhe_auc.rlwe.modular import Signed, fill, multiply, signed
from fhe_auc.rlwe.polynomials import Polynomials, Words, values_of
from fhe_auc.rlwe.ring_parameters import FINGERPRINT_BYTES

MAGIC = b"fherlwe"
SEED_BYTES = 32
_RANDOM_BYTES = 32

_COINS = 21
_PAIRS, _FOURS, _BYTES = (np.uint64((2**64 - 1) // part) for part in (0b11, 0b101, 0x11))
VARIANCE = _COINS / 2  # of a coefficient of an encryption's error

_LEAST_DISTANCE = 1 / 8
"""Mean distance of c1's coefficients from zero, over Q; uniform ones have 1/4, and of 8192 the mean is 0.002 off."""


def fresh_keys(secret: Words, told: Words) -> tuple[bytes, bytes]:
    """Return two independent keys of 32 bytes, good for one encryption under `secret` of what these words tell.

    The first is the seed of `a`, and public; the second, of the error, is secret.
    """
    drawn = secrets.token_bytes(_RANDOM_BYTES) + told.tobytes()
    drawn = hmac.digest(secret[0].tobytes(), drawn, "sha512")  # the key modulo one prime is all of it
    return drawn[:32], drawn[32:]


def fresh_error(size: int, key: bytes) -> Signed:
    """Return the coefficients, so many, of a small polynomial."""
    words = KeyStream(key).words(size)
    # How many of 42 bits are set, in a time that tells nothing of them.
    words &= np.uint64(2 ** (2 * _COINS) - 1)
    words -= (words >> np.uint64(1)) & _PAIRS
    words = (words & _FOURS) + ((words >> np.uint64(2)) & _FOURS)
    words = (words + (words >> np.uint64(4))) & _BYTES
    heads = (words * np.uint64((2**64 - 1) // 0xFF)) >> np.uint64(56)
    return heads.astype(np.int64) - _COINS  # of 42 coins as many as of 21, less as many of 21 others


def ternary(shape: Polynomials, seed: bytes) -> Words:
    """Return a polynomial with coefficients uniform on -1, 0 and 1, as values at the roots of -1."""
    drawn = np.empty((1, shape.ring_dimension), np.uint64)
    fill(KeyStream(seed), (3,), drawn)
    return values_of(shape, drawn[0].view(np.int64) - 1)


@dataclass(frozen=True)
class Seeded:
    """The packed form, b and a seed, of ciphertexts of the shape `whole`: b, then a, each modulo all primes of Q."""

    whole: Polynomials

    @cached_property
    def half(self) -> Polynomials:
        """Shape of b, and of a."""
        return Polynomials(self.whole.ring_dimension, self.whole.moduli[: len(self.whole.moduli) // 2])

    def encrypt(self, secret: Words, message: Words, told: Words, mask: Words | None = None) -> bytes:
        """Return a fresh encryption under `secret` of what has the coefficients `message`, both of the shape `half`.

        A `mask`, values of that shape, is added to the first polynomial. Other messages and masks are `told` by other
        words.
        """
        half = self.half
        seed, of_error = fresh_keys(secret, told)
        b = values_of(half, message.view(np.int64) + fresh_error(half.ring_dimension, of_error))
        half.subtract_in_place(b, half.multiply(half.uniform(seed), secret))
        if mask is not None:
            half.add_in_place(b, mask)
        return half.pack(b) + seed

    def expand(self, packed: bytes | memoryview, into: Words | None = None) -> Words:
        """Return both polynomials of a packed form, written `into` an array of their shape if there is one.

        Errors as `Polynomials.unpack`.
        """
        half = self.half
        if len(packed) != half.packed_size + SEED_BYTES:
            raise DeserialisationError(
                f"expected {half.packed_size + SEED_BYTES} bytes of coefficients and seed, got {len(packed)}"
            )
        whole = np.empty(self.whole.shape, np.uint64) if into is None else into
        half.unpack(memoryview(packed)[: half.packed_size], whole[: len(half.moduli)])
        fill(KeyStream(bytes(packed[half.packed_size :])), half.moduli, whole[len(half.moduli) :])
        return whole


def kept_shape(half: Polynomials, kept: int) -> Polynomials:
    """Return the shape of one polynomial modulo the first `kept` primes; ValueError where there are not so many."""
    if not 1 <= kept <= len(half.moduli):
        raise ValueError(f"of {len(half.moduli)} primes, 1 to {len(half.moduli)} can be kept, got {kept}")
    return Polynomials(half.ring_dimension, half.moduli[:kept])


def divided(half: Polynomials, rows: Words, kept: int) -> Words:
    """Return coefficients modulo the first `kept` primes, divided by the others; each is off by 1/2, or hardly more.

    `rows`, of shape (primes of `half`, any number), are changed. Errors as `kept_shape`.
    """
    for last in reversed(range(len(kept_shape(half, kept).moduli), len(half.moduli))):
        dropped = half.moduli[last]
        remainder = signed(rows[last], dropped)  # so that quotients are rounded, not cut off
        for row, modulus in zip(rows, half.moduli[:last], strict=False):
            row[:] = multiply(row.view(np.int64) - remainder, np.uint64(pow(dropped, -1, modulus)), modulus)
    return rows[:kept]


def check_not_small(shape: Polynomials, coefficients: Words) -> None:
    """Raise `DeserialisationError` where coefficients modulo Q are small: their mean distance from zero, over Q."""
    modulus = math.prod(shape.moduli)
    fractions = np.zeros(shape.ring_dimension)
    for row, prime in zip(coefficients, shape.moduli, strict=True):  # Chinese remainder
        fractions += multiply(row, np.uint64(pow(modulus // prime, -1, prime)), prime) / prime
    if float(np.abs(fractions - np.rint(fractions)).mean()) < _LEAST_DISTANCE:
        raise DeserialisationError("not a ciphertext: a polynomial that multiplies the secret key is small")


def unpack_result(half: Polynomials, packed: bytes | memoryview) -> tuple[Words, Words]:
    """Return the coefficients of a result's two polynomials, each of the shape `half`; errors as `unpack_products`."""
    ((first, second),) = unpack_products((half, half), packed, 1)
    return first, second


def unpack_products(shapes: Sequence[Polynomials], packed: bytes | memoryview, count: int) -> list[list[Words]]:
    """Return the polynomials c0, c1 …, of these shapes, of so many ciphertexts, as coefficients.

    Raises `DeserialisationError` as `Polynomials.unpack`, and where one but c0 is small.
    """
    view, results = memoryview(packed), []
    for _ in range(count):
        parts = []
        for shape in shapes:
            parts.append(shape.unpack(view[: shape.packed_size]))
            view = view[shape.packed_size :]
        for shape, part in zip(shapes[1:], parts[1:], strict=True):
            check_not_small(shape, part)
        results.append(parts)
    if view:
        raise DeserialisationError(f"a result of {len(packed)} bytes is of other parameters")
    return results


class _Container(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    kind: str
    fingerprint: bytes
    payload: memoryview


def wrap(kind: str, fingerprint: bytes, payload: bytes | memoryview) -> bytes:
    """Return `payload` in a container, marked with what it is and the fingerprint of the context it belongs to."""
    return marked(MAGIC, encode(_Container(kind, fingerprint, memoryview(payload))))


def kind_of(data: bytes) -> str:
    """Return the kind of a container; errors as `unwrap`."""
    return decode(unmarked(MAGIC, data, "container"), _Container, "container").kind


def unwrap(kind: str, data: bytes | memoryview, fingerprint: bytes | None = None) -> tuple[bytes, memoryview]:
    """Return (fingerprint, payload) of a container of `kind`, the payload uncopied.

    Raises `DeserialisationError` for what is none, of another format version or kind, truncated or malformed, or made
    for another context than that of `fingerprint`, if there is one.
    """
    container = decode(unmarked(MAGIC, data, kind), _Container, kind)
    if len(container.fingerprint) != FINGERPRINT_BYTES:
        raise DeserialisationError(f"malformed {kind}: fingerprint of another length", field="fingerprint")
    if container.kind != kind:
        raise DeserialisationError(f"expected a {kind}, got a {container.kind[:40]!r}", field="kind")
    if fingerprint not in (None, container.fingerprint):
        raise DeserialisationError(f"the {kind} was made under another key (fingerprint mismatch)", field="fingerprint")
    return container.fingerprint, container.payload
