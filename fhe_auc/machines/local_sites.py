"""Whole sessions on this machine, carried by a platform: every role with a key store and an exchange of its own.

The roles live in this process, the platform in others; `fhe_auc.session.one_process` plays the same rounds without one.
The rows, keys and results of all sites lie in one private folder that is removed afterwards.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.logs import RoleLog
from fhe_auc.base.names import HELPER
from fhe_auc.exchange.exchange import Arrivals, Folder
from fhe_auc.machines import aggregator_role, outcomes, site_role
from fhe_auc.machines.file_transport import message_name, newest_round, submission_name
from fhe_auc.machines.processes import Processes
from fhe_auc.machines.site_state import LocalSites, site_storage
from fhe_auc.results.evaluation import Outcome
from fhe_auc.rows.own_checks import check_scores
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import write_rows
from fhe_auc.session.aggregator import SessionRecord
from fhe_auc.session.one_process import first_of, with_costs
from fhe_auc.session.protocol import Protocol, Request

T = TypeVar("T", bound=Outcome)

_LOOK = 0.1  # seconds between looks into the exchanges


class LocalCarrier(Processes, ABC):
    """What carries between exchanges on this machine; `folder` holds the rows, keys and results of all sites."""

    @abstractmethod
    def carry(self, server: Path, sites: Mapping[str, Path]) -> None:
        """Start to carry between the exchange of the server and those of the sites, by the places' names."""

    @abstractmethod
    def check(self) -> None:
        """Raise `EvaluationError` where nothing is carried any more."""


@dataclass(frozen=True)
class Stage:
    """Where sessions are played: `place` makes a new place for each, and `report` is told in a line what happens."""

    place: Callable[[], LocalCarrier]
    round_timeout: float
    report: Callable[[str], None]

    def run(self, plugin: Protocol[T], request: Request, parties: Sequence[PartyData]) -> T:
        """Play a session; return the outcome that the first site has written down, with the session's costs.

        Raises `FheAucError` as `fhe_auc.federated_auc`, and where a site is missing that the protocol does not go on
        without.
        """
        started = time.perf_counter()
        self.report(f"making members and keys of a session of protocol {plugin.name}")
        with (place := self.place()):
            session = plugin.prepare(request)
            for data in parties:  # each site does so too
                check_scores(data, session.manifest.thresholds)
            folder = place.folder / "session"
            folder.mkdir(mode=0o700)
            made = site_storage().local_sites(session, folder)
            sites = {name: dict(config) for name, config in made.sites.items()}
            for number, data in enumerate(parties):
                rows = folder / f"rows-{number}.npz"
                rows.touch(mode=0o600)
                write_rows(rows, data, request.analysis)
                sites[data.name] |= {"data": str(rows), "results": str(folder / f"results-{number}")}
            seconds = {"keys": time.perf_counter() - started}
            self.report("the session runs")
            counted = self._rounds(place, made, sites)
            outcome: T = first_of(with_costs(_told(sites, counted), seconds))
            return outcome

    def _rounds(self, place: LocalCarrier, made: LocalSites, sites: Mapping[str, Mapping[str, str]]) -> Sequence[str]:
        """Play the rounds, and return who counts; what a role raises ends the session."""
        meeting = site_storage().opens(made.aggregator, made.files)
        assert meeting is not None  # noqa: S101 - for the type checker
        names = {name: meeting.helper if name == HELPER else name for name in sites}
        exchanges = {member: place.folder / f"exchange-{number}" for number, member in enumerate(names.values())}
        for folder in (server := place.folder / "server", *exchanges.values()):
            folder.mkdir(mode=0o700)
        place.carry(server, exchanges)
        config = {**made.aggregator, "journal": str(place.folder / "journal"), "round-timeout": self.round_timeout}
        session = aggregator_role.passes(config, Folder(server), meeting, made.files)
        views, answered = (
            {name: Arrivals(Folder(folder)) for name, folder in exchanges.items()},
            dict.fromkeys(names, 0),
        )
        asked = meeting.place(meeting.aggregator)
        while True:
            try:
                next(session)
            except StopIteration as ended:
                record: SessionRecord = ended.value
                return record.counted
            for name, member in names.items():  # each answers each round once
                view, helps = views[member], name == HELPER
                view.begin()
                begun = newest_round(view, asked, meeting.session, to_helper=helps)
                if begun is not None and begun.number > answered[name]:
                    message = view.exchange.read(asked + message_name(begun.number, to_helper=helps))
                    submission, _ = site_role.answer(sites[name], message, log=RoleLog(party=member))
                    view.exchange.put(meeting.place(member) + submission_name(begun.number), submission)
                    answered[name] = begun.number
            place.check()
            time.sleep(_LOOK)


def _told(sites: Mapping[str, Mapping[str, str]], counted: Sequence[str]) -> dict[str, Any]:
    """Return the results of all sites that were counted; at least one must have one."""
    paths = {name: list(Path(sites[name]["results"]).glob("*.json")) for name in counted}
    found = {name: outcomes.read(path) for name, written in paths.items() for path in written}
    if not found:
        raise EvaluationError(f"no site has a result; the first one, {counted[0]!r}, has not confirmed the last round")
    return found
