"""The rooms are those of the architecture page, and few; each file that the map of `fhe_auc` names is there."""

import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "architecture.md").read_text(encoding="utf-8")
PICTURE = "\n".join(line for line in PAGE.splitlines() if line.startswith("    "))
PACKAGES = {"fhe_auc": ROOT / "fhe_auc", "fhe_auc_keys": ROOT / "keys" / "fhe_auc_keys"}


def rooms(package: str) -> set[str]:
    """The folders of a package that hold modules."""
    return {each.name for each in PACKAGES[package].iterdir() if (each / "__init__.py").is_file()}


def test_every_path_in_the_table_is_there() -> None:
    table = (ROOT / "fhe_auc" / "README.md").read_text(encoding="utf-8")
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
    ("package", "most_rooms", "at_the_top"),
    [("fhe_auc", 22, {"__init__", "api"}), ("fhe_auc_keys", 8, {"__init__", "errors"})],
)
def test_there_are_few_rooms_and_the_picture_has_every_room_once_and_no_other(
    package: str, most_rooms: int, at_the_top: set[str]
) -> None:
    modules = {each.stem for each in PACKAGES[package].glob("*.py")}
    assert modules == at_the_top
    assert sorted(pictured(package)) == sorted([*rooms(package), *(modules & {"api"})])
    assert len(rooms(package) | modules - {"__init__"}) <= most_rooms
