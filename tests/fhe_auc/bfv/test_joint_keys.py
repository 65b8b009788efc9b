"""Joint keys for BFV: only all parties together decrypt, exactly, what is left of a result; no share shows."""

from __future__ import annotations

import copy
import math
import pickle
import secrets
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import combinations, count
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from fhe_auc import bfv, ckks
from fhe_auc.bfv.ciphertext_noise import (
    CONFIDENCE,
    MODULUS_SWITCHING_BOUND,
    integers,
    noise_bound,
    product_deviation,
)
from fhe_auc.bfv.parameters import CHAINS, primes_above
from fhe_auc.errors import DeserialisationError
from fhe_auc.rlwe import container
from fhe_auc.rlwe.modulus_switching import switched
from fhe_auc.rlwe.polynomials import Polynomials, Sum, Words
from fhe_auc.rlwe.second_error import VARIANCE
from fhe_auc.rlwe.transform import coefficients_of, values_of
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.planner import plan_exact

if "openfhe" not in ckks.available_backends():
    pytest.skip("OpenFHE cannot be imported here", allow_module_level=True)

from fhe_auc.bfv.context import result_kind
from fhe_auc.bfv.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.bfv.openfhe_partial_decryption import fuse, partial_decryption
from fhe_auc.bfv.slots import phase_of
from fhe_auc.rlwe.openfhe_library import save

pytestmark = pytest.mark.openfhe

SLOTS = 8192
PRIMES = primes_above(2**41, 2, SLOTS)
(CHAIN,) = CHAINS["openfhe"]
PARAMETERS = bfv.BfvParameters("openfhe", SLOTS, CHAIN.modulus_bits, CHAIN.special_bits, PRIMES)
FALSE_ALARM = 1e-7


def planned(parties: int, kept: int | None = None) -> ExactPlan:
    plan = plan_exact(thresholds=16, parties=parties, backend="openfhe", joint_keys=True)
    return plan if kept is None else msgspec.structs.replace(plan, kept=kept)


def summed(polynomials: Polynomials, packed: Iterable[bytes]) -> Words:
    total = Sum(polynomials)
    for part in packed:
        total.add(polynomials.unpack(part))
    return total.words


class Joint:
    """All parties of a session, and the keys that they made."""

    def __init__(self, parties: int, session: bytes | None = None) -> None:
        self.setup = setup = JointSetup(PARAMETERS, session or secrets.token_bytes(16))
        self.half = setup.submission_part
        self.shares = [JointShare(setup) for _ in range(parties)]
        self.parts = [share.key_parts() for share in self.shares]
        self.sums = [
            summed(shape, column) for shape, column in zip(setup.key_parts, zip(*self.parts, strict=True), strict=True)
        ]
        second = [share.relinearisation_part(self.sums[1]) for share in self.shares]
        self.public = setup.public_context(self.sums, summed(setup.relinearisation_part, second))
        self.kept = planned(parties).kept
        self.blocks = count(1000)  # no test uses one twice

    @cached_property
    def secret(self) -> Words:
        """The secret key that nobody has."""
        total = self.half.zeros()
        for share in self.shares:
            self.half.add_in_place(total, share.secret_words)
        return total

    def ciphertext(self, values: list[bfv.Residues], prime: int, block: int) -> bfv.Ciphertext:
        parts = [share.encrypt(each, prime, block) for share, each in zip(self.shares, values, strict=True)]
        submission = self.setup.submission(summed(self.half, parts), block, prime, self.public.fingerprint)
        return self.public.ciphertext(self.public.read_submission(submission, prime), prime)

    def product(self, prime: int) -> tuple[bfv.Ciphertext, list[int]]:
        """The product of two sums, of what every party has encrypted in two ciphertexts, and what it holds."""
        numbers, block = range(len(self.shares)), next(self.blocks)
        left, right = ([some(100 * (block + side) + party, prime) for party in numbers] for side in (0, 1))
        made = self.public.multiply(
            self.ciphertext(left, prime, block), self.ciphertext(right, prime, next(self.blocks))
        )
        sums = [
            [sum(column) for column in zip(*(each.tolist() for each in side), strict=True)] for side in (left, right)
        ]
        return made, [x * y % PRIMES[prime] for x, y in zip(*sums, strict=True)]

    def partials(self, result: bytes, prime: int, kept: int | None = None) -> list[Words]:
        plan = planned(len(self.shares), kept or self.kept)
        made = (partial_decryption(share, result, prime, plan.kept, plan.smudging_exponent) for share in self.shares)
        return [self.setup.result_part(plan.kept).unpack(each) for each in made]

    def scaled_noise(self, ciphertext: bfv.Ciphertext) -> np.ndarray:
        return noise_of(self.half, phase_of(self.half, ciphertext.words, self.secret), PRIMES[ciphertext.prime])


def some(seed: int, prime: int) -> bfv.Residues:
    return np.random.default_rng(seed).integers(0, PRIMES[prime], SLOTS, dtype=np.uint64)


def centred(half: Polynomials, words: Words) -> list[int]:
    modulus = math.prod(half.moduli)
    found = integers(half, coefficients_of(half, words))
    return [each - modulus if each > modulus // 2 else each for each in found]


def noise_of(half: Polynomials, phase: Words, t: int) -> np.ndarray:
    modulus = math.prod(half.moduli)
    scaled = [t * each % modulus for each in integers(half, coefficients_of(half, phase))]
    return np.array([(each - modulus if each > modulus // 2 else each) / t for each in scaled])


@lru_cache
def joint(parties: int) -> Joint:
    return Joint(parties)


@pytest.fixture(scope="module")
def session() -> Joint:
    return joint(3)


@pytest.fixture(scope="module")
def finished(session: Joint) -> tuple[bytes, list[Words], list[int]]:
    """A flooded product modulo the second prime, switched down, all partial decryptions, and what it is."""
    product, expected = session.product(1)
    result = session.public.dump_result(session.public.flood(product), session.kept)
    return result, session.partials(result, 1), expected


def test_all_partial_decryptions_together_give_the_exact_product(session: Joint, finished: Any) -> None:
    result, partials, expected = finished
    assert session.kept == 2
    assert fuse(session.setup, result, 1, session.kept, partials).tolist() == expected


@pytest.mark.parametrize(("parties", "least"), [(2, 2), (8, 3)])
def test_whatever_a_plan_keeps_of_the_modulus_the_product_is_exact(parties: int, least: int) -> None:
    session = joint(parties)
    assert session.kept == least
    product, expected = session.product(0)
    flooded = session.public.flood(product)
    sizes = []
    for kept in range(least, 5):
        result = session.public.dump_result(flooded, kept)
        sizes.append(len(result))
        assert fuse(session.setup, result, 0, kept, session.partials(result, 0, kept)).tolist() == expected
    assert np.diff(sizes).min() > 2 * 6.5 * SLOTS


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_all_but_one_partial_decryption_give_nothing(session: Joint, finished: Any, missing: int) -> None:
    result, partials, expected = finished
    without = [each for party, each in enumerate(partials) if party != missing]
    agreeing = np.mean(fuse(session.setup, result, 1, session.kept, without) == np.array(expected, np.uint64))
    assert agreeing < 0.01


def test_a_sum_that_lacks_a_party_decrypts_to_nothing_even_for_all(session: Joint) -> None:
    parts = [share.encrypt(some(party, 0), 0, 200) for party, share in enumerate(session.shares)]
    for pair in combinations(range(3), 2):
        total = summed(session.half, [parts[party] for party in pair])
        submission = session.setup.submission(total, 200, 0, session.public.fingerprint)
        ciphertext = session.public.ciphertext(session.public.read_submission(submission, 0), 0)
        result = session.public.dump_result(ciphertext, session.kept)
        found = fuse(session.setup, result, 0, session.kept, session.partials(result, 0))
        wanted = sum(some(party, 0).astype(object) for party in pair) % PRIMES[0]
        assert np.mean(found.astype(object) == wanted) < 0.01


@pytest.mark.parametrize("parties", [2, 8])
def test_noise_of_products_is_as_derived(parties: int) -> None:
    session = joint(parties)
    product, _ = session.product(0)
    noise = session.scaled_noise(product)
    derived = product_deviation(PARAMETERS, parties, joint_keys=True)
    assert 0.6 < noise.std() / derived < 1.3
    assert np.abs(noise).max() < CONFIDENCE * derived


@pytest.mark.parametrize("parties", [2, 8])
def test_roundings_of_a_switched_result_grow_with_the_root_of_the_shares(parties: int) -> None:
    """The phase modulo q, less q/Q of the phase modulo Q: the roundings alone."""
    session = joint(parties)
    words = session.public.flood(session.product(0)[0]).words
    small = session.setup.result_part(session.kept)
    parts = [switched(session.half, each, session.kept) for each in np.split(words, 2)]
    before = centred(session.half, phase_of(session.half, words, session.secret))
    after = centred(small, phase_of(small, np.concatenate(parts), session.secret[: session.kept]))
    modulus, q = math.prod(session.half.moduli), math.prod(small.moduli)
    off = [(y * modulus - x * q) % (modulus * q) for x, y in zip(before, after, strict=True)]
    added = np.array([(each - modulus * q if each > modulus * q // 2 else each) / modulus for each in off])
    assert np.abs(added).max() < MODULUS_SWITCHING_BOUND * math.sqrt(parties)
    assert 0.8 < added.std() / math.sqrt((1 + SLOTS * parties * 2 / 3) / 12) < 1.25


@pytest.mark.parametrize("parties", [2, 8])
def test_no_joint_key_is_heavier_than_the_bound_on_roundings_supposes(parties: int) -> None:
    """Its coefficients' squares are 2/3 of K on average, and at most K: half as much again."""
    session = joint(parties)
    squares = np.array(centred(session.half, session.secret)) ** 2
    assert 0.6 < squares.mean() / parties < 0.74 < 1
    assert math.exp(-SLOTS / 2 * (1 / 2 - math.log(3 / 2))) < 2.0**-500


@pytest.mark.parametrize("parties", [2, 8])
def test_noise_of_a_switched_and_smudged_result_is_below_the_bound_and_what_decrypts(parties: int) -> None:
    session, plan = joint(parties), planned(parties)
    product, _ = session.product(0)
    result = session.public.dump_result(session.public.flood(product), plan.kept)
    half = session.setup.result_part(plan.kept)
    total = session.setup.fused(result_kind(PARAMETERS, 0, plan.kept), result, session.partials(result, 0), plan.kept)
    found = np.abs(noise_of(half, total, PRIMES[0])).max()
    q, modulus = math.prod(half.moduli), math.prod(session.half.moduli)
    ours = (2.0**PARAMETERS.flooding_bits + plan.noise_bound) * q / modulus
    smudged = parties * 2.0**plan.smudging_exponent
    bound = ours + MODULUS_SWITCHING_BOUND * math.sqrt(parties) + smudged
    assert smudged / parties < found < bound < q / (2 * PRIMES[0])


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_noise_that_a_plan_admits_decrypts(session: Joint, sign: int) -> None:
    """Flooding at its end, the bounds of product, roundings and everybody's smudging on top, in every coefficient."""
    plan, half = planned(3), session.half
    q, modulus = math.prod(half.moduli[: plan.kept]), math.prod(half.moduli)
    later = int(MODULUS_SWITCHING_BOUND * 2) + 3 * 2**plan.smudging_exponent
    added = sign * (2**PARAMETERS.flooding_bits + int(plan.noise_bound) + later * modulus // q)
    constant = np.array([[added % each] * SLOTS for each in half.moduli], np.uint64)
    values = [some(900 + party, 0) for party in range(3)]
    ciphertext = session.ciphertext(values, 0, next(session.blocks))
    half.add_in_place(ciphertext.words[: len(half.moduli)], values_of(half, constant))
    result = session.public.dump_result(ciphertext, plan.kept)
    _, second = session.setup.split_result(result_kind(PARAMETERS, 0, plan.kept), result, plan.kept)
    small = session.setup.result_part(plan.kept)
    exact = [small.multiply(second, share.secret_words[: plan.kept]) for share in session.shares]
    expected = [sum(column) % PRIMES[0] for column in zip(*(each.tolist() for each in values), strict=True)]
    assert fuse(session.setup, result, 0, plan.kept, exact).tolist() == expected


def test_smudging_is_uniform_and_hides_the_share_by_forty_bits(session: Joint, finished: Any) -> None:
    result, partials, _ = finished
    plan, half = planned(3), session.setup.result_part(session.kept)
    _, second = session.setup.split_result(result_kind(PARAMETERS, 1, plan.kept), result, plan.kept)
    added = partials[0].copy()
    half.subtract_in_place(added, half.multiply(second, session.shares[0].secret_words[: plan.kept]))
    smudging = np.array(centred(half, added), float) / 2.0**plan.smudging_exponent
    assert stats.kstest(smudging, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM
    dropped = math.prod(session.half.moduli[plan.kept :])
    hidden = noise_bound(PARAMETERS, 3, joint_keys=True) / dropped + MODULUS_SWITCHING_BOUND * math.sqrt(3)
    assert plan.smudging_exponent - math.log2(SLOTS * hidden) > plan.smudging_bits == 40


def test_no_two_partial_decryptions_of_a_share_are_alike(session: Joint, finished: Any) -> None:
    result, _, _ = finished
    exponent = planned(3).smudging_exponent
    made = {partial_decryption(session.shares[0], result, 1, session.kept, exponent) for _ in range(3)}
    assert len(made) == 3


def test_errors_of_all_parts_of_keys_are_large_enough(session: Joint) -> None:
    """At least 3.19, as the security table supposes; the library's own switching keys have 1."""
    share, setup = session.shares[0], session.setup
    public_key = session.half.unpack(session.parts[0].public_key)
    session.half.add_in_place(public_key, session.half.multiply(setup.common("public key"), share.secret_words))
    assert np.std(centred(session.half, public_key)) > 3.0
    shape = setup.relinearisation_part
    halves = setup.halves["relinearisation key"]
    h, g = halves.split(setup.key_parts[1].unpack(session.parts[0].relinearisation))
    common = setup.common("relinearisation key")
    ephemeral = setup.library.secret_key.words(save(share._ephemeral))
    for digit in range(len(h) // 4):
        rows = slice(4 * digit, 4 * digit + 4)
        factor = session.half.zeros()
        factor[digit // 2] = 2 ** (27 * (digit % 2))  # two digits of each prime
        error = h[rows].copy()
        session.half.add_in_place(error, session.half.multiply(common[rows], ephemeral))
        session.half.subtract_in_place(error, session.half.multiply(factor, share.secret_words))
        assert np.std(centred(session.half, error)) > 3.0
        error = g[rows].copy()
        session.half.subtract_in_place(error, session.half.multiply(common[rows], share.secret_words))
        assert np.std(centred(session.half, error)) > 3.0
    assert shape.shape == h.shape == g.shape


def test_a_ciphertext_is_encrypted_once_with_a_share(session: Joint) -> None:
    session.shares[0].encrypt(some(1, 0), 0, 300)
    for prime in (0, 1):
        with pytest.raises(ValueError, match="block 300 has been encrypted before"):
            session.shares[0].encrypt(some(1, prime), prime, 300)


def test_an_error_that_the_library_repeats_is_not_the_only_one(session: Joint, monkeypatch: pytest.MonkeyPatch) -> None:
    share, keys = session.shares[0], session.shares[0]._decryptor
    repeated = keys.encrypt(session.setup.schemes[0].zero)
    monkeypatch.setattr(keys, "encrypt", lambda plaintext: repeated)
    first = session.half.unpack(share.encrypt(some(1, 0), 0, 302))
    share._encrypted.remove(302)
    session.half.subtract_in_place(first, session.half.unpack(share.encrypt(some(1, 0), 0, 302)))
    assert np.var(centred(session.half, first)) == pytest.approx(2 * VARIANCE, rel=0.15)


def test_what_is_refused_does_not_use_a_ciphertext_up(session: Joint) -> None:
    with pytest.raises(ValueError, match="not in"):
        session.shares[0].encrypt(np.full(SLOTS, PRIMES[0]), 0, 301)
    session.shares[0].encrypt(some(1, 0), 0, 301)


def test_common_polynomials_differ_for_every_purpose_ciphertext_and_session(session: Joint) -> None:
    other = JointSetup(PARAMETERS, b"t" * 16)
    fewer = JointSetup(msgspec.structs.replace(PARAMETERS, plain_moduli=PRIMES[:1]), session.setup.binding)
    seen = {
        setup.common(purpose, index)[0].tobytes()
        for setup in (session.setup, other, fewer)
        for purpose in ("public key", "relinearisation key", "submission")
        for index in (0, 1, 2)
    }
    assert len(seen) == 27


def opens(session: Joint, result: bytes, prime: int, kept: int) -> list[Any]:
    """Both that a party does with a result."""
    return [
        lambda: fuse(session.setup, result, prime, kept, []),
        lambda: partial_decryption(session.shares[0], result, prime, kept, 20),
    ]


def test_another_primes_result_is_refused(session: Joint, finished: Any) -> None:
    for call in opens(session, finished[0], 0, session.kept):
        with pytest.raises(DeserialisationError, match=f"expected a result in 2 of 4 primes modulo {PRIMES[0]}"):
            call()


def test_a_result_that_keeps_other_primes_than_was_agreed_is_refused(session: Joint) -> None:
    """Also where it is said to keep these: then its bytes are too many or too few."""
    flooded = session.public.flood(session.product(0)[0])
    for sent in range(1, 5):
        result = session.public.dump_result(flooded, sent)
        _, payload = container.open_any(result_kind(PARAMETERS, 0, sent), result)
        for agreed in {1, 2, 3, 4} - {sent}:
            renamed = container.seal(result_kind(PARAMETERS, 0, agreed), session.public.fingerprint, payload)
            for data, shown in ((result, "expected a result"), (renamed, "bytes of coefficients")):
                for call in opens(session, data, 0, agreed):
                    with pytest.raises(DeserialisationError, match=shown):
                        call()
    for kept in (-1, 0, 5):
        for call in opens(session, result, 0, kept):
            with pytest.raises(ValueError, match=f"1 to 4 can be kept, got {kept}"):
                call()


def test_a_damaged_result_is_refused(session: Joint, finished: Any) -> None:
    result, _, _ = finished
    fingerprint, payload = container.open_any(result_kind(PARAMETERS, 1, session.kept), result)
    above = container.seal(result_kind(PARAMETERS, 1, session.kept), fingerprint, b"\xff" * 7 + payload[7:])
    flipped = bytearray(result)
    flipped[len(result) // 2] ^= 1
    for data in (result[:-1], result + b"\0", bytes(flipped), above):
        for call in opens(session, data, 1, session.kept):
            with pytest.raises(DeserialisationError):
                call()


def test_a_share_is_ternary_and_neither_shown_nor_pickled_nor_copied(session: Joint) -> None:
    found = [np.bincount(np.array(centred(session.half, share.secret_words)) + 1) for share in session.shares]
    assert all(len(counts) == 3 and stats.chisquare(counts).pvalue > FALSE_ALARM for counts in found)
    share = session.shares[0]
    assert repr(share) == f"<JointShare of session {session.setup.binding.hex()} (secret)>"
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            duplicate(share)


def test_the_joint_context_serialises_like_any_other(session: Joint) -> None:
    again = bfv.load_public(session.public.to_bytes())
    assert again.fingerprint == session.public.fingerprint
    assert again.to_bytes() == session.public.to_bytes()
