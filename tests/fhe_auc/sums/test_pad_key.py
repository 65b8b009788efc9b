"""Openings: sums under pads come out as the integers that they are, and nothing else does."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fhe_auc import bfv
from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.serialise import frame, unframe
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues, primes_above
from fhe_auc.sums import pads as pads_module
from fhe_auc.sums.layout import Layout
from fhe_auc.sums.pads import PadKey, make_pad_key, pads
from fhe_auc.sums.proof import CommonShares, authenticated
from fhe_auc.sums.terms import Factor, Part, Release, Sketch, Sum, Term
from tests.support import plain_sums
from tests.support.bfv_contexts import SLOTS, parameters_of
from tests.support.plain_sums import PRIMES
from tests.support.wire import flipped

MODULI = primes_above(2**41, 2, SLOTS)
KEPT = 3  # all primes of Q


pytestmark = pytest.mark.backends("one")  # sums are laid out alike on each


@pytest.fixture(scope="module")
def pair(backend: str) -> bfv.KeyPair:
    return bfv.generate(parameters_of(backend, MODULI))


@dataclass
class Pooled:
    """What parties with these sketches make of one session: M and V for each prime, and the sketches' sum."""

    release: Release
    sketches: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        self.values = [sum(column) for column in zip(*self.sketches, strict=True)]
        self.vectors = plain_sums.vectors_of(self.release.sketch, self.values)
        self.pads, self.padded = [], []
        for prime, modulus in enumerate(MODULI):
            size = self.release.sketch.size
            total, padded = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
            for party, sketch in enumerate(self.sketches):
                (own,) = pads([bytes([party]) * 32], bytes(32), [party], prime, modulus, size)
                total = (total + own) % np.uint64(modulus)
                padded = (padded + own + plain_sums.residues(sketch, modulus)) % np.uint64(modulus)
            self.pads.append(total)
            self.padded.append(padded)

    @property
    def expected(self) -> list[int]:
        values = (plain_sums.value(each, self.vectors) for each in self.release.sums)
        return [plain_sums.centred(each, math.prod(MODULI)) for each in values]


def opened(keys: bfv.KeyPair, pooled: Pooled) -> PadKey:
    """The pad key that a key holder makes of the pads, as the aggregator loads it."""
    releases = [pooled.release] * len(MODULI)
    return PadKey.load(keys.public, releases, make_pad_key(keys.secret, releases, pooled.pads))


def read(release: Release, keys: bfv.SecretContext, results: Sequence[bytes]) -> list[int]:
    """What a party reads off results."""
    layout, given = Layout.of(release, SLOTS), iter(results)
    slots = [[keys.decrypt(next(given), prime, KEPT) for _ in range(layout.layers)] for prime in range(len(MODULI))]
    return modular.centred([layout.totals(each, t) for each, t in zip(slots, MODULI, strict=True)], MODULI)


def sum_of(*factors: Factor, name: str = "s") -> Sum:
    return Sum(name, (Term(factors),))


P, N = (Factor((Part(each),)) for each in "pn")
WORSE = Factor((Part("n", "below"), Part("n", "above", -1)))
PRODUCT = Release(Sketch((("p", 5), ("n", 5))), (sum_of(P, N),))
SKETCHES = [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [0, 0, 1, 0, 0, 2, 2, 2, 2, 2]]


@pytest.mark.backends("all")
@given(plain_sums.releases(most_entries=100), st.data())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_encrypted_sums_are_those_of_the_sketches(pair: bfv.KeyPair, release: Release, data: st.DataObject) -> None:
    sketches = data.draw(st.lists(plain_sums.sketches(release.sketch), min_size=1, max_size=3))
    pooled = Pooled(release, sketches)
    assert read(release, pair.secret, opened(pair, pooled).result(pooled.padded, KEPT)) == pooled.expected


def test_sums_over_several_ciphertexts_come_out_and_a_result_hides_where_all_coefficients_vanish(
    pair: bfv.KeyPair,
) -> None:
    both = (sum_of(P, WORSE, name="difference"), sum_of(P, N, name="ties"))
    release, generator = authenticated(Release(Sketch((("p", 1400), ("n", 1400))), both)), np.random.default_rng(1)
    assert (Layout.of(release, SLOTS).ciphertexts, Layout.of(release, SLOTS).layers) == (3, 1)
    pooled = Pooled(release, generator.integers(0, 50, (3, release.sketch.size)).tolist())
    assert read(release, pair.secret, opened(pair, pooled).result(pooled.padded, KEPT)) == pooled.expected
    release = Release(PRODUCT.sketch, (sum_of(P, Factor(constants=(0,) * 5)),))
    pooled = Pooled(release, SKETCHES)
    results = opened(pair, pooled).result(pooled.padded, KEPT)
    assert read(release, pair.secret, results) == [0]
    assert np.unique(pair.secret.decrypt(results[0], 0, KEPT)).size > SLOTS - 10


@given(st.lists(st.sampled_from(PRIMES), min_size=1, max_size=4, unique=True), st.data())
def test_integers_are_found_from_one_end_of_their_range_to_the_other(moduli: list[int], data: st.DataObject) -> None:
    half = math.prod(moduli) // 2
    sums = data.draw(st.lists(st.one_of(st.integers(-half, half), st.sampled_from([-half, half, 0])), min_size=1))
    assert modular.centred([plain_sums.residues(sums, t) for t in moduli], moduli) == sums


def test_two_results_of_one_session_share_no_slot_but_their_totals(pair: bfv.KeyPair) -> None:
    pooled = Pooled(PRODUCT, SKETCHES)
    pad_key, layout = opened(pair, pooled), Layout.of(PRODUCT, SLOTS)
    one, other = (pair.secret.decrypt(pad_key.result(pooled.padded, KEPT)[0], 0, KEPT) for _ in range(2))
    assert (one == other).sum() <= 1
    assert layout.totals([one], MODULI[0]) == layout.totals([other], MODULI[0])


def test_a_pad_key_for_other_sums_keys_or_primes_damaged_or_of_another_number_of_ciphertexts_is_refused(
    pair: bfv.KeyPair, backend: str
) -> None:
    data = make_pad_key(pair.secret, [PRODUCT] * 2, Pooled(PRODUCT, SKETCHES).pads)
    for damaged in (b"", data[:-1], data + b"\0", flipped(data, 1000), pair.public.to_bytes()):
        with pytest.raises(DeserialisationError):
            PadKey.load(pair.public, [PRODUCT] * 2, damaged)
    swapped = Release(PRODUCT.sketch, (sum_of(N, P),))  # of as many ciphertexts of the same size
    with pytest.raises(DeserialisationError, match="for other sums") as caught:
        PadKey.load(pair.public, [PRODUCT, swapped], data)
    assert caught.value.field == "release"
    with pytest.raises(DeserialisationError, match="made under another key"):
        PadKey.load(bfv.generate(parameters_of(backend, MODULI)).public, [PRODUCT] * 2, data)
    stored = unframe(pads_module._MAGIC, data, pads_module._Stored, "pad key")
    exchanged = msgspec.structs.replace(stored, ciphertexts=stored.ciphertexts[::-1])
    with pytest.raises(DeserialisationError, match=f"expected a submission modulo {MODULI[0]}"):
        PadKey.load(pair.public, [PRODUCT] * 2, frame(pads_module._MAGIC, exchanged))
    one, other = stored.ciphertexts
    for ciphertexts in ((), (one,), (one, (), other), (one, ()), ((), other + one), (one, other * 2), (one + other,)):
        changed = msgspec.structs.replace(stored, ciphertexts=ciphertexts)
        with pytest.raises(DeserialisationError, match="has 2 ciphertexts"):
            PadKey.load(pair.public, [PRODUCT] * 2, frame(pads_module._MAGIC, changed))


# --- Pads -------------------------------------------------------------------------------------------------------------


SEED, MANIFEST = bytes(range(32)), bytes(range(32, 64))
T41, T42, T50 = 2199023255531, 2199023288321, 2**50 - 27


def by_hand(seed: bytes, manifest: bytes, party: int, prime: int, modulus: int, size: int) -> list[int]:
    """The same from the standards (RFC 5869, RFC 8439), one word after another.

    Where the modulus nearly is a power of two, of each word as many low bits are taken as it has; otherwise all 64.
    Numbers at or above its largest multiple are left out.
    """
    info = b"fhe-auc pad 1\0" + msgspec.msgpack.encode((party, prime))
    key = HKDF(hashes.SHA256(), 32, manifest, info).derive(seed)
    drawn = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * 4 * size))
    bits = modulus.bit_length() if modulus > 0.99 * 2 ** modulus.bit_length() else 64
    words = (int.from_bytes(drawn[start : start + 8], "little") % 2**bits for start in itertools.count(0, 8))
    limit = 2**bits // modulus * modulus
    return [word % modulus for word in itertools.islice((word for word in words if word < limit), size)]


def pad(seed: bytes, session: bytes, party: int, prime: int, modulus: int, size: int) -> Residues:
    """A party's, beside another one's."""
    return pads([bytes(32), seed], session, [5, party], prime, modulus, size)[1]


@pytest.mark.parametrize("modulus", [T41, T42, T50, 2**56 - 5, 257, 127, 101, 3])
def test_pads_are_those_of_the_standards(modulus: int) -> None:
    """Modulo 127 words are left out, one in 128. A shorter pad is the beginning of a longer one."""
    longer = pad(SEED, MANIFEST, 2, 1, modulus, 5000).tolist()
    assert longer == by_hand(SEED, MANIFEST, 2, 1, modulus, 5000)
    assert all(pad(SEED, MANIFEST, 2, 1, modulus, size).tolist() == longer[:size] for size in (1, 4, 100, 1000))


T = 2**41 + 27


def shares(secret: bytes = SEED, modulus: int = T, size: int = 3) -> CommonShares:
    return CommonShares(secret, bytes(32), b"a test", "share", modulus=modulus, size=size)


def test_shares_are_pinned_not_printed_and_summed_over_some_parties_once_each_in_order() -> None:
    """All parties derive them, on whatever machine and version."""
    assert shares().total([2, 3]).tolist() == [115587315686, 1786759923759, 1598852606488]
    assert repr(shares()) == "CommonShares(...)"
    for counted in ([0, 0], [1, 0], [0, 2, 2], [-1, 0], []):
        with pytest.raises(InputError, match="once each" if counted else "no parties"):
            shares().total(counted)
    for call in (lambda seed: shares(seed).total([0]), lambda seed: pad(seed, MANIFEST, 0, 0, T42, 1)):
        for seed in (b"", bytes(31), bytes(33)):
            with pytest.raises(InputError, match=f"32 bytes, got {len(seed)}"):
                call(seed)
