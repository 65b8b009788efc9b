"""Sessions with a helper, of which some may be absent, or what they say is changed on its way; and over files."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fhe_auc.base.exchange import Folder
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode
from fhe_auc.machines.aggregator_role import run
from fhe_auc.machines.file_transport import FileTransport
from fhe_auc.rows.party_data import PartyData
from tests.support import exact_sessions, wire
from tests.support.machines import answer_in

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


class Attended(FileTransport):
    """All who are asked answer as soon as the message is there, and asked twice say the same; each from its store.

    The helper's messages have a folder of their own. The aggregator dies once the round `killed_in` is answered.
    """

    def __init__(self, exchange: Path, roles: Mapping[str, Any], killed_in: int, *of: Any) -> None:
        super().__init__([Folder(exchange, make=True)], "", *of)
        self._exchange, self._roles, self._killed_in = exchange, roles, killed_in

    def tell(self, awaited: Any, deadline: float) -> None:
        super().tell(awaited, deadline)
        for name in self.aggregator.asked:
            folder = self._exchange / ("helpers" if name == HELPER else "")
            said = set()
            for _ in range(2):
                file, _ = answer_in(folder, self._roles[name], self.aggregator.round)
                said.add((file.stem, file.read_bytes()))
            assert [stem for stem, _ in said] == [name]
        if self.aggregator.round == self._killed_in:
            raise KeyboardInterrupt


def played_over_files(
    aggregator: Mapping[str, Any], roles: Mapping[str, Any], exchange: Path, *, killed_in: int = 0
) -> Any:
    """The record of a session of these roles, by their configurations."""
    return run({**aggregator, "round-timeout": 60.0}, lambda *of: Attended(exchange, roles, killed_in, *of))
