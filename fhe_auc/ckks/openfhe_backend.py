"""CKKS on OpenFHE."""

from functools import cached_property
from typing import Any

import numpy as np

from fhe_auc.ckks.context import Ciphertext, CkksLibrary, Slots
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.openfhe_library import (
    Halves,
    OpenFheKeys,
    OpenFheLibrary,
    new_context,
    openfhe,
    parsed,
    private_key_maps,
    tag_of,
)
from fhe_auc.rlwe.seeded import VERIFIED

_SOME_ROTATION = (1,)  # to learn the format from where none is needed: the library has no empty map of keys


class Scheme(OpenFheLibrary[CkksParameters], CkksLibrary):
    """OpenFHE for CKKS."""

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
        self.learn_submissions(self.encoded(np.full(parameters.slots, VERIFIED / parameters.scale, complex), 1))

    @cached_property
    def rotation_halves(self) -> Halves:
        """Halves of the rotation keys."""
        return Halves(self.rotation_keys, keys=len(self.parameters.rotations or _SOME_ROTATION))

    @cached_property
    def rotation_keys(self) -> CoefficientLayout:
        """Layout of rotation keys, which parties never need."""
        keys = self.new_keys()
        return self.learn(self._new_rotation_keys(keys), keys.tag)

    def _new_rotation_keys(self, keys: OpenFheKeys) -> Any:
        with private_key_maps(self.context):
            self.context.EvalRotateKeyGen(keys.secret, list(self.parameters.rotations or _SOME_ROTATION))
            return self.context.GetEvalAutomorphismKeyMap(keys.tag)

    def _further_keys(self, made: OpenFheKeys) -> tuple[bytes, ...]:
        if not self.parameters.rotations:
            return (b"",)
        rotation_keys = self._new_rotation_keys(made)
        if "rotation_keys" not in vars(self):  # making others to learn from takes as long
            self.rotation_keys = self.learn(rotation_keys, made.tag)
        return (self.packed_switching_keys(self.rotation_keys, self.rotation_halves, rotation_keys, made),)

    def load_rotation_keys(self, fingerprint: bytes, rotation_keys: bytes) -> Any:
        if not self.parameters.rotations:
            return None
        raw = self.rotation_keys.unpack(rotation_keys, tag_of(fingerprint).encode())
        return parsed(openfhe.DeserializeEvalKeyMapString, raw)

    def rotate(self, ciphertext: Ciphertext, step: int, rotation_keys: Any) -> Ciphertext:
        return self.context.EvalAutomorphism(ciphertext, self.elements[step], rotation_keys)

    def integers(self, values: Slots) -> Any:
        """Encode values at scale 1, as the nearest polynomial with integer coefficients.

        The library only encodes at its own scale (a degree of two appends zeros), so divide by it first.
        """
        return self.context.MakeCKKSPackedPlaintext(values / self.library_scale)

    def encoded(self, values: Slots, degree: int) -> Any:
        return self.integers(values * self.parameters.scale**degree)

    def decoded(self, plaintext: Any) -> Slots:
        unit = (self.library_scale / self.parameters.scale) ** plaintext.GetNoiseScaleDeg()
        return np.asarray(np.asarray(plaintext.GetCKKSPackedValue(), complex) * unit)

    def degree(self, ciphertext: Ciphertext) -> int:
        return int(ciphertext.GetNoiseScaleDeg())

    def at_degree(self, ciphertext: Ciphertext, degree: int) -> Ciphertext:
        ciphertext.SetNoiseScaleDeg(degree)
        ciphertext.SetScalingFactor(self.library_scale**degree)
        return ciphertext
