"""SIMULATED noise for experiments: fast, seeded, protecting nobody. Sessions use `fhe_auc_protocols.opendp_samplers`.

Draws the AUC of many runs of a [DPAUC] session at once, from the pooled exact counts. That is enough, because noise
does not depend on what it is added to: only the sum over the K parties matters, and its law is known.

    Laplace    a Laplace variable is the difference of two exponentials, and K exponentials add up to a Gamma(K):
               the sum of K parties' noise is scale · (Gamma(K) − Gamma(K))
    Gaussian   σ √K times a standard Gaussian
    flips      of the rows in a bin, Binomial(rows, ρ) change their label, whoever has them

numpy draws continuous noise; the real Laplace noise is discrete, and the real Gaussian noise rounded to integers. For
scales above 1 that changes a variance by less than 1/6: by 0.3 % at most in the settings of the paper.
"""

import numpy as np
from numpy.typing import NDArray

from fhe_auc_protocols.dpauc.budget import LAPLACE, Budget
from fhe_auc_protocols.dpauc.roc import bins_of, estimate, statistics_of_bins

_NOISED_VALUES = 4_000_000  # noisy counts that are held at a time


def aucs(
    counts: NDArray[np.int64], budget: Budget, *, parties: int, runs: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return the AUCs that so many independent sessions would give, shape (runs,), as `dpauc.roc.estimate` does.

    From exact counts of all rows together, shape (4, m) (`dpauc.roc.statistics`), for a budget without `score_epsilon`.
    So many parties hold the rows, however these are dealt out.
    """
    batches = np.array_split(np.arange(runs), min(runs, max(1, runs * counts.size // _NOISED_VALUES)))
    return np.concatenate([_batch(counts, budget, parties, len(batch), random) for batch in batches])


def _batch(
    counts: NDArray[np.int64], budget: Budget, parties: int, runs: int, random: np.random.Generator
) -> NDArray[np.float64]:
    shape = (runs, *counts.shape)
    if budget.flips:
        bins = bins_of(counts)
        leaving = random.binomial(bins, budget.flip_probability, (runs, *bins.shape))
        return estimated(statistics_of_bins(bins - leaving + leaving[:, ::-1]), budget)
    if budget.mechanism == LAPLACE:
        noise = random.standard_gamma(parties, shape) - random.standard_gamma(parties, shape)
    else:
        noise = np.sqrt(parties) * random.standard_normal(shape)
    return estimated(counts + budget.noise_scale * noise, budget)


def estimated(sums: NDArray[np.float64] | NDArray[np.int64], budget: Budget) -> NDArray[np.float64]:
    """Return the AUCs of noisy sums, shape (..., 4, m), of a session with this budget."""
    flipped = budget.flip_probability if budget.flips else None
    return estimate(sums.astype(np.float64), budget.curve, flip_probability=flipped)
