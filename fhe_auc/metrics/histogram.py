"""`Histogram`: positive and negative rows in each bin of scores, and what becomes of counts with privacy noise.

Where rows have weights w, counts are Σw, and metrics take them as they take counts: a row of weight 2 is two rows. A
standard error is √Σ(w·ψ)²/W, with W = Σw and ψ the influence that a row of weight 1 has times W, its mean taken off: it
is the same for rows of one label in one bin, so that Σw² of each bin, `squares`, is enough. Without weights w² = w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError, UndefinedAucError
from fhe_auc.question.score_bins import bins_of, numbers
from fhe_auc.rows.party_data import PartyData

Floats: TypeAlias = NDArray[np.float64]


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
    edge, as in `numpy.histogram`. The last two edges may be equal: that bin is the single score. With weights the two
    counts are Σw; otherwise `squares` and `rows` are None.

    All arrays are finite and read-only. With privacy noise counts are no integers and may be negative: `cleaned` says
    what the metrics then use. ``repr`` shows the number of bins only: a party's counts are its secret. ``==`` is
    identity.

    Raises `InputError` if the arrays cannot be that; the message names the array, the position (from 0) and the value.
    """

    edges: NDArray[np.float64]  # ascending, both ends included, shape (B + 1,)
    positives: NDArray[np.float64] = field(repr=False)  # rows of label 1 in each bin, shape (B,)
    negatives: NDArray[np.float64] = field(repr=False)  # of label 0
    squares: NDArray[np.float64] | None = field(repr=False, default=None)  # Σw² of label 1 and 0, shape (2, B)
    rows: NDArray[np.float64] | None = field(repr=False, default=None)  # how many rows these are, shape (2, B)
    unknown: NDArray[np.float64] | None = field(repr=False, default=None)
    """Rows that were censored before the horizon, shape (B,), which do not count; None: there is no horizon."""

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
        for name, shape in (("squares", (2, self.bins)), ("rows", (2, self.bins)), ("unknown", (self.bins,))):
            if (given := getattr(self, name)) is not None:
                if np.shape(given) != shape:
                    raise InputError(f"histogram: {name} must be of shape {shape}, not {np.shape(given)}")
                object.__setattr__(self, name, _finite_vector(np.ravel(given), name).reshape(shape))

    def __repr__(self) -> str:
        return f"Histogram(bins={self.bins})"

    @classmethod
    def from_rows(cls, data: PartyData, edges: ArrayLike) -> Histogram:
        """Count a party's rows, of which each counts once, in bins of ascending edges, shape (B + 1,).

        Scores beyond the ends are in the end bins. Raises `InputError` if they are no edges.
        """
        edges = _finite_vector(edges, "edges")
        bins = len(edges) - 1
        empty = cls(edges, np.zeros(bins), np.zeros(bins))
        batches = ((batch, bins_of(batch.y_score, empty.edges[:-1])) for batch in data.batches())
        return cls(empty.edges, *np.sum([by_cell(batch, at, bins) for batch, at in batches], axis=0))

    @property
    def bins(self) -> int:
        """Number of bins B."""
        return len(self.edges) - 1

    @property
    def counts(self) -> NDArray[np.float64]:
        """Rows of either class in each bin, shape (B,)."""
        return self.positives + self.negatives

    @property
    def sides(self) -> NDArray[np.float64]:
        """Both counts, of label 1 and 0, shape (2, B)."""
        return np.stack([self.positives, self.negatives])

    @property
    def spread(self) -> NDArray[np.float64]:
        """Σw² of label 1 and 0, shape (2, B), on which standard errors rest; without weights the counts."""
        return self.sides if self.squares is None else self.squares

    @property
    def real(self) -> NDArray[np.float64]:
        """Rows of label 1 and 0, however much they count, shape (2, B)."""
        return self.sides if self.rows is None else self.rows

    @property
    def effective(self) -> tuple[float, float]:
        """How many rows of equal weight say as much, of label 1 and 0: (Σw)²/Σw² (Kish); without weights the rows."""
        if self.squares is None:
            return float(self.positives.sum()), float(self.negatives.sum())
        ones, zeros = np.square(self.sides.sum(axis=1)) / np.maximum(self.squares.sum(axis=1), 1e-300)
        return float(ones), float(zeros)

    def merged(self, starts: NDArray[np.intp]) -> Histogram:
        """Return the histogram of merged bins, each of which begins with one of these; the first is 0."""
        ends = self.edges[np.append(starts, self.bins)]
        return self.remade(ends, lambda each: np.add.reduceat(each, starts, axis=-1))

    def remade(
        self, edges: NDArray[np.float64], make: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> Histogram:
        """Return the histogram with these edges, and what `make` makes of each array of its bins, shape (…, B)."""
        of_weights = (None if each is None else make(each) for each in (self.squares, self.rows, self.unknown))
        return Histogram(edges, *make(self.sides), *of_weights)

    def mirrored(self) -> Histogram:
        """Return the histogram of labels and scores turned round, in bins from 0, 1, 2 on."""
        turned = (None if each is None else each[::-1, ::-1] for each in (self.squares, self.rows))
        edges = np.arange(self.bins + 1, dtype=np.float64)
        return Histogram(edges, self.negatives[::-1], self.positives[::-1], *turned)

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
        return Histogram(self.edges, without_negatives(self.positives), without_negatives(self.negatives))


def by_cell(batch: PartyData, at: NDArray[np.int64], cells: int) -> NDArray[np.float64]:
    """Return rows of label 1 and 0 in each of so many cells, `at` which they are, shape (2, cells).

    With weights, in units, shape (7, cells): Σw of label 1 and 0, Σw², rows, and rows of weight 0 of either label.
    """
    sides = batch.y_true, ~batch.y_true
    if batch.weights is None:
        return np.stack([np.bincount(at[side], minlength=cells) for side in sides]).astype(np.float64)
    weights = batch.weights.astype(np.float64)
    powers = (weights, weights**2, weights > 0)
    found = [np.bincount(at[side], each[side], cells) for each in powers for side in sides]
    return np.stack([*found, np.bincount(at, weights == 0, cells)])


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


def without_negatives(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return counts as `Histogram.cleaned` makes them; zeros where they add up to 0 or less."""
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
    blocks: list[tuple[float, float, int]] = []
    for mean, size in zip(values.tolist(), weights.tolist(), strict=True):
        length = 1
        while blocks and blocks[-1][0] >= mean:
            before, many, others = blocks.pop()
            mean = (mean * size + before * many) / (size + many)
            size, length = size + many, length + others
        blocks.append((mean, size, length))
    return np.repeat([mean for mean, _, _ in blocks], np.array([length for _, _, length in blocks], np.intp))


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
