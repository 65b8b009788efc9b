"""The protocol that does nothing, for tests of what carries, keeps and resumes sessions: installed, and read."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fhe_auc.results.evaluation import Outcome
from fhe_auc.session import registry


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Install `examples/protocol_plugin` in a folder, for this process and those that it starts."""
    information = folder / "nothing_protocol-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: nothing-protocol\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text(f"[{registry.GROUP}]\nnothing = fhe_auc.session.nothing:Nothing\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(folder))
        patched.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        registry._installed.cache_clear()
        yield
    registry._installed.cache_clear()


def rows_in(found: Outcome) -> int:
    """How many rows were counted in a result of that protocol: which parties', where their numbers differ."""
    (told,) = re.findall(r"nothing was computed of ([\d,]+) rows", "\n".join(found.warnings))
    return int(told.replace(",", ""))
