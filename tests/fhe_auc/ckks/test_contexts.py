"""What is peculiar to CKKS contexts: parameters, and that sums over slots come out as the algebra says, or are refused.

What they have in common with other schemes' stands in `rlwe/test_contexts.py`.
"""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError, DeserialisationError
from fhe_auc.ckks.encoding import MOST_BITS
from fhe_auc.rlwe.ciphertexts import wrap
from fhe_auc.rlwe.polynomials import Polynomials
from tests.support.schemes import Ckks

SCHEME = Ckks()
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def masked_sum(pair: ckks.KeyPair, parts: list[Any]) -> Any:
    """The sum of submissions of these slots, under masks that make up for one another."""
    shape, half = pair.public.ciphertext_shape, pair.secret.mask_shape
    masks = [half.uniform(bytes([number] * 32)) for number in range(len(parts) - 1)]
    last, total = half.zeros(), shape.zeros()
    for mask in masks:
        half.subtract_in_place(last, mask)
    for part, mask in zip(parts, [*masks, last], strict=True):
        shape.add_in_place(total, pair.public.read_submission(pair.secret.encrypt(part, mask)))
    return total


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"ring_dimension": 1000}, "ring dimension 1000 is not one of"),
        ({"ring_dimension": 4096}, "below 128-bit security"),
        ({"modulus_bits": (60, 60, 60, 60)}, "below 128-bit security"),
        ({"modulus_bits": ()}, "does not fit|not supported"),
        ({"modulus_bits": (61, 50)}, "not supported"),
        ({"special_bits": 61}, "not supported"),
        ({"special_bits": -60, "modulus_bits": (60, 60, 60, 60)}, "not supported|security"),
        *(({"log2_scale": scale}, "does not fit") for scale in (0.0, 90.0, float("nan"), float("inf"))),
    ],
)
def test_insecure_or_impossible_parameters_are_refused(
    parameters: ckks.CkksParameters, changes: dict[str, Any], shown: str
) -> None:
    with pytest.raises(CapacityError, match=shown):
        msgspec.structs.replace(parameters, **changes)


def test_values_that_no_ciphertext_can_hold_are_refused_before_they_are_sent(pair: ckks.KeyPair) -> None:
    for shape in ((4, 512), (1024,), (3, 1024)):
        with pytest.raises(ValueError, match="expected values of shape"):
            pair.secret.encrypt(np.ones(shape, complex))
    beyond = 2.0**MOST_BITS / pair.public.parameters.scale
    for bad in (np.nan, np.inf, complex(0, np.nan), complex(np.inf, np.nan), 1e300, beyond, -1j * beyond):
        plain = np.zeros((4, 1024), complex)
        plain[2, 7] = bad
        with pytest.raises(ValueError, match="not finite, or larger"):
            pair.secret.encrypt(plain)


@few
@given(seed=st.integers(0, 2**32 - 1), parties=st.integers(1, 4), multiplier=st.integers(1, 2**34))
def test_results_are_the_multiplier_times_the_squares_sums_of_sums_under_masks(
    pair: ckks.KeyPair, seed: int, parties: int, multiplier: int
) -> None:
    """Two runs of one and two blocks; flooded by 2^60 the error is 2^60·B/Δ², and the encryptions' own."""
    runs = [[[SCHEME.some(seed + 100 * number + party) for party in range(parties)]] for number in range(2)]
    runs[1] *= 2
    squares = [pair.public.sum_of_squares([masked_sum(pair, parts) for parts in run]) for run in runs]
    found = pair.secret.decrypt_sums(pair.public.dump_sums(squares, multiplier, 60), 2)
    expected = [sum(SCHEME.expected(sum(parts)) for parts in run) / SCHEME.multiplier for run in runs]
    assert found / multiplier == pytest.approx(np.array(expected), abs=1e-3 + 2.0**-20 / multiplier)


@pytest.mark.parametrize("unit", [1, 1j])
def test_sums_are_read_up_to_half_the_modulus_and_not_beyond(pair: ckks.KeyPair, unit: complex) -> None:
    parameters = pair.public.parameters
    modulus = np.prod([float(prime) for prime in pair.secret.mask_shape.moduli])
    limit = modulus / 2 / parameters.scale**2 / 2**50  # of 2·Y·X in every slot
    for part in (0.99, -0.99, 1.01):
        slots = np.zeros((4, 1024), complex)
        slots[0], slots[1] = np.sqrt(limit / 2), unit * part * np.sqrt(limit / 2)
        words = pair.public.read_submission(pair.secret.encrypt(slots))
        found = pair.secret.decrypt_sums(pair.public.dump_sums([pair.public.sum_of_squares([words])], 2**50, 60), 1)
        relative = found[0, 0] / (limit * 2**50 * 1024 * unit)
        assert relative == pytest.approx(part if abs(part) < 1 else part - 2, abs=1e-6)


@pytest.mark.parametrize("part", [1, 2])
def test_results_that_hide_nothing_or_are_of_another_count_or_size_are_refused(pair: ckks.KeyPair, part: int) -> None:
    kept = pair.secret.mask_shape.moduli[: pair.public.parameters.kept]
    shapes = [Polynomials(size, kept) for size in (4, 8192, 8192)]
    forged = [shape.uniform(bytes(32)) for shape in shapes]

    def read(count: int = 1, cut: int = 0, more: bytes = b"") -> Any:
        packed = b"".join(shape.pack(each) for shape, each in zip(shapes, forged, strict=True))
        payload = packed[: len(packed) - cut] + more
        return pair.secret.decrypt_sums(wrap("result", pair.public.fingerprint, payload), count)

    assert read().shape == (1, 2)  # uniform ones pass
    for wrong in ({"count": 2}, {"count": 0}, {"cut": 1}, {"cut": 7 * 8192 * 2}, {"more": b"\0"}):
        with pytest.raises(DeserialisationError, match=r"bytes of coefficients|bytes is of other parameters"):
            read(**wrong)
    small = np.random.default_rng(1).integers(0, 2**40, 8192, dtype=np.uint64)
    one = np.eye(1, 8192, dtype=np.uint64)[0]
    for few_values in (np.zeros(8192, np.uint64), one, small):
        forged[part] = np.array([few_values, few_values])
        with pytest.raises(DeserialisationError, match="multiplies the secret key is small"):
            read()
