"""No privacy at all: what the same AUC costs in the clear."""

import numpy as np

from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.rows.counts import Counts
from fhe_auc_benchmarks.runtime.contender import PeerContender
from fhe_auc_benchmarks.runtime.problem import BenchmarkProblem


class Plaintext(PeerContender):
    """Every party sends its counts as they are: 2m integers. Whoever adds them up sees them, and sends the AUC back."""

    name = "plaintext counts (numpy)"
    tolerance = 1e-12
    download_bytes = 8

    def __init__(self, problem: BenchmarkProblem) -> None:
        self.problem = problem
        self._sent = [self._submission(party) for party in range(problem.parties)]
        self.upload_bytes = len(self._sent[0])

    def submit(self) -> None:
        self._submission(0)

    def aggregate(self) -> None:
        total = np.sum([np.frombuffer(each, np.int64) for each in self._sent], axis=0)
        self._auc = trapezoid(Counts(*total.reshape(2, -1))).auc

    def recover(self) -> float:
        return self._auc

    def _submission(self, party: int) -> bytes:
        counts = self.problem.counts(party)
        return np.stack([counts.tp, counts.fp]).tobytes()
