"""OpenFHE, for either scheme: contexts, keys and ciphertexts, and its process-wide state.

No evaluation keys are made: OpenFHE keeps those in process-wide maps that only grow.
"""

# ruff: noqa: E402 - OpenMP reads its variable when openfhe is imported

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

# On small rings OpenMP's threads cost far more than they give (up to 300 times on two cores). libgomp reads the
# variable once, when it is loaded; where another library has loaded it before, the limit is set at run time. Whoever
# has set the variable is taken to know better.
_threads_chosen = "OMP_NUM_THREADS" in os.environ
os.environ.setdefault("OMP_NUM_THREADS", "1")
import openfhe
from threadpoolctl import threadpool_limits

from fhe_auc.base.errors import CapacityError, DeserialisationError, EvaluationError
from fhe_auc.rlwe.context import CoefficientLayout, Library, Run

if not _threads_chosen:
    del os.environ["OMP_NUM_THREADS"]  # child processes are not ours to decide for
    threadpool_limits(limits=1, user_api="openmp")

_TESTED_WITH = "1.6.1"
_found = getattr(openfhe, "__version__", "of an old version")
if not _found.startswith(f"{_TESTED_WITH}."):
    # Its serialised keys and ciphertexts are read and written here, and their noise was measured: of this version.
    raise ImportError(
        f"OpenFHE {_found} is installed, and fhe-auc is tested with {_TESTED_WITH} alone: "
        f"pip install 'openfhe=={_TESTED_WITH}.*'"
    )

_first_used_in: int | None = None


def _refuse_forks() -> None:
    """Raise `EvaluationError` in a process that was forked from one that has used OpenFHE.

    OpenFHE seeds its random numbers once, so that parent and children would draw the same ones: the same keys, and
    encryptions with the same error under different `a`, whose difference tells the secret key.
    """
    global _first_used_in
    if _first_used_in is None:
        _first_used_in = os.getpid()
    if _first_used_in != os.getpid():
        raise EvaluationError(
            "this process was forked from one that has used OpenFHE, and would repeat its random numbers; "
            "start processes afresh (multiprocessing: 'spawn')"
        )


def _polynomials(raw: bytes, ring_dimension: int) -> list[Run]:
    """Find OpenFHE's coefficient vectors: a 64-bit count, the words, then the modulus that they all lie below."""
    mark = ring_dimension.to_bytes(8, "little")
    runs: list[Run] = []
    position = raw.find(mark)
    while position >= 0:
        start = position + 8
        end = start + 8 * ring_dimension
        modulus = int.from_bytes(raw[end : end + 8], "little")
        if modulus % (2 * ring_dimension) == 1 and int(np.frombuffer(raw[start:end], "<u8").max()) < modulus:
            runs.append(Run(start, modulus))
            position = raw.find(mark, end)
        else:
            position = raw.find(mark, position + 1)
    return runs


# BFV's modulus follows from depth and plaintext modulus: 1 or 2 for those from 41 bits on, up to 5 for the smallest.
_LEAST_DEPTH, _MOST_DEPTH = 1, 5


def _ckks_context(parameters: Any) -> Any:
    first, *scaling = parameters.modulus_bits
    settings = openfhe.CCParamsCKKSRNS()
    settings.SetMultiplicativeDepth(len(scaling))
    settings.SetFirstModSize(first)
    settings.SetScalingModSize(scaling[0])
    settings.SetScalingTechnique(openfhe.FIXEDMANUAL)
    return _new_context(settings, parameters)


def _bfv_context(parameters: Any) -> Any:
    """Return the library's context at the least depth for which it takes a modulus as large as the parameters'."""
    for depth in range(_LEAST_DEPTH, _MOST_DEPTH + 1):
        settings = openfhe.CCParamsBFVRNS()
        settings.SetPlaintextModulus(parameters.plain_moduli[0])
        settings.SetMultiplicativeDepth(depth)
        settings.SetScalingModSize(parameters.modulus_bits[0])
        settings.SetMultiplicationTechnique(openfhe.HPS)
        context = _new_context(settings, parameters)
        if round(math.log2(context.GetModulus())) >= parameters.log2_modulus:
            return context
    raise CapacityError(
        f"OpenFHE takes no modulus of {parameters.log2_modulus} bits for plaintext modulus {parameters.plain_moduli[0]}"
    )


def _new_context(settings: Any, parameters: Any) -> Any:
    """Return the context of a scheme's settings, with the ring, the secret keys and the security that we ask for."""
    settings.SetRingDim(parameters.ring_dimension)
    settings.SetKeySwitchTechnique(openfhe.BV)  # the one without a special modulus
    settings.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
    settings.SetSecurityLevel(openfhe.HEStd_128_classic)
    context = openfhe.GenCryptoContext(settings)
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
        context.Enable(feature)
    return context


class Scheme(Library[Any]):
    """OpenFHE for one scheme."""

    def __init__(self, parameters: Any) -> None:
        of_ckks = parameters.scheme == "ckks"
        self._context = (_ckks_context if of_ckks else _bfv_context)(parameters)
        self._zero = self._context.MakeCKKSPackedPlaintext([0.0]) if of_ckks else self._context.MakePackedPlaintext([0])
        self._find = partial(_polynomials, ring_dimension=parameters.ring_dimension)
        super().__init__(parameters)

    @property
    def context(self) -> Any:
        """The library's context; `EvaluationError` in a process that was forked from one that has used it."""
        _refuse_forks()
        return self._context

    def _new_key(self) -> Any:
        # In a thread of its own, as OpenFHE seeds its random numbers once for each: a machine resumed twice from one
        # snapshot would make the same keys.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self.context.KeyGen).result().secretKey

    def _encrypted_zero(self, key: bytes) -> Callable[[], Any]:
        try:
            parsed = openfhe.DeserializePrivateKeyString(key, openfhe.BINARY)
        except RuntimeError as error:
            raise DeserialisationError(f"OpenFHE refused the key: {error}") from None
        return lambda: self.context.Encrypt(parsed, self._zero)

    def _saved(self, item: Any) -> bytes:
        return bytes(openfhe.Serialize(item, openfhe.BINARY))

    def _layout(self, item: Any) -> CoefficientLayout:
        return CoefficientLayout(self._saved(item), self.parameters.ring_dimension, self._find)
