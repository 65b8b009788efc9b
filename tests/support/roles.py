"""All roles of a session, played message by message."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Protocol, Request, Session


@dataclass
class SessionRoles:
    """Those of a prepared session of two rounds."""

    session: Session
    sites: Sequence[PartyData]
    aggregator: Aggregator
    parties: list[Party]

    def submit(self) -> list[bytes]:
        """Open the session, and return everybody's submission of round 1, not yet delivered."""
        opening = self.aggregator.start()
        return [party.respond(opening) for party in self.parties]

    def deliver(self, submissions: list[bytes]) -> bytes:
        """Submit what has not been submitted yet, and return the result."""
        for party, submission in zip(self.parties, submissions, strict=True):
            if not self.aggregator.has_accepted(party.name):
                self.aggregator.receive(party.name, submission)
        result = self.aggregator.finish_round()
        assert result is not None
        return result

    def finish(self, submissions: list[bytes]) -> list[Any]:
        """Deliver the submissions and end the session; return every party's result."""
        result = self.deliver(submissions)
        for party in self.parties:
            self.aggregator.receive(party.name, party.respond(result))
        assert self.aggregator.finish_round() is None
        return [party.result() for party in self.parties]


def unencrypted(plugin: Protocol[Any], sites: Sequence[PartyData], **asked: Any) -> SessionRoles:
    """Those of a session without keys; `asked` are fields of its request."""
    session = plugin.prepare(Request(parties=tuple(data.name for data in sites), **asked))
    parties = [plugin.party(session.manifest, b"", data) for data in sites]
    return SessionRoles(session, sites, plugin.aggregator(session.manifest, b""), parties)
