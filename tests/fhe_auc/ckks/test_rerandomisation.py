"""What leaves the aggregator is r·M and flooding, and nothing of r is in the rest of it.

Statistical tests here fail by chance with a probability of at most 1e-9 each.
"""

import numpy as np
import pytest
from scipy import stats

from fhe_auc.ckks import context
from fhe_auc.ckks.context import released
from fhe_auc.rlwe.ciphertexts import VARIANCE, second_error, ternary
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of, values_of
from tests.support import general_purpose_generators
from tests.support.polynomials import signed

FALSE_ALARM = 1e-9
N = 16384
HALF = Polynomials(N, primes_above(2**55, 3, N))
EVERYWHERE = {"positions": range(N), "kept": 3}


def constant(value: int) -> Words:
    """A constant polynomial, by its values."""
    return np.array([np.full(N, value % prime, np.uint64) for prime in HALF.moduli])


def flood(bits: int) -> list[int]:
    """The flooding alone: every key and every product is zero."""
    zeros = HALF.zeros()
    parts = released(HALF, [zeros, zeros], [zeros] * 3, 1, bits, **EVERYWHERE)
    return signed(HALF, parts[0])


@pytest.mark.parametrize("bits", [30, 76, 120])
def test_flooding_is_uniform_of_the_stated_width_and_never_the_same(bits: int) -> None:
    first, second = flood(bits), flood(bits)
    for found in first, second:
        assert min(found) >= -(2**bits)
        assert max(found) < 2**bits
        assert stats.kstest(np.array(found, float) / 2.0**bits, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM
        lowest = np.array([each % 16 for each in found])
        assert stats.chisquare(np.bincount(lowest, minlength=16)).pvalue > FALSE_ALARM
    assert sum(one == other for one, other in zip(first, second, strict=True)) < 2
    # √N times the correlation of independent numbers is close to standard normal: 7 has a probability of 2.6e-12.
    assert abs(np.corrcoef(np.array([first, second], float))[0, 1]) * np.sqrt(N) < 7


def test_randomness_comes_from_secrets_and_every_polynomial_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    genuine = context.secrets.token_bytes
    monkeypatch.setattr(context.secrets, "token_bytes", lambda size: asked.append(genuine(size)) or asked[-1])
    general_purpose_generators.forbid(monkeypatch)
    zeros = HALF.zeros()
    released(HALF, [zeros, zeros], [zeros] * 3, 1, 76, positions=[1, 3], kept=2)
    assert [len(each) for each in asked] == [32] * 4  # u, v, e₁, e₂
    assert len(set(asked)) == 4


def test_u_and_v_are_ternary_and_errors_are_those_of_encryptions() -> None:
    """Read off with a public key of constants: c₁' = u·p₁ + v·p₀ + e₁ and c₂' = v·p₁ + e₂."""
    large = 2**40
    parts = released(HALF, [constant(large**2), constant(large)], [HALF.zeros()] * 3, 1, 30, **EVERYWHERE)
    second, third = (np.array(signed(HALF, part), object) for part in parts[1:])
    v = np.array([round(each / large) for each in third])
    of_second = second - v.astype(object) * large**2
    u = np.array([round(each / large) for each in of_second])
    for found in u, v:
        assert set(found.tolist()) == {-1, 0, 1}
        assert stats.chisquare(np.bincount(found + 1)).pvalue > FALSE_ALARM
    errors = [np.array(each, float) for each in (of_second - u * large, third - v * large)]
    for error in errors:
        assert np.abs(error).max() <= 21
        assert np.mean(error**2) == pytest.approx(VARIANCE, rel=0.1)
    for pair in ((u, v), errors):
        assert abs(np.corrcoef(pair[0], pair[1])[0, 1]) * np.sqrt(N) < 7


def test_what_it_adds_to_the_phase_stays_below_two_to_the_nineteenth_at_seven_deviations() -> None:
    """At the largest ring, in every coefficient, with flooding that is 0 or -1."""
    deviations, largest = [], 0.0
    for _ in range(4):
        secret = ternary(HALF, context.secrets.token_bytes(32))
        second = HALF.uniform(context.secrets.token_bytes(32))
        first = values_of(HALF, second_error(HALF, context.secrets.token_bytes(32)))
        HALF.subtract_in_place(first, HALF.multiply(second, secret))
        parts = released(HALF, [first, second], [HALF.zeros()] * 3, 1, 0, **EVERYWHERE)
        c0, c1, c2 = (values_of(HALF, part) for part in parts)
        HALF.add_in_place(c1, HALF.multiply(c2, secret))
        HALF.add_in_place(c0, HALF.multiply(c1, secret))
        found = np.array(signed(HALF, coefficients_of(HALF, c0)), float)
        deviations.append(found.std())
        largest = max(largest, np.abs(found).max())
    # e₂s², v·e·s and, far smaller, u·e and e₁s, as the module's docstring reckons.
    expected = np.sqrt(N * VARIANCE * (8 * N / 9 + 4 * N / 9))
    assert np.mean(deviations) == pytest.approx(expected, rel=0.1)
    assert 7 * expected < 2**19
    assert largest < 2**19
