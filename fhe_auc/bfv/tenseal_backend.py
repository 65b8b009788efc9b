"""BFV on Microsoft SEAL, through `tenseal.sealapi`: a library context for each plaintext modulus, as on OpenFHE.

SEAL keeps BFV ciphertexts as coefficients and keys as values at roots of unity. What travels are values: a party can
exchange the random polynomial of a ciphertext for that of a seed only there.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import tenseal.sealapi as seal

from fhe_auc.bfv.context import BfvLibrary, Residues
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seal_library import SealLibrary, written


class PrimeScheme(SealLibrary[BfvParameters], BfvLibrary):
    """SEAL for the plaintext modulus of index `prime`."""

    def __init__(self, parameters: BfvParameters, prime: int) -> None:
        super().__init__(parameters, seal.SCHEME_TYPE.BFV, parameters.plain_moduli[prime])
        self._encoder = seal.BatchEncoder(self.context)
        self.learn_submissions(self.encoded(np.arange(parameters.slots, dtype=np.uint64)))

    def encoded(self, values: Residues) -> Any:
        plaintext = seal.Plaintext()
        self._encoder.encode(values.tolist(), plaintext)
        return plaintext

    def decoded(self, plaintext: Any) -> Residues:
        return np.array(self._encoder.decode_uint64(plaintext), np.uint64)

    def ciphertext(self, words: Words) -> Any:
        ciphertext = super().ciphertext(words)
        self.evaluation.transform_from_ntt_inplace(ciphertext)
        return ciphertext

    def transformed(self, ciphertext: Any) -> Any:
        return written(seal.Ciphertext(), self.evaluation.transform_to_ntt, ciphertext)


@lru_cache(maxsize=4)
def schemes_for(parameters: BfvParameters) -> tuple[PrimeScheme, ...]:
    """Return SEAL for these parameters, once for each plaintext modulus."""
    return tuple(PrimeScheme(parameters, prime) for prime in range(len(parameters.plain_moduli)))
