"""The protocol for an aggregator that may lie, as honest sessions see it: right, accepted, and silent where it refuses.

Attacks are tested elsewhere; here stand the masks and checks that they meet.
"""

from __future__ import annotations

import base64
import gc
import itertools
import math
import mmap
import re
import secrets
import statistics
import time
import types
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, uniform
from sklearn.metrics import roc_auc_score

import fhe_auc
from fhe_auc import ckks, datasets, thresholds
from fhe_auc.counts import Counts, PartyData, count
from fhe_auc.errors import (
    CapacityError,
    EvaluationError,
    InputError,
    TooFewPartiesError,
    VerificationError,
)
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import Manifest
from fhe_auc.messages import Message
from fhe_auc.protocol import Delivery, Request, Session
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.serialise import decode, encode
from fhe_auc.trapezoid import Trapezoid, trapezoid
from fhe_auc_keys.sealed_roles import CkksAggregator, CkksParty
from fhe_auc_keys.session_keys import PartySecrets
from fhe_auc_protocols.blinded_auc import blinding, planner
from fhe_auc_protocols.blinded_auc import split_shares as disguise
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import BlindedTotals
from fhe_auc_protocols.blinded_auc.error_bound import (
    MAX_AMPLIFICATION,
    disagreement,
    encoding_error,
    error_bound,
    fresh_noise,
)
from fhe_auc_protocols.blinded_auc.malicious import (
    FLOODING_BITS,
    Malicious,
    MaliciousTask,
    Recovered,
    accept,
    recover,
)
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.planner import plan
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest, SemiHonestTask
from fhe_auc_protocols.blinded_auc.split_shares import Execution, Stream, amplification
from fhe_auc_protocols.blinded_auc.workload import Workload

BACKENDS = ckks.available_backends()
backends = pytest.mark.parametrize("backend", BACKENDS)
joint = pytest.mark.skipif("openfhe" not in BACKENDS, reason="joint keys need OpenFHE")

CLOSE = 1e-6
FALSE_ALARM = 1e-9
"""Probability with which a statistical test here would fail on other, equally good numbers."""


def exact(parties: Sequence[PartyData], grid: Any) -> Trapezoid:
    return trapezoid(reduce(add, (count(data, grid) for data in parties)))


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
        self, manifest: Manifest, keys: ckks.KeyPair, parties: Sequence[PartyData], common_secret: bytes
    ) -> None:
        self.manifest = manifest
        self.aggregator = CkksAggregator(manifest, keys.public)
        self.parties = [
            CkksParty(manifest, keys.secret, MaliciousTask(manifest, data), common_secret=common_secret)
            for data in parties
        ]
        self.messages: list[bytes] = []

    def broadcast(self, message: bytes) -> None:
        self.messages.append(message)
        for party in self.parties:
            answer = party.respond(message)
            self.messages.append(answer)
            self.aggregator.receive(party.name, answer)

    def run(self) -> list[Evaluation]:
        message: bytes | None = self.aggregator.start()
        while message is not None:
            self.broadcast(message)
            message = self.aggregator.finish_round()
        return [party.result() for party in self.parties]


class Engine:
    """One context for many sessions of one plan.

    Keys take longer than all else. Their reuse changes nothing for honest sessions: each has a session id, and with it
    a digest and disguises of its own, and a fresh common secret too. Any subset of the plan's parties may meet.
    """

    def __init__(self, backend: str, *, parties: int, grid: Any = "uniform:16", **changes: Any) -> None:
        names = tuple(f"site {number}" for number in range(parties))
        asked = Request(parties=names, thresholds=thresholds.resolve(grid), backend=backend, **changes)
        self.session = Malicious().prepare(asked)
        material = decode(self.session.party_material, PartySecrets, "material")
        public = ckks.load_public(self.session.aggregator_material)
        self.keys = ckks.KeyPair(public, ckks.load_secret(material.context))
        self.grid = self.session.manifest.thresholds
        self.plan = self.session.manifest.plan

    def manifest(self, parties: Sequence[PartyData]) -> Manifest:
        return msgspec.structs.replace(
            self.session.manifest,
            session=secrets.token_bytes(16),
            parties=tuple(data.name for data in parties),
            min_parties=len(parties),
        )

    def roles(self, parties: Sequence[PartyData]) -> Roles:
        return Roles(self.manifest(parties), self.keys, parties, secrets.token_bytes(32))

    def run(self, parties: Sequence[PartyData]) -> list[Evaluation]:
        return self.roles(parties).run()


@lru_cache(maxsize=8)
def engine(backend: str, **options: Any) -> Engine:
    """The engine of five parties at uniform:16."""
    return Engine(backend, parties=5, options=options)


def assert_silent(error: BaseException) -> None:
    """No digit in what a refusal says, nor in what it might chain, but for the range that any AUC has."""
    while error is not None:
        assert not re.search(r"\d", repr(error.args).replace("between 0 and 1", "")), error.args
        error = error.__cause__ or error.__context__  # type: ignore[assignment]


# --- Honest sessions --------------------------------------------------------------------------------------------------


class TestHonestSessions:
    @backends
    @pytest.mark.parametrize(("number", "grid"), [(2, "uniform:16"), (5, "uniform:100")])
    def test_the_auc_is_the_semi_honest_and_the_exact_one(self, backend, number, grid):
        parties = sites(number, seed=number)
        found = fhe_auc.federated_auc(parties, protocol="malicious", thresholds=grid, backend=backend)
        plain = fhe_auc.federated_auc(parties, protocol="semi-honest", thresholds=grid, backend=backend)
        truth = exact(parties, thresholds.resolve(grid))
        assert found.auc == pytest.approx(truth.auc, abs=CLOSE)
        assert found.auc == pytest.approx(plain.auc, abs=CLOSE)
        assert found.resolution == pytest.approx(truth.resolution, abs=CLOSE)
        assert found.resolution == pytest.approx(plain.resolution, abs=CLOSE)
        assert abs(found.auc - truth.auc) <= found.precision
        y_true = np.concatenate([data.y_true for data in parties])
        y_score = np.concatenate([data.y_score for data in parties])
        assert abs(found.auc - roc_auc_score(y_true, y_score)) <= found.resolution + CLOSE

    @backends
    def test_parties_learn_that_it_was_verified_and_by_which_settings(self, backend):
        parties = sites(4)
        found = fhe_auc.federated_auc(
            parties,
            protocol="malicious",
            thresholds="uniform:16",
            backend=backend,
            splits=3,
            executions=2,
            tolerance=1e-5,
        )
        assert found.verified is True
        assert dict(found.settings) == {"executions": 2, "splits": 3, "tolerance": 1e-5}
        assert (found.protocol, found.backend, found.parties, found.keys) == ("malicious", backend, 4, "sealed")
        assert (found.thresholds, found.rounds, found.security_bits) == (16, 2, 128)
        assert found.as_dict()["settings"] == {"executions": 2, "splits": 3, "tolerance": 1e-5}

    def test_without_options_two_splits_and_four_executions_agree_within_the_planned_precision(self):
        found = fhe_auc.federated_auc(sites(2), protocol="malicious", thresholds="uniform:16")
        tolerance = found.settings["tolerance"]
        assert dict(found.settings) == {"executions": 4, "splits": 2, "tolerance": tolerance}
        assert 0 < found.precision < tolerance < math.sqrt(2) * found.precision
        assert found.precision <= planner.DEFAULT_LOOSE_PRECISION

    @backends
    @pytest.mark.parametrize(
        ("executions", "splits", "grid"),
        [
            (2, 2, "uniform:16"),
            (8, 2, "uniform:100"),
            (2, 4, "uniform:16"),
            pytest.param(4, 3, "uniform:16", marks=pytest.mark.slow),
            pytest.param(2, 3, "uniform:100", marks=pytest.mark.slow),
            pytest.param(8, 3, "uniform:100", marks=pytest.mark.slow),
            pytest.param(4, 4, "uniform:100", marks=pytest.mark.slow),
            pytest.param(8, 4, "uniform:31", marks=pytest.mark.slow),
        ],
    )
    def test_any_number_of_executions_and_splits_gives_the_same_auc(self, backend, executions, splits, grid):
        options = {"executions": executions, "splits": splits}
        found = Engine(backend, parties=3, grid=grid, max_rows=10**5, options=options)
        assert found.plan.workload.classes == 2 * executions
        parties = sites(3, seed=executions + splits)
        truth = exact(parties, found.grid)
        for evaluation in found.run(parties):
            assert dict(evaluation.settings) == {
                "executions": executions,
                "splits": splits,
                "tolerance": found.plan.tolerance,
            }
            assert evaluation.auc == pytest.approx(truth.auc, abs=CLOSE)
            assert evaluation.resolution == pytest.approx(truth.resolution, abs=CLOSE)

    @backends
    def test_every_party_learns_the_same(self, backend):
        evaluations = engine(backend).run(sites(5))
        assert len({(each.auc, each.resolution) for each in evaluations}) == 1

    @pytest.mark.parametrize("backend", ["openfhe", "tenseal"])
    def test_eight_executions_at_a_hundred_thresholds_take_several_ciphertexts(self, backend):
        """So that the test above runs with several blocks, each with a mask of its own."""
        assert plan_for(backend=backend, thresholds=100, classes=16).packing.blocks > 1

    @backends
    @pytest.mark.slow
    def test_the_default_grid(self, backend):
        parties = datasets.load("credit-default")
        found = fhe_auc.federated_auc(parties, protocol="malicious", thresholds="hybrid:1000", backend=backend)
        truth = exact(parties, thresholds.hybrid(1000))
        assert found.auc == pytest.approx(truth.auc, abs=CLOSE)
        assert found.resolution == pytest.approx(truth.resolution, abs=CLOSE)

    @backends
    def test_parties_of_one_class_only_are_welcome(self, backend):
        rng = np.random.default_rng(3)
        parties = [
            PartyData.from_arrays("site 0", [1] * 40, rng.uniform(0.3, 1, 40)),
            PartyData.from_arrays("site 1", [0] * 70, rng.uniform(0, 0.8, 70)),
            PartyData.from_arrays("site 2", [0], [0.99]),
        ]
        truth = exact(parties, np.linspace(0, 1, 16))
        for evaluation in engine(backend).run(parties):
            assert evaluation.auc == pytest.approx(truth.auc, abs=CLOSE)

    @backends
    @pytest.mark.parametrize("auc", [0.0, 0.5, 1.0])
    def test_the_extremes_are_accepted_and_stay_between_0_and_1(self, backend, auc):
        scores = {0.0: ([0.1] * 60, [0.9] * 60), 0.5: ([0.4] * 60, [0.4] * 60), 1.0: ([0.9] * 60, [0.1] * 60)}[auc]
        parties = [
            PartyData.from_arrays("site 0", [1] * 60, scores[0]),
            PartyData.from_arrays("site 1", [0] * 60, scores[1]),
        ]
        for evaluation in engine(backend).run(parties):
            assert evaluation.auc == pytest.approx(auc, abs=CLOSE)
            assert 0 <= evaluation.auc <= 1
            assert evaluation.resolution == pytest.approx(0.5 if auc == 0.5 else 0, abs=CLOSE)
            assert evaluation.resolution >= 0

    @backends
    def test_one_party_alone_is_its_own_pool_and_is_told(self, backend):
        (evaluation,) = engine(backend).run(sites(1))
        assert evaluation.auc == pytest.approx(exact(sites(1), np.linspace(0, 1, 16)).auc, abs=CLOSE)
        assert any("only one party" in warning for warning in evaluation.warnings)

    @pytest.mark.parametrize(("tolerance", "told"), [(None, False), (6e-7, False), (1e-5, True), (1e-3, True)])
    def test_a_tolerance_far_above_the_error_bound_is_warned_of(self, tolerance, told):
        options = {} if tolerance is None else {"tolerance": tolerance}
        pairs = [(data.y_true, data.y_score) for data in sites(2)]
        evaluation = fhe_auc.federated_auc(pairs, protocol="malicious", thresholds="uniform:16", **options)
        assert any("times what numerical errors need" in warning for warning in evaluation.warnings) is told

    @backends
    @pytest.mark.parametrize("label", [0, 1])
    @pytest.mark.parametrize("rows", [1, 50, 5000])
    def test_rows_of_one_label_are_refused_without_a_number(self, backend, label, rows):
        rng = np.random.default_rng(rows)
        parties = [PartyData.from_arrays(f"site {i}", [label] * rows, rng.random(rows)) for i in range(2)]
        roles = engine(backend).roles(parties)
        with pytest.raises(VerificationError) as caught:
            roles.run()
        assert_silent(caught.value)
        for party in roles.parties:
            with pytest.raises(VerificationError):
                party.result()

    @backends
    @pytest.mark.parametrize("multiplier", ["smallest", "largest"])
    @pytest.mark.parametrize("positives", [1, 99])
    def test_a_hundred_rows_one_of_the_rarer_class_at_either_end_of_the_multipliers(
        self, backend, monkeypatch, multiplier, positives
    ):
        found = engine(backend)
        bits = found.plan.blinding_bits - (blinding.MULTIPLIER_RANGE_BITS if multiplier == "smallest" else 0)
        monkeypatch.setattr(blinding, "multiplier", lambda blinding_bits: 2**bits)
        rng = np.random.default_rng(positives)
        labels = np.arange(100) < positives
        for _ in range(3):
            parties = [PartyData.from_arrays("site 0", labels, rng.random(100))]
            (evaluation,) = found.run(parties)
            assert abs(evaluation.auc - exact(parties, found.grid).auc) <= error_bound(found.plan)

    @backends
    def test_more_rows_than_the_bound_never_give_a_wrong_number(self, backend, monkeypatch):
        """A thousand and more times max_rows, at the largest multiplier, where totals exceed the modulus."""
        found = engine(backend)
        monkeypatch.setattr(blinding, "multiplier", lambda bits: 2**bits)
        monkeypatch.setattr(malicious_count(), "count", lambda data, grid: data)
        rng = np.random.default_rng(4)
        refused = 0
        for excess_bits in (1, 4, 10, 14) * 2:
            pool = counts_of(*(rng.dirichlet(np.ones(16), 2) * (found.plan.workload.max_rows << excess_bits) / 2))
            roles = found.roles(sites(1))
            roles.parties[0]._task._data = pool
            try:
                (evaluation,) = roles.run()
            except VerificationError as error:
                assert_silent(error)
                refused += 1
            else:
                assert evaluation.auc == pytest.approx(trapezoid(pool).auc, abs=CLOSE)
        assert refused >= 4

    @joint
    @pytest.mark.parametrize("number", [2, pytest.param(5, marks=pytest.mark.slow)])
    def test_joint_keys(self, number):
        parties = sites(number)
        found = fhe_auc.federated_auc(parties, protocol="malicious", thresholds="uniform:16", keys="joint")
        truth = exact(parties, np.linspace(0, 1, 16))
        assert (found.keys, found.rounds, found.verified) == ("joint", 4, True)
        assert found.auc == pytest.approx(truth.auc, abs=CLOSE)
        assert found.resolution == pytest.approx(truth.resolution, abs=CLOSE)

    @joint
    @pytest.mark.slow
    def test_rows_of_one_label_are_refused_with_joint_keys_too(self):
        parties = [([1] * 30, np.linspace(0, 1, 30)), ([1] * 40, np.linspace(0, 1, 40))]
        with pytest.raises(VerificationError) as caught:
            fhe_auc.federated_auc(parties, protocol="malicious", thresholds="uniform:16", keys="joint")
        assert_silent(caught.value)

    @joint
    @pytest.mark.slow
    @pytest.mark.parametrize("options", [{"executions": 2}, {"executions": 8}, {"splits": 3}], ids=str)
    def test_joint_keys_with_other_options(self, options):
        parties = sites(5)
        found = fhe_auc.federated_auc(parties, protocol="malicious", thresholds="uniform:100", keys="joint", **options)
        assert found.auc == pytest.approx(exact(parties, thresholds.uniform(100)).auc, abs=CLOSE)

    @backends
    @pytest.mark.slow
    @pytest.mark.parametrize("grid", ["uniform:100", "hybrid:1000"])
    @pytest.mark.parametrize("rarest", ["one positive", "one negative"])
    def test_one_row_in_a_million_is_enough_of_a_class(self, backend, grid, rarest, monkeypatch):
        """Where encoding in double precision errs most, and executions have the least reason to agree."""
        found = Engine(backend, parties=1, grid=grid)
        monkeypatch.setattr(malicious_count(), "count", lambda data, grid: data)
        bins = len(found.grid)
        rng = np.random.default_rng(bins)
        for _ in range(10):
            crowd = rng.multinomial(10**6 - 1, rng.dirichlet(np.ones(bins)))
            one = np.eye(bins, dtype=np.int64)[rng.integers(bins)]
            pool = counts_of(*((one, crowd) if rarest == "one positive" else (crowd, one)))
            roles = found.roles(sites(1))
            roles.parties[0]._task._data = pool
            (evaluation,) = roles.run()
            assert abs(evaluation.auc - trapezoid(pool).auc) <= error_bound(found.plan)


def malicious_count() -> types.ModuleType:
    """The module whose `count` a task calls: tests put ready counts in the place of rows."""
    import fhe_auc_protocols.blinded_auc.malicious

    return fhe_auc_protocols.blinded_auc.malicious


def counts_of(bin_positives: Any, bin_negatives: Any) -> Counts:
    return Counts(*(np.cumsum(np.asarray(side, np.int64)[::-1])[::-1] for side in (bin_positives, bin_negatives)))


# --- What is refused before anything is computed ----------------------------------------------------------------------


class TestRequests:
    @pytest.mark.parametrize(
        ("options", "shown"),
        [
            ({"release_digits": 3}, "no option 'release_digits'"),
            ({"split": 2}, "no option 'split'"),
            ({"splits": 1}, "splits must lie between 2 and 4, got 1"),
            ({"splits": 0}, "splits must lie between 2 and 4"),
            ({"splits": 5}, "splits must lie between 2 and 4, got 5"),
            ({"splits": -2}, "splits must lie between 2 and 4"),
            ({"splits": 2.5}, "splits"),
            ({"splits": "2"}, "splits"),
            ({"splits": None}, "splits"),
            ({"splits": True}, "splits"),
            ({"splits": [2]}, "splits"),
            ({"executions": 1}, "executions must be one of 2, 4, 8, got 1"),
            ({"executions": 3}, "executions must be one of 2, 4, 8, got 3"),
            ({"executions": 16}, "executions must be one of 2, 4, 8"),
            ({"executions": 0}, "executions must be one of 2, 4, 8"),
            ({"executions": "4"}, "executions"),
            ({"executions": None}, "executions"),
            ({"executions": True}, "executions"),
            ({"executions": [4]}, "executions"),
            ({"tolerance": "1e-6"}, "tolerance must be a number, got '1e-6'"),
            ({"tolerance": [1e-6]}, "tolerance must be a number"),
            ({"tolerance": 1e-6j}, "tolerance must be a number"),
            ({"tolerance": 0}, "tolerance must lie above 0"),
            ({"tolerance": -1e-6}, "tolerance must lie above 0"),
            ({"tolerance": 1e-15}, "error below 1e-15"),
            ({"tolerance": 1.1e-3}, "tolerance must lie above 0 and at most at 0.001"),
            ({"tolerance": 1}, "tolerance must lie above 0"),
            ({"tolerance": float("inf")}, "tolerance must lie above 0"),
            ({"tolerance": float("nan")}, "tolerance must lie above 0"),
            ({"tolerance": True}, "tolerance"),
            ({"tolerance": False}, "tolerance must lie above 0"),
        ],
        ids=str,
    )
    def test_options_that_make_no_sense_are_refused_before_there_are_keys(self, options, shown, monkeypatch):
        monkeypatch.setattr(ckks, "generate", None)
        with pytest.raises(InputError, match=re.escape(shown)):
            fhe_auc.federated_auc(sites(2), protocol="malicious", thresholds="uniform:16", **options)

    @pytest.mark.parametrize("options", [{"splits": np.int64(3)}, {"executions": np.int32(2)}], ids=str)
    def test_numpy_integers_are_integers(self, options):
        workload = Malicious().workload(request(sites(2), options=options))
        assert workload.splits == options.get("splits", 2)
        assert workload.classes == 2 * options.get("executions", 4)

    @backends
    def test_a_tight_tolerance_takes_a_larger_ring_or_coarser_blinding(self, backend):
        loose, tight = plan_for(backend=backend), plan_for(backend=backend, tolerance=4e-7)
        assert tight.tolerance == 4e-7
        assert disagreement(tight) <= 4e-7 < error_bound(loose)
        assert (
            tight.submission_bytes > loose.submission_bytes
            or loose.blinding_bits > tight.blinding_bits >= planner.DEFAULT_BLINDING_BITS
        )

    @backends
    @pytest.mark.parametrize("tolerance", [5e-8, 1e-9])
    def test_a_tolerance_that_honest_errors_would_exceed_is_refused(self, backend, tolerance):
        with pytest.raises(CapacityError, match=f"with an AUC error below {tolerance:g} .*lower max_rows"):
            plan_for(backend=backend, tolerance=tolerance)

    @backends
    @pytest.mark.parametrize(("splits", "grid"), [(3, 10_000), (4, 10_000)])
    def test_where_splits_cost_too_much_precision_fewer_rows_help_as_the_refusal_says(self, backend, splits, grid):
        with pytest.raises(CapacityError, match="lower max_rows"):
            plan_for(backend=backend, splits=splits, thresholds=grid)
        chosen = plan_for(backend=backend, splits=splits, thresholds=grid, max_rows=10**5)
        assert error_bound(chosen) <= planner.DEFAULT_LOOSE_PRECISION

    @backends
    def test_a_loose_tolerance_changes_nothing_but_what_is_accepted(self, backend):
        normal, loose = plan_for(backend=backend), plan_for(backend=backend, tolerance=1e-3)
        assert normal.tolerance == disagreement(normal)
        assert msgspec.structs.replace(loose, tolerance=normal.tolerance) == normal

    @pytest.mark.parametrize("keys", ["sealed", pytest.param("joint", marks=joint)])
    @pytest.mark.parametrize("least", [2, 3])
    def test_nobody_can_be_left_out(self, keys, least):
        with pytest.raises(InputError, match="min_parties does not apply"):
            Malicious().prepare(request(sites(4), min_parties=least, keys=keys))

    def test_all_parties_said_explicitly_is_all_parties(self):
        session = Malicious().prepare(request(sites(2), min_parties=2))
        assert session.manifest.min_parties == 2

    def test_the_plug_in_is_installed(self):
        from fhe_auc import registry

        assert isinstance(registry.load("malicious"), Malicious)

    @backends
    def test_without_a_party_the_round_stays_open_and_names_it(self, backend):
        parties = sites(4)
        roles = engine(backend).roles(parties)
        opening = roles.aggregator.start()
        *present, late = roles.parties
        for party in present:
            roles.aggregator.receive(party.name, party.respond(opening))
        with pytest.raises(TooFewPartiesError, match=r"3 of 4 parties submitted.*missing: 'site 3'"):
            roles.aggregator.finish_round()
        roles.aggregator.receive(late.name, late.respond(opening))
        result = roles.aggregator.finish_round()
        for party in roles.parties:
            roles.aggregator.receive(party.name, party.respond(result))
            assert party.result().auc == pytest.approx(exact(parties, np.linspace(0, 1, 16)).auc, abs=CLOSE)

    @backends
    def test_the_opening_is_answered_once(self, backend):
        roles = engine(backend).roles(sites(2))
        opening = roles.aggregator.start()
        party = roles.parties[0]
        party.respond(opening)
        with pytest.raises(fhe_auc.errors.MessageError, match="round"):
            party.respond(opening)


def workload_for(**changes: Any) -> Workload:
    return Workload(**{"thresholds": 16, "parties": 5, "classes": 8, "splits": 2, **changes})


@lru_cache(maxsize=32)
def plan_for(*, backend: str = "tenseal", tolerance: float | None = None, **changes: Any) -> AucPlan:
    return plan(workload_for(**changes), backend, flooding_bits=FLOODING_BITS, tolerance=tolerance)


def manifest_for(parties: int = 3, chosen: AucPlan | None = None, **changes: Any) -> Manifest:
    """A manifest without keys."""
    values = {
        "protocol": "malicious",
        "session": bytes(16),
        "parties": tuple(f"site {number}" for number in range(parties)),
        "grid": np.linspace(0, 1, 16).tobytes(),
        "min_parties": parties,
        "context": bytes(32),
        "plan": plan_for() if chosen is None else chosen,
    }
    return Manifest(**{**values, **changes})


def task_for(manifest: Manifest, index: int = 0, *, common_secret: bytes = bytes(32)) -> MaliciousTask:
    task = MaliciousTask(manifest, PartyData.from_arrays(manifest.parties[index], [0, 1], [0.2, 0.7]))
    task.common_secret = common_secret
    return task


class TestManifests:
    def test_one_of_the_semi_honest_protocol_is_refused(self):
        chosen = plan(Workload(thresholds=16, parties=5), "tenseal")
        with pytest.raises(InputError, match="not one for disguised counts of all parties"):
            task_for(manifest_for(chosen=chosen))

    @backends
    def test_the_roles_of_both_protocols_refuse_the_others_manifest(self, backend):
        semi = SemiHonest().prepare(request(sites(2), backend=backend))
        with pytest.raises(InputError, match="not one for disguised counts"):
            Malicious().party(semi.manifest, semi.party_material, sites(2)[0])

    def test_a_semi_honest_party_refuses_a_manifest_for_disguised_counts(self):
        data = PartyData.from_arrays("site 0", [0, 1], [0.2, 0.7])
        with pytest.raises(InputError, match="disguise"):
            SemiHonestTask(manifest_for(), data)

    @pytest.mark.parametrize("least", [2, 3])
    def test_one_that_lets_parties_be_left_out_is_refused(self, least):
        with pytest.raises(InputError, match="of all parties"):
            task_for(manifest_for(4, min_parties=least))

    @pytest.mark.parametrize("classes", [1, 2, 32])
    def test_a_plan_for_another_number_of_executions_than_the_protocol_has_is_refused(self, classes):
        """One execution agrees with itself, whatever the aggregator has done."""
        with pytest.raises(InputError):
            task_for(manifest_for(chosen=plan_for(classes=classes)))

    @pytest.mark.parametrize(
        "changes",
        [
            {"tolerance": 0.0},
            {"tolerance": -1e-7},
            {"tolerance": 2e-3},
            {"tolerance": math.nan},
            {"tolerance": math.inf},
            {"workload": workload_for(splits=4, thresholds=100)},
            {"workload": workload_for(splits=1)},
            {"workload": workload_for(classes=4)},
            {"workload": workload_for(classes=16)},
            {"workload": workload_for(thresholds=200)},
            {"flooding_bits": 29},
        ],
        ids=str,
    )
    def test_a_plan_whose_parts_do_not_fit_is_refused(self, changes):
        chosen = plan_for()
        with pytest.raises(CapacityError):
            msgspec.structs.replace(chosen, **changes)

    @pytest.mark.parametrize("splits", [-1, 0, 5, 2.5, "2", True])
    def test_a_workload_with_splits_out_of_range_is_refused(self, splits):
        with pytest.raises(CapacityError, match="splits"):
            workload_for(splits=splits)

    def test_release_digits_do_not_go_with_disguised_counts(self):
        with pytest.raises(CapacityError, match="release_digits does not go with disguised counts"):
            workload_for(release_digits=3)

    def test_a_party_larger_than_the_bound_is_refused(self):
        manifest = manifest_for(chosen=plan_for(max_rows=100))
        with pytest.raises(InputError, match="more rows than the session's max_rows"):
            MaliciousTask(manifest, PartyData.from_arrays("site 0", [0, 1] * 60, np.linspace(0, 1, 120)))

    def test_every_part_of_the_manifest_changes_all_secrets(self):
        genuine = manifest_for()
        others = [
            manifest_for(session=b"\1" * 16),
            manifest_for(parties=4),
            manifest_for(context=b"\1" * 32),
            manifest_for(grid=np.linspace(0, 2, 16).tobytes()),
            manifest_for(chosen=plan_for(tolerance=1e-5)),
        ]
        multipliers = [task_for(each).executions[0].multipliers for each in (genuine, *others)]
        assert len({complex(value) for row in multipliers for value in row}) == 6 * len(multipliers)

    def test_all_parties_derive_the_same_executions(self):
        manifest = manifest_for(4)
        for mine, theirs in zip(task_for(manifest, 0).executions, task_for(manifest, 3).executions, strict=True):
            np.testing.assert_array_equal(mine.multipliers, theirs.multipliers)
            np.testing.assert_array_equal(mine.order, theirs.order)

    def test_executions_are_as_many_as_half_the_classes_and_all_different(self):
        for classes in (4, 8, 16):
            executions = task_for(manifest_for(chosen=plan_for(classes=classes))).executions
            assert len(executions) == classes // 2
            assert len({complex(value) for each in executions for value in each.multipliers}) == 3 * classes


# --- Masks ------------------------------------------------------------------------------------------------------------

SHAPE = Polynomials(256, (1_000_003, 2**40 + 15, 2**55 - 55, 2**62 + 1))
"""Moduli just above and just below powers of two, where drawing without rejection would show."""


def total(masks: Sequence[Words], signs: Sequence[int] | None = None) -> list[list[int]]:
    """The sum in Python's integers, polynomial by polynomial."""
    weights = [1] * len(masks) if signs is None else signs
    return [
        [
            sum(weight * int(value) for weight, value in zip(weights, column, strict=True)) % modulus
            for column in zip(*(mask[row] for mask in masks), strict=True)
        ]
        for row, modulus in enumerate(SHAPE.moduli)
    ]


def looks_uniform(rows: Any) -> bool:
    """Kolmogorov-Smirnov modulo each prime, and of all modulo 251 once reduced; wrong with 2·FALSE_ALARM a row."""
    fractions = [
        (np.array([int(value) for value in row], object) / modulus).astype(float)
        for row, modulus in zip(rows, SHAPE.moduli, strict=True)
    ]
    return all(kstest(row, uniform.cdf).pvalue > FALSE_ALARM for row in fractions)


@lru_cache(maxsize=64)
def masks_of(parties: int, *, session: bytes = bytes(16), secret: bytes = bytes(32)) -> list[list[Words]]:
    """All masks of a session, by party and block."""
    chosen = plan_for(classes=16, thresholds=100)
    assert chosen.packing.blocks > 1
    manifest = manifest_for(
        parties,
        msgspec.structs.replace(chosen, workload=msgspec.structs.replace(chosen.workload, parties=max(parties, 1))),
        grid=thresholds.uniform(100).tobytes(),
        session=session,
    )
    return [task_for(manifest, index, common_secret=secret).masks(SHAPE) for index in range(parties)]


class TestMasks:
    @pytest.mark.parametrize("parties", [1, 2, 3, 7])
    def test_over_all_parties_they_add_up_to_zero_exactly(self, parties):
        for block in zip(*masks_of(parties), strict=True):
            assert not any(map(any, total(block)))

    @pytest.mark.parametrize("parties", [2, 3, 7])
    def test_each_is_uniform_modulo_each_prime_and_below_it(self, parties):
        for mask in itertools.chain(*masks_of(parties)):
            assert all(int(row.max()) < modulus for row, modulus in zip(mask, SHAPE.moduli, strict=True))
            assert looks_uniform(mask)

    def test_for_a_single_party_they_are_zero(self):
        assert not any(mask.any() for mask in masks_of(1)[0])

    @settings(max_examples=40, deadline=None)
    @given(st.integers(2, 7).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))))
    def test_over_any_proper_subset_they_are_uniform(self, drawn):
        parties, subset = drawn
        found = masks_of(parties)
        for block in range(len(found[0])):
            summed = total([found[index][block] for index in subset])
            if len(subset) == parties:
                assert not any(map(any, summed))
            else:
                assert looks_uniform(summed)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(2, 6).flatmap(lambda n: st.lists(st.integers(-2, 2), min_size=n, max_size=n)))
    def test_they_vanish_only_when_all_are_counted_equally_often(self, times):
        """Counted twice, left out, or subtracted: any other combination is uniform."""
        found = masks_of(len(times))
        summed = total([masks[0] for masks in found], times)
        if len(set(times)) == 1:
            assert not any(map(any, summed))
        else:
            # Twice a uniform number is uniform too: all moduli here are odd.
            assert looks_uniform(summed)

    def test_blocks_have_masks_of_their_own(self):
        for party in masks_of(3):
            for one, other in itertools.combinations(party, 2):
                assert looks_uniform(total([one, other], [1, -1]))

    def test_a_mask_of_one_party_in_the_place_of_another_leaves_a_mask(self):
        found = masks_of(3)
        assert looks_uniform(total([found[0][0], found[0][0], found[2][0]]))
        assert looks_uniform(total([found[0][1], found[1][0], found[2][0]]))

    @pytest.mark.parametrize("changes", [{"session": b"\1" * 16}, {"secret": b"\1" * 32}], ids=["session", "secret"])
    def test_masks_of_another_session_do_not_vanish_with_ours(self, changes):
        ours, theirs = masks_of(3), masks_of(3, **changes)
        assert looks_uniform(total([ours[0][0], ours[1][0], theirs[2][0]]))
        assert looks_uniform(total([ours[0][0], theirs[0][0]], [1, -1]))

    @backends
    def test_without_one_submission_nothing_can_be_decrypted(self, backend):
        """Real ciphertexts: one party's alone, or all but one, decrypt to noise as large as the modulus."""
        found = engine(backend)
        roles = found.roles(sites(3))
        opening = roles.aggregator.start()
        payloads = [
            decode(Message.from_bytes(party.respond(opening), limit=2**24).payload, tuple[bytes, ...], "")
            for party in roles.parties
        ]

        def slots(counted: Sequence[tuple[bytes, ...]]) -> ckks.Slots:
            """Sums, times an encryption of ones, so that they are results that can be decrypted."""
            ones = found.keys.public.encrypt(np.ones(found.plan.packing.slots, complex))
            ciphertexts = [found.keys.public.load_submission(block) for (block,) in counted]
            for ciphertext in ciphertexts[1:]:
                found.keys.public.add_in_place(ciphertexts[0], ciphertext)
            product = found.keys.public.multiply(ciphertexts[0], ones)
            return found.keys.secret.decrypt(found.keys.public.dump_result(product))

        whole = np.abs(slots(payloads)).max()
        assert whole < 10 * 2 * 400  # 2P times weights
        for counted in (payloads[:1], payloads[:2], payloads[1:], [*payloads, payloads[0]]):
            assert np.abs(slots(counted)).min() > 1e6 * whole


# --- Acceptance -------------------------------------------------------------------------------------------------------


def execution_with(multipliers: Any) -> Execution:
    """An execution of which recovery sees all that it looks at."""
    nothing = np.empty(0)
    return Execution(np.asarray(multipliers, complex), nothing, nothing, nothing, nothing, nothing, nothing)


def drawn_executions(number: int, seed: int = 0) -> list[Execution]:
    source = Stream(seed.to_bytes(32, "big"), bytes(32), "test")
    return [execution_with(disguise._multipliers(source)) for _ in range(number)]


def totals_of(value: complex, den: float, executions: Sequence[Execution], scale: float) -> ckks.Slots:
    """Class totals without noise, of an AUC and resolution `value`, blinded by `scale`, which includes the gain."""
    found = []
    for each in executions:
        main, extra, totals = each.products
        found += [scale * den * (main * value + extra), scale * den * totals]
    return np.array(found, complex)


def worst_multipliers() -> np.ndarray:
    """Multipliers that amplify as much as is allowed: R0R1 as small as it may be, for R2R3 at 1 and R4R5 at 1."""
    # (1 + (x + 1)/1)/x = 10 at x = 2/9
    worst = np.array([2 / 9 / 0.5, 0.5, 1, 1, 1, 1])
    assert amplification(worst) == pytest.approx(MAX_AMPLIFICATION)
    return worst


class TestAcceptance:
    CHOSEN = plan_for()

    @property
    def scale(self) -> float:
        return self.CHOSEN.least_multiplier * self.CHOSEN.packing.gain

    def accepted(self, totals: ckks.Slots, executions: Sequence[Execution]) -> Recovered:
        return accept(totals, self.CHOSEN, executions)

    def refused(self, totals: ckks.Slots, executions: Sequence[Execution], why: str) -> None:
        with pytest.raises(VerificationError, match=why) as caught:
            accept(totals, self.CHOSEN, executions)
        assert_silent(caught.value)

    @settings(max_examples=200, deadline=None)
    @given(
        st.integers(0, 10**6),
        st.integers(1, 10**5),
        st.integers(1, 10**5),
        st.floats(0, 1),
        st.floats(0, 16),
        st.sampled_from([2, 4, 8]),
        st.integers(0, 1000),
    )
    def test_what_is_recovered_from_totals_without_noise_is_the_exact_fraction(
        self, part, positives, negatives, tied, multiplier_bits, number, seed
    ):
        den = 2 * positives * negatives
        num = min(part, den)
        tie = int(tied * min(num, den - num) / 2)
        executions = drawn_executions(number, seed)
        found = self.accepted(
            totals_of(complex(num / den, tie / den), den, executions, self.scale * 2**multiplier_bits), executions
        )
        assert found.auc == pytest.approx(num / den, abs=1e-12)
        assert found.resolution == pytest.approx(tie / den, abs=1e-12)

    @pytest.mark.parametrize("multipliers", ["drawn", "worst"])
    @pytest.mark.parametrize("number", [2, 4, 8])
    @pytest.mark.parametrize("backend", ["openfhe", "tenseal"])
    def test_honest_totals_are_accepted_in_every_one_of_2000_draws(self, number, multipliers, backend):
        """24,000 draws in all, at the least rows and the smallest multiplier, with all the noise that the plan has.

        The plan's bound is seven standard deviations of noise and all of the encoding error. Each total gets Gaussian
        noise of that standard deviation, and an encoding error uniform up to its bound.
        """
        chosen = plan_for(backend=backend, thresholds=100, parties=100, classes=2 * number)
        rng = np.random.default_rng(number)
        source = Stream(number.to_bytes(32, "big"), bytes(32), "honest")
        den = 2.0 * (chosen.workload.min_rows - 1)
        scale = chosen.least_multiplier * chosen.packing.gain
        flooding = chosen.noise_deviation / math.sqrt(chosen.packing.slots / chosen.packing.classes)
        fresh = fresh_noise(chosen) / 7 * scale * den
        encoding = encoding_error(chosen) * scale * den
        worst = execution_with(worst_multipliers())
        largest = 0.0
        for _ in range(2000):
            if multipliers == "worst":
                executions = [worst] * number
            else:
                executions = [execution_with(disguise._multipliers(source)) for _ in range(number)]
            auc = rng.choice([0, 1, rng.random()])
            value = complex(auc, min(auc, 1 - auc) * rng.random())
            shape = 2 * number
            noise = flooding * complex_normal(rng, shape) + fresh * complex_normal(rng, shape)
            noise += encoding * rng.uniform(-1, 1, shape)
            totals = totals_of(value, den, executions, scale) + noise
            found = accept(totals, chosen, executions)
            largest = max(largest, abs(found.auc - auc), abs(found.resolution - value.imag))
        assert largest <= error_bound(chosen)
        assert largest > error_bound(chosen) / 100  # something was added

    @pytest.mark.parametrize("backend", ["openfhe", "tenseal"])
    def test_encoding_errors_of_either_sign_are_accepted_on_the_larger_ring(self, backend):
        """There they are all of the plan's bound. They are no noise: two of them may be as far apart as their sum."""
        chosen = plan_for(backend=backend, thresholds=4000, parties=100)
        rng = np.random.default_rng(1)
        source = Stream(bytes(32), bytes(32), "encoding")
        scale = chosen.least_multiplier * chosen.packing.gain
        den = 2.0 * (chosen.workload.min_rows - 1)
        error = encoding_error(chosen) * scale * den
        assert 10 * encoding_error(chosen) > 0.99 * error_bound(chosen)
        for _ in range(1000):
            executions = [execution_with(disguise._multipliers(source)) for _ in range(4)]
            totals = totals_of(rng.choice([0, 1, rng.random()]), den, executions, scale)
            accept(totals + error * rng.choice([-1, 1], 8), chosen, executions)

    @pytest.mark.parametrize("part", [1, -1, 1j, -1j], ids=["AUC up", "AUC down", "resolution up", "resolution down"])
    @pytest.mark.parametrize("number", [2, 4, 8])
    def test_executions_may_differ_by_as_much_as_is_allowed_and_no_more(self, part, number):
        executions = drawn_executions(number, number)
        allowed = [self.CHOSEN.tolerance * amplification(each.multipliers) / 10 for each in executions]
        for index, (execution, own) in enumerate(zip(executions, allowed, strict=True)):
            limit = min(math.hypot(own, other) for j, other in enumerate(allowed) if j != index)
            for factor in (0.999, 1.001):
                totals = totals_of(0.6 + 0.1j, 5000, executions, self.scale)
                totals[2 * index] += factor * limit * part * self.scale * 5000 * execution.products[0]
                if factor < 1:
                    found = self.accepted(totals, executions)
                    assert abs(found.auc - 0.6) <= self.CHOSEN.tolerance
                else:
                    self.refused(totals, executions, "the executions disagree")

    def test_what_is_allowed_never_exceeds_the_tolerance_times_the_root_of_two(self):
        executions = [execution_with(worst_multipliers())] * 2
        for factor, passes in ((1.41, True), (1.42, False)):
            totals = totals_of(0.5, 5000, executions, self.scale)
            totals[0] += factor * self.CHOSEN.tolerance * self.scale * 5000 * executions[0].products[0]
            if passes:
                self.accepted(totals, executions)
            else:
                self.refused(totals, executions, "the executions disagree")

    def test_one_execution_that_is_off_is_refused_though_all_others_agree(self):
        for index in range(8):
            executions = drawn_executions(8)
            totals = totals_of(0.6, 5000, executions, self.scale)
            totals[2 * index] *= 1 + 1e-4
            self.refused(totals, executions, "the executions disagree")

    @pytest.mark.parametrize(
        ("value", "expected"),
        [(1 + 0.9, 1.0), (0 - 0.9, 0.0)],
        ids=["just above 1", "just below 0"],
    )
    def test_within_the_tolerance_of_its_ends_the_auc_is_clipped(self, value, expected):
        executions = drawn_executions(4)
        beyond = expected + 0.9 * self.CHOSEN.tolerance * (1 if expected else -1)
        assert self.accepted(totals_of(beyond, 5000, executions, self.scale), executions).auc == expected

    @pytest.mark.parametrize("value", ["1 + 1.1τ", "-1.1τ", "2", "-3"])
    def test_an_auc_that_is_none_is_refused(self, value):
        tau = self.CHOSEN.tolerance
        number = {"1 + 1.1τ": 1 + 1.1 * tau, "-1.1τ": -1.1 * tau, "2": 2.0, "-3": -3.0}[value]
        executions = drawn_executions(4)
        self.refused(totals_of(number, 5000, executions, self.scale), executions, "the AUC is outside its range")

    def test_a_negative_resolution_within_the_tolerance_is_zero(self):
        executions = drawn_executions(4)
        totals = totals_of(complex(0.7, -0.5 * self.CHOSEN.tolerance), 5000, executions, self.scale)
        assert self.accepted(totals, executions).resolution == 0

    @pytest.mark.parametrize("size", [0.0, 1e-30, 0.1, 0.49])
    @pytest.mark.parametrize("which", [0, 1, 3])
    def test_a_denominator_below_half_of_the_least_there_is_is_refused(self, size, which):
        """Of one execution or all; one positive and one negative row give 2 at the smallest multiplier."""
        executions = drawn_executions(4)
        totals = totals_of(0.6, 2, executions, self.scale)
        totals[2 * which : 2 * which + 2] *= size
        self.refused(totals, executions, "a denominator is near zero")
        self.refused(totals_of(0.6, 2 * size, executions, self.scale), executions, "a denominator is near zero")

    def test_one_pair_of_rows_at_the_smallest_multiplier_is_not_near_zero(self):
        for seed in range(50):
            executions = drawn_executions(4, seed)
            for den in (2, 1.01):
                assert self.accepted(totals_of(1, den, executions, self.scale), executions).auc == pytest.approx(1)
            self.refused(totals_of(1, 0.99, executions, self.scale), executions, "a denominator is near zero")

    def test_not_even_the_range_of_an_auc_is_in_the_text(self):
        executions = drawn_executions(4)
        with pytest.raises(VerificationError) as caught:
            self.accepted(totals_of(2.0, 5000, executions, self.scale), executions)
        assert not re.search(r"\d", str(caught.value))

    @pytest.mark.parametrize("position", range(8))
    @pytest.mark.parametrize("value", [math.nan, complex(0, math.nan), complex(math.nan, math.nan)], ids=str)
    def test_no_total_that_is_no_number_is_accepted(self, position, value):
        executions = drawn_executions(4)
        totals = totals_of(0.6, 5000, executions, self.scale)
        totals[position] = value
        with np.errstate(invalid="ignore"):  # `recover` lets none through; here the comparisons refuse it
            self.refused(totals, executions, "disagree|near zero|finite")


def complex_normal(rng: np.random.Generator, size: int) -> ckks.Slots:
    """Independent complex Gaussians of E|z|² = 1."""
    return (rng.standard_normal(size) + 1j * rng.standard_normal(size)) / math.sqrt(2)


class TestSlots:
    CHOSEN = plan_for()

    def slots(self, *, noise: bool = True, seed: int = 0) -> tuple[ckks.Slots, list[Execution]]:
        executions = drawn_executions(4)
        totals = totals_of(0.6 + 0.1j, 5000, executions, self.CHOSEN.least_multiplier * self.CHOSEN.packing.gain)
        found = self.CHOSEN.packing.class_vector(totals)
        if noise:
            rng = np.random.default_rng(seed)
            found = found + self.CHOSEN.noise_deviation * complex_normal(rng, len(found))
        return found, executions

    def refused(self, slots: ckks.Slots, executions: Sequence[Execution], why: str) -> None:
        with pytest.raises(VerificationError, match=why) as caught:
            recover(slots, self.CHOSEN, executions)
        assert_silent(caught.value)

    def test_flooded_slots_are_accepted_in_every_one_of_1000_draws(self):
        for seed in range(1000):
            slots, executions = self.slots(seed=seed)
            found = recover(slots, self.CHOSEN, executions)
            assert found.auc == pytest.approx(0.6, abs=error_bound(self.CHOSEN))
            assert found.resolution == pytest.approx(0.1, abs=error_bound(self.CHOSEN))

    @pytest.mark.parametrize("position", [0, 1, 7, 8, 2049, 4095])
    @pytest.mark.parametrize("part", [1, -1, 1j])
    def test_a_single_slot_that_differs_from_its_class_is_refused(self, position, part):
        slots, executions = self.slots(noise=False)
        size = np.abs(slots).max()
        limit = 10 * self.CHOSEN.noise_deviation + 2.0**-40 * size
        slots[position] += 0.99 * limit * part
        recover(slots, self.CHOSEN, executions)
        slots[position] += 0.03 * limit * part
        self.refused(slots, executions, "the slots of a class differ")

    def test_partial_sums_in_the_slots_are_refused(self):
        """Half of the slots with half of the total: what rotations that stop early leave."""
        slots, executions = self.slots()
        slots.reshape(-1, 8)[::2] /= 2
        self.refused(slots, executions, "the slots of a class differ")

    @pytest.mark.parametrize(
        "value", [math.nan, math.inf, -math.inf, complex(0, math.inf), complex(1, math.nan)], ids=str
    )
    @pytest.mark.parametrize("whole", [False, True])
    def test_values_that_are_not_finite_are_refused(self, value, whole):
        slots, executions = self.slots()
        slots[:: 1 if whole else 4096] = value
        self.refused(slots, executions, "values are not finite")

    def test_slots_that_are_all_zero_are_refused(self):
        slots, executions = self.slots()
        self.refused(0 * slots, executions, "a denominator is near zero")

    def test_random_slots_are_refused(self):
        rng = np.random.default_rng(0)
        _, executions = self.slots()
        for size in (1e-3, 1.0, 1e9, 1e15, 1e100):
            self.refused(size * complex_normal(rng, 4096), executions, "slots of a class differ|near zero")

    def test_the_other_label_for_classes_is_refused(self):
        """Executions' classes rotated by one."""
        slots, executions = self.slots(noise=False)
        self.refused(np.roll(slots, 1), executions, "the executions disagree")
        self.refused(np.roll(slots, 2), executions, "the executions disagree")

    def test_with_other_secrets_nothing_is_accepted(self):
        """Fixed secrets; by chance four executions would agree in 1 of 10^15 cases."""
        slots, _ = self.slots()
        for seed in range(1, 200):
            self.refused(slots, drawn_executions(4, seed), "the executions disagree")


# --- The common secret stays with the parties -------------------------------------------------------------------------


def needles(manifest: Manifest, common_secret: bytes) -> dict[str, bytes]:
    """The common secret, and every key derived from it."""
    found = {"the common secret": common_secret}
    for number in range(manifest.plan.workload.classes // 2):
        found[f"key of execution {number}"] = Stream(common_secret, manifest.digest, "execution", number).key
    for index, block in itertools.product(range(len(manifest.parties)), range(manifest.plan.packing.blocks)):
        found[f"key of mask {index}, {block}"] = Stream(common_secret, manifest.digest, "mask", index, block).key
    return found


def forms(needle: bytes) -> list[bytes]:
    """Halves of it (in case a copy is torn), also as text."""
    return [needle[:16], needle[16:], needle[:15].hex().encode(), base64.b64encode(needle[:15]), needle[::-1][:16]]


_OUTSIDE = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, types.FrameType, types.CodeType)


def held_by(root: Any) -> Iterator[bytes]:
    """Everything that the object holds, recursively, as bytes; modules, classes and code are not its own."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, _OUTSIDE):
            continue
        seen.add(id(item))
        if isinstance(item, (bytes, bytearray)):
            yield bytes(item)
        elif isinstance(item, str):
            yield item.encode(errors="surrogatepass")
        elif isinstance(item, np.ndarray):
            yield item.tobytes()
        elif isinstance(item, int):
            yield item.to_bytes((item.bit_length() + 8) // 8, "little", signed=True)
        elif hasattr(item, "to_bytes"):
            yield item.to_bytes()
        waiting.extend(gc.get_referents(item))


_AGGREGATOR = """
import re, sys
from fhe_auc.manifest import Manifest
from fhe_auc.serialise import decode
from fhe_auc_protocols.blinded_auc.malicious import Malicious

shape = tuple[bytes, bytes, list[str], list[bytes], str]
manifest, material, names, submissions, image = decode(sys.stdin.buffer.read(), shape, "")
role = Malicious().aggregator(Manifest.from_bytes(manifest), material)
role.start()
for name, submission in zip(names, submissions, strict=True):
    role.receive(name, submission)
result = role.finish_round()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory, open(image, "wb") as out:
    for line in maps.readlines():
        start, end, access = re.match(r"(\\w+)-(\\w+) (\\S+)", line).groups()
        if "w" not in access or "[v" in line:
            continue
        try:
            memory.seek(int(start, 16))
            out.write(memory.read(int(end, 16) - int(start, 16)))
        except (OSError, ValueError, OverflowError):
            continue
print(len(result))
"""


def played(plugin: Malicious, session: Session, delivery: Delivery, parties: list[PartyData]) -> tuple:
    """Play a session; return the aggregator, the party roles, and every message of either side."""
    aggregator = plugin.aggregator(session.manifest, delivery.aggregator)
    roles = [plugin.party(session.manifest, delivery.parties[data.name], data) for data in parties]
    messages = []
    message = aggregator.start()
    while message is not None:
        messages.append(message)
        for role in roles:
            messages.append(role.respond(message))
            aggregator.receive(role.name, messages[-1])
        message = aggregator.finish_round()
    return aggregator, roles, messages


class TestTheSecretStaysWithTheParties:
    @backends
    def test_no_message_and_nothing_the_aggregator_holds_has_it(self, backend):
        parties = sites(3)
        plugin = Malicious()
        session = plugin.prepare(request(parties, backend=backend))
        delivery = plugin.local_delivery(session)
        aggregator, roles, messages = played(plugin, session, delivery, parties)
        secret = decode(session.party_material, PartySecrets, "").common_secret
        assert {role._task.common_secret for role in roles} == {secret}

        places = [*messages, session.manifest.to_bytes(), session.aggregator_material, delivery.aggregator]
        places += held_by(aggregator)
        assert any(session.manifest.digest in place for place in places)  # the search finds what is there
        assert any(secret in place for place in held_by(roles[0]))
        assert sum(map(len, places)) > 10**6
        for name, needle in needles(session.manifest, secret).items():
            for form in forms(needle):
                assert not any(form in place for place in places), name

    @backends
    def test_the_memory_of_the_aggregators_process_does_not_have_it(self, backend, run_child, tmp_path):
        parties = sites(3)
        found = engine(backend)
        manifest, secret = found.manifest(parties), secrets.token_bytes(32)
        roles = Roles(manifest, found.keys, parties, secret)
        opening = roles.aggregator.start()
        submissions = [party.respond(opening) for party in roles.parties]
        image = tmp_path / "image"
        names = [party.name for party in roles.parties]
        material = found.session.aggregator_material
        assert run_child(_AGGREGATOR, data=encode((manifest.to_bytes(), material, names, submissions, str(image))))
        with open(image, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            # What it has is found: its session, and the start of a submission.
            assert memory.find(manifest.session) >= 0
            assert memory.find(manifest.digest) >= 0
            for name, needle in needles(manifest, secret).items():
                assert memory.find(needle[:16]) < 0, name
                assert memory.find(needle[16:]) < 0, name
        Path(image).unlink()

    @joint
    @pytest.mark.slow
    def test_with_joint_keys_the_parties_agree_on_it_and_no_message_has_it(self):
        parties = sites(3)
        plugin = Malicious()
        session = plugin.prepare(request(parties, keys="joint"))
        aggregator, roles, messages = played(plugin, session, plugin.local_delivery(session), parties)
        (secret,) = {role._task.common_secret for role in roles}
        places = [*messages, *held_by(aggregator)]
        assert any(session.manifest.digest in place for place in places)
        wanted = needles(session.manifest, secret)
        wanted.update({f"part of {role.name}": role._secret_part for role in roles})
        for name, needle in wanted.items():
            for form in forms(needle):
                assert not any(form in place for place in places), name


# --- Honest sessions, many --------------------------------------------------------------------------------------------


def random_split(rng: np.random.Generator, name: str, number: int) -> list[PartyData]:
    """Rows of a bundled set, all or some (at least 100, both labels), dealt to parties in one of four ways."""
    y_true, y_score = bundled(name)
    while True:
        size = len(y_true) if rng.random() < 0.3 else int(10 ** rng.uniform(2, math.log10(len(y_true))))
        rows = rng.permutation(len(y_true))[: max(size, number)]
        if 0 < y_true[rows].sum() < len(rows):
            break
    way = rng.integers(4)
    if way == 1:
        rows = rows[np.argsort(y_score[rows], kind="stable")]
    elif way == 2:
        rows = rows[np.argsort(y_true[rows], kind="stable")]  # parties of one class
    cuts = np.sort(rng.choice(np.arange(1, len(rows)), number - 1, replace=False))
    if way == 3:
        cuts = np.arange(1, number)  # one row each, and one party with nearly everything
    return [
        PartyData.from_arrays(f"site {index}", y_true[piece], y_score[piece])
        for index, piece in enumerate(np.split(rows, cuts))
    ]


@lru_cache(maxsize=2)
def bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    parties = datasets.load(name)
    return np.concatenate([data.y_true for data in parties]), np.concatenate([data.y_score for data in parties])


CONFIGURATIONS = [
    ("uniform:100", 2, 4),
    ("uniform:16", 2, 4),
    ("uniform:50", 2, 2),
    ("uniform:100", 3, 4),
    ("uniform:31", 4, 2),
    ("uniform:64", 2, 8),
    ("uniform:20", 3, 8),
    ("uniform:40", 4, 4),
]
"""Thresholds, splits and executions; all of one or two ciphertexts at the smaller ring."""
SESSIONS = 125
LARGE_SESSIONS = 3


@pytest.mark.slow
@backends
@pytest.mark.parametrize(("grid", "splits", "executions"), CONFIGURATIONS)
def test_honest_sessions_are_accepted_every_time(backend, grid, splits, executions):
    """2,000 sessions of 2 to 10 parties and 48 of 100, over both bundled sets, on both backends.

    Two backends times eight configurations times 125 sessions, all on the messages and roles of real sessions. The
    sessions of one configuration share a context for 100 parties, made once: session id, and so all disguises and
    masks, and the common secret are fresh in each. Splits are random (independent, sorted by score, by label, one row
    each), of all rows or as few as 100. One refusal fails the test.
    """
    options = {"splits": splits, "executions": executions}
    # As many rows as the bundled sets have; with 10^6, four splits take the larger ring.
    found = Engine(backend, parties=100, grid=grid, max_rows=10**6 if splits == 2 else 10**5, options=options)
    rng = np.random.default_rng(CONFIGURATIONS.index((grid, splits, executions)))
    for session in range(SESSIONS + LARGE_SESSIONS):
        number = int(rng.integers(2, 11)) if session < SESSIONS else 100
        parties = random_split(rng, datasets.NAMES[session % 2], number)
        truth = exact(parties, found.grid)
        for evaluation in found.run(parties):
            assert evaluation.verified
            assert evaluation.auc == pytest.approx(truth.auc, abs=CLOSE)
            assert evaluation.resolution == pytest.approx(truth.resolution, abs=CLOSE)


@backends
def test_a_few_honest_sessions_of_the_bundled_sets_are_accepted(backend):
    found = engine(backend)
    rng = np.random.default_rng(5)
    for session in range(12):
        parties = random_split(rng, datasets.NAMES[session % 2], int(rng.integers(2, 6)))
        truth = exact(parties, found.grid)
        for evaluation in found.run(parties):
            assert evaluation.auc == pytest.approx(truth.auc, abs=CLOSE)
            assert evaluation.resolution == pytest.approx(truth.resolution, abs=CLOSE)


# --- Cost -------------------------------------------------------------------------------------------------------------


class Priced:
    """100 parties' submissions at uniform:100, of one protocol."""

    def __init__(self, protocol: Malicious | SemiHonest, task: Callable[..., Any], backend: str) -> None:
        rng = np.random.default_rng(0)
        self.parties = [PartyData.from_arrays(f"site {i}", rng.random(100) < 0.3, rng.random(100)) for i in range(100)]
        session: Session = protocol.prepare(request(self.parties, "uniform:100", backend=backend))
        material = decode(session.party_material, PartySecrets, "")
        self.public, secret = ckks.load_public(session.aggregator_material), ckks.load_secret(material.context)
        self.plan = session.manifest.plan
        opening = CkksAggregator(session.manifest, self.public).start()
        roles = [
            CkksParty(session.manifest, secret, task(session.manifest, data), common_secret=material.common_secret)
            for data in self.parties
        ]
        messages = [role.respond(opening) for role in roles]
        self.upload = max(map(len, messages))
        self.submissions = [
            decode(Message.from_bytes(message, limit=2**24).payload, tuple[bytes, ...], "") for message in messages
        ]

    def seconds(self) -> float:
        """CPU time of loading, adding and the circuit."""
        started = time.process_time()
        aggregation = BlindedTotals(self.public, self.plan)
        for submission in self.submissions:
            aggregation.add(submission)
        aggregation.result()
        return time.process_time() - started


@backends
def test_at_a_hundred_parties_it_costs_hardly_more_than_the_semi_honest_protocol(backend, record_property):
    """Upload at most 1.1 times, aggregator time at most 1.5 times; medians of alternating runs in this process."""
    plain, disguised = Priced(SemiHonest(), SemiHonestTask, backend), Priced(Malicious(), MaliciousTask, backend)
    assert disguised.plan.workload.splits == 2
    assert disguised.plan.workload.classes == 8
    pairs = [(plain.seconds(), disguised.seconds()) for _ in range(7)]
    plain_time, disguised_time = (statistics.median(side) for side in zip(*pairs, strict=True))
    record_property("upload", disguised.upload / plain.upload)
    record_property("time", disguised_time / plain_time)
    print(f"{backend}: upload {disguised.upload / plain.upload:.4f}, time {disguised_time / plain_time:.3f}")
    assert disguised.upload <= 1.1 * plain.upload
    assert disguised_time <= 1.5 * plain_time


def test_no_refusal_is_anything_but_an_evaluation_error():
    assert issubclass(VerificationError, EvaluationError)
