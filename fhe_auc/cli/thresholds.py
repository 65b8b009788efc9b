"""``fhe-auc thresholds``: find quantile bin edges by a session of their own, and write them to a file."""

import time
from pathlib import Path
from typing import Any

from fhe_auc.api import federated_thresholds
from fhe_auc.base import quantities
from fhe_auc.base.errors import InputError
from fhe_auc.base.options import check_names
from fhe_auc.cli import inputs, output
from fhe_auc.question import thresholds as grids
from fhe_auc.rows.default_thresholds import LEAST_OWN_ROWS, of_scores
from fhe_auc.session import registry
from fhe_auc.session.protocol import DEFAULT_PROTOCOL, Setup


@inputs.command(
    "fhe-auc thresholds north.csv south.csv west.csv --out edges.txt",
    "fhe-auc thresholds *.csv --protocol boundaries-distributed-dp -o epsilon=1 --out e.txt",
    "fhe-auc thresholds north.csv --own-rows --out edges.txt",
    "fhe-auc evaluate *.csv --thresholds edges.txt",
)
@inputs.party_files
@inputs.option("--own-rows", "Without a session, from these rows alone: docs/guide/study.md.")
@inputs.whole_number("--bins", 2, about="How many. Default: 200, or what shares of noise allow.")
@inputs.option("--protocol NAME", "See `fhe-auc protocols`.", default="boundaries-federated")
@inputs.protocol_options
@inputs.setup_options
@inputs.out_file_options("A .txt or .csv file.")
@output.json_option
def thresholds(
    files: inputs.PartyFiles,
    own_rows: bool,
    bins: int | None,
    protocol: str,
    options: dict[str, Any],
    out: Path,
    force: bool,
    setup: Setup,
    as_json: bool,
) -> None:
    """Find bin edges between which about equally many rows of all parties lie.

    The parties count their rows in cells of scores, labels left out, and learn the sums; scores must lie in [0, 1].
    `--thresholds quantile:N` of other commands does the same for one evaluation; with the file, several can use the
    same bin edges. There are fewer where many rows have one score. With --own-rows scores may be any numbers, and those
    that ten rows have get bins of their own; all sites see these edges: no --epsilon covers that.
    """
    grids.check_savable(out)
    inputs.check_out_file(out, force=force)
    possible = registry.finding(protocol).options
    check_names(possible, protocol, options)
    if "bins" in options:
        raise InputError("bins is given with --bins, not with -o")
    if bins is None:
        bins = 200 if possible.known["bins"].default is None else 0
    parties = files.read()
    if own_rows:
        rows = sum(data.rows for data in parties)
        if rows < LEAST_OWN_ROWS:
            raise InputError(f"--own-rows takes {LEAST_OWN_ROWS} rows at least, got {rows}: bin edges tell of few")
        named = registry.evaluating(DEFAULT_PROTOCOL).options.default_thresholds
        grid, how = of_scores([data.y_score for data in parties], named)
        grids.save(out, grid)
        output.print_json({"file": str(out), "grid": how}) if as_json else output.print_text(f"{how}, in {out}")
        return
    started = time.perf_counter()
    with output.progress("Keys and parties") as report:
        found = federated_thresholds(
            parties,
            bins,
            protocol=protocol,
            progress=report,
            keys=setup.keys,
            backend=setup.backend,
            max_rows=setup.max_rows,
            **options,
        )
    grids.save(out, found.grid)
    if as_json:
        about = {"protocol": found.protocol, "parties": found.parties, "keys": found.keys, "rounds": found.rounds}
        cost = {"sent": found.upload_bytes_per_party, "received": found.download_bytes_per_party}
        told = {"settings": dict(found.settings), "warnings": list(found.warnings)}
        output.print_json({"file": str(out), "thresholds": found.grid.tolist(), **about, **cost, **told})
        return
    spent = "the privacy budget of a row, spent by this session: those of sessions on the same rows add up"
    epsilon = [("epsilon", f"{found.settings['epsilon']:g}", spent)] if "epsilon" in found.settings else []
    output.print_table(
        [
            ("bin edges", f"{len(found.grid):,}", f"from {found.grid[0]:g} to {found.grid[-1]:g}, in {out}"),
            *epsilon,
            ("parties", f"{found.parties:,}", ""),
            ("protocol", found.protocol, f"it assumes: {registry.load(found.protocol).trust}"),
            ("a party sent", quantities.bytes_text(found.upload_bytes_per_party), f"{found.rounds} rounds"),
            ("whole session", quantities.seconds_text(time.perf_counter() - started), "all roles in this process"),
        ]
    )
    output.print_warnings(found.warnings)
