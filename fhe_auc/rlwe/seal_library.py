"""SEAL, for every scheme of the library: its contexts and keys. How its objects become bytes is `seal_format`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import tenseal.sealapi as seal

from fhe_auc.rlwe import seal_format
from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.library import Decryptor, Evaluator, Library, LoadedKeys, P
from fhe_auc.rlwe.polynomials import Words


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
        generator = seal.KeyGenerator(self.context)
        self.secret_key = self.learn(generator.secret_key())
        self.public_key = self.learn(seal_format.public_key(generator))

    @cached_property
    def relinearisation_key(self) -> CoefficientLayout:
        """Layout of relinearisation keys, which parties never need."""
        return self.learn(seal.KeyGenerator(self.context).create_relin_keys())

    def fresh_keys(self) -> tuple[tuple[bytes, ...], bytes]:
        generator = seal.KeyGenerator(self.context)
        secret_key = self.secret_key.pack(seal_format.save(generator.secret_key()))
        relinearisation_key = b""
        if self.parameters.multiplies:
            made = generator.create_relin_keys()
            if "relinearisation_key" not in vars(self):  # making others to learn from takes as long
                self.relinearisation_key = self.learn(made)
            relinearisation_key = self.relinearisation_key.pack(seal_format.save(made))
        public = self.new_public_key(secret_key), relinearisation_key, *self._further_keys(generator)
        return public, secret_key

    def evaluator(self, fingerprint: bytes, public_key: bytes, relinearisation_key: bytes) -> SealEvaluator:
        raw = self.public_key.raw(self.expanded_public_key(public_key))
        public = seal_format.parse(seal.PublicKey(), self.context, raw)
        relinearisation = None
        if relinearisation_key:
            relinearisation = self.load(seal.RelinKeys(), self.relinearisation_key, relinearisation_key)
        return SealEvaluator(self, public, relinearisation)

    def decryptor(self, fingerprint: bytes, secret_key: bytes) -> SealDecryptor:
        return SealDecryptor(self, self.load(seal.SecretKey(), self.secret_key, secret_key))

    def learn(self, key: Any) -> CoefficientLayout:
        """Return the layout of keys like `key`."""
        return seal_format.layout_of(key, self.parameters.ring_dimension, self._key_moduli)

    def learn_submissions(self, plaintext: Any) -> None:
        """Learn the layout of ciphertexts, from encryptions of `plaintext`; errors as `verify_reseeding`."""
        key = seal.KeyGenerator(self.context).secret_key()
        decryptor = SealDecryptor(self, key)
        ciphertext = self.transformed(decryptor.encrypt(plaintext))
        self.submission = seal_format.layout_of(ciphertext, self.parameters.ring_dimension, self._key_moduli[:-1])
        secret = self.secret_key.words(seal_format.save(key))[: len(self.parameters.modulus_bits)]
        self.verify_reseeding(decryptor, secret, plaintext)

    def load(self, empty: Any, layout: CoefficientLayout, packed: bytes) -> Any:
        """Fill `empty` (a SEAL object) from packed coefficients."""
        return seal_format.parse(empty, self.context, layout.unpack(packed))

    def ciphertext(self, words: Words) -> Any:
        """Return the ciphertext with these values at the roots of unity."""
        return seal_format.parse(seal.Ciphertext(), self.context, self.submission.raw(words))

    def words(self, ciphertext: Any) -> Words:
        return self.submission.words(seal_format.save(self.transformed(ciphertext)))

    def transformed(self, ciphertext: Any) -> Any:
        """Return a ciphertext that is kept as values at the roots of unity, as those of CKKS are anyway."""
        return ciphertext


class _SealKeys(LoadedKeys):
    """A public or a secret key."""

    def __init__(self, library: SealLibrary[Any], key: Any) -> None:
        self._library = library
        self._encryptor = seal.Encryptor(library.context, key)

    def ciphertext(self, words: Words) -> Any:
        return self._library.ciphertext(words)


class SealEvaluator(_SealKeys, Evaluator):
    """What SEAL computes with public keys."""

    def __init__(self, library: SealLibrary[Any], public_key: Any, relinearisation_key: Any) -> None:
        super().__init__(library, public_key)
        self._evaluation = library.evaluation
        self._relinearisation_key = relinearisation_key

    def encrypt(self, plaintext: Any) -> Any:
        return written(seal.Ciphertext(), self._encryptor.encrypt, plaintext)

    def add_in_place(self, total: Any, ciphertext: Any) -> None:
        self._evaluation.add_inplace(total, ciphertext)

    def multiply(self, left: Any, right: Any) -> Any:
        product = written(seal.Ciphertext(), self._evaluation.multiply, left, right)
        self._evaluation.relinearize_inplace(product, self._relinearisation_key)
        return product

    def multiply_plain(self, ciphertext: Any, plaintext: Any) -> Any:
        if not plaintext.is_zero():
            return written(seal.Ciphertext(), self._evaluation.multiply_plain, ciphertext, plaintext)
        zero = written(seal.Ciphertext(), self._encryptor.encrypt_zero)  # SEAL refuses products that anyone could read
        zero.scale = ciphertext.scale * plaintext.scale
        return zero


class SealDecryptor(_SealKeys, Decryptor):
    """What SEAL does with a secret key."""

    def __init__(self, library: SealLibrary[Any], secret_key: Any) -> None:
        super().__init__(library, secret_key)
        self._decryptor = seal.Decryptor(library.context, secret_key)

    def encrypt(self, plaintext: Any) -> Any:
        return written(seal.Ciphertext(), self._encryptor.encrypt_symmetric, plaintext)

    def decrypt(self, ciphertext: Any) -> Any:
        return written(seal.Plaintext(), self._decryptor.decrypt, ciphertext)
