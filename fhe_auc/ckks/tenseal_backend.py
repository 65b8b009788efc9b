"""CKKS on Microsoft SEAL, through `tenseal.sealapi`."""

from functools import cached_property
from typing import Any

import tenseal.sealapi as seal

from fhe_auc.ckks.context import TESTED_SEED, CkksLibrary
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe import seal_format
from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seal_library import SealLibrary, written

_SCALE = 2.0**40  # of the library's own plaintexts, all zero: ours stand in the ciphertexts' words


class Scheme(SealLibrary[CkksParameters], CkksLibrary):
    """SEAL for CKKS."""

    def __init__(self, parameters: CkksParameters) -> None:
        super().__init__(parameters, seal.SCHEME_TYPE.CKKS)
        self.learn_submissions(written(seal.Plaintext(), seal.CKKSEncoder(self.context).encode, 0.0, _SCALE))

    def square(self, words: Words) -> Words:
        return self._product.words(seal_format.save(self._squared(words)))

    @cached_property
    def _product(self) -> CoefficientLayout:
        """Layout of products, of three polynomials."""
        words = self.submission.polynomials.uniform(TESTED_SEED)  # the library refuses a product that anyone could read
        moduli = self.submission.polynomials.moduli
        square = self._squared(words)
        layout = seal_format.layout_of(square, self.parameters.ring_dimension, moduli)
        self.verify_square(words, layout.words(seal_format.save(square)))
        return layout

    def _squared(self, words: Words) -> Any:
        ciphertext = seal_format.parse(seal.Ciphertext(), self.context, self.submission.raw(words))
        return written(seal.Ciphertext(), self.evaluation.square, ciphertext)
