"""Files of real writers are known by their first bytes."""

import bz2
import gzip
import io
import lzma
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, orc, parquet

from fhe_auc.base.file_kinds import LOOK, TEXT, kind_of

TABLE = pa.table({"y_true": [1, 0], "y_score": [0.5, 0.25]})


def _database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table rows (y_true, y_score)")
    connection.close()


def _duckdb(path: Path) -> None:
    import duckdb

    duckdb.connect(str(path)).close()


def _newer_duckdb(path: Path) -> None:
    """As DuckDB 2.0.1 begins one: its version of the format is 999."""
    path.write_bytes(bytes.fromhex("8f48304d8c8ddbd9") + b"DUCK" + (999).to_bytes(8, "little") + bytes(32))


def _workbook(path: Path) -> None:
    import openpyxl

    openpyxl.Workbook().save(path)


def _statistics(kind: str, **how: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import pandas
        import pyreadstat

        getattr(pyreadstat, f"write_{kind}")(pandas.DataFrame({"y_score": [0.5, 0.25]}), str(path), **how)

    return write


@pytest.mark.parametrize(
    ("write", "name", "suffix"),
    [
        (lambda path: parquet.write_table(TABLE, path), "a Parquet file", ".parquet"),
        (lambda path: parquet.write_table(TABLE.slice(0, 0), path), "a Parquet file", ".parquet"),
        (lambda path: feather.write_feather(TABLE, path), "a Feather file", ".feather"),
        (lambda path: orc.write_table(TABLE, path), "a binary file", ""),
        (lambda path: np.savez(path.open("wb"), y_true=[1]), "an archive of NumPy's", ".npz"),
        (lambda path: np.savez_compressed(path.open("wb"), y_true=[1]), "an archive of NumPy's", ".npz"),
        (lambda path: np.save(path.open("wb"), [1]), "a binary file", ""),
        (lambda path: path.write_bytes(pickle.dumps([1])), "a binary file", ""),
        (lambda path: path.write_bytes(gzip.compress(b"")), "a file compressed by gzip", ".csv.gz"),
        (lambda path: path.write_bytes(bz2.compress(b"a")), "a compressed file", ""),
        (lambda path: path.write_bytes(lzma.compress(b"a")), "a compressed file", ""),
        (lambda path: path.write_bytes(pa.compress(b"a", "zstd", asbytes=True)), "a compressed file", ""),
        (_database, "an SQLite database", ""),
        (_duckdb, "a DuckDB database", ""),
        (_newer_duckdb, "a DuckDB database", ""),
        (_workbook, "an Excel workbook", ".xlsx"),
        (_statistics("sav"), "an SPSS file", ".sav"),
        (_statistics("sav", compress=True), "an SPSS file", ".zsav"),
        (_statistics("dta"), "a Stata file", ".dta"),
        (_statistics("dta", version=10), "a Stata file", ".dta"),
        (_statistics("xport"), "a SAS transport file", ".xpt"),
        (_statistics("xport", file_format_version=8), "a SAS transport file", ".xpt"),
    ],
)
def test_what_a_library_writes_is_named_and_so_is_the_suffix(
    write: Callable[[Path], Any], name: str, suffix: str, tmp_path: Path
) -> None:
    write(tmp_path / "file")
    kind = kind_of((tmp_path / "file").read_bytes()[:LOOK])
    assert kind.name == name
    assert suffix in kind.suffixes if suffix else not kind.suffixes
    assert kind.told.startswith(f"it is {name}: ")
    assert not kind.encoding


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "text",
    [
        "y_true,y_score\n1,0.5\n",
        "Ā;b\r\n1;2\r\n",
        "Ψηφίο\tΩμέγα\n",
        "年齢,性別\n1,2\n",
        "a" + ",b" * 9999,
        "年齢|😀\r\n",
    ],
)
def test_text_of_two_or_four_bytes_a_character_is_known_without_a_mark(encoding: str, text: str) -> None:
    assert kind_of(text.encode(encoding)[:LOOK]).encoding == encoding
    assert kind_of(("\ufeff" + text).encode(encoding)[:LOOK]).encoding == encoding[:6]


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1252", "shift-jis", "gb18030", "cp037", "koi8-r"])
def test_other_text_is_text_in_any_encoding(encoding: str) -> None:
    for text in ("y_true,y_score\n1,0.5\n", "Ψηφίο;Ωμέγα\n", "größe,x\n", "年齢,x\n", "", "a\0,b\n" + 9 * "1,0.5\n"):
        assert kind_of(text.encode(encoding, "ignore")) == TEXT


def test_entries_that_are_a_zero_byte_make_no_other_encoding() -> None:
    for times in (1, 2, 50):
        assert "--encoding" not in kind_of(b"a,b,c\n1,\0,3\n\0,\0,2\n" * times).told


def test_half_a_file_is_what_the_whole_is() -> None:
    data = io.BytesIO()
    parquet.write_table(TABLE, data)
    for whole in (data.getvalue(), gzip.compress(b"text"), "y_true,y_score\n".encode("utf-16-le")):
        assert kind_of(whole[: len(whole) // 2]) == kind_of(whole)
