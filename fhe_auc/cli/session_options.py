"""The options that say what a session is, and a session with them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from fhe_auc.session.protocol import DEFAULT_MIN_ROWS, DEFAULT_PROTOCOL, Protocol, Request, Setup

_MODELS = "histogram-"
"""Of the protocols that are models to commands with `histogram_options`: NAME stands for histogram-NAME."""

_NAMED = "named"
"""In place of thresholds: those that the protocol names, whatever the rows are."""

ONE_QUESTION = Questions(score_columns=("score",))  # one model over all rows


@dataclass(frozen=True)
class SessionOptions:
    """How to evaluate, as given on the command line and checked.

    `specification` is how the thresholds were given, `thresholds` the grid, shape (m,), or "quantile:SIZE" where it is
    to be found first. With `of_rows` a command that reads all rows chooses others by these. `questions` have no columns
    of scores where those of the files are meant.
    """

    plugin: Protocol[Any]
    specification: str
    thresholds: NDArray[np.float64] | str
    options: Mapping[str, Any]
    setup: Setup
    questions: Questions = ONE_QUESTION
    interval: float | None = None
    of_rows: bool = False

    @classmethod
    def checked(
        cls,
        plugin: Protocol[Any],
        options: Mapping[str, int | float | str],
        thresholds: str | None,
        setup: Setup,
        questions: Questions = ONE_QUESTION,
        interval: float | None = None,
    ) -> SessionOptions:
        """Check what can be checked before any file is read; raise `InputError`. No thresholds: the protocol's own.

        "named" thresholds are these too, whatever the rows are.
        """
        check_names(plugin.options, plugin.name, options)
        if (questions.several or questions.heterogeneity or questions.cluster) and not plugin.several:
            raise InputError(
                f"protocol {plugin.name!r} answers for one model over all rows: --score-columns, --by, --classes, "
                "--cluster and --heterogeneity are for exact and verified"
            )
        of_rows = thresholds is None
        if thresholds in (None, _NAMED):
            thresholds = plugin.options.thresholds_for(several=questions.coarse, compared=questions.compared)
        bins = grids.quantiles_wanted(thresholds)
        if bins is not None:
            registry.finder(plugin)
        resolved = grids.resolve(thresholds) if bins is None else thresholds
        if setup.backend is not None:
            ckks.choose_backend(setup.backend)
        return cls(plugin, click.format_filename(thresholds), resolved, options, setup, questions, interval, of_rows)

    @property
    def quantiles(self) -> int | None:
        """How many thresholds a session before finds; None: they are given."""
        return grids.quantiles_wanted(self.specification)

    @property
    def in_one_process(self) -> NDArray[np.float64] | str | None:
        """Thresholds for a command that reads all rows; None where it may choose them by the rows."""
        return None if self.of_rows else self.thresholds

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
                thresholds=self.in_one_process,
                progress=naming_the_aggregator(report),
                cheat=cheat,
                interval=self.interval,
                setup=self.setup,
                options=self.options,
            )
        return evaluation, time.perf_counter() - started


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: it receives ``options``, the protocol's, ``thresholds`` and ``setup``."""
    thresholds = click.option(
        "--thresholds",
        metavar="SPEC",
        help="Decision points: hybrid:SIZE (even in probability and log odds), uniform:SIZE, dpauc:SIZE (dense near "
        "0), values:FIRST:LAST[:STEP] or values:VALUE,VALUE (all scores that there are), a .npy, .txt or .csv file of "
        "numbers; or quantile:SIZE, for which a session before finds points with "
        "about equally many rows between them: parties see the pooled scores, and everybody the points. "
        "Default: hybrid:5000 with exact and verified (several models: hybrid:1500), hybrid:1000 with others; where "
        "one command reads all rows, frequent values get bins of their own there, and scores may be any numbers.",
    )
    named = click.option(
        "--no-own-values", is_flag=True, help="Without --thresholds: the default as if no rows were known."
    )
    min_rows = inputs.whole_number(
        "--min-rows",
        2,
        default=DEFAULT_MIN_ROWS,
        about="Fewest rows of all parties together for which the stated precision must hold. What is computed in "
        "integers holds for any.",
    )
    setup = inputs.gathered("setup", Setup, *inputs.setup_options, min_rows)

    @functools.wraps(command)
    def with_thresholds(*args: Any, thresholds: str | None, no_own_values: bool, **others: Any) -> Any:
        return command(*args, thresholds=_NAMED if thresholds is None and no_own_values else thresholds, **others)

    return inputs.protocol_options(thresholds(named(setup(with_thresholds))))


def session_options(plugin: Callable[[str], Protocol[Any]]) -> inputs.Decorator:
    """Decorate a command: it receives ``session``; `plugin` returns the protocol of a name, or refuses it."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--protocol",
            metavar="NAME",
            default=DEFAULT_PROTOCOL,
            help="See `fhe-auc protocols`. The published designs are semi-honest and malicious.",
        )
        @shared_options
        @inputs.question_options
        @inputs.interval_options(
            "Level of confidence intervals: DeLong's, from exact and verified; Hanley and McNeil's with "
            "--epsilon. Other protocols release too little for one.",
            "Leave intervals out: the session then costs less, and releases less.",
        )
        @inputs.whole_number(
            "--round-scores",
            1,
            grids.MAX_PLACES,
            about="With --protocol exact or verified: parties round scores to N decimals (as numpy does, halves to the "
            "even digit), and every rounded score is a threshold, so that the AUC is exactly that of the rounded "
            "scores.",
        )
        @click.option(
            "--epsilon",
            type=float,
            help="With --protocol verified: privacy budget of the session. The AUC is released with noise, made of "
            "shares so that nobody knows it as a whole, and nothing else is. It takes a helper, and every party proves "
            "how many rows it has: where all roles run here, that is the default.",
        )
        @click.option(
            "--epsilon-unit",
            type=click.Choice(("row", "label")),
            help="What --epsilon protects: a row, label and score (default); or the label of a row alone, as DPAUC "
            "does.",
        )
        @functools.wraps(command)
        def with_session(
            *args: Any,
            protocol: str,
            options: Mapping[str, int | float | str],
            thresholds: str | None,
            setup: Setup,
            questions: Questions,
            interval: float | None,
            round_scores: int | None,
            epsilon: float | None,
            epsilon_unit: str | None,
            **others: Any,
        ) -> Any:
            flags = inputs.with_flags(options, round_scores=round_scores, epsilon=epsilon, epsilon_unit=epsilon_unit)
            if "round_scores" in flags and thresholds not in (None, _NAMED):
                raise InputError("--thresholds does not go with rounded scores: every rounded score is a threshold")
            if inputs.given("min_rows") and setup.min_rows > setup.max_rows:  # a default gives way
                raise InputError(f"--min-rows is {setup.min_rows:,}, but --max-rows {setup.max_rows:,}")
            session = SessionOptions.checked(plugin(protocol), flags, thresholds, setup, questions, interval)
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
        thresholds: str | None,
        setup: Setup,
        **others: Any,
    ) -> Any:
        installed = [name.removeprefix(_MODELS) for name in registry.names() if name.startswith(_MODELS)]
        if model not in installed:
            raise UnknownProtocolError(
                f"model {model!r} is not installed: there is no protocol {_MODELS + model!r} (installed models: "
                f"{', '.join(installed) or 'none'})"
            )
        flags = inputs.with_flags(options, epsilon=epsilon)
        session = SessionOptions.checked(registry.evaluating(_MODELS + model), flags, thresholds, setup)
        return command(*args, session=session, **others)

    return with_session


def naming_the_aggregator(report: Progress) -> Progress:
    """Say what the last tick of a round waits for: the aggregator, not the parties."""

    def progress(phase: str, done: int, total: int) -> None:
        report(f"{phase}, aggregator" if done == total else phase, done, total)

    return progress
