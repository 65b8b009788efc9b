"""The two-party step of pairs: what it computes, what flooding hides, and what a party that lies can read.

Keys and noise are real, and differ every time: a p-value below 1e-7 has a probability of 1e-7.
"""

import math
import secrets
import time
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.ciphertexts import check_not_small, divided
from fhe_auc.rlwe.polynomials import coefficients_of, values_of
from fhe_auc.rlwe.ring_parameters import MAX_MODULUS_BITS
from fhe_auc_protocols.u_statistics import two_party
from fhe_auc_protocols.u_statistics.pairs import PairResponse
from fhe_auc_protocols.u_statistics.two_party import FLOODING, HALF, NOISE, RING_DIMENSION, First, Second

BINS = 20
ENTRIES = RING_DIMENSION - BINS
TABLE = PairResponse(1.0, ENTRIES).table
Q = math.prod(HALF.moduli)


@pytest.fixture(scope="module")
def first() -> First:
    return First(b"a seed that all these tests know")


@pytest.fixture(scope="module")
def second(first: First) -> Second:
    return Second(first.public_key(), TABLE)


def drawing(w: int, flooding: int) -> Callable[[int], int]:
    return lambda below: w if below == ENTRIES else flooding


def phase(first: First, reply: bytes) -> int:
    """What the first user sees, modulo q₀, around zero."""
    words = two_party.checked_reply(reply)[0].view(np.int64)
    found = int(words[0]) + int(words[1:] @ first._constant)
    return (found + HALF.moduli[0] // 2) % HALF.moduli[0] - HALF.moduli[0] // 2


@pytest.mark.parametrize("flooding", [0, FLOODING, 2 * FLOODING])
def test_the_answer_is_right_at_all_corners_whatever_the_noise(first: First, second: Second, flooding: int) -> None:
    last = ENTRIES - 1
    for i, j in ((0, 0), (0, 1), (1, 0), (0, BINS - 1), (BINS - 1, 0), (BINS - 1, BINS - 1), (7, 7)):
        for u, w in ((0, 0), (0, last), (last, 0), (last, last), (5, 900), (1, last), (last // 2, last // 2 + 1)):
            request = first.request(i, BINS, lambda below, u=u: u)  # type: ignore[misc]
            found = first.answer(second.reply(request, j, drawing(w, flooding)))
            assert found == (np.sign(i - j) + 1 + TABLE[(u + w) % ENTRIES]) % 3


@pytest.mark.parametrize("known", ["u", "w"])
def test_who_knows_the_one_draw_finds_answers_by_the_law_of_the_other(first: First, second: Second, known: str) -> None:
    own = (lambda below: below // 3), secrets.randbelow
    u, w = own if known == "u" else own[::-1]
    answers = [first.answer(second.reply(first.request(4, BINS, u), 9, w)) for _ in range(300)]
    assert chisquare(np.bincount(answers, minlength=3), 300 * np.bincount(TABLE) / ENTRIES).pvalue > 1e-7


def test_300_real_pairs_follow_the_law_and_their_noise_fills_the_room(first: First, second: Second) -> None:
    replies = [second.reply(first.request(4, BINS), 9) for _ in range(300)]
    noise = np.bincount([first.answer(reply) for reply in replies], minlength=3)  # 4 is below 9: y = z
    assert chisquare(noise, 300 * np.bincount(TABLE) / ENTRIES).pvalue > 1e-7
    third = HALF.moduli[0] / 3
    left = [seen - third * round(seen / third) for seen in (phase(first, reply) for reply in replies)]
    assert kstest(np.array(left) / third + 0.5, "uniform").pvalue > 1e-7


def test_flooding_covers_the_largest_noise_and_leaves_room_to_decrypt() -> None:
    # Three sums of N products of an error, at most 21, and 0, 1 or -1; and three times round(Q/3) is not quite Q.
    assert NOISE == 3 * RING_DIMENSION * 21 + 1
    assert NOISE / FLOODING < 2.0**-45
    # At the worst, each of N + 1 coefficients is rounded by a half, or hardly more.
    rounding = (RING_DIMENSION + 1) / 2 * 1.001 * HALF.moduli[1]
    assert NOISE + FLOODING + rounding < Q / 6
    assert math.log2(Q) < MAX_MODULUS_BITS[RING_DIMENSION]


def test_without_flooding_the_noise_stays_below_its_bound(first: First, second: Second) -> None:
    for _ in range(20):
        seen = phase(first, second.reply(first.request(4, BINS), 9, drawing(0, FLOODING)))
        third = HALF.moduli[0] / 3
        assert abs(seen - third * round(seen / third)) < NOISE / HALF.moduli[1] + RING_DIMENSION / 2 + 2


def test_the_rest_of_a_reply_does_not_show_the_row_to_who_guesses_all_that_made_it(
    first: First, second: Second
) -> None:
    """Who knew no more than the request could try each bin and each w, 83,000 of them."""
    request, w = first.request(4, BINS), 1000
    _, words = np.split(two_party._SEEDED.expand(request), 2)
    b = two_party._for_the_constant(np.append(np.sign(np.arange(BINS) - 9), np.roll(second._table, -w)))
    guess = coefficients_of(HALF, HALF.multiply(words, values_of(HALF, b)))
    left = two_party.checked_reply(second.reply(request, 9, drawing(w, FLOODING)))[:, 1:]
    two_party._SECOND.subtract_in_place(left, divided(HALF, guess, 1))
    check_not_small(two_party._SECOND, left)


def test_a_lying_first_user_reads_any_function_of_three_values_of_each_pair_and_no_more(
    first: First, second: Second
) -> None:
    """Three pairs tell one of 20 bins exactly (seven one of 1,024): each asks for a digit to the base 3, without u."""
    found, signs = np.zeros(BINS, int), np.sign(np.arange(BINS)[:, None] - np.arange(BINS))
    for place in range(3):
        digits, weights = np.arange(BINS) // 3**place, np.zeros(BINS, int)
        for row in range(BINS - 1):  # from one bin of the other row to the next, the answer falls by both weights
            weights[row + 1] = (digits[row] - digits[row + 1] - weights[row]) % 3
        message = HALF.zeros()
        for residues, modulus in zip(message, HALF.moduli, strict=True):
            residues[:BINS] = weights * (two_party._ONE % modulus) % modulus
        lie = two_party._SEEDED.encrypt(first._secret, message, np.arange(BINS, dtype=np.uint64))
        answers = np.array([first.answer(second.reply(lie, row)) for row in range(BINS)])
        found += (answers - 1 - weights @ signs[:, 0]) % 3 * 3**place
    assert found.tolist() == list(range(BINS))
    assert Q / (2 * FLOODING + 1) < 3.0001  # values of one number modulo Q that are told apart, whatever it encrypts


def test_a_lying_second_user_makes_the_answer_an_exact_comparison(first: First) -> None:
    liar = Second(first.public_key(), np.zeros(ENTRIES, np.int64))
    for row in range(BINS):
        assert first.answer(liar.reply(first.request(4, BINS), row)) == np.sign(4 - row) + 1


def test_messages_differ_each_time_have_their_sizes_and_keys_come_back(first: First, second: Second) -> None:
    requests = [first.request(3, BINS, lambda below: 5) for _ in range(3)]
    replies = [second.reply(requests[0], 3, drawing(5, FLOODING)) for _ in range(3)]
    keys = [first.public_key() for _ in range(3)]
    for sent, size in ((requests, 33_824), (replies, 16_901), (keys, 33_824)):
        assert len(set(sent)) == 3
        assert {len(each) for each in sent} == {size}
    assert (two_party.REQUEST_BYTES, two_party.REPLY_BYTES) == (33_824, 16_901)
    assert First(b"a seed that all these tests know").answer(replies[0]) == first.answer(replies[0])


def test_what_is_no_request_no_key_or_no_reply_is_refused(first: First, second: Second) -> None:
    request = first.request(3, BINS)
    reply = second.reply(request, 3)
    for damaged in (b"", request[:-1], request + b"x", b"\xff" * len(request)):
        for read in (two_party.check_request, lambda sent: Second(sent, TABLE), lambda sent: second.reply(sent, 3)):
            with pytest.raises(DeserialisationError):
                read(damaged)
    shows = first.request(3, BINS)[:5] + bytes(len(reply) - 5)  # c₁ = 0: c₀ would be the message
    for damaged in (b"", reply[:-1], reply + b"x", b"\xff" * len(reply), shows):
        with pytest.raises(DeserialisationError):
            first.answer(damaged)


@pytest.mark.slow
def test_1_000_pairs_take_20_seconds_at_most(first: First, second: Second) -> None:
    started = time.process_time()
    for row in range(1000):
        first.answer(second.reply(first.request(row % BINS, BINS), row * 7 % BINS))
    assert time.process_time() - started < 20
