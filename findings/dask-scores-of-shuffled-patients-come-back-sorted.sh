#!/usr/bin/env bash
# dask 2026.8.0: from_pandas sorts rows by their index. What map_partitions computes of a shuffled frame comes back in
# the order of the index, not of the rows.
#
# Seen: an AUC of 0.75; with the scores as an array beside the labels they were made of, 0.48.
# Why it matters: who splits rows at random keeps their index. Who scores the test part by dask, and puts to_numpy()
# of it beside y_test, evaluates other patients' scores. No length or type differs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "dask[dataframe]==2026.8.0" pandas==2.3.3 \
    numpy==2.4.6 2>/dev/null
"$folder/venv/bin/python" -W ignore - <<'PY'
import dask.dataframe
import numpy
import pandas


def auc(died, risk):
    """The share of pairs in the right order; of arrays, as numpy makes them of what it is given."""
    died, ranks = numpy.asarray(died), numpy.asarray(risk).argsort().argsort() + 1
    positives = died.sum()
    return (ranks[died == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(died) - positives))


random = numpy.random.default_rng(1)
rows = pandas.DataFrame({"died": random.integers(0, 2, 6000)})
rows["marker"] = 0.3 * rows.died + random.random(6000)
test = rows.sample(frac=0.5, random_state=1)
table = dask.dataframe.from_pandas(test[["marker"]], npartitions=4)
scores = table.map_partitions(lambda part: part.marker / 1.3).compute()
right, by_place = auc(test.died, test.marker), auc(test.died, scores)
is_sorted = scores.index.is_monotonic_increasing and not test.index.is_monotonic_increasing
print(f"AUC {right:.2f}, of dask's scores beside the labels {by_place:.2f}; sorted: {is_sorted}")
assert right > 0.7 and abs(by_place - 0.5) < 0.05 and is_sorted
PY
