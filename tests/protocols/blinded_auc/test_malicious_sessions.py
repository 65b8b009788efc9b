"""The protocol for an aggregator that may lie, as honest sessions see it: right, accepted, and silent where it refuses.

Attacks are tested elsewhere.
"""

import math
import statistics
import time
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, VerificationError
from fhe_auc.base.serialise import decode
from fhe_auc.metrics.trapezoid import Trapezoid, trapezoid
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import Message
from fhe_auc_keys.bundles.session_keys import PartySecrets
from fhe_auc_keys.roles.sealed_roles import computing_aggregator, decrypting_party
from fhe_auc_protocols.blinded_auc import ckks_parameter_choice, malicious
from fhe_auc_protocols.blinded_auc.error_bound import error_bound
from fhe_auc_protocols.blinded_auc.malicious import Malicious
from fhe_auc_protocols.blinded_auc.protocol import BlindedAuc
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from tests.support.blinded_auc import counts_of, encrypted_result
from tests.support.chosen import federated_auc
from tests.support.malicious_sessions import (
    CLOSE,
    Engine,
    assert_silent,
    backends,
    engine,
    exact,
    plan_for,
    request,
    sites,
)
from tests.support.pinned_randomness import LARGEST_MULTIPLIER, SMALLEST_MULTIPLIER
from tests.support.pooled import pooled

slow = partial(pytest.param, marks=pytest.mark.slow)


def assert_close(found: Evaluation, expected: Evaluation | Trapezoid) -> None:
    assert found.auc == pytest.approx(expected.auc, abs=CLOSE)
    assert found.binning_error == pytest.approx(expected.binning_error, abs=CLOSE)


@pytest.mark.backends("one")
class TestHonestSessions:
    @pytest.mark.backends("all")
    @backends
    @pytest.mark.parametrize(("number", "grid"), [slow(2, "uniform:16"), (5, "uniform:100")])
    def test_the_auc_is_the_semi_honest_and_the_exact_one(self, backend, number, grid):
        parties = sites(number, seed=number)
        found = federated_auc(parties, protocol="malicious", thresholds=grid, backend=backend)
        plain = federated_auc(parties, protocol="semi-honest", thresholds=grid, backend=backend)
        truth = exact(parties, thresholds.resolve(grid))
        assert_close(found, truth)
        assert_close(found, plain)
        assert abs(found.auc - truth.auc) <= found.numerical_error
        from sklearn.metrics import roc_auc_score

        rows = pooled(parties)
        assert abs(found.auc - roc_auc_score(rows.y_true, rows.y_score)) <= found.binning_error + CLOSE

    @backends
    def test_parties_learn_that_it_was_verified_and_by_which_settings(self, backend):
        options = {"splits": 3, "executions": 2, "tolerance": 1e-5}
        found = federated_auc(sites(4), protocol="malicious", thresholds="uniform:16", backend=backend, **options)
        assert dict(found.settings) == found.as_dict()["settings"] == {**options, "signed": False}
        assert (found.protocol, found.backend, found.parties, found.keys) == ("malicious", backend, 4, "sealed")
        assert (found.verified, found.thresholds, found.rounds, found.security_bits) == (True, 16, 3, 128)
        assert issubclass(VerificationError, EvaluationError)

    def test_without_options_two_splits_and_four_executions_agree_within_the_planned_precision(self):
        found = federated_auc(sites(2), protocol="malicious", thresholds="uniform:16")
        tolerance = found.settings["tolerance"]
        assert dict(found.settings) == {"executions": 4, "splits": 2, "tolerance": tolerance, "signed": False}
        assert 0 < found.numerical_error < tolerance < math.sqrt(2) * found.numerical_error
        assert found.numerical_error <= ckks_parameter_choice.DEFAULT_LOOSE_PRECISION

    @backends
    @pytest.mark.parametrize(
        ("executions", "splits", "grid"),
        [
            *((8, 2, "uniform:100"), (2, 4, "uniform:16"), slow(2, 2, "uniform:16"), slow(4, 3, "uniform:16")),
            *(slow(2, 3, "uniform:100"), slow(8, 3, "uniform:100"), slow(4, 4, "uniform:100")),
            slow(8, 4, "uniform:31"),
        ],
    )
    def test_any_number_of_executions_and_splits_gives_the_same_auc(self, backend, executions, splits, grid):
        options = {"executions": executions, "splits": splits}
        found = Engine(backend, parties=3, grid=grid, max_rows=10**5, options=options)
        assert found.plan.workload.classes == 2 * executions
        parties = sites(3, seed=executions + splits)
        truth = exact(parties, found.grid)
        for evaluation in found.run(parties):
            assert dict(evaluation.settings) == {**options, "tolerance": found.plan.tolerance, "signed": False}
            assert_close(evaluation, truth)

    @pytest.mark.parametrize("backend", ["openfhe", "tenseal"])
    def test_eight_executions_at_a_hundred_thresholds_take_several_ciphertexts(self, backend):
        """So that the test above runs with several blocks, each with a mask of its own."""
        assert plan_for(backend=backend, thresholds=100, classes=16, max_rows=10**5).packing.blocks > 1

    @backends
    def test_parties_of_one_class_or_alone_are_welcome_and_every_party_learns_the_same(self, backend):
        rng = np.random.default_rng(3)
        parties = [
            PartyData.from_arrays("site 0", [1] * 40, rng.uniform(0.3, 1, 40)),
            PartyData.from_arrays("site 1", [0] * 70, rng.uniform(0, 0.8, 70)),
            PartyData.from_arrays("site 2", [0], [0.99]),
        ]
        truth = exact(parties, np.linspace(0, 1, 16))
        for evaluation in engine(backend).run(parties):
            assert evaluation.auc == pytest.approx(truth.auc, abs=CLOSE)
        (evaluation,) = engine(backend).run(sites(1))
        assert evaluation.auc == pytest.approx(exact(sites(1), np.linspace(0, 1, 16)).auc, abs=CLOSE)
        assert any("only one party" in warning for warning in evaluation.warnings)
        evaluations = engine(backend).run(sites(5))
        assert len({(each.auc, each.binning_error) for each in evaluations}) == 1

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
            assert evaluation.binning_error == pytest.approx(0.5 if auc == 0.5 else 0, abs=CLOSE)
            assert evaluation.binning_error >= 0

    @pytest.mark.parametrize(("tolerance", "told"), [(None, 0), (6e-7, 0), (1e-5, 1), (1e-3, 1)])
    def test_a_tolerance_far_above_the_error_bound_is_warned_of(self, tolerance, told):
        warnings = malicious._loose(plan_for(tolerance=tolerance))
        assert ["times what numerical errors need" in warning for warning in warnings] == [True] * told

    @pytest.mark.slow
    def test_a_result_warns_of_a_loose_tolerance_and_says_what_all_its_digits_tell(self):
        pairs = [(data.y_true, data.y_score) for data in sites(2)]
        for options, told in (({}, False), ({"tolerance": 1e-5}, True)):
            found = federated_auc(pairs, protocol="malicious", thresholds="uniform:16", **options)
            said = " ".join(found.warnings)
            assert ("times what numerical errors need" in said) is told
            assert "assume that parties can work out how many pooled rows have each label; only differential" in said

    @backends
    @pytest.mark.parametrize(("label", "rows"), [(0, 1), (1, 5000), slow(0, 50)])
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

    @pytest.mark.backends("all")
    @backends
    @pytest.mark.parametrize("multiplier", ["smallest", "largest"])
    @pytest.mark.parametrize("positives", [1, 99])
    def test_a_hundred_rows_at_either_end_of_the_multipliers(self, backend, multiplier, positives):
        found = engine(backend)
        randomness = SMALLEST_MULTIPLIER if multiplier == "smallest" else LARGEST_MULTIPLIER
        rng = np.random.default_rng(positives)
        labels = np.arange(100) < positives
        parties = [PartyData.from_arrays("site 0", labels, rng.random(100))]
        (evaluation,) = found.run(parties, randomness)
        assert abs(evaluation.auc - exact(parties, found.grid).auc) <= error_bound(found.plan)

    @backends
    def test_more_rows_than_the_bound_never_give_a_wrong_number(self, backend):
        """A thousand and more times max_rows, at the largest multiplier, where totals exceed the modulus."""
        found = engine(backend)
        rng = np.random.default_rng(4)
        refused = 0
        for excess_bits in (1, 4, 10, 14) * 2:
            pool = counts_of(*(rng.dirichlet(np.ones(16), 2) * (found.plan.workload.max_rows << excess_bits) / 2))
            try:
                (evaluation,) = found.roles_with(pool, LARGEST_MULTIPLIER).run()
            except VerificationError as error:
                assert_silent(error)
                refused += 1
            else:
                assert evaluation.auc == pytest.approx(trapezoid(pool).auc, abs=CLOSE)
        assert refused >= 4

    @backends
    @pytest.mark.slow
    @pytest.mark.parametrize("grid", ["uniform:100", "hybrid:1000"])
    @pytest.mark.parametrize("rarest", ["one positive", "one negative"])
    def test_one_row_in_a_million_is_enough_of_a_class(self, backend, grid, rarest):
        """Where encoding in double precision errs most, and executions have the least reason to agree."""
        found = Engine(backend, parties=1, grid=grid)
        bins = len(found.grid)
        rng = np.random.default_rng(bins)
        for _ in range(10):
            crowd = rng.multinomial(10**6 - 1, rng.dirichlet(np.ones(bins)))
            one = np.eye(bins, dtype=np.int64)[rng.integers(bins)]
            pool = counts_of(*((one, crowd) if rarest == "one positive" else (crowd, one)))
            (evaluation,) = found.roles_with(pool).run()
            assert abs(evaluation.auc - trapezoid(pool).auc) <= error_bound(found.plan)


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
    rows = pooled(datasets.load(name))
    return rows.y_true, rows.y_score


CONFIGURATIONS = [
    *(("uniform:100", 2, 4), ("uniform:16", 2, 4), ("uniform:50", 2, 2), ("uniform:100", 3, 4)),
    *(("uniform:31", 4, 2), ("uniform:64", 2, 8), ("uniform:20", 3, 8), ("uniform:40", 4, 4)),
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
    sessions of one configuration share a context for 100 parties, made once: session id, and so all shares and
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
            assert_close(evaluation, truth)


@pytest.mark.backends("one")
@backends
def test_a_few_honest_sessions_of_the_bundled_sets_are_accepted(backend):
    found = engine(backend)
    rng = np.random.default_rng(5)
    for session in range(6):
        parties = random_split(rng, datasets.NAMES[session % 2], int(rng.integers(2, 6)))
        truth = exact(parties, found.grid)
        for evaluation in found.run(parties):
            assert_close(evaluation, truth)


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
