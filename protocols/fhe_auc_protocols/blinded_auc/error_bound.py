"""By how much noise and rounding may put an encrypted AUC off: bounds, from the plan alone.

All are relative to den = 2PN and hold for every balance of the classes, down to one row of either.
"""

import math
from typing import Protocol

from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe.error_sampling import FRESH_VARIANCE
from fhe_auc_protocols.blinded_auc.blinding import FLOODED_BITS, LEAST_MULTIPLIER

CONFIDENCE = 7.0  # standard deviations: a bound broken once in 10^11 sessions
MAX_AMPLIFICATION = 10.0  # secrets of masked shares are drawn so that they amplify errors at most so often
WEIGHT = 4.0  # w of `encrypted_trapezoid`
CHECK_WEIGHT = 2.0 ** (-5 / 3)  # κ of `semi_honest`
_ENCODING = 2.0**-44  # of the double-precision transforms and of reading the result (measured: below 2^-47)
_ERROR_VARIANCE = FRESH_VARIANCE + 1 / 12  # of a coefficient of an encryption: both errors, and rounding


class _Plan(Protocol):
    """What errors depend on: of an `fhe_auc_protocols.blinded_auc.plan.AucPlan`, which tells its own bound."""

    @property
    def split(self) -> bool: ...
    @property
    def thresholds(self) -> int: ...
    @property
    def parties(self) -> int: ...
    @property
    def min_rows(self) -> int: ...
    @property
    def positions(self) -> int: ...
    @property
    def runs_together(self) -> int: ...
    @property
    def parameters(self) -> CkksParameters: ...


def total_deviation(plan: _Plan) -> float:
    """Return the standard deviation of a class total, of its real and its imaginary part, by the encryptions' errors.

    An error e on each coefficient moves Σ over the slots of Y·X by √B·e/Δ times the norm of w·Y and of both X/w, of all
    runs in the ciphertext.
    """
    parameters = plan.parameters
    errors = plan.parties * plan.runs_together
    one = math.sqrt(errors * _ERROR_VARIANCE * parameters.slots) / parameters.scale
    y_norm, x_norm = norms(plan)
    # The worst balances: P = 1 for errors on X, which meet Y ≤ N·(its norm); N = 1 for those on Y.
    return one * math.hypot(WEIGHT * y_norm / 2, x_norm / WEIGHT)


def norms(plan: _Plan) -> tuple[float, float]:
    """Return bounds on the norms over all positions of Y, in N, and of both X together, in 2P.

    Whole counts: Σ F² ≤ N²; |T + i·p|² ≤ (5/4)·(2P)² in every bin, and the class of den in every position. Masked
    shares: twice what is expected of Σ|F + N·y|² and Σ|T + i·p + 2P·x|², of which random phases leave little to chance.
    """
    bins, positions = 1.25 * plan.thresholds, plan.positions
    if not plan.split:
        return 1.0, math.sqrt(bins + (1 + CHECK_WEIGHT**2) * positions)
    return math.sqrt(2 * (4 + positions / 128)), math.sqrt(2 * (2 * bins + positions))


def flooding_error(plan: _Plan) -> float:
    """Return a bound on the error of a class total by flooding, at the smallest multiplier and the fewest rows."""
    parameters = plan.parameters
    flood = 2.0 ** (FLOODED_BITS + 1) * parameters.slots / parameters.scale**2  # and rounding, which is smaller
    return flood / (2 * LEAST_MULTIPLIER * 2 * (plan.min_rows - 1))


def total_error(plan: _Plan) -> float:
    """Return a bound on the error of a class total, of its real and its imaginary part."""
    return CONFIDENCE * total_deviation(plan) + flooding_error(plan) + _ENCODING


def error_bound(plan: _Plan) -> float:
    """Return a bound on |AUC error|, absolute, from min_rows rows on."""
    # num and den err independently; or eight numbers do, which the equations amplify.
    return total_error(plan) * (MAX_AMPLIFICATION if plan.split else math.sqrt(2))


def disagreement(plan: _Plan) -> float:
    """Return a bound on what is left of honest equations, and on the difference of the AUCs of two honest runs."""
    return math.sqrt(2) * MAX_AMPLIFICATION * total_error(plan)
