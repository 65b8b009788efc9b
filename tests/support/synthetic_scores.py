"""Scores made up to resemble a model that cannot be shipped: the one on which [DPAUC] was measured.

[DPAUC] Sun et al., "DPAUC: differentially private AUC computation in federated learning", AAAI 2023, arXiv 2208.12294.

The paper's test set (Criteo, 458,407 rows, 117,317 positive) is not free to pass on. `criteo_like` has as many rows of
each label and, for three epochs of training, the AUC that the paper gives, to 1e-5; for epoch 0 also its counts of
positives among the top scores (Table 2). The rest of the shape is a smooth guess: calibrated scores, whose quantile
curve (on the logit) has 13 monotone cubic pieces, fitted to those numbers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator
from scipy.special import expit

CRITEO_ROWS, CRITEO_POSITIVES = 458_407, 117_317  # rows of the paper's test set, and those with label 1
CRITEO_AUC = (0.749383, 0.766477, 0.770219)  # scikit-learn's AUC after each epoch, as the paper prints it

# fmt: off
CRITEO_TOP = {1: 1, 5: 4, 10: 8, 50: 43, 100: 79, 500: 384, 1000: 774, 5000: 3914, 10_000: 7519, 50_000: 30_793,
              100_000: 52_268}
"""Positives among so many highest scores of epoch 0, as the paper's Table 2 has them."""

_QUANTILES = np.array([0, .02, .1, .2, .3, .45, .6, .7, .8, .87, .93, .97, .99, 1])
_LOGITS = np.array([
    [-4.2, -3.9046, -2.7446, -2.149, -1.7379, -1.4053, -1.0049, -.8015, -.4238, -.16, .3609, .4542, 1.2091, 1.3167],
    [-4.6, -4.4157, -3.7168, -2.3943, -1.7473, -1.5003, -.8587, -.5814, -.3189, -.0328, .119, .5552, .766, 1.0164],
    [-4.8, -4.6027, -3.4606, -2.345, -1.8018, -1.568, -.888, -.5765, -.2798, -.0718, .2416, .6016, .8111, 1.0324],
])
# fmt: on
_BLOCK = 256  # rows of neighbouring scores among which labels are dealt at random


def criteo_like(epoch: int = 0, seed: int = 0) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Return labels, and scores in (0, 1), as of [DPAUC] after epoch 0, 1 or 2, in random order; of shape (458407,).

    Labels are drawn inside blocks of 256 neighbouring scores, each with as many positives as the scores promise, so
    that the AUC moves by less than 1e-5 from seed to seed and the number of positives not at all.
    """
    random = np.random.default_rng([seed, epoch])
    best_first = (np.arange(CRITEO_ROWS) + random.random(CRITEO_ROWS))[::-1] / CRITEO_ROWS
    scores = expit(_logit_curve(epoch)(best_first))

    expected = np.concatenate([[0.0], np.cumsum(scores)])  # positives in the top k, were the scores exact
    exact = {0: 0, **(CRITEO_TOP if epoch == 0 else {}), CRITEO_ROWS: CRITEO_POSITIVES}
    tops, positives = np.array(list(exact)), np.array(list(exact.values()))
    expected += np.interp(np.arange(CRITEO_ROWS + 1), tops, positives - expected[tops])

    edges = np.union1d(np.arange(0, CRITEO_ROWS, _BLOCK), tops)
    in_block = np.diff(np.rint(expected[edges])).astype(int)
    block = np.repeat(np.arange(len(in_block)), np.diff(edges))
    shuffled = np.lexsort((random.random(CRITEO_ROWS), block))
    labels = np.zeros(CRITEO_ROWS, bool)
    labels[shuffled] = np.arange(CRITEO_ROWS) - edges[block] < in_block[block]

    order = random.permutation(CRITEO_ROWS)
    return labels[order], scores.astype(np.float32)[order]


def _logit_curve(epoch: int) -> CubicHermiteSpline:
    """Return the monotone cubic through the table: Fritsch and Butland's slopes, secants at the ends."""
    slopes = PchipInterpolator(_QUANTILES, _LOGITS[epoch]).derivative()(_QUANTILES)
    slopes[[0, -1]] = (np.diff(_LOGITS[epoch]) / np.diff(_QUANTILES))[[0, -1]]
    return CubicHermiteSpline(_QUANTILES, _LOGITS[epoch], slopes)


def two_models(rows: int) -> dict[str, NDArray[Any]]:
    """Columns of a table: a model's risks, right on the average, and those of an older one, with noise."""
    random = np.random.default_rng(11)
    risk = np.clip(random.beta(1.2, 3, rows), 0, 0.99)
    died, old = random.random(rows) < risk, np.clip(risk + random.normal(0, 0.15, rows), 0, 0.99)
    sites = random.choice(["north", "south"], rows)
    return {"hospital": sites, "died": died, "risk": risk.round(2), "$<b>_old": old.round(2)}
