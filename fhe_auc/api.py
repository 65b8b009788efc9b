"""The public API: pooled AUC of many parties, run in one process with every role really played."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc import registry
from fhe_auc import thresholds as grids
from fhe_auc.analysis import DEFAULT_MIN_CELL, PLAIN, Analysis, Questions
from fhe_auc.counts import PartyData, level_text
from fhe_auc.errors import InputError
from fhe_auc.evaluation import FIRST_SESSION, Evaluation, QuantileThresholds, preceded
from fhe_auc.intervals import DEFAULT_LEVEL
from fhe_auc.own_rows import warnings_of
from fhe_auc.party_names import alike
from fhe_auc.protocol import DEFAULT_MAX_ROWS, DEFAULT_MIN_ROWS, DEFAULT_PROTOCOL, Protocol, Request
from fhe_auc.rounds import R, conduct
from fhe_auc.score_scale import DEFAULT_SCALE, rescaled

Parties: TypeAlias = Iterable[PartyData | tuple[ArrayLike, ArrayLike]] | Mapping[str, tuple[ArrayLike, ArrayLike]]
Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with (phase, parties done, parties in all)."""


def federated_auc(
    parties: Parties,
    *,
    protocol: str = DEFAULT_PROTOCOL,
    thresholds: str | ArrayLike | None = None,
    backend: str | None = None,
    max_rows: int = DEFAULT_MAX_ROWS,
    min_rows: int = DEFAULT_MIN_ROWS,
    keys: str = "sealed",
    smudging_bits: int | None = None,
    interval: float | None = DEFAULT_LEVEL,
    score_scale: str = DEFAULT_SCALE,
    progress: Progress | None = None,
    cheat: str | None = None,
    **options: Any,
) -> Evaluation:
    """Return the AUC over all parties' rows, computed on encrypted counts (or noisy ones, by protocol).

    Every role runs in this process, exchanging the same bytes that they would between sites.

    Parameters
    ----------
    parties : iterable of (y_true, y_score) or PartyData, or mapping of names to (y_true, y_score)
        Each party's labels in {0, 1} and finite scores; for named thresholds, and all others within [0, 1],
        probabilities.
    protocol : str
        Installed protocol; see ``fhe-auc protocols``. The published designs are "semi-honest" and "malicious".
    thresholds : str, array-like or None
        "uniform:100", "hybrid:1000", "dpauc:100", the path of a file, or ascending numbers; or "quantile:200":
        thresholds between which about equally many pooled rows lie, found by a session before the evaluation. What that
        reveals is among the warnings. None takes the protocol's own: hybrid:4000 for exact and verified, hybrid:1000
        for all others.
    backend : "openfhe", "tenseal" or None
        Encryption library; None takes openfhe where it can be imported, else tenseal.
    max_rows, min_rows : int
        Public bounds on the pooled rows: the parameters hold up to max_rows, the precision from min_rows on.
    keys : "sealed" or "joint"
        A key holder makes the secret key and seals it to each party, or the parties make it together, so that only all
        of them can decrypt (backend openfhe, more rounds and bytes).
    smudging_bits : int, optional
        For joint keys: by how many bits a party's noise on its partial decryption exceeds what it hides; 30 to 80.
    interval : float or None
        Level of the confidence interval; None: none. Exact and verified have DeLong's, with joint keys Hanley and
        McNeil's; other protocols do not release what an interval takes, and have none.
    score_scale : "probability", "logit" or "percent"
        What the scores are; logits and percentages are turned into probabilities first (`fhe_auc.score_scale`).
    progress : callable, optional
        Called with (phase, done, all).
    cheat : str, optional
        For demonstrations: the aggregator lies, in one of the ways that `fhe_auc.registry.attacks` names.
    **options
        Options of the protocol, as ``fhe-auc protocols`` lists them; dpauc and ustat need ``epsilon``.

    Raises
    ------
    InputError
        Bad input; the message names party, row and value.
    UndefinedAucError
        All rows have the same label.
    EvaluationError
        The result fails its checks.

    Examples
    --------
    >>> evaluation = federated_auc([([0, 1, 1], [0.1, 0.8, 0.4]), ([0, 0, 1], [0.5, 0.2, 0.9])])
    >>> round(evaluation.auc, 6)
    0.888889
    """
    return evaluated(
        parties,
        PLAIN,
        score_scale=score_scale,
        protocol=protocol,
        thresholds=thresholds,
        backend=backend,
        max_rows=max_rows,
        min_rows=min_rows,
        keys=keys,
        smudging_bits=smudging_bits,
        interval=interval,
        progress=progress,
        cheat=cheat,
        options=options,
    )


def federated_evaluation(
    parties: Mapping[str, Any],
    *,
    label_column: str = "y_true",
    score_columns: str | Sequence[str] = "y_score",
    by: str | Sequence[str] | Mapping[str, Sequence[str]] = (),
    classes: Sequence[str] = (),
    cross_groups: bool = False,
    min_cell: int = DEFAULT_MIN_CELL,
    protocol: str = DEFAULT_PROTOCOL,
    thresholds: str | ArrayLike | None = None,
    backend: str | None = None,
    max_rows: int = DEFAULT_MAX_ROWS,
    keys: str = "sealed",
    smudging_bits: int | None = None,
    interval: float | None = DEFAULT_LEVEL,
    score_scale: str = DEFAULT_SCALE,
    progress: Progress | None = None,
    **options: Any,
) -> Evaluation:
    """Return the AUCs of several models, over all rows and over groups of rows, of all parties, from one session.

    Every role runs in this process, as for `federated_auc`. What comes back shows itself as a table in a notebook;
    `Evaluation.to_frame` returns it for pandas.

    Parameters
    ----------
    parties : mapping of names to tables
        A table is anything that has a column by its name, such as a pandas or polars data frame, an Arrow table, or a
        dict of arrays.
    label_column : str
        Column of labels, 0 or 1, or one of `classes`.
    score_columns : str or sequence of str
        Columns of the models' scores. The second and further models are compared with the first (paired DeLong).
    by : str, sequence of str, or mapping of str to sequence of str
        Columns that rows are grouped by, or these with all their levels. Categories: cut numbers into bands first.
    classes : sequence of str
        Three labels or more, with a column of scores each, in the same order: each class from the others, pairs of
        classes, and their average (Hand and Till, Machine Learning 45, 2001), which is `Evaluation.auc`.
    cross_groups : bool
        Also positives of each group from negatives of each other of the same column (xAUC).
    min_cell : int
        Groups with fewer rows of a label than this are not shown; 1 shows all. Parties can still read them.
    thresholds : str, array-like or None
        As of `federated_auc`; None takes hybrid:1000 where there is more than one AUC.
    protocol, backend, max_rows, keys, smudging_bits, interval, score_scale, progress, **options
        As of `federated_auc`; the protocol is exact or verified, where there is more than one AUC.

    Raises as `federated_auc`, and `InputError` for a column that is missing.

    Examples
    --------
    >>> site = {"y_true": [0, 1, 1, 0], "a": [0.1, 0.8, 0.4, 0.3], "b": [0.3, 0.6, 0.2, 0.4]}
    >>> evaluation = federated_evaluation({"north": site, "south": site}, score_columns=["a", "b"])
    >>> [(each.model, each.auc) for each in evaluation.estimates]
    [('a', 1.0), ('b', 0.5)]
    """
    if not parties:
        raise InputError("there are no parties")
    questions = Questions(
        score_columns=(score_columns,) if isinstance(score_columns, str) else tuple(score_columns),
        by=_levels_of(by),
        classes=tuple(classes),
        cross_groups=cross_groups,
        min_cell=min_cell,
    )
    found = {
        name: {
            level_text(entry)
            for party, table in parties.items()
            for entry in np.asarray(_column(party, table, name)).ravel().tolist()
        }
        for name, levels in questions.by.items()
        if not levels
    }
    analysis = questions.analysis(found)
    data = [
        PartyData.from_columns(
            party,
            _column(party, table, label_column),
            {name: _column(party, table, name) for name in questions.score_columns},
            {name: _column(party, table, name) for name in questions.by},
            analysis,
        )
        for party, table in parties.items()
    ]
    return evaluated(
        data,
        analysis,
        score_scale=score_scale,
        protocol=protocol,
        thresholds=thresholds,
        backend=backend,
        max_rows=max_rows,
        min_rows=DEFAULT_MIN_ROWS,
        keys=keys,
        smudging_bits=smudging_bits,
        interval=interval,
        progress=progress,
        options=options,
    )


def _levels_of(by: str | Sequence[str] | Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    if isinstance(by, Mapping):
        return {name: tuple(levels) for name, levels in by.items()}
    return dict.fromkeys([by] if isinstance(by, str) else by, ())


def _column(party: str, table: Any, name: str) -> Any:
    try:
        return table[name]
    except (KeyError, IndexError, TypeError, ValueError):
        raise InputError(f"party {party!r}: there is no column {name!r} in its table") from None


def evaluated(
    parties: Parties,
    analysis: Analysis,
    *,
    protocol: str,
    thresholds: str | ArrayLike | None,
    progress: Progress | None,
    cheat: str | None = None,
    score_scale: str = DEFAULT_SCALE,
    options: Mapping[str, Any],
    **common: Any,
) -> Evaluation:
    """Return the evaluation of rows that are for this analysis; the rest as of `federated_auc`."""
    named, plugin = _named(parties, score_scale), registry.evaluating(protocol)
    if thresholds is None:
        thresholds = plugin.thresholds_for(several=not analysis.is_plain)
    bins = grids.quantiles_wanted(thresholds)
    request = Request(
        parties=tuple(data.name for data in named),
        thresholds=grids.resolve(thresholds) if bins is None else np.empty(0),
        analysis=analysis,
        options=options,
        **common,
    )
    if bins is None:
        return run(plugin, request, named, progress or _silent, cheat)
    return run_on_quantiles(plugin, request, bins, named, progress or _silent, cheat)


def federated_thresholds(
    parties: Parties,
    bins: int,
    *,
    protocol: str = "boundaries-federated",
    backend: str | None = None,
    max_rows: int = DEFAULT_MAX_ROWS,
    keys: str = "sealed",
    smudging_bits: int | None = None,
    score_scale: str = DEFAULT_SCALE,
    progress: Progress | None = None,
    **options: Any,
) -> QuantileThresholds:
    """Return thresholds between which about equally many of all parties' rows lie.

    For several evaluations on the same thresholds; `federated_auc` with ``quantile:200`` does it for one.

    Parameters
    ----------
    parties, backend, max_rows, keys, smudging_bits, score_scale, progress
        As for `federated_auc`; scores must be probabilities, and labels are not looked at.
    bins : int
        How many thresholds; where many rows have one score, there are fewer.
    protocol : str
        Installed protocol that finds thresholds; see ``fhe-auc protocols``.
    **options
        Options of the protocol.

    Raises
    ------
    InputError
        Bad input; the message names party, row and value.
    EvaluationError
        The result fails its checks.
    """
    named = _named(parties, score_scale)
    request = Request(
        parties=tuple(data.name for data in named),
        thresholds=np.empty(0),
        backend=backend,
        max_rows=max_rows,
        keys=keys,
        smudging_bits=smudging_bits,
        options={**options, "bins": bins},
    )
    return _first(_played(registry.finding(protocol), request, named, progress or _silent))


def run_on_quantiles(
    plugin: Protocol[Evaluation],
    request: Request,
    bins: int,
    parties: Sequence[PartyData],
    progress: Progress,
    cheat: str | None = None,
) -> Evaluation:
    """Run the session that finds so many thresholds, then `run` on them, with what both cost.

    The key holder of the second session takes the first party's thresholds; every party requires its own.
    """
    first, second = plugin.staged(request, bins)
    finder = registry.finding(plugin.require_boundaries())

    def in_first(phase: str, done: int, total: int) -> None:
        progress(FIRST_SESSION + phase, done, total)

    found = _played(finder, first, parties, in_first)
    chosen = replace(second, thresholds=_first(found).grid, average_precision=bool(_first(found).rows_above))
    return preceded(run(plugin, chosen, parties, progress, cheat, found), _first(found))


def run(
    plugin: Protocol[Evaluation],
    request: Request,
    parties: Sequence[PartyData],
    progress: Progress,
    cheat: str | None = None,
    found: Mapping[str, QuantileThresholds] | None = None,
) -> Evaluation:
    """Run one session of `plugin` in this process and return the first party's evaluation, with all phases' seconds.

    "submit" and "recover" are means over parties. `cheat` is as for `federated_auc`; `found` is what each party has
    found out about thresholds before, by name.
    """
    evaluation = _first(_played(plugin, request, parties, progress, cheat, found))
    if sum(len(data.y_score) for data in parties) < request.min_rows and evaluation.numerical_error > 0:
        # No role could know, but here all rows are in one process.
        few = f"fewer than min_rows = {request.min_rows:,} pooled rows: the error may exceed the stated one"
        return replace(evaluation, warnings=(*evaluation.warnings, few))
    return evaluation


def _first(outcomes: Mapping[str, R]) -> R:
    return next(iter(outcomes.values()))


def _played(
    plugin: Protocol[R],
    request: Request,
    parties: Sequence[PartyData],
    progress: Progress,
    cheat: str | None = None,
    found: Mapping[str, QuantileThresholds] | None = None,
) -> dict[str, R]:
    """Play all roles of a session; return what each party has got, by name, with the session's costs."""
    started = time.perf_counter()
    session = plugin.prepare(request)
    delivery = plugin.local_delivery(session)
    seconds = {"keys": time.perf_counter() - started}
    if cheat is None:
        aggregator = plugin.aggregator(session.manifest, delivery.aggregator)
    else:
        rows = sum(len(data.y_score) for data in parties)
        aggregator = registry.attacks(plugin.name).aggregator(cheat, session.manifest, delivery.aggregator, rows=rows)
    aggregator.open_late = delivery.open_late
    for name, own in (found or {}).items():
        own.require(session.manifest.thresholds, party=name)
    if found:
        parties = [replace(data, rows_above=found[data.name].rows_above) for data in parties]
    roles = [plugin.party(session.manifest, delivery.parties[data.name], data) for data in parties]
    for role in roles:  # here nobody is to be kept from knowing about the others
        role.own_warnings = warnings_of(parties, session.manifest.thresholds)

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        for done, role in enumerate(roles):
            progress(f"round {aggregator.round}", done, len(roles))
            yield role.name, role.respond(message)
        progress(f"round {aggregator.round}", len(roles), len(roles))

    conduct(aggregator, exchange, seconds=seconds)
    return with_costs({role.name: role.result() for role in roles}, seconds)


def with_costs(outcomes: Mapping[str, R], seconds: Mapping[str, float]) -> dict[str, R]:
    """Return all parties' outcomes with what the session cost: the busiest party's bytes, and each phase's seconds.

    `seconds` are the aggregator's and the key holder's; the means of the parties' own are added.
    """
    seconds = dict(seconds)
    for phase in _first(outcomes).seconds:
        seconds[phase] = sum(outcome.seconds[phase] for outcome in outcomes.values()) / len(outcomes)
    up = max(outcome.upload_bytes_per_party for outcome in outcomes.values())
    down = max(outcome.download_bytes_per_party for outcome in outcomes.values())
    return {
        name: replace(outcome, seconds=seconds, upload_bytes_per_party=up, download_bytes_per_party=down)
        for name, outcome in outcomes.items()
    }


def _named(parties: Parties, score_scale: str) -> list[PartyData]:
    """Return checked rows of every party, with distinct names, and probabilities for scores on that scale."""
    if isinstance(parties, Mapping):
        named = [PartyData.from_arrays(name, *_pair(repr(name), pair)) for name, pair in parties.items()]
    elif isinstance(parties, Iterable):
        named = [
            party
            if isinstance(party, PartyData)
            else PartyData.from_arrays(f"party {number}", *_pair(str(number), party))
            for number, party in enumerate(parties, start=1)
        ]
    else:
        raise InputError(f"parties must be a list of pairs (y_true, y_score), got {type(parties).__name__}")
    if not named:
        raise InputError("there are no parties")
    seen: dict[str, str] = {}
    for data in named:
        if (other := seen.get(alike(data.name))) is not None:
            raise InputError(f"party {data.name!r} is there twice, also as {other!r}; every party needs its own name")
        seen[alike(data.name)] = data.name
    return [rescaled(data, score_scale) for data in named]


def _pair(party: str, rows: object) -> tuple[ArrayLike, ArrayLike]:
    if isinstance(rows, (tuple, list)) and len(rows) == 2:
        return rows[0], rows[1]
    raise InputError(
        f"party {party}: expected a pair (y_true, y_score), got {type(rows).__name__}; pass a list of such pairs, "
        "without weights"
    )


def _silent(phase: str, done: int, total: int) -> None:
    pass
