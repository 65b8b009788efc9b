"""The options that say what a session is, and a session with them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.api import evaluate
from fhe_auc.base.errors import InputError, UnknownProtocolError
from fhe_auc.base.options import check_names
from fhe_auc.base.terminal import Progress
from fhe_auc.cli import inputs, output
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import PLAIN, Analysis, Questions
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Protocol, Request, Setup

_MODELS = "histogram-"
"""Of the protocols that are models to commands with `histogram_options`: NAME stands for histogram-NAME."""

ONE_QUESTION = Questions(score_columns=("score",))  # one model over all rows


@dataclass(frozen=True)
class SessionOptions:
    """How to evaluate, as given on the command line and checked.

    `specification` is how the thresholds were given, `thresholds` the grid, shape (m,), or "quantile:SIZE" where it is
    to be found first. `questions` have no columns of scores where those of the files are meant.
    """

    plugin: Protocol[Any]
    specification: str
    thresholds: NDArray[np.float64] | str
    options: Mapping[str, Any]
    setup: Setup
    questions: Questions = ONE_QUESTION
    interval: float | None = None

    @classmethod
    def checked(
        cls,
        plugin: Protocol[Any],
        options: Mapping[str, int | float | str],
        *,
        thresholds: str | None,
        setup: Setup,
        questions: Questions = ONE_QUESTION,
        interval: float | None = None,
    ) -> SessionOptions:
        """Check what can be checked before any file is read; raise `InputError`. No thresholds: the protocol's own."""
        check_names(plugin.options, plugin.name, options)
        if (questions.several or questions.heterogeneity or questions.cluster) and not plugin.several:
            raise InputError(
                f"protocol {plugin.name!r} answers for one model over all rows: --score-columns, --by, --classes, "
                "--cluster and --heterogeneity are for exact and verified"
            )
        if thresholds is None:
            thresholds = plugin.options.thresholds_for(several=questions.several)
        bins = grids.quantiles_wanted(thresholds)
        if bins is not None:
            registry.finder(plugin)
        resolved = grids.resolve(thresholds) if bins is None else thresholds
        if setup.backend is not None:
            ckks.choose_backend(setup.backend)
        return cls(plugin, click.format_filename(thresholds), resolved, options, setup, questions, interval)

    @property
    def quantiles(self) -> int | None:
        """How many thresholds a session before finds; None: they are given."""
        return grids.quantiles_wanted(self.specification)

    def request(self, parties: Iterable[str], min_parties: int | None, analysis: Analysis | None = None) -> Request:
        """Return what to prepare for these parties; `InputError` without an analysis, where files are needed."""
        if analysis is None:
            columns = self.questions.score_columns or ONE_QUESTION.score_columns
            analysis = replace(self.questions, score_columns=columns).analysis({})
        return Request(
            parties=tuple(parties),
            thresholds=np.empty(0) if isinstance(self.thresholds, str) else self.thresholds,
            min_parties=min_parties,
            analysis=analysis,
            interval=self.interval,
            options=self.options,
            **vars(self.setup),
        )

    def run(
        self, parties: Sequence[PartyData], cheat: str | None = None, analysis: Analysis = PLAIN
    ) -> tuple[Evaluation, float]:
        """Return the evaluation and the session's seconds; `analysis` is what the parties' rows are for."""
        started = time.perf_counter()
        with output.progress("Keys and parties") as report:
            evaluation = evaluate(
                parties,
                analysis,
                protocol=self.plugin.name,
                thresholds=self.thresholds,
                progress=naming_the_aggregator(report),
                cheat=cheat,
                interval=self.interval,
                setup=self.setup,
                options=self.options,
            )
        return evaluation, time.perf_counter() - started


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: it receives ``options``, the protocol's, and ``chosen``, for `SessionOptions.checked`."""

    @inputs.protocol_options
    @inputs.thresholds_option
    @inputs.backend_option
    @inputs.keys_option
    @inputs.smudging_bits_option
    @inputs.max_rows_option
    @inputs.min_rows_option
    @functools.wraps(command)
    def with_shared(*args: Any, **values: Any) -> Any:
        setup = Setup(**{each.name: values.pop(each.name) for each in fields(Setup) if each.name in values})
        chosen = {"thresholds": values.pop("thresholds"), "setup": setup}
        return command(*args, chosen=chosen, **values)

    return with_shared


def session_options(plugin: Callable[[str], Protocol[Any]]) -> inputs.Decorator:
    """Decorate a command: it receives ``session``; `plugin` returns the protocol of a name, or refuses it."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @inputs.protocol_option
        @shared_options
        @inputs.question_options
        @inputs.interval_options(
            "Level of confidence intervals: DeLong's, from exact and verified with sealed keys; Hanley and McNeil's "
            "with joint keys. Other protocols release too little for one.",
            "Leave intervals out: the session then costs less, and releases less.",
        )
        @inputs.round_scores_option
        @inputs.epsilon_options
        @functools.wraps(command)
        def with_session(
            *args: Any,
            protocol: str,
            options: Mapping[str, int | float | str],
            chosen: Mapping[str, Any],
            questions: Questions,
            interval: float | None,
            round_scores: int | None,
            epsilon: float | None,
            epsilon_unit: str | None,
            **others: Any,
        ) -> Any:
            flags = inputs.with_flags(options, round_scores=round_scores, epsilon=epsilon, epsilon_unit=epsilon_unit)
            if "round_scores" in flags and inputs.given("thresholds"):
                raise InputError("--thresholds does not go with rounded scores: every rounded score is a threshold")
            setup: Setup = chosen["setup"]
            if inputs.given("min_rows") and setup.min_rows > setup.max_rows:  # a default gives way
                raise InputError(f"--min-rows is {setup.min_rows:,}, but --max-rows {setup.max_rows:,}")
            session = SessionOptions.checked(plugin(protocol), flags, questions=questions, interval=interval, **chosen)
            return command(*args, session=session, **others)

        return with_session

    return decorate


def histogram_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: it receives ``session``, `SessionOptions`, for all options that say how to count."""

    @click.option(
        "--model",
        metavar="NAME",
        default="federated",
        help="Who is trusted with what: NAME stands for the protocol histogram-NAME. See `fhe-auc protocols`.",
    )
    @click.option("--epsilon", metavar="E", type=float, help="Privacy budget of a model that adds noise.")
    @shared_options
    @functools.wraps(command)
    def with_session(
        *args: Any,
        model: str,
        epsilon: float | None,
        options: dict[str, int | float | str],
        chosen: Mapping[str, Any],
        **others: Any,
    ) -> Any:
        installed = [name.removeprefix(_MODELS) for name in registry.names() if name.startswith(_MODELS)]
        if model not in installed:
            raise UnknownProtocolError(
                f"model {model!r} is not installed: there is no protocol {_MODELS + model!r} (installed models: "
                f"{', '.join(installed) or 'none'})"
            )
        plugin = registry.evaluating(_MODELS + model)
        session = SessionOptions.checked(plugin, inputs.with_flags(options, epsilon=epsilon), **chosen)
        grid = session.thresholds
        if not isinstance(grid, str) and (grid[0] < 0 or grid[-1] > 1):
            raise InputError(
                f"thresholds {session.specification!r} run from {grid[0]} to {grid[-1]}; "
                "score histograms are of scores in [0, 1]"
            )
        return command(*args, session=session, **others)

    return with_session


def naming_the_aggregator(report: Progress) -> Progress:
    """Say what the last tick of a round waits for: the aggregator, not the parties."""

    def progress(phase: str, done: int, total: int) -> None:
        report(f"{phase}, aggregator" if done == total else phase, done, total)

    return progress
