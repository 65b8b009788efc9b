"""From sums to estimates: AUCs of pairs of rows, several classes, what is not shown of small groups, and sites."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from fhe_auc import federated_auc
from fhe_auc.base.errors import CapacityError, InputError, ResultCheckError, UndefinedAucError
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis, Questions, Variable
from fhe_auc.results.estimates import ONE_CLASS, GroupEstimate, too_few
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import read_for, write_rows
from fhe_auc_protocols.exact_auc.auc_sums import auc_of_sums
from fhe_auc_protocols.exact_auc.class_average import MEAN_OF_CLASSES
from fhe_auc_protocols.exact_auc.cluster_sums import MOST_ROWS
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from fhe_auc_protocols.exact_auc.release_part import Said
from tests.support import delong, plain_sums
from tests.support.several import AGE, CLASSES, SEX, chosen, made, pool, read_in_the_clear
from tests.support.several import told as all_told


def sums_of(positives: list[int], negatives: list[int], *, interval: bool = False) -> list[int]:
    """What is released of rows per bin, from the definition of the release: N and P come last."""
    release = AnalysisSums(PLAIN, len(positives), interval).release
    vectors = plain_sums.vectors_of(release.sketch, [*negatives, *positives])
    return [plain_sums.value(each, vectors) for each in release.sums]


@pytest.mark.parametrize("interval", [False, True])
def test_sums_of_so_many_rows_take_as_many_values_as_the_modulus_must_tell_apart_and_no_more(interval: bool) -> None:
    for rows in range(2, 10):
        found = [
            sums_of(list(dealt[:2]), list(dealt[2:]), interval=interval)
            for dealt in itertools.product(range(rows + 1), repeat=4)
            if sum(dealt) <= rows
        ]
        differences, *others = zip(*found, strict=True)
        values = max(max(differences) - min(differences), *(max(each) for each in others))
        assert min(min(each) for each in others) == 0
        least = AnalysisSums(PLAIN, 2, interval).least_modulus(rows)
        # Where a third of the rows is no integer, no split of them reaches the bound.
        assert values + 1 == least or (interval and rows % 3)
        assert values < least


@pytest.mark.parametrize(
    "sums",
    [
        *((26, 0, 5, 5), (-26, 0, 5, 5), (25, 1, 5, 5), (-25, 1, 5, 5), (0, 26, 5, 5), (0, -1, 5, 5), (1, 0, 0, 5)),
        *((5, 0, 5, 5, 4, 100), (5, 0, 5, 5, 100, 4)),  # Q10·P, or Q01·N, below the difference's square
        *((5, 0, 5, 5, 126, 100), (5, 0, 5, 5, 100, 126)),  # Q10 above P·N², or Q01 above N·P²
        (5, 0, 5, 5, -1, 100),
        (5, 2, 5, 5, 100, 100, 5, 1, 9, 9),  # fewer pairs of one merged bin than of one bin
        (5, 2, 5, 5, 100, 100, 9, 5, 9, 9),  # moved by more pairs than merging hides
        (5, 2, 5, 5, 100, 100, 5, 21, 25, 25),  # more pairs of one merged bin than the difference leaves
        (5, 2, 5, 5, 4, 100, 5, 4, 9, 9),  # Q10·P below the square of the difference over merged bins
        (5, 2, 5, 5, 100, 100, 5, 4, 3, 5),  # more pairs of one merged bin than the squares leave
        (5, 2, 5, 5, 100, 100, 5, 4, 26, 5),  # a square above that of all rows
    ],
)
def test_integers_of_no_rows_give_no_number_and_are_not_told(sums: tuple[int, ...]) -> None:
    difference, ties, positives, negatives, *squares = sums
    with pytest.raises(ResultCheckError, match="not an AUC") as caught:
        auc_of_sums([difference, ties, *squares], positives, negatives)
    assert caught.value.check == "range"


GRID = thresholds.uniform(101)


def told(analysis: Analysis, parties: Sequence[PartyData]) -> Said:
    return all_told(read_in_the_clear(AnalysisSums(analysis, len(GRID), True), parties, GRID))


@pytest.mark.parametrize(("number", "seed"), [(3, 0), (4, 1), (4, 2)])
def test_the_average_over_pairs_of_classes_is_hand_and_tills_and_scikit_learns(number: int, seed: int) -> None:
    from sklearn.metrics import roc_auc_score

    names, generator = tuple("abcd"[:number]), np.random.default_rng(seed)
    analysis = Analysis(models=tuple(f"p_{each}" for each in names), classes=names)
    labels = np.arange(90) % number
    chances = generator.dirichlet(1 + 2.0 * np.eye(number)[labels].mean(axis=0), 90) + 0.5 * np.eye(number)[labels]
    hundredths = np.array([generator.multinomial(100, each / each.sum()) for each in chances])
    scores = np.minimum((hundredths.T + 0.25) / 100, 1)
    columns = dict(zip(analysis.models, scores, strict=True))
    data = PartyData.from_columns("all", np.array(names)[labels], columns, {}, analysis)
    headline = told(analysis, [data]).headline
    # Over pairs of classes i < j: the mean of A(i | j), by the scores for i, and A(j | i), by those for j.
    pairs = [
        np.mean([roc_auc_score(labels[own] == each, hundredths[own, each]) for each in (i, j)])
        for i, j in combinations(range(number), 2)
        for own in [np.isin(labels, (i, j))]
    ]
    assert headline.auc == pytest.approx(np.mean(pairs), abs=1e-12)
    assert headline.auc == pytest.approx(roc_auc_score(labels, hundredths / 100, multi_class="ovo"), abs=1e-12)
    *_, macro = told(analysis, [data]).estimates
    assert macro.contrast == MEAN_OF_CLASSES
    assert macro.auc == pytest.approx(roc_auc_score(labels, hundredths / 100, multi_class="ovr"), abs=1e-12)


def test_a_class_without_rows_leaves_no_average() -> None:
    columns = {name: [0.1, 0.2, 0.3] for name in CLASSES.models}
    data = PartyData.from_columns("all", ["a", "b", "a"], columns, {}, CLASSES)
    with pytest.raises(UndefinedAucError, match="class 'c' has no rows"):
        told(CLASSES, [data])


def of_counts(counts: Mapping[str, tuple[int, int]], **fields: object) -> tuple[Analysis, PartyData]:
    """A variable with these levels: so many positive and negative rows of each."""
    analysis = Analysis(by=(Variable("site", tuple(counts)),), **fields)  # type: ignore[arg-type]
    levels = np.repeat([*counts], [sum(both) for both in counts.values()])
    labels = np.concatenate([np.repeat([1, 0], both) for both in counts.values()])
    scores = np.random.default_rng(1).random(len(levels)).round(2)
    return analysis, PartyData.from_columns("all", labels, {"": scores}, {"site": levels}, analysis)


def shown(estimates: Sequence[GroupEstimate]) -> dict[str, bool]:
    return {each.group.removeprefix("site: "): not each.missing for each in estimates[1:]}


@pytest.mark.parametrize(
    ("counts", "hidden"),
    [
        ({"a": (10, 10), "b": (50, 10)}, ""),
        ({"a": (9, 50), "b": (50, 50), "c": (60, 60)}, "ab"),  # all − c would be a, were b shown
        ({"a": (50, 9), "b": (50, 50), "c": (60, 60)}, "ab"),
        ({"a": (9, 50), "b": (50, 8), "c": (60, 60)}, "ab"),
        ({"a": (0, 0), "b": (4, 50), "c": (60, 60), "d": (70, 70)}, "abc"),  # all − c − d would be b, as a has no rows
        ({"a": (2, 50), "b": (3, 50), "c": (60, 60), "d": (70, 70)}, "abc"),  # a and b have five positive rows
        ({"a": (5, 50), "b": (5, 50), "c": (60, 60)}, "ab"),
        ({"a": (1, 1), "b": (2, 2)}, "ab"),
    ],
)
def test_what_is_shown_leaves_nothing_small_to_be_worked_out(counts: dict[str, tuple[int, int]], hidden: str) -> None:
    analysis, data = of_counts(counts)
    estimates = told(analysis, [data]).estimates
    assert shown(estimates) == {level: level not in hidden for level in counts}
    for each in estimates[1:]:
        if each.missing:
            numbers = {name: value for name, value in asdict(each).items() if value is not None}
            assert numbers == {"model": "", "group": each.group, "contrast": "", "missing": too_few(10)}
    # The attack: all rows less all groups shown.
    whole, *others = [(each.positives or 0, each.negatives or 0) for each in estimates if not each.missing]
    seen, rest = others, np.array(whole) - np.sum(others or [(0, 0)], axis=0)
    assert len(seen) != len(counts) - 1
    assert len(seen) in (0, len(counts)) or min(rest) >= 10


def test_a_hidden_group_is_hidden_across_groups_for_every_model_and_another_variable_is_not() -> None:
    analysis = Analysis(models=("x", "y"), by=(SEX, AGE), cross_groups=True, min_cell=6)
    rows = pool(made(analysis, 4, 5))
    few = chosen(rows, analysis, analysis.contrasts[1].positives)  # positives with sex: F
    drop = np.flatnonzero(few)[: few.sum() - 5]
    keep = np.setdiff1d(np.arange(rows.rows), drop)
    parts = [each[keep] for each in (rows.labels, *rows.scores, *rows.groups)]
    for each in parts:
        each.flags.writeable = False
    estimates = told(analysis, [PartyData("all", parts[0], tuple(parts[1:3]), tuple(parts[3:]))]).estimates
    assert {each.group.partition(":")[0] for each in estimates if each.missing} == {"sex"}
    assert not any(each.auc for each in estimates if each.group.startswith("sex"))
    assert {each.model for each in estimates if each.missing} == {"x", "y"}
    assert all(each.auc for each in estimates if each.group.startswith("age"))


def test_with_a_smallest_cell_of_1_all_is_shown_and_a_group_of_one_label_says_so() -> None:
    analysis, data = of_counts({"a": (0, 5), "b": (3, 2), "c": (0, 0)}, min_cell=1, cross_groups=True)
    estimates = {each.group: each for each in told(analysis, [data]).estimates}
    one = estimates["site: a"]
    assert (one.auc, one.missing, one.positives, one.negatives) == (None, ONE_CLASS, 0, 5)
    assert estimates["site: b"].rows == 5
    assert estimates["site: b"].auc is not None
    assert estimates["site: b, a"].rows == 8
    assert estimates["site: a, b"].missing == ONE_CLASS


def test_a_class_with_few_rows_in_a_group_hides_it() -> None:
    analysis = Analysis(models=CLASSES.models, classes=CLASSES.classes, by=(SEX,), min_cell=36)
    rows = pool(made(analysis, 6, 2))
    smallest = min(((rows.labels == each) & (rows.groups[0] == level)).sum() for each in range(3) for level in (0, 1))
    assert smallest < 36
    found = told(analysis, made(analysis, 6, 2)).estimates
    assert {each.group for each in found if each.missing} == {"sex: F", "sex: M"}


Table = dict[str, NDArray[Any]]
ONE, TWO = Analysis(cluster="id"), Analysis(models=("a", "b"), by=(SEX,), min_cell=1, cluster="id")


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
    return all_told(read_in_the_clear(AnalysisSums(analysis, len(grid), True), [party(rows, analysis)], grid))


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
    [({"interval": None}, "is about intervals: ask for one"), ({"protocol": "semi-honest"}, "answers for one model")],
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
def test_at_the_default_s_thresholds_errors_are_within_three_percent_of_rows(seed: int, mixed: bool, bins: int) -> None:
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
    assert any("have rows of both labels" in text for text in warnings) == mixed


def test_few_patients_are_few_whatever_number_of_rows_they_have() -> None:
    rows = table(6, patients=40, visits=10)
    assert min(rows["y"].sum(), (1 - rows["y"]).sum()) > 30
    warnings = in_the_clear(rows, ONE, thresholds.uniform(300)).warnings
    assert any("as much as fewer than 30 with equally many rows" in text for text in warnings)


def test_rows_that_are_written_for_a_role_of_their_own_keep_their_patients(tmp_path: Path) -> None:
    data = party(table(4, 30), TWO)
    write_rows(tmp_path / "one.npz", data, TWO)
    ((found,), analysis) = read_for(Questions.of(TWO, "y_score"), tmp_path / "one.npz")
    assert analysis == TWO
    assert found.clusters is not None
    assert data.clusters is not None
    assert found.clusters.tolist() == data.clusters.tolist()
