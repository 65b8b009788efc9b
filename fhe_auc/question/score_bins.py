"""Which bin a score falls into, and what counts as one score.

**Numbers.** All float64 values that agree when rounded to 24 significant bits, as single precision has, are one number:
0.1 of a text file and of a float32 column are the same score. Finer differences count as ties. (Single precision ends
at 1e-38; numbers here do not.)

A score of a threshold's number is at that threshold. Where thresholds are closer than numbers, values are compared as
they are. A bin that can hold one number only has no rows but those that the model ties.

**Listed values.** A study may list all scores that there are: points from 0 to 9, say. With v' the next number after v
the thresholds are v and v' for each value, so that each has a bin of its own. Between v' and the next value no score
may lie, nor below the least or above the greatest: whoever counts at such thresholds, which `listed` knows by their
form, refuses others.
"""

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError

MOST_VALUES = 2500

_DROPPED = 52 - 23  # of the bits of a float64's fraction
_STEP = np.int64(1 << _DROPPED)
_MANY = 2**14  # scores for which a table is made
_CELL_BITS = 40  # of a float64, which do not matter to its cell: 4,096 cells from a power of two to the next
_MOST_CELLS = 2**17
_LEAST_SINGLE = 2.0**-126  # of all that have 24 bits there


def numbers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return finite values rounded to 24 significant bits, halves to even, of the same shape; -0.0 becomes 0.0."""
    given = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):  # single precision rounds so, where it does not end
        rounded: NDArray[np.float64] = np.asarray(given.astype(np.float32).astype(np.float64))
    if rounded.min(initial=1) > _LEAST_SINGLE and rounded.max(initial=1) < np.inf:
        return rounded
    sizes = np.abs(rounded)
    others = ~((sizes > _LEAST_SINGLE) & (sizes < np.inf))
    bits = (given[others] + 0.0).view(np.int64)
    half_to_even = (_STEP >> 1) - 1 + ((bits >> _DROPPED) & 1)
    rounded[others] = ((bits + half_to_even) & -_STEP).view(np.float64) + 0.0
    return rounded


def next_number(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least number above the number that each value is, of the same shape."""
    return _up(numbers(values), _STEP)


def bins_of(scores: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return each score's bin, shape (n,): of the last threshold at or below it, or 0; `grid` is strictly ascending."""
    return in_bins(scores, starts_of(grid))


def in_bins(scores: NDArray[np.float64], starts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the same, of the least value in each bin: `starts_of` the thresholds. Many scores are looked up."""
    if len(scores) < _MANY or len(starts) < 2:
        return _searched(scores, starts)
    table = _lookup(starts.tobytes())
    bins = table.bins.take(_cells(scores, starts) - table.first, mode="clip")
    bins += scores >= table.ends.take(bins, mode="clip")
    crowded = np.flatnonzero(bins < 0)
    bins[crowded] = _searched(scores[crowded], starts)
    return bins


def _searched(scores: NDArray[np.float64], starts: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.maximum(np.searchsorted(starts, scores, side="right") - 1, 0)


class _Lookup(NamedTuple):
    """The bin in which each of many cells begins, -2 where several begin within it."""

    first: np.int64  # all below this cell are in it
    bins: NDArray[np.int64]
    ends: NDArray[np.float64]  # of each bin, where the next one begins; of the last, NaN


@lru_cache(4)
def _lookup(starts_bytes: bytes) -> _Lookup:
    starts = np.frombuffer(starts_bytes)
    cells = _cells(starts[1:], starts)
    first = max(cells[0], cells[-1] - _MOST_CELLS) - 1
    within = np.bincount(np.maximum(cells - first, 0))
    bins = np.append(np.where(within > 1, -2, np.cumsum(within) - within), len(starts) - 1)
    return _Lookup(first, bins, np.append(starts[1:], np.nan))


def _cells(values: NDArray[np.float64], starts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return integers that rise with values, from where the second bin begins: their first bits, as they are positive.

    Below, they may fall: all are less than those from there on.
    """
    if starts[1] <= 0:
        with np.errstate(over="ignore"):
            values = values + (0.0 - starts[1])  # rounding leaves them in order, and -0.0 becomes 0.0
    return values.view(np.int64) >> _CELL_BITS


def of_one_number(grid: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which bins can hold one number only, shape (m,).

    The first bin and the last one are open; but scores at thresholds from 0 to 1 are probabilities and end there.
    """
    starts = starts_of(grid)
    own = np.append(numbers(starts[:-1]) == numbers(np.nextafter(starts[1:], -np.inf)), numbers(grid[-1:]) == 1)
    own[[0, -1]] &= bool(grid[0] == 0 and grid[-1] <= 1)
    return own


def parse_listed(text: str) -> list[float]:
    """Return the values that "0:9", "0:1:0.05" (first, last, step) or "0,1.5,3" names; `InputError` for other texts."""
    try:
        if "," in text:
            return [float(Decimal(each.strip())) for each in text.split(",")]
        first, last, step = (Decimal(each.strip()) for each in (*text.split(":"), *["1"][text.count(":") - 1 :]))
        steps = (last - first) / step
        whole = steps == int(steps)
    except (ValueError, ArithmeticError):
        raise InputError(f"score values {text[:40]!r}: say FIRST:LAST, FIRST:LAST:STEP or VALUE,VALUE,...") from None
    if not whole or not 1 <= steps < MOST_VALUES:
        raise InputError(f"score values {text[:40]!r}: take 1 to {MOST_VALUES - 1:,} whole steps from first to last")
    return [float(first + step * at) for at in range(int(steps) + 1)]


def thresholds_of(values: Iterable[float]) -> NDArray[np.float64]:
    """Return the thresholds of listed values, in any order; raise `InputError` unless they are 2 to 2,500 numbers."""
    given = np.array(list(values), np.float64)
    if not 2 <= len(given) <= MOST_VALUES or not np.isfinite(given).all():
        raise InputError(f"score values: 2 to {MOST_VALUES:,} finite numbers can be listed")
    own = np.unique(numbers(given))
    if len(own) < len(given):
        raise InputError("score values: two of them are the same number, of single precision")
    return with_bins_of(own, np.empty(0))


def with_bins_of(own: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ascending thresholds: some that are there, and those that give each of these numbers a bin of its own.

    Where nothing lies outside [0, 1] they begin with 0 and end at 1 or before; otherwise below all that is there. Of
    the others, those of a number that comes with the values are left out.
    """
    of_values = np.union1d(own, next_number(own))
    kept = others[~np.isin(numbers(others), of_values)]
    low, high = (float(end(np.concatenate([own, kept]))) for end in (np.min, np.max))
    if low >= 0 and high <= 1:
        of_values, below = of_values[of_values <= 1], 0.0
    else:
        below = low - max(1.0, abs(low)) if abs(low) < 2.0**1022 else low  # such as -1, where points begin with 0
    return np.asarray(np.unique(np.concatenate([[below], of_values, kept])))


def listed(grid: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the values that thresholds list, ascending, read-only; None where thresholds are others."""
    return _listed(np.asarray(grid, np.float64).tobytes())


@lru_cache(maxsize=4)  # in one process, all parties ask for those of the same thresholds
def _listed(content: bytes) -> NDArray[np.float64] | None:
    grid = np.frombuffer(content, np.float64)
    own = grid[of_one_number(grid)]
    if not 2 <= len(own) <= MOST_VALUES or not np.array_equal(with_bins_of(own, np.empty(0)), grid):
        return None
    own.flags.writeable = False
    return own


def starts_of(grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least value in each bin: of the threshold's number, unless a neighbour is of the same number."""
    rounded = numbers(grid)
    shared = np.append(rounded[1:] == rounded[:-1], False)
    shared[1:] |= shared[:-1]
    odd = (rounded.view(np.int64) >> _DROPPED) & 1  # halves go to the even number
    return np.where(shared, grid, _up(rounded, odd - (_STEP >> 1)))


def _up(values: NDArray[np.float64], steps: NDArray[np.int64] | np.int64) -> NDArray[np.float64]:
    """Return the float64 that comes so many after each value, before it where steps are negative."""
    bits = values.view(np.int64)
    ordered = np.where(bits < 0, np.int64(-(2**63)) - bits, bits) + steps  # integers in the order of float64
    return np.asarray(np.where(ordered < 0, np.int64(-(2**63)) - ordered, ordered).view(np.float64))
