"""BFV on OpenFHE: a library context for each plaintext modulus, over the same ring and ciphertext modulus.

Keys do not depend on the plaintext modulus. They are made in the first context, and their polynomials written into each
other one's objects.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from fhe_auc.bfv.context import (
    PublicContext,
    Residues,
    SecretContext,
    StoredPublic,
    StoredSecret,
)
from fhe_auc.bfv.parameters import DIGIT_BITS, BfvParameters
from fhe_auc.errors import CapacityError
from fhe_auc.rlwe.layout import Layout
from fhe_auc.rlwe.openfhe_library import Library, new_context, openfhe, save, tag_of
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.seeded import Seeded

# The library derives its modulus from depth and plaintext modulus: 2 for those of 41 bits, up to 5 for the smallest.
_LEAST_DEPTH, _MOST_DEPTH = 2, 5


class PrimeScheme(Library[BfvParameters]):
    """The library's context for one plaintext modulus.

    Parameters
    ----------
    parameters : BfvParameters
    prime : int
        Index of the plaintext modulus.

    Raises
    ------
    CapacityError
        The library has chosen another ring or modulus than the parameters say.
    """

    def __init__(self, parameters: BfvParameters, prime: int) -> None:
        self._modulus = parameters.plain_moduli[prime]
        super().__init__(parameters, _context(parameters, self._modulus))
        keys = self.new_keys()
        self.submission = self.learn(self.encrypt(keys.secret, np.zeros(parameters.slots, np.uint64)), keys.tag)
        moduli = self.submission.polynomials.moduli
        found = self.context.GetRingDimension(), tuple(modulus.bit_length() for modulus in moduli)
        if found != (parameters.ring_dimension, 2 * parameters.modulus_bits):
            raise CapacityError(f"OpenFHE has chosen another ring or modulus, {found}, than the parameters say")
        self.verify_reseeding(keys, self.encrypt(keys.secret, np.arange(parameters.slots, dtype=np.uint64)))

    def plaintext(self, values: Residues) -> Any:
        """Encode values; the library wants them between -t/2 and t/2."""
        signed = values.astype(np.int64)
        signed[signed > self._modulus // 2] -= self._modulus
        return self.context.MakePackedPlaintext(signed.tolist())

    def encrypt(self, key: Any, values: Residues) -> Any:
        """Return a fresh encryption under a public or a secret key."""
        return self.context.Encrypt(key, self.plaintext(values))

    def decoded(self, plaintext: Any) -> Residues:
        """Return the slots of what has been decrypted."""
        return np.mod(np.array(plaintext.GetPackedValue(), np.int64), self._modulus).astype(np.uint64)


def _context(parameters: BfvParameters, plain_modulus: int) -> Any:
    """Return the library's context at the least depth for which it takes a modulus as large as the parameters'."""
    for depth in range(_LEAST_DEPTH, _MOST_DEPTH + 1):
        settings = openfhe.CCParamsBFVRNS()
        settings.SetPlaintextModulus(plain_modulus)
        settings.SetRingDim(parameters.ring_dimension)
        settings.SetMultiplicativeDepth(depth)
        settings.SetScalingModSize(parameters.modulus_bits[0])
        settings.SetKeySwitchTechnique(openfhe.BV)
        settings.SetDigitSize(DIGIT_BITS)
        settings.SetMultiplicationTechnique(openfhe.HPS)
        context = new_context(settings)
        if round(math.log2(context.GetModulus())) >= parameters.log2_modulus:
            return context
    raise CapacityError(
        f"OpenFHE takes no modulus of {parameters.log2_modulus} bits for plaintext modulus {plain_modulus}"
    )


@lru_cache(maxsize=4)
def schemes_for(parameters: BfvParameters) -> tuple[PrimeScheme, ...]:
    """Return the schemes of these parameters, one a plaintext modulus."""
    schemes = tuple(PrimeScheme(parameters, prime) for prime in range(len(parameters.plain_moduli)))
    if len({scheme.submission.polynomials.moduli for scheme in schemes}) != 1:
        raise CapacityError("OpenFHE has chosen different ciphertext moduli for different plaintext moduli")
    return schemes


class OpenFhePublicContext(PublicContext):
    """The aggregator's context on OpenFHE."""

    def __init__(self, stored: StoredPublic) -> None:
        super().__init__(stored)
        self._schemes = schemes_for(stored.parameters)
        self._tag = tag = tag_of(self.fingerprint)
        self._public_keys = [
            each.load(openfhe.DeserializePublicKeyString, each.public_key, stored.public_key, tag)
            for each in self._schemes
        ]
        self._relinearisation_keys = [
            each.load(openfhe.DeserializeEvalKeyString, each.relinearisation_key, stored.relinearisation_key, tag)
            for each in self._schemes
        ]

    @property
    def ciphertext_shape(self) -> Polynomials:
        return self._schemes[0].submission.polynomials

    def _encrypt(self, values: Residues, prime: int) -> Any:
        return self._schemes[prime].encrypt(self._public_keys[prime], values)

    def _add_in_place(self, total: Any, item: Any, prime: int) -> None:
        self._schemes[prime].context.EvalAddInPlace(total, item)

    def _multiply(self, left: Any, right: Any, prime: int) -> Any:
        context = self._schemes[prime].context
        # For a ciphertext of three polynomials OpenFHE's KeySwitch is relinearisation, with a key of our choice.
        return context.KeySwitch(context.EvalMultNoRelin(left, right), self._relinearisation_keys[prime])

    def _multiply_values(self, item: Any, values: Residues, prime: int) -> Any:
        scheme = self._schemes[prime]
        return scheme.context.EvalMult(item, scheme.plaintext(values))

    def _negate(self, item: Any, prime: int) -> Any:
        return self._schemes[prime].context.EvalNegate(item)

    def _add_values(self, item: Any, values: Residues, prime: int) -> Any:
        scheme = self._schemes[prime]
        return scheme.context.EvalAdd(item, scheme.plaintext(values))

    def _parse(self, words: Words, prime: int) -> Any:
        return self._schemes[prime].ciphertext(words, self._tag)

    def _words(self, item: Any, prime: int) -> Words:
        return self._schemes[prime].submission.words(save(item))


class OpenFheSecretContext(SecretContext):
    """A party's context on OpenFHE."""

    def __init__(self, stored: StoredSecret) -> None:
        super().__init__(stored)
        self._schemes = schemes_for(stored.parameters)
        self._tag = tag = tag_of(self.fingerprint)
        self._secret_keys = [
            each.load(openfhe.DeserializePrivateKeyString, each.secret_key, stored.secret_key, tag)
            for each in self._schemes
        ]

    @property
    def _seeded(self) -> Seeded:
        return Seeded(self._schemes[0].submission.polynomials)

    @cached_property
    def secret_words(self) -> Words:
        return self._schemes[0].secret_key.polynomials.unpack(self._stored.secret_key)

    def _encrypt(self, values: Residues, prime: int) -> Words:
        scheme = self._schemes[prime]
        return scheme.submission.words(save(scheme.encrypt(self._secret_keys[prime], values)))

    def _decrypt(self, words: Words, prime: int) -> Residues:
        scheme = self._schemes[prime]
        ciphertext = scheme.ciphertext(words, self._tag)
        return scheme.decoded(scheme.context.Decrypt(self._secret_keys[prime], ciphertext))


def fresh_keys(parameters: BfvParameters) -> tuple[StoredPublic, bytes]:
    """Return fresh keys, no rotation keys among them, and the secret key, packed."""
    scheme = schemes_for(parameters)[0]
    keys = scheme.new_keys()

    def pack(layout: Layout, item: Any) -> bytes:
        return layout.pack(save(item))

    relinearisation_key = scheme.packed_switching_keys(
        scheme.relinearisation_key, scheme.switching_halves, keys.relinearisation, keys
    )
    stored = StoredPublic(parameters, pack(scheme.public_key, keys.public), relinearisation_key)
    return stored, pack(scheme.secret_key, keys.secret)


# Both take their stored parts.
load_public, load_secret = OpenFhePublicContext, OpenFheSecretContext
