"""The classic: sums of counts under Paillier, a ciphertext for each count, with `phe`.

Keys of 3072 bits, which NIST SP 800-57 puts at 128 bits of security. Parties that hold the secret key add up, multiply
and divide by themselves: they see pooled counts of every bin, as with `histogram-federated`. One party's ciphertexts
stand for all of them: encrypting takes seconds, and adding takes the same time whatever is added. So the AUC that is
checked is that of as many parties with the first one's rows.
"""

from itertools import chain

import numpy as np
import phe

from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.rows.counts import Counts
from fhe_auc_benchmarks.runtime.contender import PeerContender
from fhe_auc_benchmarks.runtime.problem import BenchmarkProblem
from fhe_auc_benchmarks.stopwatch import Stopwatch

_KEY_BITS = 3072
_BYTES = 2 * _KEY_BITS // 8  # a ciphertext is a number modulo n²


class Paillier(PeerContender):
    """Sums of Paillier ciphertexts."""

    name = "Paillier sums (phe)"
    tolerance = 1e-12

    def __init__(self, problem: BenchmarkProblem) -> None:
        self.problem = problem
        with Stopwatch() as self.keys:
            self._public, self._private = phe.generate_paillier_keypair(n_length=_KEY_BITS)
        self._submission = self._encrypted()
        self.upload_bytes = self.download_bytes = len(self._submission)

    @property
    def right(self) -> float:
        return trapezoid(self.problem.counts(0)).auc

    def submit(self) -> None:
        self._encrypted()

    def aggregate(self) -> None:
        sums = self._parsed(self._submission)
        for _ in range(self.problem.parties - 1):
            pairs = zip(sums, self._parsed(self._submission), strict=True)
            sums = [total + number for total, number in pairs]
        self._result = self._serialised(sums)

    def recover(self) -> float:
        """Decrypt all counts and apply the trapezoid rule."""
        totals = np.array([self._private.decrypt(number) for number in self._parsed(self._result)])
        return trapezoid(Counts(*totals.reshape(2, -1))).auc

    def _encrypted(self) -> bytes:
        counts = self.problem.counts(0)
        numbers = chain(counts.tp.tolist(), counts.fp.tolist())
        return self._serialised([self._public.encrypt(number) for number in numbers])

    def _serialised(self, numbers: list[phe.EncryptedNumber]) -> bytes:
        return b"".join(int(number.ciphertext(be_secure=False)).to_bytes(_BYTES, "little") for number in numbers)

    def _parsed(self, data: bytes) -> list[phe.EncryptedNumber]:
        pieces = (data[start : start + _BYTES] for start in range(0, len(data), _BYTES))
        return [phe.EncryptedNumber(self._public, int.from_bytes(piece, "little")) for piece in pieces]
