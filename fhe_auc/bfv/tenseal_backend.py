"""BFV on Microsoft SEAL, through `tenseal.sealapi`: library contexts as on OpenFHE.

SEAL keeps BFV ciphertexts as coefficients and keys as values at roots of unity. What travels are values: a party can
exchange the random polynomial of a ciphertext for that of a seed only there.
"""

from typing import Any

import tenseal.sealapi as seal

from fhe_auc.base.errors import CapacityError
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe.seal_library import SealLibrary, key_moduli, written


class Scheme(SealLibrary[BfvParameters]):
    """SEAL for BFV, with the first plaintext modulus; keys and encryptions of zero do not depend on it.

    Raises `CapacityError` if a plaintext modulus is one of the library's primes, or as `BfvParameters.check_library`.
    """

    def __init__(self, parameters: BfvParameters) -> None:
        parameters.check_library()
        primes = key_moduli(parameters.ring_dimension, (*parameters.modulus_bits, parameters.special_bits))
        for modulus in parameters.plain_moduli:
            if modulus in primes:
                raise CapacityError(f"a plaintext modulus must not be a prime of the modulus of ciphertexts: {modulus}")
        super().__init__(parameters, seal.SCHEME_TYPE.BFV, parameters.plain_moduli[0])
        self.learn_submissions(seal.Plaintext("0"))

    def transformed(self, ciphertext: Any) -> Any:
        return written(seal.Ciphertext(), self.evaluation.transform_to_ntt, ciphertext)
