"""A device's record, as its aggregator checks it: whether it is whole, and of the session.

Whether its blob opens, and its proof holds, the helper finds (`helper`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.packing import octet_rows
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.fleet.device import Record
from fhe_auc_keys.fleet.fleet_session import BLOB_BYTES, SIGNATURE_BYTES, Loaded, sketch_info
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import OVERHEAD

NO_MEMBER = "it is of no member of the fleet"
OTHER_SESSION = "it is of another session"
OTHER_LENGTH = "a field is empty or has another length"
NOT_SEALED = "its sketch is not sealed to the aggregator for this session and member"
NO_SKETCH = "its sketch is none: a number in it is too large"
NO_PROOF = "its proof is none, or about other numbers than it has submitted"

_EXAMPLES = 5


class WholeRecord(NamedTuple):
    """A record that is whole: its padded sketch, part by part, and its proof where it has one."""

    record: Record
    parts: list[bytes]
    proof: bytes


@dataclass
class RefusedRecords:
    """Why records do not count: how many, and a few of them, by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, why: str, which: str) -> None:
        """Note one."""
        self.counts[why] += 1
        named = self.examples.setdefault(why, [])
        if len(named) < _EXAMPLES:
            named.append(which)

    def merge(self, other: RefusedRecords) -> None:
        """Note all that another has."""
        self.counts.update(other.counts)
        for why, named in other.examples.items():
            mine = self.examples.setdefault(why, [])
            mine += named[: _EXAMPLES - len(mine)]

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return {why: {"records": count, "among them": self.examples[why]} for why, count in self.counts.items()}


def check_record(record: Record, session: Loaded, me: Identity) -> WholeRecord | str:
    """Return what is in a record, or why it is not whole."""
    computation = session.computation
    if why := strange(record, session):
        return why
    try:
        parts, proof = unsealed(record, session, me)
    except TamperedError:
        return NOT_SEALED
    try:
        computation.running_sum().add(parts)
    except DeserialisationError:
        return NO_SKETCH
    if computation.proofs is None:
        return WholeRecord(record, parts, b"")
    padded, given = octet_rows([parts[0]], len(parts[0])), octet_rows([proof], len(proof))
    whole = computation.proofs.received([record.member], padded, given).whole.all()
    return WholeRecord(record, parts, proof) if whole else NO_PROOF


def strange(record: Record, session: Loaded) -> str:
    """Return why a record cannot be one of the session, by what is not sealed; an empty text for those that can."""
    proofs = session.computation.proofs
    inside = sum(session.computation.part_bytes) + (0 if proofs is None else proofs.proof_bytes)
    if None in record or tuple(map(len, record[2:])) != (OVERHEAD + inside, BLOB_BYTES, SIGNATURE_BYTES):
        return OTHER_LENGTH
    if record.session != session.digest:
        return OTHER_SESSION
    return "" if record.member < session.fleet.members else NO_MEMBER


def unsealed(record: Record, session: Loaded, me: Identity) -> tuple[list[bytes], bytes]:
    """Return a padded sketch, part by part, and a proof; raise `TamperedError` where they do not open."""
    inside = me.unseal(record.sketch, info=sketch_info(session.digest, record.member))
    ends = [0, *itertools.accumulate(session.computation.part_bytes)]
    return [inside[start:end] for start, end in itertools.pairwise(ends)], inside[ends[-1] :]
