"""Plug-ins: the entry points of installed packages, as `importlib.metadata` has them, in a tenth of its time.

That loads what reads e-mail and archives, and looks at every package twice. Here folders on the path are listed, and
each package's `entry_points.txt` is read (Python Packaging User Guide, "Entry points specification"). Where Python
finds packages otherwise too, as in an archive, `importlib.metadata` is asked.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from pkgutil import resolve_name
from typing import Any, NamedTuple

_ABOUT_A_PACKAGE = re.compile(r"([^-]+).*\.(?:dist|egg)-info")


class PlugIn(NamedTuple):
    """An entry point."""

    name: str
    value: str  # module:name

    def load(self) -> Any:
        """Return what it names; raise whatever importing it does, or `ValueError` where the value is malformed."""
        return resolve_name(self.value)


def installed(group: str) -> list[PlugIn]:
    """Return the plug-ins of a group, of each package the copy that comes first on the path."""
    others = [finder for finder in sys.meta_path if finder is not PathFinder and hasattr(finder, "find_distributions")]
    if others or any(path.endswith(".egg") or os.path.isfile(path) for path in sys.path):
        from importlib.metadata import entry_points

        return [PlugIn(point.name, _without_extras(point.value)) for point in entry_points(group=group)]
    first: dict[str, str] = {}
    for path in sys.path:
        with suppress(OSError):  # no folder
            for name in os.listdir(path or "."):
                if found := _ABOUT_A_PACKAGE.fullmatch(name):
                    package = re.sub("[-_.]+", "_", found[1]).lower()
                    first.setdefault(package, os.path.join(path, name, "entry_points.txt"))
    return [point for file in first.values() for point in _points(file, group)]


def _points(file: str, group: str) -> Iterator[PlugIn]:
    with suppress(OSError), open(file, encoding="utf-8") as opened:  # most packages have none
        text = opened.read()
        if f"[{group}]" in text:
            section = ""
            for line in map(str.strip, text.splitlines()):
                if line.startswith("["):
                    section = line.strip("[]")
                elif section == group and line and line[0] not in "#;":
                    name, _, value = line.partition("=")
                    yield PlugIn(name.strip(), _without_extras(value))


def _without_extras(value: str) -> str:
    return value.partition("[")[0].strip()  # they are of no use any more
