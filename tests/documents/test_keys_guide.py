"""docs/guide/keys.md and its reference, executed: commands run as they stand there, and print what the pages show."""

import json
import re
import shutil
from collections.abc import Iterator

import pytest

from fhe_auc_keys.cli.members import members
from tests.support.command_line import told
from tests.support.guides import GUIDES, SITES, Walk, steps

WALK, REFERENCE = "keys.md", "keys-reference.md"
ROOT = GUIDES.parents[1]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The walk, done: three sites have a result, and what follows can go on from there."""
    walk = Walk(tmp_path_factory.mktemp("keys-guide"))
    for site in SITES:
        shutil.copy(ROOT / "examples" / "three_sites" / f"{site}.csv", walk.folder)
    walked = steps(WALK)
    assert len(walked) >= 8
    assert sum(bool(step.output) for step in walked) >= 4
    try:
        for step in walked:
            walk.take(step)
        yield walk
    finally:
        walk.stop()


@pytest.mark.slow
@pytest.mark.xdist_group("keys guide")
def test_the_walk_prints_what_it_shows_and_ends_with_the_auc_at_each_site(walk: Walk) -> None:
    """That it prints what is shown, the fixture asserts."""
    for site in SITES:
        (written,) = (walk.folder / site / "results").glob("*.json")
        result = json.loads(written.read_text())["evaluation"]
        assert (result["fraction"], result["study"]["period"]) == ("83/108", "2025")
        store = (
            "--store",
            str(walk.folder / site / "store"),
            "--passphrase-file",
            str(walk.folder / site / "passphrase"),
        )
        assert told("keys", "show", *store)["members"]["names"] == ["north", "server", "south", "west"]
    private = [*walk.folder.glob("*/passphrase"), *walk.folder.glob("*/results/*"), *walk.folder.glob("*/store/*")]
    assert len(private) > 10
    assert {each.stat().st_mode & 0o777 for each in private} == {0o600}
    secrets = [each.read_text().strip() for each in walk.folder.glob("*/passphrase")]
    assert [each for each in secrets if each in walk.printed] == []


def test_the_walk_and_the_reference_have_every_command_of_members() -> None:
    text = "".join((GUIDES / page).read_text(encoding="utf-8") for page in (WALK, REFERENCE))
    assert all(f"members {command}" in text for command in members.commands)


def test_every_refusal_in_the_table_is_one_that_the_code_utters() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "keys").rglob("*.py")))
    code = re.sub(r'"\n +f?"', "", code)  # messages over two lines
    code = re.sub(r"\{[^{}]*\}", "…", code)
    table = (GUIDES / REFERENCE).read_text(encoding="utf-8").split("| you see |")[1]
    uttered = re.findall(r"`([^`]+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:] if "|" in line))
    assert len(uttered) >= 10
    for message in uttered:
        for piece in re.split(r"…|'[xy]'", message):
            assert piece.strip(" ,") in code, message
