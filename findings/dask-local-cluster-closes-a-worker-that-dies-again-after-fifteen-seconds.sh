#!/usr/bin/env bash
# distributed 2026.8.0: `LocalCluster` looks 15 s after a worker's death (deploy.lost-worker-timeout) whether one of its
# name is there. If the worker is just being started again, as it has died a second time, it is closed for good: its
# nanny with it, and nobody starts it again. Without workers, tasks wait for ever, and nothing is logged but INFO.
#
# Here the only worker dies, and once more 14.8 s later. Then a task waits for 30 s, and no worker comes. On a busy
# machine the second death may come after the look: so the script tries up to four times.
# Why it matters: a task that kills workers stops the cluster in which it is tried, and what waits for its result hangs.
# `dask worker` at a `dask scheduler` is not concerned. In a LocalCluster set that timeout to hours.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check distributed==2026.8.0
cat > "$folder/closed.py" <<'END'
import os
import time

import dask
from distributed import Client, LocalCluster, TimeoutError

def one():
    return 1

def comes_back(timeout):
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with dask.config.set({"distributed.deploy.lost-worker-timeout": timeout}):
        with LocalCluster(host="127.0.0.1", **options) as cluster, Client(cluster) as client:
            client.run(os._exit, 1, on_error="ignore")
            time.sleep(14.8)
            client.run(os._exit, 1, on_error="ignore")
            time.sleep(1)
            try:
                return client.submit(one).result(timeout=30) == 1
            except TimeoutError:
                return False

if __name__ == "__main__":
    by_default, patient = all(comes_back("15s") for _ in range(4)), comes_back("1h")
    print(f"a worker comes back: by default {by_default}, with a timeout of an hour {patient}")
    assert patient and not by_default, "the finding has changed"
END
"$folder/venv/bin/python" "$folder/closed.py"
