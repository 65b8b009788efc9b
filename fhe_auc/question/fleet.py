"""A fleet: more members than a manifest can name. It holds the root of a Merkle tree over them instead.

    leaf i    SHA-256(0 | label | i, 8 bytes, the highest first | the member's 32 bytes)
    node      SHA-256(1 | left | right), the tree of RFC 6962

A member's 32 bytes are its Ed25519 key. With all of them anybody can check the root.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.study import MOST_ROWS

MEMBER_BYTES = ROOT_BYTES = 32
MOST_MEMBERS = 2**32

Members = NDArray[np.uint8]  # members' Ed25519 keys, in order: shape (members, 32)

_LEAF, _NODE = b"\0fhe-auc fleet member 1\0", b"\1"


class Fleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The members of a session that names none; raises `InputError` if a field cannot be what it says."""

    known_by: Literal["keys"]  # whose keys the tree is over; a manifest that says anything else is refused
    members: int  # how many, from 2 to 2^32
    root: bytes  # of the tree, 32 bytes
    row_cap: int  # the most rows that a device may put in, 1 to 2^40; it checks that itself, and may have to prove it

    def __post_init__(self) -> None:
        if not 2 <= self.members <= MOST_MEMBERS:
            raise InputError(f"a fleet has from 2 to {MOST_MEMBERS:,} members, got {self.members:,}")
        if len(self.root) != ROOT_BYTES:
            raise InputError(f"the root of a fleet has {ROOT_BYTES} bytes, got {len(self.root)}")
        if not 1 <= self.row_cap <= MOST_ROWS:
            raise InputError(f"a device's row cap must lie between 1 and {MOST_ROWS}, got {self.row_cap}")

    @classmethod
    def of(cls, members: Members, *, row_cap: int) -> Fleet:
        """Return the fleet of these members; raise `InputError` as `Fleet` and `root_of`."""
        return cls("keys", len(members), root_of(members), row_cap)

    def require(self, members: Members) -> None:
        """Raise `InputError` where these are not the fleet's members."""
        if len(members) != self.members or root_of(members) != self.root:
            raise InputError("these are not the members of the session's fleet: their number or Merkle root differs")


def root_of(members: Members) -> bytes:
    """Return the root over these members, 32 bytes; raise `InputError` for none, or one that is there twice."""
    if not len(members):
        raise InputError("a fleet has members, got none")
    _, firsts, times = np.unique(members, axis=0, return_index=True, return_counts=True)
    if len(firsts) != len(members):
        twice = int(firsts[times > 1].min())
        others = np.flatnonzero((members == members[twice]).all(axis=1))
        raise InputError(f"members {twice} and {int(others[1])} of the fleet are the same, and would count twice")
    leaves = (_LEAF + index.to_bytes(8, "big") + member.tobytes() for index, member in enumerate(members))
    level = [hashlib.sha256(leaf).digest() for leaf in leaves]
    while len(level) > 1:
        above = [
            hashlib.sha256(_NODE + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = above + level[2 * len(above) :]  # the last of an odd number goes up as it is
    return level[0]
