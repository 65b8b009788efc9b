"""What ``report`` and ``calibrate fit`` share: a session whose result is the pooled score histogram."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from fhe_auc.base.errors import EvaluationError, InputError, UnknownProtocolError
from fhe_auc.cli import inputs
from fhe_auc.cli.session_options import SessionOptions, shared_options
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry

if TYPE_CHECKING:
    from fhe_auc.metrics import Histogram

PREFIX = "histogram-"
"""Of the protocols that are models here: NAME stands for histogram-NAME."""


@dataclass(frozen=True)
class Pooled:
    """What a session gave: the pooled counts, exact or with privacy noise, the rest, and how long it took."""

    histogram: Histogram
    evaluation: Evaluation
    wall_seconds: float

    @property
    def exact(self) -> bool:
        """Whether the counts carry no noise."""
        return not math.isnan(self.evaluation.binning_error)


def pool(session: SessionOptions, parties: Sequence[PartyData]) -> Pooled:
    """Run the session; raise `EvaluationError` where there is no histogram."""
    evaluation, wall_seconds = session.run(parties)
    if evaluation.histogram is None:
        name = evaluation.protocol
        raise EvaluationError(f"protocol {name!r} gives the parties no score histogram, which this command needs")
    return Pooled(evaluation.histogram, evaluation, wall_seconds)


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
        installed = [name.removeprefix(PREFIX) for name in registry.names() if name.startswith(PREFIX)]
        if model not in installed:
            raise UnknownProtocolError(
                f"model {model!r} is not installed: there is no protocol {PREFIX + model!r} (installed models: "
                f"{', '.join(installed) or 'none'})"
            )
        plugin = registry.evaluating(PREFIX + model)
        session = SessionOptions.checked(plugin, inputs.with_flags(options, epsilon=epsilon), **chosen)
        grid = session.thresholds
        if not isinstance(grid, str) and (grid[0] < 0 or grid[-1] > 1):
            raise InputError(
                f"thresholds {session.specification!r} run from {grid[0]} to {grid[-1]}; "
                "score histograms are of scores in [0, 1]"
            )
        return command(*args, session=session, **others)

    return with_session
