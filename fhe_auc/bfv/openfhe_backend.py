"""BFV on OpenFHE, with the first plaintext modulus; keys and encryptions of zero do not depend on it."""

import math
from typing import Any

from fhe_auc.base.errors import CapacityError
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe.openfhe_library import OpenFheLibrary, new_context, openfhe

# The library derives its modulus from depth and plaintext modulus: 1 or 2 for those from 41 bits on, up to 5 for the
# smallest.
_LEAST_DEPTH, _MOST_DEPTH = 1, 5


class Scheme(OpenFheLibrary[BfvParameters]):
    """OpenFHE for BFV; `CapacityError` if it has another ring or modulus, or as `BfvParameters.check_library`."""

    def __init__(self, parameters: BfvParameters) -> None:
        parameters.check_library()
        super().__init__(parameters, _context(parameters, parameters.plain_moduli[0]))
        moduli = self.public_key.polynomials.moduli
        found = self.context.GetRingDimension(), tuple(modulus.bit_length() for modulus in moduli)
        if found != (parameters.ring_dimension, 2 * parameters.modulus_bits):
            raise CapacityError(f"OpenFHE has chosen another ring or modulus, {found}, than the parameters say")
        self.learn_submissions(self.context.MakePackedPlaintext([0]))


def _context(parameters: BfvParameters, plain_modulus: int) -> Any:
    """Return the library's context at the least depth for which it takes a modulus as large as the parameters'."""
    for depth in range(_LEAST_DEPTH, _MOST_DEPTH + 1):
        settings = openfhe.CCParamsBFVRNS()
        settings.SetPlaintextModulus(plain_modulus)
        settings.SetRingDim(parameters.ring_dimension)
        settings.SetMultiplicativeDepth(depth)
        settings.SetScalingModSize(parameters.modulus_bits[0])
        settings.SetKeySwitchTechnique(openfhe.BV)  # the one without a special modulus
        settings.SetMultiplicationTechnique(openfhe.HPS)
        context = new_context(settings)
        if round(math.log2(context.GetModulus())) >= parameters.log2_modulus:
            return context
    raise CapacityError(
        f"OpenFHE takes no modulus of {parameters.log2_modulus} bits for plaintext modulus {plain_modulus}"
    )
