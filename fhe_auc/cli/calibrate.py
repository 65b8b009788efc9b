"""``fhe-auc calibrate``: make the map that turns scores into probabilities, and apply it at a site."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from fhe_auc.base.errors import EvaluationError, InputError
from fhe_auc.cli import inputs, output
from fhe_auc.cli.session_options import SessionOptions, histogram_options
from fhe_auc.cli.settings import CommandGroup
from fhe_auc.question.analysis import DEFAULT_MIN_CELL
from fhe_auc.results.evaluation import Evaluation, verified_as_dict

if TYPE_CHECKING:
    from fhe_auc.metrics.calibration import CalibrationMap
    from fhe_auc.metrics.histogram import Histogram
    from fhe_auc.rows.csv_files import TextFormat

_LOWERED = 0.001  # an AUC that the map lowers by more is told


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
@inputs.out_file_options("The map: a .json file.")
@output.json_option
def fit(files: inputs.PartyFiles, session: SessionOptions, out: Path, force: bool, as_json: bool) -> None:
    """Make a calibration map from the pooled score histogram.

    By Bayesian binning into quantiles (BBQ): bins of ten rows or more are merged into more and less fine ones, and the
    shares of positive rows in them averaged, by how likely each binning is. The map holds these averages, one for each
    bin: to those who are given it, it tells nearly what the histogram does. It helps where scores are off; those that
    are probabilities already it only blurs. Fit it on rows that the classifier was not trained on.

    FILE may also be a site's result of a report between machines (.json): the map is of its histogram, of two models of
    that whose --score-column this is.
    """
    from fhe_auc.metrics import small_cells
    from fhe_auc.metrics.calibration import bayesian_binning, expected_calibration_error
    from fhe_auc.results import calibration_file
    from fhe_auc.results.report_card import DIGITS

    inputs.check_out_file(out, force=force, suffix=".json")
    if files.result is not None:
        inputs.refuse_beside_a_result({"score_column", "out", "force", "as_json"})
        evaluation, said = _in_result(files.result, files.score_column if inputs.given("score_column") else None)
    else:
        session, grid, said = replace(session, of_rows=False), session.thresholds, session.specification
        if not isinstance(grid, str) and (grid[0] < 0 or grid[-1] > 1):
            raise _no_map(f"bin edges {said!r}")
        evaluation, _ = session.run(files.read())
    histogram = evaluation.histogram
    if histogram is None:
        raise EvaluationError(f"protocol {evaluation.protocol!r} gives the parties no score histogram")
    noisy = math.isnan(evaluation.binning_error)  # else the map would tell where single rows lie
    calibration = bayesian_binning(histogram if noisy else small_cells.crowded(histogram, DEFAULT_MIN_CELL))
    before, after = (
        round(expected_calibration_error(histogram, calibration=used).value, DIGITS) for used in (None, calibration)
    )
    calibration_file.save_map(out, calibration)
    rows = float(histogram.cleaned().counts.sum())
    warnings = [*evaluation.warnings, *_ranking_warnings(histogram, calibration)]
    if as_json:
        output.print_json(
            {
                "map": str(out),
                "method": "bbq",
                "protocol": evaluation.protocol,
                "parties": evaluation.parties,
                "rows": rows,
                "verified": verified_as_dict(evaluation.verified),
                "expected_calibration_error": {"before": before, "after": after},
                "warnings": warnings,
            }
        )
        return
    output.print_table(
        [
            ("map", str(out), "apply it with fhe-auc calibrate apply"),
            ("bins", f"{len(calibration.probabilities):,}", said),
            ("rows", f"{rows:,.0f}", f"of {evaluation.parties:,} parties, by {evaluation.protocol}"),
            ("calibration error", f"{before:.4f}", "before: mean distance of score and share of positive rows"),
            ("", f"{after:.4f}", "after, on the rows that the map was made from: on others it is larger"),
        ]
    )
    output.print_warnings(warnings)


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
    return evaluation, "as its study has them" if found.asked is None else str(found.asked.thresholds)


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
    map does not cover is an error. The map may rise and fall: rank by the score as it was.
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


def _ranking_warnings(histogram: Histogram, calibration: CalibrationMap) -> tuple[str, ...]:
    """Warn where the map puts together, or in another order, what the scores tell apart."""
    from fhe_auc.metrics import ranking
    from fhe_auc.metrics.histogram import Histogram

    counts = histogram.cleaned()
    if min(counts.positives.sum(), counts.negatives.sum()) <= 0:
        return ()
    values, of_bins = np.unique(calibration(counts.centres), return_inverse=True)
    positives, negatives = (
        np.bincount(of_bins, each).astype(np.float64) for each in (counts.positives, counts.negatives)
    )
    mapped = Histogram(np.arange(len(values) + 1, dtype=np.float64), positives, negatives)
    before, after = (ranking.roc_auc_score(each).value for each in (counts, mapped))
    if before - after <= _LOWERED:
        return ()
    return (
        f"the map lowers the AUC of the pooled counts by {before - after:.4f}, from {before:.4f} to {after:.4f}: rank "
        "by the scores as they were, or fit the map on more rows",
    )
