"""Files as people have them: other delimiters, decimals, encodings, labels; compressed, piped, with gaps, large."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import CliRunner

from fhe_auc.base.errors import InputError
from fhe_auc.cli import main
from fhe_auc.question.analysis import Questions
from fhe_auc.rows import arrow_columns, csv_files, row_store
from fhe_auc.rows.csv_files import TextFormat
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import FileEntries, read_for
from tests.support import missing
from tests.support.platforms import full_disk, needs_limits
from tests.support.tables import read_parties, write_lines, write_table

LABELS, SCORES = [1, 0, 1, 0], [0.5, 0.25, 0.75, 0.125]
COLUMNS = {"label_column": "died", "score_column": "risk"}


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Put bytes into standard input."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setattr(csv_files, "_standard_input", cache(csv_files._standard_input.__wrapped__))

    return put


def table(*, between: str = ",", decimal: str = ".", names: tuple[str, str] = ("died", "risk")) -> str:
    rows = [between.join((str(y), str(s).replace(".", decimal))) for y, s in zip(LABELS, SCORES, strict=True)]
    return "\n".join([between.join(names), *rows, ""])


def read(file: str, **entries: object) -> tuple[list[int], list[float]]:
    (party,) = read_parties([file], **COLUMNS, entries=FileEntries(**entries))  # type: ignore[arg-type]
    return party.y_true.astype(int).tolist(), party.y_score.tolist()


def test_the_delimiter_is_the_one_that_gives_the_columns_or_the_one_that_is_given(folder: Path) -> None:
    for between in (",", ";", "\t", "|"):
        Path("a.csv").write_text(table(between=between))
        assert read("a.csv") == (LABELS, SCORES)
    Path("a.csv").write_text(table(between="~"))
    assert read("a.csv", form=TextFormat(delimiter="~")) == (LABELS, SCORES)
    with pytest.raises(InputError, match="there is no column 'died'"):
        read("a.csv")
    with pytest.raises(InputError, match="one ASCII character"):
        TextFormat(delimiter="ab")


@pytest.mark.parametrize("numbers", [["1,200", "950", "1,050"], ["900", "12,345"], ["1,000"]])
def test_a_comma_that_may_part_thousands_is_refused_with_both_meanings(folder: Path, numbers: list[str]) -> None:
    Path("a.csv").write_text("died,risk\n" + "".join(f'1,"{number}"\n' for number in numbers))
    first = next(number for number in numbers if "," in number)
    meanings = f"{first.replace(',', '')} or {first.replace(',', '.')}"
    with pytest.raises(InputError, match=f"'{first}' may be {meanings}: write numbers with a decimal point") as told:
        read("a.csv")
    assert "--decimal" not in str(told.value)


def test_decimal_commas_are_read_with_the_option_that_the_refusal_names(folder: Path) -> None:
    """A comma elsewhere in the column can show that all are decimal commas; a point beside them is none."""
    told = r"'0,5' has a decimal comma; say so with --decimal ,$"
    for text, scores in ((table(between=";", decimal=","), SCORES), ("died;risk\n1;1,000\n0;0,5\n", [1.0, 0.5])):
        Path("a.csv").write_text(text)
        with pytest.raises(InputError, match=told):
            read("a.csv")
        assert read("a.csv", form=TextFormat(decimal=","))[1] == scores
    for number in ("1.200", "1.200,5", "0.25"):
        Path("a.csv").write_text(f"died;risk\n1;0,5\n0;{number}\n")
        with pytest.raises(InputError, match=f"'{number}' has a point, and the decimal mark is a comma"):
            read("a.csv", form=TextFormat(decimal=","))


def test_other_encodings_are_read_with_the_option_that_the_refusal_names(folder: Path) -> None:
    names = ("died", "risiko größe")
    Path("a.csv").write_bytes(table(names=names).encode("windows-1252"))
    Path("b.csv").write_bytes(table().encode("utf-16"))
    Path("c.csv").write_bytes(table().encode("utf-8-sig"))
    (party,) = read_parties(
        ["a.csv"],
        label_column="died",
        score_column=names[1],
        entries=FileEntries(form=TextFormat(encoding="windows-1252")),
    )
    assert party.y_score.tolist() == SCORES
    with pytest.raises(InputError, match="--encoding utf-16"):
        read("b.csv")
    assert read("b.csv", form=TextFormat(encoding="utf-16")) == (LABELS, SCORES)
    assert read("c.csv") == (LABELS, SCORES)
    with pytest.raises(InputError, match="'ebcdic-9' is unknown"):
        TextFormat(encoding="ebcdic-9")
    Path("a.csv").write_bytes("died,risk,ort\n1,0.5,Ábel\n".encode())  # its bytes are not all in windows-1252
    with pytest.raises(InputError, match=r"^file 'a\.csv' cannot be read: it is not windows-1252 text, and --enc"):
        read("a.csv", form=TextFormat(encoding="windows-1252"))


def test_gzip_tabs_feather_and_standard_input_are_read(folder: Path, pipe: Callable[[bytes], None]) -> None:
    for name in ("a.csv.gz", "c.feather"):
        write_table(name, died=LABELS, risk=SCORES)
    Path("b.tsv").write_text(table(between="\t"))
    pipe(table(between=";").encode())
    parties = read_parties(["a.csv.gz", "b.tsv", "c.feather", "-"], **COLUMNS)
    assert [party.name for party in parties] == ["a", "b", "c", "stdin"]
    assert [party.y_score.tolist() for party in parties] == [SCORES] * 4
    Path("d.tsv.csv").write_text(table())  # the last ending counts
    assert read("d.tsv.csv") == (LABELS, SCORES)


@pytest.mark.parametrize(
    ("positive", "labels"),
    [("yes", ["yes", "no", "yes", "no"]), ("Tod", ["Tod", "lebt", "Tod", "lebt"])]
    + [(str(one), [one, other, one, other]) for one, other in ((1, -1), (-1, 1), (1, 2), (2, 1))],
)
def test_the_positive_label_is_named_or_the_refusal_says_how(folder: Path, positive: str, labels: list[object]) -> None:
    for file in ("a.csv", "b.parquet"):
        write_table(file, died=labels, risk=SCORES)
        assert read(file, positive_label=positive) == (LABELS, SCORES)
        told = (
            f"{file}, .*'died': label is .*; the labels are .* which one is positive: .*--positive-label '{positive}'"
        )
        with pytest.raises(InputError, match=told):
            read(file)


WIDE = "\uff39\uff25\uff33"  # as Japanese keyboards write YES


@pytest.mark.parametrize(
    ("labels", "positive", "told"),
    [
        (["Yes", "yes", "no"], "yes", "label 'yes' is also written 'Yes'"),
        (["Yes", "Yes"], "yes", "label 'yes' is also written 'Yes'"),
        (["yes", "no", "NO"], "yes", "label 'NO' is also written 'no'"),
        (["not dead", "not  dead", "dead"], "dead", "label 'not  dead' is also written 'not dead'"),
        ([WIDE, "yes", "no"], "yes", f"label 'yes' is also written '{WIDE}'"),
        (["1.5", "1.50", "0"], "1.5", "label '1.5' is also written '1.50'"),
        (["2", "1", "01"], "2", "label '01' is also written '1'"),
    ],
)
def test_two_spellings_of_a_label_are_refused(folder: Path, labels: list[str], positive: str, told: str) -> None:
    write_table("c.csv", died=[positive], risk=[0.5])
    for file in ("a.csv", "b.parquet"):
        write_table(file, died=labels, risk=[0.5] * len(labels))
        for files in ([file], ["c.csv", file]):
            with pytest.raises(InputError, match=f"^file '{file}': {told}: write it in one way"):
                read_parties(files, **COLUMNS, entries=FileEntries(positive_label=positive))


def test_blanks_around_a_label_do_not_count_and_a_third_one_is_refused_by_name(folder: Path) -> None:
    Path("a.csv").write_text("died,risk\nyes,0.5\nno,0.25\n yes ,0.75\nno\t,0.125\n")
    assert read("a.csv", positive_label="yes") == (LABELS, SCORES)
    Path("a.csv").write_text("died,risk\nyes,0.5\nno,0.25\nmaybe,0.1\n")
    with pytest.raises(InputError, match="one other label, and these are two: 'maybe' and 'no'"):
        read("a.csv", positive_label="yes")
    with pytest.raises(InputError, match="the positive label cannot be 'NA', which stands for a missing entry"):
        FileEntries(positive_label="NA")


@pytest.mark.parametrize("text", missing.TEXTS)
@pytest.mark.parametrize("column", ["died", "risk", "sex"])
@pytest.mark.parametrize("labels", [("1", "0"), ("yes", "no")])
def test_what_is_missing_is_the_same_in_every_column_and_never_a_negative(
    folder: Path, text: str, column: str, labels: tuple[str, str]
) -> None:
    named = [labels[1 - label] for label in LABELS]
    columns = {"died": [*named, labels[0]], "risk": [*SCORES, "0.375"], "sex": [*"FMFMF"], "site": ["north"] * 5}
    columns[column][-1] = text
    write_table("a.csv", **columns)
    questions = Questions(score_columns=("risk",), by={"sex": ("F", "M")})

    def parties(*, drop: bool) -> list[PartyData]:
        entries = FileEntries(positive_label=None if labels == ("1", "0") else "yes", drop_missing=drop)
        return read_for(questions, ["a.csv"], site_column="site", label_column="died", entries=entries)[0]

    remedy = "" if column == "sex" else "; --drop-missing leaves such rows out"
    with pytest.raises(InputError, match=rf"a\.csv, line 6, column '{column}': .* (is|as) missing{remedy}"):
        parties(drop=False)
    (party,) = parties(drop=True)
    assert (party.y_true.astype(int).tolist(), party.y_score.tolist()) == (LABELS, SCORES)
    word = any(map(str.isalpha, text)) and text.lower() not in (
        "nan",
        "nat",
        "<na>",
    )  # as programs write what is missing
    notes = [f"column {column!r}: {text!r} counts as missing"] if word and column != "risk" else []
    notes += ["label 'no' counts as 0, 'yes' as 1"] if "no" in labels else []
    assert (party.dropped, [*party.notes]) == (1, notes)


@pytest.mark.parametrize("text", ["NA", "None", ".", "n/a"])
@pytest.mark.parametrize("drop", [False, True])
def test_a_site_may_have_a_name_that_elsewhere_stands_for_a_missing_entry(folder: Path, text: str, drop: bool) -> None:
    for file in ("a.csv", "a.parquet"):
        write_table(file, died=[1, 0], risk=[0.5, 0.25], site=[text, "north"])
        parties = read_parties([file], site_column="site", **COLUMNS, entries=FileEntries(drop_missing=drop))
        assert [party.name for party in parties] == [text, "north"]


def test_sites_that_are_lost_with_their_rows_are_told_in_every_form_of_the_result(folder: Path) -> None:
    write_lines("b.csv", "died,risk", ",0.5", "1,NA")
    with pytest.raises(InputError, match=r"'b\.csv': there are no rows: each of its rows has a missing entry"):
        read("b.csv", drop_missing=True)
    rows = ["1,0.75,a", "0,0.125,a", "1,0.375,a", "0,0.5,a", ",0.5,b", "1,,b", "1,0.5,", ".,0.2,a"]
    write_lines("a.csv", "y_true,y_score,site", *rows)
    told = [
        "party 'a': 1 rows with a missing entry were left out",
        "site 'b': all of its rows (2) have a missing entry and were left out, and the site with them",
        "1 rows were left out whose site is missing",
    ]
    for form in ("--json", "--brief", "--costs", "--protocol=exact"):
        options = ["--site-column", "site", "--drop-missing", "--thresholds", "uniform:20", form]
        done = CliRunner().invoke(main, ["evaluate", "a.csv", *options])
        assert done.exit_code == 0, done.output
        said = json.loads(done.stdout)["warnings"] if form == "--json" else [" ".join(done.output.split())]
        assert [any(each in line for line in said) for each in told] == [True] * 3


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2), pa.string(), pa.large_string()])
@pytest.mark.parametrize("coded", [False, True])
def test_bytes_are_text_in_parquet_feather_and_npz(folder: Path, kind: pa.DataType, coded: bool) -> None:
    answers = [b"ja", b"no", b"ja", b"no"]
    words = pa.array(answers, kind) if kind == pa.binary(2) else pa.array(answers, pa.binary()).cast(kind)
    sites = pa.array(["Köln".encode()] * 4)
    for file in ("a.parquet", "b.feather"):
        write_table(file, died=words.dictionary_encode() if coded else words, risk=SCORES, site=sites)
    write_table("c.npz", died=np.array([b"ja", b"no"] * 2), risk=SCORES, site=np.array(["Köln".encode()] * 4))
    for file in ("a.parquet", "b.feather", "c.npz"):
        (party,) = read_parties([file], site_column="site", **COLUMNS, entries=FileEntries(positive_label="ja"))
        assert (party.name, party.y_true.astype(int).tolist()) == ("Köln", LABELS)


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_columns_of_arrow_types_are_read_or_refused_by_name(folder: Path, suffix: str) -> None:
    def write(**columns: Any) -> str:
        return write_table(f"a.{suffix}", **{"died": LABELS, "risk": SCORES, **columns})

    assert read(write(died=pa.array(np.array(LABELS, np.float16)))) == (LABELS, SCORES)
    for nested in (pa.array([[1], [0]] * 2), pa.array([{"a": 1}, {"a": 0}] * 2)):
        with pytest.raises(InputError, match=r"column 'died' holds (list|struct)<.*> entries, and not one text or"):
            read(write(died=nested))
    for texts in ([str(score) for score in SCORES], [str(score).encode() for score in SCORES]):
        assert read(write(risk=pa.array(texts))) == (LABELS, SCORES)
    with pytest.raises(InputError, match=r"'0,5' has a decimal comma; say so with --decimal ,"):
        read(write(risk=pa.array([b"0,5"] * 4)))


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_the_line_is_the_one_that_an_editor_shows_after_entries_of_several_lines(folder: Path, between: str) -> None:
    text = 'died,note,risk\n1,"two\nlines",0.5\n0,plain,0.25\n1,x,much\n'
    Path("a.csv").write_text(text.replace(",", between))
    with pytest.raises(InputError) as caught:
        read("a.csv")
    assert str(caught.value).startswith("party 'a', a.csv, line 5, column 'risk': score is 'much'")
    assert (caught.value.party, caught.value.file, caught.value.line, caught.value.column) == ("a", "a.csv", 5, "risk")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_what_is_kept_in_a_file_is_as_in_memory(folder: Path, suffix: str, in_blocks: bool, monkeypatch: Any) -> None:
    """Also where sites are in order within each of the batches, but not over all."""
    random = np.random.default_rng(5)
    sites = random.choice(["north", "south", "west"], 5000)
    if in_blocks:
        sites = np.repeat(["north", "south", "north", "west"], [1536, 1024, 1536, 904])
    columns = pa.table({"died": random.integers(0, 2, 5000), "risk": random.random(5000).round(4), "site": sites})
    if suffix == ".csv":
        write_table("a.csv", **columns.to_pydict())
    else:
        pq.write_table(columns, "a.parquet", row_group_size=700)
    in_memory = read_parties(["a" + suffix], site_column="site", **COLUMNS)
    monkeypatch.setattr(row_store, "IN_MEMORY", 1000)
    monkeypatch.setattr(row_store, "BATCH", 512)
    in_file = read_parties(["a" + suffix], site_column="site", **COLUMNS)
    assert any(isinstance(party.y_score, np.memmap) for party in in_file)
    assert not any(isinstance(party.y_score, np.memmap) for party in in_memory)
    for one, other in zip(in_memory, in_file, strict=True):
        rows = columns.filter(pa.compute.equal(columns["site"], one.name))
        assert one.name == other.name
        assert other.y_score.tolist() == one.y_score.tolist() == rows["risk"].to_pylist()
        assert other.y_true.tolist() == one.y_true.tolist() == [bool(each) for each in rows["died"].to_pylist()]


def test_arrows_threads_read_no_file_of_pythons(folder: Path, pipe: Callable[[bytes], None]) -> None:
    pipe(table().encode())
    Path("a.csv").write_text(table())
    Path("b.csv.gz").write_bytes(gzip.compress(table().encode()))
    for name in ("a.csv", "b.csv.gz", "-"):
        opened = csv_files.TextFile(Path(name)).open_text()
        assert not isinstance(opened, pa.PythonFile)
        assert opened.read() == table().encode()


def test_an_empty_file_is_called_so_and_a_header_alone_has_no_rows(folder: Path, pipe: Callable[[bytes], None]) -> None:
    for name in ("a.csv", "a.tsv", "a.csv.gz", "-"):
        header = b"died\trisk" if name == "a.tsv" else b"died,risk"
        for content, told in ((b"", "the file is empty"), (header, "there are no rows"), (header + b"\n", "no rows")):
            packed = gzip.compress(content) if name.endswith(".gz") else content
            pipe(packed)
            if name != "-":
                Path(name).write_bytes(packed)
            with pytest.raises(InputError, match=rf"^file '({name}|standard input)': .*{told}$"):
                read(name)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_gzip_is_read_under_any_name(folder: Path, pipe: Any, platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on Linux an open file cannot be opened anew."""
    packed = gzip.compress(table().encode())
    pipe(packed)
    monkeypatch.setattr(csv_files, "sys", SimpleNamespace(platform=platform, stdin=sys.stdin))
    Path("a.csv").write_bytes(packed)
    Path("b.csv.gz").write_text(table())
    for file in ("a.csv", "b.csv.gz", "-"):
        assert read(file) == (LABELS, SCORES)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz", "a.parquet", "a.feather", "a.npz", "-"])
def test_of_a_file_that_was_cut_off_no_row_is_read(folder: Path, name: str, pipe: Callable[[bytes], None]) -> None:
    """Readers of streams, as zstandard's and zlib's, may return the first part of one, and say nothing."""
    labels, scores = np.tile(LABELS, 500), np.random.default_rng(5).random(2000)
    write_table(whole := "b.csv.gz" if name == "-" else f"b{name[1:]}", died=labels, risk=scores)
    if "json" in name:
        lines = (json.dumps({"died": int(y), "risk": s}) + "\n" for y, s in zip(labels, scores.tolist(), strict=True))
        Path(whole).write_bytes(gzip.compress("".join(lines).encode()))
    data = Path(whole).read_bytes()
    for cut in np.linspace(len(data) // 50, len(data), 50).astype(int).tolist():
        pipe(data[:cut]) if name == "-" else Path(name).write_bytes(data[:cut])
        if cut == len(data):
            assert len(read(name)[0]) == 2000
        else:
            with pytest.raises(InputError, match="cannot be read"):
                read(name)
    Path("a.csv").write_bytes(zstandard.compress(b"died,risk\n1,0.5\n0,0.25\n"))
    with pytest.raises(InputError, match=r"it is a compressed file: unpack it, or use gzip"):
        read("a.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_excels_first_line_says_the_delimiter_and_is_no_row(folder: Path, encoding: str) -> None:
    form = TextFormat(encoding=encoding)
    Path("a.csv").write_text("sep=~\n" + table(between="~"), encoding)
    assert read("a.csv", form=form) == (LABELS, SCORES)
    Path("a.csv").write_bytes(("sep=;\n" + table(between=";") + "\nx;0.5\n").replace("\n", "\r\n").encode(encoding))
    with pytest.raises(InputError, match=r"a\.csv, line 8, column 'died': label is 'x'"):
        read("a.csv", form=form)


def test_percent_signs_are_refused_with_the_remedy_and_bytes_that_are_no_text_stay_apart(folder: Path) -> None:
    Path("a.csv").write_text("died,risk\n1,49.15%\n0,5 %\n")
    with pytest.raises(InputError, match=r"'49\.15%' has a percent sign; remove it and give --score-scale percent$"):
        read("a.csv")
    Path("a.csv").write_text("died,risk\n1,49.15\n0,5\n")
    assert read("a.csv", score_scale="percent") == ([1, 0], [0.4915, 0.05])
    np.savez("a.npz", died=np.array([b"\xe4", b"\xf6"] * 2), risk=SCORES)
    assert read("a.npz", positive_label=r"\xe4") == (LABELS, SCORES)


@pytest.mark.parametrize(
    "entries",
    [
        pa.array([1, 0, 1, 1]),
        pa.array(range(-128, 128), pa.int8()),
        pa.array([2**64 - 1, 2**64 - 2], pa.uint64()),
        pa.array([-(2**63), 2**63 - 1]),
        pa.array([-(2**31), 1 - 2**31]),
        pa.array([2**31, 2**31 - 1]),
        pa.array([7] * 3).slice(1),
        pa.array([5, None, 6]),
        pa.array(range(0, 600, 2)),
        pa.array([], pa.int64()),
    ],
    ids=lambda entries: f"{entries.type} {len(entries)} {entries.null_count}",
)
def test_integers_are_the_texts_that_python_writes_in_whatever_range_they_lie(entries: pa.Array) -> None:
    found = arrow_columns.coded(entries)
    texts = [None if each is None else str(each) for each in entries.to_pylist()]
    assert [found.names[code] for code in found.codes] == texts
    assert {*found.named().values()} == {*texts} - {None}


@needs_limits
def test_rows_that_do_not_fit_into_the_temporary_folder_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_store, "IN_MEMORY", 10)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    column = row_store.Column("f8")
    column.append(np.arange(100))
    whole = np.memmap(tmp_path / "column", "f8", "w+", shape=100)
    for act in (lambda: column.append(np.arange(10**5)), lambda: row_store._like(whole)):
        with full_disk(), pytest.raises(OSError, match="File too large") as caught:
            act()
        assert caught.value.filename == str(tmp_path)
