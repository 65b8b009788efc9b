"""Rows that their owner looks at before a session: checks, and warnings for its own people.

Thresholds that do not fit the scores make a meaningless AUC that looks like any other: percentages at thresholds from 0
to 1 all lie in the last bin. So do one site's scores that were turned. Nobody else sees the rows, so each party has to
notice by itself. The messages are for that party's own people, and never sent.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.score_bins import in_bins, listed, numbers, starts_of
from fhe_auc.rows.party_data import PartyData

_NEARLY_ALL = 0.99  # of a party's rows in one end bin: more likely another column than a classifier's scores
_SIZEABLE = 0.05  # of a party's rows beyond either end are worth a warning
ONLY_NOISE = "only noise"  # in a warning that is beside the point where there is noise
_FEW = 10  # rows that are easily told from the pool's
_LEAST, _LEAST_PERFECT = 20, 50  # rows of one score, or with few levels; rows of each label with an AUC of 1
_ERRORS = 3  # standard errors below 1/2: in truth at 1/2, one party in 740 is so; of better ones, far fewer
_EXPECTED = 10  # rows of a label that are missed
_UNLIKE, _SURELY = 0.02, 4  # share of rows, and standard errors, by which weights at a horizon may add up to others
_LOST = (
    "rows that are censored earlier, or later, than one censoring curve for all sites says: results may be biased; "
    "weights of one's own, 1 over the share that its own curve leaves, go with --weight-column"
)
_Ranked: TypeAlias = tuple[NDArray[np.int64], float]
SAMPLE = 2**14  # hashes of a party's rows
_MIXED = (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)  # SplitMix: Steele, Lea, Flood, OOPSLA 2014
ROUNDING = 1e-6  # by so much float32 arithmetic, as of a softmax, may leave [0, 1]


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
    low, high = data.span(model)
    span = f"from {low:.10g} to {high:.10g}"

    values = listed(thresholds)
    if values is not None or _for_probabilities(thresholds):
        if values is None and low >= 0 and high <= 1:
            return
        if (others := range_of(data, model, partial(_outside, values))).rows:
            place, score = data.place(others.first), float(data.scores[model][others.first])
            what = f"for probabilities; this party's scores run {span}: {_remedy(low, high)}"
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
    if low >= first and high < last:
        return
    for beyond, where in (
        (lambda scores: scores < first, f"below the first threshold, {first:g}"),
        (lambda scores: scores >= last, f"at or above the last threshold, {last:g}"),
    ):
        of_these = range_of(data, model, beyond)
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


def range_of(data: PartyData, model: int, chosen: Callable[[NDArray[np.float64]], NDArray[np.bool_]]) -> _Range:
    """Return how many of the rows are chosen, and the least and greatest of their scores."""
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


def _remedy(low: float, high: float) -> str:
    if low >= -ROUNDING and high <= 1 + ROUNDING:
        return "if this is a rounding error, clip them to 0 and 1"
    return (
        "check that this is the column of scores; then let thresholds span them: between sites score values that the "
        "study lists, or a file of `fhe-auc thresholds --own-rows`, in one process none given; or, where those of all "
        "parties are alike, set the score scale to percent or logit (--score-scale, in Python score_scale=)"
    )


def doubts(
    parties: Sequence[PartyData], thresholds: NDArray[np.float64], analysis: Analysis = PLAIN
) -> tuple[str, ...]:
    """Return what is odd about one party's own rows, or those of several in one place, in words that a log may have.

    - A party has fewer than 10 rows; or 20 and more, all of one score.
    - More than 5 % of its rows lie outside the ascending thresholds, unless these are for probabilities.
    - Its own AUC, in bins, is more than 3 standard errors (Mann-Whitney) below 1/2, with 10 rows of both labels; or it
      is 1, with 50.
    - It has no row of a label of which 10 are expected by the others' share; or, where it is alone, by one of a tenth.
    - All rows, or more of them than chance makes, are there twice, or more often.
    - At a horizon its weights do not add up to its rows, as those of all do, by 2 % and 4 standard errors.
    - It is alone, and has only `few_levels`.
    """
    found, starts, several = dict[str, dict[str, None]](), starts_of(thresholds), len(parties[0].scores) > 1
    for model in range(len(parties[0].scores)):
        labels = ("others", analysis.classes[model]) if analysis.classes else ("0", "1")
        ranked = [_ranked(data, model, model if analysis.classes else 1, starts) for data in parties]
        total = np.sum([sizes for sizes, _ in ranked], axis=0)
        for data, (sizes, right) in zip(parties, ranked, strict=True):
            others = total - sizes
            shares = others / others.sum() if others.any() else np.full(2, 0.1)
            for what in _odd(data, model, thresholds, (sizes, right), sizes.sum() * shares):
                found.setdefault(what.format(f" of model {model + 1}" * several, labels), {})[data.name] = None
    if repeated := {data.name: None for data in parties if _is_repeated(data)}:
        found["rows twice or more, as copies and joins make them: shall all count? --cluster names patients"] = repeated
    if analysis.at and (odd := {own.name: None for own in parties if _is_lost_otherwise(own, analysis.at.units.per)}):
        found[_LOST] = odd
    told = [f"{_who([*names], parties)} {what}" for what, names in found.items()]
    return (*told, *(few_levels(parties[0], analysis) if len(parties) == 1 else ()))


def _odd(
    data: PartyData, model: int, grid: NDArray[np.float64], ranked: _Ranked, expected: NDArray[np.float64]
) -> Iterator[str]:
    """Yield what is odd about a party of which as many rows are `expected` of other labels, and of the model's."""
    (sizes, right), (first, last) = ranked, grid[[0, -1]].tolist()
    pairs, least = float(sizes[0]) * float(sizes[1]), int(sizes.min())
    if sizes.sum() < _FEW:
        yield (
            f"fewer than {_FEW} rows: who knows or guesses what the others have put in can tell such rows from the "
            f"result; {ONLY_NOISE}, as of dpauc-laplace, bounds that"
        )
    beyond = partial(range_of, data, model, lambda scores: (scores < first) | (scores > last))
    if not _for_probabilities(grid) and beyond().rows > _SIZEABLE * data.rows:
        yield (
            f"more than {_SIZEABLE:.0%} of the rows outside the thresholds ({first:g} to {last:g}), where they share "
            "one bin: take bin edges that span the scores"
        )
    if least >= _FEW and right / pairs - 0.5 < -_ERRORS * math.sqrt((sizes.sum() + 1) / (12 * pairs)):
        yield "scores{0} that fall where labels rise, its own AUC is far below 0.5: one may be turned, or reversed"
    if least >= _LEAST_PERFECT and right == pairs:
        yield "scores{0} that tell the labels without an error: are they made of these?"
    if data.rows >= _LEAST and len({*data.span(model)}) == 1:
        yield "one and the same score{0} in all rows"
    if (missed := (sizes == 0) & (expected >= _EXPECTED)).any():
        yield f"no row of label {{1[{missed.argmax()}]}}, where more are to be expected: is it written in another way?"


def _ranked(data: PartyData, model: int, label: int, starts: NDArray[np.float64]) -> _Ranked:
    """Return the numbers of rows that are not of a label, and that are; and of pairs of both in the right order."""
    counts = np.zeros((2, len(starts)), np.int64)
    for batch in data.batches():
        at = in_bins(batch.scores[model], starts) + len(starts) * (batch.labels == label)
        at = at if batch.weights is None else at[batch.weights > 0]  # others do not count
        counts += np.bincount(at, minlength=counts.size).reshape(counts.shape)
    return counts.sum(axis=1), float(counts[1] @ (counts[0].cumsum() - counts[0] / 2))


def row_hashes(batch: PartyData, seed: int = 0x9E3779B97F4A7C15) -> NDArray[np.uint64]:
    """Return a hash of each row's label, scores, levels, weight and time: it tells rows apart, no attack withstood."""
    hashes: NDArray[np.uint64] = np.full(batch.rows, seed, np.uint64)
    own = (array for name, array in batch.optional.items() if name != "clusters")  # whose codes others may change
    for column in (*batch.arrays[: 1 + len(batch.scores) + len(batch.groups)], *own):
        hashes ^= (column.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 is 0.0
        for shift, factor in _MIXED:
            hashes = (hashes ^ (hashes >> np.uint64(shift))) * np.uint64(factor)
    return hashes


class Look(NamedTuple):
    """What tells a party's rows: the sum of hashes; those below a share of 2^64, ascending, and how often each is."""

    data: PartyData
    total: int
    least: NDArray[np.uint64]
    times: NDArray[np.int64]
    share: float

    def differ(self, rows: float) -> bool:
        """Whether about so many rows differ."""
        return len(self.least) >= self.share * rows


def looked_at(data: PartyData, most: int) -> Look:
    """Return what tells a party's rows, by a sample of about so many hashes at most."""
    share, total, sample = min(1.0, most / data.rows), 0, list[NDArray[np.uint64]]()
    for batch in data.batches():
        hashes = row_hashes(batch)
        total = (total + int(hashes.sum(dtype=np.uint64))) % 2**64
        sample.append(hashes[hashes <= share * 2.0**64])
    return Look(data, total, *np.unique(np.concatenate(sample), return_counts=True), share)


def _is_repeated(data: PartyData) -> bool:
    """Whether rows were repeated: all of 30 different ones or more are there a multiple of some times, or many twice.

    Ties by chance make 2 d^2 / (3 s) threes or more of s rows that are there once, and d twice (a Poisson law; more
    where some values are likelier). By 6 standard errors fewer there are by chance in one of 10^9 parties.
    """
    times = looked_at(data, SAMPLE).times if data.rows else np.empty(0, np.int64)
    once, twice, more = (times == 1).sum(), (times == 2).sum(), (times > 2).sum()
    expected = 2 * twice**2 / (3 * max(once, 1))
    return bool(len(times) >= 30 and (np.gcd.reduce(times) > 1 or more < expected - 6 * math.sqrt(expected)))


def _is_lost_otherwise(data: PartyData, per: int) -> bool:
    """Whether a party's rows are censored earlier or later than all rows: else each weighs 1 on average."""
    if data.weights is None:
        return False
    weights = data.weights / per
    off = abs(float(weights.sum()) - data.rows)
    return off > _UNLIKE * data.rows and off > _SURELY * math.sqrt(max(float(weights @ (weights - 1)), 0.0))


def few_levels(data: PartyData, analysis: Analysis) -> tuple[str, ...]:
    """Return of which columns half or more of the levels have no row, of 20 or more.

    The result tells all parties the own AUC of who alone has a level, as where others write F and M for its 0 and 1. No
    party knows which levels others have: it sees that it has only some. One that has more, and one whose levels others
    only seem to have, since a maker lists them or lies about its rows, cannot see it. So a study's levels are read by a
    person before the site agrees.
    """
    found = []
    for place, variable in enumerate(analysis.by):
        there = levels_in(data, place, len(variable.levels))
        if data.rows >= _LEAST and 2 * there.sum() <= len(there):
            own = ", ".join(repr(variable.levels[at]) for at in np.flatnonzero(there)[:5])
            found.append(
                f"party {data.name!r} has rows of {own} alone, of {len(there)} levels of {variable.name!r}: do others "
                "write these levels otherwise? If no other party has such rows, the result tells all its own AUC"
            )
    return tuple(found)


def levels_in(data: PartyData, place: int, levels: int) -> NDArray[np.bool_]:
    """Return which levels rows have, of the variable at this place, which has so many; shape (levels,)."""
    rows = [np.bincount(batch.groups[place], minlength=levels) for batch in data.batches()]
    return np.asarray(np.any(rows, axis=0))


def left_out(parties: Sequence[PartyData]) -> tuple[str, ...]:
    """Return what was left out of the parties' rows, and which sites with it."""
    told = [
        f"party {data.name!r}: {data.dropped:,} rows with a missing entry were left out"
        for data in parties
        if data.dropped
    ]
    return (*told, *(text for data in parties for text in data.notes))


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
