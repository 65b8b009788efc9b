"""Pads and what parties derive in common: pinned, uniform, and none is another's."""

import itertools

import msgspec
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.rlwe import modular
from fhe_auc.sums.pads import pad
from fhe_auc.sums.proof import CommonShares

SEED, MANIFEST = bytes(range(32)), bytes(range(32, 64))
T41, T42, T50 = 2199023255531, 2199023288321, 2**50 - 27

PINNED = {
    T41: [1280870795994, 660207097097, 566651445743, 421757447352],
    T42: [1037089752774, 595097551772, 354044699138, 363836601402],
    T50: [45261335907034, 803303695373577, 1084685116432879, 277498687646904],
    127: [90, 9, 111, 56],
    101: [65, 44, 89, 6],
}


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


@pytest.mark.parametrize("modulus", PINNED)
def test_pads_are_those_that_are_pinned_and_those_of_the_standards(modulus: int) -> None:
    """Modulo 127 words are left out, one in 128. A shorter pad is the beginning of a longer one."""
    longer = pad(SEED, MANIFEST, 2, 1, modulus, 5000).tolist()
    assert longer == by_hand(SEED, MANIFEST, 2, 1, modulus, 5000)
    assert longer[:4] == PINNED[modulus]
    assert all(pad(SEED, MANIFEST, 2, 1, modulus, size).tolist() == longer[:size] for size in (1, 4, 100, 1000))


def test_every_party_prime_session_and_seed_has_a_pad_of_its_own_and_a_seed_has_32_bytes() -> None:
    choices = [(SEED, bytes(32)), (MANIFEST, bytes(31) + b"\1"), (0, 1, 300), (0, 1, 300)]
    drawn = [pad(*choice, T42, 3).tobytes() for choice in itertools.product(*choices)]
    assert len(set(drawn)) == len(drawn) == 36
    assert drawn == [pad(*choice, T42, 3).tobytes() for choice in itertools.product(*choices)]
    for seed in (b"", bytes(31), bytes(33)):
        with pytest.raises(InputError, match="32 bytes"):
            pad(seed, MANIFEST, 0, 0, T42, 1)


T = 2**41 + 27


def shares(secret: bytes = SEED, modulus: int = T, size: int = 3) -> CommonShares:
    return CommonShares(secret, bytes(32), b"a test", "share", modulus=modulus, size=size)


@given(st.sets(st.integers(0, 40), min_size=1))
@settings(max_examples=30)
def test_a_total_is_the_sum_of_each_party_s_own(counted: set[int]) -> None:
    each = [shares().total([party]).tolist() for party in sorted(counted)]
    assert shares().total(sorted(counted)).tolist() == [sum(column) % T for column in zip(*each, strict=True)]


def test_the_sum_over_neighbours_takes_two_draws_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, draw = [], modular.uniform
    monkeypatch.setattr(modular, "uniform", lambda *drawn_of: drawn.append(drawn_of) or draw(*drawn_of))
    shares().total([*range(2, 50), *range(60, 1000)])
    assert len(drawn) == 4


def test_shares_are_pinned_not_printed_and_summed_over_some_parties_once_each_in_order() -> None:
    """All parties derive them, on whatever machine and version."""
    assert shares().total([2, 3]).tolist() == [115587315686, 1786759923759, 1598852606488]
    assert repr(shares()) == "CommonShares(...)"
    for counted in ([0, 0], [1, 0], [0, 2, 2], [-1, 0], []):
        with pytest.raises(InputError, match="once each" if counted else "no parties"):
            shares().total(counted)
    with pytest.raises(InputError, match="32 bytes, got 31"):
        shares(bytes(31)).total([0])
