"""Sessions of the protocol for an aggregator that may lie: sites, keys made once for many, roles, and plans."""

import re
import secrets
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.metrics.trapezoid import Trapezoid, trapezoid
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_keys.roles.sealed import SealedAggregator
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.malicious import Malicious, MaliciousTask
from fhe_auc_protocols.blinded_auc.plan import AucPlan, Workload
from fhe_auc_protocols.blinded_auc.protocol import trapezoid_computation
from tests.support.pooled import pooled_counts

BACKENDS = ckks.available_backends()
backends = pytest.mark.parametrize("backend", BACKENDS)

CLOSE = 1e-8


def exact(parties: Sequence[PartyData], grid: Any) -> Trapezoid:
    return trapezoid(pooled_counts(parties, grid))


def sites(number: int, *, rows: int = 400, seed: int = 1) -> list[PartyData]:
    """Sites of different sizes and levels; every second one beyond the third has one class only."""
    rng = np.random.default_rng(seed)
    found = []
    for index, share in enumerate(rng.dirichlet(np.full(number, 3.0))):
        size = 2 + int(share * rows)
        labels = rng.random(size) < 0.3
        labels[:2] = True, False
        if index >= 2 and index % 2:
            labels[:] = index % 4 == 1
        scores = np.clip(rng.normal(0.35 + 0.25 * labels + 0.02 * index, 0.15), 0, 1)
        found.append(PartyData.from_arrays(f"site {index}", labels, scores))
    return found


def request(parties: Sequence[PartyData], grid: Any = "uniform:16", **changes: Any) -> Request:
    return Request(parties=tuple(data.name for data in parties), thresholds=thresholds.resolve(grid), **changes)


class Roles:
    """All roles of one session, on contexts that are there already."""

    def __init__(
        self, manifest: Manifest, keys: ckks.KeyPair, tasks: Sequence[MaliciousTask], common_secret: bytes
    ) -> None:
        self.manifest = manifest
        computation = trapezoid_computation(manifest)
        total, aggregate = computation.running_sum(keys.public), partial(computation.aggregate, keys.public)
        side = SealedAggregator(total, aggregate, computation.payload_limit, echo=True)
        self.aggregator = Aggregator(manifest, side)
        kind = Malicious().sealed_keys()
        self.parties = [kind.with_keys(manifest, computation, keys.secret, task, common_secret) for task in tasks]
        self.messages: list[bytes] = []

    def broadcast(self, message: bytes) -> None:
        self.messages.append(message)
        for party in self.parties:
            answer = party.respond(message)
            self.messages.append(answer)
            self.aggregator.receive(party.name, answer)

    def run(self) -> list[Evaluation]:
        self.broadcast(self.aggregator.start())
        while (message := self.aggregator.finish_round()) is not None:
            self.broadcast(message)
        return [party.result() for party in self.parties]


class Engine:
    """One context for many sessions of one plan.

    Keys take longer than all else. Their reuse changes nothing for honest sessions: each has a session id, and with it
    a digest and shares of its own, and a fresh common secret too. Any subset of the plan's parties may meet.
    """

    def __init__(self, backend: str, *, parties: int, grid: Any = "uniform:16", **changes: Any) -> None:
        names = tuple(f"site {number}" for number in range(parties))
        asked = Request(parties=names, thresholds=thresholds.resolve(grid), backend=backend, **changes)
        self.session: Any = Malicious().prepare(asked)
        public = ckks.load_public(self.session.aggregator_material)
        self.keys = ckks.KeyPair(public, ckks.load_secret(self.session.common.context))
        self.grid = self.session.manifest.thresholds
        self.plan = self.session.manifest.decoded_plan(AucPlan)

    def manifest(self, parties: Sequence[str]) -> Manifest:
        """The manifest of a new session of these parties."""
        return msgspec.structs.replace(
            self.session.manifest, session=secrets.token_bytes(16), parties=tuple(parties), min_parties=len(parties)
        )

    def roles(self, parties: Sequence[PartyData]) -> Roles:
        manifest = self.manifest([data.name for data in parties])
        tasks = [MaliciousTask(manifest, data) for data in parties]
        return Roles(manifest, self.keys, tasks, secrets.token_bytes(32))

    def run(self, parties: Sequence[PartyData]) -> list[Evaluation]:
        return self.roles(parties).run()


@lru_cache(maxsize=8)
def engine(backend: str, grid: Any = "uniform:16", *, parties: int = 5) -> Engine:
    """The engine of so many parties; up to 253 thresholds both runs are in one ciphertext."""
    return Engine(backend, parties=parties, grid=grid)


def assert_silent(error: BaseException) -> None:
    """No digit in what a refusal says, nor in what it might chain."""
    while error is not None:
        assert not re.search(r"\d", repr(error.args)), error.args
        error = error.__cause__ or error.__context__  # type: ignore[assignment]


@lru_cache(maxsize=32)
def plan_for(*, backend: str = "tenseal", tolerance: float | None = None, **changes: Any) -> AucPlan:
    return plan(Workload(**{"thresholds": 16, "parties": 5, "split": True, **changes}), backend, tolerance=tolerance)
