"""`fhe-auc compare-protocols`: the paper's story, real and simulated sessions, and how bad input is told."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy import stats

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError
from fhe_auc.cli import main
from fhe_auc.question import thresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.comparison import simulated as simulation
from fhe_auc_benchmarks.comparison.measure import SKLEARN, ProtocolComparison, Row, compare, spread, subsample
from fhe_auc_protocols.dpauc.budget import GAUSSIAN, LAPLACE, Budget
from fhe_auc_protocols.dpauc.roc import statistics
from tests.support.pooled import pooled
from tests.support.synthetic_scores import CRITEO_AUC, criteo_like


def sites(size: int, number: int = 3, seed: int = 0) -> list[PartyData]:
    random = np.random.default_rng(seed)
    y_true = random.random(size) < 0.3
    return dealt(y_true, np.clip(random.normal(0.3 + 0.2 * y_true, 0.15), 0, 1), number)


def dealt(y_true: np.ndarray, y_score: np.ndarray, number: int) -> list[PartyData]:
    pieces = np.array_split(np.arange(len(y_true)), number)
    return [PartyData.from_arrays(f"site {i}", y_true[rows], y_score[rows]) for i, rows in enumerate(pieces)]


def asked(**changes: Any) -> ProtocolComparison:
    small: dict[str, Any] = {"protocols": ("dpauc-laplace",), "epsilons": (1.0,), "thresholds": (20,), "runs": 50}
    return ProtocolComparison(**{**small, **changes})


def of(found: list[Row], method: str, **fields: Any) -> Row:
    """Return the only row of a method with these fields."""
    (row,) = (r for r in found if r.method == method and all(getattr(r, k) == v for k, v in fields.items()))
    return row


def story(size: int | None) -> list[Row]:
    protocols = ("semi-honest", "dpauc-laplace", "dpauc-gaussian", "dpauc-rr")
    wanted = asked(protocols=protocols, epsilons=(1.0, 8.0), thresholds=(100,), sizes=(size,), backend="tenseal")
    return compare(dealt(*criteo_like(0), 10), wanted)


def test_on_small_data_noise_is_worse_than_guessing_and_the_encrypted_auc_exact_and_all_have_cost_and_privacy() -> None:
    rows = story(100)
    guessing = abs(of(rows, SKLEARN).auc - 0.5)
    assert of(rows, "dpauc-laplace", epsilon=1.0).error > guessing
    assert of(rows, "dpauc-gaussian", epsilon=1.0).error > guessing
    assert of(rows, "dpauc-rr", epsilon=1.0).error > 0.1
    encrypted = of(rows, "semi-honest")
    assert encrypted.error == pytest.approx(encrypted.threshold_error, abs=0.005)  # it is rounded
    assert "the AUC is rounded" in " ".join(encrypted.warnings)
    assert encrypted.error < 0.008
    assert 150_000 < encrypted.upload_bytes_per_party < 180_000
    assert 3800 < of(rows, "dpauc-laplace", epsilon=1.0).upload_bytes_per_party < 4000
    assert all(row.seconds > 0 for row in rows)
    told = {(row.method, row.epsilon): row.privacy for row in rows}
    assert (told["semi-honest", None], told["dpauc-laplace", 1.0]) == ("encrypted", "ε = 1")
    assert (told["dpauc-gaussian", 8.0], told["dpauc-rr", 8.0]) == ("ε = 8, δ = 1e-06", "ε = 8 (scores show)")
    assert told[SKLEARN, None] == "none"


@pytest.mark.slow
def test_on_large_data_both_are_good_and_the_papers_cell_comes_out() -> None:
    """[DPAUC] Table 4, epoch 0, K = 10, ε = 1: .748206 ± .001649."""
    rows = story(None)
    assert rows[0].auc == pytest.approx(CRITEO_AUC[0], abs=1.5e-5)  # scikit-learn's
    for method in ("dpauc-laplace", "dpauc-gaussian", "dpauc-rr"):
        assert of(rows, method, epsilon=1.0).error < 0.004
        assert of(rows, method, epsilon=8.0).error < 0.0005
    assert of(rows, "semi-honest").threshold_error < 0.0002
    assert of(rows, "semi-honest").error < 0.0002 + 0.005  # it is rounded to two decimals
    row = of(rows, "dpauc-laplace", epsilon=1.0)
    assert row.auc == pytest.approx(0.748206, abs=0.0015)  # 50 runs: 5 standard errors
    assert row.deviation == pytest.approx(0.001649, rel=0.35)


def test_mean_deviation_and_errors_are_those_of_the_runs_that_gave_a_number() -> None:
    aucs = np.array([0.5, 0.6, 0.9])
    found, errors = spread(aucs, 0.7), np.array([0.2, 0.1, 0.2])
    assert (found["runs"], found["auc"], found["deviation"]) == (3, pytest.approx(2 / 3), aucs.std(ddof=1))
    assert found["error"] == pytest.approx(errors.mean())
    assert (found["error_low"], found["error_high"]) == pytest.approx(tuple(np.percentile(errors, (10, 90))))
    none = spread(np.array([]), 0.7)
    assert (none["runs"], math.isnan(none["auc"])) == (0, True)


def test_a_subsample_of_all_rows_is_all_a_party_without_any_takes_no_part_and_other_sizes_are_refused() -> None:
    parties = sites(60)
    assert [p.y_score.tolist() for p in subsample(parties, 60, 0)] == [p.y_score.tolist() for p in parties]
    tiny = PartyData.from_arrays("tiny", [1], [0.5])
    assert "tiny" not in {party.name for party in subsample([*sites(1000), tiny], 10, 0)}
    for size in (-1, 0, 1, 61):
        with pytest.raises(InputError, match=f"a subsample of {size} rows was asked for; take 2 to 60"):
            subsample(parties, size, 0)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    parties = sites(400)
    rows, site = pooled(parties), np.repeat(np.arange(3), [len(party.y_true) for party in parties])
    np.savez("rows.npz", y_true=rows.y_true, y_score=rows.y_score, site=site)
    return "rows.npz"


def call(file: str, arguments: str) -> Result:
    return CliRunner().invoke(main, ["compare-protocols", file, "--site-column", "site", *arguments.split()])


QUICK = "--protocols dpauc-laplace,dpauc-rr --thresholds 20 --runs 20"


def test_the_json_of_a_comparison_has_each_method_at_each_size(file: str) -> None:
    result = call(file, f"{QUICK} --subsample 50,all --json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["runs"], found["seed"]) == (20, 0)
    assert [row["method"] for row in found["rows"]] == 2 * [SKLEARN, *2 * ["dpauc-laplace"], *2 * ["dpauc-rr"]]
    assert {row["rows"] for row in found["rows"]} == {50, 400}
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--protocols magic", "unknown protocol 'magic'"),
        ("--protocols ,", "expected names of protocols, separated by commas, got ''"),
        ("--epsilons 1,x", "expected positive numbers, separated by commas, got 'x'"),
        ("--thresholds 10,y", "expected whole numbers, separated by commas, got 'y'"),
        (f"{QUICK} --thresholds 1", "number of thresholds must be from 2"),
        ("--subsample 10,some", "expected numbers of rows, or all, separated by commas, got 'some'"),
        (f"{QUICK} --subsample 401", "a subsample of 401 rows was asked for; take 2 to 400"),
    ],
)
def test_bad_input_is_one_line_and_status_2(file: str, arguments: str, message: str) -> None:
    result = call(file, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_encrypted_protocols_run_for_real_and_one_that_cannot_be_planned_leaves_the_others(file: str) -> None:
    protocols = "--protocols exact,dpauc-rr --thresholds 525000"
    result = call(file, f"{protocols} --runs 1 --epsilons 1 --backend tenseal --json")
    assert result.exit_code == 0, result.stderr
    rows = {row["method"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["exact"]["auc"] is None
    assert rows["exact"]["note"]
    assert rows["dpauc-rr"]["auc"] > 0
    result = call(file, "--protocols semi-honest,malicious --thresholds 20 --backend tenseal --json")
    rows = {row["method"]: row for row in json.loads(result.stdout)["rows"]}
    assert rows["semi-honest"]["auc"] in (round(rows["malicious"]["auc"], decimals) for decimals in (1, 2))
    assert rows["semi-honest"]["verified"] == {"aggregation": False, "parties": False}
    assert rows["malicious"]["verified"] == {"aggregation": True, "parties": False}
    told = (rows["semi-honest"]["privacy"], rows["malicious"]["privacy"])
    assert told == ("encrypted", "encrypted, aggregation verified")
    direct = federated_auc(sites(400), thresholds=thresholds.dpauc(20), backend="tenseal")
    assert rows["malicious"]["auc"] == pytest.approx(direct.auc, abs=1e-6)


@pytest.mark.parametrize(("mechanism", "options"), [(LAPLACE, {}), (GAUSSIAN, {"delta": 1e-6})])
@pytest.mark.parametrize("parties", [pytest.param(1, marks=pytest.mark.slow), 10])
def test_the_shortcut_has_the_law_of_noise_by_party(mechanism: str, options: dict[str, float], parties: int) -> None:
    """With other seeds it would fail with a probability of 2e-4."""
    rows, grid, random = pooled(sites(20_000)), thresholds.dpauc(40), np.random.default_rng([7, parties])
    budget = Budget.checked(mechanism, {"epsilon": 1.0, **options}, len(grid))
    exact = statistics(rows.y_true, rows.y_score, grid)
    fast, wrong = (
        simulation.estimated(simulation.dpauc_sums(exact, budget, parties=number, runs=2000, random=random), budget)
        for number in (parties, 2 * parties)
    )
    draw = random.laplace if mechanism == LAPLACE else random.normal
    noise = (draw(0.0, budget.noise_scale, (parties, *exact.shape)).sum(axis=0) for _ in range(2000))
    slow = np.array([simulation.estimated(exact + total, budget) for total in noise])
    assert stats.kstest(fast, slow).pvalue > 1e-4 > stats.kstest(wrong, slow).pvalue


def test_u_statistics_are_compared_by_their_law_with_an_epsilon_of_a_score_and_the_cost_of_one_session() -> None:
    names, parties = ("ustat-pairs", "ustat-krr", "ustat-hierarchy"), sites(120)
    rows = compare(parties, asked(protocols=names, epsilons=(8.0,), runs=400))
    assert {(row.epsilon_unit, row.privacy) for row in rows[1:]} == {("score", "ε = 8 of a score")}
    found = {name: of(rows, name) for name in names}
    for row in found.values():
        assert row.runs == 400
        assert row.seconds > 0
        assert row.error > 0
    # Pairs and randomised response are unbiased, but for clipping, which is rare at this budget.
    for name in names[:2]:
        own = found[name]
        assert abs(own.auc - of(rows, SKLEARN).auc) < own.threshold_error + 5 * own.deviation / math.sqrt(400)
    # A request of 34 kB for each positive row, a reply of 17 kB for each of its pairs.
    positives = sum(int(data.y_true.sum()) for data in parties)
    sent = found["ustat-pairs"].upload_bytes_per_party
    assert 30_000 * positives / 3 / 2 < sent < 60_000 * positives
    assert found["ustat-krr"].upload_bytes_per_party < 1000


def test_a_session_for_its_cost_that_is_refused_leaves_the_simulated_numbers() -> None:
    labels = np.arange(4200) < 4100
    rows = [PartyData.from_arrays("north", labels, np.random.default_rng(0).random(4200))]
    row = of(compare(rows, asked(protocols=("ustat-pairs",), epsilons=(8.0,), runs=5)), "ustat-pairs")
    assert row.runs == 5
    assert "'north' has 4,100 positive rows" in row.note
