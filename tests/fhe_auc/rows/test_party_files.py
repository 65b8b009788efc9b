"""Files become parties, and whatever is wrong with a file is said with its name, row and value."""

import csv
import io
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.question import thresholds
from fhe_auc.rows import csv_files
from fhe_auc.rows.csv_files import TextFormat
from fhe_auc.rows.own_checks import check_scores
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import FileEntries
from fhe_auc.rows.quotes import QuoteError, Quotes
from tests.support.tables import read_parties, write_table
from tests.support.tables import write_lines as write


def plain(parties: list[PartyData]) -> dict[str, tuple[list[int], list[float]]]:
    return {party.name: (party.y_true.astype(int).tolist(), party.y_score.tolist()) for party in parties}


@pytest.mark.parametrize(
    ("lines", "columns", "told"),
    [
        ([], {"label_column": "x", "score_column": "x"}, "must differ, but 'x' is there twice"),
        (["y_true,y_score, y_score", "1,0.5,0.6"], {}, r"^file 'a\.csv': column 'y_score' is there 2 times"),
        (["y_true,y_score"], {}, r"^file 'a\.csv': there are no rows"),
        (["y_true,y_score,site"], {"site_column": "site"}, r"^file 'a\.csv': there are no rows"),
        (["y_true,y_score", "1,0.5", "", "1,0,5"], {}, r"^file 'a\.csv': line 4: 3 columns, and the header has 2$"),
        (["y_true,y_score", "1,0.5", "1"], {}, r"line 3: 1 column, and the header has 2$"),
        (["y_true,y_score", "1,0,5", "1,0.5"], {}, r"line 2: 3 .*; --delimiter says what stands between columns$"),
        (["name,y_true,y_score", "Jane,1,0.9", "Roe, John,0,0.1"], {}, r"line 3: 4 columns, and the header has 3$"),
    ],
)
def test_tables_that_cannot_be_are_refused_and_no_line_of_them_quoted(
    folder: Path, lines: list[str], columns: dict[str, str], told: str
) -> None:
    with pytest.raises(InputError, match=told) as refused:
        read_parties([write("a.csv", *lines)], **columns)
    line = re.search(r"line (\d+): ", str(refused.value))
    assert refused.value.line == (int(line[1]) if line else None)
    assert refused.value.file == (None if "differ" in told else "a.csv")
    assert "John" not in str(refused.value)


def test_no_files_and_files_of_one_array_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="no files given"):
        read_parties([])
    with Path("a.npz").open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(InputError, match=r"file 'a\.npz': it is one array, not named columns"):
        read_parties(["a.npz"])


@pytest.mark.parametrize("name", ["bad.csv", "bad.parquet", "bad.npz"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01" * 20, b"PK\x03\x04 not really", b"PAR1PAR1"])
def test_a_damaged_file_is_named_on_one_line(folder: Path, name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    with pytest.raises(InputError, match=f"^file '{name}'") as caught:
        read_parties([name])
    assert "\n" not in str(caught.value)


def test_what_does_not_exist_is_a_folder_or_has_an_unknown_suffix_is_not_a_table(folder: Path) -> None:
    for suffix in ("csv", "parquet", "npz"):
        with pytest.raises(InputError, match=f"^file 'none.{suffix}' does not exist$"):
            read_parties([f"none.{suffix}"])
        Path(f"folder.{suffix}").mkdir()
        with pytest.raises(InputError, match=f"^file 'folder.{suffix}' is a folder: name the files in it$"):
            read_parties([f"folder.{suffix}"])
    for name in ("rows.ppt", "rows", "rows.gz"):
        Path(name).touch()
        with pytest.raises(
            InputError, match=rf"file '{name}': unknown suffix .*; known are \.csv, .*\.parquet, .*\.npz"
        ):
            read_parties([name])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "feather", "npz"])
@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFSOCK])
def test_what_is_no_plain_file_is_refused_and_not_waited_for(folder: Path, suffix: str, kind: int) -> None:
    os.mknod(f"a.{suffix}", kind | 0o600)
    with pytest.raises(InputError, match=rf"^file 'a\.{suffix}' is a pipe, a device or a socket: give a plain file"):
        read_parties([f"a.{suffix}"])
    Path("null.csv").symlink_to("/dev/null")
    with pytest.raises(InputError, match=r"^file 'null\.csv' is a pipe, a device"):
        read_parties(["null.csv"])


@pytest.mark.skipif(os.name == "nt", reason="names of files are Unicode there")
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "feather", "npz"])
def test_the_name_of_a_file_may_be_of_any_bytes_where_no_party_is_called_so(folder: Path, suffix: str) -> None:
    file = write_table(
        os.fsdecode(b"K\xf6ln.") + suffix, y_true=[1, 0, 1], y_score=[0.5, 0.25, 0.75], site=["x", "x", "y"]
    )
    assert plain(read_parties([file], site_column="site")) == {"x": ([1, 0], [0.5, 0.25]), "y": ([1], [0.75])}
    with pytest.raises(InputError, match=r"its name is not UTF-8, .* rename the file, or name the parties in a site"):
        read_parties([file])


def test_a_score_out_of_range_is_named_by_its_line_whatever_else_was_read(folder: Path) -> None:
    """Rows are counted within their party, and lines in the file: with sites, and rows left out, these differ."""
    first = write("a.csv", "site,y_true,y_score", "north,1,0.5", "south,,0.6", "south,0,0.25")
    second = write("b.csv", "site,y_true,y_score", "north,0,0.5", "", "south,1,0.5", "north,1,0.25", "south,1,7.5")
    entries = FileEntries(drop_missing=True)
    north, south = read_parties([first, second], site_column="site", entries=entries)
    check_scores(north, thresholds.parse("uniform:5"))
    with pytest.raises(InputError, match=r"^party 'south', b\.csv, line 6, column 'y_score': score is 7\.5") as told:
        check_scores(south, thresholds.parse("uniform:5"))
    assert (told.value.file, told.value.line, told.value.column) == ("b.csv", 6, "y_score")
    write("b.csv", "site,y_true,y_score", "north,0,0.5")
    with pytest.raises(InputError, match="'south': its files have changed"):
        check_scores(south, thresholds.parse("uniform:5"))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_a_missing_column_is_refused_with_those_there_are(folder: Path, suffix: str) -> None:
    file = write_table(f"a.{suffix}", label=[1], score=[0.5])
    there = rf"^file '{file}': there is no column '%s' \(there are: label, score\)%s$"
    with pytest.raises(InputError, match=there % ("y_true", "; --label-column names the right one")):
        read_parties([file])
    with pytest.raises(InputError, match=there % ("site", "")):
        read_parties([file], site_column="site", label_column="label", score_column="score")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("1,  ", "score is missing"),
        (",0.5", "label is missing"),
        ("1,abc", "score is 'abc', which is not a number"),
        ("1,1_000", "score is '1_000', which is not a number"),
        ("yes,0.5", "label is 'yes'; the 3 labels are '0', '1', 'yes': three classes .* --classes"),
        ("1,1e400", "score is inf; scores must be finite"),
        ("2,0.5", "label is '2'; the 3 labels"),
        ("NaN,0.5", "label is missing"),
    ],
)
def test_a_bad_csv_entry_is_named_with_party_row_file_and_value(folder: Path, line: str, shown: str) -> None:
    with pytest.raises(InputError, match=rf"^party 'a', a\.csv, line 4, column '(y_true|y_score)': {shown}"):
        read_parties([write("a.csv", "y_true,y_score", "1,0.5", "0,0.25", line, "0,0.75")])


NO_ROWS = "file 'a.file': there are no rows"


@pytest.mark.parametrize(
    ("suffix", "y_true", "y_score", "shown"),
    [
        ("parquet", [0, None], [0.5, 0.6], "party 'a', a.file, row 1, column 'y_true': label is missing"),
        ("parquet", [0, 1], [0.5, None], "party 'a', a.file, row 1, column 'y_score': score is missing; --drop-m"),
        ("parquet", [0, 1], [0.5, np.nan], "party 'a', a.file, row 1, column 'y_score': score is missing"),
        ("parquet", [0, 3], [0.5, 0.6], "party 'a', a.file, row 1, column 'y_true': label is '3'; the labels are '0'"),
        ("parquet", [0, 1], ["0.5", "0x6"], "party 'a', a.file, row 1, .*: score is '0x6', which is not a number"),
        ("parquet", [0, 1], [[0.5], [0.6]], r"party 'a', a.file, row 0, .*: score is \[0.5\], which is not a num"),
        ("parquet", pa.array([], pa.int64()), pa.array([], pa.float64()), NO_ROWS),
        ("npz", [0, 5], [0.5, 0.6], "party 'a', a.file, row 1, column 'y_true': label is '5';"),
        ("npz", [0, 1], [0.5, np.inf], "party 'a', a.file, row 1, column 'y_score': score is inf;"),
        ("npz", [0, 1], ["0.5", "x"], "party 'a', a.file, row 1, .*: score is 'x', which is not a number"),
        ("npz", [0, 1], [0.5], "file 'a.file': the columns differ in length: y_true 2, y_score 1"),
        ("npz", [0, 1], [[0.5], [0.6]], r"file 'a.file': column 'y_score' .* one-dimensional, .* shape \(2, 1\)"),
        ("npz", [0, 1], np.array([0.5, None]), "file 'a.file': column 'y_score' cannot .* holds Python objects, "),
        ("npz", [], [], NO_ROWS),
    ],
)
def test_a_bad_entry_of_a_parquet_or_npz_file_is_named_with_party_row_file_and_value(
    folder: Path, suffix: str, y_true: Any, y_score: Any, shown: str
) -> None:
    file = write_table(f"a.{suffix}", y_true=y_true, y_score=y_score)
    with pytest.raises(InputError, match=f"^{shown.replace('a.file', file)}"):
        read_parties([file])


def test_files_of_one_name_are_named_by_their_folders_or_refused_and_so_is_a_file_given_twice(folder: Path) -> None:
    Path("sub").mkdir()
    files = [write(name, "y_true,y_score,site", "1,0.5,x") for name in ("north.csv", "sub/north.csv")]
    with pytest.raises(InputError, match=r"files 'north\.csv' and 'sub/north\.csv' both name a party 'north'; rename"):
        read_parties(files)
    Path("west").mkdir()
    files[0] = write("west/north.csv", "y_true,y_score", "0,0.25")  # the natural layout: a folder each
    assert plain(read_parties(files)) == {"west": ([0], [0.25]), "sub": ([1], [0.5])}
    os.link("north.csv", "b.csv")
    os.symlink("north.csv", "c.csv")
    for site in (None, "site"):
        for link in ("b.csv", "c.csv"):
            with pytest.raises(InputError, match=f"file '{link}' is given twice, also as 'north.csv', which would cou"):
                read_parties(["north.csv", link], site_column=site)
        with pytest.raises(InputError, match=r"north\.csv' is given twice"):
            read_parties(["north.csv", folder / "north.csv"], site_column=site)


def test_whole_numbers_are_one_site_and_one_label_as_pandas_writes_them_too(folder: Path) -> None:
    """It writes 1.0 for 1 where an entry of the column is missing."""
    first = write("a.csv", "site,y_true,y_score", "1,2,0.1", "2,1,0.2", "01,2,0.3", "1.50,1,0.4")
    second = write("b.csv", "site,y_true,y_score", "1.0,2.0,0.5", "2.0,1.0,0.6", ",2.0,0.7", "0.0,2.0,0.8")
    for positive in ("2", "2.0"):
        entries = FileEntries(positive_label=positive, drop_missing=True)
        assert plain(read_parties([first, second], site_column="site", entries=entries)) == {
            "1": ([1, 1], [0.1, 0.5]),
            "2": ([0, 0], [0.2, 0.6]),
            "01": ([1], [0.3]),
            "1.50": ([0], [0.4]),
            "0": ([1], [0.8]),
        }


def test_a_missing_site_is_named_with_its_row_and_blanks_around_a_name_do_not_count(folder: Path) -> None:
    for site in ("", "  ", '""'):
        with pytest.raises(InputError, match=r"^a\.csv, line 3, column 'site': the site is missing"):
            read_parties([write("a.csv", "site,y_true,y_score", "x,1,0.5", f"{site},1,0.5")], site_column="site")
    rows = {"y_true": [0, 1, 1], "y_score": [0.1, 0.8, 0.4]}
    file = write_table("a.parquet", site=["x", None, "x"], **rows)
    with pytest.raises(InputError, match=r"^a\.parquet, row 1, column 'site': the site is missing"):
        read_parties([file], site_column="site")
    with pytest.raises(InputError, match=r"row 1, column 'site': the site is missing"):
        read_parties([write_table("holes.npz", site=[1.0, np.nan, 2.0], **rows)], site_column="site")
    parties = read_parties([write_table("b.npz", site=["north", " north ", "south"], **rows)], site_column="site")
    assert [party.name for party in parties] == ["north", "south"]


def test_npz_sites_may_be_indices_into_names_and_an_index_that_has_none_is_refused(folder: Path) -> None:
    def read(sites: Any, names: Any) -> dict[str, tuple[list[int], list[float]]]:
        file = write_table("a.npz", site=sites, site_names=names, y_true=[0, 1, 1], y_score=[0.1, 0.2, 0.3])
        return plain(read_parties([file], site_column="site"))

    for names in (["x", "y"], [b"x", b"y"]):
        assert read(np.array([1, 0, 1], np.int16), names) == {"y": ([0, 1], [0.1, 0.3]), "x": ([1], [0.2])}
    for index in (-1, 2):
        with pytest.raises(InputError, match=rf"^file 'a\.npz' cannot be read: Index {index} out of bounds"):
            read([0, index, 0], ["x", "y"])
    with pytest.raises(InputError, match=r"^file 'a\.npz' cannot be read: Indices must be integer type"):
        read([0.0, 1.0, 1.0], ["x", "y"])


LABELS, SCORES = [0, 1, 1, 0], [0.125, 0.5, -3.0, 1e-9]


def test_each_file_is_a_party_named_by_its_stem(folder: Path) -> None:
    files: list[Any] = [write_table(name, y_true=LABELS, y_score=SCORES) for name in ("north.csv", "west.v2.npz")]
    files.append(Path(write_table("south.PARQUET", y_true=LABELS, y_score=SCORES)))
    assert plain(read_parties(files)) == dict.fromkeys(["north", "west.v2", "south"], (LABELS, SCORES))
    assert plain(read_parties("north.csv")) == {"north": (LABELS, SCORES)}


def test_csv_may_be_quoted_spaced_and_marked_with_usual_labels_and_scores_to_the_last_bit(folder: Path) -> None:
    lines = '"y_true", y_score ,"note, long"', '1, 0.5 ,"two', 'lines"', "", "0,+.25,x"
    file = write("a.csv", *lines, encoding="utf-8-sig")
    assert plain(read_parties([file])) == {"a": ([1, 0], [0.5, 0.25])}
    lines = [f"{label},0.5" for label in ("0", "1", "0.0", "1.0", "1e0", "True", "false", " TRUE ")]
    assert plain(read_parties([write("a.csv", "y_true,y_score", *lines)]))["a"][0] == [0, 1, 0, 1, 1, 1, 0, 1]
    scores = np.random.default_rng(1).random(200)
    file = write("a.csv", "y_true,y_score", *(f"1,{score!r}" for score in scores.tolist()))
    assert np.array_equal(read_parties([file])[0].y_score, scores)


def test_csv_is_read_across_the_blocks_of_the_reader(folder: Path) -> None:
    lines = [f"1,1.{'0' * 96}"] * 12_000  # more than one block of the CSV reader
    file = write("a.csv", "y_true,y_score", *lines, "0,0.5")
    assert read_parties([file])[0].y_score[-1] == 0.5
    with pytest.raises(InputError, match=r"b\.csv, line 12002, column 'y_score': score is 'x'"):
        read_parties([write("b.csv", "y_true,y_score", *lines, "0,x")])
    note = '"' + "\n" * 500 + '"'
    file = write("a.csv", "note,y_true,y_score", *[f"{note},1,0.5"] * 3000)
    assert len(read_parties([file])[0].y_score) == 3000


@pytest.mark.parametrize(
    ("labels", "scores", "sites"),
    [
        (pa.array([False, True]), pa.array([0.5, 0.25], pa.float32()), [10, 2]),
        (pa.array([0, 1], pa.int8()), pa.array(np.array([0.5, 0.25], dtype=np.float16)), ["10", "2"]),
        (pa.array([0.0, 1.0]), pa.array(["0.50", "0.25"]).cast(pa.decimal128(5, 2)), pa.array([10, 2], pa.int8())),
        (pa.array([0, 1]).dictionary_encode(), pa.array([0.5, 0.25]), pa.array(["10", "2"]).dictionary_encode()),
    ],
)
def test_parquet_columns_may_be_any_kind_of_number_and_sites_text_or_categories_too(
    folder: Path, labels: Any, scores: Any, sites: Any
) -> None:
    file = write_table("a.parquet", y_true=labels, y_score=scores, site=sites)
    assert plain(read_parties([file])) == {"a": ([0, 1], [0.5, 0.25])}
    assert plain(read_parties([file], site_column="site")) == {"10": ([0], [0.5]), "2": ([1], [0.25])}


def test_a_site_column_splits_files_into_parties_in_order_of_first_appearance(folder: Path) -> None:
    first = write("a.csv", "ward,label,risk", "007,1,0.5", "7,0,0.25", "NA,1,0.125", "007,0,0.75")
    second = write_table("b.parquet", ward=["east", "007"], label=[True, False], risk=[0.1, 0.2])
    third = write_table("c.npz", ward=[7, 8], label=[1, 0], risk=[0.6, 0.7])
    parties = read_parties([first, second, third], site_column="ward", label_column="label", score_column="risk")
    assert list(plain(parties).items()) == [
        ("007", ([1, 0, 0], [0.5, 0.75, 0.2])),
        ("7", ([0, 1], [0.25, 0.6])),
        ("NA", ([1], [0.125])),
        ("east", ([1], [0.1])),
        ("8", ([0], [0.7])),
    ]


def test_damaged_archives_are_refused_with_one_line_naming_the_file(tmp_path: Path) -> None:
    path = tmp_path / "site.npz"
    np.savez_compressed(path, y_true=np.array([0, 1] * 50), y_score=np.linspace(0, 1, 100))
    whole, refusals = path.read_bytes(), []
    for seed in range(40):
        damaged, generator = bytearray(whole), np.random.default_rng(seed)
        for place in generator.integers(0, len(damaged), 8):
            damaged[place] ^= 1 << generator.integers(8)
        path.write_bytes(damaged)
        try:
            read_parties([path])
        except InputError as error:
            refusals.append(str(error))
    assert len(refusals) > 20
    assert all("site.npz" in message and "\n" not in message for message in refusals)


def rows(number: int, **notes: str) -> list[str]:
    """Lines of a file: the header, and rows with notes, those of given rows (r1, ...) as they are to stand there."""
    return ["y_true,y_score,note,site"] + [
        f"{k % 2},{k % 10 / 10},{notes.get(f'r{k}', 'well')},north" for k in range(1, number + 1)
    ]


def scores_of(lines: list[str], encoding: str = "utf-8") -> list[float]:
    Path("a.csv").write_text("\n".join(lines) + "\n", encoding=encoding)
    (party,) = read_parties(["a.csv"], entries=FileEntries(form=TextFormat(encoding=encoding)))
    return party.y_score.tolist()


def refusal(lines: list[str], encoding: str = "utf-8") -> InputError:
    with pytest.raises(InputError) as caught:
        scores_of(lines, encoding)
    assert str(caught.value).startswith(f"file 'a.csv': line {caught.value.line}: a quote begins an entry there that ")
    assert "5'10" not in str(caught.value)
    assert caught.value.file == "a.csv"
    return caught.value


def test_a_quote_that_does_not_end_or_ends_where_another_entry_begins_is_refused_with_its_line(folder: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "windows-1252"):
        refused = refusal(rows(1000, r1="Größe", r100="\"height 5'10"), encoding)
        assert (refused.line, "does not end" in str(refused)) == (101, True)
    refused = refusal(rows(1000, r100="\"height 5'10", r900='"tall, well"'))
    assert (refused.line, "over 801 lines, with text behind" in str(refused)) == (101, True)


@pytest.mark.parametrize("last", [101, 102, 900])
@pytest.mark.parametrize("note", [2, 0], ids=["behind the score", "before the score"])
def test_rows_between_two_stray_quotes_are_refused(folder: Path, last: int, note: int) -> None:
    """To every reader of CSV this is one long note, in a file that is in order."""
    lines = rows(1000, **{"r100": "\"height 5'10", f"r{last}": "height 6'1\""})
    cells = [line.split(",") for line in lines]
    lines = [",".join([*cell[2 - note : 2], cell[2], *cell[: 2 - note], cell[3]]) for cell in cells]
    assert len(list(csv.reader(io.StringIO("\n".join(lines)), strict=True))) == 1001 - (last - 100)
    refused = refusal(lines)
    assert (refused.line, f"over {last - 99:,} lines, which look like rows" in str(refused)) == (101, True)


def test_quotes_within_entries_and_notes_of_several_lines_are_read(folder: Path) -> None:
    lines = rows(
        2000,
        r1="6'1\"",
        r2='a "b" c',
        r3='""',
        r4='"say ""A, B"""',
        r5='"two\nlines, and, more"',
        r6='"a list:\n1, 2, 3\n4, 5, 6\n\nand ""more"""',
        r7='"Fever\n1, high, more"',
        r8='""""',
        r9='"x" y',
        r10='"\n"',
        r2000='"end\n"',
    )
    assert scores_of(lines) == [k % 10 / 10 for k in range(1, 2001)]
    assert scores_of([*lines, '1,0.5,well,"north"']) == [*(k % 10 / 10 for k in range(1, 2001)), 0.5]


@pytest.mark.parametrize(("block", "longest"), [(1500, 1500), (1501, 1501), (1502, 2**22), (1503, 2**22), (4096, 4096)])
def test_where_blocks_end_is_no_matter(folder: Path, block: int, longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_BLOCK", block)
    monkeypatch.setattr(csv_files, "_LONGEST", longest)
    monkeypatch.setattr(csv_files, "_SMALL", block // 3)
    notes = ['"say ""A, B"""', '"a\nb"', "6'1\"", '""', '"c, d"', "well", '"\n\n"']
    random = np.random.default_rng(1)
    for every in (notes, ['"c, d"', '""', '""""']):  # these are the ones without lines, that are checked all at once
        lines = rows(600, **{f"r{k}": every[random.integers(len(every))] for k in range(1, 601)})
        assert scores_of(lines) == [k % 10 / 10 for k in range(1, 601)]
        quoted = [",".join(f'"{cell}"' for cell in line.split(",")) for line in rows(600)]
        assert scores_of(quoted) == [k % 10 / 10 for k in range(1, 601)]
        line = "\n".join([*lines, ""]).count("\n") + 1
        stray = rows(1, r1="\"height 5'10")[1]
        for after in (5, 500):  # the entry fits into a block, or does not
            assert refusal([*lines, stray, *rows(after)[1:]]).line == line


def test_a_row_may_exceed_a_block_and_nothing_is_read_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "_BLOCK", 1500)
    monkeypatch.setattr(csv_files, "_SMALL", 500)
    lines = rows(600, r300="long " * 2000, r301='"two\nlines"')
    assert scores_of(lines) == [k % 10 / 10 for k in range(1, 601)]
    lines[400] = lines[400].replace("0.", "x.")
    with pytest.raises(InputError, match="line 402, column 'y_score': score is 'x"):
        scores_of(lines)
    monkeypatch.setattr(csv_files, "_LONGEST_ROW", 1500)
    with pytest.raises(InputError, match=r"^file 'a\.csv': a row is longer than 1,500 bytes$"):
        scores_of(rows(600, r300="long " * 2000))


@pytest.mark.parametrize("end", range(1, 60))
def test_a_quote_within_an_entry_at_the_end_of_a_block_begins_none(end: int) -> None:
    text = b"y_true,height,note\r\n1,6'1\",\"well\r\n0,5'9,ill\r\n0,5'9,ill\r\n"
    quotes = Quotes(b",", 3, [0], float, 1000)
    with pytest.raises(QuoteError, match="that does not end") as caught:
        quotes.feed_all([text[:end], text[end:]])
    assert caught.value.offset == text.index(b'"well')
