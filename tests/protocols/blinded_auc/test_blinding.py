"""The aggregator's randomness has the stated distributions and comes from `secrets` alone.

Statistical tests here fail by chance with a probability of at most 1e-9 each.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fhe_auc_protocols.blinded_auc import blinding
from tests.support import general_purpose_generators
from tests.support.pinned_randomness import LARGEST_MULTIPLIER, SMALLEST_MULTIPLIER

FALSE_ALARM = 1e-9


def test_multipliers_are_log_uniform_integers_that_reach_both_ends_of_their_range() -> None:
    for bits in [17, 26, 33, 50]:
        drawn = [blinding.multiplier(bits) for _ in range(5000)]
        assert all(type(value) is int for value in drawn)
        assert 2 ** (bits - 16) <= min(drawn) <= max(drawn) <= 2**bits
    exponents = [np.log2(blinding.multiplier(40)) for _ in range(20_000)]
    assert stats.kstest(exponents, stats.uniform(24, 16).cdf).pvalue > FALSE_ALARM
    assert blinding.multiplier(30, LARGEST_MULTIPLIER) == 2**30
    assert blinding.multiplier(30, SMALLEST_MULTIPLIER) == 2**14


def test_multipliers_hardly_ever_repeat_and_are_not_all_even() -> None:
    drawn = [blinding.multiplier(58) for _ in range(1000)]
    # Drawn with density 1/(r·log 2^16) from 2^42 on: any two are equal with probability 2e-15, of 1,000 two with 1e-9.
    assert len(set(drawn)) == len(drawn)
    # With round numbers the gcd of what is decrypted would lose bits of the multiplier.
    low = np.array([blinding.multiplier(50) % 256 for _ in range(20_000)])
    counts = np.bincount(low, minlength=256)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_neither_numpy_nor_the_standard_library_generates(monkeypatch: pytest.MonkeyPatch) -> None:
    general_purpose_generators.forbid(monkeypatch)
    assert 2**10 <= blinding.multiplier(26) <= 2**26
