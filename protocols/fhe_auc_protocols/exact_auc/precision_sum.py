"""Average precision of the first model over all rows, where parties know how many rows lie at or above each threshold.

    Σ p_k·TP_k/M_k = P·AP, TP_k = P_{≥k}

with 2^b·p_k/M_k put in by each party for its own rows, as nobody can divide under encryption. M_k is of the session
before (docs/security/verified.md); it is not in the manifest, and the aggregator does not learn it. It must be of all
parties of this session, and of nobody else: of another list each party could have been given another M_k.

A party also puts in a flag: 1 if its rows at or above any threshold are not as many as it has counted then, or it was
not counted, or knows nothing of that session. The sum is released all the same, and where some parties put in nothing
it would be one more equation about the others. So who sets its flag puts in uniform numbers, and the sum is uniform. (A
hash of pooled counts in place of the flags would tell more: which few rows of a site have changed.)

The vector "precision" of a party's sketch has its p_k, each times 2^b/M_k, and then the flag.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import ResultCheckError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.plan import Parameter
from fhe_auc.sums.terms import Factor, Part, Sum
from fhe_auc_protocols.exact_auc.auc_sums import vector
from fhe_auc_protocols.exact_auc.release_part import (
    Counts,
    Reading,
    ReleasePart,
    Rows,
    Said,
    Saying,
    Vectors,
    each_of,
    sum_of,
)

_VECTOR, _FLAG = "precision", "rows changed"
_LEAST_BITS, _MOST_BITS = 12, 40
_OTHER_ROWS = (
    "there is no average precision: not just these parties, with the same rows, are in the session before that is named"
)


@dataclass(frozen=True)
class PrecisionSum(ReleasePart):
    """That of the average precision over so many bins."""

    bins: int
    unproved = "average precision"

    @property
    def vectors(self) -> Vectors:
        """Its vectors, with their lengths."""
        return [(_VECTOR, self.bins), (_FLAG, 1)]

    @property
    def sums(self) -> Sequence[Sum]:
        """What is released."""
        positives = vector(0, 0, 1)
        at_or_above = Factor((Part(positives), Part(positives, "above")))
        precision = sum_of("average precision", each_of([_VECTOR]), at_or_above)
        return [precision, sum_of(_FLAG, each_of([_FLAG]))]

    def least_modulus(self, max_rows: int) -> int:
        """Return how large T must be for b to be large enough."""
        return max_rows**2 << _LEAST_BITS

    def terms(self) -> Sequence[Parameter]:
        """Return what parties agree to."""
        why = "by each site's result of the session before; and how many sites have other rows than then"
        return [Parameter("average precision", "yes", why)]

    def of_party(self, rows: Rows, counts: Counts, max_rows: int, modulus: int) -> Sequence[Counts]:
        """Return a party's vectors; with its flag set, for `hidden` only."""
        return [self.entries(rows.data, counts[0], max_rows, modulus)]

    def entries(self, data: PartyData, in_bins: Counts, max_rows: int, modulus: int) -> Counts:
        """Return both, of rows by label and bin, (2, bins)."""
        negatives, positives = in_bins
        before = data.before
        if before is None or len(before.rows_above) != self.bins:
            return np.append(np.zeros_like(positives), 1)
        rows_above = np.maximum(np.array(before.rows_above, np.int64), 1)
        share = ((2 << precision_bits(max_rows, modulus)) + rows_above) // (2 * rows_above)  # 2^b/M_k, rounded
        own = (negatives + positives)[::-1].cumsum()[::-1]
        changed = data.name not in before.parties or before.own != tuple(own.tolist())
        return np.append(positives * share, int(changed))

    def hidden(self, entries: Residues, prime: int) -> Residues:
        """Return the vectors modulo a prime; with the flag set uniform, and so, as TP_0 = P is not 0, is the sum."""
        if entries[-1] == 0:
            return entries
        return np.append(modular.uniform(KeyStream(secrets.token_bytes(32)), prime, self.bins), entries[-1])

    def read(self, sums: Sequence[int], reading: Reading) -> Saying | None:
        """Read the average precision, to P/2^(b + 1), if a row is positive; `ResultCheckError`: it is none."""
        positives = reading.aucs[0].positives
        (sum_, changed), scale = sums, 1 << precision_bits(reading.max_rows, reading.modulus)
        if not (0 <= changed <= reading.parties and (changed or 0 <= sum_ <= positives * (scale + positives))):
            raise ResultCheckError(
                "the result fails its check, so no number is given: it is not an average precision", check="range"
            )
        return AveragePrecision(min(Fraction(sum_, scale * positives), Fraction(1)), changed) if positives else None


class AveragePrecision(NamedTuple):
    """What the sums say of it."""

    value: Fraction
    """Where no rows have changed: it means nothing otherwise."""
    changed: int
    """How many parties' rows are others than the session before has counted."""

    def said(self, reading: Reading) -> Said:
        """Return it, if nothing has changed."""
        if self.changed > 0 or not reading.same:
            return Said(warnings=(_OTHER_ROWS,))
        return Said(average_precision=float(self.value))


def precision_bits(max_rows: int, modulus: int) -> int:
    """Return b: the sum, at most P + P²/2^(b + 1) times 2^b, stays below half of T."""
    return min(_MOST_BITS, (modulus // (4 * max_rows)).bit_length() - 1)
