"""What is peculiar to CKKS contexts: parameters, and that sums over slots come out as the algebra says, or are refused.

What they have in common with other schemes' stands in `rlwe/test_contexts.py`.
"""

import cmath
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from fhe_auc import ckks
from fhe_auc.base.errors import CapacityError, DeserialisationError
from fhe_auc.ckks import context, encoding
from fhe_auc.ckks.context import released
from fhe_auc.ckks.encoding import MOST_BITS
from fhe_auc.ckks.parameters import PRODUCTS
from fhe_auc.rlwe.ciphertexts import VARIANCE, fresh_error, ternary, wrap
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of, values_of
from tests.support import general_purpose_generators
from tests.support.polynomials import signed
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
        ({"ring_dimension": 16384}, "not supported by the .* backend at ring dimension 16384"),
        ({"modulus_bits": (49, 49, 49)}, "not supported by the .* backend at ring dimension 8192"),
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


def test_sums_whose_second_polynomial_is_zero_are_refused(pair: ckks.KeyPair) -> None:
    words = pair.public.ciphertext_shape.zeros()
    for words[0, 0] in (0, 1):
        with pytest.raises(DeserialisationError, match="second polynomial is zero"):
            pair.public.sum_of_squares([words])


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


MOST = 2.0**encoding.MOST_BITS
PRIMES = primes_above(2**55, 3, 64)


def roots(slots: int) -> list[complex]:
    return [cmath.exp(1j * cmath.pi * (4 * j + 1) / (2 * slots)) for j in range(slots)]


def some(slots: int, seed: int, components: int = 4) -> Any:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(components, slots, 2)) @ (1, 1j)


def square(numbers: Any) -> Any:
    """Coefficients of the square modulo x^N + 1."""
    whole = np.convolve(numbers, numbers)
    found = whole[: len(numbers)].copy()
    found[: len(numbers) - 1] -= whole[len(numbers) :]
    return found


def integers(numbers: Any) -> list[int]:
    """What `message` makes of coefficients, from its residues: exact, from -Q/2 to Q/2."""
    half = Polynomials(len(numbers), PRIMES)
    words = encoding.message(half, np.array(numbers, float))
    assert all(int(row.max()) < prime for row, prime in zip(words, PRIMES, strict=True))
    return signed(half, words)


@pytest.mark.parametrize("components", PRODUCTS)
@pytest.mark.parametrize("slots", [1, 2, 8, 32])
def test_coefficients_are_those_of_the_definition_and_have_the_slots_as_values(slots: int, components: int) -> None:
    values, y = some(slots, slots, components), roots(slots)
    found = encoding.coefficients(values)
    assert found.shape == (2 * components * slots,)
    for component, row in enumerate(values):
        for k in range(2 * slots):
            expected = sum(v * root**-k for v, root in zip(row, y, strict=True)).real / slots
            assert found[components * k + component] == pytest.approx(expected, abs=1e-12)
        own = found[component::components]
        at_roots = [sum(c * root**k for k, c in enumerate(own)) for root in y]
        assert at_roots == pytest.approx(row, abs=1e-12)
    # The polynomial itself, at a root of x^N + 1: all components, by powers of x.
    x = cmath.exp(1j * cmath.pi / (2 * components * slots))
    expected = sum(x**component * row[0] for component, row in enumerate(values))
    assert x**components == pytest.approx(y[0])
    assert sum(c * x**k for k, c in enumerate(found)) == pytest.approx(expected, abs=1e-11)


@settings(max_examples=30)
@given(log2_slots=st.integers(0, 6), seed=st.integers(0, 2**32 - 1))
def test_components_of_a_square_sum_up_as_documented(log2_slots: int, seed: int) -> None:
    slots = 2**log2_slots
    y = np.array(roots(slots))
    for components, triples in PRODUCTS.items():
        values = some(slots, seed, components)
        positions = encoding.sum_positions(2 * components * slots, components)
        found = square(encoding.coefficients(values))[positions] * slots
        expected = [
            sum(
                (values[a] * values[b] * (y if a + b >= components else 1)).sum()
                for a, b in np.ndindex(components, components)
                if (a + b) % components == k
            )
            for k in encoding.summed(components)
        ]
        assert found.view(complex) == pytest.approx(np.array(expected), abs=1e-9 * slots)
        # Where those of the triples are filled alone, there are their products, and nothing else.
        empty = np.setdiff1d(np.arange(components), triples)
        values[empty] = 0
        found = square(encoding.coefficients(values))[positions] * slots
        expected = [2 * (values[a] * values[b]).sum() for a, *others in triples for b in others]
        assert found.view(complex) == pytest.approx(np.array(expected), abs=1e-10 * slots)


@pytest.mark.parametrize("slots", [1024, 2048])
@pytest.mark.parametrize("log2_ratio", [-30, 0, 30])
def test_sums_are_exact_to_the_bound_whatever_the_balance_between_components(slots: int, log2_ratio: int) -> None:
    """Relative to 2PN, as `error_bound` reckons: Y of norm N, both X of up to √2·2P in every slot."""
    y, one, other = np.random.default_rng(slots).integers(-(2**20), 2**20, (3, 2, slots))
    values = np.zeros((4, slots), complex)
    values[0] = (y[0] + 1j * y[1]) * 2.0**log2_ratio
    values[1], values[3] = one[0] + 1j * one[1], other[0] + 1j * other[1]
    log2_scale = 71 - max(log2_ratio, 0)
    encoded = np.array(integers(encoding.coefficients(values) * 2.0**log2_scale), object)
    unit = np.linalg.norm(y) * 2.0**20
    for x, component in ((one, 1), (other, 3)):
        p, q = encoded[0::4], encoded[component::4]
        real = p[0] * q[0] - (p[1:] * q[:0:-1]).sum()
        imag = (p[: slots + 1] * q[slots::-1]).sum() - (p[slots + 1 :] * q[:slots:-1]).sum()
        (a, b), (c, d) = y.astype(object), x.astype(object)
        for found, expected in ((real, (a * c - b * d).sum()), (imag, (a * d + b * c).sum())):
            told = Fraction(slots * found) / Fraction(2) ** (2 * log2_scale + log2_ratio)
            assert abs(told - expected) < Fraction(2) ** -44 * Fraction(unit)


@settings(max_examples=30)
@given(st.lists(st.floats(-MOST, MOST, exclude_min=True, exclude_max=True), min_size=64, max_size=64))
def test_messages_are_the_nearest_integers_at_every_size_and_of_either_sign(numbers: list[float]) -> None:
    assert integers(numbers) == [round(each) for each in numbers]
    sizes = [0.0, 0.5, 1.0, 1.5, 2.0**40 - 1, 2.0**40, 2.0**40 + 1, np.nextafter(MOST, 0)]
    edges = [sign * size for size in sizes for sign in (1, -1)] * 4
    assert integers(edges) == [round(each) for each in edges]


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
        first = values_of(HALF, fresh_error(N, context.secrets.token_bytes(32)))
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
