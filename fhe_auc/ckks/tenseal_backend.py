"""CKKS on Microsoft SEAL, through `tenseal.sealapi`."""

import tenseal.sealapi as seal

from fhe_auc.ckks.context import CkksLibrary
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe import seal_format
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seal_library import SealLibrary, written

_SCALE = 2.0**40  # of the library's own plaintexts, all zero: ours stand in the ciphertexts' words


class Scheme(SealLibrary[CkksParameters], CkksLibrary):
    """SEAL for CKKS."""

    def __init__(self, parameters: CkksParameters) -> None:
        super().__init__(parameters, seal.SCHEME_TYPE.CKKS)
        self.learn_submissions(written(seal.Plaintext(), seal.CKKSEncoder(self.context).encode, 0.0, _SCALE))

    def _squared(self, words: Words) -> bytes:
        ciphertext = seal_format.parse(seal.Ciphertext(), self.context, self.submission.raw(words))
        return seal_format.save(written(seal.Ciphertext(), self.evaluation.square, ciphertext))
