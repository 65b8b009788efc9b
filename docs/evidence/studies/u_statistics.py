"""U-statistics under local differential privacy: figures 3 and 4 of [USTAT], and the two-party step.

    python docs/evidence/studies/u_statistics.py [figure3 | figure4 | two-party] ...

Without a name, all tables of docs/evidence/u-statistics.md. [USTAT] is cited in `fhe_auc_protocols.u_statistics`. Noise
of the figures is SIMULATED, from a seeded generator: tables can be made again; two-party uses secure randomness.

- figure3: 100,000 users, beta-distributed scores, 200 runs.
- figure4: 246,000 ratings of two columns, 0 to 5, with Kendall's tau-a of 0.58: marginals p, a share λ of users with
  equal ratings, the rest independent. 100 runs; mean absolute error.
"""

import math
import sys
import time

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.u_statistics import kernels, krr, noiseless, pairs
from fhe_auc_protocols.u_statistics.domain import Axis, Domain
from fhe_auc_protocols.u_statistics.hadamard import HadamardTree
from fhe_auc_protocols.u_statistics.hierarchy import HierarchicalAuc, leaves
from fhe_auc_protocols.u_statistics.kernels import Floats, Kernel
from fhe_auc_protocols.u_statistics.two_party import FirstUser, SecondUser, TwoPartyResponse

RATINGS = 246_000
TAU = 0.58
MARGINAL = np.array([0.05, 0.05, 0.10, 0.15, 0.30, 0.35])


def krr_counts(
    response: krr.RandomisedResponse, counts: ArrayLike, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Return the counts of reports of so many users with each value, both shape (k,); in O(k) draws.

    Users of one value are exchangeable: how many keep it is binomial, the replaced ones are spread uniformly. The
    distribution is that of counting `RandomisedResponse.randomise`.
    """
    numbers = np.asarray(counts, np.int64)
    replaced = generator.binomial(numbers, response.beta)
    spread = generator.multinomial(int(replaced.sum()), np.full(response.k, 1 / response.k))
    return np.asarray(numbers - replaced + spread, np.int64)


class IdealResponse(pairs.PairStep):
    """Ideal functionality: a trusted third draws one entry of `ValueResponse`'s table for each pair."""

    def __init__(self, kernel: Kernel, response: pairs.ValueResponse, source: exact_sampling.Source) -> None:
        self._kernel, self._response, self._source = kernel, response, source

    @property
    def noise_variance(self) -> float:
        return self._response.noise_variance

    def noisy(self, first: Floats, second: Floats) -> Floats:
        """Return the unbiased estimate from each pair's response."""
        response = self._response
        drawn = response.table[exact_sampling.integers(self._source, len(response.table), len(first))]
        answers = (response.index(self._kernel.clipped(first, second)) + drawn) % len(response.values)
        return response.unbiased(answers)


def whole_numbers(size: int, columns: int = 1) -> Domain:
    return Domain((Axis(np.arange(float(size))),) * columns)


def ratings() -> tuple[Domain, np.ndarray]:
    """Return the domain of ratings and how many users have each, with tau-a of 0.58."""
    domain = whole_numbers(6, 2)
    matrix = kernels.KENDALL.matrix(domain.points)

    def shares(equal: float) -> np.ndarray:
        return ((1 - equal) * np.outer(MARGINAL, MARGINAL) + equal * np.diag(MARGINAL)).ravel()

    equal = brentq(lambda of: shares(of) @ matrix @ shares(of) - TAU, 0, 1)
    counts = np.floor(RATINGS * shares(equal)).astype(np.int64)
    counts[counts.argmax()] += RATINGS - counts.sum()
    return domain, counts


def beta_scores(generator: np.random.Generator, users: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    positives = round(users * share)
    return generator.beta(4, 2, positives), generator.beta(2, 4, users - positives)


class Trees:
    """Runs of the hierarchical AUC on fixed scores."""

    def __init__(self, generator: np.random.Generator, scores: tuple[np.ndarray, ...], alpha: int, epsilon: float):
        self.leaves = [leaves(of, alpha) for of in scores]
        self.method = HierarchicalAuc(HadamardTree(alpha, epsilon), *(len(of) for of in scores))
        self.truth = noiseless.auc(*(np.bincount(of, minlength=1 << alpha) for of in self.leaves))
        self._source = exact_sampling.SeededExperiment(generator)

    def errors(self, runs: int) -> np.ndarray:
        tree, source = self.method.tree, self._source
        noisy = ([tree.estimate(tree.tally(tree.randomise(of, source))) for of in self.leaves] for _ in range(runs))
        return np.array([self.method.recurse(*each).auc - self.truth for each in noisy])


def pair_errors(
    generator: np.random.Generator, users: np.ndarray, truth: float, step: pairs.PairStep, p: int, runs: int
) -> np.ndarray:
    found = [pairs.estimate(users, step, pairs.pairings(len(users), p, generator))[0] for _ in range(runs)]
    return np.array(found) - truth


def figure3(generator: np.random.Generator) -> None:
    users, epsilons, ratios = 10**5, (1.0, 2.0, 4.0), list[float]()

    def written(scores: tuple[np.ndarray, ...], alpha: int, epsilon: float) -> str:
        trees = Trees(generator, scores, alpha, epsilon)
        rms = math.sqrt(np.mean(trees.errors(200) ** 2))
        ratios.append(rms / (alpha**1.5 / (epsilon * math.sqrt(users))))
        return f"{rms:.4f} ({math.sqrt(trees.method.error_bound()):.3f}, {ratios[-1]:.2f})"

    for share in (0.3, 0.00693):
        scores = beta_scores(generator, users, share)
        ratios.clear()
        columns = [[written(scores, alpha, epsilon) for alpha in range(8, 13)] for epsilon in epsilons]
        print(f"AUC of {users:,} users, {share:.1%} positive: RMSE (√bound, RMSE / (α^1.5/(ε√n))):\n")
        show(["α", *(f"ε = {e:g}" for e in epsilons)], zip(range(8, 13), *columns, strict=True))
        middle = math.sqrt(min(ratios) * max(ratios))
        print(f"All ratios lie within a factor of {max(ratios) / middle:.2f} of {middle:.2f}.\n")


def figure4(generator: np.random.Generator) -> None:
    domain, counts = ratings()
    matrix = kernels.KENDALL.matrix(domain.points)
    users = np.repeat(domain.points, counts, axis=0)
    truth = noiseless.u_statistic(counts, matrix)
    print(f"{len(users):,} ratings: tau-a {truth:.6f}\n")
    runs, rows = 100, []
    for epsilon in (0.25, 0.5, 1.0, 2.0, 5.0):
        response = krr.RandomisedResponse(36, epsilon)
        by_krr = [response.estimate(krr_counts(response, counts, generator), matrix) - truth for _ in range(runs)]
        found: dict[str, np.ndarray] = {"krr": np.array(by_krr)}
        for p in (1, 2):
            step: pairs.PairStep = pairs.IdealLaplace(kernels.KENDALL, epsilon / p, pairs.seeded_laplace(generator))
            found[f"pairs, P = {p}"] = pair_errors(generator, users, truth, step, p, runs)
        values = pairs.ValueResponse((-1.0, 0.0, 1.0), epsilon, 4060)
        step = IdealResponse(kernels.KENDALL, values, exact_sampling.SeededExperiment(generator))
        found["pairs, response, P = 1"] = pair_errors(generator, users, truth, step, 1, runs)
        cells = [f"{np.abs(of).mean():.4f}" for of in found.values()]
        krr_error, pairs_error = (np.abs(found[name]).mean() for name in ("krr", "pairs, P = 1"))
        rows.append((epsilon, *cells, f"{krr_error / pairs_error:.1f}"))
    show(["ε", *found, "krr / (P = 1)"], rows)


def two_party(generator: np.random.Generator) -> None:
    rows = []
    for name, kernel, domain in (
        ("Kendall, 6 × 6", kernels.KENDALL, whole_numbers(6, 2)),
        ("equality of 1,000 values", kernels.COLLISION, whole_numbers(1000)),
        ("Gini, 64 values", kernels.gini(63.0), whole_numbers(64)),
    ):
        step = TwoPartyResponse(kernel, domain, 1.0)
        seconds = []
        for first, second in generator.integers(0, len(domain), (30, 2)):
            started = time.perf_counter()
            user = FirstUser(step, int(first))
            request = user.request()
            requested = time.perf_counter()
            reply = SecondUser(step, int(second)).reply(request)
            replied = time.perf_counter()
            user.answer(reply)
            seconds.append(np.diff([started, requested, replied, time.perf_counter()]))
        request_ms, reply_ms, answer_ms = np.median(seconds, axis=0) * 1e3
        sizes = (f"{len(request) / 1e3:.0f} kB", f"{len(reply) / 1e3:.0f} kB")
        spread = f"{math.sqrt(step.noise_variance):.2f}", f"{math.sqrt(2) * kernel.width:.2f}"
        rows.append((name, f"{request_ms + answer_ms:.0f} ms", f"{reply_ms:.0f} ms", *sizes, *spread))
    print("The two-party step on BFV ciphertexts, ε = 1 a pairing, median of 30:\n")
    header = ["kernel", "first user", "second user", "request", "reply", "deviation of an answer", "of Laplace noise"]
    show(header, rows)


if __name__ == "__main__":
    sections = {"figure3": figure3, "figure4": figure4, "two-party": two_party}
    for section in sys.argv[1:] or sections:
        sections[section](np.random.default_rng(0))
