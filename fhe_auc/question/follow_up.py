"""Rows that are followed up for some time: who had the event by a horizon, and who was lost before.

    time T      how long a row was followed up, in the unit of the horizons (days, say)
    event       what ended that: the event, or nothing (the row is censored), or a competing event

Time is cut into cells: cell c has the times above `edges[c − 1]` and up to `edges[c]`, cell 0 those up to `edges[0]`.
All times of a cell count as its end, events before censorings. Edges are public: multiples of a step, and the horizons.
Times above the last horizon are in one cell more.

At a horizon t a row is positive that had the event by t, negative that was followed up for longer, or had a competing
event by t: cumulative cases, dynamic controls (Blanche, Dartigues and Jacqmin-Gadda, Statistics in Medicine 32, 2013).
Rows censored by t are neither: the others stand for them, each with the weight 1/G of its time, G the share that is not
censored (`fhe_auc.metrics.censoring`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.weights import Units, named_values

MOST_HORIZONS, MOST_CELLS = 10, 2**16
EVENT, CENSORED = 0, 1  # indices of codes; those behind are of competing events
UNITS_PER_WEIGHT = 1000
MOST_STANDS_FOR = (
    100  # rows that one stands for: sites that make rows up could part early events from late ones by more
)
GRIDS = {"days": 1.0, "weeks": 7.0, "months": 365.25 / 12}  # steps of times in days
CODES = ("1", "0")

IN_A_STUDY = "time-column", "event-column", "horizon", "time-grid"
OPTIONS = "--time-column", "--event-column", "--horizon", "--time-grid"
KEYWORDS = "time", "event", "horizon", "time_grid"
"""What messages call times, events, horizons and the grid, in a study's file, on the command line and in Python."""


class FollowUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Columns of times and events, codes of these, horizons, and the step of the public cells of time.

    Raises `InputError` where these cannot be.
    """

    time: str
    event: str
    horizons: tuple[float, ...]
    codes: tuple[str, ...] = CODES  # of the event, of the censored, and of competing events
    step: float = 1.0

    def __post_init__(self) -> None:
        if not 2 <= len(set(self.codes)) == len(self.codes) <= 20:
            raise InputError(
                f"column {self.event!r}: name the code of the event, that of the censored, and those of competing "
                f"events, all different; got {', '.join(map(repr, self.codes)) or 'none'}"
            )
        ascending = all(a < b for a, b in zip((0.0, *self.horizons), self.horizons, strict=False))
        if not 1 <= len(self.horizons) <= MOST_HORIZONS or not ascending or not math.isfinite(self.horizons[-1]):
            got = ", ".join(map("{:g}".format, self.horizons)) or "none"
            raise InputError(f"horizon: give 1 to {MOST_HORIZONS} times above 0, ascending; got {got}")
        if not 0 < self.step < math.inf or self.horizons[-1] / self.step > MOST_CELLS:
            raise InputError(
                f"time grid: a step is above 0, and there are at most {MOST_CELLS:,} up to the last horizon, "
                f"{self.horizons[-1]:g}; got steps of {self.step:g}" + "; take a wider one, as weeks" * (self.step > 0)
            )

    @property
    def edges(self) -> NDArray[np.float64]:
        """Upper ends of the cells, shape (cells,), ascending; the last is the last horizon."""
        steps = self.step * np.arange(math.floor(self.horizons[-1] / self.step) + 1)
        return np.union1d(steps, self.horizons)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of counts of rows by code and cell, but for those above the last horizon."""
        return len(self.codes), len(self.edges)

    def until(self, horizon: float) -> int:
        """Return how many cells there are up to a horizon."""
        return int(np.searchsorted(self.edges, horizon)) + 1

    def has(self, at: AtHorizon) -> bool:
        """Whether this is one of the horizons, with a weight for each cell up to it."""
        return at.horizon in self.horizons and len(at.weights) == self.until(at.horizon)

    def cells(self, times: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the cell of each time, shape (n,): `len(edges)` for those above the last horizon."""
        return np.searchsorted(self.edges, times, side="left").astype(np.int64)


class AtHorizon(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a session at one horizon knows in public, of the session before, which has pooled the censoring curve.

    Raises `InputError` where these can be no weights.
    """

    horizon: float
    weights: tuple[int, ...]  # 1/G(T−) in units, of rows whose time is in each cell up to the horizon
    beyond: int  # 1/G(t), of rows that were followed up for longer

    def __post_init__(self) -> None:
        if not self.weights or len(self.weights) > MOST_CELLS + MOST_HORIZONS:
            raise InputError(f"the weights at horizon {self.horizon:g} are of {len(self.weights):,} cells of time")
        most = MOST_STANDS_FOR * UNITS_PER_WEIGHT
        ends = UNITS_PER_WEIGHT, *self.weights, self.beyond, most
        if any(before > after for before, after in pairwise(ends)):
            raise InputError(
                f"weights at horizon {self.horizon:g} fall with time, or are below 1 or above {most:,} units"
            )

    @property
    def units(self) -> Units:
        """The fixed point of the weights."""
        return Units(max(*self.weights, self.beyond), UNITS_PER_WEIGHT)


def events_of(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the column of events and their codes of "NAME=EVENT,CENSORED,COMPETING", or "NAME"."""
    column, codes = named_values(text)
    return column, codes or CODES


def follow_up_of(
    time: str,
    event: str,
    horizons: Sequence[float],
    grid: str | float = "",
    *,
    codes: Sequence[str] = CODES,
    beside: str = "",
    names: tuple[str, str, str, str] = IN_A_STUDY,
) -> FollowUp | None:
    """Return what is asked of follow-up times, None where nothing is; `grid` is one of `GRIDS`, or a step.

    Raises `InputError`, in which these have their `names`, where some are there without others, or what is of labels is
    given `beside` them.
    """
    given = dict(zip(names, (time, event, tuple(horizons), grid), strict=True))
    there = [name for name in names if given[name] not in ("", ())]
    if there and (lacking := [name for name in names[:3] if name not in there]):
        raise InputError(f"{there[0]}: follow-up times need {', '.join(lacking)} too")
    if there and beside:
        raise InputError(f"{beside} does not go with {names[0]}: no labels are read then, but events and times")
    try:
        step = GRIDS.get(str(grid)) or float(GRIDS["days"] if grid == "" else grid)
    except ValueError:
        raise InputError(f"{names[3]} is {', '.join(GRIDS)} or a step of times, not {grid!r}") from None
    return FollowUp(time, event, tuple(sorted(horizons)), tuple(codes), step) if there else None
