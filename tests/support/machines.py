"""A session between machines, whose roles all have their key stores and files on this one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.logs import RoleLog
from fhe_auc.exchange.exchange import Arrivals, Exchange, Folder
from fhe_auc.machines import aggregator_role, outcomes
from fhe_auc.machines.answering import Answering
from fhe_auc.machines.file_transport import submission_name
from fhe_auc.machines.isolation import Isolation
from fhe_auc.machines.served_session import Session
from fhe_auc.machines.site_state import Standing, site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.journal import read_record, read_status
from fhe_auc_keys.bundles.announcement import claimed
from fhe_auc_keys.bundles.sealed_bundles import Kept
from fhe_auc_keys.site.session_files import meeting_of
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.exact_sessions import pairs_of
from tests.support.nothing import rows_in
from tests.support.pooled import rounding
from tests.support.stored_sites import GRID as GRID
from tests.support.stored_sites import Consortium


class MachineSession:
    """In a folder of its own; `aggregator` and `roles`, of the sites and the helper if any, are configurations."""

    def __init__(self, sites: list[PartyData], folder: Path, protocol: str = "nothing", **asked: Any) -> None:
        folder.mkdir(parents=True)
        keys = Consortium(sites, folder / "keys", protocol, **asked)
        self.folder, self.protocol, self.sites, self.id, made = folder, protocol, keys.sites, keys.id, keys.made
        self.files, self.roles = made.files, {name: dict(config) for name, config in made.sites.items()}
        self.aggregator: dict[str, Any] = {**made.aggregator, "journal": str(folder / "journal")}
        for data in sites:
            file = folder / f"{data.name}.npz"
            np.savez(file, y_true=data.y_true, y_score=data.y_score)
            self.roles[data.name] |= {"data": str(file), "results": str(folder / f"results of {data.name}")}

    def results(self, name: str) -> list[Path]:
        """The files that a site has written down."""
        return list((self.folder / f"results of {name}").glob("*.json"))

    def outcome(self, name: str) -> Any:
        (file,) = self.results(name)
        return outcomes.read(file)

    def rows(self, *names: str) -> int:
        """How many rows these sites have, or all."""
        return sum(self.sites[name].rows for name in names or self.sites)

    def check(self, *names: str, counted: Sequence[str] = ()) -> None:
        """These sites (by default all), and no others, have the right result over these rows (by default theirs)."""
        names = names or tuple(self.sites)
        counted = counted or names
        assert {name for name in self.sites if self.results(name)} == set(names)
        right = None if self.protocol == "nothing" else pairs_of([self.sites[name] for name in counted], GRID)[0]
        for name in names:
            found = self.outcome(name)
            assert found.parties == len(counted)
            if right is None:
                assert rows_in(found) == self.rows(*counted)
            else:
                assert found.auc == pytest.approx(float(right), abs=1e-6 + rounding(found.decimals))
                assert found.fraction in ((None, right) if self.protocol == "semi-honest" else (right,))

    def record(self) -> dict[str, Any] | None:
        return read_record(self.folder / "journal")

    def told(self) -> dict[str, Any]:
        """Who took part, by the aggregator's record."""
        found = self.record()
        assert found is not None
        return found


def toml(config: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in config.items())


class Attendant:
    """A site or a helper, by its configuration, that looks into an exchange once a call, as what serves does."""

    def __init__(self, config: Mapping[str, Any], exchange: Exchange, session: bytes) -> None:
        self.config, self.exchange = config, exchange
        with site_storage().site(config) as kept:
            store: KeyStore = kept._store  # type: ignore[attr-defined]
            self.name, self.meeting = kept.name, meeting_of(store, session)
            self.maker = claimed(Kept.stored(store, session).announcement).maker

    def look(self) -> Session:
        """Answer the newest round."""
        log = RoleLog()
        part = Answering(
            self.config, site_storage(), Isolation(log, apart=False), SYSTEM, Standing(self.name, (self.maker,))
        )
        session = Session(self.maker, self.meeting.session.hex(), SYSTEM, Arrivals(self.exchange, log), log)
        session.meeting = self.meeting
        part.attend(session)
        return session

    def said(self, number: int) -> bytes:
        """What it has answered in a round."""
        return self.exchange.read(self.meeting.place(self.name) + submission_name(number))


def played_over_files(
    aggregator: Mapping[str, Any],
    files: Mapping[str, bytes],
    roles: Mapping[str, Any],
    exchange: Path,
    *,
    killed_in: int = 0,
    absent: str = "",
    **changes: Any,
) -> Any:
    """The record of a session of these roles, by their configurations; `files` open it.

    All who are awaited answer at each pass, and asked twice say the same; each from its store. The aggregator dies once
    the round `killed_in` is answered; who is `absent` answers nothing.
    """
    meeting = site_storage().opens(aggregator, files)
    assert meeting is not None
    exchange.mkdir(exist_ok=True)
    folder = Folder(exchange)
    attendants = {name: Attendant(config, folder, meeting.session) for name, config in roles.items()}
    session = aggregator_role.passes({**aggregator, "round-timeout": 60.0, **changes}, folder, meeting, files)
    while True:
        try:
            next(session)
        except StopIteration as ended:
            return ended.value
        status = read_status(Path(aggregator["journal"]))
        assert status is not None
        for name in set(status["awaited"]) - {absent}:
            said = set[bytes]()
            for _ in range(2):
                attendants[name].look()
                said.add(attendants[name].said(status["round"]))
            assert len(said) == 1
        if status["round"] == killed_in:
            session.close()
            raise KeyboardInterrupt
