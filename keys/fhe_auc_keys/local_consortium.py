"""Playing a whole consortium in one process: authority, key holder and sites, with the same bytes as between sites.

Demonstrations and `evaluate` run on it. Nothing here is secret from anybody in the process, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import count

from fhe_auc.manifest import Manifest
from fhe_auc.party_names import alike
from fhe_auc.protocol import Delivery, Session
from fhe_auc.serialise import encode
from fhe_auc.study import Study
from fhe_auc_keys.announcement import announce
from fhe_auc_keys.authority import Authority
from fhe_auc_keys.bundles import (
    SealedSession,
    SeenInMemory,
    open_aggregator_bundle,
    open_party_bundle,
    seal_session,
)
from fhe_auc_keys.certificates import Peer, Trust, verify
from fhe_auc_keys.identity import Identity
from fhe_auc_keys.roster import PartyMaterial, Roster

LIFETIME = timedelta(hours=1)
"""How long such a session can be opened."""

TRIAL = Study(
    model="any: this is a trial on one machine",
    outcome="the labels in the files given",
    cohort="the rows in the files given",
    period="any",
)
"""What such a session evaluates: there is nobody to agree with."""


class Consortium:
    """An authority, and certified identities of a key holder, an aggregator and parties, made for one session."""

    def __init__(self, parties: Iterable[str]) -> None:
        parties = tuple(parties)
        taken = {alike(party) for party in parties}
        self.at = datetime.now(timezone.utc)
        self.holder, self.aggregator = (
            next(name for name in _names(role) if alike(name) not in taken) for role in ("key holder", "coordinator")
        )
        authority = Authority.create("local consortium", days=2, at=self.at)
        self.identities: dict[str, Identity] = {}
        for name in (self.holder, self.aggregator, *parties):
            identity = Identity.create(name)
            certificate = authority.issue(identity.request(), name, days=1, at=self.at)
            self.identities[name] = identity.certified(certificate)
        self.certificate_pem, self.revocation_list = authority.certificate_pem(), authority.revocation_list(at=self.at)
        self.trust = Trust.from_pem(self.certificate_pem, (self.revocation_list,))

    def peers(self, names: Iterable[str]) -> list[Peer]:
        """Return verified credentials."""
        return [verify(self.identities[name].credential, self.trust, at=self.at) for name in names]

    def seal(self, session: Session) -> SealedSession:
        """Return the bundles of a session of these parties."""
        return seal_session(
            self.identities[self.holder],
            session,
            self._shown(session.manifest.parties),
            self.trust,
            aggregator=self.identities[self.aggregator].credential,
            study=TRIAL,
            lifetime=LIFETIME,
            at=self.at,
        )

    def convene(self, manifest: Manifest) -> bytes:
        """Return the document of a session of these parties that has no key holder."""
        return announce(
            self.identities[self.holder],
            manifest,
            self._shown(manifest.parties),
            self.trust,
            aggregator=self.identities[self.aggregator].credential,
            study=TRIAL,
            lifetime=LIFETIME,
            at=self.at,
        )

    def _shown(self, names: Iterable[str]) -> list[bytes]:
        return [self.identities[name].credential for name in names]


def _names(role: str) -> Iterator[str]:
    yield role
    yield from (f"{role} {number}" for number in count(2))


def sealed(session: Session) -> Delivery:
    """Seal a session's keys to certified parties, open every bundle, and return what came out."""
    manifest = session.manifest
    consortium = Consortium(manifest.parties)
    trust, holder, at = consortium.trust, consortium.holder, consortium.at
    bundles = consortium.seal(session)
    opened = {
        name: open_party_bundle(
            bundle,
            consortium.identities[name],
            trust,
            holder=holder,
            session=manifest.session,
            context=manifest.context,
            guard=SeenInMemory(),
            at=at,
        ).material
        for name, bundle in bundles.parties.items()
    }
    adder = consortium.identities[consortium.aggregator]
    _, aggregator = open_aggregator_bundle(
        bundles.aggregator, adder, trust, holder=holder, session=manifest.session, at=at
    )
    return Delivery(aggregator, opened)


def joint(session: Session) -> Delivery:
    """Return what aggregator and parties of a joint session start from: certified identities and their roster."""
    parties = session.manifest.parties
    consortium = Consortium(parties)
    roster = Roster.of(consortium.peers(parties))
    material = {name: encode(PartyMaterial(roster, consortium.identities[name].to_bytes())) for name in parties}
    return Delivery(roster.to_bytes(), material)
