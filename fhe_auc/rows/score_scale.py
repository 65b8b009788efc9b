"""Scales on which classifiers give scores, and the way from each to probabilities, which calibration is about.

An AUC needs no such thing: scores may be any numbers.

Each is a rising function, which changes no order: the AUC of the rows stays, but for scores that rounding makes equal.
The logistic function makes all logits beyond some 36 equal to 1 (and below -709 to 0), and close ones before; a
division by 100 at most makes numbers equal that differ in the last bit. All else that is said of a result, its binning
error too, is about the scores so converted.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.numerics import expit
from fhe_auc.rows.party_data import PartyData

DEFAULT_SCALE = "probability"
_LOGIT, _PERCENT = "logit", "percent"

SCALES = (DEFAULT_SCALE, _LOGIT, _PERCENT)  # names of the scales; scores on the first one stay as they are


def to_probabilities(scores: NDArray[np.float64], scale: str) -> NDArray[np.float64]:
    """Return scores, shape (n,), on one of `SCALES` as probabilities; raise `InputError` for an unknown scale."""
    if scale not in SCALES:
        raise InputError(f"score scale {scale!r} is unknown; known are {', '.join(SCALES)}")
    if scale == _LOGIT:
        return expit(scores)
    return scores / 100 if scale == _PERCENT else scores


def rescaled(data: PartyData, scale: str, *, refuse: Callable[[int, str, str], InputError] | None = None) -> PartyData:
    """Return a party's rows with `to_probabilities` of their scores; errors as there, and for no percentage.

    The message names party, column, row and value of one beyond 0 to 100; `refuse` is as of `PartyData.from_columns`.
    """
    if scale == DEFAULT_SCALE:
        return data
    for model, scores in enumerate(data.scores):
        outside = (scores < 0) | (scores > 100)
        if scale == _PERCENT and outside.any():
            row = int(outside.argmax())
            what = f"score is {float(scores[row])!r}, and percentages lie between 0 and 100"
            column = data.score_columns[model] if data.score_columns else ""
            if refuse is not None:
                raise refuse(row, what, column)
            raise InputError(f"{data.described(model, row)}: {what}", party=data.name, column=column or None)
    return data.with_scores(partial(to_probabilities, scale=scale))


def noted(data: PartyData, scale: str) -> PartyData:
    """Return a party's rows, whose scores were on this scale, with what its people are told where that seems wrong."""
    told = ""
    if scale == _PERCENT and all(scores.max() <= 0.01 for scores in data.scores):
        told = "read as percentages, no score is above 1: they may be fractions"
    if scale == _LOGIT and any(((scores == 0) | (scores == 1)).any() for scores in data.scores):
        told = "logits beyond 36 tie, as probabilities: an AUC of logits as they are needs no score scale"
    return replace(data, lost=(*data.lost, f"party {data.name!r}: {told}")) if told else data
