"""Playing a whole consortium in one process: authority, key holder and sites, with the same bytes as between sites.

Demonstrations and `evaluate` run on it. Nothing here is secret from anybody in the process, and nothing is kept. One
thing is left out, so that ten thousand parties fit: a site's bundle holds the credentials of all sites, and a signature
over them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.party_names import alike
from fhe_auc.base.serialise import encode
from fhe_auc.question.study import Study
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Delivery, Session
from fhe_auc_keys.bundles.announcement import Announcement, announce, open_announcement
from fhe_auc_keys.bundles.roster import PartyMaterial, Roster
from fhe_auc_keys.bundles.sealed_bundles import (
    SealedSession,
    announcement_digest,
    open_aggregator_bundle,
    seal_session,
    seal_to_aggregator,
    seal_to_party,
    unseal_for_party,
)
from fhe_auc_keys.bundles.session_keys import party_secrets
from fhe_auc_keys.roles.helper_roles import HelpedParty, HelperMaterial
from fhe_auc_keys.trust.authority import Authority
from fhe_auc_keys.trust.certificates import Peer, Trust, verify
from fhe_auc_keys.trust.identity import Identity

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
    """An authority, and certified identities of all roles, made for one session."""

    def __init__(self, parties: Iterable[str]) -> None:
        parties = tuple(parties)
        taken = {alike(party) for party in parties}
        self.at = datetime.now(timezone.utc)
        self.holder, self.aggregator, self.helper = (
            next(name for name in _names(role) if alike(name) not in taken)
            for role in ("key holder", "coordinator", "helper")
        )
        self.authority = authority = Authority.create("local consortium", days=2, at=self.at)
        self.identities: dict[str, Identity] = {}
        for name in (self.holder, self.aggregator, self.helper, *parties):
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
            self.identities[self.convener(session.manifest)],
            session,
            self._shown(session.manifest.parties),
            self.trust,
            **self._given(session.manifest),
        )

    def convener(self, manifest: Manifest) -> str:
        """Return who announces a session: the key holder, or with a helper a party."""
        return manifest.parties[0] if manifest.keys == "helper" else self.holder

    def convene(self, manifest: Manifest) -> bytes:
        """Return the announcement of a session of these parties."""
        return announce(
            self.identities[self.convener(manifest)],
            manifest,
            self._shown(manifest.parties),
            self.trust,
            **self._given(manifest),
        )

    def _given(self, manifest: Manifest) -> dict[str, Any]:
        return {
            "aggregator": self.identities[self.aggregator].credential,
            "helper": self.identities[self.helper].credential if manifest.keys == "helper" else b"",
            "study": TRIAL,
            "lifetime": LIFETIME,
            "at": self.at,
        }

    def _shown(self, names: Iterable[str]) -> list[bytes]:
        return [self.identities[name].credential for name in names]


def _names(role: str) -> Iterator[str]:
    yield role
    yield from (f"{role} {number}" for number in count(2))


class _Opened(Mapping[str, bytes]):
    """What each party has once it has opened what is sealed to it: made when it is asked for, as all at once is big."""

    def __init__(self, consortium: Consortium, session: Session, announcement: bytes, announced: Announcement) -> None:
        self._consortium, self._session, self._announced = consortium, session, announced
        self._digest = announcement_digest(announcement)
        self._common = party_secrets(session.party_material, session.manifest.context)

    def __getitem__(self, name: str) -> bytes:
        header, sealed = seal_to_party(self._session, self._common, self._announced, self._digest, name)
        (me,) = self._consortium.peers([name])
        return unseal_for_party(header, sealed, self._announced, self._digest, self._consortium.identities[name], me)

    def __iter__(self) -> Iterator[str]:
        return iter(self._session.manifest.parties)

    def __len__(self) -> int:
        return len(self._session.manifest.parties)


def sealed(session: Session) -> Delivery:
    """Seal a session's keys to a certified aggregator and certified parties; return what they open."""
    consortium = Consortium(session.manifest.parties)
    trust, holder, at = consortium.trust, consortium.holder, consortium.at
    announcement = consortium.convene(session.manifest)
    announced = open_announcement(announcement, trust, holder=holder, at=at)
    bundle = seal_to_aggregator(consortium.identities[holder], session, announcement, announced)
    adder = consortium.identities[consortium.aggregator]
    opened = open_aggregator_bundle(bundle, adder, trust, holder=holder, session=session.manifest.session, at=at)
    return Delivery(opened.material, _Opened(consortium, session, announcement, announced))


def helped(session: Session) -> Delivery:
    """Return what all roles of a session with a helper start from: certified identities and their rosters."""
    parties = session.manifest.parties
    consortium = Consortium(parties)
    roster, helping = (Roster.of(consortium.peers(names)) for names in (parties, (consortium.helper,)))
    keys, common_secret = (helping.members[0].encryption_key,), secrets.token_bytes(COMMON_SECRET_BYTES)
    own = {name: encode(HelpedParty(consortium.identities[name].to_bytes(), keys, common_secret)) for name in parties}
    helper = HelperMaterial(consortium.identities[consortium.helper].to_bytes(), roster, helping)
    return Delivery(b"", own, helper=encode(helper))


def joint(session: Session) -> Delivery:
    """Return what aggregator and parties of a joint session start from: certified identities and their roster."""
    parties = session.manifest.parties
    consortium = Consortium(parties)
    roster = Roster.of(consortium.peers(parties))
    material = {name: encode(PartyMaterial(roster, consortium.identities[name].to_bytes())) for name in parties}
    return Delivery(roster.to_bytes(), material)
