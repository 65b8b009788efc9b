"""Whoever reads everything on disk and on the wire, but has not the aggregator's key, reads no submission.

Every transport carries the bytes that `fhe_auc.machines.site_state.answer` makes, so that one place seals for all.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fhe_auc.base.errors import MessageError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.journal import Journal
from fhe_auc.session.messages import MESSAGE, Message
from fhe_auc_keys.roles.sealed import ECHO_BYTES
from fhe_auc_keys.store.vault import Vault, own_identity
from fhe_auc_keys.trust.message_signatures import SessionProtection
from tests.suite.sessions import OPTIONS
from tests.support.stored_sites import Consortium
from tests.support.wire import LIMIT

QUICK = {("semi-honest", "sealed"), ("exact", "helper"), ("dpauc-laplace", "sealed"), ("verified", "helper")}
"""One of each way to submit."""

KINDS = [
    pytest.param(*kind, id=", ".join(kind), marks=[] if kind in QUICK else pytest.mark.slow)
    for kind in (*((name, "sealed") for name in registry.names()), ("exact", "helper"), ("verified", "helper"))
]
_WINDOW, _NOBODY = 16, 65534


class Wire:
    """A session between machines, played to its end; what was sent, and what lies on disks."""

    def __init__(self, sites: list[PartyData], folder: Path, protocol: str, **request: Any) -> None:
        self.folder = folder
        self.made = Consortium(sites, folder / "sites", protocol, options=OPTIONS.get(protocol, {}), **request)
        self.messages: list[bytes] = []
        self.submissions: list[Message] = []
        aggregator = self.made.aggregator()
        self.protection: Any = aggregator.protection
        with Journal(folder / "journal") as journal:
            journal.bind(self.made.id)
            aggregator.journal = journal
            message: bytes | None = aggregator.start()
            while message is not None:
                self.messages.append(message)
                for name in aggregator.asked:
                    submission = self.made.answer(name, message)
                    aggregator.receive(name, submission)
                    self.submissions.append(Message.from_bytes(submission, limit=LIMIT))
                message = aggregator.finish_round()

    def with_the_key_of(self, name: str) -> SessionProtection:
        """What a role can open whose store somebody has."""
        config = self.made.made.sites[name]
        with Vault(Path(config["store"]), Path(config["passphrase-file"])).open() as store:
            identity = own_identity(store)
        keys = self.protection
        return SessionProtection(keys.binding, keys.signing_keys, keys.encryption_keys, identity)

    def readable(self) -> bytes:
        """All that lies on disks and went over the wire, but the submissions as they were sent."""
        on_disk = (each.read_bytes() for each in self.folder.rglob("*") if each.is_file())
        opened = (self.made.kept(name) for name in self.made.made.sites)
        return b"\n".join((*on_disk, *opened, *self.messages))


@pytest.fixture(scope="module")
def wires(site_rows: list[PartyData], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Wire]:
    return cache(
        lambda protocol, keys="sealed": Wire(site_rows, tmp_path_factory.mktemp(protocol), protocol, keys=keys)
    )


@pytest.mark.parametrize(("protocol", "keys"), KINDS)
def test_no_store_but_the_aggregators_opens_what_is_sent_to_it(
    protocol: str, keys: str, wires: Callable[..., Wire]
) -> None:
    wire = wires(protocol, keys)
    others = {name: wire.with_the_key_of(name) for name in wire.made.made.sites}
    assert (HELPER in others) == (keys == "helper")
    everything = wire.readable()
    last = wire.submissions[-1].round
    for message in wire.submissions:
        if message.round == last:  # that a party has the result: nothing to seal
            assert message.payload == message.unseal(wire.protection) == b""
            continue
        if keys == "sealed" and message.round > 1:  # an echo, which all parties get in the next round
            assert message.payload == message.unseal(wire.protection) in wire.messages[message.round]
            assert len(message.payload) == ECHO_BYTES
            continue
        payload = message.unseal(wire.protection, AGGREGATOR)
        assert len(message.payload) == len(payload) + 1136
        for protection in others.values():
            with pytest.raises(MessageError, match="not sealed to"):
                message.unseal(protection, AGGREGATOR)
        if message.round == 1 and len(payload) >= 1000:  # what a party has put in stands nowhere else
            middle = len(payload) // 2
            assert payload[middle : middle + _WINDOW] not in everything


def test_what_the_aggregator_has_for_the_helper_opens_for_the_helper_alone(wires: Callable[..., Wire]) -> None:
    wire = wires("verified", "helper")
    helper, north = wire.with_the_key_of(HELPER), wire.with_the_key_of("north")
    for number in (2, 3):
        message = Message.from_bytes(wire.messages[number - 1], limit=LIMIT)
        assert len(message.unseal(helper, HELPER)) == len(message.payload) - 1136
        for other in (north, wire.protection):
            with pytest.raises(MessageError, match="not sealed to"):
                message.unseal(other, HELPER)


@pytest.mark.parametrize("changed", [{"round": 2}, {"sender": "south"}])
def test_a_seal_holds_for_its_round_and_sender_alone(wires: Callable[..., Wire], changed: dict[str, Any]) -> None:
    """Not even a party that signs for it can have another one's submission counted as its own."""
    wire = wires("semi-honest", "sealed")
    message = msgspec.structs.replace(wire.submissions[0], **changed)
    own = wire.with_the_key_of(message.sender)
    resigned = msgspec.structs.replace(message, signature=own.sign(MESSAGE, message.digest))
    with pytest.raises(MessageError, match="not sealed to"):
        resigned.unseal(wire.protection, AGGREGATOR)
