"""The public API: pooled AUC of many parties, run in one process with every role really played."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.errors import InputError, UnknownProtocolError
from fhe_auc.base.options import Options, example, given
from fhe_auc.base.suggestions import known_names
from fhe_auc.base.terminal import Progress, shown
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import DEFAULT_MIN_CELL, Analysis, Questions
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc.results.intervals import DEFAULT_LEVEL
from fhe_auc.rows.counts import PartyData, level_text
from fhe_auc.rows.frames import Columns, Label, Rows, parties_of
from fhe_auc.rows.score_scale import DEFAULT_SCALE
from fhe_auc.session import registry
from fhe_auc.session.one_process import first_of, played, run, run_on_quantiles
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS, DEFAULT_MIN_ROWS, DEFAULT_PROTOCOL, Request

_P = ParamSpec("_P")
_T = TypeVar("_T")


def with_remedy(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return the function, whose error about an argument that it does not have then names what may be meant."""
    known = list(inspect.signature(function).parameters)

    @wraps(function)
    def call(*args: _P.args, **values: _P.kwargs) -> _T:
        for name in values:
            if name not in known:
                remedy = _as_option(name, values) or known_names(name, known, most=len(known))
                raise TypeError(f"{function.__name__} has no argument {name!r}{remedy}")
        return function(*args, **values)

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


@with_remedy
def federated_auc(
    rows: Rows,
    *,
    label: str = "y_true",
    score: str | Sequence[str] = "y_score",
    site: str | None = None,
    pos_label: Label | None = None,
    drop_missing: bool = False,
    by: str | Sequence[str] | Mapping[str, Sequence[Label]] = (),
    classes: Sequence[Label] = (),
    cross_groups: bool = False,
    heterogeneity: bool = False,
    min_cell: int = DEFAULT_MIN_CELL,
    protocol: str | Options = DEFAULT_PROTOCOL,
    thresholds: str | ArrayLike | QuantileThresholds | None = None,
    interval: float | None = DEFAULT_LEVEL,
    score_scale: str = DEFAULT_SCALE,
    max_rows: int = DEFAULT_MAX_ROWS,
    min_rows: int = DEFAULT_MIN_ROWS,
    backend: str | None = None,
    keys: str = "sealed",
    smudging_bits: int | None = None,
    progress: bool | Progress = False,
    cheat: str | None = None,
) -> Evaluation:
    """Return the AUC over all parties' rows, computed on encrypted counts (or noisy ones, by protocol).

    Every role runs in this process, exchanging the same bytes that they would between sites. What comes back shows
    itself as a table in a notebook; `Evaluation.to_frame` returns it for pandas.

    Parameters
    ----------
    rows : table, iterable of parties, or mapping of names to parties
        One table with a column `site`; or what each party has: a pair (y_true, y_score), or a table. A table is
        anything that has columns by name: a pandas or polars data frame, an Arrow table, a dict of arrays.
    label : str
        Column of labels: 0 or 1, or one of `classes`.
    score : str or sequence of str
        Column of finite scores, probabilities unless `score_scale` or thresholds of one's own say otherwise; or the
        columns of several models. The second and further ones are compared with the first (paired DeLong).
    site : str, optional
        Column that names each row's party, where `rows` is one table.
    pos_label : str, number or bool, optional
        The label that counts as 1, where labels are not 0 and 1; the others must be one label. Two spellings of one
        label ("Yes" and "yes") are refused.
    drop_missing : bool
        Leave out rows with a missing entry (None, NaN, NA, or text as "", "NA", "None", "." and the like), and say how
        many in `Evaluation.warnings`; otherwise they are refused.
    by : str, sequence of str, or mapping of str to sequence of labels
        Columns that rows are grouped by, or these with all their levels. Categories: cut numbers into bands first.
    classes : sequence of str, numbers or bools
        Three labels or more, with a column of scores each, in the same order: each class from the others, pairs of
        classes, and their average (Hand and Till, Machine Learning 45, 2001), which is `Evaluation.auc`.
    cross_groups : bool
        Also positives of each group from negatives of each other of the same column (xAUC).
    heterogeneity : bool
        Also how far sites (parties, 5 at least) differ: `Evaluation.sites`. Parties learn sums over sites: who knows
        all but two with rows of both labels can work out these two's AUCs.
    min_cell : int
        Groups with fewer rows of a label than this are not shown; 1 shows all. Parties can still read them.
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
    score_scale : "probability", "logit" or "percent"
        What the scores are; logits and percentages are turned into probabilities first (`fhe_auc.rows.score_scale`).
    max_rows, min_rows : int
        Public bounds on the pooled rows: the parameters hold up to max_rows, the precision from min_rows on. More than
        max_rows are refused before any key is made, but by protocols that encrypt nothing.
    backend : "openfhe", "tenseal" or None
        Encryption library; None takes openfhe where it can be imported, else tenseal.
    keys : "sealed", "joint" or "helper"
        A key holder makes the secret key and seals it to each party; or the parties make it together, so that only all
        of them can decrypt (five rounds and more bytes); or a helper has it, and no party (exact and verified).
    smudging_bits : int, optional
        For joint keys: by how many bits a party's noise on its partial decryption exceeds what it hides; 30 to 80.
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
    >>> evaluation = federated_auc({"north": site, "south": site}, label="died", score=["a", "b"])
    >>> [(each.model, each.auc) for each in evaluation.estimates]
    [('a', 1.0), ('b', 0.5)]
    """
    questions = Questions(
        score_columns=tuple(
            _several([score] if isinstance(score, str) else score, "score must be a column, or a list")
        ),
        by=levels_of(by),
        classes=_texts(classes, "classes must be a list of labels"),
        cross_groups=cross_groups,
        heterogeneity=heterogeneity,
        min_cell=min_cell,
    )
    parties, analysis = parties_of(
        rows,
        Columns(
            questions=questions,
            label=label,
            site=site,
            pos_label=pos_label,
            drop_missing=drop_missing,
            score_scale=score_scale,
        ),
    )
    name, options = named(protocol)
    with shown(progress) as report:
        return evaluated(
            parties,
            analysis,
            protocol=name,
            thresholds=thresholds,
            backend=backend,
            max_rows=max_rows,
            min_rows=min_rows,
            keys=keys,
            smudging_bits=smudging_bits,
            interval=interval,
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


def levels_of(by: str | Sequence[str] | Mapping[str, Sequence[Label]]) -> dict[str, tuple[str, ...]]:
    """Return the columns that rows are grouped by, with their levels, as text, where these are given."""
    if isinstance(by, Mapping):
        return {name: _texts(levels, f"by: the levels of {name!r} must be a list") for name, levels in by.items()}
    named = [by] if isinstance(by, str) else by
    return dict.fromkeys(_several(named, "by must be a column, a list, or a mapping of columns to their levels"), ())


def _texts(labels: Sequence[Label], what: str) -> tuple[str, ...]:
    """Return levels or classes as rows have them, as text (`level_text`)."""
    found = [level_text(each) for each in _several(labels, what)]
    if None in found:
        raise InputError(f"{what}, and none may stand for a missing entry, got {labels!r}")
    return tuple(map(str, found))


def _several(values: Any, what: str) -> Sequence[Any]:
    """Return values as a list; raise `InputError` for what is none, a text too, which is a sequence of letters."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{what}, got {values!r}")
    return list(values)


def evaluated(
    parties: Sequence[PartyData],
    analysis: Analysis,
    *,
    protocol: str,
    thresholds: str | ArrayLike | QuantileThresholds | None,
    progress: Progress,
    cheat: str | None = None,
    options: Mapping[str, Any],
    **common: Any,
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
        options=options,
        **common,
    )
    if bins is None:
        evaluation = run(plugin, request, parties, progress, cheat)
        return replace(evaluation, warnings=tuple(dict.fromkeys((*evaluation.warnings, *warnings))))
    return run_on_quantiles(plugin, request, bins, parties, progress, cheat)


@with_remedy
def federated_thresholds(
    rows: Rows,
    bins: int,
    *,
    label: str = "y_true",
    score: str = "y_score",
    site: str | None = None,
    pos_label: Label | None = None,
    drop_missing: bool = False,
    protocol: str | Options = "boundaries-federated",
    score_scale: str = DEFAULT_SCALE,
    max_rows: int = DEFAULT_MAX_ROWS,
    backend: str | None = None,
    keys: str = "sealed",
    smudging_bits: int | None = None,
    progress: bool | Progress = False,
) -> QuantileThresholds:
    """Return thresholds between which about equally many of all parties' rows lie.

    For several evaluations on the same thresholds, as in ``federated_auc(rows, thresholds=found)``; ``quantile:200``
    does it for one.

    Parameters
    ----------
    rows, label, score, site, pos_label, drop_missing, score_scale, max_rows, backend, keys, smudging_bits, progress
        As for `federated_auc`; scores must be probabilities, and labels do not matter.
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
    columns = Columns(
        questions=Questions(score_columns=(score,)),
        label=label,
        site=site,
        pos_label=pos_label,
        drop_missing=drop_missing,
        score_scale=score_scale,
    )
    parties, _ = parties_of(rows, columns)
    name, options = named(protocol)
    request = Request(
        parties=tuple(data.name for data in parties),
        thresholds=np.empty(0),
        backend=backend,
        max_rows=max_rows,
        keys=keys,
        smudging_bits=smudging_bits,
        options={**options, "bins": bins},
    )
    with shown(progress) as report:
        return first_of(played(registry.finding(name), request, parties, report))
