"""Intervals and comparisons in real sessions: whose they are, and what is said where they tell little or nothing."""

import itertools
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from fhe_auc import federated_auc, federated_report
from fhe_auc.base.errors import InputError
from fhe_auc.results.intervals import quantile
from fhe_auc.rows.party_data import PartyData
from tests.support import delong
from tests.support.exact_sessions import GRID, Play, rows, slow
from tests.support.pooled import sklearns_auc


def test_an_interval_that_thresholds_leave_open_is_widened_in_every_form_until_quantiles_close_it() -> None:
    generator = np.random.default_rng(1)  # scores between 0.6 and 0.601, whose AUC is about 0.8
    y_true = generator.random(1500) < 0.4
    y_score = 0.6 + 0.001 * generator.beta(np.where(y_true, 4, 2), np.where(y_true, 2, 3))
    parties = [PartyData.from_arrays(f"site {at}", y_true[at::3], y_score[at::3]) for at in range(3)]
    truth = sklearns_auc(parties)
    found: Any = federated_auc(parties, protocol="exact")
    assert found.binning_error > found.standard_error
    assert found.interval.low < truth < found.interval.high
    assert found.interval.high - found.interval.low > 2 * found.binning_error
    assert "widened by the binning error" in str(found)
    assert found.as_dict()["estimates"][0]["interval"]["method"] == "DeLong, logit scale, widened by the binning error"
    (told,) = (each for each in found.warnings if "many pairs" in each)
    assert "the interval is widened by it" in told
    assert "quantile:1000" in told
    few = federated_auc(parties, protocol="exact", thresholds="quantile:40", interval=None)  # cells are cut for these
    assert "quantile" not in " ".join(each for each in few.warnings if "take" in each)  # that has been followed
    (told,) = (each for each in few.warnings if "many pairs" in each)
    assert "ask for more quantile thresholds" in told
    fitted: Any = federated_auc(parties, protocol="exact", thresholds="quantile:1000")
    assert fitted.auc == pytest.approx(truth, abs=1e-4)
    assert fitted.interval.method == "DeLong, logit scale"
    assert not any("many pairs" in each for each in fitted.warnings)
    rounded: Any = federated_auc(parties, protocol="exact", round_scores=3)  # whose AUC is asked for: ties are meant
    assert rounded.binning_error == 0
    assert rounded.interval.method == "DeLong, logit scale"


def test_a_quarter_of_the_standard_error_is_where_a_binning_error_begins_to_be_told() -> None:
    y_true, y_score = np.tile([0, 1, 1, 0, 1], 40), np.tile([0.2, 0.4, 0.6, 0.8, 0.9], 40)
    grid = np.linspace(0, 1, 11)
    for tied, warned in ((20, False), (40, True)):
        scores = np.where((np.arange(200) < tied) & (y_score == 0.8), 0.6001 + np.arange(200) / 1e4, y_score)
        found: Any = federated_auc([(y_true, scores)], protocol="exact", thresholds=grid)
        assert (found.binning_error > found.standard_error / 4) == warned
        assert any("a quarter of the standard error" in each for each in found.warnings) == warned
        assert found.interval.method == "DeLong, logit scale"


def test_an_interval_below_one_half_says_that_labels_or_scores_may_be_reversed() -> None:
    y_true, y_score = np.tile([1, 1, 1, 0, 0], 30), np.tile([0.1, 0.2, 0.5, 0.4, 0.9], 30)
    for scores, told in ((y_score, True), (1 - y_score, False)):
        found = federated_auc([(y_true, scores)], protocol="exact", thresholds="uniform:101")
        assert any("labels or scores may be reversed" in each for each in found.warnings) == told


def test_rows_of_one_group_against_anothers_may_be_below_one_half() -> None:
    y_true, sexes = np.tile([1, 1, 0, 0], 60), np.tile(["f", "m"], 120)
    scores = np.where(sexes == "f", 0.2, 0.5) + np.random.default_rng(1).uniform(0, 0.4, 240) + 0.05 * y_true
    table = {"y_true": y_true, "y_score": scores, "sex": sexes, "site": np.arange(240) // 120}
    grid = "uniform:100"
    found = federated_auc(table, site="site", by="sex", cross_groups=True, protocol="exact", thresholds=grid)
    assert found.auc == found.estimates[0].auc  # whatever is below
    assert any(each.interval is not None and each.interval.high < 0.5 for each in found.estimates)
    assert not any("reversed" in each for each in found.warnings)


def test_a_class_below_one_half_is_told_that_its_column_may_be_anothers() -> None:
    labels = np.tile(["a", "b", "c"], 80)
    of = {name: 0.3 + 0.3 * (labels == name) + np.random.default_rng(2).uniform(0, 0.2, 240) for name in "abc"}
    table = {"y": labels, "a": of["b"], "b": of["a"], "c": of["c"], "site": np.arange(240) // 120}
    asked = {"site": "site", "label": "y", "score": [*"abc"], "classes": [*"abc"], "thresholds": "uniform:100"}
    found = federated_auc(table, protocol="exact", **asked)
    told = [each for each in found.warnings if "below 1/2" in each]
    assert {each.split(":")[0] for each in told} >= {"a a from others", "b b from others"}
    assert all(each.endswith("the column of its scores may be another class's") for each in told)


def test_the_plain_interval_is_an_option_that_the_session_agrees_on() -> None:
    found: Any = federated_auc(rows(3, 8), protocol="exact", thresholds=GRID, plain_interval=True)
    ends = found.auc - 1.959963985 * found.standard_error, found.auc + 1.959963985 * found.standard_error
    assert (found.interval.low, found.interval.high) == pytest.approx(np.clip(ends, 0, 1), abs=1e-9)
    assert found.interval.method == "DeLong, plain"
    assert found.settings["plain_interval"] is True


@pytest.mark.parametrize(
    "sites",
    [
        [([0, 0, 1], [0.1, 0.3, 0.2]), ([0], [0.4])],  # one positive row
        [([0, 0, 1, 1], [0.5, 0.5, 0.5, 0.5])],
    ],
)
def test_where_rows_allow_no_interval_a_warning_says_so(sites: list[tuple[list[int], list[float]]]) -> None:
    found = federated_auc(sites, protocol="exact", thresholds="uniform:20")
    assert found.interval is None
    assert any("there is no confidence interval" in warning for warning in found.warnings)


def test_a_session_without_an_interval_releases_four_integers_and_eight_that_tell_which_ties_are_meant() -> None:
    found = federated_auc(rows(2, 32), interval=None, thresholds=GRID)
    assert (found.interval, found.standard_error) == (None, None)
    assert not any("interval" in warning for warning in found.warnings)
    names = [each.name for each in Play("verified", rows(2, 32)).plan.release.sums]
    assert names == ["difference", "ties", "N", "P", *(f"M{draw}" for draw in range(8))]


def test_a_manifest_whose_plan_and_interval_do_not_fit_is_refused() -> None:
    with_it, without = (Play("verified", rows(2, 33), interval=level) for level in (0.95, None))
    for play, options in ((with_it, {}), (without, {"interval": 0.95})):
        bad = msgspec.structs.replace(play.manifest, options=options)
        with pytest.raises(InputError, match="has an interval, and its plan not the sums for it, or the reverse"):
            play.party(play.sites[0], bad)
    for level in (2.0, "wide"):
        with pytest.raises(InputError, match="the level of an interval"):
            with_it.party(with_it.sites[0], msgspec.structs.replace(with_it.manifest, options={"interval": level}))


def imputed(seed: int) -> tuple[Any, Any, Any]:
    """Labels, a model, and another that has one score for half of the rows."""
    random = np.random.default_rng(seed)
    labels = np.arange(1000) < 300
    signal = random.normal(size=1000) + 0.9 * labels
    order = random.permutation(1000)
    logits = signal, np.where(random.random(1000) < 0.5, 0, signal)
    return labels[order], *((1 / (1 + np.exp(1.5 - each)))[order] for each in logits)


@pytest.mark.parametrize("decimals", [2, 3])
@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_comparisons_of_rounded_scores_are_delongs_over_these_or_have_no_p_value(decimals: int, seed: int) -> None:
    """101 bins are exact. In 1,001, half of the rows in one of them is no accident of where single rows lie."""
    labels, *scores = imputed(seed)
    first, second = (each.round(decimals) for each in scores)
    sites = [{"y": labels[rows], "a": first[rows], "b": second[rows]} for rows in (slice(0, 400), slice(400, None))]
    found = federated_auc(sites, label="y", score=["a", "b"], round_scores=decimals, protocol="exact")
    difference, error, p_value = delong.paired_of_rows(labels, first, second)
    (compared,) = found.comparisons
    assert compared.difference == pytest.approx(difference, abs=1e-12)
    if decimals == 2:
        assert (compared.standard_error, compared.p_value) == pytest.approx((error, p_value))
        return
    assert compared.p_value is None
    assert abs(compared.standard_error / error - 1) < compared.standard_error_off
    assert any("--round-scores 2" in each for each in found.warnings)


def test_two_models_with_about_the_same_ranking_are_told_so() -> None:
    labels, scores, _ = imputed(0)
    nearly = scores + np.random.default_rng(1).uniform(-1e-5, 1e-5, len(scores))
    sites = [{"y": labels[rows], "a": scores[rows], "b": nearly[rows]} for rows in (slice(0, 400), slice(400, None))]
    found = federated_auc(sites, label="y", score=["a", "b"], protocol="exact")
    (told,) = (each for each in found.warnings if "no p-value" in each)
    assert told.endswith("both models rank the rows nearly alike")


def test_thresholds_that_a_session_finds_are_for_every_model_that_is_compared() -> None:
    """The first column has few values: thresholds found for it alone turned the difference of the AUCs round."""
    from sklearn.metrics import roc_auc_score

    random = np.random.default_rng(5)
    labels = random.random(1500) < 0.3
    signal = random.normal(size=1500) + 1.3 * labels
    columns = {
        "points": np.clip(np.round(1.5 * (signal + 0.9 * random.normal(size=1500)) + 4), 0, 10) / 10,
        "full": 1 / (1 + np.exp(1.5 - 1.1 * signal - 0.3 * random.normal(size=1500))),
    }
    sites = {
        name: {"y": labels[rows], **{column: scores[rows] for column, scores in columns.items()}}
        for name, rows in (("north", slice(0, 900)), ("south", slice(900, None)))
    }
    found = federated_auc(sites, protocol="exact", label="y", score=list(columns), thresholds="quantile:400")
    aucs = {name: roc_auc_score(labels, scores) for name, scores in columns.items()}
    of_model = {each.model: each for each in found.estimates}
    for name, auc in aucs.items():
        assert of_model[name].auc == pytest.approx(auc, abs=2e-3)
    assert of_model["points"].binning_error == 0 < of_model["full"].binning_error < 2e-3
    (compared,) = found.comparisons
    assert compared.difference == pytest.approx(aucs["full"] - aucs["points"], abs=3e-3)
    assert (compared.interval, compared.p_value) == (None, None)
    assert compared.missing.startswith("the standard error, ")
    (told,) = (each for each in found.warnings if each.startswith("full minus points"))
    assert "quantile" not in told  # that has been followed
    assert "--round-scores" in told


def width_over_rows(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """How wide DeLong's interval is on the logit scale."""
    auc, error = delong.of_rows(scores[labels], scores[~labels])
    reach = quantile(0.95) * error / (auc * (1 - auc))
    low, high = (1 / (1 + np.exp(-(np.log(auc / (1 - auc)) + end))) for end in (-reach, reach))
    return float(high - low)


WAYS: dict[str, dict[str, Any]] = {
    "evaluate": {},
    "groups": {"by": "sex"},
    "two models": {"score": ["score", "other"]},
    "helper": {"keys": "helper", "row_caps": 2000},
    "report": {},
}
FAST = {("evaluate", "tree")}


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        (way, kind) if (way, kind) in FAST else slow(way, kind)
        for way, kind in itertools.product(WAYS, ("points", "shares", "-3 to 3", "halves", "tree"))
    ],
)
def test_true_ties_widen_no_interval(way: str, kind: str) -> None:
    """One site of three writes its scores in single precision."""
    random = np.random.default_rng(30)
    labels, site = random.random(2000) < 0.2, random.choice(["north", "south", "west"], 2000)
    points = np.clip(np.round(random.normal(4 + 1.2 * labels, 2)), 0, 9)
    scores = {
        "points": points,
        "shares": points / 10,
        "-3 to 3": np.clip(points - 4, -3, 3),
        "halves": random.integers(0, 26, 2000) / 2,
        "tree": np.sort(random.random(10)).astype(np.float32).astype(np.float64)[points.astype(int)],
    }[kind]
    rows = {
        **{"y": labels, "site": site, "sex": np.where(site < "o", "f", "m"), "other": np.roll(scores, 1)},
        "score": np.where(site == "west", scores.astype(np.float32), scores),
    }
    asked = {"label": "y", "score": "score", "site": "site", **WAYS[way]}
    interval = (
        federated_report(rows, **asked).card.interval if way == "report" else federated_auc(rows, **asked).interval
    )
    assert interval is not None
    assert interval.high - interval.low == pytest.approx(width_over_rows(labels, scores), rel=0.02)
