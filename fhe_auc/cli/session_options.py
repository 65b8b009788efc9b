"""The options that say what a session is, and a session with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from fhe_auc.session.protocol import DEFAULT_PROTOCOL, Protocol, Request, Setup

_MODELS = "histogram-"
"""Of the protocols that are models to commands with `histogram_options`: NAME stands for histogram-NAME."""

_EXACT_MODEL = "federated"  # the default one, without noise

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
    def asked(
        cls,
        plugin: Callable[[str], Protocol[Any]],
        protocol: str,
        options: Mapping[str, int | float | str],
        thresholds: str | None,
        setup: Setup,
        interval: float | None,
        round_scores: int | None,
        epsilon: float | None,
        epsilon_unit: str | None,
        questions: Questions = ONE_QUESTION,
    ) -> SessionOptions:
        """Return what the options of `session_options` ask; `InputError` where they do not go together."""
        flags = inputs.with_flags(options, round_scores=round_scores, epsilon=epsilon, epsilon_unit=epsilon_unit)
        if "round_scores" in flags and thresholds is not None:
            raise InputError("--thresholds does not go with rounded scores: every rounded score is a bin edge")
        if inputs.given("min_rows") and setup.min_rows > setup.max_rows:  # a default gives way
            raise InputError(f"--min-rows is {setup.min_rows:,}, but --max-rows {setup.max_rows:,}")
        return cls.checked(plugin(protocol), flags, thresholds, setup, questions, interval)

    @classmethod
    def of_model(
        cls,
        model: str,
        epsilon: float | None,
        options: Mapping[str, int | float | str],
        thresholds: str | None,
        setup: Setup,
    ) -> SessionOptions:
        """Return what `histogram_options` ask; `InputError` as `checked`, `UnknownProtocolError` for no model."""
        installed = [name.removeprefix(_MODELS) for name in registry.names() if name.startswith(_MODELS)]
        if model not in installed:
            raise UnknownProtocolError(
                f"model {model!r} is not installed: there is no protocol {_MODELS + model!r} (installed models: "
                f"{', '.join(installed) or 'none'})"
            )
        if epsilon is not None and model == _EXACT_MODEL:
            raise InputError(f"--epsilon is of models that add noise, and {model!r} adds none: --model distributed-dp")
        flags = inputs.with_flags(options, epsilon=epsilon)
        return cls.checked(registry.evaluating(_MODELS + model), flags, thresholds, setup)

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
        """Check what can be checked before any file is read; raise `InputError`. No thresholds: the protocol's own."""
        check_names(plugin.options, plugin.name, options)
        if (questions.several or questions.heterogeneity or questions.cluster) and not plugin.several:
            raise InputError(
                f"protocol {plugin.name!r} answers for one model over all rows: --score-columns, --by, --classes, "
                "--cluster and --heterogeneity are for exact and verified"
            )
        of_rows = thresholds is None
        if thresholds is None:
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


_COUNTING = (
    inputs.protocol_options,
    click.option(
        "--thresholds",
        metavar="EDGES",
        help="Bin edges of the scores, or a file of them: hybrid:N, uniform:N, dpauc:N, quantile:N, values:0:9; "
        "docs/guide/choose.md.",
    ),
    inputs.setup_options,
)


def session_options(plugin: Callable[[str], Protocol[Any]], *questions: inputs.Decorator) -> inputs.Decorator:
    """Decorate a command: it receives ``session``; `plugin` returns the protocol of a name, or refuses it.

    `questions` are options that a command has which can answer several.
    """
    return inputs.gathered(
        "session",
        partial(SessionOptions.asked, plugin),
        click.option("--protocol", metavar="NAME", default=DEFAULT_PROTOCOL, help="See `fhe-auc protocols`."),
        *_COUNTING,
        *questions,
        inputs.interval_option("Confidence level, or none."),
        inputs.whole_number(
            "--round-scores", 1, grids.MAX_PLACES, about="Round scores to N decimals: no binning error."
        ),
        click.option("--epsilon", metavar="E", type=float, help="Add noise for this privacy budget, with a helper."),
        click.option(
            "--epsilon-unit",
            metavar="UNIT",
            type=click.Choice(("row", "label")),
            help="What it protects: row (default) or label.",
        ),
    )


histogram_options = inputs.gathered(
    "session",
    SessionOptions.of_model,
    click.option(
        "--model",
        metavar="NAME",
        default=_EXACT_MODEL,
        help="Who is trusted: NAME is of the protocol histogram-NAME; see `fhe-auc protocols`.",
    ),
    click.option("--epsilon", metavar="E", type=float, help="Privacy budget of a model that adds noise."),
    *_COUNTING,
)
"""Decorator: the command receives ``session``, for all options that say how to count scores."""


def naming_the_aggregator(report: Progress) -> Progress:
    """Say what the last tick of a round waits for: the aggregator, not the parties."""

    def progress(phase: str, done: int, total: int) -> None:
        report(f"{phase}, aggregator" if done == total else phase, done, total)

    return progress
