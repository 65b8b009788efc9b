"""``fhe-auc calibrate``: make the map that turns scores into probabilities, and apply it at a site."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from fhe_auc.base.errors import EvaluationError, FheAucError, InputError
from fhe_auc.cli import inputs, output
from fhe_auc.cli.session_options import SessionOptions, histogram_options
from fhe_auc.cli.settings import CommandGroup
from fhe_auc.question.analysis import DEFAULT_MIN_CELL
from fhe_auc.results.evaluation import Evaluation, verified_as_dict
from fhe_auc.results.intervals import DEFAULT_LEVEL
from fhe_auc.results.result_tables import ends

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fhe_auc.metrics.histogram import Histogram
    from fhe_auc.metrics.updating import ScoreMap
    from fhe_auc.results.private_measures import PrivateNumbers
    from fhe_auc.rows.csv_files import TextFormat

_METHODS = ("slope-intercept", "intercept", "isotonic", "bbq")
_NO_BBQ = "--method bbq takes noise on counts for what scores mean: with noise take another method"
_LOWERED = 0.001  # an AUC that the map lowers by more is told
_SHOWN = ("expected_calibration_error", "brier", "log_loss", "observed_expected_ratio", "calibration_slope", "roc_auc")
_HEADER = ("method", "calibration error", "Brier", "log loss", "O:E", "slope", "AUC", "order of scores")


@click.group(
    cls=CommandGroup,
    epilog=output.examples(
        "fhe-auc calibrate fit north.csv south.csv west.csv --out map.json",
        "fhe-auc calibrate apply map.json new-patients.csv --out calibrated.csv",
    ),
)
def calibrate() -> None:
    """Turn scores into probabilities: make a calibration map together, apply it at each site.

    `fit` needs labels and runs a session of all parties; `apply` needs neither.
    """


@calibrate.add_command
@inputs.command(
    "fhe-auc calibrate fit north.csv south.csv west.csv --out map.json",
    "fhe-auc calibrate fit *.csv --keys helper --thresholds uniform:200 --out map.json",
    "fhe-auc calibrate fit results/20261123T185001Z-31c4….json --out map.json",
)
@inputs.party_files
@histogram_options
@inputs.option("--method NAME", "How scores are mended.", default=_METHODS[0], type=click.Choice(_METHODS))
@inputs.out_file_options("The map: a .json file.")
@output.json_option
def fit(files: inputs.PartyFiles, session: SessionOptions, method: str, out: Path, force: bool, as_json: bool) -> None:
    """Make a calibration map from the pooled score histogram.

    slope-intercept multiplies the log odds of every score, and adds a number (logistic recalibration); intercept only
    adds one. These two numbers tell little of the rows, keep the scores' order, and need the fewest rows. isotonic and
    bbq (Bayesian binning into quantiles) give each range of scores a probability of its own: such a map tells nearly
    what the histogram does, and is for thousands of rows. isotonic's rise, and may be 0 or 1; bbq's may fall.

    What each method mends is told of the rows that the map is made from. Fit it on rows that the classifier was not
    trained on.

    FILE may also be a site's result of a report between machines (.json): the map is of its histogram, of two models of
    that whose --score-column this is. With weights, or at a horizon, there is no other way.
    """
    from fhe_auc.metrics.private_curves import CountNoise
    from fhe_auc.results import calibration_file
    from fhe_auc.results.private_measures import private_numbers
    from fhe_auc.results.report_card import DIGITS

    inputs.check_out_file(out, force=force, suffix=".json")
    if files.result is not None:
        inputs.refuse_beside_a_result({"score_column", "method", "out", "force", "as_json"})
        evaluation, said = _in_result(files.result, files.score_column if inputs.given("score_column") else None)
    else:
        session, grid, said = replace(session, of_rows=False), session.thresholds, session.specification
        if not isinstance(grid, str) and (grid[0] < 0 or grid[-1] > 1):
            raise _no_map(f"bin edges {said!r}")
        if method == "bbq" and "epsilon" in session.options:
            raise InputError(_NO_BBQ)  # before it is spent
        evaluation, _ = session.run(files.read())
    histogram = evaluation.histogram
    if histogram is None:
        raise EvaluationError(f"protocol {evaluation.protocol!r} gives the parties no score histogram")
    private, min_cell = None, DEFAULT_MIN_CELL
    if math.isnan(evaluation.binning_error):
        level = DEFAULT_LEVEL if method == "slope-intercept" else None
        private = private_numbers(histogram, CountNoise.of(evaluation.settings, evaluation.parties), level)
        histogram, min_cell = private.spread, 1  # bins are wide: rows lie inside as in reports; noise hides single ones
    if min(*histogram.real.sum(axis=1), *histogram.effective) < min_cell:
        raise EvaluationError(f"a map of fewer than {min_cell} rows of a label would tell of them, and mend nothing")
    maps = {each: _map(histogram, each, min_cell) for each in _METHODS if not (private and each == "bbq")}
    if isinstance(calibration := maps.get(method, InputError(_NO_BBQ)), FheAucError):
        raise calibration
    found = {each: _measured(histogram, own, min_cell) for each, own in {"none": None, **maps}.items()}
    calibration_file.save_map(out, calibration, method)
    doubts = _slope_warnings(histogram, private) if method == "slope-intercept" else []
    rows = float(histogram.cleaned().real.sum() + (0 if histogram.unknown is None else histogram.unknown.sum()))
    warnings = [*evaluation.warnings, *_ranking_warnings(found["none"], found[method]), *doubts]
    for each in found.values():
        if private is not None and each["order"] == "kept":
            each["roc_auc"] = round(private.fit.auc, DIGITS)  # the report's, of the same curve
    if as_json:
        output.print_json(
            {
                "map": str(out),
                "method": method,
                "protocol": evaluation.protocol,
                "parties": evaluation.parties,
                "rows": rows,
                "noise_deviation": private.noise.deviation if private else None,
                "verified": verified_as_dict(evaluation.verified),
                _SHOWN[0]: {"before": found["none"][_SHOWN[0]], "after": found[method][_SHOWN[0]]},
                "methods": found,
                "warnings": warnings,
            }
        )
        return
    about, noise = ("about ", ", counts with privacy noise") if private else ("", "")
    of = f"of {evaluation.parties:,} parties, by {evaluation.protocol}, bins {said}{noise}"
    numbers = [f"{name} {each}" for name, each in calibration.as_dict().items() if isinstance(each, float)]
    output.print_table(
        [
            ("map", str(out), "apply it with fhe-auc calibrate apply"),
            ("method", method, ", ".join(numbers) or "steps"),
            ("rows", f"{about}{rows:,.0f}", of),
        ]
    )
    output.print_text()
    output.print_table(
        [(name, *map(_cell, each.values())) for name, each in found.items()], header=_HEADER, numbers=len(_SHOWN)
    )
    output.print_text("On the rows that the map is made from: on others it mends less, isotonic and bbq the least.")
    output.print_warnings(warnings)


def _map(histogram: Histogram, method: str, min_cell: int) -> ScoreMap | FheAucError:
    """Return a method's map, or the error that says why there is none."""
    from fhe_auc.metrics import updating

    try:
        return updating.METHODS[method](histogram, min_cell)
    except FheAucError as error:
        return error


def _measured(
    histogram: Histogram, used: ScoreMap | FheAucError | None, min_cell: int
) -> dict[str, float | str | None]:
    """Return measures of the scores as a map makes them, or as they are, and what becomes of their order.

    Where there is no map, the error says why. Measures have four digits: with all they would be more equations about
    where single rows lie.
    """
    from fhe_auc.metrics import updating
    from fhe_auc.results import report_measures
    from fhe_auc.results.report_card import DIGITS

    if isinstance(used, FheAucError):
        return {**dict.fromkeys(_SHOWN), "order": str(used)}
    scores = histogram.centres if used is None else used(histogram.centres)
    rows, steps = updating.mapped(histogram, scores), np.diff(scores[histogram.cleaned().counts > 0])
    measures = [*report_measures.score_measures(rows, rows, None, min_cell)]
    measures += report_measures.calibration_measures(rows, None, smooth=False)
    found = {each.name: None if each.estimate is None else round(each.estimate.value, DIGITS) for each in measures}
    orders = {"kept": steps > 0, "kept, with ties": steps >= 0, "reversed": steps < 0, "changed": steps <= math.inf}
    return {**{name: found[name] for name in _SHOWN}, "order": next(key for key, all_ in orders.items() if all_.all())}


def _cell(value: float | str | None) -> str:
    return f"{value:.4f}" if isinstance(value, float) else value or "not shown"


def _in_result(path: Path, model: str | None) -> tuple[Evaluation, str]:
    """Return the evaluation with a model's histogram in a session's result, and what its bin edges are.

    Raises `InputError` where there is none of that model, or of several, and none is named.
    """
    from fhe_auc.metrics.probabilities import of_probabilities
    from fhe_auc.results import result_file

    found = result_file.read_result(path)
    counted = [each for each in found.outcomes if isinstance(each, Evaluation) and each.histogram is not None]
    models: list[str | None] = [model]
    if found.asked is not None and len(counted) > 1:
        models = [*found.asked.analysis.models]
    if not counted or model not in models:
        known = f"--score-column says which of {', '.join(map(repr, models))}" if len(counted) > 1 else "it has none"
        raise InputError(f"result {str(path)!r}: a map is of one model's histogram; {known}", file=str(path))
    evaluation = counted[models.index(model)]
    if evaluation.histogram is not None and not of_probabilities(evaluation.histogram):
        raise _no_map(f"the bin edges of result {str(path)!r}")
    if found.asked is None:
        return evaluation, "as its study has them"
    by = found.asked.analysis.follow_up and f"; of events by {found.asked.analysis.follow_up.horizons[0]:g}"
    return evaluation, f"{found.asked.thresholds}{by or ''}"


def _no_map(edges: str) -> InputError:
    return InputError(f"{edges} leave [0, 1], and a map is of probabilities")


@calibrate.add_command
@inputs.command(
    "fhe-auc calibrate apply map.json new-patients.csv --out calibrated.csv",
    "fhe-auc calibrate apply map.json new.parquet --score-column risk --out new2.parquet",
)
@click.argument("map_file", metavar="MAP", type=inputs.PATH)
@click.argument("file", metavar="FILE", type=inputs.PATH)
@inputs.option("--score-column NAME", "Column of scores.", default="y_score")
@inputs.score_scale_option
@inputs.text_options
@inputs.option("--column NAME", "Name of the column that is added.", default="y_calibrated")
@inputs.out_file_options("The copy to write, of the same kind: .csv, .parquet or .npz.")
@output.json_option
def apply(
    map_file: Path,
    file: Path,
    score_column: str,
    score_scale: str,
    form: TextFormat,
    column: str,
    out: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Write a copy of FILE with one column more: the calibrated scores.

    FILE (.csv, .parquet or .npz) needs a column of scores and no labels. Nothing leaves this machine. A score that the
    map does not cover is an error. isotonic and bbq make scores equal, and bbq's may fall: rank by the score as it was.
    """
    from fhe_auc.results import calibration_file
    from fhe_auc.rows.party_data import to_probabilities
    from fhe_auc.rows.party_files import read_column
    from fhe_auc.rows.table_writer import add_column

    if not column.strip():
        raise InputError("the column that is added needs a name")
    inputs.check_out_file(out, force=force)
    if out.exists() and file.exists() and out.samefile(file):
        raise InputError(f"file {str(out)!r} would be overwritten by its own copy; choose another --out", file=str(out))
    calibration = calibration_file.load_map(map_file)
    scores = to_probabilities(read_column(file, score_column, form), score_scale)
    low, high = calibration.edges[[0, -1]].tolist()
    outside = (scores < low) | (scores > high)
    if outside.any():
        row = int(outside.argmax())
        raise InputError(
            f"row {row} of file {str(file)!r}: score is {float(scores[row])!r}, but the map covers {low} to {high}"
        )
    add_column(file, out, column, calibration(scores), form, [score_column])
    if as_json:
        output.print_json({"file": str(out), "column": column, "rows": len(scores)})
    else:
        output.print_text(f"{len(scores):,} rows, with the calibrated score in column {column!r}: {out}")


def _slope_warnings(histogram: Histogram, private: PrivateNumbers | None) -> list[str]:
    """Warn where the rows do not show that events are more where scores are higher."""
    from fhe_auc.results.report_measures import calibration_measures

    measures = calibration_measures(histogram, DEFAULT_LEVEL, smooth=False)
    (interval,) = (each.interval for each in measures if each.name == "calibration_slope")
    if private is not None:
        interval = private.intervals.get("calibration_slope")
        if interval is None:
            return [f"the slope has no interval: {private.why_none}; --method intercept leaves it as it is"]
    if interval is None or interval.low > 0:
        return []
    return [
        f"the slope's {interval.heading}, {ends(interval)}, does not lie above 0: these rows do not show "
        "that higher scores mean more events; take --method intercept, which leaves the slope as it is"
    ]


def _ranking_warnings(before: Mapping[str, float | str | None], after: Mapping[str, float | str | None]) -> list[str]:
    """Warn where the map puts together, or in another order, what the scores tell apart."""
    if after["order"] == "reversed":
        return ["the map turns the order of scores around: events are fewer where scores are higher; is 1 the event?"]
    auc, mapped = (each["roc_auc"] for each in (before, after))
    if not (isinstance(auc, float) and isinstance(mapped, float) and auc - mapped > _LOWERED):
        return []
    return [
        f"the map lowers the AUC of the pooled counts by {auc - mapped:.4f}, from {auc:.4f} to {mapped:.4f}: rank by "
        "the scores as they were, or fit the map on more rows"
    ]
