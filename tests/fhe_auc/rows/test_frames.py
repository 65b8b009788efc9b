"""Rows in memory: data frames, Arrow tables and dicts give the AUC that the same rows give as pairs of arrays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset

from fhe_auc import InputError, PartyData, federated_auc, federated_report, federated_thresholds
from fhe_auc.base.terminal import shown
from fhe_auc.question.analysis import Questions
from fhe_auc.rows.frames import MemoryTable, parties_of
from fhe_auc.rows.party_data import Entries
from fhe_auc.rows.party_files import read_for
from fhe_auc.rows.party_rows import parties_in
from tests.support.lazy import Lazy

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

GRID = np.arange(51) / 50
EXACT = {"thresholds": GRID, "protocol": "histogram-federated"}  # of which each score is one, and nothing encrypted
CHEAP = {"thresholds": GRID, "protocol": "dpauc-laplace", "epsilon": 1.0}
COLUMNS = {"label": "died", "score": "risk", "site": "hospital"}


def patients(rows: int = 90) -> pd.DataFrame:
    random = np.random.default_rng(5)
    died = random.random(rows) < 0.4
    return pd.DataFrame(
        {
            "hospital": np.array(["north", "south", "west"])[random.integers(3, size=rows)],
            "died": died.astype(int),
            "risk": np.round(np.clip(random.normal(0.4 + 0.2 * died, 0.2), 0, 1) * 50) / 50,
            "sex": random.choice(["F", "M"], rows),
        }
    )


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas, categories": lambda frame: frame.astype({"hospital": "category", "died": "Int64", "risk": "Float64"}),
    "pandas, other index": lambda frame: frame.set_index(np.arange(len(frame))[::-1] * 7),
    "pandas, Arrow types": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "Arrow": pa.Table.from_pandas,
    "Arrow, dictionary": lambda frame: pa.Table.from_pandas(frame.astype({"hospital": "category"})),
    "polars": lambda frame: pl.DataFrame(frame.to_dict("list")),
    "polars, categories": lambda frame: pl.DataFrame(frame.to_dict("list")).cast({"hospital": pl.Categorical}),
    "dict": lambda frame: {name: frame[name].tolist() for name in frame},
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_table_with_a_column_of_sites_is_the_auc_of_its_rows(kind: str) -> None:
    frame = patients()
    found = federated_auc(KINDS[kind](frame), **COLUMNS, **EXACT)
    assert found.parties == 3
    assert float(found) == pytest.approx(roc_auc_score(frame["died"], frame["risk"]), abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "positive"),
    [(["no", "yes"], "yes"), ([-1, 1], 1), ([1, 2], 2), ([1.0, 0.0], 0), ([False, True], True), (["no", b"yes"], "no")],
)
def test_positive_label_says_which_label_counts(labels: list[Any], positive: Any) -> None:
    frame = patients()
    named = frame.assign(died=[labels[died] for died in frame["died"]])
    truth = roc_auc_score([labels[died] == positive for died in frame["died"]], frame["risk"])
    found = federated_auc(named, **COLUMNS, positive_label=positive, **EXACT)
    assert found.auc == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (
            ["no", "yes"],
            "'no' and 'yes', not 0 and 1; say which one is positive: positive_label='no' or positive_label='yes'",
        ),
        ([1, 2], "'1' and '2', not 0 and 1; say which one is positive: positive_label='1' or positive_label='2'"),
        ([-1, 1], "'-1' and '1', not 0 and 1; say which one is positive: positive_label='-1' or positive_label='1'"),
    ],
)
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", [list, np.array])
def test_of_two_labels_neither_is_recommended(labels: list[Any], told: str, first: int, kind: Any) -> None:
    """Whichever comes first, and also where each party has one of them only."""
    ones, others = ([labels[label]] * 3 for label in (first, 1 - first))
    scores = [0.1, 0.2, 0.3]
    for rows in ([(kind(ones + others), scores * 2)], [(kind(ones), scores), (kind(others), scores)]):
        with pytest.raises(InputError, match=f"^party .*, row [0-3]: label is .*; the labels are {told}$"):
            federated_auc(rows, **CHEAP)
    with pytest.raises(InputError, match=f", column 'died': label is .*; the labels are {told}$"):
        federated_auc([{"died": kind(ones + others), "y_score": scores * 2}], label="died", **CHEAP)


def test_of_more_labels_the_first_odd_one_is_named_and_classes_are_an_argument() -> None:
    for label in (-1, 2, 1.5, "x"):
        with pytest.raises(InputError, match=r"'party 1', row 2: label is .*; the 3 labels .* classes=") as refused:
            federated_auc([([0, 1, label, 1], [0.1, 0.2, 0.3, 0.4])], **CHEAP)
        assert "--" not in str(refused.value)
    rows = [([0, 1, 1], [0.1, 0.2, 0.3]), ([0, None, "x"], [0.1, 0.2, 0.3])]
    with pytest.raises(InputError, match=r"'party 2', row 2: label is 'x'; the 3 labels are '0', '1', 'x'"):
        federated_auc(rows, **CHEAP)


TABLES = {"label": "died", "score": "risk"}
NAMED = r"^party 1 is a name with a table, .* give the mapping itself, dict\(rows\)"  # no pair of labels and scores
TWICE = pd.concat([patients(), patients()[["risk"]]], axis=1)


@pytest.mark.parametrize(
    ("rows", "more", "shown"),
    [
        (patients(), {**COLUMNS, "score": "Risk"}, r"no column 'Risk'; did you mean 'risk'\? \(there are: "),
        (patients(), {**COLUMNS, "label": "outcome"}, r"no column 'outcome' \(there are: hospital, died, risk, sex\)"),
        (patients(), {**COLUMNS, "site": "hospitl"}, "did you mean 'hospital'"),
        (patients(), {**COLUMNS, "by": "sexe"}, "did you mean 'sex'"),
        (patients(), {**COLUMNS, "score": "risk,sex"}, r"is no column: score=\['risk', 'sex'\] names several"),
        (patients(), {**COLUMNS, "site": "risk", "score": "risk"}, "'risk' is there twice"),
        (patients(), {**COLUMNS, "site": None}, "which column names each row's party, as in site='hospital'"),
        (patients(), {**COLUMNS, "label": "hospital", "site": "sex"}, "'hospital': label is 'south'; the 3 labels are"),
        (patients(), {**COLUMNS, "label": "sex", "positive_label": "X"}, "'X' there is one other .*: 'F' and 'M'"),
        (patients(), {**COLUMNS, "label": "hospital", "site": "sex", "positive_label": "north"}, "'south' and 'west'"),
        (7, {}, "a list of pairs .* or of tables, got int"),
        ([], {}, "there are no parties"),
        (
            [([0, 1], [0.1, 0.2], [1, 1])],
            {},
            "expected a pair .* got tuple; weights are a column of a table .weight=COLUMN.",
        ),
        ({"y_true": [0, 1, 1], "y_score": [0.1, 0.2, 0.3]}, {}, "got list; .* one table .* takes site=COLUMN"),
        ({"north": (["a", "a"], [0.1, 0.2])}, {}, "row 0: label is 'a'; all labels are 'a', not 0 and 1; .*label='a'$"),
        ({"north": ([0, 1, None], [0.1, 0.2, 0.3])}, {}, "row 2: label is missing"),
        ({1: ([0, 1], [0.1, 0.2])}, {}, "party 1: the name of a party must be text"),
        ([([0, 1], np.ones((2, 2)))], {}, r"y_score must be .* have shape \(2, 2\): .* predict_proba\(X\)\[:, 1\]"),
        ([(pd.DataFrame({"y": [0, 1]}), [0.1, 0.2])], {}, r"y_true must be one-dimensional, but have shape \(2, 1\)"),
        ([np.ones((2, 2))], {}, r"got ndarray \(of an array give two columns, as \(rows\[:, 0\], rows\[:, 1\]\)\)"),
        (TWICE, COLUMNS, r"risk must be one-dimensional, but have shape \(90, 2\): .* a table has it once"),
        ({**patients(), "hospital": [["a"]] * 90}, COLUMNS, r"hospital must be one-dimensional, but have shape"),
        ({**patients(), "hospital": [["a"], "b"] * 45}, COLUMNS, "hospital: .* convert it to one of numpy first"),
        (patients().assign(sex=[["F"]] * 90), {**COLUMNS, "by": "sex"}, "row 0: sex must be one value for each row"),
        ([None], {}, "party 'party 1': expected a pair .* or a table, got NoneType"),
        ("north.csv", {}, r"or of tables, got str \(read files first\)"),
        (["north.csv"], {}, r"or a table, got str \(read files first\)"),
        ({("north",): patients()}, {}, "the name of a party must be text, as "),
        (patients().iloc[:0], COLUMNS, "^the table: there are no rows$"),
        (patients(), {**COLUMNS, "by": {"sex": "FM"}}, "the levels of 'sex' must be a list, got 'FM'"),
        (patients(), {**COLUMNS, "by": {"sex": ["F", None]}}, "'sex' must be text, a number or a Boolean, got None"),
        (patients(), {**COLUMNS, "by": 3}, "by must be a column, a list, or a mapping of columns .*, got 3"),
        (patients(), {**COLUMNS, "score": 1}, "score must be a column, or a list, got 1"),
        (patients(), {**COLUMNS, "label": 1}, "label must be the name of a column, as text .rename.*, got 1"),
        (patients(), {**COLUMNS, "classes": "abc"}, "classes must be a list of labels, got 'abc'"),
        (patients(), {**COLUMNS, "positive_label": "NA"}, "positive_label cannot be 'NA', which stands for a missing"),
        (list(patients().groupby("hospital")), TABLES, NAMED),
        (list(pl.DataFrame(patients().to_dict("list")).group_by("hospital")), TABLES, NAMED),
        (list({"north": patients(), "south": patients()}.items()), TABLES, NAMED),
    ],
)
def test_what_is_no_party_column_or_entry_is_refused_with_remedy(rows: Any, more: dict[str, Any], shown: str) -> None:
    with pytest.raises(InputError, match=shown):
        federated_auc(rows, **more, **CHEAP)


class RayDataset:
    """What a table of Ray Data has: columns as a method, and rows once they are asked for."""

    def columns(self) -> list[str]:
        return ["hospital", "died", "risk"]

    def to_pandas(self) -> pd.DataFrame:
        return patients()


def of_dask(frame: pd.DataFrame) -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)


GROUPED = "the table is grouped: give it as it was, and the column that it was grouped by as site=COLUMN"


@pytest.mark.parametrize("site", [None, "hospital"])
@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda frame: pl.DataFrame(frame.to_dict("list")).lazy(), r"LazyFrame .* give what \.collect\(\) returns"),
        (lambda frame: dataset.dataset(pa.Table.from_pandas(frame)), r"Dataset .* give what \.to_table\(\) returns"),
        (lambda frame: pa.Table.from_pandas(frame).to_reader(), r"Reader .* give what \.read_all\(\) returns"),
        (of_dask, r"DataFrame .* give what \.compute\(\) returns"),
        (lambda frame: RayDataset(), r"RayDataset .* give what \.to_pandas\(\) returns"),
        (lambda frame: frame.groupby("hospital"), GROUPED),
        (lambda frame: pa.Table.from_pandas(frame).group_by("hospital"), GROUPED),
        (lambda frame: pl.DataFrame(frame.to_dict("list")).group_by("hospital"), GROUPED),
    ],
)
def test_lazy_or_grouped_tables_are_refused(make: Callable[[pd.DataFrame], Any], remedy: str, site: str | None) -> None:
    with pytest.raises(InputError, match=f"^rows: .*{remedy}"):
        federated_auc(make(patients()), **{**COLUMNS, "site": site}, **CHEAP)
    with pytest.raises(InputError, match=f"^party 'north': .*{remedy}"):
        federated_auc({"north": make(patients())}, label="died", score="risk", **CHEAP)


@pytest.mark.parametrize("whole", ["pair", "table"])
def test_columns_that_are_computed_one_by_one_are_refused_as_their_rows_may_differ(whole: str) -> None:
    """Of a random step each draws anew: scores of one order would meet labels of another, and nothing would show it."""
    frame = of_dask(patients()).map_partitions(lambda part: part.sample(frac=1))
    for died, risk in ((frame.died, frame.risk), (frame.died.to_dask_array(), frame.risk.to_dask_array())):
        given = (died, risk) if whole == "pair" else {"y_true": died, "y_score": risk}
        with pytest.raises(InputError, match=r"^party 'north': y_true: \w+ holds no rows .* together, as one table$"):
            federated_auc({"north": given}, **CHEAP)


class DataArray(list[float]):
    """As xarray's, which is computed: no graph is left of it."""

    __dask_graph__ = compute = lambda self: None


def test_arrays_that_are_computed_are_read_whatever_they_could_do_before() -> None:
    assert 0 <= federated_auc([(DataArray([0, 1, 1]), DataArray([0.1, 0.2, 0.3]))] * 2, **CHEAP).auc <= 1


BANDS = ["<1", "1-4", "5-11", "12-17", "18+"]


@pytest.mark.parametrize(
    ("levels", "order", "listed"),
    [
        (BANDS, None, BANDS),
        ([10, 9, -1, 0.5], None, ["-1", "0.5", "9", "10"]),
        ([">65", "65", "≤65"], None, ["≤65", "65", ">65"]),
        (["stage 10", "stage 2", "no"], None, ["no", "stage 2", "stage 10"]),
        (["mild", "severe", "no"], ["no", "mild", "moderate", "severe"], ["no", "mild", "severe"]),
        (BANDS, BANDS[::-1], BANDS[::-1]),
    ],
)
def test_levels_keep_the_order_of_an_ordered_categorical_else_a_natural_one(
    levels: list[Any], order: list[str] | None, listed: list[str], tmp_path: Path
) -> None:
    entries = levels if order is None else pd.Categorical(levels, categories=order, ordered=True)
    frame = pd.DataFrame({"y_true": 0, "y_score": 0.5, "group": entries}).sort_values("y_score")
    questions = Questions(score_columns=("y_score",), by={"group": ()})
    tables: list[Any] = [[frame], [pa.Table.from_pandas(frame)]]
    if order is not None:
        text = frame.astype({"group": str})
        tables.append([pl.DataFrame(text.to_dict("list")).with_columns(pl.col("group").cast(pl.Enum(order)))])
    for rows in tables:
        (variable,) = parties_of(rows, questions)[1].by
        assert list(variable.levels) == listed
    for name, write in (("a.parquet", frame.to_parquet), ("a.feather", frame.to_feather)):
        write(tmp_path / name)
        (variable,) = read_for(questions, tmp_path / name)[1].by
        assert list(variable.levels) == listed


@pytest.mark.parametrize("kind", ["boolean", "Int64", "Float64", "string", "float"])
def test_a_missing_entry_of_pandas_types_is_called_so(kind: str) -> None:
    labels = pd.Series(["1", None, "0"]) if kind == "string" else pd.Series([1, None, 0], dtype=kind)
    with pytest.raises(InputError, match=r"^party 'party 1', row 1: label is missing; drop the row, as drop_"):
        federated_auc([(labels, [0.1, 0.2, 0.3])], **CHEAP, positive_label="1" if kind == "string" else None)


def test_rows_of_pairs_and_masked_arrays_and_sites_that_are_lost_are_left_out_and_told() -> None:
    pairs = [([1, 0, None, 1], [0.9, 0.1, 0.3, np.nan]), (np.ma.array([1, 0, 1], mask=[0, 0, 1]), [0.3, 0.5, 0.2])]
    found = federated_auc(pairs, **EXACT, drop_missing=True)
    told = {f"party 'party {k}': {n} rows with a missing entry were left out" for k, n in ((1, 2), (2, 1))}
    assert found.auc == 3 / 4
    assert told <= set(found.warnings)
    with pytest.raises(InputError, match="party 'party 1', row 2: score is 'x'"):
        federated_auc([([1, None, 0], [0.1, 0.2, "x"])], **CHEAP, drop_missing=True)
    frame = pd.DataFrame({"y": [1, 0, None, 1], "p": [0.9, 0.1, 0.3, 0.4], "site": ["a", "a", "b", None]}, dtype=object)
    columns = {"label": "y", "score": "p", "site": "site", "drop_missing": True}
    told = (
        "site 'b': all of its rows (1) have a missing entry and were left out, and the site with them",
        "1 rows were left out whose site is missing",
    )
    for found in (federated_auc(frame, **columns, **EXACT), federated_thresholds(frame, 2, **columns)):
        assert set(told) <= set(found.warnings)
    with pytest.raises(InputError, match=r"^the table: there are no rows: each of its rows has a missing entry"):
        federated_auc(frame.iloc[:1].assign(y=None), **columns, thresholds=GRID)
    with pytest.raises(InputError, match="party 'a': there are no rows: each of its rows has a missing entry"):
        federated_auc({"a": ([None], [0.5])}, **CHEAP, drop_missing=True)


def test_columns_of_sites_are_for_one_table_models_for_tables_and_errors_name_party_and_column() -> None:
    for rows in ({"north": patients()}, [patients()]):
        with pytest.raises(InputError, match="site='hospital' is for one table with all parties' rows"):
            federated_auc(rows, **COLUMNS, **CHEAP)
    pair = ([0, 1], [0.1, 0.2])
    for party in (pair, PartyData.from_arrays("north", *pair)):
        with pytest.raises(InputError, match="give a table"):
            federated_auc([party], score=["a", "b"])
    with pytest.raises(InputError) as unknown:
        federated_auc(patients(), **{**COLUMNS, "score": "risks"}, **CHEAP)
    assert (unknown.value.party, unknown.value.column) == (None, "risks")
    with pytest.raises(InputError) as text:
        federated_auc({"north": patients()}, label="sex", score="risk", **CHEAP)
    assert (text.value.party, text.value.column) == ("north", "sex")


def test_thresholds_that_were_found_are_thresholds_and_say_what_finding_them_reveals() -> None:
    frame = patients(400)
    found = federated_thresholds(frame, 5, **COLUMNS, backend="tenseal")
    assert found.grid == pytest.approx(np.quantile(frame["risk"], [0, 0.2, 0.4, 0.6, 0.8])[0:5], abs=0.2)
    span = f"{len(found.grid)} from 0 to {found.grid[-1]:g}"
    assert repr(found) == str(found) == f"<QuantileThresholds: {span}; protocol boundaries-federated, 3 parties>"
    asked: dict[str, Any] = {**COLUMNS, "backend": "tenseal"}
    given, numbers = (federated_auc(frame, **asked, thresholds=each) for each in (found, found.grid))
    assert (given.fraction, given.thresholds, given.rounds) == (numbers.fraction, numbers.thresholds, numbers.rounds)
    assert given.warnings == (*numbers.warnings, *(each for each in found.warnings if each not in numbers.warnings))
    assert set(found.warnings) - set(numbers.warnings)
    report = federated_report(frame, **asked, thresholds=found, min_cell=1).as_dict()
    assert report["session"]["thresholds"] == f"quantile:{len(found.grid)}"
    assert "Thresholds come from the scores themselves" in report["privacy"]
    assert set(found.warnings) <= set(report["warnings"])


def test_progress_is_a_bar_on_the_terminal_or_told_to_a_callable(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    told: list[tuple[str, int, int]] = []
    for progress in (True, lambda *report: told.append(report)):
        federated_auc(patients(), **COLUMNS, **CHEAP, progress=progress)
        assert capsys.readouterr() == ("", "")
    assert (told[0], told[-1][1:]) == (("round 1", 0, 3), (3, 3))
    monkeypatch.setattr("fhe_auc.base.terminal._is_terminal", lambda stream: True)
    with shown(True) as report:
        report("round 1", 1, 3)
    out, err = capsys.readouterr()
    assert (out, "Round 1" in err, "1 of 3 parties" in err) == ("", True, True)
    assert (err.split("\r")[-2].strip(), err[-1]) == ("", "\r")  # nothing of it is left


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_are_found_whatever_blanks_and_normal_form_their_names_have(make: Callable[..., Any]) -> None:
    table = make({"Gro\u0308ße ": ["a", "b"] * 2, " To\u0308d": [1, 0] * 2, "risk ": [0.9, 0.1, 0.3, 0.5]})
    found = federated_auc({"north": table}, label="Töd", score=" risk", by={"Größe": ["b", "a"]}, thresholds=GRID)
    assert (found.auc, [each.group for each in found.estimates[1:]]) == (3 / 4, ["Größe: b", "Größe: a"])


def test_two_tables_of_one_party_are_refused_by_whoever_gives_them() -> None:
    table = patients()
    own = [MemoryTable("party 'north'", "north", table), MemoryTable("party 'north'", "north", table)]
    with pytest.raises(InputError, match="party 'north' is there twice"):
        parties_in(own, Questions(score_columns=("risk",)), site=None, label="died", entries=Entries())
