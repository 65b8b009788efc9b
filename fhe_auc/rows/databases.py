"""Rows that a database's query gives: read once, in one transaction, which can write nothing and is rolled back.

Drivers are not asked for what they get wrong: servers write decimals, dates and their like as text, and a score that is
a decimal is the float64 nearest to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeAlias
from urllib.parse import quote, unquote, unquote_plus

import pyarrow as pa
from pyarrow import types

from fhe_auc.base.errors import InputError, Place
from fhe_auc.base.extras import require
from fhe_auc.base.file_kinds import LOOK, kind_of
from fhe_auc.base.files import read_secret
from fhe_auc.rows.arrow_columns import piece_of
from fhe_auc.rows.pieces import OPTIONS, KeptPieces, Piece, Words, find_columns

_PASSWORD = "FHE_AUC_DATABASE_PASSWORD"  # noqa: S105 - the variable that has it; another, with _FILE, names a file
_ROWS, _BYTES = 2**13, 2**21  # that drivers fetch at a time
_LONGEST = 2**10  # bytes of a text that comes by ODBC
_NOT_SAID = re.compile(r"'[^']*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)  # texts, names and comments
_SELECT = r"(?is)[\s(]*(select|with|values|table|from)\b(?!.*\b({})\b)"
_WRITES = "into|insert|update|delete|merge"
_RUNS = f"{_WRITES}|exec|execute|call|create|alter|drop|truncate|grant|openrowset"  # where nothing is read-only
_Names: TypeAlias = Sequence[str]
_Batch: TypeAlias = dict[str, Any]  # columns of some rows


class Query:
    """What a query gives: a `fhe_auc.rows.pieces.Table`, read once, whose party is called as the database.

    `url` is the database's address as SQLAlchemy has it, or "odbc:" and a connection string. The password is in
    `password_file`, in the file that FHE_AUC_DATABASE_PASSWORD_FILE names, or in FHE_AUC_DATABASE_PASSWORD. Raises
    `InputError` for an address that holds one, and for a query that is not one SELECT.
    """

    names_columns: ClassVar[bool] = True
    words: ClassVar[Words] = OPTIONS

    def __init__(self, url: str, query: str | None, password_file: Path | None = None) -> None:
        scheme, _, self.rest = url.partition(":")
        self.kind = next((each for each in ("sqlite", "duckdb") if scheme.lower().startswith(each)), scheme.lower())
        self.path = self.rest.removeprefix("//").removeprefix("/") if self.kind in ("sqlite", "duckdb") else ""
        user, _, place = self.rest.removeprefix("//").rpartition("@")
        self.name, self.party = self._names(user, place.partition("?")[0])
        self.file, self.title = self.name, f"database {self.name!r}"
        file = password_file or os.environ.get(f"{_PASSWORD}_FILE")
        self.password = read_secret(Path(file), "password") if file else os.environ.get(_PASSWORD, "")
        own = f"//{user}:{quote(self.password, safe='')}@{place}" if self.password else self.rest
        self.url = f"{self.kind}:{own}"  # with the password
        self.query = (query or "").rstrip("; \r\t\n")
        self._kept = list[KeptPieces]()
        if re.fullmatch("https?|s?ftp|file|s3|gs", self.kind):
            raise InputError(f"{self.name!r} is no database: download the file, and name that", file=self.name)
        if not self.query:
            raise InputError(f"{self.title}: which rows of it? Give a SELECT as --query, or as query", file=self.name)
        writes = _RUNS if self.kind.startswith(("odbc", "mssql", "oracle")) else _WRITES
        if ";" in self.query or not re.match(_SELECT.format(writes), _NOT_SAID.sub(" ", self.query)):
            what = "the query must be one SELECT, with no ; in it, nor in its comments: it only reads"
            raise InputError(f"{self.title}: {what}", file=self.name)

    def _names(self, user: str, place: str) -> tuple[str, str]:
        """Return how messages name the database, and what it is called; `InputError` for a password in the address."""

        def given(*names: str) -> list[str]:
            asked = unquote_plus(self.rest)
            return re.findall(rf"(?i)(?:^|[?&;=])\s*(?:{'|'.join(names)})\s*=\s*([^&;]*)", asked)

        if self.kind == "odbc":
            user, place = "", ";".join(given("server(?:name)?", "host", "port", "dsn", "dbq", "database"))
        if (re.search("[:/?#]", user) and not self.path) or given(r"[\w -]*(?:password|passwd|pwd|token|secret)"):
            raise InputError(
                "a database's address holds a password, or an @ that is not written as %40; others see addresses: put "
                f"the password into the variable {_PASSWORD}, or into a file that {_PASSWORD}_FILE names"
            )
        if self.path:
            return f"{self.kind}:{self.rest}", Path(self.path).stem
        host, _, database = place.partition("/")
        names = *given("database", "dbname", "dbq", "dsn", "service"), unquote(database), host, "database"
        return f"{self.kind}:{'//' * (self.kind != 'odbc')}{place}", next(filter(None, names))

    def place(self, row: int, wanted: _Names) -> Place:
        """Return where a row, from 0, is."""
        return Place(f"row {row} of the query", self.name)

    def keep(self, numbers: _Names, texts: _Names) -> None:
        """Read all rows: the next time there may be others."""
        self._kept[:] = [KeptPieces(self._read(numbers, texts))]

    def pieces(self, numbers: _Names, texts: _Names) -> Iterator[Piece]:
        """Yield the rows of these columns, in order; raise `InputError` where the database does not give them."""
        yield from self._kept[0].pieces(numbers, texts) if self._kept else self._read(numbers, texts)

    def _read(self, numbers: _Names, texts: _Names) -> Iterator[Piece]:
        try:
            if self.path:
                with open(self.path, "rb") as opened:
                    kind = kind_of(opened.read(LOOK))
                if f"{self.kind}:" not in kind.advice:
                    raise InputError(kind.told)
            for columns in _READERS.get(self.kind, _over_sqlalchemy)(self, numbers, texts):
                yield piece_of(columns, numbers, texts)
        except InputError as error:
            raise error.within(self.title, file=self.name) from None
        except Exception as error:  # every driver has its own, and may tell the address
            text = str(getattr(error, "orig", None) or error) or type(error).__name__
            reason = (re.split(r"(?:ERROR|FATAL|Message): +|^\[Errno \d+\] ", text)[-1] or text).splitlines()[0]
            for told in filter(None, (self.url, self.rest, quote(self.password, safe=""), self.password)):
                reason = reason.replace(told, "…")
            remedy = ": in the query, cast it to numeric" if "type money" in reason else ""
            raise InputError(f"{self.title}: {reason}{remedy}", file=self.name) from None

    def selecting(self, columns: Iterable[str]) -> str:
        """Return a query for expressions of the columns, as PostgreSQL and DuckDB understand it."""
        return f"SELECT {', '.join(columns) or 'NULL'} FROM ({self.query}\n) AS rows"  # noqa: S608 - the user's own


def _of_postgresql(table: Query, numbers: _Names, texts: _Names) -> Iterator[_Batch]:
    require("sql", "adbc_driver_postgresql", "adbc_driver_manager")
    from adbc_driver_postgresql import StatementOptions, dbapi

    size = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(_BYTES)}
    with dbapi.connect(table.url) as connection, connection.cursor(adbc_stmt_kwargs=size) as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        columns = _expressions(cursor.adbc_execute_schema(table.query), numbers, texts)
        cursor.execute(table.selecting(columns.values()))
        yield from (dict(zip(columns, batch.columns, strict=False)) for batch in cursor.fetch_record_batch())


def _of_duckdb(table: Query, numbers: _Names, texts: _Names) -> Iterator[_Batch]:
    require("sql", "duckdb")
    import duckdb

    settings: dict[str, Any] = {"enable_external_access": False, "lock_configuration": True}  # or it may write files
    stream = pa.RecordBatchReader.from_stream
    with duckdb.connect(table.path, read_only=True, config=settings) as connection:
        find_columns((*numbers, *texts), connection.sql(table.query).columns)  # SELECT * renames the second of a name
        schema = stream(connection.sql(f"{table.selecting('*')} LIMIT 0")).read_all().schema
        columns = _expressions(schema, numbers, texts)
        batches = stream(connection.sql(table.selecting(columns.values())))
        yield from (dict(zip(columns, batch.columns, strict=False)) for batch in batches)


def _expressions(schema: Any, numbers: _Names, texts: _Names) -> dict[str, str]:
    """Return SQL for each column: text that the server writes, where none of Arrow's types holds what is there."""
    held = (types.is_integer, types.is_boolean, types.is_string, types.is_binary, types.is_dictionary, types.is_list)
    found = {}
    for name, own in find_columns((*numbers, *texts), schema.names).items():
        kind, number, sql = schema.field(own).type, name in numbers, '"{}"'.format(own.replace('"', '""'))
        is_numeric = getattr(kind, "type_name", "") == "numeric"
        if types.is_int64(kind):
            sql = f"CAST({sql} AS int8)"  # refuses money, whose cents would come
        if is_numeric and not number:
            sql = f"trim_scale({sql})"  # 1.50 is 1.5, as in other tables
        if not any(fits(kind) for fits in (*held, types.is_floating if number else types.is_decimal)):
            sql = f"CAST({sql} AS text)"
        found[name] = f"CAST({sql} AS float8)" if number and (is_numeric or types.is_decimal(kind)) else sql
    return found


def _over_odbc(table: Query, numbers: _Names, texts: _Names) -> Iterator[_Batch]:
    require("sql", "arrow_odbc")
    try:
        import arrow_odbc
    except OSError:
        raise InputError("ODBC needs unixODBC (Debian: apt install unixodbc) and the server's driver") from None
    names = dict[str, str]()

    def exact(told: Any) -> Any:
        """Return the types to ask for: drivers tell too few digits of decimals, and 32 bits of floats with 64."""
        names.update(find_columns((*numbers, *texts), told.names))
        if dates := [name for name, own in names.items() if types.is_temporal(told.field(own).type)]:
            raise InputError(f"column {dates[0]!r} holds dates or times, which drivers change: CAST it to text")
        floats = {kind: pa.float64() for kind in told.types if types.is_floating(kind)}
        same = {kind: kind for kind in told.types if types.is_integer(kind) or types.is_boolean(kind)}
        return pa.schema([(each.name, (floats | same).get(each.type, pa.string())) for each in told])

    password = table.password.replace("}", "}}")  # `connect(password=…)` may make it the end of the user's name
    connection = arrow_odbc.connect(f"{table.rest.rstrip('; ')};" + f"PWD={{{password}}};" * bool(password))
    for session in ("CHARACTERISTICS AS TRANSACTION READ ONLY", "TRANSACTION READ ONLY"):  # PostgreSQL; MySQL
        with suppress(arrow_odbc.Error):  # others have none
            connection.read_arrow_batches(f"SET SESSION {session}")
    limits = {"max_bytes_per_batch": 8 * _BYTES, "max_text_size": _LONGEST, "fetch_concurrently": False}
    for batch in connection.read_arrow_batches(table.query, 8 * _ROWS, map_schema=exact, **limits):
        yield {name: batch.column(own) for name, own in names.items()}  # decimals as text


def _of_sqlite(table: Query, numbers: _Names, texts: _Names) -> Iterator[_Batch]:
    import sqlite3  # no command on files needs it

    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    with closing(sqlite3.connect(f"{Path(table.path).absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = lambda text: text.decode(errors="backslashreplace")
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY)
        rows = connection.execute(table.query)
        there = [name for name, *_ in rows.description]
        yield from _columns(there, iter(lambda: rows.fetchmany(_ROWS), []), (*numbers, *texts))


def _over_sqlalchemy(table: Query, numbers: _Names, texts: _Names) -> Iterator[_Batch]:
    require("sql", "sqlalchemy")
    import sqlalchemy

    engine = sqlalchemy.create_engine(table.url, poolclass=sqlalchemy.NullPool, hide_parameters=True)
    how = {"no_parameters": True, "stream_results": True, "max_row_buffer": _ROWS}
    with engine.connect() as connection:
        if engine.dialect.name in ("postgresql", "mysql", "mariadb", "oracle"):  # SQL Server has no such transactions
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        rows = connection.exec_driver_sql(table.query, execution_options=how)
        yield from _columns([*rows.keys()], rows.partitions(_ROWS), (*numbers, *texts))


def _columns(there: _Names, batches: Iterable[Any], names: _Names) -> Iterator[_Batch]:
    at = {name: there.index(own) for name, own in find_columns(names, there).items()}
    for rows in batches:
        yield {name: [row[place] for row in rows] for name, place in at.items()}


_READERS: dict[str, Callable[[Query, _Names, _Names], Iterator[_Batch]]] = {
    **dict.fromkeys(("postgresql", "postgres"), _of_postgresql),
    **{"sqlite": _of_sqlite, "duckdb": _of_duckdb, "odbc": _over_odbc},
}
