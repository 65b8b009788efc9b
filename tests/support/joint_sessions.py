"""Sessions with joint keys, all roles in one process, round by round."""

import hashlib
from typing import Any

import numpy as np
import pytest
from fhe_auc_keys.roles.contributions import Contribution

from fhe_auc.base.serialise import decode
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import Message
from fhe_auc.session.protocol import Delivery
from fhe_auc_keys.bundles.roster import PartyMaterial, Roster
from fhe_auc_keys.trust.identity import Identity
from tests.support.exact_sessions import Play
from tests.support.pooled import exact_auc
from tests.support.wire import LIMIT, payload_of

GRID = np.linspace(0, 1, 16)
PRECISION = 1e-6


def contribution(message: bytes) -> Contribution:
    return decode(payload_of(message), Contribution, "")


class JointPlay(Play):
    """All roles of one joint session, and every message that went over the wire.

    With the `delivery` of another session its parties take part with the same certified keys.
    """

    def __init__(
        self,
        sites: list[PartyData],
        grid: np.ndarray = GRID,
        *,
        protocol: str = "exact",
        delivery: Delivery | None = None,
    ) -> None:
        super().__init__(protocol, sites, grid, keys="joint")
        if delivery is not None:
            self.delivery, self.material = delivery, dict(delivery.parties)
            self.aggregator = self.plugin.aggregator(self.manifest, delivery.aggregator)
        self.roster = Roster.from_bytes(self.delivery.aggregator)
        self.binding = self.roster.binding(self.manifest)
        self.parties: dict[str, Any] = {data.name: self.party(data) for data in sites}  # type: ignore[assignment]
        self.wire: list[bytes] = []

    def identity(self, name: str) -> Identity:
        return Identity.from_bytes(decode(self.material[name], PartyMaterial, "material").identity)

    def submission(self, name: str, round_number: int) -> bytes:
        """What a party sent in a round of this session."""
        for data in self.wire:
            message = Message.from_bytes(data, limit=LIMIT)
            if (message.sender, message.round) == (name, round_number):
                return data
        raise KeyError(name)

    @property
    def signed_binding(self) -> bytes:
        """What contributions are signed for, once everybody has committed to its key parts."""
        commitments = [self.contributed(data.name, 1).parts[0] for data in self.sites]
        return hashlib.sha256(self.binding + b"".join(commitments)).digest()

    def contributed(self, name: str, round_number: int) -> Contribution:
        return contribution(self.submission(name, round_number))

    def answers(self, message: bytes) -> dict[str, bytes]:
        """Everybody's submission of the round, not delivered."""
        found = {name: party.respond(message) for name, party in self.parties.items()}
        self.wire += [message, *found.values()]
        return found

    def deliver(self, submissions: dict[str, bytes]) -> bytes | None:
        for name, submission in submissions.items():
            if not self.aggregator.has_accepted(name):
                self.aggregator.receive(name, submission)
        return self.aggregator.finish_round()

    def play_round(self, message: bytes) -> bytes | None:
        return self.deliver(self.answers(message))

    def finish(self, message: bytes | None, submissions: dict[str, bytes] | None = None) -> list[Evaluation]:
        """Play on honestly to the end, and check every party's AUC."""
        if submissions is not None:
            message = self.deliver(submissions)
        while message is not None:
            message = self.play_round(message)
        evaluations = [party.result() for party in self.parties.values()]
        for evaluation in evaluations:
            assert evaluation.auc == pytest.approx(exact_auc(self.sites, self.grid), abs=PRECISION)
        assert self.aggregator.result().counted == self.manifest.parties
        return evaluations
