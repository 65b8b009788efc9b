"""``fhe-auc keys check`` finds whatever is wrong in a key store; ``keys close`` leaves nothing that decrypts."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fhe_auc.base.serialise import decode
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rlwe import backends
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import conduct
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.bundles.session_keys import PartySecrets
from fhe_auc_keys.cli.common import now
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site import key_erasure
from tests.support import stored_sites
from tests.support.certified import DAY
from tests.support.keys_commands import Clock, assert_fails, call, json_of, make_site, ok, open_as, refresh, store_of
from tests.support.keys_folder import ADDER, AUTHORITY, NORTH, SESSION, SMALL

NEW_SESSION = "ask for a new session: out of a backup, a seed that is used could come back"


def problems(store: str = "north/store") -> list[dict[str, str]]:
    """What `check` says is wrong; it says so by its exit status too."""
    done = call("check", "--store", store, "--json")
    found: list[dict[str, str]] = json.loads(done.stdout)["problems"]
    assert done.exit_code == (1 if found else 0)
    return found


def opened(bundle: str = "week/north.bundle") -> str:
    """Open a bundle as north; return the session's id."""
    done = open_as("north", bundle, "--json")
    assert done.exit_code == 0, done.output
    return str(json.loads(done.stdout)["session"])


def secrets_of(session: str) -> list[bytes]:
    """What decrypts in north's bundle."""
    with store_of("north") as store:
        own = decode(Kept.stored(store, bytes.fromhex(session)).material, PartySecrets, "")
    return [own.context[-200:], own.common_secret, own.seed]


def kept_of(session: str) -> bytes:
    """All that north's store has of a session, decrypted."""
    with store_of("north") as store:
        kinds = [kind for kind in ("bundle", "late", "state") if session in store.names(kind)]  # type: ignore[arg-type]
        return b"".join(store.get(kind, session) for kind in kinds)  # type: ignore[arg-type]


# --- check ------------------------------------------------------------------------------------------------------------


def test_nothing_is_wrong_with_stores_that_commands_have_made(consortium: Path) -> None:
    opened()
    ok("enrol", "east", "--store", "east")  # not certified yet, and no problem
    for store in ("north/store", "south/store", "authority/store", f"{ADDER}/store", "east"):
        assert problems(store) == []
    assert "nothing is wrong in 'north/store'" in ok("check", *NORTH).stdout


def test_every_entry_that_is_empty_cut_or_altered_is_named_on_a_line_with_its_remedy(consortium: Path) -> None:
    session = opened()
    entries = [path for path in Path("north/store").glob("*/*") if path.is_file()]
    assert {path.parent.name for path in entries} >= {"bundle", "identity", "seen", "trust"}
    for path in entries:
        whole, name = path.read_bytes(), str(path.relative_to("north/store"))
        remedy = NEW_SESSION if path.parent.name == "bundle" else "restore it from the backup"
        for bad in (b"", whole[:-1], bytes([whole[0] ^ 1]) + whole[1:]):
            path.write_bytes(bad)
            found = [each for each in problems() if each["entry"] == name]
            assert [each["remedy"] for each in found] == [remedy], name
        said = re.sub(r"\s+", " ", call("check", *NORTH).stdout)
        assert f"{name} is damaged, or another entry's file: {remedy}" in said
        path.write_bytes(whole)
    assert problems() == []
    for path in (Path("north/store/bundle", session), Path("north/store/state", session)):
        path.touch(mode=0o600)
        path.write_bytes(b"")
    assert [each["entry"] for each in problems()] == [f"bundle/{session}", f"state/{session}"]
    assert "DAMAGED: see `fhe-auc keys check`" in ok("show", *NORTH).stdout  # which prints, and does not judge


def test_keys_that_are_another_session_s_or_incomplete_are_noticed(consortium: Path) -> None:
    """An entry that decrypts is not yet one that a session can go on with."""
    ok(*SESSION, *SMALL, "--out", "next")
    sessions = opened(), opened("next/north.bundle")
    with store_of("north") as store:
        mine, others = (Kept.stored(store, bytes.fromhex(each)) for each in sessions)
    for material in (others.material, mine.material[:-1]):
        with store_of("north") as store:
            store.put("bundle", sessions[0], Kept(mine.announcement, mine.not_after, material).to_bytes(), replace=True)
        (found,) = problems()
        assert (found["entry"], found["remedy"]) == (f"bundle/{sessions[0]}", NEW_SESSION)
        assert "secret keys are not those of the manifest" in found["wrong"]


def test_what_nobody_wrote_is_named(consortium: Path) -> None:
    strangers = ["bundle/.hidden", "north.csr", "seen/old", "trust/own~"]
    for each in strangers:
        Path("north/store", each).touch(mode=0o600)
    found = problems()
    assert [each["entry"] for each in found] == strangers
    assert {each["remedy"] for each in found} == {"move it elsewhere"}


def test_lists_and_certificates_that_are_outdated_are_problems_and_so_are_revoked_ones(
    consortium: Path, clock: Clock
) -> None:
    opened()
    clock.at += DAY
    ok("revoke", "south", *AUTHORITY, "--out", "authority")
    ok("enrol", "north", *NORTH, "--revocation-list", "authority/ca.crl")
    (found,) = problems()  # the session that north has opened is with south
    assert found["entry"].startswith("bundle/")
    assert re.search("certificate of 'CN=south' .* has been revoked", found["wrong"])
    clock.at += 60 * DAY
    assert [each["entry"] for each in problems()] == ["trust/own", "identity/own"]  # the session is over by now
    news = refresh(clock, 340 * DAY)
    ok("enrol", "north", *NORTH, *news)
    (found,) = problems()
    assert (found["entry"], found["remedy"]) == ("identity/own", "renew it, and check the clock")
    clock.at += 5 * 365 * DAY
    assert problems("authority/store")[0]["wrong"] == "this authority's own certificate is outdated or not yet valid"


def test_a_session_whose_encryption_library_is_missing_here_is_a_problem(
    consortium: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened()
    monkeypatch.setattr(backends, "_why_not", lambda name: "it is not installed")
    (found,) = problems()
    assert (found["entry"], found["remedy"]) == (f"bundle/{session}", "install it: no round can be answered without")


# --- close ------------------------------------------------------------------------------------------------------------


def test_a_session_that_can_go_on_is_not_closed_unless_its_loss_is_accepted(consortium: Path) -> None:
    session = opened()
    secrets = secrets_of(session)
    for wrong, status, why in (
        (("--ended", "ab" * 16), 2, "name a session, or give --ended, and not both"),
        (("--ended", "--lose-result"), 2, "for sessions that are named"),
        (("ab" * 16,), 1, "no session abab.*`fhe-auc keys show` lists them"),
    ):
        assert_fails(call("close", *wrong, *NORTH), status, why)
    why = f"session {session} can go on until .*this site gets no result of it.*--lose-result"
    assert_fails(call("close", session, *NORTH), 1, why)
    assert all(each in kept_of(session) for each in secrets)
    ok("close", " ".join(re.findall("....", session)), "--lose-result", *NORTH)  # as `show` spells it
    assert not any(each in kept_of(session) for each in secrets)
    assert "closed; its keys are destroyed" in re.sub(r"\s+", " ", ok("show", *NORTH).stdout)
    assert problems() == []


def test_a_closed_session_is_never_opened_again_not_even_where_the_list_of_opened_bundles_is_put_back(
    consortium: Path,
) -> None:
    seen = Path("north/store/seen/bundles")
    before = seen.read_bytes()
    session = opened()
    secrets = secrets_of(session)
    ok("close", session, "--lose-result", *NORTH)
    assert_fails(open_as("north"), 1, "opened before")
    seen.write_bytes(before)
    assert_fails(open_as("north"), 1, f"another bundle '{session}' already")
    assert not any(each in kept_of(session) for each in secrets)


def test_ended_sessions_are_closed_together_and_others_stay(consortium: Path, clock: Clock) -> None:
    ok(*SESSION, "--days", "20", *SMALL, "--out", "long")
    ok(*SESSION, "--protocol", "dpauc-laplace", "-o", "epsilon=1", "--thresholds", "uniform:8", "--out", "noisy")
    ended = {opened(), opened("noisy/session.convened")}
    going_on = opened("long/north.bundle")
    assert json_of("close", "--ended", *NORTH)["closed"] == []
    clock.at += 8 * DAY
    Path("north/store/bundle", "ab" * 16).touch(mode=0o600)
    done = ok("close", "--ended", *NORTH, "--json")
    assert set(json.loads(done.stdout)["closed"]) == ended
    assert f"warning: session {'ab' * 16} is left as it is" in done.stderr  # a damaged entry does not keep others
    assert json_of("close", "--ended", *NORTH)["closed"] == []
    shown = json_of("show", *NORTH)["sessions"]
    assert {each for each, state in shown.items() if state["state"] == "closed"} == ended
    assert secrets_of(going_on)


def test_a_key_holder_who_closes_a_session_can_no_longer_open_it_late(consortium: Path) -> None:
    make_site("east")
    late = ("--min-parties", "2", "--out", "late", "--protocol", "verified", "--thresholds", "uniform:8")
    session = json_of(*SESSION, "east/east.credential", *late)["session"]
    assert "made here, to be opened late" in re.sub(r"\s+", " ", ok("show", *NORTH).stdout)
    before = len(kept_of(session))
    assert_fails(call("close", session, *NORTH), 1, "can go on until")
    ok("close", session, "--lose-result", *NORTH)
    assert len(kept_of(session)) < before / 2
    assert "closed; its keys" in ok("show", *NORTH).stdout
    assert problems() == []


def test_a_site_that_closes_a_session_answers_the_same_again_and_nothing_new(
    site_rows: list[PartyData], tmp_path: Path
) -> None:
    consortium = stored_sites.Consortium(site_rows, tmp_path / "c", "verified")
    messages: list[bytes] = []
    answers: list[bytes] = []

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        messages.append(message)
        for name, submission in consortium.exchange(message):
            answers.append(submission)
            yield name, submission

    conduct(consortium.aggregator(), exchange)
    last = answers[-len(site_rows)]
    for _ in range(2):  # closing again does nothing
        with site_storage().site(consortium.made.sites["north"]) as site:
            site.close(consortium.id)
            with pytest.raises(KeysError, match="its keys are destroyed, and it answers nothing new"):
                site.session(consortium.id)
        assert consortium.answer("north", messages[-1]) == last
    for at, stays in ((now(), True), (now() + 40 * DAY, False)):  # until nobody can ask any more
        with consortium.store("north") as store:
            key_erasure.close(store, consortium.id, at=at)
            assert (last in store.get("state", consortium.id.hex())) is stays
