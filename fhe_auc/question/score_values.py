"""All scores that there are, where a study lists them: points from 0 to 9, say.

With v' the next number after v (`fhe_auc.question.binning`) the thresholds are v and v' for each value: each has a bin
of its own, and nothing but rows of equal scores is tied. Between v' and the next value no score may lie, nor below the
least or above the greatest: whoever counts at such thresholds, which `listed` knows by their form, refuses others.
"""

from collections.abc import Iterable
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.binning import next_number, numbers, of_one_number

MOST_VALUES = 2500


def parsed(text: str) -> list[float]:
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


def thresholds(values: Iterable[float]) -> NDArray[np.float64]:
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
    """Return the values that thresholds list, ascending; None where thresholds are others."""
    own = grid[of_one_number(grid)]
    if not 2 <= len(own) <= MOST_VALUES or not np.array_equal(with_bins_of(own, np.empty(0)), grid):
        return None
    return own
