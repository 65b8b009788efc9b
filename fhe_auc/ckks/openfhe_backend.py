"""CKKS on OpenFHE."""

import math

from fhe_auc.base.errors import CapacityError
from fhe_auc.ckks.context import CkksLibrary
from fhe_auc.ckks.parameters import CkksParameters
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

    def _squared(self, words: Words) -> bytes:
        ciphertext = parsed(openfhe.DeserializeCiphertextString, self.submission.raw(words, self.submission.tag))
        return save(self.context.EvalMultNoRelin(ciphertext, ciphertext))
