"""Programs that tests run to their end."""

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def run(command: Sequence[str], *, timeout: float = 240, **options: Any) -> subprocess.CompletedProcess[str]:
    """What a program has printed, as text, and its status, whichever that is."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, text=True, encoding="utf-8", timeout=timeout, **pipes)


def output_of(command: Sequence[str], **options: Any) -> str:
    """What a program that must succeed has printed."""
    found = run(command, **options)
    assert found.returncode == 0, found.stderr[-2000:]
    return found.stdout


def check_training_example(name: str, environment: Mapping[str, str]) -> None:
    """It prints how far the average is off, once it has compared the AUC with scikit-learn's over all rows."""
    example = Path(__file__).parents[2] / "examples" / "training" / name
    printed = output_of([sys.executable, str(example)], env=environment, timeout=900)
    numbers = r"^ +(\d+) +(0\.\d{3})\d{3} \(0\.\d+ to 0\.\d+\) +(0\.\d{3})\d{3}, off"
    lines = re.findall(numbers, printed, re.MULTILINE)
    assert lines == [("10", "0.672", "0.737"), ("20", "0.719", "0.829"), ("30", "0.725", "0.842")]
