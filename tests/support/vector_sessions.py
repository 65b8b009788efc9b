"""Sessions that add up vectors, all roles in one process, round by round, for an aggregator that may lie."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fhe_auc.base.serialise import decode
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.vector_computation import VectorComputation
from fhe_auc_keys.roles.helped import HelpedSubmission
from tests.support.exact_sessions import Play
from tests.support.wire import payload_of

GRID = np.linspace(0, 1, 8)
KEYS = ("sealed", "helper")


class VectorPlay(Play):
    """All roles of one session, made of what they would open; parties by name, and what each has `sent`, padded."""

    def __init__(
        self,
        sites: Sequence[PartyData],
        *,
        protocol: str = "histogram-federated",
        thresholds: Any = GRID,
        keys: str = "sealed",
        max_rows: int = 5000,
        **asked: Any,
    ) -> None:
        super().__init__(protocol, sites, thresholds, max_rows=max_rows, keys=keys, **asked)
        self.computation = VectorComputation(self.manifest)
        self.delivery = self.session.delivery()
        self.parties: dict[str, Any] = {party.name: party for party in self.parties}  # type: ignore[assignment]
        self.sent: dict[str, bytes] = {}

    def pad(self, name: str, seed: bytes) -> Residues:
        """A party's pad from its own seed."""
        return self.computation.pads([self.manifest.parties.index(name)], [seed])[0][0]

    def answers(self, message: bytes, present: Sequence[str] = ()) -> dict[str, bytes]:
        """What those answer who are asked, and of the parties those who are present."""
        roles = [role for name, role in self.parties.items() if not present or name in present]
        roles += [] if self.helper is None else [self.helper]
        return {role.name: role.respond(message) for role in roles if role.name in self.aggregator.asked}

    def deliver(self, submissions: dict[str, bytes]) -> bytes:
        keys = self.manifest.keys
        if self.aggregator.round == 1:
            for name, each in submissions.items():
                found: Any = decode(payload_of(each), HelpedSubmission if keys == "helper" else tuple[bytes], "")
                (self.sent[name],) = found.parts if keys == "helper" else found
        return super().deliver(submissions) or b""

    def until_result(self, present: Sequence[str] = ()) -> bytes:
        """Play honestly up to the message that carries the result."""
        message: bytes = self.aggregator.start()
        while self.aggregator.round < self.aggregator.rounds:
            message = self.deliver(self.answers(message, present))
        return message

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

    def first_reads(self, present: Sequence[str] = ()) -> Any:
        """What the first party reads of an honest session."""
        first = self.parties[self.sites[0].name]
        first.respond(self.until_result(present))
        return first.result()
