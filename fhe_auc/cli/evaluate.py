"""``fhe-auc evaluate``: the AUC over the rows in the user's files."""

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.cli import inputs, output
from fhe_auc.cli.evaluation_table import Form, form_options, print_evaluation
from fhe_auc.cli.session_options import SessionOptions, session_options
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry

_TERMINATED = 143  # 128 + SIGTERM
_ROUND_TIMEOUT = 300.0  # seconds that a round over Flower waits for sites


@inputs.command(
    "fhe-auc evaluate north.csv south.csv west.csv",
    "fhe-auc evaluate all.parquet --site-column hospital --label-column died",
    "fhe-auc evaluate *.csv --score-columns risk_a,risk_b --by sex,age_band",
    "fhe-auc evaluate *.csv --epsilon 1",
    "fhe-auc evaluate *.csv --json | jq .auc",
)
@inputs.party_files
@session_options(registry.evaluating, inputs.weighed_question_options)
@inputs.option("--plot FILE", "Save a forest plot: .png, .pdf or .svg.", type=inputs.PATH)
@inputs.option("--flower", "Carry it by Flower: docs/guide/flower.md.")
@form_options
def evaluate(files: inputs.PartyFiles, session: SessionOptions, plot: Path | None, flower: bool, form: Form) -> None:
    """Compute the AUC over the rows of several parties, encrypted or with noise.

    Each FILE holds one party's test rows, a column of labels and one of scores: CSV, JSON lines, Parquet (a file, or a
    folder), Feather, NPZ, SAS, SPSS, Stata, a workbook, - for standard input, or a database's address:
    docs/guide/data.md. With --site-column the rows of all are split into parties by that column instead. All roles run
    in this process, on the bytes that sites would exchange.

    Every party learns how many rows of each label there are in all. docs/guide/paper.md goes from files to table 2 of a
    paper; docs/guide/choose.md says which protocol, keys and bin edges to take.
    """
    from fhe_auc.figures.plot import check_path

    if plot is not None:
        check_path(plot)
    if flower:
        if sys.version_info < (3, 11):
            raise InputError("Flower needs Python 3.11 or later, and this is " + sys.version.split()[0])
        require("simulation")
    parties, analysis = files.read_for(session.questions)
    if flower:
        evaluation, wall_seconds = _over_flower(session, parties, analysis)
    else:
        evaluation, wall_seconds = session.run(parties, analysis=analysis)
    print_evaluation(evaluation, form, wall_seconds=wall_seconds, specification=session.specification, plot=plot)


def _over_flower(session: SessionOptions, parties: Sequence[PartyData], analysis: Analysis) -> tuple[Evaluation, float]:
    """Play a session over Flower's simulation engine, each site a virtual client; return it, and its seconds.

    Every site has its own key store and exchange, and reads its own rows only; all of them lie in a private folder that
    is removed afterwards.
    """
    from fhe_auc.machines.flower.simulation import Simulation
    from fhe_auc.machines.local_sites import Stage

    setup = session.plugin.set_up(session.setup, session.options, {data.name: data.rows for data in parties})
    request = replace(session, setup=setup).request([data.name for data in parties], None, analysis)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # so that what was started is stopped
    started = time.perf_counter()
    stage = Stage(Simulation, _ROUND_TIMEOUT, output.print_line)
    evaluation = stage.evaluate(session.plugin, request, session.quantiles, parties)
    return evaluation, time.perf_counter() - started
