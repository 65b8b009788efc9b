"""The public functions that evaluate: every role of a session runs in this process."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import ArrayLike

from fhe_auc.base import python_options as kinds
from fhe_auc.base.errors import InputError, UnknownProtocolError
from fhe_auc.base.names import names_in
from fhe_auc.base.options import NO_WEIGHTS, WEIGHTS
from fhe_auc.base.terminal import Progress, shown
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import DEFAULT_MIN_CELL, Analysis, Questions
from fhe_auc.question.follow_up import CODES, KEYWORDS, FollowUp, follow_up_of
from fhe_auc.question.weights import DEFAULT_PER, Weights, checked_weights
from fhe_auc.results.asked import Asked
from fhe_auc.results.evaluation import Evaluation, Outcome, QuantileThresholds
from fhe_auc.results.intervals import DEFAULT_LEVEL
from fhe_auc.rows.default_thresholds import default_thresholds
from fhe_auc.rows.entries import canonical
from fhe_auc.rows.frames import Rows, parties_of
from fhe_auc.rows.party_data import DEFAULT_SCALE, Entries, Label, PartyData
from fhe_auc.session import registry
from fhe_auc.session.attacks import Attacks
from fhe_auc.session.one_process import Elsewhere, play, run
from fhe_auc.session.protocol import (
    DEFAULT_MAX_ROWS,
    DEFAULT_MIN_ROWS,
    DEFAULT_PROTOCOL,
    OptionValue,
    Protocol,
    Request,
    Setup,
)
from fhe_auc.session.steps import evaluation_steps

_USUAL = ("label", "score", "site", "by", "cluster", "protocol", "thresholds", "interval", "progress")
LABEL = "y_true"  # the column of labels, unless another is named
_CALLED_ELSEWHERE = {
    "label": ("y_true", "y", "labels", "label_column", "target", "outcome", "truth"),
    "score": ("y_score", "y_pred", "y_prob", "y_proba", "scores", "score_column", "score_columns", "risk"),
    "site": ("sites", "site_column", "party", "center", "centre", "hospital"),
    "by": ("group", "groups", "groupby", "subgroups", "sensitive_features"),
    "cluster": ("clusters", "patient", "patients", "patient_id", "id", "subject"),
    "time": ("times", "duration", "durations", "duration_col", "time_column", "survival_time"),
    "event": ("events", "status", "event_col", "event_column", "event_observed"),
    "horizon": ("horizons", "tau"),
    "interval": ("level", "ci", "alpha", "confidence", "confidence_level", "conf_level"),
    "thresholds": ("grid", "cutoffs"),
    "progress": ("verbose",),
    "positive_label": ("pos_label", "positive"),
    "drop_missing": ("dropna", "na_rm"),
    "classes": ("multi_class",),
}
"""Keywords, and what other packages, or the command line, call the same."""


def _label(value: Any, name: str) -> str:
    """Return a label, a level or a class as rows have it."""
    if not isinstance(value, kinds.SCALARS):
        raise kinds.refused(name, "text, a number or a Boolean", value)
    if (found := canonical(value)) is None:
        raise InputError(f"{name} cannot be {value!r}, which stands for a missing entry")
    return found


def _column(value: Any, name: str) -> str:
    return kinds.text(value, name, "the name of a column, as text (rename columns with others)").strip()


_columns = kinds.one_or_several(_column, "a column, a list, or a mapping of columns to their levels")


_codes = partial(kinds.several, kind=_label, what="a list of codes")


def _by(value: Any, name: str) -> dict[str, tuple[str, ...]]:
    """Return columns with their levels, none where they are to be found."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(_columns(value, name), ())
    named = {_column(kinds.plain(each), name): kinds.plain(levels) for each, levels in value.items()}
    return {
        each: tuple(kinds.several(own, f"by: the levels of {each!r}", _label, "a list")) for each, own in named.items()
    }


def _thresholds(value: Any, name: str) -> Any:
    if isinstance(value, (str, QuantileThresholds)):
        return value
    return os.fspath(value) if isinstance(value, os.PathLike) else grids.resolve(value)


OPTIONS: Mapping[str, kinds.Kind] = {
    **dict.fromkeys(("label", "site", "cluster", "weight", "time", "event"), _column),
    "score": kinds.one_or_several(_column, "a column, or a list"),
    "by": _by,
    "protocol": partial(kinds.text, what="a name, such as 'verified'"),
    **dict.fromkeys(("score_scale", "keys", "backend", "cheat", "title"), kinds.text),
    "thresholds": _thresholds,
    **dict.fromkeys(("interval", "cost_ratio", "alert_rate", "max_weight", "weight_step"), kinds.number),
    "event_codes": lambda value, name: _codes(names_in(value) if isinstance(value, str) else value, name),
    "horizon": kinds.one_or_several(kinds.number, "a time, or a list of times"),
    "time_grid": lambda value, name: value if isinstance(value, str) else kinds.number(value, name),
    "threshold": kinds.one_or_several(kinds.number, "a number, or a list of numbers"),
    "progress": lambda value, name: value if callable(value) else kinds.flag(value, name),
    "positive_label": _label,
    "classes": partial(kinds.several, kind=_label, what="a list of labels"),
    **dict.fromkeys(("drop_missing", "cross_groups", "heterogeneity", "each_pair"), kinds.flag),
    **dict.fromkeys(("bins", "bootstrap", "min_cell", "max_rows", "min_rows"), kinds.count),
}
"""What the public functions take by keyword, but for rows, `row_caps` and the options of protocols."""


def options_for(
    function: Callable[..., object], protocol: str, options: Mapping[str, OptionValue], *, among: str = ""
) -> dict[str, bool | int | float | str]:
    """Return those options of a protocol that are set, as plain values.

    Raises `TypeError` for one that the protocol does not have, as of an argument that `function` does not have, with
    the keyword that may be meant, or the protocols that have it; their names begin with `among`. Raises `InputError`
    for a value of another type; errors as `fhe_auc.session.registry.load`.
    """
    known = registry.load(protocol).options.known
    if taken := set(known) & set(inspect.signature(federated_auc).parameters):
        raise InputError(f"protocol {protocol!r} has an option {min(taken)!r}, a keyword of all; rename it")
    for name in options:
        if name not in known:
            raise TypeError(f"{function.__name__} has no argument {name!r}{_remedy(function, protocol, name, among)}")
    given = {name: kinds.plain(value) for name, value in options.items() if value is not None}
    return {name: kinds.OF_TYPE[known[name].kind](value, name) for name, value in given.items()}


def _remedy(function: Callable[..., object], protocol: str, name: str, among: str) -> str:
    """Return the end of a message about an unknown keyword: what is meant, or who has it."""
    from difflib import get_close_matches

    if name in WEIGHTS:
        return f": {NO_WEIGHTS}"
    keywords = [each for each in inspect.signature(function).parameters if each not in ("rows", "options")]
    plugin = registry.load(protocol)
    same = [other for other in _loaded(among) if other.yields is plugin.yields]
    if owners := [other.name for other in same if name in other.options.known]:
        return f" with protocol {protocol!r}; it is an option of {', '.join(owners)}"
    if name in set(inspect.signature(federated_auc).parameters) - {"rows", "options"}:
        return "; federated_auc has it"
    meant = [each for each, others in _CALLED_ELSEWHERE.items() if name.lower() in others and each in keywords]
    near = meant or get_close_matches(name.lower(), [*keywords, *plugin.options.known], n=2)
    asked = f"; did you mean {' or '.join(near)}?" if near else ""
    usual = ", ".join(each for each in _USUAL if each in keywords)
    return f"{asked} (usual are {usual}; help({function.__name__}) has all)"


def _loaded(among: str) -> Iterator[Protocol[Outcome]]:
    for name in registry.names():
        if name.startswith(among):
            with suppress(UnknownProtocolError):  # a plug-in that does not load
                yield registry.load(name)


def weights_named(weight: str | None, max_weight: float | None, weight_step: float | None) -> Weights | None:
    """Return the weights that keywords ask for, None where they do not; `InputError` for what cannot be."""
    if weight is None and max_weight is None and weight_step is None:
        return None
    if weight is None or max_weight is None:
        raise InputError("weights have a column and a bound, which is public: weight='ipw', max_weight=50")
    return checked_weights(weight, max_weight, 1 / DEFAULT_PER if weight_step is None else weight_step)


def follow_up_named(
    label: str, positive_label: Label | None, time: str | None, event: str | None, codes: Any, horizon: Any, grid: Any
) -> FollowUp | None:
    """Return what keywords ask of follow-up times; `InputError` for what cannot be, and for labels beside them."""
    beside = "label" if label != LABEL else "positive_label" if positive_label is not None else ""
    names = (*KEYWORDS[:3], "event_codes") if grid is None else KEYWORDS
    grid = ("days" if codes else "") if grid is None else grid  # which does not go without times
    return follow_up_of(time or "", event or "", horizon or (), grid, codes=codes or CODES, beside=beside, names=names)


@kinds.converts(OPTIONS)
def federated_auc(
    rows: Rows,
    *,
    label: str = LABEL,
    score: str | Sequence[str] = "y_score",
    site: str | None = None,
    by: str | Sequence[str] | Mapping[str, Sequence[Label]] | None = None,
    cluster: str | None = None,
    protocol: str = DEFAULT_PROTOCOL,
    thresholds: str | ArrayLike | QuantileThresholds | None = None,
    interval: float | None = DEFAULT_LEVEL,
    progress: bool | Progress = False,
    weight: str | None = None,
    time: str | None = None,
    event: str | None = None,
    horizon: float | Sequence[float] | None = None,
    positive_label: Label | None = None,
    drop_missing: bool = False,
    score_scale: str = DEFAULT_SCALE,
    classes: Sequence[Label] | None = None,
    cross_groups: bool = False,
    heterogeneity: bool = False,
    each_pair: bool = False,
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
    cheat: str | None = None,
    **options: OptionValue,
) -> Evaluation:
    """Compute the AUC over the rows of all parties, on encrypted counts or, with some protocols, noisy ones.

    All roles run in this process and exchange the same bytes as between sites. The result shows itself as a table in a
    notebook; `Evaluation.to_frame` returns a pandas data frame.
    Keywords take values of numpy, pandas, polars and Arrow, too.

    Parameters
    ----------
    rows : table, iterable of parties, or mapping of names to parties
        One table with a column of sites, which `site` names; or the rows of each party: a pair (y_true, y_score), a
        table, or `PartyData`. A table has columns by name: a pandas or polars data frame, an Arrow table, or a dict of
        arrays.
    label : str
        Column of labels: 0 or 1, or one of the `classes`.
    score : str or sequence of str
        Column of scores, finite numbers; calibration needs probabilities, or a `score_scale` that makes them; or the
        columns of several models. The second and further ones are compared with the first (paired DeLong).
    site : str or None
        Column that names each row's party, where one table holds all parties' rows.
    by : str, sequence of str, mapping of str to sequence of labels, or None
        Columns that rows are grouped by, or these with all their levels: AUCs of these groups too. Levels come in the
        order of an ordered categorical, or that given. Categories: cut numbers into bands first.
    cluster : str or None
        Column that names each row's patient, or whatever has several rows of a site that are alike: intervals then take
        patients as independent, not rows (Obuchowski, Biometrics 53, 1997). Parties also learn how many patients there
        are, and sums over all. Exact and verified have it, with sealed keys or a helper.
    weight : str or None
        Column of weights: how much each row counts, 0 to `max_weight`. Exact and verified have it.
    time, event : str or None
        Columns of follow-up times, and of what ended them (`event_codes`), in place of labels.
    horizon : float, sequence of float or None
        Times; at each, rows with the event by then are told from rows without (cumulative cases, dynamic controls:
        Blanche and others, Statistics in Medicine 32, 2013). Others stand for rows that were censored before, by
        weights of a censoring curve, which a session before pools.
    protocol : str
        Name of an installed protocol (see ``fhe-auc protocols``). Only exact and verified evaluate several models,
        groups or classes.
    thresholds : str, array-like, QuantileThresholds or None
        "uniform:100", "hybrid:1000", "dpauc:100", the path of a file, or 2 to 2^20 ascending numbers. "quantile:200"
        runs a session first, which finds thresholds with about equally many pooled rows between them ("quantile": as
        many as rows and noise allow); the result of `federated_thresholds` may be passed, too. The warnings say what
        that session reveals. "values:0:9" lists all scores that there are. None takes the default of the protocol,
        hybrid:5000 for one model of exact and verified, hybrid:1500 for several, hybrid:1000 otherwise, where values
        that ten rows have get bins of their own; and points of the rows where scores are no probabilities. Then
        ``settings["grid"]`` says so. With privacy noise it looks at no row; a histogram takes "quantile".
    interval : float or None
        Level of the confidence interval, from 0.5 to 0.9999; None: no interval. Exact and verified have DeLong's, with
        an epsilon Hanley and McNeil's, histograms with noise one by replicates; others release too little for one.
    progress : bool or callable
        True shows a bar on standard error if that is a terminal; a callable is called with (phase, done, total).
    positive_label : str, number, bool or None
        The label that counts as 1, where labels are not 0 and 1; the others must be one label. Two spellings of one
        label ("Yes" and "yes") are refused.
    drop_missing : bool
        Leave out rows with a missing entry (None, NaN, NA, or text as "", "NA", "None", "." and the like), and say how
        many in `Evaluation.warnings`; otherwise they are refused.
    score_scale : "probability", "logit" or "percent"
        What the scores are; logits and percentages are turned into probabilities first.
    classes : sequence of str, numbers or bools, or None
        Three labels or more, with a column of scores each, in the same order: each class from the others, pairs of
        classes, and their average (Hand and Till, Machine Learning 45, 2001), which is `Evaluation.auc`.
    cross_groups : bool
        Also positives of each group from negatives of each other of the same column (xAUC).
    heterogeneity : bool
        Also how far sites (parties, 5 at least) differ: `Evaluation.sites`. Parties learn sums over sites: who knows
        all but three with rows of both labels can work out these three's AUCs.
    each_pair : bool
        Compare each model with each other one, not with the first alone.
    min_cell : int
        Groups with fewer rows of a label than this are not shown; 1 shows all. Parties can still read them.
    max_weight, weight_step : float or None
        The most that one weight may be, which is public; and to steps of what weights are rounded, 0.001 by default.
    event_codes : sequence of str, numbers or bools, or None
        Codes in the column `event`: of the event, of the censored, then of competing events. None: 1 and 0.
    time_grid : "days", "weeks", "months", float or None
        Step of times: each counts as its step's end. "weeks" and "months" are of times in days. None: 1.
    keys : "sealed", "helper" or None
        A key holder makes the secret key and seals it to each party; or a helper has it, and no party. None: sealed,
        but helper with an epsilon of verified.
    backend : "openfhe", "tenseal" or None
        Encryption library; None: openfhe where it can be imported, else tenseal.
    max_rows, min_rows : int
        Public bounds on the pooled rows: parameters hold up to max_rows, the precision from min_rows on. Protocols that
        encrypt refuse more than max_rows before any key is made.
    row_caps : mapping of str to int, int or None
        For exact and verified with a helper: the most rows of each party by name, or of any. Each party then proves
        that its counts are within its cap; who does not is left out and named. None: nothing is proved of inputs.
    cheat : str, optional
        For demonstrations: the aggregator lies, in one of the ways that `fhe_auc.session.registry.attacks` lists; or
        the last party does ("party-negative"), with a helper and row caps, and the result is of the others.
    **options : bool, int, float or str
        Those of the protocol, such as ``epsilon=1``; ``fhe-auc protocols NAME`` lists them.

    Returns
    -------
    Evaluation
        The AUC in [0, 1], its interval and binning error, and what the session has cost.

    Raises
    ------
    InputError
        Bad input; the message names the keyword, or party, row, column and value, and what is known in their place.
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
    >>> evaluation = federated_auc({"north": site, "south": site}, label="died", score=["a", "b"], round_scores=1)
    >>> [(estimate.model, estimate.auc) for estimate in evaluation.estimates]
    [('a', 1.0), ('b', 0.5)]

    >>> sites = {"north": site, "south": site}
    >>> private = federated_auc(sites, label="died", score="a", protocol="dpauc-rr", epsilon=20)
    >>> private.protocol
    'dpauc-rr'
    """
    own = options_for(federated_auc, protocol, options)
    questions = Questions.asked(
        score=score,
        by=by,
        cluster=cluster,
        classes=classes,
        cross_groups=cross_groups,
        heterogeneity=heterogeneity,
        each_pair=each_pair,
        min_cell=min_cell,
        weights=weights_named(weight, max_weight, weight_step),
        follow_up=follow_up_named(label, positive_label, time, event, event_codes, horizon, time_grid),
    )
    entries = Entries(positive_label=positive_label, drop_missing=drop_missing, score_scale=score_scale)
    setup = Setup(keys=keys, backend=backend, max_rows=max_rows, min_rows=min_rows, row_caps=row_caps)
    parties, analysis = parties_of(rows, questions, site=site, label=label, entries=entries)
    if cheat is not None:
        _check_cheat(cheat, registry.attacks(protocol), setup, len(parties))
    with shown(progress) if progress else nullcontext() as report:
        return evaluate(
            parties,
            analysis,
            protocol=protocol,
            thresholds=thresholds,
            interval=interval,
            setup=setup,
            progress=report,
            cheat=cheat,
            options=own,
        )


def _check_cheat(cheat: str, attacks: Attacks, setup: Setup, parties: int) -> None:
    attacks.described(cheat)  # raises where there is none of that name
    if cheat not in attacks.of_parties:
        return
    if setup.keys != "helper" or setup.row_caps is None:
        raise InputError(f"cheat={cheat!r}: a party lies about its row cap; give keys='helper' and row_caps")
    if parties < 3:
        raise InputError(f"cheat={cheat!r}: the last of three parties or more lies; there are {parties}")


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
    elsewhere: Elsewhere | None = None,
    options: Mapping[str, Any],
) -> Evaluation:
    """Evaluate rows that have been read for an analysis; arguments and errors as of `federated_auc` and `play`."""
    plugin = registry.evaluating(protocol)
    warnings, told = tuple[str, ...](), dict[str, str]()
    asked = Asked(analysis=analysis, interval=interval, protocol=protocol, options=dict(options))
    if isinstance(thresholds, QuantileThresholds):
        warnings, thresholds = thresholds.told_with(options), thresholds.grid
    if thresholds is None:
        thresholds, chosen = default_thresholds(parties, analysis, plugin.options, options)
        told = {"grid": chosen} if " " in chosen else {}
    setup = plugin.set_up(setup, options, {party.name: party.rows for party in parties})
    if isinstance(thresholds, str) and grids.quantiles_wanted(thresholds) is not None:
        asked, own = structs.replace(asked, thresholds=thresholds), None
    else:
        own = grids.resolve(thresholds)
    base = Request(parties=tuple(party.name for party in parties), thresholds=np.empty(0), **vars(setup))
    evaluation = play(evaluation_steps(asked, base, own), parties, analysis, progress, cheat, elsewhere=elsewhere)
    warnings = tuple(dict.fromkeys((*evaluation.warnings, *warnings)))
    return replace(evaluation, warnings=warnings, settings={**evaluation.settings, **told})


@kinds.converts(OPTIONS)
def federated_thresholds(
    rows: Rows,
    bins: int,
    *,
    label: str = "y_true",
    score: str = "y_score",
    site: str | None = None,
    protocol: str = "boundaries-federated",
    progress: bool | Progress = False,
    positive_label: Label | None = None,
    drop_missing: bool = False,
    score_scale: str = DEFAULT_SCALE,
    keys: str | None = None,
    backend: str | None = None,
    max_rows: int = DEFAULT_MAX_ROWS,
    min_rows: int = DEFAULT_MIN_ROWS,
    **options: OptionValue,
) -> QuantileThresholds:
    """Find thresholds with about equally many rows of all parties between them.

    They serve several evaluations, as in ``federated_auc(rows, thresholds=found)``; for a single one, pass
    ``thresholds="quantile:200"`` there.

    Parameters
    ----------
    rows
        As for `federated_auc`, and so are the keywords; labels do not matter.
    bins : int
        Number of thresholds, 2 to 2^20; there are fewer where many rows have the same score. 0, of
        boundaries-distributed-dp: as many as rows and noise allow.
    score : str
        Column of the scores of one model, which are probabilities.
    protocol : str
        Name of an installed protocol that finds thresholds.

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

    Examples
    --------
    >>> sites = [([0, 1, 0, 1], [0.1, 0.8, 0.3, 0.6]), ([0, 1, 1, 0], [0.2, 0.9, 0.7, 0.4])]
    >>> found = federated_thresholds(sites, 4)
    >>> len(found.grid)
    4
    >>> from fhe_auc import federated_auc
    >>> federated_auc(sites, thresholds=found).thresholds
    4
    """
    own = options_for(federated_thresholds, protocol, options)
    questions = Questions.asked(score=score)
    if len(questions.score_columns) > 1:
        raise InputError(f"a session that finds thresholds is of one column of scores, got {len(score)}")
    entries = Entries(positive_label=positive_label, drop_missing=drop_missing, score_scale=score_scale)
    parties, _ = parties_of(rows, questions, site=site, label=label, entries=entries)
    request = Request(
        parties=tuple(party.name for party in parties),
        thresholds=np.empty(0),
        options={**own, "bins": bins},
        keys=keys or "sealed",
        backend=backend,
        max_rows=max_rows,
        min_rows=min_rows,
    )
    with shown(progress) if progress else nullcontext() as report:
        return run(registry.finding(protocol), request, parties, report)
