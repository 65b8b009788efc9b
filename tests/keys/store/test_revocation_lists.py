"""Revocation lists come from files, folders and URLs; whoever forges or withholds one is noticed in time."""

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

from fhe_auc.machines.flower.certificates import TlsFiles
from fhe_auc.machines.site_state import site_storage
from fhe_auc_keys.cli import keys as group
from fhe_auc_keys.site import key_store_sites
from fhe_auc_keys.store import list_places
from fhe_auc_keys.store.trusted_authorities import parse_list
from fhe_auc_keys.trust.authority import Authority
from fhe_auc_keys.trust.revocation import ends_soon
from tests.support.certified import DAY, NOW
from tests.support.keys_commands import Clock, assert_fails, call, json_of, ok, open_as, refresh
from tests.support.keys_folder import AUTHORITY, NORTH, SESSION, SMALL


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
    consortium: Path, clock: Clock, server: str
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


def test_where_nothing_can_be_fetched_the_last_list_counts_until_it_ends(
    consortium: Path, clock: Clock, server: str
) -> None:
    Pages.pages["/ca.crl"] = before = Path("authority/ca.crl").read_bytes()
    ok(*FROM, f"{server}/ca.crl")
    del Pages.pages["/ca.crl"]
    opened = open_as("north")
    assert opened.exit_code == 0
    assert f"warning: no newer revocation list: {server}/ca.crl cannot be fetched (HTTP Error 404" in opened.stderr
    clock.at += 30 * DAY + timedelta(minutes=1)
    Pages.pages["/ca.crl"] = before  # replayed by the server, or whoever is in front of it
    assert_no_session("the revocation list of 'CN=Heart Study' is outdated")


def test_what_is_no_list_is_refused_and_an_endless_reply_is_not_read(
    consortium: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_places, "LONGEST_FETCHED", 100_000)
    fetch = (*FROM, f"{server}/ca.crl")
    for bad in (b"", b"<html>log in</html>"):
        Pages.pages["/ca.crl"] = bad
        assert_fails(call(*fetch), 2, "is no revocation list")
    Pages.pages["/ca.crl"] = b"x" * 100_001
    assert_fails(call(*fetch), 1, "is longer than 100,000 bytes")
    assert json_of("show", *NORTH)["revocation_list_places"] == []
    Pages.pages["/ca.crl"] = Path("authority/ca.crl").read_bytes()
    monkeypatch.setattr(list_places, "_PATIENCE", -1.0)  # by the first piece the time is over
    assert_fails(call(*fetch), 1, "cannot be fetched .not done after -1 s.: get the list as a file")


def test_a_fetched_list_that_is_forged_or_older_is_refused(consortium: Path, clock: Clock, server: str) -> None:
    genuine = Path("authority/ca.crl").read_bytes()
    refresh(clock, DAY)
    ok(*FROM, "authority/ca.crl")
    fetch = (*FROM, f"{server}/ca.crl")
    Pages.pages["/ca.crl"] = genuine
    assert_fails(call(*fetch), 1, f"{server}/ca.crl: .* is not newer than the one")
    stranger = Authority.create("Heart Study", at=clock.at)
    Pages.pages["/ca.crl"] = stranger.revocation_list(at=clock.at + DAY)
    assert_fails(call(*fetch), 1, "of another key than the one trusted here")


def test_nothing_is_fetched_without_tls_or_from_a_server_that_is_not_known(
    consortium: Path, server: str, monkeypatch: pytest.MonkeyPatch
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


def test_a_folder_yields_what_is_newer_and_of_those_who_are_trusted(consortium: Path, clock: Clock) -> None:
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
    newest = x509.load_pem_x509_crl(Path("authority/ca.crl").read_bytes())
    forged = bytearray(newest.public_bytes(Encoding.DER))
    forged[-1] ^= 1  # of the signature
    Path("lists/3.crl").write_bytes(forged)
    assert re.search("no newer revocation list: .* is forged or not a full list", open_as("north").stderr)
    assert lists_of() == {"Heart Study": "2030-06-02T12:00:00+00:00"}


def test_every_command_with_a_site_s_store_warns_in_a_list_s_last_week(consortium: Path, clock: Clock) -> None:
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
        "open-late": ("study.toml", "--out", "opening"),
        "close": ("--ended",),
    }
    for command in set(group.commands) - {"ca-init", "issue", "revoke"}:  # which are the authority's
        assert warning in call(command, *asked.get(command, ()), *NORTH).stderr, command
    news = refresh(clock, timedelta(0))
    assert "warning" not in ok("enrol", "north", *NORTH, *news).stderr


@pytest.mark.parametrize(("days", "last"), [(30, 7), (28, 7), (8, 2), (1, 0.25)])
def test_a_list_ends_soon_in_its_last_week_or_the_last_quarter_of_a_shorter_validity(days: int, last: float) -> None:
    found = parse_list(Authority.create("Heart Study", at=NOW).revocation_list(days=days, at=NOW), "ca.crl")
    begins = NOW + days * DAY - last * DAY
    margin = timedelta(minutes=5)  # a list counts from a little before it is made
    assert not ends_soon(found, at=begins - margin)
    assert ends_soon(found, at=begins + margin)
    assert ends_soon(found, at=NOW + 2 * days * DAY)


def test_a_round_takes_a_newer_list_in_time_and_warns_where_there_is_none(
    consortium: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(key_store_sites, "_now", clock)
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
