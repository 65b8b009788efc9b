"""What else gives the AUC of files of rows: ``python -m fhe_auc_benchmarks.runtime.row_peers NAME FILE…`` prints it.

Each is the fastest of its kind that we know: scikit-learn on columns that Arrow has read, and one statement of SQL for
DuckDB. Columns are `y_true` and `y_score`, without missing entries or NaN.
"""

import json
import sys

_AUC_BY_SQL = """
SELECT (sum(rank) FILTER (y_true = 1) - sum(y_true) * (sum(y_true) + 1) / 2) / (sum(y_true) * sum(1 - y_true))
FROM (SELECT y_true, (rank() OVER by_score + count(*) OVER by_score) / 2 AS rank
      FROM {read}($files) WINDOW by_score AS (ORDER BY y_score))
"""
"""Mann and Whitney's U, over P N. Of rows with equal scores all have the mean of their first and their last rank."""


def scikit_learn(files: list[str]) -> float:
    """Return `roc_auc_score` of all files' rows."""
    import pyarrow as pa
    from pyarrow import csv, parquet
    from sklearn.metrics import roc_auc_score

    read = parquet.read_table if files[0].endswith(".parquet") else csv.read_csv
    rows = pa.concat_tables(map(read, files))
    return float(roc_auc_score(rows["y_true"].to_numpy(), rows["y_score"].to_numpy()))


def duckdb(files: list[str]) -> float:
    """Return the AUC of all files' rows by SQL."""
    from duckdb import connect

    with connect() as database:
        statement = _AUC_BY_SQL.format(read="read_parquet" if files[0].endswith(".parquet") else "read_csv")
        return float(database.execute(statement, {"files": files}).fetchall()[0][0])


PEERS = {"scikit-learn": scikit_learn, "DuckDB": duckdb}

if __name__ == "__main__":
    name, *paths = sys.argv[1:]
    print(json.dumps({"auc": PEERS[name](paths)}))
