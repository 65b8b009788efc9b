"""What sessions with a liar have in common, whatever the protocol: sites with made-up rows, and what parties accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.attacks.outcome import HARMLESS, PASSED

SITES = ("north", "south", "east")
_SITE_ROWS = (40, 81)
_POSITIVES = 0.4

Strategy = TypeVar("Strategy")


def strategy_of(name: str, strategies: Mapping[str, Strategy]) -> Strategy:
    """Return the strategy of that name; raise `InputError`, which names those that there are, where there is none."""
    if name not in strategies:
        raise InputError(f"there is no attack {name!r} on this protocol; known are {', '.join(strategies)}")
    return strategies[name]


def made_up_sites(generator: np.random.Generator) -> list[PartyData]:
    """Return three sites with 40 to 80 rows each, of both labels."""
    found = []
    for name in SITES:
        labels = generator.random(int(generator.integers(*_SITE_ROWS))) < _POSITIVES
        labels[:2] = True, False
        shift = generator.uniform(0.05, 0.3)
        found.append(PartyData.from_arrays(name, labels, np.clip(generator.normal(0.4 + shift * labels, 0.2), 0, 1)))
    return found


def verdict(is_right: Callable[[], bool], refused_by: Callable[[FheAucError], str]) -> str:
    """Return `PASSED`, `HARMLESS`, or what `refused_by` makes of the error with which a party refuses its result.

    `is_right` has the party read the result, and tells whether what it accepts is right.
    """
    try:
        return HARMLESS if is_right() else PASSED
    except FheAucError as error:
        return refused_by(error)
