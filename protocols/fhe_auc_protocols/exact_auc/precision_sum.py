"""Average precision of the first model over all rows, where parties know how many rows lie at or above each threshold.

    Σ p_k·TP_k/M_k = P·AP, TP_k = P_{≥k}

with 2^b·p_k/M_k put in by each party for its own rows, as nobody can divide under encryption. Parties know M_k, the
pooled rows at or above threshold k, from the session that has found the thresholds; it is not in the manifest, and the
aggregator does not learn it.

The vector "precision" of a party's sketch has its p_k, each times 2^b/M_k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, ResultCheckError
from fhe_auc.rows.party_data import PartyData
from fhe_auc.sums.terms import Factor, Part, Sum
from fhe_auc_protocols.exact_auc.auc_sums import each_of, sum_of, vector

_VECTOR = "precision"
_LEAST_BITS, _MOST_BITS = 12, 40


@dataclass(frozen=True)
class PrecisionSum:
    """That of the average precision over so many bins; with 0 there is none."""

    bins: int

    @property
    def vectors(self) -> list[tuple[str, int]]:
        """Its vector, with the length."""
        return [(_VECTOR, self.bins)] if self.bins else []

    @property
    def sums(self) -> list[Sum]:
        """What is released."""
        positives = vector(0, 0, 1)
        at_or_above = Factor((Part(positives), Part(positives, "above")))
        return [sum_of("average precision", each_of([_VECTOR]), at_or_above)] if self.bins else []

    def least_modulus(self, max_rows: int) -> int:
        """Return how large T must be for b to be large enough."""
        return max_rows**2 << _LEAST_BITS if self.bins else 1

    def entries(self, data: PartyData, positives: NDArray[np.int64], max_rows: int, modulus: int) -> NDArray[np.int64]:
        """Return a party's vector, of its positive rows in each bin; raise `InputError` where it does not know M_k."""
        if len(data.rows_above) != self.bins:
            raise InputError(
                f"party {data.name!r} does not know how many rows lie at or above each threshold: give its result "
                "of the session that has found them (boundaries)"
            )
        rows_above = np.maximum(np.array(data.rows_above, np.int64), 1)
        share = ((2 << precision_bits(max_rows, modulus)) + rows_above) // (2 * rows_above)  # 2^b/M_k, rounded
        return np.asarray(positives * share)

    def read(self, sums: Sequence[int], positives: int, max_rows: int, modulus: int) -> Fraction | None:
        """Return the average precision, but for P/2^(b + 1) at most; None without one, or where no row is positive.

        Raises `ResultCheckError`: it cannot be that of so many positive rows.
        """
        if not sums:
            return None
        (total,), scale = sums, 1 << precision_bits(max_rows, modulus)
        if not 0 <= total <= positives * (scale + positives):
            raise ResultCheckError(
                "the result fails its check, so no number is given: it is not an average precision", check="range"
            )
        return min(Fraction(total, scale * positives), Fraction(1)) if positives else None


def precision_bits(max_rows: int, modulus: int) -> int:
    """Return b: the sum, at most P + P²/2^(b + 1) times 2^b, stays below half of T."""
    return min(_MOST_BITS, (modulus // (4 * max_rows)).bit_length() - 1)
