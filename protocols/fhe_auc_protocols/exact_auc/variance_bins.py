"""Bins that the cubic sums of standard errors are over: neighbours of a session's bins, merged.

Cubic sums cost most, and need the fine bins least: over some 480 bins a standard error is mostly within half a percent
of that of the rows (`fhe_auc.results.delong` has what merging can hide). Bins that can hold one number only are not
merged: these merge nothing. Nor are any where models are compared.
"""

import numpy as np
from numpy.typing import NDArray

VARIANCE_BINS = 480  # at most, unless bins of one number are more than half as many


def merged_starts(wide: NDArray[np.bool_], most: int) -> tuple[int, ...]:
    """Return the first bin of each merged one, ascending from 0, where those that can be merged are `wide`.

    They are `most`, or half as many besides bins of one number. Empty: nothing is merged, as bins are few.
    """
    mergeable, runs = int(wide.sum()), int((np.diff(wide, prepend=False) & wide).sum())
    pieces = max(most - (len(wide) - mergeable) - runs + 1, most // 2)
    if mergeable <= pieces:
        return ()
    piece = np.where(wide, (np.cumsum(wide) - 1) * pieces // mergeable, -1)
    return tuple(np.flatnonzero(~wide | (np.diff(piece, prepend=-1) != 0)).tolist())
