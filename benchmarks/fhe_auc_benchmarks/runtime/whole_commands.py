"""Whole commands on files of rows: ``fhe-auc evaluate`` as users run it, beside the AUC in the clear (`row_peers`)."""

import json
import shutil
import subprocess
import sys
import weakref
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from fhe_auc.base.errors import EvaluationError
from fhe_auc.metrics.trapezoid import auc_of_rows
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS
from fhe_auc_benchmarks.runtime import row_peers
from fhe_auc_benchmarks.runtime.contender import BenchmarkProblem, Contender, Played

PROGRAMS = {
    "fhe-auc evaluate": ("-c", "from fhe_auc.cli import main; main()", "evaluate", "--json"),
    **{name: ("-m", row_peers.__name__, name) for name in row_peers.PEERS},
}
"""By name, what Python is to run; the files' paths follow."""
_CHILD = str(Path(__file__).with_name("child.py"))


@dataclass(frozen=True)
class FileProblem(BenchmarkProblem):
    """Rows in a file for each party, of a kind: csv or parquet."""

    kind: str

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.kind}"

    @cached_property
    def auc(self) -> float:
        """What is right: the AUC of all rows."""
        parties = [self.data(party) for party in range(self.parties)]
        labels, scores = [own.y_true for own in parties], [own.y_score for own in parties]
        return float(auc_of_rows(np.concatenate(labels), np.concatenate(scores)))

    @cached_property
    def files(self) -> list[str]:
        """Paths of the files, which are there as long as this is."""
        folder = mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder)
        paths = [str(Path(folder, f"site {party}.{self.kind}")) for party in range(self.parties)]
        for party, path in enumerate(paths):
            own = self.data(party)
            rows = pa.table({"y_true": own.y_true.astype(np.int8), "y_score": own.y_score})
            (parquet.write_table if self.kind == "parquet" else csv.write_csv)(rows, path)
        return paths


class WholeCommand(Contender):
    """A program of `PROGRAMS`, from its start to its end, with as many threads as it likes.

    It costs CPU seconds ("cpu"), seconds on the wall ("wall") and the memory of its largest process ("peak_bytes").
    Ours may be off by the binning error that it states.
    """

    tolerance = 1e-9

    def __init__(self, problem: FileProblem, program: str) -> None:
        self.problem, self.name = problem, program
        self._command = [sys.executable, *PROGRAMS[program], *problem.files]
        if problem.rows > DEFAULT_MAX_ROWS and program not in row_peers.PEERS:
            self._command.append(f"--max-rows={problem.rows}")

    def play(self) -> Played:
        """Run it once. `EvaluationError`: it has failed."""
        command = [sys.executable, "-I", "-S", _CHILD, *self._command]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")  # noqa: S603 - our own
        if done.returncode:
            raise EvaluationError(f"{self.name} failed: {(done.stderr or done.stdout).strip()[-500:]}")
        costs = json.loads(done.stdout)
        answer = json.loads(costs.pop("stdout"))
        self.tolerance = type(self).tolerance + answer.get("binning_error", 0.0)
        return Played(answer["auc"], costs)
