"""Sessions with a helper, all roles in one process, round by round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fhe_auc.base.serialise import decode
from fhe_auc.rows.counts import PartyData
from fhe_auc.session.messages import Message
from fhe_auc.session.protocol import Request
from tests.support.exact_sessions import GRID, PLUGINS, rows
from tests.support.wire import LIMIT

SITES = 4


class Play:
    """All roles of a session; `spoil` may change what a role says before it arrives."""

    def __init__(self, protocol: str = "verified", *, least: int = 2, sites: int = SITES, **request: Any) -> None:
        self.sites = rows(sites, 7)
        names = tuple(data.name for data in self.sites)
        plugin = PLUGINS[protocol]
        asked: dict[str, Any] = {"max_rows": 2000, "min_parties": least, "keys": "helper", **request}
        self.session = plugin.prepare(Request(parties=names, thresholds=GRID, **asked))
        manifest = self.session.manifest
        self.delivery = plugin.local_delivery(self.session)
        self.aggregator: Any = plugin.aggregator(manifest, self.delivery.aggregator)
        self.helper: Any = plugin.helper(manifest, self.delivery.helper)
        self.parties: list[Any] = [
            plugin.party(manifest, self.delivery.parties[data.name], data) for data in self.sites
        ]
        self.sent: list[bytes] = []

    def play(
        self,
        *,
        absent: Callable[[int, str], bool] = lambda round_number, name: False,
        spoil: Callable[[int, str, bytes], bytes] = lambda round_number, name, data: data,
    ) -> None:
        message = self.aggregator.start()
        while message is not None:
            self.sent.append(message)
            number = self.aggregator.round
            for role in self.asked():
                if absent(number, role.name):
                    continue
                self.aggregator.receive(role.name, spoil(number, role.name, role.respond(message)))
            message = self.aggregator.finish_round()

    def up_to(self, number: int) -> bytes:
        """Play until this round is open, and return its message."""
        message = self.aggregator.start()
        while self.aggregator.round < number:
            for role in self.asked():
                self.aggregator.receive(role.name, role.respond(message))
            message = self.aggregator.finish_round()
        return bytes(message)

    def asked(self) -> list[Any]:
        return [role for role in (*self.parties, self.helper) if role.name in self.aggregator.asked]

    def counted(self, *left_out: int) -> list[PartyData]:
        return [data for number, data in enumerate(self.sites) if number not in left_out]


def changed(data: bytes, **fields: Any) -> bytes:
    return msgspec.structs.replace(Message.from_bytes(data, limit=LIMIT), **fields).to_bytes()


def payload_of(data: bytes, shape: type[Any]) -> Any:
    return decode(Message.from_bytes(data, limit=LIMIT).payload, shape, "payload")
