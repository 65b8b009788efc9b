"""The interface of a BFV backend: one type for the aggregator, one for the parties.

Values are integers modulo a prime t, over all N slots: sums and products of ciphertexts are sums and products modulo t,
slot by slot, and exact. A ciphertext is for one of the parameters' plaintext moduli, named by its index, `prime`; under
another it would decrypt to noise, so what travels says for which it is.

    slots         the values, at the roots of -1 modulo t, of a polynomial m with coefficients modulo t, in the order of
                  `fhe_auc.rlwe.polynomials`: products of polynomials are products slot by slot
    encryption    (c0, c1) with c0 + c1·s = round(Q·m/t) + x modulo Q, x the noise
    decryption    m = round(t·(c0 + c1·s)/Q) modulo t, right as long as |x| is below Q/2t

The library draws secret keys, and encrypts zero under the public key. The rest is our own arithmetic on words, in
integers, and the same whatever the library: what is encrypted is encoded here. (OpenFHE's own encoding rounds up; its
decryption fails from 51 bits of t on; both take long.)

**Flooding** is noise that hides what a ciphertext's own noise would tell to those who can decrypt it. The aggregator
adds a fresh encryption of zero under the public key, which makes both polynomials pseudorandom but for message and
noise, and to the first one noise uniform on [-2^b, 2^b) in each coefficient.

Whatever the noise x beneath was, up to X in absolute value, the N coefficients that are seen are those of any other x'
but for a statistical distance of N·X/2^b (a coefficient's is |x - x'|/2^(b+1)): 2^-λ with b = λ + log2 N + log2 X.
`fhe_auc.bfv.parameters` has X and b; docs/security/encryption.md has both in numbers.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.keystream import KeyStream
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe import ciphertexts
from fhe_auc.rlwe.context import BasePublicContext, BaseSecretContext, Library, PublicKeys, SecretKey, generated, loaded
from fhe_auc.rlwe.modular import Residues, multiply
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of, values_of

_LIMB_BITS = 32
_SEED_BYTES = 32


@dataclass(frozen=True, repr=False)
class Ciphertext:
    """A ciphertext in this process: its words, of `PublicContext.ciphertext_shape`, and the index of its prime."""

    prime: int
    words: Words


class PublicContext(BasePublicContext[BfvParameters]):
    """What the aggregator holds: it multiplies ciphertexts by plaintexts only.

    Raises `DeserialisationError`: `stored` has a key of other parameters.
    """

    kind, stored_as = "public BFV context", PublicKeys[BfvParameters]

    def __init__(self, stored: PublicKeys[BfvParameters], library: Library[BfvParameters]) -> None:
        super().__init__(stored, library)
        self._zero = library.zeros(ciphertexts.Seeded(library.layouts.public_key.polynomials).expand(stored.public_key))
        self._half = self._seeded.half

    def read_submission(self, data: bytes, prime: int) -> Words:
        """Return the coefficients, of `ciphertext_shape`, in what `SecretContext.encrypt` wrote.

        Adding them up needs no encryption library (`fhe_auc.rlwe.polynomials.PolynomialSum`). `DeserialisationError`:
        it is damaged, made for another context or another prime, or not a ciphertext of these parameters.
        """
        _, packed = ciphertexts.unwrap(kind_of("submission", self.parameters, prime), data, self.fingerprint)
        return self._seeded.expand(packed)

    def ciphertext(self, words: Words, prime: int) -> Ciphertext:
        """Return the ciphertext with these coefficients, of `ciphertext_shape`: a sum of submissions.

        Raises `DeserialisationError` where its second polynomial is zero, so that it hides nothing.
        """
        ciphertexts.check_not_transparent(words)
        return Ciphertext(prime, words.copy())

    def encrypt(self, values: ArrayLike, prime: int) -> Ciphertext:
        """Return a fresh encryption under the public key of integers in [0, t), shape (N,); ValueError as `checked`."""
        return self.add_values(Ciphertext(prime, self._zero()), values)

    def add_in_place(self, total: Ciphertext, ciphertext: Ciphertext) -> None:
        """Add `ciphertext` to `total`, which must be the caller's own."""
        if total.prime != ciphertext.prime:
            raise ValueError(f"ciphertexts are for different primes, {total.prime} and {ciphertext.prime}")
        self.ciphertext_shape.add_in_place(total.words, ciphertext.words)

    def multiply_values(self, ciphertext: Ciphertext, values: ArrayLike) -> Ciphertext:
        """Return `ciphertext` times plaintext values in [0, t), shape (N,), slot by slot.

        Where all are the same, noise gets at most t/2 times as large; otherwise up to N·t/2 times. Raises ValueError as
        `checked`, or for nothing but zeros, a product that anyone could read.
        """
        factors = checked(values, self.parameters, ciphertext.prime)
        if not factors.any():
            raise ValueError("times zero a ciphertext hides nothing")
        factor = multiplier(self._half, self.parameters.plain_moduli[ciphertext.prime], factors)
        product = self.ciphertext_shape.multiply(ciphertext.words, np.concatenate((factor, factor)))
        return Ciphertext(ciphertext.prime, product)

    def add_values(self, ciphertext: Ciphertext, values: ArrayLike) -> Ciphertext:
        """Return `ciphertext` plus plaintext values in [0, t), shape (N,), slot by slot; ValueError as `checked`."""
        summands = checked(values, self.parameters, ciphertext.prime)
        message = encoded(self._half, self.parameters.plain_moduli[ciphertext.prime], summands)
        words = ciphertext.words.copy()
        self._half.add_in_place(words[: len(message)], values_of(self._half, message))
        return Ciphertext(ciphertext.prime, words)

    def flood(self, ciphertext: Ciphertext) -> Ciphertext:
        """Return `ciphertext` with a fresh encryption of zero, and with flooding noise.

        It takes what capacity there is: nothing can be computed on the result.
        """
        words = self._zero()
        self.ciphertext_shape.add_in_place(words, ciphertext.words)
        noise = uniform_noise(self._half, self.parameters.flooding_bits)
        self._half.add_in_place(words[: len(noise)], noise)
        return self.ciphertext(words, ciphertext.prime)

    def dump_result(self, ciphertext: Ciphertext, kept: int) -> bytes:
        """Serialise a ciphertext for `SecretContext.decrypt`, switched down to its first `kept` primes.

        Fewer primes, fewer bytes: `flooding_margin` knows how few do. ValueError without so many.
        """
        half = ciphertexts.kept_shape(self._half, kept)
        halves = [ciphertexts.switched(self._half, words, kept) for words in np.split(ciphertext.words, 2)]
        packed = b"".join(map(half.pack, halves))
        return ciphertexts.wrap(result_kind(self.parameters, ciphertext.prime, kept), self.fingerprint, packed)


class SecretContext(BaseSecretContext[BfvParameters]):
    """What a party holds."""

    kind, stored_as = "secret BFV context", SecretKey[BfvParameters]

    def encrypt(self, values: ArrayLike, prime: int) -> bytes:
        """Return integers in [0, t), shape (N,), encrypted under the secret key, for `PublicContext.read_submission`.

        Raises ValueError as `checked`.
        """
        residues = checked(values, self.parameters, prime)
        message = encoded(self.mask_shape, self.parameters.plain_moduli[prime], residues)
        packed = self._seeded.encrypt(self.secret_words, message)
        return ciphertexts.wrap(kind_of("submission", self.parameters, prime), self.fingerprint, packed)

    def decrypt(self, data: bytes, prime: int, kept: int) -> Residues:
        """Return the integers in [0, t), shape (N,), of a result that `PublicContext.dump_result` wrote.

        Raises `DeserialisationError` for what is damaged, made for another context, another prime or another number of
        `kept` primes, or not a ciphertext of these parameters; or one that hides nothing. ValueError as `dump_result`.
        """
        half = ciphertexts.kept_shape(self.mask_shape, kept)
        _, packed = ciphertexts.unwrap(result_kind(self.parameters, prime, kept), data, self.fingerprint)
        phase = ciphertexts.phase_of(half, ciphertexts.unpack_result(half, packed), self.secret_words[:kept])
        return decoded(half, self.parameters.plain_moduli[prime], phase)


class KeyPair(NamedTuple):
    """Both halves of a freshly generated context."""

    public: PublicContext
    secret: SecretContext


generate = partial(generated, KeyPair, PublicContext, SecretContext)
load_public, load_secret = partial(loaded, PublicContext), partial(loaded, SecretContext)


def checked(values: ArrayLike, parameters: BfvParameters, prime: int) -> Residues:
    """Return `values`, shape (N,), for a ciphertext; ValueError unless all are in [0, t), and for another index."""
    given = np.asarray(values)
    if given.shape != (parameters.slots,) or given.dtype.kind not in "iu":
        raise ValueError(f"expected one integer for each of {parameters.slots} slots")
    modulus = _modulus(parameters, prime)
    if int(given.min()) < 0 or int(given.max()) >= modulus:
        raise ValueError(f"a value is not in [0, {modulus})")
    return np.ascontiguousarray(given, np.uint64)


def encoded(half: Polynomials, t: int, slots: Residues) -> Words:
    """Return what is added to a ciphertext's first polynomial to add to its slots: its coefficients.

    `half` is the shape of one polynomial modulo all primes of Q, none of which is t.
    """
    message = coefficients_of(Polynomials(len(slots), (t,)), slots[None])[0]
    # Q·m/t is rounded by taking the remainder from Q·m: what is left is, modulo Q, minus the remainder over t.
    remainder = multiply(message, np.uint64(math.prod(half.moduli) % t), t).view(np.int64)
    remainder[remainder > t // 2] -= t
    words = np.mod(-remainder, np.array(half.moduli, np.int64)[:, None]).view(np.uint64)
    for row, modulus in zip(words, half.moduli, strict=True):
        row[:] = multiply(row, np.uint64(pow(t, -1, modulus)), modulus)
    return words


def multiplier(half: Polynomials, t: int, slots: Residues) -> Words:
    """Return what a ciphertext's polynomials are multiplied by to multiply its slots, as values at roots of unity."""
    numbers = coefficients_of(Polynomials(len(slots), (t,)), slots[None])[0].view(np.int64)
    numbers[numbers > t // 2] -= t
    return values_of(half, np.mod(numbers, np.array(half.moduli, np.int64)[:, None]).view(np.uint64))


def decoded(half: Polynomials, t: int, phase: Words) -> Residues:
    """Return the slots of a ciphertext, from c0 + c1·s as values at roots of unity.

    With y_i = phase·(Q/q_i)^-1 modulo q_i, t·phase/Q is Σ t·y_i/q_i but for multiples of t. Of each summand the
    remainder t·y_i modulo q_i is exact, and gives the whole part modulo t; the fractions add up to a number below the
    count of primes, which is rounded. Doubles are wrong at most where noise is within 2^-48 of the largest possible.
    """
    modulus = math.prod(half.moduli)
    fractions = np.zeros(half.ring_dimension)
    total = np.zeros(half.ring_dimension, np.uint64)
    for row, q in zip(coefficients_of(half, phase), half.moduli, strict=True):
        remainder = multiply(row, np.uint64(t * pow(modulus // q, -1, q) % q), q)
        fractions += remainder / q
        total += multiply(remainder % np.uint64(t), np.uint64(pow(-q, -1, t)), t)
    total += np.rint(fractions).astype(np.uint64)
    return values_of(Polynomials(half.ring_dimension, (t,)), total[None] % np.uint64(t)).ravel()


def uniform_noise(half: Polynomials, bits: int) -> Words:
    """Return a fresh polynomial with coefficients uniform on [-2^bits, 2^bits), as values at the roots of unity.

    `half` is the shape of one polynomial modulo all primes of Q.
    """
    stream = KeyStream(secrets.token_bytes(_SEED_BYTES))
    total = half.zeros()
    for start in range(0, bits + 1, _LIMB_BITS):
        limb = stream.words(half.ring_dimension) & np.uint64(2 ** min(_LIMB_BITS, bits + 1 - start) - 1)
        weights = np.array([[pow(2, start, modulus)] for modulus in half.moduli], np.uint64)
        half.add_in_place(total, half.multiply(np.broadcast_to(limb, half.shape), weights))
    half.subtract_in_place(total, np.array([[pow(2, bits, modulus)] for modulus in half.moduli], np.uint64))
    return values_of(half, total)


def _modulus(parameters: BfvParameters, prime: int) -> int:
    if not 0 <= prime < len(parameters.plain_moduli):
        raise ValueError(f"prime must be an index below {len(parameters.plain_moduli)}, got {prime}")
    return parameters.plain_moduli[prime]


def kind_of(what: str, parameters: BfvParameters, prime: int) -> str:
    """Say what a ciphertext is, and for which prime; ValueError where none has that index."""
    return f"{what} modulo {_modulus(parameters, prime)}"


def result_kind(parameters: BfvParameters, prime: int, kept: int) -> str:
    """Say what a result in its first `kept` primes of Q is; ValueError as `kind_of`."""
    total = len(parameters.modulus_bits)
    what = "result" if kept == total else f"result in {kept} of {total} primes"
    return kind_of(what, parameters, prime)
