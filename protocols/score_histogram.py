"""Score histograms: how many positive and negative rows all parties have in each bin of scores.  [FCE] §2.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023.

    histogram-federated    sums of exact counts, encrypted: the aggregator sees ciphertexts, the parties the pooled
                           histogram, from which every metric of a classifier follows (`fhe_auc.metrics`)

A party encrypts its counts, 2m integers, in one ciphertext; the aggregator adds ciphertexts (`fhe_auc.sums`), and only
the sum is ever decrypted. Rounds, keys and messages are those of the other encrypted protocols. The sum is exact, and
so is the AUC of the bins. Who learns what: parties see the pooled counts of every bin, which is more than an AUC: a bin
that one party alone has rows in shows that party's rows. A lying aggregator is not noticed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.ckks import BackendName
from fhe_auc.ckks_rounds import PartyTask, plan_of
from fhe_auc.counts import Counts, PartyData, count, trapezoid
from fhe_auc.errors import EvaluationError, InputError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request
from fhe_auc.sums import SumPlan, plan_sum
from protocols.encrypted import EncryptedProtocol, check_rows, common_warnings

_VECTORS = 2  # positives and negatives


class HistogramFederated(EncryptedProtocol):
    """Plug-in ``histogram-federated``."""

    name = "histogram-federated"
    summary = "CKKS, an exact sum of each bin's positives and negatives: the parties get the pooled score histogram"
    trust = "the aggregator computes what it should and does not collude with a party; parties see pooled counts a bin"

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> SumPlan:
        """Return the parameters for two sums a bin."""
        return plan_sum(
            thresholds=len(request.thresholds),
            vectors=_VECTORS,
            parties=len(request.parties),
            backend=backend,
            max_total=request.max_rows,
            joint_keys=request.keys == "joint",
            smudging_bits=smudging_bits,
        )

    def task(self, manifest: Manifest, data: PartyData) -> PartyTask:
        """Return a party's computation on its own rows."""
        return HistogramTask(manifest, data)


class HistogramTask(PartyTask):
    """Counts a party's rows of each label in each bin, and reads the pooled counts off the sum."""

    plan: SumPlan

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        self.party = data.name
        self.plan = plan_of(manifest, SumPlan)
        self._manifest = manifest
        self._data = data
        if self.plan.vectors != _VECTORS:
            raise InputError("the session's manifest is not one for score histograms")
        check_rows(data, self.plan.max_total)

    def blocks(self) -> list[ckks.Slots]:
        """Return the packed counts."""
        own = count(self._data, self._manifest.thresholds)
        return [self.plan.pack(np.stack([own.bin_positives, own.bin_negatives]))]

    def evaluation(self, slots: ckks.Slots, parties: int) -> Evaluation:
        """Return the AUC of the pooled histogram; errors as `fhe_auc.sums.SumPlan.sums`, and `UndefinedAucError`."""
        pooled = pooled_counts(self.plan.sums(slots))
        exact = trapezoid(pooled)
        return Evaluation(
            auc=exact.auc,
            resolution=exact.resolution,
            precision=0.0,
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=parties,
            thresholds=self.plan.thresholds,
            verified=False,
            security_bits=ckks.SECURITY_BITS,
            counts=pooled,
            warnings=common_warnings(self._manifest, parties, exact.resolution),
        )


def pooled_counts(bins: NDArray[np.int64]) -> Counts:
    """Return the counts at each threshold from positives and negatives in each bin, shape (2, m).

    Raises
    ------
    EvaluationError
        A bin has fewer than no rows.
    """
    if bins.min() < 0:
        raise EvaluationError(
            "a bin of the pooled histogram has a negative count: the aggregator, or a party, has not computed what it "
            "should"
        )
    return Counts(*(row[::-1].cumsum()[::-1] for row in bins))
