"""Records as they come: their tables, and why some do not count."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fhe_auc.input_proofs.sessions import RANDOMNESS_BYTES
from fhe_auc.question.fleet import DIGEST_BYTES
from fhe_auc.rlwe.packing import octet_rows
from fhe_auc_keys.fleet.session import BLOB_BYTES, Loaded
from fhe_auc_keys.fleet.tables import table
from fhe_auc_keys.roles.blobs import SIGNATURE_BYTES

UNREADABLE = "the file cannot be read, or not to its end"
NO_MEMBER = "it is of no member of the fleet"
OTHER_FILE = "it is of a member of another file"
NOT_SEALED = "its sketch is not sealed to the aggregator for this session and member"
NO_SKETCH = "its sketch is none: a number in it is too large"
NO_PROOF = "its proof is none, or about other numbers than it has submitted"

PART_BYTES = 48
ANSWERS = table("member", "verdict", part=PART_BYTES)

_EXAMPLES = 5
T = TypeVar("T", bound=np.generic)


def records_table(session: Loaded) -> pa.Schema:
    """Return the columns of a session's records."""
    return table("member", sketch=session.sketch_bytes, blob=BLOB_BYTES, signature=SIGNATURE_BYTES)


def blobs_table(session: Loaded) -> pa.Schema:
    """Return the columns of what the helper is given of them."""
    proofs, sealed = session.computation.proofs, {"blob": BLOB_BYTES, "signature": SIGNATURE_BYTES}
    shown = {} if proofs is None else {"randomness": RANDOMNESS_BYTES, "answers": proofs.answer_bytes}
    return table("member", "row", sketch_digest=DIGEST_BYTES, **sealed, **shown)


def digests_of(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the SHA-256 of each row, shape (rows, 32)."""
    return octet_rows([hashlib.sha256(row).digest() for row in rows], DIGEST_BYTES)


def chosen(rows: NDArray[T], which: NDArray[np.bool_]) -> NDArray[T]:
    """Return these of some rows; where that is all, no copy is made."""
    return rows if which.all() else rows[which]


@dataclass
class RefusedRecords:
    """Why records do not count: how many, and a few of them, by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, why: str, *which: str, number: int = 1) -> None:
        """Note so many, of which these are examples."""
        self.counts[why] += number
        named = self.examples.setdefault(why, [])
        named += which[: _EXAMPLES - len(named)]

    def add_rows(self, why: str, file: str, rows: NDArray[np.intp], members: NDArray[np.uint32]) -> None:
        """Note these rows of a file, which are of these members."""
        if number := len(rows):
            some = zip(rows[:_EXAMPLES].tolist(), members[:_EXAMPLES].tolist(), strict=True)
            self.add(why, *(f"{file}, row {row}: member {member}" for row, member in some), number=number)

    def merge(self, other: RefusedRecords) -> None:
        """Note all that another has."""
        for why, number in other.counts.items():
            self.add(why, *other.examples[why], number=number)

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return {why: {"records": count, "among them": self.examples[why]} for why, count in self.counts.items()}
