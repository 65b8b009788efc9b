"""``fhe-auc benchmark``: measure, on this machine, what the tables in the documents say."""

from pathlib import Path
from typing import Any

import click
import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.base.extras import require
from fhe_auc.base.files import write_atomically
from fhe_auc.cli import output
from fhe_auc.figures.plot import save_figure

_EVERYTHING, _SUMMARY = "benchmark.json", "benchmark.md"


@click.command(
    epilog=output.examples(
        "fhe-auc benchmark --quick                  up to a million rows, 100 sites: some minutes",
        "fhe-auc benchmark --out results            up to 10,000,000 rows, 10,000 sites",
        "fhe-auc benchmark --quick --json | jq .measurements",
    )
)
@click.option("--quick", is_flag=True, help="Up to a million rows, and 100 sites.")
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("benchmark"),
    help="Where measurements, figures and summary go; made if it is not there.",
)
@output.json_option
def benchmark(quick: bool, folder: Path, as_json: bool) -> None:
    """Measure what an evaluation costs every role, and beside its peers.

    Whole commands: evaluate on three files of rows, beside scikit-learn and DuckDB on the same files (not on Windows).
    Then what each role has of it: sessions of verified against the number of sites, with sealed keys and a helper; and
    of other protocols. All run here, and every AUC is checked. Rows are made up.

    What DIR has of earlier runs stays, and all runs together give ranges: run it at quiet and at busy hours. Saves
    everything (JSON) and a summary (Markdown), after each step, and two figures (PNG).
    """
    require("benchmark")
    from threadpoolctl import threadpool_limits

    from fhe_auc_benchmarks.runtime import summary
    from fhe_auc_benchmarks.runtime.benchmark import Benchmark, Measurement, machine_facts

    everything = folder / _EVERYTHING
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _SUMMARY).open("ab").close()
        earlier: dict[str, Any] = {"machines": [], "measurements": []}
        if everything.exists():
            earlier = msgspec.json.decode(everything.read_bytes())
        measured = Benchmark(quick, msgspec.convert(earlier["measurements"], list[Measurement]))
    except OSError as error:
        raise InputError(f"folder {str(folder)!r} cannot be written to: {error.strerror}; choose another") from None
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError):
        raise InputError(f"{str(everything)!r} is of no benchmark; choose another folder") from None
    machines = [*earlier["machines"], machine_facts()]

    def found() -> dict[str, Any]:
        return {"machines": machines, "measurements": msgspec.to_builtins(measured.measurements)}

    def keep() -> None:
        write_atomically(everything, msgspec.json.format(msgspec.json.encode(found())) + b"\n")
        write_atomically(folder / _SUMMARY, summary.markdown(measured.measurements, machines).encode())

    with threadpool_limits(limits=1), output.progress("Measuring", unit="percent", time_left=True) as report:
        measured.run(report, keep)
    figures = summary.figures(measured.measurements)
    for name, figure in figures.items():
        save_figure(figure, folder / name)
    if as_json:
        output.print_json(found())
    else:
        for title, (header, rows) in summary.tables(measured.measurements).items():
            output.print_text(f"\n{title}\n")
            output.print_table([(*row, "") for row in rows], header=(*header, ""), numbers=len(header) - 1)
    output.print_line(f"saved in {folder}: {_EVERYTHING}, {_SUMMARY}, {', '.join(figures)}")
