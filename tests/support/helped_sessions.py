"""Sessions with a helper, of which some may be absent, or what they say is changed on its way."""

from collections.abc import Callable
from typing import Any

from fhe_auc.base.serialise import decode
from fhe_auc.rows.party_data import PartyData
from tests.support import exact_sessions, wire

SITES = 4


class Play(exact_sessions.Play):
    """All roles of a session; `spoil` may change what a role says before it arrives."""

    def __init__(self, protocol: str = "verified", *, least: int = 2, **request: Any) -> None:
        super().__init__(protocol, exact_sessions.rows(SITES, 7), min_parties=least, keys="helper", **request)
        self.sent: list[bytes] = []
        self.submissions: dict[str, bytes] = {}

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
            for role in (*self.parties, self.helper):
                if role.name in self.aggregator.asked and not absent(number, role.name):
                    said = role.respond(message)
                    if number == 1:
                        self.submissions[role.name] = said
                    self.aggregator.receive(role.name, spoil(number, role.name, said))
            message = self.aggregator.finish_round()

    def another_helper(self) -> Any:
        """A helper of the session that has answered nothing yet."""
        return self.plugin.helper(self.manifest, self.delivery.helper)

    def counted(self, *left_out: int) -> list[PartyData]:
        return [data for number, data in enumerate(self.sites) if number not in left_out]


def payload_of(data: bytes, shape: type[Any]) -> Any:
    return decode(wire.payload_of(data), shape, "payload")
