"""What the protocol for an aggregator that may lie costs beside the semi-honest one."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.serialise import decode
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import Message
from fhe_auc_keys.bundles.session_keys import PartySecrets
from fhe_auc_keys.roles.sealed_roles import computing_aggregator, decrypting_party
from fhe_auc_protocols.blinded_auc.malicious import Malicious
from fhe_auc_protocols.blinded_auc.protocol import BlindedAuc
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from tests.support.blinded_auc import encrypted_result
from tests.support.malicious_sessions import backends, request


class Priced:
    """100 parties' submissions at uniform:100, of one protocol."""

    def __init__(self, protocol: BlindedAuc, backend: str) -> None:
        rng = np.random.default_rng(0)
        self.parties = [PartyData.from_arrays(f"site {i}", rng.random(100) < 0.3, rng.random(100)) for i in range(100)]
        session: Any = protocol.prepare(request(self.parties, "uniform:100", backend=backend))
        material = decode(session.party_material, PartySecrets, "")
        computation = protocol.modes["sealed"].computation(session.manifest)
        self.public = computation.load_public(session.aggregator_material)
        secret = computation.load_secret(material.context)
        self.plan = protocol.plan_of(session.manifest)
        opening = computing_aggregator(session.manifest, computation, self.public).start()
        tasks = [protocol.task(session.manifest, data) for data in self.parties]
        roles = [
            decrypting_party(session.manifest, computation, secret, task, common_secret=material.common_secret)
            for task in tasks
        ]
        messages = [role.respond(opening) for role in roles]
        self.upload = max(map(len, messages))
        self.submissions = [
            decode(Message.from_bytes(message, limit=2**24).payload, tuple[bytes, ...], "") for message in messages
        ]

    def seconds(self) -> float:
        """CPU time of loading, adding and the circuit."""
        started = time.process_time()
        encrypted_result(self.public, self.plan, self.submissions)
        return time.process_time() - started


@pytest.mark.slow
@backends
def test_at_a_hundred_parties_it_costs_hardly_more_than_the_semi_honest_protocol(backend, record_property):
    """Upload at most 1.1 times, aggregator time at most 1.5 times; medians of alternating runs in this process."""
    plain, split = Priced(SemiHonest(), backend), Priced(Malicious(), backend)
    assert (split.plan.workload.splits, split.plan.workload.classes) == (2, 8)
    pairs = [(plain.seconds(), split.seconds()) for _ in range(7)]
    plain_time, split_time = (statistics.median(side) for side in zip(*pairs, strict=True))
    record_property("upload", split.upload / plain.upload)
    record_property("time", split_time / plain_time)
    print(f"{backend}: upload {split.upload / plain.upload:.4f}, time {split_time / plain_time:.3f}")
    assert split.upload <= 1.1 * plain.upload
    assert split_time <= 1.5 * plain_time
