"""``fhe-auc evaluate``: the AUC over the rows in the user's files."""

from pathlib import Path

import click

from fhe_auc.cli import inputs, output
from fhe_auc.cli.evaluation_table import Form, form_options, print_evaluation
from fhe_auc.cli.session_options import SessionOptions, session_options
from fhe_auc.session import registry


@click.command(
    epilog=output.examples(
        "fhe-auc evaluate north.csv south.csv west.csv",
        "fhe-auc evaluate all.parquet --site-column hospital --label-column outcome --score-column risk",
        "fhe-auc evaluate *.csv --score-columns risk_a,risk_b --by sex,age_band --plot forest.png",
        "fhe-auc evaluate *.csv --thresholds uniform:100 --backend tenseal",
        "fhe-auc evaluate *.csv --thresholds quantile:200",
        "fhe-auc evaluate *.csv --keys helper",
        "fhe-auc evaluate *.csv --round-scores 3",
        "fhe-auc evaluate *.csv --protocol semi-honest              the published designs, on CKKS",
        "fhe-auc evaluate *.csv --protocol malicious -o tolerance=1e-5",
        "fhe-auc evaluate *.csv --protocol dpauc-laplace -o epsilon=1 --thresholds uniform:50",
        "fhe-auc evaluate *.csv --brief                             one line",
        "fhe-auc evaluate *.csv --json | jq .auc",
    )
)
@inputs.party_files
@session_options(registry.evaluating)
@inputs.plot_option("a forest plot of all AUCs and their intervals")
@form_options
def evaluate(files: inputs.PartyFiles, session: SessionOptions, plot: Path | None, form: Form) -> None:
    """Compute the AUC over the rows of several parties, encrypted (or with noise, by --protocol).

    By default as a fraction of integers that a lying aggregator cannot change unnoticed. Every party then learns how
    many rows of each label there are in all; of two parties, each learns the other's.

    With --score-columns and --by one session gives the AUCs of several models and groups.

    Each FILE holds one party's test rows: a column of labels, 0 or 1, and one of scores. It may be .csv or .tsv (also
    .gz), .parquet, .feather or .npz; - is standard input. With --site-column the rows of all files are split into
    parties by that column instead. Every role runs in this process; the bytes are those that sites would exchange.

    "verified" says whether a lying aggregator would be noticed. A lying party is not: it can enter any rows.
    """
    from fhe_auc.figures import forest_plot
    from fhe_auc.figures.plot import check_path

    if plot is not None:
        check_path(plot)
    parties, analysis = files.read_for(session.questions)
    evaluation, wall_seconds = session.run(parties, analysis=analysis)
    print_evaluation(
        evaluation,
        form,
        wall_seconds=wall_seconds,
        specification=session.specification,
        plot=plot,
        draw=lambda: forest_plot.draw(evaluation),
    )
