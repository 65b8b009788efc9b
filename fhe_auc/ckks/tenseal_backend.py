"""CKKS on Microsoft SEAL, through `tenseal.sealapi`."""

import math
from functools import cached_property
from typing import Any

import numpy as np
import tenseal.sealapi as seal

from fhe_auc.ckks.context import Ciphertext, CkksLibrary, Slots
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe import seal_format
from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seal_library import SealLibrary, written
from fhe_auc.rlwe.seeded import VERIFIED


class Scheme(SealLibrary[CkksParameters], CkksLibrary):
    """SEAL for CKKS."""

    def __init__(self, parameters: CkksParameters) -> None:
        super().__init__(parameters, seal.SCHEME_TYPE.CKKS)
        self.encoder = seal.CKKSEncoder(self.context)
        # Galois elements by SEAL's rule: a left rotation by s is X -> X^(3^s mod 2N).
        self.elements = {s: pow(3, s, 2 * parameters.ring_dimension) for s in parameters.rotations}
        self.learn_submissions(self.encoded(np.full(parameters.slots, VERIFIED / parameters.scale, complex), 1))

    # SEAL's public keys are modulo its special prime as well, which is larger here than our own arithmetic takes. So
    # they are SEAL's own, and travel whole.

    def new_public_key(self, secret_key: bytes) -> bytes:
        secret = self.load(seal.SecretKey(), self.secret_key, secret_key)
        generator = seal.KeyGenerator(self.context, secret)
        return self.public_key.pack(seal_format.save(seal_format.public_key(generator)))

    def expanded_public_key(self, packed: bytes) -> Words:
        return self.public_key.polynomials.unpack(packed)

    @cached_property
    def rotation_keys(self) -> CoefficientLayout:
        """Layout of rotation keys, which parties never need."""
        return self.learn(self._new_rotation_keys(seal.KeyGenerator(self.context)))

    def _new_rotation_keys(self, generator: Any) -> Any:
        return generator.create_galois_keys(list(self.elements.values()))

    def _further_keys(self, made: Any) -> tuple[bytes, ...]:
        rotation_keys = self._new_rotation_keys(made)
        if "rotation_keys" not in vars(self):  # making others to learn from takes as long
            self.rotation_keys = self.learn(rotation_keys)
        return (self.rotation_keys.pack(seal_format.save(rotation_keys)),)

    def load_rotation_keys(self, fingerprint: bytes, rotation_keys: bytes) -> Any:
        return self.load(seal.GaloisKeys(), self.rotation_keys, rotation_keys)

    def rotate(self, ciphertext: Ciphertext, step: int, rotation_keys: Any) -> Ciphertext:
        arguments = ciphertext, self.elements[step], rotation_keys
        return written(seal.Ciphertext(), self.evaluation.apply_galois, *arguments)

    def encoded(self, values: Slots, degree: int) -> Any:
        plaintext = seal.Plaintext()
        self.encoder.encode(values, self.parameters.scale**degree, plaintext)
        return plaintext

    def decoded(self, plaintext: Any) -> Slots:
        return np.asarray(self.encoder.decode_complex(plaintext), complex)

    def degree(self, ciphertext: Ciphertext) -> int:
        return round(math.log2(ciphertext.scale) / self.parameters.log2_scale)

    def at_degree(self, ciphertext: Ciphertext, degree: int) -> Ciphertext:
        ciphertext.scale = self.parameters.scale**degree
        return ciphertext
