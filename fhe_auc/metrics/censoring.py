"""Rows that are lost before a horizon: the censoring curve, the weights with which others stand for them, and risks.

By cell of time c (`fhe_auc.question.follow_up`): n_c rows had not ended before it, d_c of them had an event in it, of
any kind, e_c of these the one asked about, and then q_c were censored.

    G_c = Π_{b ≤ c} 1 − q_b/(n_b − d_b)     censoring curve: the share that is not censored up to the end of cell c
    S_c = Π_{b ≤ c} 1 − d_b/n_b             the share without any event up to there  (Kaplan and Meier, 1958)
    risk of the event by t = Σ_c S_{c−1}·e_c/n_c, of cells up to t  (Aalen and Johansen, 1978); with no competing
    event, 1 − S

A row with an event in cell c has the weight 1/G_{c−1}, one that was followed up for longer than t 1/G_t, one that was
censored before 0 (Uno, Cai, Tian and Wei, JASA 102, 2007). These weights add up to the number of rows.

Products and quotients of float64 come one after the other, so that all sites get the same digits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError
from fhe_auc.question.follow_up import CENSORED, EVENT, UNITS_PER_WEIGHT, AtHorizon, FollowUp
from fhe_auc.question.weights import MOST_UNITS

_FEW, _LARGE = 30, 10  # rows beyond a horizon, and a weight, that are worth a warning


@dataclass(frozen=True, eq=False)
class Ended:
    """Rows by the cell of time in which their follow-up ended, and by what ended it."""

    counts: NDArray[np.int64]  # shape (codes, cells): of the event, of the censored, of competing events
    beyond: int  # rows that were followed up for longer

    def until(self, cells: int) -> "Ended":
        """Return the same rows at the end of so many cells."""
        return Ended(self.counts[:, :cells], self.beyond + int(self.counts[:, cells:].sum()))

    @property
    def rows(self) -> int:
        """All of them."""
        return int(self.counts.sum()) + self.beyond

    @property
    def not_censored(self) -> list[float]:
        """G before each cell and, last, at the end, shape (cells + 1,)."""
        events, censored = (side.tolist() for side in self._sides)
        shares, left, share = [1.0], self.rows, 1.0
        for ended, lost in zip(events, censored, strict=True):
            left -= ended
            share *= (left - lost) / left if left else 1.0
            left -= lost
            shares.append(share)
        return shares

    @property
    def risk(self) -> float:
        """The risk of the event by the end."""
        events, censored = (side.tolist() for side in self._sides)
        risk, left, free = list[float](), self.rows, 1.0
        for own, ended, lost in zip(self.counts[EVENT].tolist(), events, censored, strict=True):
            if left:
                risk.append(free * own / left)
                free *= (left - ended) / left
            left -= ended + lost
        return math.fsum(risk)

    @property
    def _sides(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows with an event of any kind, and censored ones, in each cell."""
        return self.counts.sum(axis=0) - self.counts[CENSORED], self.counts[CENSORED]


def at_horizon(ended: Ended, follow_up: FollowUp, horizon: float) -> AtHorizon:
    """Return what a session at a horizon knows of the censoring curve of all rows.

    Raises `EvaluationError` where no row, or next to none, is followed up for so long.
    """
    own = ended.until(int(follow_up.cells(np.array([horizon]))[0]) + 1)
    shares = own.not_censored
    if not own.beyond or MOST_UNITS * shares[-1] < UNITS_PER_WEIGHT:
        raise EvaluationError(
            f"no row is followed up for longer than {horizon:g}, or next to none, so there is no AUC at this horizon: "
            "take an earlier one"
        )
    *weights, beyond = (round(UNITS_PER_WEIGHT / share) for share in shares)
    return AtHorizon(horizon=horizon, weights=tuple(weights), beyond=beyond)


def doubts(ended: Ended, ats: Sequence[AtHorizon]) -> list[str]:
    """Return warnings about horizons that few rows reach, and about large weights."""
    found = []
    for at in ats:
        if ended.until(len(at.weights)).beyond < _FEW:
            found.append(
                f"horizon {at.horizon:g}: fewer than {_FEW} rows are followed up for longer; an earlier one says more"
            )
        if (most := at.units.most / UNITS_PER_WEIGHT) > _LARGE:
            found.append(
                f"horizon {at.horizon:g}: so many rows are censored before that one stands for up to {most:.3g}; its "
                "AUC hangs on few rows"
            )
    return found
