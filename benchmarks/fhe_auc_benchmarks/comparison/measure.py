"""Measure every protocol on the same rows: error, bytes, seconds, privacy.

Protocols that compute the same AUC each time (the encrypted ones, up to 1e-7) run once, for real. Of the [DPAUC] ones a
real session is run for bytes and seconds, and their AUCs are drawn many times over by
`fhe_auc_benchmarks.simulations.dpauc`, whose law is that of the real roles. All use the same grid; the [DPAUC] ones the
paper's preset.

[DPAUC] Sun et al., "DPAUC: differentially private AUC computation in federated learning", AAAI 2023, arXiv 2208.12294.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from fhe_auc import federated_auc, registry, thresholds
from fhe_auc.counts import PartyData, count
from fhe_auc.errors import EvaluationError, InputError, UndefinedAucError
from fhe_auc.evaluation import Evaluation
from fhe_auc.protocol import DEFAULT_MAX_ROWS
from fhe_auc.trapezoid import trapezoid
from fhe_auc_benchmarks.pooled_rows import pooled
from fhe_auc_benchmarks.simulations import dpauc as simulation
from fhe_auc_protocols import dp_noise
from fhe_auc_protocols.dpauc.budget import GAUSSIAN, RANDOMIZED_RESPONSE, Budget
from fhe_auc_protocols.dpauc.protocol import DpaucProtocol
from fhe_auc_protocols.dpauc.roc import estimate, statistics

__all__ = ["SKLEARN", "Comparison", "Row", "compare", "subsample"]

SKLEARN = "scikit-learn"
"""Method of the rows that state the truth."""

_BAND = (10, 90)  # percentiles
_ALL: int | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What to compare.

    Attributes
    ----------
    protocols : tuple of str
        Installed plug-ins.
    epsilons : tuple of float
        Budgets of the [DPAUC] ones.
    thresholds : tuple of int
        Sizes of the grid; |Θ| of the budget.
    sizes : tuple of int or None
        Pooled rows to draw; None takes all.
    runs : int
        Simulated sessions of each [DPAUC] protocol.
    grid : str
        One of `fhe_auc.thresholds.GRIDS`.
    delta : float
        Of dpauc-gaussian.
    backend : str or None
        Of the encrypted protocols.
    seed : int
        Of the rows drawn and of the simulated noise.
    session, simulated : callable
        What runs a real session, and what draws the AUCs of simulated ones.
    """

    protocols: tuple[str, ...]
    epsilons: tuple[float, ...]
    thresholds: tuple[int, ...]
    sizes: tuple[int | None, ...] = (_ALL,)
    runs: int = 100
    grid: str = "dpauc"
    delta: float = 1e-6
    backend: str | None = None
    seed: int = 0
    session: Callable[..., Evaluation] = federated_auc
    simulated: Callable[..., NDArray[np.float64]] = simulation.aucs

    def methods(self) -> list[tuple[str, float | None]]:
        """Return protocols and budgets, those with a budget once for each."""
        found: list[tuple[str, float | None]] = []
        for name in self.protocols:
            private = isinstance(registry.load(name), DpaucProtocol)
            found += [(name, epsilon) for epsilon in (self.epsilons if private else (None,))]
        return found


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method on one number of rows, at one number of thresholds.

    Attributes
    ----------
    rows, parties : int
        Pooled rows, and among how many parties.
    thresholds : int or None
        As asked for; None for scikit-learn, which has none.
    threshold_error : float
        Distance of the exact trapezoid at these thresholds from scikit-learn's AUC: what the protocol cannot mend. The
        curves of [DPAUC] end at the outermost thresholds, those of other protocols at (0, 0) and (1, 1).
    method : str
        Protocol, or "scikit-learn".
    epsilon, delta : float or None
    privacy : str
        In words.
    auc, deviation : float
        Mean and standard deviation over the runs that gave a number. NaN where none did.
    error, error_low, error_high : float
        Distance from scikit-learn's AUC: mean, 10th and 90th percentile.
    runs : int
        How many gave a number.
    upload_bytes_per_party, download_bytes_per_party : int
        Of one real session.
    seconds : float
        Of one real session, all roles one after another.
    note : str
        Why there is no number; empty otherwise.
    warnings : tuple of str
        Those of the real session.
    """

    rows: int
    parties: int
    thresholds: int | None
    threshold_error: float = 0.0
    method: str
    epsilon: float | None = None
    delta: float | None = None
    privacy: str
    auc: float
    deviation: float = 0.0
    error: float = 0.0
    error_low: float = 0.0
    error_high: float = 0.0
    runs: int = 1
    upload_bytes_per_party: int = 0
    download_bytes_per_party: int = 0
    seconds: float = 0.0
    note: str = ""
    warnings: tuple[str, ...] = ()


def compare(
    parties: Sequence[PartyData], asked: Comparison, progress: Callable[[str, int, int], None] = lambda *_: None
) -> list[Row]:
    """Compare protocols on the parties' rows.

    Parameters
    ----------
    parties : sequence of PartyData
    asked : Comparison
    progress : callable
        Called with (what, done, all).

    Returns
    -------
    list of Row
        By size; first scikit-learn, then by thresholds and method.

    Raises
    ------
    InputError
        A size that there is not, or a protocol, budget or grid that is none.
    UndefinedAucError
        The rows hold one class only.
    """
    methods = asked.methods()
    grids = [(size, thresholds.GRIDS[asked.grid](size)) for size in asked.thresholds]
    for size, grid in grids:
        for name, epsilon in methods:
            if epsilon is not None:
                _budget(name, asked, epsilon, size, len(grid))
    rows = sum(len(data.y_true) for data in parties)
    sizes = dict.fromkeys(rows if size is None else size for size in asked.sizes)
    samples = [_Sample.of(parties if size == rows else subsample(parties, size, asked.seed)) for size in sizes]
    if any(epsilon is not None for _, epsilon in methods):
        dp_noise.laplace(np.zeros(1, np.int64), 1.0)  # imports OpenDP, which is no session's time
    total, found = len(samples) * (1 + len(grids) * len(methods)), []
    for sample in samples:
        found.append(sample.row())
        for size, grid in grids:
            cells = {**sample.cells(), "thresholds": size}
            for name, epsilon in methods:
                progress(f"{sample.rows:,} rows, {size} thresholds: {name}", len(found), total)
                if epsilon is None:
                    found.append(_once(sample, asked, grid, {**cells, "method": name}))
                else:
                    budget = _budget(name, asked, epsilon, size, len(grid))
                    found.append(_many(sample, asked, grid, budget, {**cells, "method": name}))
    progress("done", total, total)
    return found


def subsample(parties: Sequence[PartyData], size: int, seed: int) -> list[PartyData]:
    """Draw rows without replacement, in the pooled proportion of labels (one of each at least).

    Parameters
    ----------
    parties : sequence of PartyData
    size : int
        Rows to draw, 2 to all.
    seed : int

    Returns
    -------
    list of PartyData
        Without the parties of which no row was drawn.

    Raises
    ------
    InputError
        There are fewer rows than that.
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


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """Rows of all parties, and what scikit-learn says of them."""

    parties: Sequence[PartyData]
    y_true: NDArray[np.bool_]
    y_score: NDArray[np.float64]
    truth: float
    seconds: float

    @classmethod
    def of(cls, parties: Sequence[PartyData]) -> _Sample:
        y_true, y_score = pooled(parties)
        if y_true.all() or not y_true.any():
            raise UndefinedAucError("the rows have one label only, so there is no AUC to compare with")
        started = time.perf_counter()
        truth = float(roc_auc_score(y_true, y_score))
        seconds = time.perf_counter() - started
        return cls(parties=parties, y_true=y_true, y_score=y_score, truth=truth, seconds=seconds)

    @property
    def rows(self) -> int:
        return len(self.y_true)

    def cells(self) -> dict[str, Any]:
        return {"rows": self.rows, "parties": len(self.parties)}

    def threshold_error(self, grid: NDArray[np.float64]) -> float:
        everybody = PartyData.from_arrays("all", self.y_true, self.y_score)
        return abs(trapezoid(count(everybody, grid)).auc - self.truth)

    def row(self) -> Row:
        return Row(
            **self.cells(), thresholds=None, method=SKLEARN, privacy="none", auc=self.truth, seconds=self.seconds
        )


def _once(sample: _Sample, asked: Comparison, grid: NDArray[np.float64], cells: dict[str, Any]) -> Row:
    """Run a protocol that has no budget; where it refuses (these rows, so many thresholds), the row says why."""
    cells["threshold_error"] = sample.threshold_error(grid)
    try:
        evaluation, cost = _session(sample, asked, cells["method"], grid, backend=asked.backend)
    except (EvaluationError, InputError) as refusal:
        return Row(**cells, **_spread(np.array([]), sample.truth), privacy="no number", note=str(refusal))
    measures = _spread(np.array([evaluation.auc]), sample.truth)
    return Row(**cells, **measures, **cost, privacy=_encryption(evaluation))


def _many(sample: _Sample, asked: Comparison, grid: NDArray[np.float64], budget: Budget, cells: dict[str, Any]) -> Row:
    """Simulate many sessions of a [DPAUC] protocol, and run a real one for its cost."""
    exact = statistics(sample.y_true, sample.y_score, grid)
    cells["threshold_error"] = abs(float(estimate(exact.astype(np.float64), budget.curve)) - sample.truth)
    random = np.random.default_rng([asked.seed, *cells["method"].encode(), sample.rows, cells["thresholds"]])
    drawn = asked.simulated(exact, budget, parties=len(sample.parties), runs=asked.runs, random=random)
    aucs = drawn[np.isfinite(drawn)]
    note = ""
    cost: dict[str, Any] = {}
    if len(aucs) < asked.runs:
        note = f"{asked.runs - len(aucs)} of {asked.runs} runs gave no number: their flipped labels were all the same"
    try:
        _, cost = _session(sample, asked, cells["method"], grid, **budget.as_options())
    except UndefinedAucError:
        note = note or "the session run for its cost gave no number: its flipped labels were all the same"
    return Row(
        **cells,
        **_spread(aucs, sample.truth),
        **cost,
        privacy=_label_privacy(budget),
        epsilon=budget.epsilon,
        delta=budget.delta,
        note=note,
    )


def _spread(aucs: NDArray[np.float64], truth: float) -> dict[str, Any]:
    """Return mean and spread of AUCs and of their errors; NaN for none."""
    if not len(aucs):
        return {**dict.fromkeys(("auc", "deviation", "error", "error_low", "error_high"), math.nan), "runs": 0}
    errors = np.abs(aucs - truth)
    low, high = np.percentile(errors, _BAND)
    return {
        "auc": float(aucs.mean()),
        "deviation": float(aucs.std(ddof=1)) if len(aucs) > 1 else 0.0,
        "error": float(errors.mean()),
        "error_low": float(low),
        "error_high": float(high),
        "runs": len(aucs),
    }


def _session(
    sample: _Sample, asked: Comparison, protocol: str, grid: NDArray[np.float64], **options: Any
) -> tuple[Evaluation, dict[str, Any]]:
    """Run a real session; return its result and what it cost."""
    started = time.perf_counter()
    most = max(DEFAULT_MAX_ROWS, sample.rows)
    evaluation = asked.session(sample.parties, protocol=protocol, thresholds=grid, max_rows=most, **options)
    return evaluation, {
        "warnings": evaluation.warnings,
        "upload_bytes_per_party": evaluation.upload_bytes_per_party,
        "download_bytes_per_party": evaluation.download_bytes_per_party,
        "seconds": time.perf_counter() - started,
    }


def _budget(name: str, asked: Comparison, epsilon: float, size: int, points: int) -> Budget:
    plugin = registry.load(name)
    if not isinstance(plugin, DpaucProtocol):
        raise InputError(f"protocol {name!r} takes no privacy budget")
    options: dict[str, Any] = {"epsilon": epsilon}
    if plugin.mechanism == GAUSSIAN:
        options["delta"] = asked.delta
    if plugin.mechanism != RANDOMIZED_RESPONSE:
        options["budget_thresholds"] = size
    return Budget.checked(plugin.mechanism, options, points)


def _label_privacy(budget: Budget) -> str:
    delta = "" if budget.delta is None else f", δ = {budget.delta:g}"
    scores = " (scores show)" if budget.mechanism == RANDOMIZED_RESPONSE else ""
    return f"ε = {budget.epsilon:g}{delta}{scores}"


def _encryption(evaluation: Evaluation) -> str:
    if not evaluation.security_bits:
        return "not encrypted"
    return "encrypted, checked" if evaluation.verified else "encrypted"
