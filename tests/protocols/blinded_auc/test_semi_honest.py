"""The semi-honest protocol against exact integers, at its limits, and beyond them."""

import functools
import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc import Setup, ckks
from fhe_auc.base.errors import InputError, ResultCheckError, UndefinedAucError
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows import datasets
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.blinded_auc.blinding import BlindingRandomness
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.error_bound import error_bound
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.result_check import Recovered, recover
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonestTask
from fhe_auc_protocols.blinded_auc.workload import Workload
from tests.support import chosen
from tests.support.blinded_auc import counts_of, encoded, encrypted_result, manifest_with, submission
from tests.support.pinned_randomness import LARGEST_MULTIPLIER, SMALLEST_MULTIPLIER
from tests.support.pooled import exact_auc, pooled

BACKENDS = ckks.available_backends()
backends = pytest.mark.parametrize("backend", BACKENDS)
PRECISION = 1e-7
pytestmark = pytest.mark.backends("one")
slow = functools.partial(pytest.param, marks=pytest.mark.slow)
federated_auc = functools.partial(chosen.federated_auc, protocol="semi-honest")


def sklearn_auc(parties: list[PartyData]) -> float:
    from sklearn.metrics import roc_auc_score

    rows = pooled(parties)
    return roc_auc_score(rows.y_true, rows.y_score)


def split(y_true, y_score, pieces) -> list[PartyData]:
    return [PartyData.from_arrays(f"site {i}", y_true[rows], y_score[rows]) for i, rows in enumerate(pieces)]


class Engine:
    """One context and the protocol's algebra on it, without rounds: for sweeps over many data sets."""

    def __init__(self, backend: str, **workload) -> None:
        self.plan: AucPlan = plan(Workload(**workload), backend)
        self.keys = ckks.generate(self.plan.parameters)

    def submission(self, counts: Counts) -> tuple[bytes, ...]:
        return submission(self.keys.secret, self.plan, counts)

    def result(self, submissions: list[tuple[bytes, ...]], randomness: BlindingRandomness = secrets) -> bytes:
        """What the aggregator makes of submissions."""
        return encrypted_result(self.keys.public, self.plan, submissions, randomness=randomness)

    def recover(self, parties: list[Counts], randomness: BlindingRandomness = secrets) -> Recovered:
        return self.recover_from([self.submission(counts) for counts in parties], randomness)

    def recover_from(self, submissions: list[tuple[bytes, ...]], randomness: BlindingRandomness = secrets) -> Recovered:
        return recover(self.keys.secret.decrypt(self.result(submissions, randomness)), self.plan)


@pytest.fixture(scope="module", params=BACKENDS)
def engine(request) -> Engine:
    return Engine(request.param, thresholds=100, parties=100)


@pytest.fixture(scope="module")
def empty_parties(engine) -> list[tuple[bytes, ...]]:
    """What 99 parties without rows submit: no signal, all the noise."""
    nothing = counts_of(np.zeros(100), np.zeros(100))
    return [engine.submission(nothing) for _ in range(99)]


class TestBeyondItsLimits:
    """Never a wrong number: an error, or the right AUC."""

    @pytest.mark.parametrize("excess_bits", [1, *map(slow, (2, 3, 5, 10, 20, 30)), 34])
    def test_more_rows_than_the_bound_are_refused_or_right(self, engine, excess_bits):
        """Up to 2^34 times 10^6 rows, at the largest multiplier, where wrap-around is certain, and at the smallest."""
        rows = engine.plan.workload.max_rows << excess_bits
        rng = np.random.default_rng(excess_bits)
        for extreme in (LARGEST_MULTIPLIER, SMALLEST_MULTIPLIER):
            for _ in range(3):
                share = rng.dirichlet(np.ones(100), 2)
                counts = counts_of(share[0] * rows / 2, share[1][::-1] * rows / 2)
                try:
                    auc = engine.recover([counts], extreme).auc
                except ResultCheckError:
                    continue
                assert auc == pytest.approx(trapezoid(counts).auc, abs=PRECISION)

    @pytest.mark.backends("all")
    def test_a_wrapped_result_is_always_noticed_and_the_largest_workload_fits(self, engine):
        """Four times the rows are 16 times the largest denominator: at the largest multiplier it must wrap."""
        rng = np.random.default_rng(0)
        for _ in range(5):
            share = rng.dirichlet(np.ones(100), 2)
            counts = counts_of(*(share * engine.plan.workload.max_rows * 2))
            with pytest.raises(ResultCheckError, match="raise max_rows"):
                engine.recover([counts], LARGEST_MULTIPLIER)
        # AUC 1, AUC 0 and one bin for all: the extremes of num, tie and den.
        half = engine.plan.workload.max_rows // 2
        for positive_bin, negative_bin, auc in ((99, 0, 1.0), (0, 99, 0.0), (5, 5, 0.5)):
            counts = counts_of(np.eye(100)[positive_bin] * half, np.eye(100)[negative_bin] * half)
            assert engine.recover([counts], LARGEST_MULTIPLIER).auc == pytest.approx(auc, abs=PRECISION)

    @pytest.mark.parametrize("rows", [1, *map(slow, (2, 100, 10**4)), 10**6])
    @pytest.mark.parametrize("label", [0, 1])
    def test_one_class_has_no_auc_however_many_rows_and_whatever_the_multiplier(self, engine, rows, label):
        spread = np.random.default_rng(rows).multinomial(rows, np.full(100, 0.01))
        sides = (np.zeros(100), spread) if label == 0 else (spread, np.zeros(100))
        for extreme in (LARGEST_MULTIPLIER, SMALLEST_MULTIPLIER):
            with pytest.raises(UndefinedAucError, match="one class only"):
                engine.recover([counts_of(*sides)], extreme)

    def test_a_result_decrypted_with_another_key_is_refused(self, engine):
        result = engine.result([engine.submission(counts_of(np.ones(100), np.ones(100)))])
        stranger = ckks.generate(engine.plan.parameters).secret
        stranger.fingerprint = engine.keys.secret.fingerprint  # or the envelope would refuse it first
        with pytest.raises(ResultCheckError):
            recover(stranger.decrypt(result), engine.plan)

    def test_a_party_larger_than_the_bound_is_refused_before_it_submits(self):
        with pytest.raises(InputError, match="more than max_rows = "):
            federated_auc([([0, 1] * 60, np.linspace(0, 1, 120))], thresholds="uniform:5", setup=Setup(max_rows=100))


class TestPrecision:
    @pytest.mark.backends("all")
    @pytest.mark.parametrize("positives", [1, slow(2), slow(50), 99])
    def test_a_hundred_rows_are_within_1e_7_at_the_smallest_multiplier(self, engine, empty_parties, positives):
        """The least favourable case the plan allows: few rows, one of a class, and the weakest signal."""
        rng = np.random.default_rng(positives)
        for _ in range(2):
            sides = rng.multinomial(positives, np.full(100, 0.01)), rng.multinomial(100 - positives, np.full(100, 0.01))
            whole = counts_of(*sides)
            recovered = engine.recover_from([engine.submission(whole), *empty_parties], SMALLEST_MULTIPLIER)
            truth = trapezoid(whole)
            assert abs(recovered.auc - truth.auc) <= error_bound(engine.plan) <= PRECISION
            assert abs(recovered.binning_error - truth.binning_error) <= PRECISION

    @pytest.mark.backends("all")
    @backends
    @pytest.mark.parametrize("rarest", ["one positive", slow("one negative")])
    @pytest.mark.parametrize("bins", [slow(100), 1000])
    def test_one_row_in_a_million_is_enough_of_a_class(self, backend, rarest, bins):
        """Where encoding in double precision errs most; the rows sit so that X or Y is as large as it gets."""
        engine = Engine(backend, thresholds=bins, parties=1)
        rng = np.random.default_rng(bins)
        for _ in range(2):
            many = rng.multinomial(10**6 - 1, rng.dirichlet(np.ones(bins)))
            one = np.eye(bins, dtype=np.int64)[rng.integers(bins)]
            for crowd in (many, np.eye(bins, dtype=np.int64)[-1] * (10**6 - 1)):
                counts = counts_of(*((one, crowd) if rarest == "one positive" else (crowd, one)))
                error = abs(engine.recover([counts]).auc - trapezoid(counts).auc)
                assert error <= error_bound(engine.plan) <= PRECISION

    @pytest.mark.backends("all")
    @backends
    @pytest.mark.parametrize("name", ["credit-default", slow("covid-clinics")])
    @pytest.mark.parametrize("number", [slow(2), 15, slow(100)])
    @pytest.mark.parametrize("way", [slow("iid"), slow("sorted"), "uneven"])
    def test_bundled_sets_at_uniform_100_whatever_the_split(self, backend, name, number, way):
        """Sorted by score gives one-class parties; uneven gives one-row parties and one with nearly everything."""
        rows = pooled(datasets.load(name))
        y_true, y_score = rows.y_true, rows.y_score
        rng = np.random.default_rng(number)
        order = np.argsort(y_score, kind="stable") if way == "sorted" else rng.permutation(len(y_true))
        pieces = np.split(order, np.arange(1, number)) if way == "uneven" else np.array_split(order, number)
        parties = split(y_true, y_score, pieces)
        evaluation = federated_auc(parties, thresholds="uniform:100", setup=Setup(backend=backend))
        assert evaluation.auc == pytest.approx(exact_auc(parties, thresholds.uniform(100)), abs=PRECISION)
        assert evaluation.parties == number
        assert evaluation.upload_bytes_per_party <= {"tenseal": 170_000, "openfhe": 460_000}[backend]

    @backends
    @pytest.mark.slow
    @pytest.mark.parametrize("name", datasets.NAMES)
    def test_the_default_grid_is_within_5e_4_of_scikit_learn_and_the_half_width_is_rigorous(self, backend, name):
        parties = datasets.load(name)
        evaluation = federated_auc(parties, setup=Setup(backend=backend))
        truth = sklearn_auc(parties)
        assert evaluation.auc == pytest.approx(truth, abs=5e-4)
        assert abs(evaluation.auc - truth) <= evaluation.binning_error + 1e-6
        assert evaluation.auc == pytest.approx(exact_auc(parties, thresholds.hybrid(1000)), abs=PRECISION)

    @backends
    @pytest.mark.slow
    @pytest.mark.parametrize("rows", [100, 10**4, 10**6])
    def test_a_thousand_parties(self, backend, rows):
        rng = np.random.default_rng(rows)
        y_true = rng.random(rows) < 0.2
        y_score = np.clip(rng.normal(0.4 + 0.2 * y_true, 0.2), 0, 1)
        pieces = [piece for piece in np.array_split(np.arange(rows), 1000) if len(piece)]
        parties = split(y_true, y_score, pieces)
        evaluation = federated_auc(parties, setup=Setup(backend=backend))
        assert evaluation.auc == pytest.approx(exact_auc(parties, thresholds.hybrid(1000)), abs=PRECISION)

    @backends
    @pytest.mark.parametrize("size", [1025, slow(4000)])
    def test_bins_split_over_several_ciphertexts(self, backend, size):
        rng = np.random.default_rng(size)
        parties = [
            PartyData.from_arrays(f"site {i}", rng.random(500) < 0.3, rng.random(500).round(3)) for i in range(3)
        ]
        evaluation = federated_auc(parties, thresholds=f"uniform:{size}", setup=Setup(backend=backend))
        assert evaluation.auc == pytest.approx(exact_auc(parties, thresholds.uniform(size)), abs=PRECISION)
        assert evaluation.auc == pytest.approx(sklearn_auc(parties), abs=evaluation.binning_error + 1e-6)

    @backends
    def test_ten_billion_rows_take_a_larger_ring_and_stay_exact(self, backend):
        large = Engine(backend, thresholds=20, parties=2, max_rows=10**10)
        rng = np.random.default_rng(1)
        counts = counts_of(rng.integers(0, 2 * 10**8, 20), rng.integers(0, 2 * 10**8, 20))
        assert large.recover([counts, counts]).auc == pytest.approx(trapezoid(counts + counts).auc, abs=PRECISION)

    @pytest.mark.openfhe
    @pytest.mark.slow
    def test_backends_agree(self):
        parties = datasets.load("covid-clinics")[:20]
        first, second = (federated_auc(parties, setup=Setup(backend=backend)) for backend in BACKENDS)
        assert first.auc == pytest.approx(second.auc, abs=PRECISION)
        assert first.binning_error == pytest.approx(second.binning_error, abs=PRECISION)


@pytest.mark.parametrize(("max_rows", "warned"), [(10**6, False), (10**7, True)])
def test_a_result_says_what_all_its_digits_tell_and_beyond_a_million_rows_for_which_balance_they_hold(max_rows, warned):
    manifest = manifest_with(encoded(plan(Workload(thresholds=16, parties=2, max_rows=max_rows), "tenseal")))
    task = SemiHonestTask(manifest, PartyData.from_arrays("site 0", [0, 1, 1], [0.1, 0.8, 0.4]))
    told = " ".join(task.evaluation(Recovered(0.5, 0.0), 2, verified=False).warnings)
    assert ("one row in 1,000,000" in told) is warned
    assert "assume that parties can work out how many pooled rows have each label; only differential privacy" in told


class TestWarnings:
    """What the reader of the number ought to know stands in the evaluation."""

    def warnings(self, rows, **options):
        return " ".join(federated_auc(rows, thresholds="uniform:5", **options).warnings)

    @pytest.mark.parametrize(("least", "warned"), [(100, True), slow(92, False)])
    def test_fewer_rows_than_the_precision_is_stated_for(self, least, warned):
        rows = ([0, 1] * 23, [0.1, 0.9] * 23)
        assert (f"fewer than min_rows = {least}" in self.warnings([rows, rows], min_rows=least)) is warned


class TestCallers:
    """The public function names what is wrong with its arguments."""

    PAIR = ([0, 1], [0.1, 0.9])

    def test_parties_or_names_that_are_none_are_refused(self):
        for parties in [None, 5, [], self.PAIR[0], "ab"]:
            with pytest.raises(InputError, match=r"list of|no parties|pair"):
                federated_auc(parties)
        twice = [PartyData.from_arrays("north", *self.PAIR)] * 2
        with pytest.raises(InputError, match="party 'north' is there twice"):
            federated_auc(twice)
        with pytest.raises(InputError, match="party 'NORTH' is there twice, also as 'north'"):
            federated_auc({"north": self.PAIR, "NORTH": self.PAIR})
        for name, problem in [
            ("x" * 65, "must have at most 64 characters, got 65"),
            ("half a surrogate \udcff", "must be printable text"),
            (" north", "without blanks at its ends"),
            ("nor\tth", "must be printable text"),
            ("AGGREGATOR", "must not be 'aggregator'"),
            ("Helper-1", "must not be 'helper-1'"),
        ]:
            with pytest.raises(InputError, match=f"the name of a party {problem}|{problem}"):
                federated_auc({name: self.PAIR})


class TestInvariance:
    """Properties of the AUC survive encryption."""

    @settings(max_examples=5, deadline=None)
    @given(data=st.data())
    def test_any_split_of_the_same_rows_in_any_order_gives_the_same_auc(self, engine, data):
        size = data.draw(st.integers(2, 60))
        rows = st.tuples(st.booleans(), st.floats(0, 1))
        labels, scores = zip(*data.draw(st.lists(rows, min_size=size, max_size=size)), strict=True)
        labels = np.array([True, False, *labels])
        scores = np.array([0.3, 0.6, *scores])
        grid = thresholds.uniform(100)
        whole = count(PartyData.from_arrays("all", labels, scores), grid)
        owner = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(labels), max_size=len(labels))))
        pieces = [
            count(PartyData.from_arrays(f"{i}", labels[owner == i], scores[owner == i]), grid)
            for i in data.draw(st.permutations(range(5)))
            if (owner == i).any()
        ]
        # The plan promises its precision from 100 rows on; den = 2 instead of 198 costs two digits.
        assert engine.recover(pieces).auc == pytest.approx(trapezoid(whole).auc, abs=100 * PRECISION)

    @pytest.mark.slow
    def test_a_monotone_transform_with_matching_thresholds_changes_nothing(self):
        parties = datasets.load("credit-default")
        grid = thresholds.hybrid(200)
        bent = [PartyData.from_arrays(p.name, p.y_true, np.arctan(5 * p.y_score)) for p in parties]
        before = federated_auc(parties, thresholds=grid)
        after = federated_auc(bent, thresholds=np.arctan(5 * grid))
        assert after.auc == pytest.approx(before.auc, abs=PRECISION)


_MEMORY = """
import json, sys
import numpy as np
import psutil
from fhe_auc import ckks
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.workload import Workload
from fhe_auc_protocols.blinded_auc.semi_honest import class_vectors

chosen = plan(Workload(thresholds=100, parties=1000), sys.argv[1])
keys = ckks.generate(chosen.parameters)
counts = Counts(np.arange(100)[::-1].astype(np.int64), np.arange(100)[::-1].astype(np.int64))
submission = [keys.secret.encrypt(block) for block in chosen.packing.pack(*class_vectors(counts))]
total = running_sum(keys.public, chosen.blocks)
used = []
for done in range(1, 301):
    total.add(submission)
    if done in (10, 300):
        used.append(psutil.Process().memory_info().rss)
print(json.dumps(used))
"""


@backends
def test_the_aggregators_memory_does_not_grow_with_the_parties(backend, run_child):
    """300 submissions of 164 to 344 kB: kept, they would take 48 MB or more; 10 MB is allowed for the allocator."""
    after_10, after_300 = run_child(_MEMORY, backend)
    assert after_300 - after_10 < 10 * 2**20
