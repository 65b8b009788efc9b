#!/usr/bin/env bash
# distributed 2026.8.0: `Client("tcp://127.0.0.1", set_as_default=False)`, which lacks a port, raises ValueError at once.
# But when the client that was half made is collected, here as the program ends, it is closed: it waits for twice its
# timeout for a loop that has never started, and prints a traceback ("Exception ignored in Client.__del__ ...
# TimeoutError"). With the default timeout of 30 s that is a minute. (A client set as default does not wait.)
#
# Why it matters: a typing error in an address looks like a hanging network. Check an address before Dask has it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check distributed==2026.8.0
cat > "$folder/half_made.py" <<'END'
from distributed import Client

try:
    Client("tcp://127.0.0.1", timeout=5, set_as_default=False)
except ValueError as error:
    print(error, "- and so the program ends", flush=True)
END
started=$SECONDS
"$folder/venv/bin/python" "$folder/half_made.py"
echo "it has ended after $((SECONDS - started)) s"
test $((SECONDS - started)) -ge 9 || { echo "the finding has changed"; exit 1; }
