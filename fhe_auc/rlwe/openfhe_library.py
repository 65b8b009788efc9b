"""OpenFHE: contexts and keys, of CKKS whatever is encrypted, and its process-wide state.

No evaluation keys are made: OpenFHE keeps those in process-wide maps that only grow.
"""

# ruff: noqa: E402 - OpenMP reads its variable when openfhe is imported

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

# On small rings OpenMP's threads cost far more than they give (up to 300 times on two cores). libgomp reads the
# variable once, when it is loaded; where another library has loaded it before, the limit is set at run time. Whoever
# has set the variable is taken to know better.
_threads_chosen = "OMP_NUM_THREADS" in os.environ
os.environ.setdefault("OMP_NUM_THREADS", "1")
import openfhe
from threadpoolctl import threadpool_limits

from fhe_auc.base.errors import EvaluationError
from fhe_auc.rlwe.context import Library, Rows
from fhe_auc.rlwe.ring_parameters import Chain

if not _threads_chosen:
    del os.environ["OMP_NUM_THREADS"]  # child processes are not ours to decide for
    threadpool_limits(limits=1, user_api="openmp")

_TESTED_WITH = "1.6.1"
_found = getattr(openfhe, "__version__", "of an old version")
if not _found.startswith(f"{_TESTED_WITH}."):
    # Its serialised keys are read here, of this version.
    raise ImportError(
        f"OpenFHE {_found} is installed, and fhe-auc is tested with {_TESTED_WITH} alone: "
        f"pip install 'openfhe=={_TESTED_WITH}.*'"
    )

_first_used_in: int | None = None


def _refuse_forks() -> None:
    """Raise `EvaluationError` in a process that was forked from one that has used OpenFHE.

    OpenFHE seeds its random numbers once, so that parent and children would draw the same keys.
    """
    global _first_used_in
    if _first_used_in is None:
        _first_used_in = os.getpid()
    if _first_used_in != os.getpid():
        raise EvaluationError(
            "this process was forked from one that has used OpenFHE, and would repeat its random numbers; "
            "start processes afresh (multiprocessing: 'spawn')"
        )


def _polynomials(raw: bytes, ring_dimension: int) -> Rows:
    """Find OpenFHE's coefficient vectors: a 64-bit count, the words, then the modulus that they all lie below."""
    mark, found = ring_dimension.to_bytes(8, "little"), Rows()
    position = raw.find(mark)
    while position >= 0:
        end = position + 8 + 8 * ring_dimension
        modulus = int.from_bytes(raw[end : end + 8], "little")
        if modulus % (2 * ring_dimension) == 1:
            row = np.frombuffer(raw, "<u8", ring_dimension, position + 8)
            if int(row.max()) < modulus:
                found.append((modulus, row))
                position = end - 1
        position = raw.find(mark, position + 1)
    return found


class Scheme(Library):
    """OpenFHE for one chain."""

    def __init__(self, chain: Chain) -> None:
        first, *scaling = chain.modulus_bits
        settings = openfhe.CCParamsCKKSRNS()
        settings.SetMultiplicativeDepth(len(scaling))
        settings.SetFirstModSize(first)
        settings.SetScalingModSize(scaling[0])
        settings.SetScalingTechnique(openfhe.FIXEDMANUAL)
        settings.SetRingDim(chain.ring_dimension)
        # The one without a special modulus. It must not relinearise: without a digit size a whole prime multiplies the
        # evaluation key's noise, which leaves 7 of 24 bits at a scale of 2^35 (findings/openfhe-bv-…). So PKE alone.
        settings.SetKeySwitchTechnique(openfhe.BV)
        settings.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
        settings.SetSecurityLevel(openfhe.HEStd_128_classic)
        self._context = openfhe.GenCryptoContext(settings)
        self._context.Enable(openfhe.PKE)
        super().__init__(chain)

    @property
    def context(self) -> Any:
        """The library's context; `EvaluationError` in a process that was forked from one that has used it."""
        _refuse_forks()
        return self._context

    def _new_key(self) -> Rows:
        # In a thread of its own, as OpenFHE seeds its random numbers once for each: a machine resumed twice from one
        # snapshot would make the same keys.
        with ThreadPoolExecutor(1) as thread:
            key = thread.submit(self.context.KeyGen).result().secretKey
        return _polynomials(bytes(openfhe.Serialize(key, openfhe.BINARY)), self.chain.ring_dimension)
