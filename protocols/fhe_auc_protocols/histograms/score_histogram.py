"""Score histograms: how many positive and negative rows all parties have in each bin of scores.  [FCE] §2.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023.

    histogram-federated         sums of exact counts, encrypted                                          (this module)
    histogram-distributed-dp    the same with shares of noise on them     `fhe_auc_protocols.histograms.score_histogram_distributed`
    histogram-local-dp          every row randomised, nothing encrypted   `fhe_auc_protocols.histograms.score_histogram_local`

In the first two a party encrypts its counts, 2m integers, in one ciphertext; the aggregator adds ciphertexts
(`fhe_auc_protocols.histograms.encrypted_sums`), and only the sum is ever decrypted: the aggregator sees ciphertexts, the parties the pooled histogram,
from which every metric of a classifier follows (`fhe_auc.metrics`). Rounds, keys and messages are those of the other
encrypted protocols.

In ``histogram-federated`` the sum is exact, and so is the AUC of the bins. Who learns what: parties see the pooled
counts of every bin, which is more than an AUC: a bin that one party alone has rows in shows that party's rows. Where
all parties have to take part, masks (`fhe_auc.zero_sum_masks`) leave nothing of a sum that is not over all of them. An
aggregator that adds counts of its own is not noticed; where some may be missing, one that leaves parties out is not
either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.ckks import BackendName
from fhe_auc.computation import PartyTask
from fhe_auc.counts import Counts, PartyData
from fhe_auc.errors import EvaluationError, InputError, UndefinedAucError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.metrics import Histogram, roc_auc_score
from fhe_auc.protocol import Request
from fhe_auc.trapezoid import trapezoid
from fhe_auc_keys.encrypted_protocol import check_rows
from fhe_auc_protocols.histograms import split_budget as two_sessions
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan, plan_sum
from fhe_auc_protocols.histograms.sum_protocol import SumProtocol
from fhe_auc_protocols.result_warnings import of_auc, of_parties

_VECTORS = 2  # positives and negatives
_LOUD = 0.1  # noise above this share of the rarer class's rows is worth a warning


def plan_histogram(request: Request, backend: BackendName, smudging_bits: int, *, noise_room: int = 0) -> SumPlan:
    """Return the parameters for two sums a bin, of the request's most rows and so much noise besides."""
    return plan_sum(
        thresholds=len(request.thresholds),
        vectors=_VECTORS,
        parties=len(request.parties),
        backend=backend,
        max_total=request.max_rows + noise_room,
        joint_keys=request.keys == "joint",
        smudging_bits=smudging_bits,
    )


class HistogramFederated(SumProtocol[Evaluation]):
    """Plug-in ``histogram-federated``."""

    name = "histogram-federated"
    summary = "CKKS, an exact sum of each bin's positives and negatives: the parties get the pooled score histogram"
    trust = "the aggregator computes what it should and does not collude with a party; parties see pooled counts a bin"
    boundaries = "boundaries-federated"

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> SumPlan:
        """Return the parameters for two sums a bin."""
        return plan_histogram(request, backend, smudging_bits)

    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[ckks.Slots, ckks.Slots, Evaluation]:
        """Return a party's computation on its own rows."""
        return FederatedTask(manifest, data)


class HistogramTask(PartyTask[ckks.Slots, ckks.Slots, Evaluation]):
    """A party's rows of each label in each bin, for a sum of them.

    Parameters
    ----------
    manifest : Manifest
    data : PartyData
    noise_room : int
        How much of the plan's bound on sums is for noise.
    """

    def __init__(self, manifest: Manifest, data: PartyData, *, noise_room: int = 0) -> None:
        self.party = data.name
        self.plan = manifest.decoded_plan(SumPlan)
        self._manifest = manifest
        self.masked = manifest.min_parties == len(manifest.parties)
        if self.plan.vectors != _VECTORS or self.plan.max_total <= noise_room:
            raise InputError("the session's manifest is not one for score histograms")
        check_rows(data, self.plan.max_total - noise_room)
        self._bins = rows_by_bin(data, manifest.thresholds)


class FederatedTask(HistogramTask):
    """Sends the counts, and reads the pooled counts off the sum."""

    def encode(self, common_secret: bytes) -> list[ckks.Slots]:
        """Return the packed counts."""
        return [self.plan.pack(self._bins)]

    def read(self, decrypted: ckks.Slots, parties: int, common_secret: bytes) -> Evaluation:
        """Return the AUC of the pooled histogram; errors as `fhe_auc_protocols.histograms.encrypted_sums.SumPlan.sums`, and `UndefinedAucError`."""
        sums = self.plan.sums(decrypted)
        exact = trapezoid(pooled_counts(sums))
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
            histogram=pooled_histogram(self._manifest.thresholds, sums),
            warnings=of_auc(self._manifest, parties, exact.resolution),
        )


def rows_by_bin(data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
    """Count a party's rows of label 1 and 0 in each bin, shape (2, m).

    Raises
    ------
    InputError
        A score lies beyond the bins (`pooled_histogram`), which then would say what is not so; the message names the
        party, the row and the value.
    """
    own = Histogram.from_rows(data, _edges(grid))
    return np.stack([own.positives, own.negatives]).astype(np.int64)


def pooled_histogram(grid: NDArray[np.float64], bins: NDArray[np.int64] | NDArray[np.float64]) -> Histogram:
    """Return positives and negatives in each bin, shape (2, m), with the bins' edges.

    Bin k begins at threshold k, but the first one at 0 where that is lower; the last one ends at 1, or at the last
    threshold where that is higher.
    """
    return Histogram(_edges(grid), *bins.astype(np.float64))


def _edges(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate(([min(0.0, grid[0])], grid[1:], [max(1.0, grid[-1])]))


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


def noisy_auc(histogram: Histogram) -> float:
    """Return the AUC of a histogram with privacy noise; raise `UndefinedAucError` where noise leaves a class no row."""
    try:
        return roc_auc_score(histogram).value
    except UndefinedAucError:
        raise UndefinedAucError(
            "with privacy noise the pooled histogram holds no row of one class, so there is no AUC; more rows of both "
            "labels are needed, or a larger epsilon"
        ) from None


def noise_warnings(manifest: Manifest, histogram: Histogram, deviation: float, parties: int) -> tuple[str, ...]:
    """Return what the reader of a noisy histogram ought to know.

    Parameters
    ----------
    manifest : Manifest
    histogram : Histogram
    deviation : float
        Standard deviation of the noise on one count of a class.
    parties : int
        Whose rows are counted.
    """
    found = [*two_sessions.warnings(manifest.options), *of_parties(manifest, parties)]
    rarer = max(0.0, float(min(histogram.positives.sum(), histogram.negatives.sum())))
    of_class = deviation * float(np.sqrt(histogram.bins))
    if of_class > _LOUD * rarer:
        found.append(
            f"the noise on the number of rows of a class (standard deviation {of_class:,.0f}) is not small against the "
            f"rarer class (about {rarer:,.0f} rows): the AUC may be far off; take fewer thresholds or a larger epsilon"
        )
    return tuple(found)
