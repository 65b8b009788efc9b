"""Pairs: pairings, theorem 5 with its constant, composition, and two-party steps, ideal and on real BFV ciphertexts.

Random numbers are seeded, but for OpenDP's and those of the encrypted step. False-alarm probabilities as in test_krr; a
mean square of 2,000 values has a relative deviation of about 3 %, so that 25 % is eight of them.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import tenseal.sealapi as seal
from scipy.stats import chisquare, kstest, laplace

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.serialise import encode
from fhe_auc.rlwe.parameters import MAX_MODULUS_BITS
from fhe_auc_protocols import opendp_samplers
from fhe_auc_protocols.u_statistics import kernels, pairs, two_party
from fhe_auc_protocols.u_statistics.domain import Axis, Domain
from fhe_auc_protocols.u_statistics.kernels import Kernel
from fhe_auc_protocols.u_statistics.two_party import RING_DIMENSION, FirstUser, SecondUser, TwoPartyResponse
from tests.support.u_statistics import of_rows

RUNS = 2000
slow = partial(pytest.param, marks=pytest.mark.slow)
CONSTANT = Kernel("constant", lambda x, y: np.zeros(np.broadcast_shapes(x.shape, y.shape)[:-1]), 0.0, 1.0)


def estimates(
    rows_of: object, kernel: Kernel, epsilon: float, number: int, runs: int = RUNS, seed: int = 1
) -> np.ndarray:
    generator = np.random.default_rng(seed)
    step = pairs.IdealLaplace(kernel, epsilon / number, pairs.seeded_laplace(generator))
    found = []
    for _ in range(runs):
        rows = rows_of(generator)
        found.append(pairs.estimate(rows, step, pairs.pairings(len(rows), number, generator))[0])
    return np.array(found)


@pytest.mark.parametrize("users", [2, 7, 10])
@pytest.mark.parametrize("number", [1, 3])
def test_a_pairing_has_every_user_at_most_once(users: int, number: int) -> None:
    found = pairs.pairings(users, number, np.random.default_rng(0))
    half = users // 2
    assert found.shape == (number * half, 2)
    for start in range(0, len(found), half):
        assert len(set(found[start : start + half].ravel())) == 2 * half
        assert found.max() < users


def test_every_pair_is_equally_likely() -> None:
    generator = np.random.default_rng(1)
    seen = np.zeros((4, 4))
    for _ in range(6000):
        first, second = pairs.pairings(4, 1, generator).T
        np.add.at(seen, (first, second), 1)
    both = (seen + seen.T)[np.triu_indices(4, 1)]
    assert (np.abs(both - 2000) < 5 * math.sqrt(2000)).all()


def test_pairings_need_users_and_a_number_and_responses_a_table_and_values() -> None:
    for users, number, what in ((1, 1, "at least two"), (10, 0, "at least one pairing")):
        with pytest.raises(InputError, match=what):
            pairs.pairings(users, number, np.random.default_rng(0))
    for epsilon, size in ((1.0, 3), (1e-4, 100)):
        with pytest.raises(InputError, match="too small"):
            pairs.ValueResponse((-1.0, 0.0, 1.0), epsilon, size)
    with pytest.raises(InputError, match="one value"):
        pairs.ValueResponse((1.0,), 1.0, 4060)


UNBIASED = {
    "kendall": (kernels.KENDALL, lambda g: g.integers(0, 6, (60, 2)).astype(float)),
    "gini": (kernels.gini(1.0), lambda g: g.random((61, 1))),
    "renyi2": (kernels.COLLISION, lambda g: g.integers(0, 4, (60, 1)).astype(float)),
    "auc": (kernels.AUC, lambda g: np.stack([g.random(60), g.random(60) < 0.3], axis=1)),
}


@pytest.mark.parametrize("name", UNBIASED)
@pytest.mark.parametrize("number", [slow(1), 3])
def test_the_estimate_is_unbiased_given_the_users(name: str, number: int) -> None:
    kernel, draw = UNBIASED[name]
    rows = draw(np.random.default_rng(2))
    found = estimates(lambda generator: rows, kernel, 2.0, number)
    assert abs(found.mean() - of_rows(rows, kernel)) < 4 * found.std(ddof=1) / math.sqrt(RUNS)


def zetas(shares: np.ndarray, matrix: np.ndarray) -> tuple[float, float]:
    """From the probability of each of k values and the kernel's matrix."""
    conditional = matrix @ shares
    mean = shares @ conditional
    return float(shares @ conditional**2 - mean**2), float(shares @ matrix**2 @ shares - mean**2)


EVEN = [(100, 1.0, 1), (100, 8.0, 1), (200, 20.0, 2), (50, 20.0, 4), (500, 2.0, 5), (30, 32.0, 10)]


@pytest.mark.parametrize(
    ("users", "epsilon", "number"), [*(slow(*each) for each in EVEN), (3, 30.0, 1), (5, 30.0, 2), (7, 30.0, 4)]
)
def test_the_squared_error_is_theorem_5s_with_the_variance_of_laplace_noise(
    users: int, epsilon: float, number: int
) -> None:
    shares, kernel = np.array([0.5, 0.3, 0.15, 0.05]), kernels.gini(3.0)
    matrix = kernel.matrix(np.arange(4.0)[:, None])
    found = estimates(lambda of: of.choice(4, (users, 1), p=shares).astype(float), kernel, epsilon, number)
    measured = np.mean((found - shares @ matrix @ shares) ** 2)
    noise_of_a_pair = 2 * (3 * number / epsilon) ** 2
    expected = pairs.mean_squared_error(users, number, *zetas(shares, matrix), noise_of_a_pair)
    assert measured == pytest.approx(expected, rel=0.15)
    assert measured < pairs.error_bound(users, number, 3.0, noise_of_a_pair) * 1.15


def all_pairings(users: list[int]) -> Iterator[list[tuple[int, int]]]:
    if len(users) < 2:
        yield []
        return
    first, *rest = users
    for other in rest:
        for left in all_pairings([user for user in rest if user != other]):
            yield [(first, other), *left]
    if len(users) % 2:
        yield from all_pairings(rest)


@pytest.mark.parametrize(
    ("users", "number", "values"),
    [(2, 2, (0.0, 1.0, 3.0)), (3, 2, (0.0, 1.0, 3.0)), (4, 1, (0.0, 1.0, 3.0)), (4, 2, (0.0, 1.0)), (5, 2, (0.0, 1.0))],
)
def test_the_squared_error_without_noise_is_that_of_all_users_and_pairings(
    users: int, number: int, values: tuple
) -> None:
    points, shares = np.array(values), np.array([0.3, 0.7] if len(values) == 2 else [0.2, 0.5, 0.3])
    matrix = np.abs(points[:, None] - points) ** 1.5
    mean = shares @ matrix @ shares
    drawn = [np.array(pairing) for pairing in all_pairings(list(range(users)))]
    squares = 0.0
    for records in itertools.product(range(len(values)), repeat=users):
        of_pairing = [matrix[np.take(records, pairing[:, 0]), np.take(records, pairing[:, 1])] for pairing in drawn]
        means = [np.mean(choice) for choice in itertools.product([of.mean() for of in of_pairing], repeat=number)]
        squares += float(np.prod(shares[list(records)]) * np.mean((np.array(means) - mean) ** 2))
    assert pairs.mean_squared_error(users, number, *zetas(shares, matrix), 0.0) == pytest.approx(squares, rel=1e-12)


@pytest.mark.parametrize(("users", "expected"), [(3, 1 / 4), (5, 1 / 8), (9, 1 / 16)])
def test_the_error_bound_is_reached_by_a_fair_coin_of_odd_users(users: int, expected: float) -> None:
    # f = 1 where two coins fall alike: ζ₂ = 1/4 and ζ₁ = 0, so that with one pairing the bound is the error.
    assert pairs.error_bound(users, 1, 1.0, 0.0) == pytest.approx(expected)
    assert pairs.mean_squared_error(users, 1, 0.0, 1 / 4, 0.0) == pytest.approx(expected)


@pytest.mark.parametrize(("users", "epsilon", "number"), EVEN)
def test_for_even_users_the_squared_error_is_theorem_5_as_it_is_written(
    users: int, epsilon: float, number: int
) -> None:
    n, p, (first, second) = users, number, (0.1, 0.23)
    sampling = 2 * (p - 1) * (1 - 1 / (n - 1)) * first + (1 + (p - 1) / (n - 1)) * second
    found = pairs.mean_squared_error(n, p, first, second, 2 * (p / epsilon) ** 2)
    assert found == pytest.approx(2 / (p * n) * sampling + 4 * p / (n * epsilon**2))


def test_the_noise_is_twice_what_theorem_5_prints() -> None:
    users, epsilon, number = 100, 1.0, 2
    found = estimates(lambda generator: np.zeros((users, 1)), CONSTANT, epsilon, number)
    assert np.mean(found**2) == pytest.approx(4 * number / (users * epsilon**2), rel=0.15)
    noise_of_a_pair = pairs.IdealLaplace(CONSTANT, epsilon / number, opendp_samplers.laplace).noise_variance
    stated = pairs.mean_squared_error(users, number, 0.0, 0.0, noise_of_a_pair)
    assert stated == pytest.approx(4 * number / (users * epsilon**2))


def test_opendps_noise_is_laplace_of_the_kernels_width_over_the_steps_budget() -> None:
    rows = np.zeros((20_000, 1))
    found = pairs.IdealLaplace(kernels.gini(3.0), 0.5, opendp_samplers.laplace).noisy(rows, rows)
    assert kstest(found, laplace(scale=6.0).cdf).pvalue > 1e-7


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 7.0])
@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 0.0, 1.0), (0.0, 1.0, 3.0, 7.0)])
def test_a_response_table_is_private_and_hardly_more_than_asked(epsilon: float, values: tuple) -> None:
    table = pairs.ValueResponse(values, epsilon, 4060).table
    number = np.bincount(table, minlength=len(values))
    assert number.sum() == 4060
    assert len(set(number[1:])) == 1
    assert number[0] / number[1] <= math.exp(epsilon)
    if number[1] > 1:
        assert (number[0] + len(values) - 1) / (number[1] - 1) > math.exp(epsilon)


def axis(size: int) -> Axis:
    return Axis(np.arange(float(size)))


STEPS = {
    "kendall": (kernels.KENDALL, Domain((axis(6), axis(6)))),
    "renyi2": (kernels.COLLISION, Domain((axis(7),))),
    "gini": (kernels.gini(5.0), Domain((axis(6),))),
    "auc": (kernels.AUC, Domain((axis(5), axis(2)))),
    "63 values": (Kernel("sum", lambda x, y: x[..., 0] + y[..., 0], 0.0, 63.0), Domain((axis(32),))),
}


def step(name: str, epsilon: float = 1.0) -> TwoPartyResponse:
    return TwoPartyResponse(*STEPS[name], epsilon)


@pytest.mark.parametrize("name", STEPS)
def test_the_answer_is_the_kernels_index_plus_the_entry_that_both_have_drawn(name: str) -> None:
    """At corners of domain and table, and inside."""
    of = step(name)
    generator = np.random.default_rng(1)
    size, q, last = len(of.response.table), len(of.response.values), len(of.domain) - 1
    drawn = zip(generator.integers(0, last, (4, 2)).tolist(), generator.integers(0, size, (4, 2)).tolist(), strict=True)
    for (first, second), (u, w) in (*drawn, ((0, last), (size - 1, size - 1)), ((last, 0), (size - 1, 0))):
        user = FirstUser(of, first, lambda below, u=u: u)
        answer = user.answer(SecondUser(of, second, lambda below, w=w: w).reply(user.request()))
        assert answer == (of.indices[first, second] + of.response.table[(u + w) % size]) % q


def test_answers_have_the_law_of_randomised_response() -> None:
    of = step("kendall", epsilon=0.8)
    users = [FirstUser(of, 3) for _ in range(60)]
    found = Counter((user.answer(SecondUser(of, 8).reply(user.request())) - of.indices[3, 8]) % 3 for user in users)
    expected = 60 * np.bincount(of.response.table) / len(of.response.table)
    # Fails for the right law with probability 1e-7.
    assert chisquare([found[z] for z in range(3)], expected).pvalue > 1e-7
    assert expected[0] / expected[1] <= math.exp(0.8)


def test_neither_users_draw_tells_the_noise() -> None:
    of = step("kendall")
    size, records, counts = len(of.response.table), len(of.domain), np.bincount(of.response.table)
    second = SecondUser(of, 4)
    entries = np.array([second._weights(shift)[records:] for shift in range(size)])
    for own in (0, 17, size - 1):
        assert np.array_equal(np.bincount(entries[:, own]), counts)  # u is known, w is any
        assert np.array_equal(np.bincount(entries[own]), counts)  # w is known, u is any


def test_a_first_user_asks_once_and_answers_once_and_a_second_one_replies_once() -> None:
    of = step("renyi2")
    first, second = FirstUser(of, 1), SecondUser(of, 2)
    with pytest.raises(InputError, match="after its request"):
        first.answer(b"")
    request = first.request()
    with pytest.raises(InputError, match="asks once; make a new FirstUser"):
        first.request()
    with pytest.raises(DeserialisationError):
        second.reply(b"")
    reply = second.reply(request)
    for again in (request, FirstUser(of, 1).request()):
        with pytest.raises(InputError, match="a two-party step answers once; make a new SecondUser"):
            second.reply(again)
    first.answer(reply)
    for again in (reply, SecondUser(of, 2).reply(request)):
        with pytest.raises(InputError, match="answers once"):
            first.answer(again)


def test_the_first_user_sees_uniform_coefficients_but_for_the_answer() -> None:
    of = step("gini")
    for second in (0, 5):
        user = FirstUser(of, 2)
        seen = user._decrypt(SecondUser(of, second).reply(user.request()))
        assert len(seen) == RING_DIMENSION
        assert chisquare(np.bincount(seen[1:], minlength=6)).pvalue > 5e-8


class Unflooded(two_party._Scheme):
    def flooding(self) -> np.ndarray:
        return np.zeros((4, RING_DIMENSION), np.uint64)


@pytest.mark.parametrize("name", ["kendall", "63 values"])
def test_flooding_drowns_the_noise_that_would_tell_the_second_record(name: str) -> None:
    of = step(name)

    def noise_bits() -> float:
        user = FirstUser(of, 1)
        reply = SecondUser(of, 2).reply(user.request())
        ciphertext = of.scheme.load(seal.Ciphertext(), of.scheme.ciphertext, reply)
        budget = seal.Decryptor(of.scheme.context, user._keys.secret_key()).invariant_noise_budget(ciphertext)
        return 92 - 1 - math.log2(of.scheme.plain_modulus) - budget

    flooded = noise_bits()
    of.scheme = Unflooded(of.scheme.plain_modulus)
    assert noise_bits() < 24
    assert 83 <= flooded <= 85 + 1


def test_flooding_covers_its_whole_range() -> None:
    of = step("kendall")
    words = of.scheme.flooding()
    low, high = (int(modulus) for modulus in of.scheme._moduli)
    product = low * high
    numbers = [
        (int(a) * high * pow(high, -1, low) + int(b) * low * pow(low, -1, high)) % product
        for a, b in zip(words[0], words[1], strict=True)
    ]
    centred = [number - product if number > product // 2 else number for number in numbers]
    half = 2 ** (two_party.FLOODING_BITS - 1)
    assert -half <= min(centred) < -0.99 * half
    assert 0.99 * half < max(centred) < half
    assert not words[2:].any()


def test_no_two_messages_are_equal_and_reprs_show_no_record() -> None:
    of = step("renyi2")
    assert len({FirstUser(of, 1).request() for _ in range(3)}) == 3
    assert (repr(FirstUser(of, 3)), repr(SecondUser(of, 3))) == ("FirstUser(...)", "SecondUser(...)")
    request = FirstUser(of, 1).request()
    assert len({SecondUser(of, 1).reply(request) for _ in range(3)}) == 3


def test_damaged_messages_are_refused() -> None:
    of = step("renyi2")
    user = FirstUser(of, 1)
    request = user.request()
    reply = SecondUser(of, 2).reply(request)
    for damaged in (b"", request[:-1], request + b"x", encode((b"", b"")), encode(1)):
        with pytest.raises(DeserialisationError):
            SecondUser(of, 2).reply(damaged)
    for damaged in (b"", reply[:-1], reply + b"x", b"\xff" * len(reply)):
        with pytest.raises(DeserialisationError):
            user.answer(damaged)


def test_kernel_values_that_differ_by_rounding_are_one() -> None:
    tenths = Domain((Axis(np.arange(11) / 10),))
    of = TwoPartyResponse(kernels.gini(1.0), tenths, 1.0)
    assert of.response.values == pytest.approx(np.arange(11) / 10)
    assert np.array_equal(of.indices, np.abs(np.subtract.outer(np.arange(11), np.arange(11))))
    matrix = kernels.gini(1.0).matrix(tenths.points)
    assert len(np.unique(matrix)) > 11
    assert np.array_equal(of.response.index(matrix), of.indices)


def test_the_modulus_is_within_the_security_table() -> None:
    moduli = two_party._Scheme(2).public_key.polynomials.moduli  # of two polynomials
    assert math.prod(moduli[: len(moduli) // 2]) < 2 ** MAX_MODULUS_BITS[RING_DIMENSION]


def test_the_flooding_covers_what_seals_errors_can_come_to() -> None:
    # Centred binomial errors of at most 21; a product with N coefficients of at most q/2, a fresh encryption.
    drawn = two_party._Scheme(2)
    errors = []
    for _ in range(4):
        keys, ciphertext, text = seal.KeyGenerator(drawn.context), seal.Ciphertext(), seal.Plaintext("0")
        seal.Encryptor(drawn.context, keys.secret_key()).encrypt_symmetric(text, ciphertext)
        noise = seal.Decryptor(drawn.context, keys.secret_key()).invariant_noise_budget(ciphertext)
        errors.append(2.0 ** (sum(two_party.MODULUS_BITS[:-1]) - 1 - 1 - noise))
    assert max(errors) <= 2 * 21
    largest = 21 * RING_DIMENSION * two_party.MAX_VALUES // 2 + 21 * (2 * RING_DIMENSION + 1)
    assert largest < 2**22
    assert RING_DIMENSION * 2 * largest / 2**two_party.FLOODING_BITS < 2**-40


def test_domains_and_kernels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="at most 1,024 different records, got 1,089"):
        TwoPartyResponse(kernels.KENDALL, Domain((axis(33), axis(33))), 1.0)
    with pytest.raises(InputError, match="at most 64 values, got 65"):
        TwoPartyResponse(kernels.gini(64.0), Domain((axis(65),)), 1.0)
    with pytest.raises(InputError, match="too small"):
        TwoPartyResponse(kernels.KENDALL, Domain((axis(6), axis(6))), 1e-4)


@pytest.mark.slow
def test_the_estimate_over_real_ciphertexts_is_unbiased_and_varies_as_stated() -> None:
    rows = np.random.default_rng(2).integers(0, 6, (40, 2)).astype(float)
    of = step("kendall", epsilon=2.0)
    generator = np.random.default_rng(3)
    found = [pairs.estimate(rows, of, pairs.pairings(40, 1, generator))[0] for _ in range(100)]
    assert abs(np.mean(found) - of_rows(rows, kernels.KENDALL)) < 4 * np.std(found, ddof=1) / 10
    assert np.var(found) < pairs.error_bound(40, 1, 2.0, of.noise_variance) * 1.5
