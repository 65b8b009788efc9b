"""Sessions that add up vectors, all roles in one process, round by round, for an aggregator that may lie."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.computation import Result
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request
from fhe_auc.session.vector_computation import VectorComputation
from tests.support.wire import changed, payload_of

GRID = np.linspace(0, 1, 8)
KEYS = ("sealed", "helper", "joint")


class VectorPlay:
    """All roles of one session, made of what they would open."""

    def __init__(
        self, sites: Sequence[PartyData], *, protocol: str = "histogram-federated", keys: str = "sealed", **asked: Any
    ) -> None:
        self.plugin: Any = registry.load(protocol)
        self.sites = sites
        names = tuple(data.name for data in sites)
        asked = {"thresholds": GRID, "max_rows": 5000, **asked}
        self.session = self.plugin.prepare(self.plugin.completed(Request(parties=names, keys=keys, **asked)))
        self.manifest = self.session.manifest
        self.computation = VectorComputation(self.manifest)
        self.delivery = self.session.delivery()
        self.aggregator: Any = self.plugin.aggregator(self.manifest, self.delivery.aggregator)
        self.aggregator.open_late = self.delivery.open_late
        self.parties: dict[str, Any] = {data.name: self.party(data) for data in sites}
        self.helper: Any = None
        if self.delivery.helper is not None:
            self.helper = self.plugin.helper(self.manifest, self.delivery.helper)

    def party(self, data: PartyData) -> Party[Any]:
        """A party, made of its material."""
        return self.plugin.party(self.manifest, self.delivery.parties[data.name], data)

    def pad(self, name: str, seed: bytes) -> Residues:
        """A party's pad from its own seed."""
        return self.computation._sums.pad(seed, self.manifest.session, self.manifest.parties.index(name))

    def answers(self, message: bytes, present: Sequence[str] = ()) -> dict[str, bytes]:
        """What those answer who are asked, and of the parties those who are present."""
        roles = [role for name, role in self.parties.items() if not present or name in present]
        roles += [] if self.helper is None else [self.helper]
        return {role.name: role.respond(message) for role in roles if role.name in self.aggregator.asked}

    def deliver(self, submissions: dict[str, bytes]) -> bytes | None:
        """Give the aggregator the answers of a round; return the next message."""
        for name, submission in submissions.items():
            self.aggregator.receive(name, submission)
        return self.aggregator.finish_round()

    def until_result(self, present: Sequence[str] = ()) -> bytes:
        """Play honestly up to the message that carries the result."""
        message = self.aggregator.start()
        while self.aggregator.round < self.aggregator.rounds:
            message = self.deliver(self.answers(message, present))
        return message

    def read(self, present: Sequence[str] = ()) -> Any:
        """What the first party reads of an honest session."""
        first = next(iter(self.parties.values()))
        first.respond(self.until_result(present))
        return first.result()

    def lied(self, message: bytes, lie: Callable[[Result], Result]) -> bytes:
        """The message with another result."""
        return changed(message, payload=encode(lie(decode(payload_of(message), Result, ""))))

    def outcomes(self, message: bytes) -> dict[str, Any]:
        """What each party that is told this result reads, or the error that it ends with."""
        found: dict[str, Any] = {}
        for name, role in self.parties.items():
            try:
                role.respond(message)
                found[name] = role.result()
            except Exception as error:
                found[name] = error
        return found
