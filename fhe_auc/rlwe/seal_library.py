"""SEAL, for every scheme of the library: its contexts and keys. How its objects become bytes is `seal_format`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import tenseal.sealapi as seal

from fhe_auc.rlwe import seal_format
from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.library import Library, LoadedKey, P
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seeded import Seeded


def key_moduli(ring_dimension: int, modulus_bits: Sequence[int]) -> list[int]:
    """Return SEAL's primes of these bits, of which keys take the last as well."""
    return [prime.value() for prime in seal.CoeffModulus.Create(ring_dimension, list(modulus_bits))]


def new_context(
    scheme: Any, ring_dimension: int, modulus_bits: Sequence[int], plain_modulus: int | None = None
) -> tuple[Any, list[int]]:
    """Return SEAL's context, with the security that we ask for, and its primes, of which keys take the last as well."""
    settings = seal.EncryptionParameters(scheme)
    settings.set_poly_modulus_degree(ring_dimension)
    primes = seal.CoeffModulus.Create(ring_dimension, list(modulus_bits))
    settings.set_coeff_modulus(primes)
    if plain_modulus is not None:
        settings.set_plain_modulus(plain_modulus)
    return seal.SEALContext(settings, True, seal.SEC_LEVEL_TYPE.TC128), [prime.value() for prime in primes]


def written(result: Any, operation: Callable[..., None], *arguments: Any) -> Any:
    """Return `result`, a new SEAL object, once `operation` has written into it: its last argument."""
    operation(*arguments, result)
    return result


class SealLibrary(Library[P]):
    """SEAL for one scheme, which calls `learn_submissions` itself."""

    def __init__(self, parameters: P, scheme: Any, plain_modulus: int | None = None) -> None:
        self.parameters = parameters
        bits = (*parameters.modulus_bits, parameters.special_bits)
        self.context, self._key_moduli = new_context(scheme, parameters.ring_dimension, bits, plain_modulus)
        self.evaluation = seal.Evaluator(self.context)
        self.secret_key = self.learn(seal.KeyGenerator(self.context).secret_key())

    @cached_property
    def public_key(self) -> CoefficientLayout:
        """Layout of the library's public keys."""
        return self.learn(seal_format.public_key(seal.KeyGenerator(self.context)))

    def new_secret_key(self) -> bytes:
        return self.secret_key.pack(seal_format.save(seal.KeyGenerator(self.context).secret_key()))

    def load_public_key(self, fingerprint: bytes, public_key: bytes) -> SealPublicKey:
        raw = self.public_key.raw(Seeded(self.public_key.polynomials).expand(public_key))
        return SealPublicKey(self.context, seal_format.parse(seal.PublicKey(), self.context, raw))

    def load_secret_key(self, fingerprint: bytes, secret_key: bytes) -> SealSecretKey:
        raw = self.secret_key.unpack(secret_key)
        return SealSecretKey(self.context, seal_format.parse(seal.SecretKey(), self.context, raw))

    def learn(self, key: Any) -> CoefficientLayout:
        """Return the layout of keys like `key`."""
        return seal_format.layout_of(key, self.parameters.ring_dimension, self._key_moduli)

    def learn_submissions(self, zero: Any) -> None:
        """Learn the layout of ciphertexts, from encryptions of the plaintext zero; errors as `verify_reseeding`."""
        self.zero = zero
        key = seal.KeyGenerator(self.context).secret_key()
        loaded = SealSecretKey(self.context, key)
        ciphertext = self.transformed(loaded.encrypt(zero))
        self.submission = seal_format.layout_of(ciphertext, self.parameters.ring_dimension, self._key_moduli[:-1])
        secret = self.secret_key.words(seal_format.save(key))[: len(self.parameters.modulus_bits)]
        self.verify_reseeding(loaded, secret)

    def words(self, ciphertext: Any) -> Words:
        return self.submission.words(seal_format.save(self.transformed(ciphertext)))

    def transformed(self, ciphertext: Any) -> Any:
        """Return a ciphertext that is kept as values at the roots of unity, as those of CKKS are anyway."""
        return ciphertext


class SealPublicKey(LoadedKey):
    """A public key."""

    def __init__(self, context: Any, key: Any) -> None:
        self._encryptor = seal.Encryptor(context, key)

    def encrypt(self, plaintext: Any) -> Any:
        return written(seal.Ciphertext(), self._encryptor.encrypt, plaintext)


class SealSecretKey(SealPublicKey):
    """A secret key."""

    def encrypt(self, plaintext: Any) -> Any:
        return written(seal.Ciphertext(), self._encryptor.encrypt_symmetric, plaintext)
