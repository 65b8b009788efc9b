"""A consortium's authority and its certified parties, at a time that does not pass."""

from datetime import datetime, timedelta, timezone

from fhe_auc.question.study import Study
from fhe_auc_keys.trust.authority import Authority
from fhe_auc_keys.trust.certificates import Peer, Trust, verify
from fhe_auc_keys.trust.identity import Identity

NOW = datetime(2030, 5, 1, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
STUDY = Study(
    model="sepsis-net 2.1", outcome="sepsis within 48 hours", cohort="adults in intensive care", period="2029"
)


class Consortium:
    """An authority, and certified identities by name."""

    def __init__(self, *names: str) -> None:
        self.authority = Authority.create("consortium", at=NOW)
        self.identities = {name: self.certified(Identity.create(name)) for name in names}

    def certified(self, identity: Identity) -> Identity:
        return identity.certified(self.authority.issue(identity.request(), identity.name, days=90, at=NOW))

    def trust(self, at: datetime = NOW) -> Trust:
        return Trust.from_pem(self.authority.certificate_pem(), (self.authority.revocation_list(at=at),))

    def shown(self, *names: str) -> list[bytes]:
        return [self.identities[name].credential for name in names]

    def peers(self, *names: str) -> list[Peer]:
        return [verify(self.identities[name].credential, self.trust(), at=NOW) for name in names]

    def revoke(self, name: str) -> None:
        serial = next(line.serial for line in self.authority.register if line.name == name)
        self.authority.revoke(serial, at=NOW)
