"""What the private AUC of `verified` is worth: its error, its law, an audit of its privacy, its interval, its time.

python docs/evidence/studies/private_auc.py --plot private-auc.png
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import roc_auc_score

from fhe_auc.figures.plot import blank_figure, make_logarithmic, save_figure
from fhe_auc.question import thresholds
from fhe_auc_benchmarks.comparison import simulated_dpauc, simulated_private_auc
from fhe_auc_benchmarks.comparison.simulated_private_auc import NoiselessRelease, aucs, budget, pool_of, releases
from fhe_auc_benchmarks.tables import show
from fhe_auc_protocols.dpauc.budget import GAUSSIAN, LAPLACE, RANDOMIZED_RESPONSE, Budget
from fhe_auc_protocols.dpauc.roc import statistics
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRID = thresholds.parse("hybrid:4000")
PARTIES, RUNS, SEED = 10, 2000, 25
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
UNITS = ("row", "label")
_SEPARATION = math.sqrt(2) * float(stats.norm.ppf(0.8))  # of two normal laws: an AUC of 0.8
_DPAUC: Mapping[str, tuple[str, dict[str, float]]] = {
    "dpauc-laplace": (LAPLACE, {}),
    "dpauc-gaussian": (GAUSSIAN, {"delta": 1e-6}),
    "dpauc-rr": (RANDOMIZED_RESPONSE, {}),
}
_LOOKS = {  # colour and marker; a curator's are those of `verified`, dotted and hollow
    "verified, row": ("#0072B2", "o"),
    "verified, label": ("#E69F00", "s"),
    "dpauc-laplace": ("#009E73", "^"),
    "dpauc-gaussian": ("#D55E00", "D"),
    "dpauc-rr": ("#CC79A7", "v"),
}


def rows_of(size: int, prevalence: float, random: np.random.Generator) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return labels and scores: so many rows, binormal logits with an AUC of 0.8, that share of positives exactly."""
    labels = np.zeros(size, np.bool_)
    labels[: round(prevalence * size)] = True
    logits = random.normal(size=size) + _SEPARATION * labels - 1
    return labels, 1 / (1 + np.exp(-logits))


def errors(size: int, prevalence: float, epsilon: float, runs: int, random: np.random.Generator) -> dict[str, float]:
    labels, scores = rows_of(size, prevalence, random)
    truth, found = float(roc_auc_score(labels, scores)), {}
    pool = pool_of(labels, scores, GRID)
    for unit in UNITS:
        privacy = budget(size, PARTIES, epsilon, unit)
        alone = budget(size, 1, epsilon, unit)
        found[f"verified, {unit}"] = aucs(releases(pool, privacy, runs=runs, random=random), privacy)
        found[f"curator, {unit}"] = aucs(releases(pool, alone, runs=runs, random=random), alone)
    grid = thresholds.parse("dpauc:100")
    counts = statistics(labels, scores, grid)
    for name, (mechanism, others) in _DPAUC.items():
        terms = Budget.checked(mechanism, {"epsilon": epsilon, **others}, len(grid))
        found[name] = simulated_dpauc.aucs(counts, terms, parties=PARTIES, runs=runs, random=random)
    return {name: float(np.sqrt(np.mean((each - truth) ** 2))) for name, each in found.items()}


def with_curator(
    pool: NoiselessRelease, privacy: Privacy, *, runs: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Return the same of a trusted curator who adds the noise of all shares at once; drawn by scipy, for comparison."""
    parties, noise = len(privacy.rows), []
    for _, _, grain, scale, _ in privacy.channels:
        law = stats.nbinom(parties / privacy.shares, -np.expm1(-1 / float(scale)))
        steps = law.rvs(runs, random_state=random) - law.rvs(runs, random_state=random)
        noise.append(grain * steps + random.integers(0, grain, (runs, parties)).sum(axis=1))
    return np.asarray(simulated_private_auc.exact(pool, privacy) + np.column_stack(noise))


def same_law(size: int, unit: str, runs: int, random: np.random.Generator) -> tuple[float, ...]:
    """Return mean and standard deviation of AUC', of parties and of a curator, and the p of Kolmogorov and Smirnov."""
    pool = pool_of(*rows_of(size, 0.25, random), GRID)
    privacy = budget(size, PARTIES, 1.0, unit)
    ours, theirs = (aucs(draw(pool, privacy, runs=runs, random=random), privacy) for draw in (releases, with_curator))
    return ours.mean(), theirs.mean(), ours.std(), theirs.std(), float(stats.ks_2samp(ours, theirs).pvalue)


def least_epsilon(
    of_pool: Callable[[int], NDArray[np.int64]], of_neighbour: Callable[[int], NDArray[np.int64]], runs: int
) -> float:
    """Return what epsilon is at least, with 99 % confidence, of so many releases of either pool, in two numbers.

    On half of them the event is chosen, D' and P' beyond a quantile each, that tells the pools apart best; on the other
    half its probabilities are bounded (Clopper and Pearson).
    """
    chosen, tested = ([draw(runs // 2) for draw in (of_pool, of_neighbour)] for _ in range(2))
    both = np.concatenate(chosen)
    places = [np.unique(np.quantile(both[:, column], np.linspace(0.002, 0.998, 120))) for column in (0, 1)]
    best, event = -math.inf, None
    for d, p, up, more in product(places[0], [-math.inf, *places[1]], (1, -1), (1, -1)):

        def inside(released: NDArray[np.int64], d: float = d, p: float = p, up: int = up, more: int = more) -> float:
            return float(((up * released[:, 0] >= up * d) & (more * released[:, 1] >= more * p)).mean())

        likely, seldom = (inside(each) for each in chosen)
        if likely <= seldom or seldom < 0.002:
            continue
        surely = math.log(likely / seldom) - 3 / math.sqrt(seldom * runs / 2)
        if surely > best:
            best, event = surely, inside
    if event is None:
        return 0.0
    half = len(tested[0])
    hits = [round(half * event(each)) for each in tested]
    low = stats.beta.ppf(0.005, hits[0], half - hits[0] + 1)
    high = stats.beta.ppf(0.995, hits[1] + 1, half - hits[1])
    return max(0.0, float(math.log(low / high)))


def audit(unit: str, what: str, runs: int, random: np.random.Generator, *, halved: bool = False) -> float:
    """Return `least_epsilon` of the worst pools of 12 rows, with the shares of those alone who are needed; ε = 1."""
    size = 12
    pools = {  # a row at the lower end
        "label flipped": (NoiselessRelease(0, 6, size), NoiselessRelease(-(size - 1), 7, size)),
        "replaced, same label": (NoiselessRelease(size - 1, 1, size), NoiselessRelease(-(size - 1), 1, size)),
        "replaced, other label": (NoiselessRelease(0, 6, size), NoiselessRelease(-(size - 1), 7, size)),
    }
    privacy = budget(size, 4, 1.0, unit)
    told = budget(size, 4, 2.0, unit) if halved else privacy

    def draw(pool: NoiselessRelease, runs: int) -> NDArray[np.int64]:
        released = releases(pool, told, runs=runs, random=random, parties=told.shares)
        return released[:, [not each.ties for each in told.channels]]

    draws = [partial(draw, pool) for pool in pools[what]]
    return max(least_epsilon(*draws, runs), least_epsilon(*reversed(draws), runs))


def coverage(size: int, prevalence: float, epsilon: float, unit: str, runs: int, random: np.random.Generator) -> float:
    """Return how often 95 % intervals hold the population's AUC, 0.8, of rows drawn anew each time."""
    privacy, held = budget(size, PARTIES, epsilon, unit), 0
    for _ in range(runs):
        pool = pool_of(*rows_of(size, prevalence, random), GRID)
        (released,) = releases(pool, privacy, runs=1, random=random).tolist()
        interval = simulated_private_auc.read(released, privacy, 0.95).headline().interval
        held += interval is not None and interval.low <= 0.8 <= interval.high
    return held / runs


def microseconds(draws: int) -> float:
    """Return the median time of a draw of a party's noise."""
    privacy = budget(100_000, PARTIES, 1.0, "row")
    privacy.noise()
    taken = []
    for _ in range(draws):
        started = time.perf_counter_ns()
        privacy.noise()
        taken.append(time.perf_counter_ns() - started)
    return float(np.median(taken)) / 1000


def draw(found: Mapping[float, Mapping[str, float]], size: int) -> Figure:
    figure = blank_figure(6.4, 3.8, f"Error of a private AUC: {size:,} rows, 25 % positive, {PARTIES} sites")
    axes = figure.subplots()
    for name in next(iter(found.values())):
        values = [of[name] for of in found.values()]
        colour, marker = _LOOKS[name.replace("curator", "verified")]
        style: dict[str, Any] = {"linestyle": ":", "fillstyle": "none"} if name.startswith("curator") else {}
        axes.plot(list(found), values, color=colour, marker=marker, label=name, linewidth=1.3, markersize=4.5, **style)
    make_logarithmic(axes, {0.1: "0.1", 1: "1", 10: "10"})  # type: ignore[dict-item]
    axes.set_xlabel("epsilon")
    axes.set_ylabel("root mean squared error")
    axes.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--audits", type=int, default=10**5)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args(argv)
    runs, random = arguments.runs, np.random.default_rng(SEED)
    sizes = [(1000, 0.25), (1000, 0.06), (10_000, 0.25), (100_000, 0.25), (458_407, 0.25)]
    of_size = [errors(*each, 1.0, runs, random) for each in sizes]
    body = ([f"{n:,}", f"{p:.0%}", *texts(of.values(), ".2g")] for (n, p), of in zip(sizes, of_size, strict=True))
    show(["rows", "positive", *of_size[0]], body)
    cases = product((100, 1000, 10_000, 458_407), UNITS)
    laws = ([f"{size:,}", unit, *texts(same_law(size, unit, 10 * runs, random), ".4g")] for size, unit in cases)
    show(["rows", "unit", "mean", "curator's", "sd", "curator's", "KS p"], laws)
    pools = [("label", "label flipped"), ("row", "replaced, same label"), ("row", "replaced, other label")]
    audited = (
        [*pool, *texts([audit(*pool, arguments.audits, random, halved=halved) for halved in (False, True)], ".3f")]
        for pool in pools
    )
    show(["unit", "one row", "ε is at least", "with half the noise"], audited)
    held = (
        [f"{n:,}", f"{p:.0%}", f"{e:g}", *texts([coverage(n, p, e, unit, runs, random) for unit in UNITS], ".1%")]
        for n, p, e in product((300, 1000, 10_000), (0.06, 0.25), (0.3, 1.0, 3.0))
    )
    show(["rows", "positive", "ε", *UNITS], held)
    print(f"A draw of a party's noise takes {microseconds(10 * runs):.1f} µs.")
    if arguments.plot:
        found = {epsilon: errors(1000, 0.25, epsilon, runs, random) for epsilon in EPSILONS}
        save_figure(draw(found, 1000), arguments.plot)


def texts(numbers: Iterable[float], style: str) -> list[str]:
    return [format(each, style) for each in numbers]


if __name__ == "__main__":
    main()
