"""Counts as a party submits them where it proves them: as digits, with the rest of the sketch behind.

Proved is, of each model: the counts of all rows, with one entry more for what is left of the party's row cap, add up to
the cap. Where there are groups, those of the first column's levels are submitted, and all rows' counts are their sums;
every further column's levels add up to the same, for each class and bin. A further model's counts of each group and
class are as many as the first one's. In each draw of `tie_sums` rows of either sign, of a label, are together as many
as there are in the wide bins of a bucket.

A public linear map makes the sketch of what is submitted. The aggregator applies it to the sum of what it has, and the
helper to the sum of the pads. All else of a session is as without proofs: authenticators are of the sketch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base import quantities
from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.input_proofs.statement import PROOFS, Equations, Statement
from fhe_auc.question.analysis import Analysis
from fhe_auc.rlwe.modular import Residues, total
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.plan import Parameter
from fhe_auc_protocols.exact_auc.release_part import Agreed, ReleasePart
from fhe_auc_protocols.exact_auc.tie_sums import DRAWS, TieSums

Terms = tuple[NDArray[np.int64], NDArray[np.int64], int]  # counts, by index; the equation of each; their sign


@dataclass(frozen=True)
class RowCaps(ReleasePart):
    """The row cap of each party, in the manifest's order, or one for all; parties prove that they keep to it."""

    caps: tuple[int, ...]

    def check_plan(self, plan: Agreed) -> None:
        """Raise `CapacityError` where it cannot be proved."""
        if not plan.helpers or plan.primes > 1:
            raise CapacityError("counts are proved with a helper, and modulo one prime")
        if len(self.caps) not in (1, plan.parties) or min(self.caps) < 1:
            raise CapacityError("where counts are proved, each party has a row cap, 1 at least")
        if max(self.caps) > plan.max_rows:  # else rows within the caps could wrap around
            raise CapacityError(
                f"a row cap, {max(self.caps):,}, is above the session's max_rows, {plan.max_rows:,}: raise --max-rows, "
                "or lower the cap"
            )

    def terms(self) -> Sequence[Parameter]:
        """Return what parties agree to, with the largest cap: a study may name none, and the plan is whoever's."""
        why = "each party proves that its counts add up to its cap; who fails is left out, and named"
        return [Parameter("row caps", f"proved, {max(self.caps):,} at most", why)]

    def check_rows(self, data: PartyData, index: int | None) -> None:
        """Raise `InputError` where a party has more rows than its cap."""
        cap = self.caps[(index or 0) if len(self.caps) > 1 else 0]
        if data.rows > cap:
            raise InputError(
                f"party {data.name!r} has {data.rows:,} rows, more than its row cap, {cap:,}, within which it has "
                "to prove them",
                party=data.name,
            )


@dataclass(frozen=True)
class ProvedCounts:
    """Those of an analysis over `bins` bins, modulo a prime; a sketch has `sketch_size` entries, the counts first.

    Rows by sign, of `ties`, begin at `signs_at`. `most` is the largest row cap of any party. Raises `CapacityError`
    where the prime is too small to prove them.
    """

    analysis: Analysis
    bins: int
    most: int
    prime: int
    sketch_size: int
    ties: TieSums
    signs_at: int

    @cached_property
    def statement(self) -> Statement:
        """What is proved."""
        entries = self._counts.size + self._signs.size + 1
        columns = zip(*((index, own, np.full(len(index), sign)) for index, own, sign in self._terms()), strict=True)
        terms, equations_of, multiples = (np.concatenate(column) for column in columns)
        equations = Equations(1 + int(equations_of.max()), terms, equations_of, multiples)
        return Statement.shortest(self.prime, np.full(entries, self.most), equations)

    def describe(self) -> Parameter:
        """Return what proofs are made of."""
        shape = self.statement.shape
        return Parameter(
            "input proofs",
            f"{PROOFS}, of {shape.size:,} numbers together",
            f"that a party's counts, as digits to the base {shape.base}, add up to its row cap; a party that lies "
            f"passes below {quantities.chance_text(shape.error(self.prime) ** (PROOFS - 1))}, once it has tried "
            f"2^{math.floor(math.log2(self.prime))} submissions",
        )

    @property
    def size(self) -> int:
        """Residues of what is submitted: digits, and the entries of the sketch that are no counts."""
        return self.statement.digits + self.sketch_size - self._all_counts - self._signs.size

    def submitted(self, sketch: Residues, cap: int) -> Residues:
        """Return what a party with this row cap submits for its sketch, shape (size,).

        The digits come first. Raises `InputError` where the counts are none, or more than the cap: it says no count.
        """
        counts = sketch[: self._all_counts].astype(np.int64).reshape(self._shape)
        own = counts[:, 1:] if self.analysis.by else counts
        left = cap - int(counts[0, 0].sum())
        if left < 0:
            raise InputError(f"there are {-left:,} rows more than the row cap, {cap:,}")
        digits = self.statement.digits_of(
            np.concatenate([own.reshape(-1), self.signs_of(sketch).astype(np.int64), [left]])
        )
        return np.concatenate([digits, *self.others(sketch)])

    def sketch_of(self, submitted: Residues) -> Residues:
        """Return the sketch, shape (sketch_size,), of what is submitted, or of a pad over it, or of sums of such."""
        digits = self.statement.digits
        own, signs, _ = np.split(
            self.statement.counts_of(submitted[:digits]), np.cumsum([self._counts.size, self._signs.size])
        )
        own = own.reshape(self._counts.shape)
        if self.analysis.by:
            of_all_rows = total(own[:, self._columns[0]], self.prime, axis=1)
            own = np.concatenate([of_all_rows[:, None], own], axis=1)
        before, after = np.split(submitted[digits:], [self.signs_at - self._all_counts])
        return np.concatenate([own.reshape(-1), before, signs, after])

    def constants(self, caps: Sequence[int]) -> Residues:
        """Return the constants of the equations of parties with these row caps, shape (parties, equations)."""
        constants = np.zeros((len(caps), self.statement.equations.number), np.uint64)
        constants[:, : len(self.analysis.models)] = np.array(caps, np.uint64)[:, None]
        return constants

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        """Of all counts of a sketch: models, groups, classes, bins."""
        analysis = self.analysis
        return len(analysis.models), len(analysis.groups), analysis.classes_of_rows, self.bins

    @property
    def _all_counts(self) -> int:
        return int(np.prod(self._shape))

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        """Indices of submitted counts: models, groups (without all rows where there are others), classes, bins."""
        models, groups, classes, bins = self._shape
        submitted = models, groups - bool(self.analysis.by), classes, bins
        return np.arange(np.prod(submitted)).reshape(submitted)

    @cached_property
    def _signs(self) -> NDArray[np.int64]:
        """Indices of submitted rows by sign: models, draws by bins and by rows, signs, labels, buckets."""
        shape = len(self.analysis.models), 2 * DRAWS, 2, 2, self.ties.buckets
        return self._counts.size + np.arange(np.prod(shape)).reshape(shape)

    def signs_of(self, sketch: Residues) -> Residues:
        """Return the entries of a sketch that are rows by sign."""
        return sketch[self.signs_at :][: self._signs.size]

    def others(self, sketch: Residues) -> tuple[Residues, Residues]:
        """Return the entries of a sketch that are no counts, before and after the rows by sign."""
        return sketch[self._all_counts : self.signs_at], sketch[self.signs_at + self._signs.size :]

    @property
    def _columns(self) -> list[slice]:
        """Which of the groups submitted are the levels of each column; all rows, where there is no column."""
        ends = np.cumsum([0, *(len(variable.levels) for variable in self.analysis.by)]).tolist()
        return [slice(start, end) for start, end in pairwise(ends)] or [slice(0, 1)]

    def _terms(self) -> Iterator[Terms]:
        """Yield all terms; equations are numbered as they come."""
        counts, (first, *others) = self._counts, self._columns
        models, groups, classes, bins = counts.shape
        left = np.full(models, counts.size + self._signs.size)
        yield left, np.arange(models), 1
        yield _equal(counts[:, first], np.arange(models)[:, None, None, None], 1)
        at = models
        for column in others:  # for each model, class and bin
            own = (at + np.arange(models * classes * bins)).reshape(models, 1, classes, bins)
            yield _equal(counts[:, column], own, 1)
            yield _equal(counts[:, first], own, -1)
            at += own.size
        for model in range(1, models):  # for each group and class
            of_groups = (at + np.arange(groups * classes)).reshape(groups, classes, 1)
            yield _equal(counts[model], of_groups, 1)
            yield _equal(counts[0], of_groups, -1)
            at += of_groups.size
        if self.ties.buckets:
            yield from self._of_signs(at)

    def _of_signs(self, at: int) -> Iterator[Terms]:
        """Yield the terms of rows by sign, in equations from this one on: for each model, draw, label and bucket."""
        signs, counts = self._signs, self._counts[:, self._columns[0]]
        equations = at + np.arange(signs[:, :, 0].size).reshape(signs[:, :, 0].shape)
        yield _equal(signs, equations[:, :, None], 1)
        wide_bins = np.flatnonzero(self.ties.wide)
        for model, own_class in itertools.product(*map(range, counts.shape[::2])):
            own = counts[model, :, own_class, wide_bins].T
            label = int(own_class == (model if self.analysis.classes else 1))
            for draw in range(2 * DRAWS):
                yield _equal(own, equations[model, draw, label, self.ties.bucket_of[wide_bins]], -1)


def _equal(counts: NDArray[np.int64], equations: NDArray[np.int64], sign: int) -> Terms:
    return counts.reshape(-1), np.broadcast_to(equations, counts.shape).reshape(-1), sign
