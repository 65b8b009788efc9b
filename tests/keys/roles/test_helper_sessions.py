"""Sessions with a helper between machines: made, opened and played by the commands, over files."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.files import read_config
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode
from fhe_auc.machines.answers import _FORMAT
from fhe_auc_keys.bundles.announcement import claimed
from fhe_auc_keys.bundles.sealed_bundles import PARTY_KIND, _PartyBody, announcement_digest, open_party_bundle
from fhe_auc_keys.bundles.session_keys import PartySecrets
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.site import key_erasure
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.store.vault import certified_identity
from fhe_auc_keys.trust.sealing import OVERHEAD, PrivateKey, signed_bytes
from fhe_auc_keys.trust.signed_documents import claimed_body
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from tests.support.certified import DAY
from tests.support.keys_commands import (
    Clock,
    assert_fails,
    call,
    json_of,
    make_site,
    ok,
    open_as,
    request_fingerprint,
    store_of,
    write_study,
)
from tests.support.keys_folder import ADDER, AUTHORITY, NORTH, SESSION, SITES, SMALL, SOUTH
from tests.support.machines import played_over_files

AGGREGATOR = ("--store", f"{ADDER}/store", "--holder", "north")


HELPED = (*SESSION, "--out", "helped", "--keys", "helper", *SMALL)
EXCHANGE = Path("exchange")
REGISTRY = ("--helper", "registry/registry.credential")


@pytest.fixture
def helped(consortium: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session whose helper is "registry", which everybody has opened."""
    monkeypatch.setattr(SYSTEM, "now", clock)
    make_site("registry")
    ok(*HELPED, *REGISTRY)
    for name in (*SITES, "registry"):
        at = ("--holder", "north", "--store", f"{name}/store", "--study", "study.toml")
        file = "session.helper" if name == "registry" else f"{name}.bundle"
        assert call("open", f"helped/{file}", *at).exit_code == 0


def config(name: str) -> dict[str, Any]:
    """The configuration of a role, as its TOML file has it."""
    told = {"store": f"{name}/store", "holder": "north"}
    if name in SITES:
        np.savez(f"{name}.npz", y_true=[0, 1, 1, 0], y_score=[0.1, 0.9, 0.4, 0.5])
        told |= {"data": f"{name}.npz", "results": f"results of {name}"}
    Path(f"{name}.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items()))
    return read_config(Path(f"{name}.toml"), None)


def played(**options: int) -> Any:
    roles = {name: config(name) for name in SITES} | {HELPER: config("registry")}
    settings = {**config(ADDER), "session": "helped/session.helper"}
    return played_over_files(settings, roles, EXCHANGE, **options)


@pytest.mark.usefixtures("consortium", "clock")
def test_row_caps_are_proved_by_default_and_a_session_without_proofs_says_so_also_where_it_is_made_again() -> None:
    make_site("registry")
    caps = {"north": 50, "south": 70}
    write_study("capped.toml", row_caps=caps)
    write_study("one.toml", row_caps={"north": 50})
    made = (*SESSION, "--keys", "helper", *SMALL, *REGISTRY)

    def proved(result: Result) -> bool:
        """Whether the session's parties prove their caps; a command warns where they do not."""
        there = caps_in(result) == tuple(caps.values())
        assert ("no party proves what it puts in" in result.stderr) is not there
        told = json.loads(result.stdout)
        assert told["row_caps_proved"] is there
        shown = " ".join(ok("show", told["files"]["everybody"], *NORTH).stdout.split())
        assert ("row caps not proved a party that lies can decide the AUC" in shown) is not there
        return there

    ok(*made, "--study", "study.toml", "--out", "bare")  # a study without caps, in which there is nothing to prove
    assert_fails(call(*made, "--study", "one.toml", "--out", "one"), 2, "'south' has none, and each party is to prove")
    first = ok(*made, "--study", "capped.toml", "--out", "first", "--json")
    assert proved(first)
    bare = ok(*made, "--study", "capped.toml", "--out", "second", "--no-proofs", "--json")
    assert not proved(bare)
    for old, there in ((first, True), (bare, False)):
        session = json.loads(old.stdout)["session"]
        assert proved(ok("session", "--repeat", session, *NORTH, "--out", "exchange", "--json")) == there
    for asked, why in (
        ((*SESSION, *SMALL), "there are none without --keys helper"),
        ((*made, "--thresholds", "quantile:8"), "exact or verified, nor in a session that finds thresholds"),
    ):
        assert_fails(call(*asked, "--study", "capped.toml", "--out", "third", "--no-proofs"), 2, why)


def caps_in(result: Result) -> tuple[int, ...]:
    """The row caps that are proved in the session that a command has made."""
    told = json.loads(result.stdout)
    announced = claimed(Path(told["files"]["everybody"]).read_bytes())
    return announced.manifest.decoded_plan(ExactPlan).caps


@pytest.mark.usefixtures("helped")
def test_everybody_sees_who_helps_can_check_what_is_kept_and_is_told_what_closing_early_loses() -> None:
    for reader in ("north", "registry"):
        ok("check", "--store", f"{reader}/store")
    told = json_of("open", "helped/session.helper", *AGGREGATOR, "--out", "roster")
    assert (list(told["helpers"]), told["context"]) == (["registry"], "")
    assert re.search(r"helper-1 +registry", ok("show", "helped/session.helper", *NORTH).stdout)
    session = claimed(Path("helped/session.helper").read_bytes()).manifest.session.hex()
    for who, lost in (
        (("--store", "registry/store"), "the session cannot go on without this helper; --lose-result closes"),
        (SOUTH, "this site gets no result of it, .*; --lose-result closes"),
    ):
        assert_fails(call("close", session, *who), 1, f"if it is closed now, {lost}")


@pytest.mark.usefixtures("consortium")
def test_a_session_that_is_made_with_two_helpers_or_none_is_refused() -> None:
    for name in ("office", "registry"):
        make_site(name)
    two = call(*HELPED, *REGISTRY, "--helper", "office/office.credential")
    assert_fails(two, 2, "a session has one helper: give --helper once")
    assert_fails(call(*HELPED), 2, "--keys helper and --helper go together")
    assert not Path("helped").exists()


@pytest.mark.usefixtures("helped")
def test_a_session_that_was_opened_with_a_helpers_older_certificate_is_found_by_check() -> None:
    """The session names that certificate, and the helper would be refused in its first round."""
    at = ("--store", "registry/store")
    request = "registry/registry.csr"
    told = ("--fingerprint", request_fingerprint(request), *AUTHORITY, "--out", "registry", "--force")
    ok("issue", request, "registry", *told)
    ok("enrol", "registry", *at, "--out", "registry", "--certificate", "registry/registry.pem", "--force")
    checked = call("check", *at, "--json")
    assert checked.exit_code == 1
    (found,) = json.loads(checked.stdout)["problems"]
    assert found["wrong"] == "'registry' is not, with this certificate, a helper of the session"


@pytest.mark.usefixtures("helped")
def test_closing_erases_at_the_helper_what_a_session_that_never_ended_has_left(clock: Clock) -> None:
    with pytest.raises(KeyboardInterrupt):
        played(killed_in=2)  # once the helper has opened the sum of the pads
    assert all(left())
    for _ in range(2):
        assert all(left())
        clock.at += 8 * DAY
        with store_of("registry") as store:
            key_erasure.close_ended(store, at=clock.at)
    assert not any(left())
    assert call("check", "--store", "registry/store").exit_code == 0


def left() -> tuple[bytes, bytes, bytes]:
    """What the helper would go on from, the question that it has answered last, and its answer."""
    with store_of("registry") as store:
        (session,) = store.names("state")
        kept = _FORMAT.unframe(store.get("state", session))
    return kept.party, kept.message, kept.submission


def test_each_party_gets_the_common_secret_sealed_to_it_alone_and_a_key_of_x25519_does_not_open_it(
    consortium: Path,
) -> None:
    """Who records the bundles today, and breaks X25519 years later, still does not know what results are checked by."""
    make_site("registry")
    said = ok(*HELPED, *REGISTRY)
    assert re.search(r"helped/session\.helper\s+to everybody", said.stdout)
    assert re.search(r"helped/south\.bundle\s+to south\s+sealed", said.stdout)
    announcement, secrets = Path("helped/session.helper").read_bytes(), []
    for name in SITES:
        file = Path(f"helped/{name}.bundle")
        with store_of(name) as store:
            identity, trust = certified_identity(store), Trusted.stored(store).trust
        given: dict[str, Any] = {"holder": "north", "session": None, "at": common.now()}
        opened = open_party_bundle(file.read_bytes(), identity, trust, **given, beside=announcement)
        secrets.append(decode(opened.kept.material, PartySecrets, "").common_secret)
        body = claimed_body(PARTY_KIND, file.read_bytes(), _PartyBody)
        assert len(body.sealed) == OVERHEAD + len(opened.kept.material)
        _, x25519 = identity.keys.encryption.components
        broken = PrivateKey.from_components(PrivateKey.generate().components[0], x25519)
        assert body.announcement == announcement_digest(announcement)
        about = signed_bytes(PARTY_KIND.purpose, body.announcement + body.header)
        assert identity.unseal(body.sealed, info=about) == opened.kept.material
        with pytest.raises(TamperedError):
            broken.unseal(body.sealed, info=about)
    assert secrets[0] == secrets[1] != bytes(32)
    assert not any(secrets[0] in Path("helped", name).read_bytes() for name in os.listdir("helped"))
    assert_fails(open_as("south", "helped/north.bundle"), 1, "the bundle is sealed to certificate .*, not 'south'")
    assert_fails(open_as("south", "helped/session.helper"), 1, "'south', a party .*, opens the bundle that 'north' has")
    assert open_as("registry", "helped/session.helper").exit_code == 0
    shutil.copy("helped/south.bundle", "south.bundle")
    assert_fails(open_as("south", "south.bundle"), 1, "put session.helper of that session beside the bundle")
    ok(*HELPED, *REGISTRY, "--out", "another")
    shutil.copy("another/session.helper", "session.helper")
    assert_fails(open_as("south", "south.bundle"), 1, "beside the bundle, in place of the one that is there")
    assert call("show", "south.bundle", *SOUTH).exit_code == 1
    assert "sealed to" in ok("show", "helped/south.bundle", *SOUTH).stdout
    assert open_as("south", "helped/south.bundle").exit_code == 0
