"""AUC under CKKS with an aggregator that follows the protocol but is curious.  [FHE] §IV-C, repacked and mended.

One ciphertext per party (block), two classes:

    class 0   X = T_k + i·p_k       Y = F_k      total  num + i·tie
    class 1   X = 2P·(1 + i·κ)      Y = F_k      total  den·(1 + i·κ)      since Σ F_k = N

T, p, F and the totals are those of `fhe_auc.rows.counts` and `fhe_auc.metrics.trapezoid`; P and N are the rows of
either label. The second imaginary part is redundancy: no wrap-around of the modulus keeps Im = κ·Re, so a result beyond
capacity is refused. Parties decrypt r·(num + i·tie) and r·den·(1 + iκ) and divide; r is the aggregator's secret. Who
learns what, and who must not collude: docs/security/protocol.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.ckks import Slots
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.counts import Counts
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import options as options_of
from fhe_auc_protocols.blinded_auc.packing import CHECK_WEIGHT
from fhe_auc_protocols.blinded_auc.protocol import BlindedAuc, BlindedTask
from fhe_auc_protocols.blinded_auc.result_check import recover
from fhe_auc_protocols.blinded_auc.workload import Workload

_CLASSES = 2


class SemiHonest(BlindedAuc):
    """Plug-in ``semi-honest``."""

    name = "semi-honest"
    options = options_of.SemiHonest
    summary = "CKKS; the aggregator sees ciphertexts only and is trusted to follow the protocol"
    trust = "the aggregator computes what it should and does not collude with a party"

    def workload(self, request: Request) -> Workload:
        """Return what the parameters must carry; there are no options."""
        return Workload(
            thresholds=len(request.thresholds),
            parties=len(request.parties),
            max_rows=request.max_rows,
            min_rows=request.min_rows,
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
        if self.plan.workload.is_split or self.plan.workload.classes != _CLASSES:
            raise InputError("the session's manifest is not one for whole counts in two classes")

    def encode(self, common_secret: bytes) -> list[Slots]:
        """Return the packed class vectors of this party's counts, one a block; the common secret is not used."""
        return self.plan.packing.pack(*class_vectors(self.counts()))

    def read(self, decrypted: Slots, counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Return AUC and binning error; errors as `fhe_auc_protocols.blinded_auc.result_check.recover`."""
        return self.evaluation(recover(decrypted, self.plan), len(counted), verified=False)


def class_vectors(counts: Counts) -> tuple[Slots, Slots]:
    """Return X and Y of one party, each of shape (2, m), from its counts at m thresholds."""
    x = np.empty((2, counts.thresholds), complex)
    x[0] = counts.trapezoid_heights + 1j * counts.bin_positives
    x[1] = 2 * counts.positives * (1 + 1j * CHECK_WEIGHT)
    y = np.tile(counts.bin_negatives.astype(complex), (2, 1))
    return x, y
