"""``fhe-auc evaluate``: the AUC over the rows in the user's files."""

import signal
import sys
from pathlib import Path

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.cli import inputs, output
from fhe_auc.cli.evaluation_table import Form, form_options, print_evaluation
from fhe_auc.cli.session_options import SessionOptions, session_options
from fhe_auc.session import registry
from fhe_auc.session.one_process import Elsewhere

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
    elsewhere = None
    if flower:
        if sys.version_info < (3, 11):
            raise InputError("Flower needs Python 3.11 or later, and this is " + sys.version.split()[0])
        require("simulation")
        elsewhere = _over_flower()
    parties, analysis = files.read_for(session.questions)
    evaluation, wall_seconds = session.run(parties, analysis=analysis, elsewhere=elsewhere)
    print_evaluation(evaluation, form, wall_seconds=wall_seconds, specification=session.specification, plot=plot)


def _over_flower() -> Elsewhere:
    """Return what plays a session over Flower's simulation engine, each site a virtual client.

    Every site has its own key store and exchange, and reads its own rows only; all of them lie in a private folder that
    is removed afterwards.
    """
    from fhe_auc.machines.flower.simulation import Simulation
    from fhe_auc.machines.local_sites import Stage

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))  # so that what was started is stopped
    return Stage(Simulation, _ROUND_TIMEOUT, output.print_line).run
