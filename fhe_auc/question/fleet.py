"""A fleet: more members than a manifest can name. It holds the SHA-256 of the list of their files of keys instead.

    member's index    its place among all keys, which go on from file to file in the order of the files' names
    range             the members of one file

Keys ascend strictly, from file to file, too: nobody stands in them twice, and one pass without memory sees that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import encode
from fhe_auc.question.study import MOST_ROWS

MEMBER_BYTES = DIGEST_BYTES = 32
_MOST_MEMBERS, _MOST_FILES = 2**32, 2**14
_MOST_OF_A_FILE = 2**20  # members; a task has their keys in memory
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}\.parquet")  # of one case: some file systems tell no other apart


class KeyFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file of members' Ed25519 keys."""

    name: str
    number: int  # of members
    digest: bytes  # SHA-256 of the keys, one after the other, which no other way of writing the file changes


class Range(NamedTuple):
    """The members of one file, whose records, blobs and answers are in files of this name, too."""

    name: str
    first: int  # the index of its first member
    number: int
    digest: bytes


class FleetList(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, dict=True):
    """The files of a fleet's keys, as the members' file names them; `InputError` where they cannot be that."""

    files: tuple[KeyFile, ...]

    def __post_init__(self) -> None:
        names = [each.name for each in self.files]
        sizes = all(1 <= each.number <= _MOST_OF_A_FILE and len(each.digest) == DIGEST_BYTES for each in self.files)
        if not sizes or names != sorted(set(names)) or len(names) > _MOST_FILES or not all(map(_NAME.fullmatch, names)):
            raise InputError(
                f"a fleet has at most {_MOST_FILES:,} files of keys, in the order of their names, each once, of 1 to "
                f"{_MOST_OF_A_FILE:,} members; a name is of small letters, digits, - and _, and ends with .parquet"
            )

    @property
    def number(self) -> int:
        """How many members the fleet has."""
        return sum(each.number for each in self.files)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the list, 32 bytes."""
        return hashlib.sha256(encode(self.files)).digest()

    @cached_property
    def ranges(self) -> tuple[Range, ...]:
        """The ranges, in order."""
        ends = accumulate(each.number for each in self.files)
        files = zip(self.files, ends, strict=True)
        return tuple(Range(each.name, end - each.number, each.number, each.digest) for each, end in files)


class Fleet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The members of a session that names none; raises `InputError` if a field cannot be what it says."""

    members: int  # how many, from 2 to 2^32
    keys: bytes  # what the list of their files is known by, `FleetList.digest`
    row_cap: int  # the most rows that a device may put in, 1 to 2^40; it checks that itself, and may have to prove it

    def __post_init__(self) -> None:
        if not 2 <= self.members <= _MOST_MEMBERS or len(self.keys) != DIGEST_BYTES:
            what = f"from 2 to {_MOST_MEMBERS:,} members, and a list of them"
            raise InputError(f"a fleet has {what}, got {self.members:,}")
        if not 1 <= self.row_cap <= MOST_ROWS:
            raise InputError(f"a device's row cap must lie between 1 and {MOST_ROWS}, got {self.row_cap}")

    @classmethod
    def of(cls, listed: FleetList, *, row_cap: int) -> Fleet:
        """Return the fleet of these members; raise `InputError` as `Fleet`."""
        return cls(listed.number, listed.digest, row_cap)

    def found_in(self, lists: Sequence[FleetList]) -> FleetList | None:
        """Return the list of this fleet's members, if it is there."""
        return next((each for each in lists if (each.number, each.digest) == (self.members, self.keys)), None)
