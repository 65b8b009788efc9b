"""Pads, pairwise pads and what parties derive in common: pinned, uniform, and none is another's."""

import hashlib
import itertools

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.pads import MaskingParty, pad, pairwise_pad
from fhe_auc.sums.proof import CommonShares
from fhe_auc.sums.vector_sums import MODULUS

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


def private_key(number: int) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(hashlib.sha256(b"%d" % number).digest())


def party(number: int) -> MaskingParty:
    return MaskingParty(number, f"site {number}", private_key(number).public_key().public_bytes_raw())


def pads_of(parties: int, modulus: int = MODULUS, size: int = 5, digest: bytes = SEED) -> list[Residues]:
    """Each party's, from its private key and the others' public ones."""
    everybody = [party(number) for number in range(parties)]

    def shared(own: MaskingParty) -> dict[MaskingParty, bytes]:
        others = ((other, X25519PublicKey.from_public_bytes(other.public_key)) for other in everybody if other != own)
        return {other: private_key(own.position).exchange(key) for other, key in others}

    return [pairwise_pad(own, shared(own), digest, modulus, size) for own in everybody]


@given(st.integers(2, 7), st.sampled_from([3, 257, MODULUS]), st.integers(1, 9))
@settings(max_examples=30)
def test_pads_of_all_parties_add_up_to_zero_and_of_fewer_do_not(parties: int, modulus: int, size: int) -> None:
    pads = pads_of(parties, modulus, size)
    assert not modular.total(np.array(pads), modulus, axis=0).any()
    if modulus == MODULUS:
        for count in range(1, parties):
            for some in itertools.combinations(pads, count):
                assert modular.total(np.array(some), modulus, axis=0).all()


def test_a_mask_is_that_of_the_standards() -> None:
    """RFC 7748, RFC 5869: the lower position adds it."""
    lower, higher = party(3), party(8)
    shared = private_key(3).exchange(private_key(8).public_key())
    purpose = ("site 3", "site 8", lower.public_key.hex(), higher.public_key.hex())
    info = b"fhe-auc pairwise mask 1\0" + msgspec.msgpack.encode(purpose)
    key = HKDF(hashes.SHA256(), 32, SEED, info).derive(shared)
    mask = modular.uniform(KeyStream(key), MODULUS, 4)
    assert pairwise_pad(lower, {higher: shared}, SEED, MODULUS, 4).tolist() == mask.tolist()
    assert pairwise_pad(higher, {lower: shared}, SEED, MODULUS, 4).tolist() == (MODULUS - mask).tolist()


def test_a_mask_depends_on_secret_session_names_and_public_keys() -> None:
    own, other, shared = party(0), party(1), bytes(range(1, 33))
    pads = [
        pairwise_pad(me, {you: secret}, digest, MODULUS, 2)
        for me, you, secret, digest in (
            (own, other, shared, SEED),
            (own, other, bytes(range(2, 34)), SEED),
            (own, other, shared, bytes(32)),
            (own._replace(name="site x"), other, shared, SEED),
            (own, other._replace(name="site x"), shared, SEED),
            (own._replace(public_key=bytes(32)), other, shared, SEED),
            (own, other._replace(public_key=bytes(32)), shared, SEED),
        )
    ]
    assert len({int(each) for pad in pads for each in pad}) == 2 * len(pads)


def test_the_pads_of_all_but_one_party_are_uniform_and_independent() -> None:
    """Chi-squared over both entries of two of three parties; a false alarm in 10^6, and all keys are fixed."""
    from scipy import stats

    first, second, _ = pads_of(3, modulus=7, size=20_000)
    cells = first.astype(int) * 7 + second.astype(int)
    assert stats.chisquare(np.bincount(cells, minlength=49)).pvalue > 1e-6


@pytest.mark.parametrize("wrong", [(31, 32, 32), (32, 31, 32), (32, 32, 33)])
def test_keys_and_secrets_of_another_length_are_refused(wrong: tuple[int, int, int]) -> None:
    secret, own, other = map(bytes, wrong)
    with pytest.raises(InputError, match="party 'site 1': public keys and shared secrets have 32 bytes"):
        pairwise_pad(party(0)._replace(public_key=own), {party(1)._replace(public_key=other): secret}, SEED, MODULUS, 2)


def test_no_others_a_party_that_is_there_twice_or_a_secret_that_everybody_knows_are_refused() -> None:
    for other in (None, party(0), party(1)._replace(position=0), party(1)._replace(name="site 0")):
        with pytest.raises(InputError, match="a position and a name of its own"):
            pairwise_pad(party(0), {} if other is None else {other: bytes(range(32))}, SEED, MODULUS, 2)
    with pytest.raises(InputError, match="party 'site 1' has sent a public key with which everybody knows"):
        pairwise_pad(party(0), {party(1): bytes(32)}, SEED, MODULUS, 2)
