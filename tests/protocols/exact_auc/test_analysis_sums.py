"""What an analysis releases, against definitions over rows: each AUC, comparison and sum over sites, as integers."""

import json
import math
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from scipy.stats import norm

from fhe_auc import federated_auc
from fhe_auc.base.errors import CapacityError, InputError, VerificationError
from fhe_auc.base.serialise import json_text
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.results.delong import hanley_mcneil
from fhe_auc.results.estimates import Comparison
from fhe_auc.results.heterogeneity import WITHIN
from fhe_auc.results.intervals import Interval, on_logit_scale
from fhe_auc.results.result_tables import of_sites
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.exact_auc.auc_sums import merged_starts
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from fhe_auc_protocols.exact_auc.exact_protocols import plan_exact
from fhe_auc_protocols.exact_auc.release_part import Said
from tests.support import delong
from tests.support.delong import paired_of_rows
from tests.support.exact_sessions import BACKENDS, Play, slow
from tests.support.lazy import Lazy
from tests.support.several import (
    AGE,
    CLASSES,
    SEX,
    TWO_MODELS,
    auc_of,
    binned,
    chosen,
    made,
    pool,
    read,
    read_in_the_clear,
    released,
    told,
)

WITH_SITES = Analysis(heterogeneity=True)


analyses = st.one_of(
    st.builds(
        lambda models, by, across: Analysis(models=("x", "y", "z")[:models], by=by, cross_groups=across and bool(by)),
        st.integers(1, 3),
        st.sampled_from([(), (SEX,), (AGE,), (SEX, AGE)]),
        st.booleans(),
    ),
    st.builds(
        lambda names, by: Analysis(models=tuple(f"p_{name}" for name in names), by=by, classes=tuple(names)),
        st.sampled_from(["abc", "abcd"]),
        st.sampled_from([(), (SEX,)]),
    ),
)


@given(analyses, st.integers(2, 9), st.sampled_from([None, 2, 4, 500]), st.integers(0, 10**6))
@settings(max_examples=25)
def test_an_estimate_is_that_of_all_pairs(analysis: Analysis, bins: int, variance_bins: int | None, seed: int) -> None:
    """The sums of a variance are over merged bins, so many, where there are more, and no models are compared."""
    parties, grid = made(analysis, 3, seed), thresholds.uniform(bins)
    rows = pool(parties)
    sums = AnalysisSums(analysis, bins, variance_bins is not None, variance_bins=variance_bins or 500)
    found = read_in_the_clear(sums, parties, grid)
    at = [binned(scores, grid) for scores in rows.scores]
    pieces = bins if analysis.comparisons else min(variance_bins or bins, bins)
    merging = np.arange(bins) * pieces // bins
    for contrast, estimate in zip(analysis.contrasts, found.aucs, strict=True):
        masks = [chosen(rows, analysis, cell) for cell in (contrast.positives, contrast.negatives)]
        ones, zeros = (at[contrast.model][mask] for mask in masks)
        assert (estimate.positives, estimate.negatives) == (len(ones), len(zeros))
        assert (None if estimate.auc is None else (estimate.auc, estimate.binning_error)) == auc_of(ones, zeros)
        if estimate.auc is not None:
            unbinned = (rows.scores[contrast.model][mask] for mask in masks)
            truth = auc_of(*unbinned)
            assert abs(truth[0] - estimate.auc) <= estimate.binning_error
        if variance_bins is None or not contrast.interval or estimate.auc is None:
            assert estimate.variance is None
        else:
            signs, of_bins = np.sign(merging[ones][:, None] - merging[zeros]), np.sign(ones[:, None] - zeros)
            squares = (signs.sum(axis=1) ** 2).sum(), (signs.sum(axis=0) ** 2).sum()
            tied, alike = (int((own == 0).sum()) for own in (signs, of_bins))
            counts = [np.bincount(merging[own]) for own in (ones, zeros)]
            of_labels = None if pieces == bins else tuple([int((own**2).sum()) for own in counts])
            once = (signs.sum(), signs.sum()), (len(ones), len(zeros))  # what weights would change
            assert estimate.variance == (signs.sum(), *squares, tied, tied - alike, of_labels, *once)


def test_besides_many_bins_of_one_number_half_as_many_are_merged() -> None:
    """Eight runs of ten bins, of which 12 / 2 pieces end four times within a run, and once with one."""
    assert len(merged_starts(np.tile([True] * 10 + [False], 8), 12)) == 8 + 8 + 4


def compared(labels: Any, first: Any, second: Any, grid: Any) -> tuple[Said, Comparison]:
    data = PartyData.from_columns("all", labels, {"old": first, "new": second}, {}, TWO_MODELS)
    said = told(read_in_the_clear(AnalysisSums(TWO_MODELS, len(grid), True), [data], grid))
    (found,) = said.comparisons
    return said, found


KINDS = {"even": (4000, 0.3, 0.0), "rare": (20_000, 0.01, -4.0), "low": (4000, 0.3, -4.0)}  # rows, share, centre


def binormal(rows: int, share: float, auc: float, alike: float, seed: int, centre: float = -1.5) -> list[Any]:
    """Labels, and scores of two models with this AUC, whose normal scores are correlated so far within each label."""
    generator = np.random.default_rng(seed)
    labels = np.arange(rows) < round(rows * share)
    first, other = generator.normal(size=(2, rows)) + math.sqrt(2) * norm.ppf(auc) * labels * [[1], [0]]
    second = alike * first + math.sqrt(1 - alike**2) * other + (1 - alike) * math.sqrt(2) * norm.ppf(auc) * labels
    return [labels, *(1 / (1 + np.exp(-centre - np.array([first, second]))))]


@pytest.mark.parametrize(
    ("kind", "alike", "close"),
    [
        *(("even", 0.9, 0.005), ("even", 0.999, 0.1), ("low", 0.0, 0.02)),
        *(slow("even", 0.0, 0.005), slow("even", 0.99, 0.02), slow("low", 0.99, 0.08)),
        *(slow("rare", 0.5, 0.03), slow("rare", 0.99, 0.08)),
    ],
)
def test_the_standard_error_of_a_difference_is_delongs_over_rows(kind: str, alike: float, close: float) -> None:
    for seed in range(3):
        rows, share, centre = KINDS[kind]
        labels, first, second = binormal(rows, share, 0.8, alike, seed, centre)
        difference, error, _ = delong.paired_of_rows(labels, first, second)
        said, found = compared(labels, first, second, thresholds.hybrid(1000))
        assert (found.first, found.second) == ("old", "new")
        assert found.standard_error == pytest.approx(error, rel=close)
        assert abs(found.difference - difference) <= sum(each.binning_error or 0 for each in said.estimates)
        assert abs(found.standard_error / error - 1) <= max(found.standard_error_off, 0.04)
        assert (found.p_at_most is None) is (found.p_value is not None)
        assert (found.interval is None) is (found.p_value is None) is bool(found.missing)
        if found.interval is None:
            assert found.standard_error_off > 0.05 or found.binning_error > max(found.standard_error, 0.003)
            continue
        middle, reach = (found.interval.low + found.interval.high) / 2, norm.ppf(0.975) * found.standard_error
        assert middle == pytest.approx(found.difference)
        assert (found.interval.high - found.interval.low) / 2 == pytest.approx(reach)
        assert found.p_value == pytest.approx(2 * norm.sf(abs(found.difference) / found.standard_error))


def alike(rows: int, positive: float, gain: float, seed: int) -> Any:
    """Labels, and two models whose log odds have little noise of their own, the second better by so much."""
    generator = np.random.default_rng(seed)
    labels = np.arange(rows) < rows * positive
    signal = generator.standard_t(5, rows) + 1.2 * labels - 3
    both = (signal + 0.185 * generator.normal(size=rows) + by * labels for by in (0, gain))
    return labels, *(1 / (1 + np.exp(-each)) for each in both)


def quantiles_of(*models: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Return thresholds between which about equally many scores of all models lie, as a session finds them."""
    return np.unique(np.quantile(np.concatenate(models), np.linspace(0, 1, 1000), method="lower"))


@pytest.mark.parametrize("rows", [24, 40, 60])
@pytest.mark.parametrize("alike", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("auc", [0.7, 0.95, 0.99])
def test_comparisons_of_few_rows_at_their_quantiles_are_delongs_over_rows(rows: int, alike: float, auc: float) -> None:
    for seed, share in enumerate((0.15, 0.5)):
        labels, first, second = binormal(rows, share, auc, alike, seed)
        difference, error, p_value = delong.paired_of_rows(labels, first, second)
        _, found = compared(labels, first, second, quantiles_of(first, second))
        assert found.difference == pytest.approx(difference)
        if error:
            assert (found.standard_error, found.p_value) == (pytest.approx(error), pytest.approx(p_value))
            assert found.standard_error_off == pytest.approx(0, abs=1e-9)


def test_a_model_does_not_differ_from_itself_and_a_constant_one_has_its_own_error() -> None:
    """No division by zero, and no standard error that is nearly none."""
    generator, analysis = np.random.default_rng(4), Analysis(models=("a", "again", "constant", "mirrored"))
    labels, scores = np.repeat([0, 1], [30, 20]), generator.random(50)
    columns = dict(zip(analysis.models, (scores, scores, np.full(50, 0.5), 1 - scores), strict=True))
    data = PartyData.from_columns("all", labels, columns, {}, analysis)
    said = told(read_in_the_clear(AnalysisSums(analysis, 40, True), [data], thresholds.uniform(40)))
    again, constant, mirrored = said.comparisons
    assert (again.difference, again.standard_error, again.interval, again.p_value) == (0.0, None, None, None)
    first, _, alike, _ = said.estimates
    assert constant.standard_error == pytest.approx(first.standard_error)
    assert mirrored.standard_error == pytest.approx(2 * first.standard_error, rel=0.05)
    assert (alike.auc, alike.standard_error, alike.interval) == (0.5, 0.0, None)
    json.loads(json_text([asdict(each) for each in said.comparisons]))


def test_sums_over_sites_are_those_of_each_sites_own_rows() -> None:
    parties, grid = made(TWO_MODELS, 7, 3), thresholds.uniform(30)
    parties.append(PartyData.from_columns("one label", [1, 1], {"old": [0.5, 0.6], "new": [0.4, 0.9]}, {}, TWO_MODELS))
    parties.append(PartyData.from_columns("perfect", [0, 1], {"old": [0.1, 0.9], "new": [0.1, 0.9]}, {}, TWO_MODELS))
    tied = {"old": [0.1, 0.9, 0.9], "new": [0.2, 0.5, 0.5]}
    parties.append(PartyData.from_columns("one positive", [0, 1, 0], tied, {}, TWO_MODELS))
    own = AnalysisSums(structs.replace(TWO_MODELS, heterogeneity=True), 30, True)
    with_level, none = (read_in_the_clear(own, parties, grid, level=level) for level in (0.95, None))
    summaries, without = told(with_level).sites, told(none).sites
    (by_model,) = none.sayings[-1].args  # type: ignore[attr-defined]
    for model, sums in enumerate(by_model):
        right = wrong = pairs = both = 0
        usable, variance = [], 0.0
        for each in parties:
            at = binned(each.scores[model], grid)
            ones, zeros = at[each.y_true], at[~each.y_true]
            right += int((ones[:, None] > zeros).sum())
            wrong += int((ones[:, None] < zeros).sum())
            pairs += len(ones) * len(zeros)
            both += bool(len(ones) and len(zeros))
            auc, error = delong.of_rows(ones, zeros) if min(len(ones), len(zeros)) > 1 else (0, 0)
            if each.name == "one positive":  # 1.5 of 2 pairs for either model
                error = hanley_mcneil(Fraction(3, 4), 1, 2)
            variance += (len(ones) * len(zeros) * error) ** 2
            if 0 < auc < 1:
                usable.append((math.log(auc / (1 - auc)), min((auc * (1 - auc) / error) ** 2, each.rows)))
        assert (sums.difference, sums.pairs, sums.both_classes) == (right - wrong, pairs, both)
        summary = summaries[model]
        assert summary.within == pytest.approx((1 + (right - wrong) / pairs) / 2)
        assert (both, summary.both_classes, summary.one_class) == (9, 9, 1)
        assert (isinstance(summary.prediction, Interval), without[model].prediction) == (True, None)
        assert 5 <= len(usable) < both  # some are perfect
        own, error = summary.within_interval, variance**0.5 / pairs
        expected = on_logit_scale((1 + Fraction(right - wrong, pairs)) / 2, error, 0.95, WITHIN)
        assert (own.low, own.high) == pytest.approx((expected.low, expected.high), abs=1e-5)
        assert without[model].within_interval is None
        theta, weight = np.array(usable).T
        expected = (
            len(usable),
            weight.sum(),
            weight @ theta,
            weight @ theta**2,
            weight @ weight,
            theta.sum(),
            theta @ theta,
        )
        assert [float(each) for each in sums.usable] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "sums",
    [
        (0, -1),
        (0, 1, 0, 1),
        (5, 4, 1, 1),
        (0, 1, 6, 5),
        (0, 9, 5, 5, 9, 0, 9, -1),
        (0, 0, 5, 5),
        (0, 9, 5, 5, *[9] * 6, -1),
    ],
)
def test_sums_over_sites_that_cannot_be_are_not_shown_and_everything_else_is(sums: tuple[int, ...]) -> None:
    """D beyond the pairs, or none; more usable sites than with both labels; more of these than parties; squares < 0."""
    own = AnalysisSums(WITH_SITES, 4, True)
    parties = made(PLAIN, 5, 8)
    honest = released(own, parties, thresholds.uniform(4), 1000)
    found = list(honest)
    found[-11 : len(found) - 11 + len(sums)] = sums
    true, false = (told(read(own, each, 5, 1000)) for each in (honest, found))
    assert false.sites == ()
    assert len(true.sites) == 1
    assert any("a party has made some up" in warning for warning in false.warnings)
    assert false.estimates == true.estimates


def test_three_sites_that_a_fourth_one_could_solve_for_are_not_shown() -> None:
    """Of four sites with both labels each knows its own numbers, and nine sums hold the nine of the other three."""
    parties = made(PLAIN, 4, 8)
    parties += [PartyData.from_arrays(f"one label {k}", [k % 2], [0.4]) for k in range(2)]
    (summary,) = told(read_in_the_clear(AnalysisSums(WITH_SITES, 4, True), parties, thresholds.uniform(4))).sites
    assert (summary.both_classes, summary.one_class) == (4, 2)
    shown = {name: value for name, value in asdict(summary).items() if value is not None}
    assert shown.keys() == {"model", "both_classes", "one_class", "usable"}
    ((_, value, note),) = of_sites([summary])
    assert (value, "single sites could be told" in note) == ("not shown", True)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"parties": 4}, "heterogeneity takes 5 parties or more"),
        ({"interval": False}, "heterogeneity takes 5 parties or more"),
        ({"min_parties": 4}, "sums over sites take 5 parties; 4 may be all"),
    ],
)
def test_sites_of_few_parties_or_without_an_interval_are_refused(arguments: dict[str, Any], shown: str) -> None:
    given: dict[str, Any] = {"thresholds": 4, "parties": 5, "backend": "tenseal", "interval": True}
    assert plan_exact(**given, analysis=WITH_SITES).analysis.heterogeneity
    with pytest.raises(CapacityError, match=shown):
        plan_exact(**given | arguments, analysis=WITH_SITES)
    with pytest.raises(InputError, match="sums over sites are for labels 0 and 1"):
        structs.replace(CLASSES, heterogeneity=True)


multipletests = Lazy("statsmodels.stats.multitest").multipletests

GRID = thresholds.uniform(6)
SITES = msgspec.structs.replace(TWO_MODELS, heterogeneity=True)


def table(seed: int, number: int = 60) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, number)
    scores = {name: np.clip(generator.random(number) * 0.6 + 0.3 * labels, 0, 1) for name in "ab"}
    return {"y_true": labels, "sex": generator.choice(["F", "M"], number), **scores}


@pytest.mark.parametrize(
    "vector",
    [
        *(slow("m0 g1 c1"), slow("m1 g0 c0"), slow("t1 xc1"), "t0 t1 c0", "sites m1"),
        *("k0 g0 c1 c0", slow("k1 g2 c0 of c1"), slow("k g1"), slow("k0 k1 c1 c1")),
    ],
)
def test_a_lie_on_one_group_one_comparison_the_sites_or_patients_is_refused(vector: str) -> None:
    """The aggregator adds one to an entry of the sum of sketches, of one group, model or table alone."""
    analysis = Analysis(models=("old", "new"), by=(SEX,), heterogeneity=True)
    sites = made(analysis, 5, 6)
    if vector.startswith("k"):
        analysis = msgspec.structs.replace(analysis, heterogeneity=False, cluster="id")
        sites = [replace(each, clusters=np.arange(each.rows, dtype=np.int32) // 2) for each in sites]
    play = Play("verified", sites, GRID, analysis=analysis, interval=0.95, backend=BACKENDS[-1])

    def lie(words: list[Words]) -> None:
        of_primes = zip(words, play.plan.releases, play.plan.parameters.plain_moduli, strict=True)
        for words_of, release, prime in of_primes:
            names, lengths = zip(*release.sketch.vectors, strict=True)
            place = sum(lengths[: names.index(vector)]) if vector in names else 0
            words_of[0, place] = (int(words_of[0, place]) + (vector in names)) % prime

    play.lie(lie)
    list(play.messages())
    for party in play.parties:
        with pytest.raises(VerificationError):
            party.result()


@pytest.mark.parametrize(
    ("made_for", "session", "shown"),
    [
        (TWO_MODELS, PLAIN, "'site 0' has 2 columns of scores and 0 of groups, the session 1 and 0"),
        (PLAIN, TWO_MODELS, "'site 0' has 1 columns of scores and 0 of groups, the session 2 and 0"),
        (Analysis(by=(SEX, AGE)), Analysis(by=(SEX,)), "the session 1 and 1"),
        (Analysis(by=(AGE,)), Analysis(by=(SEX,)), "'site 0' has rows of more levels of 'sex' than the session, 2"),
        (CLASSES, Analysis(models=("x", "y", "z")), "'site 0' has rows of more classes than the session, 2"),
    ],
)
def test_a_party_with_rows_of_another_analysis_sends_nothing(made_for: Analysis, session: Analysis, shown: str) -> None:
    play = Play("exact", made(session, 2, 6), GRID, analysis=session, backend=BACKENDS[-1])
    party = play.party(made(made_for, 1, 6)[0])
    with pytest.raises(InputError, match=shown):
        party.respond(play.aggregator.start())


def test_a_manifest_with_sums_over_sites_of_which_fewer_than_five_may_count_is_refused() -> None:
    play = Play("verified", made(SITES, 5, 7), GRID, analysis=SITES, interval=0.95, backend=BACKENDS[-1])
    with pytest.raises(InputError, match="sums over sites of fewer than 5 parties"):
        play.party(play.sites[0], msgspec.structs.replace(play.manifest, min_parties=4))


def test_more_than_one_session_can_hold_is_refused_in_words() -> None:
    by = {"v": [f"level {k}" for k in range(100)]}
    sites = {"s": table(1) | {"v": np.repeat("level 1", 60)} | {f"m{k}": table(2)["a"] for k in range(16)}}
    with pytest.raises(CapacityError, match="fewer models, groups, classes or thresholds take less"):
        federated_auc(sites, score=[f"m{k}" for k in range(16)], by=by)


@pytest.mark.parametrize("each_pair", [slow(False), True])
def test_of_three_models_each_pair_is_compared_if_asked_and_p_has_holms_correction_beside_it(each_pair: bool) -> None:
    random = np.random.default_rng(12)
    died = random.random(600) < 0.4
    common, noise = random.normal(size=600) + 0.8 * died, random.normal(size=(3, 600))
    scores = [
        norm.cdf(common + spread * each - 1).round(1) for spread, each in zip((0.3, 0.9, 1.3), noise, strict=True)
    ]
    rows = dict(zip(("a", "b", "c"), scores, strict=True)) | {"died": died, "site": np.arange(600) % 2}
    found = federated_auc(
        rows, label="died", score=["a", "b", "c"], site="site", each_pair=each_pair, protocol="verified", round_scores=1
    )
    pairs = [("a", "b"), ("a", "c"), *([("b", "c")] if each_pair else [])]
    assert [(each.first, each.second) for each in found.comparisons] == pairs
    for each in found.comparisons:
        difference, error, p_value = paired_of_rows(died, rows[each.first], rows[each.second])
        assert each.difference == pytest.approx(difference)
        assert each.standard_error == pytest.approx(error, rel=0.02)
        assert each.p_value == pytest.approx(p_value, rel=0.1, abs=1e-9)
    expected = multipletests([each.p_value for each in found.comparisons], method="holm")[1]
    assert [each.p_holm for each in found.comparisons] == pytest.approx(expected)
    assert found.differences_to_frame()["p_holm"].tolist() == pytest.approx(expected)
    assert "p, Holm" in found._repr_html_()
