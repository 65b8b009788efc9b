"""One entry, one rule: labels, levels, sites, patients and options are read alike, however they are written."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError, Place
from fhe_auc.question.analysis import Analysis, Questions, Variable
from fhe_auc.rows import pieces
from fhe_auc.rows.csv_files import TextFormat
from fhe_auc.rows.entries import Coded, canonical, finite_numbers, number_of
from fhe_auc.rows.frames import parties_of
from fhe_auc.rows.party_data import Entries, PartyData
from fhe_auc.rows.party_files import FileEntries, read_for
from fhe_auc.rows.party_rows import parties_in
from fhe_auc.rows.pieces import OPTIONS, KeptPieces, Piece, Words
from tests.support import missing
from tests.support.tables import write_table

MINUS = "\u2212"  # of Swedish, Norwegian and Finnish numbers
RISK = Questions(score_columns=("risk",))
SCORES = [0.9, 0.1, 0.3, 0.5]

ALIKE = [
    ("1", [1, 1.0, "1", "1.0", "1.00", "1.", " 1\t", "1e0", "1E+00", "1.000e+00", b"1.0", True + 0, Decimal("1.00")]),
    (
        "1",
        [np.int8(1), np.float32(1), np.str_("1.0"), pa.scalar(1.0), Fraction(1), "\ufeff1", "1\u200b", "1\xa0", "1\0"],
    ),
    ("-1", [-1, "-1.0", f"{MINUS}1", f"{MINUS}1.00", "\uff0d1", "\u20131", Decimal(-1)]),
    ("0", [0, -0.0, "-0", "0.00", ".0", "-0.0", "0e+00", Decimal("-0.0")]),
    ("100000", [10**5, 1e5, "1e+05", "1E+05", "100000.0", Decimal("1E+5")]),
    ("0.1", [0.1, np.float32(0.1), np.float16(0.1), "0.1", Decimal("0.10"), Fraction(1, 10), pa.scalar(0.1)]),
    ("True", [True, np.True_, "true", "TRUE", "True ", pa.scalar(True), b"true"]),
    ("J\u00f6", ["J\u00f6", "Jo\u0308", "Jo\u0308 ", "J\u00f6".encode()]),
]
APART = [
    ["250.1", "250.10", "250.100"],  # codes of diseases
    ["1", "01", "001", "+1", "1-", "I"],
    ["1E50", "1E51", "10E49", "1E50.0", "100e2", "1e4", "10000"],  # others; ids in hexadecimal digits
    ["0.5", "0.50", ".5", "5e-1"],
    ["yes", "Yes", "YES", "y", "ye s"],
    ["1-4", "1\u20134", "5", "<1", "1,000", "1_000", "1 000", "0x1", "inf"],
    [str(10**40), str(10**40 + 1), str(2**53), str(2**53 + 1)],
    ["Not available", "nano", "nullify", "a.", "..", ".ab", "#1", "1.#INF", "N"],  # nothing of it is missing
]


@pytest.mark.parametrize(("text", "spellings"), ALIKE)
def test_one_entry_has_one_form_whatever_its_type_and_spelling(text: str, spellings: list[object]) -> None:
    assert [canonical(each) for each in spellings] == [text] * len(spellings)


@pytest.mark.parametrize("entries", APART)
def test_what_may_differ_stays_apart_and_as_it_is_written(entries: list[str]) -> None:
    assert [canonical(each) for each in entries] == [canonical(each, site=True) for each in entries] == entries


@given(st.integers(-(10**15), 10**15), st.integers(0, 6))
def test_a_whole_number_is_its_digits(whole: int, zeros: int) -> None:
    spellings = [whole, float(whole), Decimal(whole), f"{whole}." + "0" * zeros, f"{whole}.0e+00", f"{whole:.16e}"]
    assert {canonical(each) for each in spellings} == {str(whole)}
    assert canonical(f"{whole},".replace("-", MINUS) + "0" * zeros, decimal=",") == str(whole)


@given(st.text(max_size=12), st.booleans())
def test_the_form_of_a_form_is_itself(text: str, site: bool) -> None:
    once = canonical(text, site=site)
    assert once is None or canonical(once, site=site) == once


@given(st.decimals(-(10**6), 10**6, places=5))
def test_a_number_in_text_is_the_nearest_float_with_either_mark_and_any_minus(number: Decimal) -> None:
    text = f"{number:f}"
    assert number_of(text) == number_of(text.replace("-", MINUS)) == float(number)
    assert number_of(text.replace(".", ","), ",") == number_of(f" {number:E}".replace("-", MINUS)) == float(number)
    (found,) = finite_numbers(np.array([number], object), "score", lambda row, what: InputError(what))
    assert found == float(number)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather", "npz", "jsonl", "xlsx", "py"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_in_text_are_numbers_wherever_they_stand(folder: Path, suffix: str, decimal: str) -> None:
    texts = [text.replace(".", decimal) for text in ("0.9", f"{MINUS}0.1", " 3e-1", "0.50", "NA")]
    columns: dict[str, list[Any]] = {"died": [1, 0, 1, 0, 1], "risk": texts}
    if suffix == "py":
        parties, _ = parties_of(
            {"a": {**columns, "risk": [each.replace(",", ".") for each in texts]}},
            RISK,
            label="died",
            entries=Entries(drop_missing=True),
        )
    else:
        write(f"a.{suffix}", columns)
        parties, _ = read(f"a.{suffix}", drop_missing=True, form=TextFormat(decimal=decimal))
    assert [(each.labels.tolist(), each.scores[0].tolist()) for each in parties] == [
        ([1, 0, 1, 0], [0.9, -0.1, 0.3, 0.5])
    ]
    if suffix != "py":
        other = {".": "0,9", ",": "1.200"}[decimal]
        write(f"a.{suffix}", columns | {"risk": [other, *texts[1:]]})
        with pytest.raises(
            InputError, match=f"'{other}' has a (decimal comma; say so|point, and the decimal mark is a comma)"
        ):
            read(f"a.{suffix}", drop_missing=True, form=TextFormat(decimal=decimal))


@pytest.mark.parametrize("text", ["", "NA", "nan", "1_000", "0x1", "1,5", "1.000,5", "--1", "1-2", "yes", "1 000", "."])
def test_what_is_no_number_is_none(text: str) -> None:
    assert number_of(text) is None
    assert number_of("0.5", ",") is number_of("1.000,5", ",") is None


@pytest.mark.parametrize(
    "entry", [None, float("nan"), Decimal("NaN"), Decimal("sNaN"), np.datetime64("NaT", "s"), pa.scalar(None)]
)
def test_what_stands_for_nothing_is_missing_and_a_site_may_be_called_so(entry: object) -> None:
    assert canonical(entry) is None
    assert [canonical(text) for text in missing.TEXTS] == [None] * len(missing.TEXTS)
    assert [canonical(text, site=True) for text in ("NA", "None", ".a", "#N/A", "?")] == [
        "NA",
        "None",
        ".a",
        "#N/A",
        "?",
    ]


def test_decimals_of_parquet_files_and_of_python_are_the_nearest_floats(folder: Path) -> None:
    texts = ["0.3", "0.7", "0.9", "12.345678901234", "0.1234567890123456"]  # Arrow's own way changes their last bits
    for places in (1, 12, 20):
        own = [Decimal(text).quantize(Decimal(1).scaleb(-places)) for text in texts]
        column = pa.array([*own, None], pa.decimal128(38, places))
        pq.write_table(pa.table({"died": [1, 0, 1, 0, 1, 1], "risk": column}), "a.parquet")
        (party,), _ = read_for(RISK, ["a.parquet"], label_column="died", entries=FileEntries(drop_missing=True))
        assert party.scores[0].tolist() == list(map(float, own))
        (party,), _ = parties_of([([1, 0, 1, 0, 1], own)], RISK)
        assert party.scores[0].tolist() == list(map(float, own))


def write(file: str, columns: dict[str, list[Any]]) -> None:
    rows = list(zip(*columns.values(), strict=True))
    if file.endswith("xlsx"):
        book = openpyxl.Workbook()
        for row in ([*columns], *rows):
            book.active.append(row)
        book.save(file)
    elif file.endswith(("csv", "jsonl")):
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        lines = lines if file.endswith("jsonl") else ["\t".join(map(str, row)) for row in ([*columns], *rows)]
        Path(file).write_text("\n".join((*lines, "")))
    else:
        write_table(file, **columns)


def table(names: str, *rows: str, file: str = "a.csv") -> str:
    Path(file).write_text("\n".join((names, *rows, "")))
    return file


def read(file: str | list[str], *, by: str = "", cluster: str = "", site: str | None = None, **entries: Any) -> Any:
    questions = Questions(score_columns=("risk",), by=dict.fromkeys(by.split(), ()), cluster=cluster)
    files = [file] if isinstance(file, str) else file
    return read_for(questions, files, site_column=site, label_column="died", entries=FileEntries(**entries))


@pytest.mark.parametrize("label", ["1", "1.0", " 1", 1, 1.0, True, np.int64(1), Decimal("1.00"), "TRUE"])
@pytest.mark.parametrize("labels", [("1", "0"), ("1.00", "0.00"), ("TRUE", "FALSE"), ("1e+00", "0e+00"), ("1 ", "0")])
def test_a_positive_label_fits_however_it_and_the_labels_are_written(
    folder: Path, label: Any, labels: tuple[str, str]
) -> None:
    file = table("died,risk", *(f"{labels[k % 2]},{score}" for k, score in enumerate(SCORES)))
    (party,), _ = read(file, positive_label=label)
    assert party.labels.tolist() == [1, 0, 1, 0]
    one, zero = ("True", "False") if "TRUE" in labels else ("1", "0")
    assert party.notes == (f"label {zero!r} counts as 0, {one!r} as 1",)
    assert read(file)[0][0].notes == ()


@pytest.mark.parametrize(
    ("labels", "positive", "note"),
    [
        ("yes no", "yes", "label 'no' counts as 0, 'yes' as 1"),
        ("1 2", "2", "label '1' counts as 0, '2' as 1"),
        ("1 0", "0", "label '1' counts as 0, '0' as 1"),
        ("alive alive", "dead", "label 'alive' counts as 0, and no row has 'dead'"),
        ("dead dead", "dead", "label 'dead' counts as 1, and no row has another"),
        ("Jo\u0308 no", "J\u00f6", "label 'no' counts as 0, 'J\u00f6' as 1"),
    ],
)
def test_which_label_counts_as_0_is_told(folder: Path, labels: str, positive: str, note: str) -> None:
    file = table("died,risk", *(f"{label},0.5" for label in labels.split()))
    (party,), _ = read(file, positive_label=positive)
    assert (party.notes, party.labels.tolist()) == (
        (note,),
        [int(each == positive or "J" in each) for each in labels.split()],
    )


@pytest.mark.parametrize("labels", ["1 2", "1.0 2.0", "-1 1", "yes no", "1 2 1"])
def test_labels_that_are_not_0_and_1_are_asked_about(folder: Path, labels: str) -> None:
    first, second = sorted({str(canonical(each)) for each in labels.split()})
    file = table("died,risk", *(f"{label},0.5" for label in labels.split()))
    table("died,risk", f"{labels.split()[0]},0.5", file="b.csv")
    for files in ([file], ["b.csv", file]):
        with pytest.raises(InputError, match=f"{first}.* and '{second}', not 0 and 1; say which one is positive"):
            read(files)


def test_numbers_in_columns_of_text_have_the_decimal_mark_of_the_file(folder: Path) -> None:
    rows = ["1,00;0,9;0,5;1,0;a", "0,00;0,1;1,00;2;1", f"1,0;{MINUS}0,3;0,5;1;1,0"]
    file = table("died;risk;dose;pid;site", *rows)
    comma = TextFormat(decimal=",")
    for positive in (None, "1", "1,00", "1.0"):
        parties, analysis = read(file, by="dose", cluster="pid", site="site", form=comma, positive_label=positive)
        assert [(each.name, each.labels.tolist(), each.scores[0].tolist()) for each in parties] == [
            ("a", [1], [0.9]),
            ("1", [0, 1], [0.1, -0.3]),
        ]
        assert analysis.by[0].levels == ("0.5", "1")
        assert [each.clusters.tolist() for each in parties] == [[0], [1, 0]]


def test_sites_levels_and_patients_of_two_files_are_one_where_their_spellings_are(folder: Path) -> None:
    one = table("died,risk,ward,pid,site", "1,0.5,1,7,1", "0,0.5,2,8,01", file="a.csv")
    other = table("died,risk,ward,pid,site", "1,0.5,1.00,7.0,1.00", "0,0.5,2.0,07,NA", file="b.csv")
    pq.write_table(pa.table({"died": [1.0], "risk": [0.5], "ward": [2.0], "pid": [8], "site": [1.0]}), "c.parquet")
    parties, analysis = read([one, other, "c.parquet"], by="ward", cluster="pid", site="site")
    assert analysis.by[0].levels == ("1", "2")
    assert {each.name: (each.groups[0].tolist(), each.clusters.tolist()) for each in parties} == {
        "1": ([0, 0, 1], [0, 0, 1]),
        "01": ([1], [1]),
        "NA": ([1], [2]),
    }


@pytest.mark.parametrize("kind", [np.float64, np.float32, float])
@pytest.mark.parametrize("as_file", [True, False])
def test_ids_that_floats_have_made_alike_are_refused(folder: Path, kind: Any, as_file: bool) -> None:
    questions, least = Questions(score_columns=("risk",), cluster="pid"), 2**24 if kind is np.float32 else 2**53

    def read_ids(*ids: int) -> PartyData:
        columns = {"died": [1, 0], "risk": [0.5, 0.25], "pid": [*map(kind, ids)]}
        pq.write_table(pa.table(columns), "a.parquet")
        if as_file:
            return read_for(questions, ["a.parquet"], label_column="died")[0][0]
        return parties_of({"a": columns}, questions, label="died")[0][0]

    assert np.array(read_ids(least - 1, least - 2).clusters).tolist() == [0, 1]
    with pytest.raises(InputError, match=f"{least} has lost digits, as floats .* and other ids may have"):
        read_ids(least + 1, least)


@pytest.mark.parametrize(
    "text", ["1.23457E+15", "1,23457E+15", "1E+11", " 1.5e+12", "1.2345678901234567890e+17", "9.9E+100"]
)
def test_ids_that_excel_has_shortened_are_refused(folder: Path, text: str) -> None:
    for right in ("1e+05", "1.23E+02", "1.234567890120000000e+11", "1E50", "5E+3", "1.23457"):
        file = table("died;risk;pid;site", f"1;0.5;{right};{right}", "0;0.5;2;2", file="b.csv")
        assert len(read(file, cluster="pid", site="site")[0]) == 2
    for column in ("pid", "site"):
        file = table("died;risk;pid;site", f"1;0.5;{text if column == 'pid' else 1};{text if column == 'site' else 1}")
        with pytest.raises(InputError, match=f"{re.escape(text.strip())} has lost digits"):
            read(file, cluster="pid", site="site")


@pytest.mark.parametrize("levels", [("0.5", "0.50"), ("1", "+1"), ("7", "07"), ("250.1", "250.10"), (".5", "0.5")])
def test_two_spellings_of_a_number_among_levels_are_refused_and_may_be_named(
    folder: Path, levels: tuple[str, str]
) -> None:
    first, second = levels
    file = table("died,risk,dose", f"1,0.5,{first}", f"0,0.5,{second}")
    with pytest.raises(InputError, match=r"column 'dose': level .* is also written .* or name all levels$") as refused:
        read(file, by="dose")
    assert repr(first) in str(refused.value)
    assert repr(second) in str(refused.value)
    questions = Questions(score_columns=("risk",), by={"dose": levels})
    (party,), _ = read_for(questions, [file], label_column="died")
    assert party.groups[0].tolist() == [0, 1]


@pytest.mark.parametrize("given", [("1", "2"), ("1.0", "2.00"), ("1e+00", "2."), ("1", f"{MINUS}2")])
def test_levels_of_options_fit_those_of_rows_in_any_spelling(given: tuple[str, str]) -> None:
    sign = -1 if MINUS in given[1] else 1
    for two in (2, "2.0", 2.0, Decimal("2.00"), b"2"):
        ward: Any = [1, "1.00", f"{MINUS}2.0" if sign < 0 else two]
        analysis = Analysis(by=(Variable("ward", given),))
        party = PartyData.from_columns("a", [1, 0, 1], {"": [0.5] * 3}, {"ward": ward}, analysis)
        assert party.groups[0].tolist() == [0, 0, 1]
    with pytest.raises(InputError, match=r"ward '1' is also written '1.0': write it in one way"):
        PartyData.from_columns("a", [1], {"": [0.5]}, {"ward": ["1"]}, Analysis(by=(Variable("ward", ("1", "1.0")),)))


@pytest.mark.parametrize("word", ["None", "NA", "n/a", ".a", "NULL"])
def test_words_that_count_as_missing_are_told_with_their_column(folder: Path, word: str) -> None:
    rows = [f"1,0.5,{word}", "0,0.5,Stage 3", f"1,0.25,{word}", "0,0.125,Stage 3"]
    file, told = table("died,risk,ckd", *rows), f"column 'ckd': {word!r} counts as missing"
    for drop in (False, True):
        with pytest.raises(InputError) as refused:
            read(file, by="ckd", drop_missing=drop)
        assert str(refused.value).startswith(told)
    file = table("died,risk,ckd", *rows, "1,0.5,Stage 4", "1,0.5,Stage 4")
    (party,), _ = read(file, by="ckd", drop_missing=True)
    assert (party.dropped, party.notes) == (2, (told,))
    with pytest.raises(InputError, match=f"line 2, column 'ckd': ckd is {word!r}, which counts as missing: give such"):
        read(file, by="ckd")


@dataclass(frozen=True, eq=False)
class Labelled:
    """A table whose text stands for codes, read once: as files of SPSS and Stata are."""

    kept: KeptPieces
    title: str = "file 'a.sav'"
    party: str = "a"
    file: str | None = "a.sav"
    names_columns: bool = True
    words: ClassVar[Words] = OPTIONS

    def keep(self, numbers: Sequence[str], texts: Sequence[str]) -> None:
        """Nothing is left to be read."""

    def pieces(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Piece]:
        yield from self.kept.pieces(numbers, texts)

    def place(self, row: int, wanted: Sequence[str]) -> Place:
        return Place(f"row {row}")


def labelled(stored: dict[str, str], *names: str) -> Labelled:
    """A file whose labels are read in two pieces, the first of which has one row."""
    column = Coded(np.arange(len(names), dtype=np.int32), names, stored=stored)
    risk = np.full(len(names), 0.5)
    parts = (slice(0, 1), slice(1, None))
    return Labelled(KeptPieces(Piece({"risk": risk[rows]}, {"died": column.chosen(rows)}) for rows in parts))


@pytest.mark.parametrize("limit", [10, 2**24])
def test_what_is_read_once_comes_back_as_it_was_time_and_again_in_memory_or_from_a_file(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(pieces, "_IN_MEMORY", limit)
    entries = [0.5, None, "text", 2**53 + 1, 2**60, Decimal("0.1"), float("nan"), True]
    columns = [np.array(entries, object), np.array([0.1], np.float32), np.array([2**64 - 1, 0], np.uint64)]
    sex = Coded(np.array([1, 0], np.int32), ["F", None], ("F",), {"F": "2"})
    kept = KeptPieces(Piece({"x": column, "y": column}, {"sex": sex}) for column in columns)
    for _ in range(2):
        together = zip(kept.pieces(["x"], []), kept.pieces(["y"], ["sex"]), columns, strict=True)
        for one, other, column in together:
            assert (one.texts, [*other.numbers]) == ({}, ["y"])
            for found in (one.numbers["x"], other.numbers["y"]):
                assert (found.dtype, repr(found.tolist())) == (column.dtype, repr(column.tolist()))
            back = other.texts["sex"]
            assert (back.codes.tolist(), back.names, back.order, back.stored) == (
                [1, 0],
                ["F", None],
                ("F",),
                {"F": "2"},
            )


YES = {"Yes": "1", "No": "0"}


@pytest.mark.parametrize(
    ("stored", "names", "positive", "labels"),
    [
        (YES, "Yes No Yes", None, [1, 0, 1]),
        (YES, "Yes No Yes", "Yes", [1, 0, 1]),
        (YES, "No No Yes", "1", [0, 0, 1]),
        (YES, "No No Yes", "0", [1, 1, 0]),
        ({"Dead": "1"}, "0 0 Dead", None, [0, 0, 1]),
        ({"Dead": "2", "Alive": "1"}, "Dead Alive Alive", "2", [1, 0, 0]),
        ({"Dead": "2", "Alive": "1"}, "Dead Alive Alive", "1", [0, 1, 1]),
        ({"1": "0", "0": "1"}, "1 0 0", "1", [1, 0, 0]),  # labels come first
        ({"1": "0", "0": "1"}, "1 0 0", None, [1, 0, 0]),
    ],
)
def test_labels_of_values_are_labels_and_so_are_the_values(
    stored: dict[str, str], names: str, positive: str | None, labels: list[int]
) -> None:
    tables = [labelled(stored, *names.split())]
    (party,), _ = parties_in(tables, RISK, site=None, label="died", entries=Entries(positive_label=positive))
    assert party.labels.tolist() == labels
    zero, one = (dict(zip(labels, names.split(), strict=True))[number] for number in (0, 1))
    assert party.notes == (f"label {zero!r} counts as 0, {one!r} as 1",)


@pytest.mark.parametrize("positive", [None, "1", "Yes", "True"])
def test_labels_of_values_in_one_table_are_the_values_in_another(positive: str | None) -> None:
    tables = [labelled(YES, "Yes", "No"), replace(labelled({}, "0", "1", "False"), party="b")]
    parties, _ = parties_in(tables, RISK, site=None, label="died", entries=Entries(positive_label=positive))
    assert [each.labels.tolist() for each in parties] == [[1, 0], [0, 1, 0]]
    assert parties[0].notes == ("labels 'No' and '0' and 'False' count as 0, 'Yes' and '1' as 1",)
    other = replace(labelled({}, "2"), party="b")
    with pytest.raises(InputError, match="there is one other label, and these are two: 'No' and '2'"):
        parties_in([tables[0], other], RISK, site=None, label="died", entries=Entries(positive_label="Yes"))
    with pytest.raises(InputError, match="label is '2'; the 3 labels are '2', 'No', 'Yes'"):
        parties_in([tables[0], other], RISK, site=None, label="died", entries=Entries())
    (party,), _ = parties_in([labelled(YES, "No", "No")], RISK, site=None, label="died", entries=Entries())
    assert party.notes == ("label 'No' counts as 0, and no row has another",)


@pytest.mark.parametrize(("one", "positive"), [(1, "1"), (1, "2"), (0, None), (0, "1"), (0, "0")])
def test_a_label_with_other_values_in_another_table_is_refused(one: int, positive: str | None) -> None:
    first, second = {"Dead": str(one), "Alive": str(one + 1)}, {"Alive": str(one), "Dead": str(one + 1)}
    tables = [labelled(first, "Dead", "Alive"), replace(labelled(second, "Alive", "Dead"), party="b")]
    with pytest.raises(InputError, match=r"label '(Dead|Alive)' is of one value here and of another in other files"):
        parties_in(tables, RISK, site=None, label="died", entries=Entries(positive_label=positive))
    parties, _ = parties_in(tables, RISK, site=None, label="died", entries=Entries(positive_label="Dead"))
    assert [each.labels.tolist() for each in parties] == [[1, 0], [0, 1]]
    of_values = replace(labelled({}, str(one), str(one + 1)), party="c")
    for order in permutations([*tables, of_values]):
        with pytest.raises(
            InputError, match=r"there is one other label, and these are two|is of one value here and of another"
        ):
            parties_in(order, RISK, site=None, label="died", entries=Entries(positive_label="Dead"))


def test_values_1_and_2_of_labels_are_asked_about_even_where_all_rows_have_the_first() -> None:
    for names in (["Yes", "Yes"], ["Yes", "No"]):
        tables = [labelled({"Yes": "1", "No": "2"}, *names)]
        with pytest.raises(InputError, match=r"label is 'Yes'; .* say which one is positive: --positive-label '"):
            parties_in(tables, RISK, site=None, label="died", entries=Entries())


def test_levels_may_be_given_as_labels_of_values_or_as_values() -> None:
    sex = Coded(np.array([0, 1, 0], np.int32), ["Female", "Male"], stored={"Female": "1", "Male": "2"})
    for levels in (("Female", "Male"), ("1", "2.0")):
        analysis = Analysis(by=(Variable("sex", levels),))
        party = PartyData.from_columns("a", [0, 1, 1], {"": [0.5] * 3}, {"sex": sex}, analysis)
        assert party.groups[0].tolist() == [0, 1, 0]
