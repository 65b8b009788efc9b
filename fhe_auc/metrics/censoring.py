"""Rows that are lost before a horizon: the censoring curve, and the weights with which others stand for them.

By cell of time c (`fhe_auc.question.follow_up`): n_c rows had not ended before it, d_c of them had an event in it, of
any kind, and then q_c were censored. The censoring curve is the share that is not censored up to the end of cell c:

    G_c = Π_{b ≤ c} 1 − q_b/(n_b − d_b)     (Kaplan and Meier, 1958)

A row with an event in cell c has the weight 1/G_{c−1}, one that was followed up for longer than t 1/G_t, one that was
censored before 0 (Uno, Cai, Tian and Wei, JASA 102, 2007). These weights add up to the number of rows; those of rows
with the event to that number times its risk by t (Kaplan and Meier's, or Aalen and Johansen's).

Products and quotients of float64 come one after the other, so that all sites get the same digits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import EvaluationError, UndefinedAucError
from fhe_auc.question.follow_up import CENSORED, EVENT, MOST_STANDS_FOR, UNITS_PER_WEIGHT, AtHorizon, FollowUp


@dataclass(frozen=True, eq=False)
class Ended:
    """Rows by the cell of time in which their follow-up ended, and by what ended it."""

    counts: NDArray[np.int64]  # shape (codes, cells): of the event, of the censored, of competing events
    beyond: int  # rows that were followed up for longer

    def until(self, cells: int) -> "Ended":
        """Return the same rows at the end of so many cells."""
        return Ended(self.counts[:, :cells], self.beyond + int(self.counts[:, cells:].sum()))

    @property
    def not_censored(self) -> list[float]:
        """G before each cell and, last, at the end, shape (cells + 1,)."""
        shares, share, left = [1.0], 1.0, int(self.counts.sum()) + self.beyond
        for ended, lost in zip(self.counts.sum(axis=0).tolist(), self.counts[CENSORED].tolist(), strict=True):
            if lost:
                share *= (left - ended) / (left - ended + lost)
            left -= ended
            shares.append(share)
        return shares


def at_horizon(ended: Ended, follow_up: FollowUp, horizon: float) -> AtHorizon:
    """Return what a session at a horizon knows of the censoring curve of all rows.

    Raises `EvaluationError` where no row, or next to none, is followed up for so long; `UndefinedAucError` where none
    has the event.
    """
    own = ended.until(follow_up.until(horizon))
    shares = own.not_censored
    if not own.beyond or MOST_STANDS_FOR * shares[-1] < 1:
        raise EvaluationError(
            f"no row is followed up for longer than {horizon:g}, or so few that each would stand for more than "
            f"{MOST_STANDS_FOR}, so there is no AUC at this horizon: take an earlier one"
        )
    if not own.counts[EVENT].any():
        raise UndefinedAucError(
            f"no row has the event by {horizon:g}, so there is no AUC at this horizon: take a later one"
        )
    *weights, beyond = (round(UNITS_PER_WEIGHT / share) for share in shares)
    return AtHorizon(horizon=horizon, weights=tuple(weights), beyond=beyond)
