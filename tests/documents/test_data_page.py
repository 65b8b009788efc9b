"""docs/guide/data.md: its command runs, entries are what its table says, and recipes give scikit-learn's AUC."""

import datetime
import json
import re
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.rows.entries import canonical, site_name
from fhe_auc.rows.table_files import SUFFIXES
from tests.support import postgresql
from tests.support.command_line import told
from tests.support.guides import GUIDES
from tests.support.lazy import Lazy
from tests.support.programs import run

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

PAGE = (GUIDES / "data.md").read_text("utf-8")
EXAMPLES = Path(__file__).parents[2] / "examples"
OMOP = {
    "person": "person_id integer, gender_concept_id integer, care_site_id integer",
    "care_site": "care_site_id integer, care_site_name varchar(255)",
    "cohort": "cohort_definition_id integer, subject_id integer, cohort_start_date date, cohort_end_date date",
    "observation_period": "person_id integer, observation_period_start_date date, observation_period_end_date date",
    "prediction": "subject_id integer, cohort_start_date date, value double precision",
}


def test_the_command_shown_reads_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    died, years = rng.integers(0, 2, 400), rng.integers(2025, 2027, 400)
    risks = np.clip(rng.normal(0.4 + 0.1 * died, 0.2), 0, 1)
    wards = rng.choice(["north", "south"], 400)
    with sqlite3.connect("scores.db") as database:
        database.execute("CREATE TABLE result (died, risk, ward, year)")
        rows = zip(died.tolist(), risks.tolist(), wards.tolist(), years.tolist(), strict=True)
        database.executemany("INSERT INTO result VALUES (?, ?, ?, ?)", rows)
    database.close()
    (command,) = re.findall(r"^```sh\n(fhe-auc .*?)```", PAGE, re.MULTILINE | re.DOTALL)
    found = told(*shlex.split(command.replace("\\\n", ""))[1:])
    now = years == 2026
    assert (found["positives"], found["parties"]) == (died[now].sum(), 2)
    assert found["auc"] == pytest.approx(roc_auc_score(died[now], risks[now]), abs=found["binning_error"])


def test_entries_are_what_the_table_says() -> None:
    table = dict(re.findall(r"^\| (.*) \| (.*) \|$", PAGE, re.MULTILINE))
    one, true, two, missing = (
        re.findall(r"`([^`]+)`", next(entries for entries, are in table.items() if are.startswith(kind)))
        for kind in ("one label", "label 1", "two each", "missing")
    )
    *ones, option, comma = one
    assert {canonical(entry.strip('"')) for entry in ones} == {"1"}
    assert canonical(comma, decimal=option[-1]) == "1"
    assert {canonical(entry) for entry in true} == {"True"}
    assert len({canonical(entry) for entry in two}) == len(two) == 4
    assert [canonical(entry) for entry in ("", *missing)] == [None] * (1 + len(missing))
    assert {entry for entry in missing if site_name(entry) is None} == {"NaN", "NaT"}
    assert len(missing) > 10


def test_the_page_names_kinds_of_files_that_are_read() -> None:
    files = PAGE.split("\n## Files\n")[1].split("\n## ")[0]
    assert {*re.findall(r"`(\.[a-z0-9]{3,})`", files)} <= {*SUFFIXES}


def test_a_prediction_of_ohdsi_is_evaluated_by_its_test_rows_and_any_count_above_0_is_label_1(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    kinds = np.repeat(["Test", "Train", "CV"], (120, 300, 300))
    counts = rng.poisson(0.4, len(kinds))
    values = np.round(np.clip(rng.normal(0.2 + 0.1 * (counts > 0), 0.1), 0, 1), 4)  # as R writes them
    patients = np.arange(len(kinds)) // 2
    columns = {"subjectId": patients, "outcomeCount": counts, "value": values, "evaluationType": kinds}
    stored = {name: column.tolist() for name, column in columns.items()}
    file, csv = tmp_path / "prediction.json", tmp_path / "hospital.csv"
    file.write_text(json.dumps({**stored, "attr_class": "data.frame", "attr_metaData": {"modelType": "binary"}}))
    made = run([sys.executable, str(EXAMPLES / "ohdsi_prediction.py"), str(file)])
    test = kinds == "Test"
    differ = len(set(values[test]))
    assert made.stderr == f"120 rows of type Test, {differ} different scores; rows left out: 300 Train, 300 CV\n"
    csv.write_text(made.stdout)
    found = told("evaluate", str(csv), "--cluster", "patient")
    assert counts[test].max() > 1
    assert found["auc"] == pytest.approx(roc_auc_score(counts[test] > 0, values[test]), abs=found["binning_error"])


def fill(connection: Any) -> tuple[Any, Any]:
    """Make an OMOP database of 400 patients; return the labels and scores of those whose outcome is known."""
    rows: dict[str, list[Any]] = {table: [] for table in OMOP}
    rows["care_site"] = [(7, "Sankt Anna"), (8, "Heilig Geist")]
    rng = np.random.default_rng(2)
    known = []
    for patient in range(1, 401):
        begin = datetime.date(2020, 1, 1) + datetime.timedelta(int(rng.integers(0, 300)))
        after = {0: 1, 1: 365, 2: 366, 3: 0, 4: -20}.get(patient % 40, int(rng.integers(1, 1200)))  # days: the outcome
        until = {5: 364, 6: 365}.get(patient % 40, int(rng.integers(100, 900)))  # days: the end of what is known
        score = float(rng.normal(after <= 365))
        start, event, later, end = (str(begin + datetime.timedelta(days)) for days in (0, after, after + 30, until))
        rows["person"].append((patient, 8507, 7 + patient % 2))
        rows["observation_period"].append((patient, "2019-01-01", end))
        rows["prediction"].append((patient, start, score))
        rows["cohort"].append((1, patient, start, end))
        if after <= until:
            rows["cohort"] += [(2, patient, event, end), (2, patient, later, end)]
        if after > 0 and (after <= min(365, until) or until >= 365):
            known.append((after <= 365, score))
    for table, columns in OMOP.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.execute(f"INSERT INTO {table} VALUES {', '.join(map(str, rows[table]))}")  # noqa: S608
    labels, scores = zip(*known, strict=True)
    return np.array(labels), np.array(scores)


@contextmanager
def database(kind: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """The address of an empty database, and a connection to it."""
    import duckdb
    import psycopg

    file = folder / f"omop.{kind}"
    if kind == "postgresql":
        with postgresql.serving() as place:
            yield (
                f"postgresql://reader@/postgres?host={place}",
                psycopg.connect(f"host={place} user=reader dbname=postgres"),
            )
    else:
        yield f"{kind}:///{file}", sqlite3.connect(file) if kind == "sqlite" else duckdb.connect(str(file))


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql"])
def test_an_omop_query_gives_outcomes_within_the_horizon_by_care_site(kind: str, tmp_path: Path) -> None:
    query = (EXAMPLES / "omop.sql").read_text("utf-8")
    if kind == "sqlite":
        ((pattern, replacement),) = re.findall("sed -E 's/(.*)/(.*)/'", query)
        query = re.sub(pattern, replacement, query)
    columns = ["--label-column", "label", "--score-column", "score", "--site-column", "site"]
    with database(kind, tmp_path) as (address, connection):
        labels, scores = fill(connection)
        connection.commit()
        connection.close()
        found = told("evaluate", address, "--query", query, *columns, "--drop-missing")
    assert (found["positives"], found["negatives"], found["parties"]) == (labels.sum(), (~labels).sum(), 2)
    assert found["auc"] == pytest.approx(roc_auc_score(labels, scores), abs=found["binning_error"])
