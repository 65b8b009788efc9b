"""What a release is made of: parts. Each has all of one question, and a session visits those that it has.

    AUCs, rows of each group and class, DeLong's errors    `auc_sums`
    ties that are meant                                    `tie_sums`
    groups; several classes                                `auc_sums`, `class_average`
    comparisons of models                                  `comparison_sums`
    sites                                                  `site_sums`
    patients with several rows                             `cluster_sums`
    all of it with noise                                   `epsilon_noise`, in the place of the others
    row caps, within which counts are proved               `proved_counts`

A part says which vectors a party's sketch has for it, and counts the party's rows into them; which sums of these are
released; what parties agree to; and, from the integers that come out, what a result says. `plan` puts them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Analysis, Contrast
from fhe_auc.question.score_bins import in_bins
from fhe_auc.results import delong, intervals
from fhe_auc.results.delong import Counted, Merged, PairedError
from fhe_auc.results.estimates import Comparison, GroupEstimate
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import Interval
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.computation import too_many_rows
from fhe_auc.session.plan import Parameter
from fhe_auc.sums.terms import MergedVectors, Sum

Vectors = Sequence[tuple[str, int]]  # names, with their lengths
Counts = NDArray[np.int64]
Range: TypeAlias = tuple[int, int]  # the least and the largest that a sum can be

_EXACT = 2**53  # integers that floating point holds


def most_cubic(max_rows: int) -> int:
    """Return what Q10 ≤ P·N² and Q01 ≤ N·P² are at most for P + N rows: 4·(P + N)³/27."""
    return 4 * max_rows**3 // 27


def most_pairs(max_rows: int) -> int:
    """Return what P·N is at most for P + N rows."""
    return max_rows**2 // 4


def most_units(analysis: Analysis, max_rows: int) -> int:
    """Return what so many pooled rows count together at most: each once, or as many units as their weights have."""
    if (units := analysis.units) is None:
        return max_rows
    return max_rows * (units.per + bool(analysis.at))  # at a horizon each may be rounded up


def counted_rows(data: PartyData, analysis: Analysis, max_rows: int) -> int:
    """Return what a party's rows count together: each once, or as many units as its weight has.

    Raises `InputError`, which names the party: weights are beyond their bounds, or more in all than a session may have.
    """
    if (units := analysis.units) is None or not data.rows:  # rows are gone once they are in
        return data.rows
    if data.weights is None:
        raise InputError(f"party {data.name!r}: the session asks for weights, and there are none", party=data.name)
    total, most = int(data.weights.sum()), units.most / units.per
    if not 0 <= int(data.weights.min()) <= int(data.weights.max()) <= units.most:
        raise InputError(f"party {data.name!r}: there are weights that do not lie from 0 to {most:g}", party=data.name)
    if total > most_units(analysis, max_rows):
        rows = math.ceil(total / units.per)
        raise InputError(too_many_rows(rows, max_rows, party=data.name, what="rows by weight"), party=data.name)
    return total


def table(*codes: NDArray[np.integer], shape: tuple[int, ...], weights: Counts | None = None) -> Counts:
    """Return rows, or sums of weights below 2^63, by combination of codes, (product of shape,), the last fastest."""
    index = np.ravel_multi_index(codes, shape) if len(codes) > 1 else codes[0]
    if weights is None or int(weights.max(initial=0)) * len(weights) < _EXACT:
        return np.bincount(index, weights, minlength=math.prod(shape)).astype(np.int64)
    summed = np.zeros(math.prod(shape), np.int64)
    np.add.at(summed, index, weights)
    return summed


@dataclass(frozen=True)
class Rows:
    """Some of a party's rows, or all, as parts count them at these thresholds; bins begin at `starts`."""

    data: PartyData
    grid: NDArray[np.float64]
    starts: NDArray[np.float64]
    session: bytes  # the manifest's digest
    classes: int = 2

    @cached_property
    def bins(self) -> list[Counts]:
        """The bin of each row's score, for each model."""
        return [in_bins(scores, self.starts) for scores in self.data.scores]

    @cached_property
    def cells(self) -> list[Counts]:
        """The class and the bin of each row, as one index into (classes, bins), for each model."""
        of_class = self.data.labels * np.int64(len(self.grid))
        return [of_class + bins for bins in self.bins]

    @cached_property
    def counts(self) -> list[Counts]:
        """The rows in each cell, or the sums of their weights, for each model."""
        return [table(cells, shape=(self.classes * len(self.grid),), weights=self.data.weights) for cells in self.cells]


class VarianceSums(NamedTuple):
    """Sums over the bins that an AUC's standard error is of; these may be merged ones."""

    difference: int
    q10: int
    q01: int
    tied: int  # pairs of one such bin, of those that can hold several numbers
    hidden: int  # of these, pairs that the session's bins tell apart
    squares: tuple[int, int] | None  # of such bins' positive rows, and negative rows; None where no bins are merged
    first: tuple[int, int]  # R10 and R01
    weights: tuple[int, int]  # sums of squared weights of positive and of negative rows


class AucOfSums(NamedTuple):
    """What the integers say; those of a variance only where there is an interval. Rows of one label have no AUC.

    Rows are as many as they are; with weights, `totals` are what those of each label count together.
    """

    auc: Fraction | None
    binning_error: Fraction
    positives: int
    negatives: int
    variance: VarianceSums | None = None
    alike: Fraction = Fraction(0)
    """Ties of all bins that crowd in coarse ones of comparisons, over 2PN; where there are none, of wide bins."""
    totals: tuple[int, int] | None = None

    @property
    def counted(self) -> tuple[Counted, Counted]:
        """What positive and negative rows count; the squares of weights only where there is an interval."""
        positives, negatives = totals = self.totals or (self.positives, self.negatives)
        squares = totals if self.variance is None else self.variance.weights
        return Counted(self.positives, positives, squares[0]), Counted(self.negatives, negatives, squares[1])

    @property
    def effective(self) -> tuple[float, float]:
        """Effective rows of either label."""
        positives, negatives = self.counted
        return float(positives.effective), float(negatives.effective)

    @property
    def pairs(self) -> int:
        """PN, of a positive and a negative row each."""
        return self.counted[0].total * self.counted[1].total

    @property
    def merged(self) -> Merged | None:
        """What the sums of the variance say, for `delong`; None without any."""
        if self.variance is None or self.auc is None:
            return None
        difference, q10, q01, tied, hidden, squares, first, _ = self.variance
        if squares is None:
            return Merged(difference, q10, q01, first=first)
        positives, negatives = self.counted
        of_labels = Fraction(squares[0], positives.total**2), Fraction(squares[1], negatives.total**2)
        moved = abs(2 * self.auc - 1 - Fraction(difference, self.pairs))
        of_pairs = Fraction(tied, self.pairs), Fraction(hidden, self.pairs) + 2 * self.binning_error
        return Merged(difference, q10, q01, *of_pairs, moved, of_labels, first)

    @property
    def crowded(self) -> bool:
        """Whether merged bins hide so much that the standard error is taken large."""
        return self.merged is not None and min(self.effective) >= 2 and delong.crowded(self.merged, *self.counted)


@dataclass(frozen=True)
class Errors:
    """Standard errors and intervals where rows are independent; None as `level` where no intervals are wanted.

    `plain` intervals are not made on the logit scale.
    """

    level: float | None
    plain: bool

    def of_auc(self, contrast: Contrast, own: AucOfSums) -> tuple[float | None, Interval | None]:
        """Return standard error and interval: of the cubic sums, or, without these, of the AUC alone."""
        if self.level is None or own.auc is None:
            return None, None
        method = intervals.DELONG
        if own.merged is None:
            method, error = intervals.HANLEY_MCNEIL, delong.hanley_mcneil(own.auc, own.positives, own.negatives)
        else:
            alone = delong.delong_error(own.merged, *own.counted)
            corrected = None if alone is None else self.corrected(contrast, own, alone)
            if corrected is None:
                return None, None
            error = corrected
        if self.plain and method == intervals.DELONG:
            interval = intervals.plain(own.auc, error, self.level, self.method(intervals.PLAIN_DELONG))
        elif (stretch := self.stretch(contrast, own)) is not None:
            interval = intervals.on_logit_scale(own.auc, error * stretch, self.level, self.method(method))
        else:
            interval = intervals.of_auc(own.auc, own.effective, error, self.level, method)
        return error, intervals.widened(interval, error, float(own.binning_error))

    def method(self, name: str) -> str:
        """Return the name of a method, DeLong's as it is computed here."""
        return name

    def corrected(self, contrast: Contrast, own: AucOfSums, error: float) -> float | None:
        """Return DeLong's standard error as it is here; None where there is none."""
        return error

    def stretch(self, contrast: Contrast, own: AucOfSums) -> float | None:
        """Return by how much intervals are wider than on the logit scale; None: they are those of so many rows."""
        return None

    def paired(self, pair: tuple[int, int], first: AucOfSums, second: AucOfSums, error: PairedError) -> PairedError:
        """Return the standard error of a difference as it is here."""
        return error

    def few(self, contrast: Contrast, own: AucOfSums) -> str:
        """Return a warning where intervals by errors alone are of too few; else an empty text."""
        return intervals.FEW_PLAIN if self.plain and min(own.effective) < intervals.FEW else ""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a part says in a result."""

    headline: GroupEstimate | None = None  # what an evaluation says first
    binning_error: Fraction | None = None  # its own, exactly
    estimates: tuple[GroupEstimate, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    sites: tuple[SiteSummary, ...] = ()
    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Reading:
    """A result while it is read: what the session says of it, and what parts have read, in their order."""

    analysis: Analysis
    max_rows: int
    modulus: int  # of what takes all the room there is
    parties: int = 1  # most that submit
    counted: Sequence[str] = ()
    rows: Sequence[int] = ()  # row caps of those that are counted, where counts are proved
    level: float | None = None
    plain: bool = False
    quantiles: bool = False  # a session before has found the thresholds: that is not advised again
    aucs: list[AucOfSums] = field(default_factory=list)  # of each contrast
    estimates: tuple[GroupEstimate, ...] = ()  # what `auc_sums` has said of them
    sayings: list[Callable[[Reading], Said]] = field(default_factory=list)
    """What says what each part has read, once that is accepted; `UndefinedAucError` where there is no AUC."""
    errors: Errors = field(init=False)

    def __post_init__(self) -> None:
        self.errors = Errors(self.level, self.plain)


class Agreed(NamedTuple):
    """What parts look at of a plan."""

    analysis: Analysis
    interval: bool
    authenticated: bool
    helpers: int
    parties: int
    max_rows: int
    primes: int
    caps: tuple[int, ...]


class ReleasePart:
    """A part of a release, which says nothing, as yet."""

    unproved: ClassVar[str] = ""
    """What rests on entries of the sketch that are no counts, where counts are proved; empty where nothing does."""

    @property
    def vectors(self) -> Vectors:
        """Vectors of a party's sketch."""
        return ()

    @property
    def merged(self) -> Sequence[MergedVectors]:
        """Merged vectors, of these."""
        return ()

    @property
    def sums(self) -> Sequence[Sum]:
        """What is released."""
        return ()

    def check_plan(self, plan: Agreed) -> None:
        """Raise `CapacityError` where a plan with this part does not fit together."""

    def ranges(self, max_rows: int, parties: int) -> Sequence[Range | None]:
        """Return the range of each sum of so many pooled rows; None for one that takes all the room there is."""
        return [None for _ in self.sums]

    def terms(self) -> Sequence[Parameter]:
        """Return what parties agree to."""
        return ()

    def check_rows(self, data: PartyData, index: int | None) -> None:
        """Raise `InputError` where a party, the one of this index if it is named, cannot take part with its rows."""

    def of_rows(self, rows: Rows) -> Sequence[Counts]:
        """Return the vectors of rows, if they add up over rows."""
        return ()

    def of_party(self, rows: Rows, counts: Counts, max_rows: int, modulus: int) -> Sequence[Counts]:
        """Return the other vectors, of all rows of a party; `counts` are those of all rows, (models, classes, bins)."""
        return ()

    def read_sums(self, sums: Sequence[int], reading: Reading) -> None:
        """Read these sums, and add what says something of them; raise `ResultCheckError` where they cannot be.

        A part may change what those before it have read.
        """
