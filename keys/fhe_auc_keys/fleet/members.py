"""The file of a fleet's members: a Parquet file with one column, ``certificate``: the keys of members' certificates.

Each is an Ed25519 key of 32 bytes; a row's number, from 0, is the member's index.
"""

from __future__ import annotations

import pyarrow as pa

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.question.fleet import MEMBER_BYTES, Members
from fhe_auc_keys.fleet import tables

_SCHEMA = pa.schema([("certificate", pa.binary())])


def write(place: str, members: Members) -> None:
    """Write such a file; `members` has the shape (members, 32)."""
    tables.write(place, tables.as_file([[each.tobytes() for each in members]], _SCHEMA))


def read(place: str) -> Members:
    """Return what is in such a file; raise `InputError` where it is none."""
    try:
        return tables.matrix(tables.rows_in(tables.read(place), _SCHEMA).column(0), MEMBER_BYTES)
    except DeserialisationError as error:
        raise InputError(f"{place!r} is not a file of members: {error}", file=place) from None
