"""BFV on OpenFHE: a library context for each plaintext modulus, over the same ring and ciphertext modulus.

Keys do not depend on the plaintext modulus. They are made in the first context, and their polynomials written into each
other one's objects.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from fhe_auc.bfv.context import BfvLibrary, Residues
from fhe_auc.bfv.parameters import DIGIT_BITS, BfvParameters
from fhe_auc.errors import CapacityError
from fhe_auc.rlwe.openfhe_library import OpenFheLibrary, new_context, openfhe

# The library derives its modulus from depth and plaintext modulus: 2 for those of 41 bits, up to 5 for the smallest.
_LEAST_DEPTH, _MOST_DEPTH = 2, 5


class PrimeScheme(OpenFheLibrary[BfvParameters], BfvLibrary):
    """OpenFHE for the plaintext modulus of index `prime`.

    Raises `CapacityError` if the library has chosen another ring or modulus than the parameters say.
    """

    def __init__(self, parameters: BfvParameters, prime: int) -> None:
        self._modulus = parameters.plain_moduli[prime]
        super().__init__(parameters, _context(parameters, self._modulus))
        moduli = self.public_key.polynomials.moduli
        found = self.context.GetRingDimension(), tuple(modulus.bit_length() for modulus in moduli)
        if found != (parameters.ring_dimension, 2 * parameters.modulus_bits):
            raise CapacityError(f"OpenFHE has chosen another ring or modulus, {found}, than the parameters say")
        self.learn_submissions(self.encoded(np.arange(parameters.slots, dtype=np.uint64)))

    def encoded(self, values: Residues) -> Any:
        signed = values.astype(np.int64)  # the library wants them between -t/2 and t/2
        signed[signed > self._modulus // 2] -= self._modulus
        return self.context.MakePackedPlaintext(signed.tolist())

    def decoded(self, plaintext: Any) -> Residues:
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
    """Return OpenFHE for these parameters, once for each plaintext modulus; errors as `PrimeScheme`."""
    schemes = tuple(PrimeScheme(parameters, prime) for prime in range(len(parameters.plain_moduli)))
    if len({scheme.submission.polynomials.moduli for scheme in schemes}) != 1:
        raise CapacityError("OpenFHE has chosen different ciphertext moduli for different plaintext moduli")
    return schemes
