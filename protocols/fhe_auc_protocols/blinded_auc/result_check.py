"""Decrypted results checked, and what a party reads off them: the AUC and its binning error, or an error and no number.

`recover` is for an aggregator that follows the protocol (`semi_honest`): rows beyond the session's bounds, damage and
wrong keys show. `recover_verified` is for one that may lie (`malicious`): whatever it has done shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc import ckks
from fhe_auc.base.errors import ResultCheckError, UndefinedAucError, VerificationError
from fhe_auc_protocols.blinded_auc.error_bound import MAX_AMPLIFICATION, error_bound, fresh_error
from fhe_auc_protocols.blinded_auc.packing import CHECK_WEIGHT
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.split_shares import Execution, amplification

_Real = TypeVar("_Real", float, NDArray[np.float64])

_CONFIDENCE = 10.0
"""Standard deviations of noise that the checks allow: an honest result is refused with probability below 10^-20."""

_DECODING = 2.0**-40  # error of decoding in double precision, relative to the largest value

_REFUSED = (
    "the decrypted result fails its check ({}), so no number is given: more pooled rows than max_rows, a class rarer "
    "than one row in a million, a damaged message or a wrong key; if there may be more rows, raise max_rows "
    "(--max-rows)"
)

_NOT_ACCEPTED = (
    "the result fails its check ({}), so no number is given: the aggregator has not computed what it should, the "
    "pooled rows are more than max_rows (--max-rows), a message is damaged or a key is wrong"
)


class Recovered(NamedTuple):
    """What a party reads off the decrypted result."""

    auc: float
    """In [0, 1]."""
    binning_error: float
    """Half-width that ties leave, not negative."""


def slot_error(size: _Real, plan: AucPlan) -> _Real:
    """Return by how much a slot of a genuine result may differ from its class's mean, by noise and decoding.

    `size` is the largest total, in absolute value.
    """
    return _CONFIDENCE * plan.flooding_deviation + _DECODING * size


def recover(slots: ckks.Slots, plan: AucPlan) -> Recovered:
    """Return the AUC from the decrypted slots of the result, shape (slots,).

    Raises `ResultCheckError`: slots of a class differ, den's redundancy is broken, or the ratio is no AUC, so that no
    number is given; `UndefinedAucError`: the pooled rows have one class only.
    """
    by_class = plan.packing.by_class(slots)
    totals = by_class.mean(axis=1)
    size = float(np.abs(totals).max())
    one_slot = slot_error(size, plan)
    total_error = one_slot / math.sqrt(by_class.shape[1]) + _DECODING * size
    if not np.isfinite(slots).all() or np.abs(by_class - totals[:, None]).max() > one_slot:
        raise ResultCheckError(_REFUSED.format("the slots of a class differ"), check="slots")
    num, den = totals
    broken = abs(den.imag - CHECK_WEIGHT * den.real) > 2 * total_error + 2 * fresh_error(plan) * abs(den)
    if abs(den.real) < _largest_zero(plan, noise_shows=broken):
        raise UndefinedAucError("the pooled rows have one class only, so the AUC is undefined; no number is given")
    if broken:
        raise ResultCheckError(_REFUSED.format("the redundancy of the denominator is broken"), check="redundancy")
    ratio, slack = complex(num / den.real), 100 * error_bound(plan)
    if not -slack <= ratio.real <= 1 + slack:
        raise ResultCheckError(_REFUSED.format("the ratio is outside its range"), check="range")
    return Recovered(float(np.clip(ratio.real, 0, 1)), max(ratio.imag, 0.0))


def _largest_zero(plan: AucPlan, *, noise_shows: bool) -> float:
    """Return how large a denominator may be that stands for zero.

    P = N = 1 gives 2·r·gain, so anything below half of that at the smallest r is zero. With many rows of one class
    encryption noise alone may exceed it (by r times the error bound times 2·max_rows); being noise, it breaks the
    redundancy, and is still far too small for a wrap-around.
    """
    if not noise_shows:
        return plan.least_multiplier * plan.packing.gain
    noise = 2.0**plan.blinding_bits * plan.packing.gain * error_bound(plan) * 2 * plan.workload.max_rows
    return max(noise, plan.least_multiplier * plan.packing.gain)


def recover_verified(slots: ckks.Slots, plan: AucPlan, executions: Sequence[Execution]) -> Recovered:
    """Return the AUC from slots, shape (slots,), and E executions' secrets; `VerificationError`: a check fails."""
    by_class = plan.packing.by_class(slots)
    if not np.isfinite(slots).all():
        raise VerificationError(_NOT_ACCEPTED.format("values are not finite"), check="finite")
    totals = by_class.mean(axis=1)
    if np.abs(by_class - totals[:, None]).max() > slot_error(float(np.abs(totals).max()), plan):
        raise VerificationError(_NOT_ACCEPTED.format("the slots of a class differ"), check="slots")
    return accept(totals, plan, executions)


def accept(totals: ckks.Slots, plan: AucPlan, executions: Sequence[Execution]) -> Recovered:
    """Return the AUC from class totals, shape (2E,): num' and den' of each execution; errors as `recover_verified`."""
    nums, dens = totals[0::2], totals[1::2]
    # One positive and one negative row give 2·gain·r·R4R5; half of that at the smallest r is as good as zero.
    zero = plan.least_multiplier * plan.packing.gain
    if any(abs(den) < zero * abs(each.products[2]) for den, each in zip(dens, executions, strict=True)):
        raise VerificationError(
            "a denominator is near zero, so no number is given: all pooled rows have one label, or the result is "
            "forged",
            check="denominator",
        )
    found = np.array([each.recover(*pair) for each, *pair in zip(executions, nums, dens, strict=True)])
    allowed = plan.tolerance * amplification(np.array([each.multipliers for each in executions])) / MAX_AMPLIFICATION
    difference = found[:, None] - found
    apart = np.maximum(np.abs(difference.real), np.abs(difference.imag))
    if not (apart <= np.hypot(allowed[:, None], allowed)).all():
        raise VerificationError(_NOT_ACCEPTED.format("the executions disagree"), check="executions")
    weights = allowed**-2.0 / (allowed**-2.0).sum()
    value = complex(weights @ found)
    if not -plan.tolerance <= value.real <= 1 + plan.tolerance:
        raise VerificationError(_NOT_ACCEPTED.format("the AUC is outside its range"), check="range")
    return Recovered(float(np.clip(value.real, 0, 1)), max(value.imag, 0.0))
