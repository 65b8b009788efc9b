"""Values of a protocol's options, checked: a bad one is an `InputError` that names the option and the value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fhe_auc.errors import InputError

__all__ = ["EPSILON_ADVICE", "checked_height", "positive_number"]

EPSILON_ADVICE = "; give a privacy budget, as in fhe-auc evaluate … -o epsilon=1"


def positive_number(options: Mapping[str, Any], name: str, advice: str = "") -> float:
    """Return an option that has no default and must be a positive, finite number.

    Parameters
    ----------
    options : mapping
        As in a request or a manifest.
    name : str
    advice : str
        What to add to the message where the option is missing.

    Raises
    ------
    InputError
        It is missing or is not such a number.
    """
    value = options.get(name)
    if value is None:
        raise InputError(f"{name} has no default{advice}")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{name} must be a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} must be positive and finite, got {number}")
    return number


def checked_height(options: Mapping[str, Any], default: int, allowed: range) -> int:
    """Return the option ``height`` of a hierarchy; raise `InputError` unless it is a whole number in that range."""
    height = options.get("height", default)
    if isinstance(height, bool) or not isinstance(height, int) or height not in allowed:
        raise InputError(f"height must be a whole number from {allowed[0]} to {allowed[-1]}, got {height!r}")
    return int(height)
