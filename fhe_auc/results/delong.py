"""DeLong's standard errors from sums over bins of scores: of an AUC, of the difference of two, and by patients.

With p_k and n_k the positive and negative rows of bin k, bins ascending in score, P and N the totals, A the AUC:

    Q10 = Σ p_k·(N_{<k} − N_{>k})²          S10 = (Q10/N² − P·(2A − 1)²) / (4(P − 1))
    Q01 = Σ n_k·(P_{>k} − P_{<k})²          S01 = (Q01/P² − N·(2A − 1)²) / (4(N − 1))

    SE² = S10/P + S01/N                     DeLong, DeLong and Clarke-Pearson, Biometrics 44 (1988), 837-845
    SE² of A_a − A_b: S^a + S^b − 2·ρ·√(S^a·S^b) in the place of S, for either label
                                            two models on the same rows; DeLong as above, where ρ is the correlation of
                                            N_{<k} − N_{>k} by the one model with that by the other
    SE² = S10/P + S01/N + 2·S11/(P·N)       Obuchowski, Biometrics 53 (1997), 567-578: S from sums over patients of what
                                            their rows are worth; S11 of positive with negative rows
    SE² = (A(1 − A) + (P − 1)(A/(2 − A) − A²) + (N − 1)(2A²/(1 + A) − A²)) / (P·N)
                                            Hanley and McNeil, Radiology 143 (1982), 29-36

The first two are DeLong's for the rows with their scores binned, and take rows as independent: patients who appear
twice, or who are alike within a site, make them too narrow. The third takes patients as independent, and is DeLong's
where each has one row. The last assumes scores of a certain distribution.

**Weights.** Where rows have weights w, p_k and n_k are sums of them, q_k sums of w² of one label, and Q = Σ q_k. The
rows of that label are as many *effective rows*, m = P²/Q or N²/Q, as say as much with equal weights (Kish, 1965). By
the influence function of the AUC, with a = 2A − 1 and u_k = (N_{<k} − N_{>k})/N, or (P_{>k} − P_{<k})/P:

    spread = Σ q_k·(u_k − a)²/Q             S = spread·m/(4(m − 1))            SE² = S10/m + S01/m, each of its own m

With equal weights that is DeLong's. Weights are taken as known, and rows as drawn with them.

**Merged bins.** Q10 and Q01 may be of fewer bins, each some neighbours. With π_K and x_K a merged bin's shares of all
positive and negative rows, and A of the merged bins, too:

    τ = Σ π_K·x_K    pairs of one merged bin        h    those of them whose scores differ; both as shares of PN
    Δ                by how much D/(PN) of the merged bins is off

What positive rows of bin K are worth varies there by x_K²·(1 − Σ q³)/3, if rows of both labels have the same shares q
of its scores. 1 − Σ q³ is at most 1, and 3/2 of 1 − Σ q²; x_K is at most √Σ x². So S10 is larger than merged bins say,
by at most L = √(Σ x²)·min(τ/3, h/2)·P/(4(P − 1)); and S01, with π and N. Where labels lie unlike in bins, and in all in
one way, Δ tells: studies found S within another Δ/4. Nothing tells of labels that lie unlike in one way below the mean,
and in the other above: `test_merged_bins.py` attacks so.

So S is that of merged bins plus L/2, where neither another L/2 nor Δ/4 makes SE larger by more than 0.5 %, or a tenth
of what k rows on the wrong side leave uncertain about it, 1/(2√k). Elsewhere it is that plus L + Δ/4, and a result says
so (`crowded`). docs/evidence/intervals.md has the studies.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.results.intervals import quantile, student_t

Components: TypeAlias = tuple[float, float]  # S10 and S01
Exact: TypeAlias = Fraction | int

_TOO_SMALL = 0.005  # a share of itself by which a standard error may be too small, and nothing says so
_OF_FEW = 0.05  # more, over √k, where k rows of the rarer label are on the wrong side
_FEWEST = Fraction(1, 4)  # k at least: by a tenth at most
_HALF = Fraction(1, 2)

MOST_OFF = 0.05  # up to this share of itself the standard error of a difference may be off for it to have a p-value
_OCCUPIED = 30  # coarse bins of a comparison that are taken to hold rows, of 67: scores crowd at fixed thresholds
_EVEN = 0.001  # ties of a bin, a pair: of scores that crowd nowhere, about that of a thousand bins
LEAST_TOLD = 0.003  # up to this binning error of two models, what bins merge hardly moves their difference
_FARTHEST = 4.0  # times what a standard error of a difference is off by about: no study has seen it that far off


class Counted(NamedTuple):
    """The rows of one label: how many, and the sums of their weights, and of the squares of these, in any unit."""

    rows: int
    total: int
    square: int

    @property
    def effective(self) -> Fraction:
        """Effective rows: as many with equal weights say as much."""
        return Fraction(self.total**2, self.square) if self.square else Fraction(0)


class Merged(NamedTuple):
    """What sums over bins say that may be merged: D, Q10 and Q01; and what merging has hidden, if anything.

    With weights, q_k stands for p_k and n_k in Q10 and Q01, and in R10 and R01, the same sums without squares.
    """

    difference: int
    q10: int
    q01: int
    ties: Fraction = Fraction(0)  # τ, of merged bins in which scores may differ
    hidden: Fraction = Fraction(0)  # h, or more
    moved: Fraction = Fraction(0)  # Δ
    squares: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1))  # Σ π² and Σ x², of the same bins as τ
    first: tuple[int, int] | None = None  # R10 and R01; D both, where rows count once each


def delong_error(merged: Merged, positives: Counted, negatives: Counted) -> float | None:
    """Return DeLong's standard error of the AUC; None where a class has fewer than two effective rows."""
    if min(positives.effective, negatives.effective) < 2:
        return None
    return math.sqrt(_variance(components(merged, positives, negatives), positives, negatives))


def components(merged: Merged, positives: Counted, negatives: Counted) -> tuple[Fraction, Fraction]:
    """Return S10 and S01, of merged bins enlarged; each label has two rows at least."""
    if crowded(merged, positives, negatives):
        return _enlarged(merged, positives, negatives, Fraction(1), merged.moved)
    return _enlarged(merged, positives, negatives, _HALF, Fraction(0))


def crowded(merged: Merged, positives: Counted, negatives: Counted) -> bool:
    """Tell whether merging hides so much that S10 and S01 are taken large: a result says so."""
    middle, *others = (
        _variance(_enlarged(merged, positives, negatives, *by), positives, negatives)
        for by in ((_HALF, Fraction(0)), (Fraction(1), Fraction(0)), (_HALF, merged.moved))
    )
    off = Fraction(merged.difference, positives.total * negatives.total)
    wrong = min(positives.effective, negatives.effective) * (1 - abs(off)) / 2
    return max(others) > (1 + max(_TOO_SMALL, _OF_FEW / math.sqrt(max(wrong, _FEWEST)))) ** 2 * middle


def _enlarged(
    merged: Merged, positives: Counted, negatives: Counted, times: Fraction, moved: Fraction
) -> tuple[Fraction, Fraction]:
    """Return S10 and S01 plus so many times L, and a quarter of what is moved."""
    off = Fraction(merged.difference, positives.total * negatives.total)
    varied = times * max(min(merged.ties / 3, merged.hidden / 2), Fraction(0))
    of_positives, of_negatives = (varied * Fraction(math.sqrt(square)) for square in merged.squares)
    r10, r01 = merged.first or (merged.difference, merged.difference)
    s10 = _spread(merged.q10, r10, positives, negatives.total, off) + of_negatives + moved
    s01 = _spread(merged.q01, r01, negatives, positives.total, off) + of_positives + moved
    rows = positives.effective, negatives.effective
    return s10 * rows[0] / (4 * (rows[0] - 1)), s01 * rows[1] / (4 * (rows[1] - 1))


def _spread(square: int, first: int, own: Counted, others: int, off: Fraction) -> Fraction:
    """Return the mean square, by w², of what rows of a label are worth, around `off`."""
    return (Fraction(square, others**2) - 2 * off * Fraction(first, others) + off**2 * own.square) / own.square


def _variance(components: tuple[Fraction, Fraction], positives: Counted, negatives: Counted) -> Fraction:
    return components[0] / positives.effective + components[1] / negatives.effective


def of_bins(positives: ArrayLike, negatives: ArrayLike) -> tuple[Fraction, float | None]:
    """Return the AUC and DeLong's standard error, of rows a bin: integers, shape (bins,), no class empty."""
    p, n = (np.asarray(side, np.int64).astype(object) for side in (positives, negatives))  # cubes may exceed 64 bits
    worse, better = 2 * np.cumsum(n) - n - n.sum(), p.sum() - 2 * np.cumsum(p) + p
    ones, zeros = int(p.sum()), int(n.sum())
    difference, q10, q01 = (int(each.sum()) for each in (p * worse, p * worse**2, n * better**2))
    auc = Fraction(1, 2) + Fraction(difference, 2 * ones * zeros)
    return auc, delong_error(Merged(difference, q10, q01), *(Counted(own, own, own) for own in (ones, zeros)))


def hanley_mcneil_components(auc: Fraction) -> tuple[Fraction, Fraction]:
    """Return the variances of what a positive, and a negative, row is worth: DeLong's S10 and S01, of the AUC alone."""
    return auc / (2 - auc) - auc**2, 2 * auc**2 / (1 + auc) - auc**2


def hanley_mcneil(auc: Fraction, positives: int, negatives: int) -> float:
    """Return Hanley and McNeil's standard error of the AUC of so many rows."""
    of_positives, of_negatives = hanley_mcneil_components(auc)
    variance = auc * (1 - auc) + (positives - 1) * of_positives + (negatives - 1) * of_negatives
    return math.sqrt(variance / (positives * negatives))


class OneModel(NamedTuple):
    """An AUC, and the sums of its standard error."""

    auc: Fraction
    merged: Merged


class Moments(NamedTuple):
    """Sums over rows of one label: of u^a and u^b, of their squares, and of u^a·u^b, in any unit.

    With weights, they are sums of w·u, w²·u² and w²·u^a·u^b; and `weighted` has those of w²·u^a and w²·u^b.
    """

    first: int
    second: int
    first_square: int
    second_square: int
    product: int
    weighted: tuple[int, int] | None = None

    def centred(self, rows: Counted) -> tuple[float, float, float]:
        """Return the sums of squares of u^a and u^b around their means over these rows, and that of products."""
        x, y = self.weighted or (self.first, self.second)
        a, b = (Fraction(each, rows.total) for each in (self.first, self.second))
        of_first = around_means(self.first_square, (x, x), (a, a), rows.square)
        of_second = around_means(self.second_square, (y, y), (b, b), rows.square)
        return float(of_first), float(of_second), float(around_means(self.product, (x, y), (a, b), rows.square))


def around_means(
    product: Exact, sums: tuple[Exact, Exact], means: tuple[Fraction, Fraction], weight: Exact
) -> Fraction:
    """Return a sum of products around these means, where that of the factors is `sums`, of so much weight in all."""
    return product - means[1] * sums[0] - means[0] * sums[1] + means[0] * means[1] * weight


class Products(NamedTuple):
    """Over pairs of different rows of one patient: sums of products of what both are worth, of either; their number.

    A positive row is worth N_{<k} − N_{>k}, a negative one P_{>k} − P_{<k}: the first by one model, the second by one.
    A pair counts as much as the product of both rows' weights.
    """

    product: Fraction
    first: Fraction
    second: Fraction
    pairs: Fraction

    def centred(self, first: Fraction, second: Fraction) -> Fraction:
        """Return the sum of products around these means."""
        return around_means(self.product, (self.first, self.second), (first, second), self.pairs)


class Clusters(NamedTuple):
    """What sums over patients say."""

    # By model and group, then by label: sums over rows of what each is worth, u, about: of w·u, w²·u and w²·u².
    alone: Mapping[tuple[int, int], Mapping[int, tuple[Fraction, Fraction, Fraction]]]
    # By models of the first and second row, and group; then by label of the first and second row.
    within: Mapping[tuple[int, int, int], Mapping[tuple[int, int], Products]]
    patients: Sequence[tuple[int, int, int]]  # by group: with positive rows, with negative ones, with any

    def error(
        self, unclustered: Components, models: Mapping[int, Components], group: int, rows: tuple[Counted, Counted]
    ) -> float | None:
        """Return Obuchowski's standard error of an AUC, or of the difference of two; None where there is none.

        `unclustered` are DeLong's S10 and S01 of it, of these positive and negative `rows`; `models` those of the one
        model, or of both, where it is the second minus the first. Rows' worth is known about: what a patient's have in
        common is a share of the variance by that. None: fewer than two patients of a label, or counts of no rows.
        """
        if not max(self.patients[group][:2]) <= self.patients[group][2] <= sum(own.rows for own in rows):
            return None
        *of_label, everybody = self._effective(group, rows)
        if min(of_label) < 2:
            return None
        signs = dict(zip(models, (-1, 1) if len(models) > 1 else (1,), strict=True))
        means, scales = {}, {}
        for model, exact in models.items():
            for label, own, others, component in zip((1, 0), rows, reversed(rows), exact, strict=True):
                total, weighted, square = self.alone[model, group][label]
                means[model, label] = mean = total / own.total
                around = around_means(square, (weighted, weighted), (mean, mean), own.square)
                about = float(around * own.effective / own.square) / float(own.effective - 1) / (2 * others.total) ** 2
                scales[model, label] = math.sqrt(component / about) if about > 0 else 0.0

        def over_pairs(a: int, b: int) -> float:
            of_models = (
                signs[m] * signs[n] * scales[m, a] * scales[n, b]
                * float(self.within[m, n, group][a, b].centred(means[m, a], means[n, b]))
                for m, n in itertools.product(models, repeat=2)
            )  # fmt: skip
            return sum(of_models)

        variance = 2 * everybody / (everybody - 1) * over_pairs(1, 0) / (2 * rows[0].total * rows[1].total) ** 2
        for at, (own, patients, alone) in enumerate(zip(rows, of_label, unclustered, strict=True)):
            effective, together = float(own.effective), over_pairs(1 - at, 1 - at) / (2 * rows[1 - at].total) ** 2
            summed = (effective - 1) * alone + (effective / own.total) ** 2 * together
            variance += patients / (patients - 1) * summed / effective**2
        return math.sqrt(variance) if variance > 0 else None

    def _effective(self, group: int, rows: tuple[Counted, Counted]) -> list[float]:
        """Return patients with positive rows, with negative ones, and with any: as large a share as of rows."""
        share = float(sum(own.effective for own in rows) / sum(own.rows for own in rows))
        return [share * patients for patients in self.patients[group]]

    def worth(self, model: int, group: int, rows: tuple[Counted, Counted]) -> float:
        """Return how many patients with equally many rows would say as much as these, of the rarer label."""
        within = self.within[model, model, group]
        counted = zip((within[1, 1], within[0, 0]), rows, strict=True)
        return min(float(own.total**2 / (own.square + products.pairs)) for products, own in counted)

    def stretch(self, model: int, group: int, rows: tuple[Counted, Counted], level: float) -> float:
        """Return by how much to multiply an AUC's error, so that the normal law's interval is of so few patients."""
        worth, patients = max(self.worth(model, group, rows), 2.0), max(min(self._effective(group, rows)[:2]), 2.0)
        counted = worth * (patients - 1) / ((worth - 1) * patients)  # in the place of patients/(patients − 1)
        return student_t(int(worth) - 1, level) / quantile(level) * math.sqrt(max(counted, 1.0))


LEAST_SCALE = 2
"""That of sums where each bin is a coarse one of its own: what a row is worth is known as it is, not about."""


class PairedSums(NamedTuple):
    """Sums over rows of what each is worth to two models, about: pairs ordered rightly minus wrongly, times `scale`."""

    of_positives: Moments
    of_negatives: Moments
    scale: int = LEAST_SCALE


class PairedError(NamedTuple):
    """The standard error of a difference of two AUCs."""

    standard_error: float
    off: float  # by which share it may differ from that over rows, about; infinite where it is 0
    components: Components  # the difference's S10 and S01
    most: float  # as large as the standard error over rows can well be
    moved: float  # as far as what bins merge can well move the difference

    def clustered(self, standard_error: float | None) -> PairedError:
        """Return it with this standard error in the place of its own, and all else in proportion."""
        times = (standard_error or 0.0) / self.standard_error if self.standard_error else 0.0
        both = times * self.most, max(times, 1.0) * self.moved
        return PairedError(times * self.standard_error, self.off, self.components, *both)

    def p_at_most(self, difference: float) -> float:
        """Return what the two-sided p-value over rows is at most, where this is the difference over bins."""
        return math.erfc(max(abs(difference) - self.moved, 0.0) / self.most / math.sqrt(2)) if self.most else 1.0


def paired_delong(
    first: OneModel,
    second: OneModel,
    sums: PairedSums,
    positives: Counted,
    negatives: Counted,
    merged: tuple[float, float] = (0.0, 0.0),
    alike: tuple[float, float] = (0.0, 0.0),
) -> PairedError | None:
    """Return DeLong's standard error of the difference of two AUCs on the same rows; None as `delong_error`.

    Variances V are those of the bins, the correlation ρ that of `sums`, in which a row's worth is known but for an r:
    about a Brownian bridge, whose variance n rows of the other label, evenly in k coarse bins, leave at 1/(6·k·n).
    Scores that crowd leave more. That shows in what r does to mean and variance of the worth, known exactly: k/2 times
    its mean squared plus (V − V')²/4V, V' the variance by `sums`. Let η be the larger of the two, as a share of V.

    A model's r goes with what the other says of a row besides, a share 1 − ρ² of its variance, by accident: over m rows
    ρ is off by √((η_a + η_b)(1 − ρ²)/m). Rows that have one score count as one, about; where a share s of all rows has
    one, 2·`alike` is some s² above that of even bins (ties of a bin over 2PN, by either model, if it is no coarse
    one of its own): 1/m + s stands for 1/m. Both models' r together put ρ off by √(η_a·η_b). Half of all that is `off`:
    about the errors that studies found.

    Rows that bins merge though their scores differ, `merged` over 2PN by either model, T = 2·merged, move a model's AUC
    by about √(T²·(1/P + 1/N)/12) where they lie evenly in bins, which counts in `off`; where in one, by T^1.5 for T².
    Also, bins that one model fills more than the other take more from its AUC, by about T^1.5 less the other's. `moved`
    is twice the former and 1.3 times the latter, and `most` allows for four times `off`: more than studies have found.
    docs/evidence/intervals.md says how often all this holds.
    """
    if min(positives.effective, negatives.effective) < 2:
        return None
    uncertain, differences = 0.0, []
    one_score = math.sqrt(max(2 * max(alike) - _EVEN, 0.0))
    of_models = (components(each.merged, positives, negatives) for each in (first, second))
    both_labels = (positives, negatives), (negatives, positives)
    for both, moments, (own, others) in zip(zip(*of_models, strict=True), sums[:2], both_labels, strict=True):
        a, b = map(float, both)  # in floating point, so that a model has no difference from itself, not nearly none
        rows, unit = float(own.effective), 2 * sums.scale * others.total
        by_squares = (
            own.rows * (rows / own.rows) ** 4
        )  # by w², whose effective rows are (Σw²)²/Σw⁴: of lognormal w that
        least = 1 / (6 * _OCCUPIED * float(others.effective)) if sums.scale > LEAST_SCALE else 0.0
        *squares, products = moments.centred(own)
        known = (square * float(own.effective / own.square) / (rows - 1) / unit**2 for square in squares)
        shifts = (
            float(of.auc) - 0.5 - float(Fraction(total, unit * own.total))
            for of, total in zip((first, second), moments[:2], strict=True)
        )
        missing = [
            max(least, _OCCUPIED / 2 * (shift**2 + (of - part) ** 2 / (4 * of))) / of if of else 0.0
            for part, of, shift in zip(known, (a, b), shifts, strict=True)
        ]
        spread = math.prod(squares)  # 0 where one model gives all rows the same worth
        correlation = products / math.sqrt(spread) if spread > 0 else 0.0
        differences.append(a + b - 2 * correlation * math.sqrt(a * b))
        off_by = sum(missing) * (1 - correlation**2) * (1 / by_squares + one_score) + math.prod(missing)
        uncertain += 4 * a * b / rows**2 * max(off_by, 0.0)
    of_label = float(positives.effective), float(negatives.effective)
    variance = differences[0] / of_label[0] + differences[1] / of_label[1]
    found, reach = math.sqrt(max(variance, 0.0)), math.sqrt(uncertain) / 2
    low, high = (math.sqrt(max(each, 0.0)) for each in (variance - reach, variance + reach))
    off = (high - low) / 2
    tied, inverse = [2 * each for each in merged], (1 / of_label[0] + 1 / of_label[1]) / 12
    evenly, at_most = (math.sqrt(inverse * sum(each**power for each in tied)) for power in (2, 1.5))
    moved = min(2 * at_most + 1.3 * abs(tied[0] ** 1.5 - tied[1] ** 1.5), sum(merged))
    most = math.hypot(found + _FARTHEST * off, at_most)
    return PairedError(
        found, math.hypot(off, evenly) / found if found else math.inf, (differences[0], differences[1]), most, moved
    )
