"""U-statistics under local differential privacy: bias, mean squared error against the theorems, figures 3 and 4, speed.

    python docs/evidence/studies/u_statistics.py                 all tables of docs/evidence/u-statistics.md
    python docs/evidence/studies/u_statistics.py --only error    some of them

They are: bias, error, figure3, figure4, speed, two-party.

Noise comes from one seeded numpy generator, so that every table but those of times can be made again; "speed" and
"two-party" use secure randomness, as deployments do. [USTAT] is cited in `fhe_auc_protocols.u_statistics`.

- bias: the users are fixed, 2,000 runs. z is the mean's distance from the users' own value in standard errors; 4 is
  exceeded with probability 6e-5.
- error: 2,000 runs for theorems 1 and 5, every one with users drawn anew from a distribution whose own value is known,
  for that is what the theorems are about; 200 runs for theorem 3, the users fixed.
- figure3: 100,000 users, beta-distributed scores, 200 runs.
- figure4: 246,000 ratings of two columns, 0 to 5, with Kendall's tau-a of 0.58: marginals p, a share λ of users with
  equal ratings, the rest independent. 100 runs; mean absolute error.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq

import simulated_u_statistics as simulation
from fhe_auc.base.errors import InputError
from fhe_auc_benchmarks.tables import markdown as table
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.option_values import checked_epsilon
from fhe_auc_protocols.u_statistics import kernels, krr, noiseless, pairs
from fhe_auc_protocols.u_statistics.domain import Axis, Domain
from fhe_auc_protocols.u_statistics.hadamard import HadamardTree
from fhe_auc_protocols.u_statistics.hierarchy import HierarchicalAuc, leaves
from fhe_auc_protocols.u_statistics.kernels import Kernel
from fhe_auc_protocols.u_statistics.statistics import Randomness, Setting, run
from fhe_auc_protocols.u_statistics.two_party import FirstUser, SecondUser, TwoPartyResponse

RATINGS = 246_000
TAU = 0.58
MARGINAL = np.array([0.05, 0.05, 0.10, 0.15, 0.30, 0.35])
DELTA = 1e-8
EPSILONS = (1.0, 2.0, 4.0)
"""Of figure 3."""


def composed_epsilon(epsilon: float, delta: float, times: int) -> float:
    """Return ε₀ such that `times` uses of an ε₀-private step are (ε, δ)-private by advanced composition.

    ε = √(2·times·ln(1/δ))·ε₀ + times·ε₀·(e^ε₀ - 1): Dwork, Rothblum, Vadhan, "Boosting and Differential Privacy", FOCS
    2010, theorem III.3.
    """
    epsilon = checked_epsilon(epsilon)
    if not 0 < delta < 1:
        raise InputError(f"delta must lie between 0 and 1, got {delta:g}")

    def excess(step: float) -> float:
        return math.sqrt(2 * times * math.log(1 / delta)) * step + times * step * math.expm1(step) - epsilon

    return float(brentq(excess, 0.0, epsilon, xtol=1e-300, rtol=1e-12))


def all_pairs(
    u_statistic: float, users: int, epsilon: float, delta: float, generator: np.random.Generator, width: float = 1.0
) -> float:
    """Return an estimate from all n(n-1)/2 pairs under advanced composition, (ε, δ)-DP: the foil of `pairs`.

    A user is in n - 1 pairs. The sum of N Laplace variables is the difference of two Gamma(N) variables: drawn as such,
    the exact statistic and two draws are all that it takes.
    """
    number = users * (users - 1) // 2
    scale = width / composed_epsilon(epsilon, delta, users - 1)
    noise = generator.gamma(number, scale) - generator.gamma(number, scale)
    return u_statistic + float(noise) / number


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

    def errors(self, runs: int, *, discard: bool = True) -> np.ndarray:
        tree = self.method.tree
        found = []
        for _ in range(runs):
            noisy = (tree.estimate(tree.tally(tree.randomise(of, self._source))) for of in self.leaves)
            found.append(self.method.recurse(*noisy, discard=discard).auc - self.truth)
        return np.array(found)


def pair_errors(
    generator: np.random.Generator,
    rows_of: Callable[[], np.ndarray],
    truth: float,
    step: pairs.PairStep,
    p: int,
    runs: int,
) -> np.ndarray:
    found = []
    for _ in range(runs):
        rows = rows_of()
        found.append(pairs.estimate(rows, step, pairs.pairings(len(rows), p, generator)).mean - truth)
    return np.array(found)


def bias(generator: np.random.Generator, runs: int) -> None:
    cells: dict[tuple[str, float], dict[str, str]] = {}

    def add(statistic: str, method: str, epsilon: float, errors: np.ndarray) -> None:
        error = errors.std(ddof=1) / math.sqrt(len(errors))
        row = cells.setdefault((statistic, epsilon), {})
        row[method] = f"{errors.mean():+.2e} ({errors.mean() / error:+.2f})"

    cases = {
        "Kendall's tau-a": (kernels.KENDALL, whole_numbers(6, 2)),
        "Gini": (kernels.gini(5.0), whole_numbers(6)),
        "collision probability": (kernels.COLLISION, whole_numbers(6)),
    }
    for name, (kernel, domain) in cases.items():
        matrix = kernel.matrix(domain.points)
        counts = generator.multinomial(400, generator.dirichlet(np.ones(len(domain))))
        truth = noiseless.u_statistic(counts, matrix)
        users = np.repeat(domain.points, counts, axis=0)
        for epsilon in (0.5, 2.0):
            response = krr.RandomisedResponse(len(domain), epsilon)
            found = [response.estimate(simulation.krr_counts(response, counts, generator), matrix) for _ in range(runs)]
            add(name, "krr", epsilon, np.array(found) - truth)
            for p in (1, 3):
                step = pairs.IdealLaplace(kernel, epsilon / p, pairs.seeded_laplace(generator))
                add(
                    name,
                    f"pairs, P = {p}",
                    epsilon,
                    pair_errors(generator, lambda users=users: users, truth, step, p, runs),
                )
    scores = beta_scores(generator, 2000, 0.3)
    binned = [leaves(of, 4) for of in scores]
    counts = [np.bincount(of, minlength=16) for of in binned]
    order = kernels.between_classes(np.arange(16.0))
    users = np.stack([np.concatenate(binned), np.repeat([1, 0], [len(of) for of in binned])], axis=1).astype(float)
    factor = 2000 * 1999 / (2 * len(scores[0]) * len(scores[1]))
    for epsilon in (0.5, 2.0):
        response = krr.RandomisedResponse(16, epsilon)
        found = [
            response.estimate_between(*(simulation.krr_counts(response, of, generator) for of in counts), order)
            for _ in range(runs)
        ]
        add("AUC", "krr", epsilon, np.array(found) - noiseless.auc(*counts))
        trees = Trees(generator, scores, 4, epsilon)
        add("AUC", "hierarchy, nothing discarded", epsilon, trees.errors(runs, discard=False))
        add("AUC", "hierarchy", epsilon, trees.errors(runs))
        step = pairs.IdealLaplace(kernels.AUC, epsilon, pairs.seeded_laplace(generator))
        truth = noiseless.auc(*counts) / factor
        add("AUC", "pairs, P = 1", epsilon, factor * pair_errors(generator, lambda: users, truth, step, 1, runs))
    print(f"Mean error (z) over {runs:,} runs; discarding, in the last column, biases by theory, nothing else does:\n")
    methods = ("krr", "pairs, P = 1", "pairs, P = 3", "hierarchy, nothing discarded", "hierarchy")
    body = [[*which, *(row.get(method, "") for method in methods)] for which, row in cells.items()]
    print(table(["statistic", "ε", *methods], body))


def error(generator: np.random.Generator, runs: int) -> None:
    rows: list[Sequence[object]] = []
    for k, epsilon, users in (
        (2, 1.0, 100),
        (6, 0.5, 500),
        (6, 4.0, 100),
        (36, 1.0, 2000),
        (36, 8.0, 300),
        (100, 2.0, 10**5),
    ):
        kernel = kernels.gini(k - 1.0)
        shares = generator.dirichlet(np.ones(k))
        matrix = kernel.matrix(whole_numbers(k).points)
        response = krr.RandomisedResponse(k, epsilon)
        found = [
            response.estimate(simulation.krr_counts(response, generator.multinomial(users, shares), generator), matrix)
            for _ in range(runs)
        ]
        measured = np.mean((np.array(found) - shares @ matrix @ shares) ** 2) / kernel.width**2
        bound = response.variance_bound(users)
        rows.append((k, epsilon, f"{users:,}", f"{measured:.2e}", f"{bound:.2e}", f"{measured / bound:.2f}"))
    print("Theorem 1, Gini's kernel scaled to [0, 1]:\n")
    print(table(["k", "ε", "users", "MSE", "bound", "MSE / bound"], rows))

    rows = []
    for users, share, alpha, epsilon in (
        (2000, 0.5, 4, 1.0), (2000, 0.1, 6, 2.0), (10**4, 0.5, 8, 1.0), (10**4, 0.05, 10, 4.0), (10**5, 0.3, 12, 2.0),
        (10**5, 0.007, 10, 1.0),
    ):  # fmt: skip
        trees = Trees(generator, beta_scores(generator, users, share), alpha, epsilon)
        measured, bound = np.mean(trees.errors(max(1, runs // 10)) ** 2), trees.method.error_bound()
        rows.append(
            (
                *(f"{users:,}", f"{share:.1%}", alpha, epsilon),
                *(f"{measured:.2e}", f"{bound:.2e}", f"{math.sqrt(measured / bound):.2f}"),
            )
        )
    print("Theorem 3, with C = ((e^ε + 1)/(e^ε - 1))²:\n")
    print(table(["users", "positive", "α", "ε", "MSE", "bound", "√(MSE / bound)"], rows))

    rows = []
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    kernel = Kernel("gini, scaled", lambda x, y: np.abs(x - y)[..., 0] / 3, 0.0, 1.0)
    matrix = kernel.matrix(whole_numbers(4).points)
    zetas = simulation.zetas(shares, matrix)
    for users, epsilon, p in (
        (100, 1.0, 1),
        (100, 8.0, 1),
        (200, 20.0, 2),
        (50, 20.0, 4),
        (500, 2.0, 5),
        (30, 32.0, 10),
    ):
        step = pairs.IdealLaplace(kernel, epsilon / p, pairs.seeded_laplace(generator))

        def drawn(users: int = users) -> np.ndarray:
            return generator.choice(4, (users, 1), p=shares).astype(float)

        measured = np.mean(pair_errors(generator, drawn, shares @ matrix @ shares, step, p, runs) ** 2)
        corrected = pairs.mean_squared_error(users, p, zetas, step.noise_variance)
        printed = corrected - 2 * p / (users * epsilon**2)
        rows.append(
            (
                *(users, epsilon, p, f"{measured:.3e}", f"{corrected:.3e}", f"{measured / corrected:.2f}"),
                f"{measured / printed:.2f}",
            )
        )
    print("Theorem 5, with the variance 2b² of Laplace(b), and as printed:\n")
    header = ["users", "ε", "P", "MSE", "with 4P/(nε²)", "MSE / that", "MSE / that with 2P/(nε²)"]
    print(table(header, rows))


def figure3(generator: np.random.Generator, runs: int) -> None:
    users = 10**5
    for share in (0.3, 0.00693):
        scores = beta_scores(generator, users, share)
        ratios: list[float] = []
        cells: dict[int, list[str]] = {alpha: [] for alpha in range(8, 13)}
        for epsilon in EPSILONS:
            for alpha, row in cells.items():
                trees = Trees(generator, scores, alpha, epsilon)
                rms = math.sqrt(np.mean(trees.errors(max(1, runs // 10)) ** 2))
                ratios.append(rms / (alpha**1.5 / (epsilon * math.sqrt(users))))
                row.append(f"{rms:.4f} ({math.sqrt(trees.method.error_bound()):.3f}, {ratios[-1]:.2f})")
        print(f"AUC of {users:,} users, {share:.1%} positive: RMSE (√bound, RMSE / (α^1.5/(ε√n))):\n")
        print(
            table(["α", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)], [[alpha, *row] for alpha, row in cells.items()])
        )
        middle = math.sqrt(min(ratios) * max(ratios))
        print(f"All ratios lie within a factor of {max(ratios) / middle:.2f} of {middle:.2f}.\n")


def figure4(generator: np.random.Generator, runs: int) -> None:
    domain, counts = ratings()
    matrix = kernels.KENDALL.matrix(domain.points)
    users = np.repeat(domain.points, counts, axis=0)
    truth = noiseless.u_statistic(counts, matrix)
    both = noiseless.kendall(users)
    print(f"{len(users):,} ratings: tau-a {truth:.6f}, tau-b {both.tau_b:.6f}\n")
    runs = max(1, runs // 20)
    rows: list[Sequence[object]] = []
    for epsilon in (0.25, 0.5, 1.0, 2.0, 5.0, 10.0):
        response = krr.RandomisedResponse(36, epsilon)
        by_krr = [
            response.estimate(simulation.krr_counts(response, counts, generator), matrix) - truth for _ in range(runs)
        ]
        found: dict[str, np.ndarray] = {"krr": np.array(by_krr)}
        for p in (1, 2, 5):
            step: pairs.PairStep = pairs.IdealLaplace(kernels.KENDALL, epsilon / p, pairs.seeded_laplace(generator))
            found[f"pairs, P = {p}"] = pair_errors(generator, lambda: users, truth, step, p, runs)
        values = pairs.ValueResponse((-1.0, 0.0, 1.0), epsilon, 4060)
        step = simulation.IdealResponse(kernels.KENDALL, values, exact_sampling.SeededExperiment(generator))
        found["pairs, response, P = 1"] = pair_errors(generator, lambda: users, truth, step, 1, runs)
        everything = [all_pairs(truth, len(users), epsilon, DELTA, generator, 2.0) - truth for _ in range(runs)]
        found["all pairs, δ = 1e-8"] = np.array(everything)
        cells = [f"{np.abs(of).mean():.4f}" for of in found.values()]
        krr_error, *others = (np.abs(found[name]).mean() for name in ("krr", "pairs, P = 1", "pairs, response, P = 1"))
        rows.append((epsilon, *cells, *(f"{krr_error / other:.1f}" for other in others)))
    print(table(["ε", *found, "krr / (P = 1)", "krr / response"], rows))


def speed(generator: np.random.Generator) -> None:
    users = 10**6
    labels = generator.random(users) < 0.3
    scores = np.clip(0.4 + 0.2 * labels + 0.2 * generator.standard_normal(users), 0, 1)
    scored = np.stack([scores, labels], axis=1)
    rated = np.repeat(whole_numbers(6, 2).points, generator.multinomial(users, np.full(36, 1 / 36)), axis=0)
    sixths = (tuple(float(value) for value in range(6)),)
    cases = [
        (Setting(statistic="kendall", method="krr", epsilon=1.0, values=sixths), rated),
        (Setting(statistic="kendall", method="pairs", epsilon=1.0), rated),
        (Setting(statistic="gini", method="krr", epsilon=1.0, ranges=((0.0, 1.0),)), scored[:, :1]),
        (Setting(statistic="auc", method="krr", epsilon=1.0), scored),
        (Setting(statistic="auc", method="hierarchy", epsilon=1.0, alpha=12), scored),
        (Setting(statistic="auc", method="pairs", epsilon=1.0), scored),
    ]
    rows = []
    for setting, records in cases:
        started = time.perf_counter()
        run(setting, records, Randomness.secure())
        rows.append((setting.name, setting.method, f"{time.perf_counter() - started:.2f} s"))
    print("A million users, secure randomness:\n")
    print(table(["statistic", "method", "time"], rows))


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
            times = [time.perf_counter()]
            user = FirstUser(step, int(first))
            request = user.request()
            times.append(time.perf_counter())
            reply = SecondUser(step, int(second)).reply(request)
            times.append(time.perf_counter())
            user.answer(reply)
            times.append(time.perf_counter())
            seconds.append(np.diff(times))
        request_ms, reply_ms, answer_ms = np.median(seconds, axis=0) * 1e3
        sizes = (f"{len(request) / 1e3:.0f} kB", f"{len(reply) / 1e3:.0f} kB")
        spread = f"{math.sqrt(step.noise_variance):.2f}", f"{math.sqrt(2) * kernel.width:.2f}"
        rows.append((name, f"{request_ms + answer_ms:.0f} ms", f"{reply_ms:.0f} ms", *sizes, *spread))
    print("The two-party step on BFV ciphertexts, ε = 1 a pairing, median of 30:\n")
    header = ["kernel", "first user", "second user", "request", "reply", "deviation of an answer", "of Laplace noise"]
    print(table(header, rows))


def main(argv: Sequence[str] | None = None) -> None:
    sections = {"bias": bias, "error": error, "figure3": figure3, "figure4": figure4}
    timed = {"speed": speed, "two-party": two_party}
    parser = argparse.ArgumentParser(description="Measure U-statistics under local differential privacy.")
    parser.add_argument("--runs", type=int, default=2000, help="of bias and error; others scale with it")
    parser.add_argument("--seed", type=int, default=0, help="of all noise and data, each table anew")
    parser.add_argument("--only", nargs="+", choices=[*sections, *timed], default=[*sections, *timed])
    arguments = parser.parse_args(argv)
    started = time.perf_counter()
    for name in arguments.only:
        generator = np.random.default_rng(arguments.seed)
        if name in sections:
            sections[name](generator, arguments.runs)
        else:
            timed[name](generator)
    print(f"Made in {time.perf_counter() - started:.0f} s.")


if __name__ == "__main__":
    main()
