"""Joint keys for BFV: only all parties together decrypt, exactly, what is left of a result; no share shows.

No library takes part. Where a test has an oracle it is Python's integers, or SEAL with the key that nobody has.
"""

import copy
import math
import pickle
import secrets
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache, partial
from itertools import combinations, count
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from fhe_auc import bfv, ckks
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.bfv.context import encoded
from fhe_auc.bfv.joint_keys import JointEvaluator, JointSetup, JointShare, fuse
from fhe_auc.bfv.parameters import CONFIDENCE, JOINT_CHAINS, product_bound, product_deviation
from fhe_auc.rlwe import ciphertexts
from fhe_auc.rlwe.ciphertexts import VARIANCE, phase_of, unwrap, wrap
from fhe_auc.rlwe.modular import primes_above
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words, coefficients_of, values_of
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.protocol import plan_exact
from tests.support import bfv_contexts
from tests.support.bfv_contexts import SLOTS
from tests.support.polynomials import integers, polynomial, signed
from tests.support.wire import flipped

PRIMES = (*primes_above(2**41, 1, SLOTS), *primes_above(2**49, 1, SLOTS))
PARAMETERS = bfv.BfvParameters("tenseal", SLOTS, JOINT_CHAINS[0].modulus_bits, JOINT_CHAINS[0].special_bits, PRIMES)
PRODUCTS, KEPT = 2, 3
NO_MASK = np.zeros(SLOTS, np.uint64)
FALSE_ALARM = 1e-8


def planned(parties: int) -> ExactPlan:
    return plan_exact(thresholds=16, parties=parties, backend="tenseal", joint_keys=True)


def added(polynomials: Polynomials, parts: Iterable[Words]) -> Words:
    total = PolynomialSum(polynomials)
    for part in parts:
        total.add(part)
    return total.words


def summed(polynomials: Polynomials, packed: Iterable[bytes]) -> Words:
    return added(polynomials, map(polynomials.unpack, packed))


class Joint:
    """All parties of a session, and the keys that they made."""

    def __init__(self, parties: int, *, products: int = PRODUCTS, kept: int = KEPT) -> None:
        self.setup = setup = JointSetup(PARAMETERS, secrets.token_bytes(32), products=products, kept=kept)
        self.half, self.small = setup.submission_part, setup.result_part
        self.shares = [JointShare(setup) for _ in range(parties)]
        self.parts = [share.key_parts() for share in self.shares]
        self.sums = [
            summed(shape, column) for shape, column in zip(setup.key_parts, zip(*self.parts, strict=True), strict=True)
        ]
        second = [share.relinearisation_part(self.sums[1]) for share in self.shares]
        self.evaluator = JointEvaluator(setup, self.sums, summed(setup.relinearisation_part, second))
        self.seeds = count(1)

    @cached_property
    def secret(self) -> Words:
        """The secret key that nobody has."""
        return added(self.half, (share.secret_words for share in self.shares))

    def total(self, values: Sequence[bfv.Residues], prime: int, block: int) -> Words:
        for share in self.shares:
            share._encrypted.discard(block)  # each test has a session of its own
        parts = [share.encrypt(each, prime, block) for share, each in zip(self.shares, values, strict=True)]
        return summed(self.half, parts)

    def product(self, prime: int) -> tuple[Words, list[int]]:
        """The sum of products of two sums, of what every party has encrypted in two ciphertexts, and what it holds."""
        blocks, t = self.setup.blocks(prime), PRIMES[prime]
        values = [[some(next(self.seeds), prime) for _ in self.shares] for _ in blocks]
        totals = [self.total(each, prime, block) for each, block in zip(values, blocks, strict=True)]
        sums = iter([[sum(column) for column in zip(*(x.tolist() for x in each), strict=True)] for each in values])
        products = [[x * y for x, y in zip(*pair, strict=True)] for pair in zip(sums, sums, strict=True)]
        return self.evaluator.product(totals, prime), [sum(column) % t for column in zip(*products, strict=True)]

    def result(self, prime: int, exponent: int = 80) -> tuple[bytes, list[int]]:
        product, expected = self.product(prime)
        self.evaluator.flood(product, exponent)
        return self.evaluator.dump_result(product, prime), expected

    def partials(self, result: bytes, prime: int, exponent: int = 80) -> list[Words]:
        made = (share.partial_decryption(result, prime, exponent, NO_MASK) for share in self.shares)
        return [self.small.unpack(each) for each in made]

    def noise(self, words: Words, prime: int) -> np.ndarray:
        t, q = PRIMES[prime], math.prod(self.small.moduli)
        phase = phase_of(self.small, words, self.secret[: self.setup.kept])
        scaled = [t * each % q for each in integers(self.small, coefficients_of(self.small, phase))]
        return np.array([(each - q if each > q // 2 else each) / t for each in scaled])


def some(seed: int, prime: int) -> bfv.Residues:
    return bfv_contexts.some(seed, PRIMES[prime])


def centred(half: Polynomials, words: Words) -> list[int]:
    return signed(half, coefficients_of(half, words))


@lru_cache
def joint(parties: int) -> Joint:
    return Joint(parties)


@pytest.fixture(scope="module")
def session() -> Joint:
    return joint(3)


@pytest.fixture(scope="module")
def finished(session: Joint) -> tuple[bytes, list[Words], list[int]]:
    """A flooded sum of products modulo the second prime, all partial decryptions, and what it is."""
    result, expected = session.result(1)
    return result, session.partials(result, 1), expected


def test_all_partial_decryptions_give_the_exact_sum_and_without_one_nothing(session: Joint, finished: Any) -> None:
    result, partials, expected = finished
    assert fuse(session.setup, result, 1, partials).tolist() == expected
    for without in combinations(partials, 2):
        assert np.mean(fuse(session.setup, result, 1, without) == np.array(expected, np.uint64)) < 0.01


@pytest.mark.parametrize("kept", [pytest.param(2, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize("products", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_however_much_of_the_modulus_is_kept_products_are_exact(kept: int, products: int) -> None:
    session = Joint(2, products=products, kept=kept)
    result, expected = session.result(0, 45)
    assert fuse(session.setup, result, 0, session.partials(result, 0, 45)).tolist() == expected
    assert 0 <= len(result) - 2 * 6 * kept * SLOTS < 200


@pytest.mark.skipif("tenseal" not in ckks.available_backends(), reason="TenSEAL cannot be imported here")
def test_seal_decrypts_sums_and_products_with_the_key_that_nobody_has(session: Joint) -> None:
    for prime in (0, 1):
        block, values = session.setup.blocks(prime)[0], [some(700 + party, prime) for party in range(3)]
        total = session.total(values, prime, block)
        found = seal_decrypted(session, np.concatenate((total, session.setup.common(block))), prime)
        columns = zip(*(x.tolist() for x in values), strict=True)
        assert found.tolist() == [sum(column) % PRIMES[prime] for column in columns]
        product, expected = session.product(prime)
        assert seal_decrypted(session, product, prime).tolist() == expected


def seal_decrypted(session: Joint, words: Words, prime: int) -> bfv.Residues:
    """The slots of a ciphertext modulo some first primes of Q, by SEAL's own decryption under the sum of all shares."""
    import tenseal.sealapi as seal

    from fhe_auc.rlwe import seal_library
    from fhe_auc.rlwe.context import CoefficientLayout

    moduli = session.half.moduli[: len(words) // 2]
    special = primes_above(2**25, 1, SLOTS)  # SEAL asks for one more
    settings = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV)
    settings.set_poly_modulus_degree(SLOTS)
    settings.set_coeff_modulus([seal.Modulus(each) for each in (*moduli, *special)])
    settings.set_plain_modulus(PRIMES[prime])
    context = seal.SEALContext(settings, True, seal.SEC_LEVEL_TYPE.TC128)
    evaluator, fresh = seal.Evaluator(context), seal.KeyGenerator(context).secret_key()
    everywhere = Polynomials(SLOTS, (*moduli, *special))
    key_words = polynomial(everywhere, centred(session.half, session.secret))
    runs = partial(seal_library._polynomials, ring_dimension=SLOTS, moduli=everywhere.moduli)
    key = seal.SecretKey()
    with seal_library._private_file(CoefficientLayout(seal_library.save(fresh), SLOTS, runs).raw(key_words)) as path:
        key.load(context, path)
    template = seal.Ciphertext()
    seal.Encryptor(context, fresh).encrypt_zero_symmetric(template)
    evaluator.transform_to_ntt_inplace(template)
    runs, ciphertext = partial(seal_library._polynomials, ring_dimension=SLOTS, moduli=moduli), seal.Ciphertext()
    with seal_library._private_file(CoefficientLayout(seal_library.save(template), SLOTS, runs).raw(words)) as path:
        ciphertext.load(context, path)
    evaluator.transform_from_ntt_inplace(ciphertext)
    plain = seal.Plaintext()
    seal.Decryptor(context, key).decrypt(ciphertext, plain)
    found = np.zeros((1, SLOTS), np.uint64)
    found[0, : plain.coeff_count()] = [plain[index] for index in range(plain.coeff_count())]
    return values_of(Polynomials(SLOTS, (PRIMES[prime],)), found).ravel()


def test_masks_of_all_parties_and_of_the_aggregator_add_up(session: Joint) -> None:
    product, expected = session.product(0)
    masks = [some(600 + party, 0) for party in range(4)]
    session.evaluator.add_values(product, masks[3], 0)
    result = session.evaluator.dump_result(product, 0)
    partials = [
        session.small.unpack(share.partial_decryption(result, 0, 60, mask))
        for share, mask in zip(session.shares, masks, strict=False)
    ]
    columns = zip(expected, *(mask.tolist() for mask in masks), strict=True)
    assert fuse(session.setup, result, 0, partials).tolist() == [sum(column) % PRIMES[0] for column in columns]


def test_a_sum_that_lacks_a_party_decrypts_to_nothing_even_for_all() -> None:
    session = Joint(3, products=1)
    blocks = session.setup.blocks(0)
    parts = [[share.encrypt(np.full(SLOTS, 5), 0, block) for share in session.shares] for block in blocks]
    for present in (*combinations(range(3), 2), (0, 1, 2)):
        totals = [summed(session.half, [parts[block][party] for party in present]) for block in blocks]
        result = session.evaluator.dump_result(session.evaluator.product(totals, 0), 0)
        found = fuse(session.setup, result, 0, session.partials(result, 0))
        agreeing = np.mean(found == (5 * len(present)) ** 2)
        assert agreeing == 1 if len(present) == 3 else agreeing < 0.01


@pytest.mark.parametrize("prime", [0, 1])
@pytest.mark.parametrize("parties", [2, *(pytest.param(parties, marks=pytest.mark.slow) for parties in (8, 60))])
def test_noise_of_products_is_as_derived_and_their_plan_hides_it(parties: int, prime: int) -> None:
    """Of the small modulus it is roundings, and of the large one what multiplying makes."""
    session, plan = joint(parties), planned(parties)
    noise = session.noise(session.product(prime)[0], prime)
    parameters = msgspec.structs.replace(PARAMETERS, plain_moduli=PRIMES[prime : prime + 1])
    derived = product_deviation(parameters, parties, products=PRODUCTS, kept=KEPT)
    assert 0.75 < noise.std() / derived < 1.25
    assert np.abs(noise).max() < CONFIDENCE * derived
    if prime == 0:  # the plan's
        for exponent in (plan.smudging_exponent, plan.flooding_exponent):
            assert exponent - math.log2(SLOTS * np.abs(noise).max()) > 40


def test_keys_and_the_zero_of_flooding_add_what_is_derived_and_flooding_is_uniform(session: Joint) -> None:
    """The relinearisation key encrypts w·S² but for r + S·h + U·g, and the zero is one but for b·v + e + S·e'."""
    small, secret, norm = session.small, session.secret[:KEPT], SLOTS * 3 * 2 / 3
    for prime, switched in enumerate(session.setup.switched_keys()):
        pair = session.evaluator._first[prime], session.evaluator._second[prime]
        error = phase_of(small, np.concatenate(pair), secret)
        small.subtract_in_place(error, small.multiply(switched, small.multiply(secret, secret)))
        assert 0.8 < np.std(centred(small, error)) / math.sqrt(3 * VARIANCE * (1 + 2 * norm)) < 1.25
    zero = np.concatenate((small.zeros(), small.zeros()))
    session.evaluator.flood(zero, 0)
    error = phase_of(small, zero, secret)
    assert 0.8 < np.std(centred(small, error)) / math.sqrt(VARIANCE * (1 + 2 * norm)) < 1.25
    product, _ = session.product(0)
    flooded = product.copy()
    session.evaluator.flood(flooded, 80)
    assert ((product == flooded).mean(axis=1) < 0.01).all()
    added = session.noise(flooded, 0) - session.noise(product, 0)
    assert stats.kstest(added / 2.0**80, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_noise_that_a_plan_admits_decrypts(sign: int) -> None:
    """Flooding at its end, the bound of the product and everybody's smudging on top, in every coefficient."""
    plan = planned(3)
    setup = JointSetup(plan.parameters, bytes(32), products=plan.layout.ciphertexts, kept=plan.kept)
    half, (t,) = setup.result_part, plan.parameters.plain_moduli
    added = sign * (2**plan.flooding_exponent + math.ceil(plan.noise_bound) + 3 * 2**plan.smudging_exponent)
    values = np.random.default_rng(1).integers(0, t, SLOTS, dtype=np.uint64)
    message = encoded(half, t, values)
    half.add_in_place(message, np.array([[added % each] * SLOTS for each in half.moduli], np.uint64))
    words = np.concatenate((values_of(half, message), half.uniform(bytes(32))))
    kind = setup.result_kind(0)
    result = wrap(kind, bytes(32), Polynomials(SLOTS, 2 * half.moduli).pack(words))
    assert fuse(setup, result, 0, []).tolist() == values.tolist()


def test_smudging_is_uniform_hides_the_share_by_forty_bits_and_is_never_the_same(session: Joint, finished: Any) -> None:
    result, plan = finished[0], planned(3)
    partials = session.partials(result, 1, plan.smudging_exponent)
    _, second = session.setup.split_result(session.setup.result_kind(1), result)
    added = partials[0].copy()
    session.small.subtract_in_place(added, session.small.multiply(second, session.shares[0].secret_words[:KEPT]))
    smudging = np.array(centred(session.small, added), float) / 2.0**plan.smudging_exponent
    assert stats.kstest(smudging, stats.uniform(-1, 2).cdf).pvalue > FALSE_ALARM
    bound = product_bound(plan.parameters, 3, products=plan.layout.ciphertexts, kept=plan.kept)
    assert plan.smudging_exponent - math.log2(SLOTS * bound) > plan.smudging_bits == 40
    made = {session.shares[0].partial_decryption(finished[0], 1, 60, NO_MASK) for _ in range(3)}
    assert len(made) == 3


def test_errors_of_all_parts_are_as_large_as_the_security_table_supposes(session: Joint) -> None:
    """Each part is its error, of standard deviation 3.24, once what it should hold is taken away."""
    small, half, setup, share = session.small, session.half, session.setup, session.shares[0]
    secret, ephemeral = share.secret_words[:KEPT], share._ephemeral
    errors = []

    def left(shape: Polynomials, part: Words, *taken: tuple[Words, Words]) -> None:
        rest = part.copy()
        for x, y in taken:
            shape.subtract_in_place(rest, shape.multiply(x, y))
        errors.append(np.array(centred(shape, rest)))

    def minus(shape: Polynomials, words: Words) -> Words:
        found = shape.zeros()
        shape.subtract_in_place(found, words)
        return found

    common = small.uniform(setup.seed("public key", 0))
    left(small, small.unpack(session.parts[0].public_key), (minus(small, common), secret))
    whole = np.split(setup.key_parts[1].unpack(session.parts[0].relinearisation), 4)
    second = np.split(setup.relinearisation_part.unpack(share.relinearisation_part(session.sums[1])), 2)
    sums = np.split(session.sums[1], 4)
    for prime, switched in enumerate(setup.switched_keys()):
        common = small.uniform(setup.seed("relinearisation key", prime))
        left(small, whole[prime], (minus(small, common), ephemeral), (switched, secret))
        left(small, whole[2 + prime], (common, secret))
        h, g = sums[prime], sums[2 + prime]
        left(small, second[prime], (h, secret), (g, ephemeral), (minus(small, g), secret))
    part = half.unpack(share.encrypt(np.zeros(SLOTS, int), 0, 500))
    left(half, part, (minus(half, setup.common(500)), share.secret_words))
    assert len(errors) == 8
    for error in errors:
        assert np.abs(error).max() <= 21
        assert (error**2).mean() == pytest.approx(VARIANCE, rel=0.15)  # of 8192 values it is off by 0.016
    assert np.abs(np.corrcoef(errors) - np.eye(8)).max() < 0.1  # no two parts have the same


@pytest.mark.parametrize("bits", [pytest.param(16, marks=pytest.mark.slow), 24])
def test_a_usual_relinearisation_key_yields_one_of_this_form_by_a_public_linear_combination(bits: int) -> None:
    """The map of `fhe_auc.bfv.joint_keys`, in its letters, for two parties."""
    setup = JointSetup(PARAMETERS, secrets.token_bytes(32), products=1, kept=KEPT)
    shape, (w, *_) = setup.result_part, setup.switched_keys()
    shares = [JointShare(setup) for _ in range(2)]
    s, u = [share._secret_modulo_q for share in shares], [share._ephemeral for share in shares]
    digits = range(-(-math.prod(shape.moduli).bit_length() // bits))

    def plus(*words: Words) -> Words:
        return added(shape, words)

    def minus(left: Words, *right: Words) -> Words:
        found = left.copy()
        for each in right:
            shape.subtract_in_place(found, each)
        return found

    # The usual key: for each digit j, of each party i.
    a = [shape.uniform(secrets.token_bytes(32)) for _ in digits]
    p = [np.array([[pow(2, bits * j, each)] * SLOTS for each in shape.moduli], np.uint64) for j in digits]
    h, g, r = [], [], []
    for i, share in enumerate(shares):
        h.append([share._sample(shape, a[j], u[i], shape.multiply(p[j], s[i])) for j in digits])
        g.append([share._sample(shape, minus(shape.zeros(), a[j]), s[i]) for j in digits])
    sums = [(plus(*(each[j] for each in h)), plus(*(each[j] for each in g))) for j in digits]
    for i, share in enumerate(shares):
        terms = [(shape.multiply(x, s[i]), shape.multiply(y, u[i])) for x, y in sums]
        r.append([share._sample(shape, sums[j][1], s[i], *terms[j]) for j in digits])
    # The map, which takes no secret.
    small, left = [], centred(shape, w)
    for _ in digits[1:]:
        small.append([(each + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for each in left])
        left = [(each - digit) >> bits for each, digit in zip(left, small[-1], strict=True)]
    small.append(left)
    w_j = [polynomial(shape, row) for row in small]

    def mapped(parts: Sequence[Words]) -> Words:
        return plus(*(shape.multiply(x, y) for x, y in zip(w_j, parts, strict=True)))

    assert np.array_equal(mapped(p), w)
    h_, g_, r_ = ([mapped(each) for each in parts] for parts in (h, g, r))
    big_h, big_g, a_ = plus(*h_), plus(*g_), mapped(a)
    # What depends on the secrets is that of this key, exactly; what is left is noise as stated.
    deviation = math.sqrt(VARIANCE * sum(x * x for each in small for x in each))
    assert deviation == pytest.approx(math.sqrt(VARIANCE * len(digits) * SLOTS / 12) * 2**bits, rel=0.01)
    for i in range(2):
        for noise in (
            minus(plus(h_[i], shape.multiply(a_, u[i])), shape.multiply(w, s[i])),
            minus(g_[i], shape.multiply(a_, s[i])),
            minus(plus(r_[i], shape.multiply(big_g, s[i])), shape.multiply(big_h, s[i]), shape.multiply(big_g, u[i])),
        ):
            found = centred(shape, noise)
            assert max(map(abs, found)) < CONFIDENCE * deviation
            assert math.sqrt(sum(each * each for each in found) / SLOTS) == pytest.approx(deviation, rel=0.1)
    secret = plus(*s)
    switched = minus(plus(*r_, shape.multiply(big_g, secret)), shape.multiply(w, shape.multiply(secret, secret)))
    bound = CONFIDENCE * deviation * math.sqrt(2 * (1 + 2 * SLOTS * 2 * 2 / 3))
    assert max(map(abs, centred(shape, switched))) < bound


def test_a_ciphertext_is_encrypted_once_with_a_share_and_what_is_refused_uses_none_up(session: Joint) -> None:
    share = JointShare(joint(3).setup)
    share.encrypt(some(1, 0), 0, 300)
    again = JointShare.restored(joint(3).setup, share.saved())
    for prime, each in ((0, share), (1, share), (0, again)):
        with pytest.raises(ValueError, match="block 300 has been encrypted before"):
            each.encrypt(some(1, prime), prime, 300)
    share = JointShare(session.setup)
    with pytest.raises(ValueError, match="not in"):
        share.encrypt(np.full(SLOTS, PRIMES[0]), 0, 301)
    share.encrypt(some(1, 0), 0, 301)


def test_a_share_is_ternary_and_not_shown_and_a_saved_one_makes_what_it_makes_itself(session: Joint) -> None:
    share = session.shares[0]
    again = JointShare.restored(session.setup, share.saved())
    assert np.array_equal(again.secret_words, share.secret_words)
    assert np.array_equal(again._ephemeral, share._ephemeral)
    with pytest.raises(DeserialisationError, match="share of a secret key"):
        JointShare.restored(session.setup, share.saved()[:-1])
    secrets_of = [share.secret_words[:KEPT] for share in session.shares]
    for words in (*secrets_of, *(share._ephemeral for share in session.shares)):
        counts = np.bincount(np.array(centred(session.small, words)) + 1)
        assert len(counts) == 3
        assert stats.chisquare(counts).pvalue > FALSE_ALARM
    share = session.shares[0]
    assert repr(share) == f"<JointShare of session {session.setup.binding.hex()} (secret)>"
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            duplicate(share)


def test_repeated_randomness_makes_other_errors_for_other_messages(
    session: Joint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is resumed twice from one snapshot: under the same error the messages' difference would show."""
    monkeypatch.setattr(ciphertexts.secrets, "token_bytes", bytes)
    share = session.shares[0]
    first, second = (session.half.unpack(share.encrypt(np.full(SLOTS, each), 0, 302 + each)) for each in (0, 1))
    errors = []
    for value, part in enumerate((first, second)):
        message = encoded(session.half, PRIMES[0], np.full(SLOTS, value, np.uint64))
        session.half.add_in_place(part, session.half.multiply(session.setup.common(302 + value), share.secret_words))
        session.half.subtract_in_place(part, values_of(session.half, message))
        errors.append(np.array(centred(session.half, part)))
    assert np.var(errors[0] - errors[1]) == pytest.approx(2 * VARIANCE, rel=0.15)


def test_common_polynomials_differ_everywhere_and_all_find_the_same_one_to_switch(session: Joint) -> None:
    other = JointSetup(PARAMETERS, b"t" * 32, products=1, kept=3)
    fewer = msgspec.structs.replace(PARAMETERS, plain_moduli=PRIMES[:1])
    setups = session.setup, other, JointSetup(fewer, session.setup.binding, products=1, kept=3)
    seen = {
        setup.seed(purpose, index)
        for setup in setups
        for purpose in ("public key", "relinearisation key", "submission")
        for index in (0, 1, 2)
    }
    assert len(seen) == 27
    # It depends on the session and nothing else: nobody chooses it. Computed anew, it is the same.
    found = session.setup.switched_keys()
    JointSetup(PARAMETERS, b"u" * 32, products=PRODUCTS, kept=KEPT).switched_keys()  # takes its place in the memory
    again = JointSetup(PARAMETERS, session.setup.binding, products=PRODUCTS, kept=KEPT).switched_keys()
    assert all(x is not y and np.array_equal(x, y) for x, y in zip(found, again, strict=True))


def refused(session: Joint, result: bytes, prime: int, why: str | None = None) -> None:
    """By both that a party does with a result."""
    for call in (
        lambda: fuse(session.setup, result, prime, []),
        lambda: session.shares[0].partial_decryption(result, prime, 20, NO_MASK),
    ):
        with pytest.raises(DeserialisationError, match=why):
            call()


def test_results_of_other_primes_and_sessions_and_damaged_ones_are_refused(session: Joint, finished: Any) -> None:
    result, kind = finished[0], session.setup.result_kind(1)
    refused(session, result, 0, f"expected a joint result modulo {PRIMES[0]}")
    refused(Joint(1), result, 1, "made under another key")
    fingerprint, payload = unwrap(kind, result)
    above = wrap(kind, fingerprint, b"\xff" * 6 + payload[6:])
    for data in (result[:-1], result + b"\0", flipped(result, 20), above):
        refused(session, data, 1)


def test_results_that_keep_other_primes_or_hide_nothing_are_refused(session: Joint) -> None:
    def forged(words: Words) -> bytes:
        shape = Polynomials(SLOTS, 2 * session.half.moduli[: len(words) // 2])
        return wrap(session.setup.result_kind(0), session.setup.binding, shape.pack(words))

    for kept in (1, 2, 4):
        shape = Polynomials(SLOTS, 2 * session.half.moduli[:kept])
        refused(session, forged(shape.uniform(bytes(32))), 0, "bytes of coefficients")
    for kept in (-1, 0, 5):
        with pytest.raises(ValueError, match=f"1 to 4 can be kept, got {kept}"):
            JointSetup(PARAMETERS, bytes(32), products=1, kept=kept)
    for second in (0, 1):  # with c1 = 1 a party would publish its share, but for the smudging
        small = session.small
        words = np.concatenate((small.uniform(bytes(32)), small.zeros() + np.uint64(second)))
        refused(session, forged(words), 0, "not a ciphertext: ")
