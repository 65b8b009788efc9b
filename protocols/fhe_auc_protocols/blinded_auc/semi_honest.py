"""AUC under CKKS with an aggregator that follows the protocol but is curious.  [FHE] §IV-C, repacked and mended.

One run, two classes with one factor:

    class 0   X = T_k + i·p_k       Y = F_k      total  num + i·tie
    class 1   X = 2P·(1 + i·κ)      Y = F_k      total  den·(1 + i·κ)      since Σ F_k = N

T, p, F and the totals are those of `fhe_auc.rows.counts` and `fhe_auc.metrics.trapezoid`; P and N are the rows of
either label. The second imaginary part is redundancy: a total beyond the modulus Q is off by multiples of Q in its real
and its imaginary part, and no two of them keep Im = κ·Re, as κ, a cube root, is not rational. So a result beyond
capacity is refused. Parties decrypt r·(num + i·tie) and r·den·(1 + iκ) and divide; r is the aggregator's secret. Who
learns what, and who must not collude: docs/security/ckks.md.

**Published digits**: those that the thresholds leave, and no more. An aggregator that deviates can put any function of
one party's counts into the number that all parties accept, since nothing checks what it computes. All 53 bits of a
float would hold seven counts. With a binning error e that parties have read, they publish

    decimals    the most, from 1 to 4, with 10^-decimals >= e
    AUC         rounded to these
    bound       1.5·10^-decimals: e, and half a unit for the rounding; 0.55 where e is above a tenth

so one of `PUBLISHED` pairs, or one of three errors: fewer than 14 bits a session (`PUBLISHED_BITS`), of each party that
tells its own, as parties do not compare what they were given. Nothing else that they publish depends on what the
aggregator has computed. Parties themselves read all digits.
"""

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
from fhe_auc_protocols.blinded_auc.blinded_plan import CHECK_WEIGHT
from fhe_auc_protocols.blinded_auc.blinded_protocol import BlindedAuc, BlindedTask
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import packed
from fhe_auc_protocols.blinded_auc.result_check import Recovered, recover

_MOST_DECIMALS = 4
_LEAST_LEFT = 0.5  # at one decimal, where the binning error is above a tenth: none is larger

PUBLISHED = sum(10**decimals + 1 for decimals in (1, *range(1, _MOST_DECIMALS + 1)))
"""How many pairs of an AUC and a bound there are."""

PUBLISHED_BITS = math.log2(PUBLISHED + 3)  # what is no number has one of three causes: `result_check.recover`
"""What one party's published numbers of a session can carry at most."""


def published(recovered: Recovered) -> tuple[Recovered, int]:
    """Return what everybody may be told of what a party has read, rounding in the bound; and how many decimals."""
    decimals = _MOST_DECIMALS
    while decimals > 1 and 10.0**-decimals < recovered.binning_error:
        decimals -= 1
    unit = 10.0**-decimals
    left = unit if recovered.binning_error <= unit else _LEAST_LEFT
    # Of both, float64 has numbers nearby, and a zero with a sign, which would tell one from the other.
    return Recovered(abs(round(recovered.auc, decimals)), round(left + unit / 2, _MOST_DECIMALS + 1)), decimals


_BITS = math.ceil(PUBLISHED_BITS)
_ROUNDED = (
    f"the AUC is rounded: the aggregator, if it lies, chooses its digits unnoticed, up to {_BITS} bits of "
    "one party's counts a session; parties have read all digits: assume that they can work out how many pooled rows "
    "have each label; only differential privacy (as of dpauc-laplace) bounds what a result tells"
)


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

    def read_result(self, decrypted: Sums, counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Return AUC and binning error, rounded; errors as `fhe_auc_protocols.blinded_auc.result_check.recover`."""
        told, decimals = published(recover(decrypted, self.plan))
        return self.evaluation(told, len(counted), _ROUNDED, verified=False, decimals=decimals)


class SemiHonest(BlindedAuc):
    """Plug-in ``semi-honest``."""

    task = SemiHonestTask
    name = "semi-honest"
    summary = (
        f"CKKS; the aggregator sees ciphertexts; a liar chooses the AUC, and so reads up to {_BITS} bits of counts"
    )
    trust = (
        "the aggregator computes what it should, else it chooses the AUC and can put up to "
        f"{_BITS} bits of one party's counts into it, unnoticed; it does not collude with a party or the key holder"
    )


def vectors(counts: Counts, positions: int) -> tuple[Slots, Slots]:
    """Return Y, shape (positions,), and both X, shape (2, positions), of one party's counts."""
    y, x = np.zeros(positions, complex), np.zeros((2, positions), complex)
    y[: counts.thresholds] = counts.bin_negatives
    x[0, : counts.thresholds] = counts.trapezoid_heights + 1j * counts.bin_positives
    x[1] = 2 * counts.positives * (1 + 1j * CHECK_WEIGHT)
    return y, x
