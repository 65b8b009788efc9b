"""Counts are exact and additive, the trapezoid is an exact fraction, and bad rows are named."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError, UndefinedAucError
from fhe_auc.metrics.trapezoid import Trapezoid, trapezoid
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis, Variable
from fhe_auc.rows import datasets
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.entries import canonical
from fhe_auc.rows.party_data import PartyData
from tests.support import missing
from tests.support.lazy import Lazy
from tests.support.pooled import pooled, pooled_counts

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

GRID = np.linspace(0.0, 1.0, 21)


def party(y_true: Any, y_score: Any, name: str = "north") -> PartyData:
    return PartyData.from_arrays(name, y_true, y_score)


def mann_whitney(y_true: Any, y_score: Any) -> Fraction:
    """The AUC by looking at every pair of a positive and a negative row."""
    positives = [score for label, score in zip(y_true, y_score, strict=True) if label]
    negatives = [score for label, score in zip(y_true, y_score, strict=True) if not label]
    twice_won = sum(2 * (p > n) + (p == n) for p in positives for n in negatives)
    return Fraction(twice_won, 2 * len(positives) * len(negatives))


# Rows whose scores often tie with one another and with the thresholds, and some outside [0, 1].
scores = st.one_of(st.integers(-2, 22).map(lambda k: k / 20), st.floats(-0.5, 1.5))
rows = st.lists(st.tuples(st.booleans(), scores), min_size=1, max_size=60)
rows_of_both_labels = rows.filter(lambda pairs: len({label for label, _ in pairs}) == 2)


def unzip(pairs: list[tuple[bool, float]]) -> tuple[list[bool], list[float]]:
    return [label for label, _ in pairs], [score for _, score in pairs]


@pytest.mark.parametrize(
    ("y_true", "shown"),
    [
        ([0, 1, -1], "label is -1;"),
        ([0, 1, 0.5], "label is 0.5;"),
        ([0, 1, float("nan")], "label is missing;"),
        ([0, 1, None], "label is missing"),
        ([0, 1, ".a"], "label is '.a', which counts as missing; drop the row, as drop_missing=True does"),
        (np.array([0, 1, "yes"], dtype=object), "label is 'yes'; labels must be 0 or 1"),
        ([0, 1, 1 + 0j], r"label is \(1\+0j\); labels must be 0 or 1"),
        ([0, 1, 10**400], r"label is 1000.*\.\.\..*0; labels must be 0 or 1"),
        (np.ma.masked_array([0, 1, 1], mask=[0, 0, 1]), "label is missing"),
    ],
)
def test_a_bad_label_is_refused_with_party_row_and_value(y_true: Any, shown: str) -> None:
    with pytest.raises(InputError, match=rf"^party 'north', row 2: {shown}"):
        party(y_true, [0.1, 0.2, 0.3])


def test_labels_are_0_and_1_however_they_are_written() -> None:
    entries = [0, 1, 1.0, np.float32(0), True, np.False_, "1", "0.00", "TRUE", b"1", Decimal("1.0"), Fraction(0)]
    labels = [0, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0]
    for own in (entries, np.array(entries, dtype=object)):
        assert party(own, [0.5] * 12).labels.tolist() == labels


@pytest.mark.parametrize(
    ("y_true", "y_score", "shown"),
    [
        ([0, 1, 1], [0.1, float("nan"), 0.2], ", row 1: score is missing; drop the row"),
        ([0, 1, 1], [0.1, float("-inf"), 0.2], ", row 1: score is -inf; scores must be finite"),
        ([0, 1, 1], np.array([0.1, np.nan, 0.2], dtype=np.float32), ", row 1: score is missing; drop the row"),
        ([0, 1, 1], [0.1, None, 0.2], ", row 1: score is missing"),
        ([0, 1, 1], [0.1, "0,3", 0.2], ", row 1: score is '0,3', which is not a number"),
        ([0, 1, 1], [0.1, [0.3], 0.2], ""),
        ([0, 1, 1], [0.1, object, 0.2], ", row 1: score is <class 'object'>, which is not a number"),
        ([0, 1, 1], [0.1, 1j, 0.2], ", row 1: score is 1j, which is not a number"),
        ([0, 1, 1], [0, 2**53 + 1, 2**53], ", row 1: score is 9007199254740993, which float64 cannot hold exactly"),
        ([0, 1, 1], [0, 10**400, 1], ", row 1: score is 1000.*, which is too large"),
        ([0, 1, 1], np.ma.masked_array([0.1, 0.3, 0.2], mask=[0, 1, 0]), ", row 1: score is missing"),
        ([0, 1, 1], np.array([0.1, np.timedelta64(1, "ns"), 0.2], dtype=object), ", row 1: score is .*timedelta"),
        ([0, 1, 1], np.array([1, 2, 3], dtype="M8[ns]"), ""),
        ([], [], ": there are no rows"),
        ([0, 1], [0.5], ": 2 labels but 1 scores"),
        ([[0], [1]], [0.5, 0.6], r": labels must be one-dimensional, but have shape \(2, 1\)"),
        ([0, 1], 0.5, ": scores must be one-dimensional, an entry for each row, got float"),
        (None, [0.5], ": labels must be one-dimensional, an entry for each row, got NoneType"),
        ([0, 1], (x for x in [0.1, 0.2]), ": scores must be one-dimensional, an entry for each row, got generator"),
        ([[0], [1, 1]], [0.5, 0.6], ": labels: list makes no array of one dimension"),
    ],
)
def test_bad_scores_and_arrays_that_do_not_fit_are_refused_by_place(y_true: Any, y_score: Any, shown: str) -> None:
    with pytest.raises(InputError, match=f"^party 'north'{shown}"):
        party(y_true, y_score)


def test_a_party_must_have_a_name_and_checked_arrays_and_an_error_stays_on_one_line() -> None:
    for name, problem in (("", "not be blank"), (" \t", "not be blank"), (None, "be text"), (7, "be text")):
        with pytest.raises(InputError, match=f"the name of a party must {problem}"):
            party([0, 1], [0.1, 0.2], name)  # type: ignore[arg-type]
    for y_true, y_score in ([0, 1], [0.1, 0.2]), (np.array([True]), np.array([0.5])):
        with pytest.raises(InputError, match="from_arrays"):
            PartyData("north", y_true, y_score)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        party([0, "\n" * 500], [0.1, 0.2], "nor\nth")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 120


def test_labels_may_be_any_kind_of_zero_and_one_and_scores_become_float64_without_rounding() -> None:
    arrays = [np.array(each, dtype=object) for each in ([0, 1], [np.int8(0), np.True_])]
    arrays += [np.array([0, 1], dtype=np.uint8), np.ma.masked_array([0, 1])]
    for y_true in ([False, True], [0, 1], [0.0, 1.0], [-0.0, True], *arrays):
        data = party(y_true, [0.1, 0.2])
        assert (data.y_true.dtype, data.y_true.tolist()) == (np.bool_, [False, True])
    for dtype in (np.float16, np.float32, np.float64, np.longdouble, object):
        given = np.array([0.1, 1e-7, 3.0], dtype=np.float16).astype(dtype)
        data = party([0, 1, 1], given)
        assert (data.y_score.dtype, (data.y_score == given).all()) == (np.float64, True)


def test_party_data_is_a_read_only_copy_and_reprs_tell_nothing_of_the_rows() -> None:
    y_true, y_score = np.array([False, True]), np.array([0.1, 0.2])
    data = party(y_true, y_score)
    y_true[0], y_score[0] = True, 0.9
    assert not data.y_true[0]
    assert data.y_score[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        data.y_score[0] = 0.5
    data = party([0, 1], [0.1, 0.2])
    assert repr(data) == "PartyData(name='north')"
    assert repr(count(data, GRID)) == "Counts(thresholds=21)"


@pytest.mark.parametrize(
    ("tp", "fp", "shown"),
    [
        ([], [], "tp must be a one-dimensional int64 array"),
        ([2.0, 1.0], [1, 1], "tp must be a one-dimensional int64 array"),
        ([2, 1], [[1], [1]], "fp must be a one-dimensional int64 array"),
        ([2, 3], [1, 1], "tp must fall"),
        ([2, 1], [1, -1], "fp must fall"),
        ([2**62, 1], [1, 1], "tp must fall from at most 2.62 - 1"),
        ([2, 1], [1, 1, 1], "2 true-positive but 3 false-positive"),
    ],
)
def test_numbers_that_cannot_be_counts_are_refused(tp: Any, fp: Any, shown: str) -> None:
    with pytest.raises(InputError, match=shown):
        Counts(np.array(tp), np.array(fp))


def test_counts_add_up_at_the_same_ascending_thresholds_only() -> None:
    data = party([0, 1], [0.1, 0.2])
    with pytest.raises(InputError, match="counts at 21 and at 5 thresholds"):
        count(data, GRID) + count(data, np.linspace(0, 1, 5))
    with pytest.raises(InputError, match="strictly ascending"):
        count(data, [0.0, 0.5, 0.5])


@given(rows)
@settings(max_examples=50)
def test_counts_follow_their_definition(pairs: list[tuple[bool, float]]) -> None:
    y_true, y_score = map(np.array, unzip(pairs))
    counts = count(party(y_true, y_score), GRID)
    above = [np.ones(len(pairs), dtype=bool), *(np.float32(y_score) >= np.float32(theta) for theta in GRID[1:])]
    assert counts.tp.tolist() == [int((y_true & predicted).sum()) for predicted in above]
    assert counts.fp.tolist() == [int((~y_true & predicted).sum()) for predicted in above]


@given(rows_of_both_labels, st.data())
@settings(max_examples=40)
def test_any_split_of_the_rows_in_any_order_gives_the_same_counts_and_auc(pairs: Any, data: st.DataObject) -> None:
    whole = count(party(*unzip(pairs)), GRID)
    owners = data.draw(st.lists(st.integers(0, 4), min_size=len(pairs), max_size=len(pairs)))
    shares = [[pair for pair, owner in zip(pairs, owners, strict=True) if owner == k] for k in range(5)]
    parties = [party(*unzip(share)) for share in data.draw(st.permutations(shares)) if share]
    pool = pooled_counts(parties, GRID)
    assert (pool.tp.tolist(), pool.fp.tolist()) == (whole.tp.tolist(), whole.fp.tolist())
    assert trapezoid(pool) == trapezoid(whole)


@pytest.mark.parametrize(("label", "missing"), [(0, "positive"), (1, "negative")])
def test_rows_of_one_label_have_no_auc(label: int, missing: str) -> None:
    with pytest.raises(UndefinedAucError, match=f"hold no {missing} row"):
        trapezoid(count(party([label] * 3, [0.1, 0.2, 0.3]), GRID))


@given(rows_of_both_labels)
@settings(max_examples=40)
def test_the_exact_auc_lies_within_the_resolution_and_is_that_at_every_score(pairs: list[tuple[bool, float]]) -> None:
    y_true, y_score = unzip(pairs)
    area = trapezoid(count(party(y_true, y_score), GRID))
    assert abs(area.fraction - mann_whitney(y_true, y_score)) <= Fraction(area.tie, area.den)
    assert abs(area.auc - roc_auc_score(y_true, y_score)) <= area.binning_error + 1e-12
    assert 0 <= area.num <= area.den
    assert 0 <= area.binning_error <= 0.5
    every_score = [*sorted(set(y_score)), 2.0]
    area = trapezoid(count(party(y_true, y_score), every_score))
    assert area.fraction == mann_whitney(y_true, y_score)
    assert area.auc == pytest.approx(roc_auc_score(y_true, y_score), abs=1e-12)


def test_the_largest_counts_allowed_are_exact_and_do_not_overflow() -> None:
    most = 2**62 - 1
    assert trapezoid(Counts(np.array([most, most]), np.array([most, most]))) == Trapezoid(
        num=most * most, den=2 * most * most, tie=most * most
    )
    with pytest.raises(InputError, match=r"at most 2.62 - 1"):
        Counts(np.array([most]), np.array([most])) + Counts(np.array([1]), np.array([0]))
    rng = np.random.default_rng(1)
    tp, fp = (np.sort(rng.integers(0, 10**10, 100_000))[::-1].copy() for _ in range(2))
    area = trapezoid(Counts(tp, fp))
    tps, fps = [*tp.tolist(), 0], [*fp.tolist(), 0]
    bins = range(len(tp))
    assert area.num == sum((tps[k] + tps[k + 1]) * (fps[k] - fps[k + 1]) for k in bins)
    assert area.tie == sum((tps[k] - tps[k + 1]) * (fps[k] - fps[k + 1]) for k in bins)
    assert area.den == 2 * tps[0] * fps[0]
    assert area.num > 2**64
    assert abs(area.auc - 0.5) < 0.01


BY_CODE = Analysis(by=(Variable("ward", ("1", "2", "True")),))
THREE = Analysis(models=("x", "y", "z"), classes=("0", "1", "flu"))


def test_levels_and_classes_are_the_same_as_text_and_as_numbers_and_no_others_are_read() -> None:
    texts, *mixed = ["1", "2", "True"], *(np.array([one, 2, True], dtype=object) for one in (1, 1.0))
    for levels in (texts, np.array(texts), [" 1 ", "2\n", "True"], [1.0, 2.0, "True"], *mixed):
        data = PartyData.from_columns("north", [0, 1, 1], {"": [0.1, 0.2, 0.3]}, {"ward": levels}, BY_CODE)
        assert data.groups[0].tolist() == [0, 1, 2]
    columns = {name: [0.1, 0.2, 0.3] for name in "xyz"}
    assert PartyData.from_columns("north", [0, 1.0, "flu"], columns, {}, THREE).labels.tolist() == [0, 1, 2]
    for other in (2, "cold", None):
        with pytest.raises(InputError, match="row 1: label is"):
            PartyData.from_columns("north", [0, other, "flu"], columns, {}, THREE)
    with pytest.raises(InputError, match=r"row 2: label is 2\.0; labels must be 0 or 1$"):
        PartyData.from_columns("north", [0, 1, 2.0], {"": [0.1, 0.2, 0.3]}, {}, PLAIN)


def test_a_missing_level_is_refused_with_its_row_and_what_to_do() -> None:
    import pandas as pd

    for entry in (None, np.nan, "  ", b"NA", pd.NA, pd.NaT, *missing.TEXTS):
        assert canonical(entry) is None
        with pytest.raises(InputError, match=r"'north', row 1: ward is .*missing: give such rows a level"):
            PartyData.from_columns("north", [0, 1], {"": [0.1, 0.2]}, {"ward": ["1", entry]}, BY_CODE)


@pytest.mark.parametrize("level", ["3", "male", 1.5, 10**40, float("inf"), b"3"])
def test_an_unknown_level_is_refused_with_its_row_and_what_there_is(level: object) -> None:
    with pytest.raises(InputError, match=r"party 'north', row 1: ward is .*, and can only be '1', '2', 'True'"):
        PartyData.from_columns("north", [0, 1], {"": [0.1, 0.2]}, {"ward": ["1", level]}, BY_CODE)


def test_columns_of_different_lengths_and_missing_scores_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="2 labels but 3 'ward' levels"):
        PartyData.from_columns("north", [0, 1], {"": [0.1, 0.2]}, {"ward": [1, 2, 1]}, BY_CODE)
    with pytest.raises(InputError, match="3 labels but 1 'y' scores"):
        PartyData.from_columns("north", [0, 1, 1], {"x": [0.1] * 3, "y": [0.1], "z": [0.1] * 3}, {}, THREE)
    with pytest.raises(InputError, match="party 'north', row 1: 'b' score is missing"):
        PartyData.from_columns("north", [0, 1], {"a": [0.1, 0.2], "b": [0.1, np.nan]}, {}, Analysis(models=("a", "b")))


# name: parties, rows, positive rows, 2·P·N·AUC
KNOWN = {"covid-clinics": (78, 7612, 433, 4894534), "credit-default": (6, 15000, 3409, 50162189)}
EACH = pytest.mark.parametrize("name", datasets.NAMES)


@pytest.mark.parametrize("name", ["covid", "", "../covid_clinics", "covid_clinics"])
def test_an_unknown_data_set_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InputError, match=rf"no data set {name!r}; there are covid-clinics, credit-default"):
        datasets.load(name)


@EACH
def test_every_score_as_threshold_gives_the_known_auc_exactly_and_fewer_within_the_resolution(name: str) -> None:
    from sklearn.metrics import roc_auc_score

    parties = datasets.load(name)
    rows = pooled(parties)
    area = trapezoid(pooled_counts(parties, np.unique(rows.y_score)))
    n_parties, n_rows, positives, two_u = KNOWN[name]
    assert len({party.name for party in parties}) == len(parties) == n_parties
    assert (len(rows.y_true), int(rows.y_true.sum())) == (n_rows, positives)
    assert (area.num, area.den) == (two_u, 2 * positives * (n_rows - positives))
    expected = roc_auc_score(rows.y_true, rows.y_score)
    assert area.auc == pytest.approx(expected, abs=1e-12)
    assert area.fraction == Fraction(two_u, area.den)
    for spec in ("uniform:2", "uniform:10", "uniform:100", "uniform:1000", "hybrid:100", "hybrid"):
        area = trapezoid(pooled_counts(parties, thresholds.parse(spec)))
        assert abs(area.auc - expected) <= area.binning_error + 1e-12
    assert abs(area.auc - expected) < 5e-4
