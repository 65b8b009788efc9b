"""A consortium with a key holder and an aggregator, who seal and announce sessions at a time that does not pass."""

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from fhe_auc.question.study import Study
from fhe_auc.report.studies import next_session
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Session
from fhe_auc_keys.bundles.announcement import Announcement, announce
from fhe_auc_keys.bundles.sealed_bundles import SealedBundles, seal_session
from fhe_auc_keys.site.making import sealed_files
from fhe_auc_keys.site.session_files import keep_for_party
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import own_identity
from tests.support.certified import NOW, STUDY, Consortium

HOLDER = "key holder"
ADDER = "coordinator"
SEALED = msgspec.structs.replace(STUDY, aggregator=ADDER)
replace = msgspec.structs.replace


def write_session(folder: Path, store: KeyStore, study: Study, *, at: datetime) -> str:
    """Have a store's owner make the session of a study, with its files in a new folder; return its id."""
    asked = next_session(study, study.sites, ())
    assert asked is not None
    manifest, files = sealed_files(own_identity(store), study, asked, 0, known_members.stored(store), at=at)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return manifest.session.hex()


class Sealing(Consortium):
    """With a key holder and an aggregator beside the parties."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names, HOLDER, ADDER)

    def seal(self, session: Session, *, holder: str = HOLDER, at: datetime = NOW, **study: Any) -> SealedBundles:
        """Seal a session, whose study is the usual one but for some fields."""
        return seal_session(self.identities[holder], session, self.members, replace(SEALED, **study), at=at)

    def announce(self, manifest: Manifest, *, by: str = HOLDER, **study: Any) -> bytes:
        return announce(self.identities[by], manifest, self.members, replace(SEALED, **study), at=NOW)

    def keep(self, document: bytes, bundle: bytes, store: KeyStore, name: str = "north") -> Announcement:
        """A party opens a session, and keeps it."""
        self.settle(store, name)
        return keep_for_party(document, bundle, store, at=NOW)

    def announced(self, manifest: Manifest) -> Manifest:
        """The manifest with everybody's keys, as it is announced."""
        *parties, adder = (member.fingerprint for member in self.named(*manifest.parties, ADDER))
        return msgspec.structs.replace(manifest, fingerprints=tuple(parties), aggregator=adder, study=SEALED)
