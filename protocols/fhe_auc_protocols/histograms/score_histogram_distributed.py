"""Score histograms under distributed differential privacy: encrypted sums of counts with shares of noise.  [FCE] §2.2.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023.

    histogram-distributed-dp    each party adds Pólya shares to its counts and encrypts them; the sum, all that is ever
                                decrypted, holds one discrete Laplace variable a count, not one a party

**Privacy unit: one row added or removed**, label and score. It changes one of the 2m counts by one, so that discrete
Laplace noise of scale 1/ε makes the pooled histogram ε-private. A row replaced changes two counts: 2ε. A party that
adds or removes r rows: rε. The number of parties is public, and each session on the same rows adds its ε.

**Against whom.** Whoever sees the result, and any one party, which knows its own share: shares are sized for n =
`noise_parties` = min_parties − 1 (with one party alone, 1), so that those of all others add up to the noise promised in
any session that may go on. More shares than n only add independent noise. A coalition of c parties that pool their
shares leaves s = (parties counted − c) shares, and s < n of them promise less, `fallen_short` says how much.

**What it rests on.** Honest parties draw their shares (`fhe_auc_protocols.dp_noise.polya`), and the aggregator adds up at least
min_parties submissions, as it says it did; where all parties have to take part, masks (`fhe_auc.zero_sum_masks`) see to that.
With sealed keys a party that gets hold of another's submission can take the mask off and decrypt it: one share protects
it hardly at all. With joint keys only all together decrypt.

**Quantile thresholds** come from a session before it, `fhe_auc_protocols.histograms.quantiles_distributed`; ε is then that of both, and
the counts get what is left of it (`fhe_auc_protocols.histograms.split_budget`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import hyp2f1
from scipy.stats import nbinom

from fhe_auc import ckks
from fhe_auc.ckks import BackendName
from fhe_auc.computation import PartyTask
from fhe_auc.counts import PartyData
from fhe_auc.errors import InputError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.protocol import Request
from fhe_auc_protocols import dp_noise as noise
from fhe_auc_protocols.histograms import split_budget as two_sessions
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan
from fhe_auc_protocols.histograms.score_histogram import (
    HistogramTask,
    noise_warnings,
    noisy_auc,
    plan_histogram,
    pooled_histogram,
)
from fhe_auc_protocols.histograms.sum_protocol import SumProtocol
from fhe_auc_protocols.option_values import EPSILON_ADVICE, positive_number

_OVERFLOW = 2.0**-40
"""Probability that some count's noise exceeds the room for it, in one session: then a share is cut, or no result."""

_LEAST_EPSILON, _MOST_EPSILON = 1e-6, 32.0  # noise of millions; hardly any count with noise


class HistogramDistributedDp(SumProtocol[Evaluation]):
    """Plug-in ``histogram-distributed-dp``."""

    name = "histogram-distributed-dp"
    summary = "CKKS sum of each bin's counts, and differential privacy: the parties' shares of noise add up to one"
    trust = "all compute what they should, no two collude; of a row others learn no more than epsilon allows"
    options = two_sessions.OPTIONS
    boundaries = "boundaries-distributed-dp"

    def staged(self, request: Request, bins: int) -> tuple[Request, Request]:
        """Split the budget."""
        return two_sessions.staged(request, bins, checked_epsilon)

    def planned(self, request: Request, backend: BackendName, smudging_bits: int) -> SumPlan:
        """Return the parameters for two sums a bin, with room for noise."""
        least = len(request.parties) if request.min_parties is None else request.min_parties
        room = noise_room(
            two_sessions.left_for_counts(request.options, checked_epsilon),
            bins=len(request.thresholds),
            parties=len(request.parties),
            shares=noise_parties(least),
        )
        return plan_histogram(request, backend, smudging_bits, noise_room=room)

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the budget of this session and of one before it."""
        two_sessions.left_for_counts(request.options, checked_epsilon)
        return dict(two_sessions.settings(request.options))

    def task(self, manifest: Manifest, data: PartyData) -> PartyTask[ckks.Slots, ckks.Slots, Evaluation]:
        """Return a party's computation on its own rows; raise `InputError` where the manifest is of another kind."""
        self.check_options(manifest.options)
        return DistributedTask(manifest, data)


class DistributedTask(HistogramTask):
    """Adds shares of noise to the counts, and reads the pooled noisy counts off the sum."""

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        self._epsilon = two_sessions.left_for_counts(manifest.options, checked_epsilon)
        self._shares = noise_parties(manifest.min_parties)
        room = noise_room(
            self._epsilon, bins=len(manifest.thresholds), parties=len(manifest.parties), shares=self._shares
        )
        super().__init__(manifest, data, noise_room=room)

    def encode(self, common_secret: bytes) -> list[ckks.Slots]:
        """Return the packed noisy counts."""
        shares = noise.polya(self._bins.size, scale_of(self._epsilon), self._shares).reshape(self._bins.shape)
        return [self.plan.pack(np.clip(self._bins + shares, -self.plan.max_total, self.plan.max_total))]

    def read(self, decrypted: ckks.Slots, parties: int, common_secret: bytes) -> Evaluation:
        """Return the AUC of the noisy histogram; errors as `fhe_auc_protocols.histograms.encrypted_sums.SumPlan.sums`, and `UndefinedAucError`."""
        histogram = pooled_histogram(self._manifest.thresholds, self.plan.sums(decrypted))
        deviation = noise_deviation(self._epsilon, parties / self._shares)
        return Evaluation(
            auc=noisy_auc(histogram),
            resolution=math.nan,
            precision=math.nan,
            protocol=self._manifest.protocol,
            backend=self.plan.parameters.backend,
            parties=parties,
            thresholds=self.plan.thresholds,
            verified=False,
            security_bits=ckks.SECURITY_BITS,
            settings={
                **two_sessions.settings(self._manifest.options),
                "noise_deviation": deviation,
                "noise_parties": self._shares,
            },
            histogram=histogram,
            warnings=noise_warnings(self._manifest, histogram, deviation, parties),
        )


def checked_epsilon(options: Mapping[str, Any]) -> float:
    """Return the budget of a request's or manifest's options; raise `InputError` unless it lies in [1e-6, 32]."""
    epsilon = positive_number(options, "epsilon", EPSILON_ADVICE)
    if not _LEAST_EPSILON <= epsilon <= _MOST_EPSILON:
        raise InputError(f"epsilon must lie between {_LEAST_EPSILON:g} and {_MOST_EPSILON:g}, got {epsilon:g}")
    return epsilon


def noise_parties(min_parties: int) -> int:
    """Return n: how many shares make up the noise promised. One fewer than must take part: a party knows its own."""
    return max(1, min_parties - 1)


def scale_of(epsilon: float) -> float:
    """Return the scale 1/epsilon, rounded to the private side."""
    return math.nextafter(1 / epsilon, math.inf)


def noise_deviation(epsilon: float, wholes: float) -> float:
    """Return the standard deviation of so many times the noise promised (s shares of n: s/n): √(2 p s/n)/(1 − p)."""
    return math.sqrt(2 * wholes * math.exp(-epsilon)) / -math.expm1(-epsilon)


def noise_room(epsilon: float, *, bins: int, parties: int, shares: int) -> int:
    """Return a bound on the noise of every count, share and partial sum, which fails with probability 2^-40 at most.

    The sum of s shares of n is NB(s/n, p) − NB(s/n, p), two sums of numbers that are not negative. No share and no sum
    of shares is therefore larger in absolute value than the larger of the two, and 4m of these are all there are.
    """
    return int(nbinom.isf(_OVERFLOW / (4 * bins), parties / shares, -math.expm1(-epsilon))) + 1


def fallen_short(epsilon: float, shares: int, needed: int) -> float:
    """Return the budget that is really spent where fewer shares than needed hide a row.

    The law of s shares of n is NB(r, p) − NB(r, p), r = s/n, p = e^−ε. For r < 1 the ratio P[k]/P[k+1] is largest at
    k = 0, and P[k] = (1 − p)^2r C(k + r − 1, k) p^k F(r, r + k; k + 1; p²), with Gauß's F. So still pure differential
    privacy, with a larger budget, infinite without a share.

    Parameters
    ----------
    epsilon : float
        The session's.
    shares : int
        s: of parties that neither vanished nor tell their share, 0 or more.
    needed : int
        n, `noise_parties`.
    """
    if shares >= needed:
        return epsilon
    if shares == 0:
        return math.inf
    r, p = shares / needed, math.exp(-epsilon)
    return math.log(hyp2f1(r, r, 1, p * p) / (r * p * hyp2f1(r, r + 1, 2, p * p)))
