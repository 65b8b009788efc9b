"""Thresholds where none are given: by the rows of one process, or of who makes a session; or those a protocol names.

Most risk scores have few values: points, a tree's leaves, rounded percentages. With v' the next number after v
(`fhe_auc.question.score_bins`), thresholds at v and v' give v a bin of its own, where rows tie since their scores do.

- own values are the numbers that at least 10 of the rows have, the most frequent first, 500 of them at most, with a
  quarter of all thresholds at most;
- where scores are probabilities, the other thresholds are a named grid, made smaller by as many;
- otherwise half of the others, at most, have at least 10 rows between two of them, about as many in each gap, and are
  rounded to three digits, or left out where the rows beside them differ less; the rest is equidistant in arsinh(s/u),
  u being the median size of a score, between numbers of three digits beyond which lie ten rows.

Of fewer than 100 rows, fewer lie there. Of more than 2^22 scores, evenly spaced ones are looked at.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.options import Options
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.score_bins import listed, numbers, with_bins_of
from fhe_auc.rows.own_checks import ROUNDING
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.row_store import BATCH, release
from fhe_auc.rows.side_by_side import other_scales

LEAST_ROWS = 10  # that have a value, or lie between two thresholds
LEAST_OWN_ROWS = 100  # of who makes a session; of fewer, thresholds would tell more
_MORE = LEAST_ROWS - 1
_MOST_VALUES = 500
_MOST_SCORES = 2**22
NOT_OF_ROWS = ("epsilon", "round_scores")  # options; where they are set, thresholds must not be of the rows


class Thresholds(NamedTuple):
    """Thresholds, shape (m,), or quantile; and what people are told of them: "hybrid:5000 with 10 own values"."""

    grid: NDArray[np.float64] | str
    chosen: str


def default_thresholds(
    parties: Sequence[PartyData], analysis: Analysis, known: Options, options: Mapping[str, object]
) -> Thresholds:
    """Return the thresholds of one process where none are given, for some of the `known` options of a protocol.

    They are of the rows, unless the protocol adds noise, or rounds scores. Raises `InputError` where some parties have
    fractions and others percentages, or logits.
    """
    named = known.thresholds_for(several=analysis.coarse, compared=analysis.compared)
    if any(options.get(name) is not None for name in NOT_OF_ROWS):
        return Thresholds(named if grids.quantiles_wanted(named) is not None else grids.parse(named), named)
    for told in other_scales(parties):
        raise InputError(f"{told}; or, if all are right as they are, give thresholds that span them")
    return of_scores([scores for data in parties for scores in data.scores], named)


def of_scores(columns: Sequence[NDArray[np.float64]], named: str) -> Thresholds:
    """Return thresholds for scores like these, finite, of shape (n,) each: as many as `named` has at most."""
    scores, size = _sorted_numbers(columns), len(grids.parse(named))
    frequent = scores[:-_MORE][scores[_MORE:] == scores[:-_MORE]]  # each number but for its last rows
    values = _different(frequent)
    rows = np.diff(np.searchsorted(frequent, values), append=len(frequent))
    own = np.sort(values[np.argsort(-rows, kind="stable")[: min(_MOST_VALUES, size // 8)]])
    said = f" with {len(own)} own value{'s' * (len(own) > 1)}" if len(own) else ""
    if scores[0] >= -ROUNDING and scores[-1] <= 1 + ROUNDING:  # what is beyond by a rounding error is refused later
        own = own[(own >= 0) & (own <= 1)]
        if not len(own):
            return Thresholds(grids.parse(named), named)
        others = grids.parse(f"{named.partition(':')[0]}:{max(size - 2 * len(own), grids.MIN_SIZE)}")
        return Thresholds(grids.explicit(with_bins_of(own, others)), named + said)
    grid = with_bins_of(own, _spanning(scores, size - 2 * len(own) - 1))
    grid[0] -= (listed(grid) is not None) * max(1.0, abs(grid[0]))  # of rows: no score is refused
    return Thresholds(grids.explicit(grid), f"{len(grid):,} points of these rows{said}")


def _sorted_numbers(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the numbers of scores, evenly spaced ones where there are many, ascending."""
    every = math.ceil(sum(map(len, columns)) / _MOST_SCORES)
    found, at = np.empty(sum(-(-len(each) // every) for each in columns)), 0
    step = every * max(BATCH // every, 1)
    for each in columns:
        for start in range(0, len(each), step):
            own = numbers(each[start : start + step : every])
            found[at : at + len(own)] = own
            at += len(own)
            release(each)
    found.sort()
    return found


def _spanning(scores: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return `size` numbers at most among the ascending ones of rows."""
    cuts = _cuts(scores, size // 2)
    beyond = min(LEAST_ROWS, len(scores) // LEAST_ROWS)
    ends = scores[[beyond, -1 - beyond]]
    if (rounded := np.array([_three_digits(end) for end in ends.tolist()]))[0] < rounded[1]:
        ends = rounded
    sizes = _different(scores)
    median = float(np.median(np.abs(sizes, out=sizes), overwrite_input=True))
    unit = max(median, 1e-9 * float(np.abs(ends).max()), float(np.finfo(float).tiny))
    first, last = np.arcsinh(ends / unit).tolist()
    with np.errstate(over="ignore"):  # of an end near the last float64
        spread = unit * np.sinh(np.linspace(first, last, size - len(cuts)))
    return np.unique(numbers(np.concatenate([np.clip(spread, *ends), cuts])))


def _different(ascending: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the different ones of ascending numbers."""
    first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]


def _cuts(scores: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return at most so many numbers between ascending ones of rows, with at least 10 of these between two of them."""
    total, found, last = len(scores), list[float](), 0
    step = max(LEAST_ROWS, math.ceil(total / most))
    while last + step <= total:
        low = float(scores[last + step - 1])
        last = int(np.searchsorted(scores, low, side="right"))
        if total - last < LEAST_ROWS:
            break
        high = float(scores[last])
        if low < (point := _three_digits(low / 2 + high / 2)) <= high:
            found.append(point)
    return np.array(found)


def _three_digits(number: float) -> float:
    return float(f"{number:.3g}")
