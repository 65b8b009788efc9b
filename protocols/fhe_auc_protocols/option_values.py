"""Values of a protocol's options, checked: a bad one is an `InputError` that names the option and the value."""

import math
from collections.abc import Mapping
from typing import TypeGuard

from fhe_auc.base.errors import InputError

_LEAST_EPSILON = 1e-6  # below it there is nothing to learn from any number of users
_MOST_EPSILON = 32.0  # beyond it a 64-bit choice is too coarse, and there is no privacy to speak of

EPSILON_ADVICE = "; give a privacy budget: -o epsilon=1, in Python epsilon=1"


def positive_number(options: Mapping[str, object], name: str, advice: str = "") -> float:
    """Return an option without default; `InputError`: missing (`advice` is added), or not positive and finite."""
    value = options.get(name)
    if value is None:
        raise InputError(f"{name} has no default{advice}")
    if not _is_number(value):
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
    if not _is_number(epsilon) or not _LEAST_EPSILON <= epsilon <= _MOST_EPSILON:
        raise InputError(f"epsilon must lie between {_LEAST_EPSILON:f} and {_MOST_EPSILON:g}, got {epsilon!r}")
    return float(epsilon)


def privacy_budget(options: Mapping[str, object]) -> float:
    """Return the option ``epsilon``, which has no default; raise `InputError` as `checked_epsilon`."""
    if options.get("epsilon") is None:
        raise InputError(f"epsilon has no default{EPSILON_ADVICE}")
    return checked_epsilon(options["epsilon"])


def is_whole(value: object, allowed: range) -> TypeGuard[int]:
    """Say whether an option is a whole number in that range."""
    return isinstance(value, int) and not isinstance(value, bool) and value in allowed


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
