"""One budget for two sessions: the first finds quantile thresholds, the second counts between them.

Both look at the same rows, so that their budgets add up; ``epsilon`` is that of both together, in requests, manifests
and settings of the second. ``boundaries_epsilon`` is the part that the first spends, and that the second counts as
spent. It is less than half, because thresholds need not be good: bins that hold a little more or fewer rows cost the
AUC little, noise on the counts costs it directly.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fhe_auc.base.errors import InputError
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.option_values import checked_epsilon, positive_number, privacy_budget

SHARE = 0.25  # of epsilon, for the thresholds; docs/evidence/score-histograms.md has measurements
_SPENT = "boundaries_epsilon"
_HEIGHT = "height"


def staged(request: Request, bins: int) -> tuple[Request, Request]:
    """Return the requests of both sessions, as `Protocol.staged`; errors as `left_for_counts`."""
    options = {_SPENT: SHARE * privacy_budget(request.options), **request.options}
    first = {"bins": bins, "epsilon": options[_SPENT]}
    if _HEIGHT in options:
        first[_HEIGHT] = options.pop(_HEIGHT)
    left_for_counts(options)
    return replace(request, options=first), replace(request, options=options)


def left_for_counts(options: Mapping[str, Any]) -> float:
    """Return the counts' budget, from 0.000001 to 32; raise `InputError` where there is none, or a wrong option."""
    total = privacy_budget(options)
    if _HEIGHT in options:
        raise InputError("height is for quantile thresholds only: these thresholds are given")
    if _SPENT not in options:
        return total
    spent = positive_number(options, _SPENT)
    if not spent < total:
        raise InputError(f"{_SPENT} must be less than epsilon = {total:g}, which is for both sessions, got {spent:g}")
    return checked_epsilon(math.nextafter(total - spent, 0.0))


def settings(options: Mapping[str, Any]) -> dict[str, float]:
    """Return the budget of both sessions, and of the first, from the second one's manifest."""
    return {name: float(options[name]) for name in ("epsilon", _SPENT) if name in options}


def warnings(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the reader of the second session's result ought to know about budgets."""
    found: tuple[str, ...] = ("epsilon is spent by every session: budgets of sessions on the same rows add up",)
    if _SPENT in options:
        total, spent = float(options["epsilon"]), float(options[_SPENT])
        found += (f"epsilon = {total:g} is of two sessions: {spent:g} for the thresholds, the rest for the counts",)
    return found
