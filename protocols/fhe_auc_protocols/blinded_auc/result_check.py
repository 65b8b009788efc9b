"""Decrypted results checked, and what a party reads off them: the AUC and its binning error, or an error and no number.

`recover` is for an aggregator that follows the protocol (`semi_honest`): rows beyond the session's bounds, damage and
wrong keys show. `accept` is for one that may lie (`malicious`): whatever it has done shows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import ResultCheckError, UndefinedAucError, VerificationError
from fhe_auc_protocols.blinded_auc.blinded_plan import (
    CHECK_WEIGHT,
    MAX_AMPLIFICATION,
    AucPlan,
    error_bound,
    total_error,
)
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS, LEAST_MULTIPLIER
from fhe_auc_protocols.blinded_auc.masked_shares import Floats, Run
from fhe_auc_protocols.result_warnings import ONE_CLASS

Totals = NDArray[np.complexfloating[Any, Any]]  # decrypted class totals: twice a blinded Σ Y·X, shape (runs, 2)

SLACK = 1e-6  # of the largest blinded den: more than any honest session's

_REFUSED = (
    "the decrypted result fails its check ({}), so no number is given: more pooled rows than max_rows, a damaged "
    "message or a wrong key; if there may be more rows, raise max_rows (--max-rows)"
)

_NOT_ACCEPTED = (
    "the result fails its check ({}), so no number is given: the aggregator has not computed what it should, the "
    "pooled rows are more than max_rows (--max-rows), a message is damaged or a key is wrong"
)


class Recovered(NamedTuple):
    """What a party reads off the decrypted result."""

    auc: float  # in [0, 1]
    binning_error: float  # half-width that ties leave, not negative


class Solution(NamedTuple):
    """What eight equations say: r·num, r·tie and r·den, and how far they disagree."""

    num: float
    tie: float
    den: float
    disagreement: float  # difference of the AUCs of both runs, each from its own four equations
    left: float  # norm of what is left of all equations, over r·den


def recover(totals: Totals, plan: AucPlan) -> Recovered:
    """Return the AUC from the totals of whole counts, shape (1, 2): r·(num + i·tie) and r·den·(1 + iκ).

    Raises `ResultCheckError`: den's redundancy is broken, or the ratio is no AUC, so that no number is given;
    `UndefinedAucError`: the pooled rows have one class only.
    """
    num, den = totals[0]
    # Relative to den; with a share of its own, so that no honest result is refused by chance.
    broken = not abs(den.imag - CHECK_WEIGHT * den.real) <= 3 * total_error(plan) * abs(den)
    if abs(den.real) < largest_zero(plan, noise_shows=broken):
        raise UndefinedAucError(ONE_CLASS)
    if broken:
        raise ResultCheckError(_REFUSED.format("the redundancy of the denominator is broken"), check="redundancy")
    ratio, slack = complex(num / den.real), 10 * error_bound(plan)
    if not (-slack <= ratio.real <= 1 + slack and -slack <= ratio.imag <= 0.5 + slack):
        raise ResultCheckError(_REFUSED.format("the ratio is outside its range"), check="range")
    return Recovered(float(np.clip(ratio.real, 0, 1)), max(ratio.imag, 0.0))


def largest_zero(plan: AucPlan, *, noise_shows: bool) -> float:
    """Return how large a decrypted 2·r·den may be that stands for zero.

    P = N = 1 gives 2·r·2, so anything below half of that at the smallest r is zero. With many rows of one class noise
    alone may exceed it (the largest r times its bound times 2·max_rows); being noise, it breaks what is redundant, and
    is still far too small for a wrap-around.
    """
    if not noise_shows:
        return 2 * LEAST_MULTIPLIER
    amplified = 2 * MAX_AMPLIFICATION if plan.split else 1.0  # den is the difference of two forms
    noise = 2.0**BLINDING_BITS * total_error(plan) * 4 * plan.workload.max_rows * amplified
    return max(noise, 2 * LEAST_MULTIPLIER)


def accept(totals: Totals, plan: AucPlan, runs: Sequence[Run]) -> Recovered:
    """Return the AUC from the totals of both runs, shape (2, 2), and the runs' secrets.

    Eight real equations have three unknowns, r·num, r·tie and r·den. Raises `VerificationError` where the AUCs of the
    runs differ by more than the tolerance, or the equations by more than the tolerance times r·den; where a number is
    outside its range; or where den is near zero.
    """
    if not np.isfinite(totals).all():
        raise VerificationError(_NOT_ACCEPTED.format("values are not finite"), check="finite")
    found = solve(totals, runs)
    most = 2.0**BLINDING_BITS * plan.workload.max_rows**2 / 2
    agree = found.disagreement <= plan.tolerance and found.left <= plan.tolerance
    if not 2 * found.den > largest_zero(plan, noise_shows=not agree):
        raise VerificationError(
            "a denominator is near zero or below, so no number is given: all pooled rows have one label, or they are "
            "more than max_rows (--max-rows), or the result is forged",
            check="denominator",
        )
    # Written so that a number that is none fails as well.
    if not found.disagreement <= plan.tolerance:
        raise VerificationError(_NOT_ACCEPTED.format("the AUCs of both runs disagree"), check="executions")
    if not found.left <= plan.tolerance:
        raise VerificationError(_NOT_ACCEPTED.format("the equations of all executions disagree"), check="equations")
    slack = plan.tolerance
    auc, tied = found.num / found.den, found.tie / found.den
    if not (-slack <= auc <= 1 + slack and -slack <= tied <= 0.5 + slack and found.den <= (1 + SLACK) * most):
        raise VerificationError(_NOT_ACCEPTED.format("a number is outside its range"), check="range")
    return Recovered(float(np.clip(auc, 0, 1)), max(tied, 0.0))


def solve(totals: Totals, runs: Sequence[Run]) -> Solution:
    """Return what the equations of both runs say together, by least squares, and how far they disagree."""
    matrices = [run.equations for run in runs]
    numbers = np.ascontiguousarray(totals, complex).view(float) / 2  # real and imaginary part in turn
    matrix, every = np.concatenate(matrices), numbers.ravel()
    together = _least_squares(matrix, every)
    with np.errstate(all="ignore"):  # where a den is zero, what is divided by it is no number, and not accepted
        first, second = (found[0] / found[2] for found in map(_least_squares, matrices, numbers))
        left = np.linalg.norm(matrix @ together - every) / together[2]
    num, tie, den = map(float, together)
    return Solution(num, tie, den, float(abs(first - second)), float(left))


def _least_squares(matrix: Floats, numbers: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(matrix, numbers, rcond=None)[0])
