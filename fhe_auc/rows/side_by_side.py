"""What one process notices that reads the rows of several parties: other scales, levels of one party, equal rows.

Between sites nobody can: each sees its own rows alone (`fhe_auc.rows.own_checks`).

A copy of a file, or a pooled file beside its parts, counts rows twice and makes intervals too narrow. A row's hash is
of its label, scores and levels. Sums of hashes modulo 2^64 add up over parties: so one is found that has exactly the
rows of others, if 20 of them differ, or 10 of 1,000. The least hashes of two parties are those of the same rows, if
both have these: so one is found that has all rows of another, and more; of parties of whose rows nine in ten differ, as
few values agree by chance: another row is among those with a chance of 0.2 at most, and 20 with one of 10^-13.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Analysis
from fhe_auc.rows.own_checks import levels_in, range_of
from fhe_auc.rows.party_data import DEFAULT_SCALE, PartyData, to_probabilities

_DIFFERENT, _MANY = 20, 1000  # rows that tell a party's rows from others'; of so many, half as many do
_KEPT, _KEPT_IN_ALL = 2**14, 2**20  # hashes of a party, and of all
_MOST_SUMMED = 12  # parties any of which may be another one in sum; of more, one or all
_LEAST_ROWS = 10  # of a party whose scores are on another scale, but for a chance of
_CHANCE = 1e-9


def compared(
    parties: list[PartyData], analysis: Analysis, scale: str = DEFAULT_SCALE, *, refuse: bool = False
) -> list[PartyData]:
    """Return the parties; notes of the first one say whose scale differs, and which levels one party has alone.

    `scale` is that of the scores before they became probabilities. Raises `InputError` where a party has all rows of
    others, which count twice, if that is to be refused; else a note says so.
    """
    if len(parties) < 2:
        return parties
    twice = _counted_twice(parties)
    if twice and refuse:
        raise InputError(twice)
    told = [*other_scales(parties, scale), *_lone_levels(parties, analysis), *[twice] * bool(twice)]
    return [replace(parties[0], notes=(*parties[0].notes, *told)), *parties[1:]] if told else parties


def other_scales(parties: Sequence[PartyData], scale: str = DEFAULT_SCALE) -> Iterator[str]:
    """Yield, for each model, whose scores all lie in [0, 1], as those of others would not by chance."""
    low, high = to_probabilities(np.array([0.0, 1.0]), scale).tolist()
    for model in range(len(parties[0].scores)):
        within = [data for data in parties if low <= data.span(model)[0] <= data.span(model)[1] <= high]
        beyond = [data for data in parties if data not in within]
        rows = sum(range_of(data, model, lambda own: (own >= low) & (own <= high)).rows for data in beyond)
        share = rows / max(sum(data.rows for data in beyond), 1)
        odd = [
            data
            for data in within
            if data.rows >= _LEAST_ROWS and share < 0.5 and share**data.rows < _CHANCE and len({*data.span(model)}) > 1
        ]
        odd = [data for data in odd if data.span(model) != (low, high)]  # zeros and ones are on any scale
        if odd and beyond:
            other = min(beyond, key=lambda data: data.span(model)[0])
            kind = "logits" if scale == "logit" or other.span(model)[0] < 0 else "percentages"
            yield (
                f"{odd[0].described(model)}: its scores lie between 0 and 1, as probabilities do, those of party "
                f"{other.name!r} beyond, as {kind} do: convert those of {_named(min(odd, beyond, key=len))}"
            )


def _lone_levels(parties: Sequence[PartyData], analysis: Analysis) -> Iterator[str]:
    for place, variable in enumerate(analysis.by):
        there = np.array([levels_in(data, place, len(variable.levels)) for data in parties])
        lone = [
            f"{variable.levels[level]!r} (party {parties[int(there[:, level].argmax())].name!r})"
            for level in np.flatnonzero(there.sum(axis=0) == 1).tolist()
        ]
        if lone:
            yield (
                f"column {variable.name!r}: one party alone has rows of {_some(lone)}: if others write the level in "
                "another way, it is cut in two; if not, its AUC is that party's own"
            )


class _Look(NamedTuple):
    """What tells a party's rows: the sum of their hashes; and the different ones up to a share of 2^64, ascending."""

    data: PartyData
    total: int
    least: NDArray[np.uint64]
    share: float

    def has_all(self, other: _Look) -> bool:
        """Whether all rows of another party are among these; of both, nine in ten rows differ."""
        varied = all(len(each.least) >= 0.9 * each.share * each.data.rows for each in (self, other))
        own = other.least[other.least <= self.share * 2.0**64]
        return varied and len(own) >= _DIFFERENT and bool(np.isin(own, self.least).all())


def _looked_at(data: PartyData, most: int) -> _Look:
    share = min(1.0, most / data.rows)
    total, least = 0, np.empty(0, np.uint64)
    for batch in data.batches():
        hashes: NDArray[np.uint64] = np.zeros(batch.rows, np.uint64)
        for column in batch.arrays[: 1 + len(batch.scores) + len(batch.groups)]:
            hashes = _mixed(hashes ^ (column.astype(np.float64) + 0.0).view(np.uint64))  # -0.0 is 0.0
        total = (total + int(hashes.sum(dtype=np.uint64))) % 2**64
        least = np.unique(np.concatenate([least, hashes[hashes <= share * 2.0**64]]))
    return _Look(data, total, least, share)


def _mixed(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the next number of generators with these states (SplitMix: Steele, Lea and Flood, OOPSLA 2014)."""
    states = states + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        states = (states ^ (states >> np.uint64(shift))) * np.uint64(factor)
    return states ^ (states >> np.uint64(31))


def _counted_twice(parties: Sequence[PartyData]) -> str:
    """Say which party has all rows of others; "" where none has."""
    looks = [_looked_at(data, min(_KEPT, _KEPT_IN_ALL // len(parties))) for data in parties]
    _, times = np.unique(np.concatenate([each.least for each in looks]), return_counts=True)
    if times.max(initial=1) == 1:
        return ""
    rows, totals = np.array([data.rows for data in parties]), np.array([each.total for each in looks], np.uint64)
    first = np.array([each.least[:1].sum() for each in looks])
    for place, whole in enumerate(looks):
        if len(whole.least) >= whole.share * _DIFFERENT / (1 + (whole.data.rows >= _MANY)):
            others = (rows <= whole.data.rows) & (np.arange(len(rows)) != place)
            near = np.flatnonzero(others & np.isin(first, whole.least)).tolist()
            parts = [at for at in near if whole.has_all(looks[at])]
            if parts := parts or _adding_up(totals, np.flatnonzero(others).tolist(), whole):
                what = "the same rows as" if rows[parts[0]] == rows[place] else "all rows of"
                return (
                    f"party {whole.data.name!r} has {what} {_named([parties[at] for at in parts])}, which count twice: "
                    "leave one out; rows of different patients are not so alike by chance"
                )
    return ""


def _adding_up(totals: NDArray[np.uint64], others: list[int], whole: _Look) -> list[int]:
    """Return which others have the sum of these hashes together; none where none have."""
    if len(others) > _MOST_SUMMED:
        equal = [at for at in others if totals[at] == whole.total]
        return equal[:1] or others * bool(totals[others].sum() == whole.total)
    sums = np.zeros(1, np.uint64)
    for at in others:  # of all choices of them, in binary
        sums = np.concatenate([sums, sums + totals[at]])
    choice = int((sums == whole.total).argmax())
    return [at for bit, at in enumerate(others) if choice >> bit & 1]


def _named(parties: Sequence[PartyData]) -> str:
    return ("party " if len(parties) == 1 else "parties ") + _some([repr(data.name) for data in parties])


def _some(texts: Sequence[str]) -> str:
    return ", ".join(texts[:5]) + " and others" * (len(texts) > 5)
