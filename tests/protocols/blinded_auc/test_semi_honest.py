"""The semi-honest protocol against exact integers and scikit-learn. At its limits and beyond: test_result_check."""

import functools
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc import Setup, ckks
from fhe_auc.base.errors import InputError
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows import datasets
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc_protocols.blinded_auc.plan import error_bound
from tests.support import chosen
from tests.support.blinded_auc import Algebra, counts_of, session_sums
from tests.support.pooled import exact_auc, pooled, sklearns_auc

BACKENDS = ckks.available_backends()
backends = pytest.mark.parametrize("backend", BACKENDS)
PRECISION = 1e-8
pytestmark = pytest.mark.backends("one")
slow = functools.partial(pytest.param, marks=pytest.mark.slow)
federated_auc = functools.partial(chosen.federated_auc, protocol="semi-honest")


def split(y_true, y_score, pieces) -> list[PartyData]:
    return [PartyData.from_arrays(f"site {i}", y_true[rows], y_score[rows]) for i, rows in enumerate(pieces)]


@pytest.fixture(scope="module", params=BACKENDS)
def engine(request) -> Algebra:
    return Algebra(request.param)


def accurate(parties: list[PartyData], grid: Any, backend: str) -> Evaluation:
    """What a session tells; parties read the exact AUC at these thresholds, and tell it with the digits they may."""
    (evaluation, *others), read = session_sums(parties, thresholds=thresholds.resolve(grid), backend=backend)
    assert read.auc == pytest.approx(exact_auc(parties, thresholds.resolve(grid)), abs=PRECISION)
    assert (evaluation.auc, *(other.auc for other in others)) == (round(read.auc, evaluation.decimals),) * len(parties)
    return evaluation


def test_a_party_larger_than_the_bound_is_refused_before_it_submits():
    with pytest.raises(InputError, match="more than max_rows = "):
        federated_auc([([0, 1] * 60, np.linspace(0, 1, 120))], thresholds="uniform:5", setup=Setup(max_rows=100))


class TestPrecision:
    @pytest.mark.backends("all")
    @backends
    @pytest.mark.parametrize("split", [False, True])
    @pytest.mark.parametrize(("bins", "max_rows"), [slow(1, 10**6), (1000, 10**6), slow(4000, 10**6), (20, 10**10)])
    def test_one_row_in_all_that_there_may_be_is_enough_of_a_class(self, backend, split, bins, max_rows):
        """Of either protocol, in one block, in several, and on the larger ring; X or Y is as large as it gets."""
        engine = Algebra(backend, thresholds=bins, parties=1, max_rows=max_rows, split=split)
        rng = np.random.default_rng(bins)
        one = np.eye(bins, dtype=np.int64)[rng.integers(bins)]
        for crowd in (rng.dirichlet(np.ones(bins)) * (max_rows - bins), np.eye(bins)[-1] * (max_rows - 1)):
            for sides in ((one, crowd), (crowd, one)):
                counts = counts_of(*sides)
                error = abs(Fraction(engine.recover([counts]).auc) - trapezoid(counts).fraction)
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
        evaluation = accurate(parties, "uniform:100", backend)
        assert evaluation.parties == number
        assert evaluation.upload_bytes_per_party <= 180_000

    @backends
    @pytest.mark.slow
    @pytest.mark.parametrize("name", datasets.NAMES)
    def test_the_default_grid_is_within_5e_4_of_scikit_learn_and_the_half_width_is_rigorous(self, backend, name):
        parties = datasets.load(name)
        evaluation, truth = accurate(parties, "hybrid:1000", backend), sklearns_auc(parties)
        assert exact_auc(parties, thresholds.resolve("hybrid:1000")) == pytest.approx(truth, abs=5e-4)
        assert abs(evaluation.auc - truth) <= evaluation.binning_error
        assert federated_auc(parties, setup=Setup(backend=backend)).auc == evaluation.auc

    @backends
    @pytest.mark.slow
    @pytest.mark.parametrize("rows", [100, 10**4, 10**6])
    def test_a_thousand_parties(self, backend, rows):
        rng = np.random.default_rng(rows)
        y_true = rng.random(rows) < 0.2
        y_score = np.clip(rng.normal(0.4 + 0.2 * y_true, 0.2), 0, 1)
        pieces = [piece for piece in np.array_split(np.arange(rows), 1000) if len(piece)]
        accurate(split(y_true, y_score, pieces), "hybrid:1000", backend)

    @backends
    @pytest.mark.parametrize("size", [1025, slow(4000)])
    def test_bins_split_over_several_ciphertexts(self, backend, size):
        rng = np.random.default_rng(size)
        parties = [
            PartyData.from_arrays(f"site {i}", rng.random(500) < 0.3, rng.random(500).round(3)) for i in range(3)
        ]
        evaluation = accurate(parties, f"uniform:{size}", backend)
        assert evaluation.auc == pytest.approx(sklearns_auc(parties), abs=evaluation.binning_error + 1e-6)


@pytest.mark.parametrize(("least", "warned"), [(100, True), slow(92, False)])
def test_fewer_rows_than_the_precision_is_stated_for_are_warned_of(least, warned):
    rows = ([0, 1] * 23, [0.1, 0.9] * 23)
    found = federated_auc([rows, rows], thresholds="uniform:5", min_rows=least)
    assert (f"fewer than min_rows = {least}" in " ".join(found.warnings)) is warned


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


def test_the_aggregators_memory_does_not_grow_with_the_parties(engine):
    """300 submissions of 172 kB: kept, they would take 52 MB."""
    submission = engine.submission(counts_of(np.ones(100), np.ones(100)))
    total, used = running_sum(engine.keys.public, engine.plan.blocks), []
    tracemalloc.start()
    for number in (10, 290):
        for _ in range(number):
            total.add(submission)
        used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert used[1] - used[0] < 2**20
