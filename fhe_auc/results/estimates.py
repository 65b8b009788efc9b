"""What an evaluation says of one model in one group, and of two models: the lines of its table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from fhe_auc.results.intervals import Interval, holm

ONE_CLASS = "rows of one label only"
NESTED = (
    "groups that are not shown can be worked out from those shown if one column of --by divides the groups of another "
    "one, as bands of five years divide those of ten: then publish one of the two"
)

_ALL = "all"


def too_few(min_cell: int, what: str = "") -> str:
    """Return why a group is not shown, for `GroupEstimate.missing`."""
    return f"fewer than {min_cell} {what}events or others in this group, or in one that this one would give away"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEstimate:
    """The area under one ROC curve, over one group of rows.

    Attributes
    ----------
    model : str
        Name of the model; empty where there is only one, without a name.
    group : str
        A group such as "sex: F"; empty for all rows.
    contrast : str
        What the positives are told from; empty where that is label 1 from label 0.
    auc, standard_error, binning_error, interval
        As for `fhe_auc.results.evaluation.Evaluation`; None where `missing` says why.
    positives, negatives : int or None
        Rows of each label; None where the protocol does not release them, or they are too few to be shown.
    fraction : fractions.Fraction or None
        The AUC exactly, where the protocol computes in integers; without weights.
    missing : str
        Why there is no AUC; empty where there is one.
    horizon : float or None
        Of rows that were followed up: by when positives had the event.
    """

    model: str
    group: str
    contrast: str = ""
    auc: float | None
    standard_error: float | None = None
    binning_error: float | None = None
    interval: Interval | None = None
    positives: int | None = None
    negatives: int | None = None
    fraction: Fraction | None = None
    missing: str = ""
    horizon: float | None = None

    @property
    def rows(self) -> int | None:
        """Rows that count, of either label."""
        return None if self.positives is None or self.negatives is None else self.positives + self.negatives

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> GroupEstimate:
        """Return the estimate of which these are the plain types."""
        own = {name: value for name, value in plain.items() if name not in ("n", "events")}
        own["group"] = "" if plain["group"] == _ALL else plain["group"]
        own["interval"] = None if plain["interval"] is None else Interval(**plain["interval"])
        own["fraction"] = None if plain["fraction"] is None else Fraction(plain["fraction"])
        rows, positives = plain["n"], plain["events"]
        return cls(**own, positives=positives, negatives=None if rows is None else rows - positives)

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON: `n` are the rows, `events` the positive ones."""
        return {
            "model": self.model,
            "group": self.group or _ALL,
            "contrast": self.contrast,
            "n": self.rows,
            "events": self.positives,
            "auc": self.auc,
            "standard_error": self.standard_error,
            "interval": None if self.interval is None else asdict(self.interval),
            "binning_error": self.binning_error,
            "fraction": None if self.fraction is None else str(self.fraction),
            "missing": self.missing,
            **({} if self.horizon is None else {"horizon": self.horizon}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two models on the same rows: the AUC of the second minus that of the first.

    Attributes
    ----------
    first, second : str
        Names of the models.
    difference : float
        Difference of the AUCs, in [-1, 1]; without binning it is at most `binning_error` away.
    binning_error : float
        Sum of the binning errors of the two models.
    standard_error : float or None
        By the paired method of DeLong, on binned scores: the correlation of the models is taken over the bins up to 128
        of them, otherwise over at most 67 wider ones of either's scores. None where the protocol does not release what
        it takes, or both models order all rows alike.
    standard_error_off : float or None
        About the share by which it may differ from DeLong's over the rows (`paired_delong` of
        `fhe_auc.results.delong`).
    interval : Interval or None
        Confidence interval of the difference.
    p_value : float or None
        Two-sided. None, as is the interval, where `missing` says why.
    p_at_most : float or None
        Where `missing` says why there is no p-value: what it is at most, by how far standard error and bins may be off.
    p_holm : float or None
        The p-value with Holm's correction for all comparisons of the evaluation; None, too, where it is the only one.
    missing : str
        The standard error may be off by too much (`fhe_auc.results.delong.MOST_OFF`), or be below the binning error.
    horizon : float or None
        As of `GroupEstimate`.
    """

    first: str
    second: str
    difference: float
    binning_error: float
    standard_error: float | None = None
    standard_error_off: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    p_at_most: float | None = None
    p_holm: float | None = None
    missing: str = ""
    horizon: float | None = None


_P_VALUES = "p_value", "p_at_most", "p_holm"
_Found = TypeVar("_Found", GroupEstimate, Comparison)


def few_digits(found: _Found) -> _Found:
    """Return the same for people: who knows that each site has a weight of its own works out rows of all digits."""
    few: dict[str, Any] = dict.fromkeys({"fraction"}.intersection(found.__slots__))
    if found.interval is not None:
        low, high = round(found.interval.low, 6), round(found.interval.high, 6)
        few["interval"] = replace(found.interval, low=low, high=high)
    for name in ("auc", "difference", "binning_error", "standard_error", "standard_error_off", *_P_VALUES):
        if value := getattr(found, name, None):
            unit = 6 if name in {"auc", "difference"} else 2 - math.floor(math.log10(value))
            up = name == "binning_error" and round(value, unit) < value
            few[name] = round(round(value, unit) + up * 10.0**-unit, unit)
    return replace(found, **few)


def with_holm(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Return comparisons with p-values by Holm too, if several; one that has no p is a test all the same."""
    if len(comparisons) < 2:
        return tuple(comparisons)
    bounds = [(own.p_value, own.p_at_most, 1.0) for own in comparisons]
    adjusted = holm([next(p for p in own if p is not None) for own in bounds])
    pairs = zip(comparisons, adjusted, strict=True)
    return tuple(own if own.p_value is None else replace(own, p_holm=p) for own, p in pairs)
