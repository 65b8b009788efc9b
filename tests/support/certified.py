"""A consortium's coordinator and its members, at a time that does not pass."""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from fhe_auc.question.study import Study
from fhe_auc.report.studies import next_session
from fhe_auc_keys.site.making import sealed_files
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import OWN, own_identity
from fhe_auc_keys.trust import members
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Change, Member, countersign

NOW = datetime(2030, 5, 1, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
STUDY = Study(
    model="sepsis-net 2.1", outcome="sepsis within 48 hours", cohort="adults in intensive care", period="2029"
)


def write_session(folder: Path, store: KeyStore, study: Study, *, at: datetime) -> str:
    """Have a store's owner make the session of a study, with its files in a new folder; return its id."""
    asked = next_session(study, study.sites, ())
    assert asked is not None
    manifest, files = sealed_files(own_identity(store), study, asked, 0, known_members.stored(store), at=at)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return manifest.session.hex()


class Consortium:
    """Members' identities by name, and the newest members' file; the coordinator, "office", is no one of the names."""

    def __init__(self, *names: str, at: datetime = NOW) -> None:
        self.office = Identity.create("office")
        self.identities = {name: Identity.create(name) for name in names}
        self.members = members.found_consortium("office", self.office.keys, days=365, at=at)
        self.change(admit=[identity.line for identity in self.identities.values()], at=at)

    def change(self, *, at: datetime = NOW, **change: Any) -> None:
        """Make the next members' file, which everybody has."""
        data = self.members.next_version(Change(**change), days=365, at=at)
        self.members = self.members.newer(countersign(data, self.office.keys))
        for identity in self.identities.values():
            identity.version = self.members.version

    def settle(self, store: KeyStore, name: str) -> None:
        """Have a store be a member's."""
        store.put("identity", OWN, self.identities[name].to_bytes(), replace=True)
        known_members.keep(store, self.members)

    def rekey(self, name: str) -> None:
        """Give a member new keys."""
        self.identities[name] = Identity.create(name)
        self.change(admit=[self.identities[name].line])

    def named(self, *names: str) -> list[Member]:
        return [self.members.by_name[name] for name in names]
