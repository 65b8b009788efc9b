"""A test file that takes more CPU time than allowed fails the run, children included, also where workers run it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_a_file_above_the_limit_fails_the_run_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_quick.py").write_text("def test_it(): pass\n")
    child = "import time\nwhile time.process_time() < 0.5: pass"
    (tmp_path / "test_slow.py").write_text(
        f"import subprocess, sys\ndef test_it(): subprocess.run([sys.executable, '-c', {child!r}])\n"
    )
    options = [f"--rootdir={tmp_path}", "--most-cpu=0.4", f"--cpu-report={tmp_path / 'made' / 'cpu.json'}"]
    command = [sys.executable, "-m", "pytest", "-n1", "-ptests.support.cpu_time", "-pno:cacheprovider", *options]
    run = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout
    assert "test_slow.py takes more than 0.4 CPU seconds" in run.stdout
    assert "test_quick.py takes more" not in run.stdout
    times = json.loads((tmp_path / "made" / "cpu.json").read_text())
    assert times["total"] > times["files"]["test_slow.py"] > 0.4


@pytest.mark.parametrize("target", ["test", "test-openfhe"])
def test_make_sets_the_limit(target: str) -> None:
    asked = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
    assert "--most-cpu=15 " in asked.stdout
