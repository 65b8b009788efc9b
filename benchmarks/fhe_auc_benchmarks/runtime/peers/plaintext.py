"""No privacy at all: what the same AUC costs in the clear."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from fhe_auc.counts import Counts
from fhe_auc.trapezoid import trapezoid
from fhe_auc_benchmarks.pooled_rows import pooled
from fhe_auc_benchmarks.runtime.contender import Contender
from fhe_auc_benchmarks.runtime.problem import Problem


class Plaintext(Contender):
    """Whoever aggregates sees everything, and sends the AUC back."""

    download_bytes = 8
    _auc: float

    def recover(self) -> float:
        return self._auc


class PlaintextCounts(Plaintext):
    """Every party sends its counts as they are: 2m integers."""

    name = "plaintext counts (numpy)"
    tolerance = 1e-12

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._sent = [self._submission(party) for party in range(problem.parties)]
        self.upload_bytes = len(self._sent[0])

    def submit(self) -> None:
        self._submission(0)

    def ingest(self) -> None:
        self._total = np.zeros((2, self.problem.thresholds), np.int64)
        for each in self._sent:
            self._total += np.frombuffer(each, np.int64).reshape(self._total.shape)

    def circuit(self) -> None:
        self._auc = trapezoid(Counts(*self._total)).auc

    def _submission(self, party: int) -> bytes:
        counts = self.problem.counts(party)
        return np.stack([counts.tp, counts.fp]).tobytes()


class PooledRows(Plaintext):
    """Every party sends its rows as they are; scikit-learn does the rest, without thresholds."""

    name = "pooled rows (scikit-learn)"

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._sent = [problem.data(party) for party in range(problem.parties)]
        self.upload_bytes = sum(array.nbytes for array in (self._sent[0].y_true, self._sent[0].y_score))

    @property
    def expected(self) -> float:
        """The AUC of the rows themselves."""
        return self.problem.sklearn_auc

    def submit(self) -> None:
        pass

    def ingest(self) -> None:
        self._y_true, self._y_score = pooled(self._sent)

    def circuit(self) -> None:
        self._auc = float(roc_auc_score(self._y_true, self._y_score))
