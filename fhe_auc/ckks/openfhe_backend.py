"""CKKS on OpenFHE."""

import math
from functools import cached_property
from typing import Any

from fhe_auc.base.errors import CapacityError
from fhe_auc.ckks.context import TESTED_SEED, CkksLibrary
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.openfhe_library import OpenFheLibrary, new_context, openfhe, parsed, save
from fhe_auc.rlwe.polynomials import Words


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
        settings.SetKeySwitchTechnique(openfhe.BV)  # the one without a special modulus
        super().__init__(parameters, new_context(settings))
        found = tuple(round(math.log2(modulus)) for modulus in self.secret_key.polynomials.moduli)
        if found != parameters.modulus_bits:
            raise CapacityError(f"OpenFHE has chosen primes of {found} bits, not those that the parameters say")
        self.learn_submissions(self.context.MakeCKKSPackedPlaintext([0.0]))

    def square(self, words: Words) -> Words:
        return self._product.words(save(self._squared(words)))

    @cached_property
    def _product(self) -> CoefficientLayout:
        """Layout of products, of three polynomials."""
        words = self.submission.polynomials.uniform(TESTED_SEED)
        square = self._squared(words)
        layout = self.learn(square)
        self.verify_square(words, layout.words(save(square)))
        return layout

    def _squared(self, words: Words) -> Any:
        ciphertext = parsed(openfhe.DeserializeCiphertextString, self.submission.raw(words, self.submission.tag))
        return self.context.EvalMultNoRelin(ciphertext, ciphertext)
