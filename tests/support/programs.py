"""Programs that tests run to their end."""

import subprocess
from collections.abc import Sequence
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
