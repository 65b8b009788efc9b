"""AUC under CKKS with an aggregator that follows the protocol but is curious.  [FHE] §IV-C, repacked and mended.

One run, two classes with one factor:

    class 0   X = T_k + i·p_k       Y = F_k      total  num + i·tie
    class 1   X = 2P·(1 + i·κ)      Y = F_k      total  den·(1 + i·κ)      since Σ F_k = N

T, p, F and the totals are those of `fhe_auc.rows.counts` and `fhe_auc.metrics.trapezoid`; P and N are the rows of
either label. The second imaginary part is redundancy: a total beyond the modulus Q is off by multiples of Q in its real
and its imaginary part, and no two of them keep Im = κ·Re, as κ, a cube root, is not rational. So a result beyond
capacity is refused. Parties decrypt r·(num + i·tie) and r·den·(1 + iκ) and divide; r is the aggregator's secret. They
publish few digits (`published_digits`). Who learns what, and who must not collude: docs/security/protocol.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.ckks import Slots
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.counts import Counts
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.ckks_computation import Sums
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols import options as options_of
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import packed
from fhe_auc_protocols.blinded_auc.plan import CHECK_WEIGHT
from fhe_auc_protocols.blinded_auc.protocol import BlindedAuc, BlindedTask
from fhe_auc_protocols.blinded_auc.published_digits import PUBLISHED_BITS, published
from fhe_auc_protocols.blinded_auc.result_check import recover

_BITS = math.ceil(PUBLISHED_BITS)
_ROUNDED = (
    f"the AUC is rounded: the aggregator, if it lies, chooses its digits unnoticed, up to {_BITS} bits of "
    "one party's counts a session; parties have read all digits: assume that they can work out how many pooled rows "
    "have each label; only differential privacy (as of dpauc-laplace) bounds what a result tells"
)


class SemiHonest(BlindedAuc):
    """Plug-in ``semi-honest``."""

    name = "semi-honest"
    options = options_of.SemiHonest
    summary = (
        f"CKKS; the aggregator sees ciphertexts; a liar chooses the AUC, and so reads up to {_BITS} bits of counts"
    )
    trust = (
        "the aggregator computes what it should, else it chooses the AUC and can put up to "
        f"{_BITS} bits of one party's counts into it, unnoticed; it does not collude with a party or the key holder"
    )

    def task(self, manifest: Manifest, data: PartyData) -> SemiHonestTask:
        """Return a party's computation on its own rows."""
        return SemiHonestTask(manifest, data)


class SemiHonestTask(BlindedTask):
    """Counts a party's rows, and reads AUC and binning error off the blinded totals.

    Raises `InputError`: the plan is not one for whole counts, or the party has more rows than the session may have.
    """

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        super().__init__(manifest, data)
        if self.plan.split:
            raise InputError("the session's manifest is not one for whole counts")

    def encode(self, common_secret: bytes) -> list[Slots]:
        """Return the values of this party's counts, block by block; the common secret is not used."""
        return packed(self.plan, [vectors(self.counts(), self.plan.positions)])

    def read(self, decrypted: Sums, counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Return AUC and binning error, rounded; errors as `fhe_auc_protocols.blinded_auc.result_check.recover`."""
        told, decimals = published(recover(decrypted, self.plan))
        return self.evaluation(told, len(counted), _ROUNDED, verified=False, decimals=decimals)


def vectors(counts: Counts, positions: int) -> tuple[Slots, Slots]:
    """Return Y, shape (positions,), and both X, shape (2, positions), of one party's counts."""
    y, x = np.zeros(positions, complex), np.zeros((2, positions), complex)
    y[: counts.thresholds] = counts.bin_negatives
    x[0, : counts.thresholds] = counts.trapezoid_heights + 1j * counts.bin_positives
    x[1] = 2 * counts.positives * (1 + 1j * CHECK_WEIGHT)
    return y, x
