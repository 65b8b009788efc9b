"""Files of SAS, SPSS and Stata: real ones, against other readers; labels, what is missing, and damage."""

import gzip
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Questions
from fhe_auc.rows.party_files import FileEntries, read_for
from fhe_auc.rows.table_files import TableFile
from tests.support.tables import read_parties

FILES = Path(__file__).parent / "files"


def real(name: str, tmp_path: Path) -> Path:
    """The path of one of the files, decompressed."""
    packed = FILES / f"{name}.gz"
    if not packed.exists():
        return FILES / name
    (tmp_path / name).write_bytes(gzip.decompress(packed.read_bytes()))
    return tmp_path / name


def columns(path: Path, numbers: Sequence[str], texts: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Each column's entries, as pieces have them."""
    file = TableFile(path)
    file.keep(numbers, texts)
    found: dict[str, list[Any]] = {name: [] for name in (*numbers, *texts)}
    for piece in file.pieces(numbers, texts):
        for name in numbers:
            found[name] += piece.numbers[name].tolist()
        for name in texts:
            found[name] += [piece.texts[name].names[code] for code in piece.texts[name].codes]
    return found


def pandas_columns(path: Path) -> dict[str, list[Any]]:
    """Numbers as pandas' own readers of SAS and Stata have them."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix == ".dta":
            frame = pd.read_stata(path, convert_dates=False, convert_categoricals=False)
        else:
            frame = pd.read_sas(path, encoding="latin1")
    return {name: frame[name].astype(float).tolist() for name in frame if frame[name].dtype.kind in "fiu"}


def same(ours: list[float], theirs: list[float]) -> bool:
    return len(ours) == len(theirs) and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(ours, theirs, strict=True)
    )


SAS = ("iris.sas7bdat", "sample_bincompressed.sas7bdat", "missing_test.sas7bdat", "sample.xpt")


@pytest.mark.parametrize("name", [*SAS, "iris.dta", "sample.dta", "missing_test.dta"])
def test_numbers_of_real_files_are_those_of_pandas(name: str, tmp_path: Path) -> None:
    theirs = pandas_columns(path := real(name, tmp_path))
    assert len(theirs) >= 2
    ours = columns(path, [*theirs])
    for column, entries in theirs.items():
        zeros = [0.0 if 0 < abs(entry) < 1e-70 else entry for entry in entries]  # pandas reads 0 of .xpt as 5e-79
        assert same(ours[column], zeros), column


def test_stata_files_that_come_with_statsmodels_are_read_as_by_pandas() -> None:
    import statsmodels

    files = sorted(Path(statsmodels.__file__).parent.rglob("*.dta"))
    assert len(files) >= 4
    for path in files:
        theirs = pandas_columns(path)
        ours = columns(path, [*theirs])
        assert all(same(ours[column], entries) for column, entries in theirs.items()), path


def test_real_files_of_one_table_are_the_same_in_every_format(tmp_path: Path) -> None:
    """`sample` is one table, which its authors saved with SAS, SPSS and Stata."""
    for name in ("sample.sav", "sample.zsav", "sample.dta", "sample_bincompressed.sas7bdat", "sample.xpt"):
        upper = str.upper if name.endswith("xpt") else str
        number, text, labelled = map(upper, ("mynum", "mychar", "mylabl"))
        found = columns(real(name, tmp_path), [number], [text, labelled])
        assert found[number] == [1.1, 1.2, -1000.3, -1.4, 1000.3]
        assert found[text] == ["a", "b", "c", "d", "e"]
        sas = name.endswith(("sas7bdat", "xpt"))  # which has labels in another file
        assert found[labelled] == (["1", "2", "1", "2", "1"] if sas else ["Male", "Female", "Male", "Female", "Male"])


def test_what_spss_declares_as_missing_is_missing_in_numbers_and_text() -> None:
    found = columns(FILES / "sample_missing.sav", ["mynum"], ["mylabl", "myord"])
    assert same(found["mynum"], [1.1, 1.2, -1000.3, -1.4, 1000.3, math.nan, math.nan])  # -1, and 2000 to 3000
    assert found["mylabl"] == ["Male", "Female", "Male", "Female", "Male", None, None]
    assert found["myord"] == ["low", "medium", "high", "low", "low", None, None]
    assert columns(FILES / "missing_char.sav", [], ["mychar"]) == {"mychar": [None, "labeled"]}


def test_special_missing_values_of_sas_and_stata_are_missing(tmp_path: Path) -> None:
    for name in ("missing_test.dta", "missing_test.sas7bdat"):
        path = real(name, tmp_path)
        for column in ("var1", "var6", "var8"):  # .a, .z and .
            assert columns(path, [column], [])[column] == pytest.approx([math.nan], nan_ok=True)
            assert columns(path, [], [column])[column] == [None]
        assert columns(path, ["var9"]) == {"var9": [1.0]}


def write(path: str, labels: Any = None, **table: list[Any]) -> str:
    """Write a table with pyreadstat; `labels` are value labels by column."""
    import pandas as pd
    import pyreadstat

    frame, suffix = pd.DataFrame(table), Path(path).suffix
    if suffix == ".xpt":
        pyreadstat.write_xport(frame, path, file_format_version=5)
    elif suffix == ".dta":
        pyreadstat.write_dta(frame, path, variable_value_labels=labels)
    else:
        pyreadstat.write_sav(frame, path, variable_value_labels=labels, compress=suffix == ".zsav")
    return path


ROWS: dict[str, list[Any]] = {"died": [1.0, 0.0, 1.0, 0.0], "risk": [0.9, 0.1, 0.3, 0.5]}
COLUMNS = {"label_column": "died", "score_column": "risk"}


@pytest.mark.parametrize("suffix", ["sav", "zsav", "dta"])
def test_labelled_codes_are_known_by_label_and_by_code(folder: Path, suffix: str) -> None:
    file = write(f"a.{suffix}", {"died": {1.0: "Yes", 0.0: "No"}}, **ROWS)
    for positive in (None, "Yes", "1", 1):
        (party,) = read_parties(file, **COLUMNS, entries=FileEntries(positive_label=positive))
        assert party.y_true.tolist() == [True, False, True, False]
    (party,) = read_parties(file, **COLUMNS, entries=FileEntries(positive_label="No"))
    assert party.y_true.tolist() == [False, True, False, True]


def test_levels_are_labels_in_the_order_of_their_codes_and_options_may_have_either(folder: Path) -> None:
    stages = {1.0: "low", 2.0: "medium", 3.0: "high"}
    file = write("a.sav", {"stage": stages}, stage=[3.0, 1.0, 2.0, 1.0], **ROWS)
    for levels, codes in (
        ((), [2, 0, 1, 0]),
        (("high", "low", "medium"), [0, 1, 2, 1]),
        (("3", "1", "2"), [0, 1, 2, 1]),
    ):
        questions = Questions(score_columns=("risk",), by={"stage": levels})
        (party,), analysis = read_for(questions, file, label_column="died")
        assert analysis.by[0].levels == (levels or ("low", "medium", "high"))
        assert party.groups[0].tolist() == codes


def test_labels_that_are_codes_of_others_are_not_taken_for_these(folder: Path) -> None:
    file = write("a.sav", {"died": {1.0: "0", 0.0: "1"}}, **ROWS)
    for positive in (None, "1"):
        (party,) = read_parties(file, **COLUMNS, entries=FileEntries(positive_label=positive))
        assert party.y_true.tolist() == [True, False, True, False]


def test_codes_of_one_label_stay_apart(folder: Path) -> None:
    """pyreadstat would make one category of them."""
    for labels in ({1.0: "Clinic", 2.0: "clinic "}, {1.0: "Clinic", 2.0: "Clinic", 3.0: "Ward"}):
        file = write("a.sav", {"place": labels}, place=[1.0, 2.0, 2.0, 1.0], **ROWS)
        assert [party.name for party in read_parties(file, site_column="place", **COLUMNS)] == ["1", "2"]
    file = write("a.dta", {"place": {1.0: "Clinic", 3.0: "2"}}, place=[1.0, 2.0, 3.0, 1.0], **ROWS)
    assert [party.name for party in read_parties(file, site_column="place", **COLUMNS)] == ["1", "2", "3"]
    file = write("a.dta", {"place": {1.0: "Clinic"}}, place=[1.0, 2.0, 2.0, 1.0], **ROWS)
    assert [party.name for party in read_parties(file, site_column="place", **COLUMNS)] == ["Clinic", "2"]


def test_a_missing_entry_is_named_with_its_observation_and_left_out_where_that_is_said(folder: Path) -> None:
    for suffix in ("sav", "dta", "xpt"):
        file = write(f"a.{suffix}", died=[1.0, 0.0, 1.0, 0.0], risk=[0.9, 0.1, math.nan, 0.5])
        with pytest.raises(
            InputError, match=rf"^party 'a', a\.{suffix}, observation 3, column 'risk': score is missing"
        ):
            read_parties(file, **COLUMNS)
        (party,) = read_parties(file, **COLUMNS, entries=FileEntries(drop_missing=True))
        assert (party.y_score.tolist(), party.dropped) == ([0.9, 0.1, 0.5], 1)


def test_transport_files_keep_the_last_row_and_zero(folder: Path) -> None:
    """pandas.read_sas loses a last row whose text is blank, and reads 0 as 5e-79."""
    for notes in (["", "", ""], ["x" * 40, "", ""], ["x" * 200, "y", ""]):
        for rows in range(1, 12):
            scores = [0.0, *np.random.default_rng(rows).random(rows).tolist()]
            table = {"Y": [1.0, 0.0] * rows, "S": [*scores, *scores][: 2 * rows], "NOTE": (notes * rows)[: 2 * rows]}
            found = columns(Path(write("a.xpt", **table)), ["Y", "S"], ["NOTE"])
            assert (found["Y"], found["S"]) == (table["Y"], table["S"])
            assert found["NOTE"] == [note or None for note in table["NOTE"]]


def test_a_transport_file_that_was_cut_off_or_has_two_tables_is_refused(folder: Path) -> None:
    whole = Path(write("a.xpt", Y=[1.0, 0.0] * 100, S=[0.5, 0.25] * 100, SITE=["a", "b"] * 100)).read_bytes()
    for cut in (100, 1000, 1001, 24 * 5):  # the last one at a row's end, which is none of a card's
        Path("b.xpt").write_bytes(whole[:-cut])
        with pytest.raises(InputError, match=r"^file 'b\.xpt': it ends within a row: it was cut off$"):
            columns(Path("b.xpt"), ["Y", "S"])
    member = whole.index(b"HEADER RECORD*******MEMBER")
    Path("b.xpt").write_bytes(whole + whole[member:])
    with pytest.raises(InputError, match=r"^file 'b\.xpt': it holds several tables: save each into a file of its own$"):
        columns(Path("b.xpt"), ["Y", "S"])


@pytest.mark.parametrize("name", ["sample.sav", "sample.zsav", "sample.dta", "sample.xpt", "iris.sas7bdat"])
def test_damaged_files_are_refused_with_one_line_that_names_the_file(name: str, tmp_path: Path) -> None:
    whole, refusals = real(name, tmp_path).read_bytes(), []
    path = tmp_path / f"damaged{Path(name).suffix}"
    numbers, texts = (["Sepal_Length"], ["Species"]) if "iris" in name else (["mynum"], ["mychar"])
    for seed in range(30):
        generator = np.random.default_rng(seed)
        damaged = bytearray(whole[: generator.integers(len(whole))] if seed % 2 else whole)
        for place in generator.integers(0, len(damaged), 8):
            damaged[place] ^= 1 << generator.integers(8)
        path.write_bytes(damaged)
        try:
            columns(path, numbers, texts)
        except InputError as error:
            refusals.append(str(error))
    assert len(refusals) >= 10
    assert all(message.startswith(f"file {str(path)!r}") and "\n" not in message for message in refusals)


def test_rows_that_a_file_cannot_have_are_not_made_room_for(folder: Path) -> None:
    whole = (FILES / "sample.dta").read_bytes()
    at = whole.index(b"<N>") + len(b"<N>")
    Path("a.dta").write_bytes(whole[:at] + b"\xff\xff\xff\x7f" + whole[at + 4 :])
    with pytest.raises(InputError, match=r"^file 'a\.dta': it is damaged: so short a file does not have 2,147,483,6"):
        columns(Path("a.dta"), ["mynum"])


def test_a_file_of_another_kind_is_named_as_what_it_is(folder: Path) -> None:
    Path("a.sav").write_bytes((FILES / "sample.dta").read_bytes())
    with pytest.raises(InputError, match=r"^file 'a\.sav': it is a Stata file: give it a name that ends in \.dta$"):
        columns(Path("a.sav"), ["mynum"])
    Path("a.dta").write_text("y_true,y_score\n1,0.5\n")
    with pytest.raises(InputError, match=r"^file 'a\.dta': it is text: give it a name that ends in \.csv$"):
        columns(Path("a.dta"), ["mynum"])
    Path("a.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(InputError, match=r"^file 'a\.db': it is an SQLite database: name it as sqlite:///FILE, with a"):
        columns(Path("a.db"), ["mynum"])
    with pytest.raises(InputError, match=r"there is no column 'risk' \(there are: MYCHAR, MYNUM, "):
        columns(FILES / "sample.xpt", ["risk"])


def test_without_the_extra_the_message_has_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(InputError, match=r"files of SAS, SPSS, Stata and Excel need pyreadstat: .* '\.\[files\]'"):
        columns(FILES / "sample.sav", ["mynum"])


def test_a_label_of_different_values_in_different_files_is_refused_where_values_are_compared(folder: Path) -> None:
    a = write("a.sav", {"died": {1.0: "Dead", 2.0: "Alive"}}, died=[1.0, 2.0], risk=[0.9, 0.1])
    b = write("b.sav", {"died": {1.0: "Alive", 2.0: "Dead"}}, died=[1.0, 2.0], risk=[0.1, 0.9])
    bare = write("c.sav", {}, died=[1.0, 2.0], risk=[0.9, 0.1])
    first, second = read_parties([a, b], **COLUMNS, entries=FileEntries(positive_label="Dead"))
    assert (first.y_true.tolist(), second.y_true.tolist()) == ([True, False], [False, True])
    for files, positive in (((a, b), "1"), ((a, b), 2), ((b, bare, a), "Dead"), ((a, b, bare), "Dead")):
        with pytest.raises(InputError, match=r"label '(Alive|Dead)' has (other|several) values"):
            read_parties([*files], **COLUMNS, entries=FileEntries(positive_label=positive))
