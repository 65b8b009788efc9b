"""Randomness is to come from `secrets` alone: here are the generators that it must not come from."""

import random

import numpy as np
import pytest


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every function of `random` and `numpy.random` fail the test."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a general-purpose generator was used")

    for module in (random, np.random):
        for name in dir(module):
            if callable(getattr(module, name)) and not name.startswith("_"):
                monkeypatch.setattr(module, name, refuse)
    with pytest.raises(AssertionError, match="general-purpose"):
        np.random.default_rng()
