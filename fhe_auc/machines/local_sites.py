"""Whole sessions on this machine, over a real transport: every role in a process, folder and key store of its own.

`fhe_auc.session.one_process` plays the same rounds without a transport. The rows, keys and results of all sites lie in
one private folder that is removed afterwards.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fhe_auc.base.errors import EvaluationError
from fhe_auc.machines import outcomes
from fhe_auc.machines.processes import Processes
from fhe_auc.machines.site_state import LocalSites, site_storage
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.evaluation import Evaluation, Outcome, QuantileThresholds, preceded
from fhe_auc.results.result_file import told_error
from fhe_auc.rows.own_rows import check_scores
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import write_rows
from fhe_auc.session import registry
from fhe_auc.session.one_process import first_of, with_costs
from fhe_auc.session.protocol import Protocol, Request

T = TypeVar("T", bound=Outcome)


class LocalCarrier(AbstractContextManager["LocalCarrier"], ABC):
    """What carries one session on this machine; a context manager that ends its processes.

    `folder` is private; it holds the rows, keys and results of all sites.
    """

    def __init__(self) -> None:
        self.processes = Processes()
        self.folder = self.processes.folder

    def __exit__(self, *error: object) -> None:
        self.processes.close()

    @abstractmethod
    def run(self, config: dict[str, Any], nodes: Mapping[str, Mapping[str, str]]) -> Mapping[str, Any]:
        """Run the session; return its record, as of `fhe_auc.session.journal`: who took part, or the error.

        `config` is the aggregator's configuration, and `nodes` those of all sites and of the helper if any, by name.
        """


@dataclass(frozen=True)
class Stage:
    """Where sessions are played: `place` makes a new place for each, and `report` is told in a line what happens."""

    place: Callable[[], LocalCarrier]
    round_timeout: float
    report: Callable[[str], None]

    def evaluate(
        self, plugin: Protocol[Evaluation], request: Request, bins: int | None, parties: Sequence[PartyData]
    ) -> Evaluation:
        """Return the evaluation that the first site has written down, with the session's costs.

        A session before finds `bins` quantile thresholds, where that is not None. Raises `FheAucError` as
        `fhe_auc.federated_auc`, and where a site is missing that the protocol does not go on without.
        """
        if bins is None:
            return first_of(self._play(plugin, request, parties, {}))
        first, second = plugin.staged(request, bins)
        self.report("a session before finds the thresholds")
        finder = registry.finder(plugin)
        found = self._play(finder, first, parties, {})
        chosen = replace(second, thresholds=first_of(found).grid)
        return preceded(first_of(self._play(plugin, chosen, parties, found)), first_of(found))

    def _play(
        self,
        plugin: Protocol[T],
        request: Request,
        parties: Sequence[PartyData],
        found: Mapping[str, QuantileThresholds],
    ) -> dict[str, T]:
        """Play a session; return each site's outcome. `found` has the thresholds that each has found before."""
        grids = {name: own.grid.astype("<f8").tobytes() for name, own in found.items()}
        started = time.perf_counter()
        self.report("making certificates and keys")
        with self.place() as place:
            session = plugin.prepare(request)
            for data in parties:  # each site does so too, but says why in its own log only
                check_scores(data, session.manifest.thresholds)
            folder = place.folder / "session"
            folder.mkdir(mode=0o700)
            made = site_storage().local_sites(session, folder, grids)
            sites = {
                data.name: _site(folder, number, data, request.analysis, made) for number, data in enumerate(parties)
            }
            seconds = {"keys": time.perf_counter() - started}
            config: dict[str, Any] = {**made.aggregator, "round-timeout": self.round_timeout, "ask-again": False}
            self.report("the session runs")
            record = place.run(config, {**made.sites, **sites})
            if "error" in record:
                raise told_error(record["error"])
            return with_costs(_told(sites, record["counted"]), seconds)


def _site(folder: Path, number: int, data: PartyData, analysis: Analysis, made: LocalSites) -> dict[str, str]:
    rows = folder / f"rows-{number}.npz"
    rows.touch(mode=0o600)
    write_rows(rows, data, analysis)
    return {**made.sites[data.name], "data": str(rows), "results": str(folder / f"results-{number}")}


def _told(sites: Mapping[str, Mapping[str, str]], counted: Sequence[str]) -> dict[str, Any]:
    """Return the results of all sites that were counted; at least one must have one."""
    paths = {name: list(Path(sites[name]["results"]).glob("*.json")) for name in counted}
    found = {name: outcomes.read(path) for name, written in paths.items() for path in written}
    if not found:
        raise EvaluationError(f"no site has a result; the first one, {counted[0]!r}, has not confirmed the last round")
    return found
