#!/usr/bin/env bash
# dask 2026.8.0: where a step draws at random (each partition sampled or shuffled), two columns of one table that are
# computed one by one are of rows in two orders: each draws anew. By dask.compute of both, or of the table, they match.
#
# Seen: an AUC of 0.76 becomes 0.49 of table.died.compute() and table.risk.compute().
# Why it matters: what takes arrays computes each argument by itself, as numpy.asarray does: auc(table.died, table.risk)
# of labels and scores of one table does it unseen.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "dask[dataframe]==2026.8.0" pandas==2.3.3 \
    numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PY'
import dask
import dask.dataframe
import numpy
import pandas


def auc(died, risk):
    """The share of pairs in the right order; of arrays, as numpy makes them of what it is given."""
    died, ranks = numpy.asarray(died), numpy.asarray(risk).argsort().argsort() + 1
    positives = died.sum()
    return (ranks[died == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(died) - positives))


random = numpy.random.default_rng(1)
rows = pandas.DataFrame({"died": random.integers(0, 2, 3000)})
rows["risk"] = 0.3 * rows.died + random.random(3000)
table = dask.dataframe.from_pandas(rows, npartitions=4).map_partitions(lambda part: part.sample(frac=1))
right = auc(rows.died, rows.risk)
together = auc(*dask.compute(table.died, table.risk))
one_by_one = auc(table.died.compute(), table.risk.compute())
unseen = auc(table.died, table.risk)
print(f"rows {right:.2f}, together {together:.2f}, one by one {one_by_one:.2f}, unseen {unseen:.2f}")
assert right > 0.7 and together == right and abs(one_by_one - 0.5) < 0.1 and abs(unseen - 0.5) < 0.1
PY
