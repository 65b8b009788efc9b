"""JSON lines; and folders and patterns of Parquet files, which are one party."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Questions
from fhe_auc.rows.csv_files import TextFormat
from fhe_auc.rows.party_files import FileEntries, read_for
from tests.support.tables import read_parties, write_lines, write_table


def lines_of(**columns: list[Any]) -> list[str]:
    return [json.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]


def scores(path: str, **how: Any) -> list[float]:
    (party,) = read_parties(path, **how)
    return party.y_score.tolist()


def test_json_lines_are_rows_whatever_their_compression_encoding_and_blank_lines(folder: Path) -> None:
    random = np.random.default_rng(1).random(100)
    lines = lines_of(y_true=[0, 1] * 50, y_score=random.tolist(), stadt=["Köln", "Ulm"] * 50)
    text = "\r\n\n".join(["", *lines, ""])
    Path("a.jsonl").write_text(text, encoding="utf-8-sig")
    Path("b.ndjson.gz").write_bytes(gzip.compress(text.encode()))
    Path("c.ndjson").write_text(text.replace("\\u00f6", "ö"), encoding="utf-16")
    for file in ("a.jsonl", "b.ndjson.gz", "c.ndjson"):
        entries = FileEntries(form=TextFormat(encoding="utf-16" if file == "c.ndjson" else "utf-8"))
        parties = read_parties(file, site_column="stadt", entries=entries)
        assert [party.name for party in parties] == ["Köln", "Ulm"]
        assert parties[1].y_score.tolist() == random[1::2].tolist()
        assert read_parties(file, entries=entries)[0].name == file[0]


def test_what_an_object_lacks_is_missing_as_null_and_nan_are_and_named_with_its_line(folder: Path) -> None:
    for entry in ('"y_score": null', '"y_score": NaN', '"note": ":"'):
        write_lines(
            "a.jsonl", '{"y_true": 1, "y_score": 0.5}', "", f'{{"y_true": 0, {entry}}}', '{"y_true": 0, "y_score": 1}'
        )
        with pytest.raises(
            InputError, match=r"^party 'a', a\.jsonl, line 3, column 'y_score': score is missing"
        ) as told:
            scores("a.jsonl")
        assert told.value.line == 3
        assert scores("a.jsonl", entries=FileEntries(drop_missing=True)) == [0.5, 1.0]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"y_true": 1, "y_score": [0.5]}', "line 2, column 'y_score': there is more than one text or number"),
        ('{"y_true": {"a": 1}, "y_score": 0.5}', "line 2, column 'y_true': there is more than one text or number"),
        ('{"y_true": 1, "y_score": 0.5, "y_score": 0.6}', "line 2: the object has one name twice"),
        ('{"y_true": 1, "y_score": 0.5', "line 2: it is not one JSON object, as each line is to be"),
        ("7", "line 2: it is not one JSON object, as each line is to be"),
        ('[{"y_true": 1, "y_score": 0.5}]', r"line 2: it is not one JSON object, .*; of an array .* jq -c"),
        ('{"y_true": 1, "y_score": "0.5x"}', "line 2, column 'y_score': score is '0.5x', which is not a number"),
        ('{"y_true": 1, "y_score": 9007199254740993}', "line 2, column 'y_score': score is 9007199254740993, which"),
        ('{"y_true": 1, "y_score": 1e999}', "line 2, column 'y_score': score is inf; scores must be finite"),
    ],
)
def test_other_lines_are_refused_with_their_number(folder: Path, line: str, told: str) -> None:
    write_lines("a.jsonl", '{"y_true": 0, "y_score": 0.5}', line)
    with pytest.raises(InputError, match=rf"{told}") as error:
        scores("a.jsonl")
    assert (error.value.file, error.value.line) == ("a.jsonl", 2)


def test_columns_of_objects_are_found_as_those_of_tables(folder: Path) -> None:
    write_lines("a.jsonl", '{"y_true": 0}', '{"y_true": 1, " risk ": 0.5}', '{"y_true": 0, " risk ": 0.25}')
    entries = FileEntries(drop_missing=True)
    assert scores("a.jsonl", score_column="risk", entries=entries) == [0.5, 0.25]
    with pytest.raises(InputError, match=r"^file 'a\.jsonl': there is no column 'age' \(there are: y_true, risk\)"):
        scores("a.jsonl", score_column="age")
    Path("a.jsonl").write_text("")
    with pytest.raises(InputError, match="there are no rows"):
        scores("a.jsonl")


SIZES = (30, 0, 20)


def split(folder: str, **more: list[Any]) -> dict[str, Any]:
    """Write a table as several files, `part-0.parquet` and so on, and return it whole."""
    random = np.random.default_rng(2)
    whole = {"y_true": random.integers(0, 2, 50), "y_score": random.random(50), **more}
    Path(folder).mkdir(parents=True)
    start = 0
    for number, size in enumerate(SIZES):
        own = {name: entries[start : start + size] for name, entries in whole.items()}
        parquet.write_table(pa.table(own), f"{folder}/part-{number}.parquet")
        start += size
    return whole


@pytest.mark.parametrize("path", ["scores", "scores/", "scores/*.parquet", "./sc*/part-[0-9].parquet"])
def test_a_folder_or_a_pattern_of_parquet_files_is_one_party_in_order(folder: Path, path: str) -> None:
    whole = split("scores")
    Path("scores/_SUCCESS").touch()
    Path("scores/.part-0.parquet.crc").touch()
    (party,) = read_parties(path)
    assert party.name == (folder.name if "./" in path else "scores")
    assert party.y_score.tolist() == whole["y_score"].tolist()
    assert party.y_true.tolist() == whole["y_true"].astype(bool).tolist()


def test_a_folder_that_spark_has_written_as_a_file_is_called_as_one(folder: Path) -> None:
    split("north.parquet")
    os.chdir("north.parquet")
    assert [party.name for party in read_parties(".")] == ["north"]


def test_folders_of_a_hive_are_columns_of_text(folder: Path) -> None:
    for site, year in (("a%20b", "007"), ("7", "008"), ("__HIVE_DEFAULT_PARTITION__", "008")):
        split(f"scores/site={site}/year={year}")
    parties = read_parties("scores", site_column="year")
    assert [(party.name, party.rows) for party in parties] == [("008", 100), ("007", 50)]
    parties, analysis = read_for(
        Questions(score_columns=("y_score",), by={"site": ()}), "scores", entries=FileEntries(drop_missing=True)
    )
    assert analysis.by[0].levels == ("7", "a b")
    assert [party.rows for party in parties] == [100]


def test_the_column_of_a_file_goes_before_that_of_its_folder(folder: Path) -> None:
    split("scores/site=x", site=["a", "b"] * 25)
    assert [party.name for party in read_parties("scores", site_column="site")] == ["a", "b"]


def test_a_row_is_named_by_its_file_and_so_is_a_file_with_other_columns(folder: Path) -> None:
    split("scores")
    write_table("scores/part-3.parquet", y_true=[1, 0], y_score=[0.5, None])
    with pytest.raises(
        InputError, match=r"^party 'scores', scores/part-3\.parquet, row 1, column 'y_score': score is mis"
    ):
        read_parties("scores")
    write_table("scores/part-3.parquet", y_true=[1, 0], risk=[0.5, 0.25])
    with pytest.raises(InputError, match=r"^file 'scores/part-3\.parquet': there is no column 'y_score'"):
        read_parties("scores")
    Path("scores/part-3.parquet").write_bytes(b"PAR1\x15\x04\x15")
    with pytest.raises(InputError, match=r"^file 'scores/part-3\.parquet' cannot be read"):
        read_parties("scores")


def test_other_files_beside_parquet_files_are_refused(folder: Path) -> None:
    split("scores")
    write_table("scores/more.csv", y_true=[1, 0], y_score=[0.5, 0.25])
    which = r"may hold rows of it, or not: name the files that do by a pattern, as 'scores/\[!_\]\*\.parquet'$"
    with pytest.raises(InputError, match=rf"^file 'scores': 'scores/more\.csv' {which}"):
        read_parties("scores")
    assert read_parties("scores/*.parquet")[0].rows == 50
    Path("scores/more.csv").unlink()
    Path("scores/_part").mkdir()
    for other in ("scores/_north.parquet", "scores/_part/a.parquet"):  # others leave it out without a word
        write_table(other, y_true=[1, 0], y_score=[0.5, 0.25])
        with pytest.raises(InputError, match=rf"^file 'scores': '{other}' {which}"):
            read_parties("scores")
        assert read_parties("scores/[!_]*.parquet")[0].rows == 50
        Path(other).unlink()
    Path("scores/_delta_log").mkdir()
    Path("scores/_delta_log/0.json").touch()  # it tells which rows of the files are deleted
    with pytest.raises(InputError, match=rf"^file 'scores': 'scores/_delta_log/0.json' {which}"):
        read_parties("scores")


def test_a_folder_and_a_file_in_it_are_given_twice(folder: Path) -> None:
    split("scores")
    os.link("scores/part-0.parquet", "link.parquet")
    for other in ("scores/part-0.parquet", "scores/*.parquet", "link.parquet", "scores"):
        with pytest.raises(InputError, match="is given twice"):
            read_parties(["scores", other])


def test_other_folders_and_patterns_are_no_tables(folder: Path) -> None:
    Path("texts").mkdir()
    write_table("texts/a.csv", y_true=[1, 0], y_score=[0.5, 0.25])
    with pytest.raises(InputError, match=r"^file 'texts' is a folder: name the files in it$"):
        read_parties("texts")
    for pattern in ("texts/*.csv", "none/*.parquet"):
        with pytest.raises(InputError, match=r"\*\.\w+' does not exist; a pattern is for Parquet files, other files"):
            read_parties(pattern)
    write_table("a[1].parquet", y_true=[1, 0], y_score=[0.5, 0.25])  # a name that looks like a pattern
    assert [party.name for party in read_parties("a[1].parquet")] == ["a[1]"]


def test_members_of_npz_that_are_no_arrays_are_told(folder: Path) -> None:
    import zipfile

    with zipfile.ZipFile("a.npz", "w") as archive:
        archive.writestr("y_true.npy", b"1 0")
        archive.writestr("y_score.npy", b"0.9 0.1")
    with pytest.raises(InputError, match=r"^file 'a\.npz': column 'y_true' must be one-dimensional, but is no array"):
        read_parties("a.npz")
