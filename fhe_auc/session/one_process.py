"""Sessions whose roles all run in this process, and exchange the same bytes as between sites."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from fhe_auc.base.errors import MessageError
from fhe_auc.base.terminal import Progress
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.evaluation import BEFORE, Evaluation, Outcome, QuantileThresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.computation import check_rows
from fhe_auc.session.party import Party, R
from fhe_auc.session.protocol import Protocol, Request
from fhe_auc.session.steps import Step, Steps, T, played

Elsewhere: TypeAlias = Callable[[Protocol[Any], Request, Sequence[PartyData]], Outcome]
"""Plays all roles of a session in other places; returns its outcome."""


def play(
    steps: Steps[T],
    parties: Sequence[PartyData],
    analysis: Analysis,
    progress: Progress | None,
    cheat: str | None = None,
    said: Callable[[Step, Outcome], Outcome] = lambda step, outcome: outcome,
    elsewhere: Elsewhere | None = None,
) -> T:
    """Play all sessions of some steps, each on those of the rows that it looks at; return what they tell.

    The rows have been read for an analysis. `cheat` is as for `run`, in sessions that evaluate; `said` returns what is
    told of a session's outcome. Roles that do not all run in this process play a session `elsewhere`.
    """
    found: QuantileThresholds | None = None

    def one(step: Step) -> Outcome:
        nonlocal found
        plugin = registry.load(step.protocol)
        before = BEFORE.get(plugin.yields, "")

        def told(phase: str, done: int, total: int) -> None:
            if progress is not None:
                progress(before + phase, done, total)

        rows = [picked(data, analysis, step.request.analysis) for data in parties]
        if elsewhere is not None:
            return elsewhere(plugin, step.request, rows)
        lie = cheat if issubclass(plugin.yields, Evaluation) else None
        same = found if found is not None and np.array_equal(found.grid, step.request.thresholds) else None
        outcome = run(plugin, step.request, rows, told, lie, same)
        found = outcome if isinstance(outcome, QuantileThresholds) else found
        return said(step, outcome)

    return played(steps, one)


def picked(data: PartyData, analysis: Analysis, wanted: Analysis) -> PartyData:
    """Return a party's rows with what one session looks at, of those that were read for an analysis."""
    at = [analysis.models.index(model) for model in wanted.models]
    return replace(
        data,
        scores=tuple(data.scores[model] for model in at),
        score_columns=tuple(data.score_columns[model] for model in at) if data.score_columns else (),
        groups=data.groups if wanted.by else (),
        clusters=data.clusters if wanted.cluster else None,
    )


def run(
    plugin: Protocol[R],
    request: Request,
    parties: Sequence[PartyData],
    progress: Progress | None,
    cheat: str | None = None,
    found: QuantileThresholds | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> R:
    """Play all roles of a session in this process; return the first party's outcome, with all phases' seconds.

    `cheat` is as for `federated_auc`: where it is a lie of a party, `liar_among` them tells it, and the others go on
    without it, if they can. `found` are the thresholds that the parties have found before: the manifest must have them.
    By `clock` go the phases that are not the parties' own.
    """
    rows = sum(data.rows for data in parties)
    if plugin.encrypts:
        check_rows(rows, request.max_rows)  # between sites, no role could know
        if request.analysis.weights:
            weighing = sum(data.weighing(request.analysis.units) for data in parties)
            check_rows(weighing, request.max_rows, what="rows by weight")
    attacks = None if cheat is None else registry.attacks(plugin.name)
    liar = liar_among(parties).name if attacks is not None and cheat in attacks.of_parties else None
    if liar is not None:
        request = replace(request, min_parties=request.size - 1)
    started = clock()
    session = plugin.prepare(request)
    manifest, delivery = session.manifest, session.delivery()
    if found is not None:
        found.require(manifest.thresholds, party=parties[0].name)
    seconds = {"keys": clock() - started, "ingest": 0.0, "circuit": 0.0}
    if attacks is None or cheat is None or liar is not None:
        aggregator = plugin.aggregator(manifest, delivery.aggregator)
    else:
        aggregator = attacks.aggregator(cheat, manifest, delivery.aggregator, rows=rows)
    warned = plugin.own_warnings(manifest, parties)  # here nobody is to be kept from knowing about the others
    roles = [plugin.party(manifest, delivery.parties[data.name], data, warned) for data in parties if data.name != liar]
    everyone: list[Party[R] | Party[Outcome] | Party[Evaluation]] = [*roles]
    if delivery.helper is not None:
        everyone.append(plugin.helper(manifest, delivery.helper))
    if attacks is not None and cheat is not None and liar is not None:
        data = liar_among(parties)
        everyone.append(attacks.party(cheat, manifest, delivery.parties[liar], data, rows=rows))
    message, refused = aggregator.start(), False
    while message:
        asked = [role for role in everyone if role.name in aggregator.asked]
        for done, role in enumerate(asked):
            if progress is not None:
                progress(f"round {aggregator.round}", done, len(asked))
            submission, started = role.respond(message), clock()
            try:
                aggregator.receive(role.name, submission)
            except MessageError:
                if liar is None:
                    raise
                refused = True
            seconds["ingest"] += clock() - started
        if progress is not None:
            progress(f"round {aggregator.round}", len(asked), len(asked))
        started = clock()
        message = aggregator.finish_round() or b""
        seconds["circuit"] += clock() - started
    outcomes = {party.name: party.result() for party in roles if party.name in aggregator.counted}
    outcome = first_of(with_costs(outcomes, seconds))
    warnings = [f"{name} not counted: {why}" for name, why in aggregator.refusals.items()] if refused else []
    if isinstance(outcome, Evaluation) and rows < request.min_rows and outcome.numerical_error > 0:
        # No role could know, but here all rows are in one process.
        warnings.append(f"fewer than min_rows = {request.min_rows:,} pooled rows: the error may exceed the stated one")
    return replace(outcome, warnings=(*outcome.warnings, *warnings)) if warnings else outcome


def liar_among(parties: Sequence[PartyData]) -> PartyData:
    """Return the party that lies where `cheat` is a party's."""
    return parties[-1]


def first_of(outcomes: Mapping[str, R]) -> R:
    """Return the first party's outcome, which all of them may know."""
    return next(iter(outcomes.values()))


def with_costs(outcomes: Mapping[str, R], seconds: Mapping[str, float]) -> dict[str, R]:
    """Return all outcomes with the busiest party's bytes, and each phase's seconds, as of `Outcome.seconds`."""
    seconds = dict(seconds)
    for phase in first_of(outcomes).seconds:
        of_parties = [outcome.seconds[phase] for outcome in outcomes.values()]
        # Of those in one process, one may read the result for all.
        seconds[phase] = max(of_parties) if phase == "recover" else sum(of_parties) / len(of_parties)
    up = max(outcome.upload_bytes_per_party for outcome in outcomes.values())
    down = max(outcome.download_bytes_per_party for outcome in outcomes.values())
    return {
        name: replace(outcome, seconds=seconds, upload_bytes_per_party=up, download_bytes_per_party=down)
        for name, outcome in outcomes.items()
    }
