"""What sessions yield: `Evaluation`, `QuantileThresholds`, `CellCounts`, `CensoringCurve`, `Replicates`.

`Outcome` is what all have, as its cost.
"""

from __future__ import annotations

import math
import os
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError, VerificationError
from fhe_auc.metrics.censoring import Ended
from fhe_auc.question.study import Study
from fhe_auc.results.estimates import Comparison, GroupEstimate
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import Interval
from fhe_auc.results.result_tables import ends, notebook_html, of_comparisons, of_estimates, of_sites

if TYPE_CHECKING:
    from pandas import DataFrame

    from fhe_auc.metrics.histogram import Histogram


_OF_FIRST = "auc", "standard_error", "binning_error", "interval", "positives", "negatives", "fraction"
FRACTIONS = ("fraction", "binning_error_fraction")
"""Fields of `Evaluation` that are text in `Evaluation.as_dict`, such as "3/4"."""

_KNOWN = {
    **dict.fromkeys(("low", "high", "confidence"), "float64"),
    "method": "object",
    **dict.fromkeys(("standard_error", "binning_error"), "float64"),
}
_OF_AUCS = {
    **dict.fromkeys(("model", "variable", "level", "contrast"), "object"),
    **{"n": "Int64", "events": "Int64", "auc": "float64", **_KNOWN, "missing": "object"},
}
_OF_DIFFERENCES = {
    **{"model": "object", "minus": "object", "n": "Int64", "events": "Int64", "difference": "float64", **_KNOWN},
    **{"p_value": "float64", "p_at_most": "float64", "p_holm": "float64", "missing": "object"},
}
"""Columns of `Evaluation.to_frame` and of `Evaluation.differences_to_frame`, and their pandas types."""

NOT_TOLD_APART = "many pairs of rows share a bin, in which scores are not ranked"  # of a large binning error
FIRST_SESSION = "boundaries: "  # before the name of a phase of the session that found the thresholds
CURVE_SESSION = "censoring curve: "
LEAST_REPLICATES, MOST_REPLICATES = 100, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What each party gets from a session of any kind.

    Attributes
    ----------
    protocol, backend : str
        Name of the protocol, and the encryption library; "none" where nothing is encrypted.
    parties : int
        Number of parties whose rows are counted.
    security_bits : int
        Classical security of the encryption parameters, in bits; 0 where nothing is encrypted.
    keys : str
        Who can decrypt: "sealed" (each party, to which a key holder has sealed the secret key), "helper" (a
        helper in their place) or "none" (nothing is encrypted).
    rounds : int
        Number of messages of the aggregator that each party answered.
    upload_bytes_per_party, download_bytes_per_party : int
        Bytes of protocol messages that the busiest party sent and received, without the bundles of a key holder.
    seconds : Mapping[str, float]
        Wall-clock seconds by phase; of the parties' own phases the mean over all parties, and of "recover" the longest.
    settings : Mapping[str, bool | int | float | str]
        Parameters of the protocol on which the worth of its verdict depends, by name.
    warnings : tuple[str, ...]
        What the reader ought to know.
    own_warnings : tuple[str, ...]
        Those of them that are about this party's own rows, or those of single parties: they are for their people.
    study : Study or None
        What was evaluated, as the parties of a session between machines have agreed; None in one process. Each party
        checks its own rows and its row cap.
    verified : bool
        Whether the aggregation is verified: the protocol would have caught a lying aggregator, for every number of the
        pooled rows here. It says nothing of what a party puts in: see `Evaluation.inputs_proved`.
    soundness : float or None
        Proved bound on the probability that any party of this session accepts a wrong number that `verified` covers,
        whatever the aggregator does; None where there is no proof.
    unproved_parties : tuple of str
        Parties that do not count, as their proofs did not hold that their rows are counts within their row caps. That
        does not say that they lied: the aggregator or the helper can make a proof fail.
    """

    protocol: str
    backend: str
    parties: int
    security_bits: int
    keys: str = "none"
    rounds: int = 0
    upload_bytes_per_party: int = 0
    download_bytes_per_party: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    own_warnings: tuple[str, ...] = ()
    study: Study | None = None
    verified: bool = False
    soundness: float | None = None
    unproved_parties: tuple[str, ...] = ()

    @property
    def parties_text(self) -> str:
        """How many parties are in it, in words."""
        return f"{self.parties:,} {'party' if self.parties == 1 else 'parties'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Outcome):
    """The result of one evaluation, as every party sees it.

    If another session found the thresholds first (``quantile:200``), or pooled the censoring curve, then rounds, bytes
    and warnings are those of all sessions, and `seconds` names the phases of these "boundaries: ..." and "censoring
    curve: ...". Of several horizons the numbers are those of the first one, but for `estimates` and `comparisons`.

    Attributes
    ----------
    auc : float
        Area under the pooled ROC curve by the trapezoid rule, in [0, 1]; ties inside a bin count half.
    binning_error : float
        Bound on what the thresholds leave open: scikit-learn's AUC of the pooled rows is at most this far from ``auc``,
        apart from `numerical_error`, where scores count as equal that agree to 24 significant bits. Of ``exact`` and
        ``verified`` it holds but for a small chance (`fhe_auc_protocols.exact_auc.tie_sums`), and is of the rounded
        scores where these are rounded. NaN where noise protects privacy. It says nothing about other rows; `interval`
        does. It covers the rounding to `decimals`.
    numerical_error : float
        Bound on the difference between ``auc``, before it is rounded, and exact integer arithmetic, for pools of at
        least ``min_rows`` rows; NaN as for ``binning_error``.
    thresholds : int
        Number of thresholds.
    histogram : fhe_auc.metrics.histogram.Histogram or None
        Pooled rows of each label in each bin, where the protocol tells the parties; negative counts may occur with
        privacy noise.
    fraction, binning_error_fraction : fractions.Fraction or None
        AUC and binning error exactly, reduced, where the protocol computes in integers; ``auc`` and ``binning_error``
        are these, rounded.
    positives, negatives : int or None
        Pooled rows of each label, where the protocol releases the exact numbers.
    standard_error : float or None
        Standard error of ``auc`` for independent rows, by the method that `interval` names.
    interval : fhe_auc.results.intervals.Interval or None
        Confidence interval of ``auc``: level, low, high, method. None where none was asked for, where the protocol
        releases too little, or where the rows allow none; then a warning says so.
    estimates : tuple of fhe_auc.results.estimates.GroupEstimate
        One for each model and group. The first one, of all rows and the first model, has the numbers above; but with
        several classes ``auc`` is the average over all pairs of classes.
    comparisons : tuple of fhe_auc.results.estimates.Comparison
        Comparisons of each further model with the first one, over all rows.
    sites : tuple of fhe_auc.results.heterogeneity.SiteSummary
        What sites have in common and how far they differ, for each model; empty where that is not released.
    inputs_proved : str
        What each party that counts has proved of what it put in: "row caps", that its counts are whole numbers from 0
        on that add up to its row cap at most; "row caps, not the noise"; or nothing. Rows that a party has made up
        within its cap would not be noticed.
    decimals : int or None
        Decimals to which the protocol rounds ``auc`` on purpose (`semi-honest`); None: it has all digits.
    inputs_not_proved : tuple of str
        Where `inputs_proved` says something: the numbers here that rest on other inputs, such as "comparisons".

    Examples
    --------
    >>> from fhe_auc import federated_auc
    >>> site = {"died": [0, 1, 1, 0], "a": [0.1, 0.8, 0.4, 0.5], "b": [0.3, 0.6, 0.2, 0.4]}
    >>> evaluation = federated_auc([site] * 3, label="died", score=["a", "b"], min_cell=1, round_scores=1)
    >>> evaluation.auc, evaluation.fraction, evaluation.rows
    (0.75, Fraction(3, 4), 12)
    >>> evaluation.to_frame()[["model", "n", "events", "auc"]]
      model   n  events   auc
    0     a  12       6  0.75
    1     b  12       6  0.50
    """

    auc: float
    binning_error: float
    numerical_error: float
    thresholds: int
    histogram: Histogram | None = None
    fraction: Fraction | None = None
    binning_error_fraction: Fraction | None = None
    positives: int | None = None
    negatives: int | None = None
    standard_error: float | None = None
    interval: Interval | None = None
    estimates: tuple[GroupEstimate, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    sites: tuple[SiteSummary, ...] = ()
    inputs_proved: str = ""
    inputs_not_proved: tuple[str, ...] = ()
    decimals: int | None = None

    def __post_init__(self) -> None:
        if not self.estimates:
            only = GroupEstimate(model="", group="", **{name: getattr(self, name) for name in _OF_FIRST})
            object.__setattr__(self, "estimates", (only,))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Evaluation:
        """Return the evaluation in a result that a site has written, whoever has signed it: `fhe-auc check` shows that.

        Raises `InputError` where there is none, and the site's error where the session has no result.
        """
        read = pkgutil.resolve_name("fhe_auc.results.result_file:read_result")  # which knows what evaluations are
        found: Evaluation = read(path).evaluation()
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, ready for ``json.dumps``."""
        at = {} if self.horizon is None else {"horizon": self.horizon}
        first = {"auc": self.auc, **at, "binning_error": self.binning_error, "numerical_error": self.numerical_error}
        plain = first | asdict(self)  # what one looks for comes first
        plain["seconds"], plain["settings"] = dict(self.seconds), dict(self.settings)
        plain["warnings"], plain["own_warnings"] = list(self.warnings), list(self.own_warnings)
        plain["study"] = None if self.study is None else self.study.as_dict()
        plain["estimates"] = [estimate.as_dict() for estimate in self.estimates]
        for comparison in plain["comparisons"]:
            if comparison["horizon"] is None:
                del comparison["horizon"]
        of_inputs = plain.pop("inputs_proved"), plain.pop("inputs_not_proved")
        plain["verified"] = verified_as_dict(self.verified, *of_inputs)
        plain["unproved_parties"] = list(self.unproved_parties)
        for name in FRACTIONS:
            plain[name] = None if plain[name] is None else str(plain[name])
        if self.histogram is not None:
            known = {name: values for name, values in plain["histogram"].items() if values is not None}
            plain["histogram"] = {name: values.tolist() for name, values in known.items()}
        return plain

    def to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row for each AUC.

        Columns: model, variable and level of the group ("all" and "" for all rows), contrast, n (rows), events
        (positive rows), auc, low, high, confidence (such as 0.95) and method of its interval, standard_error,
        binning_error, and missing (why there is no AUC, or empty); with follow-up times also horizon. Unknown numbers
        are NA. Raises `InputError` where pandas is not installed.
        """
        lines = []
        for each in self.estimates:
            variable, _, level = each.group.partition(": ")
            lines.append(_flat(each.as_dict()) | {"variable": variable or "all", "level": level})
        return self._framed(lines, _OF_AUCS)

    def differences_to_frame(self) -> DataFrame:
        """Return a pandas data frame with a row for each comparison of two models, over all rows.

        `difference` is the AUC of `model` less that of `minus`; interval, errors, p_value and p_holm are of it. Other
        columns as of `to_frame`; without comparisons there is no row.
        """
        of_all = {each.horizon: {"n": each.rows, "events": each.positives} for each in self.estimates if not each.group}
        lines = [
            of_all[each.horizon] | _flat(asdict(each)) | {"model": each.second, "minus": each.first}
            for each in self.comparisons
        ]
        return self._framed(lines, _OF_DIFFERENCES)

    def _framed(self, lines: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> DataFrame:
        columns = columns if self.horizon is None else {**columns, "horizon": "float64"}
        return framed(([line.get(name) for name in columns] for line in lines), columns)

    @property
    def horizon(self) -> float | None:
        """The first horizon; None where rows are not followed up."""
        return self.estimates[0].horizon

    @property
    def rows(self) -> int | None:
        """Pooled rows of either label, where the protocol releases them exactly."""
        return None if self.positives is None or self.negatives is None else self.positives + self.negatives

    def auc_text(self, most: int) -> str:
        """Write the AUC with at most so many decimals, and no more than the protocol gives."""
        return f"{self.auc:.{most if self.decimals is None else min(most, self.decimals)}f}"

    def __float__(self) -> float:
        """Return the AUC."""
        return self.auc

    @property
    def headline(self) -> str:
        """One line: AUC, interval or what else there is of uncertainty, rows, events, protocol and parties."""
        if self.interval is not None:
            within = f" ({self.interval.heading} {ends(self.interval)}, {self.interval.method})"
        elif not math.isnan(self.binning_error):
            within = f" (no interval; binning error {self.binning_error:.2g})" if self.binning_error else ""
        elif "noise_standard_error" in self.settings:
            within = f" (no interval; standard error of the noise {self.settings['noise_standard_error']:.2g})"
        else:
            within = " (no interval; noise, which has no bound)"
        rows = "" if self.rows is None else f"; n {self.rows:,}, events {self.positives:,}"
        rows += ", weighted" * ("weights" in self.settings)
        at = "" if self.horizon is None else f" at {self.horizon:g}"
        return f"AUC{at} {self.auc_text(4)}{within}{rows}; protocol {self.protocol}, {self.parties_text}"

    @property
    def headlines(self) -> list[str]:
        """The headline, and below it that of each further horizon."""
        first = self.estimates[0]
        later = [each for each in self.estimates if each.horizon != first.horizon]
        return [self.headline] + [
            replace(self, estimates=(each,), **{name: getattr(each, name) for name in _OF_FIRST}).headline
            for each in later
            if (each.model, each.group) == (first.model, "")
        ]

    def __str__(self) -> str:
        """Return the headline, and how many warnings there are."""
        return self.headline + warnings_text(self.warnings)

    def __repr__(self) -> str:
        return f"<Evaluation: {self}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the line, tables of estimates and comparisons, sites, proofs, warnings."""
        tables = [
            *([of_estimates(self.estimates)] if len(self.estimates) > 1 else []),
            *([of_comparisons(self.comparisons)] if self.comparisons else []),
        ]
        not_proved = "".join(f"; {name}: not proved" for name in self.inputs_not_proved)
        lines = [
            *(f"{label} {value}: {note}" for label, value, note in of_sites(self.sites)),
            *([f"proved of what parties put in: {self.inputs_proved}{not_proved}"] if self.inputs_proved else []),
            *(f"warning: {warning}" for warning in self.warnings),
        ]
        return notebook_html(self.headline, tables, lines)


def _flat(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line with the parts of its interval, whose level is named "confidence"."""
    interval = line["interval"] or {}
    return {**line, **interval, "confidence": interval.get("level")}


def framed(rows: Iterable[Iterable[object]], columns: Mapping[str, str]) -> DataFrame:
    """Return a pandas data frame of rows, with these columns and types; raise `InputError` without pandas."""
    try:
        import pandas
    except ImportError:
        raise InputError("to_frame needs pandas: pip install pandas") from None
    return pandas.DataFrame(list(rows), columns=list(columns)).astype(dict(columns))


def warnings_text(warnings: Sequence[str]) -> str:
    """Return how many there are, as the end of a line; nothing where there are none."""
    return f"; {len(warnings)} warning{'s' * (len(warnings) > 1)}, in .warnings" if warnings else ""


def verified_as_dict(
    aggregation: bool, inputs_proved: str = "", inputs_not_proved: tuple[str, ...] = ()
) -> dict[str, bool | str | list[str]]:
    """Return what JSON says of verification: of the aggregation, and of what parties put in."""
    found: dict[str, bool | str | list[str]] = {"aggregation": aggregation, "parties": inputs_proved or False}
    if inputs_not_proved:
        found["inputs not proved"] = list(inputs_not_proved)
    return found


_NOT_COVERED = "the bin edges are exact quantiles of scores, which epsilon does not cover: each tells of rows near it"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantileThresholds(Outcome):
    """Thresholds with about equally many pooled rows between them, found by a session of their own.

    Every party computes them from the answer of that session. The manifest of the next evaluation makes them public.
    Somebody else may have made that manifest, so each party compares (`require`) before it counts a row.

    Attributes
    ----------
    grid : ndarray of float64, shape (at most the requested number of bins,)
        The thresholds: 0, and the lower ends of the other bins; multiples of 2^-h, strictly ascending. Read-only.

    Examples
    --------
    >>> from fhe_auc import federated_thresholds
    >>> federated_thresholds([([0, 1, 0, 1], [0.1, 0.8, 0.3, 0.6])] * 3, 4).grid.round(3).tolist()
    [0.0, 0.3, 0.6, 0.8]
    """

    grid: NDArray[np.float64]

    def __repr__(self) -> str:
        """Return one line: number and range of the thresholds, protocol and parties."""
        span = f"{len(self.grid):,} from {self.grid[0]:g} to {self.grid[-1]:g}"
        return f"<QuantileThresholds: {span}; protocol {self.protocol}, {self.parties_text}>"

    def told_with(self, options: Mapping[str, object]) -> tuple[str, ...]:
        """Return the warnings of an evaluation at these thresholds, with these options."""
        exact = options.get("epsilon") is not None and "epsilon" not in self.settings
        return self.warnings + (_NOT_COVERED,) * exact

    def require(self, grid: ArrayLike, *, party: str) -> None:
        """Check the thresholds of an evaluation's manifest, which its key holder has made, against these.

        `party` has found these. Raises `VerificationError` where they differ: somebody tells parties different things.
        """
        if not np.array_equal(self.grid, np.asarray(grid)):
            raise VerificationError(
                f"the thresholds of the session are not those that party {party!r} has found in the session before: "
                "the aggregator has not told all parties the same, or the manifest is for other thresholds",
                check="thresholds",
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellCounts(Outcome):
    """How many rows of each label all parties have in each cell, for what a report says of groups and of decisions.

    Attributes
    ----------
    positives, negatives : ndarray of int64 or float64, shape (cells,)
        Rows of each label, or Σw where they have weights. A cell is a level of a variable, level by level and variable
        by variable, and there a bin of scores; of several models a bin of each one's, those of the last model going
        fastest.
    squares, rows : ndarray of float64, int64, shape (2, cells), or None
    unknown : ndarray of int64, shape (cells,), or None
        With weights, as `fhe_auc.metrics.histogram.Histogram` has them.
    """

    positives: NDArray[Any]
    negatives: NDArray[Any]
    squares: NDArray[np.float64] | None = None
    rows: NDArray[np.int64] | None = None
    unknown: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CensoringCurve(Outcome, Ended):
    """Rows of all parties, of which the censoring curve is made; `counts` and `beyond` as of `Ended`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replicates(Outcome):
    """Counts of rows in each of which every row, or patient, counts as often as its site has drawn for it.

    Attributes
    ----------
    grid : ndarray of float64, shape (bins,)
        Where bins begin; those of all models are the same.
    counts : ndarray of float64, shape (replicates, models, 2, bins)
        Positive, then negative rows in each bin; sums of weights where rows have such.
    """

    grid: NDArray[np.float64]
    counts: NDArray[np.float64]


BEFORE: Mapping[type[Outcome], str] = {QuantileThresholds: FIRST_SESSION, CensoringCurve: CURVE_SESSION}
"""What stands before the name of a phase of a session that comes before an evaluation."""

COSTS = "rounds", "upload_bytes_per_party", "download_bytes_per_party"


def preceded(evaluation: Evaluation, found: QuantileThresholds | CensoringCurve) -> Evaluation:
    """Return an evaluation with the costs and warnings of a session before it."""
    before = {BEFORE[type(found)] + phase: seconds for phase, seconds in found.seconds.items()}
    return replace(
        evaluation,
        **{name: getattr(found, name) + getattr(evaluation, name) for name in COSTS},
        seconds=before | dict(evaluation.seconds),
        warnings=tuple(dict.fromkeys((*evaluation.warnings, *found.warnings))),
    )
