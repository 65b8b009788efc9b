"""Score histograms: exact pooled counts through encryption, or with the noise promised, whoever vanishes.

Statistical tests of real noise, which cannot be seeded, fail by chance with probability `FALSE_ALARM` each.
"""

import math
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fhe_auc import ckks
from fhe_auc.base.errors import EvaluationError, InputError, ResultCheckError, UndefinedAucError
from fhe_auc.base.serialise import encode
from fhe_auc.metrics import Histogram, decision_metrics, roc_auc_score
from fhe_auc.question import thresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from fhe_auc_protocols.histograms import distributed_noise
from fhe_auc_protocols.histograms.protocols import HistogramDistributedDp, HistogramFederated, HistogramLocalDp
from fhe_auc_protocols.histograms.readout import all_levels
from fhe_auc_protocols.histograms.score_histogram import noisy_auc, pooled_counts, pooled_histogram, rows_by_bin
from fhe_auc_protocols.histograms.unary_encoding import UnaryEncoding, UnaryHierarchy
from tests.support.chosen import federated_auc
from tests.support.discrete_laplace import laplace_p_value
from tests.support.random_sites import sites as random_sites
from tests.support.vector_sessions import VectorPlay

BACKENDS = ckks.available_backends()


def evaluated(parties, **options):
    return federated_auc(parties, protocol="histogram-federated", **options)


@pytest.mark.parametrize("scores", [[0.5] * 15, np.linspace(0, 1, 15)], ids=["in one bin", "in many"])
def test_more_pooled_rows_than_the_bound_give_no_number_wherever_they_lie(scores):
    """The bound on sums is the request's max_rows, not the rows that there are; nobody can count all beforehand."""
    sites = [PartyData.from_arrays(f"site {number}", [0, *[1] * 14], scores) for number in range(2)]
    session = partial(VectorPlay, sites, thresholds=thresholds.uniform(10), min_rows=2, backend=BACKENDS[0])
    assert session(max_rows=30).first_reads().histogram.positives.sum() == 28
    with pytest.raises(ResultCheckError) as caught:
        session(max_rows=29).first_reads()
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
    assert decision_metrics(wide.histogram, 2.0)["recall"] == 0


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


FALSE_ALARM = 1e-7
PLUGINS = {plugin.name: plugin for plugin in (HistogramDistributedDp(), HistogramLocalDp())}
both = pytest.mark.parametrize("name", PLUGINS)


sites = partial(random_sites, rows=30)


def request(parties: int = 3, size: int = 20, **changes: Any) -> Request:
    names = tuple(f"site {number}" for number in range(parties))
    changes.setdefault("options", {"epsilon": 1.0})
    return Request(parties=names, thresholds=thresholds.uniform(size), **changes)


def exact(parties: list[PartyData], size: int) -> np.ndarray:
    return sum(rows_by_bin(data, thresholds.uniform(size)) for data in parties)


def noise_of(parties: list[PartyData], answering: int, size: int, **changes: Any) -> np.ndarray:
    """Return the noise of a real encrypted session in which the last parties vanish."""
    asked = {"thresholds": thresholds.uniform(size), "options": {"epsilon": 1.0}, "backend": "tenseal", **changes}
    play = VectorPlay(parties, protocol="histogram-distributed-dp", keys="helper", **asked)
    found = play.first_reads([data.name for data in parties[:answering]])
    assert found.parties == answering
    histogram = found.histogram
    return np.stack([histogram.positives, histogram.negatives]) - exact(parties[:answering], size)


def test_shares_are_for_one_party_fewer_than_must_take_part_and_fewer_give_no_result() -> None:
    assert [distributed_noise.noise_parties(least) for least in (1, 2, 3, 10)] == [1, 1, 2, 9]
    with pytest.raises(EvaluationError, match="at least 3 are needed"):
        noise_of(sites(4), 2, 20, min_parties=3)


def dealt(parties: int, rows: int, how: str) -> list[PartyData]:
    pool = random_sites(1, rows)[0]
    order = np.argsort(pool.y_score) if how == "by score" else np.arange(rows)
    cuts = np.arange(1, parties) if how == "nearly all with one" else np.arange(1, parties) * rows // parties
    parts = np.split(order, cuts)
    return [PartyData.from_arrays(f"site {i}", pool.y_true[p], pool.y_score[p]) for i, p in enumerate(parts)]


@pytest.mark.parametrize(("answering", "how"), [(4, "nearly all with one"), (3, "by score")])
def test_whoever_vanishes_and_has_which_rows_all_but_one_partys_shares_hold_the_noise_promised(
    answering: int, how: str
) -> None:
    """With 4 of at least 3 parties, shares are halves: 3 and 4 make one and a half and two whole ones."""
    noise = noise_of(dealt(4, 2000, how), answering, 1000, min_parties=3)
    assert laplace_p_value(noise, 1.0, answering / 2) > FALSE_ALARM
    assert laplace_p_value(noise, 1.0, (answering - 1.5) / 2) < FALSE_ALARM


def test_the_room_for_noise_fails_as_seldom_as_is_said() -> None:
    room = distributed_noise.noise_room(1.0, bins=200, parties=10, shares=9)
    assert 4 * 200 * stats.nbinom.sf(room, 10 / 9, -np.expm1(-1.0)) <= 2.0**-40
    plan = HistogramDistributedDp().plan(request(10, 200, max_rows=5000))
    assert plan.max_total == 5000 + room


def test_an_estimate_is_unbiased_and_its_variance_is_the_stated_one() -> None:
    """The largest of 10 means of 4000 draws is off by less than 6 standard errors but once in 10^8."""
    counts = np.array([0, 10, 400, 90, 500])
    encoding = UnaryEncoding(5, 1.5)
    random = np.random.default_rng(0)
    flipped = random.binomial(counts.sum() - counts, encoding.flip_probability, (4000, 5))
    tallies = random.binomial(counts, 0.5, (4000, 5)) + flipped
    found = encoding.estimate(tallies, counts.sum())
    variance = encoding.variance(counts, counts.sum())
    assert (np.abs(found.mean(axis=0) - counts) < 6 * np.sqrt(variance / 4000)).all()
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.15)
    e = math.exp(1.5)
    np.testing.assert_allclose(variance, 4 * 1000 * e / (e - 1) ** 2 + counts, rtol=1e-12)


def test_users_split_over_levels_give_unbiased_counts_on_each() -> None:
    """Means of 300 estimates, 14 of them: one is off by 6 standard errors once in 10^7."""
    cells = np.random.default_rng(2).binomial(7, 0.4, 1000)
    tree, source = UnaryHierarchy(3, 2.0, 8), exact_sampling.SeededExperiment(np.random.default_rng(3))
    found = [tree.estimate(*zip(*tree.tallies(cells, source), strict=True)) for _ in range(300)]
    for level, truth in enumerate(all_levels(np.bincount(cells, minlength=8), 3)):
        drawn = np.array([levels[level] for levels in found])
        assert (np.abs(drawn.mean(axis=0) - truth) < 6 * drawn.std(axis=0) / math.sqrt(300)).all()
        assert (np.abs(drawn.mean(axis=0) - truth) < 20).all()


def test_every_user_sends_one_report_on_one_level_and_an_empty_level_has_no_estimate() -> None:
    tree = UnaryHierarchy(5, 1.0, 32)
    tallies = tree.tallies(np.zeros(200, np.int64), exact_sampling.secure())
    assert sum(reports for reports, _ in tallies) == 200
    assert [ones.shape for _, ones in tallies] == [(2,), (4,), (8,), (16,), (32,)]
    with pytest.raises(EvaluationError, match="no user has reported on some level"):
        tree.estimate(*zip(*tree.tallies(np.zeros(2, np.int64), exact_sampling.secure()), strict=True))
    for cell in (-1, 3):
        with pytest.raises(InputError, match="user 1: the cell must be from 0 to 2"):
            UnaryEncoding(3, 1.0).tally(np.array([0, cell]), exact_sampling.secure())


@both
def test_much_data_gives_nearly_the_exact_auc_and_little_a_warning(name: str) -> None:
    parties, encrypted = sites(3, rows=40_000), name == "histogram-distributed-dp"
    found = federated_auc(parties, protocol=name, thresholds="uniform:10", epsilon=5.0)
    plain = federated_auc(parties, protocol="histogram-federated", thresholds="uniform:10")
    assert abs(found.auc - plain.auc) < 0.03
    assert np.isnan([found.binning_error, found.numerical_error]).all()
    assert found.auc == roc_auc_score(found.histogram).value
    assert not any("not small" in warning for warning in found.warnings)
    few = federated_auc(sites(3, rows=60), protocol=name, thresholds="uniform:10", epsilon=1.0 / 3 if encrypted else 4)
    assert any("not small against the rarer class" in warning for warning in few.warnings)


@pytest.mark.parametrize("class_of_none", [0, 1])
def test_where_noise_outweighs_a_class_there_is_no_auc_and_the_reason_is_given(class_of_none: int) -> None:
    bins = np.array([[3.0, 5.0], [3.0, 5.0]])
    bins[class_of_none] = [4.0, -6.0]
    with pytest.raises(UndefinedAucError, match="with privacy noise the pooled histogram holds no row of one class"):
        noisy_auc(pooled_histogram(np.array([0.0, 0.5]), bins))


@both
def test_a_budget_that_is_missing_or_senseless_and_unknown_options_are_refused(name: str) -> None:
    for epsilon in (None, 0, -1.0, "1", True, math.inf, 33.0):
        with pytest.raises(InputError, match="epsilon"):
            PLUGINS[name].prepare(request(options={} if epsilon is None else {"epsilon": epsilon}))
    with pytest.raises(InputError, match="no option 'delta'"):
        PLUGINS[name].prepare(request(options={"epsilon": 1.0, "delta": 0.1}))


def test_ties_of_a_bin_that_can_hold_one_number_only_are_no_binning_error() -> None:
    """0.5 has a bin of its own; what lies between 0.6 and 0.7 may differ."""
    grid = np.array([0, 0.5, np.nextafter(np.float32(0.5), np.float32(1)), 0.6, 0.7])
    labels, scores = [0, 1, 0, 1, 1], [0.5, 0.5, 0.65, 0.66, 0.1]
    found = federated_auc([(labels * 20, scores * 20)], protocol="histogram-federated", thresholds=grid)
    assert found.binning_error == 20 * 20 / (2 * 60 * 40)
