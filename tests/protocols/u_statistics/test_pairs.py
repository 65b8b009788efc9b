"""Pairs of a positive and a negative row: matchings, the law of an answer, and theorem 5 with its constant.

Random numbers are seeded. A mean of squares over 5,000 runs is off by 2 % (one standard error): 10 % are five.
"""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.stats import chisquare

from fhe_auc.base.errors import InputError
from fhe_auc_protocols.exact_sampling import SeededExperiment
from fhe_auc_protocols.u_statistics.mechanisms import RandomisedResponse, bins_by_rule
from fhe_auc_protocols.u_statistics.pairs import PairResponse, matched
from tests.support.lazy import Lazy

roc_auc_score = Lazy("sklearn.metrics").roc_auc_score

RUNS, ENTRIES = 5000, 4096 - 20


def compared(positives: np.ndarray, negatives: np.ndarray) -> np.ndarray:
    """Twice the kernel."""
    return np.sign(positives - negatives) + 1


def zetas(positives: np.ndarray, negatives: np.ndarray) -> tuple[float, float, float]:
    """ζ₂ and each class's ζ, from the probabilities of each class's bins."""
    f = compared(*np.indices((len(positives), len(negatives)))) / 2
    mean = positives @ f @ negatives
    of_positives, of_negatives = positives @ (f @ negatives) ** 2, negatives @ (positives @ f) ** 2
    return tuple(float(square - mean**2) for square in (positives @ f**2 @ negatives, of_positives, of_negatives))


def squared_error(sizes: tuple[int, int], pairings: int, zetas: tuple[float, float, float], noise: float) -> float:
    """The formula at the head of the module; ζ of positives, then of negatives."""
    smaller, larger = sorted(sizes)
    both, of_smaller, of_larger = zetas if sizes[0] <= sizes[1] else (zetas[0], zetas[2], zetas[1])
    met = both / larger + (1 - 1 / larger) * of_smaller + (smaller - 1) / larger * of_larger
    return (both + (pairings - 1) * met + noise) / (pairings * smaller)


@pytest.mark.parametrize("sizes", [[(2, 4), (0, 1), (3, 3)], [(6, 5)], [(1, 0), (2, 3)], [(4, 0)]])
@pytest.mark.parametrize("pairings", [1, 3])
def test_a_row_is_in_one_pair_of_a_pairing_and_all_of_the_smaller_class_are(sizes: list, pairings: int) -> None:
    found = matched(b"session", sizes, pairings)
    smaller = min(sum(positives for positives, _ in sizes), sum(negatives for _, negatives in sizes))
    for parties, rows, of_class in (
        (found.positive_party, found.positive, 0),
        (found.negative_party, found.negative, 1),
    ):
        assert len(rows) == pairings * smaller
        for pairing in np.array_split(np.array([parties, rows]).T, pairings):
            assert len({tuple(row) for row in pairing}) == smaller
            assert all(0 <= row < sizes[party][of_class] for party, row in pairing)


def test_who_claims_many_negatives_is_in_all_pairs() -> None:
    assert (matched(b"session", [(15, 5), (0, 100_000)], 1).negative_party == 1).all()


def test_parties_of_all_versions_find_the_same_pairs() -> None:
    found = matched(bytes(range(16)), [(2, 1), (1, 4)], 2)
    assert [each.tolist() for each in found] == [[0, 0, 1] * 2, [0, 1, 0] * 2, [1] * 6, [0, 3, 2, 3, 1, 2]]


def test_every_matching_is_as_likely_and_another_session_has_another() -> None:
    found = np.array([matched(number.to_bytes(16, "big"), [(1, 0), (1, 3)], 2).negative for number in range(6000)])
    for of_pairing in (found[:, :2], found[:, 2:]):
        seen = np.bincount(of_pairing @ [3, 1], minlength=9)
        assert not seen[[0, 4, 8]].any()  # no negative twice
        assert chisquare(seen[[1, 2, 3, 5, 6, 7]]).pvalue > 1e-7
    assert (found[:, 0] == found[:, 2]).mean() == pytest.approx(1 / 3, abs=0.035)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 8.0, 32.0])
@pytest.mark.parametrize("entries", [3072, 4094])
def test_answers_of_a_table_are_private_and_hardly_more_than_asked(epsilon: float, entries: int) -> None:
    response = PairResponse(epsilon, entries)
    counts = np.bincount(response.table, minlength=3)
    assert counts.sum() == entries
    assert counts[1] == counts[2] > 0
    assert counts[0] / counts[1] <= math.exp(epsilon)
    if counts[1] > 1:
        assert (counts[0] + 2) / (counts[1] - 1) > math.exp(epsilon)
    for f in range(3):  # moments of the law, by its whole table
        estimates = ((f + response.table) % 3 / 2 - response.beta / 2) / response.kept
        assert (estimates.mean(), estimates.var()) == pytest.approx((f / 2, response.variances[f]), rel=1e-9, abs=1e-12)


def test_a_budget_that_says_nothing_is_refused() -> None:
    for entries in (4094, 3072):  # of 2 and 1,024 bins
        with pytest.raises(InputError, match="too small: at least") as caught:
            PairResponse(0.005, entries, 16)
        least = float(str(caught.value).split("at least ")[1].split()[0])
        assert PairResponse(least, entries, 16).kept > 0
        with pytest.raises(InputError):
            PairResponse(least - 1e-4, entries, 16)


@pytest.mark.parametrize("tally", [(0, 0, 1), (5, 0, 0), (0, 9, 0), (3, 4, 5)])
def test_an_estimate_says_no_less_than_the_noise_that_is_known_and_no_more_than_its_bound(tally: tuple) -> None:
    response = PairResponse(1.0, ENTRIES)
    found, pairs = response.auc(np.array(tally)), sum(tally)
    assert found.noise_bound == pytest.approx((0.25 + response.variances.max()) / pairs)
    assert response.variances.min() / pairs * (1 - 1e-9) <= found.noise_error**2 <= found.noise_bound * (1 + 1e-9)
    answers = (np.repeat([0, 0.5, 1], tally) - response.beta / 2) / response.kept
    assert found.auc == pytest.approx(answers.mean())
    if tally == (3, 4, 5):
        softened = np.append(answers, (np.array([0, 1]) - response.beta / 2) / response.kept)
        assert found.noise_error == pytest.approx(softened.std(ddof=1) / math.sqrt(12))
        assert found.ties == pytest.approx((4 / 12 - response.beta / 3) / response.kept / 2)
    if pairs == 1:
        assert found.noise_error**2 == pytest.approx(found.noise_bound)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0, 32.0])
@pytest.mark.parametrize("size", [5, 20, 100])
def test_two_standard_errors_hold_the_rows_own_auc_as_often_as_they_should_and_none_is_above_its_bound(
    size: int, epsilon: float
) -> None:
    generator, response, runs = np.random.default_rng(3), PairResponse(epsilon, 3072), 2000
    held = 0
    for shift in (0.95, 3.0):  # of AUC 0.75, and of 0.98, where most answers are alike
        for _ in range(runs // 2):
            positives, negatives = generator.normal(size=size) + shift, generator.normal(size=size)
            drawn = compared(positives, generator.permutation(negatives)) + generator.choice(response.table, size)
            found = response.auc(np.bincount((drawn % 3).astype(int), minlength=3))
            truth = compared(positives[:, None], negatives).mean() / 2
            held += abs(found.auc - truth) <= 1.96 * found.standard_error
            assert found.standard_error**2 <= found.squared_error * (1 + 1e-9)
    assert held > 0.92 * runs


SHARES = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])  # of bins among positives and negatives: 2 in 10 tie


@pytest.mark.parametrize("sizes", [(20, 20), (6, 60), (40, 10)])
@pytest.mark.parametrize("pairings", [1, 3])
def test_over_5_000_runs_the_estimate_is_unbiased_and_its_squared_error_is_the_formulas(
    sizes: tuple[int, int], pairings: int
) -> None:
    generator = np.random.default_rng(6)
    response = PairResponse(2.0 / pairings, ENTRIES)
    rows = [generator.choice(4, (RUNS, size), p=shares) for size, shares in zip(sizes, SHARES, strict=True)]
    pairs = [matched(run.to_bytes(16, "big"), [sizes], pairings) for run in range(RUNS)]
    chosen = np.array([pair.positive for pair in pairs]), np.array([pair.negative for pair in pairs])
    scores = [np.take_along_axis(each, places, 1) for each, places in zip(rows, chosen, strict=True)]
    answers = (compared(*scores) + generator.choice(response.table, scores[0].shape)) % 3
    tallies = np.stack([(answers == answer).sum(axis=1) for answer in range(3)], axis=1)
    found = [response.auc(tally) for tally in tallies]
    estimates = np.array([each.auc for each in found])

    law = np.outer(*SHARES)
    f = compared(*np.indices(law.shape))
    truth, noise = (law * f).sum() / 2, (law * response.variances[f]).sum()
    assert abs(estimates.mean() - truth) < 3 * estimates.std() / math.sqrt(RUNS)
    expected = squared_error(sizes, pairings, zetas(*SHARES), noise)
    assert np.mean((estimates - truth) ** 2) == pytest.approx(expected, rel=0.1)

    # Given the rows: unbiased, and no farther from their own AUC than the estimates say; likewise for ties.
    of_rows = compared(rows[0][:, :, None], rows[1][:, None])
    misses = estimates - of_rows.mean(axis=(1, 2)) / 2
    assert abs(misses.mean()) < 3 * misses.std() / math.sqrt(RUNS)
    assert np.mean(misses**2) <= 1.05 * np.mean([each.noise_error**2 for each in found])
    assert np.mean(misses**2) <= found[0].noise_bound * 1.05
    ties = np.array([each.ties for each in found]) - (of_rows == 1).mean(axis=(1, 2)) / 2
    assert abs(ties.mean()) < 3 * ties.std() / math.sqrt(RUNS)
    assert np.mean(ties**2) <= 1.05 * np.mean([each.ties_error**2 for each in found])


def injections(smaller: int, larger: int) -> Iterator[tuple[int, ...]]:
    yield from itertools.permutations(range(larger), smaller)


@pytest.mark.parametrize(("sizes", "pairings"), [((2, 2), 1), ((2, 2), 2), ((2, 3), 2), ((3, 1), 3), ((3, 3), 1)])
def test_without_noise_the_squared_error_is_that_of_all_rows_and_pairings(sizes: tuple, pairings: int) -> None:
    shares = (np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1]))
    f = compared(*np.indices((3, 3))) / 2
    mean, square = shares[0] @ f @ shares[1], 0.0
    for rows in itertools.product(range(3), repeat=sum(sizes)):
        likely = math.prod(shares[place >= sizes[0]][row] for place, row in enumerate(rows))
        of_rows = f[np.ix_(rows[: sizes[0]], rows[sizes[0] :])]
        of_rows = of_rows if sizes[0] <= sizes[1] else of_rows.T
        means = [of_rows[range(min(sizes)), of].mean() for of in injections(*sorted(sizes))]
        assert np.mean(means) == pytest.approx(of_rows.mean())  # unbiased given the rows
        assert np.var(means) <= of_rows.var() / min(sizes) + 1e-12  # and no more spread than random pairs
        square += likely * (np.var(means) / pairings + (of_rows.mean() - mean) ** 2)
    assert squared_error(sizes, pairings, zetas(*shares), 0.0) == pytest.approx(square, rel=1e-12)


def test_an_ideal_laplace_step_adds_twice_what_theorem_5_prints() -> None:
    size, epsilon, pairings = 40, 1.0, 2  # of each class; f is constant, so that noise is all there is
    answers = np.random.default_rng(6).laplace(0, pairings / epsilon, (RUNS, pairings * size))
    noise = 4 * pairings / (2 * size * epsilon**2)
    assert np.mean(answers.mean(axis=1) ** 2) == pytest.approx(noise, rel=0.1)
    assert squared_error((size, size), pairings, (0, 0, 0), 2 * (pairings / epsilon) ** 2) == pytest.approx(noise)


@pytest.mark.parametrize(("size", "pairings"), [(10, 1), (10, 4), (50, 3)])
def test_in_balanced_classes_the_formula_has_the_form_of_theorem_5(size: int, pairings: int) -> None:
    both, one, other, n = 0.2, 0.05, 0.07, 2 * size
    # Theorem 5 has 2ζ₁ for the two users of a pair, and n - 1 partners where a class has n/2.
    printed = (pairings - 1) * (1 - 2 / n) * (one + other) + (1 + (pairings - 1) * 2 / n) * both
    found = squared_error((size, size), pairings, (both, one, other), 0.0)
    assert found == pytest.approx(2 / (pairings * n) * printed)


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "share"), [(1000, 0.5), (10_000, 0.5), (10_000, 0.1)])
def test_at_small_budgets_pairs_err_less_than_randomised_response_by_its_rule_and_in_balance_than_by_its_best_bins(
    rows: int, share: float
) -> None:
    """[USTAT]'s figure 4, which is of Kendall's tau on 36 values, for AUCs around 0.75: 36 equal bins, the rule's, and
    the best of 2 to 16: pairs err less at ε = 1 and 2 where classes are balanced, but not at AUCs near 0.5.
    """
    generator = np.random.default_rng(7)
    labels = generator.random(rows) < share
    scores = 1 / (1 + np.exp(-(generator.normal(size=rows) + 0.95 * labels)))
    truth, source = roc_auc_score(labels, scores), SeededExperiment(generator)

    def error(estimate: Callable[[np.ndarray, np.ndarray], float], bins: int) -> float:
        binned = (scores * bins).astype(np.int64)
        return float(np.mean([abs(estimate(binned[labels], binned[~labels]) - truth) for _ in range(200)]))

    def of_reports(epsilon: float, bins: int) -> float:
        response = RandomisedResponse(bins, epsilon)
        return error(lambda *classes: response.auc(*(response.tally(own, source) for own in classes)).auc, bins)

    def of_pairs(epsilon: float, pairings: int) -> float:
        response = PairResponse(epsilon / pairings, 4096 - 512)

        def estimate(*classes: np.ndarray) -> float:
            pairs = matched(generator.bytes(16), [(len(classes[0]), len(classes[1]))], pairings)
            kernel = compared(classes[0][pairs.positive], classes[1][pairs.negative])
            answers = (kernel + generator.choice(response.table, len(kernel))) % 3
            return response.auc(np.bincount(answers, minlength=3)).auc

        return error(estimate, 512)

    for epsilon in (0.5, 1.0, 2.0):
        assert of_pairs(epsilon, 1) < of_reports(epsilon, bins_by_rule(rows, epsilon))
        assert of_pairs(epsilon, 1) < of_pairs(epsilon, 4)
    if share == 0.5:
        for epsilon in (1.0, 2.0):
            assert of_pairs(epsilon, 1) < min(of_reports(epsilon, bins) for bins in (2, 3, 4, 5, 6, 8, 12, 16))
    assert of_pairs(1.0, 1) < of_reports(1.0, 36) / 5
    assert of_pairs(8.0, 1) > of_reports(8.0, bins_by_rule(rows, 8.0))
