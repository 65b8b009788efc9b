"""What a site keeps: a round is answered in one way, by one pad, and only for sessions that it joined."""

import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, InputError, MessageError
from fhe_auc.base.serialise import decode
from fhe_auc.machines.file_transport import ANNOUNCEMENT
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import conduct
from fhe_auc_keys.bundles.session_keys import PartySecrets
from fhe_auc_keys.cli.common import now
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.site import restored
from fhe_auc_keys.site.session_files import keep_for_party
from fhe_auc_keys.store import audit
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import own_identity
from tests.support.certified import DAY, NOW
from tests.support.certified import Consortium as People
from tests.support.stored_sites import Consortium


@pytest.fixture(params=["histogram-federated", pytest.param("semi-honest", marks=pytest.mark.slow)])
def consortium(request: pytest.FixtureRequest, site_rows: list[PartyData], tmp_path: Path) -> Consortium:
    return Consortium(site_rows, tmp_path / "consortium", request.param)


def test_a_result_says_which_earlier_sessions_nobody_has_compared_it_with(consortium: Consortium) -> None:
    """What cannot be read may be the list that tells, with this one, the counts of one site."""
    aggregator = consortium.aggregator()
    result = consortium.deliver(aggregator, aggregator.start())
    with consortium.store("north") as store:
        for session in ("ab", "cd"):
            store.put("state", session * 16, b"of another version")
        store.change("update entry set data = x'00' where kind = 'state' and name = ?", "cd" * 16)
    consortium.answer("north", result)
    told = [each for each in consortium.results["north"].warnings if "nobody has compared" in each]
    assert [each[:40] for each in told] == [
        f"what this site keeps of session {each}" for each in ("abababab", "cdcdcdcd")
    ]


def test_sessions_that_a_site_has_not_joined_or_whose_files_are_removed_are_neither_answered_nor_joined_again(
    site_rows: list[PartyData], tmp_path: Path
) -> None:
    noise = {"protocol": "dpauc-laplace", "options": {"epsilon": 4.0}}
    consortium, stranger = (Consortium(site_rows, tmp_path / name, **noise) for name in ("c", "stranger"))
    with pytest.raises(StoreError, match=r"has not been opened here: .* makes another session"):
        consortium.answer("north", stranger.aggregator().start())
    with pytest.raises(MessageError):
        consortium.answer("north", b"garbage")
    opening = consortium.aggregator().start()
    consortium.answer("north", opening)
    session = consortium.id
    with consortium.store("north") as store:
        for kind in ("bundle", "state"):
            store.remove(kind, session.hex())
    with pytest.raises(StoreError, match="has not been opened here"):
        consortium.answer("north", opening)
    document = consortium.made.files[ANNOUNCEMENT]
    with consortium.store("north") as store, pytest.raises(KeysError, match="has been opened before"):
        keep_for_party(document, b"", store, at=now())


def made_store(place: Path) -> KeyStore:
    store = KeyStore.create(place, "four random words")
    People("south").settle(store, "south")
    return store


@pytest.mark.parametrize("days", [0, -3], ids=["", "the clock is behind when it is noticed"])
def test_a_store_that_was_put_back_is_noticed_though_commands_have_changed_it_since(days: int, tmp_path: Path) -> None:
    """It may have answered since, in sessions that count from before it was changed last."""
    place, folder = tmp_path / "store", tmp_path / "state"
    with made_store(place) as store:
        pass
    shutil.copytree(place, tmp_path / "backup")
    with KeyStore(place, "four random words") as store, restored.watched(store, folder, at=NOW):
        audit.append_line(store, own_identity(store), "submitted", at=NOW)
    with KeyStore(place, "four random words") as store, restored.watched(store, folder, at=NOW + DAY):
        assert not restored.warning(store)
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "backup", place)
    with KeyStore(place, "four random words") as store:  # by commands, which know of no state
        for number in range(9):
            store.put("list", f"{number}", b"")
    with KeyStore(place, "four random words") as store, restored.watched(store, folder, at=NOW + days * DAY):
        assert "line 1 of its audit trail is not here" in restored.warning(store)
        assert restored.made_before(store, SimpleNamespace(not_before=NOW))  # type: ignore[arg-type] # all it looks at
        assert not restored.made_before(store, SimpleNamespace(not_before=NOW + DAY))  # type: ignore[arg-type]


@pytest.mark.parametrize("lost", ["the count", "its line", "the folder"])
def test_a_store_whose_count_is_lost_may_have_been_put_back(lost: str, tmp_path: Path) -> None:
    """Else who puts the store back, and takes the count away, has it answer anew."""
    folder = tmp_path / "state"
    with made_store(tmp_path / "store") as store:
        for _ in range(3):
            with restored.watched(store, folder, at=NOW):
                audit.append_line(store, own_identity(store), "submitted", at=NOW)
            assert not restored.warning(store)
        if lost == "the folder":
            folder = tmp_path / "another state"
        elif lost == "the count":
            (folder / restored.COUNT).unlink()
        else:
            (folder / restored.COUNT).write_bytes(b"9")
        for days in (1, 2):
            with restored.watched(store, folder, at=NOW + days * DAY):
                told = restored.warning(store)
            assert "store.count', which tells how often it was changed, is lost or damaged" in told
            assert "noticed on 2030-05-02" in told  # once
        assert [line.count(b"restored") for line in store.trail()] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("more", "told"), [(1, "differs by 1 "), (0, ""), pytest.param(10, "", marks=pytest.mark.slow)]
)
def test_a_site_is_warned_of_a_session_with_one_row_more_than_its_key_store_remembers(
    more: int, told: str, site_rows: list[PartyData], tmp_path: Path
) -> None:
    """Results of both sessions differ by that row; the other sites had the same rows, and nobody else is told."""
    options = {"protocol": "dpauc-laplace", "options": {"epsilon": 4.0}}
    before = Consortium(site_rows, tmp_path / "before", **options)
    conduct(before.aggregator(), before.exchange)
    north, *others = site_rows
    labels, scores = np.append(north.y_true, [True] * more), np.append(north.y_score, [0.5] * more)
    now_ = Consortium([PartyData.from_arrays(north.name, labels, scores), *others], tmp_path / "now", **options)
    for name in now_.sites:
        with before.store(name) as old, now_.store(name) as new:
            new.put("state", before.id.hex(), old.get("state", before.id.hex()))
    conduct(now_.aggregator(), now_.exchange)
    found = {name: [text for text in each.warnings if "differs by" in text] for name, each in now_.results.items()}
    assert [len(each) for each in found.values()] == [bool(told), 0, 0]
    assert all(told in text for text in found[north.name])
    assert not any("differs by" in text for each in before.results.values() for text in each.warnings)


def test_the_aggregators_files_are_verified_and_no_party_is_among_them(consortium: Consortium) -> None:
    config, files = dict(consortium.made.aggregator), consortium.made.files
    joined = site_storage().aggregator(config, files)
    announced = {"fingerprints": (), "aggregator": b"", "study": None}
    assert msgspec.structs.replace(joined.manifest, **announced) == consortium.session.manifest
    assert joined.material == consortium.session.aggregator_material
    with pytest.raises(InputError, match="store is not configured"):
        site_storage().aggregator({**config, "store": ""}, files)
    with pytest.raises(KeysError, match="not, with the keys that it has now, the aggregator"):
        site_storage().aggregator(consortium.made.sites["north"], files)


# A pad hides one sketch: two under one pad would tell the aggregator how they differ.


@pytest.fixture(params=[pytest.param("exact", marks=pytest.mark.slow), "verified"])
def padding(request: pytest.FixtureRequest, site_rows: list[PartyData], tmp_path: Path) -> Consortium:
    return Consortium(site_rows, tmp_path / "c", request.param)


def has_seed(padding: Consortium, name: str = "north") -> bool:
    return padding.session.seeds[name] in padding.kept(name)


def test_a_site_submits_once_whatever_it_is_asked_and_its_seed_is_gone_before_the_submission_leaves(
    padding: Consortium, site_rows: list[PartyData]
) -> None:
    opening = padding.aggregator().start()
    assert has_seed(padding)  # the search finds what is there
    first = padding.answer("north", opening)
    assert not has_seed(padding)
    assert has_seed(padding, "south")
    rows = site_rows[0]
    others = PartyData.from_arrays("north", ~rows.y_true[1:], rows.y_score[1:])
    assert padding.answer("north", opening, lambda *_: others) == first
    aggregator: Any = padding.aggregator()
    again = bytes(aggregator._message(b"again"))  # another message for round 1, which it signs
    for each in (rows, others):
        with pytest.raises((MessageError, ValueError), match="round 1, expected 2"):
            padding.answer("north", again, lambda *_, each=each: each)
    assert padding.answer("north", opening, lambda *_: pytest.fail("asked for its rows")) == first
    with site_storage().site(padding.made.sites["north"]) as site:  # nor does a party made again of what is left
        party = site.session(padding.id).party(rows)
    with pytest.raises(EvaluationError, match="'north' has submitted already: its pad is for one"):
        party.respond(opening)
    with pytest.raises(MessageError, match="has ended"):
        party.respond(opening)


def test_nothing_secret_is_printed_or_pickled(padding: Consortium, site_rows: list[PartyData]) -> None:
    with site_storage().site(padding.made.sites["north"]) as site:
        joined = site.session(padding.id)
    party: Any = joined.party(site_rows[0])
    secret = decode(joined.material, PartySecrets, "")
    assert secret.seed == padding.session.seeds["north"]
    party.respond(padding.aggregator().start())
    for each in (party, joined, padding.session, secret):
        for hidden in (secret.seed, secret.common_secret):
            assert repr(hidden)[2:-1] not in repr(each)
            assert hidden.hex() not in repr(each)
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(party)
