"""The number-theoretic transform: against its definition, and against what the libraries do."""

import numpy as np
import pytest

from fhe_auc.rlwe.modular import is_prime, primes_above
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of, smallest_root, values_of
from tests.support.bfv_contexts import parameters_of

SMALL = Polynomials(16, (97, 193, 257))


def by_definition(ring: Polynomials, words: Words) -> list[list[int]]:
    size = ring.ring_dimension
    bits = size.bit_length() - 1
    values = []
    for coefficients, modulus in zip(words.tolist(), ring.moduli, strict=True):
        root = smallest_root(size, modulus)
        points = [pow(root, 2 * int(f"{place:0{bits}b}"[::-1], 2) + 1, modulus) for place in range(size)]
        values.append([sum(c * pow(at, k, modulus) for k, c in enumerate(coefficients)) % modulus for at in points])
    return values


@pytest.mark.parametrize("size", [4, 8, 32, 64])
def test_values_are_those_of_the_definition_in_rings_of_every_shape(size: int) -> None:
    """And modulo primes of different sizes together, to and fro."""
    ring = Polynomials(size, tuple(primes_above(2**bits, 1, size)[0] for bits in (20, 41, 55)))
    largest = np.array(ring.moduli, np.uint64)[:, None] - np.uint64(1)
    for words in (ring.uniform(bytes(32)), ring.zeros(), ring.zeros() + np.uint64(1), ring.zeros() + largest):
        assert values_of(ring, words).tolist() == by_definition(ring, words)
        for there, back in ((values_of, coefficients_of), (coefficients_of, values_of)):
            assert (there(ring, words) <= largest).all()
            assert np.array_equal(back(ring, there(ring, words)), words)


def largest_prime(bits: int, size: int) -> int:
    candidate = 2**bits + 1
    while not is_prime(candidate) or candidate >= 2**bits:
        candidate -= 2 * size
    return candidate


@pytest.mark.parametrize("size", [8192, pytest.param(32768, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "bits", [56, 54, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (55, 53, 52, 51, 42))]
)
@pytest.mark.parametrize("fill", ["largest", "half", "alternating", "uniform", "steepest"])
def test_no_number_gets_too_large_for_a_word_however_often_products_are_reduced(
    size: int, bits: int, fill: str
) -> None:
    """Against the definition in Python's integers, at one place; the steepest input makes its value grow throughout."""
    modulus = largest_prime(bits, size)
    root, ring = smallest_root(size, modulus), Polynomials(size, (modulus,))
    place = size // 3
    exponent = 2 * int(f"{place:0{size.bit_length() - 1}b}"[::-1], 2) + 1
    powers = np.array([pow(root, exponent * k, modulus) for k in range(size)], object)
    row = {
        "largest": np.full(size, modulus - 1, object),
        "half": np.full(size, modulus // 2, object),
        "alternating": np.where(np.arange(size) % 2, modulus - 1, 1).astype(object),
        "uniform": ring.uniform(bytes(32))[0].astype(object),
        "steepest": np.where(powers > modulus // 2, modulus - 1, 0).astype(object),
    }[fill]
    words = row.astype(np.uint64)[None]
    assert int(values_of(ring, words)[0, place]) == int((row * powers).sum()) % modulus
    back = coefficients_of(ring, words)
    assert np.array_equal(values_of(ring, back), words)
    number = size // 5
    order = [int(f"{j:0{size.bit_length() - 1}b}"[::-1], 2) for j in range(size)]
    inverse = pow(root, -1, modulus)
    total = sum(
        value * pow(inverse, (2 * turned + 1) * number, modulus)
        for value, turned in zip(row.tolist(), order, strict=True)
    )
    assert int(back[0, number]) == total * pow(size, -1, modulus) % modulus


def test_the_root_is_the_smallest_primitive_one_and_57_bits_are_refused() -> None:
    for modulus in [97, 193, 257]:
        primitive = [root for root in range(modulus) if pow(root, 16, modulus) == modulus - 1]
        assert smallest_root(16, modulus) == min(primitive)
    ring = Polynomials(16, primes_above(2**56, 1, 16))
    for transform in (values_of, coefficients_of):
        with pytest.raises(ValueError, match="at most 56 bits"):
            transform(ring, ring.zeros())


def test_seal_keeps_the_same_values_in_the_same_order() -> None:
    import tenseal.sealapi as seal

    from fhe_auc.rlwe import seal_library
    from fhe_auc.rlwe.context import library_for

    library = library_for(parameters_of("tenseal", primes_above(2**41, 1, 8192)))
    context, layout, ciphertext = library.context, library.submission, seal.Ciphertext()
    seal.Encryptor(context, seal.KeyGenerator(context).secret_key()).encrypt_zero_symmetric(ciphertext)
    before = layout.words(seal_library.save(ciphertext))
    seal.Evaluator(context).transform_to_ntt_inplace(ciphertext)
    assert np.array_equal(values_of(layout.polynomials, before), layout.words(seal_library.save(ciphertext)))
