"""Rows of databases: a query gives what the same rows give from a file, writes nothing, and tells no password."""

import json
import logging
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from click.testing import CliRunner

from fhe_auc.base import extras
from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_config
from fhe_auc.cli import main
from fhe_auc.machines import site_role
from fhe_auc.question.analysis import Questions
from fhe_auc.rows.databases import Query
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import FileEntries, read_for
from fhe_auc_keys.site.joining_files import NewRole
from tests.support import postgresql, served
from tests.support.keys_folder import ADDER
from tests.support.platforms import needs_linux, needs_modes
from tests.support.programs import output_of
from tests.support.tables import write_table

SCHEMES = ("adbc", "psycopg", "odbc", "sqlite", "duckdb")
SECRET = "g7%/p@s:w"  # noqa: S105 - needs escapes in a URL


class Addresses(dict[str, str]):
    def __missing__(self, scheme: str) -> str:
        postgresql.missing("PostgreSQL's driver for ODBC is not installed here")
        raise KeyError(scheme)


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    with postgresql.serving() as place:
        with psycopg.connect(f"host={place} user=reader dbname=postgres", autocommit=True) as connection:
            connection.execute("create database hospital")
            connection.execute(f"create role careful login password '{SECRET}'")
        yield place


@pytest.fixture(scope="module")
def addresses(server: Path, tmp_path_factory: pytest.TempPathFactory) -> Addresses:
    """Each scheme's address of a table "scores" with the same rows: label, risk, sex, site."""
    files = tmp_path_factory.mktemp("50 % north")
    found = Addresses(
        {
            "adbc": f"postgresql://reader@/hospital?host={server}",
            "psycopg": f"postgresql+psycopg://reader@/hospital?host={server}",
            "sqlite": f"sqlite:///{files}/hospital.db",
            "duckdb": f"duckdb:///{files}/hospital.duckdb",
        }
    )
    if driver := postgresql.odbc_driver():
        found["odbc"] = f"odbc:Driver={driver};Servername={server};Database=hospital;Uid=reader"
    rows = [(label, float(risk), sex, site) for label, risk, sex, site in zip(*table(), strict=True)]
    made = "create table scores (died int, risk double precision, sex varchar(9), site varchar(20))"
    with psycopg.connect(f"host={server} user=reader dbname=hospital") as connection:
        connection.execute(made)
        connection.cursor().executemany("insert into scores values (%s, %s, %s, %s)", rows)
    for opened in (sqlite3.connect(f"{files}/hospital.db"), duckdb.connect(f"{files}/hospital.duckdb")):
        opened.execute(made)
        opened.executemany("insert into scores values (?, ?, ?, ?)", rows)
        opened.commit()
        opened.close()
    return found


def table() -> tuple[list[int], list[float], list[str], list[str]]:
    generator = np.random.default_rng(7)
    labels = (generator.random(300) < 0.4).astype(int).tolist()
    scores = np.concatenate([generator.random(298), [1 / 3, 5e-324]]).tolist()
    return labels, scores, generator.choice(["F", "M"], 300).tolist(), generator.choice(["Köln", "NA"], 300).tolist()


def read(address: str, query: str, *by: str, score: str = "risk", label: str = "died", **entries: Any) -> PartyData:
    site = entries.pop("site", None)
    questions = Questions(score_columns=(score,), by=dict.fromkeys(by, ()))
    parties, _ = read_for(
        questions, address, label_column=label, site_column=site, entries=FileEntries(query=query, **entries)
    )
    return parties[0]


def pieces(address: str, query: str, numbers: list[str], texts: list[str]) -> dict[str, list[Any]]:
    """The entries of columns, as a table gives them after it was read."""
    table = Query(address, query)
    table.keep(numbers, texts)
    found: dict[str, list[Any]] = {name: [] for name in (*numbers, *texts)}
    for piece in table.pieces(numbers, texts):
        for name in numbers:
            found[name] += piece.numbers[name].tolist()
        for name in texts:
            found[name] += [piece.texts[name].names[code] for code in piece.texts[name].codes]
    return found


def one(address: str, query: str, **columns: str) -> dict[str, Any]:
    """The only row of a query: columns by name, each a "number" or a "text"."""
    names = {kind: [name for name, own in columns.items() if own == kind] for kind in ("number", "text")}
    return {name: entry for name, (entry,) in pieces(address, query, names["number"], names["text"]).items()}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_query_gives_what_a_file_with_its_rows_gives(folder: Path, addresses: Addresses, scheme: str) -> None:
    rows = "".join(f"{label},{risk!r},{sex},{site}\n" for label, risk, sex, site in zip(*table(), strict=True))
    Path("hospital.csv").write_text("died,risk,sex,site\n" + rows)
    questions = Questions(score_columns=("risk",), by={"sex": ()})
    for site in (None, "site"):
        asked = {"label_column": "died", "site_column": site}
        expected, wanted = read_for(questions, "hospital.csv", **asked)
        # Sites come in the order in which rows are: that of what was inserted.
        found, analysis = read_for(
            questions, addresses[scheme], **asked, entries=FileEntries(query="select * from scores")
        )
        assert (analysis, [data.name for data in found]) == (wanted, [data.name for data in expected])
        for data, same in zip(found, expected, strict=True):
            for own, other in zip(data.arrays, same.arrays, strict=True):
                np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_null_is_missing(addresses: Addresses, scheme: str) -> None:
    gaps = """select case when sex = 'F' then died end as died, case when risk < 0.5 then risk end as risk,
        case when site = 'NA' then site end as site from scores"""
    labels, scores, _, _ = zip(
        *(row for row in zip(*table(), strict=True) if row[2] == "F" and row[1] < 0.5 and row[3] == "NA"), strict=True
    )
    found = read(addresses[scheme], gaps, drop_missing=True, site="site")
    assert (found.name, found.y_true.tolist(), found.y_score.tolist()) == ("NA", [*labels], [*scores])
    with pytest.raises(InputError, match=r"row \d+ of the query, column '(died|risk|site)': .* is missing"):
        read(addresses[scheme], gaps, site="site")


def test_types_of_postgresql_are_read_as_what_they_say(addresses: Addresses) -> None:
    asked = {
        "0.1::numeric": 0.1,
        "'NaN'::numeric": float("nan"),
        "12345678901234567890.5::numeric": 12345678901234567890.5,
        "1e-320::numeric(400,330)": 1e-320,
        "0.3333333333333333::float8": 0.3333333333333333,
        "0.1::float4": float(np.float32(0.1)),
        "9007199254740993::int8": 9007199254740993,
        "7::int2": 7,
        "true": True,
        "null::float8": float("nan"),
        "'infinity'::date": float("inf"),  # which no score is
    }
    sql = ", ".join(f"{each} as c{at}" for at, each in enumerate(asked))
    found = one(addresses["adbc"], f"select {sql}", **{f"c{at}": "number" for at in range(len(asked))})
    for (each, expected), entry in zip(asked.items(), found.values(), strict=True):
        assert entry == expected or (expected != expected and (entry is None or entry != entry)), each


def test_texts_of_postgresql_are_those_that_its_server_writes(addresses: Addresses) -> None:
    asked = {
        "1.00::numeric(5,2)": "1",
        "1.50::numeric(5,2)": "1.5",
        "'NaN'::numeric": None,
        "12345678901234567890123::numeric": "12345678901234567890123",
        "'a'::char(5)": "a",
        "'b'::name": "b",
        "'infinity'::date": "infinity",
        "'-infinity'::timestamp": "-infinity",
        "'2020-01-02'::date": "2020-01-02",
        "interval '1 day'": "1 day",
        "('{\"a\": \"x\"}'::jsonb)->>'a'": "x",
        "'\\x4142'::bytea": "AB",
        "0.1::float4": "0.1",
        "1::float8": "1",
        "9007199254740993::int8": "9007199254740993",
        "'10.0.0.1'::inet": "10.0.0.1/32",
        "true": "True",
        "null": None,
    }
    sql = ", ".join(f"{each} as c{at}" for at, each in enumerate(asked))
    found = one(addresses["adbc"], f"select {sql}", **{f"c{at}": "text" for at in range(len(asked))})
    assert dict(zip(asked, found.values(), strict=True)) == asked
    for scheme, each in product(("adbc", "psycopg"), ("'{1,2}'::int[]", "'{a}'::text[]")):
        with pytest.raises(InputError, match=r"column 'c' holds list.* and not one text or number for each row"):
            one(addresses[scheme], f"select {each} as c", c="text")
    for scheme in ("adbc", "psycopg"):
        uuid = one(addresses[scheme], "select '6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid as c", c="text")
        assert uuid == {"c": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
    with psycopg.connect(f"host={addresses['adbc'].partition('host=')[2]} user=reader dbname=hospital") as connection:
        connection.execute("create type grade as enum ('low', 'high')")
    assert one(addresses["adbc"], "select 'high'::grade as c", c="text") == {"c": "high"}


@pytest.mark.parametrize("scheme", ["adbc", "psycopg", "odbc", "duckdb"])
def test_a_decimal_is_the_float_nearest_to_it(addresses: Addresses, scheme: str) -> None:
    """As exact fractions say; the scores' order is that of the decimals."""
    generator = np.random.default_rng(3)
    texts = [f"0.{generator.integers(10**9):09d}{generator.integers(10**9):09d}" for _ in range(200)]
    texts += ["0.3", "0.1", "0.145", "0.000000000000000001"]
    values = ", ".join(f"({text}::decimal(20,18))" for text in texts)
    found = pieces(addresses[scheme], f"select * from (values {values}) as v(risk)", ["risk"], [])["risk"]  # noqa: S608
    assert found == [float(Fraction(text)) for text in texts]


def test_sqlite_gives_what_is_stored_whatever_the_column_declares(folder: Path) -> None:
    with sqlite3.connect("odd.db") as made:
        made.execute("create table t (died boolean, risk real, note text)")
        made.executemany("insert into t values (?, ?, ?)", [(1, 0.75, "a"), (0, "0.922", b"\xff"), (2, None, None)])
        made.execute("insert into t values ('N', 9007199254740993, cast(x'fe' as text))")
    made.close()
    found = pieces("sqlite:///odd.db", "select * from t;", ["risk"], ["died", "note"])
    assert repr(found["risk"]) == "[0.75, 0.922, nan, 9007199254740992.0]"  # REAL makes floats of what it can
    assert (found["died"], found["note"]) == (["1", "0", "2", "N"], ["a", "\\xff", None, "\\xfe"])
    mixed = "select 0.844123456789012 as risk union all select 'high'"
    assert pieces("sqlite:///odd.db", mixed, ["risk"], []) == {"risk": [0.844123456789012, "high"]}
    with pytest.raises(InputError, match=r"party 'odd', row 2 of the query, column 'died': label is '2'"):
        read("sqlite:///odd.db", "select died, 0.5 as risk from t")


def test_odbc_keeps_digits_and_refuses_what_drivers_change(addresses: Addresses) -> None:
    """Of PostgreSQL's driver: numeric without precision had six decimals, NaN was 0, and 'infinity' today's date."""
    sql = """select 0.12345678901234567::numeric as long, 'NaN'::numeric as none, 0.3333333333333333::float8 as third,
        9007199254740993::int8 as id, 'Grün'::text as word, 'a'::char(4) as padded, 1.00::numeric as one, true as yes"""
    numbers, texts = ["long", "none", "third"], ["id", "word", "padded", "one", "yes"]
    found = pieces(addresses["odbc"], sql, numbers, texts)
    assert [*map(repr, (found[name][0] for name in numbers))] == ["0.12345678901234566", "nan", "0.3333333333333333"]
    assert [found[name] for name in texts] == [["9007199254740993"], ["Grün"], ["a"], ["1"], ["1"]]
    for each in ("date", "timestamp"):
        with pytest.raises(InputError, match="column 'at' holds dates or times, which drivers change: CAST it to text"):
            pieces(addresses["odbc"], f"select 'infinity'::{each} as at", [], ["at"])
    assert one(addresses["odbc"], "select 'infinity'::date::text as at", at="text") == {"at": "infinity"}
    with pytest.raises(InputError, match="too large to be written into the allocated buffer"):
        pieces(addresses["odbc"], "select repeat('x', 5000) as word", [], ["word"])


def test_duckdb_reads_no_other_file_and_says_what_it_cannot_open(folder: Path, addresses: Addresses) -> None:
    Path("other.csv").write_text("died,risk\n1,0.5\n")
    for query in ("select * from 'other.csv'", "select * from read_csv('other.csv')"):
        with pytest.raises(InputError, match=r"database 'duckdb:///.*hospital\.duckdb': .*other\.csv"):
            read(addresses["duckdb"], query)
    for address, why in (
        ("duckdb:///other.csv", "it is text: give it a name that ends in .csv"),
        ("duckdb:///away.duckdb", ": No such file or directory: 'away.duckdb'"),
        (addresses["sqlite"].replace("sqlite:", "duckdb:"), "it is an SQLite database: name it as sqlite:///FILE"),
        (addresses["duckdb"].replace("duckdb:", "sqlite:"), "it is a DuckDB database: name it as duckdb:///FILE"),
        ("s3://bucket/rows.parquet", "'s3://bucket/rows.parquet' is no database: download the file, and name that"),
    ):
        with pytest.raises(InputError, match=why):
            read(address, "select 1 as died, 0.5 as risk")
    query = (
        "select 0.1::decimal(38,20) as a, 'infinity'::date as b, 'x'::enum('x', 'y') as c, 1::hugeint as d, 0.5 as e"
    )
    found = one(addresses["duckdb"], query, a="number", b="text", c="text", d="text", e="text")
    assert found == {"a": 0.1, "b": "infinity", "c": "x", "d": "1", "e": "0.5"}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_query_can_write(folder: Path, addresses: Addresses, scheme: str) -> None:
    """Neither what is no SELECT, nor one that changes rows or files beside what it gives."""
    out = folder / "out"
    for query in (
        "delete from scores",
        "with gone as (delete from scores returning died, risk) select * from gone",
        "select died, risk from scores; delete from scores",
        "select died, risk into copied from scores",
        "/* select */ drop table scores",
        f"vacuum into '{out}'",
        f"copy scores to '{out}'",
        f"attach '{out}' as other",
        "explain analyze delete from scores",
        "select $$'$$ as died, 1 as risk; commit; delete from scores; select $$'$$ as died, 1 as risk",
        r"select E'\'' as died, 1 as risk; commit; begin read write; delete from scores where E'\'' = 'x'",
    ):
        with pytest.raises(InputError, match="must be one SELECT, with no ; in it, nor in its comments: it only reads"):
            read(addresses[scheme], query)
    if scheme not in ("sqlite", "duckdb"):  # by what its server runs within a SELECT
        for query in ("select nextval('counted') as died, 0.5 as risk", "select died, risk from scores for share"):
            with psycopg.connect(f"host={addresses['adbc'].partition('host=')[2]} user=reader dbname=hospital") as own:
                own.execute("create sequence if not exists counted")
            with pytest.raises(InputError, match="read-only transaction"):
                read(addresses[scheme], query)
    assert read(addresses[scheme], "select '--' as x, died, risk from scores -- insert into").rows == 300
    assert not out.exists()


@pytest.mark.parametrize("words", ["exec xp_cmdshell 'x'", "drop table t", "truncate table t", "execute('x')"])
def test_no_second_command_without_a_semicolon_goes_to_servers_that_have_no_read_only_transactions(words: str) -> None:
    for address in ("odbc:DSN=x", "mssql+pymssql://reader@host/db", "oracle+oracledb://reader@host/db"):
        with pytest.raises(InputError, match="must be one SELECT"):
            Query(address, f"select died, risk from t {words}")  # noqa: S608


def test_a_query_is_read_once(folder: Path) -> None:
    """A session goes over rows several times: those that a database gets meanwhile are not among them."""
    with sqlite3.connect("moving.db") as made:
        made.execute("create table t (died, risk, sex)")
        made.executemany("insert into t values (?, ?, ?)", [(1, 0.5, "F"), (0, 0.25, "M")])
        made.commit()
        table = Query("sqlite:///moving.db", "select * from t")
        table.keep(["risk"], ["died", "sex"])
        made.execute("delete from t where died = 1")
        made.commit()
        assert [len(piece.texts["sex"]) for piece in table.pieces((), ["sex"])] == [2]
        assert [piece.numbers["risk"].tolist() for piece in table.pieces(["risk"], ["died"])] == [[0.5, 0.25]]
    made.close()


def test_messages_name_the_database_the_row_and_the_column(addresses: Addresses) -> None:
    server = "database 'postgresql:///hospital'"
    told = {
        "select * from scores": "there is no column 'age' .there are: died, risk, sex, site.",
        "select 1 as died, 2 as age, 3 as age": "column 'age' is there 2 times",
        "select * from nowhere": 'relation "nowhere" does not exist$',
        "select 1 as died, 1/0 as age": "division by zero$",
        "select died, risk as age from scores where false": "there are no rows$",
    }
    for query, why in told.items():
        with pytest.raises(InputError, match=f"^{server}: {why}"):
            read(addresses["adbc"], query, score="age")
    odd = "select died, case when risk < 0.5 then risk end as risk from scores"
    row = next(at for at, risk in enumerate(table()[1]) if risk >= 0.5)
    with pytest.raises(InputError, match=f"^party 'hospital', row {row} of the query, column 'risk': score is missing"):
        read(addresses["adbc"], odd)
    assert read(addresses["adbc"], odd, drop_missing=True).rows == sum(risk < 0.5 for risk in table()[1])
    for label, score in (("died::numeric::money", "risk"), ("died", "risk::numeric::money")):  # whose cents would come
        with pytest.raises(InputError, match="cannot cast type money to bigint: in the query, cast it to num"):
            read(addresses["adbc"], f"select {label} as died, {score} as risk from scores")  # noqa: S608


@needs_modes
def test_a_password_comes_from_a_file_or_a_variable_and_is_told_nowhere(
    folder: Path, server: Path, addresses: Addresses, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(f"host={server} user=reader dbname=hospital") as connection:
        connection.execute("grant select on scores to careful")
    caplog.set_level(logging.DEBUG)
    careful = [addresses[scheme].replace("reader", "careful") for scheme in ("adbc", "psycopg", "odbc")]
    Path("password").write_text(f"{SECRET}\n")
    Path("password").chmod(0o600)
    query = "select * from scores"
    for address in careful:
        assert read(address, query, password_file=Path("password")).rows == 300
        with monkeypatch.context() as patched:
            patched.setenv("FHE_AUC_DATABASE_PASSWORD", SECRET)
            assert read(address, query).rows == 300
            patched.setenv("FHE_AUC_DATABASE_PASSWORD_FILE", "password")
            patched.setenv("FHE_AUC_DATABASE_PASSWORD", "another")
            assert read(address, query).rows == 300
    Path("password").chmod(0o644)
    with pytest.raises(InputError, match="password file 'password' is open to other users: chmod 600 it"):
        read(careful[0], query, password_file=Path("password"))
    monkeypatch.setenv("FHE_AUC_DATABASE_PASSWORD", wrong := "Wr0ng%/@:")
    broken = ("postgresql://careful@[::1/hospital", "postgresql://careful@h:1x/hospital", "odbc:Driver=none;Server=h")
    texts = [caplog.text]
    for address in (
        *careful,
        *broken,
        "mysql+pymysql://careful@h/hospital",
        "postgresql+psycopg://careful@h:x/hospital",
    ):
        with pytest.raises(InputError) as told:
            read(address, query)
        texts += [str(told.value), repr(told.value), repr(Query(address, query)), str(told.value.file)]
    for text in texts:
        assert not any(secret in text for secret in (wrong, "Wr0ng", SECRET, "g7%", "careful@", "careful:")), text


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:s3cret@host/db",
        "postgresql://me:s3c@ret@host/db",
        "postgresql://me:s3/cret@host/db",
        "postgresql://me:s3?cret@host/db",
        "postgresql://me:s3#cret@host/db",
        "postgresql://host/db?password=s3cret",
        "postgresql://host/db?%70assword=s3cret",
        "mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BPWD%3Ds3cret",
        "oracle+oracledb://host/db?wallet_password=s3cret",
        "duckdb:///md:db?motherduck_token=s3cret",
        "mysql+pymysql://me:s3cret@host:3306/db",
        "odbc:Driver={A};Server=host;UID=me;PWD={s3;cret}",
        "ODBC:Driver=A;Server=host;uid=me; Password = s3cret",
    ],
)
def test_a_password_in_an_address_is_refused(folder: Path, address: str) -> None:
    for query in ("select 1 as died, 0.5 as risk", ""):
        with pytest.raises(InputError, match="put the password into the variable FHE_AUC_DATABASE_PASSWORD") as told:
            read(address, query)
        assert not any(part in str(told.value) for part in ("s3", "cret", "me:", "host"))


def test_a_party_is_called_as_the_database() -> None:
    for address, name, party in (
        (
            "postgresql://me@db.example.org:5432/Klinik%20Nord",
            "postgresql://db.example.org:5432/Klinik%20Nord",
            "Klinik Nord",
        ),
        ("postgresql://db.example.org", "postgresql://db.example.org", "db.example.org"),
        ("postgres:///?service=north", "postgres:///", "north"),
        ("sqlite:////data/north.db", "sqlite:////data/north.db", "north"),
        ("mssql+pyodbc://me@host/north?driver=A", "mssql+pyodbc://host/north", "north"),
        ("odbc:Driver={A};Server=host;Database=north;UID=me", "odbc:host;north", "north"),
        ("odbc:DSN=north;UID=me", "odbc:north", "north"),
    ):
        query = Query(address, "select 1")
        assert (query.name, query.party, query.file) == (name, party, name)


def test_files_of_one_name_are_parties_by_their_folders_and_a_link_to_one_is_that_file(folder: Path) -> None:
    for name in ("north", "south"):
        Path(name).mkdir()
        with closing(sqlite3.connect(f"{name}/data.db")) as made:
            made.execute("create table t as select 1 as died, 0.5 as risk union all select 0, 0.25")
    questions, entries = Questions(score_columns=("risk",)), FileEntries(query="select * from t")
    parties, _ = read_for(
        questions, ["sqlite:///north/data.db", "sqlite:south/data.db"], label_column="died", entries=entries
    )
    assert [data.name for data in parties] == ["north", "south"]
    Path("link.db").symlink_to("north/data.db")
    with pytest.raises(InputError, match=r"'sqlite:///link.db' is given twice, also as 'sqlite:///north/data.db'"):
        read_for(questions, ["sqlite:///north/data.db", "sqlite:///link.db"], label_column="died", entries=entries)


def test_a_library_that_is_missing_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="No module named 'pymysql'"):
        read("mysql+pymysql://host/db", "select 1")
    with pytest.raises(InputError, match="dialects:nothing"):
        read("nothing://host/db", "select 1")
    Path("a.duckdb").write_bytes(bytes(8) + b"DUCK@" + bytes(9))  # how one begins
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    for address, module in (
        ("postgresql://host/db", "adbc_driver_postgresql and adbc_driver_manager"),
        ("duckdb:///a.duckdb", "duckdb"),
        ("odbc:DSN=a", "arrow_odbc"),
        ("oracle+oracledb://host/db", "sqlalchemy"),
    ):
        with pytest.raises(
            InputError, match=rf"databases need {module}: in a clone of fhe-auc, pip install '\.\[sql\]'"
        ):
            read(address, "select 1")


def test_commands_take_addresses_and_settings_a_query(folder: Path, addresses: Addresses) -> None:
    def run(*arguments: str) -> Any:
        found = CliRunner().invoke(main, [*arguments, "--label-column", "died", "--score-column", "risk"])
        return found

    assert run("evaluate", addresses["adbc"]).exit_code == 2
    told = run("evaluate", addresses["adbc"], "--query", "select * from scores", "--site-column", "site", "--json")
    assert told.exit_code == 0, told.stderr
    labels, scores, _, _ = (np.array(column) for column in table())
    higher = (scores[labels == 1][:, None] > scores[labels == 0]).mean()
    assert json.loads(told.stdout)["auc"] == pytest.approx(higher, abs=2e-3)
    assert json.loads(told.stdout)["parties"] == 2
    Path("fhe-auc.toml").write_text("query = \"select * from scores where sex = 'F'\"\n")
    Path("other.csv").write_text("died,risk\n" + "1,0.5\n0,0.25\n" * 10)
    told = run("evaluate", addresses["sqlite"], "other.csv", "--json")
    assert told.exit_code == 0, told.stderr + told.stdout
    assert json.loads(told.stdout)["estimates"][0]["n"] == 20 + table()[2].count("F"), told.stderr
    again = run("evaluate", addresses["sqlite"], addresses["sqlite"])
    assert "is given twice, which would count its rows twice" in again.stderr


def test_a_site_is_configured_with_an_address_and_a_query(folder: Path, addresses: Addresses) -> None:
    config = {
        "data": addresses["adbc"],
        "query": "select * from scores",
        "label-column": "died",
        "score-column": "risk",
    }
    assert site_role.wrong_columns(config, [], []) == ""
    assert "no column 'age'" in site_role.wrong_columns({**config, "score-column": "age"}, [], [])
    assert "which rows of it? Give a SELECT as --query, or as query" in site_role.wrong_columns(
        {**config, "query": ""}, [], []
    )
    assert "'nowhere'" in site_role.wrong_columns({**config, "database-password-file": "nowhere"}, [], [])
    role = NewRole("north", "site", addresses["adbc"], folder)  # as `fhe-auc join --data` has it
    assert read_config(role.configured("/exchange"), None)["data"] == addresses["adbc"]


def test_a_session_counts_the_rows_that_sites_have_in_databases_in_whatever_order_they_come(
    folder: Path, server: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served.copy_roles(folder)
    rows = {name: Path(f"{name}.csv").read_text().splitlines()[1:] for name in ("north", "south")}
    with psycopg.connect(f"host={server} user=reader dbname=hospital") as connection:
        connection.execute("create table north (y_true int, y_score numeric)")
        connection.cursor().executemany("insert into north values (%s, %s)", [row.split(",") for row in rows["north"]])
    with closing(sqlite3.connect("south.db")) as made:
        made.execute("create table t (y_true, y_score)")
        made.executemany("insert into t values (?, ?)", [[*map(float, row.split(","))] for row in rows["south"]])
        made.commit()
    served.change(
        "north", data=f"postgresql://reader@/hospital?host={server}", query="select * from north order by random()"
    )
    served.change("south", data="sqlite:///south.db", query="select * from t")
    with served.serving(*served.SITES, ADDER):
        served.make_session()
        served.until(lambda: served.delivered(*served.SITES))
        served.check_results(*served.SITES)
    assert "have changed" not in caplog.text


@needs_linux("/proc, which says what memory a process has used")
@pytest.mark.slow
def test_a_million_rows_take_three_times_the_cpu_of_a_file_and_ten_times_as_many_250_mb(
    folder: Path, addresses: Addresses
) -> None:
    def used(*arguments: str) -> tuple[float, float]:
        """CPU seconds of a command, and MB: its own, which `ru_maxrss` of a child is not."""
        code = """
import atexit, json, os, re, sys
from fhe_auc.cli import main
peak = lambda: int(re.search("VmHWM:[^0-9]*([0-9]+)", open("/proc/self/status").read())[1]) / 1024
atexit.register(lambda: print(json.dumps([sum(os.times()[:2]), peak()])))
main(sys.argv[1:])"""
        command = [sys.executable, "-c", code, "evaluate", *arguments, "--max-rows", "10000000", "--brief"]
        seconds, megabytes = json.loads(output_of(command).splitlines()[-1])
        return seconds, megabytes

    many = (
        "select (i % 3 = 0)::int as y_true, i * 7919::int8 % 1000003 / 1000003::float8 as y_score from {}(1, {}) as i"
    )
    million = np.arange(1, 10**6 + 1)
    columns = {"y_true": (million % 3 == 0).astype(int), "y_score": million * 7919 % 1000003 / 1000003}
    file, _ = used(write_table("million.parquet", **columns))
    queried, _ = used(addresses["adbc"], "--query", many.format("generate_series", 10**6))
    _, memory = used(addresses["adbc"], "--query", many.format("generate_series", 10**7))
    print(f"CPU {file:.2f} s from Parquet, {queried:.2f} s from PostgreSQL; {memory:.0f} MB")
    assert queried <= 3 * file
    assert memory <= 250
