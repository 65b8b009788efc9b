"""The published design, rebuilt on OpenFHE from its description.  [FHE] §IV-C, §VII.

A party sends four ciphertexts under the common secret key,

    T_k    F_k    P    N        T_k = TP_k + TP_{k+1},  F_k = FP_k − FP_{k+1}

and the aggregator returns two: r·Σ_k T_k·F_k and r·2·P·N, the sum over slots by OpenFHE's EvalSum. Ring dimension
16384, three levels, scale 2^50, HEStd_128_classic, as the paper states. It does not state the scaling technique: this
takes FLEXIBLEAUTO, whose ciphertexts are a fifth smaller and faster than those of OpenFHE's default, FLEXIBLEAUTOEXT.
Ciphertexts travel in OpenFHE's own binary format, without envelopes, checksums or checks, which favours it. With every
ciphertext that it parses OpenFHE computes tables anew, unless it is told not to, and that takes more than all the rest.
Nobody would know from the description: `Published` leaves the library's default, `PublishedTuned` spares the tables.

It is here to be timed, not to be used: neither result is flooded, and the first may decrypt to more than the sum.

[FHE] Baykara, Ünal, Akgün, "Enabling Privacy-preserving Model Evaluation in Federated Learning via Fully Homomorphic
Encryption", arXiv 2403.14428.
"""

import contextlib
import secrets
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import openfhe

from fhe_auc.rows.counts import Counts
from fhe_auc_benchmarks.runtime.contender import DISTINCT, BenchmarkProblem, Clock, Contender, Played

_RING_DIMENSION, _DEPTH, _SCALE_BITS = 16384, 3, 50
_MULTIPLIER_BITS = 20
_RESULT_BITS = 45  # the library refuses to decode results beyond about this, with an error of its own


class Published(Contender):
    """[FHE]'s semi-honest protocol."""

    name, _tuned = "published design", False

    def __init__(self, problem: BenchmarkProblem) -> None:
        self.problem = problem
        self._batch = max(8, 1 << (problem.thresholds - 1).bit_length())
        settings = openfhe.CCParamsCKKSRNS()
        settings.SetRingDim(_RING_DIMENSION)
        settings.SetMultiplicativeDepth(_DEPTH)
        settings.SetScalingModSize(_SCALE_BITS)
        settings.SetBatchSize(self._batch)
        settings.SetScalingTechnique(openfhe.FLEXIBLEAUTO)
        settings.SetSecurityLevel(openfhe.HEStd_128_classic)
        self._context = context = openfhe.GenCryptoContext(settings)
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE):
            context.Enable(feature)
        started = time.process_time()
        self._secret_key = context.KeyGen().secretKey
        context.EvalMultKeyGen(self._secret_key)
        context.EvalSumKeyGen(self._secret_key)
        self._keys_seconds = time.process_time() - started
        own = [self._submission(problem.counts(party)) for party in range(min(problem.parties, DISTINCT))]
        self._sent = [own[party % DISTINCT] for party in range(problem.parties)]
        largest = 2 * problem.total.positives * problem.total.negatives
        self._multiplier_bits = min(_MULTIPLIER_BITS, _RESULT_BITS - largest.bit_length())

    def play(self) -> Played:
        """Time one party's work, and the aggregator's on what all have sent."""
        clock = Clock()
        clock.cpu["keys"] = self._keys_seconds
        with clock.on("party"):
            self._submission(self.problem.counts(0))
        with clock.on("aggregator"):
            result = self._aggregated()
        with clock.on("party"), self._parsing():
            num, den = (self._first_slot(each) for each in result)
        sent = max(sum(map(len, each)) for each in self._sent)
        return Played(num / den, clock.cpu, sent, sum(map(len, result)))

    def _aggregated(self) -> list[bytes]:
        context, sums = self._context, list[Any]()
        with self._parsing():
            for submission in self._sent:
                ciphertexts = [openfhe.DeserializeCiphertextString(each, openfhe.BINARY) for each in submission]
                for total, ciphertext in zip(sums, ciphertexts, strict=False):
                    context.EvalAddInPlace(total, ciphertext)
                sums = sums or ciphertexts
        heights, negatives, positive, negative = sums
        multiplier = 1 + secrets.randbelow(2**self._multiplier_bits) + secrets.randbits(52) / 2**52
        num = context.EvalMult(context.EvalSum(context.EvalMult(heights, negatives), self._batch), multiplier)
        den = context.EvalMult(context.EvalMult(positive, negative), 2 * multiplier)
        return [openfhe.Serialize(each, openfhe.BINARY) for each in (num, den)]

    def close(self) -> None:
        """Take the evaluation keys out of the process's maps."""
        openfhe.ClearEvalMultKeys()
        self._context.ClearEvalAutomorphismKeys()

    @contextlib.contextmanager
    def _parsing(self) -> Iterator[None]:
        """How the library is to parse, inside."""
        if self._tuned:
            openfhe.DisablePrecomputeCRTTablesAfterDeserializaton()
        try:
            yield
        finally:
            openfhe.EnablePrecomputeCRTTablesAfterDeserializaton()

    def _submission(self, counts: Counts) -> list[bytes]:
        vectors = counts.trapezoid_heights, counts.bin_negatives, [counts.positives], [counts.negatives]
        return [self._encrypted(np.asarray(vector, float)) for vector in vectors]

    def _encrypted(self, values: Any) -> bytes:
        plaintext = self._context.MakeCKKSPackedPlaintext(values.tolist())
        encrypted = self._context.Encrypt(self._secret_key, plaintext)
        return bytes(openfhe.Serialize(encrypted, openfhe.BINARY))

    def _first_slot(self, data: bytes) -> float:
        ciphertext = openfhe.DeserializeCiphertextString(data, openfhe.BINARY)
        return float(self._context.Decrypt(self._secret_key, ciphertext).GetRealPackedValue()[0])


class PublishedTuned(Published):
    """The same where ciphertexts are parsed without computing tables that are there already."""

    name, _tuned = "published design, tuned", True
