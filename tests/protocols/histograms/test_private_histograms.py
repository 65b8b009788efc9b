"""Private histograms: what noise hides of a row, that sessions draw it, and that who lies learns no more.

Noise is drawn by the code of sessions: in experiments from seeded words, so that no test fails by chance; in real
sessions from secret ones, where a right law fails with probability `FALSE_ALARM`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fhe_auc import InputError, federated_auc, federated_report, federated_thresholds
from fhe_auc.base.errors import ResultCheckError
from fhe_auc.metrics.private_curves import CountNoise, RocFit
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.score_bins import bins_of
from fhe_auc.question.thresholds import cell_starts
from fhe_auc.question.weights import Weights
from fhe_auc.results import noise_intervals
from fhe_auc.rlwe import modular
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc.sums.vector_sums import MODULUS
from fhe_auc_protocols.exact_sampling import SeededExperiment
from fhe_auc_protocols.histograms import quantile_thresholds
from fhe_auc_protocols.histograms.distributed_noise import SharedNoise
from fhe_auc_protocols.histograms.quantile_thresholds import TreeQuantiles, chosen_cells, consistent
from fhe_auc_protocols.histograms.readout import PooledCounts, PrivateReadout, all_levels
from fhe_auc_protocols.histograms.score_histogram import SHARE, PrivateScoreHistogram
from tests.support.discrete_laplace import laplace_p_value
from tests.support.random_sites import sites as random_sites
from tests.support.vector_sessions import VectorPlay

FALSE_ALARM = 1e-10
NAME, BOUNDARIES = "histogram-distributed-dp", "boundaries-distributed-dp"
HISTOGRAM, TREE = PrivateScoreHistogram(), TreeQuantiles()
RELEASES, SURE = 100_000, 0.99


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def vectors_of(readout: PrivateReadout[Any], labels: Sequence[int], scores: Sequence[float]) -> np.ndarray:
    """What a party with these rows counts, before noise."""
    grid = cell_starts(10) if readout is TREE else thresholds.uniform(5)
    return np.concatenate(readout.counted_levels(PartyData.from_arrays("a", labels, scores), grid))


# --- What noise hides -------------------------------------------------------------------------------------------------

ROWS = ([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])


@pytest.mark.parametrize("readout", [HISTOGRAM, TREE], ids=["histogram", "tree"])
def test_no_row_that_is_replaced_moves_more_than_the_stated_sensitivity_and_some_row_does(readout: Any) -> None:
    before, moved = vectors_of(readout, *ROWS), []
    for label in (0, 1):
        for score in (0.0, 0.1, 0.11, 0.2, 0.45, 0.7, 0.97, 1.0):
            after = vectors_of(readout, [label, *ROWS[0][1:]], [score, *ROWS[1][1:]])
            moved.append(int(abs(after - before).sum()))
    assert max(moved) == readout.sensitivity


class Audit:
    """Releases of one session on two data sets that differ in a row, as the best test of two hypotheses sees them.

    Where the row changes nothing, both data sets have the same law. Of a count that it changes by 1, noise of the
    discrete Laplace law says by the sign alone which of the two is likelier, by e^(1/scale). The noise is that of
    others than the reader: a share less than there are parties.
    """

    def __init__(self, readout: PrivateReadout[Any], options: dict[str, float], seed: int, part: float = 1.0) -> None:
        noise = SharedNoise.of(readout, options, 5, parties=3, min_parties=3)
        self.scale = float(noise.scale)
        drawn = replace(noise, scale=noise.scale * round(part * 100) / 100)
        source = SeededExperiment(np.random.default_rng(seed))
        zeros = np.zeros(2 * RELEASES * readout.sensitivity, np.int64)
        shares = [drawn.added(zeros, 10**9, source) for _ in range(drawn.shares)]
        released = sum(shares).reshape(2, RELEASES, -1) + np.array([0, 1])[:, None, None]
        self.ratio = np.where(released > 0, 1, -1).sum(axis=2) / self.scale  # logarithm: the row is there, or not


def lower_bound(audits: Sequence[Audit]) -> float:
    """What ε is at least, but for a chance of 1 %: of all tests by the ratio, the one that tells most.

    Their number is that of values of the ratio: each bound is as sure as they need be together.
    """
    without, with_row = (sum(each.ratio[side] for each in audits) for side in (0, 1))
    cuts = np.unique(np.round(with_row, 9))[1:][-60:]
    doubt = (1 - SURE) / (2 * len(cuts))
    seen = [[int((side > cut - 1e-6).sum()) for cut in cuts] for side in (without, with_row)]
    most = stats.beta.isf(doubt, np.array(seen[0]) + 1, RELEASES - np.array(seen[0]))  # Clopper and Pearson
    least = stats.beta.ppf(doubt, seen[1], RELEASES - np.array(seen[1]) + 1)
    return float(np.log(least / most).max())


def audits(which: str, epsilon: float, part: float) -> list[Audit]:
    if which != "both":
        return [Audit(TREE if which == "tree" else HISTOGRAM, {"epsilon": epsilon}, 1, part)]
    options = {"epsilon": epsilon, "boundaries_epsilon": SHARE * epsilon}
    return [Audit(readout, options, seed, part) for seed, readout in ((2, TREE), (3, HISTOGRAM))]


@pytest.mark.parametrize(
    ("which", "epsilon"),
    [
        ("both", 1.0),
        *(slow("both", epsilon) for epsilon in (0.3, 3.0, 6.0)),
        *(slow("histogram", epsilon) for epsilon in (0.3, 1.0, 3.0)),
        *(slow("tree", epsilon) for epsilon in (1.0, 3.0, 6.0)),
    ],
)
def test_an_audit_of_100000_releases_finds_no_more_than_epsilon_and_catches_half_the_noise(
    which: str, epsilon: float
) -> None:
    """Of one session alone, or of both together at the default split."""
    assert 0.55 * epsilon < lower_bound(audits(which, epsilon, 1.0)) <= epsilon
    assert lower_bound(audits(which, epsilon, 0.5)) > epsilon


@pytest.mark.parametrize("seed", [5, slow(6)])
def test_noise_is_not_cut_at_zero_at_any_site_so_empty_bins_of_many_sites_do_not_add_up(seed: int) -> None:
    """2,000 empty bins of 40 sites: within four standard errors of 0. Cut at 0, they would hold a row for each site."""
    noise = SharedNoise.of(HISTOGRAM, {"epsilon": 1.0}, 1000, parties=40, min_parties=40)
    source = SeededExperiment(np.random.default_rng(seed))
    sites = np.array([noise.added(np.zeros(2000, np.int64), 10**6, source) for _ in range(40)])
    total, deviation = sites.sum(axis=0), noise.settings(40)["noise_deviation"]
    assert (sites < 0).any()
    assert abs(total.mean()) < 4 * deviation / math.sqrt(2000)
    assert abs(total.std() / deviation - 1) < 0.1
    assert np.maximum(sites, 0).sum(axis=0).mean() > 10 * deviation / math.sqrt(2000)


# --- Real sessions ----------------------------------------------------------------------------------------------------


def exact_bins(parties: Sequence[PartyData], grid: np.ndarray) -> np.ndarray:
    """Positives and negatives in each bin."""
    y, s = (np.concatenate([getattr(data, name) for data in parties]) for name in ("y_true", "y_score"))
    return np.stack([np.bincount(bins_of(s[y == label], grid), minlength=len(grid)) for label in (1, 0)])


def test_20_real_evaluations_release_exact_counts_and_noise_of_the_stated_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is two sessions: its tree of 1,365 counts, and its bins. Noise is 4/3 of what is promised, of 4 parties."""
    read, parties = list[tuple[np.ndarray, float]](), random_sites(4, rows=3000)
    honest = quantile_thresholds.chosen_cells

    def noted(levels: Any, positives: float, *others: Any) -> np.ndarray:
        read.append((np.concatenate(levels), positives))
        return honest(levels, positives, *others)

    monkeypatch.setattr(quantile_thresholds, "chosen_cells", noted)
    cells = exact_bins(parties, cell_starts(10))
    tree = np.concatenate(all_levels(cells.sum(axis=0), 5, 4))
    of_trees, of_counts = list[np.ndarray](), list[np.ndarray]()
    for _ in range(20):
        read.clear()
        found = federated_auc(parties, protocol=NAME, epsilon=4.0, interval=None)
        of_trees.append(np.append(read[0][0] - tree, read[0][1] - cells[0].sum()))
        of_counts.append((found.histogram.sides - exact_bins(parties, found.histogram.edges[:-1])).ravel())
        assert found.settings["noise_scale"] == pytest.approx(2 / (4 - 0.44))
        assert found.settings["noise_shares"] == 3
    edges, counts = (np.concatenate(each).astype(np.int64) for each in (of_trees, of_counts))
    assert len(edges) == 20 * 1365
    assert laplace_p_value(edges, 0.44 / 11, 4 / 3) > FALSE_ALARM
    assert laplace_p_value(counts, 3.56 / 2, 4 / 3) > FALSE_ALARM
    assert laplace_p_value(edges, 0.44 / 10, 4 / 3) < FALSE_ALARM
    assert laplace_p_value(counts, 3.56, 4 / 3) < FALSE_ALARM


@pytest.mark.parametrize("protocol", [BOUNDARIES, slow("boundaries-federated")])
def test_a_session_that_finds_thresholds_by_itself_needs_noise(protocol: str) -> None:
    parties = random_sites(3, rows=2000)
    if protocol == BOUNDARIES:
        found = federated_thresholds(parties, 0, protocol=protocol, epsilon=2.0)
        rarer = min(positives := found.settings["noisy_positives"], 6000 - positives)
        assert abs(len(found.grid) - 0.5 * math.sqrt(rarer)) < 4
    else:
        with pytest.raises(InputError, match="quantile:SIZE takes a size from 2 to"):
            federated_thresholds(parties, 0, protocol=protocol)


def test_without_thresholds_a_private_evaluation_and_report_find_them_with_noise_and_never_by_the_rows() -> None:
    parties = [(data.y_true, np.round(data.y_score, 1)) for data in random_sites(3, rows=2000)]  # of eleven values
    found = federated_auc(parties, protocol=NAME, epsilon=2.0)
    report = federated_report(parties, protocol=NAME, epsilon=2.0, threshold=0.5, interval=None)
    for settings_of in (found.settings, report.facts.session["settings"]):
        assert settings_of["boundaries_epsilon"] == pytest.approx(0.22)
        assert "grid" not in settings_of
    assert report.facts.session["thresholds"] == "quantile"
    assert found.rounds == 4
    assert 0.5 in report.card.histogram.edges  # a cut-off that is asked for
    exact = federated_report(parties, threshold=0.5, interval=None)
    assert "own values" in exact.facts.session["thresholds"]


def test_listed_scores_need_no_session_before() -> None:
    rng = np.random.default_rng(1)
    parties = [(labels := rng.random(500) < 0.3, rng.binomial(9, 0.4 + 0.2 * labels)) for _ in range(3)]
    found = federated_auc(parties, protocol=NAME, epsilon=2.0, thresholds="values:0:9")
    assert found.rounds == 2
    assert "boundaries_epsilon" not in found.settings
    assert found.interval.low < found.auc < found.interval.high


def test_protocols_without_noise_or_with_each_rows_own_do_not_say_how_many_thresholds_are_best() -> None:
    for protocol in ("exact", "verified", "semi-honest", "histogram-federated"):
        with pytest.raises(InputError, match="adds no noise that says how many thresholds are best: say how many"):
            federated_auc(random_sites(), protocol=protocol, thresholds="quantile")
    with pytest.raises(InputError, match="quantile:SIZE takes a size from 2 to"):
        federated_auc(random_sites(), protocol="histogram-local-dp", epsilon=4.0, thresholds="quantile")


def test_the_interval_of_the_aucs_level_is_agreed_on_and_contains_the_noise() -> None:
    parties = random_sites(3, rows=1000)
    found = {level: federated_auc(parties, protocol=NAME, epsilon=1.0, interval=level) for level in (None, 0.5, 0.99)}
    assert (found[None].interval, found[None].standard_error) == (None, None)
    for level in (0.5, 0.99):
        each = found[level]
        noise = CountNoise.of(each.settings, each.parties)
        error, interval = noise_intervals.auc_interval(each.histogram, noise, level)
        assert (each.standard_error, each.interval) == (error, interval)
        assert each.auc == RocFit.fitted(each.histogram, noise).auc
        assert interval.level == level
    manifest = registry.load(NAME).manifest_of(request_of(interval=0.9))
    assert manifest.options == {"epsilon": 1.0, "interval": 0.9}


def request_of(**asked: Any) -> Any:
    play_of: Any = registry.load(NAME)
    assert play_of.boundaries == BOUNDARIES
    kinds = {"thresholds": thresholds.uniform(4), "options": {"epsilon": 1.0}, **asked}
    return Request(parties=("a", "b", "c"), **kinds)


# --- Attacks ----------------------------------------------------------------------------------------------------------


def asked_of(protocol: str) -> dict[str, Any]:
    if protocol == BOUNDARIES:
        return {"protocol": BOUNDARIES, "thresholds": np.empty(0), "options": {"epsilon": 2.0, "bins": 4}}
    return {"protocol": NAME, "thresholds": thresholds.uniform(8), "options": {"epsilon": 2.0}}


class Lied:
    """A session in which the last site submits, of rows that it has made up, whatever it likes."""

    def __init__(self, protocol: str, lie: np.ndarray) -> None:
        self.play = VectorPlay(random_sites(3, rows=400), keys="helper", max_rows=10**6, **asked_of(protocol))
        self.submitted, self.lie = dict[str, np.ndarray](), lie
        for name, party in self.play.parties.items():
            task = party._side._task
            task.vector = self.noted(name, task.vector)
        self.liar = self.play.parties[self.play.sites[-1].name]
        self.read = list[np.ndarray]()
        honest = self.liar._side._task.read_result

        def reads(decrypted: Any, counted: Any, secret: bytes) -> Any:
            """Keep what is decrypted, whatever a check says of it."""
            proof = self.play.computation.authenticator(secret)
            self.read.append(proof.proved_sums(decrypted[0], [0, 1, 2], -MODULUS, MODULUS))
            return honest(decrypted, counted, secret)

        self.liar._side._task.read_result = reads

    def noted(self, name: str, vector: Any) -> Any:
        def own() -> np.ndarray:
            found = vector()
            self.submitted[name] = self.lie if name == self.play.sites[-1].name else found
            return self.submitted[name]

        return own

    @property
    def others(self) -> np.ndarray:
        """What the honest sites have submitted: counts and noise."""
        return sum(self.submitted[data.name] for data in self.play.sites[:-1])


def size(protocol: str) -> int:
    return 1365 if protocol == BOUNDARIES else 16


@pytest.mark.parametrize("kind", ["one cell", "all cells", "negative rows"])
@pytest.mark.parametrize("protocol", [NAME, BOUNDARIES])
def test_a_site_that_makes_up_rows_shifts_its_own_cells_alone_and_reads_the_others_sum_with_its_noise_and_no_more(
    protocol: str, kind: str
) -> None:
    """Sums of vectors are linear. Whatever it puts in, what the liar reads is its own vector and that of all others.

    That is what any honest site subtracts its own from, and it holds the noise of all others.
    """
    rng = np.random.default_rng(8)
    lie = np.zeros(size(protocol), np.int64)
    if kind == "one cell":
        lie[3] = 2**19
    else:
        lie = rng.integers(-(2**18) if kind == "negative rows" else 0, 2**18, len(lie))
    session = Lied(protocol, lie)
    outcomes = session.play.outcomes(session.play.until_result())
    (read,) = session.read
    assert np.array_equal(read - lie, session.others)
    assert np.array_equal(read[lie == 0], session.others[lie == 0])
    if protocol == NAME:
        for found in outcomes.values():
            if isinstance(found, Exception):  # noise and lies may leave no row of a label
                assert kind == "negative rows"
                continue
            assert np.array_equal(found.histogram.sides.ravel(), read)


@pytest.mark.parametrize("protocol", [NAME, slow(BOUNDARIES)])
def test_made_up_rows_beyond_what_the_session_allows_give_the_others_no_number_and_the_liar_what_it_reads_honestly(
    protocol: str,
) -> None:
    """Any residues of the field: the liar reads the others' sum modulo t, which is the same sum."""
    lie = np.random.default_rng(9).integers(-MODULUS // 6, MODULUS // 6, size(protocol))
    session = Lied(protocol, lie)
    outcomes = session.play.outcomes(session.play.until_result())
    (read,) = session.read
    centred = modular.subtract(modular.residues(read, MODULUS), modular.residues(lie, MODULUS), MODULUS)
    assert np.array_equal(centred, modular.residues(session.others, MODULUS))
    for data in session.play.sites:
        assert isinstance(outcomes[data.name], ResultCheckError)


def test_a_manifest_for_thresholds_of_another_tree_is_refused_before_a_row_is_counted() -> None:
    plugin: Any = registry.load(BOUNDARIES)
    request = request_of(thresholds=np.empty(0), options={"epsilon": 1.0, "bins": 0})
    manifest = plugin.prepare(request).manifest
    assert plugin.plan_of(manifest).entries == 4 + 16 + 64 + 256 + 1024 + 1
    assert manifest.options == {"bins": 0, "epsilon": 1.0}
    data = random_sites(1)[0]
    plugin.task(manifest, data)
    for height in (9, 11):
        other = plugin.prepare(request).manifest
        other = other.__class__(
            **{name: getattr(other, name) for name in other.__struct_fields__ if name != "grid"},
            grid=cell_starts(height).astype("<f8").tobytes(),
        )
        with pytest.raises(InputError, match=r"its own are not the cells of \[0, 1\]"):
            plugin.task(other, data)
    for bins in (-1, 1, 1025, True, 2.0, "2"):
        with pytest.raises(InputError, match="quantile:SIZE takes a size from 2 to"):
            plugin.prepare(replace(request, options={"epsilon": 1.0, "bins": bins}))


@pytest.mark.parametrize(("epsilon", "refused"), [(1e-5, True), (1e-3, False)])
def test_an_epsilon_under_which_counts_would_be_noise_alone_is_refused(epsilon: float, refused: bool) -> None:
    plugin: Any = registry.load(BOUNDARIES)
    request = request_of(thresholds=np.empty(0), options={"epsilon": epsilon})
    if refused:
        with pytest.raises(InputError, match="epsilon = 1e-05 of this session is too small"):
            plugin.plan(request)
    else:
        assert plugin.plan(request).max_total > 11 / epsilon


# --- Thresholds from noisy trees --------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(4, 1), (4, 2), (4, 3), (2, 4)]))
def test_consistent_counts_are_the_nearest_that_add_up_by_least_squares(seed: int, shape: tuple[int, int]) -> None:
    """numpy's least squares over the unknown counts of the lowest level, of which every count is a sum."""
    branches, height = shape
    noisy = [np.random.default_rng(seed + at).normal(size=branches**at) * 10 for at in range(1, height + 1)]
    rows = [np.repeat(np.eye(len(level)), branches**height // len(level), axis=1) for level in noisy]
    right, *_ = np.linalg.lstsq(np.concatenate(rows), np.concatenate(noisy), rcond=None)
    for level, sums in zip(consistent(noisy), rows, strict=True):
        np.testing.assert_allclose(level, sums @ right, atol=1e-9)


RULE = [  # rows, positives, ε: bins, which are half the root of ε/2 times the rarer label's rows
    (2_000, 105, 2.0, 6),  # not 5.1
    (30_000, 4_053, 2.0, 32),
    (163_673, 40_050, 2.0, 100),  # not 100.06, nor more
    (164_261, 588, 2.0, 12),
    (164_261, 164_261 - 588, 2.0, 12),  # negatives are the rarer
    (164_261, 588, 6.0, 21),
    (10_000, -300, 2.0, 6),  # by noise
    (10**7, 5 * 10**6, 2.0, 100),
]


@pytest.mark.parametrize(("rows", "positives", "epsilon", "bins"), RULE)
def test_there_are_as_many_bins_as_epsilon_and_the_rarer_label_allow(
    rows: int, positives: int, epsilon: float, bins: int
) -> None:
    levels = all_levels(np.full(1024, rows / 1024), 5, 4)
    found = chosen_cells(levels, positives, epsilon)
    assert len(found) == bins
    assert np.abs(found - np.arange(bins) * 1024 / bins).max() <= 0.5
    assert len(chosen_cells(levels, positives, epsilon, 17)) == 17


def noisy_levels(rows: float, scale: float, random: np.random.Generator) -> Iterator[np.ndarray]:
    for level in all_levels(np.full(1024, rows / 1024), 5, 4):
        yield level + CountNoise(0.0, scale).drawn(random, len(level))


def test_noise_leaves_ascending_thresholds_near_the_quantiles_and_drowned_rows_equal_bins() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        found = chosen_cells(list(noisy_levels(30_000, 50.0, random)), 4000.0, 2.0)
        assert found[0] == 0
        assert (np.diff(found) > 0).all()
        assert 0.8 * 32 <= len(found) <= 32
        assert np.abs(found / 1024 - np.arange(len(found)) / len(found)).max() < 0.1
    drowned = [np.full(4**level, -1.0) for level in range(1, 6)]
    assert chosen_cells(drowned, 5.0, 2.0).tolist() == [0, 171, 341, 512, 683, 853]


@pytest.mark.parametrize(
    ("options", "rows", "told"),
    [
        ({}, 90, "take fewer thresholds (or none: quantile finds as many as are best), more rows or a larger epsilon"),
        ({"boundaries_epsilon": 0.1}, 90, "the AUC may be far off; take more rows or a larger epsilon"),
        ({}, 110, ""),
    ],
)
def test_a_warning_of_loud_noise_says_what_helps(options: dict[str, float], rows: int, told: str) -> None:
    """Noise of 5 on each of 4 counts of a label is 10 on their sum, a tenth of 100 rows."""
    manifest = registry.load(NAME).prepare(request_of(options={"epsilon": 1.0, **options})).manifest
    counts = np.array([rows, 0, 0, 0, 900, 0, 0, 0])
    pooled = PooledCounts(levels=[counts], parties=3, settings={"noise_deviation": 5.0, "noise_scale": 3.5})
    loud = [each for each in HISTOGRAM.outcome(manifest, pooled).warnings if "is not small against" in each]
    assert len(loud) == bool(told)
    assert not told or loud[0].endswith(told)


@pytest.mark.parametrize("name", ["boundaries-distributed-dp", "histogram-distributed-dp"])
def test_who_makes_a_session_cannot_have_rows_count_more_than_the_noise_is_for(name: str) -> None:
    plugin = registry.load(name)
    asked = Request(parties=("a", "b", "c"), thresholds=np.linspace(0, 1, 5), options={"epsilon": 1.0})
    manifest = plugin.prepare(asked).manifest
    rows = PartyData.from_arrays("a", [0, 1, 1, 0], [0.1, 0.6, 0.7, 0.2])
    plugin.task(manifest, rows)
    for analysis in (Analysis(models=("x", "y")), Analysis(weights=Weights("age", 50_000, 1000))):
        told = {"analysis": msgspec.json.encode(analysis).decode()} | ({"max_rows": 9} if analysis.units else {})
        lie = msgspec.structs.replace(manifest, options={**manifest.options, **told})
        with pytest.raises(InputError, match="count once each"):
            plugin.task(lie, rows)
    if name == "histogram-distributed-dp":
        for level in (2.0, True, "x"):
            lie = msgspec.structs.replace(manifest, options={**manifest.options, "interval": level})
            with pytest.raises(InputError, match="level of an interval"):
                plugin.task(lie, rows)


def test_edges_from_exact_quantiles_are_said_to_be_outside_of_epsilon() -> None:
    rows = random_sites(3, 300)
    exact, noisy = federated_thresholds(rows, 5), federated_thresholds(rows, 5, protocol=BOUNDARIES, epsilon=30.0)
    for found, told in ((exact, True), (noisy, False)):
        evaluation = federated_auc(rows, protocol=NAME, thresholds=found, epsilon=30.0)
        report = federated_report(rows, thresholds=found, epsilon=30.0)
        for warnings in (evaluation.warnings, report.warnings):
            assert any("which epsilon does not cover" in text for text in warnings) == told
