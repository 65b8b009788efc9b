"""Sessions with a helper, of which parties may be away, or what they submit is changed on its way."""

from collections.abc import Collection, Mapping
from typing import Any

from fhe_auc.base.serialise import decode
from fhe_auc.rows.party_data import PartyData
from fhe_auc_keys.roles.helped import HelpedSubmission
from tests.support import exact_sessions, wire

SITES = 4


class Play(exact_sessions.Play):
    """All roles of a session."""

    def __init__(self, protocol: str = "verified", *, least: int = 2, **request: Any) -> None:
        super().__init__(protocol, exact_sessions.rows(SITES, 7), min_parties=least, keys="helper", **request)
        self.sent: list[bytes] = []
        self.submissions: dict[str, bytes] = {}

    def play(self, *, away: Collection[str] = (), spoilt: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Play it, but for parties that are away; submissions that are spoilt arrive with other fields."""
        message = self.aggregator.start()
        while message is not None:
            self.sent.append(message)
            number = self.aggregator.round
            for role in (*self.parties, self.helper):
                if role.name in self.aggregator.asked and role.name not in away:
                    said = role.respond(message)
                    if number == 1:
                        self.submissions[role.name] = said
                        said = wire.with_fields(said, HelpedSubmission, **(spoilt or {}).get(role.name, {}))
                    self.aggregator.receive(role.name, said)
            message = self.aggregator.finish_round()

    def another_helper(self) -> Any:
        """A helper of the session that has answered nothing yet."""
        return self.plugin.helper(self.manifest, self.delivery.helper)

    def counted(self, *left_out: int) -> list[PartyData]:
        return [data for number, data in enumerate(self.sites) if number not in left_out]


def payload_of(data: bytes, shape: type[Any]) -> Any:
    return decode(wire.payload_of(data), shape, "payload")
