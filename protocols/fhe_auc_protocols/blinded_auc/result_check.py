"""How far the slots of a genuine result may be off, and what a party reads off them."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc_protocols.blinded_auc.error_bound import RAREST
from fhe_auc_protocols.blinded_auc.plan import AucPlan

_Real = TypeVar("_Real", float, NDArray[np.float64])

_CONFIDENCE = 10.0
"""Standard deviations of noise that the checks allow: an honest result is refused with probability below 10^-20."""

DECODING = 2.0**-40
"""Error of decoding in double precision, relative to the largest value."""


class Recovered(NamedTuple):
    """What a party reads off the decrypted result."""

    auc: float
    resolution: float


def slot_error(size: _Real, chosen: AucPlan) -> _Real:
    """Return by how much a slot of a genuine result may differ from its class's mean; `size` is the largest total.

    It errs by the noise that was added, and by decoding.
    """
    return _CONFIDENCE * chosen.noise_deviation + DECODING * size


def rare_class_warning(plan: AucPlan) -> tuple[str, ...]:
    """Return a warning where so many rows are allowed that the rarer class may be too rare for the precision stated."""
    if plan.workload.max_rows <= RAREST:
        return ()
    return (f"the precision stated holds if at least one row in {RAREST:,} is of the rarer class",)
