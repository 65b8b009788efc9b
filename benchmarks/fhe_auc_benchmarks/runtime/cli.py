"""``fhe-auc benchmark``: measure, on this machine, what the tables in the documents say."""

from __future__ import annotations

from pathlib import Path

import click

from fhe_auc.cli import output
from fhe_auc.errors import InputError
from fhe_auc.extras import require
from fhe_auc.files import write_atomically

_TABLE, _EVERYTHING, _SUMMARY = "benchmark.csv", "benchmark.json", "benchmark.md"


@click.command(
    epilog=output.examples(
        "fhe-auc benchmark --quick                  about four minutes of CPU time",
        "fhe-auc benchmark --out results            more runs, and the slow peers with 1,000 parties too",
        "fhe-auc benchmark --quick --json | jq .ratios",
    )
)
@click.option("--quick", is_flag=True, help="Fewer runs, fewer parties for the slowest peers.")
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("benchmark"),
    help="Where tables, figures and the summary go; made if it is not there.",
)
@output.json_option
def benchmark(quick: bool, folder: Path, as_json: bool) -> None:
    """Measure what an aggregation costs, beside its peers.

    Peers: the published design rebuilt on OpenFHE; the mere sum of ciphertexts; the counts in the clear; scikit-learn
    on the pooled rows; Paillier sums, where phe is installed. All are run here, in turns, and every AUC is checked.
    Rows are made up. Saves a table (CSV), everything (JSON), figures (PNG) and a summary (Markdown).
    """
    require("benchmark")
    from threadpoolctl import threadpool_limits

    from fhe_auc_benchmarks.runtime import figures, machine, padded_sketches, summary
    from fhe_auc_benchmarks.runtime.benchmark import Benchmark

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _SUMMARY).open("ab").close()
    except OSError as error:
        raise InputError(f"folder {str(folder)!r} cannot be written to: {error.strerror}; choose another") from None
    facts, measured = machine.facts(), Benchmark(quick=quick)
    with threadpool_limits(limits=1), output.progress("Measuring", unit="percent", time_left=True) as report:
        measured.run(report)
    summary.save_csv(folder / _TABLE, measured)
    summary.save_json(folder / _EVERYTHING, measured, facts)
    write_atomically(folder / _SUMMARY, summary.markdown(measured, facts).encode())
    saved = figures.save_all(folder, measured)
    if as_json:
        output.print_json(
            {
                "machine": facts,
                "quick": quick,
                "ratios": summary.ratios(measured),
                "padded_sketches": padded_sketches.as_dict(measured),
                "folder": str(folder),
            }
        )
    else:
        output.print_table(
            [(name, f"{ratio:.2f}", "") for name, ratio in summary.ratios(measured).items()],
            header=("same run, same machine, CPU time", "ratio", ""),
            numbers=1,
        )
        header, rows = padded_sketches.table(measured)
        output.print_table([(*row, "") for row in rows], header=(*header, ""), numbers=len(header) - 1)
    names = ", ".join((_TABLE, _EVERYTHING, _SUMMARY, *(path.name for path in saved)))
    output.print_line(f"saved in {folder}: {names}")
