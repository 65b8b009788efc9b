"""What each step of a session takes, one after the other: keys, a party's part, the aggregator's, and the result."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.ckks.flooding import flood
from fhe_auc.rlwe.polynomials import Sum
from fhe_auc_benchmarks.runtime.problem import Problem
from fhe_auc_protocols.blinded_auc import blinding, encrypted_trapezoid
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.planner import plan
from fhe_auc_protocols.blinded_auc.semi_honest import class_vectors, recover
from fhe_auc_protocols.blinded_auc.workload import Workload

THRESHOLDS = (100, 1000, 4000)
PARTIES = 100


@dataclass
class Steps:
    """A context, one submission, and what the aggregator makes of it. Times do not depend on values."""

    plan: AucPlan
    keys: ckks.KeyPair
    problem: Problem

    def __post_init__(self) -> None:
        self.vectors = self.pack()
        self.submission = self.encrypt()
        self.words = [self.keys.public.read_submission(block) for block in self.submission]
        self.sums = [self.keys.public.ciphertext(words) for words in self.words]
        self.product = encrypted_trapezoid.products(self.keys.public, self.plan.packing, self.sums)
        self.result = self.keys.public.dump_result(
            encrypted_trapezoid.blinded_totals(self.plan, self.keys.public, self.sums)
        )

    def pack(self) -> list[ckks.Slots]:
        return self.plan.packing.pack(*class_vectors(self.problem.counts(0)))

    def encrypt(self) -> list[bytes]:
        return [self.keys.secret.encrypt(block) for block in self.vectors]


@pytest.fixture(scope="module", params=THRESHOLDS, ids=lambda count: f"{count} thresholds")
def steps(request, backend) -> Steps:
    chosen = plan(Workload(thresholds=request.param, parties=PARTIES), backend)
    return Steps(chosen, ckks.generate(chosen.parameters), Problem(PARTIES, request.param))


@pytest.mark.benchmark(group="keys: planner")
def test_plan(benchmark, steps):
    benchmark(plan, steps.plan.workload, steps.plan.parameters.backend)


@pytest.mark.benchmark(group="keys: first time in a process")
def test_first_keys(benchmark, steps):
    """Includes the library's context and the layouts, learned from throw-away keys."""
    backend = steps.plan.parameters.backend
    module = importlib.import_module(f"fhe_auc.ckks.{backend}_backend")
    benchmark.pedantic(ckks.generate, (steps.plan.parameters,), setup=module.schemes_for.cache_clear, rounds=3)


@pytest.mark.benchmark(group="keys: once parameters have been used in the process")
def test_keys(benchmark, steps):
    benchmark.pedantic(ckks.generate, (steps.plan.parameters,), rounds=5, warmup_rounds=1)


@pytest.mark.benchmark(group="keys: aggregator loads them")
def test_load_public(benchmark, steps):
    benchmark.pedantic(ckks.load_public, (steps.keys.public.to_bytes(),), rounds=5, warmup_rounds=1)


@pytest.mark.benchmark(group="party: count and pack")
def test_pack(benchmark, steps):
    benchmark(steps.pack)


@pytest.mark.benchmark(group="party: encrypt and serialise")
def test_encrypt(benchmark, steps):
    benchmark.pedantic(steps.encrypt, rounds=20, warmup_rounds=2)


@pytest.mark.benchmark(group="ingest: parse and check a submission")
def test_read(benchmark, steps):
    benchmark(lambda: [steps.keys.public.read_submission(block) for block in steps.submission])


@pytest.mark.benchmark(group="ingest: add a submission")
def test_add(benchmark, steps):
    sums = [Sum(steps.keys.public.ciphertext_shape) for _ in steps.words]

    def add() -> None:
        for total, words in zip(sums, steps.words, strict=True):
            total.add(words)

    benchmark(add)


@pytest.mark.benchmark(group="circuit: sum to the library")
def test_ciphertext(benchmark, steps):
    benchmark(lambda: [steps.keys.public.ciphertext(words) for words in steps.words])


@pytest.mark.benchmark(group="circuit: product")
def test_product(benchmark, steps):
    benchmark.pedantic(
        encrypted_trapezoid.products, (steps.keys.public, steps.plan.packing, steps.sums), rounds=10, warmup_rounds=1
    )


@pytest.mark.benchmark(group="circuit: trace (rotations)")
def test_trace(benchmark, steps):
    benchmark.pedantic(
        encrypted_trapezoid.trace, (steps.keys.public, steps.plan.packing, steps.product), rounds=10, warmup_rounds=1
    )


@pytest.mark.benchmark(group="circuit: blind")
def test_blind(benchmark, steps):
    def blind() -> ckks.Ciphertext:
        weights = np.full(steps.plan.packing.slots, blinding.multiplier(steps.plan.blinding_bits), complex)
        return steps.keys.public.multiply_integers(steps.product, weights)

    benchmark.pedantic(blind, rounds=10, warmup_rounds=1)


@pytest.mark.benchmark(group="circuit: flood")
def test_flood(benchmark, steps):
    arguments = steps.keys.public, steps.product, steps.plan.flooding_deviation, steps.plan.unit
    benchmark.pedantic(flood, arguments, rounds=10, warmup_rounds=1)


@pytest.mark.benchmark(group="circuit: serialise the result")
def test_dump(benchmark, steps):
    benchmark.pedantic(steps.keys.public.dump_result, (steps.product,), rounds=20, warmup_rounds=1)


@pytest.mark.benchmark(group="party: load, decrypt, check, divide")
def test_recover(benchmark, steps):
    found = benchmark.pedantic(
        lambda: recover(steps.keys.secret.decrypt(steps.result), steps.plan), rounds=10, warmup_rounds=1
    )
    assert 0.5 < found.auc < 1
