"""Thresholds from rows that one may look at: all rows of one process, or those of who makes a session.

Most risk scores have few values: points, a tree's leaves, rounded percentages. With v' the next number after v
(`fhe_auc.question.binning`), thresholds at v and v' give v a bin of its own, where rows tie since their scores do:

- own values are the numbers that at least 10 of the rows have, the most frequent first, 500 of them at most, with a
  quarter of all thresholds at most;
- where scores are probabilities, the other thresholds are a named grid, made smaller by as many;
- otherwise half of the others, at most, have at least 10 rows between two of them, about as many in each gap, and are
  rounded to three digits, or left out where the rows beside them differ less; the rest is equidistant, half of it on a
  logarithmic scale, between round numbers that lie beyond nearly all rows.

So thresholds tell of no fewer than 10 rows where there are 100 or more; of fewer, the round numbers do. Of more than
2^22 scores, evenly spaced ones are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.options import Options
from fhe_auc.question import score_values
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.binning import numbers
from fhe_auc.rows.own_rows import ROUNDING
from fhe_auc.rows.party_data import PartyData

LEAST_ROWS = 10  # that have a value, or lie between two thresholds
LEAST_OWN_ROWS = 100  # of who makes a session; of fewer, thresholds would tell more
_MOST_VALUES = 500
_MOST_SCORES = 2**22
NOT_OF_ROWS = ("epsilon", "round_scores")  # options; where they are set, thresholds must not be of the rows
_LEAST, _GREATEST = 1e-300, 1e300  # of round numbers


class Thresholds(NamedTuple):
    """Thresholds, shape (m,), and what people are told of how they were chosen: "hybrid:5000 with 10 own values"."""

    grid: NDArray[np.float64]
    chosen: str


def default_thresholds(
    parties: Sequence[PartyData], analysis: Analysis, kind: type[Options], options: Mapping[str, object]
) -> Thresholds:
    """Return the thresholds of one process where none are given, for options of a protocol, of this kind.

    They are of the rows, unless the protocol adds noise, or rounds scores. Raises `InputError` where some parties have
    fractions and others percentages.
    """
    named = kind.thresholds_for(several=analysis.coarse, compared=analysis.compared)
    kept = {each.name: options.get(each.name, each.default) for each in fields(kind)}  # MISSING where it must be given
    if any(kept.get(name) is not None for name in NOT_OF_ROWS):
        return Thresholds(grids.parse(named), named)
    _require_one_scale(parties)
    return of_scores([scores for data in parties for scores in data.scores], named)


def of_scores(columns: Sequence[NDArray[np.float64]], named: str) -> Thresholds:
    """Return thresholds for scores like these, finite, of shape (n,) each: as many as `named` has at most."""
    every = math.ceil(sum(map(len, columns)) / _MOST_SCORES)
    scores = numbers(np.concatenate([each[::every] for each in columns]))
    values, rows = np.unique(scores, return_counts=True)
    size = len(grids.parse(named))
    frequent = np.flatnonzero(rows >= LEAST_ROWS)
    frequent = frequent[np.argsort(-rows[frequent], kind="stable")][: min(_MOST_VALUES, size // 8)]
    own = np.sort(values[frequent])
    said = f" with {len(own)} own value{'s' * (len(own) > 1)}" if len(own) else ""
    if values[0] >= -ROUNDING and values[-1] <= 1 + ROUNDING:  # what is beyond by a rounding error is refused later
        own = own[(own >= 0) & (own <= 1)]
        if not len(own):
            return Thresholds(grids.parse(named), named)
        name, _, _ = named.partition(":")
        others = grids.parse(f"{name}:{max(size - 2 * len(own), grids.MIN_SIZE)}")
        return Thresholds(grids.explicit(score_values.with_bins_of(own, others)), named + said)
    grid = score_values.with_bins_of(own, _spanning(values, rows, size - 2 * len(own) - 1))
    return Thresholds(grids.explicit(grid), f"{len(grid):,} points of these rows{said}")


def _spanning(values: NDArray[np.float64], rows: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return numbers between and about ascending values, of which there are so many rows each; `size` at most."""
    below = np.cumsum(rows)
    cuts = _cuts(values, below, size // 2)
    others = (size - len(cuts)) // 2
    at = min(LEAST_ROWS, int(below[-1]) // LEAST_ROWS)
    bounded = np.clip(values, -_GREATEST, _GREATEST)
    low, high = (float(bounded[np.searchsorted(below, rank, side="right")]) for rank in (at, below[-1] - 1 - at))
    unit = _round(high - low, math.floor) / 10
    low, high = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    sizes = np.abs(bounded[bounded != 0])
    ends = (_round(float(sizes.min()), math.floor), _round(float(sizes.max()), math.ceil))
    scale = np.geomspace(*ends, others if low >= 0 or high <= 0 else others // 2)
    spread = np.concatenate([np.linspace(low, high, others), -scale, scale])
    return np.unique(numbers(np.concatenate([spread[(spread >= low) & (spread <= high)], cuts])))


def _cuts(values: NDArray[np.float64], below: NDArray[np.int64], most: int) -> NDArray[np.float64]:
    """Return at most so many numbers between values, with at least 10 rows between two of them."""
    total, found, last = int(below[-1]), list[float](), 0
    step = max(LEAST_ROWS, math.ceil(total / max(most, 1)))
    while (at := int(np.searchsorted(below, last + step))) < len(values) - 1 and total - below[at] >= LEAST_ROWS:
        low, high, last = float(values[at]), float(values[at + 1]), int(below[at])
        point = float(f"{low / 2 + high / 2:.3g}")
        if low < point <= high:
            found.append(point)
    return np.array(found)


def _round(number: float, end: Callable[[float], int]) -> float:
    """Return the power of ten at or beside a number, which is none below 0."""
    return float(10.0 ** end(math.log10(max(_LEAST, number))))


def _require_one_scale(parties: Sequence[PartyData]) -> None:
    """Raise `InputError` where one party's scores are fractions, and another's percentages."""
    for model in range(len(parties[0].scores)):
        of_each = [data.scores[model] for data in parties]
        lowest, highest = min(float(each.min()) for each in of_each), max(float(each.max()) for each in of_each)
        if not (lowest >= 0 and 20 < highest <= 100):
            continue
        percent = next((data for data, each in zip(parties, of_each, strict=True) if float(np.median(each)) > 1), None)
        for data, each in zip(parties, of_each, strict=True):
            fractions = data.rows >= LEAST_ROWS and each.max() <= 1 and bool((each % 1).any())
            if percent is not None and fractions:
                raise InputError(
                    f"{data.described(model)}: its scores run from {each.min():.4g} to {each.max():.4g}, as fractions "
                    f"do, and those of party {percent.name!r} to {percent.scores[model].max():.4g}, as percentages do: "
                    "convert one of them; if they are right as they are, give thresholds",
                    party=data.name,
                )
