"""Audit trails: what each role has done is there, in order, and whoever changes or removes a line is found out."""

import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fhe_auc.cli import main
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_keys.store import audit
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.certified import DAY, NOW
from tests.support.certified import Consortium as Certified
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
    assert (found["signers"], found["problems"]) == ([name], [])
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


def test_the_trail_tells_nothing_of_how_good_the_model_is_and_a_copy_is_as_good(
    played: Consortium, tmp_path: Path
) -> None:
    lines = lines_of(played, "north")
    assert all("auc" not in name for line in lines for name in line)
    copy = tmp_path / "audit.jsonl"
    assert shown(played, "north", "--copy", str(copy)).exit_code == 0
    assert str(played.results["north"].auc)[:6] not in copy.read_text()
    told = json.loads(shown(played, "south", str(copy), "--json").stdout)
    assert (told["lines"], told["signers"], told["problems"]) == (lines, ["north"], [])
    copy.write_bytes(copy.read_bytes()[:-20])
    assert shown(played, "south", str(copy)).exit_code == 1


def test_an_answer_its_budget_and_its_line_are_there_as_a_whole_or_not_at_all(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever cannot be written, nothing leaves the site; once it can, the same round is answered."""
    opening = consortium.aggregator().start()
    with consortium.store("north") as store:
        before = store.count
    for name in ("add_line", "put"):
        with monkeypatch.context() as patch:
            patch.setattr(KeyStore, name, full)
            with pytest.raises(OSError, match="No space left"):
                consortium.answer("north", opening)
        with consortium.store("north") as store:
            assert (store.count, store.trail(), store.names("state")) == (before, [], ())
    first = consortium.answer("north", opening)
    with consortium.store("north") as store:
        assert (store.count, len(store.trail()), len(store.names("state"))) == (before + 1, 1, 1)
    assert consortium.answer("north", opening) == first


@cache
def certified() -> Certified:
    return Certified("north", "south")


class Trail:
    """A trail that north has begun in a key store."""

    def __init__(self, store: KeyStore, lines: int = 4) -> None:
        self.store = store
        for number in range(lines):
            self.add(number)

    def add(self, number: int, name: str = "north", at: datetime = NOW, **facts: Any) -> None:
        signer, about = certified().identities[name], manifest()
        audit.append(self.store, signer, "submitted", about, "south", at=at, rows=number, **facts)

    def found(self, lines: list[bytes] | None = None) -> audit.Trail:
        return audit.read_trail(self.store.trail() if lines is None else lines, certified().members, at=NOW)


@pytest.fixture
def trail(store: KeyStore) -> Trail:
    return Trail(store)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_byte_that_is_changed_is_found(trail: Trail, step: int) -> None:
    line = trail.store.trail()[0]
    for position in range(0, len(line), step):
        assert trail.found([flipped(line, position)]).problems, position


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
    trail: Trail, change: Callable[[list[bytes]], list[bytes]], told: str
) -> None:
    found = trail.found(change(trail.store.trail()))
    assert re.search(told, found.problems[0]), found.problems


def test_a_trail_that_another_party_has_written_anew_names_both(trail: Trail) -> None:
    trail.add(5, "south")
    assert trail.found().problems == ("it is signed by several: 'north', 'south'",)


def test_lines_removed_from_the_end_change_the_digest_that_one_may_have_noted(trail: Trail) -> None:
    whole = trail.store.trail()
    cut = trail.found(whole[:-1])
    assert cut.problems == ()  # nothing in it can show that
    assert [each["rows"] for each in cut.lines] == [0, 1, 2]
    for found, last in ((cut, -2), (trail.found(whole), -1)):
        assert found.last == hashlib.sha256(whole[last]).hexdigest()


def test_a_trail_outlives_its_signer_s_leaving_and_not_the_theft_of_its_keys(trail: Trail) -> None:
    later = NOW + 400 * DAY  # the file ends after 365
    whole = trail.store.trail()
    assert audit.read_trail(whole, certified().members, at=later).problems == ()
    other = Certified("north")
    audit.append(trail.store, other.identities["north"], "submitted", manifest(), "south", at=NOW, rows=1)
    other.change(remove=["north"])
    assert (
        len(audit.read_trail(trail.store.trail()[-1:], other.members, at=NOW).problems) == 1
    )  # the lines before are missing
    other.change(remove=["north"], stolen=True)  # as is found out afterwards
    (stolen,) = audit.read_trail(trail.store.trail()[-1:], other.members, at=NOW).problems[1:]
    assert "were stolen" in stolen
    strangers = audit.read_trail(whole, other.members, at=NOW).problems
    assert strangers
    assert all("'north'" in problem for problem in strangers)


def test_a_line_from_the_future_is_refused(store: KeyStore) -> None:
    trail = Trail(store, 0)
    trail.add(1, at=NOW + DAY)
    (told,) = trail.found().problems
    assert "in the future" in told
