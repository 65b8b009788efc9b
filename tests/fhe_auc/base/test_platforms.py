"""What workflows run on Windows is run here, too: by a process that has been made to look like one there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
SUITES = [
    "tests/fhe_auc/base/test_files.py",
    "tests/fhe_auc/session/test_journal.py",
    "tests/keys/store/test_store.py",
    "tests/fhe_auc/rlwe/test_backends.py",
    "tests/keys/store/test_audit.py",
    "tests/keys/bundles/test_bundles.py",
]
"""What lies in files: key stores, audit trails, journals. The rest of the list takes minutes."""


def run_on_windows() -> list[str]:
    """The paths that the workflow gives to pytest on Windows."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text())
    (command,) = (step["run"] for step in workflow["jobs"]["windows"]["steps"] if "pytest" in step.get("run", ""))
    return [word for word in command.split() if word.startswith("tests/")]


def without_posix(*arguments: str) -> str:
    """Run pytest in a process without what Windows lacks; return what it says."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]
    command += ["-p", "tests.support.without_posix", "--timeout-method", "thread"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return done.stdout


@pytest.mark.slow
def test_what_lies_in_files_needs_no_posix() -> None:
    assert all(suite.startswith(tuple(run_on_windows())) for suite in SUITES)
    said = without_posix(*SUITES)
    assert int(said.rsplit(" passed", 1)[0].rsplit(None, 1)[-1]) >= 50


@pytest.mark.slow
def test_all_that_is_run_on_windows_can_be_collected_without_posix() -> None:
    said = without_posix("--collect-only", *run_on_windows())
    assert all(path in said for path in run_on_windows())
