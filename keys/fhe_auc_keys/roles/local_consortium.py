"""A whole consortium in one process: key holder and sites, with the same bytes as between sites.

Sessions on one machine run on it. Nothing here is secret from anybody in the process, and nothing is kept. Where roles
sign nothing, as with sealed keys in one process, nobody needs it: keys are then handed over as they are.
"""

from collections.abc import Iterable
from datetime import datetime, timezone
from itertools import chain, count

import msgspec

from fhe_auc.base.names import alike
from fhe_auc.question.study import Study
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Session
from fhe_auc_keys.bundles.announcement import announce
from fhe_auc_keys.bundles.sealed_bundles import SealedBundles, seal_session
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Change, countersign, found_consortium

TRIAL = Study(
    model="any: this is a trial on one machine",
    outcome="the labels in the files given",
    cohort="the rows in the files given",
    period="any",
    days=1,
    most_away=4,  # so any number: all rows are on this machine
)
"""What such a session evaluates: there is nobody to agree with. A consortium's own names its aggregator and helper."""


class Consortium:
    """Members' keys of all roles, made for one session; the key holder is the coordinator."""

    def __init__(self, parties: Iterable[str]) -> None:
        parties = tuple(parties)
        taken = {alike(party) for party in parties}
        self.at = datetime.now(timezone.utc)
        self.holder, self.aggregator, self.helper = (
            next(name for name in chain([role], (f"{role} {n}" for n in count(2))) if alike(name) not in taken)
            for role in ("key holder", "coordinator", "helper")
        )
        self.study = msgspec.structs.replace(TRIAL, aggregator=self.aggregator, helper=self.helper)
        names = self.holder, self.aggregator, self.helper, *parties
        self.identities = {name: Identity.create(name) for name in names}
        self.members = found_consortium(self.holder, self.identities[self.holder].keys, days=2, at=self.at)
        self.change(Change(admit=[self.identities[name].line for name in names[1:]]))

    def change(self, change: Change) -> None:
        """Make the next members' file, which all have."""
        keys = self.identities[self.holder].keys
        self.members = self.members.newer(countersign(self.members.next_version(change, days=2, at=self.at), keys))
        for identity in self.identities.values():
            identity.version = self.members.version

    def seal(self, session: Session) -> SealedBundles:
        """Return the bundles of a session of these parties."""
        return seal_session(self._maker(session.manifest), session, self.members, self.study, at=self.at)

    def convene(self, manifest: Manifest) -> bytes:
        """Return the announcement of a session of these parties."""
        return announce(self._maker(manifest), manifest, self.members, self.study, at=self.at)

    def _maker(self, manifest: Manifest) -> Identity:
        """With a helper a party announces it, of which a fleet names none."""
        by_party = manifest.keys == "helper" and manifest.parties
        return self.identities[manifest.parties[0] if by_party else self.holder]
