"""Sizes, times and bounds, written for people."""

import math


def bytes_text(number: float) -> str:
    """Write a number of bytes with a decimal unit: 344448 as "344 kB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{_three_digits(number / size)} {unit}"
    return f"{number:.0f} B"


def seconds_text(seconds: float) -> str:
    """Write a time: 0.00456 as "4.56 ms"."""
    if seconds >= 1:
        return f"{_three_digits(seconds)} s"
    return f"{_three_digits(seconds * 1e3)} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def bound_text(bound: float) -> str:
    """Write an upper bound with two digits, rounded up: 7.11e-8 as "7.2e-08"."""
    if not 0 < bound < math.inf:
        return f"{bound:g}"
    unit = 10.0 ** (math.floor(math.log10(bound)) - 1)
    return f"{math.ceil(round(bound / unit, 6)) * unit:.1e}"


def chance_text(chance: float) -> str:
    """Write an upper bound on a probability as a power of two, rounded up: 1e-12 as "2^-39.8"."""
    return f"2^{math.ceil(round(10 * math.log2(chance), 6)) / 10:g}"


def _three_digits(number: float) -> str:
    return f"{number:.{2 if number < 9.995 else 1 if number < 99.95 else 0}f}"
