"""A party's rows, counted by subgroup, class, and bin of each model's scores."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Analysis
from fhe_auc.rows.party_data import PartyData


def table(
    *codes: NDArray[np.integer], shape: tuple[int, ...], weights: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return rows, or sums of weights below 2^53, by combination of codes, (product of shape,), the last fastest."""
    index = np.ravel_multi_index(codes, shape)
    return np.bincount(index, weights, minlength=math.prod(shape)).astype(np.int64)


def subgroup_counts(
    data: PartyData, analysis: Analysis, bins_of_models: Sequence[NDArray[np.int64]], bins: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the counts of all rows, (classes · bins,), then of each variable's levels, for one model after the other.

    `bins_of_models` are the bins of the rows' scores, below `bins`. Raises `InputError`: rows of another analysis.
    """
    classes = analysis.classes_of_rows
    if int(data.labels.max()) >= classes:
        raise InputError(f"party {data.name!r} has rows of more classes than the session, {classes}")
    groups = list(zip(data.groups, analysis.by, strict=True))
    for codes, variable in groups:
        if int(codes.max()) >= len(variable.levels):
            raise InputError(
                f"party {data.name!r} has rows of more levels of {variable.name!r} than the session, "
                f"{len(variable.levels)}"
            )
    for bins_of_rows in bins_of_models:
        yield table(data.labels, bins_of_rows, shape=(classes, bins))
        for codes, variable in groups:
            yield table(codes, data.labels, bins_of_rows, shape=(len(variable.levels), classes, bins))
