"""The interface of a BFV backend: one type for the aggregator, one for the parties.

Values are integers modulo a prime t, over all N slots: sums and products of ciphertexts are sums and products modulo t,
slot by slot, and exact. A ciphertext is for one of the parameters' plaintext moduli, named by its index, `prime`; under
another it would decrypt to noise, so what travels says for which it is.

The library draws secret keys, and encrypts zero under the public key. The rest is our own arithmetic on words, the same
on every backend (`fhe_auc.bfv.slots`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.bfv import slots
from fhe_auc.bfv.flooding import uniform_noise
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe import transparent_ciphertexts, wire_format
from fhe_auc.rlwe.context import BasePublicContext, BaseSecretContext, ContextFactory, PublicKeys, SecretKey
from fhe_auc.rlwe.library import Library
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.modulus_switching import kept_shape, switched
from fhe_auc.rlwe.number_theoretic_transform import values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.seeded import Seeded


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
        self._zero = library.zeros(stored.public_key)
        self._half = Seeded(self.ciphertext_shape).half

    def read_submission(self, data: bytes, prime: int) -> Words:
        """Return the coefficients, of `ciphertext_shape`, in what `SecretContext.encrypt` wrote.

        Adding them up needs no encryption library (`fhe_auc.rlwe.polynomials.PolynomialSum`). `DeserialisationError`:
        it is damaged, made for another context or another prime, or not a ciphertext of these parameters.
        """
        kind = kind_of("submission", self.parameters, prime)
        return Seeded(self.ciphertext_shape).expand(wire_format.open_for(kind, self.fingerprint, data))

    def ciphertext(self, words: Words, prime: int) -> Ciphertext:
        """Return the ciphertext with these coefficients, of `ciphertext_shape`: a sum of submissions.

        Raises `DeserialisationError` where its second polynomial is zero, so that it hides nothing.
        """
        transparent_ciphertexts.check(words)
        return Ciphertext(prime, words.copy())

    def encrypt(self, values: ArrayLike, prime: int) -> Ciphertext:
        """Return a fresh encryption under the public key of integers in [0, t), shape (N,); ValueError as `checked`."""
        residues = checked(values, self.parameters, prime)
        words = self._zero()
        self._add_message(words, residues, prime)
        return Ciphertext(prime, words)

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
        prime = ciphertext.prime
        factors = checked(values, self.parameters, prime)
        if not factors.any():
            raise ValueError("times zero a ciphertext hides nothing")
        factor = slots.factor(self._half, self.parameters.plain_moduli[prime], factors)
        return Ciphertext(prime, self.ciphertext_shape.multiply(ciphertext.words, np.concatenate((factor, factor))))

    def add_values(self, ciphertext: Ciphertext, values: ArrayLike) -> Ciphertext:
        """Return `ciphertext` plus plaintext values in [0, t), shape (N,), slot by slot; ValueError as `checked`."""
        summands = checked(values, self.parameters, ciphertext.prime)
        words = ciphertext.words.copy()
        self._add_message(words, summands, ciphertext.prime)
        return Ciphertext(ciphertext.prime, words)

    def flood(self, ciphertext: Ciphertext) -> Ciphertext:
        """Return `ciphertext` with a fresh encryption of zero, and with flooding noise: see `fhe_auc.bfv.flooding`.

        It takes what capacity there is: nothing can be computed on the result.
        """
        words = self._zero()
        self.ciphertext_shape.add_in_place(words, ciphertext.words)
        noise = uniform_noise(self._half, self.parameters.flooding_bits)
        self._half.add_in_place(words[: len(noise)], noise)
        return self.ciphertext(words, ciphertext.prime)

    def dump_result(self, ciphertext: Ciphertext, kept: int | None = None) -> bytes:
        """Serialise a ciphertext for `SecretContext.decrypt`, switched down to its first `kept` primes; None: all.

        Fewer primes, fewer bytes: `ciphertext_noise.flooding_margin` knows how few do. ValueError without so many.
        """
        shape = _result_shape(self._half, kept)
        both = [switched(self._half, each, len(shape.moduli) // 2) for each in np.split(ciphertext.words, 2)]
        kind = result_kind(self.parameters, ciphertext.prime, kept)
        return wire_format.seal(kind, self.fingerprint, shape.pack(np.concatenate(both)))

    def _add_message(self, words: Words, residues: Residues, prime: int) -> None:
        message = slots.message(self._half, self.parameters.plain_moduli[prime], residues)
        self._half.add_in_place(words[: len(message)], values_of(self._half, message))


class SecretContext(BaseSecretContext[BfvParameters]):
    """What a party holds."""

    kind, stored_as = "secret BFV context", SecretKey[BfvParameters]

    def encrypt(self, values: ArrayLike, prime: int) -> bytes:
        """Return integers in [0, t), shape (N,), encrypted under the secret key, for `PublicContext.read_submission`.

        Raises ValueError as `checked`.
        """
        residues = checked(values, self.parameters, prime)
        message = slots.message(self.mask_shape, self.parameters.plain_moduli[prime], residues)
        packed = self._seeded.encrypt(self.secret_words, message)
        return wire_format.seal(kind_of("submission", self.parameters, prime), self.fingerprint, packed)

    def decrypt(self, data: bytes, prime: int, kept: int | None = None) -> Residues:
        """Return the integers in [0, t), shape (N,), of a result that `PublicContext.dump_result` wrote.

        Raises `DeserialisationError` for what is damaged, made for another context, another prime or another number of
        `kept` primes, or not a ciphertext of these parameters; or one that hides nothing. ValueError as `dump_result`.
        """
        shape = _result_shape(self.mask_shape, kept)
        kind = result_kind(self.parameters, prime, kept)
        words = transparent_ciphertexts.unpack(shape, wire_format.open_for(kind, self.fingerprint, data))
        half = Seeded(shape).half
        phase = slots.phase_of(half, words, self.secret_words[: len(half.moduli)])
        return slots.decrypted(half, self.parameters.plain_moduli[prime], phase)


class KeyPair(NamedTuple):
    """Both halves of a freshly generated context."""

    public: PublicContext
    secret: SecretContext


FACTORY = ContextFactory(PublicContext, SecretContext, KeyPair)


def checked(values: ArrayLike, parameters: BfvParameters, prime: int) -> Residues:
    """Return `values`, shape (N,), for a ciphertext; ValueError unless all are in [0, t), and for another index."""
    given = np.asarray(values)
    if given.shape != (parameters.slots,) or given.dtype.kind not in "iu":
        raise ValueError(f"expected one integer for each of {parameters.slots} slots")
    modulus = _modulus(parameters, prime)
    if int(given.min()) < 0 or int(given.max()) >= modulus:
        raise ValueError(f"a value is not in [0, {modulus})")
    return np.ascontiguousarray(given, np.uint64)


def _modulus(parameters: BfvParameters, prime: int) -> int:
    if not 0 <= prime < len(parameters.plain_moduli):
        raise ValueError(f"prime must be an index below {len(parameters.plain_moduli)}, got {prime}")
    return parameters.plain_moduli[prime]


def kind_of(what: str, parameters: BfvParameters, prime: int) -> str:
    """Say what a ciphertext is, and for which prime; ValueError where none has that index."""
    return f"{what} modulo {_modulus(parameters, prime)}"


def _result_shape(half: Polynomials, kept: int | None) -> Polynomials:
    """Return the shape of a result's two polynomials; ValueError where there are not so many primes."""
    shape = half if kept is None else kept_shape(half, kept)
    return Polynomials(half.ring_dimension, 2 * shape.moduli)


def result_kind(parameters: BfvParameters, prime: int, kept: int | None) -> str:
    """Say what a result in its first `kept` primes of Q is, None: in all; ValueError as `kind_of`."""
    total = len(parameters.modulus_bits)
    what = "result" if kept in (None, total) else f"result in {kept} of {total} primes"
    return kind_of(what, parameters, prime)
