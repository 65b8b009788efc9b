"""Sessions whose roles all run in this process, and exchange the same bytes as between sites."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import MessageError
from fhe_auc.base.terminal import Progress
from fhe_auc.results.evaluation import FIRST_SESSION, Evaluation, QuantileThresholds, preceded
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.party import Party, R
from fhe_auc.session.protocol import Protocol, Request, check_rows


def run_on_quantiles(
    plugin: Protocol[Evaluation],
    request: Request,
    bins: int,
    parties: Sequence[PartyData],
    progress: Progress,
    cheat: str | None = None,
    edges: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
) -> Evaluation:
    """Run a session that finds so many thresholds, then `run` at them; return the evaluation, with both's costs.

    `edges` makes others of those found, at which the parties count.
    """
    first, second = plugin.staged(request, bins)
    finder = registry.finder(plugin)

    def in_first(phase: str, done: int, total: int) -> None:
        progress(FIRST_SESSION + phase, done, total)

    quantiles = played(finder, first, parties, in_first)
    found = first_of(quantiles)
    chosen = replace(second, thresholds=found.grid if edges is None else edges(found.grid))
    return preceded(run(plugin, chosen, parties, progress, cheat, None if edges else quantiles), found)


def run(
    plugin: Protocol[Evaluation],
    request: Request,
    parties: Sequence[PartyData],
    progress: Progress,
    cheat: str | None = None,
    quantiles: Mapping[str, QuantileThresholds] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Evaluation:
    """Run one session in this process and return the first party's evaluation, with all phases' seconds.

    `cheat` is as for `federated_auc`; `quantiles` has, by name, the thresholds that each party has found before. By
    `clock` go the phases that are not the parties' own.
    """
    evaluation = first_of(played(plugin, request, parties, progress, cheat, quantiles, clock))
    if sum(len(data.y_score) for data in parties) < request.min_rows and evaluation.numerical_error > 0:
        # No role could know, but here all rows are in one process.
        few = f"fewer than min_rows = {request.min_rows:,} pooled rows: the error may exceed the stated one"
        return replace(evaluation, warnings=(*evaluation.warnings, few))
    return evaluation


def first_of(outcomes: Mapping[str, R]) -> R:
    """Return the first party's outcome, which all of them may know."""
    return next(iter(outcomes.values()))


def played(
    plugin: Protocol[R],
    request: Request,
    parties: Sequence[PartyData],
    progress: Progress,
    cheat: str | None = None,
    quantiles: Mapping[str, QuantileThresholds] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, R]:
    """Play all roles of a session; return each party's outcome, by name, with the session's costs.

    Where `cheat` is a lie of a party, `liar_among` them tells it: the others go on without it, if they can, and it has
    no outcome.
    """
    rows = sum(data.rows for data in parties)
    if plugin.encrypts:
        check_rows(rows, request.max_rows)  # between sites, no role could know
    attacks = None if cheat is None else registry.attacks(plugin.name)
    liar = liar_among(parties).name if attacks is not None and cheat in attacks.of_parties else None
    if liar is not None:
        request = replace(request, min_parties=request.size - 1)
    started = clock()
    session = plugin.prepare(request)
    manifest, delivery = session.manifest, session.delivery()
    seconds = {"keys": clock() - started}
    if attacks is None or cheat is None or liar is not None:
        aggregator = plugin.aggregator(manifest, delivery.aggregator)
    else:
        aggregator = attacks.aggregator(cheat, manifest, delivery.aggregator, rows=rows)
    for name, own in (quantiles or {}).items():
        own.require(manifest.thresholds, party=name)
    helper = None if delivery.helper is None else plugin.helper(manifest, delivery.helper)

    def role_of(data: PartyData) -> Party[R]:
        material = delivery.parties[data.name]
        if attacks is not None and cheat is not None and data.name == liar:
            return attacks.party(cheat, manifest, material, data, rows=rows)
        return plugin.party(manifest, material, data)

    roles = [role_of(data) for data in parties]
    for role in roles:  # here nobody is to be kept from knowing about the others
        role.own_warnings = plugin.own_warnings(manifest, parties)

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        asked = [role for role in (*roles, helper) if role is not None and role.name in aggregator.asked]
        for done, role in enumerate(asked):
            progress(f"round {aggregator.round}", done, len(asked))
            yield role.name, role.respond(message)
        progress(f"round {aggregator.round}", len(asked), len(asked))

    refused: list[MessageError] = []
    conduct(aggregator, exchange, seconds=seconds, refused=None if liar is None else refused.append, clock=clock)
    outcomes = {role.name: role.result() for role in roles if role.name in aggregator.counted and role.name != liar}
    if refused:  # as of the aggregator's record
        also = tuple(f"{name} not counted: {reason}" for name, reason in aggregator.refusals.items())
        outcomes = {name: replace(each, warnings=(*each.warnings, *also)) for name, each in outcomes.items()}
    return with_costs(outcomes, seconds)


def liar_among(parties: Sequence[PartyData]) -> PartyData:
    """Return the party that lies where `cheat` is a party's."""
    return parties[-1]


def with_costs(outcomes: Mapping[str, R], seconds: Mapping[str, float]) -> dict[str, R]:
    """Return all outcomes with the busiest party's bytes, and each phase's seconds, those of parties as means."""
    seconds = dict(seconds)
    for phase in first_of(outcomes).seconds:
        seconds[phase] = sum(outcome.seconds[phase] for outcome in outcomes.values()) / len(outcomes)
    up = max(outcome.upload_bytes_per_party for outcome in outcomes.values())
    down = max(outcome.download_bytes_per_party for outcome in outcomes.values())
    return {
        name: replace(outcome, seconds=seconds, upload_bytes_per_party=up, download_bytes_per_party=down)
        for name, outcome in outcomes.items()
    }
