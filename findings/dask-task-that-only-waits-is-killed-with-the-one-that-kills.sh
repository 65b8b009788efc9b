#!/usr/bin/env bash
# distributed 2026.8.0: where a worker dies, every task that was there is blamed for it, also one that only waited its
# turn behind the one that ran. After four deaths (allowed-failures, 3) `KilledWorker` says of such a task that it
# "attempted to run on 4 different workers, but all those workers died while running it". It never ran.
#
# Here one of five tasks ends its process. The others write down that they have begun: one that has not is given up, too.
# Why it matters: who reports the task in the error names the wrong file, or leaves out what is fine. Do what was given
# up once more, alone: only what kills a worker then, too, is at fault.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check distributed==2026.8.0
cat > "$folder/given_up.py" <<'END'
import os
import sys
from pathlib import Path

import dask
from distributed import Client, KilledWorker, LocalCluster

def task(name, folder):
    Path(folder, name).touch()
    if name == "kills":
        os._exit(1)

if __name__ == "__main__":
    folder = sys.argv[1]
    os.makedirs(folder)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}):
        with LocalCluster(host="127.0.0.1", **options) as cluster, Client(cluster) as client:
            names = ["kills", "a", "b", "c", "d"]
            tasks = [client.submit(task, name, folder, pure=False, priority=-k) for k, name in enumerate(names)]
            errors = {name: each.exception() for name, each in zip(names, tasks)}
    blamed = [name for name, error in errors.items() if isinstance(error, KilledWorker)]
    innocent = [name for name in blamed if not Path(folder, name).exists()]
    print("given up:", blamed, "of which never began:", innocent)
    print(errors["kills"])
    assert "kills" in blamed and innocent, "the finding has changed"
END
"$folder/venv/bin/python" "$folder/given_up.py" "$folder/begun"
