"""The censoring curve, its weights and risks, against exact fractions over rows, one row after the other."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import EvaluationError, InputError, UndefinedAucError
from fhe_auc.metrics.censoring import Ended, at_horizon
from fhe_auc.question.follow_up import CENSORED, EVENT, UNITS_PER_WEIGHT, AtHorizon, FollowUp

FOLLOW_UP = FollowUp(time="days", event="status", horizons=(4.0, 7.5), codes=("1", "0", "2"), step=2.0)
ROWS = st.lists(st.tuples(st.floats(0, 12), st.integers(0, 2)), min_size=1, max_size=40)
Row = tuple[float, int]


def ended(rows: Sequence[Row], follow_up: FollowUp = FOLLOW_UP) -> Ended:
    counts = np.zeros((len(follow_up.codes), len(follow_up.edges)), np.int64)
    cells = follow_up.cells(np.array([time for time, _ in rows]))
    for cell, (_, code) in zip(cells, rows, strict=True):
        if cell < len(follow_up.edges):
            counts[code, cell] += 1
    return Ended(counts, int((cells == len(follow_up.edges)).sum()))


def day(time: float) -> float:
    """When a row counts as ended: cells end at 0, 2, 4, 6 and 7.5."""
    return min((edge for edge in (0, 2, 4, 6, 7.5) if time <= edge), default=99.0)


def not_censored(rows: Sequence[Row], until: float) -> Fraction:
    """Kaplan and Meier's share that is not censored by then, events before censorings on a day."""
    share = Fraction(1)
    for when in sorted({day(time) for time, _ in rows if day(time) <= until}):
        lost = sum(day(time) == when and code == CENSORED for time, code in rows)
        exposed = sum(day(time) > when for time, _ in rows) + lost
        share *= 1 - Fraction(lost, exposed) if lost else 1
    return share


def weight(rows: Sequence[Row], own: Row, horizon: float) -> Fraction:
    when = day(own[0])
    if when > horizon:
        return 1 / not_censored(rows, horizon)
    return Fraction(0) if own[1] == CENSORED else 1 / not_censored(rows, np.nextafter(when, -1))


def risk(rows: Sequence[Row], horizon: float) -> Fraction:
    """Aalen and Johansen's, of the event."""
    found, free = Fraction(0), Fraction(1)
    for when in sorted({day(time) for time, _ in rows if day(time) <= horizon}):
        left = sum(day(time) >= when for time, _ in rows)
        here = [code for time, code in rows if day(time) == when]
        found += free * Fraction(here.count(EVENT), left)
        free *= 1 - Fraction(len(here) - here.count(CENSORED), left)
    return found


@given(ROWS, st.sampled_from(FOLLOW_UP.horizons))
def test_weights_are_those_of_exact_fractions_over_rows_and_add_up_to_all_rows(rows: list[Row], horizon: float) -> None:
    if not any(day(time) > horizon for time, _ in rows):
        with pytest.raises(EvaluationError, match="no row is followed up for longer than"):
            at_horizon(ended(rows), FOLLOW_UP, horizon)
        return
    if not any(code == EVENT and day(time) <= horizon for time, code in rows):
        with pytest.raises(UndefinedAucError, match="no row has the event by"):
            at_horizon(ended(rows), FOLLOW_UP, horizon)
        return
    at = at_horizon(ended(rows), FOLLOW_UP, horizon)
    weights = [weight(rows, row, horizon) for row in rows]
    assert sum(weights) == len(rows)
    events = [own for (time, code), own in zip(rows, weights, strict=True) if code == EVENT and day(time) <= horizon]
    assert sum(events) == len(rows) * risk(rows, horizon)
    cells = np.minimum(FOLLOW_UP.cells(np.array([time for time, _ in rows])), len(at.weights))
    for exact, row, cell in zip(weights, rows, cells, strict=True):
        if exact:
            units = [*at.weights, at.beyond][cell]
            assert abs(units - UNITS_PER_WEIGHT * exact) <= Fraction(501, 1000), row
    assert at.units.most == max(*at.weights, at.beyond)


def test_a_horizon_that_next_to_nobody_reaches_is_refused() -> None:
    """A site that makes up rows can then part early events from late ones by their weights in a sum."""
    rows = [Ended(np.array([[0] * 5, [0, 99 + more, 0, 0, 0], [0] * 5]), 1) for more in (0, 1)]
    with pytest.raises(UndefinedAucError, match="no row has the event"):
        at_horizon(rows[0], FOLLOW_UP, 4.0)
    with pytest.raises(EvaluationError, match=r"would stand for more than 100, .* at this horizon: take an earlier"):
        at_horizon(rows[1], FOLLOW_UP, 4.0)
    with pytest.raises(InputError, match="fall with time, or are below 1 or above 100,000 units"):
        AtHorizon(4.0, (1000, 1000), 100_001)
