"""``fhe-auc evaluate``: the AUC over the rows in the user's files."""

from __future__ import annotations

import click

from fhe_auc.cli import inputs, output
from fhe_auc.cli.session import SessionOptions, print_evaluation


@click.command(
    epilog=output.examples(
        "fhe-auc evaluate north.csv south.csv west.csv",
        "fhe-auc evaluate all.parquet --site-column hospital --label-column outcome --score-column risk",
        "fhe-auc evaluate *.csv --thresholds uniform:100 --release-digits 3",
        "fhe-auc evaluate *.csv --thresholds quantile:200",
        "fhe-auc evaluate *.csv --keys joint",
        "fhe-auc evaluate *.csv --protocol malicious -o executions=8",
        "fhe-auc evaluate *.csv --protocol verified --round-scores 3",
        "fhe-auc evaluate *.csv --protocol dpauc-laplace -o epsilon=1 --thresholds uniform:50",
        "fhe-auc evaluate *.csv --json | jq .auc",
    )
)
@inputs.party_files
@inputs.protocol_option
@inputs.protocol_options
@inputs.thresholds_option
@inputs.backend_option
@inputs.key_options
@inputs.row_bounds
@inputs.release_digits_option
@inputs.round_scores_option
@output.json_option
def evaluate(
    files: inputs.PartyFiles,
    protocol: str,
    options: dict[str, int | float | str],
    thresholds: str,
    backend: str | None,
    keys: str,
    smudging_bits: int | None,
    max_rows: int,
    min_rows: int,
    release_digits: int | None,
    round_scores: int | None,
    as_json: bool,
) -> None:
    """Compute the AUC over the rows of several parties, encrypted (or with noise, by --protocol).

    Each FILE (.csv, .parquet or .npz) holds one party's test rows: a column of labels, 0 or 1, and one of scores. With
    --site-column the rows of all files are split into parties by that column instead. Every role runs in this process,
    and exchanges the bytes that it would between sites.
    """
    session = SessionOptions.checked(
        protocol,
        thresholds,
        backend,
        max_rows=max_rows,
        min_rows=min_rows,
        release_digits=release_digits,
        round_scores=round_scores,
        keys=keys,
        smudging_bits=smudging_bits,
        options=options,
    )
    parties = files.read()
    evaluation, wall_seconds = session.run(parties)
    if as_json:
        output.print_json(evaluation.as_dict())
    else:
        print_evaluation(evaluation, wall_seconds, thresholds=session.described(thresholds), digits=release_digits)
