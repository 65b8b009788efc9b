"""Score histograms: exact pooled counts through encryption, or with the noise promised, whoever vanishes.

Statistical tests of real noise, which cannot be seeded, fail by chance with probability `FALSE_ALARM` each.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fhe_auc import ckks, federated_auc, federated_thresholds
from fhe_auc.base.errors import EvaluationError, InputError, ResultCheckError, UndefinedAucError, VerificationError
from fhe_auc.base.serialise import encode
from fhe_auc.metrics.private_curves import CountNoise, RocFit
from fhe_auc.question import thresholds
from fhe_auc.question.thresholds import cell_starts
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import one_process, registry
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request, Session
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.blinded_auc.malicious import Malicious
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from fhe_auc_protocols.histograms import distributed_noise
from fhe_auc_protocols.histograms import protocols as of
from fhe_auc_protocols.histograms.local_randomisation import UnaryEncoding, estimates, levels_of, tallies
from fhe_auc_protocols.histograms.protocols import HistogramDistributedDp, HistogramLocalDp
from fhe_auc_protocols.histograms.quantile_thresholds import checked_bins, equi_depth_cells
from fhe_auc_protocols.histograms.readout import PooledCounts, all_levels
from fhe_auc_protocols.histograms.score_histogram import PrivateScoreHistogram, pooled_counts
from tests.support.discrete_laplace import laplace_p_value
from tests.support.exact_histogram import rows_by_bin
from tests.support.pooled import pooled, rounding, sklearns_auc
from tests.support.random_sites import sites as random_sites
from tests.support.vector_sessions import VectorPlay

BACKENDS = ckks.available_backends()


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


FALSE_ALARM = 1e-7
PRIVATE = {plugin.name: plugin for plugin in (HistogramDistributedDp(), HistogramLocalDp())}
private = pytest.mark.parametrize("name", PRIVATE)
slow = partial(pytest.param, marks=pytest.mark.slow)
sites = partial(random_sites, rows=30)


def wished(parties: int = 3, **changes: Any) -> Request:
    names = tuple(f"site {number}" for number in range(parties))
    return Request(**{"parties": names, "thresholds": np.empty(0), "options": {"bins": 10}, **changes})


def exact(parties: list[PartyData], size: int) -> np.ndarray:
    return sum(rows_by_bin(data, thresholds.uniform(size)) for data in parties)


def noise_of(parties: list[PartyData], answering: int, size: int, **changes: Any) -> np.ndarray:
    """Return the noise, of scale 1, of a real encrypted session in which the last parties vanish."""
    asked = {"thresholds": thresholds.uniform(size), "options": {"epsilon": 2.0}, "backend": "tenseal", **changes}
    play = VectorPlay(parties, protocol="histogram-distributed-dp", keys="helper", **asked)
    found = play.first_reads([data.name for data in parties[:answering]])
    assert found.parties == answering
    histogram = found.histogram
    return np.stack([histogram.positives, histogram.negatives]) - exact(parties[:answering], size)


def test_shares_are_for_one_party_fewer_than_must_take_part_and_fewer_give_no_result() -> None:
    asked = Request(parties=tuple("abcdefghij"), thresholds=thresholds.uniform(20), options={"epsilon": 1.0})
    for least, shares in (1, 1), (2, 1), (3, 2), (10, 9), (None, 9):
        assert PRIVATE["histogram-distributed-dp"].noise(replace(asked, min_parties=least)).shares == shares
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


@pytest.mark.parametrize(("parties", "shares"), [(2, 1), (10, 9), (40, 20), (100_000, 10)])
@pytest.mark.parametrize("scale", [0.1, 2.0, 500.0])
def test_the_room_for_noise_fails_as_seldom_as_is_said_and_is_at_most_three_times_what_it_need_be(
    parties: int, shares: int, scale: float
) -> None:
    room = distributed_noise.noise_room(scale, entries=400, parties=parties, shares=shares)
    law, most = stats.nbinom(parties / shares, -np.expm1(-1 / scale)), 2.0**-40 / 2 / 400
    assert law.sf(room) <= most
    assert room <= 3 * law.isf(most) + 10


def test_a_plan_has_room_for_the_rows_and_for_noise() -> None:
    asked = {"thresholds": thresholds.uniform(200), "options": {"epsilon": 1.0}, "max_rows": 5000}
    room = distributed_noise.noise_room(2.0, entries=400, parties=10, shares=9)
    assert HistogramDistributedDp().plan(wished(10, **asked)).max_total == 5000 + room


def test_an_estimate_is_unbiased_and_its_variance_is_the_stated_one() -> None:
    """It is linear, so unbiased if right of what is expected; bits are flipped independently."""
    counts, encoding, e = np.array([0, 10, 400, 90, 500]), UnaryEncoding(5, 1.5), math.exp(1.5)
    q, n = 1 / (e + 1), counts.sum()
    np.testing.assert_allclose(encoding.estimate(counts / 2 + (n - counts) * q, n), counts, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(encoding.variance(counts, n), 4 * n * e / (e - 1) ** 2 + counts, rtol=1e-12)


def test_users_split_over_levels_give_unbiased_counts_on_each() -> None:
    """Means of 300 estimates, 14 of them: one is off by 6 standard errors once in 10^7."""
    cells = np.random.default_rng(2).binomial(7, 0.4, 1000)
    levels, source = levels_of((2, 4, 8), 2.0), exact_sampling.SeededExperiment(np.random.default_rng(3))
    found = [estimates(levels, *zip(*tallies(levels, cells, source), strict=True)) for _ in range(300)]
    for level, truth in enumerate(all_levels(np.bincount(cells, minlength=8), 3)):
        drawn = np.array([own[level] for own in found])
        assert (np.abs(drawn.mean(axis=0) - truth) < 6 * drawn.std(axis=0) / math.sqrt(300)).all()
        assert (np.abs(drawn.mean(axis=0) - truth) < 20).all()


def test_every_user_sends_one_report_on_one_level_and_an_empty_level_has_no_estimate() -> None:
    levels, source = levels_of((2, 4, 8, 16, 32), 1.0), exact_sampling.secure()
    tallied = tallies(levels, np.zeros(200, np.int64), source)
    assert sum(reports for reports, _ in tallied) == 200
    assert [ones.shape for _, ones in tallied] == [(2,), (4,), (8,), (16,), (32,)]
    with pytest.raises(EvaluationError, match="no user has reported on some level"):
        estimates(levels, *zip(*tallies(levels, np.zeros(2, np.int64), source), strict=True))


@pytest.mark.parametrize("class_of_none", [0, 1])
def test_where_noise_outweighs_a_class_there_is_no_auc_and_the_reason_is_given(class_of_none: int) -> None:
    bins = np.array([[3, 5], [3, 5]])
    bins[class_of_none] = [4, -6]
    asked = wished(options={"epsilon": 1.0}, thresholds=thresholds.explicit([0.0, 0.5]))
    manifest = PRIVATE["histogram-distributed-dp"].prepare(asked).manifest
    pooled = PooledCounts(levels=[bins.ravel()], parties=3, settings={"noise_deviation": 2.0})
    with pytest.raises(UndefinedAucError, match="with privacy noise the pooled histogram holds no row of one class"):
        PrivateScoreHistogram().outcome(manifest, pooled)


def test_ties_of_a_bin_that_can_hold_one_number_only_are_no_binning_error() -> None:
    """0.5 has a bin of its own; what lies between 0.6 and 0.7 may differ."""
    grid = np.array([0, 0.5, np.nextafter(np.float32(0.5), np.float32(1)), 0.6, 0.7])
    labels, scores = [0, 1, 0, 1, 1], [0.5, 0.5, 0.65, 0.66, 0.1]
    found = federated_auc([(labels * 20, scores * 20)], protocol="histogram-federated", thresholds=grid)
    assert found.binning_error == 20 * 20 / (2 * 60 * 40)


# --- Thresholds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "name", "factor", "near"),
    [
        ("malicious", "credit-default", 1, 5e-5),
        ("histogram-federated", "credit-default", 0.05, 5e-5),  # scores in the lowest twentieth
        slow("verified", "covid-clinics", 0.05, 1e-3),
    ],
)
def test_two_hundred_quantiles_give_scikit_learns_auc_within_5e_5_on_real_data(
    protocol: str, name: str, factor: float, near: float
) -> None:
    rows = datasets.load(name)
    parties = [PartyData.from_arrays(each.name, each.y_true, each.y_score * factor) for each in rows]
    found = federated_auc(parties, protocol=protocol, thresholds="quantile:200")
    assert abs(found.auc - sklearns_auc(parties)) < near + rounding(found.decimals)
    assert found.verified == (protocol != "semi-honest")
    assert found.thresholds <= 200
    if protocol == "histogram-federated" and factor < 1:
        uniform = federated_auc(parties, protocol=protocol, thresholds="uniform:200")
        assert abs(uniform.auc - sklearns_auc(parties)) > 1e-2


def in_cells(scores: np.ndarray, height: int) -> list[np.ndarray]:
    """Rows in each half of the cells, in each quarter, and so on to each cell."""
    return all_levels(np.histogram(scores, np.append(cell_starts(height), 1.0))[0], height)


def test_cells_are_narrow_where_scores_of_rare_events_or_their_opposites_crowd() -> None:
    starts = cell_starts(14)
    assert len(starts) == 2**14
    assert (np.diff(starts) > 0).all()
    both = (1, 2048), (3, 1024), (5, 512), (8, 256), (12, 32)
    for octave, cells in (*both, (100, 1)):
        assert ((starts >= 2.0 ** -(octave + 1)) & (starts < 2.0**-octave)).sum() == cells
    for octave, cells in (*both, (40, 8)):
        assert ((1 - starts > 2.0 ** -(octave + 1)) & (1 - starts <= 2.0**-octave)).sum() == cells
    for height in range(1, 14):
        assert np.array_equal(cell_starts(height), starts[:: 2 ** (14 - height)])


@settings(max_examples=30)
@given(scores=st.lists(st.floats(0, 1), min_size=1, max_size=60), bins=st.integers(2, 20))
def test_no_cells_are_closer_to_the_quantiles_than_those_found(scores: list[float], bins: int) -> None:
    starts = cell_starts(6)
    below = (np.array(scores)[:, None] < np.append(starts, 2.0)).sum(axis=0)
    errors = np.abs(below[:, None] - np.arange(bins) / bins * len(scores))
    found = equi_depth_cells(in_cells(scores, 6), bins)
    nearest = [min(errors[cell] - errors.min(axis=0)) for cell in found[1:]]
    assert found.tolist() == [0, 1] or max(nearest) == pytest.approx(0, abs=1e-9)


@settings(max_examples=30)
@given(st.lists(st.floats(-5, 9), min_size=14, max_size=14), st.integers(2, 8))
def test_any_noise_leaves_ascending_thresholds_or_a_clear_error(noise: list[float], bins: int) -> None:
    levels = [np.array(noise[:2]), np.array(noise[2:6]), np.array(noise[6:])]
    if levels[0].sum() > 0:
        cells = equi_depth_cells(levels, bins)
        assert (cells[0], cells[-1] < 8, 2 <= len(cells) <= bins) == (0, True, True)
        assert (np.diff(cells) > 0).all()
    else:
        with pytest.raises(EvaluationError, match="hold no row"):
            equi_depth_cells(levels, bins)


def test_where_one_score_has_most_rows_its_cell_is_a_bin_of_its_own() -> None:
    random = np.random.default_rng(0)
    tied = [([0, 1] * 50, [0.5] * 60 + random.random(40).tolist()) for _ in range(3)]
    parties = [PartyData.from_arrays(f"site {i}", *rows) for i, rows in enumerate(tied)]
    found = federated_auc(parties, protocol="histogram-federated", thresholds="quantile:20", backend="tenseal")
    assert found.thresholds < 20
    assert any("bin edges instead of 20" in warning for warning in found.warnings)
    at = np.flatnonzero(found.histogram.edges == 0.5)
    assert found.histogram.edges[at + 1] == 0.5 + 2**-13
    assert abs(found.auc - sklearns_auc(parties)) <= found.binning_error


@pytest.mark.parametrize("protocol", ["boundaries-distributed-dp", "boundaries-local-dp"])
def test_noise_is_named_where_it_may_be_why_there_are_fewer_thresholds_or_none(protocol: str) -> None:
    tied = [PartyData.from_arrays(f"site {i}", [0, 1] * 500, [0.5] * 1000) for i in range(3)]
    found = federated_thresholds(tied, 60, protocol=protocol, epsilon=8.0)
    assert len(found.grid) < 60
    assert any("or noise hides where the rows lie" in warning for warning in found.warnings)
    if protocol == "boundaries-local-dp":
        with pytest.raises(EvaluationError, match="no user has reported on some level"):
            federated_thresholds([([1], [0.5]), ([0], [0.2])], 4, protocol=protocol, epsilon=1.0)


def test_rounds_bytes_seconds_progress_and_warnings_are_those_of_both_sessions() -> None:
    parties = random_sites()
    first = federated_thresholds(parties, 20, backend="tenseal")
    second = federated_auc(parties, thresholds=first.grid, backend="tenseal")
    seen: list[str] = []
    asked = {"thresholds": "quantile:20", "backend": "tenseal"}
    both = federated_auc(parties, progress=lambda phase, done, total: seen.append(phase), **asked)
    assert list(dict.fromkeys(seen)) == ["boundaries: round 1", "boundaries: round 2", "round 1", "round 2", "round 3"]
    assert both.auc == pytest.approx(second.auc, abs=1e-6)
    assert not any(warning.startswith("bin edges from quantiles") for warning in second.warnings)
    assert both.rounds == first.rounds + second.rounds == 5
    said = " ".join(both.warnings)
    assert "every party learns how many pooled rows lie in each of 16,384 cells of scores, labels left out" in said
    assert "the edges are public, and the aggregator learns them too" in said
    for name in ("upload_bytes_per_party", "download_bytes_per_party"):
        wanted = getattr(first, name) + getattr(second, name)
        assert abs(getattr(both, name) - wanted) < 600  # envelopes
    assert set(both.seconds) == {*second.seconds, *(f"boundaries: {phase}" for phase in first.seconds)}


class OtherThresholds(of.HistogramFederated):
    """A key holder who does not take the thresholds found."""

    def prepare(self, asked: Request) -> Session:
        return super().prepare(replace(asked, thresholds=thresholds.uniform(20)))


def test_a_key_holder_who_announces_other_thresholds_is_found_out() -> None:
    sites = random_sites()
    found = federated_thresholds(sites, 20)
    asked = wished(options={}, thresholds=found.grid)
    with pytest.raises(VerificationError, match="are not those that party 'site 0' has found in the session before"):
        one_process.run(OtherThresholds(), asked, sites, None, found=found)


def test_a_number_of_thresholds_that_is_none_or_too_many_for_the_cells_is_refused() -> None:
    for bins in (None, 1, 0, -3, 2**14 + 1, 20.0, True, "20"):
        with pytest.raises(InputError, match=r"quantile:SIZE takes a size from 2 to 2\^14 = 16,384 here, not"):
            of.QuantilesFederated().prepare(wished(options={"bins": bins}))
    assert checked_bins({"bins": 2**14}, 14) == 2**14


def test_manifests_of_one_kind_of_protocol_are_refused_by_every_other() -> None:
    asked = replace(wished(backend="tenseal", options={}), thresholds=thresholds.uniform(16))
    histogram = of.HistogramFederated().prepare(asked).manifest
    with pytest.raises(InputError, match="for a computation of kind 'blinded AUC'"):
        of.HistogramFederated().task(SemiHonest().prepare(asked).manifest, random_sites()[0])
    wide = msgspec.structs.replace(of.HistogramFederated().plan_of(histogram), entries=60)
    three = msgspec.structs.replace(histogram, plan=EncodedPlan(wide.kind, encode(wide)))
    with pytest.raises(InputError, match="not one for score histograms"):
        of.HistogramFederated().task(three, random_sites()[0])
    first = of.QuantilesFederated().prepare(wished(backend="tenseal")).manifest
    with pytest.raises(InputError, match="is of protocol 'histogram-federated', not 'boundaries-federated'"):
        of.QuantilesFederated().task(histogram, random_sites()[0])
    renamed = msgspec.structs.replace(histogram, protocol="boundaries-federated", options={"bins": 4})
    with pytest.raises(InputError, match="is not one for finding thresholds"):
        of.QuantilesFederated().task(renamed, random_sites()[0])
    uneven = msgspec.structs.replace(renamed, grid=thresholds.uniform(16).tobytes())
    with pytest.raises(InputError, match=r"its own are not the cells of \[0, 1\]"):
        of.QuantilesFederated().task(uneven, random_sites()[0])
    with pytest.raises(InputError, match="is not one for score histograms"):
        of.HistogramFederated().task(first, random_sites()[0])
    with pytest.raises(InputError, match="for a computation of kind 'vector sums'"):
        Malicious().task(first, random_sites()[0])


@pytest.mark.parametrize(("name", "spent"), [("histogram-distributed-dp", 0.22), ("histogram-local-dp", 0.5)])
def test_epsilon_is_that_of_both_sessions_together(name: str, spent: float) -> None:
    plugin = PRIVATE[name]
    first, second = plugin.staged(wished(options={"epsilon": 2.0}), 10)
    finder = registry.finder(plugin)
    of_first = finder.prepare(first).manifest
    of_second = plugin.prepare(replace(second, thresholds=thresholds.uniform(10))).manifest
    assert of_second.options == {"epsilon": 2.0, "boundaries_epsilon": spent}
    assert of_first.options == {"bins": 10, **of_second.options}
    budgets = [finder.spends(of_first), plugin.spends(of_second)]
    assert {each.unit for each in budgets} == {"row"}
    assert budgets[0].epsilon == spent
    assert 2.0 - 1e-9 < sum(each.epsilon for each in budgets) <= 2.0


def test_the_counts_get_the_noise_of_what_the_thresholds_have_left() -> None:
    """A row that is replaced moves two counts by one, so noise has a scale of 2/ε."""
    deviations = {}
    for spent in (None, 0.5, 1.5):
        options = {"epsilon": 2.0} if spent is None else {"epsilon": 2.0, "boundaries_epsilon": spent}
        asked = {"protocol": "histogram-distributed-dp", "thresholds": "uniform:4", "interval": None}
        found = federated_auc(random_sites(), **asked, **options)
        deviations[spent] = found.settings["noise_deviation"]
        assert found.settings["epsilon"] == 2.0
        assert found.settings["noise_scale"] == pytest.approx(2 / (2 - (spent or 0)), rel=1e-12)
        assert found.settings["noise_shares"] == 2
    for spent, found in deviations.items():
        half = (2.0 - (spent or 0.0)) / 2
        assert found == pytest.approx(math.sqrt(2 * 1.5 * math.exp(-half)) / -math.expm1(-half), rel=1e-9)
    local = of.HistogramLocalDp().terms({"epsilon": 2.0, "boundaries_epsilon": 0.5}, 4)
    assert local[0].epsilon == pytest.approx(1.5, rel=1e-15)
    assert local[0].epsilon < 1.5  # rounded to the private side


@private
def test_budgets_and_shares_of_them_that_are_none_and_unknown_options_are_refused(name: str) -> None:
    grid = thresholds.uniform(10)
    wrong: list[tuple[dict[str, Any], str]] = [({}, "epsilon"), ({"epsilon": 1.0, "delta": 0.1}, "no option 'delta'")]
    wrong += [({"epsilon": each}, "epsilon") for each in (0, -1.0, "1", True, math.inf, 33.0)]
    shares = [{"epsilon": 2.0, "boundaries_epsilon": each} for each in (0, -0.1, 2.0, 3.0, math.inf, "1", True)]
    for options, message in [*wrong, *((each, "boundaries_epsilon must be") for each in shares)]:
        with pytest.raises(InputError, match=message):
            PRIVATE[name].prepare(wished(options=options, thresholds=grid))
    for options in shares:
        with pytest.raises(InputError, match="boundaries_epsilon must be"):
            PRIVATE[name].staged(wished(options=options), 10)


def test_a_height_is_for_quantile_thresholds_of_randomised_rows_and_has_limits() -> None:
    plugin, options = PRIVATE["histogram-local-dp"], {"epsilon": 2.0, "height": 6}
    first, second = plugin.staged(wished(options=options), 10)
    finder = registry.finder(plugin)
    assert len(finder.prepare(first).manifest.thresholds) == 2**6
    assert "height" not in second.options
    with pytest.raises(InputError, match="height is for quantile thresholds only"):
        plugin.prepare(wished(options=options, thresholds=thresholds.uniform(10)))
    for height in (0, 15, 6.0, True, "6"):
        with pytest.raises(InputError, match="height must be a whole number from 1 to 1"):
            finder.prepare(replace(first, options={**first.options, "height": height}))
    distributed = registry.finder(PRIVATE["histogram-distributed-dp"])
    with pytest.raises(InputError, match="no option 'height'"):
        distributed.prepare(first)


@pytest.mark.parametrize(
    ("name", "keys"), [*((name, "sealed") for name in PRIVATE), ("histogram-distributed-dp", "helper")]
)
def test_both_sessions_run_for_real_and_say_what_they_spend(name: str, keys: str) -> None:
    """With so many rows the noise moves the AUC by less than 0.005; 0.1 is twenty times that."""
    parties = random_sites(3, rows=20_000)
    found = federated_auc(parties, protocol=name, thresholds="quantile:12", epsilon=5.0, keys=keys, interval=None)
    spent = 1.25 if name == "histogram-local-dp" else 0.55
    assert abs(found.auc - sklearns_auc(parties)) < 0.1
    assert (found.settings["epsilon"], found.settings["boundaries_epsilon"]) == (5.0, spent)
    assert (found.rounds, found.keys == keys) == (4, name != "histogram-local-dp")
    said = " ".join(found.warnings)
    assert f"epsilon = 5 is of two sessions: {spent:g} for the thresholds, the rest for the counts" in said
    assert "every party learns noisy counts of all scores, labels left out" in said
    assert "how many pooled rows lie in each" not in said
    assert "not small" not in said
    assert found.auc == RocFit.fitted(found.histogram, CountNoise.of(found.settings, found.parties)).auc
    epsilon = 4.0 if name == "histogram-local-dp" else 2.0 / 3  # with less, its noise can leave a class no row
    few = random_sites(3, rows=60)
    loud = federated_auc(few, protocol=name, thresholds="uniform:10", epsilon=epsilon, interval=None)
    assert any("not small against the rarer class" in warning for warning in loud.warnings)


def test_with_hardly_any_noise_the_thresholds_are_nearly_those_of_exact_counts() -> None:
    """Distributed: noise of scale 11/32 at each of 5 levels moves a quantile by a cell where counts are nearly tied.

    Local: of users split over 8 levels, a prefix has a standard deviation of at most 4·√60000 rows, 1.6 %; one of 9 is
    off by 6.5 of them once in 10^9.
    """
    parties = random_sites(3, rows=20_000)
    truth = cell_starts(10)[equi_depth_cells(in_cells(pooled(parties).y_score, 10), 10)]
    near = federated_thresholds(parties, 10, protocol="boundaries-distributed-dp", epsilon=32.0)
    assert abs(near.settings["noisy_positives"] - sum(data.y_true.sum() for data in parties)) < 11 / 32 * 30
    assert np.abs(near.grid - truth).max() <= np.diff(cell_starts(10)).max()
    split = federated_thresholds(parties, 10, protocol="boundaries-local-dp", epsilon=32.0, height=8)
    below = [(pooled(parties).y_score < threshold).mean() for threshold in split.grid]
    assert np.abs(np.array(below) - np.arange(10) / 10).max() < 0.016 * 6.5 + 0.02  # and a cell
