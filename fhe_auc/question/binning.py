"""Which bin a score falls into, and what counts as one score.

**Numbers.** All float64 values that agree when rounded to 24 significant bits, as single precision has, are one number:
0.1 of a text file and of a float32 column are the same score. Finer differences count as ties. (Single precision ends
at 1e-38; numbers here do not.)

A score of a threshold's number is at that threshold. Where thresholds are closer than numbers, values are compared as
they are. A bin that can hold one number only has no rows but those that the model ties.
"""

import numpy as np
from numpy.typing import NDArray

_DROPPED = 52 - 23  # of the bits of a float64's fraction
_STEP = np.int64(1 << _DROPPED)


def numbers(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return finite values rounded to 24 significant bits, halves to even, of the same shape; -0.0 becomes 0.0."""
    bits = (np.asarray(values, np.float64) + 0.0).view(np.int64)
    half_to_even = (_STEP >> 1) - 1 + ((bits >> _DROPPED) & 1)
    return np.asarray(((bits + half_to_even) & -_STEP).view(np.float64) + 0.0)


def next_number(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least number above the number that each value is, of the same shape."""
    return _up(numbers(values), _STEP)


def bins_of(scores: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.int32]:
    """Return each score's bin, shape (n,): of the last threshold at or below it, or 0; `grid` is strictly ascending."""
    return np.maximum(np.searchsorted(_starts(grid), scores, side="right") - 1, 0).astype(np.int32)


def of_one_number(grid: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which bins can hold one number only, shape (m,).

    The first bin and the last one are open; but scores at thresholds from 0 to 1 are probabilities and end there.
    """
    starts = _starts(grid)
    own = np.append(numbers(starts[:-1]) == numbers(np.nextafter(starts[1:], -np.inf)), numbers(grid[-1:]) == 1)
    own[[0, -1]] &= bool(grid[0] == 0 and grid[-1] <= 1)
    return own


def _starts(grid: NDArray[np.float64]) -> NDArray[np.float64]:
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
