"""The AUC from random pairs of a positive and a negative row, each compared once and with noise ([USTAT] §5).

Labels are public, so that pairs are of a positive row with a negative one: each of P public pairings matches the m rows
of the smaller class with m different ones of the L rows of the larger class, all choices being as likely. The paper
pairs any two of n users, about m L/n of which pairs would be of both classes, and the others of no use: for the same ε
its variance would be n/L times as large, twice as large where classes are balanced, 1.1 times where one is a tenth.

**The law of an answer** is the paper's variant for kernels of few values: randomised response over f in {0, ½, 1}, the
positive's score being below, equal or above. A step's budget is ε/P, as a row is in at most P pairs:

    y = 2f + z mod 3        z = 0 with probability 1 - 2β/3, else 1 or 2 with β/3 each        (β/3)·e^(ε/P) >= 1 - 2β/3

z is an entry, drawn uniformly, of a table of M, which has ceil(M / (e^(ε/P) + 2)) each of 1 and 2. Probabilities are so
rounded to the private side; beyond ln(M - 2), about 8, a larger budget changes nothing. As E[y/2] = (1 - β)·f + β/2,
(y/2 - β/2) / (1 - β) is an unbiased estimate of f; of variance β/6 / (1 - β)² where f is ½, (5β/12 - β²/4) / (1 - β)²
where it is 0 or 1. Their mean over all P·m pairs is the estimate of the AUC, unbiased given the rows.

**Its mean squared error**, against the AUC that rows are drawn from, where ζ₂ = Var f, ζ_s and ζ_l are the variances of
E[f | row] over rows of the smaller and the larger class, and σ² is the mean variance of a step:

    MSE = (ζ₂ + (P-1) (ζ₂/L + (1 - 1/L) ζ_s + (m-1)/L ζ_l) + σ²) / (P m)

which is theorem 5 for two classes: an answer meets in another pairing its own pair with probability 1/L, one of its
row in the smaller class otherwise, and one of its row in the larger class with probability (m-1)/L. Laplace noise of
scale P/ε has σ² = 2 (P/ε)²: in balanced classes, m = n/2, it adds 4P/(n ε²), where the theorem prints 2P/(n ε²).

Against the rows' own AUC it is at most Var y' / (P m), y' the estimate of one random pair: within a pairing, answers of
different rows are not positively correlated, as f falls with the negative's score whatever the positive. The variance
is estimated with one answer more of each extreme, so that five wins of five are not certain.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import encode
from fhe_auc_protocols.u_statistics.mechanisms import AucEstimate, Floats, Integers

_VALUES = np.array([0, 0.5, 1])


class PairResponse:
    """The law of a step, from a table of noise of so many entries; `InputError`: epsilon is too small for them."""

    def __init__(self, epsilon: float, entries: int, pairings: int = 1) -> None:
        others = math.ceil(entries / (math.exp(epsilon / pairings) + 2))
        zeros = entries - 2 * others
        if zeros <= others:
            least = pairings * math.log(entries / ((entries - 1) // 3) - 2)
            raise InputError(f"epsilon = {epsilon:g} is too small: at least {least + 5e-5:.4f} for {pairings} pairings")
        self.table = np.repeat([0, 1, 2], [zeros, others, others])
        self.beta, self.kept = 3 * others / entries, (zeros - others) / entries  # and 1 - β
        self.variances: Floats = np.array([5 / 12 - self.beta / 4, 1 / 6, 5 / 12 - self.beta / 4])
        """Of the estimate from one answer, given f = 0, ½ or 1; shape (3,)."""
        self.variances *= self.beta / self.kept**2

    def auc(self, tally: Integers) -> AucEstimate:
        """Return what counts of the answers 0, 1 and 2 say, shape (3,), of one at least."""
        pairs, bound = int(tally.sum()), 1 / 4 + float(self.variances.max())
        estimates = (_VALUES - self.beta / 2) / self.kept
        auc = float(tally @ estimates) / pairs
        softened = tally + np.array([1, 0, 1])  # few answers may all be alike
        middle = float(softened @ estimates) / (pairs + 2)
        spread = float(softened @ (estimates - middle) ** 2) / (pairs + 1)
        variance = min(max(spread, float(self.variances.min())), bound)
        tied = (int(tally[1]) + 1) / (pairs + 2)  # for the error alone, as above
        ties_error = math.sqrt(tied * (1 - tied) / pairs) / self.kept
        ties = (int(tally[1]) / pairs - self.beta / 3) / self.kept
        return AucEstimate(auc, bound / pairs, math.sqrt(variance / pairs), ties / 2, ties_error / 2)


class Pairs(NamedTuple):
    """Pairs, pairing after pairing: the party and the row there of each one's positive and negative; shape (pairs,)."""

    positive_party: Integers
    positive: Integers
    negative_party: Integers
    negative: Integers


def matched(session: bytes, sizes: Sequence[tuple[int, int]], pairings: int) -> Pairs:
    """Return a session's pairs, from how many positives and negatives each party has.

    All who know these numbers find the same pairs, whatever their version of numpy.
    """
    classes = np.array(sizes).T
    totals = classes.sum(axis=1).tolist()
    rows = np.empty((2, pairings, min(totals)), np.int64)  # counted one party after the other
    for number in range(pairings):
        key = hashlib.sha256(encode(("ustat-pairs", session, tuple(sizes), number))).digest()
        drawn = KeyStream(key).words(max(totals)).argsort(kind="stable")[: min(totals)]
        rows[:, number] = (np.arange(min(totals)), drawn)[:: 1 if totals[0] <= totals[1] else -1]
    found = []
    for own, of_class in zip(classes, rows.reshape(2, -1), strict=True):
        ends = own.cumsum()
        party = ends.searchsorted(of_class, side="right")
        found += [party, of_class - (ends - own)[party]]
    return Pairs(*found)
