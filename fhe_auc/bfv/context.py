"""The interface of a BFV backend: one type for the aggregator, one for the parties.

Values are integers modulo a prime t, over all N slots: sums and products of ciphertexts are sums and products modulo t,
slot by slot, and exact. A ciphertext is for one of the parameters' plaintext moduli, named by its index, `prime`; under
another it would decrypt to noise, so what travels says for which it is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.bfv.flooding import uniform_noise
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.errors import DeserialisationError
from fhe_auc.rlwe import container, hidden
from fhe_auc.rlwe.context import BasePublicContext, BaseSecretContext, PublicKeys, SecretKey
from fhe_auc.rlwe.context_factory import ContextFactory
from fhe_auc.rlwe.library import Library
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seeded import Seeded

Residues: TypeAlias = NDArray[np.uint64]
"""Integers in [0, t), one a slot: shape (N,)."""

StoredPublic: TypeAlias = PublicKeys[BfvParameters]
StoredSecret: TypeAlias = SecretKey[BfvParameters]


@dataclass(frozen=True, repr=False)
class Ciphertext:
    """A ciphertext in this process: the library's object, and the index of its plaintext modulus."""

    prime: int
    item: Any


class BfvLibrary(Library[BfvParameters]):
    """What a library offers for BFV besides, with one plaintext modulus."""

    @abstractmethod
    def encoded(self, values: Residues) -> Any:
        """Return the plaintext of integers in [0, t), one a slot."""


class PublicContext(BasePublicContext[BfvParameters]):
    """What the aggregator holds."""

    kind = "public BFV context"

    def __init__(self, stored: StoredPublic, schemes: Sequence[BfvLibrary]) -> None:
        if not stored.relinearisation_key:  # CKKS contexts for sums do without
            raise DeserialisationError("a public BFV context has no relinearisation key")
        super().__init__(stored, schemes)
        self._schemes = schemes

    def read_submission(self, data: bytes, prime: int) -> Words:
        """Return the coefficients, of `ciphertext_shape`, in what `SecretContext.encrypt` wrote.

        Adding them up needs no encryption library: see `fhe_auc.rlwe.polynomials.Sum`. Raises `DeserialisationError`
        for what is damaged, made for another context or another prime, or not a ciphertext of these parameters.
        """
        kind = kind_of("submission", self.parameters, prime)
        return Seeded(self.ciphertext_shape).expand(container.open_for(kind, self.fingerprint, data))

    def ciphertext(self, words: Words, prime: int) -> Ciphertext:
        """Return the ciphertext with these coefficients, of `ciphertext_shape`: a sum of submissions.

        Raises `DeserialisationError` where its second polynomial is zero, so that it hides nothing.
        """
        hidden.check(words)
        return Ciphertext(prime, self._evaluators[prime].ciphertext(words))

    def encrypt(self, values: ArrayLike, prime: int) -> Ciphertext:
        """Return a fresh encryption under the public key of integers in [0, t), shape (N,); ValueError as `checked`."""
        residues = checked(values, self.parameters, prime)
        return Ciphertext(prime, self._evaluators[prime].encrypt(self._schemes[prime].encoded(residues)))

    def add_in_place(self, total: Ciphertext, ciphertext: Ciphertext) -> None:
        """Add `ciphertext` to `total`, which must be the caller's own."""
        self._evaluators[_same_prime(total, ciphertext)].add_in_place(total.item, ciphertext.item)

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        """Return the relinearised product of two ciphertexts, slot by slot."""
        prime = _same_prime(left, right)
        return Ciphertext(prime, self._evaluators[prime].multiply(left.item, right.item))

    def multiply_values(self, ciphertext: Ciphertext, values: ArrayLike) -> Ciphertext:
        """Return `ciphertext` times plaintext values in [0, t), shape (N,), slot by slot.

        Where all are the same, noise gets at most t/2 times as large; otherwise up to N·t times. Raises ValueError as
        `checked`, or for nothing but zeros, a product that anyone could read.
        """
        factors = checked(values, self.parameters, ciphertext.prime)
        if not factors.any():
            raise ValueError("times zero a ciphertext hides nothing")
        prime = ciphertext.prime
        evaluator, modulus = self._evaluators[prime], self.parameters.plain_moduli[prime]
        # The libraries multiply noise by a constant as it stands between 0 and t: that of -1 would be t - 1.
        negative = bool((factors == factors[0]).all()) and int(factors[0]) > modulus // 2
        plaintext = self._schemes[prime].encoded(np.uint64(modulus) - factors if negative else factors)
        product = evaluator.multiply_plain(ciphertext.item, plaintext)
        return Ciphertext(prime, evaluator.negate(product) if negative else product)

    def add_values(self, ciphertext: Ciphertext, values: ArrayLike) -> Ciphertext:
        """Return `ciphertext` plus plaintext values in [0, t), shape (N,), slot by slot; ValueError as `checked`."""
        prime = ciphertext.prime
        summands = self._schemes[prime].encoded(checked(values, self.parameters, prime))
        return Ciphertext(prime, self._evaluators[prime].add_plain(ciphertext.item, summands))

    def flood(self, ciphertext: Ciphertext) -> Ciphertext:
        """Return `ciphertext` with a fresh encryption of zero, and with flooding noise: see `fhe_auc.bfv.flooding`.

        It takes what capacity there is: nothing can be computed on the result.
        """
        prime = ciphertext.prime
        fresh = self.encrypt(np.zeros(self.parameters.slots, np.uint64), prime)
        self.add_in_place(fresh, ciphertext)
        half = Seeded(self.ciphertext_shape).half
        words = self.words(fresh)
        half.add_in_place(words[: len(half.moduli)], uniform_noise(half, self.parameters.flooding_bits))
        return self.ciphertext(words, prime)

    def dump_result(self, ciphertext: Ciphertext) -> bytes:
        """Serialise a ciphertext for `SecretContext.decrypt`."""
        packed = self.ciphertext_shape.pack(self.words(ciphertext))
        return container.seal(kind_of("result", self.parameters, ciphertext.prime), self.fingerprint, packed)

    def words(self, ciphertext: Ciphertext) -> Words:
        """Return the coefficients of a ciphertext, of `ciphertext_shape`."""
        return self._schemes[ciphertext.prime].words(ciphertext.item)


class SecretContext(BaseSecretContext[BfvParameters]):
    """What a party holds."""

    kind = "secret BFV context"

    def __init__(self, stored: StoredSecret, schemes: Sequence[BfvLibrary]) -> None:
        super().__init__(stored, schemes)
        self._schemes = schemes

    def encrypt(self, values: ArrayLike, prime: int) -> bytes:
        """Return integers in [0, t), shape (N,), encrypted under the secret key, for `PublicContext.read_submission`.

        Raises ValueError as `checked`.
        """
        residues = checked(values, self.parameters, prime)
        scheme = self._schemes[prime]
        words = scheme.words(self._decryptors[prime].encrypt(scheme.encoded(residues)))
        packed = self._seeded.reseed(words, self.secret_words)
        return container.seal(kind_of("submission", self.parameters, prime), self.fingerprint, packed)

    def decrypt(self, data: bytes, prime: int) -> Residues:
        """Return the integers in [0, t), shape (N,), of a result that `PublicContext.dump_result` wrote.

        Raises `DeserialisationError` for what is damaged, made for another context or another prime, or not a
        ciphertext of these parameters; or one that hides nothing.
        """
        words = self._result(kind_of("result", self.parameters, prime), data)
        keys = self._decryptors[prime]
        return self._schemes[prime].decoded(keys.decrypt(keys.ciphertext(words)))


class KeyPair(NamedTuple):
    """Both halves of a freshly generated context."""

    public: PublicContext
    secret: SecretContext


FACTORY = ContextFactory[BfvParameters, KeyPair, PublicContext, SecretContext](
    PublicContext, SecretContext, StoredPublic, StoredSecret, KeyPair
)


def checked(values: ArrayLike, parameters: BfvParameters, prime: int) -> Residues:
    """Return `values`, shape (N,), as what a ciphertext holds.

    Raises `ValueError`: not one integer in [0, t) a slot, or no prime of that index.
    """
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


def _same_prime(left: Ciphertext, right: Ciphertext) -> int:
    if left.prime != right.prime:
        raise ValueError(f"ciphertexts are for different primes, {left.prime} and {right.prime}")
    return left.prime
