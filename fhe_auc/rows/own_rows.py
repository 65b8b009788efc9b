"""Rows that their owner looks at before a session: checks, warnings for its own people, thresholds of its own rows.

**Checks.** Thresholds that do not fit the scores make a meaningless AUC that looks like any other: percentages at
thresholds from 0 to 1 all lie in the last bin. Nobody else sees the rows, so each party has to notice by itself. The
messages are for that party's own people, and never sent.

**Own values.** Most risk scores have few values: points, a tree's leaves, rounded percentages. With v' the next number
after v (`fhe_auc.question.score_bins`), thresholds at v and v' give v a bin of its own, where rows tie since their
scores do. The rows are all rows of one process, or those of who makes a session.

- own values are the numbers that at least 10 of the rows have, the most frequent first, 500 of them at most, with a
  quarter of all thresholds at most;
- where scores are probabilities, the other thresholds are a named grid, made smaller by as many;
- otherwise half of the others, at most, have at least 10 rows between two of them, about as many in each gap, and are
  rounded to three digits, or left out where the rows beside them differ less; the rest is equidistant in arsinh(s/u),
  u being the median size of a score, between numbers of three digits beyond which lie ten rows.

Of fewer than 100 rows, fewer lie there. Of more than 2^22 scores, evenly spaced ones are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.options import Options
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.score_bins import listed, numbers, with_bins_of
from fhe_auc.rows.party_data import PartyData

_NEARLY_ALL = 0.99  # of a party's rows in one end bin: more likely another column than a classifier's scores
_SIZEABLE = 0.05  # of a party's rows beyond either end are worth a warning
_FEW = 10  # rows that are easily told from the pool's
_ROUNDING = 1e-6  # by so much float32 arithmetic, as of a softmax, may leave [0, 1]

LEAST_ROWS = 10  # that have a value, or lie between two thresholds
LEAST_OWN_ROWS = 100  # of who makes a session; of fewer, thresholds would tell more
_MOST_VALUES = 500
_MOST_SCORES = 2**22
NOT_OF_ROWS = ("epsilon", "round_scores")  # options; where they are set, thresholds must not be of the rows


def check_scores(data: PartyData, thresholds: NDArray[np.float64]) -> None:
    """Raise `InputError` where a party's scores cannot be what the session's thresholds, shape (m,), are for.

    Thresholds within [0, 1], as all named grids are, are for probabilities: no score may lie outside [0, 1], not even
    by a rounding error, since histograms have no bin there. Other thresholds may be for scores of any range, and scores
    may lie beyond them; refused is only a party of which 99 % of the rows, with different scores, lie below the first
    threshold, or at or above the last one. Thresholds of listed values (`fhe_auc.question.score_bins`) are for these
    alone. The message names party, column, row, value and range.
    """
    for model in range(len(data.scores)):
        _check(data, model, thresholds)


def _check(data: PartyData, model: int, thresholds: NDArray[np.float64]) -> None:
    column = data.score_columns[model] if data.score_columns else None
    found = _range(data, model)
    span = f"from {found.low:.10g} to {found.high:.10g}"

    values = listed(thresholds)
    if values is not None or _for_probabilities(thresholds):
        if (others := _range(data, model, partial(_outside, values))).rows:
            place, score = data.place(others.first), float(data.scores[model][others.first])
            what = f"for probabilities; this party's scores run {span}: {_remedy(found)}"
            if values is not None:
                what = (
                    f"of listed scores alone, of which {values[np.argmin(np.abs(values - score))]:.7g} is the nearest"
                )
            raise InputError(
                f"{data.described(model, others.first)}: score is {score!r}, but these thresholds are {what}",
                party=data.name,
                file=place.file,
                line=place.line,
                column=column,
            )
        return
    first, last = thresholds[0], thresholds[-1]
    for beyond, where in (
        (lambda scores: scores < first, f"below the first threshold, {first:g}"),
        (lambda scores: scores >= last, f"at or above the last threshold, {last:g}"),
    ):
        of_these = _range(data, model, beyond)
        if of_these.rows >= _NEARLY_ALL * data.rows and of_these.low < of_these.high:
            raise InputError(
                f"{data.described(model)}: of its rows {100 * of_these.rows / data.rows:.3g} % lie {where}; its scores "
                f"run {span}: check that this is the column of scores, or take thresholds that span them",
                party=data.name,
                column=column,
            )


class _Range(NamedTuple):
    rows: int
    low: float
    high: float
    first: int  # row of them


def _range(
    data: PartyData, model: int, chosen: Callable[[NDArray[np.float64]], NDArray[np.bool_]] = np.isfinite
) -> _Range:
    """Return how many of the rows (all, or those chosen) there are, and the least and greatest of their scores."""
    found, before = _Range(0, math.inf, -math.inf, 0), 0
    for batch in data.batches():
        at = np.flatnonzero(chosen(batch.scores[model]))
        if len(at):
            scores, first = batch.scores[model][at], found.first if found.rows else before + int(at[0])
            low, high = min(found.low, float(scores.min())), max(found.high, float(scores.max()))
            found = _Range(found.rows + len(at), low, high, first)
        before += batch.rows
    return found


def _outside(values: NDArray[np.float64] | None, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (scores < 0) | (scores > 1) if values is None else ~np.isin(numbers(scores), values)


def _remedy(found: _Range) -> str:
    if found.low >= -_ROUNDING and found.high <= 1 + _ROUNDING:
        return "if this is a rounding error, clip them to 0 and 1"
    return (
        "check that this is the column of scores; then let thresholds span them: between sites score values that the "
        "study lists, or a file of `fhe-auc thresholds --own-rows`, in one process none given; or set the score scale "
        "to percent or logit (--score-scale, in Python score_scale=)"
    )


def warnings_of(parties: Sequence[PartyData], thresholds: NDArray[np.float64]) -> tuple[str, ...]:
    """Return warnings about one party's own rows, or those of several in one place, at these ascending thresholds.

    Rows, and sites with them, were left out; a party has fewer than 10 rows; or, with thresholds that are not for
    probabilities, more than 5 % of its rows lie outside.
    """
    first, last = thresholds[0], thresholds[-1]
    few = [data.name for data in parties if data.rows < _FEW]
    outside = [
        data.name
        for data in parties
        if max(
            _range(data, model, lambda scores: (scores < first) | (scores > last)).rows
            for model in range(len(data.scores))
        )
        > _SIZEABLE * data.rows
    ]
    warnings = [*left_out(parties)]
    if few:
        warnings.append(
            f"{_who(few, parties)} fewer than {_FEW} rows: who knows or guesses what the others have put in can tell "
            "such rows from the result; only noise, as of dpauc-laplace, bounds that"
        )
    if outside and not _for_probabilities(thresholds):
        warnings.append(
            f"{_who(outside, parties)} more than {_SIZEABLE:.0%} of the rows outside the thresholds ({first:g} to "
            f"{last:g}), where they are not told apart: take thresholds that span the scores"
        )
    return tuple(warnings)


def left_out(parties: Sequence[PartyData]) -> tuple[str, ...]:
    """Return what was left out of the parties' rows, and which sites with it."""
    told = [
        f"party {data.name!r}: {data.dropped:,} rows with a missing entry were left out"
        for data in parties
        if data.dropped
    ]
    return (*told, *(text for data in parties for text in data.lost))


def near_other_sessions(party: str, rows: int, others: Iterable[int]) -> tuple[str, ...]:
    """Return a warning where a party had 1 to 9 rows more or fewer in `others`: the difference tells of these."""
    differences = [abs(rows - other) for other in others if 0 < abs(rows - other) < _FEW]
    if not differences:
        return ()
    least = min(differences)
    return (
        f"party {party!r}: the number of rows differs by {least} from another session of this model and outcome: "
        f"who sees both results learns about {'that row' if least == 1 else 'those rows'}",
    )


def _who(names: Sequence[str], parties: Sequence[PartyData]) -> str:
    if len(names) == 1:
        return f"party {names[0]!r} has"
    return f"{len(names)} of {len(parties)} parties, {names[0]!r} first, have"


def _for_probabilities(thresholds: NDArray[np.float64]) -> bool:
    return bool(thresholds[0] >= 0 and thresholds[-1] <= 1)


class Thresholds(NamedTuple):
    """Thresholds, shape (m,), and what people are told of how they were chosen: "hybrid:5000 with 10 own values"."""

    grid: NDArray[np.float64]
    chosen: str


def default_thresholds(
    parties: Sequence[PartyData], analysis: Analysis, known: Options, options: Mapping[str, object]
) -> Thresholds:
    """Return the thresholds of one process where none are given, for some of the `known` options of a protocol.

    They are of the rows, unless the protocol adds noise, or rounds scores. Raises `InputError` where some parties have
    fractions and others percentages.
    """
    named = known.thresholds_for(several=analysis.coarse, compared=analysis.compared)
    if any(options.get(name) is not None for name in NOT_OF_ROWS):
        return Thresholds(grids.parse(named), named)
    _require_one_scale(parties)
    return of_scores([scores for data in parties for scores in data.scores], named)


def of_scores(columns: Sequence[NDArray[np.float64]], named: str) -> Thresholds:
    """Return thresholds for scores like these, finite, of shape (n,) each: as many as `named` has at most."""
    every = math.ceil(sum(map(len, columns)) / _MOST_SCORES)
    scores = numbers(np.concatenate([each[::every] for each in columns]))
    values, rows = np.unique(scores, return_counts=True)
    size = len(grids.parse(named))
    frequent = np.flatnonzero(rows >= LEAST_ROWS)
    frequent = frequent[np.argsort(-rows[frequent], kind="stable")][: min(_MOST_VALUES, size // 8)]
    own = np.sort(values[frequent])
    said = f" with {len(own)} own value{'s' * (len(own) > 1)}" if len(own) else ""
    if values[0] >= -_ROUNDING and values[-1] <= 1 + _ROUNDING:  # what is beyond by a rounding error is refused later
        own = own[(own >= 0) & (own <= 1)]
        if not len(own):
            return Thresholds(grids.parse(named), named)
        others = grids.parse(f"{named.partition(':')[0]}:{max(size - 2 * len(own), grids.MIN_SIZE)}")
        return Thresholds(grids.explicit(with_bins_of(own, others)), named + said)
    grid = with_bins_of(own, _spanning(values, rows, size - 2 * len(own) - 1))
    grid[0] -= (listed(grid) is not None) * max(1.0, abs(grid[0]))  # of rows: no score is refused
    return Thresholds(grids.explicit(grid), f"{len(grid):,} points of these rows{said}")


def _spanning(values: NDArray[np.float64], rows: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return numbers among ascending values, of which there are so many rows each; `size` at most."""
    below = np.cumsum(rows)
    cuts = _cuts(values, below, size // 2)
    beyond = min(LEAST_ROWS, int(below[-1]) // LEAST_ROWS)
    ends = values[np.searchsorted(below, [beyond, below[-1] - 1 - beyond], side="right")]
    if (rounded := np.array([_three_digits(end) for end in ends.tolist()]))[0] < rounded[1]:
        ends = rounded
    unit = max(float(np.median(np.abs(values))), 1e-9 * float(np.abs(ends).max()), float(np.finfo(float).tiny))
    first, last = np.arcsinh(ends / unit).tolist()
    with np.errstate(over="ignore"):  # of an end near the last float64
        spread = unit * np.sinh(np.linspace(first, last, size - len(cuts)))
    return np.unique(numbers(np.concatenate([np.clip(spread, *ends), cuts])))


def _cuts(values: NDArray[np.float64], below: NDArray[np.int64], most: int) -> NDArray[np.float64]:
    """Return at most so many numbers between values, with at least 10 rows between two of them."""
    total, found, last = int(below[-1]), list[float](), 0
    step = max(LEAST_ROWS, math.ceil(total / most))
    while (at := int(np.searchsorted(below, last + step))) < len(values) - 1 and total - below[at] >= LEAST_ROWS:
        low, high, last = float(values[at]), float(values[at + 1]), int(below[at])
        if low < (point := _three_digits(low / 2 + high / 2)) <= high:
            found.append(point)
    return np.array(found)


def _three_digits(number: float) -> float:
    return float(f"{number:.3g}")


def _require_one_scale(parties: Sequence[PartyData]) -> None:
    """Raise `InputError` where one party's scores are fractions, and another's percentages."""
    most = max(parties, key=lambda data: float(data.y_score.max()))
    if min(data.y_score.min() for data in parties) < 0 or not 20 < (high := most.y_score.max()) <= 100:
        return
    for data in parties:
        scores = data.y_score
        if len(scores) >= LEAST_ROWS and scores.max() <= 1 and (scores % 1).any() and np.median(most.y_score) > 1:
            raise InputError(
                f"{data.described(0)}: its scores run to {scores.max():.4g}, as fractions do, and those of party "
                f"{most.name!r} to {high:.4g}, as percentages do: convert one of them; or, if all are right as they "
                "are, give thresholds",
                party=data.name,
            )
