"""The sessions that a study takes, one after the other, and what is asked in each.

Who makes a session, and a site that answers it unasked, take this from the same functions: the one makes what
`steps_of` says, the other asks whether a session is that, and nothing else (`differing`).

    thresholds     finds quantile thresholds, once for all turns of the study
    evaluation     what `fhe-auc evaluate` gives, at these thresholds or the study's own
    histogram      pooled counts by score, for a report or a calibration map; one for each model
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import FheAucError, InputError, UnknownProtocolError
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.study import Study
from fhe_auc.results.evaluation import Outcome, QuantileThresholds
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import ONE_TIME_PADS, backend_of
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS, DEFAULT_MIN_ROWS, Protocol, Request

THRESHOLDS, EVALUATION, HISTOGRAM = "thresholds", "evaluation", "histogram"
_COUNTING = "histogram-federated"


@dataclass(frozen=True)
class Step:
    """One session of a study: its name there, and what is asked; `once`: its result serves all turns."""

    name: str
    protocol: str
    request: Request
    once: bool = False


def steps_of(study: Study, sites: Sequence[str], results: Mapping[str, Outcome]) -> tuple[Step, ...]:
    """Return the sessions of one turn, in order, as far as earlier ones' `results`, by step, say what they are.

    `sites` are those of the study that take part. Raises `InputError` for a study that cannot be.
    """
    analysis = study.questions().analysis({})
    plugin: Protocol[Any] = registry.evaluating(study.protocol)
    if not plugin.several and (not analysis.is_plain or analysis.cluster or analysis.heterogeneity):
        raise InputError(
            f"protocol {plugin.name!r} answers for one model over all rows: score-columns, by, classes, cluster and "
            "heterogeneity are for exact and verified"
        )
    thresholds = study.listed if study.thresholds == "" else study.thresholds
    if thresholds is None:
        thresholds = plugin.options.thresholds_for(several=analysis.coarse, compared=analysis.compared)
    bins = grids.quantiles_wanted(thresholds)
    grid = np.empty(0) if bins is not None else grids.resolve(thresholds)
    request, steps = _request(study, sites, plugin, analysis, grid), list[Step]()
    if bins is not None:
        finder = registry.finder(plugin)
        first, request = plugin.staged(request, bins)
        steps.append(Step(THRESHOLDS, finder.name, first, once=True))
        if not isinstance(found := results.get(THRESHOLDS), QuantileThresholds):
            return tuple(steps)
        request = replace(request, thresholds=found.grid)
    steps.append(Step(EVALUATION, plugin.name, request))
    if study.report or study.calibrate:
        counted = grids.with_asked(request.thresholds, study.decisions) if study.decisions else request.thresholds
        options = {} if study.protocol != _COUNTING else request.options
        alone = replace(request, analysis=PLAIN, options=options, interval=None, row_caps=None, thresholds=counted)
        several = len(analysis.models) > 1
        for model in analysis.models:
            steps.append(Step(f"{HISTOGRAM} {model}" if several else HISTOGRAM, _COUNTING, alone))
    return tuple(steps)


def check(study: Study) -> None:
    """Raise `InputError` where a session of a study cannot be, with the entry of its file, before anybody is asked."""
    if len(study.sites) < 2:
        raise InputError("sites: name two at least, with aggregator and maker")
    if study.min_parties and not study.helper and registry.load(study.protocol).key_kinds():
        raise InputError(
            "min-parties: without a helper the session's keys are of all sites; name a helper, or leave it out"
        )
    if study.epsilon and study.protocol == "verified" and not (study.rows and study.helper):
        raise InputError(
            "epsilon: with verified, noise is sized for the rows that there are. Give helper, and the number of rows "
            "of each site, exactly: it is public (rows = { north = 770, … }); row-caps above it are no such number"
        )
    stand_in = QuantileThresholds(protocol="", backend="", parties=2, security_bits=0, grid=_some_grid(study))
    for step in steps_of(study, study.sites, {THRESHOLDS: stand_in}):
        registry.load(step.protocol).manifest_of(step.request)


def differing(manifest: Manifest, step: Step) -> list[str]:
    """Return in what a session is not the one that a step makes, whatever its keys, id and certificates are."""
    try:
        plugin = registry.load(step.protocol)
        plan = plugin.plan_of(manifest)
        backend = None if plan is None else backend_of(plan)
        own_library = step.request.backend is None and backend not in (None, ONE_TIME_PADS)
        request = replace(step.request, backend=backend) if own_library else step.request
        expected = plugin.manifest_of(request, manifest)
    except UnknownProtocolError:
        return [f"protocol {step.protocol!r}, which is not installed here"]
    except FheAucError:
        return ["its plan"]
    return [name for name in Manifest.__struct_fields__ if getattr(manifest, name) != getattr(expected, name)]


def _request(
    study: Study, sites: Sequence[str], plugin: Protocol[Any], analysis: Analysis, grid: NDArray[np.float64]
) -> Request:
    caps = {site: study.caps[site] for site in sites if site in study.caps}
    most = study.max_rows or sum(caps.values()) or DEFAULT_MAX_ROWS
    proves = bool(caps and study.helper and study.proofs and plugin.proves_inputs)
    return Request(
        parties=tuple(sites),
        thresholds=grid,
        min_parties=study.min_parties or None,
        interval=study.interval or None,
        analysis=analysis,
        options={**study.options, **({"epsilon": study.epsilon} if study.epsilon else {})},
        keys="helper" if study.helper else "sealed",
        max_rows=most,
        min_rows=min(study.min_rows or DEFAULT_MIN_ROWS, most),
        row_caps=caps if proves else None,
    )


def _some_grid(study: Study) -> NDArray[np.float64]:
    """Return as many thresholds as a session is to find."""
    bins = grids.quantiles_wanted(study.thresholds)
    return grids.explicit(np.arange(bins or grids.MIN_SIZE) / (bins or grids.MIN_SIZE))


def with_step(manifest: Manifest, step: Step, turn: int) -> Manifest:
    """Return a session's manifest as one of its study."""
    return msgspec.structs.replace(manifest, step=step.name, turn=turn)
