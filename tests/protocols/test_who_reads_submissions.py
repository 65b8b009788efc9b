"""A submission is sealed to the aggregator for its round and its sender: what others read, `read-all` attacks."""

from pathlib import Path

import msgspec
import pytest

from fhe_auc.base.errors import MessageError
from fhe_auc.base.names import AGGREGATOR
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import MESSAGE, Message
from fhe_auc_keys.store.vault import own_identity
from fhe_auc_keys.trust.message_signatures import SessionProtection
from tests.support.stored_sites import Consortium
from tests.support.wire import LIMIT


def test_a_seal_holds_for_its_round_and_sender_alone(site_rows: list[PartyData], tmp_path: Path) -> None:
    """Not even a party that signs for it can have another one's submission counted as its own."""
    made = Consortium(site_rows, tmp_path / "sites")
    aggregator = made.aggregator()
    sent = Message.from_bytes(made.answer("north", aggregator.start()), limit=LIMIT)
    keys = aggregator.protection
    assert isinstance(keys, SessionProtection)
    payload = sent.unseal(keys, AGGREGATOR)
    assert len(sent.payload) == len(payload) + 1136
    for changed in ({"round": 2}, {"sender": "south"}):
        message = msgspec.structs.replace(sent, **changed)
        with made.store(message.sender) as store:
            own = SessionProtection(keys.binding, keys.signing_keys, keys.encryption_keys, own_identity(store))
        resigned = msgspec.structs.replace(message, signature=own.sign(MESSAGE, message.digest))
        for reader in (keys, own):
            with pytest.raises(MessageError, match="not sealed to"):
                resigned.unseal(reader, AGGREGATOR)
    with pytest.raises(MessageError, match="not sealed to"):
        sent.unseal(own, AGGREGATOR)
