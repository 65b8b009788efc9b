"""Measure every protocol on the same rows: error, bytes, seconds, privacy.

Protocols that compute the same AUC each time (the encrypted ones, up to 1e-8) run once, for real. Of those with noise a
real session is run for bytes and seconds, and their AUCs and curves are drawn many times over by `simulated` and
`simulated_curves`, whose law is that of the real roles. All use the same thresholds, but for private histograms, which
find their own. Of fedcurve there is no session.

**One ε.** It is of a row replaced, label and score. fedcurve's own is of a row added or removed, and a row replaced is
one of either: it gets half. [DPAUC]'s is of a label. At each threshold a row replaced moves two of its counts by 1, as
a flipped label does, so its noise holds for a row, too (twice what that takes, as published); flipped labels do not.
That of U-statistics is of a score.

[DPAUC] Sun et al., "DPAUC: differentially private AUC computation in federated learning", AAAI 2023, arXiv 2208.12294.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fhe_auc import federated_auc
from fhe_auc.base.errors import EvaluationError, InputError, UndefinedAucError
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation, verified_as_dict
from fhe_auc.rows.counts import count
from fhe_auc.rows.own_checks import check_scores
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS
from fhe_auc_benchmarks.comparison import simulated
from fhe_auc_benchmarks.comparison.simulated_curves import Curves, dpauc, fedcurve, private_histogram
from fhe_auc_protocols import opendp_samplers
from fhe_auc_protocols.dpauc.budget import GAUSSIAN, RANDOMIZED_RESPONSE, Budget
from fhe_auc_protocols.dpauc.dpauc_protocols import DpaucProtocol
from fhe_auc_protocols.dpauc.roc import estimate, statistics
from fhe_auc_protocols.exact_auc.exact_protocols import Verified
from fhe_auc_protocols.histograms.protocols import HistogramDistributedDp
from fhe_auc_protocols.u_statistics.sessions import PrivateScores

SKLEARN = "scikit-learn"  # method of the rows that state the truth
FEDCURVE = "fedcurve"  # among protocols: it is quoted, and no plug-in
ROW, LABEL, SCORE = "row", "label", "score"  # what an epsilon protects
_BAND = (10, 90)  # percentiles


class _Measured(NamedTuple):
    """A protocol at one size of the grid, None where it finds thresholds, with one budget if it has any."""

    protocol: str
    size: int | None
    grid: NDArray[np.float64]
    budget: Budget | float | None


@dataclass(frozen=True, kw_only=True)
class ProtocolComparison:
    """What to compare: installed `protocols`, with grids of so many `thresholds`, on so many pooled rows (None: all).

    Those with noise with each of the budgets `epsilons`, dpauc-gaussian with this `delta`, and `verified` without, too;
    so many `runs` of each are simulated, and for its `costs` one is real. Grids are `thresholds.dpauc`, and their sizes
    also |Θ| of the budget; `backend` is that of the encrypted protocols, `seed` that of rows drawn and of the noise.
    """

    protocols: tuple[str, ...]
    epsilons: tuple[float, ...]
    thresholds: tuple[int, ...]
    sizes: tuple[int | None, ...] = (None,)
    runs: int = 100
    delta: float = 1e-6
    backend: str | None = None
    seed: int = 0
    costs: bool = True

    def measured(self) -> list[_Measured]:
        """Return what is measured on each sample; raise `InputError` for a protocol, budget or grid that is none."""
        plugins = {name: None if name == FEDCURVE else registry.load(name) for name in self.protocols}
        found = []
        for size in self.thresholds:
            grid = thresholds.dpauc(size)
            for name, plugin in plugins.items():
                budgets: list[Budget | float | None] = [None]
                finds = isinstance(plugin, HistogramDistributedDp)
                if isinstance(plugin, DpaucProtocol):
                    budgets = [self._budget(plugin.mechanism, epsilon, size, len(grid)) for epsilon in self.epsilons]
                elif isinstance(plugin, Verified):
                    budgets += self.epsilons
                elif plugin is None or finds or isinstance(plugin, PrivateScores):
                    budgets = [*self.epsilons]
                if not finds or size == self.thresholds[0]:
                    found += [_Measured(name, None if finds else size, grid, budget) for budget in budgets]
        return found

    def _budget(self, mechanism: str, epsilon: float, size: int, points: int) -> Budget:
        options: dict[str, Any] = {"epsilon": epsilon}
        if mechanism == GAUSSIAN:
            options["delta"] = self.delta
        if mechanism != RANDOMIZED_RESPONSE:
            options["budget_thresholds"] = size
        return Budget.checked(mechanism, options, points)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method, a protocol, "fedcurve (rebuilt)" or "scikit-learn", on so many rows, at one number of thresholds.

    `threshold_error` is the distance of the exact trapezoid at these thresholds from scikit-learn's AUC: what the
    protocol cannot mend. The curves of [DPAUC] end at the outermost thresholds, those of others at (0, 0) and (1, 1).
    `auc` and `deviation` are mean and standard deviation over the `runs` that gave a number, NaN where none did;
    `error`, `error_low` and `error_high` mean, 10th and 90th percentile of the distance from scikit-learn's AUC;
    `roc_error` and `pr_error` are mean area errors of the curves, NaN where a protocol gives an AUC alone. Bytes,
    seconds (all roles one after another) and warnings are those of one real session; `note` says why there is no
    number. `verified` is as JSON has it (`verified_as_dict`).
    """

    rows: int
    parties: int
    thresholds: int | None
    """As asked for, or found; None for scikit-learn, which has none. Of fedcurve: how many quantiles."""
    threshold_error: float = 0.0
    method: str
    epsilon: float | None = None
    epsilon_unit: str | None = None
    """What epsilon protects: "row", replaced, or "label"."""
    delta: float | None = None
    privacy: str
    verified: Mapping[str, Any] = field(default_factory=lambda: verified_as_dict(aggregation=False))
    auc: float
    deviation: float = 0.0
    error: float = 0.0
    error_low: float = 0.0
    error_high: float = 0.0
    roc_error: float = math.nan
    pr_error: float = math.nan
    runs: int = 1
    upload_bytes_per_party: int = 0
    download_bytes_per_party: int = 0
    seconds: float = 0.0
    note: str = ""
    warnings: tuple[str, ...] = ()


def compare(
    parties: Sequence[PartyData], asked: ProtocolComparison, progress: Callable[[str, int, int], None] = lambda *_: None
) -> list[Row]:
    """Compare protocols on the parties' rows; `progress` is called with (what, done, all).

    Returns rows by size; first scikit-learn, then by thresholds and method. Raises `InputError`: a size that there is
    not, a protocol, budget or grid that is none, or scores that are no probabilities; `UndefinedAucError`: one class.
    """
    measured = asked.measured()
    for data in parties:  # a session's own refusal would be no more than a note
        check_scores(data, measured[0].grid)
    rows = sum(len(data.y_true) for data in parties)
    sizes = dict.fromkeys(rows if size is None else size for size in asked.sizes)
    samples = [_Sample.of(parties if size == rows else subsample(parties, size, asked.seed)) for size in sizes]
    if any(isinstance(each.budget, Budget) for each in measured):
        opendp_samplers.laplace(np.zeros(1, np.int64), 1.0)  # imports OpenDP, which is no session's time
    total, found = len(samples) * (1 + len(measured)), []
    for sample in samples:
        found.append(Row(**sample.cells(SKLEARN, None), privacy="none", auc=sample.truth, seconds=sample.seconds))
        for each in measured:
            at = f", {each.size} thresholds" if each.size else ""
            progress(f"{sample.rows:,} rows{at}: {each.protocol}", len(found), total)
            found.append(_row(sample, asked, each))
    progress("done", total, total)
    return found


def pooled(parties: Sequence[PartyData]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return labels and scores of all rows, party after party."""
    return np.concatenate([data.y_true for data in parties]), np.concatenate([data.y_score for data in parties])


def subsample(parties: Sequence[PartyData], size: int, seed: int) -> list[PartyData]:
    """Draw so many rows without replacement, in the pooled proportion of labels (one of each at least).

    Returns no parties of which no row was drawn. Raises `InputError` where `size` does not lie between 2 and all rows.
    """
    labels, _ = pooled(parties)
    if not 2 <= size <= len(labels):
        raise InputError(
            f"a subsample of {size:,} rows was asked for; take 2 to {len(labels):,}, which is all there are"
        )
    random = np.random.default_rng([seed, size])
    both = 0 < labels.sum() < len(labels)
    positives = int(np.clip(round(size * labels.mean()), int(both), size - int(both)))
    drawn = np.zeros(len(labels), bool)
    for rows, number in ((labels, positives), (~labels, size - positives)):
        drawn[random.choice(np.flatnonzero(rows), number, replace=False)] = True
    pieces = np.split(drawn, np.cumsum([len(data.y_true) for data in parties])[:-1])
    return [
        PartyData.from_arrays(data.name, data.y_true[rows], data.y_score[rows])
        for data, rows in zip(parties, pieces, strict=True)
        if rows.any()
    ]


class _Sample(NamedTuple):
    """Rows of all parties, and what scikit-learn says of them."""

    parties: Sequence[PartyData]
    everybody: PartyData
    truth: float
    seconds: float
    curves: Curves

    @classmethod
    def of(cls, parties: Sequence[PartyData]) -> "_Sample":
        rows = PartyData.from_arrays("all", *pooled(parties))
        if rows.y_true.all() or not rows.y_true.any():
            raise UndefinedAucError("the rows have one label only, so there is no AUC to compare with")
        started = time.perf_counter()
        truth = float(roc_auc_score(rows.y_true, rows.y_score))
        return cls(parties, rows, truth, time.perf_counter() - started, Curves.of_rows(rows))

    @property
    def rows(self) -> int:
        return len(self.everybody.y_true)

    def cells(self, method: str, size: int | None) -> dict[str, Any]:
        return {"rows": self.rows, "parties": len(self.parties), "method": method, "thresholds": size}


def _row(sample: _Sample, asked: ProtocolComparison, measured: _Measured) -> Row:
    """Run a session; with a budget simulate many, and run one for its cost. Where one refuses, the row says why."""
    row = sample.cells(measured.protocol, measured.size)
    if measured.budget is None:
        row["threshold_error"] = abs(trapezoid(count(sample.everybody, measured.grid)).auc - sample.truth)
        try:
            evaluation, cost = _session(sample, asked, measured, {})
        except (EvaluationError, InputError) as refusal:
            return Row(**row, **spread(np.array([]), sample.truth), privacy="no number", note=str(refusal))
        return Row(**row, **spread(np.array([evaluation.auc]), sample.truth), **cost, privacy=_encryption(evaluation))
    drawn, told, options = _simulated(sample, asked, measured)
    runs = [run for run in islice(drawn, asked.runs) if run is not None and math.isfinite(run.auc)]
    row |= told
    if none := asked.runs - len(runs):
        row["note"] = f"{none} of {asked.runs} runs gave no number: noise had left one label only"
    if runs:
        row["roc_error"], row["pr_error"] = np.mean([run.errors(sample.curves)[1:] for run in runs], axis=0).tolist()
    try:
        row |= _session(sample, asked, measured, options)[1] if asked.costs and options else {}
    except (EvaluationError, InputError) as refusal:
        row.setdefault("note", f"the session run for its cost gave no number: {refusal}")
    return Row(**row, **spread(np.array([run.auc for run in runs]), sample.truth))


def _simulated(
    sample: _Sample, asked: ProtocolComparison, measured: _Measured
) -> tuple[Iterator[Curves | None], dict[str, Any], dict[str, Any]]:
    """Return what simulated sessions give, what the row tells of them, and the options of a real one, if any is run."""
    budget, parties, rows = measured.budget, len(sample.parties), sample.everybody
    random = np.random.default_rng([asked.seed, *measured.protocol.encode(), sample.rows, measured.size or 0])
    if isinstance(budget, Budget):
        exact = statistics(rows.y_true, rows.y_score, measured.grid)
        delta = "" if budget.delta is None else f", δ = {budget.delta:g}"
        unit, shows = (LABEL, " (scores show)") if budget.flips else (ROW, "")
        auc = float(estimate(exact.astype(np.float64), budget.curve))
        told = {"epsilon": budget.epsilon, "delta": budget.delta, "epsilon_unit": unit}
        told |= {"privacy": f"ε = {budget.epsilon:g}{delta}{shows}", "threshold_error": abs(auc - sample.truth)}
        return dpauc(exact, budget, parties, random), told, budget.as_options()
    epsilon = float(budget or 0)
    told = {"epsilon": epsilon, "epsilon_unit": ROW, "threshold_error": math.nan}
    if measured.protocol == FEDCURVE:
        told |= {"method": "fedcurve (rebuilt)", "privacy": f"ε = {epsilon:g}"}
        return fedcurve(rows, measured.size or 0, epsilon / 2, random), told, {}
    plugin = registry.load(measured.protocol)
    if isinstance(plugin, PrivateScores):
        bins, drawn = simulated.score_aucs(plugin, rows, measured.grid, epsilon, random)
        told |= {"epsilon_unit": SCORE, "privacy": f"ε = {epsilon:g} of a score"}
        told["threshold_error"] = abs(float(roc_auc_score(rows.y_true, bins)) - sample.truth)
        return map(Curves, drawn), told, {"epsilon": epsilon, "min_rows": sample.rows}
    told["privacy"] = f"ε = {epsilon:g}, encrypted, aggregation verified"
    if measured.size is None:
        runs = private_histogram(rows, parties, epsilon, random)
        return (run and Curves.of_fit(run[-1]) for run in runs), told, {"epsilon": epsilon}
    pool = simulated.Pool.of(rows.y_true, rows.y_score, measured.grid)
    terms = simulated.private_budget(sample.rows, parties, epsilon, ROW)
    told["threshold_error"] = abs(pool.auc - sample.truth)
    aucs = simulated.private_aucs(pool, terms, runs=asked.runs, random=random)
    return map(Curves, aucs.tolist()), told, {"epsilon": epsilon}


def spread(aucs: NDArray[np.float64], truth: float) -> dict[str, Any]:
    """Return mean and spread of AUCs and of their errors; NaN for none."""
    names, numbers = ("auc", "deviation", "error", "error_low", "error_high"), [math.nan] * 5
    if len(aucs):
        errors = np.abs(aucs - truth)
        deviation = aucs.std(ddof=1) if len(aucs) > 1 else 0.0
        numbers = [float(each) for each in (aucs.mean(), deviation, errors.mean(), *np.percentile(errors, _BAND))]
    return {**dict(zip(names, numbers, strict=True)), "runs": len(aucs)}


def _session(
    sample: _Sample, asked: ProtocolComparison, measured: _Measured, options: Mapping[str, Any]
) -> tuple[Evaluation, dict[str, Any]]:
    plugin = registry.load(measured.protocol)
    started = time.perf_counter()
    evaluation = federated_auc(
        sample.parties,
        protocol=measured.protocol,
        thresholds=measured.grid if measured.size else thresholds.QUANTILE,
        max_rows=max(DEFAULT_MAX_ROWS, sample.rows),
        backend=asked.backend if plugin.encrypts else None,
        **options,
    )
    found = {} if measured.size else {"thresholds": evaluation.thresholds}
    return evaluation, found | {
        "verified": verified_as_dict(evaluation.verified),
        "warnings": evaluation.warnings,
        "upload_bytes_per_party": evaluation.upload_bytes_per_party,
        "download_bytes_per_party": evaluation.download_bytes_per_party,
        "seconds": time.perf_counter() - started,
    }


def _encryption(evaluation: Evaluation) -> str:
    encrypted = "encrypted, aggregation verified" if evaluation.verified else "encrypted"
    return encrypted if evaluation.security_bits else "not encrypted"
