"""CKKS on OpenFHE."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from fhe_auc.ckks.context import (
    Ciphertext,
    PublicContext,
    SecretContext,
    Slots,
    StoredPublic,
    StoredSecret,
)
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe.layout import Layout
from fhe_auc.rlwe.openfhe_library import (
    Halves,
    Keys,
    Library,
    new_context,
    openfhe,
    private_key_maps,
    save,
    tag_of,
)
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.seeded import VERIFIED, Seeded

_SOME_ROTATION = (1,)  # to learn the format from where none is needed: the library has no empty map of keys


class Scheme(Library[CkksParameters]):
    """An OpenFHE context and the layouts of its objects, learned from throw-away ones."""

    def __init__(self, parameters: CkksParameters) -> None:
        first, *scaling = parameters.modulus_bits
        settings = openfhe.CCParamsCKKSRNS()
        settings.SetRingDim(parameters.ring_dimension)
        settings.SetMultiplicativeDepth(len(scaling))
        settings.SetFirstModSize(first)
        settings.SetScalingModSize(scaling[0])
        settings.SetScalingTechnique(openfhe.FIXEDMANUAL)
        settings.SetKeySwitchTechnique(openfhe.HYBRID)
        settings.SetNumLargeDigits(len(parameters.modulus_bits))
        settings.SetBatchSize(parameters.slots)
        # The REAL type refuses to decode valid results near the capacity bound, and has no imaginary part.
        settings.SetCKKSDataType(openfhe.COMPLEX)
        super().__init__(parameters, new_context(settings))
        self.library_scale = 2.0 ** scaling[0]
        self.elements = {step: self.context.FindAutomorphismIndex(step) for step in parameters.rotations}

        keys = self.new_keys()
        zeros = np.zeros(parameters.slots, complex)
        self.submission = self.learn(self.encrypt(keys.secret, zeros, 1), keys.tag)
        self.result = self.learn(self.encrypt(keys.secret, zeros, 2), keys.tag)
        values = np.full(parameters.slots, VERIFIED / parameters.scale, complex)
        self.verify_reseeding(keys, self.encrypt(keys.secret, values, 1))

    def decoded(self, plaintext: Any) -> Slots:
        """Return the slots of what has been decrypted."""
        return np.asarray(plaintext.GetCKKSPackedValue(), complex)

    @cached_property
    def rotation_halves(self) -> Halves:
        """Halves of the rotation keys."""
        return Halves(self.rotation_keys, keys=len(self.parameters.rotations or _SOME_ROTATION), b_first=False)

    @cached_property
    def rotation_keys(self) -> Layout:
        """Layout of rotation keys, which parties never need."""
        keys = self.new_keys()
        return self.learn(self.new_rotation_keys(keys), keys.tag)

    def new_rotation_keys(self, keys: Keys) -> Any:
        """Return fresh rotation keys for these keys."""
        with private_key_maps(self.context):
            self.context.EvalRotateKeyGen(keys.secret, list(self.parameters.rotations or _SOME_ROTATION))
            return self.context.GetEvalAutomorphismKeyMap(keys.tag)

    def integers(self, values: Slots) -> Any:
        """Encode values at scale 1, as the nearest polynomial with integer coefficients.

        The library only encodes at its own scale (a degree of two appends zeros), so divide by it first.
        """
        return self.context.MakeCKKSPackedPlaintext(values / self.library_scale)

    def encrypt(self, key: Any, values: Slots, degree: int) -> Ciphertext:
        """Encrypt `values` at scale Δ'^degree, and set the library's bookkeeping to that degree."""
        ciphertext = self.context.Encrypt(key, self.integers(values * self.parameters.scale**degree))
        ciphertext.SetNoiseScaleDeg(degree)
        ciphertext.SetScalingFactor(self.library_scale**degree)
        return ciphertext


@lru_cache(maxsize=4)
def scheme_for(parameters: CkksParameters) -> Scheme:
    """Return the scheme of these parameters; making one takes a second."""
    return Scheme(parameters)


class OpenFhePublicContext(PublicContext):
    """The aggregator's context on OpenFHE."""

    def __init__(self, stored: StoredPublic) -> None:
        super().__init__(stored)
        self._scheme = scheme = scheme_for(stored.parameters)
        self._tag = tag = tag_of(self.fingerprint)
        self._public_key = scheme.load(openfhe.DeserializePublicKeyString, scheme.public_key, stored.public_key, tag)
        if stored.relinearisation_key:  # parties that make the keys for a sum make none
            self._relin = scheme.load(
                openfhe.DeserializeEvalKeyString, scheme.relinearisation_key, stored.relinearisation_key, tag
            )
        if self.parameters.rotations:
            self._rotation = scheme.load(
                openfhe.DeserializeEvalKeyMapString, scheme.rotation_keys, stored.rotation_keys, tag
            )

    def _encrypt(self, values: Slots, degree: int) -> Ciphertext:
        return self._scheme.encrypt(self._public_key, values, degree)

    def _degree(self, ciphertext: Ciphertext) -> int:
        return int(ciphertext.GetNoiseScaleDeg())

    def add_in_place(self, total: Ciphertext, ciphertext: Ciphertext) -> None:
        self._scheme.context.EvalAddInPlace(total, ciphertext)

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        # For a ciphertext of three polynomials OpenFHE's KeySwitch is relinearisation, with a key of our choice.
        return self._scheme.context.KeySwitch(self._scheme.context.EvalMultNoRelin(left, right), self._relin)

    def multiply_integers(self, ciphertext: Ciphertext, weights: Slots) -> Ciphertext:
        product = self._scheme.context.EvalMult(ciphertext, self._scheme.integers(weights))
        # The library counts one more factor of its scale than there is.
        product.SetNoiseScaleDeg(ciphertext.GetNoiseScaleDeg())
        product.SetScalingFactor(ciphertext.GetScalingFactor())
        return product

    def raised(self, ciphertext: Ciphertext) -> Ciphertext:
        ones = np.full(self.parameters.slots, self.parameters.scale, complex)
        return self._scheme.context.EvalMult(ciphertext, self._scheme.integers(ones))

    def rotate(self, ciphertext: Ciphertext, step: int) -> Ciphertext:
        return self._scheme.context.EvalAutomorphism(ciphertext, self._scheme.elements[step], self._rotation)

    @property
    def ciphertext_shape(self) -> Polynomials:
        return self._scheme.submission.polynomials

    def ciphertext(self, words: Words) -> Ciphertext:
        return self._scheme.ciphertext(words, self._tag)

    def _pack_result(self, ciphertext: Ciphertext) -> bytes:
        return self._scheme.result.pack(save(ciphertext))


class OpenFheSecretContext(SecretContext):
    """A party's context on OpenFHE."""

    def __init__(self, stored: StoredSecret) -> None:
        super().__init__(stored)
        self._scheme = scheme = scheme_for(stored.parameters)
        self._tag = tag = tag_of(self.fingerprint)
        self._secret_key = scheme.load(openfhe.DeserializePrivateKeyString, scheme.secret_key, stored.secret_key, tag)

    @property
    def _seeded(self) -> Seeded:
        return Seeded(self._scheme.submission.polynomials)

    @cached_property
    def secret_words(self) -> Words:
        return self._scheme.secret_key.polynomials.unpack(self._stored.secret_key)

    def _encrypt(self, values: Slots) -> Words:
        ciphertext = self._scheme.encrypt(self._secret_key, values, 1)
        return self._scheme.submission.words(save(ciphertext))

    def _decrypt(self, packed: bytes) -> Slots:
        ciphertext = self._scheme.load(openfhe.DeserializeCiphertextString, self._scheme.result, packed, self._tag)
        plaintext = self._scheme.context.Decrypt(self._secret_key, ciphertext)
        unit = self._scheme.library_scale / self.parameters.scale
        return np.asarray(np.asarray(plaintext.GetCKKSPackedValue(), complex) * unit**2)


def fresh_keys(parameters: CkksParameters) -> tuple[StoredPublic, bytes]:
    """Return fresh keys, exactly the rotation keys that `parameters` names, and the secret key, packed."""
    scheme = scheme_for(parameters)
    keys = scheme.new_keys()

    def pack(layout: Layout, item: Any) -> bytes:
        return layout.pack(save(item))

    def pack_switching(layout: Layout, halves: Halves, item: Any) -> bytes:
        return scheme.packed_switching_keys(layout, halves, item, keys)

    stored = StoredPublic(
        parameters,
        pack(scheme.public_key, keys.public),
        pack_switching(scheme.relinearisation_key, scheme.switching_halves, keys.relinearisation),
        pack_switching(scheme.rotation_keys, scheme.rotation_halves, scheme.new_rotation_keys(keys))
        if parameters.rotations
        else b"",
    )
    return stored, pack(scheme.secret_key, keys.secret)


# Both take their stored parts.
load_public, load_secret = OpenFhePublicContext, OpenFheSecretContext
