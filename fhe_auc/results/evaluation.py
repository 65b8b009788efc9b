"""What sessions yield: `Evaluation` or `QuantileThresholds`; `Outcome` is what both have, such as what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.base.errors import InputError, VerificationError
from fhe_auc.question.study import Study
from fhe_auc.results.estimates import Comparison, GroupEstimate
from fhe_auc.results.heterogeneity import SiteSummary
from fhe_auc.results.intervals import Interval
from fhe_auc.results.result_tables import ends, notebook_html, of_comparisons, of_estimates, of_sites
from fhe_auc.rows.party_data import CountedBefore

if TYPE_CHECKING:
    from pandas import DataFrame

    from fhe_auc.metrics import Histogram


FRACTIONS = ("fraction", "binning_error_fraction")
"""Fields of `Evaluation` that are text in `Evaluation.as_dict`, such as "3/4"."""

_FRAME = {
    "model": "object",
    "group": "object",
    "contrast": "object",
    "n": "Int64",
    "events": "Int64",
    "auc": "float64",
    "low": "float64",
    "high": "float64",
    "level": "float64",
    "method": "object",
    "standard_error": "float64",
    "binning_error": "float64",
    "missing": "object",
    "minus": "object",
    "difference": "float64",
    "p_value": "float64",
}
"""Columns of `Evaluation.to_frame`, and their pandas types."""

NOT_TOLD_APART = "many pairs of rows are not told apart"
"""How the warning of a large binning error begins."""

FIRST_SESSION = "boundaries: "
"""Before the name of a phase of the session that found the thresholds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a session yields to each party, whatever it is for.

    Attributes
    ----------
    protocol, backend : str
        Plug-in name and encryption library; "none" where nothing is encrypted.
    parties : int
        Number of parties whose rows are counted.
    security_bits : int
        Classical security of the encryption parameters, in bits; 0 where nothing is encrypted.
    keys : str
        Who can decrypt: "sealed" (each party: a key holder has sealed the secret key to it), "joint" (only all parties
        together) or "none" (nothing is encrypted).
    rounds : int
        Messages of the aggregator that each party answered.
    upload_bytes_per_party, download_bytes_per_party : int
        Bytes of protocol messages that the busiest party sent and received (a key holder's bundles are not counted).
    key_bytes_per_party : int
        How many of the bytes sent are parts of joint keys.
    seconds : Mapping[str, float]
        Wall-clock seconds by phase; for "submit" and "recover" the mean over parties.
    settings : Mapping[str, bool | int | float | str]
        Parameters of the protocol that say what its verdict is worth, by name.
    warnings : tuple[str, ...]
        What the reader ought to know.
    study : Study or None
        What was evaluated, as the parties of a session between machines have agreed; None in one process. That a party
        has put in just that, and no more rows than its cap, nobody else has checked.
    """

    protocol: str
    backend: str
    parties: int
    security_bits: int
    keys: str = "none"
    rounds: int = 0
    upload_bytes_per_party: int = 0
    download_bytes_per_party: int = 0
    key_bytes_per_party: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    study: Study | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Outcome):
    """The result of one evaluation, as every party sees it.

    Where a session before it found the thresholds (``quantile:200``), rounds, bytes and warnings are those of both, and
    the seconds of the first have their phases' names after "boundaries: ".

    Attributes
    ----------
    auc : float
        Area under the pooled ROC curve by the trapezoid rule, in [0, 1] (ties inside a bin count half).
    binning_error : float
        What thresholds leave open: scikit-learn's AUC on the pooled rows is at most so far from ``auc`` (0 where every
        score is a threshold), beside `numerical_error`. It says nothing of other rows: `interval` does. NaN where noise
        was added for privacy: nothing bounds that for certain.
    numerical_error : float
        The planner's bound on the error of ``auc`` against exact integer arithmetic, for pools of at least the
        session's ``min_rows`` rows; NaN as for ``binning_error``.
    thresholds : int
        Number of decision points.
    verified : bool
        Whether the aggregation is verified: the protocol would have caught an aggregator that lied. That covers every
        number of the pooled rows here. What parties put in never is verified, in any protocol: a party can enter any
        rows. JSON says both (`verified_as_dict`).
    histogram : fhe_auc.metrics.Histogram or None
        Pooled rows of each label in each bin, where the protocol gives them to the parties; with privacy noise they may
        be negative.
    fraction, binning_error_fraction : fractions.Fraction or None
        AUC and binning error exactly, reduced, where the protocol computes in integers; ``auc`` and ``binning_error``
        are these, rounded.
    positives, negatives : int or None
        Pooled rows of each label, where the protocol releases them exactly.
    standard_error : float or None
        Of ``auc``, as an estimate from rows drawn independently; by the method that `interval` names.
    interval : fhe_auc.results.intervals.Interval or None
        Confidence interval of ``auc``: level, low, high, method. None where none was asked for, where the protocol does
        not release what it takes, or where the rows allow none (a warning says so).
    average_precision : float or None
        Over the thresholds, where a session before has found these and told how many rows lie at or above each:
        scikit-learn's, of scores binned by them. It is there where both sessions have the same parties, whose rows have
        not changed between them.
    estimates : tuple of fhe_auc.results.estimates.GroupEstimate
        One for each model and group, all rows of the first model first: this is what ``auc`` and so on say, too (but
        with several classes, where ``auc`` is the average over all pairs of classes).
    comparisons : tuple of fhe_auc.results.estimates.Comparison
        Of each other model with the first, over all rows.
    sites : tuple of fhe_auc.results.heterogeneity.SiteSummary
        What sites have in common and how far they differ, for each model; empty where that is not released.
    soundness : float or None
        Where that is proved: an aggregator that may do anything has a wrong number that `verified` covers accepted, by
        any party of this session, with a probability of at most this.
    """

    auc: float
    binning_error: float
    numerical_error: float
    thresholds: int
    verified: bool
    histogram: Histogram | None = None
    fraction: Fraction | None = None
    binning_error_fraction: Fraction | None = None
    positives: int | None = None
    negatives: int | None = None
    standard_error: float | None = None
    interval: Interval | None = None
    average_precision: float | None = None
    estimates: tuple[GroupEstimate, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    sites: tuple[SiteSummary, ...] = ()
    soundness: float | None = None

    def __post_init__(self) -> None:
        if not self.estimates:
            only = GroupEstimate(
                model="",
                group="",
                auc=self.auc,
                standard_error=self.standard_error,
                binning_error=self.binning_error,
                interval=self.interval,
                positives=self.positives,
                negatives=self.negatives,
                fraction=self.fraction,
            )
            object.__setattr__(self, "estimates", (only,))

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, ready for ``json.dumps``."""
        first = {"auc": self.auc, "binning_error": self.binning_error, "numerical_error": self.numerical_error}
        plain = first | asdict(self)  # what one looks for comes first
        plain["seconds"], plain["settings"] = dict(self.seconds), dict(self.settings)
        plain["warnings"] = list(self.warnings)
        plain["study"] = None if self.study is None else self.study.as_dict()
        plain["estimates"] = [each.as_dict() for each in self.estimates]
        plain["verified"] = verified_as_dict(aggregation=self.verified)
        for name in FRACTIONS:
            plain[name] = None if plain[name] is None else str(plain[name])
        if self.histogram is not None:
            plain["histogram"] = {name: values.tolist() for name, values in plain["histogram"].items()}
        return plain

    def to_frame(self) -> DataFrame:
        """Return estimates, then comparisons, as a pandas data frame, a row for each.

        Columns: model, group ("all" for all rows), contrast, n, events (positive rows), auc, its interval's low, high,
        level and method, standard_error, binning_error, missing (why there is no AUC; empty where there is one). In the
        row of a comparison `minus` is the model that `model` is compared with, `difference` the AUC of `model` less
        that of `minus`, which interval and errors are of, and p_value its own; `minus` is empty in other rows. What is
        not known is NA. Raises `InputError` where pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise InputError("Evaluation.to_frame needs pandas: pip install pandas") from None
        of_all = {"group": "all", "contrast": "", "n": self.rows, "events": self.positives, "missing": ""}
        lines = [each.as_dict() | {"minus": ""} for each in self.estimates]
        lines += [of_all | asdict(each) | {"model": each.second, "minus": each.first} for each in self.comparisons]
        rows = [[(line | (line["interval"] or {})).get(name) for name in _FRAME] for line in lines]
        frame = pandas.DataFrame(rows, columns=list(_FRAME))
        return frame.astype(_FRAME)

    @property
    def rows(self) -> int | None:
        """Pooled rows of either label, where the protocol releases them exactly."""
        return None if self.positives is None or self.negatives is None else self.positives + self.negatives

    def __float__(self) -> float:
        """Return the AUC."""
        return self.auc

    def __str__(self) -> str:
        """Return one line: AUC, interval, rows and events, protocol and parties, as far as they are known."""
        line = f"AUC {self.auc:.4f}"
        if self.interval is not None:
            line += f" ({100 * self.interval.level:.6g} % interval {ends(self.interval)}, {self.interval.method})"
        if self.rows is not None:
            line += f"; n {self.rows:,}, events {self.positives:,}"
        return f"{line}; protocol {self.protocol}, {_parties(self)}"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the line, tables of estimates and comparisons, sites, warnings."""
        tables = [
            *([of_estimates(self.estimates)] if len(self.estimates) > 1 else []),
            *([of_comparisons(self.comparisons)] if self.comparisons else []),
        ]
        lines = [
            *(f"{label} {value}: {note}" for label, value, note in of_sites(self.sites)),
            *(f"warning: {warning}" for warning in self.warnings),
        ]
        return notebook_html(str(self), tables, lines)


def _parties(outcome: Outcome) -> str:
    return f"{outcome.parties:,} {'party' if outcome.parties == 1 else 'parties'}"


def verified_as_dict(*, aggregation: bool) -> dict[str, bool]:
    """Return what JSON says of being verified; what parties put in never is, as nobody else sees their rows."""
    return {"aggregation": aggregation, "parties": False}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantileThresholds(Outcome):
    """Thresholds that a session of its own has found, so that bins hold about equally many pooled rows.

    Every party computes them from what the session tells it. They become public in the manifest of the evaluation that
    follows, which somebody else may have made: each party compares the two (`require`) before it counts a row for it.

    Attributes
    ----------
    grid : ndarray of float64, shape (at most the number of bins asked for,)
        Thresholds: 0, and where the other bins begin; multiples of 2^-h, strictly ascending. Read-only.
    rows_above : tuple of int
        How many pooled rows lie at or above each of them, by the first model's scores; empty where noise hides that.
    session : str
        Id of the session, hexadecimal.
    counted : tuple of str
        Names of the parties whose rows are counted.
    own_rows_above : tuple of int
        How many of `rows_above` are this party's own. They are for nobody else, and no result file has them.
    verified : bool
        Whether the sums that they follow from are proved to be those of what the parties have sent.
    soundness : float or None
        Where they are, by what chance at most an aggregator that may do anything has any party accept others.
    """

    grid: NDArray[np.float64]
    rows_above: tuple[int, ...] = ()
    session: str = ""
    counted: tuple[str, ...] = ()
    own_rows_above: tuple[int, ...] = field(default=(), repr=False)
    verified: bool = False
    soundness: float | None = None

    def __repr__(self) -> str:
        """Return one line: how many there are, from where to where, protocol and parties."""
        span = f"{len(self.grid):,} from {self.grid[0]:g} to {self.grid[-1]:g}"
        return f"<QuantileThresholds: {span}; protocol {self.protocol}, {_parties(self)}>"

    @property
    def before(self) -> CountedBefore | None:
        """What average precision builds on; None where noise hides it."""
        if not self.rows_above:
            return None
        grid = self.grid.astype("<f8").tobytes()
        return CountedBefore(bytes.fromhex(self.session), grid, self.rows_above, self.counted, self.own_rows_above)

    @property
    def session_before(self) -> bytes:
        """The session's id, for an evaluation that is to have average precision; empty where noise hides that."""
        return bytes.fromhex(self.session) if self.rows_above else b""

    def require(self, grid: ArrayLike, *, party: str) -> None:
        """Check the thresholds of the evaluation's manifest, which its key holder has made, against those found.

        Raises `VerificationError` where they differ: the aggregator has told parties different things, or the manifest
        is not for the thresholds of this session. `party` is who has found these.
        """
        if not np.array_equal(self.grid, np.asarray(grid)):
            raise VerificationError(
                f"the thresholds of the session are not those that party {party!r} has found in the session before: "
                "the aggregator has not told all parties the same, or the manifest is for other thresholds",
                check="thresholds",
            )


def preceded(evaluation: Evaluation, found: QuantileThresholds) -> Evaluation:
    """Return an evaluation with what the session cost that found its thresholds, and with its warnings."""
    before = {FIRST_SESSION + phase: seconds for phase, seconds in found.seconds.items()}
    return replace(
        evaluation,
        rounds=found.rounds + evaluation.rounds,
        upload_bytes_per_party=found.upload_bytes_per_party + evaluation.upload_bytes_per_party,
        download_bytes_per_party=found.download_bytes_per_party + evaluation.download_bytes_per_party,
        key_bytes_per_party=found.key_bytes_per_party + evaluation.key_bytes_per_party,
        seconds=before | dict(evaluation.seconds),
        warnings=tuple(dict.fromkeys((*evaluation.warnings, *found.warnings))),
    )
