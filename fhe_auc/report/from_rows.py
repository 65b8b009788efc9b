"""A report from the rows: one process plays the sessions that it takes (`fhe_auc.report.steps`), all roles of each."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from msgspec import structs
from numpy.typing import ArrayLike

from fhe_auc.api import LABEL, OPTIONS, follow_up_named, options_for, weights_named
from fhe_auc.base.python_options import converts
from fhe_auc.base.terminal import Progress, shown
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import DEFAULT_MIN_CELL, MOST_MIN_CELL, Analysis, Questions
from fhe_auc.report.report import Report
from fhe_auc.report.steps import Grids, report_steps
from fhe_auc.results.asked import Asked, ReportAsked, counts_by
from fhe_auc.results.evaluation import Evaluation, Outcome, QuantileThresholds
from fhe_auc.results.intervals import DEFAULT_LEVEL
from fhe_auc.rows.default_thresholds import default_thresholds
from fhe_auc.rows.frames import Rows, parties_of
from fhe_auc.rows.party_data import DEFAULT_SCALE, Entries, Label, PartyData
from fhe_auc.session import registry
from fhe_auc.session.one_process import picked, play
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS, DEFAULT_MIN_ROWS, OptionValue, Request, Setup
from fhe_auc.session.steps import Step


@converts(OPTIONS)
def federated_report(
    rows: Rows,
    *,
    label: str = LABEL,
    score: str | Sequence[str] = "y_score",
    site: str | None = None,
    by: str | Sequence[str] | Mapping[str, Sequence[Label]] | None = None,
    cluster: str | None = None,
    protocol: str | None = None,
    thresholds: str | ArrayLike | QuantileThresholds | None = None,
    interval: float | None = DEFAULT_LEVEL,
    progress: bool | Progress = False,
    weight: str | None = None,
    time: str | None = None,
    event: str | None = None,
    horizon: float | Sequence[float] | None = None,
    threshold: float | Sequence[float] | None = None,
    cost_ratio: float | None = None,
    alert_rate: float | None = None,
    bootstrap: int = 0,
    title: str = "",
    positive_label: Label | None = None,
    drop_missing: bool = False,
    score_scale: str = DEFAULT_SCALE,
    heterogeneity: bool = False,
    min_cell: int = DEFAULT_MIN_CELL,
    max_weight: float | None = None,
    weight_step: float | None = None,
    event_codes: Sequence[Label] | None = None,
    time_grid: str | float | None = None,
    keys: str | None = None,
    backend: str | None = None,
    max_rows: int = DEFAULT_MAX_ROWS,
    min_rows: int = DEFAULT_MIN_ROWS,
    row_caps: Mapping[str, int] | int | None = None,
    **options: OptionValue,
) -> Report:
    """Make the report card of a classifier on the rows of all parties: curves, calibration, decisions, intervals.

    Unlike `fhe_auc.federated_auc`, it tells the parties the pooled number of rows of each label in each bin of scores.

    Parameters
    ----------
    rows
        As for `fhe_auc.federated_auc`, and so are all keywords that are not told here.
    score : str or sequence of str
        Column of the scores of one model, or those of two: the page then has all of both, and the differences of AUC
        and net benefit.
    protocol : str or None
        A protocol that tells the parties a score histogram. None: histogram-federated, or with an ``epsilon``
        histogram-distributed-dp, which adds noise.
    interval : float or None
        Level of all confidence intervals, from 0.5 to 0.9999; None: no intervals.
    threshold : float, sequence of float or None
        Cut-offs, counted exactly; the first is that of groups (`Report.by_group`) and of two models' net benefits.
        None: neither has any.
    cost_ratio : float or None
        How many false positives a false negative costs: the page has the threshold of the least cost.
    alert_rate : float or None
        Share of rows that may be flagged: the page has the lowest threshold that flags no more.
    bootstrap : int
        So many replicates of all counts, 100 to 1000, from one more session: the page has intervals of the thresholds
        that the rows choose, and of differences of two models. 0: none.
    title : str
        Heading of the page; empty: the number of parties.
    min_cell : int
        Bins are merged until no count on the page is from 1 to ``min_cell - 1``, and groups with fewer rows of a label
        are left out; 1 shows all.
    **options : bool, int, float or str
        Those of the protocol, such as ``epsilon=1``: the privacy budget of a row replaced, as of `federated_auc`.
        Budgets of sessions on the same rows add up.

    Returns
    -------
    Report
        Numbers, curves and facts; `Report.save` writes the page.

    Raises
    ------
    InputError
        As for `fhe_auc.federated_auc`; or groups are asked for with noise.
    EvaluationError
        As there; or a label has fewer than ``min_cell`` rows, or the protocol gives no histogram.

    Examples
    --------
    >>> north = {"died": [0, 1, 0, 1, 0], "risk": [0.1, 0.7, 0.3, 0.6, 0.2]}
    >>> south = {"died": [0, 0, 1, 1, 0], "risk": [0.2, 0.4, 0.3, 0.9, 0.1]}
    >>> report = federated_report([north, south], label="died", score="risk", threshold=0.5, min_cell=1)
    >>> round(report.auc, 4)
    0.9375
    """
    protocol = counts_by(options) if protocol is None else protocol
    own = options_for(federated_report, protocol, options, among="histogram-")
    of_groups = min(min_cell, MOST_MIN_CELL)
    questions = Questions.asked(
        score=score,
        by=by,
        cluster=cluster,
        heterogeneity=heterogeneity,
        min_cell=of_groups,
        weights=weights_named(weight, max_weight, weight_step),
        follow_up=follow_up_named(label, positive_label, time, event, event_codes, horizon, time_grid),
    )
    entries = Entries(positive_label=positive_label, drop_missing=drop_missing, score_scale=score_scale)
    setup = Setup(keys=keys, backend=backend, max_rows=max_rows, min_rows=min_rows, row_caps=row_caps)
    wanted = ReportAsked(
        protocol=protocol,
        options=own,
        threshold=tuple(np.ravel(threshold or ()).tolist()),
        cost_ratio=cost_ratio,
        alert_rate=alert_rate,
        min_cell=min_cell,
        title=title,
        bootstrap=bootstrap,
    )
    parties, analysis = parties_of(rows, questions, site=site, label=label, entries=entries)
    with shown(progress) if progress else nullcontext() as report:
        asked = Asked(analysis=analysis, interval=interval, report=wanted)
        return report_of(parties, asked, thresholds=thresholds, setup=setup, progress=report)


def report_of(
    parties: Sequence[PartyData],
    asked: Asked,
    *,
    thresholds: str | ArrayLike | QuantileThresholds | None,
    specification: str = "",
    setup: Setup,
    progress: Progress | None,
) -> Report:
    """Make the report of rows that have been read for an analysis; errors as of `federated_report`.

    `thresholds` stand for those of the question; `specification` is what the page says of them.
    """
    own, chosen, before = None, dict[tuple[str, ...], str](), tuple[str, ...]()
    if thresholds is None and asked.report and asked.report.options.get("epsilon") is not None:
        thresholds = registry.evaluating(asked.report.protocol).options.default_thresholds  # never by the rows
    if isinstance(thresholds, str) and grids.quantiles_wanted(thresholds) is not None:
        asked = structs.replace(asked, thresholds=thresholds)
    elif thresholds is not None:
        if isinstance(thresholds, QuantileThresholds):
            specification = f"quantile:{len(thresholds.grid)}"
            before, thresholds = thresholds.told_with(asked.report.options if asked.report else {}), thresholds.grid
            specification = specification or f"quantile:{len(thresholds)}"
        grid = grids.resolve(thresholds)
        own = Grids((grid,) * len(asked.analysis.models), grid)
        specification = specification or (thresholds if isinstance(thresholds, str) else "of one's own")
    else:
        own, chosen = _of_rows(parties, asked)
        specification = next(iter(chosen.values()))
    base = Request(parties=tuple(data.name for data in parties), thresholds=np.empty(0), **vars(setup))

    def said(step: Step, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, Evaluation):
            return outcome
        told = chosen.get(step.request.analysis.models, "")
        settings = {**outcome.settings, "grid": told} if " " in told else outcome.settings  # of the rows
        return replace(outcome, settings=settings, warnings=tuple(dict.fromkeys((*outcome.warnings, *before))))

    steps = report_steps(asked, base, own, specification)
    return Report(*play(steps, parties, asked.analysis, progress, said=said))


def _of_rows(parties: Sequence[PartyData], asked: Asked) -> tuple[Grids, dict[tuple[str, ...], str]]:
    """Return the thresholds that one process chooses, by the rows if it may, and what is told of each model's."""
    assert asked.report is not None  # noqa: S101 - a report is made
    options, analysis = registry.evaluating(asked.report.protocol).options, asked.analysis
    own, chosen = [], dict[tuple[str, ...], str]()
    for alone in (Analysis(models=(model,)) for model in analysis.models):
        rows = [picked(data, analysis, alone) for data in parties]
        found = default_thresholds(rows, alone, options, asked.report.options)
        own.append(grids.resolve(found.grid))
        chosen[alone.models] = found.chosen
    if len(own) == 1:
        return Grids((own[0],), own[0]), chosen
    both = structs.replace(analysis, by=(), heterogeneity=False)
    together = default_thresholds(parties, both, registry.evaluating(asked.protocol).options, asked.options)
    return Grids(tuple(own), grids.resolve(together.grid)), chosen
