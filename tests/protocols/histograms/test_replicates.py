"""Replicates of counts: rows count as often as chance has it; who knows how often would know where each row lies."""

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError, ResultCheckError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.weights import Weights
from fhe_auc.results.evaluation import Replicates
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.one_process import run
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.histograms.protocols import HistogramFederated, ReplicatesFederated
from fhe_auc_protocols.histograms.replicates import _SHARES, replicate_counts
from tests.support.several import SEX
from tests.support.vector_sessions import VectorPlay

NUMBER, KNOWN = 200, b"a seed that all sites have agreed"[:32]
GRID = np.arange(256) / 256


def frozen(values: Any, dtype: Any) -> NDArray[Any]:
    made = np.array(values, dtype)
    made.flags.writeable = False
    return made


def site(rows: int, *, seed: int = 1, patients: Any = None, models: int = 1, weights: Any = None) -> PartyData:
    random = np.random.default_rng([seed, rows])
    scores = {f"m{each}": random.random(rows) for each in range(models)}
    made = PartyData.from_columns("site", random.random(rows) < 0.3, scores, {}, Analysis(models=tuple(scores)))
    clusters = None if patients is None else frozen(patients, np.int32)
    return replace(made, clusters=clusters, weights=None if weights is None else frozen(weights, np.int64))


def cell_of_rows(data: PartyData) -> NDArray[np.int64]:
    return np.where(data.y_true, 0, len(GRID)) + (data.scores[0] * len(GRID)).astype(np.int64)


def times_by(seed: bytes, rows: int) -> NDArray[np.float64]:
    """How often each row counts in each replicate, for who knows the seed: those of patients with one row each."""
    alone = site(rows, patients=range(rows))
    apart = replace(alone, labels=frozen(np.ones(rows), np.uint8), scores=(frozen(np.arange(rows), np.float64),))
    return replicate_counts(apart, np.arange(rows, dtype=np.float64), NUMBER, KeyStream(seed))[:, 0, 0].astype(float)


def located(data: PartyData, counts: NDArray[Any], seed: bytes) -> float:
    """The attack: each sum is Σ times·(the row is in the cell); the shortest solution has its largest entry there."""
    told = counts.reshape(NUMBER, -1).astype(float)
    found = np.linalg.lstsq(times_by(seed, data.rows) - 1, told - told.mean(axis=0), rcond=None)[0].argmax(axis=1)
    return float((found == cell_of_rows(data)).mean())


@pytest.mark.parametrize(("rows", "least"), [(150, 1.0), pytest.param(2000, 0.97, marks=pytest.mark.slow)])
def test_with_times_known_to_all_replicates_locate_rows_and_with_a_sites_own_they_do_not(
    rows: int, least: float
) -> None:
    data = site(rows, patients=range(rows))
    assert located(data, replicate_counts(data, GRID, NUMBER, KeyStream(KNOWN)), KNOWN) >= least
    sites = [replace(data, name=name) for name in ("north", "south")]  # what each of them is told, and counts itself
    asked = Request(
        parties=("north", "south"),
        thresholds=GRID,
        analysis=Analysis(models=("m0",), cluster="patient"),
        options={"replicates": NUMBER},
    )
    pooled = run(ReplicatesFederated(), asked, sites, None)
    most_in_a_cell = np.bincount(cell_of_rows(data)).max() / rows
    assert located(data, pooled.counts, KNOWN) <= 3 * most_in_a_cell + 5 / rows
    assert located(data, pooled.counts, bytes(32)) <= 3 * most_in_a_cell + 5 / rows


def test_times_have_mean_and_variance_one_and_are_nearly_poissons() -> None:
    shares, times = np.array(_SHARES), np.arange(len(_SHARES))
    assert (shares.sum(), shares @ times, shares @ (times - 1) ** 2) == (2**16,) * 3
    poisson = np.array([math.exp(-1) / math.factorial(each) for each in times])
    assert (np.abs(shares / 2**16 - poisson).sum() + 1 - poisson.sum()) / 2 < 2**-14


def test_a_replicates_counts_scatter_as_poissons_around_the_counts_and_no_two_draws_are_the_same() -> None:
    data = site(4000)
    first, second = (replicate_counts(data, GRID[::8], 1000, KeyStream(key)) for key in (KNOWN, bytes(32)))
    counted = np.bincount(cell_of_rows(data) // 8, minlength=64)
    assert np.abs(first.reshape(1000, -1).mean(axis=0) - counted).max() < 5 * math.sqrt(counted.max() / 1000)
    assert first.reshape(1000, -1).var(axis=0) == pytest.approx(counted, rel=0.3)
    assert first.sum(axis=(1, 2, 3)).var() == pytest.approx(4000, rel=0.25)
    assert abs(np.corrcoef(first.ravel() - first.mean(), second.ravel() - second.mean())[0, 1]) < 1
    assert (first != second).any()


def test_both_models_count_a_row_equally_often_and_all_rows_of_a_patient_too() -> None:
    alike = site(500, models=2)
    alike = replace(alike, scores=(alike.scores[0], frozen(1 - alike.scores[0] - 2**-30, np.float64)))
    counts = replicate_counts(alike, GRID, 100, KeyStream(KNOWN))
    assert np.array_equal(counts[:, 0], counts[:, 1, :, ::-1])
    patients = site(500, patients=np.arange(500) % 50)
    assert (replicate_counts(patients, GRID[:1], 100, KeyStream(KNOWN)).sum(axis=(1, 2, 3)) % 10 == 0).all()


def test_weights_stay_as_they_are_and_rows_of_weight_zero_count_never() -> None:
    plain, heavy = site(300), site(300, weights=[7000] * 300)
    once, seven = (replicate_counts(each, GRID, 100, KeyStream(KNOWN)) for each in (plain, heavy))
    assert np.array_equal(7000 * once, seven)
    none = site(300, weights=np.where(site(300).y_true, 0, 1000))
    assert not replicate_counts(none, GRID, 100, KeyStream(KNOWN))[:, :, 0].any()


def test_rows_in_batches_and_at_once_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    data = site(1000, models=2, weights=np.arange(1000) % 5 * 1000)
    together = replicate_counts(data, GRID, 100, KeyStream(KNOWN))
    monkeypatch.setattr("fhe_auc.rows.party_data.BATCH", 64)
    assert np.array_equal(replicate_counts(data, GRID, 100, KeyStream(KNOWN)), together)


def test_a_session_of_weighted_rows_yields_sums_of_weights() -> None:
    sites = [replace(site(400, seed=seed, weights=[2500] * 400), name=f"site {seed}") for seed in (1, 2)]
    analysis = Analysis(models=("m0",), weights=Weights("w", 5000))
    asked: dict[str, Any] = {"analysis": analysis, "options": {"replicates": 100}, "thresholds": GRID[::16]}
    found = VectorPlay(sites, protocol="replicates-federated", **asked).first_reads()
    assert isinstance(found, Replicates)
    assert found.counts.shape == (100, 1, 2, 16)
    assert found.counts.sum(axis=(1, 2, 3)).mean() == pytest.approx(2000, rel=0.02)
    assert not (found.counts % 2.5).any()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"options": {"replicates": 99}}, "replicates: 100 to 1,000 are possible, got 99"),
        ({"options": {"replicates": True}}, "replicates: 100 to 1,000 are possible, got True"),
        ({"options": {}}, "replicates"),
        ({"thresholds": np.arange(5000) / 5000}, "these are 2,000,000 sums, 1,048,576 at most"),
        ({"analysis": Analysis(by=(SEX,))}, "of one model or of two"),
        ({"analysis": Analysis(models=("a", "b", "c"))}, "of one model or of two"),
    ],
)
def test_what_cannot_be_replicated_is_refused(changes: dict[str, Any], told: str) -> None:
    asked = Request(parties=("a", "b"), thresholds=GRID, options={"replicates": NUMBER})
    with pytest.raises(InputError, match=told):
        ReplicatesFederated().prepare(replace(asked, **changes))


def test_many_more_rows_than_are_allowed_give_no_replicates() -> None:
    sites = [replace(site(100, seed=seed), name=f"site {seed}") for seed in range(10)]
    asked: dict[str, Any] = {"options": {"replicates": 100}, "thresholds": GRID[::16], "max_rows": 100}
    with pytest.raises(ResultCheckError) as caught:
        VectorPlay(sites, protocol="replicates-federated", **asked).first_reads()
    assert caught.value.check == "rows"


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2000, 200_000])
def test_200_replicates_cost_at_most_15_times_the_seconds_of_one_histogram_and_40_times_the_bytes(rows: int) -> None:
    sites = [replace(site(rows // 3, seed=seed), name=f"site {seed}") for seed in range(3)]
    one = Request(parties=tuple(each.name for each in sites), thresholds=np.arange(5000) / 5000)
    many = replace(one, thresholds=GRID, options={"replicates": NUMBER})

    def cost(plugin: Any, asked: Request) -> tuple[float, int]:
        """The least seconds of some sessions, which other processes delay; bytes that a party sends and gets."""
        seconds = list[float]()
        for _ in range(4):
            before = time.process_time()
            found = run(plugin, asked, sites, None)
            seconds.append(time.process_time() - before)
        return min(seconds), found.upload_bytes_per_party + found.download_bytes_per_party

    (plain, plain_bytes), (replicates, bytes_) = cost(HistogramFederated(), one), cost(ReplicatesFederated(), many)
    assert replicates <= 15 * plain
    assert bytes_ <= 40 * plain_bytes
