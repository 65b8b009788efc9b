"""Sessions by files, key stores, audit trails and journals run without what only POSIX has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITES = [
    "tests/fhe_auc/test_journal.py",
    "tests/fhe_auc/rlwe/test_seal_format.py",
    "tests/keys/test_audit.py",
    "tests/keys/test_session_files.py",
    "tests/keys/test_store.py",
]
POSIX = ["others", "power_cut", "killed_process", "openfhe"]
"""In the names of tests of modes, of a folder's fsync, and of what cannot be had in a process made to look like it."""


def test_what_lies_in_files_needs_no_posix() -> None:
    """The tests of it pass again in a process that has been made to look like one on Windows."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *SUITES]
    command += ["-p", "tests.support.without_posix", "--timeout-method", "thread", "-k", f"not ({' or '.join(POSIX)})"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(done.stdout.rsplit(" passed", 1)[0].rsplit(None, 1)[-1]) >= 80
