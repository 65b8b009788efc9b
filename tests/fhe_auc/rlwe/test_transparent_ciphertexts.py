"""What the look at a result's second polynomial notices, and what it cannot."""

import math

import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.ciphertexts import unpack_result
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of
from tests.support.polynomials import polynomial, signed

N = 1024
PRIMES = (12289, 40961, 61441)
Q = math.prod(PRIMES)
HALF, WHOLE = Polynomials(N, PRIMES), Polynomials(N, PRIMES * 2)


def unpacked(second: Words) -> Words:
    return unpack_result(WHOLE, WHOLE.pack(np.concatenate([HALF.zeros(), second])))


def test_a_small_one_is_refused_and_a_structured_one_passes_and_hides_nothing_under_every_second_key() -> None:
    """What the documents say of the check: it is no proof that a ciphertext hides anything."""
    with pytest.raises(DeserialisationError, match="not a ciphertext: "):
        unpacked(polynomial(HALF, np.random.default_rng(1).integers(-Q // 100, Q // 100, N).tolist()))
    second = polynomial(HALF, [(Q - 1) // 2] * N)
    unpacked(second)
    rng, bare = np.random.default_rng(2), 0
    for _ in range(20):
        key = rng.integers(-1, 2, N)
        times = coefficients_of(HALF, HALF.multiply(second, polynomial(HALF, key.tolist())))
        noise = max(map(abs, signed(HALF, times)))
        assert noise < N if key.sum() % 2 == 0 else noise > Q // 2 - N
        bare += noise < N
    assert 0 < bare < 20
