"""Audit trails: what each role has done is there, in order, and whoever changes or removes a line is found out."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fhe_auc.base.errors import MessageError
from fhe_auc.cli import main
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_keys.store import audit
from fhe_auc_keys.store.key_store import TRAIL
from tests.support.certified import DAY, NOW
from tests.support.certified import Consortium as Certified
from tests.support.platforms import needs_modes, needs_synced_folders
from tests.support.stored_sites import GRID, Consortium
from tests.support.wire import flipped


@cache
def manifest() -> Manifest:
    request = Request(parties=("a", "b"), thresholds=GRID, options={"epsilon": 1.0})
    return registry.load("dpauc-laplace").prepare(request).manifest


@pytest.fixture(scope="module")
def made(site_rows: list[PartyData], tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    return Consortium(site_rows, tmp_path_factory.mktemp("audit") / "c", "exact")


@pytest.fixture
def consortium(made: Consortium, tmp_path: Path) -> Consortium:
    return made.copied(tmp_path / "c")


@pytest.fixture(scope="module")
def played(made: Consortium, tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    """A session whose aggregator notes its beginning and end, as `fhe_auc.machines.aggregator_role` does."""
    consortium = made.copied(tmp_path_factory.mktemp("played") / "c")
    conduct(consortium.aggregator(), consortium.exchange)
    return consortium


def full(*_: object, **__: object) -> int:
    raise OSError(28, "No space left on device")


def shown(consortium: Consortium, name: str, *more: str) -> Result:
    return CliRunner().invoke(main, ["audit", *consortium.options(name), *more])


def lines_of(consortium: Consortium, name: str) -> list[dict[str, Any]]:
    told = shown(consortium, name, "--json")
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert (found["signers"], found["problems"], found["unfinished"]) == ([name], [], False)
    return list(found["lines"])


def test_a_site_notes_when_it_submits_and_how_a_session_ends(played: Consortium, site_rows: list[PartyData]) -> None:
    manifest = played.session.manifest
    for data in site_rows:
        submitted, ended = lines_of(played, data.name)
        assert (submitted["event"], submitted["rows"]) == ("submitted", data.rows)
        assert (ended["event"], ended["outcome"]) == ("ended", "result")
        for line in (submitted, ended):
            told = {name: line[name] for name in ("session", "protocol", "keys", "parties", "thresholds")}
            assert told == {
                "session": manifest.session.hex(),
                "protocol": "exact",
                "keys": "sealed",
                "parties": 3,
                "thresholds": {"count": len(GRID), "sha256": hashlib.sha256(manifest.grid).hexdigest()},
            }
            assert line["versions"].keys() >= {"python", "fhe-auc"}
            assert line["convened_by"]
        assert submitted["previous"] == ""


def test_the_trail_belongs_into_the_key_store_and_tells_nothing_of_how_good_the_model_is(played: Consortium) -> None:
    trail = Path(played.made.sites["north"]["store"], TRAIL)
    assert all("auc" not in name for line in lines_of(played, "north") for name in line)
    assert str(played.results["north"].auc)[:6] not in trail.read_text()
    with played.store("north") as store:
        assert store.strangers() == ()


@needs_modes
def test_the_trail_is_its_owners_alone(trail: "TrailFile") -> None:
    assert trail.path.stat().st_mode & 0o777 == 0o600


def test_a_party_that_must_not_go_on_does_not_where_its_trail_cannot_be_written_either(
    consortium: Consortium, tmp_path: Path
) -> None:
    opening = consortium.aggregator().start()
    consortium.answer("north", opening)
    with consortium.store("north") as store:
        store.remove("state", consortium.id.hex())  # it may not submit again: its pad is for one submission
    trail = Path(consortium.made.sites["north"]["store"], TRAIL)
    trail.rename(whole := tmp_path / "whole")
    trail.symlink_to(whole)
    with pytest.raises(OSError, match=r"audit\.jsonl"):
        consortium.answer("north", opening)
    whole.replace(trail)
    with pytest.raises(MessageError, match="has ended"):
        consortium.answer("north", opening)


@cache
def certified() -> Certified:
    return Certified("north", "south")


class TrailFile:
    """A trail that north has begun in a folder."""

    def __init__(self, folder: Path, lines: int = 4) -> None:
        self.path = folder / TRAIL
        for number in range(lines):
            self.add(number)

    def add(self, number: int, name: str = "north", at: datetime = NOW, **facts: Any) -> None:
        signer, about = certified().identities[name], manifest()
        audit.append(self.path.parent, signer, "submitted", about, "south", at=at, rows=number, **facts)

    def found(self, data: bytes | None = None) -> audit.Trail:
        return audit.read(self.path.read_bytes() if data is None else data, certified().members, at=NOW)


@pytest.fixture
def trail(tmp_path: Path) -> TrailFile:
    return TrailFile(tmp_path)


@pytest.fixture
def new(tmp_path: Path) -> TrailFile:
    return TrailFile(tmp_path, 0)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_byte_that_is_changed_is_found(trail: TrailFile, step: int) -> None:
    line = trail.path.read_bytes().splitlines()[0]
    for position in range(0, len(line), step):
        assert trail.found(flipped(line, position) + b"\n").problems, position


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: lines[1:], r"^line 1 does not follow the beginning"),
        (lambda lines: [lines[0], *lines[2:]], r"^line 2 does not follow line 1: what came before was removed"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], r"^line 1 does not follow the beginning"),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], r"^line 3 does not follow line 2"),
        (lambda lines: [lines[0], b"garbage", *lines[1:]], r"^line 2: it is not one well-formed JSON object"),
        (lambda lines: [lines[0].replace(b'"rows": 0', b'"rows": 9'), *lines[1:]], r"^line 1: .*was changed since"),
        (lambda lines: [*lines[:2], b"", *lines[2:]], r"^line 3: it is not one well-formed JSON object"),
    ],
)
def test_lines_that_are_changed_moved_or_removed_are_named(
    trail: TrailFile, change: Callable[[list[bytes]], list[bytes]], told: str
) -> None:
    lines = change(trail.path.read_bytes().splitlines())
    found = trail.found(b"\n".join(lines) + b"\n")
    assert re.search(told, found.problems[0]), found.problems


def test_a_trail_that_another_party_has_written_anew_names_both(trail: TrailFile) -> None:
    trail.add(5, "south")
    assert trail.found().problems == ("it is signed by several: 'north', 'south'",)


def test_lines_removed_from_the_end_change_the_digest_that_one_may_have_noted(trail: TrailFile) -> None:
    whole = trail.path.read_bytes()
    cut = trail.found(b"".join(whole.splitlines(keepends=True)[:-1]))
    assert cut.problems == ()  # nothing in the file can show it
    assert [each["rows"] for each in cut.lines] == [0, 1, 2]
    for found, last in ((cut, -2), (trail.found(whole), -1)):
        assert found.last == hashlib.sha256(whole.splitlines()[last]).hexdigest()


@pytest.mark.parametrize("left", [1, 200])
def test_a_line_that_a_crash_has_left_unfinished_is_told_and_removed_by_the_next(trail: TrailFile, left: int) -> None:
    whole = trail.path.read_bytes()
    trail.path.write_bytes(whole + whole[:left])
    found = trail.found()
    assert (len(found.lines), found.problems, found.unfinished) == (4, (), True)
    trail.add(4)
    found = trail.found()
    assert [line["rows"] for line in found.lines] == [0, 1, 2, 3, 4]
    assert (found.problems, found.unfinished) == ((), False)


def test_a_write_that_fails_leaves_the_trail_as_it_was(trail: TrailFile, monkeypatch: pytest.MonkeyPatch) -> None:
    before, write = trail.path.read_bytes(), os.write

    def half(descriptor: int, data: bytes) -> int:
        return full() if len(data) < 100 else write(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(OSError, match=r"No space left on device: '.*audit\.jsonl'"):
            trail.add(4)
    assert trail.path.read_bytes() == before
    trail.add(4)
    assert trail.found().problems == ()


def noted_at_each_sync(patch: pytest.MonkeyPatch, note: Callable[[int], Any]) -> list[Any]:
    """A list that grows by what `note` returns for the descriptor, whenever a file or folder has been synced."""
    noted: list[Any] = []
    sync = os.fsync
    patch.setattr(os, "fsync", lambda descriptor: (sync(descriptor), noted.append(note(descriptor))))
    return noted


@needs_synced_folders
def test_the_first_line_outlives_a_power_cut(new: TrailFile, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = noted_at_each_sync(monkeypatch, lambda descriptor: stat.S_ISDIR(os.fstat(descriptor).st_mode))
    for number in range(2):
        new.add(number)
    assert folders == [True, False, False]  # the folder, which has a new file; and each line


def test_lines_that_are_added_at_once_follow_one_another(new: TrailFile) -> None:
    """Each opens the lock's file for itself, as processes do."""
    with ThreadPoolExecutor(4) as several:
        list(several.map(new.add, range(40)))
    found = new.found()
    assert sorted(line["rows"] for line in found.lines) == [*range(40)]
    assert found.problems == ()


def test_a_trail_outlives_its_signer_s_leaving_and_not_the_theft_of_its_keys(trail: TrailFile, tmp_path: Path) -> None:
    later = NOW + 400 * DAY  # the file ends after 365
    assert audit.read(trail.path.read_bytes(), certified().members, at=later).problems == ()
    other, folder = Certified("north"), tmp_path / "other"
    folder.mkdir()
    audit.append(folder, other.identities["north"], "submitted", manifest(), "south", at=NOW, rows=1)
    other.change(remove=["north"])
    assert audit.read((folder / TRAIL).read_bytes(), other.members, at=NOW).problems == ()
    other.change(remove=["north"], stolen=True)  # as is found out afterwards
    found = [audit.read(path.read_bytes(), other.members, at=NOW) for path in (folder / TRAIL, trail.path)]
    assert len(found[0].problems) == 1
    assert "were stolen" in found[0].problems[0]
    assert found[1].problems
    assert all("'north'" in problem for problem in found[1].problems)


def test_a_line_from_the_future_is_refused(new: TrailFile) -> None:
    new.add(1, at=NOW + DAY)
    (told,) = new.found().problems
    assert "in the future" in told
