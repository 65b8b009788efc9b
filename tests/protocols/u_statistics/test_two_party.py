"""The two-party step on real BFV ciphertexts: right, private in the stated way, and strict about its messages."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import tenseal.sealapi as seal
from scipy.stats import chisquare

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.serialise import encode
from fhe_auc.rlwe.parameters import MAX_MODULUS_BITS
from fhe_auc_protocols.u_statistics import kernels, pairs, two_party
from fhe_auc_protocols.u_statistics.domain import Axis, Domain
from fhe_auc_protocols.u_statistics.kernels import Kernel
from fhe_auc_protocols.u_statistics.two_party import RING_DIMENSION, FirstUser, SecondUser, TwoPartyResponse
from tests.support.u_statistics import of_rows


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
    # Fails for the right law with probability 1e-6.
    assert chisquare([found[z] for z in range(3)], expected).pvalue > 1e-6
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
        assert chisquare(np.bincount(seen[1:], minlength=6)).pvalue > 1e-6


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
