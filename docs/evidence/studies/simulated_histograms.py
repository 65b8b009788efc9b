"""SIMULATED private score histograms, for experiments: fast, seeded, and protecting nobody.

From exact pooled counts, whoever has the rows: noise does not depend on what it is added to, and a report only on its
row. Real sessions use `fhe_auc_protocols.dp_noise` and `fhe_auc_protocols.histograms.unary_encoding` with a secure
source.

    distributed    numpy's discrete Laplace law, or every party's Pólya shares one by one
    local          a bit's reports are binomial (`unary_tallies`)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fhe_auc_protocols.histograms.hierarchical_counts import HierarchicalCounts
from fhe_auc_protocols.histograms.unary_encoding import LevelTally, UnaryEncoding, UnaryHierarchy


def distributed(
    counts: NDArray[np.int64], epsilon: float, *, runs: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Return pooled counts with discrete Laplace noise of scale 1/epsilon, shape (runs, *counts.shape)."""
    shape = (runs, *counts.shape)
    return counts + random.geometric(-math.expm1(-epsilon), shape) - random.geometric(-math.expm1(-epsilon), shape)


def distributed_share_by_share(
    counts: NDArray[np.int64], epsilon: float, *, parties: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Do as `distributed`, once, without the shortcut: draw each of n parties' shares, sized for n, and add them up."""
    total = counts.copy()
    for _ in range(parties):
        shares = random.negative_binomial(1 / parties, -math.expm1(-epsilon), (2, *counts.shape))
        total += shares[0] - shares[1]
    return total


def distributed_hierarchy(
    counts: HierarchicalCounts, epsilon: float, random: np.random.Generator
) -> HierarchicalCounts:
    """Return pooled hierarchical counts with noise of scale h/epsilon on each level."""
    levels = (level.astype(np.int64) for level in counts.levels)
    share = epsilon / counts.height
    return HierarchicalCounts(
        tuple(distributed(level, share, runs=1, random=random)[0].astype(np.float64) for level in levels)
    )


def local(counts: NDArray[np.int64], epsilon: float, *, runs: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return estimates of the counts from one report a row over all cells, shape (runs, *counts.shape)."""
    encoding = UnaryEncoding(counts.size, epsilon)
    tallies = unary_tallies(encoding, counts.ravel(), runs=runs, random=random)
    return encoding.estimate(tallies, int(counts.sum())).reshape(runs, *counts.shape)


def local_hierarchy(counts: HierarchicalCounts, epsilon: float, random: np.random.Generator) -> HierarchicalCounts:
    """Return estimates of hierarchical counts from one report a row, on a level of the row's choice."""
    height = counts.height
    chosen = random.multinomial(counts.levels[-1].astype(np.int64), [1 / height] * height)  # of each lowest segment
    tallies = []
    for k in range(1, height + 1):
        own = chosen[:, k - 1].reshape(2**k, -1).sum(axis=1)
        ones = unary_tallies(UnaryEncoding(2**k, epsilon), own, runs=1, random=random)[0]
        tallies.append(LevelTally(int(own.sum()), ones))
    return HierarchicalCounts(UnaryHierarchy(height, epsilon).estimate(tallies))


def unary_tallies(
    encoding: UnaryEncoding, counts: NDArray[np.int64], *, without: int = 0, runs: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Draw tallies of the same law as `UnaryEncoding.tally`, shape (runs, d), from how many users each cell has.

    Counts c_v have the shape (d,). A bit is set by Binomial(c_v, 1/2) + Binomial(n − c_v, q) of the reports; bits of a
    user are independent. So many users `without` a value report besides.
    """
    others = int(counts.sum()) + without - counts
    shape = (runs, encoding.cells)
    drawn: NDArray[np.int64] = random.binomial(counts, 0.5, shape)
    return drawn + random.binomial(others, encoding.flip_probability, shape)
