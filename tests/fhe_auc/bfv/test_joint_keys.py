"""Joint keys for BFV: only all parties together decrypt, exactly; no share shows."""

from __future__ import annotations

import copy
import math
import pickle
import secrets
from collections.abc import Iterable
from functools import cached_property
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from fhe_auc import bfv, ckks
from fhe_auc.bfv.ciphertext_noise import CONFIDENCE, integers, noise_bound, product_deviation
from fhe_auc.bfv.parameters import CHAINS, primes_above
from fhe_auc.errors import DeserialisationError
from fhe_auc.rlwe.polynomials import Polynomials, Sum, Words
from fhe_auc.rlwe.second_error import VARIANCE
from fhe_auc.rlwe.transform import coefficients_of
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.planner import plan_exact

if "openfhe" not in ckks.available_backends():
    pytest.skip("OpenFHE cannot be imported here", allow_module_level=True)

from fhe_auc.bfv.context import kind_of
from fhe_auc.bfv.openfhe_joint_keys import JointSetup, JointShare
from fhe_auc.bfv.openfhe_partial_decryption import fuse, partial_decryption
from fhe_auc.rlwe.openfhe_library import save

SLOTS = 8192
PRIMES = primes_above(2**41, 2, SLOTS)
(CHAIN,) = CHAINS["openfhe"]
PARAMETERS = bfv.BfvParameters("openfhe", SLOTS, CHAIN.modulus_bits, CHAIN.special_bits, PRIMES)
FALSE_ALARM = 1e-7


def planned(parties: int) -> ExactPlan:
    return plan_exact(thresholds=16, parties=parties, backend="openfhe", joint_keys=True)


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
        self.smudging = planned(parties).smudging_exponent

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

    def partials(self, result: bytes, prime: int) -> list[Words]:
        return [self.half.unpack(partial_decryption(share, result, prime, self.smudging)) for share in self.shares]

    def scaled_noise(self, ciphertext: bfv.Ciphertext) -> np.ndarray:
        first, second = np.split(ciphertext.words, 2)
        phase = first.copy()
        self.half.add_in_place(phase, self.half.multiply(second, self.secret))
        t, modulus = PRIMES[ciphertext.prime], math.prod(self.half.moduli)
        scaled = [t * each % modulus for each in integers(self.half, coefficients_of(self.half, phase))]
        return np.array([(each - modulus if each > modulus // 2 else each) / t for each in scaled])


def some(seed: int, prime: int) -> bfv.Residues:
    return np.random.default_rng(seed).integers(0, PRIMES[prime], SLOTS, dtype=np.uint64)


def centred(half: Polynomials, words: Words) -> list[int]:
    modulus = math.prod(half.moduli)
    found = integers(half, coefficients_of(half, words))
    return [each - modulus if each > modulus // 2 else each for each in found]


@pytest.fixture(scope="module")
def session() -> Joint:
    return Joint(3)


@pytest.fixture(scope="module")
def finished(session: Joint) -> tuple[bytes, list[Words], list[int]]:
    """A flooded product modulo the second prime, all partial decryptions, and what it is."""
    left, right = ([some(10 * side + party, 1) for party in range(3)] for side in (0, 1))
    product = session.public.multiply(session.ciphertext(left, 1, 100), session.ciphertext(right, 1, 101))
    blinded = session.public.multiply_values(product, np.full(SLOTS, PRIMES[1] // 2))
    result = session.public.dump_result(session.public.flood(blinded))
    sums = [[sum(column) for column in zip(*(each.tolist() for each in side), strict=True)] for side in (left, right)]
    expected = [x * y * (PRIMES[1] // 2) % PRIMES[1] for x, y in zip(*sums, strict=True)]
    return result, session.partials(result, 1), expected


def test_all_partial_decryptions_together_give_the_exact_product(session: Joint, finished: Any) -> None:
    result, partials, expected = finished
    assert fuse(session.setup, result, 1, partials).tolist() == expected


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_all_but_one_partial_decryption_give_nothing(session: Joint, finished: Any, missing: int) -> None:
    result, partials, expected = finished
    without = [each for party, each in enumerate(partials) if party != missing]
    agreeing = np.mean(fuse(session.setup, result, 1, without) == np.array(expected, np.uint64))
    assert agreeing < 0.01


def test_a_sum_that_lacks_a_party_decrypts_to_nothing_even_for_all(session: Joint) -> None:
    parts = [share.encrypt(some(party, 0), 0, 200) for party, share in enumerate(session.shares)]
    for pair in combinations(range(3), 2):
        total = summed(session.half, [parts[party] for party in pair])
        submission = session.setup.submission(total, 200, 0, session.public.fingerprint)
        ciphertext = session.public.ciphertext(session.public.read_submission(submission, 0), 0)
        result = session.public.dump_result(ciphertext)
        found = fuse(session.setup, result, 0, session.partials(result, 0))
        wanted = sum(some(party, 0).astype(object) for party in pair) % PRIMES[0]
        assert np.mean(found.astype(object) == wanted) < 0.01


@pytest.mark.parametrize("parties", [2, 8])
def test_noise_of_products_is_as_derived(parties: int) -> None:
    session = Joint(parties)
    left, right = (session.ciphertext([some(party, 0) for party in range(parties)], 0, block) for block in (0, 1))
    noise = session.scaled_noise(session.public.multiply(left, right))
    derived = product_deviation(PARAMETERS, parties, joint_keys=True)
    assert 0.6 < noise.std() / derived < 1.3
    assert np.abs(noise).max() < CONFIDENCE * derived


def test_smudging_is_uniform_and_hides_the_share_by_forty_bits(session: Joint, finished: Any) -> None:
    result, partials, _ = finished
    _, second = session.setup.split_result(kind_of("result", session.setup.parameters, 1), result)
    added = partials[0].copy()
    session.half.subtract_in_place(added, session.half.multiply(second, session.shares[0].secret_words))
    smudging = np.array(centred(session.half, added), float) / 2.0**session.smudging
    assert stats.kstest(smudging, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM
    hidden = noise_bound(PARAMETERS, 3, joint_keys=True)
    assert session.smudging - math.log2(SLOTS * hidden) > planned(3).smudging_bits == 40


def test_no_two_partial_decryptions_of_a_share_are_alike(session: Joint, finished: Any) -> None:
    result, _, _ = finished
    made = {partial_decryption(session.shares[0], result, 1, session.smudging) for _ in range(3)}
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


def test_another_primes_result_is_refused(session: Joint, finished: Any) -> None:
    result, partials, _ = finished
    for call in (
        lambda: fuse(session.setup, result, 0, partials),
        lambda: partial_decryption(session.shares[0], result, 0, session.smudging),
        lambda: partial_decryption(session.shares[0], result[:-1], 1, session.smudging),
    ):
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
