"""docs/guide/keys.md and its reference, executed: commands run as they stand there, and print what the pages show."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fhe_auc_keys.cli import keys as group
from tests.support.command_line import told
from tests.support.guides import GUIDES, SITES, Step, Walk, blocks, steps

WALK, REFERENCE = "keys.md", "keys-reference.md"
PASSPHRASE = "correct horse battery staple"  # noqa: S105
ROOT = GUIDES.parents[1]


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The walk, done: three sites have a result, and what follows can go on from there."""
    walk = Walk(tmp_path_factory.mktemp("keys-guide"))
    for site in SITES:
        shutil.copy(ROOT / "examples" / "three_sites" / f"{site}.csv", walk.folder)
    walked = steps(WALK)
    assert len(walked) >= 11
    assert sum(bool(step.output) for step in walked) >= 4
    try:
        for step in walked:
            walk.take(step)
        yield walk
    finally:
        walk.stop()


def shown(folder: Path, store: str, passphrase: str = "", *files: Path) -> dict[str, Any]:
    given = ["--passphrase-file", str(folder / passphrase)] if passphrase else []
    asked = ("keys", "show", "--store", str(folder / store), *given, *map(str, files))
    return told(*asked, FHE_AUC_PASSPHRASE=PASSPHRASE)


@pytest.mark.slow
@pytest.mark.xdist_group("keys guide")
def test_the_walk_prints_what_it_shows_and_ends_with_the_auc_at_each_site(walk: Walk) -> None:
    """That it prints what is shown, the fixture asserts."""
    walk.take(Step(SITES, "fhe-auc status $ME/serve.toml", until="session-.*delivered"))
    for site in SITES:
        written = [*(walk.folder / site / "results").glob("*.json")]
        assert len(written) == 2  # the first session's, and the repetition's
        for result in (json.loads(each.read_text())["evaluation"] for each in written):
            assert result["fraction"] == "83/108"
            assert result["study"]["period"] == "2025"
        assert shown(walk.folder, f"{site}/store", f"{site}/passphrase")["site"]["certified"]
    assert PASSPHRASE not in walk.printed


@pytest.mark.slow
@pytest.mark.xdist_group("keys guide")
def test_the_reference_leaves_the_consortium_as_it_says(walk: Walk) -> None:
    taken = steps(REFERENCE)
    assert len(taken) >= 14
    assert sum(bool(step.output) for step in taken) >= 2
    for step in taken:
        walk.take(step)
    (refused,) = (step for step in taken if step.status)
    walk.take(replace(refused, status=0, output=""))  # the site has new keys now
    folder = walk.folder
    north, west, lost = (shown(folder, f"{name}/store", f"{name}/passphrase") for name in ("north", "west", "south"))
    new = shown(folder, "south/new/store", "south/new-passphrase")
    assert len(lost["sessions"]) == 4  # two of the walk, by hand, with a helper
    assert {*lost["sessions"]} == {*west["sessions"]} == {*north["sessions"]}
    assert not new["sessions"]
    assert len(shown(folder, "registry/store", "registry/passphrase")["sessions"]) == 1
    for site in SITES:  # two of the walk, one by hand
        results = [json.loads(each.read_text()) for each in (folder / site / "results").glob("*.json")]
        assert [each["evaluation"]["fraction"] for each in results] == ["83/108"] * 3
    assert (north["site"]["certified"], new["site"]["certified"]) == (True, True)
    register = shown(folder, "authority/store")["authority"]["issued"]
    assert sorted((line["name"], line["revoked"]) for line in register) == [
        ("north", False),
        ("registry", False),
        ("server", False),
        ("south", False),
        ("south", True),
        ("west", False),
    ]
    file = shown(folder, "north/store", "north/passphrase", folder / "week-19" / "south.bundle")["files"][0]
    assert file["verified"]
    assert file["details"]["sealed_to"] == "south"
    private = [*folder.glob("*/*passphrase"), *folder.glob("*/results/*")]
    private += [each for each in folder.glob("**/store/**/*") if each.is_file()]
    assert len(private) > 25
    assert {each.stat().st_mode & 0o777 for each in private} == {0o600}
    secrets = [PASSPHRASE, *(each.read_text().strip() for each in folder.glob("*/*passphrase"))]
    assert [each for each in secrets if each in walk.printed] == []


def test_every_command_is_in_the_guide_and_names_options_that_exist() -> None:
    """Those of a site with a certificate of its own, say: `tests/keys/cli/test_cli.py` runs the like."""
    lines = [
        line
        for language, info, text in blocks(REFERENCE)
        if language == "sh" and not info
        for line in text.splitlines()
    ]
    assert lines
    for line in lines:
        program, name, command, *arguments = line.split()
        assert (program, name) == ("fhe-auc", "keys")
        options = {option for parameter in group.commands[command].params for option in parameter.opts}
        assert {each for each in arguments if each.startswith("--")} <= options
    text = "".join((GUIDES / page).read_text(encoding="utf-8") for page in (WALK, REFERENCE))
    assert all(f"fhe-auc keys {command}" in text for command in group.commands)


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
