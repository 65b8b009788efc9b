"""Patients with several rows: what sums over them say, against Obuchowski's (1997) estimator over rows."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from fhe_auc import federated_auc
from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.cli import main
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis, Questions, Variable
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import read_for, write_rows
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums
from fhe_auc_protocols.exact_auc.cluster_sums import MOST_ROWS
from fhe_auc_protocols.exact_auc.release_part import Said
from tests.support import delong
from tests.support.several import read_in_the_clear, told

Table = dict[str, NDArray[Any]]
SEX = Variable("sex", ("F", "M"))
ONE, TWO = Analysis(cluster="id"), Analysis(models=("a", "b"), by=(SEX,), min_cell=1, cluster="id")
slow = partial(pytest.param, marks=pytest.mark.slow)


def table(seed: int, patients: int = 150, visits: int = 4, *, mixed: bool = False, auc: float = 0.8) -> Table:
    """Rows of patients whose scores are alike, by two models; `mixed`: visits have labels of their own."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(patients), rng.integers(1, 2 * visits, patients))
    y = (rng.random(patients) < 0.3)[ids]
    if mixed:
        y ^= rng.random(len(ids)) < 0.2
    own, noise = rng.normal(size=(2, patients))[:, ids], rng.normal(size=(2, len(ids)))
    a = np.sqrt(2) * norm.ppf(auc) * y + np.sqrt(0.6) * own[0] + np.sqrt(0.4) * noise[0]
    b = 0.7 * a + 0.5 * own[1] + 0.5 * noise[1]
    sex = np.where(rng.random(len(ids)) < 0.5, "F", "M")
    return {"y": y.astype(int), "a": norm.cdf(a - 1), "b": norm.cdf(b - 1), "id": ids, "sex": sex}


def party(rows: Table, analysis: Analysis, name: str = "one") -> PartyData:
    scores = {model: rows[model] for model in (analysis.models if len(analysis.models) > 1 else ("a",))}
    groups = {each.name: rows[each.name] for each in analysis.by}
    return PartyData.from_columns(name, rows["y"], scores, groups, analysis, clusters=rows["id"])


def in_the_clear(rows: Table, analysis: Analysis, grid: Any) -> Said:
    return told(read_in_the_clear(AnalysisSums(analysis, len(grid), True), [party(rows, analysis)], grid))


def test_a_party_that_does_not_say_whose_its_rows_are_cannot_take_part() -> None:
    rows = table(1)
    data = PartyData.from_arrays("north", rows["y"], rows["a"])
    with pytest.raises(InputError, match="'north' does not say which rows are one patient's"):
        AnalysisSums(ONE, 50, True).sketch(data, thresholds.uniform(50), 10**4, 2**60)


def test_more_rows_of_one_patient_than_sums_have_room_for_are_refused() -> None:
    rows = table(1, patients=400)
    rows["id"][: MOST_ROWS + 1] = 7
    with pytest.raises(InputError, match=r"1,00\d rows are one patient's by column 'id', and at most 1,000"):
        AnalysisSums(ONE, 50, True).sketch(party(rows, ONE), thresholds.uniform(50), 10**4, 2**60)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"interval": None}, "take an interval"),
        ({"protocol": "semi-honest"}, "answers for one model"),
    ],
)
def test_where_there_are_no_cubic_sums_patients_are_refused_and_not_ignored(options: Any, what: str) -> None:
    sites = {name: table(seed, 20) for seed, name in enumerate(("north", "south"))}
    with pytest.raises((CapacityError, InputError), match=what):
        federated_auc(sites, label="y", score="a", cluster="id", **options)


@pytest.mark.parametrize("others", [{"classes": ("a", "b", "c"), "models": ("a", "b", "c")}, {"heterogeneity": True}])
def test_what_takes_rows_as_independent_does_not_go_with_patients(others: Any) -> None:
    with pytest.raises(InputError, match="intervals by patients are of labels 0 and 1"):
        Analysis(cluster="id", **others)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), mixed=st.booleans(), bins=st.sampled_from([12, 200, 1000]))
def test_with_as_many_thresholds_as_the_default_errors_are_within_three_percent_of_those_over_rows(
    seed: int, mixed: bool, bins: int
) -> None:
    rows = table(seed, mixed=mixed)
    grid = thresholds.uniform(bins)
    binned = [np.searchsorted(grid, rows[model], "right").astype(float) for model in ("a", "b")]
    reading = in_the_clear(rows, TWO, grid)
    found = {(each.model, each.group): each.standard_error for each in reading.estimates}
    for group in ("", "sex: F", "sex: M"):
        own = rows["sex"] == group[-1] if group else np.ones(len(rows["y"]), bool)
        _, covariance = delong.obuchowski(rows["y"][own], rows["id"][own], *(each[own] for each in binned))
        for at, model in enumerate(("a", "b")):
            assert found[model, group] == pytest.approx(np.sqrt(covariance[at, at]), rel=0.03)
        if not group:
            (comparison,) = reading.comparisons
            variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
            assert comparison.standard_error == pytest.approx(np.sqrt(variance), rel=0.03)


@pytest.mark.parametrize("auc", [0.6, slow(0.8), 0.95])
@pytest.mark.parametrize("visits", [1, slow(2), 10])
def test_at_the_default_thresholds_the_error_is_that_over_unbinned_rows(auc: float, visits: int) -> None:
    for seed in range(4):
        rows = table(seed, 200, visits, auc=auc, mixed=bool(seed % 2))
        _, covariance = delong.obuchowski(rows["y"], rows["id"], rows["a"])
        (found,) = in_the_clear(rows, ONE, thresholds.parse("hybrid:5000")).estimates
        assert found.standard_error == pytest.approx(np.sqrt(covariance[0, 0]), rel=0.03)


def test_of_patients_with_one_row_each_the_error_is_delongs_and_a_warning_says_that_ids_are_those_of_rows() -> None:
    rows = table(3)
    rows["id"] = np.arange(len(rows["y"]))
    grid = thresholds.uniform(300)
    reading = in_the_clear(rows, TWO, grid)
    without = in_the_clear(rows, Analysis(models=("a", "b"), by=(SEX,), min_cell=1), grid)
    for one, other in zip(reading.estimates, without.estimates, strict=True):
        assert one.standard_error == pytest.approx(other.standard_error, rel=1e-12)
    one, other = reading.comparisons[0], without.comparisons[0]
    assert one.interval.method == "Obuchowski, paired, on binned scores"
    assert one.standard_error == pytest.approx(other.standard_error, rel=1e-12)
    assert any("nearly every row has an id of its own in column 'id'" in text for text in reading.warnings)
    assert not any("id of its own" in text for text in without.warnings)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_warning_says_that_patients_have_both_labels_where_they_have(mixed: bool) -> None:
    warnings = in_the_clear(table(5, mixed=mixed), ONE, thresholds.uniform(300)).warnings
    assert any("some patients have rows of both labels" in text for text in warnings) == mixed


def test_few_patients_are_few_whatever_number_of_rows_they_have() -> None:
    rows = table(6, patients=40, visits=10)
    assert min(rows["y"].sum(), (1 - rows["y"]).sum()) > 30
    warnings = in_the_clear(rows, ONE, thresholds.uniform(300)).warnings
    assert any("as much as fewer than 30 with equally many rows" in text for text in warnings)


def save(path: Path, rows: Table, missing: Sequence[int] = ()) -> str:
    frame = pd.DataFrame(rows).astype({"id": str})
    frame.loc[list(missing), "id"] = ""
    frame.to_csv(path, index=False)
    return str(path)


def test_rows_that_are_written_for_a_role_of_their_own_keep_their_patients(tmp_path: Path) -> None:
    data = party(table(4, 30), TWO)
    write_rows(tmp_path / "one.npz", data, TWO)
    ((found,), analysis) = read_for(Questions.of(TWO, "y_score"), tmp_path / "one.npz")
    assert analysis == TWO
    assert found.clusters is not None
    assert data.clusters is not None
    assert found.clusters.tolist() == data.clusters.tolist()


def test_files_and_tables_give_the_same_and_a_missing_id_is_refused_or_its_row_dropped(tmp_path: Path) -> None:
    sites = {name: table(seed, 30) for seed, name in enumerate(("north", "south"))}
    files = [save(tmp_path / f"{name}.csv", rows) for name, rows in sites.items()]
    asked = ["--label-column", "y", "--score-column", "a", "--cluster", "id"]
    shown = CliRunner().invoke(main, ["evaluate", *files, *asked])
    assert shown.exit_code == 0, shown.output
    assert "Obuchowski, logit scale; for independent patients" in " ".join(shown.output.split())
    low = federated_auc(sites, label="y", score="a", cluster="id").interval.low
    assert f"{low:.4f} to" in shown.output
    broken = save(tmp_path / "west.csv", table(3, 30), [4])
    refused = CliRunner().invoke(main, ["evaluate", *files, broken, *asked])
    assert "line 6, column 'id': the patient is missing" in " ".join(refused.output.split())
    dropped = CliRunner().invoke(main, ["evaluate", *files, broken, *asked, "--drop-missing"])
    assert "1 rows with a missing entry were left out" in " ".join(dropped.output.split())
