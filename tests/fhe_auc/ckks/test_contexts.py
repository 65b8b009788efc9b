"""What is peculiar to CKKS contexts: parameters, rotation keys, and that slots come out as the algebra says.

What they have in common with other schemes' stands in `rlwe/test_contexts.py`.
"""

import contextlib
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError, DeserialisationError
from fhe_auc.rlwe import wire_format
from tests.support.schemes import Ckks

SLOTS = 4096
few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
seeds = st.integers(0, 2**32 - 1)


def values(seed: int, size: float = 1000.0) -> ckks.Slots:
    """Complex values in all slots, up to `size` in either part."""
    generator = np.random.default_rng(seed)
    return size * (generator.uniform(-1, 1, SLOTS) + 1j * generator.uniform(-1, 1, SLOTS))


def decrypted(pair: ckks.KeyPair, ciphertext: ckks.Ciphertext) -> ckks.Slots:
    return pair.secret.decrypt(pair.public.dump_result(ciphertext))


def loaded(pair: ckks.KeyPair, plain: ckks.Slots) -> ckks.Ciphertext:
    return pair.public.load_submission(pair.secret.encrypt(plain))


def added(public: ckks.PublicContext, left: ckks.Ciphertext, right: ckks.Ciphertext) -> ckks.Ciphertext:
    public.add_in_place(left, right)
    return left


def square(pair: ckks.KeyPair, plain: ckks.Slots) -> ckks.Ciphertext:
    ciphertext = loaded(pair, plain)
    return pair.public.multiply(ciphertext, ciphertext)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"ring_dimension": 1000}, "ring dimension 1000 is not one of"),
        ({"ring_dimension": 4096}, "below 128-bit security"),
        ({"modulus_bits": (60, 60, 60, 60)}, "below 128-bit security"),
        ({"modulus_bits": ()}, "does not fit|not supported"),
        ({"modulus_bits": (61, 50)}, "not supported"),
        ({"special_bits": 61}, "not supported"),
        ({"special_bits": 0}, "not supported"),
        ({"special_bits": -60, "modulus_bits": (60, 60, 60, 60)}, "not supported|security"),
        *(({"log2_scale": scale}, "does not fit") for scale in (0.0, 90.0, float("nan"), float("inf"))),
        *(({"rotations": steps}, "rotations") for steps in [(0,), (4096,), (2, 1), (2, 2), (-1,)]),
    ],
)
def test_insecure_or_impossible_parameters_are_refused(
    parameters: ckks.CkksParameters, changes: dict[str, Any], shown: str
) -> None:
    with pytest.raises(CapacityError, match=shown):
        msgspec.structs.replace(parameters, **changes)


def test_values_that_no_ciphertext_can_hold_are_refused_before_they_are_sent(pair: ckks.KeyPair) -> None:
    for encrypt in (pair.secret.encrypt, pair.public.encrypt):
        with pytest.raises(ValueError, match="slots"):
            encrypt(np.ones(SLOTS // 2, complex))
        for bad in (np.nan, np.inf, complex(0, np.nan), 1e300):
            plain = np.zeros(SLOTS, complex)
            plain[7] = bad
            with pytest.raises(ValueError, match="not finite, or larger"):
                encrypt(plain)


@pytest.mark.openfhe
def test_a_ciphertext_of_the_other_backend_is_refused_with_our_fingerprint_forged_onto_it(pair: ckks.KeyPair) -> None:
    """By its size: the primes of BFV are as large on both."""
    (foreign,) = set(ckks.available_backends()) - {pair.public.parameters.backend}
    submission = ckks.generate(Ckks().parameters(foreign)).secret.encrypt(values(1))
    _, payload = wire_format.open_any("submission", submission)
    with pytest.raises(DeserialisationError, match="bytes of coefficients and seed"):
        pair.public.load_submission(wire_format.seal("submission", pair.public.fingerprint, payload))


def test_rotating_by_a_step_without_a_key_raises_inside_the_library_too(pair: ckks.KeyPair) -> None:
    for step in [3, 4, 1024, 2047, -1, 0, 4095]:
        ciphertext = loaded(pair, values(1))
        with pytest.raises((KeyError, ValueError)):
            pair.public.rotate(ciphertext, step)
    public: Any = pair.public
    ciphertext = loaded(pair, values(1))
    scheme = public._scheme
    if public.parameters.backend == "openfhe":
        rotate, arguments = scheme.context.EvalRotate, (ciphertext, 4)
    else:
        rotate, arguments = scheme.evaluation.rotate_vector, (ciphertext, 4, public._rotation_keys, type(ciphertext)())
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        rotate(*arguments)


def test_the_rotation_keys_are_exactly_those_named(pair: ckks.KeyPair) -> None:
    public: Any = ckks.load_public(pair.public.to_bytes())
    if public.parameters.backend == "openfhe":
        # OpenFHE's automorphism of a rotation by s is X -> X^(5^s mod 2N); its key map can only be asked by using it.
        ciphertext, held = loaded(pair, values(1)), set()
        steps = {*range(1, 100), *(sign * 2**k for k in range(12) for sign in (1, -1))}
        conjugation = 4 * SLOTS - 1
        for element in sorted({conjugation, *(pow(5, step, 4 * SLOTS) for step in steps)}):
            with contextlib.suppress(RuntimeError):
                public._scheme.context.EvalAutomorphism(ciphertext, element, public._rotation_keys)
                held.add(element)
        expected = {pow(5, step, 4 * SLOTS) for step in public.parameters.rotations}
    else:
        held = {element for element in range(1, 4 * SLOTS, 2) if public._rotation_keys.has_key(element)}
        expected = {pow(3, step, 4 * SLOTS) for step in public.parameters.rotations}
    assert held == expected


@few
@given(seed=seeds)
def test_products_are_slot_by_slot(pair: ckks.KeyPair, seed: int) -> None:
    left, right = values(seed), values(seed ^ 1)
    product = pair.public.multiply(loaded(pair, left), loaded(pair, right))
    assert np.allclose(decrypted(pair, product), left * right, atol=1e-3)


@few
@given(seed=seeds)
def test_sums_are_slot_by_slot_at_both_degrees(pair: ckks.KeyPair, seed: int) -> None:
    left, right = values(seed), values(seed ^ 1)
    total = added(pair.public, loaded(pair, left), loaded(pair, right))
    squared = pair.public.multiply(total, total)
    assert np.allclose(decrypted(pair, squared), (left + right) ** 2, atol=1e-3)
    twice = added(pair.public, squared, square(pair, left))
    assert np.allclose(decrypted(pair, twice), (left + right) ** 2 + left**2, atol=1e-3)


@few
@given(seed=seeds, step=st.sampled_from([1, 2, 2048]), degree=st.sampled_from([1, 2]))
def test_rotation_is_to_the_left_and_cyclic_at_degrees(pair: ckks.KeyPair, seed: int, step: int, degree: int) -> None:
    plain = values(seed)
    if degree == 1:
        rotated = pair.public.multiply(pair.public.rotate(loaded(pair, plain), step), loaded(pair, np.ones(SLOTS)))
        expected = np.roll(plain, -step)
    else:
        rotated = pair.public.rotate(square(pair, plain), step)
        expected = np.roll(plain**2, -step)
    assert np.allclose(decrypted(pair, rotated), expected, atol=1e-3)


def test_rotating_moves_slot_one_to_slot_zero_and_no_operation_changes_its_operands(pair: ckks.KeyPair) -> None:
    plain = np.arange(SLOTS, dtype=complex)
    rotated = decrypted(pair, pair.public.rotate(pair.public.encrypt(plain, degree=2), 1))
    assert (rotated[0], rotated[-1]) == (pytest.approx(1, abs=1e-6), pytest.approx(0, abs=1e-6))
    plain = values(9)
    ciphertext = pair.public.encrypt(plain, degree=2)
    pair.public.rotate(ciphertext, 1)
    added(pair.public, pair.public.encrypt(plain, degree=2), ciphertext)
    pair.public.multiply_integers(ciphertext, np.full(SLOTS, 5, complex))
    assert np.allclose(decrypted(pair, ciphertext), plain, atol=1e-9)


@few
@given(seed=seeds)
def test_the_public_key_encrypts_at_degree_one_and_two(pair: ckks.KeyPair, seed: int) -> None:
    plain = values(seed)
    assert np.allclose(decrypted(pair, pair.public.encrypt(plain, degree=2)), plain, atol=1e-9)
    one = pair.public.encrypt(plain)
    assert np.allclose(decrypted(pair, pair.public.multiply(one, one)), plain**2, atol=1e-2)
    mixed = added(pair.public, square(pair, plain), pair.public.encrypt(-(plain**2), degree=2))
    assert np.allclose(decrypted(pair, mixed), 0, atol=1e-3)


@few
@given(seed=seeds, weight=st.one_of(st.integers(-(2**50), 2**50), st.sampled_from([1, -1, 2**50, 2**50 - 1])))
def test_multiplying_by_one_integer_is_exact(pair: ckks.KeyPair, seed: int, weight: int) -> None:
    if weight == 0:
        weight = 1  # the case of zero has a test of its own
    # The product's own noise is multiplied along, so that it cancels: what is left is double precision.
    product = pair.public.encrypt(values(seed, size=2.0**20), degree=2)
    scaled = pair.public.multiply_integers(product, np.full(SLOTS, weight, complex))
    before, after = decrypted(pair, product), decrypted(pair, scaled)
    assert np.abs(after / weight - before).max() < 2.0**-45 * 2.0**20


def test_zero_times_a_product_is_zero_and_no_rotation_needed(
    pair: ckks.KeyPair, parameters: ckks.CkksParameters
) -> None:
    # SEAL itself refuses to make a product that anyone could read.
    product = pair.public.multiply_integers(square(pair, values(5)), np.zeros(SLOTS, complex))
    total = added(pair.public, product, pair.public.encrypt(np.ones(SLOTS, complex), degree=2))
    assert np.allclose(decrypted(pair, total), 1, atol=1e-6)
    bare = ckks.generate(msgspec.structs.replace(parameters, rotations=()))
    plain = values(3)
    assert np.allclose(decrypted(bare, square(bare, plain)), plain**2, atol=1e-2)


@few
@given(seed=seeds, weight=st.integers(2**10, 2**44))
def test_different_integers_for_two_classes_err_by_less_than_two(pair: ckks.KeyPair, seed: int, weight: int) -> None:
    # Slots that repeat with period 2 have four coefficients that are not 0, each rounded by at most 1/2.
    weights = np.tile(np.array([weight, 0], complex), SLOTS // 2)
    ones = pair.public.encrypt(np.ones(SLOTS, complex), degree=2)
    found = decrypted(pair, pair.public.multiply_integers(ones, weights))
    assert np.abs(found - weights).max() < 2 + 2.0**-30 * weight


@pytest.mark.parametrize("sign", [1, -1])
def test_values_decrypt_up_to_half_the_modulus_and_not_beyond(pair: ckks.KeyPair, sign: int) -> None:
    # Equal slots are a single coefficient, Δ'²·x², so the bound |coefficient| < Q/2 is sharp.
    limit = 2.0 ** (pair.public.parameters.log2_modulus - 1 - 2 * pair.public.parameters.log2_scale)
    root = np.full(SLOTS, np.sqrt(limit), complex)
    below = pair.public.multiply(loaded(pair, sign * 0.99 * root), loaded(pair, 0.99 * root))
    assert np.allclose(decrypted(pair, below) / limit, sign * 0.99**2, rtol=1e-9)
    beyond = pair.public.multiply(loaded(pair, sign * 1.02 * root), loaded(pair, 1.02 * root))
    assert np.abs(decrypted(pair, beyond) / limit - sign * 1.02**2).min() > 0.5
