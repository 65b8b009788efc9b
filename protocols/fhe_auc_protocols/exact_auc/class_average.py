"""Several classes: averages of the AUCs of single ones, and intervals that are certain to be wide enough.

Hand and Till's M (Machine Learning 45, 2001, 171-186) is the mean, over pairs of classes, of how well either's score
tells the two apart. Beside it stands the mean of how well each class is told from all others, where pairs count by the
other's rows.

What a row of class c is worth for a mean is the mean of what it is for each pair. So its deviation is at most that mean
of theirs, σ_c (Minkowski), by Hanley and McNeil; rows are independent: the variance is Σ σ_c²/n_c at most.
"""

import math
from fractions import Fraction

from fhe_auc.base.errors import UndefinedAucError
from fhe_auc.question.analysis import Analysis
from fhe_auc.results import delong, intervals
from fhe_auc.results.estimates import GroupEstimate
from fhe_auc_protocols.exact_auc.release_part import Reading

MEAN_OF_CLASSES = "each from others, mean"

AVERAGE = (
    "the AUC is the average over all pairs of classes (Hand and Till); its interval, and that of the mean of classes, "
    "are as if classes erred together, and up to a half too wide; those of single classes are not"
)


def average(analysis: Analysis, reading: Reading, *, macro: bool) -> tuple[GroupEstimate, Fraction]:
    """Return Hand and Till's M, or the mean of classes, and its binning error.

    Raises `UndefinedAucError` where a class has no rows.
    """
    contrasts = zip(analysis.contrasts, reading.aucs, strict=True)
    pairs = [pair for pair in contrasts if pair[0].positives.group == 0 and not pair[0].interval]
    rows = {contrast.positives.classes[0]: own.positives for contrast, own in pairs}
    if (empty := next((at for at, number in rows.items() if not number), None)) is not None:
        name = analysis.classes[empty]
        raise UndefinedAucError(f"class {name!r} has no rows in the pool, so the AUC is undefined; no number is given")
    auc = binning_error = Fraction(0)
    deviations = dict.fromkeys(rows, 0.0)
    for contrast, of_sums in pairs:
        (own,), (other,), of_pair = contrast.positives.classes, contrast.negatives.classes, of_sums.auc or Fraction(0)
        others = sum(rows.values()) - rows[own]
        share = Fraction(rows[other], others * len(rows)) if macro else Fraction(1, len(pairs))
        auc, binning_error = auc + share * of_pair, binning_error + share * of_sums.binning_error
        for label, variance in zip((own, other), delong.hanley_mcneil_components(of_pair), strict=True):
            deviations[label] += float(share) * math.sqrt(variance)
    error = math.sqrt(sum(deviations[label] ** 2 / number for label, number in rows.items()))
    interval = None
    if reading.level is not None:
        method = intervals.HANLEY_MCNEIL + intervals.AT_MOST
        interval = intervals.on_logit_scale(auc, error, reading.level, method)
        interval = intervals.widened(interval, error, float(binning_error))
    found = GroupEstimate(
        model="",
        group="",
        contrast=MEAN_OF_CLASSES if macro else "",
        auc=float(auc),
        standard_error=None if reading.level is None else error,
        binning_error=float(binning_error),
        interval=interval,
        fraction=auc,
    )
    return found, binning_error
