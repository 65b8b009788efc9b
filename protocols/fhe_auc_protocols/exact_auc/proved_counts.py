"""Counts as a party submits them where it proves them: as digits, with the rest of the sketch behind.

Proved is, of each model: the counts of all rows, with one entry more for what is left of the party's row cap, add up to
the cap. Where there are groups, those of the first column's levels are submitted, and all rows' counts are their sums;
every further column's levels add up to the same, for each class and bin. A further model's counts of each group and
class are as many as the first one's. In each draw of `tie_sums` rows of either sign, of a label, are together as many
as there are in the wide bins of a bucket.

Rows with weights count in units, w of one row: a bin has p = Σ w and q = Σ w². Where l ≤ w ≤ m, proved is besides

    l·n ≤ p ≤ m·n     for the n rows of each group and label; all n add up to the row cap, or less
    l·p ≤ q ≤ m·p     over each (merged) bin

and that all p add up to the cap in units: of weights (l is 1) to cap·per; at a horizon (l is per, a weight of 1) to
cap·m, as one site's may, though all sites' together are their rows. Numbers that standard errors take may be coarser,
x = ⌊(y + s/2)/s⌋ for a step s; then bounds are those of y. What lies between a number and its bounds are counts.

A public linear map makes the sketch of what is submitted. The aggregator applies it to the sum of what it has, and the
helper to the sum of the pads. All else of a session is as without proofs: authenticators are of the sketch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base import quantities
from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.input_proofs.statement import PROOFS, Equations, Statement
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.rlwe.modular import Residues, residues, total
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.plan import Parameter
from fhe_auc_protocols.exact_auc.release_part import Agreed, ReleasePart
from fhe_auc_protocols.exact_auc.tie_sums import DRAWS, TieSums

Indices = NDArray[np.int64]
Terms = tuple[Indices, Indices, int]  # numbers, by index; the equation of each; their multiple


class Block(NamedTuple):
    """Equations of one kind: how many, their terms, and their constant, which may be a multiple of the row cap."""

    number: int
    terms: Sequence[Terms]
    constant: int = 0
    of_cap: int = 0


class Bounds(NamedTuple):
    """Of numbers x = ⌊(y + step/2)/step⌋, that y lies between least·z and most·z."""

    name: str
    step: int
    least: int
    most: int


def units_of_cap(analysis: Analysis) -> int:
    """Return how many units a site may put in for each row of its cap."""
    units = analysis.units
    return 1 if units is None else units.most if analysis.at else units.per


@dataclass(frozen=True)
class RowCaps(ReleasePart):
    """The row cap of each party, in the manifest's order, or one for all; parties prove that they keep to it."""

    caps: tuple[int, ...]
    analysis: Analysis = PLAIN

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
        counted = "its rows, and their weights, each add" if self.analysis.weights else "its counts add"
        if self.analysis.at:
            units = self.analysis.at.units
            counted = f"its rows, of weights up to {units.most / units.per:g}, add"
        why = f"each party proves that {counted} up to its cap; who fails is left out, and named"
        return [Parameter("row caps", f"proved, {max(self.caps):,} at most", why)]

    def check_rows(self, data: PartyData, index: int | None) -> None:
        """Raise `InputError` where a party has more rows than its cap, or their weights add up to more."""
        cap, rows = self.caps[(index or 0) if len(self.caps) > 1 else 0], data.rows
        what = f"{rows:,} rows,"
        if data.weights is not None:
            rows, units = int(np.count_nonzero(data.weights)), int(data.weights.sum()) / units_of_cap(self.analysis)
            what = f"{rows:,} rows that count," if rows > cap else "weights that add up to"  # others need not know
            rows = max(rows, math.ceil(units))
        if rows > cap:
            raise InputError(
                f"party {data.name!r} has {what} more than its row cap, {cap:,}, within which it has to prove them",
                party=data.name,
            )


@dataclass(frozen=True)
class ProvedCounts:
    """Those of an analysis over `bins` bins, modulo a prime; a sketch has `sketch_size` entries, the counts first.

    Of rows with weights, rows, and numbers over merged bins, follow. Rows by sign, of `ties`, begin behind its counts.
    `most` is the largest row cap of any party. Raises `CapacityError` where the prime is too small to prove them.
    """

    analysis: Analysis
    bins: int
    most: int
    prime: int
    sketch_size: int
    ties: TieSums
    starts: tuple[int, ...] | None = None  # first bins of merged ones, none for all; None without an interval
    steps: tuple[int, int] = (1, 1)  # of merged units, and of their squares

    @cached_property
    def statement(self) -> Statement:
        """What is proved."""
        columns: list[tuple[Indices, Indices, Indices]] = []
        at = 0
        for block in self._blocks:
            for index, own, multiple in block.terms:
                equations_of = at + np.broadcast_to(own, index.shape).reshape(-1)
                columns.append((index.reshape(-1), equations_of, np.full(index.size, multiple)))
            at += block.number
        equations = Equations(at, *map(np.concatenate, zip(*columns, strict=True)))
        most = np.concatenate([np.full(math.prod(shape), float(most)) for _, shape, most in self._submitted])
        return Statement.shortest(self.prime, most, equations)

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
        return self.statement.digits + self.sketch_size - self._counted - self._at["signs"].size

    def submitted(self, sketch: Residues, cap: int) -> Residues:
        """Return what a party with this row cap submits for its sketch, shape (size,).

        The digits come first. Raises `InputError` where the counts are none, or more than the cap: it says no count.
        """
        numbers = self.numbers_of(sketch, cap)
        if numbers[-1] < 0:
            units = "units" if self.analysis.units else "rows"
            raise InputError(f"there are {-numbers[-1]:,} {units} more than the row cap, {cap:,}")
        return np.concatenate([self.statement.digits_of(numbers), *self.others(sketch)])

    def numbers_of(self, sketch: Residues, cap: int) -> NDArray[np.int64]:
        """Return the numbers of a party with this row cap, shape (entries,): below zero where its counts are none."""
        pieces = np.split(sketch.astype(np.int64), [*accumulate(map(math.prod, self._shapes))])
        counts, *others = (own.reshape(shape) for own, shape in zip(pieces, self._shapes, strict=False))
        levels = slice(int(bool(self.analysis.by)), None)
        own = {"counts": counts[:, levels], "signs": self.signs_of(sketch).astype(np.int64)}
        own["left"] = np.array([cap * units_of_cap(self.analysis) - counts[0, 0].sum()])
        if self.analysis.units:
            rows, *rounded = others
            of_rows, units_of = rows[levels], counts[0, levels].sum(axis=-1)
            own |= {"rows": of_rows, "rows left": np.array([cap - rows[0].sum()])}
            own |= {each.name: found for each, found in zip(self._bounds[1:], rounded, strict=True)}
            merged = np.add.reduceat(counts, self._starts, axis=-1)
            pairs = (units_of, of_rows), *((found, merged) for found in rounded)
            for (name, step, least, most), (x, z) in zip(self._bounds, pairs, strict=True):
                own |= {f"{name} lower": step * x + step - 1 - step // 2 - least * z}
                own |= {f"{name} upper": most * z + step // 2 - step * x}
        return np.concatenate([own[name].reshape(-1) for name in self._at])

    def sketch_of(self, submitted: Residues) -> Residues:
        """Return the sketch, shape (sketch_size,), of what is submitted, or of a pad over it, or of sums of such."""
        digits = self.statement.digits
        numbers = self.statement.counts_of(submitted[:digits])
        counted = [self._of_all_groups(numbers[self._at["counts"]], axis=1)]
        if self.analysis.units:
            counted.append(self._of_all_groups(numbers[self._at["rows"]], axis=0))
            counted += [numbers[self._at[own.name]] for own in self._bounds[1:]]
        before, after = np.split(submitted[digits:], [self.ties.counts - self._counted])
        vectors = [*counted, before, numbers[self._at["signs"]], after]
        return np.concatenate([own.reshape(-1) for own in vectors])

    def constants(self, caps: Sequence[int]) -> Residues:
        """Return the constants of the equations of parties with these row caps, shape (parties, equations)."""
        constants = np.array([[own.constant + own.of_cap * cap for own in self._blocks] for cap in caps], np.int64)
        repeated = np.repeat(constants.reshape(len(caps), -1), [own.number for own in self._blocks], axis=1)
        return residues(repeated, self.prime)

    def signs_of(self, sketch: Residues) -> Residues:
        """Return the entries of a sketch that are rows by sign."""
        return sketch[self.ties.counts :][: self._at["signs"].size]

    def others(self, sketch: Residues) -> tuple[Residues, Residues]:
        """Return the entries of a sketch that are no counts, before and after the rows by sign."""
        return sketch[self._counted : self.ties.counts], sketch[self.ties.counts + self._at["signs"].size :]

    @property
    def _shapes(self) -> list[tuple[int, ...]]:
        """Of what is counted in a sketch: models, groups, classes, bins; and of weights rows, and merged numbers."""
        analysis = self.analysis
        models, groups, classes = len(analysis.models), len(analysis.groups), analysis.classes_of_rows
        merged = [(models, groups, classes, len(self._starts))] * len(self._bounds[1:])
        return [(models, groups, classes, self.bins), *[(groups, classes)] * bool(self._bounds), *merged]

    @property
    def _counted(self) -> int:
        return sum(map(math.prod, self._shapes))

    @cached_property
    def _bounds(self) -> list[Bounds]:
        """Those of units by rows; of coarse units by units; and of squares by units."""
        if not (units := self.analysis.units):
            return []
        (g, h), least, merged = self.steps, units.per if self.analysis.at else 1, self.starts is not None
        coarse = [Bounds("coarse", g, 1, 1)] * (merged and g > 1)
        return [Bounds("rows", 1, least, units.most), *coarse, *[Bounds("squares", h, least, units.most)] * merged]

    @cached_property
    def _starts(self) -> Indices:
        return np.array(self.starts or range(self.bins))

    @cached_property
    def _submitted(self) -> list[tuple[str, tuple[int, ...], int]]:
        """The numbers that are submitted: their names, shapes, and what one of them is at most.

        Groups are without all rows where there are others.
        """
        (models, groups, classes, bins), units = self._shapes[0], self.most * units_of_cap(self.analysis)
        levels = groups - bool(self.analysis.by)
        numbers: list[tuple[str, tuple[int, ...], int]] = [
            ("counts", (models, levels, classes, bins), units),
            ("signs", (models, 2 * DRAWS, 2, 2, self.ties.buckets), units),  # draws by bins and by rows
        ]
        for name, step, least, most in self._bounds:
            of_rows = name == "rows"
            shape = (levels, classes) if of_rows else (models, groups, classes, len(self._starts))
            z = self.most if of_rows else units
            numbers.append((name, shape, z if of_rows else most * z // step + 1))
            numbers += [(f"{name} {end}", shape, (most - least) * z + step - 1) for end in ("lower", "upper")]
            numbers += [("rows left", (1,), z)] * of_rows
        return [*numbers, ("left", (1,), units)]

    @cached_property
    def _at(self) -> dict[str, Indices]:
        """Indices of the numbers that are submitted, by name, in order."""
        starts = accumulate((math.prod(shape) for _, shape, _ in self._submitted), initial=0)
        named = zip(starts, self._submitted, strict=False)
        return {name: start + np.arange(math.prod(shape)).reshape(shape) for start, (name, shape, _) in named}

    @property
    def _columns(self) -> list[slice]:
        """Which of the groups submitted are the levels of each column; all rows, where there is no column."""
        ends = np.cumsum([0, *(len(variable.levels) for variable in self.analysis.by)]).tolist()
        return [slice(start, end) for start, end in pairwise(ends)] or [slice(0, 1)]

    def _of_all_groups(self, own: Residues, axis: int) -> Residues:
        """Return what groups have, with all rows' first where there are groups."""
        if not self.analysis.by:
            return own
        of_all_rows = total(np.take(own, range(self._columns[0].stop), axis), self.prime, axis=axis)
        return np.concatenate([np.expand_dims(of_all_rows, axis), own], axis=axis)

    @cached_property
    def _blocks(self) -> list[Block]:
        """All equations."""
        return [*self._of_counts(), *self._of_signs(), *(self._of_weights() if self._bounds else ())]

    def _of_counts(self) -> Iterator[Block]:
        counts, (first, *others) = self._at["counts"], self._columns
        models, groups, classes, bins = counts.shape
        of_models = np.arange(models)[:, None, None, None]
        left = np.full(models, self._at["left"])
        sums = [(left, np.arange(models), 1), (counts[:, first], of_models, 1)]
        yield Block(models, sums, of_cap=units_of_cap(self.analysis))
        for column in others:  # for each model, class and bin
            own = np.arange(models * classes * bins).reshape(models, 1, classes, bins)
            yield Block(own.size, [(counts[:, column], own, 1), (counts[:, first], own, -1)])
        of_groups = np.arange(groups * classes).reshape(groups, classes, 1)
        for model in range(1, models):
            yield Block(of_groups.size, [(counts[model], of_groups, 1), (counts[0], of_groups, -1)])

    def _of_signs(self) -> Iterator[Block]:
        """Yield those of rows by sign: for each model, draw, label and bucket."""
        signs, counts = self._at["signs"], self._at["counts"][:, self._columns[0]]
        if not signs.size:
            return
        equations = np.arange(signs[:, :, 0].size).reshape(signs[:, :, 0].shape)
        terms: list[Terms] = [(signs, equations[:, :, None], 1)]
        wide_bins = np.flatnonzero(self.ties.wide)
        for model, own_class in itertools.product(*map(range, counts.shape[::2])):
            own = counts[model, :, own_class, wide_bins].T
            label = int(own_class == (model if self.analysis.classes else 1))
            for draw in range(2 * DRAWS):
                terms.append((own, equations[model, draw, label, self.ties.bucket_of[wide_bins]], -1))
        yield Block(equations.size, terms)

    def _of_weights(self) -> Iterator[Block]:
        at, (first, *others) = self._at, self._columns
        counts, rows, one = at["counts"], at["rows"], np.zeros(1, np.int64)
        yield Block(1, [(rows[first], one, 1), (at["rows left"], one, 1)], of_cap=1)
        for column in others:  # for each label
            yield Block(rows.shape[1], [(rows[column], np.arange(2), 1), (rows[first], np.arange(2), -1)])
        piece = np.repeat(np.arange(len(self._starts)), np.diff([*self._starts, self.bins]))
        for name, step, least, most in self._bounds:
            own = np.arange(at[name].size).reshape(at[name].shape)
            if name == "rows":
                x, z = (counts[0], own[..., None]), [(rows, own)]
            else:  # of all rows, as levels of the first column; and of levels
                x, z = (at[name], own), [(counts[:, first], own[:, :1][..., piece])]
                z += [(counts, own[:, 1:][..., piece])] * bool(self.analysis.by)
            for end, sign, times, constant in ("lower", -1, least, step // 2 + 1 - step), ("upper", 1, most, step // 2):
                slack = at[f"{name} {end}"], own, sign
                yield Block(own.size, [(*x, step), slack, *((*each, -times) for each in z)], constant)
