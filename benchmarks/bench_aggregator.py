"""How long each role works, at 100 parties and ``uniform:100`` thresholds, one thread.

    make bench        # or: OMP_NUM_THREADS=1 python -m pytest benchmarks --benchmark-only

Nothing is asserted on wall time. `docs/performance.md` compares a run with the targets.
"""

from __future__ import annotations

import importlib
from typing import NamedTuple

import numpy as np
import pytest

from fhe_auc import blinding, circuit, ckks, federated_auc, thresholds
from fhe_auc.counts import PartyData, count
from fhe_auc.evaluation import Evaluation
from fhe_auc.planner import Plan, Workload, plan
from fhe_auc.protocol import Request, Session
from protocols.semi_honest import SemiHonest, class_vectors, recover

PARTIES = 100
GRID = thresholds.uniform(100)
ROWS_PER_PARTY = 100


def party_data(number: int) -> PartyData:
    rng = np.random.default_rng(number)
    y_true = rng.random(ROWS_PER_PARTY) < 0.2
    return PartyData.from_arrays(f"site {number}", y_true, np.clip(rng.normal(0.4 + 0.2 * y_true, 0.2), 0, 1))


class Bench(NamedTuple):
    """A context, and what 100 parties submit to it.

    The circuit works in place, so that the values in `total` and `product` change as parts are timed; times do not
    depend on values.
    """

    plan: Plan
    keys: ckks.KeyPair
    submissions: list[list[bytes]]
    ciphertexts: list[list[ckks.Ciphertext]]
    total: list[ckks.Ciphertext]
    product: ckks.Ciphertext
    result: bytes


@pytest.fixture(scope="module", params=ckks.available_backends())
def backend(request) -> ckks.BackendName:
    return request.param


@pytest.fixture(scope="module")
def bench(backend) -> Bench:
    chosen = plan(Workload(thresholds=len(GRID), parties=PARTIES), backend)
    keys = ckks.generate(chosen.parameters)
    submissions = [
        [keys.secret.encrypt(block) for block in chosen.packing.pack(*class_vectors(count(party_data(i), GRID)))]
        for i in range(PARTIES)
    ]
    ciphertexts = [[keys.public.load_submission(block) for block in blocks] for blocks in submissions]
    total = [keys.public.load_submission(block) for block in submissions[0]]
    for blocks in ciphertexts[1:]:
        for sum_, ciphertext in zip(total, blocks, strict=True):
            keys.public.add_in_place(sum_, ciphertext)
    product = circuit.products(keys.public, chosen.packing, total)
    found = Bench(chosen, keys, submissions, ciphertexts, total, product, b"")
    return found._replace(result=aggregate(found, submissions))


def aggregate(bench: Bench, submissions) -> bytes:
    aggregation = circuit.BlindedTotals(bench.keys.public, bench.plan)
    for blocks in submissions:
        aggregation.add(blocks)
    return aggregation.result()


def session_with_submissions(backend: ckks.BackendName) -> tuple[Session, list[tuple[str, bytes]]]:
    """Prepare a session, and let every party answer its first message."""
    parties = [party_data(i) for i in range(PARTIES)]
    plugin = SemiHonest()
    session = plugin.prepare(Request(parties=tuple(data.name for data in parties), thresholds=GRID, backend=backend))
    opening = plugin.aggregator(session.manifest, session.aggregator_material).start()
    roles = [plugin.party(session.manifest, session.party_material, data) for data in parties]
    return session, [(role.name, role.respond(opening)) for role in roles]


class TestAggregator:
    @pytest.mark.benchmark(group="1 aggregator, 100 parties, without deserialising")
    def test_sum_and_circuit(self, benchmark, bench, monkeypatch):
        load = bench.keys.public.load_submission
        monkeypatch.setattr(bench.keys.public, "load_submission", lambda ciphertext: ciphertext)

        def setup():  # the sum is built up in the first one
            return (bench, [[load(block) for block in bench.submissions[0]], *bench.ciphertexts[1:]]), {}

        benchmark.pedantic(aggregate, setup=setup, rounds=40, warmup_rounds=3)

    @pytest.mark.benchmark(group="2 aggregator, 100 parties, with deserialising")
    def test_load_sum_and_circuit(self, benchmark, bench):
        benchmark.pedantic(aggregate, (bench, bench.submissions), rounds=15, warmup_rounds=1)

    @pytest.mark.benchmark(group="3 aggregator, 100 parties, with deserialising, envelopes and checks of the rounds")
    def test_messages_to_result(self, benchmark, backend):
        session, messages = session_with_submissions(backend)

        def setup():
            role = SemiHonest().aggregator(session.manifest, session.aggregator_material)
            role.start()
            return (role,), {}

        def run(role) -> None:
            for name, message in messages:
                role.receive(name, message)
            role.finish_round()

        benchmark.pedantic(run, setup=setup, rounds=15, warmup_rounds=1)


class TestPartsOfTheAggregator:
    @pytest.mark.benchmark(group="part: load one submission")
    def test_load(self, benchmark, bench):
        benchmark(bench.keys.public.load_submission, bench.submissions[0][0])

    @pytest.mark.benchmark(group="part: add one submission")
    def test_add(self, benchmark, bench):
        benchmark(bench.keys.public.add_in_place, bench.total[0], bench.ciphertexts[1][0])

    @pytest.mark.benchmark(group="part: product")
    def test_product(self, benchmark, bench):
        benchmark(circuit.products, bench.keys.public, bench.plan.packing, bench.total)

    @pytest.mark.benchmark(group="part: trace")
    def test_trace(self, benchmark, bench):
        benchmark(circuit.trace, bench.keys.public, bench.plan.packing, bench.product)

    @pytest.mark.benchmark(group="part: blind")
    def test_blind(self, benchmark, bench):
        def blind() -> ckks.Ciphertext:
            multiplier = blinding.multiplier(bench.plan.blinding_bits)
            weights = np.full(bench.plan.packing.slots, multiplier, complex)
            return bench.keys.public.multiply_integers(bench.product, weights)

        benchmark(blind)

    @pytest.mark.benchmark(group="part: flood")
    def test_flood(self, benchmark, bench):
        benchmark(circuit.flood, bench.keys.public, bench.product, bench.plan.flooding_deviation, bench.plan.unit)

    @pytest.mark.benchmark(group="part: serialise the result")
    def test_dump(self, benchmark, bench):
        benchmark(bench.keys.public.dump_result, bench.product)


class TestParty:
    @pytest.mark.benchmark(group="party: count, pack, encrypt, serialise (100 rows)")
    def test_submit(self, benchmark, bench):
        data = party_data(0)

        def submit() -> list[bytes]:
            vectors = bench.plan.packing.pack(*class_vectors(count(data, GRID)))
            return [bench.keys.secret.encrypt(block) for block in vectors]

        benchmark(submit)

    @pytest.mark.benchmark(group="party: load, decrypt, check, divide")
    def test_recover(self, benchmark, bench):
        recovered = benchmark(lambda: recover(bench.keys.secret.decrypt(bench.result), bench.plan))
        assert 0.5 < recovered.auc < 1


class TestSetUp:
    @pytest.mark.benchmark(group="set-up: keys, once parameters have been used in the process")
    def test_keys(self, benchmark, bench):
        benchmark.pedantic(ckks.generate, (bench.plan.parameters,), rounds=10, warmup_rounds=1)

    @pytest.mark.benchmark(group="set-up: keys, first time in a process")
    def test_first_keys(self, benchmark, backend, bench):
        """Includes the library's context and the layouts, learned from throw-away keys."""
        module = importlib.import_module(f"fhe_auc.ckks.{backend}_backend")
        benchmark.pedantic(ckks.generate, (bench.plan.parameters,), setup=module._scheme.cache_clear, rounds=5)

    @pytest.mark.benchmark(group="set-up: aggregator loads its keys")
    def test_load_public(self, benchmark, bench):
        benchmark.pedantic(ckks.load_public, (bench.keys.public.to_bytes(),), rounds=10, warmup_rounds=1)

    @pytest.mark.benchmark(group="set-up: planner")
    def test_plan(self, benchmark, backend):
        benchmark(plan, Workload(thresholds=len(GRID), parties=PARTIES), backend)


@pytest.mark.benchmark(group="4 whole session in one process, 100 parties")
def test_session(benchmark, backend):
    """Every role's work, one after the other; what `federated_auc` takes."""
    parties = [party_data(i) for i in range(PARTIES)]
    evaluation: Evaluation = benchmark.pedantic(
        federated_auc, (parties,), {"thresholds": GRID, "backend": backend}, rounds=3, warmup_rounds=1
    )
    benchmark.extra_info["upload_bytes_per_party"] = evaluation.upload_bytes_per_party
    benchmark.extra_info["download_bytes_per_party"] = evaluation.download_bytes_per_party
