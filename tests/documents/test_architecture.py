"""The rooms are those of the architecture page, few, and without circles; each file that the page names is there."""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "architecture.md").read_text(encoding="utf-8")
PICTURE = "\n".join(line for line in PAGE.splitlines() if line.startswith("    "))
PACKAGES = {"fhe_auc": ROOT / "fhe_auc", "fhe_auc_keys": ROOT / "keys" / "fhe_auc_keys"}


def rooms(package: str) -> set[str]:
    """The folders of a package that hold modules."""
    return {each.name for each in PACKAGES[package].iterdir() if (each / "__init__.py").is_file()}


def imported(file: Path) -> Iterator[str]:
    """Everything that a module imports, whether when it is loaded or later."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def arrows(package: str) -> set[tuple[str, str]]:
    """Which room, or module at the top level, imports from which other one."""
    found = set()
    for file in PACKAGES[package].rglob("*.py"):
        place = file.relative_to(PACKAGES[package]).with_suffix("").parts[0]
        for name in imported(file):
            top, _, rest = name.partition(".")
            target = rest.split(".")[0]
            if place != "__init__" and top == package and (PACKAGES[package] / target).exists() and target != place:
                found.add((place, target))
            elif place != "__init__" and top == package and (PACKAGES[package] / f"{target}.py").exists():
                found |= {(place, target)} if target != place else set()
    return found


def test_every_path_in_the_table_is_there() -> None:
    table = PAGE.split("## Where is …")[1]
    named = re.findall(r"`((?:fhe_auc|keys|protocols|docs)/[\w/.]*)`", table)
    assert len(named) > 40
    assert [path for path in named if not (ROOT / path).exists()] == []


def pictured(package: str) -> list[str]:
    """What the picture's column of rooms has for a package: from the line that names it to the next package."""
    lines = iter(PICTURE.splitlines())
    first = next(line for line in lines if re.search(rf"\b{package} ", line))
    own = [first, *itertools.takewhile(lambda line: not re.match(r" {4}\w", line), lines)]
    return [room for line in own for room in re.split(r", ", re.split(r" {2,}", line[38:])[0]) if room]


@pytest.mark.parametrize(
    ("package", "most_rooms", "most_arrows", "at_the_top"),
    [("fhe_auc", 22, 100, {"__init__", "api", "counts", "errors"}), ("fhe_auc_keys", 8, 30, {"__init__", "errors"})],
)
def test_there_are_few_rooms_and_arrows_and_the_picture_has_every_room_once_and_no_other(
    package: str, most_rooms: int, most_arrows: int, at_the_top: set[str]
) -> None:
    modules = {each.stem for each in PACKAGES[package].glob("*.py")}
    assert modules == at_the_top
    assert sorted(pictured(package)) == sorted([*rooms(package), *(modules & {"api"})])
    assert len(rooms(package) | modules - {"__init__"}) <= most_rooms
    assert 20 < len(arrows(package)) <= most_arrows
