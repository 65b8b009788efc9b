#!/usr/bin/env bash
# numpy 2.2.6 (OpenBLAS 0.3.29 in its wheels): a product of matrices of 64 × 64 by 64 × 128, 20 µs of work, is shared with
# another thread, which then waits actively for the next one: it takes a whole core while the program does something else.
#
# Seen: one such product every 2 ms: other threads take .95 s of CPU for each second of the one that asks; of 64 × 64 by
# 64 × 64, and with OPENBLAS_NUM_THREADS=1, none.
# Why it matters: processes that each work on one core take all cores, and a busy machine several times the CPU.
set -euo pipefail
unset OMP_NUM_THREADS OPENBLAS_NUM_THREADS  # the first counts for nproc, too
test "$(nproc)" -gt 1 || { echo 'needs two cores'; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.2.6
cat > "$folder/others.py" <<'PY'
import sys
import time

import numpy as np

left, right = np.ones((64, 64)), np.ones((64, int(sys.argv[1])))
mine, whole = time.thread_time(), time.process_time()
for _ in range(500):
    left @ right
    start = time.thread_time()
    while time.thread_time() < start + 0.002:  # something else
        pass
print(round((time.process_time() - whole) / (time.thread_time() - mine) - 1, 2))
PY
small=$("$folder/venv/bin/python" "$folder/others.py" 64)
large=$("$folder/venv/bin/python" "$folder/others.py" 128)
alone=$(OPENBLAS_NUM_THREADS=1 "$folder/venv/bin/python" "$folder/others.py" 128)
echo "CPU of other threads for each second: 64 x 64 x 64: $small, 64 x 64 x 128: $large, with one thread: $alone"
"$folder/venv/bin/python" -c "assert $small < 0.1 and $alone < 0.1 and $large > 0.5"
