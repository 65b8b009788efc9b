"""CKKS on Microsoft SEAL, through `tenseal.sealapi`."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import tenseal.sealapi as seal

from fhe_auc.ckks.context import (
    Ciphertext,
    PublicContext,
    SecretContext,
    Slots,
    StoredPublic,
    StoredSecret,
)
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe import seal_format
from fhe_auc.rlwe.layout import Layout
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.seeded import VERIFIED, Seeded


class _Scheme:
    """A SEAL context and the layouts of its objects, learned from throw-away ones."""

    def __init__(self, parameters: CkksParameters) -> None:
        settings = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
        settings.set_poly_modulus_degree(parameters.ring_dimension)
        bits = [*parameters.modulus_bits, parameters.special_bits]
        primes = seal.CoeffModulus.Create(parameters.ring_dimension, bits)
        settings.set_coeff_modulus(primes)
        self.parameters = parameters
        self.context = seal.SEALContext(settings, True, seal.SEC_LEVEL_TYPE.TC128)
        self.encoder = seal.CKKSEncoder(self.context)
        self.evaluator = seal.Evaluator(self.context)
        # Galois elements by SEAL's rule: a left rotation by s is X -> X^(3^s mod 2N).
        self.elements = {s: pow(3, s, 2 * parameters.ring_dimension) for s in parameters.rotations}

        key_moduli = [prime.value() for prime in primes]
        moduli = key_moduli[:-1]
        generator = seal.KeyGenerator(self.context)
        secret_key = generator.secret_key()
        encryptor = seal.Encryptor(self.context, secret_key)
        zeros = np.zeros(parameters.slots, complex)
        self.submission = self._learn(self.encrypt(encryptor, zeros, parameters.scale), moduli)
        self.result = self._learn(self.encrypt(encryptor, zeros, parameters.scale**2), moduli)
        self.secret_key = self._learn(secret_key, key_moduli)
        self.public_key = self._learn(seal_format.public_key(generator), key_moduli)
        self.relinearisation_key = self._learn(generator.create_relin_keys(), key_moduli)
        self._key_moduli = key_moduli
        self._verify_reseeding(encryptor, secret_key)

    def _verify_reseeding(self, encryptor: Any, secret_key: Any) -> None:
        decryptor = seal.Decryptor(self.context, secret_key)

        def decrypt(words: Words) -> Slots:
            plaintext = seal.Plaintext()
            decryptor.decrypt(seal_format.parse(seal.Ciphertext(), self.context, self.submission.raw(words)), plaintext)
            return np.asarray(self.encoder.decode_complex(plaintext), complex)

        values = np.full(self.parameters.slots, VERIFIED / self.parameters.scale, complex)
        words = self.submission.words(seal_format.save(self.encrypt(encryptor, values, self.parameters.scale)))
        secret = self.secret_key.words(seal_format.save(secret_key))[: len(self.parameters.modulus_bits)]
        Seeded(self.submission.polynomials).verify(words, secret, decrypt)

    @cached_property
    def rotation_keys(self) -> Layout:
        """Layout of rotation keys, which parties never need."""
        generator = seal.KeyGenerator(self.context)
        return self._learn(generator.create_galois_keys(list(self.elements.values())), self._key_moduli)

    def _learn(self, item: Any, moduli: list[int]) -> Layout:
        return seal_format.layout_of(item, self.parameters.ring_dimension, moduli)

    def encode(self, values: Slots, scale: float) -> Any:
        plaintext = seal.Plaintext()
        self.encoder.encode(values, scale, plaintext)
        return plaintext

    def encrypt(self, encryptor: Any, values: Slots, scale: float) -> Any:
        """Encrypt under the encryptor's secret key."""
        ciphertext = seal.Ciphertext()
        encryptor.encrypt_symmetric(self.encode(values, scale), ciphertext)
        return ciphertext

    def load(self, empty: Any, layout: Layout, packed: bytes) -> Any:
        """Fill `empty` (a SEAL object) from packed coefficients."""
        return seal_format.load(empty, self.context, layout, packed)


@lru_cache(maxsize=4)
def _scheme(parameters: CkksParameters) -> _Scheme:
    return _Scheme(parameters)


class SealPublicContext(PublicContext):
    """The aggregator's context on SEAL."""

    def __init__(self, stored: StoredPublic) -> None:
        super().__init__(stored)
        self._scheme = scheme = _scheme(stored.parameters)
        public_key = scheme.load(seal.PublicKey(), scheme.public_key, stored.public_key)
        self._relin = scheme.load(seal.RelinKeys(), scheme.relinearisation_key, stored.relinearisation_key)
        self._galois = scheme.load(seal.GaloisKeys(), scheme.rotation_keys, stored.rotation_keys)
        self._encryptor = seal.Encryptor(scheme.context, public_key)

    def _encrypt(self, values: Slots, degree: int) -> Ciphertext:
        return self._encrypt_at(values, self.parameters.scale**degree)

    def _encrypt_at(self, values: Slots, scale: float) -> Ciphertext:
        ciphertext = seal.Ciphertext()
        self._encryptor.encrypt(self._scheme.encode(values, scale), ciphertext)
        return ciphertext

    def _degree(self, ciphertext: Ciphertext) -> int:
        return round(math.log2(ciphertext.scale) / self.parameters.log2_scale)

    def add_in_place(self, total: Ciphertext, ciphertext: Ciphertext) -> None:
        self._scheme.evaluator.add_inplace(total, ciphertext)

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        product = seal.Ciphertext()
        self._scheme.evaluator.multiply(left, right, product)
        self._scheme.evaluator.relinearize_inplace(product, self._relin)
        return product

    def multiply_integers(self, ciphertext: Ciphertext, weights: Slots) -> Ciphertext:
        plaintext = self._scheme.encode(weights, 1.0)
        if plaintext.is_zero():  # SEAL refuses products that anyone could read
            return self._encrypt_at(np.zeros_like(weights), ciphertext.scale)
        product = seal.Ciphertext()
        self._scheme.evaluator.multiply_plain(ciphertext, plaintext, product)
        return product

    def raised(self, ciphertext: Ciphertext) -> Ciphertext:
        product = seal.Ciphertext()
        one = self._scheme.encode(np.ones(self.parameters.slots, complex), self.parameters.scale)
        self._scheme.evaluator.multiply_plain(ciphertext, one, product)
        return product

    def rotate(self, ciphertext: Ciphertext, step: int) -> Ciphertext:
        rotated = seal.Ciphertext()
        self._scheme.evaluator.apply_galois(ciphertext, self._scheme.elements[step], self._galois, rotated)
        return rotated

    @property
    def ciphertext_shape(self) -> Polynomials:
        return self._scheme.submission.polynomials

    def ciphertext(self, words: Words) -> Ciphertext:
        return seal_format.parse(seal.Ciphertext(), self._scheme.context, self._scheme.submission.raw(words))

    def _pack_result(self, ciphertext: Ciphertext) -> bytes:
        return self._scheme.result.pack(seal_format.save(ciphertext))


class SealSecretContext(SecretContext):
    """A party's context on SEAL."""

    def __init__(self, stored: StoredSecret) -> None:
        super().__init__(stored)
        self._scheme = scheme = _scheme(stored.parameters)
        secret_key = scheme.load(seal.SecretKey(), scheme.secret_key, stored.secret_key)
        self._encryptor = seal.Encryptor(scheme.context, secret_key)
        self._decryptor = seal.Decryptor(scheme.context, secret_key)

    @property
    def _seeded(self) -> Seeded:
        return Seeded(self._scheme.submission.polynomials)

    @cached_property
    def secret_words(self) -> Words:
        words = self._scheme.secret_key.polynomials.unpack(self._stored.secret_key)
        return words[: len(self.parameters.modulus_bits)]

    def _encrypt(self, values: Slots) -> Words:
        ciphertext = self._scheme.encrypt(self._encryptor, values, self.parameters.scale)
        return self._scheme.submission.words(seal_format.save(ciphertext))

    def _decrypt(self, packed: bytes) -> Slots:
        ciphertext = self._scheme.load(seal.Ciphertext(), self._scheme.result, packed)
        plaintext = seal.Plaintext()
        self._decryptor.decrypt(ciphertext, plaintext)
        return np.asarray(self._scheme.encoder.decode_complex(plaintext), complex)


def fresh_keys(parameters: CkksParameters) -> tuple[StoredPublic, bytes]:
    """Return fresh keys, exactly the rotation keys that `parameters` names, and the secret key, packed."""
    scheme = _scheme(parameters)
    generator = seal.KeyGenerator(scheme.context)
    stored = StoredPublic(
        parameters,
        scheme.public_key.pack(seal_format.save(seal_format.public_key(generator))),
        scheme.relinearisation_key.pack(seal_format.save(generator.create_relin_keys())),
        scheme.rotation_keys.pack(seal_format.save(generator.create_galois_keys(list(scheme.elements.values())))),
    )
    return stored, scheme.secret_key.pack(seal_format.save(generator.secret_key()))


# Both take their stored parts.
load_public, load_secret = SealPublicContext, SealSecretContext
