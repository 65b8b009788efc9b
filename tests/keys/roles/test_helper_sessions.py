"""Sessions with a helper between machines: made, opened and played over files."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.files import read_config
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode
from fhe_auc.machines.answers import _FORMAT
from fhe_auc.machines.file_transport import ANNOUNCEMENT
from fhe_auc_keys.bundles.announcement import claimed, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import BUNDLE, _Body, open_for_party
from fhe_auc_keys.bundles.session_keys import PartySecrets
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.site import key_erasure
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.vault import own_identity
from fhe_auc_keys.trust.sealing import OVERHEAD, PrivateKeys
from fhe_auc_keys.trust.signatures import signed_bytes
from fhe_auc_keys.trust.signed_documents import claimed_body
from tests.support.certified import DAY
from tests.support.keys_commands import Clock, assert_fails, call, join, make, ok, open_as, store_of
from tests.support.keys_folder import ADDER, SITES, SOUTH, at
from tests.support.machines import played_over_files

EXCHANGE = Path("rounds")


@pytest.fixture
def helped(consortium: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session whose helper is "registry", which everybody has opened."""
    monkeypatch.setattr(SYSTEM, "now", clock)
    join("registry")
    make("helped", helper="registry")
    for name in (*SITES, "registry"):
        open_as(name, "helped")


def config(name: str) -> dict[str, Any]:
    """The configuration of a role, as its TOML file has it."""
    told = {"store": f"{name}/store", "passphrase-file": f"{name}/passphrase"}
    if name in SITES:
        np.savez(f"{name}.npz", y_true=[0, 1, 1, 0], y_score=[0.1, 0.9, 0.4, 0.5])
        told |= {"data": f"{name}.npz", "results": f"results of {name}"}
    Path(f"{name}.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in told.items()))
    return read_config(Path(f"{name}.toml"), None)


def played(**options: int) -> Any:
    roles = {name: config(name) for name in SITES} | {HELPER: config("registry")}
    files = {ANNOUNCEMENT: Path("helped/session").read_bytes()}
    return played_over_files({**config(ADDER), "journal": "journal"}, files, roles, EXCHANGE, **options)


@pytest.mark.usefixtures("helped")
def test_everybody_can_check_what_is_kept_and_is_told_what_closing_early_loses() -> None:
    for reader in ("north", "registry"):
        ok("show", "--check", *at(reader))
    session = claimed(Path("helped/session").read_bytes()).manifest.session.hex()
    for who, lost in (
        (at("registry"), "the session cannot go on without this helper; --lose-result closes"),
        (SOUTH, "this site gets no result of it, .*; --lose-result closes"),
    ):
        assert_fails(call("close", session, *who), 1, f"if it is closed now, {lost}")


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
    assert call("show", "--check", *at("registry")).exit_code == 0


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
    join("registry")
    make("helped", helper="registry")
    announcement, secrets = Path("helped/session").read_bytes(), []
    for name in SITES:
        bundle = Path(f"helped/{name}.bundle").read_bytes()
        with store_of(name) as store:
            identity, members = own_identity(store), known_members.stored(store)
        announced = open_announcement(announcement, members, at=common.now())
        material = open_for_party(bundle, announced, identity, members, at=common.now())
        secrets.append(decode(material, PartySecrets, "").common_secret)
        body = claimed_body(BUNDLE, bundle, _Body)
        assert len(body.sealed) == OVERHEAD + len(material)
        signing, (_, x25519) = identity.keys.components
        broken = PrivateKeys.from_components(signing, (PrivateKeys.generate().components[1][0], x25519))
        assert body.announcement == announced.digest
        about = signed_bytes(BUNDLE.purpose, body.announcement + body.recipient)
        assert identity.unseal(body.sealed, info=about) == material
        with pytest.raises(TamperedError):
            broken.unseal(body.sealed, info=about)
    assert secrets[0] == secrets[1] != bytes(32)
    assert not any(secrets[0] in Path("helped", name).read_bytes() for name in os.listdir("helped"))
