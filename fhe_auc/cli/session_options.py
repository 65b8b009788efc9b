"""The options that say what a session is, and a session with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.api import evaluate
from fhe_auc.base.errors import InputError, UnknownProtocolError
from fhe_auc.base.options import check_names
from fhe_auc.cli import inputs, output
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import PLAIN, Analysis, Questions
from fhe_auc.results.asked import EXACT_COUNTS, NOISY_COUNTS
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.one_process import Elsewhere
from fhe_auc.session.protocol import DEFAULT_PROTOCOL, Protocol, Request, Setup, check_weighed

_MODELS = "histogram-"
"""Of the protocols that are models to commands with `histogram_options`: NAME stands for histogram-NAME."""

ONE_QUESTION = Questions(score_columns=("score",))  # one model over all rows


@dataclass(frozen=True)
class SessionOptions:
    """How to evaluate, as given on the command line and checked.

    `specification` is how the bin edges were given, `thresholds` the grid, shape (m,), or "quantile:SIZE" or "quantile"
    where it is to be found first. With `of_rows` a command that reads all rows chooses others by these. `questions`
    have no columns of scores where those of the files are meant.
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
        protocol: Protocol[Any],
        options: Mapping[str, int | float | str],
        thresholds: str | None,
        setup: Setup,
        questions: Questions = ONE_QUESTION,
        interval: float | None = None,
        round_scores: int | None = None,
        epsilon: float | None = None,
        epsilon_unit: str | None = None,
    ) -> SessionOptions:
        """Check what can be checked before any file is read; raise `InputError`. No thresholds: the protocol's own."""
        flags = {"round_scores": round_scores, "epsilon": epsilon, "epsilon_unit": epsilon_unit}
        given = {name: value for name, value in flags.items() if value is not None}
        if twice := sorted(options.keys() & given):
            raise InputError(f"{twice[0]} is given twice, as --{twice[0].replace('_', '-')} and with -o")
        options = {**options, **given}
        if options.get("epsilon") is not None and protocol.name == EXACT_COUNTS:
            if inputs.given("protocol"):
                raise InputError(
                    "histogram-federated adds no noise: histogram-distributed-dp does (report takes it by itself)"
                )
            protocol = registry.evaluating(NOISY_COUNTS)  # a report
        check_names(protocol.options, protocol.name, options)
        if "round_scores" in given and thresholds is not None:
            raise InputError("--thresholds does not go with rounded scores: every rounded score is a bin edge")
        if inputs.given("min_rows") and setup.min_rows > setup.max_rows:  # a default gives way
            raise InputError(f"--min-rows is {setup.min_rows:,}, but --max-rows {setup.max_rows:,}")
        if (questions.several or questions.heterogeneity or questions.cluster) and not protocol.several:
            raise InputError(
                f"protocol {protocol.name!r} answers for one model over all rows: --score-columns, --by, --classes, "
                "--cluster and --heterogeneity are for exact and verified"
            )
        check_weighed(protocol, questions, options)
        of_rows = thresholds is None
        if thresholds is None:
            thresholds = protocol.options.thresholds_for(several=questions.coarse, compared=questions.compared)
        bins = grids.quantiles_wanted(thresholds)
        if bins is not None:
            registry.finder(protocol)
            protocol.staged(Request(parties=(), thresholds=np.empty(0), options=options), bins)  # it may refuse
        resolved = grids.resolve(thresholds) if bins is None else thresholds
        if setup.backend is not None:
            ckks.choose_backend(setup.backend)
        return cls(protocol, click.format_filename(thresholds), resolved, options, setup, questions, interval, of_rows)

    @property
    def quantiles(self) -> int | None:
        """How many thresholds a session before finds, 0 for as many as rows and epsilon allow; None: they are given."""
        return grids.quantiles_wanted(self.specification)

    @property
    def in_one_process(self) -> NDArray[np.float64] | str | None:
        """Thresholds for a command that reads all rows; None where it may choose them by the rows."""
        return None if self.of_rows and self.quantiles is None else self.thresholds

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
        self,
        parties: Sequence[PartyData],
        cheat: str | None = None,
        analysis: Analysis = PLAIN,
        elsewhere: Elsewhere | None = None,
    ) -> tuple[Evaluation, float]:
        """Return the evaluation and the session's seconds; `analysis` is what the parties' rows are for."""
        started = time.perf_counter()
        with output.progress("Keys and parties") if elsewhere is None else nullcontext() as report:
            evaluation = evaluate(
                parties,
                analysis,
                protocol=self.plugin.name,
                thresholds=self.in_one_process if elsewhere is None else self.thresholds,
                progress=report,
                cheat=cheat,
                elsewhere=elsewhere,
                interval=self.interval,
                setup=self.setup,
                options=self.options,
            )
        return evaluation, time.perf_counter() - started


_BUDGET = "Add noise: privacy budget of a row replaced; sessions on the same rows add up."

_COUNTING = (
    inputs.protocol_options,
    inputs.option(
        "--thresholds EDGES",
        "Bin edges, or a file: hybrid:N, uniform:N, dpauc:N, quantile[:N], values:0:9; docs/guide/choose.md.",
    ),
    inputs.setup_options,
)


def _protocol_option(usage: str, about: str, default: str, load: Callable[[str], Protocol[Any]]) -> inputs.Decorator:
    """Return an option whose value, a name, becomes the protocol that `load` returns or refuses."""
    return inputs.option(usage, about, name="protocol", default=default, callback=lambda ctx, param, name: load(name))


def session_options(load: Callable[[str], Protocol[Any]], *questions: inputs.Decorator) -> inputs.Decorator:
    """Decorate a command: it receives ``session``; `load` returns the protocol of a name, or refuses it.

    `questions` are options that a command has which can answer several.
    """
    rounding = "Scores to N decimals: no binning error."
    protects = "What it protects: row (default) or label."
    return inputs.gathered(
        "session",
        SessionOptions.checked,
        _protocol_option("--protocol NAME", "See `fhe-auc protocols`.", DEFAULT_PROTOCOL, load),
        *_COUNTING,
        *questions,
        inputs.interval_option,
        inputs.whole_number("--round-scores", 1, grids.MAX_PLACES, about=rounding),
        inputs.option("--epsilon E", f"{_BUDGET} Takes a helper.", type=float),
        inputs.option("--epsilon-unit UNIT", protects, type=click.Choice(("row", "label"))),
    )


def _model(name: str) -> Protocol[Any]:
    installed = [each.removeprefix(_MODELS) for each in registry.names() if each.startswith(_MODELS)]
    if name not in installed:
        raise UnknownProtocolError(
            f"model {name!r} is not installed: there is no protocol {_MODELS + name!r} (installed models: "
            f"{', '.join(installed) or 'none'})"
        )
    return registry.evaluating(_MODELS + name)


histogram_options = inputs.gathered(
    "session",
    SessionOptions.checked,
    _protocol_option(
        *("--model NAME", "See `fhe-auc protocols`, histogram-NAME; with --epsilon distributed-dp."),
        *(EXACT_COUNTS.removeprefix(_MODELS), _model),
    ),
    inputs.option("--epsilon E", _BUDGET, type=float),
    *_COUNTING,
)
"""Decorator: the command receives ``session``, for all options that say how to count scores."""
