"""The public API: pooled AUC of many parties, run in one process with every role really played."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.errors import InputError, UnknownProtocolError
from fhe_auc.base.options import CheckedNames, Options, example, given
from fhe_auc.base.suggestions import known_names
from fhe_auc.base.terminal import Progress, shown
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc.results.intervals import DEFAULT_LEVEL
from fhe_auc.rows.frames import Breakdown, Columns, Rows, parties_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.one_process import first_of, played, run, run_on_quantiles
from fhe_auc.session.protocol import DEFAULT_PROTOCOL, Request, Setup

_P = ParamSpec("_P")
_T = TypeVar("_T")


def with_parts(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return the function, which then takes the parts of its arguments by themselves, too.

    So ``label="died"`` is ``columns=Columns(label="died")``. The error about an argument that it does not have names
    what may be meant.
    """
    parameters = inspect.signature(function).parameters
    known = list(parameters)
    homes = {
        part.name: name
        for name, each in parameters.items()
        if isinstance(each.default, CheckedNames)
        for part in fields(each.default)  # type: ignore[arg-type] # a dataclass
    }

    @wraps(function)
    def call(*args: _P.args, **values: _P.kwargs) -> _T:
        whole: dict[str, Any] = {name: value for name, value in values.items() if name not in homes}
        for name in whole:
            if name not in known:
                remedy = _as_option(name, values) or known_names(name, known, most=len(known))
                raise TypeError(f"{function.__name__} has no argument {name!r}{remedy}")
        for home in dict.fromkeys(homes[name] for name in values if name in homes):
            parts = {name: value for name, value in values.items() if homes.get(name) == home}
            whole[home] = replace(whole.get(home, parameters[home].default), **parts)
        return function(*args, **whole)

    return call


def _as_option(name: str, values: Mapping[str, Any]) -> str:
    """Return how to give an option of a protocol, of the one that `values` ask for if it has it; "" for no option."""
    kinds = {}
    for protocol in registry.names():
        try:
            kinds[protocol] = registry.load(protocol).options
        except UnknownProtocolError:  # of a plug-in that does not load
            continue
    having = {protocol: kind for protocol, kind in kinds.items() if name in [each.name for each in fields(kind)]}
    if not having:
        return ""
    asked = values.get("protocol")
    chosen = having.get(asked if isinstance(asked, str) else getattr(asked, "protocol", ""))
    if chosen is None and len(having) == 1:
        chosen = next(iter(having.values()))
    if chosen is None:
        names = ", ".join(kind.__name__ for kind in having.values())
        return f"; it is an option of protocols, to be given as in protocol=NAME({name}=...), NAME one of {names}"
    how = example(chosen, **{name: values[name]})
    return f"; it is an option of a protocol: protocol={how}, from {chosen.__module__}"


@with_parts
def federated_auc(
    rows: Rows,
    *,
    columns: Columns = Columns(),
    breakdown: Breakdown = Breakdown(),
    protocol: str | Options = DEFAULT_PROTOCOL,
    thresholds: str | ArrayLike | QuantileThresholds | None = None,
    interval: float | None = DEFAULT_LEVEL,
    setup: Setup = Setup(),
    progress: bool | Progress = False,
    cheat: str | None = None,
) -> Evaluation:
    """Return the AUC over all parties' rows, computed on encrypted counts (or noisy ones, by protocol).

    Every role runs in this process, exchanging the same bytes that they would between sites. What comes back shows
    itself as a table in a notebook; `Evaluation.to_frame` returns it for pandas. Parts of `columns`, `breakdown` and
    `setup` may be given by themselves: ``label="died"`` is ``columns=Columns(label="died")``.

    Parameters
    ----------
    rows : table, iterable of parties, or mapping of names to parties
        One table, where `columns` names that of sites; or what each party has: a pair (y_true, y_score), or a table. A
        table is anything that has columns by name: a pandas or polars data frame, an Arrow table, a dict of arrays.
    columns : Columns
        Which columns hold label, scores and site, and what their entries are.
    breakdown : Breakdown
        AUCs of groups, of classes, and how far sites differ.
    protocol : str or Options
        Installed protocol, by name (see ``fhe-auc protocols``) or by its options, such as
        ``fhe_auc_protocols.options.DpaucLaplace(epsilon=1.0)``. Exact and verified alone answer for several models,
        groups or classes.
    thresholds : str, array-like, QuantileThresholds or None
        "uniform:100", "hybrid:1000", "dpauc:100", the path of a file, or ascending numbers; or "quantile:200":
        thresholds between which about equally many pooled rows lie, found by a session before the evaluation, or what
        `federated_thresholds` has found. What that session reveals is among the warnings. None takes the protocol's
        own: hybrid:5000 for one AUC of exact and verified, hybrid:1000 otherwise.
    interval : float or None
        Level of the confidence interval; None: none. Exact and verified have DeLong's, with joint keys Hanley and
        McNeil's; other protocols do not release what an interval takes, and have none.
    setup : Setup
        Who has keys, the encryption library, and public bounds on the rows.
    progress : bool or callable
        True shows a bar on standard error, if that is a terminal; a callable is called with (phase, done, all).
    cheat : str, optional
        For demonstrations: the aggregator lies, in one of the ways that `fhe_auc.session.registry.attacks` names.

    Raises
    ------
    InputError
        Bad input; the message names party, row, column and value, and for an unknown column those that there are.
    UndefinedAucError
        All rows have the same label.
    EvaluationError
        The result fails its checks.

    Examples
    --------
    >>> evaluation = federated_auc([([0, 1, 1], [0.1, 0.8, 0.4]), ([0, 0, 1], [0.5, 0.2, 0.9])])
    >>> round(evaluation.auc, 6)
    0.888889

    >>> site = {"died": [0, 1, 1, 0], "a": [0.1, 0.8, 0.4, 0.3], "b": [0.3, 0.6, 0.2, 0.4]}
    >>> evaluation = federated_auc({"north": site, "south": site}, columns=Columns(label="died", score=["a", "b"]))
    >>> [(each.model, each.auc) for each in evaluation.estimates]
    [('a', 1.0), ('b', 0.5)]
    """
    parties, analysis = parties_of(rows, columns, breakdown.questions(columns))
    name, options = named(protocol)
    with shown(progress) as report:
        return evaluated(
            parties,
            analysis,
            protocol=name,
            thresholds=thresholds,
            interval=interval,
            setup=setup,
            progress=report,
            cheat=cheat,
            options=options,
        )


def named(protocol: str | Options) -> tuple[str, dict[str, Any]]:
    """Return a protocol's name, and the options that are given; raise `InputError` for what is neither."""
    asked: object = protocol
    if isinstance(asked, type) and issubclass(asked, Options):
        raise InputError(f"protocol={asked.__name__} is a class, not its options: protocol={example(asked)}")
    if not isinstance(asked, (str, Options)):
        raise InputError(
            f"protocol must be a name or options, as in protocol=DpaucLaplace(epsilon=1.0), not {type(asked).__name__}"
        )
    return (protocol, {}) if isinstance(protocol, str) else (protocol.protocol, given(protocol))


def evaluated(
    parties: Sequence[PartyData],
    analysis: Analysis,
    *,
    protocol: str,
    thresholds: str | ArrayLike | QuantileThresholds | None,
    interval: float | None,
    setup: Setup,
    progress: Progress,
    cheat: str | None = None,
    options: Mapping[str, Any],
) -> Evaluation:
    """Return the evaluation of rows that are for this analysis; the rest as of `federated_auc`."""
    plugin = registry.evaluating(protocol)
    warnings: tuple[str, ...] = ()
    if isinstance(thresholds, QuantileThresholds):
        warnings, thresholds = thresholds.warnings, thresholds.grid
    if thresholds is None:
        thresholds = plugin.options.thresholds_for(several=not analysis.is_plain)
    bins = grids.quantiles_wanted(thresholds)
    request = Request(
        parties=tuple(data.name for data in parties),
        thresholds=grids.resolve(thresholds) if bins is None else np.empty(0),
        analysis=analysis,
        interval=interval,
        options=options,
        **vars(setup),
    )
    if bins is None:
        evaluation = run(plugin, request, parties, progress, cheat)
        return replace(evaluation, warnings=tuple(dict.fromkeys((*evaluation.warnings, *warnings))))
    return run_on_quantiles(plugin, request, bins, parties, progress, cheat)


@with_parts
def federated_thresholds(
    rows: Rows,
    bins: int,
    *,
    columns: Columns = Columns(),
    protocol: str | Options = "boundaries-federated",
    setup: Setup = Setup(),
    progress: bool | Progress = False,
) -> QuantileThresholds:
    """Return thresholds between which about equally many of all parties' rows lie.

    For several evaluations on the same thresholds, as in ``federated_auc(rows, thresholds=found)``; ``quantile:200``
    does it for one.

    Parameters
    ----------
    rows, columns, setup, progress
        As for `federated_auc`; scores are of one model and probabilities, and labels do not matter.
    bins : int
        How many thresholds; where many rows have one score, there are fewer.
    protocol : str or Options
        Installed protocol that finds thresholds, by name or by its options.

    Raises
    ------
    InputError
        Bad input; the message names party, row, column and value.
    EvaluationError
        The result fails its checks.
    """
    columns.require_one_score("a session that finds thresholds")
    parties, _ = parties_of(rows, columns, Breakdown().questions(columns))
    name, options = named(protocol)
    request = Request(
        parties=tuple(data.name for data in parties),
        thresholds=np.empty(0),
        options={**options, "bins": bins},
        **vars(setup),
    )
    with shown(progress) as report:
        return first_of(played(registry.finding(name), request, parties, report))
