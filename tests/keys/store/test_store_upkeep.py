"""Upkeep of key stores: ``check`` finds what is wrong, ``close`` leaves nothing that decrypts; full disks, versions."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from fhe_auc.base import serialise
from fhe_auc.base.errors import MessageError
from fhe_auc.base.serialise import decode
from fhe_auc.machines import answers
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rlwe import ring_parameters as ring
from fhe_auc.rows.party_data import PartyData
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.bundles.session_keys import PartySecrets
from fhe_auc_keys.cli.common import now
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site import key_erasure
from fhe_auc_keys.store.key_store import session_ids
from fhe_auc_keys.store.vault import OWN
from fhe_auc_keys.trust.identity import Identity
from tests.support.certified import DAY, NOW
from tests.support.command_line import printed, told
from tests.support.keys_commands import Clock, assert_fails, call, changed, join, make, ok, open_as, store_of
from tests.support.keys_folder import ADDER, NORTH, at
from tests.support.platforms import full_disk, needs_limits
from tests.support.stored_sites import Consortium
from tests.support.wire import flipped

pytestmark = pytest.mark.usefixtures("consortium")
SECOND = timedelta(seconds=1)
NEW_SESSION = "ask for a new session: out of a backup, a seed that is used could come back"


def problems(store: str = "north/store") -> list[dict[str, str]]:
    """What `check` says is wrong; it says so by its exit status too."""
    done = call("show", "--check", *at(store.removesuffix("/store")), "--json")
    found: list[dict[str, str]] = json.loads(done.stdout)["problems"]
    assert done.exit_code == (1 if found else 0)
    return found


def secrets_of(session: str) -> list[bytes]:
    """What decrypts in north's bundle."""
    with store_of("north") as store:
        own = decode(Kept.stored(store, bytes.fromhex(session)).material, PartySecrets, "")
    return [own.context[-200:], own.common_secret, own.seed]


def kept_of(session: str) -> bytes:
    """All that north's store has of a session, decrypted."""
    with store_of("north") as store:
        kinds = [kind for kind in ("bundle", "state") if session in store.names(kind)]  # type: ignore[arg-type]
        return b"".join(store.get(kind, session) for kind in kinds)  # type: ignore[arg-type]


def test_nothing_is_wrong_with_stores_that_commands_have_made() -> None:
    open_as("north")
    link = told("members", "show", "north/config.toml")["link"]
    printed("join", link, "east", "--no-start", input="y\n")  # not let in yet, and no problem
    for store in ("north/store", "south/store", f"{ADDER}/store", "east/store"):
        assert problems(store) == []
    assert "nothing is wrong in 'north/store'" in ok("show", "--check", *NORTH)


def test_every_entry_that_is_empty_cut_or_altered_is_named_on_a_line_with_its_remedy() -> None:
    session = open_as("north")
    with store_of("north") as store:
        entries = store.rows("select kind, name, data from entry")
    assert {kind for kind, *_ in entries} >= {"bundle", "identity", "opened", "trust"}

    def put(kind: str, name: str, data: bytes) -> None:
        with store_of("north") as store:
            store.change("insert or replace into entry values (?, ?, ?)", kind, name, data)

    for kind, name, whole in entries:
        remedy = NEW_SESSION if kind == "bundle" else "restore it from the backup"
        for bad in (b"", whole[:-1], flipped(whole, 0)):
            put(kind, name, bad)
            found = [each for each in problems() if each["entry"] == f"{kind}/{name}"]
            assert [each["remedy"] for each in found] == [remedy], name
        said = re.sub(r"\s+", " ", call("show", "--check", *NORTH).stdout)
        assert f"{kind}/{name} is damaged, or another entry's: {remedy}" in said
        put(kind, name, whole)
    assert problems() == []
    for kind in ("bundle", "state"):
        put(kind, session, b"")
    assert [each["entry"] for each in problems()] == [f"bundle/{session}", f"state/{session}"]
    assert "DAMAGED: see `fhe-auc keys show --check`" in ok("show", *NORTH)  # which prints, and does not judge


def test_keys_that_are_another_session_s_or_incomplete_are_noticed() -> None:
    """An entry that decrypts is not yet one that a session can go on with."""
    make("next")
    sessions = open_as("north"), open_as("north", "next")
    with store_of("north") as store:
        mine, others = (Kept.stored(store, bytes.fromhex(each)) for each in sessions)
    for material in (others.material, mine.material[:-1]):
        with store_of("north") as store:
            Kept(mine.announcement, mine.not_after, material).keep(store, bytes.fromhex(sessions[0]))
        (found,) = problems()
        assert (found["entry"], found["remedy"]) == (f"bundle/{sessions[0]}", NEW_SESSION)
        assert "secret keys are not those of the manifest" in found["wrong"]
    with store_of("south") as store:
        store.put("identity", OWN, Identity.create("south").to_bytes(), replace=True)
    (found,) = problems("south/store")
    assert found["entry"] == f"identity/{OWN}"
    assert "'south' has other keys in version 2 of the members' file than here" in found["wrong"]


def test_what_nobody_wrote_is_named_and_a_session_whose_encryption_library_is_missing_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strangers = [Path("north/store", each) for each in ("north.csr", "store.sqlite~")]
    for each in strangers:
        each.touch(mode=0o600)
    assert [(found["entry"], found["remedy"]) for found in problems()] == [
        (each.name, "move it elsewhere") for each in strangers
    ]
    for each in strangers:
        each.unlink()
    session = open_as("north")
    monkeypatch.setattr(ring, "_why_not", lambda name: "it is not installed")
    (found,) = problems()
    assert (found["entry"], found["remedy"]) == (f"bundle/{session}", "install it: no round can be answered without")


def test_members_whose_file_has_ended_and_a_session_with_who_was_left_out_are_problems(clock: Clock) -> None:
    open_as("north")
    clock.at += DAY
    changed("remove", "south", "--days", "200")
    (found,) = problems()  # the session that north has opened is with south
    assert found["entry"].startswith("bundle/")
    assert "'south' is no member in version 3" in found["wrong"]
    clock.at += 200 * DAY
    (found,) = problems()  # the session is over by now
    assert (found["entry"], found["remedy"][:32]) == ("trust/members", "ask the coordinator to renew it,")


def test_a_session_that_can_go_on_is_not_closed_unless_its_loss_is_accepted_and_then_never_opened_again() -> None:
    session = open_as("north")
    secrets = secrets_of(session)
    why = f"session {session} can go on until .*this site gets no result of it.*--lose-result"
    for wrong, said in ((("ab" * 16,), "no session abab.*`fhe-auc keys show` lists them"), ((session,), why)):
        assert_fails(call("close", *wrong, *NORTH), 1, said)
    join("registry")
    helped = make("helped", helper="registry")
    open_as("registry", "helped")
    ok("show", "--check", *at("registry"))
    assert_fails(
        call("close", helped, *at("registry")), 1, "the session cannot go on without this helper; --lose-result"
    )
    assert all(each in kept_of(session) for each in secrets)
    ok("close", " ".join(re.findall("....", session)), "--lose-result", *NORTH)  # however it is grouped
    assert "closed; its keys are destroyed" in re.sub(r"\s+", " ", ok("show", *NORTH))
    assert problems() == []
    with pytest.raises(KeysError, match="opened before"):
        open_as("north")
    assert not any(each in kept_of(session) for each in secrets)


def test_sessions_are_not_called_damaged_by_a_later_version_which_closes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages, and so sessions, end with their version; key stores do not."""
    session = open_as("north")
    secrets = secrets_of(session)
    state = answers._Answered(b"asked", b"sent", b"rows", secrets[1], b"", 900, (), False, "", ())
    with store_of("north") as store:
        store.put("state", session, answers._FORMAT.frame(state))
    assert problems() == []
    monkeypatch.setattr(serialise, "FORMAT_VERSION", 200)
    (found,) = problems()
    assert (found["entry"], found["wrong"][:38]) == (f"bundle/{session}", "session announcement of format version")
    assert f"`fhe-auc keys close {session} --lose-result`" in found["remedy"]
    assert_fails(call("close", session, *NORTH), 1, "this site gets no result of it")
    assert kept_of(session).count(secrets[1]) == 2
    ok("close", session, "--lose-result", *NORTH)
    assert not any(each in kept_of(session) for each in secrets)
    assert problems() == []


def test_what_a_session_was_opened_with_is_erased_once_its_time_is_over_and_others_stay(clock: Clock) -> None:
    make("long", days=20)
    make("noisy", protocol="dpauc-laplace", epsilon=1.0)
    ended = {open_as("north"), open_as("north", "noisy")}
    going_on = open_as("north", "long")

    def left() -> set[str]:
        with store_of("north") as store:
            key_erasure.close_ended(store, at=clock.at)
            return set(store.names("bundle"))

    for wait in (8 * DAY, -8 * DAY, 8 * DAY, 8 * DAY - SECOND):  # the clock was wrong first
        clock.at += wait
        assert left() == {*ended, going_on}
    said = re.sub(r"\s+", " ", ok("show", *NORTH))
    assert re.search("first seen on .*`fhe-auc serve` destroys its keys 8 days after that was seen", said)
    clock.at += SECOND
    with store_of("north") as store:
        store.put("bundle", "ab" * 16, b"damaged")  # which does not keep others
    for _ in range(2):
        assert left() == {going_on, "ab" * 16}
    assert secrets_of(going_on)


LOOKS: list[tuple[dict[float, float], bool]] = [
    ({0: 8, 1 / 24: 0, 1.9: 0}, False),  # 8 days ahead for an hour
    ({0: 8, 1: 8, 1.9: 0}, False),  # for a day, through which something looks
    ({0: 8, 1: 40}, True),  # and further ahead: that no clock tells from the end
    ({0: 300, 1: 300, 1.9: 0, 2.1: 0, 9.9: 0}, False),
    *(({hour / 4: days for hour in range(28)}, False) for days in (8, 56)),  # for a week
    ({2.1: 0, 10: 0}, False),
    ({2.1: 0, 10.2: 0}, True),
    ({2.1: 8, 3: 0, 10.9: 0}, False),  # eight days from the look that was right
    ({2.1: 8, 3: 0, 11: 0}, True),
    ({2.1: 0, 5: -300, 10.2: 0}, True),  # each boot starts in the past, before the session
    ({2.1: 0, 5: -300, 10: 0}, False),
]
"""By day on which something looks, how far its clock is ahead; the end is on day 2. Is the session over then?"""


def test_a_session_is_over_once_its_end_was_seen_on_two_looks_at_the_clock_that_lie_8_days_apart() -> None:
    make("short", days=2)
    session = bytes.fromhex(open_as("north", "short"))
    with store_of("north") as store:
        for ahead, over in LOOKS:
            for day, days in ahead.items():
                found = session in key_erasure.note_ends(store, at=NOW + (day + days) * DAY)
            assert found is over, ahead
            key_erasure.note_ends(store, at=NOW)  # a clock that is set right is believed
            assert Kept.stored(store, session).end_seen == 0


def test_a_site_that_closes_a_session_answers_the_same_again_and_nothing_new(
    site_rows: list[PartyData], tmp_path: Path
) -> None:
    consortium = Consortium(site_rows, tmp_path / "c", "verified")
    aggregator = consortium.aggregator()
    result = consortium.deliver(aggregator, aggregator.start())
    while aggregator.round < aggregator.rounds:
        result = consortium.deliver(aggregator, result)
    last = consortium.answer("north", result)
    for _ in range(2):  # closing again does nothing
        with site_storage().site(consortium.made.sites["north"]) as site:
            kept = site.state(consortium.id)
            assert kept is not None
            site.keep(consortium.id, kept, ended=True)
            with pytest.raises(MessageError, match="its keys are destroyed, and it answers nothing new"):
                site.session(consortium.id)
        assert consortium.answer("north", result) == last
    for days, stays in ((0, True), (40, True), (48, False)):  # until nobody can ask any more
        with consortium.store("north") as store:
            key_erasure.close_ended(store, at=now() + days * DAY)
            assert (last in store.get("state", consortium.id.hex())) is stays


@needs_limits
def test_a_command_on_a_full_disk_names_the_file_and_does_its_work_afterwards(clock: Clock) -> None:
    limit = ("budget", "--limit", "4", *NORTH)
    with store_of("north") as store:
        before = store.count
    with full_disk():
        assert_fails(call(*limit), 1, r"disk I/O error: '.*north/store/store.sqlite'")
        with pytest.raises(OSError, match=r"disk I/O error: '.*north/store/store.sqlite'"):
            open_as("north")
    with store_of("north") as store:
        assert store.count == before
    ok(*limit)
    open_as("north")
    with pytest.raises(KeysError, match="opened before"):
        open_as("north")
    with store_of("north") as store:
        key_erasure.note_ends(store, at=clock.at + 8 * DAY)
        with full_disk(), pytest.raises(OSError, match=r"store\.sqlite"):
            key_erasure.note_ends(store, at=clock.at)
        (session,) = session_ids(store, "bundle")
        assert Kept.stored(store, session).end_seen
