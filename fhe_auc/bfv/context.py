"""The interface of a BFV backend: one type for the aggregator, one for the parties.

Values are integers modulo a prime t, over all N slots: sums and products of ciphertexts are sums and products modulo t,
slot by slot, and exact. A ciphertext is for one of the parameters' plaintext moduli, named by its index, `prime`; under
another it would decrypt to noise, so what travels says for which it is.

    slots         the values, at the roots of -1 modulo t, of a polynomial m with coefficients modulo t, in the order of
                  `fhe_auc.rlwe.polynomials`: products of polynomials are products slot by slot
    encryption    (c0, c1) with c0 + c1·s = round(Q·m/t) + x modulo Q, x the noise
    decryption    m = round(t·(c0 + c1·s)/Q) modulo t, right as long as |x| is below Q/2t

The library draws secret keys. The rest is our own arithmetic on words, in integers, and the same whatever the library.
(OpenFHE's own encoding rounds up; its decryption fails from 51 bits of t on; both take long.)

**Flooding** is noise that hides what a ciphertext's own noise would tell to those who can decrypt it. The aggregator
adds an encryption of zero under the public key (p0, p1): (u·p0 + f, u·p1 + e1), with fresh u uniform on ternary
polynomials, e1 an error as those of fresh encryptions, and for the other error f, uniform on [-2^b, 2^b) in each
coefficient. It makes both polynomials pseudorandom but for message and noise.

Whatever the noise x beneath was, up to X in absolute value, the N coefficients that are seen are those of any other x'
but for a statistical distance of N·X/2^b (a coefficient's is |x - x'|/2^(b+1)): 2^-λ with b = λ + log2 N + log2 X.
`fhe_auc.bfv.parameters` has X and b; docs/security/encryption.md has both in numbers.
"""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.keystream import KeyStream
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe import ciphertexts
from fhe_auc.rlwe.context import BasePublicContext, BaseSecretContext, PublicKeys, SecretKey, generated, loaded
from fhe_auc.rlwe.modular import Residues, add, multiply, reduced, signed
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of, values_of

_LIMB_BITS = 56
_SEED_BYTES = 32


@dataclass(frozen=True, repr=False)
class Ciphertext:
    """A ciphertext in this process: its words, of `PublicContext.ciphertext_shape`, and the index of its prime."""

    prime: int
    words: Words


class Flooded(NamedTuple):
    """A flooded ciphertext: its coefficients, of `PublicContext.ciphertext_shape`, and the index of its prime."""

    prime: int
    coefficients: Words


class PublicContext(BasePublicContext[BfvParameters]):
    """What the aggregator holds: it multiplies ciphertexts by plaintexts only."""

    kind, stored_as = "public BFV context", PublicKeys[BfvParameters]

    def read_submission(self, data: bytes, prime: int) -> Ciphertext:
        """Return what `SecretContext.encrypt` wrote.

        `DeserialisationError`: it is damaged, made for another context or another prime, or not a ciphertext of these
        parameters.
        """
        _, packed = ciphertexts.unwrap(kind_of("submission", self.parameters, prime), data, self.fingerprint)
        return Ciphertext(prime, self._seeded.expand(packed))

    def sum_of_products(self, prime: int, ciphertexts: Sequence[Ciphertext], values: Sequence[ArrayLike]) -> Ciphertext:
        """Return Σ ciphertext · plaintext values in [0, t), each of shape (N,), slot by slot; nothing hides a zero.

        Where all values are the same, noise gets at most t/2 times as large; otherwise up to N·t/2 times. Raises
        ValueError as `checked`, and for ciphertexts for another prime.
        """
        half, total = self._seeded.half, self.ciphertext_shape.zeros()
        for ciphertext, own in zip(ciphertexts, values, strict=True):
            if ciphertext.prime != prime:
                raise ValueError(f"ciphertexts are for different primes, {prime} and {ciphertext.prime}")
            factors = multiplier(half, _modulus(self.parameters, prime), checked(own, self.parameters, prime))
            for part, words in zip(np.split(total, 2), np.split(ciphertext.words, 2), strict=True):
                half.add_in_place(part, half.multiply(words, factors))
        return Ciphertext(prime, total)

    def flood(self, ciphertext: Ciphertext, values: ArrayLike) -> Flooded:
        """Return `ciphertext` plus plaintext values in [0, t), shape (N,), an encryption of zero, and flooding noise.

        It takes what capacity there is: nothing can be computed on the result. Raises ValueError as `checked`.
        """
        half, summands = self._seeded.half, checked(values, self.parameters, ciphertext.prime)
        fresh = partial(secrets.token_bytes, _SEED_BYTES)
        u, parts = ciphertexts.ternary(half, fresh()), []
        for key, words in zip(self._public_key, np.split(ciphertext.words, 2), strict=True):
            part = half.multiply(u, key)
            half.add_in_place(part, words)
            parts.append(coefficients_of(half, part))
        half.add_in_place(parts[0], encoded(half, self.parameters.plain_moduli[ciphertext.prime], summands))
        half.add_in_place(parts[0], uniform_noise(half, self.parameters.flooding_bits))
        half.add_in_place(parts[1], half.residues(ciphertexts.fresh_error(half.ring_dimension, fresh())))
        return Flooded(ciphertext.prime, np.concatenate(parts))

    def dump_result(self, flooded: Flooded, kept: int) -> bytes:
        """Serialise a ciphertext for `SecretContext.decrypt`, switched down to its first `kept` primes.

        Fewer primes, fewer bytes: `flooding_margin` knows how few do. ValueError without so many.
        """
        half = self._seeded.half
        shape = ciphertexts.kept_shape(half, kept)
        parts = [ciphertexts.divided(half, part.copy(), kept) for part in np.split(flooded.coefficients, 2)]
        packed = b"".join(map(shape.pack, parts))
        return ciphertexts.wrap(result_kind(self.parameters, flooded.prime, kept), self.fingerprint, packed)


class SecretContext(BaseSecretContext[BfvParameters]):
    """What a party holds."""

    kind, stored_as = "secret BFV context", SecretKey[BfvParameters]

    def encrypt(self, values: ArrayLike, prime: int) -> bytes:
        """Return integers in [0, t), shape (N,), encrypted under the secret key, for `PublicContext.read_submission`.

        Raises ValueError as `checked`.
        """
        residues = checked(values, self.parameters, prime)
        message = encoded(self.mask_shape, self.parameters.plain_moduli[prime], residues)
        packed = self._seeded.encrypt(self.secret_words, message, np.append(residues, np.uint64(prime)))
        return ciphertexts.wrap(kind_of("submission", self.parameters, prime), self.fingerprint, packed)

    def decrypt(self, data: bytes, prime: int, kept: int) -> Residues:
        """Return the integers in [0, t), shape (N,), of a result that `PublicContext.dump_result` wrote.

        Raises `DeserialisationError` for what is damaged, made for another context, another prime or another number of
        `kept` primes, or not a ciphertext of these parameters; or one that hides nothing. ValueError as `dump_result`.
        """
        half = ciphertexts.kept_shape(self.mask_shape, kept)
        _, packed = ciphertexts.unwrap(result_kind(self.parameters, prime, kept), data, self.fingerprint)
        first, second = ciphertexts.unpack_result(half, packed)
        phase = coefficients_of(half, half.multiply(values_of(half, second), self.secret_words[:kept]))
        half.add_in_place(phase, first)
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
    (message,) = coefficients_of(Polynomials(len(slots), (t,)), slots[None])
    # Q·m/t is rounded by taking the remainder from Q·m: what is left is, modulo Q, minus the remainder over t.
    remainder = signed(multiply(message, np.uint64(math.prod(half.moduli) % t), t), t)
    words = [multiply(remainder, np.uint64(-pow(t, -1, modulus) % modulus), modulus) for modulus in half.moduli]
    return np.array(words)


def multiplier(half: Polynomials, t: int, slots: Residues) -> Words:
    """Return what a ciphertext's polynomials are multiplied by to multiply its slots, as values at roots of unity."""
    (numbers,) = coefficients_of(Polynomials(len(slots), (t,)), slots[None])
    return values_of(half, signed(numbers, t))


def decoded(half: Polynomials, t: int, phase: Words) -> Residues:
    """Return the slots of a ciphertext, from the coefficients of c0 + c1·s.

    With y_i = phase·(Q/q_i)^-1 modulo q_i, t·phase/Q is Σ t·y_i/q_i but for multiples of t. Of each summand the
    remainder t·y_i modulo q_i is exact, and gives the whole part modulo t; the fractions add up to a number below the
    count of primes, which is rounded. Doubles are wrong at most where noise is within 2^-48 of the largest possible.
    """
    modulus = math.prod(half.moduli)
    fractions = np.zeros(half.ring_dimension)
    total = np.zeros(half.ring_dimension, np.uint64)
    for row, q in zip(phase, half.moduli, strict=True):
        remainder = multiply(row, np.uint64(t * pow(modulus // q, -1, q) % q), q)
        fractions += remainder / q
        total += multiply(remainder, np.uint64(pow(-q, -1, t)), t)
    total += np.rint(fractions).astype(np.uint64)
    return values_of(Polynomials(half.ring_dimension, (t,)), reduced(total, t)).ravel()


def uniform_noise(half: Polynomials, bits: int) -> Words:
    """Return a fresh polynomial with coefficients uniform on [-2^bits, 2^bits).

    `half` is the shape of one polynomial modulo all primes of Q.
    """
    stream, total = KeyStream(secrets.token_bytes(_SEED_BYTES)), half.zeros()
    for start in range(0, bits + 1, _LIMB_BITS):
        limb = stream.words(half.ring_dimension) & np.uint64(2 ** min(_LIMB_BITS, bits + 1 - start) - 1)
        for row, modulus in zip(total, half.moduli, strict=True):
            row[:] = add(row, multiply(limb, np.uint64(pow(2, start, modulus)), modulus), modulus)
    half.subtract_in_place(total, np.array([[pow(2, bits, modulus)] for modulus in half.moduli], np.uint64))
    return total


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
