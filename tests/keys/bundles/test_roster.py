"""Whose keys a session takes: every party's own, verified, none twice, and none that is unfit."""

from dataclasses import replace

import pytest

from fhe_auc_keys.bundles.roster import Member, Roster
from fhe_auc_keys.errors import UnfitCertificateError
from fhe_auc_keys.trust.certificates import Peer, verify
from fhe_auc_keys.trust.identity import Identity
from tests.support.certified import NOW, Consortium

NAMES = ("north", "south", "east")
IDENTITIES = {name: Identity.create(name) for name in NAMES}


def keys_of(name: str) -> tuple[bytes, bytes]:
    return IDENTITIES[name].signing_key, IDENTITIES[name].encryption_key


def peer(name: str) -> Peer:
    consortium = Consortium()
    return verify(consortium.certified(IDENTITIES[name]).credential, consortium.trust(), at=NOW)


def test_a_roster_has_every_partys_own_keys_and_cannot_be_changed() -> None:
    roster = Roster.of([peer(name) for name in NAMES])
    assert roster == Roster(tuple(Member(name, *keys_of(name)) for name in sorted(NAMES)))
    assert roster.names == set(NAMES)
    # What is for one party alone would be sealed to whoever has an encryption key in it.
    with pytest.raises(TypeError):
        roster.encryption_keys["mallory"] = keys_of("north")[1]  # type: ignore[index]
    with pytest.raises(AttributeError):
        roster.members = ()  # type: ignore[misc]


def test_a_roster_with_a_key_that_is_none_or_out_of_order_or_a_name_or_key_twice_is_refused() -> None:
    north, south = peer("north"), peer("south")
    Roster.of([north, south])
    for same in ("name", "signing_key", "encryption_key"):
        with pytest.raises(UnfitCertificateError, match="have the same"):
            Roster.of([north, replace(south, **{same: getattr(north, same)})])
    signing, encryption = keys_of("east")
    for members in (
        *([("east", bytes(length), encryption)] for length in (0, 31, 33)),
        *([("east", signing, bytes(length))] for length in (0, 31, 33, 32)),  # zero is a point of small order
        [("south", *keys_of("south")), ("north", *keys_of("north"))],
        [("south", *keys_of("south")), ("south", *keys_of("north"))],
        [("north", *keys_of("south")), ("south", *keys_of("south"))],
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - which one is the implementation's choice
            Roster(tuple(Member(*fields) for fields in members))
