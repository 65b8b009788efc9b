"""BFV on Microsoft SEAL, through `tenseal.sealapi`: a library context for each plaintext modulus, as on OpenFHE.

SEAL keeps BFV ciphertexts as coefficients and keys as values at roots of unity. What travels are values: a party can
exchange the random polynomial of a ciphertext for that of a seed only there.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import tenseal.sealapi as seal

from fhe_auc.bfv.context import (
    PublicContext,
    Residues,
    SecretContext,
    StoredPublic,
    StoredSecret,
)
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe import seal_format
from fhe_auc.rlwe.layout import Layout
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.seeded import Seeded


class _PrimeScheme:
    """A SEAL context for one plaintext modulus, and the layouts of its objects, learned from throw-away ones.

    Parameters
    ----------
    parameters : BfvParameters
    prime : int
        Index of the plaintext modulus.
    """

    def __init__(self, parameters: BfvParameters, prime: int) -> None:
        settings = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
        settings.set_poly_modulus_degree(parameters.ring_dimension)
        bits = [*parameters.modulus_bits, parameters.special_bits]
        primes = seal.CoeffModulus.Create(parameters.ring_dimension, bits)
        settings.set_coeff_modulus(primes)
        settings.set_plain_modulus(parameters.plain_moduli[prime])
        self.context = seal.SEALContext(settings, True, seal.SEC_LEVEL_TYPE.TC128)
        self.encoder = seal.BatchEncoder(self.context)
        self.evaluator = seal.Evaluator(self.context)
        self._ring_dimension = parameters.ring_dimension

        key_moduli = [prime.value() for prime in primes]
        generator = seal.KeyGenerator(self.context)
        secret_key = generator.secret_key()
        values = self.plaintext(np.arange(parameters.slots, dtype=np.uint64))
        ciphertext = seal.Ciphertext()
        seal.Encryptor(self.context, secret_key).encrypt_symmetric(values, ciphertext)
        transformed = seal.Ciphertext()
        self.evaluator.transform_to_ntt(ciphertext, transformed)
        self.submission = self._learn(transformed, key_moduli[:-1])
        self.secret_key = self._learn(secret_key, key_moduli)
        self.public_key = self._learn(seal_format.public_key(generator), key_moduli)
        self.relinearisation_key = self._learn(generator.create_relin_keys(), key_moduli)
        decryptor = seal.Decryptor(self.context, secret_key)
        secret = self.secret_key.words(seal_format.save(secret_key))[: len(parameters.modulus_bits)]
        whole = self.submission.polynomials
        Seeded(whole).verify(self.words(ciphertext), secret, lambda words: self.decrypted(decryptor, words))

    def decrypted(self, decryptor: Any, words: Words) -> Residues:
        """Return the slots of a ciphertext."""
        plaintext = seal.Plaintext()
        decryptor.decrypt(self.parse(words), plaintext)
        return np.array(self.encoder.decode_uint64(plaintext), np.uint64)

    def _learn(self, item: Any, moduli: list[int]) -> Layout:
        return seal_format.layout_of(item, self._ring_dimension, moduli)

    def plaintext(self, values: Residues) -> Any:
        """Encode values."""
        plaintext = seal.Plaintext()
        self.encoder.encode(values.tolist(), plaintext)
        return plaintext

    def load(self, empty: Any, layout: Layout, packed: bytes) -> Any:
        """Fill `empty` (a SEAL object) from packed coefficients."""
        return seal_format.load(empty, self.context, layout, packed)

    def parse(self, words: Words) -> Any:
        """Return the ciphertext with these values at the roots of unity."""
        ciphertext = seal_format.parse(seal.Ciphertext(), self.context, self.submission.raw(words))
        self.evaluator.transform_from_ntt_inplace(ciphertext)
        return ciphertext

    def words(self, ciphertext: Any) -> Words:
        """Return the values at the roots of unity of a ciphertext."""
        transformed = seal.Ciphertext()
        self.evaluator.transform_to_ntt(ciphertext, transformed)
        return self.submission.words(seal_format.save(transformed))


@lru_cache(maxsize=4)
def _schemes_for(parameters: BfvParameters) -> tuple[_PrimeScheme, ...]:
    return tuple(_PrimeScheme(parameters, prime) for prime in range(len(parameters.plain_moduli)))


class SealPublicContext(PublicContext):
    """The aggregator's context on SEAL."""

    def __init__(self, stored: StoredPublic) -> None:
        super().__init__(stored)
        self._schemes = _schemes_for(stored.parameters)
        self._encryptors = [
            seal.Encryptor(each.context, each.load(seal.PublicKey(), each.public_key, stored.public_key))
            for each in self._schemes
        ]
        self._relinearisation_keys = [
            each.load(seal.RelinKeys(), each.relinearisation_key, stored.relinearisation_key) for each in self._schemes
        ]

    @property
    def ciphertext_shape(self) -> Polynomials:
        return self._schemes[0].submission.polynomials

    def _encrypt(self, values: Residues, prime: int) -> Any:
        ciphertext = seal.Ciphertext()
        self._encryptors[prime].encrypt(self._schemes[prime].plaintext(values), ciphertext)
        return ciphertext

    def _add_in_place(self, total: Any, item: Any, prime: int) -> None:
        self._schemes[prime].evaluator.add_inplace(total, item)

    def _multiply(self, left: Any, right: Any, prime: int) -> Any:
        product = seal.Ciphertext()
        evaluator = self._schemes[prime].evaluator
        evaluator.multiply(left, right, product)
        evaluator.relinearize_inplace(product, self._relinearisation_keys[prime])
        return product

    def _multiply_values(self, item: Any, values: Residues, prime: int) -> Any:
        scheme, product = self._schemes[prime], seal.Ciphertext()
        scheme.evaluator.multiply_plain(item, scheme.plaintext(values), product)
        return product

    def _negate(self, item: Any, prime: int) -> Any:
        negated = seal.Ciphertext()
        self._schemes[prime].evaluator.negate(item, negated)
        return negated

    def _add_values(self, item: Any, values: Residues, prime: int) -> Any:
        scheme, total = self._schemes[prime], seal.Ciphertext()
        scheme.evaluator.add_plain(item, scheme.plaintext(values), total)
        return total

    def _parse(self, words: Words, prime: int) -> Any:
        return self._schemes[prime].parse(words)

    def _words(self, item: Any, prime: int) -> Words:
        return self._schemes[prime].words(item)


class SealSecretContext(SecretContext):
    """A party's context on SEAL."""

    def __init__(self, stored: StoredSecret) -> None:
        super().__init__(stored)
        self._schemes = _schemes_for(stored.parameters)
        keys = [each.load(seal.SecretKey(), each.secret_key, stored.secret_key) for each in self._schemes]
        pairs = list(zip(self._schemes, keys, strict=True))
        self._encryptors = [seal.Encryptor(scheme.context, key) for scheme, key in pairs]
        self._decryptors = [seal.Decryptor(scheme.context, key) for scheme, key in pairs]

    @property
    def _seeded(self) -> Seeded:
        return Seeded(self._schemes[0].submission.polynomials)

    @cached_property
    def secret_words(self) -> Words:
        words = self._schemes[0].secret_key.polynomials.unpack(self._stored.secret_key)
        return words[: len(self.parameters.modulus_bits)]

    def _encrypt(self, values: Residues, prime: int) -> Words:
        scheme, ciphertext = self._schemes[prime], seal.Ciphertext()
        self._encryptors[prime].encrypt_symmetric(scheme.plaintext(values), ciphertext)
        return scheme.words(ciphertext)

    def _decrypt(self, words: Words, prime: int) -> Residues:
        return self._schemes[prime].decrypted(self._decryptors[prime], words)


def fresh_keys(parameters: BfvParameters) -> tuple[StoredPublic, bytes]:
    """Return fresh keys, no rotation keys among them, and the secret key, packed."""
    scheme = _schemes_for(parameters)[0]
    generator = seal.KeyGenerator(scheme.context)
    stored = StoredPublic(
        parameters,
        scheme.public_key.pack(seal_format.save(seal_format.public_key(generator))),
        scheme.relinearisation_key.pack(seal_format.save(generator.create_relin_keys())),
    )
    return stored, scheme.secret_key.pack(seal_format.save(generator.secret_key()))


# Both take their stored parts.
load_public, load_secret = SealPublicContext, SealSecretContext
