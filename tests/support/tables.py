"""Files with a table, of each kind that is read."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import feather, parquet

from fhe_auc.question.analysis import Questions
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import read_for


def read_parties(paths: Any, *, score_column: str = "y_score", **how: Any) -> list[PartyData]:
    """Read the parties' rows of one model."""
    return read_for(Questions(score_columns=(score_column,)), paths, **how)[0]


def write_lines(name: str, *lines: str, encoding: str = "utf-8") -> str:
    Path(name).write_text("\n".join(lines) + "\n", encoding=encoding)
    return name


def write_table(name: str, **columns: Any) -> str:
    """Write columns into a file of the kind that its suffix says; its name may be of any bytes."""
    with Path(name).open("wb") as file:
        if name.lower().endswith(".npz"):
            np.savez(file, **columns)
        elif name.lower().endswith(".parquet"):
            parquet.write_table(pa.table(columns), file)
        elif name.endswith(".feather"):
            feather.write_feather(pa.table(columns), file)
        else:
            rows = zip(*columns.values(), strict=True)
            text = "".join(",".join(map(str, row)) + "\n" for row in (columns, *rows)).encode()
            file.write(gzip.compress(text) if name.endswith(".gz") else text)
    return name
