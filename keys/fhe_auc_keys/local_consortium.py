"""Playing a whole consortium in one process: authority, key holder and sites, with the same bytes as between sites.

Demonstrations and `evaluate` run on it. Nothing here is secret from anybody in the process, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from fhe_auc.names import alike
from fhe_auc.protocol import Delivery, Session
from fhe_auc.serialise import encode
from fhe_auc_keys.authority import Authority
from fhe_auc_keys.bundles import SeenInMemory, open_aggregator_bundle, open_party_bundle, seal_session
from fhe_auc_keys.certificates import Peer, Trust, verify
from fhe_auc_keys.identity import Identity
from fhe_auc_keys.roster import PartyMaterial, Roster

_HOLDER = "key holder"
LIFETIME = timedelta(hours=1)
"""How long such a session can be opened."""


class Consortium:
    """An authority and certified identities, made for one session."""

    def __init__(self, names: Iterable[str]) -> None:
        self.at = datetime.now(timezone.utc)
        authority = Authority.create("local consortium", days=2, at=self.at)
        self.identities: dict[str, Identity] = {}
        for name in names:
            identity = Identity.create(name)
            certificate = authority.issue(identity.request(), name, days=1, at=self.at)
            self.identities[name] = identity.certified(certificate)
        self.certificate_pem, self.revocation_list = authority.certificate_pem(), authority.revocation_list(at=self.at)
        self.trust = Trust.from_pem(self.certificate_pem, (self.revocation_list,))

    def peers(self, names: Iterable[str]) -> list[Peer]:
        """Return verified credentials."""
        return [verify(self.identities[name].credential, self.trust, at=self.at) for name in names]


def holder_beside(parties: Iterable[str]) -> str:
    """Return a name for a key holder that none of the parties bears."""
    taken = {alike(party) for party in parties}
    return next(name for name in (_HOLDER, f"{_HOLDER} 2") if alike(name) not in taken)


def sealed(session: Session) -> Delivery:
    """Seal a session's keys to certified parties, open every bundle, and return what came out."""
    parties = session.manifest.parties
    holder = holder_beside(parties)
    consortium = Consortium((holder, *parties))
    bundles = seal_session(
        consortium.identities[holder],
        session,
        consortium.peers(parties),
        consortium.trust,
        lifetime=LIFETIME,
        at=consortium.at,
    )
    opened = {
        name: open_party_bundle(
            bundles.parties[name],
            consortium.identities[name],
            consortium.trust,
            holder=holder,
            session=session.manifest.session,
            context=session.manifest.context,
            guard=SeenInMemory(),
            at=consortium.at,
        ).material
        for name in parties
    }
    _, aggregator = open_aggregator_bundle(
        bundles.aggregator,
        consortium.trust,
        holder=holder,
        session=session.manifest.session,
        at=consortium.at,
    )
    return Delivery(aggregator, opened)


def joint(session: Session) -> Delivery:
    """Return what aggregator and parties of a joint session start from: certified identities and their roster."""
    parties = session.manifest.parties
    consortium = Consortium(parties)
    roster = Roster.of(consortium.peers(parties))
    material = {name: encode(PartyMaterial(roster, consortium.identities[name].to_bytes())) for name in parties}
    return Delivery(roster.to_bytes(), material)
