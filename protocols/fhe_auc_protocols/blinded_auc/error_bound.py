"""By how much noise and rounding may put an encrypted AUC off: bounds, from the plan alone."""

import math
from typing import Protocol

from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe.error_sampling import FRESH_VARIANCE
from fhe_auc_protocols.blinded_auc.packing import CHECK_WEIGHT, Packing, split_norms
from fhe_auc_protocols.blinded_auc.workload import Workload

RAREST = 10**6  # precision is promised while the rarer class has at least one row in this many
MAX_AMPLIFICATION = 10.0  # multipliers of split shares are drawn so that they amplify errors at most so often
CONFIDENCE = 7.0  # standard deviations: a bound broken once in 10^11 sessions
_ENCODING = 2.0**-51  # error of the double-precision transforms, relative to the largest slot (measured: half of it),
_ENCODING_DEVIATION = 2.0**-53  # and its standard deviation over the slots (measured: 0.17 to 0.24 times the former)
ERROR_DEVIATION = math.sqrt(FRESH_VARIANCE + 1 / 12)  # of an encryption: both errors, and rounding when encoding


class _Plan(Protocol):
    """What errors depend on: of an `fhe_auc_protocols.blinded_auc.plan.AucPlan`, which tells its own bound."""

    @property
    def workload(self) -> Workload: ...
    @property
    def parameters(self) -> CkksParameters: ...
    @property
    def packing(self) -> Packing: ...
    @property
    def least_multiplier(self) -> float: ...
    @property
    def flooding_deviation(self) -> float: ...
    @property
    def switching_noise_bits(self) -> float: ...


def error_bound(plan: _Plan) -> float:
    """Return a bound on |AUC error|, absolute, from min_rows rows on, at the smallest multiplier.

    It holds for every class balance down to one row in a million. Flooding, of which recovery averages the slots
    of a class, comes in quadrature with `fresh_error`'s noise, at seven standard deviations.
    """
    packing, workload = plan.packing, plan.workload
    least_den = 2.0 * (workload.min_rows - 1)
    one_total = plan.flooding_deviation / math.sqrt(2 * packing.slots / packing.classes)
    # num and den have noise of their own, hence the factor √2 (twice, half of it in the line above).
    added = math.sqrt(2) * one_total / (plan.least_multiplier * packing.gain * least_den)
    error = math.hypot(CONFIDENCE * added, fresh_noise(plan)) + encoding_error(plan)
    return error * (MAX_AMPLIFICATION if workload.is_split else 1)


def disagreement(plan: _Plan) -> float:
    """Return the least tolerance at which honest executions agree: t, with |AUC_e - AUC_f| ≤ t·√(A_e² + A_f²)/10.

    A_e ≤ 10 is how much the multipliers of execution e amplify errors. Independent noise adds up like the sides of that
    triangle, errors of encoding in full: A_e + A_f ≤ √2·√(A_e² + A_f²).
    """
    return error_bound(plan) + MAX_AMPLIFICATION * (math.sqrt(2) - 1) * encoding_error(plan)


def fresh_error(plan: _Plan) -> float:
    """Return a bound on the error of num and den relative to den, without added noise, whatever the multiplier."""
    return fresh_noise(plan) + encoding_error(plan)


def fresh_noise(plan: _Plan) -> float:
    """Return seven standard deviations of what encryptions, and the rotation that joins X and Y, do to the AUC."""
    packing, parameters = plan.packing, plan.parameters
    # A trace adds one switching's noise up over all slots, incoherently.
    switching = 2.0**plan.switching_noise_bits / math.sqrt(packing.slots)
    encrypting = ERROR_DEVIATION * math.sqrt(plan.workload.parties * parameters.ring_dimension)
    slot_noise = math.hypot(switching, encrypting) / parameters.scale
    # Worst balances, relative to den = 2PN: noise on Y meets X ≤ 2P·|1 + iκ| in every bin (N = 1); noise on u·X meets
    # Y, whose bins add up to N (P = 1). Each noise slot enters two products, num and den err independently: √2·√2, over
    # √2 for the real part.
    bins = packing.blocks * packing.bins
    x_norm, y_norm = math.sqrt(bins) * math.hypot(1, CHECK_WEIGHT), 1.0
    if plan.workload.is_split:
        x_norm, y_norm = split_norms(plan.workload, bins)
    on_x = y_norm / (2 * packing.x_unit)
    return CONFIDENCE * slot_noise * math.sqrt(2 / packing.copies) * math.hypot(x_norm, on_x)


def encoding_error(plan: _Plan) -> float:
    """Return the error of encoding in double precision: alike in all bins and copies, it averages out nowhere.

    Worst balances as for noise; the error is as large as the largest slot makes it. Split shares have random
    phases, so that over the positions errors add up like noise, and the largest is twice what it would be.
    """
    packing, workload = plan.packing, plan.workload
    balance = min(workload.max_rows, RAREST)
    bins = packing.blocks * packing.bins
    if not workload.is_split:
        return _ENCODING * balance * max(2 * packing.x_unit * bins, 1 / (2 * packing.x_unit))
    x_norm, y_norm = split_norms(workload, bins)
    worst = max(2 * packing.x_unit * x_norm, y_norm / (2 * packing.x_unit))
    return CONFIDENCE * _ENCODING_DEVIATION * balance * 2 * worst
