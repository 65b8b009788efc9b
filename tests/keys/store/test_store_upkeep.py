"""Upkeep of key stores: ``check`` finds what is wrong, ``close`` leaves nothing that decrypts, and revocation lists.

Lists come from files, folders and URLs; whoever forges or withholds one is noticed in time.
"""

import json
import re
import shutil
import ssl
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.serialise import decode
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rlwe import parameters as ring
from fhe_auc.rows.party_data import PartyData
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.bundles.session_keys import PartySecrets
from fhe_auc_keys.cli import keys as group
from fhe_auc_keys.cli.common import now
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site import key_erasure
from fhe_auc_keys.store import list_places
from fhe_auc_keys.store.trusted_authorities import parse_list
from fhe_auc_keys.trust.authority import Authority
from fhe_auc_keys.trust.revocation import ends_soon
from tests.support.certified import DAY, NOW
from tests.support.keys_commands import Clock, assert_fails, call, json_of, ok, open_as, refresh, store_of
from tests.support.keys_folder import ADDER, AUTHORITY, NORTH, SESSION, SMALL
from tests.support.stored_sites import Consortium
from tests.support.tls import TlsFiles
from tests.support.wire import flipped

pytestmark = pytest.mark.usefixtures("consortium")
SECOND = timedelta(seconds=1)
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
        kinds = [kind for kind in ("bundle", "state") if session in store.names(kind)]  # type: ignore[arg-type]
        return b"".join(store.get(kind, session) for kind in kinds)  # type: ignore[arg-type]


# --- check ------------------------------------------------------------------------------------------------------------


def test_nothing_is_wrong_with_stores_that_commands_have_made() -> None:
    opened()
    ok("enrol", "east", "--store", "east")  # not certified yet, and no problem
    for store in ("north/store", "south/store", "authority/store", f"{ADDER}/store", "east"):
        assert problems(store) == []
    assert "nothing is wrong in 'north/store'" in ok("check", *NORTH).stdout


def test_every_entry_that_is_empty_cut_or_altered_is_named_on_a_line_with_its_remedy() -> None:
    session = opened()
    with store_of("north") as store:
        entries = store._database.rows("select kind, name, data from entry")
    assert {kind for kind, *_ in entries} >= {"bundle", "identity", "opened", "trust"}

    def put(kind: str, name: str, data: bytes) -> None:
        with store_of("north") as store:
            store._database.change("insert or replace into entry values (?, ?, ?)", kind, name, data)

    for kind, name, whole in entries:
        remedy = NEW_SESSION if kind == "bundle" else "restore it from the backup"
        for bad in (b"", whole[:-1], flipped(whole, 0)):
            put(kind, name, bad)
            found = [each for each in problems() if each["entry"] == f"{kind}/{name}"]
            assert [each["remedy"] for each in found] == [remedy], name
        said = re.sub(r"\s+", " ", call("check", *NORTH).stdout)
        assert f"{kind}/{name} is damaged, or another entry's: {remedy}" in said
        put(kind, name, whole)
    assert problems() == []
    for kind in ("bundle", "state"):
        put(kind, session, b"")
    assert [each["entry"] for each in problems()] == [f"bundle/{session}", f"state/{session}"]
    assert "DAMAGED: see `fhe-auc keys check`" in ok("show", *NORTH).stdout  # which prints, and does not judge


def test_keys_that_are_another_session_s_or_incomplete_are_noticed() -> None:
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


def test_what_nobody_wrote_is_named_and_a_session_whose_encryption_library_is_missing_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strangers = ["north.csr", "store.sqlite~"]
    for each in strangers:
        Path("north/store", each).touch(mode=0o600)
    assert [(found["entry"], found["remedy"]) for found in problems()] == [
        (name, "move it elsewhere") for name in strangers
    ]
    for each in strangers:
        Path("north/store", each).unlink()
    session = opened()
    monkeypatch.setattr(ring, "_why_not", lambda name: "it is not installed")
    (found,) = problems()
    assert (found["entry"], found["remedy"]) == (f"bundle/{session}", "install it: no round can be answered without")


def test_lists_and_certificates_that_are_outdated_are_problems_and_so_are_revoked_ones(clock: Clock) -> None:
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


# --- close ------------------------------------------------------------------------------------------------------------


def test_a_session_that_can_go_on_is_not_closed_unless_its_loss_is_accepted_and_then_never_opened_again() -> None:
    session = opened()
    secrets = secrets_of(session)
    why = f"session {session} can go on until .*this site gets no result of it.*--lose-result"
    for wrong, told in ((("ab" * 16,), "no session abab.*`fhe-auc keys show` lists them"), ((session,), why)):
        assert_fails(call("close", *wrong, *NORTH), 1, told)
    assert all(each in kept_of(session) for each in secrets)
    ok("close", " ".join(re.findall("....", session)), "--lose-result", *NORTH)  # as `show` spells it
    assert "closed; its keys are destroyed" in re.sub(r"\s+", " ", ok("show", *NORTH).stdout)
    assert problems() == []
    assert_fails(open_as("north"), 1, "opened before")
    assert not any(each in kept_of(session) for each in secrets)


def test_what_a_session_was_opened_with_is_erased_once_its_time_is_over_and_others_stay(clock: Clock) -> None:
    ok(*SESSION, "--days", "20", *SMALL, "--out", "long")
    ok(*SESSION, "--protocol", "dpauc-laplace", "-o", "epsilon=1", "--thresholds", "uniform:8", "--out", "noisy")
    ended = {opened(), opened("noisy/session.convened")}
    going_on = opened("long/north.bundle")

    def left() -> set[str]:
        with store_of("north") as store:
            key_erasure.close_ended(store, at=clock.at)
            return set(store.names("bundle"))

    for wait in (8 * DAY, -8 * DAY, 8 * DAY, 8 * DAY - SECOND):  # the clock was wrong first
        clock.at += wait
        assert left() == {*ended, going_on}
    told = re.sub(r"\s+", " ", ok("show", *NORTH).stdout)
    assert re.search("first seen on .*`fhe-auc serve` destroys its keys 8 days after that was seen", told)
    clock.at += SECOND
    with store_of("north") as store:
        store.put("bundle", "ab" * 16, b"damaged")  # which does not keep others
    for _ in range(2):
        assert left() == {going_on, "ab" * 16}
    assert secrets_of(going_on)
    with store_of("north") as store:
        assert key_erasure.noted_ends(store) == {}


@pytest.mark.parametrize(
    ("ahead", "over"),
    [
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
    ],
)
def test_a_session_is_over_once_its_end_was_seen_on_two_looks_at_the_clock_that_lie_8_days_apart(
    ahead: dict[float, float], over: bool
) -> None:
    """By day on which something looks, how far its clock is ahead; the end is on day 2. A damaged list begins anew."""
    ok(*SESSION, "--days", "2", *SMALL, "--out", "short")
    session = bytes.fromhex(opened("short/north.bundle"))
    with store_of("north") as store:
        for day, days in ahead.items():
            found = session in key_erasure.note_ends(store, at=NOW + (day + days) * DAY)
        assert found is over
        store.put("trust", key_erasure.ENDS, b"damaged", replace=True)
        looks = {4: False, 11: False, 12: True}
        assert {day: session in key_erasure.note_ends(store, at=NOW + day * DAY) for day in looks} == looks
        key_erasure.note_ends(store, at=NOW)  # a clock that is set right is believed
        assert key_erasure.noted_ends(store) == {}


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
            site.close(consortium.id)
            with pytest.raises(KeysError, match="its keys are destroyed, and it answers nothing new"):
                site.session(consortium.id)
        assert consortium.answer("north", result) == last
    for days, stays in ((0, True), (40, True), (48, False)):  # until nobody can ask any more
        with consortium.store("north") as store:
            key_erasure.close_ended(store, at=now() + days * DAY)
            assert (last in store.get("state", consortium.id.hex())) is stays


# --- Revocation lists -------------------------------------------------------------------------------------------------


class Pages(BaseHTTPRequestHandler):
    """Answers with the bytes of `pages`, or leads to the address that is there in their place."""

    pages: ClassVar[dict[str, bytes | str]] = {}

    def do_GET(self) -> None:
        found = self.pages.get(self.path)
        self.send_response(404 if found is None else 302 if isinstance(found, str) else 200)
        if isinstance(found, str):
            self.send_header("Location", found)
        self.end_headers()
        if isinstance(found, bytes):
            self.wfile.write(found)

    def log_message(self, *said: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server on this machine that speaks TLS, by a certificate that this process trusts."""
    (tmp_path / "tls").mkdir()
    files = TlsFiles.create(tmp_path / "tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(Pages, "pages", {})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as listening:
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        yield f"https://localhost:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


def lists_of(store: str = "north/store") -> dict[str, str]:
    """When each list in a store ends."""
    told = json_of("show", "--store", store)["revocation_lists"]
    return {each["authority"]: each["next_update"] for each in told}


FROM = ("enrol", "north", *NORTH, "--revocation-list")


def assert_no_session(clause: str) -> None:
    assert_fails(call(*SESSION, "--out", "next", *SMALL), 1, clause)


def test_a_list_is_fetched_from_where_it_was_fetched_before_and_a_revocation_heard_of(
    clock: Clock, server: str
) -> None:
    Pages.pages["/ca.crl"] = Path("authority/ca.crl").read_bytes()
    ok(*FROM, f"{server}/ca.crl")
    assert json_of("show", *NORTH)["revocation_list_places"] == [f"{server}/ca.crl"]
    clock.at += DAY
    ok("revoke", "south", *AUTHORITY, "--out", "authority")
    Pages.pages["/ca.crl"] = Path("authority/ca.crl").read_bytes()
    assert_no_session("south/south.credential: .* has been revoked")
    assert open_as("north").exit_code == 1
    Pages.pages.clear()
    assert_no_session("south/south.credential: .* has been revoked")  # what was fetched is kept


def test_where_nothing_can_be_fetched_the_last_list_counts_until_it_ends(clock: Clock, server: str) -> None:
    Pages.pages["/ca.crl"] = before = Path("authority/ca.crl").read_bytes()
    ok(*FROM, f"{server}/ca.crl")
    del Pages.pages["/ca.crl"]
    opened = open_as("north")
    assert opened.exit_code == 0
    assert f"warning: no newer revocation list: {server}/ca.crl cannot be fetched (HTTP Error 404" in opened.stderr
    clock.at += 30 * DAY + timedelta(minutes=1)
    Pages.pages["/ca.crl"] = before  # replayed by the server, or whoever is in front of it
    assert_no_session("the revocation list of 'CN=Heart Study' is outdated")


def test_what_is_no_list_forged_or_older_is_refused_and_an_endless_reply_is_not_read(
    clock: Clock, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_places, "LONGEST_FETCHED", 100_000)
    fetch, genuine = (*FROM, f"{server}/ca.crl"), Path("authority/ca.crl").read_bytes()
    refresh(clock, DAY)
    ok(*FROM, "authority/ca.crl")
    strangers = Authority.create("Heart Study", at=clock.at).revocation_list(at=clock.at + DAY)
    for reply, status, why in (
        (b"", 2, "is no revocation list"),
        (b"<html>log in</html>", 2, "is no revocation list"),
        (b"x" * 100_001, 1, "is longer than 100,000 bytes"),
        (genuine, 1, f"{server}/ca.crl: .* is not newer than the one"),
        (strangers, 1, "of another key than the one trusted here"),
    ):
        Pages.pages["/ca.crl"] = reply
        assert_fails(call(*fetch), status, why)
    assert json_of("show", *NORTH)["revocation_list_places"] == []
    Pages.pages["/ca.crl"] = Path("authority/ca.crl").read_bytes()
    monkeypatch.setattr(list_places, "_PATIENCE", -1.0)  # by the first piece the time is over
    assert_fails(call(*fetch), 1, "cannot be fetched .not done after -1 s.: get the list as a file")


def test_nothing_is_fetched_without_tls_or_from_a_server_that_is_not_known(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Pages.pages["/ca.crl"] = Path("authority/ca.crl").read_bytes()
    Pages.pages["/away"] = "http://localhost:1/ca.crl"
    Pages.pages["/there"] = "/ca.crl"
    ok(*FROM, f"{server}/there")
    assert_fails(call(*FROM, f"{server}/away"), 1, "cannot be fetched .*unknown url type: http")
    for url in ("http://localhost/ca.crl", "ftp://localhost/ca.crl", "file://elsewhere/ca.crl"):
        assert_fails(call(*FROM, url), 2, "fetched by https: and from this machine")
    assert_fails(call(*FROM, "https://me:mine@localhost/ca.crl"), 2, "holds no password")
    monkeypatch.delenv("SSL_CERT_FILE")
    assert_fails(call(*FROM, f"{server}/ca.crl"), 1, "cannot be fetched .*certificate verify failed")


def test_a_folder_yields_what_is_newer_and_of_those_who_are_trusted(clock: Clock) -> None:
    Path("lists").mkdir()
    assert_fails(call(*FROM, "lists"), 2, "there is no revocation list")
    shutil.copy("authority/ca.crl", "lists/1.crl")
    Path("lists/stranger.crl").write_bytes(Authority.create("Lung Study", at=NOW).revocation_list(at=NOW))
    refresh(clock, DAY)
    shutil.copy("authority/ca.crl", "lists/0.crl")  # newer, and comes first
    ok(*FROM, Path("lists").absolute().as_uri())
    assert lists_of() == {"Heart Study": "2030-06-01T12:00:00+00:00"}
    ok(*FROM, "lists")
    assert json_of("show", *NORTH)["revocation_list_places"] == [str(Path("lists").absolute())]
    refresh(clock, DAY)
    shutil.copy("authority/ca.crl", "lists/2.crl")
    assert open_as("north").exit_code == 0
    assert lists_of() == {"Heart Study": "2030-06-02T12:00:00+00:00"}
    refresh(clock, DAY)
    newest = x509.load_pem_x509_crl(Path("authority/ca.crl").read_bytes()).public_bytes(Encoding.DER)
    Path("lists/3.crl").write_bytes(flipped(newest, -1))  # of the signature
    assert re.search("no newer revocation list: .* is forged or not a full list", open_as("north").stderr)
    assert lists_of() == {"Heart Study": "2030-06-02T12:00:00+00:00"}


def test_every_command_with_a_site_s_store_warns_in_a_list_s_last_week(clock: Clock) -> None:
    assert "warning" not in ok("show", *NORTH).stderr
    clock.at += 23 * DAY + timedelta(minutes=1)
    warning = (
        "warning: the revocation list of 'Heart Study' counts until 2030-05-31 12:00 UTC, and without one no session "
        "can go on: take the next one in by `fhe-auc keys enrol NAME --revocation-list`\n"
    )
    asked = {
        "enrol": ("north", "--force"),
        "session": ("south/south.credential", *SMALL),
        "open": ("week/north.bundle", "--holder", "north", "--study", "study.toml"),
        "close": ("ab" * 16,),
    }
    for command in set(group.commands) - {"ca-init", "issue", "revoke", "join"}:  # the authority's; it brings a list
        assert warning in call(command, *asked.get(command, ()), *NORTH).stderr, command
    news = refresh(clock, timedelta(0))
    assert "warning" not in ok("enrol", "north", *NORTH, *news).stderr


def test_a_list_ends_soon_in_its_last_week_or_the_last_quarter_of_a_shorter_validity() -> None:
    margin = timedelta(minutes=5)  # a list counts from a little before it is made
    for days, last in ((30, 7), (28, 7), (8, 2), (1, 0.25)):
        found = parse_list(Authority.create("Heart Study", at=NOW).revocation_list(days=days, at=NOW), "ca.crl")
        begins = NOW + (days - last) * DAY
        soon = [ends_soon(found, at=at) for at in (begins - margin, begins + margin, NOW + 2 * days * DAY)]
        assert soon == [False, True, True], days


def test_a_round_takes_a_newer_list_in_time_and_warns_where_there_is_none(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(SYSTEM, "now", clock)
    config = {"store": "north/store", "holder": "north"}
    Path("lists").mkdir()
    shutil.copy("authority/ca.crl", "lists/0.crl")
    ok(*FROM, "lists")
    clock.at += 24 * DAY
    with site_storage().site(config):
        pass
    assert "counts until 2030-05-31 12:00 UTC, and without one no session can go on" in caplog.text
    caplog.clear()
    refresh(clock, timedelta(0))
    shutil.copy("authority/ca.crl", "lists/1.crl")
    with site_storage().site(config):
        pass
    assert caplog.text == ""
    assert lists_of() == {"Heart Study": "2030-06-24T12:00:00+00:00"}
