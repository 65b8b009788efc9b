"""The file of a fleet's members: a Parquet file with one column, by whose name one sees what they are known by.

    certificate    Ed25519 keys of the members' certificates
    token          SHA-256 of the members' tokens

Each has 32 bytes; a row's number, from 0, is the member's index.
"""

from __future__ import annotations

import hashlib
import io

import pyarrow as pa
import pyarrow.parquet as pq

from fhe_auc.errors import DeserialisationError, InputError
from fhe_auc.fleet import MEMBER_BYTES, Fleet, Kind, Members
from fhe_auc_keys.fleet import tables

TOKEN_BYTES = 32

_COLUMNS: dict[Kind, str] = {"certificates": "certificate", "tokens": "token"}


def known_by(token: bytes) -> bytes:
    """Return what the member with a token, 32 random bytes, is known by."""
    return hashlib.sha256(token).digest()


def write(place: str, kind: Kind, members: Members) -> Fleet:
    """Write such a file; `members` has the shape (members, 32). Return the fleet; errors as `Fleet.of`."""
    fleet = Fleet.of(kind, members)
    tables.write(place, tables.as_file([[each.tobytes() for each in members]], _schema(kind)))
    return fleet


def read(place: str) -> tuple[Kind, Members]:
    """Return what is in such a file; raise `InputError` where it is none."""
    data = tables.read(place)
    try:
        columns = pq.read_schema(io.BytesIO(data)).names
        kind = next(kind for kind, column in _COLUMNS.items() if columns == [column])
        return kind, tables.matrix(tables.rows_in(data, _schema(kind)).column(0), MEMBER_BYTES)
    except (StopIteration, DeserialisationError, OSError, pa.ArrowException) as error:
        wrong = str(error) or f"its one column is not {' or '.join(_COLUMNS.values())}"
        raise InputError(f"{place!r} is not a file of members: {wrong}".splitlines()[0], file=place) from None


def of_fleet(place: str, fleet: Fleet) -> Members:
    """Return the members in a file; raise `InputError` where they are not this fleet's."""
    kind, found = read(place)
    if kind != fleet.known_by:
        raise InputError(f"{place!r} has members known by {kind}, the session's are by {fleet.known_by}", file=place)
    fleet.require(found)
    return found


def _schema(kind: Kind) -> pa.Schema:
    return pa.schema([(_COLUMNS[kind], pa.binary())])
