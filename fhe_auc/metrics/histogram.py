"""`Histogram`: positive and negative rows in each bin of scores, and what becomes of counts with privacy noise."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError, UndefinedAucError
from fhe_auc.question.score_bins import bins_of, numbers
from fhe_auc.rows.party_data import PartyData


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric from the histogram, and the range in which that of the rows lies, as scikit-learn computes it.

    The ends are the worst that rows can do inside their bins. They say nothing about privacy noise in the counts.
    """

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The least w so that the rows' own metric lies in ``value ± w``."""
        return max(self.high - self.value, self.value - self.low)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Histogram:
    """Rows of each class in each of B bins of scores, of one party or pooled.

    Bin i holds the scores from ``edges[i]`` up to, but not including, ``edges[i + 1]``; the last bin includes its upper
    edge, as in `numpy.histogram`. The last two edges may be equal: that bin is the single score.

    All arrays are finite and read-only. With privacy noise counts are no integers and may be negative: `cleaned` says
    what the metrics then use. ``repr`` shows the number of bins only: a party's counts are its secret. ``==`` is
    identity.

    Raises `InputError` if the arrays cannot be that; the message names the array, the position (from 0) and the value.
    """

    edges: NDArray[np.float64]  # ascending, both ends included, shape (B + 1,)
    positives: NDArray[np.float64] = field(repr=False)  # rows of label 1 in each bin, shape (B,)
    negatives: NDArray[np.float64] = field(repr=False)  # of label 0

    def __post_init__(self) -> None:
        for name in ("edges", "positives", "negatives"):
            object.__setattr__(self, name, _finite_vector(getattr(self, name), name))
        if len(self.edges) < 2:
            raise InputError(f"histogram: needs at least 2 edges, both ends included, not {len(self.edges)}")
        rises = np.diff(self.edges) > 0
        rises[-1] |= self.edges[-1] == self.edges[-2]
        if not rises.all():
            position = int(np.argmin(rises)) + 1
            raise InputError(
                f"histogram: edge {position} is {self.edges[position]} after {self.edges[position - 1]}; edges must "
                "ascend (the last two may be equal)"
            )
        for name in ("positives", "negatives"):
            if len(getattr(self, name)) != self.bins:
                raise InputError(f"histogram: {self.bins} bins, but {len(getattr(self, name))} {name}")
            with np.errstate(over="ignore"):
                if not np.isfinite(np.abs(getattr(self, name)).sum()):
                    raise InputError(f"histogram: the sum of the {name} is too large for float64")

    def __repr__(self) -> str:
        return f"Histogram(bins={self.bins})"

    @classmethod
    def from_rows(cls, data: PartyData, edges: ArrayLike) -> Histogram:
        """Count a party's rows in bins of ascending edges, shape (B + 1,).

        Scores beyond the ends are in the end bins. Raises `InputError` if they are no edges.
        """
        edges = _finite_vector(edges, "edges")
        bins = len(edges) - 1
        empty, counted = cls(edges, np.zeros(bins), np.zeros(bins)), np.zeros((2, bins), np.int64)
        for batch in data.batches():
            of_both = bins_of(batch.y_score, empty.edges[:-1]) + bins * batch.y_true.astype(np.int64)
            counted += np.bincount(of_both, minlength=counted.size).reshape(counted.shape)
        negatives, positives = counted.astype(np.float64)
        return cls(empty.edges, positives, negatives)

    @property
    def bins(self) -> int:
        """Number of bins B."""
        return len(self.edges) - 1

    @property
    def counts(self) -> NDArray[np.float64]:
        """Rows of either class in each bin, shape (B,)."""
        return self.positives + self.negatives

    @property
    def centres(self) -> NDArray[np.float64]:
        """Middle of each bin, shape (B,): the score that metrics of probabilities take for its rows.

        Where it would round to the upper edge, which the bin does not include, it is the lower one.
        """
        lower, upper = self.edges[:-1], self.edges[1:]
        middles = lower + (upper - lower) / 2
        return np.where(middles < upper, middles, lower)

    def bin_of(self, threshold: float) -> int:
        """Return the bin whose lower edge is the threshold, or the same number; raise `InputError` if there is none."""
        value = np.array([threshold])
        for same in (self.edges[:-1] == value, numbers(self.edges[:-1]) == numbers(value)):
            if same.any():
                return int(same.argmax())
        raise InputError(f"threshold {threshold:g} is no edge of the histogram, so rows at it were not counted apart")

    def cleaned(self) -> Histogram:
        """Return the nearest histogram that rows could have: no count negative, the totals P and N as they are.

        The one clean-up of noisy counts, and what every metric starts from. The rows below each edge are replaced by
        the nearest numbers, by least squares, that lie between 0 and the total and do not fall from edge to edge
        (isotonic regression). Of all edges the largest error is then no larger than before, so that AUC, precision and
        recall, which rest on these sums, lose nothing; setting negative counts to 0 instead was measured to shift the
        AUC by several times its noise. Where noise has made a total 0 or less, that class is empty afterwards, and
        metrics that need it raise. Counts without negative entries stay as they are.
        """
        if (self.positives >= 0).all() and (self.negatives >= 0).all():
            return self
        return Histogram(self.edges, _without_negatives(self.positives), _without_negatives(self.negatives))


def with_both_labels(histogram: Histogram) -> Histogram:
    """Return the cleaned histogram; raise `UndefinedAucError` unless it has positive and negative rows."""
    usable = histogram.cleaned()
    for side, label in ((usable.positives, "positive"), (usable.negatives, "negative")):
        if not side.sum() > 0:
            raise UndefinedAucError(f"the histogram holds no {label} row, so there is no AUC; add rows of both labels")
    return usable


def bin_index(edges: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the bin of each of a curve's own points; those beyond the ends belong to the end bins."""
    return np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, len(edges) - 2)


def _without_negatives(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    total = counts.sum()
    if total <= 0:
        return np.zeros_like(counts)
    inner = np.cumsum(counts)[:-1]
    return np.diff(np.clip(rising(inner, np.ones_like(inner)), 0.0, total), prepend=0.0, append=total)


def rising(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest numbers, by weighted least squares, of which none is below the one before (isotonic).

    Where numbers fall, neighbours are pooled to their mean until means rise (Ayer et al., Ann. Math. Stat. 26, 1955).
    Weights are above 0.
    """
    means: list[float] = []
    sizes: list[float] = []
    lengths: list[int] = []
    for mean, size in zip(values.tolist(), weights.tolist(), strict=True):
        length = 1
        while means and means[-1] >= mean:
            before, many = means.pop(), sizes.pop()
            mean = (mean * size + before * many) / (size + many)
            size, length = size + many, length + lengths.pop()
        means.append(mean)
        sizes.append(size)
        lengths.append(length)
    return np.repeat(np.array(means, np.float64), np.array(lengths, np.intp))


def _finite_vector(values: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"histogram: {name} must be one-dimensional numbers ({error})") from None
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise InputError(
            f"histogram: {name} must be one-dimensional numbers, not of type {array.dtype} and shape {array.shape}"
        )
    vector: NDArray[np.float64] = array.astype(np.float64)
    if not np.isfinite(vector).all():
        position = int(np.argmin(np.isfinite(vector)))
        raise InputError(f"histogram: entry {position} of {name} is {vector[position]}; it must be finite")
    vector.flags.writeable = False
    return vector
