"""The ROC curve of few bins whose counts carry privacy noise, and what follows from it.

Noise is the same on a bin of one row and on one of a thousand, so few bins are best, and the curve between their edges
is interpolated. Rates f and t at the edges, of `Histogram.cleaned` counts, are drawn on normal-deviate axes, u = Φ⁻¹(f)
and v = Φ⁻¹(t), on which ROC curves are nearly straight (Swets, "Form of empirical ROCs in discrimination and diagnostic
tasks", Psychological Bulletin 99, 1986).

- **Between edges** v is a monotone cubic of u (PCHIP: Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5, 1984).
- **Beyond the outermost edges** it is a straight line. Its slope is that of the last two edges, drawn towards that of
  all edges as far as noise and rows leave it open, which is drawn towards 1 likewise.
- An edge counts where both rates lie between a quarter of a row and all but one.
- **A bin of one number**, or of one cell of the tree, has tied rows, most likely: there the curve is the straight line
  between its points, as scikit-learn's.

Precision at a recall follows from the rates, and the numbers P and N of rows. docs/evidence/noise.md has measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fhe_auc.metrics.histogram import Floats, Histogram, with_both_labels
from fhe_auc.metrics.ranking import of_one_score
from fhe_auc.question.score_bins import of_one_number, with_bins_of
from fhe_auc.question.thresholds import TREE_HEIGHT, cell_starts

_REACH, _STEPS = 8.0, 1000  # the curve is known at so many deviates, up to so far: 6e-16 of the rows
LEAST_ROWS = 0.25  # of a label at or above an edge, and below it, where its rate counts
_UNSURE = 0.5  # rows
_APART = 1e-6  # deviates
_SLOPES = 0.2, 5.0  # of the lines beyond the edges
_OWN, _ALL = 0.15, 0.2  # by how much slopes differ: of the last edges from that of all, and that from 1


@dataclass(frozen=True)
class CountNoise:
    """The noise on each count of a histogram: NB(r, p) − NB(r, p) with p = exp(−1/scale), or a normal variable.

    `shares` is r, by how much shares of all parties exceed those that were promised. A scale of 0: normal noise.
    """

    deviation: float  # standard, of one count
    scale: float = 0.0
    shares: float = 1.0

    @classmethod
    def of(cls, settings: Mapping[str, int | float | str], parties: int) -> CountNoise:
        """Return the noise that a result tells in its settings; none where it tells of none."""
        scale, shares = float(settings.get("noise_scale", 0)), float(settings.get("noise_shares", parties))
        return cls(float(settings.get("noise_deviation", 0)), scale, parties / shares)

    def drawn(self, random: np.random.Generator, *shape: int) -> Floats:
        """Draw noise of that law, for experiments: it protects nobody."""
        if not self.scale:
            return np.asarray(random.normal(0.0, self.deviation, shape))
        first, second = random.negative_binomial(self.shares, -math.expm1(-1 / self.scale), (2, *shape))
        return np.asarray(first - second, np.float64)


@dataclass(frozen=True, eq=False)
class RocFit:
    """A ROC curve, known at ascending deviates u of the false positive rate; `tpr_at` are the rates there.

    `fitted` raises `UndefinedAucError` where noise, or the rows, leave a label no row.
    """

    u: Floats  # shape (n,)
    tpr_at: Floats  # ascending
    positives: float
    negatives: float
    tied: Floats  # true positive rates before and after each bin of one number, ascending, shape (k, 2)
    bend: float  # of the whole curve, in deviates a square deviate, beyond what is noise: what lines beyond edges lack

    @classmethod
    def fitted(cls, histogram: Histogram, noise: CountNoise, bent: float = 0.0) -> RocFit:
        """Return the curve of noisy counts, with lines beyond the outermost edges bent by so much."""
        usable, ties = with_both_labels(without_gaps(histogram)), _known(histogram.edges.tobytes())[0]
        ones, zeros = (float(side.sum()) for side in usable.sides)
        t, f = (np.append(0.0, sums / sums[-1]) for sums in np.cumsum(usable.sides[:, ::-1], axis=1))
        (tpr, bend), tied = _smooth(f, t, ones, zeros, noise.deviation**2, bent), ties[::-1]
        if not tied.any():
            return cls(_GRID, tpr, ones, zeros, np.empty((0, 2)), bend)
        within = np.searchsorted(f, _RATES, side="right") - 1
        tpr = np.where(tied[within], np.interp(_RATES, f, t), tpr)
        own = np.append(tied, False) | np.append(False, tied)
        u, tpr = np.append(rates_to_deviates(f[own]), _GRID), np.append(t[own], tpr)
        order = np.lexsort((tpr, u))
        ends = np.stack([t[:-1], t[1:]], axis=1)[tied]
        return cls(u[order], np.maximum.accumulate(tpr[order]), ones, zeros, ends, bend)

    def tpr(self, fpr: Floats) -> Floats:
        """Return the true positive rate at false positive rates from 0 to 1."""
        found = np.interp(rates_to_deviates(fpr), self.u, self.tpr_at)
        return np.where(fpr <= 0, 0.0, np.where(fpr >= 1, 1.0, found))

    def fpr(self, tpr: Floats) -> Floats:
        """Return the least false positive rate at true positive rates from 0 to 1."""
        found = deviates_to_rates(np.interp(-tpr, -self.tpr_at[::-1], self.u[::-1]))
        return np.where(tpr <= 0, 0.0, found)

    def precision(self, recall: Floats) -> Floats:
        """Return the precision at recalls above 0 and up to 1."""
        true, false = recall * self.positives, self.fpr(recall) * self.negatives
        return np.asarray(true / np.maximum(true + false, 1e-300))

    @property
    def auc(self) -> float:
        """Area under the curve."""
        rates = deviates_to_rates(self.u) if len(self.tied) else _RATES
        return float(((self.tpr_at[1:] + self.tpr_at[:-1]) / 2 * np.diff(rates)).sum() + 1 - rates[-1])

    @property
    def average_precision(self) -> float:
        """Area under the precision-recall curve; tied rows count at the precision of all of them, as scikit-learn's."""
        recall = np.union1d(np.arange(_STEPS + 1) / _STEPS, self.tied)
        middle, starts, ends = (recall[1:] + recall[:-1]) / 2, *np.append([[-1.0, -1.0]], self.tied, axis=0).T
        at = np.maximum(middle, ends[np.searchsorted(starts, middle) - 1])
        return float(self.precision(at) @ np.diff(recall))


def without_gaps(histogram: Histogram) -> Histogram:
    """Return the histogram without what noise puts between listed scores, where no row lies."""
    gaps = _known(histogram.edges.tobytes())[1]
    return Histogram(histogram.edges, *np.where(gaps, 0.0, histogram.sides)) if gaps.any() else histogram


_DEVIATES = np.linspace(-_REACH, _REACH, 16 * _STEPS + 1, dtype=np.float64)
_OF_DEVIATES = np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in _DEVIATES.tolist()])
_GRID, _RATES = _DEVIATES[::16], _OF_DEVIATES[::16]


def rates_to_deviates(rates: Floats) -> Floats:
    """Return Φ⁻¹ within the reach of the curve, to 1e-6 below 5."""
    return np.asarray(np.interp(rates, _OF_DEVIATES, _DEVIATES))


def deviates_to_rates(deviates: Floats) -> Floats:
    """Return Φ within the reach of the curve, to 1e-5 of itself."""
    return np.asarray(np.interp(deviates, _DEVIATES, _OF_DEVIATES))


@lru_cache(maxsize=4)  # replicates have the same edges
def _known(edges: bytes) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which bins are ties, and which have no row, but noise alone: those between scores that are listed.

    Bins of one number are ties, and those of one cell of the tree: rows crowd there, most likely at one score.
    """
    bins = len(edges) // 8 - 1
    histogram = Histogram(np.frombuffer(edges), np.zeros(bins), np.zeros(bins))
    starts = histogram.edges[:-1]
    single = of_one_number(starts)
    listed = single.sum() > 1 and np.array_equal(with_bins_of(starts[single], starts[:0])[1:], starts[1:])
    cells = cell_starts(TREE_HEIGHT)
    first = np.searchsorted(cells, starts)
    ends = np.append(cells, [histogram.edges[-1]] * 2)[first + 1]
    one_cell = np.isin(starts, cells) & (ends >= histogram.edges[1:])
    return of_one_score(histogram) | one_cell, ~single & listed


def _smooth(f: Floats, t: Floats, ones: float, zeros: float, noise: float, bent: float) -> tuple[Floats, float]:
    """Return the rates at `_GRID` of the curve through edges, and its bend; `noise` is a count's variance."""
    inner = [rate * of > LEAST_ROWS for rate, of in ((t, ones), (1 - t, ones), (f, zeros), (1 - f, zeros))]
    place, bins = np.flatnonzero(np.logical_and.reduce(inner)), len(f) - 1
    if not len(place):  # a model that is perfect, or nearly so: of the edge that tells it best half a row is unsure
        if bins < 2:
            return np.asarray(np.interp(_RATES, f, t)), _OWN
        place = np.array([1 + np.abs(t - f)[1:-1].argmax()])
        f, t = (np.clip(rate, _UNSURE / of, 1 - _UNSURE / of) for rate, of in ((f, zeros), (t, ones)))
    u = rates_to_deviates(f[place])
    first = np.flatnonzero(np.diff(u, prepend=-np.inf) > _APART)
    u, t, place = u[first], np.maximum.reduceat(t[place], first), place[first]
    v = rates_to_deviates(t)
    density = ones * np.exp(-v * v / 2) / math.sqrt(2 * math.pi)
    known = density**2 / (noise * place * (bins - place) / bins + ones * t * (1 - t))  # 1/variance of v
    low, high = _slopes(u, v, t, density, known, noise, ones)
    below, above = np.minimum(_GRID - u[0], 0), np.maximum(_GRID - u[-1], 0)
    widths = np.diff(u) if len(u) > 1 else np.zeros(1)
    line = low * below + high * above + bent * (below * (below - widths[0]) + above * (above + widths[-1]))
    line += np.where(below < 0, v[0], v[-1])
    if len(u) > 1:
        between = (below == 0) & (above == 0)
        line[between] = monotone_cubic(u, v, _GRID[between])
    outside = np.flatnonzero(below)[::-1]
    line[outside] = np.minimum.accumulate(line[outside])  # a curve that bends up must not rise again
    return np.maximum.accumulate(deviates_to_rates(line)), _bend(u, v, known / 2)


def _bend(u: Floats, v: Floats, known: Floats) -> float:
    """Return the square term of v as a parabola of u, less its noise; `_OWN` where fewer than three edges tell it."""
    about = u - known @ u / known.sum()
    square = about**2 - known @ about**2 / known.sum()
    square -= about * (known @ (about * square)) / max(float(known @ about**2), 1e-300)
    information = float(known @ square**2)
    if len(u) < 3 or information < 1e-9:
        return _OWN
    return math.sqrt(max((float(known @ (square * v)) / information) ** 2 - 1 / information, 0))


def _slopes(
    u: Floats, v: Floats, t: Floats, density: Floats, known: Floats, noise: float, ones: float
) -> tuple[float, float]:
    """Return the slopes of v before the first of the ascending u, and after the last; `noise` is a count's variance."""
    if len(u) < 2:
        return 1.0, 1.0

    def drawn(slope: float, to: float, by: float, variance: float) -> float:
        return float(np.clip(to + (slope - to) * by**2 / (by**2 + variance), *_SLOPES))

    about = u - np.average(u, weights=known)
    information = float(known @ about**2)
    # Errors of edges are sums of the same noise, and so are worth less than independent ones: about half.
    of_all = drawn(float(known @ (about * v)) / information, 1.0, _ALL, 2 / information)

    def end(a: int, b: int, last: int) -> float:
        width, rows = u[b] - u[a], ones * abs(t[b] - t[a])
        return drawn((v[b] - v[a]) / width, of_all, _OWN, (noise + rows) / (density[last] * width) ** 2)

    return end(0, 1, 0), end(-2, -1, -1)


def monotone_cubic(x: Floats, y: Floats, at: Floats) -> Floats:
    """Return at numbers from the first to the last x the monotone cubic through the points, as scipy's PCHIP.

    A base install has no scipy, and neither have devices.
    """
    widths, slopes = np.diff(x), np.diff(y) / np.diff(x)
    if len(x) == 2:
        return np.asarray(y[0] + slopes[0] * (at - x[0]))
    ends = np.empty_like(x)
    before, after = 2 * widths[1:] + widths[:-1], widths[1:] + 2 * widths[:-1]
    rising = slopes[:-1] * slopes[1:] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (before + after) / (before / slopes[:-1] + after / slopes[1:])
    ends[1:-1] = np.where(rising, mean, 0.0)
    for side, (own, other) in ((0, (0, 1)), (-1, (-1, -2))):
        slope = ((2 * widths[own] + widths[other]) * slopes[own] - widths[own] * slopes[other]) / (
            widths[own] + widths[other]
        )
        if slope * slopes[own] <= 0:
            slope = 0.0
        elif slopes[own] * slopes[other] <= 0 and abs(slope) > 3 * abs(slopes[own]):
            slope = 3 * slopes[own]
        ends[side] = slope
    k = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(widths) - 1)
    s, width = (at - x[k]) / widths[k], widths[k]
    squared, cubed = s * s, s * s * s
    return np.asarray(
        y[k] * (2 * cubed - 3 * squared + 1)
        + y[k + 1] * (3 * squared - 2 * cubed)
        + width * (ends[k] * (cubed - 2 * squared + s) + ends[k + 1] * (cubed - squared))
    )
