"""Values of a protocol's options, checked: a bad one is an `InputError` that names the option and the value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fhe_auc.errors import InputError

__all__ = ["EPSILON_ADVICE", "checked_epsilon", "checked_height", "positive_number", "privacy_budget"]

_LEAST_EPSILON = 1e-6  # below it there is nothing to learn from any number of users
_MOST_EPSILON = 32.0  # beyond it a 64-bit choice is too coarse, and there is no privacy to speak of

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


def checked_epsilon(epsilon: object) -> float:
    """Return the privacy budget as a number; raise `InputError` unless it lies between 0.000001 and 32."""
    if (
        isinstance(epsilon, bool)
        or not isinstance(epsilon, (int, float))
        or not _LEAST_EPSILON <= epsilon <= _MOST_EPSILON
    ):
        raise InputError(f"epsilon must lie between {_LEAST_EPSILON:f} and {_MOST_EPSILON:g}, got {epsilon!r}")
    return float(epsilon)


def privacy_budget(options: Mapping[str, Any]) -> float:
    """Return the option ``epsilon``, which has no default; errors as `positive_number` and `checked_epsilon`."""
    return checked_epsilon(positive_number(options, "epsilon", EPSILON_ADVICE))


def checked_height(options: Mapping[str, Any], default: int, allowed: range) -> int:
    """Return the option ``height`` of a hierarchy; raise `InputError` unless it is a whole number in that range."""
    height = options.get("height", default)
    if isinstance(height, bool) or not isinstance(height, int) or height not in allowed:
        raise InputError(f"height must be a whole number from {allowed[0]} to {allowed[-1]}, got {height!r}")
    return int(height)
