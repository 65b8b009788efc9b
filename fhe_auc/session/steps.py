"""Which sessions an evaluation takes, one after the other, and what they tell together.

    evaluation_steps    (thresholds,) evaluation
    of follow-up times  (thresholds,) censoring curve, and for each horizon its evaluation

A session may depend on what those before it have yielded: its thresholds, or whether it is needed. So steps are a
generator: it yields a session that is to be made, is sent what that has yielded, and returns what all tell. One process
plays them at once (`fhe_auc.session.one_process.play`). Between machines who makes sessions, and who agrees to them,
ask `step_after`: it is the same to all that have the same results, and numbers come out to the same digits.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.metrics.censoring import at_horizon
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.asked import Asked
from fhe_auc.results.evaluation import CensoringCurve, Evaluation, Outcome, QuantileThresholds, preceded
from fhe_auc.results.horizons import at_horizons
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request

ANY = Request(parties=(), thresholds=np.empty(0))
CENSORING = "censoring-federated"
_OTHERS = "the results are not those of the question's sessions, in their order"
T = TypeVar("T")


class Step(NamedTuple):
    """One session that is to be made."""

    protocol: str
    request: Request


Steps: TypeAlias = Generator[Step, Outcome, T]


def played(steps: Steps[T], one: Callable[[Step], Outcome]) -> T:
    """Return what all sessions tell, of which `one` plays each."""
    try:
        step = next(steps)
        while True:
            step = steps.send(one(step))
    except StopIteration as ended:
        told: T = ended.value
        return told


def step_after(steps: Steps[object], outcomes: Iterable[Outcome]) -> Step | None:
    """Return the session that comes after those with these outcomes, in their order; None: they are all.

    Raises `InputError` where they are not those of the question, and `EvaluationError` where it has no answer.
    """
    try:
        step = next(steps)
        for outcome in outcomes:
            step = steps.send(outcome)
    except StopIteration:
        return None
    return step


def told_by(steps: Steps[T], outcomes: Iterable[Outcome]) -> T:
    """Return what sessions with these outcomes tell; errors as `step_after`, and `InputError` for too few."""
    given = iter(outcomes)

    def one(step: Step) -> Outcome:
        if (outcome := next(given, None)) is None:
            raise InputError(
                "some sessions are to come, or their results are missing: the last one's file has what all tell"
            )
        return outcome

    return played(steps, one)


def evaluation_steps(asked: Asked, base: Request = ANY, own: NDArray[np.float64] | None = None) -> Steps[Evaluation]:
    """Return the steps of an evaluation; it has the costs and warnings of all sessions.

    Parties, keys and bounds on rows are those of `base`. One process may have chosen thresholds, its `own`.
    """
    request, found = asking(asked, base), None
    if own is None:
        found, request = yield from with_thresholds(asked, asked.protocol, request)
    else:
        request = replace(request, thresholds=own)
    curve = None if not asked.analysis.follow_up else (yield from censoring_curve(asked, request))
    evaluation = yield from evaluated(asked.protocol, request, curve)
    return evaluation if found is None else preceded(evaluation, found)


def evaluated(protocol: str, request: Request, curve: CensoringCurve | None) -> Steps[Evaluation]:
    """Return the evaluation at the thresholds of a request; of all horizons, with the weights of a censoring curve."""
    follow_up = request.analysis.follow_up
    if curve is None or not follow_up:
        return expected(Evaluation, (yield Step(protocol, request)))
    evaluations = list[Evaluation]()
    for at in [at_horizon(curve, follow_up, each) for each in follow_up.horizons]:
        one = replace(request, analysis=structs.replace(request.analysis, at=at))
        told = expected(Evaluation, (yield Step(protocol, one)))
        if told.horizon not in (at.horizon, None):
            raise InputError(_OTHERS)
        own = tuple([replace(each, horizon=at.horizon) for each in told.estimates])
        evaluations.append(replace(told, estimates=own))
    return at_horizons(evaluations, curve, request.analysis)


def censoring_curve(asked: Asked, base: Request) -> Steps[CensoringCurve]:
    """Return the censoring curve of all rows; scores are checked for the thresholds of `base`."""
    analysis = Analysis(models=asked.analysis.models, follow_up=asked.analysis.follow_up)
    most = min(base.max_rows, sum(base.caps) or base.max_rows)
    request = requested(base, CENSORING, analysis=analysis, options={}, max_rows=most)
    curve = expected(CensoringCurve, (yield Step(CENSORING, request)))
    if asked.analysis.follow_up and curve.counts.shape != asked.analysis.follow_up.shape:
        raise InputError(_OTHERS)
    return curve


def with_thresholds(asked: Asked, protocol: str, request: Request) -> Steps[tuple[QuantileThresholds | None, Request]]:
    """Return the request at the thresholds that are asked for, and what has found them, if a session has."""
    bins = grids.quantiles_wanted(asked.thresholds)
    if bins is None:
        return None, replace(request, thresholds=grids.resolve(asked.thresholds))
    plugin = registry.evaluating(protocol)
    first, second = plugin.staged(request, bins)
    first = replace(first, analysis=Analysis(models=asked.analysis.models))
    found = expected(QuantileThresholds, (yield Step(registry.finder(plugin).name, first)))
    return found, replace(second, thresholds=found.grid)


def asking(asked: Asked, base: Request) -> Request:
    """Return the request of the evaluation, without thresholds."""
    return replace(base, analysis=asked.analysis, interval=asked.interval, options=asked.options)


def requested(base: Request, protocol: str, **changes: Any) -> Request:
    """Return what is asked of one session; proofs of row caps only where parties have such."""
    proves = registry.load(protocol).proves_inputs
    return replace(base, row_caps=base.row_caps if proves else None, **changes)


def expected(kind: type[T], outcome: Outcome) -> T:
    """Return an outcome, which is of this kind; otherwise raise `InputError`."""
    if not isinstance(outcome, kind):
        raise InputError(_OTHERS)
    return outcome
