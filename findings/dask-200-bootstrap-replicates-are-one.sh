#!/usr/bin/env bash
# distributed 2026.8.0: Client.map of a function that draws at random, over arguments that are equal, calls it once, and
# gives that result for each. With pure=False it is called each time. So does Client.submit, in a loop.
#
# Seen: 200 bootstrap replicates of a mean of 1,000 rows have one value; with pure=False 199 or 200.
# Why it matters: the 95 % interval of a metric has width zero, in every run another one; of noise for privacy, all
# sites' shares are the same.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check distributed==2026.8.0 dask==2026.8.0 numpy==2.4.6 \
    2>/dev/null
cat > "$folder/replicates.py" <<'PY'
import numpy
from distributed import Client, LocalCluster


def replicate(scores):
    return float(numpy.random.default_rng().choice(scores, len(scores)).mean())


if __name__ == "__main__":
    scores = numpy.linspace(0, 1, 1000)
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        found = client.gather(client.map(replicate, [scores] * 200))
        submitted = client.gather([client.submit(replicate, scores) for _ in range(200)])
        impure = client.gather(client.map(replicate, [scores] * 200, pure=False))
    different = [len(set(each)) for each in (found, submitted, impure)]
    print(f"different replicates of 200: map {different[0]}, submit {different[1]}, map with pure=False {different[2]}")
    assert different[:2] == [1, 1] and different[2] > 190
PY
cd "$folder"
"$folder/venv/bin/python" -W ignore replicates.py 2>/dev/null
