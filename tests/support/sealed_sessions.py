"""A consortium with a key holder and an aggregator, who seal and announce sessions at a time that does not pass."""

from __future__ import annotations

from typing import Any

import msgspec

from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Session
from fhe_auc_keys.bundles.announcement import Announcement, announce
from fhe_auc_keys.bundles.sealed_bundles import SealedBundles, seal_session
from fhe_auc_keys.site.session_files import keep_for_party
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.certified import DAY, NOW, STUDY, Consortium

HOLDER = "key holder"
ADDER = "coordinator"
WEEK = 7 * DAY


class Sealing(Consortium):
    """With a key holder and an aggregator beside the parties."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names, HOLDER, ADDER)

    def seal(
        self, session: Session, shown: list[bytes] | None = None, *, holder: str = HOLDER, **changes: Any
    ) -> SealedBundles:
        """Seal a session, with the certificates of its parties unless others are shown."""
        shown = self.shown(*session.manifest.parties) if shown is None else shown
        about = {"trust": self.trust(), **self._usual, **changes}
        return seal_session(self.identities[holder], session, shown, **about)

    def announce(
        self, manifest: Manifest, shown: list[bytes] | None = None, *, by: str = HOLDER, **changes: Any
    ) -> bytes:
        shown = self.shown(*manifest.parties) if shown is None else shown
        return announce(self.identities[by], manifest, shown, self.trust(), **{**self._usual, **changes})

    def keep(self, data: bytes, store: KeyStore, name: str = "north", **changes: Any) -> Announcement:
        """A party opens a document, and keeps it."""
        usual = {"holder": HOLDER, "session": None, "at": NOW, "study": STUDY}
        return keep_for_party(data, self.identities[name], self.trust(), store, **{**usual, **changes})

    @property
    def _usual(self) -> dict[str, Any]:
        return {"aggregator": self.identities[ADDER].credential, "study": STUDY, "lifetime": WEEK, "at": NOW}

    def announced(self, manifest: Manifest) -> Manifest:
        """The manifest with everybody's certificate, as it is announced."""
        *parties, adder = (peer.fingerprint for peer in self.peers(*manifest.parties, ADDER))
        return msgspec.structs.replace(manifest, certificates=tuple(parties), aggregator=adder, study=STUDY)
