"""A fleet's root stands for its members in their order."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.errors import InputError
from fhe_auc.question.fleet import Fleet, Members, root_of

sizes = st.integers(2, 70)


def members(number: int, seed: int = 0) -> Members:
    drawn = [hashlib.sha256(bytes([seed]) + index.to_bytes(4, "big")).digest() for index in range(number)]
    return np.frombuffer(b"".join(drawn), np.uint8).reshape(number, 32)


def fleet_of(known: Members) -> Fleet:
    return Fleet.of(known, row_cap=20)


def root_by_definition(nodes: list[bytes]) -> bytes:
    """RFC 6962, section 2.1: the left half is the largest power of two that is less than all."""
    if len(nodes) == 1:
        return nodes[0]
    half = 2 ** ((len(nodes) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + root_by_definition(nodes[:half]) + root_by_definition(nodes[half:])).digest()


@given(sizes)
def test_the_root_is_that_of_rfc_6962(number: int) -> None:
    leaves = [
        hashlib.sha256(b"\0fhe-auc fleet member 1\0" + index.to_bytes(8, "big") + each.tobytes()).digest()
        for index, each in enumerate(members(number))
    ]
    assert root_of(members(number)) == root_by_definition(leaves)


def test_members_that_are_changed_left_out_or_exchanged_are_not_the_fleet_s() -> None:
    fleet, known = fleet_of(members(9)), members(9)
    fleet.require(known)
    exchanged = known[[1, 0, *range(2, 9)]]
    for other in (known[:-1], exchanged, members(9, seed=1)):
        with pytest.raises(InputError, match="not the members of the session's fleet"):
            fleet.require(other)
    # Its device would count twice.
    twice = np.concatenate([members(4), members(4)[1:2]])
    with pytest.raises(InputError, match="members 1 and 4 of the fleet are the same"):
        root_of(twice)
    for fields in [{"members": 1}, {"members": 2**33}, {"root": bytes(31)}, {"row_cap": 0}, {"row_cap": 2**41}]:
        with pytest.raises(InputError):
            Fleet(**{"known_by": "keys", "members": 2, "root": bytes(32), "row_cap": 1, **fields})  # type: ignore[arg-type]
