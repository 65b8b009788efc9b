"""The public functions that evaluate: every role of a session runs in this process."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.errors import InputError, UnknownProtocolError
from fhe_auc.base.names import known_names
from fhe_auc.base.options import CheckedNames, Options, example, given
from fhe_auc.base.terminal import Progress, shown
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc.results.intervals import DEFAULT_LEVEL
from fhe_auc.rows.frames import Breakdown, Columns, Rows, parties_of
from fhe_auc.rows.own_rows import default_thresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.attacks import Attacks
from fhe_auc.session.one_process import run, run_on_quantiles
from fhe_auc.session.protocol import DEFAULT_PROTOCOL, Request, Setup

C = TypeVar("C", bound=CheckedNames)
F = TypeVar("F", bound=Callable[..., object])


def with_parts(function: F) -> F:
    """Show a function's signature without its ``**parts``: fields of its arguments, which may be given by themselves.

    ``label="died"`` is ``columns=Columns(label="died")``. The function takes them by `take` and `refuse`.
    """
    signature = inspect.signature(function)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    vars(function)["__signature__"] = signature.replace(parameters=own)
    return function


def take(argument: C, parts: dict[str, Any]) -> C:
    """Return an argument with those of its fields that are among the parts, which are removed there."""
    own = {part.name: parts.pop(part.name) for part in fields(argument) if part.name in parts}  # type: ignore[arg-type]
    return replace(argument, **own) if own else argument  # type: ignore[type-var] # a dataclass


def refuse(function: Callable[..., object], parts: Mapping[str, Any], protocol: str | Options) -> None:
    """Raise `TypeError` where parts are left that are no argument's, with what is meant, or where it belongs."""
    for name in parts:
        known = list(inspect.signature(function).parameters)
        remedy = _option_hint(name, {**parts, "protocol": protocol}) or known_names(name, known, most=len(known))
        raise TypeError(f"{function.__name__} has no argument {name!r}{remedy}")


def _option_hint(name: str, values: Mapping[str, Any]) -> str:
    """Return how to pass an option of a protocol, of the requested one if it has it; "" if no protocol has it."""
    kinds = {}
    for protocol in registry.names():
        try:
            kinds[protocol] = registry.load(protocol).options
        except UnknownProtocolError:  # of a plug-in that does not load
            continue
    owners = {protocol: kind for protocol, kind in kinds.items() if name in [option.name for option in fields(kind)]}
    if not owners:
        return ""
    requested = values.get("protocol")
    owner = owners.get(requested if isinstance(requested, str) else getattr(requested, "protocol", ""))
    if owner is None and len(owners) == 1:
        owner = next(iter(owners.values()))
    if owner is None:
        names = ", ".join(kind.__name__ for kind in owners.values())
        return f"; it is an option of protocols, to be given as in protocol=NAME({name}=...), NAME one of {names}"
    call = example(owner, **{name: values[name]})
    return f"; it is an option of a protocol: protocol={call}, from {owner.__module__}"


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
    **parts: Any,
) -> Evaluation:
    """Compute the AUC over the rows of all parties, on encrypted counts or, with some protocols, noisy ones.

    All roles run in this process and exchange the same bytes as between sites. The result shows itself as a table in a
    notebook; `Evaluation.to_frame` returns a pandas data frame. The fields of `columns`, `breakdown` and `setup` may be
    passed directly: ``label="died"`` is ``columns=Columns(label="died")``.

    Parameters
    ----------
    rows : table, iterable of parties, or mapping of names to parties
        One table with a column of sites, which `columns` names; or the rows of each party: a pair (y_true, y_score), a
        table, or `PartyData`. A table has columns by name: a pandas or polars data frame, an Arrow table, or a dict of
        arrays.
    columns : Columns
        The columns of labels, scores and sites, and what their entries are.
    breakdown : Breakdown
        Additional AUCs of groups and of classes, and how far sites differ.
    protocol : str or Options
        An installed protocol: its name (see ``fhe-auc protocols``), or its options, such as
        ``fhe_auc_protocols.options.DpaucLaplace(epsilon=1.0)``. Only exact and verified evaluate several models, groups
        or classes.
    thresholds : str, array-like, QuantileThresholds or None
        "uniform:100", "hybrid:1000", "dpauc:100", the path of a file, or 2 to 2^20 ascending numbers. "quantile:200"
        runs a session first, which finds thresholds with about equally many pooled rows between them; the result of
        `federated_thresholds` may be passed, too. The warnings say what that session reveals. "values:0:9" lists all
        scores that there are. None takes the default of the protocol, hybrid:5000 for one model of exact and verified,
        hybrid:1500 for several, hybrid:1000 otherwise, where values that ten rows have get bins of their own; and
        points of the rows where scores are no probabilities. Then ``settings["grid"]`` says so. With privacy noise it
        looks at no row.
    interval : float or None
        Level of the confidence interval, from 0.5 to 0.9999; None: no interval. Exact and verified have DeLong's, with
        an epsilon Hanley and McNeil's; the other protocols release too little for one.
    setup : Setup
        Who has the keys, the encryption library, and public bounds on the number of rows.
    progress : bool or callable
        True shows a bar on standard error if that is a terminal; a callable is called with (phase, done, total).
    cheat : str, optional
        For demonstrations: the aggregator lies, in one of the ways that `fhe_auc.session.registry.attacks` lists; or
        the last party does ("party-negative"), with a helper and row caps, and the result is of the others.

    Returns
    -------
    Evaluation
        The AUC in [0, 1], its interval and binning error, and what the session has cost.

    Raises
    ------
    InputError
        Bad input; the message names the party, row, column and value, and lists the known columns for an unknown one.
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
    >>> [(estimate.model, estimate.auc) for estimate in evaluation.estimates]
    [('a', 1.0), ('b', 0.5)]
    """
    columns, breakdown, setup = take(columns, parts), take(breakdown, parts), take(setup, parts)
    refuse(federated_auc, parts, protocol)
    parties, analysis = parties_of(rows, columns, breakdown.questions(columns))
    name, options = name_and_options(protocol)
    if cheat is not None:
        _check_cheat(cheat, registry.attacks(name), setup, len(parties))
    with shown(progress) if progress else nullcontext() as report:
        return evaluate(
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


def _check_cheat(cheat: str, attacks: Attacks, setup: Setup, parties: int) -> None:
    attacks.described(cheat)  # raises where there is none of that name
    if cheat not in attacks.of_parties:
        return
    if setup.keys != "helper" or setup.row_caps is None:
        raise InputError(f"cheat={cheat!r}: a party lies about its row cap; give keys='helper' and row_caps")
    if parties < 3:
        raise InputError(f"cheat={cheat!r}: the last of three parties or more lies; there are {parties}")


def name_and_options(protocol: str | Options) -> tuple[str, dict[str, Any]]:
    """Return the name of a protocol and its options that differ from the defaults; raise `InputError` otherwise."""
    value: object = protocol
    if isinstance(value, type) and issubclass(value, Options):
        raise InputError(f"protocol={value.__name__} is a class, not its options: protocol={example(value)}")
    if not isinstance(value, (str, Options)):
        raise InputError(
            f"protocol must be a name or options, as in protocol=DpaucLaplace(epsilon=1.0), not {type(value).__name__}"
        )
    return (protocol, {}) if isinstance(protocol, str) else (protocol.protocol, given(protocol))


def evaluate(
    parties: Sequence[PartyData],
    analysis: Analysis,
    *,
    protocol: str,
    thresholds: str | ArrayLike | QuantileThresholds | None,
    interval: float | None,
    setup: Setup,
    progress: Progress | None,
    cheat: str | None = None,
    options: Mapping[str, Any],
) -> Evaluation:
    """Evaluate rows that have been read for an analysis; arguments and errors are those of `federated_auc`."""
    plugin = registry.evaluating(protocol)
    warnings, told = tuple[str, ...](), dict[str, str]()
    if isinstance(thresholds, QuantileThresholds):
        warnings, thresholds = thresholds.warnings, thresholds.grid
    if thresholds is None:
        thresholds, chosen = default_thresholds(parties, analysis, plugin.options, options)
        told = {"grid": chosen} if " " in chosen else {}
    setup = plugin.set_up(setup, options, {party.name: party.rows for party in parties})
    bins = grids.quantiles_wanted(thresholds)
    grid = grids.resolve(thresholds) if bins is None else np.empty(0)
    request = Request(
        parties=tuple(party.name for party in parties),
        thresholds=grid,
        analysis=analysis,
        interval=interval,
        options=options,
        **vars(setup),
    )
    if bins is not None:
        return run_on_quantiles(plugin, request, bins, parties, progress, cheat)
    evaluation = run(plugin, request, parties, progress, cheat)
    warnings = tuple(dict.fromkeys((*evaluation.warnings, *warnings)))
    return replace(evaluation, warnings=warnings, settings={**evaluation.settings, **told})


@with_parts
def federated_thresholds(
    rows: Rows,
    bins: int,
    *,
    columns: Columns = Columns(),
    protocol: str | Options = "boundaries-federated",
    setup: Setup = Setup(),
    progress: bool | Progress = False,
    **parts: Any,
) -> QuantileThresholds:
    """Find thresholds with about equally many rows of all parties between them.

    They serve several evaluations, as in ``federated_auc(rows, thresholds=found)``; for a single one, pass
    ``thresholds="quantile:200"`` there.

    Parameters
    ----------
    rows, setup, progress
        As for `federated_auc`.
    bins : int
        Number of thresholds, 2 to 2^20; there are fewer where many rows have the same score.
    columns : Columns
        As for `federated_auc`, with the scores of one model, which are probabilities. Labels do not matter.
    protocol : str or Options
        An installed protocol that finds thresholds: its name or its options.

    Returns
    -------
    QuantileThresholds
        The thresholds, what the session has told the parties, and what it has cost.

    Raises
    ------
    InputError
        Bad input; the message names the party, row, column and value.
    EvaluationError
        The result fails its checks.
    """
    columns, setup = take(columns, parts), take(setup, parts)
    refuse(federated_thresholds, parts, protocol)
    if len(columns.scores) > 1:
        raise InputError(f"a session that finds thresholds is of one column of scores, got {len(columns.scores)}")
    parties, _ = parties_of(rows, columns, Breakdown().questions(columns))
    name, options = name_and_options(protocol)
    request = Request(
        parties=tuple(party.name for party in parties),
        thresholds=np.empty(0),
        options={**options, "bins": bins},
        **vars(setup),
    )
    with shown(progress) if progress else nullcontext() as report:
        return run(registry.finding(name), request, parties, report)
