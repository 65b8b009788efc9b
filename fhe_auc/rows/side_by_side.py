"""What one process notices that reads the rows of several parties: other scales, levels of one party, equal rows.

Between sites nobody can: each sees its own rows alone (`fhe_auc.rows.own_checks`).

A copy, or a pooled file beside its parts, counts rows twice and makes intervals too narrow. Sums of rows' hashes modulo
2^64 add up over parties: so one is found that has exactly the rows of others, if 20 of them differ, or 10 of 1,000.
Where nine in ten rows differ, so that another one is among them with a chance of 0.2 at most, a sample of 20, as all
hashes below some number are, tells that a party has all rows of another, and more.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Analysis
from fhe_auc.rows.own_checks import SAMPLE, Look, levels_in, looked_at, range_of
from fhe_auc.rows.party_data import DEFAULT_SCALE, PartyData, to_probabilities

_SAMPLES = 2**20  # hashes of all parties
_MOST_SUMMED = 10  # parties any of which may be another one in sum; of more, one or all


def compared(
    parties: list[PartyData], analysis: Analysis, scale: str = DEFAULT_SCALE, *, refuse: bool = False
) -> list[PartyData]:
    """Return the parties; notes of the first one say whose `scale` differs, and which levels one party has alone.

    Raises `InputError` where a party has all rows of others, if that is to be refused; else a note says so.
    """
    twice = _counted_twice(parties) if len(parties) > 1 else ""
    if twice and refuse:
        raise InputError(twice)
    told = [*other_scales(parties, scale), *_lone_levels(parties, analysis), *[twice] * bool(twice)]
    return [replace(parties[0], notes=(*parties[0].notes, *told)), *parties[1:]] if told else parties


def other_scales(parties: Sequence[PartyData], scale: str = DEFAULT_SCALE) -> Iterator[str]:
    """Yield, for each model, whose scores all lie in [0, 1], as those of others would not by chance."""
    low, high = to_probabilities(np.array([0.0, 1.0]), scale).tolist()
    for model in range(len(parties[0].scores)):
        within = [data for data in parties if low <= data.span(model)[0] <= data.span(model)[1] <= high]
        beyond = [data for data in parties if data not in within]
        rows = sum(range_of(data, model, lambda own: (own >= low) & (own <= high)).rows for data in beyond)
        share = min(rows / max(sum(data.rows for data in beyond), 1), 1)
        odd = [data for data in within if data.rows >= 10 and share < 0.5 and share**data.rows < 1e-9]
        odd = [data for data in odd if not {*data.span(model)} <= {low, high}]  # zeros and ones are on any scale
        if odd and beyond:
            other = min(beyond, key=lambda data: data.span(model)[0])
            kind = "logits" if scale == "logit" or other.span(model)[0] < 0 else "percentages"
            yield (
                f"{odd[0].described(model)}: its scores lie between 0 and 1, as probabilities do, those of party "
                f"{other.name!r} beyond, as {kind} do: convert those of {_named(min(odd, beyond, key=len))}"
            )


def _lone_levels(parties: Sequence[PartyData], analysis: Analysis) -> Iterator[str]:
    for place, variable in enumerate(analysis.by if len(parties) > 1 else ()):
        there = np.array([levels_in(data, place, len(variable.levels)) for data in parties])
        lone = {level: int(own.argmax()) for level, own in zip(variable.levels, there.T, strict=True) if own.sum() == 1}
        if lone:
            whose = ", ".join(f"{level!r} ({_named([parties[at]])})" for level, at in lone.items())
            yield (
                f"column {variable.name!r}: one party alone has rows of {whose}: if others write the level in another "
                "way, it is cut in two; if not, its AUC is that party's own"
            )


def _has_all(whole: Look, other: Look) -> bool:
    """Whether all rows of another party are among a party's."""
    if not all(each.differ(0.9 * each.data.rows) for each in (whole, other)):
        return False
    own = other.least[other.least <= whole.share * 2.0**64]
    return len(own) >= 20 and bool(np.isin(own, whole.least).all())


def _counted_twice(parties: Sequence[PartyData]) -> str:
    """Say which party has all rows of others; "" where none has."""
    looks = [looked_at(data, min(SAMPLE, _SAMPLES // len(parties))) for data in parties]
    _, times = np.unique(np.concatenate([each.least for each in looks]), return_counts=True)
    for whole in looks if times.max(initial=1) > 1 else ():
        others = [each for each in looks if each is not whole and each.data.rows <= whole.data.rows]
        parts = [each for each in others if _has_all(whole, each)]
        if not parts and whole.differ(10 if whole.data.rows >= 1000 else 20):
            sizes = range(1, len(others) + 1) if len(others) <= _MOST_SUMMED else {1, len(others)}
            choices = (choice for size in sizes for choice in combinations(others, size))
            sums = (choice for choice in choices if sum(each.total for each in choice) % 2**64 == whole.total)
            parts = [*next(sums, ())]
        if parts:
            what = "the same rows as" if parts[0].data.rows == whole.data.rows else "all rows of"
            return (
                f"party {whole.data.name!r} has {what} {_named([each.data for each in parts])}, which count twice: "
                "leave one out; rows of different patients are not so alike by chance"
            )
    return ""


def _named(parties: Sequence[PartyData]) -> str:
    names = [repr(data.name) for data in parties]
    return ("party " if len(names) == 1 else "parties ") + ", ".join(names[:5]) + " and others" * (len(names) > 5)
