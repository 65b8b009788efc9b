"""Pairwise pads: they add up to zero over all parties, and are uniform over fewer."""

from __future__ import annotations

import hashlib
import itertools

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.pairwise_pads import MaskingParty, pairwise_pad
from fhe_auc.sums.vector_sums import MODULUS

DIGEST = bytes(range(32))


def private_key(number: int) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(hashlib.sha256(b"%d" % number).digest())


def party(number: int) -> MaskingParty:
    return MaskingParty(number, f"site {number}", private_key(number).public_key().public_bytes_raw())


def pads_of(parties: int, modulus: int = MODULUS, size: int = 5, digest: bytes = DIGEST) -> list[Residues]:
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
    key = HKDF(hashes.SHA256(), 32, DIGEST, info).derive(shared)
    mask = modular.uniform(KeyStream(key), MODULUS, 4)
    assert pairwise_pad(lower, {higher: shared}, DIGEST, MODULUS, 4).tolist() == mask.tolist()
    assert pairwise_pad(higher, {lower: shared}, DIGEST, MODULUS, 4).tolist() == (MODULUS - mask).tolist()


def test_a_mask_depends_on_secret_session_names_and_public_keys() -> None:
    own, other, shared = party(0), party(1), bytes(range(1, 33))
    pads = [
        pairwise_pad(me, {you: secret}, digest, MODULUS, 2)
        for me, you, secret, digest in (
            (own, other, shared, DIGEST),
            (own, other, bytes(range(2, 34)), DIGEST),
            (own, other, shared, bytes(32)),
            (own._replace(name="site x"), other, shared, DIGEST),
            (own, other._replace(name="site x"), shared, DIGEST),
            (own._replace(public_key=bytes(32)), other, shared, DIGEST),
            (own, other._replace(public_key=bytes(32)), shared, DIGEST),
        )
    ]
    assert len({int(each) for pad in pads for each in pad}) == 2 * len(pads)


def test_the_pads_of_all_but_one_party_are_uniform_and_independent() -> None:
    """Chi-squared over both entries of two of three parties; a false alarm in 10^6, and all keys are fixed."""
    from scipy import stats

    first, second, _ = pads_of(3, modulus=7, size=20_000)
    cells = first.astype(int) * 7 + second.astype(int)
    assert stats.chisquare(np.bincount(cells, minlength=49)).pvalue > 1e-6


def test_a_secret_that_everybody_knows_is_refused_and_the_party_named() -> None:
    with pytest.raises(InputError, match="party 'site 1' has sent a public key with which everybody knows"):
        pairwise_pad(party(0), {party(1): bytes(32)}, DIGEST, MODULUS, 2)


@pytest.mark.parametrize("wrong", [(31, 32, 32), (32, 31, 32), (32, 32, 33)])
def test_keys_and_secrets_of_another_length_are_refused(wrong: tuple[int, int, int]) -> None:
    secret, own, other = map(bytes, wrong)
    with pytest.raises(InputError, match="party 'site 1': public keys and shared secrets have 32 bytes"):
        pairwise_pad(
            party(0)._replace(public_key=own), {party(1)._replace(public_key=other): secret}, DIGEST, MODULUS, 2
        )


@pytest.mark.parametrize("other", [None, party(0), party(1)._replace(position=0), party(1)._replace(name="site 0")])
def test_no_others_or_a_party_that_is_there_twice_are_refused(other: MaskingParty | None) -> None:
    with pytest.raises(InputError, match="a position and a name of its own"):
        pairwise_pad(party(0), {} if other is None else {other: bytes(range(32))}, DIGEST, MODULUS, 2)
