"""A consortium is set up by its authority's invitation: each fingerprint is compared once, and none is passed by."""

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import decode, encode
from fhe_auc_keys.errors import KeysError, TamperedError, VersionError
from fhe_auc_keys.site import invitation
from fhe_auc_keys.site.invitation import Offer, invite, open_invitation
from fhe_auc_keys.store import list_places
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.trust.authority import Authority, _builder
from tests.support.certified import DAY, NOW, STUDY
from tests.support.keys_commands import (
    Clock,
    assert_fails,
    call,
    fingerprint_in,
    json_of,
    ok,
    request_fingerprint,
    settings,
    store_of,
)
from tests.support.keys_folder import AUTHORITY, NORTH, SITES, SOUTH, at
from tests.support.wire import flipped

POST = ("--out", "post")
JOIN = ("join", "post/ca.invitation")
OFFER = f"""
exchange = "sftp://exchange.example.org/heart"
notes = ["The authority's telephone: +49 30 1234"]
revocation-lists = [{{lists!r}}]

[study]
model = "{STUDY.model}"
outcome = "{STUDY.outcome}"
cohort = "{STUDY.cohort}"
period = "{STUDY.period}"

[policy]
holder = "north"
protocols = ["verified"]
model = "{STUDY.model}"
outcome = "{STUDY.outcome}"
min-parties = 2
max-thresholds = 16
hours-between = 20

[policy.options]
interval = 0.95
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Path:
    """A folder with an authority's invitation in `post`; lists are fetched from `lists`."""
    settings(monkeypatch, clock)
    monkeypatch.chdir(tmp_path)
    for name in ("post", "lists", *SITES):
        Path(name).mkdir()
    Path("offer.toml").write_text(OFFER.format(lists=str(tmp_path / "lists")))
    invited()
    return tmp_path


def invited(*more: str, store: str = "authority") -> None:
    ok("ca-init", "Heart Study", *at(store), "--invitation", "offer.toml", *POST, *more)


def joined(name: str, typed: str = "y\ny\n") -> str:
    """What a role is shown and asked in both commands, the authority's call in between."""
    first = ok(*JOIN, name, *at(name), *POST, input=typed)
    asked = ("--fingerprint", request_fingerprint(f"post/{name}.csr"))
    ok("issue", f"post/{name}.csr", *AUTHORITY, *POST, *asked)
    return first.stderr + ok(*JOIN, "--certificate", f"post/{name}.pem", *at(name), *POST).stderr


def test_whoever_joins_compares_the_authority_s_fingerprint_once_and_is_then_shown_what_the_invitation_says() -> None:
    """How many commands and comparisons a consortium needs: `test_every_night.py`."""
    before, after = joined("north").split("Does the authority read out the same")
    assert fingerprint_in("post") in "".join(before.split())
    shown = ("sftp://exchange.example.org/heart", "+49 30 1234", STUDY.model, "hours-between", "tell differences")
    assert [each in after for each in shown] == [True] * len(shown)
    with store_of("north") as store:
        assert [Path(each).name for each in Trusted.stored(store).places] == ["lists"]


def test_an_invitation_of_another_authority_is_refused_and_nothing_is_made() -> None:
    told = ("--authority-fingerprint", fingerprint_in("post"), "--no-policy")
    invited("--force", store="impostor")  # in the post, in place of the genuine one
    for more, typed, status, why in (
        (told, "", 1, "fingerprint of authority 'Heart Study' .* not the one given: do not use it"),
        ((), "n\n", 1, "is not confirmed; nothing was changed"),
        ((), "", 2, "nobody is there to confirm .*: give --authority-fingerprint"),
        (("--authority-fingerprint", "ab"), "", 2, "expected 64 hexadecimal digits"),
        (("--authority-fingerprint", fingerprint_in("post")), "", 2, "if the policy is taken: --policy or --no-policy"),
    ):
        random = ("--random-passphrase", "secret")
        assert_fails(call(*JOIN, "north", *NORTH, *POST, *random, *more, input=typed), status, why)
        assert not any(Path(each).exists() for each in ("north/store", "secret", "post/north.csr"))
    invited("--force")
    joined("north")
    invited("--force", store="impostor")
    stranger = (*JOIN, "--certificate", "post/north.pem", *NORTH, *POST, "--force")
    assert_fails(call(*stranger), 1, "not trusted here: run `join` without --certificate first")
    assert_fails(call(*JOIN, "north", *NORTH, *POST, "--force", *told), 1, "not the one given: do not use it")
    assert [each["fingerprint"] for each in json_of("show", *NORTH)["authorities"]] == [told[1]]


def test_no_byte_of_an_invitation_can_be_changed_and_none_is_longer_than_the_longest_revocation_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = Path("post/ca.invitation").read_bytes()
    assert open_invitation(data).offer.study == STUDY
    for position in range(0, len(data), 7):
        with pytest.raises(KeysError):
            open_invitation(flipped(data, position))
    ours, theirs = (Authority.create("Heart Study", at=NOW) for _ in range(2))
    genuine = invitation._FORMAT.unframe(invite(ours, ours.revocation_list(at=NOW), Offer()))
    listed = theirs.certificate.public_bytes(Encoding.DER)
    body = decode(genuine.body, invitation._Body, "body")
    for changed, signer in (
        (body, theirs),  # signed by another than it names
        (invitation._Body(listed, body.revocation_list, body.offer, b""), theirs),  # with the list of another
        (invitation._Body(body.certificate, b"", body.offer, b""), ours),
        (invitation._Body(body.certificate, body.revocation_list, encode({"study": 1}), b""), ours),
        (invitation._Body(body.certificate, body.revocation_list, body.offer, b"policy"), ours),
    ):
        encoded = encode(changed)
        signed = invitation._Signed(encoded, signer.sign(b"invitation 1", encoded))
        with pytest.raises(TamperedError):
            open_invitation(invitation._FORMAT.frame(signed))
    key = Ed25519PrivateKey.generate()  # the name in its certificate is long enough to talk people into anything
    named = x509.Name(
        [x509.NameAttribute(each, "its fingerprint is 1234" * 2) for each in (NameOID.COMMON_NAME, NameOID.TITLE)]
    )
    certificate = _builder(named, key.public_key(), named, key, NOW, DAY, authority=True).sign(key, None)
    talks = Authority(key, certificate, (), 0)
    with pytest.raises(TamperedError, match="at most 64 characters"):
        open_invitation(invite(talks, talks.revocation_list(at=NOW), Offer()))
    newer = data[:7] + bytes([9]) + data[8:]
    with pytest.raises((VersionError, TamperedError)):
        open_invitation(newer)
    monkeypatch.setattr(invitation, "LONGEST", len(data) - 1)
    assert_fails(call(*JOIN, "north", *NORTH, *POST), 1, "ca.invitation: an invitation is longer than")


def test_an_older_invitation_takes_no_newer_list_away_and_an_outdated_one_is_refused(clock: Clock) -> None:
    shutil.copy("post/ca.invitation", "old.invitation")
    joined("south")
    clock.at += DAY
    ok("revoke", "south", *AUTHORITY, *POST)
    invited("--force")
    joined("north")
    told = ("--authority-fingerprint", fingerprint_in("post"), "--policy", "--force")
    old = ("join", "old.invitation")
    assert_fails(call(*old, "north", *NORTH, *POST, *told), 1, "old.invitation: .* is not newer than the one")
    ok(*old, "--certificate", "post/north.pem", *NORTH, *POST, "--force")  # takes of it what is newer: nothing
    with store_of("north") as store:
        assert len(list(Trusted.stored(store).lists[0])) == 1
    ok(*JOIN, "north", *NORTH, *POST, *told)  # the same again: after a crash
    clock.at += 30 * DAY
    late = call(*JOIN, "west", "--store", "west", *POST, *told)
    assert_fails(late, 1, "the invitation counts until 2030-06-01 12:00 UTC, or not yet: ask the authority for a new")
    assert not Path("west").exists()


def test_who_joins_a_second_consortium_fetches_the_lists_of_the_first_too_and_a_new_place_replaces_the_old(
    here: Path,
) -> None:
    def places(name: str, store: str) -> list[str]:
        """South's, once it has joined by an invitation with lists in that folder."""
        Path("offer.toml").write_text(OFFER.format(lists=str(here / name)))
        ok("ca-init", f"{store} study", *at(store), "--invitation", "offer.toml", *POST, "--force")
        ok(*JOIN, "south", *SOUTH, *POST, "--force", input="y\nn\n")
        return [Path(each).name for each in json_of("show", *SOUTH)["revocation_list_places"]]

    for name in ("first", "second"):
        Path(name).mkdir()
    assert [places("lists", "first"), places("moved", "first")] == [["lists"], ["moved"]]
    assert [places("others", "second") for _ in range(2)] == [["moved", "others"]] * 2


def test_of_several_requests_one_that_was_swapped_is_not_certified_and_the_others_are() -> None:
    for name in SITES:
        ok(*JOIN, name, *at(name), *POST, input="y\nn\n")
    genuine = request_fingerprint("post/south.csr")
    ok("enrol", "south", "--store", "thief", *POST, "--force")  # on the way to the authority
    Path("post/junk.csr").write_text("no request")
    with Path("post/long.csr").open("wb") as file:
        file.truncate(2**28 + 1)
    Path("post/more.csr").mkdir()
    requests = ("post/junk.csr", "post/long.csr", "post/more.csr", "post/north.csr", "post/south.csr")
    told = [each for path in requests[3:4] for each in ("--fingerprint", request_fingerprint(path))]
    done = call("issue", *requests, *AUTHORITY, *POST, "--json", *told, "--fingerprint", genuine)
    said = json.loads(done.stdout)
    assert (done.exit_code, [each["name"] for each in said["issued"]]) == (1, ["north"])
    assert "not a certificate request" in said["refused"]["post/junk.csr"]
    assert "not the one given: do not use it" in said["refused"]["post/south.csr"]
    assert list(said["refused"]) == [*requests[:3], "post/south.csr"]
    two = call("issue", "post/north.csr", "post/junk.csr", *AUTHORITY, *POST, "--json")  # that is no NAME
    assert list(json.loads(two.stdout)["refused"]) == ["post/junk.csr"]
    assert not Path("post/south.pem").exists()
    ok("enrol", "south", *SOUTH, *POST, "--force")
    again = ok("issue", *requests[3:], *AUTHORITY, *POST, input="y\n")  # asks for the one that is left
    assert "passed over" in again.stdout
    assert [line["name"] for line in json_of("show", *AUTHORITY)["authority"]["issued"]] == list(SITES)
    assert_fails(
        call(*JOIN, "--certificate", "post/north.pem", *SOUTH, *POST), 1, "certificate is for 'north' or other"
    )


def test_a_policy_is_taken_only_where_somebody_says_so_and_a_mistaken_offer_is_not_sent() -> None:
    told = ("--authority-fingerprint", fingerprint_in("post"))
    ok(*JOIN, "north", *NORTH, *POST, *told, "--no-policy")
    assert_fails(call("policy", *NORTH), 1, "has no policy")
    ok(*JOIN, "south", *SOUTH, *POST, *told, "--policy")
    assert json_of("policy", *SOUTH)["policy"]["hours-between"] == 20
    assert "signed by 'Heart Study', which is trusted here" in ok("show", "post/ca.invitation", *SOUTH).stdout
    for text, wrong in (
        ('revocation-lists = ["http://example.org/ca.crl"]', "fetched by https: and from this machine"),
        ('revocation-lists = ["lists"]', "neither a URL nor a folder from the root on"),
        ('exchange = "two\\nlines"', "each of one line"),
        (f"notes = {json.dumps(['x'] * 21)}", "at most 20 texts"),
        ('exchanges = ""', "unknown field `exchanges`"),
        ("[policy]\nholder = 'north'", "missing required field"),
    ):
        Path("offer.toml").write_text(text)
        more = ("--invitation", "offer.toml", *POST, "--force")
        assert_fails(call("ca-init", "Heart Study", *AUTHORITY, *more), 2, f"invitation file 'offer.toml': .*{wrong}")
    with pytest.raises(InputError):
        Offer(notes=("\x1b[2J",))
    Path("offer.toml").write_text(OFFER.format(lists="/lists").replace('["verified"]', '["\\u001b[2J"]'))
    invited("--force")
    west = (*JOIN, "west", "--store", "west", *POST)
    every = ("cohort +any", "period +any", "max-row-cap +none", "until +no end")
    said, refused = (call(*west, input=typed).output for typed in ("y\nn\n", "n\n"))
    assert ("\\x1b" in said, "\x1b" in said) == (True, False)  # it steers no terminal
    assert all(re.search(f"policy: {each}\n", said) for each in every)  # what is not there allows more
    # Whoever wrote it says nothing before anybody knows who that is: no other telephone, nor another fingerprint.
    assert [each in refused for each in ("Heart Study", "exchange", "policy")] == [True, False, False]


def test_a_process_that_runs_on_asks_a_place_seldom_and_more_often_where_a_list_ends_soon(clock: Clock) -> None:
    joined("north")
    told: list[str] = []
    asked: dict[str, float] = {}
    with store_of("north") as store:
        before = list_places.renewed(store, told.append, asked)  # nothing is there yet
        for _ in range(3):
            assert list_places.renewed(store, told.append, asked) == before
        clock.at += timedelta(hours=1)
        ok("revoke", "--refresh", *AUTHORITY, "--out", "lists")
        assert (len(told), list_places.renewed(store, told.append, asked)) == (1, before)
        ((place, due),) = asked.items()
        asked[place] = 0.0  # ten minutes later
        assert list_places.renewed(store, told.append, asked) != before
        assert 3000 < asked[place] - due <= 3600
    assert len(told) == 1
