"""Optimised unary encoding (OUE): a histogram under local differential privacy.

[OUE] Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.

A user's cell v of d is a vector of d bits, of which bit v alone is set. Each bit is randomised on its own:

    P[report 1 | bit 1] = 1/2        P[report 1 | bit 0] = q = 1/(e^ε + 1)

A user without a value sends the same of the vector of zeros. Two vectors differ in two bits, or in one where one of
them is zero, and the probability of a report changes by a factor of at most (1 − q)/q = e^ε, or max(1/(2q), 2(1 − q))
= (e^ε + 1)/2 <= e^ε: ε-local differential privacy, of which cell and of whether there is one.

Of n reports Y_v have bit v set. Ĉ_v = (Y_v − n q)/(1/2 − q) is unbiased for the number c_v of users in cell v, with

    Var Ĉ_v = (c_v/4 + (n − c_v) q (1 − q))/(1/2 − q)² = 4 n e^ε/(e^ε − 1)² + c_v

Probabilities are multiples of 2^-64: 1/2 exactly, and q rounded up, to the private side (`randomness.threshold`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.errors import InputError
from fhe_auc_protocols.u_statistics import randomness
from fhe_auc_protocols.u_statistics.randomness import Source

__all__ = ["NO_VALUE", "UnaryEncoding"]

NO_VALUE = -1
"""The cell of a user who has none."""

_HALF = 2**63
_WORDS = 2**22  # drawn at a time


class UnaryEncoding:
    """OUE over a number of cells.

    Parameters
    ----------
    cells : int
        d >= 1.
    epsilon : float
        Budget of one user's report, in (0, 32].

    Raises
    ------
    InputError
        A parameter is out of range.
    """

    def __init__(self, cells: int, epsilon: float) -> None:
        if cells < 1:
            raise InputError(f"there must be at least one cell, got {cells}")
        self.cells = cells
        self.epsilon = randomness.checked_epsilon(epsilon)
        self._below = randomness.threshold(1, 1, self.epsilon)

    @property
    def flip_probability(self) -> float:
        """Chance q of a 1 where the bit is 0."""
        return randomness.probability(self._below)

    def tally(self, cells: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
        """Randomise one report a user, and count them.

        Parameters
        ----------
        cells : ndarray of int64, shape (n,)
            From 0 to d − 1, or `NO_VALUE`.
        source : Source
            `randomness.secure` where it protects someone.

        Returns
        -------
        ndarray of int64, shape (d,)
            How many of the n reports have each bit set.

        Raises
        ------
        InputError
            A cell is out of range; the message names the user, not the cell.
        """
        unfit = (cells < NO_VALUE) | (cells >= self.cells)
        if unfit.any():
            raise InputError(f"user {int(unfit.argmax())}: the cell must be from 0 to {self.cells - 1}, or {NO_VALUE}")
        batches = np.array_split(cells, max(1, len(cells) * self.cells // _WORDS))
        return sum((self._reports(batch, source).sum(axis=0) for batch in batches), np.zeros(self.cells, np.int64))

    def _reports(self, cells: NDArray[np.int64], source: Source) -> NDArray[np.bool_]:
        words = source.words(len(cells), self.cells)
        reports = words < np.uint64(self._below)
        users = np.flatnonzero(cells != NO_VALUE)
        reports[users, cells[users]] = words[users, cells[users]] < np.uint64(_HALF)
        return reports

    def estimate(self, tally: ArrayLike, reports: int) -> NDArray[np.float64]:
        """Return the unbiased estimate Ĉ of the users in each cell, from a tally of so many reports."""
        q = self.flip_probability
        found: NDArray[np.float64] = (np.asarray(tally, np.float64) - reports * q) / (0.5 - q)
        return found

    def variance(self, counts: ArrayLike, reports: int) -> NDArray[np.float64]:
        """Return the variance of each estimate where the cells hold so many users."""
        q = self.flip_probability
        c = np.asarray(counts, np.float64)
        found: NDArray[np.float64] = (c / 4 + (reports - c) * q * (1 - q)) / (0.5 - q) ** 2
        return found
