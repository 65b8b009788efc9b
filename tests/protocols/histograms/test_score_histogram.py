"""Score histograms through encryption: what the parties get are the exact pooled counts."""

import json
from functools import partial

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError, InputError, ResultCheckError, UndefinedAucError
from fhe_auc.base.serialise import encode
from fhe_auc.cli import main
from fhe_auc.metrics import Histogram, recall_score
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows import datasets
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from fhe_auc_protocols.histograms.protocols import HistogramFederated
from fhe_auc_protocols.histograms.score_histogram import pooled_counts, pooled_histogram, rows_by_bin
from tests.support.chosen import federated_auc
from tests.support.pooled import pooled
from tests.support.random_sites import sites as random_sites
from tests.support.vector_sessions import VectorPlay

BACKENDS = ckks.available_backends()
backends = pytest.mark.parametrize("backend", BACKENDS)


def evaluated(parties, **options):
    return federated_auc(parties, protocol="histogram-federated", **options)


def same(found, truth):
    bins = found.histogram.positives, found.histogram.negatives
    return np.array_equal(bins, (truth.bin_positives, truth.bin_negatives))


@pytest.mark.backends("one")
@backends
@pytest.mark.parametrize("name", [pytest.param("covid-clinics", marks=pytest.mark.slow), "credit-default"])
def test_the_pooled_counts_are_those_of_all_rows_to_the_last_one(backend, name):
    parties = datasets.load(name)
    grid = thresholds.uniform(100)
    found = evaluated(parties, thresholds=grid, backend=backend)
    truth = count(pooled(parties), grid)
    assert same(found, truth)
    of_counts = trapezoid(truth)
    assert (found.auc, found.binning_error, found.numerical_error) == (of_counts.auc, of_counts.binning_error, 0)
    assert (found.parties, found.keys, found.verified, found.rounds) == (len(parties), "sealed", True, 2)


@backends
@pytest.mark.parametrize("parties", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_with_joint_keys_too(parties, backend):
    sites = random_sites(parties, 30)
    found = evaluated(sites, thresholds="uniform:200", keys="joint", backend=backend)
    assert same(found, count(pooled(sites), thresholds.uniform(200)))
    assert (found.keys, found.rounds) == ("joint", 3)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_how_rows_are_dealt_out_to_parties_makes_no_difference(seed, parties):
    rng = np.random.default_rng(seed)
    labels, scores = rng.random(60) < 0.4, rng.random(60)
    labels[:2] = True, False
    cuts = np.sort(rng.choice(np.arange(1, 60), parties - 1, replace=False))
    order = rng.permutation(60)
    split = [(labels[part], scores[part]) for part in np.split(order, cuts)]
    found = evaluated(split, thresholds="uniform:50", backend="tenseal")
    assert same(found, count(PartyData.from_arrays("all", labels, scores), thresholds.uniform(50)))


def test_a_hundred_thousand_thresholds_do():
    sites = random_sites(2, 30)
    found = evaluated(sites, thresholds="uniform:100000")
    assert same(found, count(pooled(sites), thresholds.uniform(100_000)))


def test_a_pool_of_one_class_has_no_auc():
    with pytest.raises(UndefinedAucError):
        evaluated([([1, 1], [0.2, 0.3]), ([1], [0.9])], thresholds="uniform:10")


@pytest.mark.parametrize("scores", [[0.5] * 15, np.linspace(0, 1, 15)], ids=["in one bin", "in many"])
def test_more_pooled_rows_than_the_bound_give_no_number_wherever_they_lie(scores):
    """The bound on sums is the request's max_rows, not the rows that there are; nobody can count all beforehand."""
    sites = [PartyData.from_arrays(f"site {number}", [0, *[1] * 14], scores) for number in range(2)]
    session = partial(VectorPlay, sites, thresholds=thresholds.uniform(10), min_rows=2, backend=BACKENDS[0])
    assert session(max_rows=30).read().histogram.positives.sum() == 28
    with pytest.raises(ResultCheckError) as caught:
        session(max_rows=29).read()
    assert caught.value.check == "rows"
    assert str(caught.value) == (
        "no number is given: the parties have 30 rows in all, 1 more than max_rows = 29; give --max-rows 30 "
        "(max_rows=30) or more"
    )


@pytest.mark.parametrize("bins", [[[1, -1], [2, 2]], [[0, 3], [-1, 2]]])
def test_a_negative_count_is_no_histogram(bins):
    with pytest.raises(EvaluationError, match="negative count"):
        pooled_counts(np.array(bins))


@pytest.mark.parametrize(
    ("grid", "edges"),
    [
        ([0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0]),
        ([0.2, 0.5], [0.0, 0.5, 1.0]),  # the first bin holds all rows below 0.5
        ([-2.0, 3.0], [-2.0, 3.0, 3.0]),
    ],
)
def test_the_edges_of_the_pooled_histogram_are_those_of_the_rows_in_its_bins(grid, edges):
    found = pooled_histogram(np.array(grid), np.ones((2, len(grid)), np.int64))
    assert found.edges.tolist() == edges


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.lists(st.floats(0, 1), min_size=2, max_size=6, unique=True))
def test_bins_with_edges_hold_what_a_histogram_of_the_rows_does(seed, points):
    rng, grid = np.random.default_rng(seed), np.sort(points)
    data = PartyData.from_arrays("a", rng.random(40) < 0.5, np.append(rng.random(38), [0.0, 1.0]))
    found = pooled_histogram(grid, rows_by_bin(data, grid))
    rows = Histogram.from_rows(data, found.edges)
    np.testing.assert_array_equal([found.positives, found.negatives], [rows.positives, rows.negatives])


@pytest.mark.parametrize("score", [-0.5, 1.5])
def test_a_score_beyond_the_bins_is_refused_by_name_rather_than_counted_where_it_is_not(score):
    """Precision and recall at a threshold would be wrong, and their ranges too."""
    sites = [*random_sites(1, 30), PartyData.from_arrays("odd", [0, 1], [0.5, score])]
    with pytest.raises(InputError, match=f"party 'odd', row 1: score is {score}, but these thresholds are for"):
        evaluated(sites, thresholds="uniform:20")
    wide = evaluated(sites, thresholds=[-1.0, 0.0, 0.5, 2.0])
    assert recall_score(wide.histogram, 2.0).value == 0


def test_exact_sums_of_few_rows_come_without_a_word_about_numerical_error_and_counts_are_not_in_the_repr():
    found = evaluated(random_sites(2, rows=10), thresholds="uniform:20", min_rows=100)
    assert not any("min_rows" in warning for warning in found.warnings)
    assert "histogram=Histogram(bins=20)" in repr(found)


def test_manifests_of_one_kind_of_protocol_are_refused_by_the_other():
    asked = Request(parties=("site 0", "b", "c"), thresholds=thresholds.uniform(20))
    prepared, site = HistogramFederated().prepare(asked), random_sites(1, 30)[0]
    with pytest.raises(InputError, match="for a computation of kind 'blinded AUC'"):
        HistogramFederated().task(SemiHonest().prepare(asked).manifest, site)
    with pytest.raises(InputError, match="for a computation of kind 'vector sums'"):
        SemiHonest().task(prepared.manifest, site)
    wide = msgspec.structs.replace(HistogramFederated().plan_of(prepared.manifest), entries=60)
    three = EncodedPlan(wide.kind, encode(wide))
    with pytest.raises(InputError, match="not one for score histograms"):
        HistogramFederated().task(msgspec.structs.replace(prepared.manifest, plan=three), site)


def test_the_command_prints_counts_in_json_and_no_numerical_error_for_people():
    arguments = [
        "demo",
        "--dataset",
        "credit-default",
        "--protocol",
        "histogram-federated",
        "--thresholds",
        "uniform:9",
    ]
    found = CliRunner().invoke(main, [*arguments, "--json"])
    assert found.exit_code == 0
    grid = thresholds.uniform(9)
    truth = count(pooled(datasets.load("credit-default")), grid)
    assert json.loads(found.stdout)["histogram"] == {
        "edges": [*grid.tolist(), 1.0],
        "positives": truth.bin_positives.tolist(),
        "negatives": truth.bin_negatives.tolist(),
    }
    shown = CliRunner().invoke(main, [*arguments, "--costs"]).stdout
    said = "binning error", "aggregator: compute the result", "numerical error", "multiply"
    assert [each in shown for each in said] == [True, True, False, False]
