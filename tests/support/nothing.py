"""The protocol that does nothing, for tests of what carries, keeps and resumes sessions: installed, and read."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fhe_auc.results.evaluation import Outcome
from fhe_auc.session import registry

EXAMPLE = Path(__file__).parents[2] / "examples" / "protocol_plugin"  # pytest has it on its path


def add_distribution(folder: Path, name: str, group: str = registry.GROUP, **points: str) -> None:
    """Write what says that a distribution with these entry points is installed in a folder."""
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{point} = {value}" for point, value in points.items()]
    (information / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Install `examples/protocol_plugin`, as named in a folder, for this process and those that it starts."""
    add_distribution(folder, "nothing_protocol", nothing="nothing_protocol:Nothing")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(folder))
        patched.setenv("PYTHONPATH", os.pathsep.join(map(str, (folder, EXAMPLE))), prepend=os.pathsep)
        registry._installed.cache_clear()
        yield
    registry._installed.cache_clear()


def rows_in(found: Outcome) -> int:
    """How many rows were counted in a result of that protocol: which parties', where their numbers differ."""
    (told,) = re.findall(r"nothing was computed of ([\d,]+) rows", "\n".join(found.warnings))
    return int(told.replace(",", ""))
