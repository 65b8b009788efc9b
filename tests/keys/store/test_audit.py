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

from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_keys.store import audit
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.identity import Identity
from tests.support.certified import DAY, NOW
from tests.support.certified import Consortium as Certified
from tests.support.command_line import call
from tests.support.stored_sites import GRID, Consortium
from tests.support.wire import flipped


@cache
def manifest() -> Manifest:
    request = Request(parties=("a", "b"), thresholds=GRID, options={"epsilon": 1.0})
    return registry.load("dpauc-laplace").prepare(request).manifest


@pytest.fixture(scope="module")
def played(site_rows: list[PartyData], tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    consortium = Consortium(site_rows, tmp_path_factory.mktemp("audit") / "c", "exact")
    conduct(consortium.aggregator(), consortium.exchange)
    return consortium


def lines_of(consortium: Consortium, name: str) -> list[dict[str, Any]]:
    told = call("audit", *consortium.options(name), "--json")
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
    assert call("audit", *played.options("north"), "--copy", str(copy)).exit_code == 0
    assert str(played.results["north"].auc)[:6] not in copy.read_text()
    told = json.loads(call("audit", *played.options("south"), str(copy), "--json").stdout)
    assert (told["lines"], told["signers"], told["problems"]) == (lines, ["north"], [])
    copy.write_bytes(copy.read_bytes()[:-20])
    assert call("audit", *played.options("south"), str(copy)).exit_code == 1


@cache
def certified() -> Certified:
    return Certified("north", "south")


def add(store: KeyStore, number: int, by: Identity | None = None, at: datetime = NOW) -> None:
    signer = by or certified().identities["north"]
    audit.append(store, signer, "submitted", manifest(), "south", at=at, rows=number)


@pytest.fixture
def trail(store: KeyStore) -> list[bytes]:
    """A trail of four lines, by north."""
    for number in range(4):
        add(store, number)
    return store.trail()


def found_in(lines: list[bytes], known: Certified | None = None, at: datetime = NOW) -> audit.Trail:
    return audit.read_trail(lines, (known or certified()).members, at=at)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_byte_that_is_changed_is_found(trail: list[bytes], step: int) -> None:
    for position in range(0, len(trail[0]), step):
        assert found_in([flipped(trail[0], position)]).problems, position


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
    trail: list[bytes], change: Callable[[list[bytes]], list[bytes]], told: str
) -> None:
    found = found_in(change(trail))
    assert re.search(told, found.problems[0]), found.problems


def test_who_writes_a_trail_anew_is_named_and_a_line_from_the_future_refused(
    trail: list[bytes], store: KeyStore
) -> None:
    add(store, 5, certified().identities["south"])
    assert found_in(store.trail()).problems == ("it is signed by several: 'north', 'south'",)
    add(store, 6, at=NOW + DAY)
    assert "line 6: its time is in the future" in found_in(store.trail()).problems


def test_lines_removed_from_the_end_change_the_digest_that_one_may_have_noted(trail: list[bytes]) -> None:
    cut = found_in(trail[:-1])
    assert (cut.problems, [each["rows"] for each in cut.lines]) == ((), [0, 1, 2])  # nothing in it can show that
    for found, last in ((cut, -2), (found_in(trail), -1)):
        assert found.last == hashlib.sha256(trail[last]).hexdigest()


def test_a_trail_outlives_its_signer_s_leaving_and_not_the_theft_of_its_keys(
    trail: list[bytes], store: KeyStore
) -> None:
    assert found_in(trail, at=NOW + 400 * DAY).problems == ()  # the file ends after 365
    other = Certified("north")
    add(store, 1, other.identities["north"])
    last = store.trail()[-1:]
    other.change(remove=["north"])
    assert len(found_in(last, other).problems) == 1  # the lines before are missing
    other.change(remove=["north"], stolen=True)  # as is found out afterwards
    assert "were stolen" in found_in(last, other).problems[1]
    strangers = found_in(trail, other).problems
    assert strangers
    assert all("'north'" in problem for problem in strangers)
